//! What may enter the tunnel, and what may come out of it at the client.
//!
//! Outwards: only unicast packets from our own addresses, and never one that
//! would carry the tunnel inside itself: a packet to the TUN's own address, or to
//! the address that the tunnel's own datagrams go to, would come back and be
//! sent again for ever (case B38). Inwards: only packets for our addresses.

use std::net::IpAddr;

use quell_packet::{IpPacket, addr};

use crate::drops::DropReason;
use crate::status::TunnelAddresses;

#[derive(Debug, Default)]
pub(super) struct Guard {
    addresses: TunnelAddresses,
    underlay: Vec<IpAddr>,
}

impl Guard {
    pub(super) fn set_addresses(&mut self, addresses: TunnelAddresses) {
        self.addresses = addresses;
    }

    /// Where the tunnel's own datagrams go.
    pub(super) fn set_underlay(&mut self, underlay: Vec<IpAddr>) {
        self.underlay = underlay;
    }

    pub(super) fn judge_outward(&self, packet: &[u8]) -> Result<(), DropReason> {
        let view = IpPacket::parse(packet).map_err(|_| DropReason::Malformed)?;
        let destination = view.destination();
        if self.addresses.owns(destination) {
            return Err(DropReason::OwnAddress);
        }
        if self.underlay.contains(&destination) {
            return Err(DropReason::UnderlayAddress);
        }
        if !addr::is_host(destination) {
            return Err(DropReason::NotUnicast);
        }
        if !self.addresses.owns(view.source()) {
            return Err(DropReason::SourceNotAssigned);
        }
        Ok(())
    }

    pub(super) fn judge_inward(&self, packet: &[u8]) -> Result<(), DropReason> {
        let view = IpPacket::parse(packet).map_err(|_| DropReason::Malformed)?;
        if !self.addresses.owns(view.destination()) {
            return Err(DropReason::WrongDestination);
        }
        if self.addresses.owns(view.source()) {
            return Err(DropReason::OwnAddress);
        }
        Ok(())
    }
}
