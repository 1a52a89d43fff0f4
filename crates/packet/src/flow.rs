//! The 5-tuple that names a flow.
//!
//! A key is directed: `source` is who sent the packet. [`FlowKey::reversed`] of a packet's key is the key of its
//! answer, ICMP echo included: a request carries its identifier as the source port and a reply as the destination port,
//! as if the identifier were the requester's port (which is how NAT treats it, RFC 5508 §3.1).
//!
//! Ports are 0 where they cannot be read: other protocols, upper layers too short to hold them, and fragments that are
//! not the first (their bytes at that place are data). So the fragments of one datagram have two keys, the first's and
//! the rest's; who has to keep them together drops the ports with [`FlowKey::without_ports`].

use std::net::IpAddr;

use crate::icmp::{self, IcmpView};
use crate::{IpPacket, protocol};

/// Who talks to whom, by which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// The packet's source address.
    pub source: IpAddr,
    /// The packet's destination address.
    pub destination: IpAddr,
    /// The upper layer's number, see [`crate::protocol`].
    pub protocol: u8,
    /// The source port, an echo request's identifier, or 0.
    pub source_port: u16,
    /// The destination port, an echo reply's identifier, or 0.
    pub destination_port: u16,
}

impl FlowKey {
    /// The key of a packet.
    #[must_use]
    pub fn of(ip: &IpPacket<'_>) -> Self {
        let (source_port, destination_port) = if ip.fragment_offset() == 0 {
            ports(ip)
        } else {
            (0, 0)
        };
        Self {
            source: ip.source(),
            destination: ip.destination(),
            protocol: ip.protocol(),
            source_port,
            destination_port,
        }
    }

    /// The key of the answers to this flow's packets.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    /// The key that all fragments of a datagram share.
    #[must_use]
    pub const fn without_ports(self) -> Self {
        Self {
            source_port: 0,
            destination_port: 0,
            ..self
        }
    }
}

fn ports(ip: &IpPacket<'_>) -> (u16, u16) {
    match (ip, ip.protocol()) {
        (_, protocol::TCP | protocol::UDP) => match *ip.payload() {
            [s1, s0, d1, d0, ..] => (u16::from_be_bytes([s1, s0]), u16::from_be_bytes([d1, d0])),
            _ => (0, 0),
        },
        (IpPacket::V4(_), protocol::ICMP) => echo(ip, icmp::V4_ECHO_REQUEST, icmp::V4_ECHO_REPLY),
        (IpPacket::V6(_), protocol::ICMPV6) => echo(ip, icmp::V6_ECHO_REQUEST, icmp::V6_ECHO_REPLY),
        _ => (0, 0),
    }
}

fn echo(ip: &IpPacket<'_>, request: u8, reply: u8) -> (u16, u16) {
    match IcmpView::parse(ip.payload()) {
        Ok(icmp) if icmp.kind() == request => (icmp.identifier(), 0),
        Ok(icmp) if icmp.kind() == reply => (0, icmp.identifier()),
        Ok(_) | Err(_) => (0, 0),
    }
}

#[cfg(test)]
mod tests;
