//! A whole IP packet of either family.
//!
//! A TUN hands over one packet a read and a tunnel frame holds exactly one, so the buffer *is* the packet:
//! [`IpPacket::parse`] refuses bytes behind the packet as well as bytes that are missing. Trailing bytes would be
//! carried, billed and counted without anybody seeing them, and on the far side they would be padding at best.
//!
//! The one place where a packet is legitimately cut short is the quotation inside an ICMP error;
//! [`IpPacket::parse_quoted`] is for that and for nothing else.
//!
//! The IPv4 header checksum is not verified here: the host's kernel verifies it on both ways out of a tunnel, and a
//! sum over every packet would buy nothing. [`Ipv4View::header_checksum_valid`] is there for who needs it.

use std::net::IpAddr;

use crate::{Ecn, Ipv4View, Ipv6View, PacketError};

/// A checked view of one packet; copies nothing, and is two words and a few lengths wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpPacket<'a> {
    /// IPv4 (RFC 791).
    V4(Ipv4View<'a>),
    /// IPv6 (RFC 8200).
    V6(Ipv6View<'a>),
}

/// Asks both views the same question.
macro_rules! either {
    ($packet:expr, $view:ident => $answer:expr) => {
        match $packet {
            IpPacket::V4($view) => $answer,
            IpPacket::V6($view) => $answer,
        }
    };
}

impl<'a> IpPacket<'a> {
    /// Checks a buffer that holds exactly one packet.
    ///
    /// # Errors
    /// [`PacketError::Empty`], [`PacketError::UnknownVersion`], and those of [`Ipv4View::parse`] and
    /// [`Ipv6View::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        match version(bytes)? {
            4 => Ipv4View::parse(bytes).map(Self::V4),
            _ => Ipv6View::parse(bytes).map(Self::V6),
        }
    }

    /// Checks the beginning of a packet as an ICMP error quotes it: the headers must be whole, the payload may be cut
    /// off anywhere, and bytes behind the packet are left out of the view (RFC 4884 pads quotations).
    ///
    /// # Errors
    /// As [`IpPacket::parse`], where [`PacketError::LengthMismatch`] means a length field smaller than the headers.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, PacketError> {
        match version(bytes)? {
            4 => Ipv4View::parse_quoted(bytes).map(Self::V4),
            _ => Ipv6View::parse_quoted(bytes).map(Self::V6),
        }
    }

    /// All bytes of the packet.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        either!(self, view => view.bytes())
    }

    /// Bytes of the whole packet, headers included.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a packet holds at least its header"
    )]
    pub const fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The source address as the header has it.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        either!(self, view => view.source().into())
    }

    /// The destination address as the header has it.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        either!(self, view => view.destination().into())
    }

    /// The upper layer's number, behind all IPv6 extension headers that were walked over. In a fragment that is not the
    /// first it is what the fragment header names.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        either!(self, view => view.protocol())
    }

    /// Bytes before the payload: IPv4 options and IPv6 extension headers included.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        either!(self, view => view.header_len())
    }

    /// The upper layer's bytes.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        either!(self, view => view.payload())
    }

    /// Whether a router must not fragment the packet: the DF bit, and always in IPv6.
    #[must_use]
    pub const fn dont_fragment(&self) -> bool {
        match self {
            Self::V4(view) => view.dont_fragment(),
            Self::V6(_) => true,
        }
    }

    /// Whether this is a part of a larger datagram. An IPv6 atomic fragment (RFC 6946) is whole, and is not.
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() != 0
    }

    /// Where the payload stands in its datagram, in bytes (a multiple of 8, 65,528 at most); 0 in a whole packet.
    #[must_use]
    pub const fn fragment_offset(&self) -> u16 {
        either!(self, view => view.fragment_offset())
    }

    /// Whether later fragments of the datagram follow.
    #[must_use]
    pub const fn more_fragments(&self) -> bool {
        either!(self, view => view.more_fragments())
    }

    /// IPv4 time to live, IPv6 hop limit.
    #[must_use]
    pub const fn ttl(&self) -> u8 {
        match self {
            Self::V4(view) => view.ttl(),
            Self::V6(view) => view.hop_limit(),
        }
    }

    /// The ECN field (RFC 3168).
    #[must_use]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(either!(self, view => view.traffic_class()))
    }

    /// The differentiated services code point (RFC 2474), 0 to 63.
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        either!(self, view => view.traffic_class()) >> 2
    }
}

/// 4 or 6.
fn version(bytes: &[u8]) -> Result<u8, PacketError> {
    match bytes.first().map(|first| first >> 4) {
        None => Err(PacketError::Empty),
        Some(known @ (4 | 6)) => Ok(known),
        Some(_) => Err(PacketError::UnknownVersion),
    }
}
