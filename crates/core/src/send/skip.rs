//! SKIP (RFC 3758): telling the peer to stop waiting for what was given up.
//!
//! `up_to` is the last number below which, and with which, everything is settled;
//! so a SKIP never passes a pack that may still arrive. It is owed from the moment
//! a given-up number lies there until the peer's cumulative has passed it:
//!
//! ```text
//!   nothing owed --given up--> wanted --sent--> waiting --PTO·2ⁿ or a PING--> wanted
//!        ^-------------- cumulative passed ---------+
//! ```
//!
//! While a SKIP waits for its answer, numbers given up later ride with the next
//! repetition: packs that expire a millisecond apart do not each draw a frame. The
//! repetitions widen on their own, up to `max_resend_interval`, because a lane
//! that has nothing but a SKIP to say has no other silence to count.

use std::time::{Duration, Instant};

use crate::health::backoff::doubled;

#[derive(Debug)]
pub(crate) struct SkipState {
    /// Given-up numbers lie below this.
    needed_end: u64,
    wanted: bool,
    sent_at: Option<Instant>,
    repeats: u32,
    interval_max: Duration,
    sent: u64,
}

impl SkipState {
    pub(crate) fn new(interval_max: Duration) -> Self {
        Self {
            needed_end: 0,
            wanted: false,
            sent_at: None,
            repeats: 0,
            interval_max,
            sent: 0,
        }
    }

    /// Given-up numbers lie below `given_up_end`, and the peer expects `cumulative` next.
    pub(crate) fn update(&mut self, given_up_end: u64, cumulative: u64) {
        let owed = given_up_end > cumulative;
        if !owed {
            (self.wanted, self.sent_at, self.repeats) = (false, None, 0);
        } else if given_up_end > self.needed_end && self.sent_at.is_none() {
            self.wanted = true;
        }
        self.needed_end = given_up_end;
    }

    /// The peer's cumulative moved, if not past everything: the path is alive.
    pub(crate) fn progressed(&mut self) {
        self.repeats = 0;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// A PING goes out, or the wait is over: say it again.
    pub(crate) fn repeat(&mut self) {
        self.wanted |= self.sent_at.is_some();
    }

    pub(crate) fn on_sent(&mut self, now: Instant) {
        if self.sent_at.is_some() {
            self.repeats = self.repeats.saturating_add(1);
        }
        self.wanted = false;
        self.sent_at = Some(now);
        self.sent += 1;
    }

    /// SKIPs sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// When to say it again, unless it is wanted already.
    pub(crate) fn due(&self, pto: Duration) -> Option<Instant> {
        if self.wanted {
            return None;
        }
        let wait = doubled(pto, self.repeats, self.interval_max.max(pto));
        self.sent_at?.checked_add(wait)
    }
}
