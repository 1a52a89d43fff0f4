//! The rows and columns of the tables, for the terminal and for the page alike.

use super::bar::Bar;
use super::text::{bytes, grouped, ratio, time};
use super::verdict::{Verdict, peak_over_steady};
use crate::outcome::{ByCause, Outcome, PolicyOutcome, Quantiles};

/// A column's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// For a terminal.
    pub short: &'static str,
    /// What it is, in words.
    pub words: &'static str,
}

/// A table: the first column names a row, the others are figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// What it shows.
    pub caption: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Its rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

const fn column(short: &'static str, words: &'static str) -> Column {
    Column { short, words }
}

const COSTS: &[Column] = &[
    column("policy", "policy"),
    column(
        "outage out",
        "UDP payload that clients put out while anything was broken",
    ),
    column(
        "copies",
        "hand-overs of a pack, for each that was handed over at all",
    ),
    column("most sends", "most hand-overs of one pack over one path"),
    column("dials", "dials of all clients"),
    column(
        "backend peak",
        "most requests at the backends in a second after the heal, and how many times the mean of before that is",
    ),
    column(
        "p50",
        "half of the clients had their first item through this long after the heal",
    ),
    column("p99", "99 of 100 clients had"),
    column("max", "the last client had; or how many never had"),
    column(
        "caught up",
        "the last client had all that was offered before the heal and came at all",
    ),
    column(
        "fresh",
        "the last client had an item through that was offered after the heal",
    ),
    column("lost", "items that never came, and no reset said so"),
    column("twice", "items that came once more"),
    column("goodput", "user bytes that were delivered"),
];

const CAUSES: &[Column] = &[
    column("policy", "policy"),
    column("first send", "user bytes for the first time"),
    column("resend", "once more over the same path"),
    column("race", "copies over one more path"),
    column("ack", "acknowledgements"),
    column("ping", "questions whether a path lives, and their answers"),
    column("control", "sessions' beginnings and ends"),
    column("dial", "handshakes"),
    column(
        "QUIC",
        "what QUIC adds: headers, seals, its own acknowledgements and probes",
    ),
    column("all", "all of it"),
    column("back", "what providers put out"),
];

const BOUNDS: &[Column] = &[
    column("bound", "bound"),
    column("policy", "of which policy"),
    column("figure", "what was found"),
    column("at most", "what may be at most"),
    column("verdict", "whether it held"),
];

const BARS: &[Column] = &[
    column("claim", "what is claimed of quell"),
    column("quell", "what quell has"),
    column("other", "what the other has"),
    column("verdict", "whether it holds"),
];

const FAULTS: &[Column] = &[
    column("fault", "what was broken"),
    column("from", "from"),
    column("until", "until"),
];

/// One row a policy: what the outage cost, and how it ended.
#[must_use]
pub fn costs(outcome: &Outcome) -> Grid {
    Grid {
        caption: "What it cost, and how it ended",
        columns: COSTS,
        rows: outcome.policies.iter().map(cost).collect(),
    }
}

fn cost(policy: &PolicyOutcome) -> Vec<String> {
    let recovery = &policy.recovery_ms;
    let quantile = |ms: u64| match recovery.count {
        0 => "-".to_owned(),
        _ => time(ms),
    };
    let backend = &policy.backend_requests;
    let peak = match peak_over_steady(backend) {
        Some(times) if times > 0.0 => {
            format!("{} ({}×)", grouped(backend.heal_peak_per_s), ratio(times))
        }
        Some(_) | None => grouped(backend.heal_peak_per_s),
    };
    vec![
        policy.policy.clone(),
        bytes(policy.outage_bytes_out.total),
        ratio(policy.copies_per_pack),
        grouped(policy.max_sends_of_one_pack.into()),
        grouped(policy.dials.total),
        peak,
        quantile(recovery.p50),
        quantile(recovery.p99),
        match policy.never_recovered {
            0 => quantile(recovery.max),
            never => format!("{} never", grouped(never)),
        },
        last_of(&policy.caught_up_ms),
        last_of(&policy.fresh_ms),
        grouped(policy.lost_items),
        grouped(policy.doubled_items),
        bytes(policy.goodput_bytes),
    ]
}

/// The longest of these times, if there is one.
fn last_of(times: &Quantiles) -> String {
    match times.count {
        0 => "-".to_owned(),
        _ => time(times.max),
    }
}

/// One row a policy: what the bytes of the whole run were for.
#[must_use]
pub fn causes(outcome: &Outcome) -> Grid {
    let row = |policy: &PolicyOutcome| {
        let by_cause = by_cause(&policy.udp_bytes_out);
        let figures = by_cause.iter().map(|(_, value)| bytes(*value));
        let mut row = vec![policy.policy.clone()];
        row.extend(figures);
        row.push(bytes(policy.udp_bytes_out.total));
        row.push(bytes(policy.udp_bytes_back.total));
        row
    };
    Grid {
        caption: "UDP payload of clients in the whole run, by what it was for",
        columns: CAUSES,
        rows: outcome.policies.iter().map(row).collect(),
    }
}

/// One row a bound; no rows where none is set.
#[must_use]
pub fn bounds(verdicts: &[Verdict]) -> Grid {
    let row = |verdict: &Verdict| {
        vec![
            verdict.name.to_owned(),
            verdict.policy.clone(),
            verdict.figure.to_string(),
            verdict.limit.to_string(),
            if verdict.ok { "ok" } else { "BROKEN" }.to_owned(),
        ]
    };
    Grid {
        caption: "What has to hold",
        columns: BOUNDS,
        rows: verdicts.iter().map(row).collect(),
    }
}

/// One row a claim beside others; no rows where nothing is claimed.
#[must_use]
pub fn bars(outcome: &Outcome) -> Grid {
    let row = |bar: &Bar| {
        let cells = [&bar.claim, &bar.quell, &bar.other].map(String::clone);
        let mut row = cells.to_vec();
        row.push(bar.verdict().to_owned());
        row
    };
    Grid {
        caption: "What is claimed beside the others",
        columns: BARS,
        rows: outcome.bars.iter().map(row).collect(),
    }
}

/// One row a fault.
#[must_use]
pub fn faults(outcome: &Outcome) -> Grid {
    let row =
        |(name, from, until): &(String, u64, u64)| vec![name.clone(), time(*from), time(*until)];
    Grid {
        caption: "What was broken",
        columns: FAULTS,
        rows: outcome.faults_ms.iter().map(row).collect(),
    }
}

/// Complaints of one policy that are shown; JSON has all.
const COMPLAINTS_MAX: usize = 3;

/// What checkers complained of: the first few of each policy, and how many there are beyond.
#[must_use]
pub fn complaints(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for PolicyOutcome {
        policy, complaints, ..
    } in &outcome.policies
    {
        let first = complaints.iter().take(COMPLAINTS_MAX);
        lines.extend(first.map(|complaint| format!("{policy}: {complaint}")));
        if complaints.len() > COMPLAINTS_MAX {
            let more = complaints.len() - COMPLAINTS_MAX;
            lines.push(format!("{policy}: and {more} more"));
        }
    }
    lines
}

/// Each cause by its name in JSON, the total left out.
pub(super) fn by_cause(bytes: &ByCause) -> [(&'static str, u64); 8] {
    [
        ("first_send", bytes.first_send),
        ("resend", bytes.resend),
        ("race", bytes.race),
        ("ack", bytes.ack),
        ("ping", bytes.ping),
        ("control", bytes.control),
        ("dial", bytes.dial),
        ("quic", bytes.quic),
    ]
}
