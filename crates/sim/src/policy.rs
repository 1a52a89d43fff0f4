//! What can be compared: names, and what each of them runs.
//!
//! | name | what |
//! |---|---|
//! | `quell` | the core that production runs, as configured |
//! | `quell-no-…`, `quell-race-all` | the same less one mechanism: see [`quell::Ablation`] |
//!
//! A policy is a type that implements [`crate::fleet::node::Policy`]; a new one is a row of [`POLICIES`].

pub mod quell;

use std::time::Duration;

use crate::fleet::{self, Options, SimError};
use crate::outcome::PolicyOutcome;
use crate::scenario::Scenario;
use quell::{Ablation, Quell};

/// One row: how a policy of this name runs.
type Run =
    fn(&str, &Scenario, &Options, &mut dyn FnMut(Duration)) -> Result<PolicyOutcome, SimError>;

/// A policy by name.
#[derive(Debug, Clone, Copy)]
pub struct PolicyName {
    /// Its name: lower case, digits and dashes.
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
}

/// All policies, in the order in which tables show them.
pub fn policies() -> impl Iterator<Item = &'static PolicyName> {
    QUELLS.iter()
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
