//! When to dial the provider.
//!
//! ```text
//! Waiting{until} --until--> Dialing --connected--> Greeting --WELCOME--> Up
//!      ^                      |                       |                  |
//!      +---- backoff ---------+---- dial_timeout -----+                  |
//!      +---- uniform on [0, 1 s] when it lived ≥ STABLE_AFTER, else backoff
//! ```
//!
//! Waits follow R-17: 5, 10, 20, 40, 60 s. A success alone does not reset them:
//! a peer that accepts and dies at once would be redialled for ever (case B06).
//! Only a session that lived [`STABLE_AFTER`] is a success (case B07). After one,
//! the first redial is spread over a second, so that the clients of a restarted
//! provider do not return as a herd. A fast refusal waits like a slow one.
//!
//! The provider's gate ([`DialGate`], R-30 to R-36) has its say about each dial too.
//! With one provider its waits are the shorter ones; it is asked all the same, so
//! that its books are right whoever dials the provider next.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::config::ClientConfig;
use crate::health::dial_gate::{DialGate, DialGateStatus, DialPermit, RetryAt};
use crate::health::{Backoff, Jitter};

/// A session that lived this long proves that the provider works.
pub(super) const STABLE_AFTER: Duration = Duration::from_secs(5);
/// The random factor of a fenced client's wait.
const FENCED_JITTER: Jitter = Jitter {
    low: 0.75,
    high: 1.0,
};
/// The first redial after a stable session comes within this time.
const FIRST_REDIAL_SPREAD: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting { until: Instant },
    Dialing { deadline: Instant },
    Greeting { deadline: Instant },
    Up { since: Instant },
}

#[derive(Debug)]
pub(super) struct Dial {
    state: State,
    backoff: Backoff,
    dial_timeout: Duration,
    attempt: u64,
    gate: DialGate,
    /// Of the dial that is under way.
    permit: Option<DialPermit>,
}

impl Dial {
    pub(super) fn new(config: &ClientConfig, seed: u64, now: Instant) -> Self {
        Self {
            state: State::Waiting { until: now },
            backoff: Backoff::new(config.reconnect_base, config.reconnect_max, 0.75, 1.25),
            dial_timeout: config.dial_timeout,
            attempt: 0,
            gate: DialGate::new(config.gate(), SmallRng::seed_from_u64(seed)),
            permit: None,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Dials so far; the number of the current one.
    pub(super) fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Goes on with the numbers of the place's dials before.
    pub(super) fn continue_from(&mut self, attempt: u64) {
        self.attempt = attempt;
    }

    /// Failed dials in a row.
    pub(super) fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// Starts a dial.
    ///
    /// # Errors
    /// When the provider's gate lets one through, and why not before.
    pub(super) fn start(&mut self, now: Instant) -> Result<(), RetryAt> {
        self.permit = Some(self.gate.try_acquire(now)?);
        self.attempt += 1;
        self.state = State::Dialing {
            deadline: now + self.dial_timeout,
        };
        Ok(())
    }

    /// The dial that was started just now does not take place.
    pub(super) fn cancel(&mut self, now: Instant) {
        self.permit = None;
        self.attempt -= 1;
        self.state = State::Waiting { until: now };
    }

    pub(super) fn gate_status(&self, now: Instant) -> DialGateStatus {
        self.gate.status(now)
    }

    /// A dial that is due has to wait for something else until then.
    pub(super) fn postpone(&mut self, until: Instant) {
        if let State::Waiting { .. } = self.state {
            self.state = State::Waiting { until };
        }
    }

    /// Whether a dial is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        matches!(self.state, State::Waiting { until } if now >= until)
    }

    /// The connection stands; the deadline stays that of the whole dial. Whether
    /// that is news.
    pub(super) fn on_connected(&mut self) -> bool {
        let State::Dialing { deadline } = self.state else {
            return false;
        };
        self.state = State::Greeting { deadline };
        true
    }

    pub(super) fn on_welcome(&mut self, now: Instant) {
        if let Some(permit) = self.permit.take() {
            self.gate.succeeded(permit, now);
        }
        self.state = State::Up { since: now };
    }

    /// The dial failed or the session ended; the wait until the next dial.
    ///
    /// One that was `fenced` waits longest at once: another client holds the same key,
    /// and two that dial in turn would end each other's sessions for ever.
    pub(super) fn on_ended(&mut self, fenced: bool, rng: &mut SmallRng, now: Instant) -> Duration {
        if let Some(permit) = self.permit.take() {
            self.gate.failed(permit, now);
        }
        let stable = match self.state {
            State::Up { since } => {
                let lived = now.saturating_duration_since(since);
                self.gate.on_connection_ended(lived, now);
                lived >= STABLE_AFTER
            }
            State::Waiting { .. } | State::Dialing { .. } | State::Greeting { .. } => false,
        };
        let wait = if fenced {
            let longest = self.backoff.interval(u32::MAX);
            FENCED_JITTER.apply(longest, longest, rng.random())
        } else if stable {
            self.backoff.succeeded();
            FIRST_REDIAL_SPREAD.mul_f64(rng.random::<f64>())
        } else {
            self.backoff.failed(rng)
        };
        self.state = State::Waiting { until: now + wait };
        wait
    }

    /// When this state ends by itself, and what that is called.
    pub(super) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        match self.state {
            State::Waiting { until } => Some((until, "dial")),
            State::Dialing { deadline } | State::Greeting { deadline } => {
                Some((deadline, "dial timeout"))
            }
            State::Up { .. } => None,
        }
    }

    /// Whether the dial took too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        match self.state {
            State::Dialing { deadline } | State::Greeting { deadline } => now >= deadline,
            State::Waiting { .. } | State::Up { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn setup(now: Instant) -> (Dial, SmallRng) {
        (
            Dial::new(&ClientConfig::default(), 7, now),
            SmallRng::seed_from_u64(3),
        )
    }

    #[test]
    fn a_refusal_at_once_waits_as_long_as_a_timeout() {
        // R-17
        let t0 = Instant::now();
        let (mut dial, mut rng) = setup(t0);
        assert!(dial.start(t0).is_ok());
        let wait = dial.on_ended(false, &mut rng, t0);
        assert!(wait >= S * 15 / 4 && wait <= S * 25 / 4, "{wait:?}");
        assert!(!dial.is_due(t0 + wait - Duration::from_nanos(1)));
        assert!(dial.is_due(t0 + wait));
        dial.start(t0 + wait).unwrap();
    }

    #[test]
    fn a_peer_that_accepts_and_dies_is_dialled_ever_more_rarely() {
        // case B06
        let mut now = Instant::now();
        let (mut dial, mut rng) = setup(now);
        let mut wait = Duration::ZERO;
        for _ in 0..1_000 {
            now += wait;
            while let Err(retry) = dial.start(now) {
                assert!(retry.at > now, "the gate asks for no time");
                now = retry.at;
            }
            dial.on_connected();
            dial.on_welcome(now);
            now += Duration::from_millis(1);
            wait = dial.on_ended(false, &mut rng, now);
        }
        assert!(wait >= 45 * S && wait <= 60 * S, "{wait:?}");
    }

    #[test]
    fn a_session_is_stable_from_five_seconds_on() {
        // case B07
        let t0 = Instant::now();
        for (life, stable) in [
            (STABLE_AFTER, true),
            (STABLE_AFTER - Duration::from_nanos(1), false),
        ] {
            let (mut dial, mut rng) = setup(t0);
            for _ in 0..5 {
                dial.on_ended(false, &mut rng, t0);
            }
            dial.on_welcome(t0);
            let wait = dial.on_ended(false, &mut rng, t0 + life);
            assert_eq!(wait <= S, stable, "{wait:?}");
            assert_eq!(dial.failures() == 0, stable);
        }
    }

    #[test]
    fn a_fenced_client_waits_longest_at_once() {
        let t0 = Instant::now();
        let (mut dial, mut rng) = setup(t0);
        dial.on_welcome(t0);
        let wait = dial.on_ended(true, &mut rng, t0 + 100 * S);
        assert!((45 * S..=60 * S).contains(&wait), "{wait:?}");
    }

    #[test]
    fn the_deadline_covers_dial_and_greeting_together() {
        let t0 = Instant::now();
        let (mut dial, _) = setup(t0);
        assert!(dial.start(t0).is_ok());
        dial.on_connected();
        let deadline = t0 + 15 * S;
        assert_eq!(dial.poll_timeout(), Some((deadline, "dial timeout")));
        assert!(!dial.is_overdue(deadline - Duration::from_nanos(1)));
        assert!(dial.is_overdue(deadline));
    }
}
