//! What may enter the tunnel, and what may come out of it at the client.
//!
//! Outwards: only unicast packets from our own addresses, and never one that
//! would carry the tunnel inside itself: a packet to the TUN's own address, or to
//! the address that the tunnel's own datagrams go to, would come back and be
//! sent again for ever (case B38). Inwards: only packets for our addresses.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use quell_packet::{IpPacket, addr};

use super::exit_id::ExitId;
use crate::drops::DropReason;
use crate::status::TunnelAddresses;

/// How long a packet that came back is remembered: longer than a stalled path is silent.
const LOOP_MEMORY: Duration = Duration::from_secs(10);

/// Where the tunnel's own datagrams go.
#[derive(Debug, Default)]
pub(super) struct Guard {
    underlay: Vec<(ExitId, IpAddr)>,
    /// When a packet to one of them came out of the TUN last.
    looped: Vec<(ExitId, Instant)>,
}

impl Guard {
    /// Where those to one provider go.
    pub(super) fn set_underlay(&mut self, exit: ExitId, addresses: &[IpAddr]) {
        self.underlay.retain(|(of, _)| *of != exit);
        self.underlay
            .extend(addresses.iter().map(|address| (exit, *address)));
    }

    /// A packet to `destination` came out of the TUN. Where it is ours, the system knows no
    /// way to that provider but through the tunnel itself (case B40).
    pub(super) fn on_looped(&mut self, destination: IpAddr, now: Instant) {
        let used = self
            .underlay
            .iter()
            .filter(|(_, used)| *used == destination);
        let exits: Vec<_> = used.map(|(exit, _)| *exit).collect();
        self.looped.retain(|(exit, _)| !exits.contains(exit));
        self.looped
            .extend(exits.into_iter().map(|exit| (exit, now)));
    }

    /// Whether packets to the provider came out of the TUN of late.
    pub(super) fn is_looping(&self, exit: ExitId, now: Instant) -> bool {
        let recent = |at: Instant| now.saturating_duration_since(at) < LOOP_MEMORY;
        let mut looped = self.looped.iter();
        looped.any(|(of, at)| *of == exit && recent(*at))
    }

    /// Judges a packet of the TUN, whose addresses are `inside`.
    pub(super) fn judge_outward(
        &self,
        view: &IpPacket<'_>,
        inside: &TunnelAddresses,
    ) -> Result<(), DropReason> {
        let destination = view.destination();
        if inside.owns(destination) {
            return Err(DropReason::OwnAddress);
        }
        if self.underlay.iter().any(|(_, used)| *used == destination) {
            return Err(DropReason::UnderlayAddress);
        }
        if !addr::is_host(destination) {
            return Err(DropReason::NotUnicast);
        }
        if !inside.owns(view.source()) {
            return Err(DropReason::SourceNotAssigned);
        }
        Ok(())
    }
}

/// Judges a packet of an exit that knows this client by `outside`.
pub(super) fn judge_inward(
    view: &IpPacket<'_>,
    outside: &TunnelAddresses,
) -> Result<(), DropReason> {
    if !outside.owns(view.destination()) {
        return Err(DropReason::WrongDestination);
    }
    if outside.owns(view.source()) {
        return Err(DropReason::OwnAddress);
    }
    Ok(())
}
