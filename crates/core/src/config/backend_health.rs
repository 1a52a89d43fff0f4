//! Constants of the backend's health: when it counts as degraded, and how it is asked then.
//!
//! Three failures, each in a slot of its own, take a second at least: shorter than the
//! first resends of a lane take to be spent, longer than one reconnect of a load balancer.
//! From then on the backend is asked ever more rarely, and as rarely by a thousand
//! callers as by one.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// When the control plane counts as degraded, and how often it is asked (DESIGN §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendHealthConfig {
    /// Failures in a row of one kind of work after which the backend is degraded.
    ///
    /// 3 (DESIGN §5): one is a lost connection, two are its repair. Range 1 to 100.
    pub failures_to_degrade: u8,
    /// Longest time an attempt may take; a slower one failed, whatever it brings.
    ///
    /// 5 s (DESIGN §5): who waits longer has no use for the answer. Range 100 ms to 60 s.
    pub attempt_timeout: Duration,
    /// How often a backend that answers is asked how it is, while a session is wanted.
    ///
    /// 30 s: an outage is known within a minute, and the greetings cost 3.4 KB a minute.
    /// Each wait is jittered by a fifth. Range 5 s to 10 min.
    pub check_interval: Duration,
    /// Wait after a failure while the backend is not degraded.
    ///
    /// 1 s: the third failure of a single caller comes after some 2 s, and a fast refusal
    /// is no reason to be fast. Range 500 ms to 60 s.
    pub retry_interval: Duration,
    /// Wait before the first probe of a degraded backend; doubles from there.
    ///
    /// 5 s (DESIGN §5). Range 1 s to 5 min.
    pub probe_interval_min: Duration,
    /// Longest wait between two probes of a degraded backend.
    ///
    /// 30 s (DESIGN §5): a backend that is back is used within half a minute. Range
    /// `probe_interval_min` to 10 min.
    pub probe_interval_max: Duration,
    /// Most requests in flight of one kind of work.
    ///
    /// 1 (DESIGN §7): what more is wanted meanwhile rides the next request, in a batch.
    /// Range 1 to 64.
    pub in_flight_max: usize,
    /// Longest wait that a backend may ask for.
    ///
    /// 10 min: a mistaken Retry-After must not silence a client for a day. Range 1 s to 24 h.
    pub retry_after_max: Duration,
}

impl Default for BackendHealthConfig {
    fn default() -> Self {
        Self {
            failures_to_degrade: 3,
            attempt_timeout: Duration::from_secs(5),
            check_interval: Duration::from_secs(30),
            retry_interval: Duration::from_secs(1),
            probe_interval_min: Duration::from_secs(5),
            probe_interval_max: Duration::from_secs(30),
            in_flight_max: 1,
            retry_after_max: Duration::from_secs(600),
        }
    }
}

impl BackendHealthConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let b = |name| format!("backend.{name}");
        let ms = Duration::from_millis;
        number(b("failures_to_degrade"), self.failures_to_degrade, 1..=100)?;
        number(b("in_flight_max"), self.in_flight_max, 1..=64)?;
        let (min, max) = (self.probe_interval_min, self.probe_interval_max);
        let table = [
            (
                "attempt_timeout",
                self.attempt_timeout,
                ms(100)..=ms(60_000),
            ),
            (
                "check_interval",
                self.check_interval,
                ms(5_000)..=ms(600_000),
            ),
            ("retry_interval", self.retry_interval, ms(500)..=ms(60_000)),
            ("probe_interval_min", min, ms(1_000)..=ms(300_000)),
            ("probe_interval_max", max, min..=ms(600_000)),
            (
                "retry_after_max",
                self.retry_after_max,
                ms(1_000)..=ms(86_400_000),
            ),
        ];
        for (name, value, allowed) in table {
            duration(b(name), value, allowed)?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ranges::{Change, each_ends_where_it_says};
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        BackendHealthConfig::default().try_new().unwrap();
    }

    #[test]
    fn each_range_ends_where_it_says() {
        const NS: Duration = Duration::from_nanos(1);
        let cases: [(
            &str,
            Change<BackendHealthConfig>,
            Change<BackendHealthConfig>,
        ); 5] = [
            (
                "backend.failures_to_degrade",
                |c| c.failures_to_degrade = 100,
                |c| c.failures_to_degrade = 101,
            ),
            (
                "backend.in_flight_max",
                |c| c.in_flight_max = 1,
                |c| c.in_flight_max = 0,
            ),
            (
                "backend.check_interval",
                |c| c.check_interval = Duration::from_secs(5),
                |c| c.check_interval = Duration::from_secs(5) - NS,
            ),
            (
                "backend.retry_interval",
                |c| c.retry_interval = Duration::from_millis(500),
                |c| c.retry_interval = Duration::from_millis(500) - NS,
            ),
            (
                "backend.probe_interval_max",
                |c| c.probe_interval_max = c.probe_interval_min,
                |c| c.probe_interval_max = c.probe_interval_min - NS,
            ),
        ];
        each_ends_where_it_says(BackendHealthConfig::try_new, &cases);
    }
}
