//! Does data make progress on this path (DESIGN §4: hush, stall, `data_dead`)?
//!
//! A path that does not answer must not be fed. Three waits, each longer than the
//! one before, take away what it may carry:
//!
//! ```text
//!            2 PTO without a frame        3 PTO and ≥ 1 s without progress
//!   well ──────────────────────→ hushed ──────────────────────────→ stalled
//!    ↑   any inbound frame          │                                  │ PONG, or anything acknowledged
//!    └──────────────────────────────┴──────────────────────────────────┘
//!                                            3 rounds of PONG without data ──→ dead
//! ```
//!
//! *Hushed*: no first send and no DGRAM; the lanes' silence timers speak. *Stalled*:
//! the lanes stop, only PINGs go, on a schedule of their own. Nothing is resent on a
//! PONG: the acknowledgements beside it are the evidence.
//!
//! A client asks at once, and often while a person waits. A provider, which may have a thousand
//! sleeping phones, asks ever more rarely: the first questions are for a short
//! stretch of heavy loss, which would otherwise cost it five seconds.
//!
//! *Without a frame* and *without progress* are two clocks, because a path may
//! answer and yet carry nothing. Both run only while something is unanswered that
//! wants an answer (a pack or a PING) and begin when it *left*: an idle path is
//! well, and waiting for the congestion window is not silence. A DGRAM wants no
//! answer. A path that carries nothing else asks with a PING when nothing came for
//! a while, and an overdue answer counts like a lane's silence.
//!
//! A client asks, too, when what was coming in stops. It may be over; or a router on
//! the way gave the client another port, and the provider goes on sending to the old
//! one. It cannot know better before the client speaks, and a client that only
//! receives has nothing to say until its keepalive. One question for each
//! [`FED_PACKETS`] at most: what comes a packet at a time is not doubled by it.
//!
//! *Dead*: PINGs are answered, what is resent never arrives, three times over at
//! least 3 s. *Gone*: no progress for `ack_timeout`, when all that was under way has
//! been given up. Either way the session is worth nothing and its owner ends it; a
//! provider waits a little longer, so that the client, which dials, is the first to
//! know.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::backoff::doubled;
use crate::config::{LaneConfig, PathHealthConfig};
use crate::path::Role;
use crate::send::rtt::Rtt;

/// How long a large round trip is remembered at least; twice that at most.
const RTT_MEMORY: Duration = Duration::from_secs(10);

/// How much longer than the client a provider waits for a session that is silent
/// (DESIGN §4, RESUME).
const PROVIDER_PATIENCE: Duration = Duration::from_secs(5);

/// Packets that come in before a client asks what became of the next.
///
/// 16: a question and its answer are a small part of as many packets, and a download
/// has more than that in its first tenth of a second.
const FED_PACKETS: u32 = 16;

/// What left the carrier's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departed {
    /// A pack for the first time.
    Pack,
    /// A pack once more.
    Resend,
    /// A PING.
    Ping,
    /// Packets that nobody acknowledges.
    Dgram,
}

/// What a path has to do about its health.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Send a PING.
    pub(crate) ping: bool,
    /// Stop the lanes.
    pub(crate) pause: bool,
    /// Let the lanes go on.
    pub(crate) resume: bool,
}

#[derive(Debug)]
struct Stall {
    since: Instant,
    next_ping: Instant,
    /// PINGs of this stall's schedule so far.
    pings: u32,
}

/// The largest round trip of late, in two halves of [`RTT_MEMORY`].
#[derive(Debug, Default)]
struct RecentMax {
    since: Option<Instant>,
    current: Duration,
    previous: Duration,
}

impl RecentMax {
    fn note(&mut self, sample: Duration, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= RTT_MEMORY {
            self.previous = std::mem::take(&mut self.current);
            self.since = Some(now);
        }
        self.current = self.current.max(sample);
    }

    fn get(&self) -> Duration {
        self.current.max(self.previous)
    }
}

/// Rounds in which the path answered and data did not arrive.
#[derive(Debug, Default)]
struct DeadRounds {
    count: u32,
    since: Option<Instant>,
    /// Something was resent since the last round.
    resent: bool,
}

/// The health of one path.
#[derive(Debug)]
pub(crate) struct PathHealth {
    config: PathHealthConfig,
    role: Role,
    rng: SmallRng,
    /// Without a sample, for the next connection.
    rtt_unknown: Rtt,
    rtt: Rtt,
    rtt_max: RecentMax,
    interval_max: Duration,
    gone_after: Duration,
    /// Since when something unanswered has met no inbound frame.
    unheard_since: Option<Instant>,
    /// Since when something unanswered has met no progress.
    stuck_since: Option<Instant>,
    /// When the first DGRAM left after the last inbound frame, or that frame came, if many
    /// did.
    unsure_since: Option<Instant>,
    /// Packets that came in since the last PING.
    fed: u32,
    /// When the PING that is unanswered left.
    ping_at: Option<Instant>,
    /// A PING was asked for and has not left.
    asking: bool,
    /// PINGs in a row that met silence.
    row: u32,
    stall: Option<Stall>,
    /// No connection carries the path.
    suspended: bool,
    /// A client's questions in a stall come often.
    eager: bool,
    prompted_at: Option<Instant>,
    dead: DeadRounds,
    stalls: u64,
    progress: u64,
}

impl PathHealth {
    pub(crate) fn new(config: PathHealthConfig, lane: &LaneConfig, role: Role, seed: u64) -> Self {
        let patience = match role {
            Role::Client => Duration::ZERO,
            Role::Provider => PROVIDER_PATIENCE,
        };
        Self {
            config,
            role,
            gone_after: lane.ack_timeout + patience,
            rng: SmallRng::seed_from_u64(seed),
            rtt: Rtt::new(lane),
            rtt_unknown: Rtt::new(lane),
            suspended: false,
            eager: true,
            rtt_max: RecentMax::default(),
            interval_max: lane.max_resend_interval,
            unheard_since: None,
            stuck_since: None,
            unsure_since: None,
            fed: 0,
            ping_at: None,
            asking: false,
            row: 0,
            stall: None,
            prompted_at: None,
            dead: DeadRounds::default(),
            stalls: 0,
            progress: 0,
        }
    }

    // --- facts -----------------------------------------------------------

    /// A round trip was measured, in which the peer says that it spent `delay`.
    pub(crate) fn on_rtt(&mut self, latest: Duration, delay: Duration, now: Instant) {
        self.rtt.sample(latest, delay);
        self.rtt_max.note(latest, now);
    }

    /// The connection is gone. What it measured says nothing about the next one; for
    /// how long nothing made progress is not forgotten.
    pub(crate) fn suspend(&mut self, now: Instant) {
        self.suspended = true;
        self.rtt = self.rtt_unknown.clone();
        self.rtt_max = RecentMax::default();
        (self.unheard_since, self.unsure_since, self.fed) = (None, None, 0);
        (self.ping_at, self.asking, self.row) = (None, false, 0);
        (self.stall, self.prompted_at) = (None, None);
        self.dead = DeadRounds::default();
        self.stuck_since.get_or_insert(now);
    }

    /// Another connection carries the path.
    pub(crate) fn end_suspension(&mut self) {
        (self.suspended, self.stuck_since) = (false, None);
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Something left the carrier's queue.
    pub(crate) fn on_departed(&mut self, what: Departed, now: Instant) {
        match what {
            Departed::Dgram => {
                self.unsure_since.get_or_insert(now);
                return;
            }
            Departed::Ping => {
                self.ping_at = Some(now);
                (self.asking, self.fed) = (false, 0);
            }
            Departed::Resend => self.dead.resent = true,
            Departed::Pack => {}
        }
        self.unheard_since.get_or_insert(now);
        self.stuck_since.get_or_insert(now);
    }

    /// A packet of the other end's came in.
    pub(crate) fn on_fed(&mut self) {
        if self.role == Role::Client {
            self.fed = self.fed.saturating_add(1);
        }
    }

    /// A frame came in; `unacked`: packs wait for an acknowledgement.
    pub(crate) fn on_heard(&mut self, unacked: bool, now: Instant) -> Change {
        self.unsure_since = (self.fed >= FED_PACKETS).then_some(now);
        self.row = 0;
        self.unheard_since = self.is_open(unacked).then_some(now);
        Change {
            ping: self.is_stalled() && self.prompt(now),
            ..Change::default()
        }
    }

    /// Something was acknowledged for the first time.
    pub(crate) fn on_progress(&mut self, unacked: bool, now: Instant) -> Change {
        self.progress += 1;
        // A PING that was lost is not waited for once its time is over.
        if self.ping_at.is_some_and(|at| at + self.rtt.pto() <= now) {
            self.ping_at = None;
        }
        self.dead = DeadRounds::default();
        self.go_on(unacked, now)
    }

    /// The PING that was unanswered is answered.
    pub(crate) fn on_pong(&mut self, unacked: bool, now: Instant) -> Change {
        self.progress += 1;
        self.ping_at = None;
        if !unacked {
            self.dead = DeadRounds::default();
        } else if std::mem::take(&mut self.dead.resent) {
            self.dead.count = self.dead.count.saturating_add(1);
            self.dead.since.get_or_insert(now);
        }
        if !unacked || self.is_stalled() {
            return self.go_on(unacked, now);
        }
        Change::default()
    }

    fn go_on(&mut self, unacked: bool, now: Instant) -> Change {
        self.stuck_since = self.is_open(unacked).then_some(now);
        self.unheard_since = self.stuck_since;
        Change {
            resume: self.stall.take().is_some(),
            ..Change::default()
        }
    }

    /// Whether something is unanswered that wants an answer.
    fn is_open(&self, unacked: bool) -> bool {
        unacked || self.ping_at.is_some()
    }

    /// The user has a packet to send, or the network changed: worth a question, now and then.
    pub(crate) fn on_demand(&mut self, now: Instant) -> Change {
        Change {
            ping: self.is_stalled() && self.prompt(now),
            ..Change::default()
        }
    }

    /// Whether a client asks often while it stalls, from here on; whether that is new.
    pub(crate) fn set_eager(&mut self, eager: bool, now: Instant) -> bool {
        if std::mem::replace(&mut self.eager, eager) == eager {
            return false;
        }
        let Some(stall) = self.stall.as_ref().filter(|_| eager) else {
            return true;
        };
        let age = now.saturating_duration_since(stall.since);
        let next_ping = now + self.ping_wait(age, 0);
        if let Some(stall) = &mut self.stall {
            stall.next_ping = stall.next_ping.min(next_ping);
        }
        true
    }

    fn prompt(&mut self, now: Instant) -> bool {
        let rests = |at: Instant| now.saturating_duration_since(at) < self.config.prompted_ping_min;
        if self.prompted_at.is_some_and(rests) {
            return false;
        }
        self.prompted_at = Some(now);
        true
    }

    // --- answers ---------------------------------------------------------

    /// Whether an answer is overdue, which may become a hush.
    pub(crate) fn is_doubtful(&self, now: Instant) -> bool {
        let overdue = |since: Instant| now.saturating_duration_since(since) >= self.rtt.pto();
        self.is_stalled() || self.unheard_since.is_some_and(overdue)
    }

    /// Whether nothing may be sent for the first time.
    pub(crate) fn is_hushed(&self, now: Instant) -> bool {
        self.is_stalled() || self.hushed_at().is_some_and(|at| at <= now)
    }

    fn hushed_at(&self) -> Option<Instant> {
        let wait = self.rtt.pto().saturating_mul(self.config.hush_ptos);
        self.unheard_since?.checked_add(wait)
    }

    /// Whether nothing but PINGs and answers may be sent.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stall.is_some() || self.suspended
    }

    /// Whether the path answers and yet carries no data.
    pub(crate) fn is_dead(&self, now: Instant) -> bool {
        let long = |since| now.saturating_duration_since(since) >= self.config.data_dead_time_min;
        self.dead.count >= self.config.data_dead_rounds && self.dead.since.is_some_and(long)
    }

    /// Whether nothing made progress for so long that the session is over.
    pub(crate) fn is_gone(&self, now: Instant) -> bool {
        self.gone_at().is_some_and(|at| at <= now)
    }

    fn gone_at(&self) -> Option<Instant> {
        self.stuck_since?.checked_add(self.gone_after)
    }

    /// How long that is.
    pub(crate) fn gone_after(&self) -> Duration {
        self.gone_after
    }

    /// The smoothed round trip, once there is a sample.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// Acknowledgements and answers so far that were news.
    pub(crate) fn progress(&self) -> u64 {
        self.progress
    }

    /// Stalls so far.
    pub(crate) fn stalls(&self) -> u64 {
        self.stalls
    }

    // --- time ------------------------------------------------------------

    fn stalls_at(&self) -> Option<Instant> {
        if self.is_stalled() {
            return None;
        }
        let wait = self.rtt.pto().saturating_mul(self.config.stall_ptos);
        let wait = wait
            .max(self.config.stall_time_min)
            .max(self.rtt_max.get().saturating_mul(2));
        self.stuck_since?.checked_add(wait)
    }

    /// When a path whose lanes have nothing to ask with asks with a PING.
    fn asks_at(&self, unacked: bool) -> Option<Instant> {
        if unacked || self.asking || self.is_stalled() {
            return None;
        }
        let pto = self.rtt.pto();
        if let Some(at) = self.ping_at {
            return at.checked_add(doubled(pto, self.row, self.interval_max.max(pto)));
        }
        self.unsure_since?
            .checked_add(self.config.ask_after_min.max(pto))
    }

    /// When to call [`PathHealth::handle_timeout`], and why.
    pub(crate) fn poll_timeout(&self, unacked: bool) -> Option<(Instant, &'static str)> {
        let timers = [
            (self.stalls_at(), "stall"),
            (self.gone_at(), "gone"),
            (self.asks_at(unacked), "ask"),
            (self.stall.as_ref().map(|stall| stall.next_ping), "stalled"),
        ];
        let due = |(at, why): (Option<Instant>, &'static str)| at.map(|at| (at, why));
        timers.into_iter().filter_map(due).min_by_key(|(at, _)| *at)
    }

    /// Does what is due at `now`.
    pub(crate) fn handle_timeout(&mut self, unacked: bool, now: Instant) -> Change {
        let mut change = Change::default();
        if self.asks_at(unacked).is_some_and(|at| at <= now) {
            if self.ping_at.is_some() {
                self.row = self.row.saturating_add(1);
            }
            self.asking = true;
            change.ping = true;
        }
        if self.stalls_at().is_some_and(|at| at <= now) {
            self.stalls += 1;
            let next_ping = now + self.ping_wait(Duration::ZERO, 0);
            self.stall = Some(Stall {
                since: now,
                next_ping,
                pings: 0,
            });
            change.pause = true;
            // Some lost answers look like this on a path of heavy loss; one more
            // question, and the next answer ends it.
            change.ping = self.role == Role::Client;
        }
        if let Some((age, pings)) = self.asks_in_stall(now) {
            let next_ping = now + self.ping_wait(age, pings);
            if let Some(stall) = &mut self.stall {
                (stall.next_ping, stall.pings) = (next_ping, pings);
            }
            change.ping = true;
        }
        change
    }

    /// How long the stall lasts and which PING of it is due.
    fn asks_in_stall(&self, now: Instant) -> Option<(Duration, u32)> {
        let stall = self.stall.as_ref().filter(|stall| stall.next_ping <= now)?;
        let age = now.saturating_duration_since(stall.since);
        Some((age, stall.pings.saturating_add(1)))
    }

    /// The wait after so many PINGs of a stall of this age.
    fn ping_wait(&mut self, age: Duration, pings: u32) -> Duration {
        let lazy = self.config.stalled_ping_lazy;
        let (low, high) = (self.config.stalled_ping_min, self.config.stalled_ping_max);
        let eager = low + high.saturating_sub(low).mul_f64(self.rng.random());
        match self.role {
            Role::Client if self.eager && age < self.config.stalled_ping_eager => eager,
            Role::Client => lazy,
            Role::Provider => doubled(eager, pings, lazy),
        }
    }
}

#[cfg(test)]
mod tests;
