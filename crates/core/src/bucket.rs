//! The token bucket: how often something may happen, in the long run and at once.
//!
//! Exact integer arithmetic in nanoseconds: the bucket stores the moment at
//! which it will be full again (the *theoretical arrival time* of the generic
//! cell rate algorithm, ITU-T I.371). One `Instant` is the whole state; nothing
//! drifts, and asking costs a comparison.
//!
//! A [`ByteBucket`] is the same bucket with another token: a packet costs the time
//! that its bytes take at the rate. One larger than the burst is no dead end: it
//! passes when the bucket is full.

use std::num::NonZeroU64;
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
        self.take_cost(self.interval, now)
    }

    /// Whether [`TokenBucket::take`] would give a token at `now`.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.after(self.interval, now).is_some()
    }

    /// When the next token is there, `now` where one is: from then on and not
    /// before, [`TokenBucket::take`] gives it. `None`: in no time that can be told.
    pub fn ready_at(&self, now: Instant) -> Option<Instant> {
        self.cost_ready_at(self.interval, now)
    }

    fn take_cost(&mut self, cost: Duration, now: Instant) -> bool {
        let taken = self.after(cost, now);
        if let Some(full_at) = taken {
            self.full_at = Some(full_at);
        }
        taken.is_some()
    }

    fn cost_ready_at(&self, cost: Duration, now: Instant) -> Option<Instant> {
        if self.after(cost, now).is_some() {
            return Some(now);
        }
        let full_at = self.full_at?.checked_add(cost)?;
        full_at.checked_sub(self.tolerance.max(cost))
    }

    /// The time in which one token returns; zero is a rate without bound.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// When the bucket were full again after `cost` taken at `now`, if there is as much.
    fn after(&self, cost: Duration, now: Instant) -> Option<Instant> {
        if self.interval.is_zero() {
            return Some(now);
        }
        let from = self.full_at.map_or(now, |at| at.max(now));
        let full_at = from.checked_add(cost)?;
        let is_there = full_at.saturating_duration_since(now) <= self.tolerance.max(cost);
        is_there.then_some(full_at)
    }
}

/// A rate of bits a second, and a burst of bytes.
#[derive(Debug, Clone)]
pub struct ByteBucket {
    bits_per_s: NonZeroU64,
    bucket: TokenBucket,
}

impl ByteBucket {
    /// A full bucket of `burst_bytes` which gains `bits_per_s`, neither of them 0 (0 is taken as 1).
    pub fn new(bits_per_s: u64, burst_bytes: u32) -> Self {
        let bits_per_s = NonZeroU64::new(bits_per_s).unwrap_or(NonZeroU64::MIN);
        let burst = time_of(u64::from(burst_bytes.max(1)), bits_per_s);
        Self {
            bits_per_s,
            bucket: TokenBucket::with_interval(burst, 1),
        }
    }

    /// Takes `bytes`, or says that they are not there and changes nothing.
    pub fn take(&mut self, bytes: usize, now: Instant) -> bool {
        self.bucket.take_cost(self.cost(bytes), now)
    }

    /// When `bytes` are there, `now` where they are: from then on and not before,
    /// [`ByteBucket::take`] gives them. `None`: in no time that can be told.
    pub fn ready_at(&self, bytes: usize, now: Instant) -> Option<Instant> {
        self.bucket.cost_ready_at(self.cost(bytes), now)
    }

    /// Whether [`ByteBucket::take`] would give `bytes` at `now`.
    pub fn is_ready(&self, bytes: usize, now: Instant) -> bool {
        self.bucket.after(self.cost(bytes), now).is_some()
    }

    fn cost(&self, bytes: usize) -> Duration {
        time_of(u64::try_from(bytes).unwrap_or(u64::MAX), self.bits_per_s)
    }
}

/// Rounded up: a rate is kept, not exceeded, by a nanosecond a packet at most.
fn time_of(bytes: u64, bits_per_s: NonZeroU64) -> Duration {
    const NANOBITS_PER_BYTE: u64 = 8 * 1_000_000_000;
    let nanos = match bytes.checked_mul(NANOBITS_PER_BYTE) {
        Some(nanobits) => nanobits.div_ceil(bits_per_s.get()),
        // More than 2 GB in one piece: slower, and no packet.
        None => {
            let nanobits = u128::from(bytes) * u128::from(NANOBITS_PER_BYTE);
            u64::try_from(nanobits.div_ceil(u128::from(bits_per_s.get()))).unwrap_or(u64::MAX)
        }
    };
    Duration::from_nanos(nanos)
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

    #[test]
    fn a_burst_of_bytes_passes_and_one_more_byte_does_not() {
        let now = Instant::now();
        let mut bucket = ByteBucket::new(8_000_000, 3_000);
        assert!(bucket.take(1_500, now) && bucket.take(1_500, now));
        assert!(!bucket.take(1, now) && !bucket.is_ready(1, now));
        // A byte a microsecond.
        let at = bucket.ready_at(1_500, now).expect("in time");
        assert_eq!(at, now + Duration::from_micros(1_500));
        assert!(!bucket.take(1_500, at - Duration::from_nanos(1)));
        assert!(bucket.take(1_500, at));
    }

    #[test]
    fn what_is_larger_than_the_burst_passes_a_full_bucket_and_no_other() {
        let now = Instant::now();
        let mut bucket = ByteBucket::new(8_000_000, 1_000);
        assert!(bucket.take(1, now));
        let full = now + Duration::from_micros(1);
        assert_eq!(bucket.ready_at(5_000, now), Some(full));
        assert!(!bucket.take(5_000, full - Duration::from_nanos(1)));
        assert!(bucket.take(5_000, full));
        assert!(!bucket.take(1, full + Duration::from_micros(4_000)));
        assert!(bucket.take(1, full + Duration::from_micros(4_001)));
    }

    #[test]
    fn a_rate_is_kept_to_a_nanosecond_a_packet() {
        let start = Instant::now();
        for bits_per_s in [64_000, 10_000_000, 1_000_000_000, 100_000_000_000] {
            let mut bucket = ByteBucket::new(bits_per_s, 1_500);
            let mut now = start;
            let packets = 10_000_u64;
            for _ in 0..packets {
                now = bucket.ready_at(1_400, now).expect("in time");
                assert!(bucket.take(1_400, now));
            }
            let ideal = (packets * 1_400 - 1_500) * 8 * 1_000_000_000 / bits_per_s;
            let took = u64::try_from((now - start).as_nanos()).expect("short");
            assert!(
                (ideal..=ideal + packets + 1).contains(&took),
                "{bits_per_s}"
            );
        }
    }
}
