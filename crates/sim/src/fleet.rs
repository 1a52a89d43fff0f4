//! Many clients, providers and backends in virtual time: what an outage costs, and whom.
//!
//! ```text
//! Work ─▶ ClientNode ─▶ Carriage ─▶ way (link, faults) ─▶ Carriage ─▶ ServerNode ─▶ delivered
//!             │  ▲                                                        │
//!             ▼  └────────────── the same way back ◀──── an answer ◀──────┘
//!          backends (faults)
//! ```
//!
//! Three seams, so that what is compared differs in one thing alone:
//!
//! - [`node`]: what a *policy* is: how clients and providers of one make behave. quell's own is the core that
//!   production runs; the others are models of it that forgo something, or of systems with other rules.
//! - [`carriage`]: the QUIC connection beneath. One is a model that fleets can afford, one is a real QUIC.
//! - `crate::scenario`: what happens to all of them.
//!
//! The world itself decides nothing that a policy could: it carries, counts, loses what a fault loses, and tells time.

mod backend;
mod books;
pub mod carriage;
mod connection;
mod faults;
pub mod node;
mod queue;
mod way;
mod work;
mod world;

use std::time::Duration;

use quell_core::config::{ClientConfig, ProviderConfig};

use crate::outcome::PolicyOutcome;
use crate::policy;
use crate::scenario::Scenario;

use carriage::Carriages;
use carriage::model::Models;
use carriage::open::Opens;
use node::Policy;

/// A user's item that is none: what a policy sends of its own, such as a SYN. For [`Policy::packs`].
pub const NO_ITEM: u32 = books::NO_ITEM;

/// Why a run gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// No policy has this name.
    #[error("there is no policy \"{name}\"; there are: {known}")]
    UnknownPolicy {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The scenario asks for what no world can be.
    #[error("the scenario has no {what}")]
    Empty {
        /// Of what there is none.
        what: &'static str,
    },
    /// A world in which time stands still.
    #[error("the world never comes to rest at {at:?}")]
    Restless {
        /// Virtual time.
        at: Duration,
    },
}

/// How a run is made, beyond the scenario.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Feeds every draw.
    pub seed: u64,
    /// quell's configuration; `None`: the defaults.
    pub quell: Option<(ClientConfig, ProviderConfig)>,
    /// One step of the series; `None`: some 600 in all.
    pub step_ms: Option<u64>,
}

/// Lives through a scenario with a policy of this name, and tells now and then how far it is in virtual time.
///
/// # Errors
/// No such policy, or a scenario without clients or providers.
pub fn run(
    scenario: &Scenario,
    policy: &str,
    options: &Options,
    progress: &mut dyn FnMut(Duration),
) -> Result<PolicyOutcome, SimError> {
    if scenario.fleet.clients == 0 {
        return Err(SimError::Empty { what: "clients" });
    }
    if scenario.fleet.providers == 0 {
        return Err(SimError::Empty { what: "providers" });
    }
    policy::run(scenario, policy, options, progress)
}

/// Lives through a scenario with this policy, over the cheap model of QUIC.
///
/// # Errors
/// A world that never comes to rest.
pub fn run_with<P: Policy>(
    scenario: &Scenario,
    policy: (&str, &P),
    options: &Options,
    progress: &mut dyn FnMut(Duration),
) -> Result<PolicyOutcome, SimError> {
    run_over(scenario, policy, Models, options, progress)
}

/// Lives through a scenario with this policy, over connections that hold nothing back: see [`carriage::open`].
///
/// # Errors
/// A world that never comes to rest.
pub fn run_open<P: Policy>(
    scenario: &Scenario,
    policy: (&str, &P),
    options: &Options,
    progress: &mut dyn FnMut(Duration),
) -> Result<PolicyOutcome, SimError> {
    run_over(scenario, policy, Opens, options, progress)
}

/// Lives through a scenario with this policy, over connections of the caller's.
///
/// # Errors
/// A world that never comes to rest.
pub fn run_over<P: Policy, C: Carriages<P::Unit>>(
    scenario: &Scenario,
    policy: (&str, &P),
    carriages: C,
    options: &Options,
    progress: &mut dyn FnMut(Duration),
) -> Result<PolicyOutcome, SimError> {
    world::World::new(scenario, policy, carriages, options).run(progress)
}
