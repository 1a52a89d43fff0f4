//! What came of a run, for people and for programs.
//!
//! ```text
//! Scenario, PolicyOutcome… ─▶ outcome() ─▶ Outcome ─┬─▶ Tables        a terminal
//! Bounds ─▶ verdicts() ─────────────────────────────┼─▶ json()        one object
//!                                                   ├─▶ csv()         a line a figure
//!                                                   └─▶ html::page()  a page for a stranger
//! ```
//!
//! All four are made from the one value, and none of them knows a clock: the same run is the same bytes. The page and the
//! terminal show the same tables ([`grid`]); what is rounded there stands whole in JSON and CSV.
//!
//! | file | what it is for |
//! |---|---|
//! | `bar` | what is claimed beside others, and whether it holds |
//! | `grid` | the rows and columns of the tables |
//! | `table` | them as text |
//! | `csv`, `json` | every figure |
//! | `html`, `plot`, `scale` | the page and what is drawn on it |
//! | `text` | figures and text as people read them |
//! | `verdict` | which bounds held |

mod bar;
mod csv;
pub mod grid;
pub mod html;
mod plot;
mod scale;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

use std::time::Duration;

use serde_json::Value;

use crate::outcome::{Outcome, PolicyOutcome};
use crate::scenario::Scenario;

pub use bar::{Bar, bars};
pub use csv::csv;
pub use scale::{Kind, Scale};
pub use table::Tables;
pub use text::{Text, bytes, grouped, time};
pub use verdict::{Figure, Verdict, verdicts};

/// What no run shows, whatever the scenario.
pub const NOT_MODELLED: &[&str] = &[
    "Processors: no end is ever too busy, and no timer fires late.",
    "Shared links: each client has an access of its own, and nothing in the middle is ever full.",
    "The users' own TCP: a stream goes on at its rate whatever becomes of it, and nothing above the tunnel is sent again.",
    "Headers of IP and UDP: bytes are UDP payload, 28 or 48 bytes a datagram less than what is on the wire.",
    "Path MTU: what is sent crosses whole, and is never found to be too large.",
    "What backends say: a call succeeds or does not; contracts run out of time, not of bytes.",
    "Policies other than quell's and its ablations are models by published rules and counts; their code was not run.",
];

/// A run's outcome from what each policy did in it.
#[must_use]
pub fn outcome(scenario: &Scenario, seed: u64, policies: Vec<PolicyOutcome>) -> Outcome {
    Outcome {
        scenario: scenario.name.clone(),
        summary: scenario.summary.clone(),
        seed,
        clients: scenario.fleet.clients,
        providers: scenario.fleet.providers,
        duration_ms: ms(scenario.duration),
        faults_ms: scenario.faults_ms(),
        not_modelled: NOT_MODELLED
            .iter()
            .map(|words| (*words).to_owned())
            .collect(),
        bars: bars(&scenario.bars, &policies),
        policies,
    }
}

/// All of it as one object: the outcome's members, `bounds` with a verdict each, and `ok`.
///
/// # Errors
/// Never, as far as is known: all keys are text.
pub fn json(outcome: &Outcome, verdicts: &[Verdict]) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(outcome)?;
    object["bounds"] = serde_json::to_value(verdicts)?;
    object["ok"] = verdicts.iter().all(|verdict| verdict.ok).into();
    Ok(object)
}

/// Whole milliseconds.
fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
