//! The backends of a process: who they are, who asks them, who may know how they are.
//!
//! ```text
//! probe (a task a URL) ──┐ reports                        ┌─ core: lanes widen (Signal)
//! embedder (notes) ──────┴→ BackendHealth each, Backends ─┼─ status: BackendReport
//!                                                         └─ log: changes, one a minute
//! ```
//!
//! The core decides when a backend may be asked and when it is degraded (DESIGN §5);
//! `probe` asks, `ask` is one question by HTTP, and this file holds them together.
//! Without a URL there is one health that nobody but the embedder feeds: with no notes it
//! never fails, and a process that has no control plane is never degraded.
//!
//! With its default settings a backend that dies is known to be down within
//! `check_interval` × 1.2 + 2 × `retry_interval` (38 s) where it refuses, 3 ×
//! `attempt_timeout` more (53 s) where it is silent; and one that is back is known to be
//! within `probe_interval_max` (30 s), and an `attempt_timeout` more where it was silent.

mod ask;
mod probe;
mod url;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use quell_core::config::{self, BackendHealthConfig, ConfigError};
use quell_core::health::backend::{Attempt, BackendState, Work, WorkStatus};
use quell_core::health::{BackendHealth, Backends, Signal};
use quell_core::send::Degraded as _;
use quell_tun::LogGate;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;
use tokio::sync::Notify;
use tracing::{info, warn};

use self::ask::Answer;
pub use self::url::{BackendUrl, BackendUrlError};
pub(crate) use probe::Prober;

use crate::engine::now;

/// Most backends of one process: each costs a greeting twice a minute, and together
/// they have to fit into what a process may send while nothing works (DESIGN §5).
pub const BACKENDS_MAX: usize = 4;

/// Which backends there are, and how they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendSettings {
    /// Where to ask, [`BACKENDS_MAX`] at most, each once. None: nobody is asked.
    pub urls: Vec<BackendUrl>,
    /// When, and what it takes to be degraded.
    pub health: BackendHealthConfig,
}

impl BackendSettings {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        config::number("backend.urls", self.urls.len(), 0..=BACKENDS_MAX).map_err(|error| {
            let (value, allowed) = (error.value, error.allowed);
            ConfigError::new(
                error.key,
                format!("{value} URLs"),
                format!("{allowed} of them"),
            )
        })?;
        let twice =
            |(index, url): &(usize, &BackendUrl)| self.urls.iter().take(*index).any(|u| u == *url);
        if let Some((index, url)) = self.urls.iter().enumerate().find(twice) {
            let key = format!("backend.urls[{index}]");
            return Err(ConfigError::new(key, url, "each URL once"));
        }
        Ok(Self {
            health: self.health.try_new()?,
            ..self
        })
    }
}

/// How all backends stand.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BackendReport {
    /// Whether all of them are degraded: lanes widen their waits.
    pub degraded: bool,
    /// All of it in one line for people.
    pub reason: String,
    /// Each of them.
    pub backends: Vec<BackendEntry>,
}

/// How one backend stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendEntry {
    /// Where it is asked, without its query; `None`: what the embedder noted.
    pub url: Option<String>,
    /// As a whole.
    pub state: BackendState,
    /// Why, in words.
    pub reason: String,
    /// What the last attempt that failed met, if none succeeded since.
    pub last_failure: Option<String>,
    /// How long ago that was, in seconds.
    pub failed_ago_s: Option<f64>,
    /// Until it is asked again, in seconds; `None`: at once, or when a session wants it.
    pub next_attempt_in_s: Option<f64>,
    /// Each kind of work.
    pub work: [WorkStatus; 4],
}

/// The backends of a process, shared by all who tell and ask.
#[derive(Debug, Clone)]
pub struct BackendHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    backends: Vec<Backend>,
    all: Arc<Backends>,
    /// Told when one of them turned.
    turns: Arc<Notify>,
}

/// One backend.
#[derive(Debug)]
struct Backend {
    url: Option<BackendUrl>,
    health: Arc<BackendHealth>,
    book: Mutex<Book>,
    turns: Arc<Notify>,
}

/// What is known of a backend beyond its health: for people alone.
#[derive(Debug)]
struct Book {
    answered: bool,
    failure: Option<String>,
    next_check: Option<Instant>,
    /// The state that the log ends with.
    told_degraded: bool,
    degraded: bool,
    went: LogGate,
    came: LogGate,
    rng: SmallRng,
}

impl BackendHandle {
    /// Healths of `settings`' backends. `seed` feeds their jitter.
    pub fn new(settings: &BackendSettings, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let epoch = now();
        let turns = Arc::new(Notify::new());
        let mut backend = |url| Backend {
            url,
            health: Arc::new(BackendHealth::new(settings.health.clone(), epoch, &mut rng)),
            book: Mutex::new(Book::new(SmallRng::from_rng(&mut rng))),
            turns: Arc::clone(&turns),
        };
        let backends: Vec<_> = match settings.urls.as_slice() {
            [] => vec![backend(None)],
            urls => urls.iter().cloned().map(Some).map(backend).collect(),
        };
        let healths = backends.iter().map(|backend| Arc::clone(&backend.health));
        let all = Arc::new(Backends::new(healths));
        Self(Arc::new(Shared {
            backends,
            all,
            turns,
        }))
    }

    /// The health of the first backend, which is quell's own kind where there is one.
    pub fn first(&self) -> Arc<BackendHealth> {
        match self.0.backends.first() {
            Some(backend) => Arc::clone(&backend.health),
            // There is always one, of nobody where no URL is set.
            None => Arc::new(BackendHealth::new(
                BackendHealthConfig::default(),
                now(),
                &mut SmallRng::seed_from_u64(0),
            )),
        }
    }

    /// What the core listens to.
    pub fn signal(&self) -> Signal {
        Signal::new(Arc::clone(&self.0.all) as _)
    }

    /// Told when a backend turned from well to degraded or back.
    pub(crate) fn turns(&self) -> Arc<Notify> {
        Arc::clone(&self.0.turns)
    }

    /// Whether all backends are degraded.
    pub fn is_degraded(&self) -> bool {
        self.0.all.is_degraded(now())
    }

    /// A call to the control plane failed, whichever it was: every backend is held to
    /// have failed one question. Several calls of one 500 ms count as one.
    pub fn note_failure(&self) {
        let now = now();
        for backend in &self.0.backends {
            backend.health.note_failure(now);
            backend.noted(Some("a call of the program above failed".to_owned()), now);
        }
    }

    /// A call to the control plane succeeded.
    pub fn note_success(&self) {
        let now = now();
        for backend in &self.0.backends {
            backend.health.note_success(now);
            backend.noted(None, now);
        }
    }

    /// How they stand.
    pub fn report(&self) -> BackendReport {
        let now = now();
        let untold = |backend: &&Backend| backend.url.is_some() || backend.book.lock().is_noted();
        let entries = self.0.backends.iter().filter(untold);
        let backends: Vec<_> = entries.map(|backend| backend.entry(now)).collect();
        BackendReport {
            degraded: self.is_degraded(),
            reason: in_one_line(&backends),
            backends,
        }
    }
}

/// The state of the worst, and whose it is.
fn in_one_line(backends: &[BackendEntry]) -> String {
    let rank = |entry: &&BackendEntry| match entry.state {
        BackendState::Well => 0,
        BackendState::Failing => 1,
        BackendState::Degraded => 2,
    };
    let Some(worst) = backends.iter().max_by_key(rank) else {
        return "none configured".to_owned();
    };
    let well = backends.iter().filter(|entry| rank(entry) == 0).count();
    let count = backends.len();
    match (&worst.url, count) {
        (_, 1) | (None, _) => worst.reason.clone(),
        (Some(_), _) if well == count => format!("well: all {count}"),
        (Some(url), _) => format!("{well} of {count} well; {url}: {}", worst.reason),
    }
}

impl Backend {
    /// Tells the health how the attempt ended, and the book.
    fn report(&self, attempt: Attempt, answer: Answer, now: Instant) {
        let failure = match answer {
            Answer::Good => {
                self.health.succeeded(attempt, now);
                None
            }
            Answer::Refused => {
                self.health.refused(attempt, now);
                None
            }
            Answer::Throttled(wait) => {
                self.health.throttled(attempt, wait, now);
                None
            }
            Answer::Unavailable(wait) => {
                self.health.unavailable(attempt, wait, now);
                Some("it says that it is overloaded".to_owned())
            }
            Answer::Failed(words) => {
                self.health.failed(attempt, now);
                Some(words)
            }
        };
        self.noted(failure, now);
    }

    fn is_well(&self, now: Instant) -> bool {
        !self.health.is_degraded(now) && self.health.record(Work::Probe).streak == 0
    }

    /// Writes down what came, and says so where it changes what people should know.
    fn noted(&self, failure: Option<String>, now: Instant) {
        let degraded = self.health.is_degraded(now);
        let mut book = self.book.lock();
        book.answered |= failure.is_none();
        book.failure = failure;
        if book.degraded != degraded {
            self.turns.notify_one();
        }
        let Some(stands_for) = book.turn(degraded, now) else {
            return;
        };
        let backend = self.name();
        let suppressed = stands_for - 1;
        match book.failure.as_deref().filter(|_| degraded) {
            Some(words) => warn!(%backend, suppressed, "the backend is degraded: {words}"),
            None if degraded => warn!(%backend, suppressed, "the backend is degraded"),
            None => info!(%backend, suppressed, "the backend answers again"),
        }
    }

    fn name(&self) -> String {
        let noted = || "noted by the program above".to_owned();
        self.url.as_ref().map_or_else(noted, ToString::to_string)
    }

    fn entry(&self, now: Instant) -> BackendEntry {
        let status = self.health.status(now);
        let book = self.book.lock();
        let left = |at: Instant| {
            at.checked_duration_since(now)
                .map(|left| left.as_secs_f64())
        };
        let probe = status.work.iter().find(|work| work.work == Work::Probe);
        let paced = probe.and_then(|work| work.next_in_s);
        let ages = status.work.iter().filter_map(|work| work.failed_ago_s);
        let never = status.state == BackendState::Well && !book.answered;
        BackendEntry {
            url: self.url.as_ref().map(ToString::to_string),
            state: status.state,
            reason: match never {
                true => "well: not asked yet".to_owned(),
                false => status.reason,
            },
            last_failure: book.failure.clone(),
            failed_ago_s: ages.reduce(f64::min),
            next_attempt_in_s: paced.or_else(|| book.next_check.and_then(left)),
            work: status.work,
        }
    }
}

impl Book {
    fn new(rng: SmallRng) -> Self {
        Self {
            answered: false,
            failure: None,
            next_check: None,
            told_degraded: false,
            degraded: false,
            went: LogGate::default(),
            came: LogGate::default(),
            rng,
        }
    }

    fn is_noted(&self) -> bool {
        self.answered || self.failure.is_some()
    }

    /// How many changes a line about the present state stands for, if it is to be
    /// written. A change that was held back is told later, if it still holds then: what
    /// the log says last becomes true within a minute and the next attempt.
    fn turn(&mut self, degraded: bool, now: Instant) -> Option<u64> {
        let changed = std::mem::replace(&mut self.degraded, degraded) != degraded;
        let gate = match degraded {
            true => &mut self.went,
            false => &mut self.came,
        };
        let count = match changed {
            true => gate.admit(now),
            false if self.told_degraded != degraded => gate.release(now),
            false => None,
        };
        if count.is_some() {
            self.told_degraded = degraded;
        }
        count
    }

    /// A factor of the cadence: clients that started together are spread.
    fn spread(&mut self) -> f64 {
        self.rng.random_range(0.8..=1.2)
    }
}

#[cfg(test)]
mod tests;
