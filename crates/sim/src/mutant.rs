//! quell, broken in one way each: what the checkers are for.
//!
//! A checker that never complains may be right, or blind. So each has at least one mutant here, and a small scenario in
//! which the mutant shows: the checker that is named must complain of the mutant, and no checker of quell as it is, in the
//! same scenario with the same configuration.
//!
//! | how it is broken | where |
//! |---|---|
//! | less one mechanism | [`Ablation`]: the configuration, or what a node is told |
//! | wrong in what it does | `Vice`: a node around quell's that changes what comes out of it |
//!
//! Some mechanisms stand behind others: a path that stalls spends no budget. There the others are off in the configuration
//! of both (`Terms`), so that it is this mechanism that holds, or does not.

mod client;
mod server;

use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::{ClientConfig, ProviderConfig};

use crate::fleet::node::{ClientId, FleetSize, Policy, ServerId};
use crate::fleet::{self, Options, SimError};
use crate::policy::quell::{Ablation, Quell};
use crate::scenario::{Scenario, ScenarioError};

/// What a node does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vice {
    None,
    /// Each item of some comes out twice.
    Twice,
    /// Some items never come out.
    Swallows,
    /// Each datagram with a pack is handed over twenty times.
    Repeats,
    /// What it says that it holds grows with each look.
    Hoards,
    /// A pack less is in its books than it took.
    Loses,
    /// Each dial is made twice.
    DialsTwice,
    /// Dials leave at whole two seconds only: nobody's wait differs from another's.
    InStep,
    /// Who was connected once does not dial again.
    GivesUp,
}

/// What both run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Terms {
    /// As shipped.
    Default,
    /// Paths never stall, and silences come twenty times a second.
    Frantic,
    /// Paths never stall.
    NeverStalls,
}

/// One way to break quell, and who notices.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// Its name: lower case letters and dashes.
    pub name: &'static str,
    /// The checker that must complain.
    pub checker: &'static str,
    ablation: Ablation,
    vice: Vice,
    terms: Terms,
    scenario: &'static str,
}

macro_rules! mutants {
    ($($name:literal $checker:literal $ablation:ident $vice:ident $terms:ident $scenario:literal;)+) => {
        /// All of them: name, checker, ablation, vice, terms, scenario.
        pub const MUTANTS: &[Mutant] = &[$(Mutant {
            name: $name,
            checker: $checker,
            ablation: Ablation::$ablation,
            vice: Vice::$vice,
            terms: Terms::$terms,
            scenario: include_str!(concat!("mutant/scenarios/", $scenario, ".toml")),
        }),+];
    };
}

mutants! {
    "cap-removed" "cap" Cap None Frantic "one-pack";
    "pack-repeated" "cap" None Repeats Default "calm";
    "budget-removed" "budget" Budget None Frantic "blackhole-small";
    "stall-removed" "silence" Stall None Default "blackhole";
    "widening-removed" "widen" Widening None NeverStalls "degraded";
    "quiet-removed" "quiet" Quiet None Default "long-blackhole";
    "probe-gate-removed" "single" ProbeGate None Default "degraded";
    "dial-gate-removed" "paced" Backoff None Default "refused";
    "dial-doubled" "single" None DialsTwice Default "calm";
    "jitter-removed" "herd" None InStep Default "restart";
    "exactly-once-broken" "once" None Twice Default "calm";
    "item-swallowed" "once" None Swallows Default "calm";
    "memory-grows" "memory" None Hoards Default "calm";
    "books-uneven" "conservation" None Loses Default "calm";
    "gives-up" "converge" None GivesUp Default "restart";
}

fn config(terms: Terms) -> (ClientConfig, ProviderConfig) {
    let (mut client, mut provider) = (ClientConfig::default(), ProviderConfig::default());
    for path in [&mut client.path, &mut provider.path] {
        let interval_max = match terms {
            Terms::Default => break,
            Terms::Frantic => path.lanes.send.min_resend_interval,
            Terms::NeverStalls => path.lanes.send.max_resend_interval,
        };
        path.lanes.send.max_resend_interval = interval_max;
        path.health.hush_ptos = 1_000_000;
        path.health.stall_ptos = 1_000_000;
        path.health.stall_time_min = Duration::from_secs(86_400);
        path.health.data_dead_rounds = u32::MAX;
    }
    (client, provider)
}

impl Mutant {
    /// The scenario in which it shows.
    ///
    /// # Errors
    /// Its text is none.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        Scenario::from_toml(self.scenario)
    }

    /// What the checkers say of it in its scenario, or, not `broken`, of quell as it is.
    ///
    /// # Errors
    /// The world never comes to rest.
    pub fn complaints(&self, scenario: &Scenario, broken: bool) -> Result<Vec<String>, SimError> {
        let options = Options {
            quell: Some(config(self.terms)),
            ..Options::default()
        };
        let (ablation, vice) = match broken {
            true => (self.ablation, self.vice),
            false => (Ablation::None, Vice::None),
        };
        let policy = Broken {
            quell: Quell::new(scenario, &options, ablation),
            vice,
        };
        // What is checked is what `quell` promises.
        let outcome = fleet::run_with(scenario, ("quell", &policy), &options, &mut |_| {})?;
        Ok(outcome.complaints)
    }
}

/// quell with a vice.
#[derive(Debug)]
struct Broken {
    quell: Quell,
    vice: Vice,
}

impl Policy for Broken {
    type Unit = Bytes;
    type Client = client::BrokenClient;
    type Server = server::BrokenServer;

    fn client(&self, id: ClientId, fleet: &FleetSize, seed: u64, now: Instant) -> Self::Client {
        client::BrokenClient::new(self.quell.client(id, fleet, seed, now), self.vice, now)
    }

    fn server(&self, id: ServerId, incarnation: u32, fleet: &FleetSize, seed: u64) -> Self::Server {
        server::BrokenServer::new(self.quell.server(id, incarnation, fleet, seed), self.vice)
    }

    fn without_acks(&self, unit: &Bytes) -> Option<Bytes> {
        self.quell.without_acks(unit)
    }

    fn packs(&self, unit: &Bytes, packs: &mut Vec<(u64, u32)>) {
        self.quell.packs(unit, packs);
    }
}
