//! Another address in place of a host's own, on the way out and on the way in.
//!
//! A client keeps one address a family inside its TUN, whichever exit carries a flow, while each exit knows it under an
//! address of its own. So packets are translated one to one at the client, without any state: ports stay, and the same
//! two addresses undo what they did.
//!
//! ```text
//! host ──→ rewrite_source(packet, own, exit's)       ──→ exit: "from" is the source, and what an error of the
//!                                                        host's quotes was sent *to* it
//! host ←── rewrite_destination(packet, exit's, own)  ←── exit: "from" is the destination, and what an error of the
//!                                                        world's quotes was sent *by* it
//! ```
//!
//! **Checksums** are updated (RFC 1624), never computed: damaged packets stay damaged. Touched are the IPv4 header's,
//! that of TCP, UDP, UDP-Lite, DCCP and ICMPv6 (their pseudo headers hold the address), and in an ICMP error those of
//! the quotation, where it was not cut before their end, and the error's own, which covers the quotation. The upper
//! layer's checksum stands in whole packets and first fragments alone; in a later fragment those bytes are data. A
//! checksum of 0 in UDP says that there is none and stays 0; one that becomes 0 is written as 0xffff (RFC 768, RFC
//! 3828). A checksum of all ones, which no sender computes but every receiver takes for 0, is 0 after a translation.
//!
//! **Left alone**: packets of the other family and packets that do not carry `from`; addresses inside IPv4 options and
//! IPv6 extension headers (record route, routing headers: with segments left the upper layer's checksum covers the last
//! address in there instead of the destination, and is left alone with it); ICMPv6 redirects, which cross no router;
//! the addresses that protocols carry in their payload; an authentication header, which holds for no translated packet.
//!
//! Nothing is allocated and no bytes panic. Two equal addresses cost one comparison.

use std::net::IpAddr;

use crate::checksum::Change;
use crate::{IpPacket, PacketError, icmp, ipv4, ipv6, protocol};

/// Where the checksum of an IPv4 header stands.
const V4_SUM_AT: usize = 10;
/// Where the checksum of an ICMP message stands, of either family.
const ICMP_SUM_AT: usize = 2;

/// Which of a packet's two addresses is the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

/// A header that names the host, and what depends on the address in it; places count from the packet's first byte.
#[derive(Debug, Clone, Copy)]
struct Named {
    address_at: usize,
    header_sum_at: Option<usize>,
    upper_sum: Option<UpperSum>,
}

/// A checksum whose pseudo header holds the address.
#[derive(Debug, Clone, Copy)]
struct UpperSum {
    at: usize,
    /// Whether 0 says that there is none, as UDP's does.
    optional: bool,
}

/// Everything in a packet that names the host.
#[derive(Debug, Clone, Copy)]
struct Plan {
    packet: Named,
    /// What an ICMP error quotes, and where that error's checksum stands.
    quotation: Option<(Named, usize)>,
}

/// Writes `to` where a packet's source is `from`, and where an ICMP error in it quotes a packet whose destination was
/// `from`. Whether anything was changed; see the module for what is left alone.
///
/// # Errors
/// Those of [`IpPacket::parse`], with the bytes unchanged. Bytes are not looked at when the addresses are equal or of
/// two families.
pub fn rewrite_source(packet: &mut [u8], from: IpAddr, to: IpAddr) -> Result<bool, PacketError> {
    rewrite(packet, Side::Source, from, to)
}

/// Writes `to` where a packet's destination is `from`, and where an ICMP error in it quotes a packet whose source was
/// `from`. Whether anything was changed; see the module for what is left alone.
///
/// # Errors
/// As [`rewrite_source`].
pub fn rewrite_destination(
    packet: &mut [u8],
    from: IpAddr,
    to: IpAddr,
) -> Result<bool, PacketError> {
    rewrite(packet, Side::Destination, from, to)
}

fn rewrite(packet: &mut [u8], side: Side, from: IpAddr, to: IpAddr) -> Result<bool, PacketError> {
    match (from, to) {
        (from, to) if from == to => Ok(false),
        (IpAddr::V4(from), IpAddr::V4(to)) => replace(packet, side, &from.octets(), &to.octets()),
        (IpAddr::V6(from), IpAddr::V6(to)) => replace(packet, side, &from.octets(), &to.octets()),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => Ok(false),
    }
}

fn replace<const N: usize>(
    packet: &mut [u8],
    side: Side,
    from: &[u8; N],
    to: &[u8; N],
) -> Result<bool, PacketError> {
    let Some(plan) = plan(&IpPacket::parse(packet)?, side, from) else {
        return Ok(false);
    };
    let address = Change::of(from, to);
    write(packet, plan.packet.address_at, to);
    if let Some(at) = plan.packet.header_sum_at {
        update(packet, at, address, false);
    }
    if let Some(sum) = plan.packet.upper_sum {
        update(packet, sum.at, address, sum.optional);
    }
    if let Some((quoted, icmp_sum_at)) = plan.quotation {
        write(packet, quoted.address_at, to);
        let mut inside = address;
        if let Some(at) = quoted.header_sum_at {
            inside = inside.and(update(packet, at, address, false));
        }
        if let Some(sum) = quoted.upper_sum {
            inside = inside.and(update(packet, sum.at, address, sum.optional));
        }
        update(packet, icmp_sum_at, inside, false);
    }
    Ok(true)
}

/// What is to be changed; `None` where the packet's address of that side is not `from`.
fn plan<const N: usize>(ip: &IpPacket<'_>, side: Side, from: &[u8; N]) -> Option<Plan> {
    let packet = Named {
        upper_sum: upper_sum(ip, side),
        ..named(ip.bytes(), side, from)?
    };
    let quotation = icmp::quotation(ip).and_then(|quotation| {
        let (sum_at, begin) = (
            ip.header_len() + ICMP_SUM_AT,
            ip.header_len() + icmp::HEADER_BYTES,
        );
        // The packet that the host speaks about came to it, and the other way round.
        let side = match side {
            Side::Source => Side::Destination,
            Side::Destination => Side::Source,
        };
        let fixed = named(quotation, side, from)?;
        // Cut inside its options or extension headers, it still names the host.
        let upper = IpPacket::parse_quoted(quotation)
            .ok()
            .and_then(|quoted| upper_sum(&quoted, side));
        let quoted = Named {
            address_at: begin + fixed.address_at,
            header_sum_at: fixed.header_sum_at.map(|at| begin + at),
            upper_sum: upper.map(|sum| UpperSum {
                at: begin + sum.at,
                ..sum
            }),
        };
        Some((quoted, sum_at))
    });
    Some(Plan { packet, quotation })
}

/// The fixed header of a packet, where its address of that side is `from`; the upper layer is not looked at.
fn named<const N: usize>(packet: &[u8], side: Side, from: &[u8; N]) -> Option<Named> {
    let (version, header_len, source_at, header_sum_at) = match N {
        4 => (4, ipv4::HEADER_BYTES_MIN, 12, Some(V4_SUM_AT)),
        _ => (6, ipv6::HEADER_BYTES, 8, None),
    };
    let header = packet.get(..header_len)?;
    let address_at = match side {
        Side::Source => source_at,
        Side::Destination => source_at + N,
    };
    let is_family = header.first().is_some_and(|first| first >> 4 == version);
    let is_from = header.get(address_at..)?.first_chunk() == Some(from);
    (is_family && is_from).then_some(Named {
        address_at,
        header_sum_at,
        upper_sum: None,
    })
}

/// The checksum in this packet, if there is one, whose pseudo header holds the address of that side.
fn upper_sum(ip: &IpPacket<'_>, side: Side) -> Option<UpperSum> {
    let (is_v6, is_en_route) = match ip {
        IpPacket::V4(_) => (false, false),
        IpPacket::V6(view) => (true, view.is_en_route()),
    };
    if ip.fragment_offset() != 0 || side == Side::Destination && is_en_route {
        return None;
    }
    let at = match ip.protocol() {
        protocol::TCP => 16,
        protocol::UDP | protocol::UDP_LITE | protocol::DCCP => 6,
        protocol::ICMPV6 if is_v6 => ICMP_SUM_AT,
        _ => return None,
    };
    (ip.payload().len() >= at + 2).then_some(UpperSum {
        at: ip.header_len() + at,
        optional: matches!(ip.protocol(), protocol::UDP | protocol::UDP_LITE),
    })
}

fn write(packet: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = packet.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Carries a change into the checksum over it; the change that this is to a checksum over both.
fn update(packet: &mut [u8], at: usize, change: Change, optional: bool) -> Change {
    let Some(place) = packet.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else {
        return Change::default();
    };
    let old = *place;
    let sum = match (u16::from_be_bytes(old), optional) {
        (0, true) => return Change::default(),
        (sum, optional) => match (change.apply(sum), optional) {
            (0, true) => 0xffff,
            (sum, _) => sum,
        },
    };
    *place = sum.to_be_bytes();
    Change::of(&old, place)
}

#[cfg(test)]
mod tests;
