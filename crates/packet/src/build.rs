//! Valid packets from nothing, for tests, benchmarks and demonstrations.
//!
//! Both families go through one [`Header`], so a test says what matters to it and leaves the rest at the defaults. All
//! lengths and checksums are right. No input panics: a payload that does not fit the 16-bit length field is cut, and a
//! pair of addresses of both families becomes IPv6 with the IPv4 one mapped.
//!
//! The packet path builds its own ICMP errors and TCP resets from the same parts; nothing else there makes packets.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::ipv4::{DONT_FRAGMENT, HEADER_BYTES_MIN, MORE_FRAGMENTS, OFFSET_MASK};
use crate::protocol::{self, AUTHENTICATION};
use crate::tcp::flags;
use crate::{PACKET_BYTES_MAX, checksum, icmp, ipv6, tcp, udp};

/// The options of an IPv4 header, in bytes at most.
const V4_OPTIONS_BYTES_MAX: usize = 40;
/// Extension headers written at most; above the bound of the parser, so that a test can pass it.
const EXTENSIONS_MAX: usize = ipv6::EXTENSIONS_MAX + 1;
/// Bytes of one extension header written at most.
const EXTENSION_BYTES_MAX: usize = 1_024;

/// The network header of a packet to be built.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// IPv4 TTL, IPv6 hop limit. Default 64.
    pub ttl: u8,
    /// DSCP (upper six bits) and ECN (lower two). Default 0.
    pub traffic_class: u8,
    /// The DF bit of IPv4. Default set.
    pub dont_fragment: bool,
    /// The MF bit of IPv4. Default clear.
    pub more_fragments: bool,
    /// The fragment offset of IPv4, in bytes; a multiple of 8. Default 0.
    pub fragment_offset: u16,
    /// The identification of IPv4. Default 0.
    pub identification: u16,
    /// The options of IPv4; cut at 40 bytes, filled up to whole words. Default none.
    pub options: &'a [u8],
    /// The extension headers of IPv6: number, and the bytes behind next header and length, filled up to 8 bytes. A
    /// fragment header's are its six last bytes. The first nine are taken, each cut at 1,024 bytes. Default none.
    pub extensions: &'a [(u8, &'a [u8])],
}

/// The fields of a TCP segment to be built.
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment<'a> {
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgement number.
    pub acknowledgement: u32,
    /// See [`crate::tcp::flags`].
    pub flags: u8,
    /// The window field.
    pub window: u16,
    /// The options; cut at 40 bytes, filled up to whole words.
    pub options: &'a [u8],
}

impl<'a> Header<'a> {
    /// A header with the defaults. Where one address is IPv4 and the other IPv6, the IPv4 one is mapped.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr) -> Self {
        let (source, destination) = match (source, destination) {
            (IpAddr::V4(v4), IpAddr::V6(_)) => (v4.to_ipv6_mapped().into(), destination),
            (IpAddr::V6(_), IpAddr::V4(v4)) => (source, v4.to_ipv6_mapped().into()),
            same => same,
        };
        Self {
            source,
            destination,
            ttl: 64,
            traffic_class: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            identification: 0,
            options: &[],
            extensions: &[],
        }
    }

    /// A packet of any protocol; the payload is taken as it is.
    #[must_use]
    pub fn packet(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let payload = payload.get(..self.room(0)).unwrap_or(payload);
        let mut packet = self.begin(protocol, payload.len());
        packet.extend_from_slice(payload);
        packet
    }

    /// A UDP datagram.
    #[must_use]
    pub fn udp(&self, source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
        let payload = payload
            .get(..self.room(udp::HEADER_BYTES))
            .unwrap_or(payload);
        let length = udp::HEADER_BYTES + payload.len();
        let mut packet = self.begin(protocol::UDP, length);
        for field in [source_port, destination_port, length as u16, 0] {
            packet.extend_from_slice(&field.to_be_bytes());
        }
        packet.extend_from_slice(payload);
        self.seal(&mut packet, protocol::UDP);
        packet
    }

    /// A TCP segment.
    #[must_use]
    pub fn tcp(
        &self,
        source_port: u16,
        destination_port: u16,
        segment: &Segment<'_>,
        payload: &[u8],
    ) -> Vec<u8> {
        let options = padded(segment.options, V4_OPTIONS_BYTES_MAX, 4);
        let header_len = tcp::HEADER_BYTES_MIN + options.len();
        let payload = payload.get(..self.room(header_len)).unwrap_or(payload);
        let mut packet = self.begin(protocol::TCP, header_len + payload.len());
        packet.extend_from_slice(&source_port.to_be_bytes());
        packet.extend_from_slice(&destination_port.to_be_bytes());
        packet.extend_from_slice(&segment.sequence.to_be_bytes());
        packet.extend_from_slice(&segment.acknowledgement.to_be_bytes());
        packet.extend_from_slice(&[(header_len as u8 / 4) << 4, segment.flags]);
        packet.extend_from_slice(&segment.window.to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        packet.extend_from_slice(&options);
        packet.extend_from_slice(payload);
        self.seal(&mut packet, protocol::TCP);
        packet
    }

    /// An ICMP or ICMPv6 message, as the family has it.
    #[must_use]
    pub fn icmp(&self, kind: u8, code: u8, rest_of_header: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let number = if self.is_v4() {
            protocol::ICMP
        } else {
            protocol::ICMPV6
        };
        let payload = payload
            .get(..self.room(icmp::HEADER_BYTES))
            .unwrap_or(payload);
        let mut packet = self.begin(number, icmp::HEADER_BYTES + payload.len());
        packet.extend_from_slice(&[kind, code, 0, 0]);
        packet.extend_from_slice(&rest_of_header);
        packet.extend_from_slice(payload);
        self.seal(&mut packet, number);
        packet
    }

    /// Bytes that a payload may have behind `header_len` bytes of the upper layer's own.
    fn room(&self, header_len: usize) -> usize {
        // The length field of IPv6 does not count the fixed header.
        let uncounted = if self.is_v4() { 0 } else { ipv6::HEADER_BYTES };
        PACKET_BYTES_MAX + uncounted - self.header_len() - header_len
    }

    fn is_v4(&self) -> bool {
        self.source.is_ipv4() && self.destination.is_ipv4()
    }

    /// Bytes before the upper layer.
    fn header_len(&self) -> usize {
        if self.is_v4() {
            HEADER_BYTES_MIN + padded(self.options, V4_OPTIONS_BYTES_MAX, 4).len()
        } else {
            ipv6::HEADER_BYTES + self.chain(0).1.len()
        }
    }

    /// The header of a packet whose upper layer, `payload_len` bytes, is still to be written behind it.
    pub(crate) fn begin(&self, protocol: u8, payload_len: usize) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.begin_v4(source.octets(), destination.octets(), protocol, payload_len)
            }
            (source, destination) => {
                self.begin_v6(v6(source), v6(destination), protocol, payload_len)
            }
        }
    }

    fn begin_v4(
        &self,
        source: [u8; 4],
        destination: [u8; 4],
        protocol: u8,
        payload_len: usize,
    ) -> Vec<u8> {
        let options = padded(self.options, V4_OPTIONS_BYTES_MAX, 4);
        let header_len = HEADER_BYTES_MIN + options.len();
        let total = header_len + payload_len;
        let mut flags = (self.fragment_offset / 8) & OFFSET_MASK;
        if self.dont_fragment {
            flags |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            flags |= MORE_FRAGMENTS;
        }
        let mut packet = Vec::with_capacity(total);
        packet.extend_from_slice(&[0x40 | (header_len / 4) as u8, self.traffic_class]);
        for field in [total as u16, self.identification, flags] {
            packet.extend_from_slice(&field.to_be_bytes());
        }
        packet.extend_from_slice(&[self.ttl, protocol, 0, 0]);
        packet.extend_from_slice(&source);
        packet.extend_from_slice(&destination);
        packet.extend_from_slice(&options);
        let sum = checksum::internet(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    fn begin_v6(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: u8,
        payload_len: usize,
    ) -> Vec<u8> {
        let (first, chain) = self.chain(protocol);
        let length = chain.len() + payload_len;
        let mut packet = Vec::with_capacity(ipv6::HEADER_BYTES + length);
        packet.extend_from_slice(&[
            0x60 | self.traffic_class >> 4,
            self.traffic_class << 4,
            0,
            0,
        ]);
        packet.extend_from_slice(&(length as u16).to_be_bytes());
        packet.extend_from_slice(&[first, self.ttl]);
        packet.extend_from_slice(&source.octets());
        packet.extend_from_slice(&destination.octets());
        packet.extend_from_slice(&chain);
        packet
    }

    /// The extension headers, and the number of the first of them.
    fn chain(&self, protocol: u8) -> (u8, Vec<u8>) {
        let mut chain = Vec::new();
        let taken = || self.extensions.iter().take(EXTENSIONS_MAX);
        let mut following = taken().skip(1).map(|&(number, _)| number).chain([protocol]);
        for &(number, body) in taken() {
            let body = body.get(..EXTENSION_BYTES_MAX - 2).unwrap_or(body);
            let length = (2 + body.len()).next_multiple_of(8);
            let units = if number == AUTHENTICATION {
                length / 4 - 2
            } else {
                length / 8 - 1
            };
            let end = chain.len() + length;
            chain.extend_from_slice(&[following.next().unwrap_or(protocol), units as u8]);
            chain.extend_from_slice(body);
            chain.resize(end, 0);
        }
        (
            self.extensions
                .first()
                .map_or(protocol, |&(number, _)| number),
            chain,
        )
    }

    /// Writes the checksum of the upper layer, `protocol`, into a whole packet that this header began.
    pub(crate) fn seal(&self, packet: &mut [u8], protocol: u8) {
        let Some(upper) = packet.get_mut(self.header_len()..) else {
            return;
        };
        let pseudo = match protocol {
            protocol::ICMP => checksum::Sum::new(),
            _ => checksum::pseudo(self.source, self.destination, protocol, upper.len() as u16),
        };
        let sum = match (protocol, pseudo.bytes(upper).finish()) {
            // 0 would say that there is no checksum (RFC 768).
            (protocol::UDP, 0) => 0xffff,
            (_, sum) => sum,
        };
        let field = match protocol {
            protocol::TCP => 16..18,
            protocol::UDP => 6..8,
            _ => 2..4,
        };
        if let Some(field) = upper.get_mut(field) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// A UDP datagram.
#[must_use]
pub fn udp(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Vec<u8> {
    Header::new(source.ip(), destination.ip()).udp(source.port(), destination.port(), payload)
}

/// A TCP segment.
#[must_use]
pub fn tcp(
    source: SocketAddr,
    destination: SocketAddr,
    segment: &Segment<'_>,
    payload: &[u8],
) -> Vec<u8> {
    Header::new(source.ip(), destination.ip()).tcp(
        source.port(),
        destination.port(),
        segment,
        payload,
    )
}

/// The SYN that opens a connection, with an MSS option of `mss` bytes.
#[must_use]
pub fn tcp_syn(source: SocketAddr, destination: SocketAddr, mss: u16) -> Vec<u8> {
    let [high, low] = mss.to_be_bytes();
    let options = [tcp::OPTION_MSS, 4, high, low];
    let segment = Segment {
        flags: flags::SYN,
        window: 64_240,
        options: &options,
        ..Segment::default()
    };
    tcp(source, destination, &segment, &[])
}

/// An ICMP or ICMPv6 echo request.
#[must_use]
pub fn icmp_echo(
    source: IpAddr,
    destination: IpAddr,
    identifier: u16,
    sequence: u16,
    payload: &[u8],
) -> Vec<u8> {
    echo(
        source,
        destination,
        [icmp::V4_ECHO_REQUEST, icmp::V6_ECHO_REQUEST],
        identifier,
        sequence,
        payload,
    )
}

/// An ICMP or ICMPv6 echo reply.
#[must_use]
pub fn icmp_echo_reply(
    source: IpAddr,
    destination: IpAddr,
    identifier: u16,
    sequence: u16,
    payload: &[u8],
) -> Vec<u8> {
    echo(
        source,
        destination,
        [icmp::V4_ECHO_REPLY, icmp::V6_ECHO_REPLY],
        identifier,
        sequence,
        payload,
    )
}

fn echo(
    source: IpAddr,
    destination: IpAddr,
    [v4_kind, v6_kind]: [u8; 2],
    identifier: u16,
    sequence: u16,
    payload: &[u8],
) -> Vec<u8> {
    let header = Header::new(source, destination);
    let kind = if header.source.is_ipv4() {
        v4_kind
    } else {
        v6_kind
    };
    let ([i1, i0], [s1, s0]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
    header.icmp(kind, 0, [i1, i0, s1, s0], payload)
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The bytes, cut at `max` and filled with zeros to a multiple of `unit`.
fn padded(bytes: &[u8], max: usize, unit: usize) -> Vec<u8> {
    let mut padded = bytes.get(..max).unwrap_or(bytes).to_vec();
    padded.resize(padded.len().next_multiple_of(unit), 0);
    padded
}

#[cfg(test)]
mod tests;
