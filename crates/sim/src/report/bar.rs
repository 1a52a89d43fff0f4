//! What a scenario claims of quell beside the others, and whether it holds.
//!
//! A bar is no bound: what it speaks of is partly another's figure, so that one that does not hold fails no run. The table
//! says so, and leaves it there. It is looked at where quell and the other are among the policies.

use serde::Serialize;

use super::text::{bytes, ratio, time};
use crate::outcome::PolicyOutcome;
use crate::scenario::Bars;

/// Whose bars these are, and what the names of its ablations begin with.
const QUELL: &str = "quell";
const ABLATION: &str = "quell-";

/// A bar, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// What is claimed.
    pub claim: String,
    /// What quell has.
    pub quell: String,
    /// What the other has that counts.
    pub other: String,
    /// Whether it holds.
    pub ok: bool,
}

impl Bar {
    /// In the words of a table.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self.ok {
            true => "ok",
            false => "does not hold",
        }
    }
}

/// All bars for which the policies are there.
#[must_use]
pub fn bars(bars: &Bars, policies: &[PolicyOutcome]) -> Vec<Bar> {
    let of = |name: &str| policies.iter().find(|policy| policy.policy == name);
    let Some(quell) = of(QUELL) else {
        return Vec::new();
    };
    let parts = bars.outage_bytes_part.iter();
    let mut held: Vec<_> = parts
        .filter_map(|(name, part)| Some(bytes_bar(quell, of(name)?, *part)))
        .collect();
    if bars.recovers_first {
        let others = policies.iter();
        let others =
            others.filter(|other| other.policy != QUELL && !other.policy.starts_with(ABLATION));
        let first = others
            .filter(|other| other.recovery_ms.count > 0)
            .min_by_key(|other| other.recovery_ms.max);
        held.extend(first.map(|first| recovery_bar(quell, first)));
    }
    held
}

fn bytes_bar(quell: &PolicyOutcome, other: &PolicyOutcome, part: u64) -> Bar {
    let (ours, theirs) = (quell.outage_bytes_out.total, other.outage_bytes_out.total);
    let name = &other.policy;
    let times = theirs as f64 / ours.max(1) as f64;
    Bar {
        claim: format!("outage out at most 1/{part} of {name}'s"),
        quell: bytes(ours),
        other: format!("{} (1/{})", bytes(theirs), ratio(times)),
        ok: ours.saturating_mul(part) <= theirs,
    }
}

fn recovery_bar(quell: &PolicyOutcome, first: &PolicyOutcome) -> Bar {
    let (ours, theirs) = (&quell.recovery_ms, &first.recovery_ms);
    let has_recovered = quell.never_recovered == 0 && ours.count > 0;
    Bar {
        claim: "the first item through soonest of all".to_owned(),
        quell: match has_recovered {
            true => time(ours.max),
            false => "never".to_owned(),
        },
        other: format!("{} ({})", time(theirs.max), first.policy),
        ok: has_recovered && ours.max <= theirs.max,
    }
}
