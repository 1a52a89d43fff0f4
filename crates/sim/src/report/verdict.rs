//! Which bounds held.
//!
//! What never came has no figure, and no bound holds for it: a client that never recovered did not recover in time, and a
//! peak over nothing is no peak of three times the usual. Complaints of checkers are bounds of none: one is one too many.

use std::fmt;

use serde::{Serialize, Serializer};

use super::text::{grouped, ratio};
use crate::outcome::{PolicyOutcome, Rate};
use crate::scenario::Bounds;

/// A figure that a bound is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// A count.
    Whole(u64),
    /// A quotient.
    Ratio(f64),
    /// What would have been counted never came.
    None,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(count) => f.pad(&grouped(*count)),
            Self::Ratio(value) => f.pad(&ratio(*value)),
            Self::None => f.pad("none"),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(count) => serializer.serialize_u64(*count),
            Self::Ratio(value) => serializer.serialize_f64(*value),
            Self::None => serializer.serialize_none(),
        }
    }
}

/// A bound, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Whose outcome.
    pub policy: String,
    /// The bound's key in a scenario.
    pub name: &'static str,
    /// What was found.
    pub figure: Figure,
    /// What may be at most.
    pub limit: Figure,
    /// Whether it held.
    pub ok: bool,
}

/// All bounds that are set, and that no checker complained.
#[must_use]
pub fn verdicts(outcome: &PolicyOutcome, bounds: &Bounds) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut whole = |name, figure: Option<u64>, limit: Option<u64>| {
        let Some(limit) = limit else { return };
        verdicts.push(Verdict {
            policy: outcome.policy.clone(),
            name,
            figure: figure.map_or(Figure::None, Figure::Whole),
            limit: Figure::Whole(limit),
            ok: figure.is_some_and(|figure| figure <= limit),
        });
    };
    whole(
        "max_sends_of_one_pack",
        Some(outcome.max_sends_of_one_pack.into()),
        bounds.max_sends_of_one_pack.map(u64::from),
    );
    let recovery = (outcome.never_recovered == 0).then_some(outcome.recovery_ms.max);
    whole("recovery_max_ms", recovery, bounds.recovery_max_ms);
    let outage_bytes = outcome.outage_bytes_out.total;
    whole(
        "outage_bytes_max",
        Some(outage_bytes),
        bounds.outage_bytes_max,
    );
    let dials = outcome.provider_dials.heal_peak_per_s;
    whole(
        "provider_dials_per_s_max",
        Some(dials),
        bounds.provider_dials_per_s_max,
    );
    whole(
        "lost_items_max",
        Some(outcome.lost_items),
        bounds.lost_items_max,
    );
    whole(
        "providers_fallen_max",
        Some(outcome.providers_fallen),
        bounds.providers_fallen_max,
    );
    let complaints = u64::try_from(outcome.complaints.len()).unwrap_or(u64::MAX);
    whole("complaints", Some(complaints), Some(0));
    if let Some(limit) = bounds.backend_peak_over_steady_max {
        let figure = peak_over_steady(&outcome.backend_requests);
        verdicts.push(Verdict {
            policy: outcome.policy.clone(),
            name: "backend_peak_over_steady_max",
            figure: figure.map_or(Figure::None, Figure::Ratio),
            limit: Figure::Ratio(limit),
            ok: figure.is_some_and(|figure| figure <= limit),
        });
    }
    verdicts
}

/// The most in a second after the heal, over the mean of before. No peak over nothing is none of it.
pub(super) fn peak_over_steady(rate: &Rate) -> Option<f64> {
    match (rate.heal_peak_per_s, rate.steady_per_s) {
        (0, _) => Some(0.0),
        (peak, steady) if steady > 0.0 => Some(peak as f64 / steady),
        (_, _) => None,
    }
}
