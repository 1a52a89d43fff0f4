//! The wall clock between two readings.
//!
//! The core reads no clock: a driver says once a while how late it is, and in between the monotonic clock goes on. A
//! reading that differs from what was expected is a jump of the wall clock; it is believed, in both directions, since the
//! host may have been wrong before. That a jump back must not make anything begin anew is up to those who remember.

use std::time::{Duration, Instant};

/// Farther than that nothing is planned: thirty years, in seconds.
pub(super) const FAR_S: u64 = 30 * 365 * 86_400;
/// What two readings may differ by and be the same clock, in seconds: their own grain, and a slewed clock.
const GRAIN_S: u64 = 2;

/// How late it is.
#[derive(Debug, Clone, Copy)]
pub struct Wall {
    read_s: u64,
    read_at: Instant,
}

impl Wall {
    /// It is `wall_s` seconds after 1970 UTC at `now`.
    #[must_use]
    pub fn new(wall_s: u64, now: Instant) -> Self {
        Self {
            read_s: wall_s,
            read_at: now,
        }
    }

    /// Another reading; whether it is a jump.
    pub fn set(&mut self, wall_s: u64, now: Instant) -> bool {
        let jumped = self.at(now).abs_diff(wall_s) > GRAIN_S;
        *self = Self::new(wall_s, now);
        jumped
    }

    /// Seconds since 1970 UTC at `now`.
    #[must_use]
    pub fn at(&self, now: Instant) -> u64 {
        let since: Duration = now.saturating_duration_since(self.read_at);
        self.read_s.saturating_add(since.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_between_readings_and_tells_a_jump_from_them() {
        let (now, s) = (Instant::now(), Duration::from_secs(1));
        let mut wall = Wall::new(1_000, now);
        assert_eq!(wall.at(now + 60 * s), 1_060);
        assert!(!wall.set(1_062, now + 60 * s));
        assert!(wall.set(1_065, now + 60 * s));
        assert!(wall.set(0, now + 60 * s), "back");
        assert_eq!(wall.at(now), 0, "an instant before the reading");
        assert!(wall.set(u64::MAX, now));
        assert_eq!(wall.at(now + 60 * s), u64::MAX);
    }
}
