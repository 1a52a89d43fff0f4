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
        Self::with_interval(Duration::from_secs(1) / rate_per_s.max(1), burst)
    }

    /// A full bucket of `burst` tokens, 0 taken as 1, which gains one each
    /// `interval`. An interval of zero is a rate without bound.
    pub fn with_interval(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.max(1)),
            full_at: None,
        }
    }

    /// Takes a token, or says that there is none and changes nothing.
    pub fn take(&mut self, now: Instant) -> bool {
        let taken = self.after_one(now);
        if let Some(full_at) = taken {
            self.full_at = Some(full_at);
        }
        taken.is_some()
    }

    /// Whether [`TokenBucket::take`] would give a token at `now`.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.after_one(now).is_some()
    }

    /// When the next token is there, `now` where one is: from then on and not
    /// before, [`TokenBucket::take`] gives it. `None`: in no time that can be told.
    pub fn ready_at(&self, now: Instant) -> Option<Instant> {
        if self.is_ready(now) {
            return Some(now);
        }
        let full_at = self.full_at?.checked_add(self.interval)?;
        full_at.checked_sub(self.tolerance)
    }

    /// The time in which one token returns; zero is a rate without bound.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// When the bucket were full again after a token taken at `now`, if there is one.
    fn after_one(&self, now: Instant) -> Option<Instant> {
        if self.interval.is_zero() {
            return Some(now);
        }
        let from = self.full_at.map_or(now, |at| at.max(now));
        let full_at = from.checked_add(self.interval)?;
        let is_there = full_at.saturating_duration_since(now) <= self.tolerance;
        is_there.then_some(full_at)
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

    #[test]
    fn a_token_is_there_when_it_was_said_to_be() {
        let now = Instant::now();
        let mut bucket = TokenBucket::with_interval(Duration::from_secs(10), 2);
        assert_eq!(bucket.ready_at(now), Some(now));
        assert!(bucket.take(now) && bucket.take(now) && !bucket.is_ready(now));
        let at = bucket.ready_at(now).expect("in ten seconds");
        assert_eq!(at, now + Duration::from_secs(10));
        assert!(!bucket.take(at - Duration::from_nanos(1)));
        assert!(bucket.take(at));
    }

    #[test]
    fn an_interval_of_zero_is_no_bound_also_when_the_clock_is_late() {
        let now = Instant::now();
        let mut bucket = TokenBucket::with_interval(Duration::ZERO, 1);
        assert!((0..1_000).all(|_| bucket.take(now)));
        assert!(bucket.take(now - Duration::from_secs(1)));
    }
}
