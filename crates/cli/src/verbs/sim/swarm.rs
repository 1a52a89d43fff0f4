//! `quell sim swarm`: many small outages, drawn, with every checker on.
//!
//! Seeds are shared out among threads in chunks. A seed that fails is shrunk there and then, and shown as it was found: what
//! was complained of, the command that runs it again, and the small scenario as TOML, to be kept as a file for
//! `quell sim run`. The exit code is 1 where any failed.

use std::io::{IsTerminal as _, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;
use quell_sim::swarm::{self, SwarmOutcome};
use serde_json::json;

use crate::{Failure, Streams};

/// Seeds of a chunk: a second or two.
const CHUNK: u64 = 25;
/// Between two looks at how far threads are.
const LOOK: Duration = Duration::from_millis(200);
/// A run that is over sooner needs no progress.
const SILENT: Duration = Duration::from_secs(2);

/// Draw random outages and see that everything holds in them
///
/// Each seed gives a small fleet, faults that come and go, and a time in which all must be well again. Ends with 1 if
/// anything was complained of.
#[derive(Debug, Args)]
pub(super) struct Swarm {
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    first: u64,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Swarm {
    pub(super) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let outcome = self.all(streams.err);
        if self.json {
            writeln!(streams.out, "{}", json_of(&outcome))?;
        } else {
            for failure in &outcome.failures {
                writeln!(streams.out, "{}", failure.in_words())?;
            }
            writeln!(
                streams.out,
                "{} seeds from {}: {} failed; a seed took {} ms in the median, {} ms at most (seed {})",
                outcome.seeds,
                self.first,
                outcome.failures.len(),
                outcome.median().as_millis(),
                outcome.slowest().as_millis(),
                outcome.slowest_seed().unwrap_or(self.first),
            )?;
        }
        match outcome.failures.as_slice() {
            [] => Ok(()),
            [one, ..] => Err(Failure::from(anyhow!(
                "{} of {} seeds failed; the first of them: {}",
                outcome.failures.len(),
                outcome.seeds,
                one.command()
            ))),
        }
    }

    fn all(&self, err: &mut dyn Write) -> SwarmOutcome {
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let sum = Mutex::new(SwarmOutcome::default());
        let work = || {
            loop {
                let from = next.fetch_add(CHUNK, Ordering::Relaxed);
                if from >= self.seeds {
                    break;
                }
                let count = CHUNK.min(self.seeds - from);
                let part = swarm::run(self.first + from, count, &mut |_, _| {
                    done.fetch_add(1, Ordering::Relaxed);
                });
                if let Ok(mut sum) = sum.lock() {
                    sum.add(part);
                }
            }
        };
        let (begun, is_shown) = (Instant::now(), std::io::stderr().is_terminal());
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                if is_shown && begun.elapsed() > SILENT {
                    let line = line(done.load(Ordering::Relaxed), self.seeds, begun.elapsed());
                    // A progress that cannot be shown is no reason to stop.
                    let _ = write!(err, "\r{line}\u{1b}[K").and_then(|()| err.flush());
                }
                thread::sleep(LOOK);
            }
        });
        if is_shown && begun.elapsed() > SILENT {
            let _ = write!(err, "\r\u{1b}[K").and_then(|()| err.flush());
        }
        sum.into_inner().unwrap_or_default()
    }
}

/// How far, and how long it will take.
fn line(done: u64, of: u64, passed: Duration) -> String {
    let words = format!("{done} of {of} seeds, {} s", passed.as_secs());
    if done == 0 {
        return words;
    }
    #[expect(clippy::cast_precision_loss, reason = "a guess for people")]
    let rest = passed.as_secs_f64() * (of - done.min(of)) as f64 / done as f64;
    format!("{words}, about {rest:.0} s to go")
}

fn json_of(outcome: &SwarmOutcome) -> serde_json::Value {
    let failures = outcome.failures.iter().map(|failure| {
        json!({
            "seed": failure.seed,
            "command": failure.command(),
            "complaints": failure.complaints,
            "shrunk": failure.shrunk.to_toml().unwrap_or_default(),
            "shrunk_complaints": failure.shrunk_complaints,
        })
    });
    json!({
        "seeds": outcome.seeds,
        "failures": failures.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_long_it_will_take() {
        let passed = Duration::from_secs(10);
        assert_eq!(line(0, 100, passed), "0 of 100 seeds, 10 s");
        let half = "50 of 100 seeds, 10 s, about 10 s to go";
        assert_eq!(line(50, 100, passed), half);
    }

    #[test]
    fn threads_change_nothing_of_what_is_found() {
        let run = |threads| {
            let swarm = Swarm {
                seeds: CHUNK + 3,
                first: 7,
                threads,
                json: true,
            };
            let outcome = swarm.all(&mut Vec::new());
            (outcome.seeds, json_of(&outcome))
        };
        assert_eq!(run(1), run(3));
        assert_eq!(run(1).0, CHUNK + 3);
    }
}
