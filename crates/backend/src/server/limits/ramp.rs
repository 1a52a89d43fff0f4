//! How many requests are let in after a start.
//!
//! When a backend returns, a fleet returns with it: everybody's contracts ran low meanwhile, and everybody's waits end
//! at about the same time. The first seconds have cold caches and a database that has just come up, too. So the rate that
//! is admitted begins low and rises in [`STEPS`] equal steps; the rest is told to come again within what is left. A
//! client whose contracts last is not hurt by a wait of seconds, a server that falls over again hurts all of them.
//!
//! Each step is a bucket of its own with a burst of a second's worth. After the last one nothing is limited here: what
//! limits then are sources and accounts.

use std::time::{Duration, Instant};

use quell_core::bucket::TokenBucket;

use super::config::LimitsConfig;

/// Steps from the first rate to the last.
const STEPS: u32 = 30;

#[derive(Debug)]
pub(super) struct Ramp {
    start: Instant,
    ramp: Duration,
    rates: (u32, u32),
    step: u32,
    bucket: TokenBucket,
}

impl Ramp {
    pub(super) fn new(config: &LimitsConfig, start: Instant) -> Self {
        let mut ramp = Self {
            start,
            ramp: config.ramp,
            rates: (config.ramp_from_per_s, config.ramp_to_per_s),
            step: 0,
            bucket: TokenBucket::new(1, 1),
        };
        ramp.bucket = ramp.bucket_of(0);
        ramp
    }

    fn bucket_of(&self, step: u32) -> TokenBucket {
        let (from, to) = self.rates;
        let rate = from + to.saturating_sub(from) / STEPS * step;
        TokenBucket::new(rate, rate)
    }

    /// Lets one in, or says how much of the ramp is left.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.start);
        if passed >= self.ramp {
            return Ok(());
        }
        let step = passed.as_nanos() * u128::from(STEPS) / self.ramp.as_nanos();
        let step = u32::try_from(step).unwrap_or(STEPS);
        if step != self.step {
            self.step = step;
            self.bucket = self.bucket_of(step);
        }
        match self.bucket.take(now) {
            true => Ok(()),
            false => Err(self.ramp.saturating_sub(passed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> LimitsConfig {
        LimitsConfig {
            ramp: Duration::from_secs(30),
            ramp_from_per_s: 10,
            ramp_to_per_s: 310,
            ..LimitsConfig::default()
        }
    }

    #[test]
    fn what_is_admitted_rises_and_then_all_is() {
        let start = Instant::now();
        let mut ramp = Ramp::new(&config(), start);
        // A fleet asks a thousand times a second.
        let mut admitted = Vec::new();
        for second in 0..31_u32 {
            let count = (0..1_000_u32).filter(|i| {
                let now = start + Duration::from_millis(u64::from(second * 1_000 + i));
                ramp.admit(now).is_ok()
            });
            admitted.push(count.count());
        }
        assert!((19..=20).contains(&admitted[0]), "{admitted:?}");
        assert!(admitted[..30].windows(2).all(|two| two[0] <= two[1]));
        assert!((580..=600).contains(&admitted[29]), "{admitted:?}");
        assert_eq!(admitted[30], 1_000);
    }

    #[test]
    fn who_is_refused_is_told_what_is_left() {
        let start = Instant::now();
        let mut ramp = Ramp::new(&config(), start);
        assert!((0..10).all(|_| ramp.admit(start).is_ok()));
        assert_eq!(ramp.admit(start), Err(Duration::from_secs(30)));
        let later = start + Duration::from_millis(500);
        assert!((0..5).all(|_| ramp.admit(later).is_ok()));
        assert_eq!(ramp.admit(later), Err(Duration::from_millis(29_500)));
    }

    #[test]
    fn none_is_none() {
        let start = Instant::now();
        let config = LimitsConfig {
            ramp: Duration::ZERO,
            ..config()
        };
        let mut ramp = Ramp::new(&config, start);
        assert!((0..10_000).all(|_| ramp.admit(start).is_ok()));
    }
}
