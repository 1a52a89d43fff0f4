//! The ICMP errors that a tunnel end sends.
//!
//! An error is a packet that somebody else makes us send, to an address that somebody else chose. So it is built only
//! for packets that may be answered (RFC 1122 §3.2.2, RFC 1812 §4.3.2.7, RFC 4443 §2.4 e), and `None` means "be silent":
//!
//! - never about an ICMP error or redirect, nor about ICMP too short to tell;
//! - never about a fragment that is not the first;
//! - never when source or destination is no single host: multicast, broadcast, unspecified, 0/8, 240/4; nor to a
//!   loopback address.
//!
//! An error quotes as much of the packet as keeps it within 576 bytes (RFC 1812 §4.3.2.3) or the IPv6 minimum MTU of
//! 1,280 (RFC 4443 §2.4 c): it fits wherever the packet came from. Rates are the caller's business; so is IPv4
//! without DF, which is fragmented rather than refused.

use std::net::IpAddr;

use super::{
    V4_FRAGMENTATION_NEEDED, V4_UNREACHABLE, V6_PACKET_TOO_BIG, V6_UNREACHABLE, is_error_type,
    message_type,
};
use crate::build::Header;
use crate::{IpPacket, addr, ipv4, ipv6, protocol};

/// Bytes of the longest ICMP error over IPv4.
const V4_ERROR_BYTES_MAX: usize = 576;
/// Bytes of the longest ICMPv6 error.
const V6_ERROR_BYTES_MAX: usize = ipv6::MTU_MIN as usize;
/// Internetwork control, as RFC 1812 §4.3.2.5 asks of ICMP errors.
const V4_TRAFFIC_CLASS: u8 = 0xc0;

/// Why a packet is refused, where that is said to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreachable {
    /// A policy forbids it: IPv4 code 13 (RFC 1812 §5.2.7.1), ICMPv6 code 1.
    AdminProhibited,
    /// The host does not answer: IPv4 code 1, ICMPv6 code 3 (address unreachable).
    Host,
    /// Nobody listens on the port: IPv4 code 3, ICMPv6 code 4.
    Port,
}

/// The message that tells a sender how much the tunnel carries: ICMP "fragmentation needed" with the next hop's MTU
/// (RFC 1191 §4), or ICMPv6 "packet too big" (RFC 4443 §3.2), as a whole IP packet from `from`.
///
/// `mtu` is in bytes of IP packet. IPv6 has a least MTU, so anything below 1,280 is reported as 1,280.
///
/// `None` when the packet must not be answered (see the module), when it fits `mtu`, when it is IPv4 without DF, when
/// it is no packet at all, or when `from` is of the other family or no host's address.
#[must_use]
pub fn too_big(original: &[u8], mtu: u16, from: IpAddr) -> Option<Vec<u8>> {
    let ip = IpPacket::parse(original).ok()?;
    let mtu = match ip {
        IpPacket::V4(_) => mtu,
        IpPacket::V6(_) => mtu.max(ipv6::MTU_MIN),
    };
    if ip.len() <= usize::from(mtu) || !ip.dont_fragment() || !may_answer(&ip, from) {
        return None;
    }
    let (kind, code) = match ip {
        IpPacket::V4(_) => (V4_UNREACHABLE, V4_FRAGMENTATION_NEEDED),
        IpPacket::V6(_) => (V6_PACKET_TOO_BIG, 0),
    };
    Some(message(&ip, kind, code, u32::from(mtu), from))
}

/// The message that tells a sender that its packet goes nowhere, as a whole IP packet from `from`.
///
/// `None` when the packet must not be answered (see the module), is no packet at all, or when `from` is of the other
/// family or no host's address.
#[must_use]
pub fn unreachable(original: &[u8], why: Unreachable, from: IpAddr) -> Option<Vec<u8>> {
    let ip = IpPacket::parse(original).ok()?;
    if !may_answer(&ip, from) {
        return None;
    }
    let (kind, code) = match (ip, why) {
        (IpPacket::V4(_), Unreachable::AdminProhibited) => (V4_UNREACHABLE, 13),
        (IpPacket::V4(_), Unreachable::Host) => (V4_UNREACHABLE, 1),
        (IpPacket::V4(_), Unreachable::Port) => (V4_UNREACHABLE, 3),
        (IpPacket::V6(_), Unreachable::AdminProhibited) => (V6_UNREACHABLE, 1),
        (IpPacket::V6(_), Unreachable::Host) => (V6_UNREACHABLE, 3),
        (IpPacket::V6(_), Unreachable::Port) => (V6_UNREACHABLE, 4),
    };
    Some(message(&ip, kind, code, 0, from))
}

/// Whether the packet may be answered with an error from `from`.
fn may_answer(ip: &IpPacket<'_>, from: IpAddr) -> bool {
    let speaks_of_error = match message_type(ip) {
        None => false,
        Some(None) => true,
        Some(Some(kind)) => is_error_type(ip, kind),
    };
    from.is_ipv4() == ip.source().is_ipv4()
        && ip.fragment_offset() == 0
        && !speaks_of_error
        && addr::is_host(ip.source())
        && addr::is_host(ip.destination())
        && addr::is_host(from)
        && !addr::is_loopback(ip.source())
}

/// Builds the error: header, `rest` in the four bytes behind the checksum, and as much of the packet as fits.
fn message(ip: &IpPacket<'_>, kind: u8, code: u8, rest: u32, from: IpAddr) -> Vec<u8> {
    let (number, room) = match ip {
        IpPacket::V4(_) => (protocol::ICMP, V4_ERROR_BYTES_MAX - ipv4::HEADER_BYTES_MIN),
        IpPacket::V6(_) => (protocol::ICMPV6, V6_ERROR_BYTES_MAX - ipv6::HEADER_BYTES),
    };
    let quoted = ip
        .bytes()
        .get(..room - super::HEADER_BYTES)
        .unwrap_or(ip.bytes());
    let header = match ip {
        IpPacket::V4(_) => Header {
            traffic_class: V4_TRAFFIC_CLASS,
            ..Header::new(from, ip.source())
        },
        IpPacket::V6(_) => Header::new(from, ip.source()),
    };
    let mut packet = header.begin(number, super::HEADER_BYTES + quoted.len());
    packet.extend_from_slice(&[kind, code, 0, 0]);
    packet.extend_from_slice(&rest.to_be_bytes());
    packet.extend_from_slice(quoted);
    header.seal(&mut packet, number);
    packet
}
