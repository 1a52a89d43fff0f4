//! One address inside the TUN, another at each exit.
//!
//! Each provider gives the client an address of its own pool. The TUN has one for each
//! family: the first that any exit gave, for as long as the client runs, so that open
//! sockets outlive a change of exits and of sessions. Packets are translated one to
//! one where the two differ; no port is touched and nothing is remembered.
//!
//! Providers derive a client's address from its key, so with pools alike it is the
//! same everywhere and nothing is translated.

use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use quell_packet::translate;

use crate::status::TunnelAddresses;

/// The client's own addresses inside the TUN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Inside(TunnelAddresses);

impl Inside {
    pub(super) fn addresses(&self) -> &TunnelAddresses {
        &self.0
    }

    /// Takes over what an exit gave, of the families that there is no address of yet;
    /// whether that is news.
    pub(super) fn adopt(&mut self, given: &TunnelAddresses) -> bool {
        let before = self.0;
        if self.0.ipv4.is_none() {
            (self.0.ipv4, self.0.gateway_ipv4) = (given.ipv4, given.gateway_ipv4);
        }
        if self.0.ipv6.is_none() {
            (self.0.ipv6, self.0.gateway_ipv6) = (given.ipv6, given.gateway_ipv6);
        }
        self.0 != before
    }

    /// Our address of the family of `like`.
    fn own(&self, like: IpAddr) -> Option<IpAddr> {
        of_family(&self.0, like)
    }

    /// A packet from us, as the exit that gave `outside` wants it; `None`: that exit
    /// carries no packets of its family.
    pub(super) fn outwards(
        &self,
        packet: Bytes,
        source: IpAddr,
        outside: &TunnelAddresses,
    ) -> Option<Bytes> {
        let to = of_family(outside, source)?;
        if source == to {
            return Some(packet);
        }
        let mut packet = owned(packet);
        // It was parsed already.
        translate::rewrite_source(&mut packet, source, to).ok()?;
        Some(packet.freeze())
    }

    /// A packet for us, from the exit that knows us by `destination`.
    pub(super) fn inwards(&self, packet: Bytes, destination: IpAddr) -> Bytes {
        match self.own(destination) {
            Some(own) if own != destination => {
                let mut packet = owned(packet);
                // What cannot be read was refused before.
                let _ = translate::rewrite_destination(&mut packet, destination, own);
                packet.freeze()
            }
            Some(_) | None => packet,
        }
    }
}

/// The address of the family of `like`.
pub(super) fn of_family(addresses: &TunnelAddresses, like: IpAddr) -> Option<IpAddr> {
    match like {
        IpAddr::V4(_) => addresses.ipv4.map(|(address, _)| IpAddr::from(address)),
        IpAddr::V6(_) => addresses.ipv6.map(|(address, _)| IpAddr::from(address)),
    }
}

/// A packet to write into: itself where nobody else holds its buffer, else a copy.
fn owned(packet: Bytes) -> BytesMut {
    packet
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(shared.as_ref()))
}
