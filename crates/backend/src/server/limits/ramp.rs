//! How many requests are let in after a start.
//!
//! When a backend returns, a fleet returns with it: everybody's contracts ran low meanwhile, and everybody's waits end
//! at about the same time. The first seconds have cold caches and a database that has just come up, too. So the rate that
//! is admitted begins low and rises in a straight line; the rest is told to come again within what is left. A client
//! whose contracts last is not hurt by a wait of seconds, a server that falls over again hurts all of them.
//!
//! ```text
//!  admitted/s                      ┌── no bound
//!        to ┤                   ╱  │
//!           │              ╱       │        level(t) = min(burst(t), level(t0) + ∫ rate)
//!      from ┤───────╱              │        burst(t) = a second's worth at the rate of t
//!           └──────────────────────┴────→ t
//!           0                     ramp
//! ```
//!
//! One bucket holds what was not used, a second's worth at most. The rate is integrated exactly, in requests times
//! nanoseconds, so that neither a short ramp nor one that rises by less than a request a second loses or mints any. After
//! the ramp nothing is limited here: what limits then are sources and accounts.

use std::time::{Duration, Instant};

use super::config::LimitsConfig;

/// One request, in the unit of the level.
const REQUEST: u128 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Ramp {
    start: Instant,
    ramp: Duration,
    from_per_s: u32,
    to_per_s: u32,
    /// How far into the ramp the level was counted.
    counted: Duration,
    /// What may be let in, in requests times nanoseconds.
    level: u128,
}

impl Ramp {
    pub(super) fn new(config: &LimitsConfig, start: Instant) -> Self {
        Self {
            start,
            ramp: config.ramp,
            from_per_s: config.ramp_from_per_s,
            to_per_s: config.ramp_to_per_s,
            counted: Duration::ZERO,
            level: u128::from(config.ramp_from_per_s) * REQUEST,
        }
    }

    /// What came in from the start until then, in requests times nanoseconds: the area under the line. `passed` is less
    /// than the ramp, which is at most minutes: the product of three such numbers fits.
    fn area(&self, passed: Duration) -> u128 {
        let (ramp, passed) = (self.ramp.as_nanos(), passed.as_nanos());
        let rise = u128::from(self.to_per_s.saturating_sub(self.from_per_s));
        u128::from(self.from_per_s) * passed + rise * passed * passed / (2 * ramp)
    }

    /// A second's worth at the rate of then.
    fn burst(&self, passed: Duration) -> u128 {
        let rise = u128::from(self.to_per_s.saturating_sub(self.from_per_s));
        u128::from(self.from_per_s) * REQUEST
            + rise * REQUEST * passed.as_nanos() / self.ramp.as_nanos()
    }

    /// Lets one in, or says how much of the ramp is left.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.start);
        if passed >= self.ramp {
            return Ok(());
        }
        // Threads may come with their times out of order.
        let passed = passed.max(self.counted);
        let gained = self.area(passed) - self.area(self.counted);
        self.counted = passed;
        self.level = (self.level + gained).min(self.burst(passed));
        match self.level.checked_sub(REQUEST) {
            Some(level) => {
                self.level = level;
                Ok(())
            }
            None => Err(self.ramp.saturating_sub(passed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(ramp: Duration, from: u32, to: u32) -> LimitsConfig {
        LimitsConfig {
            ramp,
            ramp_from_per_s: from,
            ramp_to_per_s: to,
            ..LimitsConfig::default()
        }
    }

    /// What a fleet that asks 10,000 times a second is let in, slice by slice of the ramp and one beyond.
    fn admitted(config: &LimitsConfig, slices: u32) -> Vec<u32> {
        let start = Instant::now();
        let mut ramp = Ramp::new(config, start);
        let slice = config.ramp / slices;
        let asked = u32::try_from(slice.as_micros() / 100).unwrap_or(0);
        let of = |slice_at: u32, ramp: &mut Ramp| {
            let begin = start + slice * slice_at;
            (0..asked).fold(0, |count, i| {
                let now = begin + Duration::from_micros(100) * i;
                count + u32::from(ramp.admit(now).is_ok())
            })
        };
        (0..=slices).map(|at| of(at, &mut ramp)).collect()
    }

    #[test]
    fn what_is_admitted_rises_to_its_end_and_then_all_is() {
        let s = Duration::from_secs;
        let counts = admitted(&config(s(30), 10, 310), 30);
        // The burst of the start, and then the line: 10 more each second.
        assert_eq!((counts[0], counts[1], counts[29]), (24, 25, 305));
        assert!(counts[1..30].windows(2).all(|two| two[1] == two[0] + 10));
        assert_eq!(counts[30], 10_000);
        let all: u32 = counts[..30].iter().sum();
        assert_eq!(all, 10 + 30 * (10 + 310) / 2 - 1, "{counts:?}");
    }

    #[test]
    fn one_that_rises_by_less_than_a_request_a_second_rises_too() {
        let counts = admitted(&config(Duration::from_secs(40), 10, 30), 4);
        assert!(counts.windows(2).all(|two| two[0] < two[1]), "{counts:?}");
    }

    #[test]
    fn a_short_ramp_lets_in_no_more_than_its_line() {
        let counts = admitted(&config(Duration::from_secs(1), 100, 300), 10);
        let all: u32 = counts[..10].iter().sum();
        assert!((298..=300).contains(&all), "{counts:?}");
    }

    #[test]
    fn what_is_not_used_is_kept_for_a_second_and_no_longer() {
        let start = Instant::now();
        let mut ramp = Ramp::new(&config(Duration::from_secs(600), 10, 10), start);
        let later = start + Duration::from_secs(500);
        assert_eq!((0..100).filter(|_| ramp.admit(later).is_ok()).count(), 10);
    }

    #[test]
    fn it_ends_at_its_end_and_not_before() {
        let start = Instant::now();
        let ramp = Duration::from_secs(30);
        let mut one = Ramp::new(&config(ramp, 1, 1), start);
        let last = start + ramp - Duration::from_nanos(1);
        assert!(one.admit(last).is_ok());
        assert_eq!(one.admit(last), Err(Duration::from_nanos(1)));
        // A thread that read its clock before adds nothing and takes nothing back.
        assert_eq!(one.admit(start), Err(Duration::from_nanos(1)));
        assert!((0..1_000).all(|_| one.admit(start + ramp).is_ok()));
    }

    #[test]
    fn who_is_refused_is_told_what_is_left() {
        let start = Instant::now();
        let mut ramp = Ramp::new(&config(Duration::from_secs(30), 10, 10), start);
        assert!((0..10).all(|_| ramp.admit(start).is_ok()));
        assert_eq!(ramp.admit(start), Err(Duration::from_secs(30)));
        let later = start + Duration::from_millis(500);
        assert!((0..5).all(|_| ramp.admit(later).is_ok()));
        assert_eq!(ramp.admit(later), Err(Duration::from_millis(29_500)));
    }

    #[test]
    fn none_is_none() {
        let start = Instant::now();
        let mut ramp = Ramp::new(&config(Duration::ZERO, 10, 310), start);
        assert!((0..10_000).all(|_| ramp.admit(start).is_ok()));
    }

    #[test]
    fn the_longest_and_steepest_does_not_overflow() {
        let start = Instant::now();
        let ramp = Duration::from_secs(600);
        let mut one = Ramp::new(&config(ramp, 1, 1_000_000), start);
        assert!(one.admit(start + ramp - Duration::from_nanos(1)).is_ok());
    }
}
