//! A checked view of an IPv6 packet and its extension headers (RFC 8200).
//!
//! The upper layer stands behind a chain of extension headers, each of which says how long it is and what comes next:
//! a loop whose length the sender chooses. So it is bounded twice, by the buffer and by [`EXTENSIONS_MAX`].
//!
//! ```text
//! fixed 40 B ─→ hop-by-hop (first only) ─→ routing | destination | AH | fragment (once) … ─→ upper layer
//!                                                                        └─ offset ≠ 0: stop
//! ```
//!
//! A later fragment holds the middle of a datagram: what follows its fragment header is data, even where the header
//! names another extension, so the walk ends there. A first fragment must hold the whole chain (RFC 7112), which the
//! bound by the buffer enforces.
//!
//! Eight headers: RFC 8200 lists seven in its recommended order (destination options twice), and hosts and networks
//! drop long chains anyway (RFC 9098). Jumbograms (RFC 2675) have a payload length of 0, which never is the buffer's.

use std::net::Ipv6Addr;

use crate::protocol::{self, AUTHENTICATION, FRAGMENT, HOP_BY_HOP, ROUTING};
use crate::{Ecn, PacketError};

/// Bytes of the fixed header.
pub const HEADER_BYTES: usize = 40;
/// Extension headers that are walked over; one more is refused.
pub const EXTENSIONS_MAX: usize = 8;
/// Bytes that every IPv6 link carries (RFC 8200 §5).
pub const MTU_MIN: u16 = 1_280;

/// Where a routing header counts the stops to come.
const SEGMENTS_LEFT_AT: usize = 3;

/// A packet whose payload length and extension headers were checked against the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6View<'a> {
    bytes: &'a [u8],
    fixed: &'a [u8; HEADER_BYTES],
    chain: Chain,
}

/// What a fragment header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentHeader {
    /// Where the payload stands in its datagram, in bytes.
    pub offset: u16,
    /// Whether later fragments follow.
    pub more: bool,
    /// What tells the fragments of one datagram from another's.
    pub identification: u32,
}

/// Where the extension headers end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chain {
    header_len: usize,
    protocol: u8,
    fragment: Option<FragmentHeader>,
    routed: bool,
    en_route: bool,
}

impl<'a> Ipv6View<'a> {
    /// Checks a buffer that holds exactly one IPv6 packet.
    ///
    /// # Errors
    /// [`PacketError::Empty`], [`PacketError::UnknownVersion`], [`PacketError::Truncated`] below 40 bytes,
    /// [`PacketError::LengthMismatch`] when the payload length and 40 are not the buffer's, the `ExtensionChain…`
    /// errors, and [`PacketError::BadHeaderLength`] for an authentication header shorter than its fixed part.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let fixed = fixed_header(bytes)?;
        if total_len(fixed) != bytes.len() {
            return Err(PacketError::LengthMismatch);
        }
        Ok(Self {
            bytes,
            fixed,
            chain: walk(bytes, fixed[6])?,
        })
    }

    /// Checks the beginning of a packet as an ICMP error quotes it, see [`crate::IpPacket::parse_quoted`].
    ///
    /// # Errors
    /// As [`Ipv6View::parse`], without [`PacketError::LengthMismatch`].
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let fixed = fixed_header(bytes)?;
        let bytes = bytes.get(..total_len(fixed)).unwrap_or(bytes);
        Ok(Self {
            bytes,
            fixed,
            chain: walk(bytes, fixed[6])?,
        })
    }

    /// All bytes of the packet.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The payload length field, in bytes: extension headers count as payload.
    #[must_use]
    pub const fn payload_len(&self) -> u16 {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]])
    }

    /// Bytes before the upper layer: 40 and the extension headers.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.chain.header_len
    }

    /// The bytes behind all extension headers.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.chain.header_len..).unwrap_or_default()
    }

    /// The extension headers as they stand, the first one's number being [`Ipv6View::next_header`].
    #[must_use]
    pub fn extensions(&self) -> &'a [u8] {
        self.bytes
            .get(HEADER_BYTES..self.chain.header_len)
            .unwrap_or_default()
    }

    /// The traffic class: DSCP and ECN.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        self.fixed[0] << 4 | self.fixed[1] >> 4
    }

    /// The ECN field (RFC 3168).
    #[must_use]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(self.traffic_class())
    }

    /// The flow label (RFC 6437), 20 bits.
    #[must_use]
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.fixed[1] & 0x0f, self.fixed[2], self.fixed[3]])
    }

    /// The fixed header's next header field: the first extension's number, or the upper layer's.
    #[must_use]
    pub const fn next_header(&self) -> u8 {
        self.fixed[6]
    }

    /// The upper layer's number, see [`crate::IpPacket::protocol`].
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.chain.protocol
    }

    /// Hops left.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        self.fixed[7]
    }

    /// The fragment header, also that of an atomic fragment (RFC 6946).
    #[must_use]
    pub const fn fragment(&self) -> Option<FragmentHeader> {
        self.chain.fragment
    }

    /// Whether a routing header stands among the extension headers, so that the destination may not be the last.
    #[must_use]
    pub const fn has_routing_header(&self) -> bool {
        self.chain.routed
    }

    /// Whether a routing header names stops that are still to come, so that the destination is not the last one: the
    /// upper layer's checksum then covers another address (RFC 8200 §8.1).
    #[must_use]
    pub const fn is_en_route(&self) -> bool {
        self.chain.en_route
    }

    /// Where the payload stands in its datagram, in bytes.
    #[must_use]
    pub const fn fragment_offset(&self) -> u16 {
        match self.chain.fragment {
            Some(fragment) => fragment.offset,
            None => 0,
        }
    }

    /// Whether later fragments follow.
    #[must_use]
    pub const fn more_fragments(&self) -> bool {
        match self.chain.fragment {
            Some(fragment) => fragment.more,
            None => false,
        }
    }

    /// The source address.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        address(self.fixed, 8)
    }

    /// The destination address. With a routing header this is the next stop, not the last.
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        address(self.fixed, 24)
    }
}

fn fixed_header(bytes: &[u8]) -> Result<&[u8; HEADER_BYTES], PacketError> {
    let first = *bytes.first().ok_or(PacketError::Empty)?;
    if first >> 4 != 6 {
        return Err(PacketError::UnknownVersion);
    }
    bytes.first_chunk().ok_or(PacketError::Truncated)
}

const fn total_len(fixed: &[u8; HEADER_BYTES]) -> usize {
    HEADER_BYTES + u16::from_be_bytes([fixed[4], fixed[5]]) as usize
}

fn address(fixed: &[u8; HEADER_BYTES], at: usize) -> Ipv6Addr {
    let octets: [u8; 16] = fixed
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .unwrap_or_default();
    octets.into()
}

/// Walks over the extension headers to the upper layer.
fn walk(bytes: &[u8], first: u8) -> Result<Chain, PacketError> {
    let mut chain = Chain {
        header_len: HEADER_BYTES,
        protocol: first,
        fragment: None,
        routed: false,
        en_route: false,
    };
    for count in 0.. {
        if !protocol::is_extension(chain.protocol) {
            break;
        }
        if count == EXTENSIONS_MAX {
            return Err(PacketError::ExtensionChainTooLong);
        }
        let rest = bytes.get(chain.header_len..).unwrap_or_default();
        let &[next, length, ..] = rest else {
            return Err(PacketError::ExtensionChainTruncated);
        };
        let length = match chain.protocol {
            HOP_BY_HOP if count != 0 => return Err(PacketError::ExtensionChainOrder),
            FRAGMENT if chain.fragment.is_some() => return Err(PacketError::ExtensionChainOrder),
            FRAGMENT => 8,
            AUTHENTICATION if length == 0 => return Err(PacketError::BadHeaderLength),
            AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        let header = rest
            .get(..length)
            .ok_or(PacketError::ExtensionChainTruncated)?;
        if chain.protocol == FRAGMENT {
            chain.fragment = header.first_chunk().map(fragment_header);
        }
        if chain.protocol == ROUTING {
            chain.routed = true;
            chain.en_route |= header.get(SEGMENTS_LEFT_AT) != Some(&0);
        }
        chain.header_len += length;
        chain.protocol = next;
        if chain.fragment.is_some_and(|fragment| fragment.offset != 0) {
            break;
        }
    }
    Ok(chain)
}

const fn fragment_header(header: &[u8; 8]) -> FragmentHeader {
    let offset_and_more = u16::from_be_bytes([header[2], header[3]]);
    FragmentHeader {
        offset: offset_and_more & !7,
        more: offset_and_more & 1 != 0,
        identification: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
    }
}
