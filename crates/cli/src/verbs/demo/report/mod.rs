//! The acts as one page of HTML: what happened second by second, and what was promised of it.
//!
//! ```text
//! figures ─> outage, exits ─> Section { charts, seconds, bounds } ─> page ─> ReportFile
//! ```
//!
//! The page stands alone: no script, nothing loaded from anywhere, plots as SVG in it. It follows the
//! reader's light or dark, fits a phone, and says in words and in a table all that the plots show, so
//! that nobody needs to see colours for it.
//!
//! | file | what it is for |
//! |---|---|
//! | `plot` | bars over seconds, with faults shaded |
//! | `page` | words and tables around the plots |

mod page;
mod plot;

use super::bounds::Bound;
use super::exits::{self, EXITS};
use super::outage::Phase;
use super::verdict;

pub(super) use page::page;
use plot::{Chart, Fault, Series};
use quell_sim::report::Kind;

/// An act's part of the page.
pub(super) struct Section {
    title: &'static str,
    words: &'static str,
    charts: Vec<Chart>,
    bounds: Vec<Bound>,
}

/// The first act's.
pub(super) fn outage(figures: &verdict::Figures) -> Section {
    let seconds = figures.seconds();
    let faults = faults(seconds.iter().map(|second| match second.phase {
        Phase::Cut => Some("the wire is cut".to_owned()),
        Phase::Steady | Phase::Healed => None,
    }));
    let series = |name: &str, of: fn(&super::outage::Sample) -> u64| {
        let values = seconds.iter().map(|second| of(&second.moved));
        Series::new(name, values)
    };
    let chart = |title, kind, series| Chart {
        title,
        kind,
        series,
        faults: faults.clone(),
    };
    Section {
        title: "A cut under load",
        words: "A client sends 1 Mbit/s of UDP, which is echoed, 1 Mbit/s in one TCP stream, and ten pings \
                a second. Then the wire drops everything, silently and both ways, and later carries again.",
        charts: vec![
            chart(
                "UDP bytes that the client put on the wire",
                Kind::Log,
                vec![series("bytes", |sample| sample.bytes_out)],
            ),
            chart(
                "Answers",
                Kind::Linear,
                vec![
                    series("to datagrams of the load", |sample| sample.echoes),
                    series("to pings", |sample| sample.pings),
                ],
            ),
            chart(
                "Bytes of the TCP stream that arrived",
                Kind::Linear,
                vec![series("bytes", |sample| sample.tcp_bytes)],
            ),
        ],
        bounds: figures.bounds().to_vec(),
    }
}

/// The second act's.
pub(super) fn exits(figures: &exits::Figures) -> Section {
    let seconds = figures.seconds();
    let faults = faults(seconds.iter().map(|second| {
        let is_fault = ["frozen", "killed", "silent"]
            .iter()
            .any(|fault| second.what.ends_with(fault));
        is_fault.then(|| second.what.clone())
    }));
    let series = |name: &str, of: &dyn Fn(&exits::Tally) -> u64| {
        Series::new(name, seconds.iter().map(|second| of(&second.moved)))
    };
    let chart = |title, kind, series| Chart {
        title,
        kind,
        series,
        faults: faults.clone(),
    };
    let by_exit = (0..EXITS).map(|exit| {
        let name = format!("through exit {}", exit + 1);
        series(&name, &move |tally| tally.answers[exit])
    });
    let failed = series("failed", &|tally| tally.failed);
    Section {
        title: "Three exits, of which one freezes, one is killed, and all fall silent",
        words: "Eight at a time, short requests go over connections of their own, and each learns which exit \
                it took. A stream that was opened first stays with its exit, whatever becomes of that.",
        charts: vec![
            chart(
                "Answers to short requests, by the exit that carried them",
                Kind::Linear,
                by_exit.chain([failed]).collect(),
            ),
            chart(
                "UDP bytes that the client put on the wire",
                Kind::Log,
                vec![series("bytes", &|tally| tally.bytes_out)],
            ),
            chart(
                "Bytes of the first stream that arrived",
                Kind::Linear,
                vec![series("bytes", &|tally| tally.stream_bytes)],
            ),
        ],
        bounds: figures.bounds().to_vec(),
    }
}

/// Seconds in a row that have the same fault are one.
fn faults(names: impl Iterator<Item = Option<String>>) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for (second, name) in names.enumerate() {
        let Some(name) = name else { continue };
        match faults.last_mut() {
            Some(last) if last.to == second && last.name == name => last.to = second + 1,
            Some(_) | None => faults.push(Fault {
                from: second,
                to: second + 1,
                name,
            }),
        }
    }
    faults
}

#[cfg(test)]
mod tests;
