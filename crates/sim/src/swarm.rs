//! Many small worlds, each drawn from a number, in which every checker is on.
//!
//! ```text
//! seed ─ draw ─▶ scenario ─ run ─▶ complaints? ── none ──▶ next seed
//!                                      └── some ─ shrink ─▶ a small scenario, and the command that runs the seed again
//! ```
//!
//! A seed gives its scenario and feeds its world: it finds the same today and in a year, as long as the code is the same. A
//! failure keeps the checker that complained first, and the shrinking keeps to it.

pub mod draw;
pub mod shrink;

use std::time::{Duration, Instant};

use crate::fleet::{self, Options};
use crate::scenario::Scenario;

/// A seed that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct SwarmFailure {
    /// The seed.
    pub seed: u64,
    /// What was complained of in the scenario as it was drawn.
    pub complaints: Vec<String>,
    /// The same failure in little.
    pub shrunk: Scenario,
    /// What was complained of in that.
    pub shrunk_complaints: Vec<String>,
    /// Runs of the shrinking.
    pub shrink_runs: usize,
}

impl SwarmFailure {
    /// The command that runs this seed again.
    #[must_use]
    pub fn command(&self) -> String {
        format!("quell sim swarm --first {} --seeds 1", self.seed)
    }

    /// All of it, in the order in which one reads it.
    #[must_use]
    pub fn in_words(&self) -> String {
        let toml = self.shrunk.to_toml().unwrap_or_default();
        format!(
            "seed {}: {}\n  again: {}\n  in little ({} runs): {}\n\n{toml}",
            self.seed,
            self.complaints.join("\n  "),
            self.command(),
            self.shrink_runs,
            self.shrunk_complaints.join("\n  "),
        )
    }
}

/// What a swarm found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SwarmOutcome {
    /// Seeds that were run.
    pub seeds: u64,
    /// Of these, those that failed, in order.
    pub failures: Vec<SwarmFailure>,
    /// How long each took that did not fail, and which it was.
    times: Vec<(Duration, u64)>,
}

impl SwarmOutcome {
    /// Takes what was found in other seeds.
    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|failure| failure.seed);
        self.times.extend(other.times);
    }

    /// Half of the seeds took less wall time.
    #[must_use]
    pub fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(Duration::ZERO, |t| t.0)
    }

    /// The longest of them.
    #[must_use]
    pub fn slowest(&self) -> Duration {
        self.times.iter().max().map_or(Duration::ZERO, |t| t.0)
    }

    /// Which seed that was.
    #[must_use]
    pub fn slowest_seed(&self) -> Option<u64> {
        self.times.iter().max().map(|t| t.1)
    }
}

/// What there is to complain of in a scenario, with this seed. A world that never comes to rest is one more complaint.
fn complaints(scenario: &Scenario, seed: u64) -> Vec<String> {
    let options = Options {
        seed,
        ..Options::default()
    };
    match fleet::run(scenario, "quell", &options, &mut |_| {}) {
        Ok(outcome) => outcome.complaints,
        Err(error) => vec![format!("world: {error}")],
    }
}

/// The checker that a complaint is of.
fn whose(complaint: &str) -> &str {
    complaint.split(':').next().unwrap_or_default()
}

/// Runs one seed; what it found.
#[must_use]
pub fn run_one(seed: u64) -> Option<SwarmFailure> {
    let drawn = draw::scenario(seed);
    let found = complaints(&drawn, seed);
    let first = found.first()?;
    let checker = whose(first).to_owned();
    let mut fails = |scenario: &Scenario| {
        let complaints = complaints(scenario, seed);
        complaints.iter().any(|words| whose(words) == checker)
    };
    let small = shrink::shrink(&drawn, shrink::RUNS_MAX, &mut fails);
    Some(SwarmFailure {
        seed,
        shrunk_complaints: complaints(&small.scenario, seed),
        complaints: found,
        shrunk: small.scenario,
        shrink_runs: small.runs,
    })
}

/// Runs `count` seeds from `first` on, and tells after each how many are done and how many failed.
pub fn run(first: u64, count: u64, progress: &mut dyn FnMut(u64, usize)) -> SwarmOutcome {
    let mut outcome = SwarmOutcome::default();
    for seed in (first..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let began = Instant::now();
        match run_one(seed) {
            Some(failure) => outcome.failures.push(failure),
            None => outcome.times.push((began.elapsed(), seed)),
        }
        outcome.seeds += 1;
        progress(outcome.seeds, outcome.failures.len());
    }
    outcome
}
