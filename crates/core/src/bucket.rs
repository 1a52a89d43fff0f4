//! The token bucket: how often something may happen, in the long run and at once.
//!
//! Exact integer arithmetic in nanoseconds: the bucket stores the moment at
//! which it will be full again (the *theoretical arrival time* of the generic
//! cell rate algorithm, ITU-T I.371). One `Instant` is the whole state; nothing
//! drifts, and asking costs a comparison.

use std::time::{Duration, Instant};

/// At most `burst` at once and `rate` a second in the long run.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    interval: Duration,
    /// How far the full-again moment may lie ahead of `now`: `burst` intervals.
    tolerance: Duration,
    /// When the bucket is full again; `None` while it never was touched.
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens which gains `rate_per_s` a second.
    ///
    /// A rate or burst of 0 is taken as 1: a bucket that can never give is a
    /// configuration mistake, and configuration is checked elsewhere.
    pub fn new(rate_per_s: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / rate_per_s.max(1);
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.max(1)),
            full_at: None,
        }
    }

    /// Takes a token, or says that there is none and changes nothing.
    pub fn take(&mut self, now: Instant) -> bool {
        let from = self.full_at.map_or(now, |at| at.max(now));
        let Some(full_at) = from.checked_add(self.interval) else {
            return false;
        };
        if full_at.saturating_duration_since(now) > self.tolerance {
            return false;
        }
        self.full_at = Some(full_at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burst_passes_and_one_more_does_not() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(50, 100);
        assert!((0..100).all(|_| bucket.take(now)));
        assert!(!bucket.take(now));
    }

    #[test]
    fn one_token_returns_after_one_interval_and_not_before() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(50, 2);
        assert!(bucket.take(now) && bucket.take(now));
        let interval = Duration::from_millis(20);
        assert!(!bucket.take(now + interval - Duration::from_nanos(1)));
        assert!(bucket.take(now + interval));
        assert!(!bucket.take(now + interval));
    }

    #[test]
    fn a_long_rest_gives_the_burst_and_no_more() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(10, 3);
        assert!(bucket.take(now));
        let later = now + Duration::from_secs(3_600);
        assert!((0..3).all(|_| bucket.take(later)));
        assert!(!bucket.take(later));
    }
}
