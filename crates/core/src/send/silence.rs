//! One timer a lane: what to wait before something is sent into a silence.
//!
//! ```text
//!   healthy   k = 0: PTO     k ≥ 1: min(PTO · 2ᵏ, 5 s), jittered inside the cap
//!   degraded  k = 0: PTO     k ≥ 1: max(spread, floor), jittered
//!             spread = time left of ack_timeout / (resends left + 1)
//!             floor  = min(healthy, ack_timeout / (max_resend_count + 1))
//!             and never earlier than a healthy row would have come to it
//! ```
//!
//! k counts the silences in a row; any newly acknowledged pack sets it to 0. The
//! first wait has no jitter: three quarters of a PTO may lie below the RTT.
//!
//! *Why the degraded rule has two floors.* A plain max(spread, healthy) could not
//! spend all resends: at 50 ms RTT the healthy wait is 5 s from k = 7 on and the
//! even spread 59.939 / 16 = 3.746 s, so the tenth resend would come at 37 s and
//! the fifteenth after the end. What must not happen is that a degraded lane
//! *outpaces* a healthy one. So the sum of the healthy waits is kept, and the
//! k-th silence is due no earlier than that sum: on a slow path (healthy 5 s,
//! spread 3.6 s) it governs. And a lane that has fallen far behind that sum must
//! not catch up with a pack that has many resends and little time left: no wait
//! is shorter than the even share of a pack's life, 60 / 17 = 3.529 s, or the
//! healthy wait where that is shorter.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::config::LaneConfig;
use crate::health::backoff::{Jitter, doubled};

/// The pack that a silence would resend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// When the wait began: its latest departure, or a later sign of life.
    pub(crate) since: Instant,
    /// When it will be given up; `None`: a PING is asked for instead.
    pub(crate) life: Option<Life>,
}

/// What is left of a pack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) ends: Instant,
    pub(crate) resends_left: u8,
}

#[derive(Debug)]
pub(crate) struct Silence {
    /// Silences in a row.
    row: u32,
    /// When the latest silence of the row would have come had all been healthy.
    healthy_at: Option<Instant>,
    /// The draw for the next wait, from [0, 1).
    unit: f64,
    rng: SmallRng,
    jitter: Jitter,
    interval_max: Duration,
    even_share: Duration,
}

impl Silence {
    pub(crate) fn new(config: &LaneConfig, seed: u64) -> Self {
        Self {
            row: 0,
            healthy_at: None,
            unit: 0.0,
            rng: SmallRng::seed_from_u64(seed),
            jitter: Jitter {
                low: config.jitter_min,
                high: config.jitter_max,
            },
            interval_max: config.max_resend_interval,
            even_share: config.ack_timeout / u32::from(config.sends_max()),
        }
    }

    /// Silences in a row so far.
    pub(crate) fn row(&self) -> u32 {
        self.row
    }

    /// The peer acknowledged something new.
    pub(crate) fn broken(&mut self) {
        self.row = 0;
        self.healthy_at = None;
    }

    fn healthy_wait(&self, pto: Duration) -> Duration {
        if self.row == 0 {
            return pto;
        }
        // Below one PTO no answer can be there, whatever the ceiling says.
        let cap = self.interval_max.max(pto);
        let interval = doubled(pto, self.row, cap);
        self.jitter.apply(interval, cap, self.unit).max(pto)
    }

    /// When the silence is there.
    pub(crate) fn due(&self, target: &Target, pto: Duration, degraded: bool) -> Option<Instant> {
        let healthy = self.healthy_wait(pto);
        let plain = target.since.checked_add(healthy);
        let (Some(life), true) = (target.life, degraded && self.row > 0) else {
            return plain;
        };
        let time_left = life.ends.saturating_duration_since(target.since);
        let spread = time_left / (u32::from(life.resends_left) + 1);
        let spread = self.jitter.apply(spread, time_left, self.unit);
        let wait = spread.max(healthy.min(self.even_share));
        let no_earlier = self.healthy_at.unwrap_or(target.since);
        target
            .since
            .checked_add(wait)
            .max(no_earlier.checked_add(healthy))
    }

    /// A silence was there: the next wait is longer.
    pub(crate) fn fired(&mut self, target: &Target, pto: Duration) {
        let from = self.healthy_at.unwrap_or(target.since);
        self.healthy_at = from.checked_add(self.healthy_wait(pto));
        self.row = self.row.saturating_add(1);
        self.unit = self.rng.random();
    }
}
