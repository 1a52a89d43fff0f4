//! The connection to one provider, which is dialled for as long as somebody wants it.
//!
//! ```text
//! Down ──wait──▶ Dialing ──▶ Up
//!   ▲               │ refused, or 15 s     │ lost
//!   └───────────────┴──────────────────────┘
//! ```
//!
//! The wait of the real system is uniform in [0, 5 s − what the attempt took): 2.5 s on average after a refusal, and none
//! at all after an attempt of 5 s or a connection that lived so long. It does not grow. So a provider that fails after
//! having served is dialled by all its clients at once, and one that refuses is dialled by each of them 24 times a minute.

use std::time::{Duration, Instant};

use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::rules::Reconnect;

/// How long a dial may take, handshake included.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

impl Reconnect {
    /// From the end of an attempt that took `took` to the next one; `failures` attempts in a row came to nothing.
    pub(crate) fn wait(&self, took: Duration, failures: u32, rng: &mut SmallRng) -> Duration {
        match *self {
            Self::Uniform { within } => {
                let left = within.saturating_sub(took);
                if left.is_zero() {
                    left
                } else {
                    rng.random_range(Duration::ZERO..left)
                }
            }
            Self::Doubling { wait_min, wait_max } => {
                let doublings = failures.saturating_sub(1).min(16);
                wait_min.saturating_mul(1 << doublings).min(wait_max)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Down { dial_at: Instant },
    Dialing { attempt: u64 },
    Up { attempt: u64 },
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkOutput {
    /// Dial under this number.
    Dial(u64),
    /// End the dial.
    Close,
}

/// The connection.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    state: State,
    dialled_at: Instant,
    failures: u32,
}

impl Link {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: State::Down { dial_at: now },
            dialled_at: now,
            failures: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Whether there is anything to close.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Down { .. })
    }

    /// Whether `attempt` is the connection that stands.
    pub(crate) fn is_current(&self, attempt: u64) -> bool {
        self.state == State::Up { attempt }
    }

    /// The dial succeeded; whether it is ours.
    pub(crate) fn on_connected(&mut self, attempt: u64) -> bool {
        if self.state != (State::Dialing { attempt }) {
            return false;
        }
        self.state = State::Up { attempt };
        self.failures = 0;
        true
    }

    /// The dial failed or the connection is gone; whether it was ours.
    pub(crate) fn on_closed(
        &mut self,
        attempt: u64,
        rule: &Reconnect,
        rng: &mut SmallRng,
        now: Instant,
    ) -> bool {
        if self.state != (State::Dialing { attempt }) && self.state != (State::Up { attempt }) {
            return false;
        }
        self.fall(rule, rng, now);
        true
    }

    fn fall(&mut self, rule: &Reconnect, rng: &mut SmallRng, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let took = now.saturating_duration_since(self.dialled_at);
        let dial_at = now + rule.wait(took, self.failures, rng);
        self.state = State::Down { dial_at };
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Down { dial_at } => Some(dial_at),
            State::Dialing { .. } => Some(self.dialled_at + CONNECT_TIMEOUT),
            State::Up { .. } => None,
        }
    }

    /// What is due; `next_attempt` numbers a dial.
    pub(crate) fn handle_timeout(
        &mut self,
        rule: &Reconnect,
        rng: &mut SmallRng,
        next_attempt: &mut u64,
        now: Instant,
    ) -> Option<LinkOutput> {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return None;
        }
        if self.is_open() {
            self.fall(rule, rng, now);
            return Some(LinkOutput::Close);
        }
        let attempt = *next_attempt;
        *next_attempt += 1;
        self.state = State::Dialing { attempt };
        self.dialled_at = now;
        Some(LinkOutput::Dial(attempt))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fleet::node::rng_of;
    use crate::policy::{report_fix, upstream_2026_05};

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// Dials in `until` at a provider that answers each of them after `took`, with a refusal.
    fn dials(rule: &Reconnect, took: Duration, until: Duration) -> Vec<Duration> {
        let start = Instant::now();
        let (mut rng, mut next) = (rng_of(1, 1), 0);
        let mut link = Link::new(start);
        let mut dials = Vec::new();
        while let Some(at) = link.poll_timeout()
            && at < start + until
        {
            match link.handle_timeout(rule, &mut rng, &mut next, at) {
                Some(LinkOutput::Dial(attempt)) => {
                    dials.push(at - start);
                    if took < CONNECT_TIMEOUT {
                        link.on_closed(attempt, rule, &mut rng, at + took);
                    }
                }
                Some(LinkOutput::Close) | None => {}
            }
        }
        dials
    }

    // R-21: dials of one client at one provider.
    #[test]
    fn a_refused_dial_is_repeated_24_times_a_minute_and_a_silent_one_4_times() {
        let rule = &upstream_2026_05::RULES.reconnect;
        let refused = dials(rule, Duration::from_millis(50), s(3_600)).len();
        assert!((1_300..1_600).contains(&refused), "{refused}");
        let silent = dials(rule, CONNECT_TIMEOUT, s(60));
        assert_eq!(silent, [s(0), s(15), s(30), s(45)]);
    }

    #[test]
    fn the_wait_is_what_is_left_of_5_s() {
        let rule = &upstream_2026_05::RULES.reconnect;
        let mut rng = rng_of(1, 2);
        assert!(rule.wait(s(4), 9, &mut rng) < s(1));
        assert_eq!(rule.wait(s(5), 9, &mut rng), Duration::ZERO);
    }

    #[test]
    fn the_fix_of_the_report_doubles_from_5_s_to_60_s() {
        let at = dials(&report_fix::RULES.reconnect, Duration::ZERO, s(200));
        assert_eq!(at, [s(0), s(5), s(15), s(35), s(75), s(135), s(195)]);
    }

    #[test]
    fn a_connection_that_lived_is_dialled_again_at_once() {
        let start = Instant::now();
        let rule = &upstream_2026_05::RULES.reconnect;
        let (mut rng, mut next) = (rng_of(1, 3), 7);
        let mut link = Link::new(start);
        link.handle_timeout(rule, &mut rng, &mut next, start);
        assert!(!link.on_connected(6));
        assert!(link.on_connected(7));
        assert!(link.is_up() && link.is_current(7) && link.poll_timeout().is_none());
        assert!(!link.on_closed(6, rule, &mut rng, start));
        assert!(link.on_closed(7, rule, &mut rng, start + s(100)));
        assert_eq!(link.poll_timeout(), Some(start + s(100)));
    }
}
