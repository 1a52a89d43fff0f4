//! Policies side by side on threads, and how far they are.
//!
//! Jobs are taken in order by whichever thread is free, and results stand in the order of the jobs. Each job tells its
//! virtual time as it goes; a run that takes long shows how much of all virtual time has passed and what that means for
//! the rest. Fleets differ little between policies, so the mean of the jobs is a fair guess.
//!
//! On a terminal it is one line that is written again and again. In a log it is a line now and then, which says where each
//! job stands in virtual time: who looks at it later sees how far a run came that was ended.

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
/// Between two lines on a terminal.
const LINE: Duration = Duration::from_millis(500);
/// Between two lines of a log, and the time after which there is one.
const LOG_LINE: Duration = Duration::from_secs(10);
/// How far a job is, in parts of this.
const WHOLE: u64 = 1_000_000;

/// A policy in a scenario, how far it is, and what came of it.
struct Job<'a> {
    stage: usize,
    /// The scenario's name, and how long it is in virtual time.
    of: (&'a str, Duration),
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
        .flat_map(|stage| {
            let scenario = &plan.stages[stage].scenario;
            let of = (scenario.name.as_str(), scenario.duration);
            plan.policies
                .iter()
                .map(move |policy| job(stage, of, policy))
        })
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
        let mut progress = Progress::new(match std::io::stderr().is_terminal() {
            true => To::Terminal,
            false => To::Log,
        });
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

fn job<'a>(stage: usize, of: (&'a str, Duration), policy: &'a str) -> Job<'a> {
    Job {
        stage,
        of,
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

/// Where progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Terminal,
    Log,
}

impl To {
    /// Between two lines.
    fn every(self) -> Duration {
        match self {
            Self::Terminal => LINE,
            Self::Log => LOG_LINE,
        }
    }

    /// How long a run takes of which something is shown.
    fn after(self) -> Duration {
        match self {
            Self::Terminal => SILENT,
            Self::Log => LOG_LINE,
        }
    }
}

/// What is said of jobs that run.
struct Progress {
    to: To,
    begun: Instant,
    last: Option<Instant>,
}

impl Progress {
    fn new(to: To) -> Self {
        Self {
            to,
            begun: Instant::now(),
            last: None,
        }
    }

    fn look(&mut self, jobs: &[Job<'_>], err: &mut dyn Write) {
        let now = Instant::now();
        let is_due = self.last.is_none_or(|last| now - last >= self.to.every());
        if !is_due || now - self.begun < self.to.after() {
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
        let _ = match self.to {
            To::Terminal => write!(err, "\r{line}\u{1b}[K"),
            To::Log => writeln!(err, "{line}{}", Standing(jobs)),
        }
        .and_then(|()| err.flush());
    }

    /// Leaves a terminal as it was.
    fn end(&self, err: &mut dyn Write) {
        if self.last.is_some() && self.to == To::Terminal {
            let _ = write!(err, "\r\u{1b}[K").and_then(|()| err.flush());
        }
    }
}

/// Where each job that runs stands in virtual time.
struct Standing<'a>(&'a [Job<'a>]);

impl fmt::Display for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for job in self.0 {
            let done = job.done.load(Ordering::Relaxed);
            if done == 0 || done == WHOLE {
                continue;
            }
            let (name, whole) = job.of;
            let at = whole.mul_f64(done as f64 / WHOLE as f64).as_secs();
            let (policy, whole) = (job.policy, whole.as_secs());
            write!(f, "; {name}, {policy}: {at} of {whole} virtual s")?;
        }
        Ok(())
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
    #![allow(clippy::unwrap_used)]
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

    fn half_done() -> Job<'static> {
        let job = job(0, ("night", Duration::from_secs(3_600)), "a");
        job.done.store(WHOLE / 2, Ordering::Relaxed);
        job
    }

    /// What is said of a run that began so long ago, looked at twice.
    fn said(to: To, ago: Duration) -> String {
        let mut progress = Progress {
            begun: Instant::now() - ago,
            ..Progress::new(to)
        };
        let (jobs, mut said) = ([half_done()], Vec::new());
        progress.look(&jobs, &mut said);
        progress.look(&jobs, &mut said);
        progress.end(&mut said);
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn a_short_run_is_told_nothing() {
        let little = Duration::from_millis(500);
        assert_eq!(said(To::Terminal, SILENT - little), "");
        assert_eq!(said(To::Log, LOG_LINE - little), "");
    }

    #[test]
    fn a_line_on_a_terminal_comes_not_more_often_than_a_person_reads_and_goes() {
        let said = said(To::Terminal, 2 * SILENT);
        let lines = said.matches('\r').count();
        assert_eq!(lines, 2, "one line, and its end");
        assert!(said.ends_with("\r\u{1b}[K") && !said.contains('\n'));
    }

    #[test]
    fn a_log_says_where_each_job_stands_and_nothing_that_moves_a_cursor() {
        let said = said(To::Log, LOG_LINE);
        let line = format!(
            "[{}{}]  50 %, 10 s, about 10 s to go; night, a: 1800 of 3600 virtual s\n",
            "#".repeat(15),
            ".".repeat(15)
        );
        assert_eq!(said, line);
    }

    #[test]
    fn of_jobs_that_have_not_begun_or_are_over_nothing_is_said() {
        for done in [0, WHOLE] {
            let job = half_done();
            job.done.store(done, Ordering::Relaxed);
            assert_eq!(Standing(&[job]).to_string(), "");
        }
    }
}
