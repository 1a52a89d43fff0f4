//! A backend's health for people and programs: state, reason, next attempt.
//!
//! Made on request, consulted by no decision. Durations are relative to the moment of the
//! snapshot, so that a reader needs no clock in common with the process.

use std::fmt;
use std::time::Instant;

use serde::Serialize;

use super::{BackendHealth, Work};
use crate::health::sync::lock;

/// How a backend stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendState {
    /// Nothing has failed since it last answered.
    Well,
    /// Something failed, not often enough to call the backend degraded.
    Failing,
    /// A kind of work failed as often as it takes.
    Degraded,
}

/// One kind of work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkStatus {
    /// Which.
    pub work: Work,
    /// Whether it degrades the backend.
    pub degraded: bool,
    /// Failures in a row; 255 is 255 or more.
    pub failures: u8,
    /// How long ago the last of them was, in seconds.
    pub failed_ago_s: Option<f64>,
    /// How long until the next request may go, in seconds; `None`: at once.
    pub next_in_s: Option<f64>,
    /// Requests under way.
    pub in_flight: usize,
}

/// One backend. Its text is what `status` shows to people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendStatus {
    /// As a whole.
    pub state: BackendState,
    /// Why, in words.
    pub reason: String,
    /// Each kind of work.
    pub work: [WorkStatus; 4],
}

impl fmt::Display for BackendStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl BackendHealth {
    /// A snapshot in words and numbers.
    pub fn status(&self, now: Instant) -> BackendStatus {
        let work = Work::ALL.map(|work| self.work_status(work, now));
        let worst = work.iter().max_by_key(|w| (w.degraded, w.failures));
        let worst = worst.filter(|w| w.failures > 0);
        let state = match worst {
            None => BackendState::Well,
            Some(worst) if worst.degraded => BackendState::Degraded,
            Some(_) => BackendState::Failing,
        };
        let reason = worst.map_or_else(|| "well: it answers".to_owned(), |w| words(w, state));
        BackendStatus {
            state,
            reason,
            work,
        }
    }

    fn work_status(&self, work: Work, now: Instant) -> WorkStatus {
        let kind = self.kind(work);
        let seconds = |later: Instant, earlier: Instant| {
            later.saturating_duration_since(earlier).as_secs_f64()
        };
        let pace = lock(kind.pace);
        let next = pace.next_at(self.standing(work)).filter(|at| *at > now);
        WorkStatus {
            work,
            degraded: self.is_work_degraded(work),
            failures: kind.last.record().streak,
            failed_ago_s: kind.last.failed_at().map(|at| seconds(now, at)),
            next_in_s: next.map(|at| seconds(at, now)),
            in_flight: pace.in_flight(now),
        }
    }
}

// Whole seconds, rounded up: an attempt "in 0 s" would be under way.
fn words(worst: &WorkStatus, state: BackendState) -> String {
    let state = match state {
        BackendState::Well => "well",
        BackendState::Failing => "failing",
        BackendState::Degraded => "degraded",
    };
    let (work, failures) = (worst.work, worst.failures);
    let more = if failures == u8::MAX { " or more" } else { "" };
    let times = if failures == 1 { "time" } else { "times" };
    let last = worst
        .failed_ago_s
        .map(|ago| format!(", last {:.0} s ago", ago.ceil()));
    let next = worst.next_in_s.map_or_else(
        || "the next request may go at once".to_owned(),
        |wait| format!("next attempt in {:.0} s", wait.ceil()),
    );
    let last = last.unwrap_or_default();
    format!("{state}: {work} failed {failures}{more} {times} in a row{last}; {next}")
}
