//! Constants of the flap damper and of the count of short-lived connections.
//!
//! The damper is off by default: who watches a catalog of hosts knows how often
//! they may go down, and a limit that nobody chose would hide true outages. An
//! interval of zero is a rate without bound; the bursts are what stands
//! ready for whoever sets an interval.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// How often hosts may become unhealthy (DESIGN §5 `FlapDamper`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlapConfig {
    /// Time in which one host gains one transition to unhealthy; zero is a rate
    /// without bound. Each host's own differs by up to a fifth from it.
    ///
    /// 0 s: off. Range 0 to 1 h.
    pub host_interval: Duration,
    /// Transitions that one host may make at once.
    ///
    /// 3: an honest outage is one, with a restart that fails once three. Range 1 to 1,000.
    pub host_burst: u32,
    /// Time in which the whole catalog gains one transition; zero is a rate without bound.
    ///
    /// 0 s: off. Range 0 to 1 h.
    pub catalog_interval: Duration,
    /// Transitions that the whole catalog may make at once.
    ///
    /// 50: what a rack or a zone takes down with it. Range 1 to 100,000.
    pub catalog_burst: u32,
    /// Hosts that are remembered; beyond, the one that was asked for longest ago is forgotten.
    ///
    /// 4,096: a catalog of usual size whole, in under 1 MiB. Range 1 to 1,048,576.
    pub hosts_max: u32,
}

impl Default for FlapConfig {
    fn default() -> Self {
        Self {
            host_interval: Duration::from_secs(0),
            host_burst: 3,
            catalog_interval: Duration::from_secs(0),
            catalog_burst: 50,
            hosts_max: 4_096,
        }
    }
}

impl FlapConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let hour = Duration::ZERO..=Duration::from_secs(3_600);
        duration("flap.host_interval", self.host_interval, hour.clone())?;
        number("flap.host_burst", self.host_burst, 1..=1_000)?;
        duration("flap.catalog_interval", self.catalog_interval, hour)?;
        number("flap.catalog_burst", self.catalog_burst, 1..=100_000)?;
        number("flap.hosts_max", self.hosts_max, 1..=1_048_576)?;
        Ok(self)
    }
}

/// When connections are taken for flapping (case B26).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UptimeConfig {
    /// A connection that lived shorter has flapped.
    ///
    /// 5 s (DESIGN §5 `stable_after`): what accepts and dies has not worked. Range
    /// 100 ms to 10 min.
    pub flap_time: Duration,
    /// Flaps in a row from which on the host is flapping.
    ///
    /// 3 (DESIGN §5 `failure_threshold`): as many as failures. Range 1 to 100.
    pub flaps_to_mark: u32,
    /// The wait after the flap that marked it; doubles from there.
    ///
    /// 5 s. Range 100 ms to 10 min.
    pub flap_backoff_base: Duration,
    /// Longest wait.
    ///
    /// 5 min: what flaps for so long is mended by people. Range `flap_backoff_base` to 1 h.
    pub flap_backoff_max: Duration,
}

impl Default for UptimeConfig {
    fn default() -> Self {
        Self {
            flap_time: Duration::from_secs(5),
            flaps_to_mark: 3,
            flap_backoff_base: Duration::from_secs(5),
            flap_backoff_max: Duration::from_secs(300),
        }
    }
}

impl UptimeConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let range = Duration::from_millis(100)..=Duration::from_secs(600);
        duration("flap.flap_time", self.flap_time, range.clone())?;
        number("flap.flaps_to_mark", self.flaps_to_mark, 1..=100)?;
        duration("flap.flap_backoff_base", self.flap_backoff_base, range)?;
        duration(
            "flap.flap_backoff_max",
            self.flap_backoff_max,
            self.flap_backoff_base..=Duration::from_secs(3_600),
        )?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ranges::{Change, each_ends_where_it_says};
    use super::*;

    const NS: Duration = Duration::from_nanos(1);

    #[test]
    fn the_defaults_are_valid_and_the_damper_is_off() {
        //
        let config = FlapConfig::default().try_new().unwrap();
        assert!(config.host_interval.is_zero() && config.catalog_interval.is_zero());
        UptimeConfig::default().try_new().unwrap();
    }

    #[test]
    fn each_range_ends_where_it_says() {
        //
        let hour = Duration::from_secs(3_600);
        assert_eq!(hour + NS, Duration::new(3_600, 1));
        let cases: [(&str, Change<FlapConfig>, Change<FlapConfig>); 5] = [
            (
                "flap.host_interval",
                |c| c.host_interval = Duration::from_secs(3_600),
                |c| c.host_interval = Duration::new(3_600, 1),
            ),
            (
                "flap.host_burst",
                |c| c.host_burst = 1,
                |c| c.host_burst = 0,
            ),
            (
                "flap.catalog_interval",
                |c| c.catalog_interval = Duration::from_secs(3_600),
                |c| c.catalog_interval = Duration::new(3_600, 1),
            ),
            (
                "flap.catalog_burst",
                |c| c.catalog_burst = 100_000,
                |c| c.catalog_burst = 100_001,
            ),
            ("flap.hosts_max", |c| c.hosts_max = 1, |c| c.hosts_max = 0),
        ];
        each_ends_where_it_says(FlapConfig::try_new, &cases);
    }

    #[test]
    fn a_longest_wait_below_the_first_is_refused() {
        let with = |flap_backoff_max| UptimeConfig {
            flap_backoff_max,
            ..UptimeConfig::default()
        };
        with(Duration::from_secs(5)).try_new().unwrap();
        let error = with(Duration::from_secs(5) - NS).try_new().unwrap_err();
        assert_eq!(error.key, "flap.flap_backoff_max");
    }
}
