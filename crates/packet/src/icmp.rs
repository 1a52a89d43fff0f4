//! ICMP (RFC 792) and ICMPv6 (RFC 4443): the view of a message, and what it quotes.
//!
//! Two rules hold a tunnel together here (case B42). An error message never opens a flow: it speaks *about* one, which
//! [`quoted_flow`] names. And an error is never answered with an error: [`is_error`] is asked by everything that would
//! send one, and the messages of [`errors`](too_big) are only built for packets that RFC 1122 §3.2.2 and RFC 4443 §2.4
//! let us answer.
//!
//! The quotation inside an error comes from a router that nobody here knows: it may be cut anywhere, its length fields
//! speak of the packet before it was cut, and it may be forged. It is parsed with the same checks as a packet, by
//! [`IpPacket::parse_quoted`].

mod errors;

pub use errors::{Unreachable, too_big, unreachable};

use crate::{FlowKey, IpPacket, PacketError, protocol};

/// Bytes of the header that all messages looked at here have.
pub const HEADER_BYTES: usize = 8;
/// ICMP echo reply.
pub const V4_ECHO_REPLY: u8 = 0;
/// ICMP destination unreachable; code 4 is "fragmentation needed" (RFC 1191).
pub const V4_UNREACHABLE: u8 = 3;
/// ICMP source quench (deprecated by RFC 6633).
pub const V4_SOURCE_QUENCH: u8 = 4;
/// ICMP redirect.
pub const V4_REDIRECT: u8 = 5;
/// ICMP echo request.
pub const V4_ECHO_REQUEST: u8 = 8;
/// ICMP time exceeded.
pub const V4_TIME_EXCEEDED: u8 = 11;
/// ICMP parameter problem.
pub const V4_PARAMETER_PROBLEM: u8 = 12;
/// The code of "fragmentation needed and DF set" under [`V4_UNREACHABLE`].
pub const V4_FRAGMENTATION_NEEDED: u8 = 4;
/// ICMPv6 destination unreachable.
pub const V6_UNREACHABLE: u8 = 1;
/// ICMPv6 packet too big.
pub const V6_PACKET_TOO_BIG: u8 = 2;
/// The first informational ICMPv6 type: all below are errors (RFC 4443 §2.1).
pub const V6_INFORMATIONAL: u8 = 128;
/// ICMPv6 echo request.
pub const V6_ECHO_REQUEST: u8 = 128;
/// ICMPv6 echo reply.
pub const V6_ECHO_REPLY: u8 = 129;
/// ICMPv6 redirect (RFC 4861 §4.5).
pub const V6_REDIRECT: u8 = 137;

/// A message of either family: type, code, checksum and four bytes whose meaning the type decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpView<'a> {
    fixed: &'a [u8; HEADER_BYTES],
    payload: &'a [u8],
}

impl<'a> IcmpView<'a> {
    /// Checks a message: the payload of an [`IpPacket`] that is not a later fragment.
    ///
    /// # Errors
    /// [`PacketError::Truncated`] below 8 bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (fixed, payload) = bytes.split_first_chunk().ok_or(PacketError::Truncated)?;
        Ok(Self { fixed, payload })
    }

    /// The type field.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        self.fixed[0]
    }

    /// The code field.
    #[must_use]
    pub const fn code(&self) -> u8 {
        self.fixed[1]
    }

    /// The checksum field; in ICMPv6 it covers a pseudo header too.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// The four bytes behind the checksum.
    #[must_use]
    pub const fn rest_of_header(&self) -> [u8; 4] {
        [self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]]
    }

    /// The identifier, where the type is an echo.
    #[must_use]
    pub const fn identifier(&self) -> u16 {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]])
    }

    /// The sequence number, where the type is an echo.
    #[must_use]
    pub const fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.fixed[6], self.fixed[7]])
    }

    /// The bytes behind the header: an echo's data, an error's quotation.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Whether the packet is an ICMP error or redirect: it must not be answered with an error, and opens no flow.
/// A later fragment of one cannot be told, and is not.
#[must_use]
pub fn is_error(ip: &IpPacket<'_>) -> bool {
    message_type(ip)
        .flatten()
        .is_some_and(|kind| is_error_type(ip, kind))
}

/// The MTU that a "packet too big" or "fragmentation needed" message reports, in bytes, as it stands in the message.
/// A router older than RFC 1191 reports 0.
#[must_use]
pub fn reported_mtu(ip: &IpPacket<'_>) -> Option<u32> {
    message_type(ip)?;
    let icmp = IcmpView::parse(ip.payload()).ok()?;
    match (ip, icmp.kind(), icmp.code()) {
        (IpPacket::V4(_), V4_UNREACHABLE, V4_FRAGMENTATION_NEEDED) => {
            Some(u32::from(icmp.sequence()))
        }
        (IpPacket::V6(_), V6_PACKET_TOO_BIG, _) => Some(u32::from_be_bytes(icmp.rest_of_header())),
        _ => None,
    }
}

/// The flow that an ICMP error speaks about, as its packet was sent: `source` is who gets the error. `None` when the
/// packet is no error, or when what it quotes is not the beginning of a packet of the same family.
#[must_use]
pub fn quoted_flow(ip: &IpPacket<'_>) -> Option<FlowKey> {
    let quotation = IpPacket::parse_quoted(quotation(ip)?).ok()?;
    (ip.source().is_ipv4() == quotation.source().is_ipv4()).then(|| FlowKey::of(&quotation))
}

/// What an ICMP error quotes, as it stands in the message. `None` when the packet is no error, or an ICMPv6 redirect,
/// whose quotation stands behind two addresses and inside an option: it speaks about a route.
pub(crate) fn quotation<'a>(ip: &IpPacket<'a>) -> Option<&'a [u8]> {
    let is_redirect_v6 =
        matches!(ip, IpPacket::V6(_)) && ip.payload().first() == Some(&V6_REDIRECT);
    if !is_error(ip) || is_redirect_v6 {
        return None;
    }
    Some(IcmpView::parse(ip.payload()).ok()?.payload())
}

/// The type of an ICMP message: outer `None` when the packet is no ICMP (or a later fragment, whose type is elsewhere),
/// inner `None` when it is too short to hold a type.
fn message_type(ip: &IpPacket<'_>) -> Option<Option<u8>> {
    let own = match ip {
        IpPacket::V4(_) => protocol::ICMP,
        IpPacket::V6(_) => protocol::ICMPV6,
    };
    (ip.protocol() == own && ip.fragment_offset() == 0).then(|| ip.payload().first().copied())
}

const fn is_error_type(ip: &IpPacket<'_>, kind: u8) -> bool {
    match ip {
        IpPacket::V4(_) => matches!(
            kind,
            V4_UNREACHABLE
                | V4_SOURCE_QUENCH
                | V4_REDIRECT
                | V4_TIME_EXCEEDED
                | V4_PARAMETER_PROBLEM
        ),
        IpPacket::V6(_) => kind < V6_INFORMATIONAL || kind == V6_REDIRECT,
    }
}

#[cfg(test)]
mod tests;
