//! May I dial this server?
//!
//! A server that does not answer costs each caller a dial's timeout, and each dial costs
//! the server, when it is back, a handshake. So after a few failures in a row dials fail
//! at once, and one of them now and then finds out (the *probe*).
//!
//! ```text
//!          3 failures in a row, or a connection that died young
//!   Ready ──────────────────────────────────────────────────→ Backoff{until}
//!     ↑                                                         │     ↑
//!     │                              first dial after `until`   │     │ it failed, was dropped,
//!     │                                                         ↓     │ or its lease ran out
//!     └───── the probe succeeded ─────────────────── Probing{generation, lease}
//! ```
//!
//! - **Permits.** A dial needs a [`DialPermit`], and reporting its result consumes it.
//!   Permits carry the generation of the gate that gave them; every change of state
//!   begins another. A dial that began before the block and ends late is of an older
//!   one and changes nothing (R-35): only the probe's own permit moves a blocked gate.
//! - **Dropped** permits mark themselves, from any thread and without a lock; the next
//!   call frees the probe's slot. That is no failure. Still, the next probe comes one
//!   wait after the one that was dropped, or a caller who cancels in a loop would dial
//!   in a loop.
//! - **Hung** probes lose their slot when the lease ends, which is a failure; whoever
//!   runs the dial is told to abort it.
//! - **Success** opens the gate at once. The exponent is forgotten only when the
//!   connection lived `stable_after`: a server that accepts and dies is dialled ever
//!   more rarely (case B06), and after an evening's connection the waits begin anew
//!   (case B07).
//! - **Established connections** are nothing to the gate (R-34): it is asked by dials.
//!
//! Below the threshold a redial waits `base_backoff`, so that a fast refusal is no
//! reason to be fast. With `failure_threshold` 0 every dial passes at once (R-30).
//!
//! The gate is plain state of one owner. Threads that share one put it behind a lock;
//! the slot is taken within `try_acquire`, so two callers cannot both become the probe.

mod permit;
mod status;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rand::rngs::SmallRng;
use serde::Serialize;

use self::permit::{Mark, Marks};
use super::backoff::{Backoff, after};
use crate::config::DialGateConfig;

pub use self::permit::DialPermit;
pub use self::status::{DialGateStatus, GateState};

/// When a dial may be tried, and why not at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAt {
    /// When asking again may bring something else.
    pub at: Instant,
    /// Why not at once.
    pub reason: RetryReason,
}

/// Why a dial fails without dialling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryReason {
    /// A dial failed or a connection ended a moment ago.
    Recent,
    /// Too many dials in a row failed.
    Blocked,
    /// Another dial is finding out whether the server is back.
    ProbeInFlight,
}

impl fmt::Display for RetryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recent => "a dial failed or a connection ended a moment ago",
            Self::Blocked => "the last dials in a row failed",
            Self::ProbeInFlight => "another dial is finding out whether the server is back",
        })
    }
}

#[derive(Debug)]
enum State {
    Ready,
    Backoff { until: Instant },
    Probing(Probe),
}

#[derive(Debug)]
struct Probe {
    generation: u64,
    lease: Instant,
    /// When the next one may come if this one is dropped.
    next: Instant,
    marks: Arc<Marks>,
}

/// A probe whose lease ran out, until its owner is told.
#[derive(Debug)]
struct Expired {
    number: u64,
    since: Instant,
    marks: Arc<Marks>,
}

impl Expired {
    /// A dial that was dropped meanwhile needs no abort.
    fn is_under_way(&self) -> bool {
        !self.marks.is(Mark::Dropped)
    }
}

/// The gate before one server.
#[derive(Debug)]
pub struct DialGate {
    config: DialGateConfig,
    state: State,
    generation: u64,
    /// Waits of blocks; kept over a success until it proved stable.
    backoff: Backoff,
    /// Failed dials in a row while Ready, since the last success.
    failures: u32,
    /// Connections in a row that died before they were stable.
    died_young: u32,
    /// While Ready: no dial before this.
    not_before: Option<Instant>,
    /// When the last dial succeeded, until its connection ended or proved stable.
    standing: Option<Instant>,
    expired: Option<Expired>,
    rng: SmallRng,
}

impl DialGate {
    /// A gate that is Ready. `rng` draws its jitter.
    pub fn new(config: DialGateConfig, rng: SmallRng) -> Self {
        let backoff = Backoff::new(config.base_backoff, config.max_backoff, 0.5, 1.5);
        Self {
            config,
            state: State::Ready,
            generation: 0,
            backoff,
            failures: 0,
            died_young: 0,
            not_before: None,
            standing: None,
            expired: None,
            rng,
        }
    }

    /// A permit for one dial that begins at `now`.
    ///
    /// # Errors
    /// Dialling now is not wanted: when to ask again, and why.
    pub fn try_acquire(&mut self, now: Instant) -> Result<DialPermit, RetryAt> {
        if self.is_off() {
            return Ok(DialPermit::new(self.generation, None));
        }
        self.settle(now);
        let retry = |at, reason| Err(RetryAt { at, reason });
        match &self.state {
            State::Ready => match self.not_before.filter(|at| now < *at) {
                Some(at) => retry(at, RetryReason::Recent),
                None => Ok(DialPermit::new(self.generation, None)),
            },
            State::Backoff { until } if now < *until => retry(*until, RetryReason::Blocked),
            State::Backoff { .. } => Ok(self.probe(now)),
            State::Probing(probe) => retry(probe.lease, RetryReason::ProbeInFlight),
        }
    }

    /// The dial of this permit led to a connection.
    pub fn succeeded(&mut self, permit: DialPermit, now: Instant) {
        if !self.counts(&permit, now) {
            return;
        }
        if permit.is_probe() {
            self.move_to(State::Ready);
        }
        self.failures = 0;
        self.not_before = None;
        self.standing = Some(now);
    }

    /// The dial of this permit failed, for whatever reason.
    pub fn failed(&mut self, permit: DialPermit, now: Instant) {
        if !self.counts(&permit, now) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if permit.is_probe() || self.failures >= self.config.failure_threshold {
            self.block(now);
        } else {
            let wait = self.base_wait();
            self.not_before = self.not_before.max(Some(after(now, wait)));
        }
    }

    /// A connection to the server ended after it had `lived`.
    ///
    /// A blocked gate does not care. One that is Ready redials a stable server within
    /// `redial_spread`, and blocks one step higher before one that accepts and dies.
    pub fn on_connection_ended(&mut self, lived: Duration, now: Instant) {
        self.settle(now);
        if self.is_off() || !matches!(self.state, State::Ready) {
            return;
        }
        self.standing = None;
        if lived >= self.config.stable_after {
            self.forget();
            self.spread(now);
        } else {
            self.died_young = self.died_young.saturating_add(1);
            self.block(now);
        }
    }

    /// The server answered a connection that had `lived` with a stateless reset: it is
    /// there, and knows nothing of us. That opens a gate that waits, for a dial within
    /// `redial_spread`, if the connection was stable; a server that resets what it has
    /// just accepted proves nothing by that. The exponent stays until a connection is
    /// stable.
    pub fn on_stateless_reset(&mut self, lived: Duration, now: Instant) {
        self.settle(now);
        let waits = matches!(self.state, State::Backoff { .. });
        if self.is_off() || !waits || lived < self.config.stable_after {
            return;
        }
        self.move_to(State::Ready);
        self.failures = 0;
        self.spread(now);
    }

    /// Forgets everything: Ready, as new. Results of dials under way change nothing.
    pub fn reset(&mut self) {
        self.forget();
        self.not_before = None;
        self.standing = None;
        self.move_to(State::Ready);
    }

    /// When the probe's lease ends, while there is one, and what that is called. Due at
    /// once while a dial waits to be told that it is to be aborted.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if let Some(expired) = self.expired.as_ref().filter(|e| e.is_under_way()) {
            return Some((expired.since, "dial abort"));
        }
        match &self.state {
            State::Probing(probe) => Some((probe.lease, "dial lease")),
            State::Ready | State::Backoff { .. } => None,
        }
    }

    /// Ends what is due. Returns the [`DialPermit::number`] of a dial that must be
    /// aborted because its lease ran out: once for each.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<u64> {
        self.settle(now);
        let expired = self.expired.take().filter(Expired::is_under_way);
        expired.map(|expired| expired.number)
    }

    /// Failed dials in a row as far as they are remembered; saturates.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn is_off(&self) -> bool {
        self.config.failure_threshold == 0
    }

    /// Whether the result of this permit's dial counts: its generation is the present
    /// one. That is the probe's while Probing, and any since the last block while Ready;
    /// Backoff begins a generation and gives no permit in it.
    fn counts(&mut self, permit: &DialPermit, now: Instant) -> bool {
        self.settle(now);
        !self.is_off() && permit.number() == self.generation
    }

    /// What has come to pass since the last call: a probe that was dropped or that hangs,
    /// a connection that proved stable.
    fn settle(&mut self, now: Instant) {
        if let Some(since) = self.standing
            && now.saturating_duration_since(since) >= self.config.stable_after
        {
            self.standing = None;
            self.backoff.succeeded();
            self.died_young = 0;
        }
        let State::Probing(probe) = &self.state else {
            return;
        };
        if probe.marks.is(Mark::Dropped) {
            let until = probe.next;
            self.move_to(State::Backoff { until });
        } else if now >= probe.lease {
            probe.marks.set(Mark::Expired);
            self.expired = Some(Expired {
                number: probe.generation,
                since: now,
                marks: Arc::clone(&probe.marks),
            });
            self.failures = self.failures.saturating_add(1);
            self.block(now);
        }
    }

    fn probe(&mut self, now: Instant) -> DialPermit {
        let wait = self.backoff.draw(&mut self.rng).min(self.config.lease);
        let marks = Arc::new(Marks::default());
        let lease = after(now, self.config.lease);
        self.move_to(State::Probing(Probe {
            generation: self.generation.wrapping_add(1),
            lease,
            next: after(now, wait),
            marks: Arc::clone(&marks),
        }));
        DialPermit::new(self.generation, Some((marks, lease)))
    }

    fn block(&mut self, now: Instant) {
        let wait = self.backoff.failed(&mut self.rng);
        let until = after(now, wait);
        self.not_before = None;
        self.standing = None;
        self.move_to(State::Backoff { until });
    }

    fn move_to(&mut self, state: State) {
        self.generation = self.generation.wrapping_add(1);
        self.state = state;
    }

    fn forget(&mut self) {
        self.backoff.succeeded();
        self.failures = 0;
        self.died_young = 0;
    }

    fn base_wait(&mut self) -> Duration {
        let (base, max) = (self.config.base_backoff, self.config.max_backoff);
        Backoff::new(base, max, 0.5, 1.5).draw(&mut self.rng)
    }

    fn spread(&mut self, now: Instant) {
        let wait = self.config.redial_spread.mul_f64(self.rng.random::<f64>());
        self.not_before = self.not_before.max(Some(after(now, wait)));
    }
}
