//! What can be compared: names, and what each of them runs.
//!
//! | name | what |
//! |---|---|
//! | `quell` | the core that production runs, as configured |
//! | `quell-no-…`, `quell-race-all` | the same less one mechanism: see [`quell::Ablation`] |
//! | `upstream-…`, `report-…` | what it is compared with: see [`baseline`], over a carrier that [holds nothing back](crate::fleet::carriage::open) |
//! | `upstream-…+quic`, `report-…+quic` | the same over the QUIC that quell has, with its congestion window |
//!
//! A policy is a type that implements [`crate::fleet::node::Policy`]; a new one is a row here.

pub mod baseline;
pub mod quell;
pub mod report_claim;
pub mod report_fix;
pub mod upstream_2026_05;
pub mod upstream_2026_08;

use std::time::Duration;

use crate::fleet::{self, Options, SimError};
use crate::outcome::PolicyOutcome;
use crate::scenario::Scenario;
use baseline::Baseline;
use quell::{Ablation, Quell};

/// One row: how a policy of this name runs.
type Run =
    fn(&str, &Scenario, &Options, &mut dyn FnMut(Duration)) -> Result<PolicyOutcome, SimError>;

/// A policy by name.
#[derive(Debug, Clone, Copy)]
pub struct PolicyName {
    /// Its name: lower case, digits and dashes, and `+quic` where the carrier is not the policy's usual one.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    run: Run,
}

macro_rules! quells {
    ($($name:literal $ablation:ident $summary:literal;)+) => {
        /// quell, and quell less one mechanism each.
        const QUELLS: &[PolicyName] = &[$(PolicyName {
            name: $name,
            summary: $summary,
            run: |name, scenario, options, progress| {
                let policy = Quell::new(scenario, options, Ablation::$ablation);
                fleet::run_with(scenario, (name, &policy), options, progress)
            },
        }),+];
    };
}

quells! {
    "quell" None "what production runs";
    "quell-no-cap" Cap "without a cap on the resends of a pack";
    "quell-no-budget" Budget "without a budget for resends into silence";
    "quell-no-widening" Widening "nobody is told that the backend is degraded";
    "quell-no-stall" Stall "a path that does not answer goes on as if it did";
    "quell-race-all" RaceAll "each SYN goes over three exits at once, as far as the core lets it";
    "quell-no-backoff" Backoff "what failed is dialled again at once";
    "quell-no-quiet" Quiet "no ceiling over what is sent while nothing makes progress";
    "quell-no-probe-gate" ProbeGate "the backend is asked each second, whatever its health";
    "quell-no-window-gate" Window "the window is filled to its bound from whatever is left";
    "quell-no-gates" Gates "without backoff, budget, quiet ceiling and the window's gate";
    "quell-no-stall-no-budget" StallAndBudget "without a budget, where nothing stalls that would spare it";
}

macro_rules! baselines {
    ($($name:literal $rules:path, $summary:literal;)+) => {
        /// What quell is compared with.
        const BASELINES: &[PolicyName] = &[$(PolicyName {
            name: $name,
            summary: $summary,
            run: |name, scenario, options, progress| {
                let policy = Baseline::new(&$rules);
                fleet::run_open(scenario, (name, &policy), options, progress)
            },
        }, PolicyName {
            name: concat!($name, "+quic"),
            summary: concat!($summary, "; over a QUIC with congestion control"),
            run: |name, scenario, options, progress| {
                let policy = Baseline::new(&$rules);
                fleet::run_with(scenario, (name, &policy), options, progress)
            },
        }),+];
    };
}

baselines! {
    "upstream-2026-05" upstream_2026_05::RULES, "the system of the outage report, May 2026";
    "upstream-2026-08" upstream_2026_08::RULES, "the same, August 2026: resends double up to 8 s";
    "upstream-2026-08-unreliable" upstream_2026_08::UNRELIABLE_RULES, "the same over a carrier that repeats nothing itself";
    "report-claim" report_claim::RULES, "as the outage report describes it: a resend each 100 ms for a minute";
    "report-fix" report_fix::RULES, "as the outage report would mend it: 16 resends at most, doubling";
}

/// All policies, in the order in which tables show them.
pub fn policies() -> impl Iterator<Item = &'static PolicyName> {
    QUELLS.iter().chain(BASELINES)
}

/// Runs the policy of this name. See [`fleet::run`].
///
/// # Errors
/// No policy has this name, or its world never comes to rest.
pub fn run(
    scenario: &Scenario,
    name: &str,
    options: &Options,
    progress: &mut dyn FnMut(Duration),
) -> Result<PolicyOutcome, SimError> {
    let Some(policy) = policies().find(|policy| policy.name == name) else {
        let known: Vec<_> = policies().map(|policy| policy.name).collect();
        return Err(SimError::UnknownPolicy {
            name: name.to_owned(),
            known: known.join(", "),
        });
    };
    (policy.run)(name, scenario, options, progress)
}
