//! Constants of the catalog: how often it may change, and how long silence is excused.

use std::time::Duration;

use quell_core::config::{ConfigError, FlapConfig, ProbeLatchConfig, duration, number};

/// How hosts enter and leave the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogConfig {
    /// Shortest time between two versions; changes in between go into one.
    ///
    /// 1 s: every client that waits is told of each version, and acts on it. Range 100 ms to 1 min.
    pub min_interval: Duration,
    /// After how long a provider's next heartbeat is welcome.
    ///
    /// 10 s: four fit into `heartbeat_max_age`. Range 1 s to 10 min.
    pub heartbeat_interval: Duration,
    /// Silence of a provider that speaks against it.
    ///
    /// 45 s: four heartbeats lost, and the time of a fifth. Range twice `heartbeat_interval` to 1 h.
    pub heartbeat_max_age: Duration,
    /// How often accounts are read from the store: what other replicas and operators changed there.
    ///
    /// 5 s: a ban by another replica holds by then. Range 1 s to 5 min.
    pub refresh_interval: Duration,
    /// Longest wait of a long poll; a client that asks for more gets this.
    ///
    /// 50 s: under the minute after which many middleboxes forget a connection. Range 1 s to 5 min.
    pub wait_max: Duration,
    /// Share of the hosts, in percent, that soft evidence must leave in service. Beyond it the evidence is not believed:
    /// when most of a fleet looks dead, it is the observer that is cut off (case B25).
    ///
    /// 50. Range 0 (off) to 100.
    pub soft_keeps_percent: u8,
    /// When a probe counts.
    pub probe: ProbeLatchConfig,
    /// How often hosts may leave for a soft reason.
    pub flap: FlapConfig,
}

impl Default for CatalogConfig {
    fn default() -> Self {
        Self {
            min_interval: Duration::from_secs(1),
            heartbeat_interval: Duration::from_secs(10),
            heartbeat_max_age: Duration::from_secs(45),
            refresh_interval: Duration::from_secs(5),
            wait_max: Duration::from_secs(50),
            soft_keeps_percent: 50,
            probe: ProbeLatchConfig::default(),
            flap: FlapConfig::default(),
        }
    }
}

impl CatalogConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let s = Duration::from_secs;
        let c = |name| format!("catalog.{name}");
        let (ms, minute) = (Duration::from_millis(100), s(60));
        duration(c("min_interval"), self.min_interval, ms..=minute)?;
        let interval = self.heartbeat_interval;
        duration(c("heartbeat_interval"), interval, s(1)..=s(600))?;
        let age = self.heartbeat_max_age;
        duration(c("heartbeat_max_age"), age, interval * 2..=s(3_600))?;
        duration(c("refresh_interval"), self.refresh_interval, s(1)..=s(300))?;
        duration(c("wait_max"), self.wait_max, s(1)..=s(300))?;
        number(c("soft_keeps_percent"), self.soft_keeps_percent, 0..=100)?;
        Ok(Self {
            probe: self.probe.try_new()?,
            flap: self.flap.try_new()?,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    type Change = fn(&mut CatalogConfig);

    #[test]
    fn each_range_ends_where_it_says() {
        CatalogConfig::default().try_new().unwrap();
        let s = Duration::from_secs;
        assert_eq!(s(60) + Duration::from_nanos(1), Duration::new(60, 1));
        let cases: [(&str, Change, Change); 6] = [
            (
                "catalog.min_interval",
                |c| c.min_interval = Duration::from_secs(60),
                |c| c.min_interval = Duration::new(60, 1),
            ),
            (
                "catalog.heartbeat_interval",
                |c| c.heartbeat_interval = Duration::from_secs(1),
                |c| c.heartbeat_interval = Duration::from_millis(999),
            ),
            (
                "catalog.heartbeat_max_age",
                |c| c.heartbeat_max_age = Duration::from_secs(20),
                |c| c.heartbeat_max_age = Duration::from_millis(19_999),
            ),
            (
                "catalog.refresh_interval",
                |c| c.refresh_interval = Duration::from_secs(300),
                |c| c.refresh_interval = Duration::new(300, 1),
            ),
            (
                "catalog.wait_max",
                |c| c.wait_max = Duration::from_secs(300),
                |c| c.wait_max = Duration::new(300, 1),
            ),
            (
                "catalog.soft_keeps_percent",
                |c| c.soft_keeps_percent = 100,
                |c| c.soft_keeps_percent = 101,
            ),
        ];
        for (key, inside, outside) in cases {
            let changed = |change: Change| {
                let mut config = CatalogConfig::default();
                change(&mut config);
                config.try_new()
            };
            assert_eq!(changed(inside).err(), None, "{key}");
            assert_eq!(changed(outside).unwrap_err().key, key);
        }
    }
}
