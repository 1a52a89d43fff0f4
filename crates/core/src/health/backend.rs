//! Does the control plane answer (DESIGN §5)?
//!
//! Everything of a process that talks to the backend tells one [`BackendHealth`], and
//! everything that paces itself by the backend asks it. Two questions, two answers:
//!
//! - **Is it degraded?** One atomic word for each kind of work, [`LastBackendFail`], so
//!   that lanes may ask at every resend. A kind that failed `failures_to_degrade` times
//!   in a row degrades the backend until a success *of that kind*: no passing of time
//!   makes an outage less of one (R-16), and an authentication that works says nothing
//!   about contracts that fail. Every failure is written (R-15); what is logged of it
//!   is for others to decide.
//! - **May I ask it?** [`BackendHealth::admit`]: at once, as a probe, or not before a
//!   given time, with the reason. What is in flight is bounded, and a backend that is
//!   degraded gets one probe at a time of each kind, 5 to 30 s apart.
//!
//! ```text
//!                    failure × 3, each in another 500 ms
//!        well ──────────────────────────────────────────→ degraded
//!         ↑    a success of that kind, begun since the last one    │
//!         └────────────────────────────────────────────────────────┘
//! ```
//!
//! What an attempt's end means:
//!
//! | end | call | counts as |
//! |---|---|---|
//! | answered as hoped | `succeeded` | answer |
//! | refused by its content (4xx) | `refused` | answer |
//! | too many requests (429) | `throttled` | answer, and a wait |
//! | overloaded (503) | `unavailable` | failure, and the wait it may name |
//! | timeout, reset, unreadable, other 5xx | `failed` | failure |
//! | dropped | | nothing |
//!
//! An answer that took more than `attempt_timeout` is a failure: a backend that answers
//! after 14 s is not one that a dial can wait for.

mod pace;
mod several;
mod status;
mod word;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng as _};
use serde::Serialize;

use self::pace::{Pace, Place, Standing};
use super::sync::{Mutex, lock};
use crate::config::BackendHealthConfig;
use crate::send::Degraded;

pub use self::several::Backends;
pub use self::status::{BackendState, BackendStatus, WorkStatus};
pub use self::word::{FailRecord, LastBackendFail};

/// What a process asks of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Who am I, and may I?
    Auth,
    /// Which providers are there?
    Catalog,
    /// Contracts and receipts.
    Contract,
    /// A question for its own sake, and what an embedder knows from elsewhere.
    Probe,
}

impl Work {
    /// All kinds, in the order of their words.
    pub const ALL: [Self; 4] = [Self::Auth, Self::Catalog, Self::Contract, Self::Probe];

    /// The name in status, metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Catalog => "catalog",
            Self::Contract => "contract",
            Self::Probe => "probe",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request under way. Reporting its end consumes it; dropped, it was cancelled.
#[derive(Debug)]
#[must_use = "an attempt that is dropped counts as cancelled"]
pub struct Attempt {
    work: Work,
    generation: u16,
    start: Instant,
    held: Duration,
    place: Option<Place>,
}

impl Attempt {
    /// What is asked for.
    pub fn work(&self) -> Work {
        self.work
    }

    /// The backend was asked to keep its answer back for up to `held` if it has nothing new
    /// (a long poll): it is slow only after that.
    pub fn held_for(self, held: Duration) -> Self {
        Self { held, ..self }
    }

    /// When it began.
    pub fn start(&self) -> Instant {
        self.start
    }
}

/// The answer to "may I ask the backend?".
#[derive(Debug)]
#[must_use]
pub enum Admission {
    /// Yes.
    Go(Attempt),
    /// Yes, as the one that finds out whether it answers again.
    Probe(Attempt),
    /// Not yet.
    Wait(Wait),
}

/// Not before a time, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// When asking again may bring something else.
    pub until: Instant,
    /// Why not at once.
    pub reason: WaitReason,
}

/// Why a request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// The last attempt failed.
    Failed,
    /// The backend is degraded and asked ever more rarely.
    Degraded,
    /// The backend is degraded and a probe is under way.
    ProbeInFlight,
    /// As many requests of this kind are under way as may be.
    Busy,
    /// The backend said when to come again.
    RetryAfter,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "the last attempt failed",
            Self::Degraded => "the backend does not answer",
            Self::ProbeInFlight => "another request is finding out whether the backend answers",
            Self::Busy => "enough requests of this kind are under way",
            Self::RetryAfter => "the backend asked to be left alone",
        })
    }
}

/// One kind of work.
#[derive(Debug, Clone, Copy)]
struct Kind<'a> {
    last: &'a LastBackendFail,
    pace: &'a Mutex<Pace>,
}

/// The health of one backend. Shared by [`std::sync::Arc`]; all methods take `&self`.
#[derive(Debug)]
pub struct BackendHealth {
    config: BackendHealthConfig,
    /// Of each kind. Side by side: whoever sends asks all four, and of paces nothing.
    lasts: [LastBackendFail; 4],
    paces: [Mutex<Pace>; 4],
}

impl BackendHealth {
    /// A backend that has not failed. `epoch` is where its times are counted from: any
    /// moment not after the first call. `rng` seeds the jitter of its probes.
    pub fn new(config: BackendHealthConfig, epoch: Instant, rng: &mut impl Rng) -> Self {
        let lasts = Work::ALL.map(|_| LastBackendFail::new(epoch));
        let paces = Work::ALL.map(|_| Mutex::new(Pace::new(&config, SmallRng::from_rng(rng))));
        Self {
            config,
            lasts,
            paces,
        }
    }

    /// Asks whether a request may go at `now`. An attempt that comes with the answer is
    /// under way, and its end must be told. While the wait says otherwise, asking again
    /// costs nothing and changes nothing.
    pub fn admit(&self, work: Work, now: Instant) -> Admission {
        let kind = self.kind(work);
        let mut pace = lock(kind.pace);
        match pace.admit(&self.config, self.standing(work), now) {
            Ok((place, probe)) => {
                let attempt = self.attempt(work, Some(place), now);
                if probe {
                    Admission::Probe(attempt)
                } else {
                    Admission::Go(attempt)
                }
            }
            Err(wait) => Admission::Wait(wait),
        }
    }

    /// Begins an attempt unasked, for callers that have a pace of their own.
    pub fn begin(&self, work: Work, now: Instant) -> Attempt {
        self.attempt(work, None, now)
    }

    /// The attempt was answered as hoped.
    pub fn succeeded(&self, attempt: Attempt, now: Instant) {
        self.on_answer(attempt, None, now);
    }

    /// The attempt was answered with a refusal (4xx): the backend is there.
    pub fn refused(&self, attempt: Attempt, now: Instant) {
        self.on_answer(attempt, None, now);
    }

    /// The attempt was one too many (429); this kind of work rests for `retry_after`,
    /// `retry_after_max` at most.
    pub fn throttled(&self, attempt: Attempt, retry_after: Duration, now: Instant) {
        self.on_answer(attempt, Some(retry_after), now);
    }

    /// The attempt got no answer, or none that can be used.
    pub fn failed(&self, attempt: Attempt, now: Instant) {
        self.on_failure(attempt, None, now);
    }

    /// The backend is overloaded (503): a failure, and this kind of work rests for
    /// `retry_after` if that was said, `retry_after_max` at most.
    pub fn unavailable(&self, attempt: Attempt, retry_after: Option<Duration>, now: Instant) {
        self.on_failure(attempt, retry_after, now);
    }

    /// An embedder knows from elsewhere that the backend failed; kept as [`Work::Probe`].
    pub fn note_failure(&self, now: Instant) {
        self.failed(self.begin(Work::Probe, now), now);
    }

    /// An embedder knows from elsewhere that the backend answers; ends what
    /// [`BackendHealth::note_failure`] began.
    pub fn note_success(&self, now: Instant) {
        self.succeeded(self.begin(Work::Probe, now), now);
    }

    /// Whether this kind of work alone degrades the backend.
    pub fn is_work_degraded(&self, work: Work) -> bool {
        self.is_streak_degraded(self.kind(work).last.record())
    }

    /// What the word of this kind says.
    pub fn record(&self, work: Work) -> FailRecord {
        self.kind(work).last.record()
    }

    fn kind(&self, work: Work) -> Kind<'_> {
        fn of<T>([auth, catalog, contract, probe]: &[T; 4], work: Work) -> &T {
            match work {
                Work::Auth => auth,
                Work::Catalog => catalog,
                Work::Contract => contract,
                Work::Probe => probe,
            }
        }
        Kind {
            last: of(&self.lasts, work),
            pace: of(&self.paces, work),
        }
    }

    fn attempt(&self, work: Work, place: Option<Place>, now: Instant) -> Attempt {
        Attempt {
            work,
            generation: self.record(work).generation,
            start: now,
            held: Duration::ZERO,
            place,
        }
    }

    fn standing(&self, work: Work) -> Standing {
        Standing {
            degraded: self.is_any_degraded(),
            failed: self.record(work).streak > 0,
        }
    }

    fn is_streak_degraded(&self, record: FailRecord) -> bool {
        record.streak >= self.config.failures_to_degrade.max(1)
    }

    fn is_any_degraded(&self) -> bool {
        Work::ALL.iter().any(|work| self.is_work_degraded(*work))
    }

    fn on_answer(&self, attempt: Attempt, hold: Option<Duration>, now: Instant) {
        let took = now.saturating_duration_since(attempt.start);
        if took > self.config.attempt_timeout.saturating_add(attempt.held) {
            return self.on_failure(attempt, hold, now);
        }
        let kind = self.kind(attempt.work);
        let counted = kind.last.succeed(attempt.generation);
        let elsewhere = self.is_any_degraded();
        let mut pace = lock(kind.pace);
        if let Some(wait) = hold {
            pace.hold(wait, &self.config, now);
        }
        if counted {
            pace.on_answered(attempt.place, elsewhere);
        } else {
            pace.on_outdated(attempt.place);
        }
    }

    fn on_failure(&self, attempt: Attempt, hold: Option<Duration>, now: Instant) {
        let kind = self.kind(attempt.work);
        let (_, record) = kind.last.fail(attempt.generation, now);
        let degraded = self.is_streak_degraded(record);
        let mut pace = lock(kind.pace);
        if let Some(wait) = hold {
            pace.hold(wait, &self.config, now);
        }
        pace.on_failed(attempt.place, &self.config, degraded, now);
    }
}

impl Degraded for BackendHealth {
    /// Four loads; never lapses by time.
    fn is_degraded(&self, _now: Instant) -> bool {
        self.is_any_degraded()
    }
}
