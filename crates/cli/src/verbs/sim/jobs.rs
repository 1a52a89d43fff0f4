//! Policies side by side on threads, and how far they are.
//!
//! Jobs are taken in order by whichever thread is free, and results stand in the order of the jobs. Each job tells its
//! virtual time as it goes; on a terminal, a run that takes long shows how much of all virtual time has passed and what
//! that means for the rest. Fleets differ little between policies, so the mean of the jobs is a fair guess.

use std::fmt;
use std::io::{IsTerminal as _, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quell_sim::fleet::{self, SimError};
use quell_sim::outcome::{Outcome, PolicyOutcome};
use quell_sim::report;

use super::plan::Plan;
use crate::Failure;

/// A run that is over sooner needs no progress.
const SILENT: Duration = Duration::from_secs(2);
/// Between two looks at how far jobs are.
const LOOK: Duration = Duration::from_millis(50);
/// Between two lines.
const LINE: Duration = Duration::from_millis(500);
/// How far a job is, in parts of this.
const WHOLE: u64 = 1_000_000;

/// A policy in a scenario, how far it is, and what came of it.
struct Job<'a> {
    stage: usize,
    policy: &'a str,
    done: AtomicU64,
    result: Mutex<Option<Result<PolicyOutcome, SimError>>>,
}

/// Runs all of the plan.
///
/// # Errors
/// A world that never comes to rest.
pub(super) fn run(plan: &Plan, threads: u16, err: &mut dyn Write) -> Result<Vec<Outcome>, Failure> {
    let jobs: Vec<Job<'_>> = (0..plan.stages.len())
        .flat_map(|stage| plan.policies.iter().map(move |policy| job(stage, policy)))
        .collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let threads = usize::from(threads).min(jobs.len());
        let work = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                job.run(plan);
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut progress = Progress::new(std::io::stderr().is_terminal());
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            progress.look(&jobs, err);
            thread::sleep(LOOK);
        }
        progress.end(err);
    });
    let mut outcomes: Vec<Vec<PolicyOutcome>> = plan.stages.iter().map(|_| Vec::new()).collect();
    for job in jobs {
        let result = job.result.into_inner().ok().flatten();
        // A thread that ended without a result has panicked, which the scope told already.
        if let Some(result) = result {
            outcomes[job.stage].push(result?);
        }
    }
    let stages = plan.stages.iter().zip(outcomes);
    Ok(stages
        .map(|(stage, policies)| report::outcome(&stage.scenario, plan.options.seed, policies))
        .collect())
}

fn job(stage: usize, policy: &str) -> Job<'_> {
    Job {
        stage,
        policy,
        done: AtomicU64::new(0),
        result: Mutex::new(None),
    }
}

impl Job<'_> {
    fn run(&self, plan: &Plan) {
        let scenario = &plan.stages[self.stage].scenario;
        let whole = scenario.duration.as_secs_f64();
        let mut told = |now: Duration| {
            let part = (now.as_secs_f64() / whole).clamp(0.0, 1.0);
            let part = (part * WHOLE as f64) as u64;
            self.done.store(part, Ordering::Relaxed);
        };
        let result = fleet::run(scenario, self.policy, &plan.options, &mut told);
        self.done.store(WHOLE, Ordering::Relaxed);
        if let Ok(mut place) = self.result.lock() {
            *place = Some(result);
        }
    }
}

/// One line on a terminal that is written again and again.
struct Progress {
    is_shown: bool,
    begun: Instant,
    last: Option<Instant>,
}

impl Progress {
    fn new(is_shown: bool) -> Self {
        Self {
            is_shown,
            begun: Instant::now(),
            last: None,
        }
    }

    fn look(&mut self, jobs: &[Job<'_>], err: &mut dyn Write) {
        let now = Instant::now();
        let is_due = self.last.is_none_or(|last| now - last >= LINE);
        if !self.is_shown || !is_due || now - self.begun < SILENT {
            return;
        }
        self.last = Some(now);
        let done = jobs
            .iter()
            .map(|job| job.done.load(Ordering::Relaxed))
            .sum::<u64>();
        let line = Line {
            part: done as f64 / (WHOLE * jobs.len().max(1) as u64) as f64,
            passed: now - self.begun,
        };
        // A progress that cannot be shown is no reason to stop.
        let _ = write!(err, "\r{line}\u{1b}[K").and_then(|()| err.flush());
    }

    /// Leaves the terminal as it was.
    fn end(&self, err: &mut dyn Write) {
        if self.last.is_some() {
            let _ = write!(err, "\r\u{1b}[K").and_then(|()| err.flush());
        }
    }
}

/// How far, and how long it will take.
struct Line {
    /// 0 to 1.
    part: f64,
    passed: Duration,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CELLS: usize = 30;
        let full = ((self.part * CELLS as f64) as usize).min(CELLS);
        write!(
            f,
            "[{}{}] {:3.0} %, {} s",
            "#".repeat(full),
            ".".repeat(CELLS - full),
            self.part * 100.0,
            self.passed.as_secs()
        )?;
        // Of the first percent nothing can be told.
        if self.part < 0.01 {
            return Ok(());
        }
        let rest = self.passed.as_secs_f64() * (1.0 - self.part) / self.part;
        write!(f, ", about {rest:.0} s to go")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_long_it_will_take() {
        let line = |part: f64| {
            let passed = Duration::from_secs(10);
            Line { part, passed }.to_string()
        };
        assert_eq!(line(0.0), format!("[{}]   0 %, 10 s", ".".repeat(30)));
        let half = format!(
            "[{}{}]  50 %, 10 s, about 10 s to go",
            "#".repeat(15),
            ".".repeat(15)
        );
        assert_eq!(line(0.5), half);
        assert_eq!(
            line(1.0),
            format!("[{}] 100 %, 10 s, about 0 s to go", "#".repeat(30))
        );
    }

    #[test]
    fn a_short_run_and_a_pipe_are_told_nothing() {
        let jobs = [job(0, "a")];
        for (is_shown, begun) in [(true, Instant::now()), (false, Instant::now() - 2 * SILENT)] {
            let mut progress = Progress {
                begun,
                ..Progress::new(is_shown)
            };
            let mut said = Vec::new();
            progress.look(&jobs, &mut said);
            progress.end(&mut said);
            assert!(said.is_empty());
        }
        let begun = Instant::now() - 2 * SILENT;
        let mut progress = Progress {
            begun,
            ..Progress::new(true)
        };
        let mut said = Vec::new();
        progress.look(&jobs, &mut said);
        progress.look(&jobs, &mut said);
        let lines = said.iter().filter(|byte| **byte == b'\r').count();
        assert_eq!(lines, 1, "not more often than a person reads");
        progress.end(&mut said);
        assert!(said.ends_with(b"\r\x1b[K"));
    }
}
