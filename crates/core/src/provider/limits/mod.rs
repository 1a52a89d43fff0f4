//! What one client may take of an exit: flows, and new destinations.
//!
//! ```text
//! packet of the client
//!    ├─ of the flow of the packet before ──────────────────────────→ passes      a comparison
//!    ├─ of a flow that is held ────────────────────────────────────→ passes      a lookup
//!    ├─ of no flow: an ICMP error, a later fragment ──→ destination
//!    └─ of a new flow ──→ a place? ──→ destination known, or a token? ──→ passes, and is held
//!                           └─ flow_limit        └─ destination_limit
//! ```
//!
//! A scanner is known by how fast it speaks to addresses it never spoke to, whichever way, a flooder by how many flows it
//! holds. Neither says anything about what is said inside a flow: **a packet of a flow that is held always passes**, so
//! a limit that is reached takes nothing from what works already.
//!
//! Flows are those of [`crate::multi::flows`], with its times: over at a reset, at both FINs, or when idle. As this is no
//! table that finds anything a way, a flow that does not fit displaces none.
//!
//! Who is refused is told, as far as a token bucket lets it: an opening SYN by a reset, which ends `connect()` at once,
//! anything else by "communication administratively prohibited".
//!
//! What a client used of its tokens stays with its key: who comes back does not come back with a full bucket.

mod destinations;
mod flows;
mod month;
mod refusals;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::Bytes;
use quell_packet::{FlowKey, IpPacket, icmp};
use serde::Serialize;

pub(super) use self::destinations::DestinationTokens;
use self::destinations::Destinations;
use self::flows::HeldFlows;
pub(super) use self::month::{Ceiling, Step};
pub use self::month::{Month, MonthStatus, MonthUse};
use self::refusals::Refusals;
use crate::config::ClientLimitsConfig;
use crate::counters::counters;
use crate::drops::DropReason;
use crate::status::TunnelAddresses;

counters! {
    /// What clients were told of refusals.
    pub struct RefusalCounters {
        /// Resets and ICMP errors that were made for clients. They are packets that a path takes, and none of the world's.
        pub told: u64,
        /// Refusals that were not told, because there were too many or because such a packet may not be answered.
        pub silent: u64,
    }
}

/// What one client holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClientUse {
    /// Flows that it holds; one that is over counts until the next one begins.
    pub flows: usize,
    /// Destinations of it that are remembered.
    pub destinations: usize,
    /// What it was told of refusals.
    pub refusals: RefusalCounters,
}

/// The limits of one client.
#[derive(Debug)]
pub(super) struct ClientLimits {
    flows: HeldFlows,
    destinations: Destinations,
    refusals: Refusals,
}

impl ClientLimits {
    pub(super) fn new(config: &ClientLimitsConfig, seed: u64) -> Self {
        Self {
            flows: HeldFlows::new(config.client_flows_max, seed),
            destinations: Destinations::new(config, seed),
            refusals: Refusals::new(config),
        }
    }

    /// The tokens of the client's that an earlier session left.
    pub(super) fn set_tokens(&mut self, tokens: DestinationTokens) {
        self.destinations.set_tokens(tokens);
    }

    pub(super) fn tokens(&self) -> DestinationTokens {
        self.destinations.tokens()
    }

    /// A packet of the client's that is otherwise fit to leave.
    ///
    /// # Errors
    /// The limit that it would exceed; nothing was taken.
    pub(super) fn judge(&mut self, view: &IpPacket<'_>, now: Instant) -> Result<(), DropReason> {
        let destination = view.destination();
        if view.fragment_offset() != 0 || icmp::is_error(view) {
            return self.destinations.admit(destination, now);
        }
        let key = FlowKey::of(view);
        if self.flows.holds_outward(&key, view, now) {
            return Ok(());
        }
        if !self.flows.has_room(now) {
            return Err(DropReason::FlowLimit);
        }
        self.destinations.admit(destination, now)?;
        self.flows.hold(key, view, now);
        Ok(())
    }

    /// A packet of the world for the client: its flow lives, or ends.
    pub(super) fn note_inward(&mut self, packet: &[u8], now: Instant) {
        if let Ok(view) = IpPacket::parse(packet)
            && view.fragment_offset() == 0
        {
            self.flows.note_inward(&view, now);
        }
    }

    /// What the client is told of a packet that was refused.
    pub(super) fn refuse(
        &mut self,
        packet: &[u8],
        addresses: &TunnelAddresses,
        now: Instant,
    ) -> Option<Bytes> {
        self.refusals.tell(packet, addresses, now)
    }

    pub(super) fn status(&self) -> ClientUse {
        ClientUse {
            flows: self.flows.len(),
            destinations: self.destinations.len(),
            refusals: self.refusals.counters(),
        }
    }
}
