//! Exponential waits between attempts: the one implementation.
//!
//! ```text
//! attempt     0      1      2          k
//! interval    base   2·base 4·base …   min(base·2ᵏ, max)
//! wait        a draw from [low·interval, min(high·interval, max)]
//! ```
//!
//! The random factor is drawn *inside* the cap, not clipped at it: a clipped
//! draw would put a share of all clients on exactly `max`, and they would come
//! back as a herd (cases B09, B17). Everything saturates: the exponent stops
//! growing where the interval does (case B08).
//!
//! [`Backoff`] keeps its row of failures itself. A lane's silence timer, whose
//! base moves with the RTT, takes the two pieces that it is made of:
//! [`doubled`] and [`Jitter`].

use std::time::{Duration, Instant};

use rand::{Rng, RngExt as _};

/// The wait after a row of failures.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    jitter: Jitter,
    failures: u32,
}

/// `base` doubled `times` times, never more than `max`; saturates.
pub fn doubled(base: Duration, times: u32, max: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    base.saturating_mul(factor).min(max)
}

/// `wait` after `now`; a wait that no clock can tell ends in thirty years.
pub(crate) fn after(now: Instant, wait: Duration) -> Instant {
    const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 86_400);
    now.checked_add(wait.min(FOR_EVER)).unwrap_or(now)
}

/// The range of the random factor of a wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter {
    /// The smallest factor.
    pub low: f64,
    /// The largest factor, where the cap leaves room for it.
    pub high: f64,
}

impl Jitter {
    /// `interval` times the factor that `unit`, drawn uniformly from [0, 1),
    /// picks from `low` to `min(high, cap / interval)`.
    pub fn apply(self, interval: Duration, cap: Duration, unit: f64) -> Duration {
        if interval.is_zero() {
            return Duration::ZERO;
        }
        let room = cap.as_secs_f64() / interval.as_secs_f64();
        let high = self.high.min(room);
        let low = self.low.min(high);
        let factor = low + (high - low) * unit;
        Duration::try_from_secs_f64(interval.as_secs_f64() * factor)
            .unwrap_or(cap)
            .min(cap)
    }
}

impl Backoff {
    /// Waits of `base`, doubling up to `max`, each times a random factor from
    /// `low` to `high` that never lifts it above `max`.
    ///
    /// `base` above `max` counts as `max`.
    pub fn new(base: Duration, max: Duration, low: f64, high: f64) -> Self {
        Self {
            base: base.min(max),
            max,
            jitter: Jitter { low, high },
            failures: 0,
        }
    }

    /// Failures in a row so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The interval after `failures` doublings, without jitter.
    pub fn interval(&self, failures: u32) -> Duration {
        doubled(self.base, failures, self.max)
    }

    /// Draws the wait that follows the failures so far, and counts nothing.
    pub fn draw(&self, rng: &mut impl Rng) -> Duration {
        let interval = self.interval(self.failures);
        self.jitter.apply(interval, self.max, rng.random())
    }

    /// Counts a failure and draws the wait before the next attempt.
    pub fn failed(&mut self, rng: &mut impl Rng) -> Duration {
        let wait = self.draw(rng);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Forgets all failures: the next wait starts at `base`.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand::rngs::SmallRng;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn without_jitter_it_is_five_ten_twenty_forty_sixty() {
        // R-17's sequence
        let mut backoff = Backoff::new(5 * S, 60 * S, 1.0, 1.0);
        let mut rng = SmallRng::seed_from_u64(1);
        let waits: Vec<_> = (0..6).map(|_| backoff.failed(&mut rng).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        backoff.succeeded();
        assert_eq!(backoff.failed(&mut rng), 5 * S);
    }

    #[test]
    fn jitter_spreads_and_never_passes_the_cap() {
        // case B17, case B09
        let mut at_cap = 0;
        for seed in 0..10_000 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut backoff = Backoff::new(S, 60 * S, 0.5, 1.5);
            let waits: Vec<_> = (0..9).map(|_| backoff.failed(&mut rng)).collect();
            assert!(waits.iter().all(|wait| *wait <= 60 * S));
            at_cap += usize::from(waits[8] == 60 * S);
        }
        assert!(at_cap < 10, "{at_cap} of 10000 draws lie on the cap itself");
    }

    proptest! {
        // case B08
        #[test]
        fn monotone_and_capped_for_any_input(n in 0_u32..u32::MAX, base_ns in 0_u64..u64::MAX, max_ns in 0_u64..u64::MAX) {
            let (base, max) = (Duration::from_nanos(base_ns), Duration::from_nanos(max_ns));
            let backoff = Backoff::new(base, max, 0.75, 1.25);
            prop_assert!(backoff.interval(n) <= backoff.interval(n + 1));
            prop_assert!(backoff.interval(n + 1) <= max);
        }
    }

    #[test]
    fn extreme_values_saturate() {
        // case B08
        let mut rng = SmallRng::seed_from_u64(7);
        for base in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            for max in [Duration::ZERO, S, Duration::MAX] {
                let mut backoff = Backoff::new(base, max, 0.5, 1.5);
                backoff.failures = u32::MAX;
                assert!(backoff.failed(&mut rng) <= max);
                assert_eq!(backoff.failures(), u32::MAX);
            }
        }
    }
}
