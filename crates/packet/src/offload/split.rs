//! One super-packet into the packets that it stands for, and the checksums that the kernel left to us.
//!
//! The super-packet is one set of headers and one long payload. Each segment gets the same headers, with these fields
//! its own (what the kernel's own software segmentation writes, byte for byte):
//!
//! | field | value |
//! |---|---|
//! | IPv4 total length, IPv6 payload length, UDP length | the segment's |
//! | IPv4 identification | one more each |
//! | TCP sequence | the payload bytes before it further |
//! | TCP FIN, PSH | on the last alone |
//! | TCP CWR | on the first alone (RFC 3168 §6.1.2) |
//! | IPv4 header checksum, TCP or UDP checksum | computed |
//!
//! Where the payload begins is read from the packet: the chain of IPv6 extension headers and TCP's data offset. The
//! virtio header must agree with both where it says something; it is never believed against them (case B54).
//!
//! The upper checksum begins with what the kernel put into its field: the pseudo header's sum, with the length of the
//! whole. So a routing header, behind which another address is covered, needs no care here.
//!
//! [`Split`] is plain numbers and borrows nothing, so a reader keeps it beside the buffer and takes a few segments at a
//! time: a super-packet of thousands of segments (a `gso_size` of 48 makes 1,365) costs no memory and breaks no bound
//! (case B53). The headers are rewritten in place in that buffer; a payload is summed here and copied by the caller,
//! once.

use crate::checksum::{self, Sum};
use crate::offload::{
    Gso, TCP_CHECKSUM_AT, TCP_FLAGS_AT, TCP_SEQUENCE_AT, UDP_CHECKSUM_AT, VirtioHeader, put, word,
};
use crate::tcp::flags;
use crate::{IpPacket, PacketError, TcpView, UdpView, ipv6, protocol, udp};

/// How far a super-packet has been split.
#[derive(Debug, Clone, Copy)]
pub struct Split {
    /// Bytes of the whole super-packet.
    total: usize,
    /// Bytes before the upper layer.
    ip_len: usize,
    /// Bytes before the payload.
    header_len: usize,
    /// Payload bytes of a segment.
    size: usize,
    /// Where the next segment's payload begins.
    at: usize,
    /// The pseudo header's sum without a length.
    pseudo: Sum,
    is_v4: bool,
    identification: u16,
    upper: Upper,
}

#[derive(Debug, Clone, Copy)]
enum Upper {
    Tcp { sequence: u32, flags: u8 },
    Udp,
}

impl Upper {
    const fn protocol(self) -> u8 {
        match self {
            Self::Tcp { .. } => protocol::TCP,
            Self::Udp => protocol::UDP,
        }
    }

    const fn checksum_at(self) -> usize {
        match self {
            Self::Tcp { .. } => TCP_CHECKSUM_AT,
            Self::Udp => UDP_CHECKSUM_AT,
        }
    }
}

impl Split {
    /// Checks a super-packet against its virtio header; nothing is changed.
    ///
    /// # Errors
    /// Those of [`IpPacket::parse`] and of the upper layer's view. [`PacketError::OffloadMismatch`] for a packet of
    /// another kind than the header says, a fragment, a segment size of 0, or a checksum elsewhere than in the TCP or
    /// UDP header.
    pub fn new(virtio: &VirtioHeader, packet: &[u8]) -> Result<Self, PacketError> {
        let ip = IpPacket::parse(packet)?;
        let (upper, upper_len) = upper_of(virtio, &ip)?;
        let ip_len = ip.header_len();
        let size = usize::from(virtio.gso_size);
        let length =
            u16::try_from(packet.len() - ip_len).map_err(|_| PacketError::OffloadMismatch)?;
        if size == 0 || ip.is_fragment() {
            return Err(PacketError::OffloadMismatch);
        }
        Ok(Self {
            total: packet.len(),
            ip_len,
            header_len: ip_len + upper_len,
            size,
            at: ip_len + upper_len,
            pseudo: pseudo_of(virtio, &ip, upper, length)?,
            is_v4: matches!(ip, IpPacket::V4(_)),
            identification: match &ip {
                IpPacket::V4(view) => view.identification(),
                IpPacket::V6(_) => 0,
            },
            upper,
        })
    }

    /// The number of segments that the super-packet makes.
    #[must_use]
    pub const fn segments(&self) -> usize {
        let payload = self.total - self.header_len;
        if payload == 0 {
            return 1;
        }
        payload.div_ceil(self.size)
    }

    /// The next segment: its headers, and its payload. `packet` is the buffer that [`Split::new`] looked at, which is
    /// changed by nobody else. `None` after the last.
    pub fn next<'a>(&mut self, packet: &'a mut [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let is_first = self.at == self.header_len;
        if packet.len() != self.total || (self.at >= self.total && !is_first) {
            return None;
        }
        let (header, payload) = packet.split_at_mut_checked(self.header_len)?;
        let from = self.at - self.header_len;
        let to = (from + self.size).min(payload.len());
        let payload = payload.get(from..to)?;
        let is_last = self.header_len + to == self.total;
        self.write_ip(header, payload.len());
        self.write_upper(header, payload, from, is_first, is_last);
        // Even an empty payload is one segment, not an endless row of them.
        self.at = (self.header_len + to).max(self.at + 1);
        Some((header, payload))
    }

    fn write_ip(&mut self, header: &mut [u8], payload_len: usize) {
        let Some(ip) = header.get_mut(..self.ip_len) else {
            return;
        };
        let total = self.header_len + payload_len;
        if self.is_v4 {
            put(ip, 2, (total as u16).to_be_bytes());
            put(ip, 4, self.identification.to_be_bytes());
            put(ip, 10, [0, 0]);
            let sum = checksum::internet(ip);
            put(ip, 10, sum.to_be_bytes());
            self.identification = self.identification.wrapping_add(1);
        } else {
            put(ip, 4, ((total - ipv6::HEADER_BYTES) as u16).to_be_bytes());
        }
    }

    fn write_upper(
        &self,
        header: &mut [u8],
        payload: &[u8],
        from: usize,
        is_first: bool,
        is_last: bool,
    ) {
        let upper_len = self.header_len - self.ip_len;
        let Some(upper) = header.get_mut(self.ip_len..) else {
            return;
        };
        let length = (upper_len + payload.len()) as u16;
        match self.upper {
            Upper::Tcp { sequence, flags } => {
                let sequence = sequence.wrapping_add(from as u32);
                put(upper, TCP_SEQUENCE_AT, sequence.to_be_bytes());
                let ends = if is_last { 0 } else { flags::FIN | flags::PSH };
                let begins = if is_first { 0 } else { flags::CWR };
                put(upper, TCP_FLAGS_AT, [flags & !ends & !begins]);
            }
            Upper::Udp => put(upper, 4, length.to_be_bytes()),
        }
        put(upper, self.upper.checksum_at(), [0, 0]);
        let sum = self.pseudo.word(length).bytes(upper).bytes(payload);
        let sum = written(self.upper.protocol(), sum.finish());
        put(upper, self.upper.checksum_at(), sum.to_be_bytes());
    }
}

/// Completes the checksum of a packet that is no super-packet, where the kernel left that to us.
///
/// # Errors
/// [`PacketError::OffloadMismatch`] for a checksum that would stand outside of the packet. The packet is unchanged then.
pub fn complete(virtio: &VirtioHeader, packet: &mut [u8]) -> Result<(), PacketError> {
    if !virtio.needs_checksum {
        return Ok(());
    }
    let covered = packet
        .get_mut(usize::from(virtio.checksum_start)..)
        .ok_or(PacketError::OffloadMismatch)?;
    let at = usize::from(virtio.checksum_offset);
    if covered.len() < at + 2 {
        return Err(PacketError::OffloadMismatch);
    }
    // The field holds the pseudo header's sum, and is covered as it stands.
    let sum = checksum::internet(covered);
    let kind = match at {
        UDP_CHECKSUM_AT => protocol::UDP,
        _ => protocol::TCP,
    };
    put(covered, at, written(kind, sum).to_be_bytes());
    Ok(())
}

/// A checksum as it is written: in UDP 0 would say that there is none (RFC 768).
const fn written(protocol: u8, sum: u16) -> u16 {
    match (protocol, sum) {
        (protocol::UDP, 0) => 0xffff,
        (_, sum) => sum,
    }
}

/// The upper layer, if it is the one that the header speaks of, and the bytes of its header.
fn upper_of(virtio: &VirtioHeader, ip: &IpPacket<'_>) -> Result<(Upper, usize), PacketError> {
    let is_v4 = matches!(ip, IpPacket::V4(_));
    match (virtio.gso, ip.protocol()) {
        (Gso::TcpV4, protocol::TCP) if is_v4 => {}
        (Gso::TcpV6, protocol::TCP) if !is_v4 => {}
        (Gso::Udp, protocol::UDP) => {
            let udp = UdpView::parse(ip.payload())?;
            // Bytes behind the datagram would become a part of it.
            if usize::from(udp.length()) != ip.payload().len() {
                return Err(PacketError::LengthMismatch);
            }
            return Ok((Upper::Udp, udp::HEADER_BYTES));
        }
        (Gso::None | Gso::TcpV4 | Gso::TcpV6 | Gso::Udp, _) => {
            return Err(PacketError::OffloadMismatch);
        }
    }
    let tcp = TcpView::parse(ip.payload())?;
    let upper = Upper::Tcp {
        sequence: tcp.sequence(),
        flags: tcp.flags(),
    };
    Ok((upper, tcp.header_len()))
}

/// The pseudo header's sum without a length: what the kernel has put into the checksum's field less the length of the
/// whole, or, where it left that field alone, that of the addresses.
fn pseudo_of(
    virtio: &VirtioHeader,
    ip: &IpPacket<'_>,
    upper: Upper,
    length: u16,
) -> Result<Sum, PacketError> {
    if virtio.needs_checksum {
        let start = usize::from(virtio.checksum_start);
        let at = usize::from(virtio.checksum_offset);
        if start != ip.header_len() || at != upper.checksum_at() {
            return Err(PacketError::OffloadMismatch);
        }
        return Ok(Sum::new().word(word(ip.payload(), at)).word(!length));
    }
    if matches!(ip, IpPacket::V6(view) if view.is_en_route()) {
        return Err(PacketError::OffloadMismatch);
    }
    Ok(checksum::pseudo(
        ip.source(),
        ip.destination(),
        upper.protocol(),
        0,
    ))
}
