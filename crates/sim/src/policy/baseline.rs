//! A tunnel that repeats until it is heard: the machinery that all baselines are made of.
//!
//! What quell is measured against is a system of clients and providers in which every layer answers silence by asking
//! again, and no layer knows of the others:
//!
//! ```text
//! item ─▶ race: no exit is known to answer ─▶ a copy to each exit of the window
//!             └▶ sequence of each exit: numbered packs, each repeated until its ack or the ack timeout
//!                    ├▶ contract: a sequence that waits asks the backend, again and again
//!                    └▶ link: a connection that fails is dialled again within 5 s
//! window: every 15 s, up to 4 more exits are dialled, pinged, given a sequence and a contract of their own
//! ```
//!
//! In an outage these multiply: exits × sends × flows, and each ended sequence begins anew. Nothing bounds the sum.
//!
//! A [`Rules`] holds the numbers of one make; the makes are files of their own beside this one, each with its source.
//! The reference gives formulas, not code; where it is silent the kinder reading is taken, and said so where it is taken:
//! a comparison should not be won by what was made up. In general:
//!
//! - A client of a single provider has one sequence without race, window or health rules, and the longer ack timeout.
//! - Packs fly as QUIC datagrams of the same framing as quell's, one pack each, so that bytes compare.
//! - Contracts for the way back are not modelled: a provider sends without asking anybody.
//!
//! [`resend`] alone says how often a pack is sent.

pub mod resend;
pub mod rules;

mod backend;
mod client;
mod contract;
mod exit;
mod peer;
mod race;
mod receive;
mod reconnect;
mod rtt;
mod send;
mod server;
mod unit;
mod window;
mod write;

use std::time::Instant;

use rand::rngs::SmallRng;
use rand::seq::index;

pub use client::Client;
pub use resend::sends;
pub use rules::Rules;
pub use server::Server;
pub use unit::{Body, Unit};

use crate::fleet::node::{ClientId, FleetSize, Policy, ServerId, rng_of};

/// Tells the draws of a client's catalog from those of its node.
const CATALOG: u64 = 1 << 40;
/// Tells a client's draws from a provider's and the world's.
const CLIENT: u64 = 2 << 40;

/// A policy by these rules.
#[derive(Debug, Clone, Copy)]
pub struct Baseline {
    rules: &'static Rules,
}

impl Baseline {
    /// The make of these rules.
    #[must_use]
    pub fn new(rules: &'static Rules) -> Self {
        Self { rules }
    }

    /// Its rules.
    #[must_use]
    pub fn rules(&self) -> &'static Rules {
        self.rules
    }
}

/// The providers that client `id` knows of, drawn from all.
#[must_use]
pub fn catalog(id: ClientId, fleet: &FleetSize, seed: u64) -> Vec<ServerId> {
    let all = usize::from(fleet.servers);
    let count = usize::from(fleet.catalog).min(all);
    let mut rng: SmallRng = rng_of(seed, CATALOG | u64::from(id));
    index::sample(&mut rng, all, count)
        .into_iter()
        .filter_map(|server| ServerId::try_from(server).ok())
        .collect()
}

impl Policy for Baseline {
    type Unit = Unit;
    type Client = Client;
    type Server = Server;

    fn client(&self, id: ClientId, fleet: &FleetSize, seed: u64, now: Instant) -> Client {
        let rng = rng_of(seed, CLIENT | u64::from(id));
        let catalog = catalog(id, fleet, seed);
        Client::new(self.rules, catalog, fleet.backends, rng, now)
    }

    fn server(&self, _id: ServerId, _incarnation: u32, fleet: &FleetSize, _seed: u64) -> Server {
        let ack_timeout = if fleet.catalog.min(fleet.servers) > 1 {
            self.rules.race_ack_timeout
        } else {
            self.rules.ack_timeout
        };
        Server::new(self.rules, ack_timeout)
    }

    fn without_acks(&self, unit: &Unit) -> Option<Unit> {
        match unit {
            Unit::Ack { .. } | Unit::Selective { .. } => None,
            Unit::Pack { .. } | Unit::Part | Unit::Hello | Unit::Welcome => Some(*unit),
        }
    }

    fn packs(&self, unit: &Unit, packs: &mut Vec<(u64, u32)>) {
        match unit {
            Unit::Pack {
                sequence,
                number,
                body: Body::Item(item),
                ..
            } => packs.push((u64::from(*sequence) << 32 | u64::from(*number), item.number)),
            Unit::Pack { .. }
            | Unit::Part
            | Unit::Ack { .. }
            | Unit::Selective { .. }
            | Unit::Hello
            | Unit::Welcome => {}
        }
    }
}

#[cfg(test)]
mod tests;
