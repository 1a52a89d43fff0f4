//! Constants of the gate before a server: when dials of it fail at once, and for how long.
//!
//! The gate is for servers that do not answer, so its waits are those of a person who
//! tries again: a second at first, a minute at last. What it must outlast is one dial:
//! the lease of its single probe is longer than a dial may take, else a slow dial would
//! make room for a second one.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// When new dials of one server are held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialGateConfig {
    /// Failed dials in a row after which new ones fail at once; 0: the gate does nothing.
    ///
    /// 3 (DESIGN §5): a lost datagram or two is no outage. Range 0 to 100.
    pub failure_threshold: u32,
    /// Wait of the first block, and between failed dials before it; doubles from block to block.
    ///
    /// 1 s. Range 100 ms to 60 s.
    pub base_backoff: Duration,
    /// Longest wait, jitter included.
    ///
    /// 60 s. Range `base_backoff` to 1 h.
    pub max_backoff: Duration,
    /// Life after which a connection proves that the server works.
    ///
    /// 5 s (DESIGN §5): a server that accepts and dies is no better than one that refuses
    /// (case B06). Range 1 s to 5 min.
    pub stable_after: Duration,
    /// The first redial after a stable connection comes uniformly within this time.
    ///
    /// 1 s (DESIGN §5): clients of a restarted server do not come back as a herd. Range 0 to 30 s.
    pub redial_spread: Duration,
    /// Longest time a dial may take.
    ///
    /// 15 s (DESIGN §5): three round trips over a 4 s path fit (case B37). Range 1 s to 60 s.
    pub dial_timeout: Duration,
    /// Longest time that the single dial of a blocked server holds its place.
    ///
    /// 20 s: a dial's time and a margin for its end to be told (DESIGN §5). Range 1 s more than
    /// `dial_timeout` to 5 min.
    pub lease: Duration,
}

impl Default for DialGateConfig {
    fn default() -> Self {
        Self {
            failure_threshold: 3,
            base_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            stable_after: Duration::from_secs(5),
            redial_spread: Duration::from_secs(1),
            dial_timeout: Duration::from_secs(15),
            lease: Duration::from_secs(20),
        }
    }
}

impl DialGateConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let g = |name| format!("dial_gate.{name}");
        let ms = Duration::from_millis;
        number(g("failure_threshold"), self.failure_threshold, 0..=100)?;
        let (base, dial) = (self.base_backoff, self.dial_timeout);
        let lease_min = dial.saturating_add(ms(1_000));
        let table = [
            ("base_backoff", base, ms(100)..=ms(60_000)),
            ("max_backoff", self.max_backoff, base..=ms(3_600_000)),
            ("stable_after", self.stable_after, ms(1_000)..=ms(300_000)),
            ("redial_spread", self.redial_spread, ms(0)..=ms(30_000)),
            ("dial_timeout", dial, ms(1_000)..=ms(60_000)),
            ("lease", self.lease, lease_min..=ms(300_000)),
        ];
        for (name, value, allowed) in table {
            duration(g(name), value, allowed)?;
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
        DialGateConfig::default().try_new().unwrap();
    }

    #[test]
    fn a_lease_is_longer_than_a_dial() {
        //
        let with = |lease| DialGateConfig {
            lease,
            ..DialGateConfig::default()
        };
        let least = Duration::from_secs(16);
        with(least).try_new().unwrap();
        let error = with(least - Duration::from_nanos(1)).try_new().unwrap_err();
        assert_eq!(error.key, "dial_gate.lease");
    }

    #[test]
    fn each_range_ends_where_it_says() {
        const NS: Duration = Duration::from_nanos(1);
        let cases: [(&str, Change<DialGateConfig>, Change<DialGateConfig>); 4] = [
            (
                "dial_gate.failure_threshold",
                |c| c.failure_threshold = 0,
                |c| c.failure_threshold = 101,
            ),
            (
                "dial_gate.base_backoff",
                |c| c.base_backoff = Duration::from_millis(100),
                |c| c.base_backoff = Duration::from_millis(100) - NS,
            ),
            (
                "dial_gate.max_backoff",
                |c| c.max_backoff = c.base_backoff,
                |c| c.max_backoff = c.base_backoff - NS,
            ),
            (
                "dial_gate.redial_spread",
                |c| c.redial_spread = Duration::from_secs(30),
                |c| c.redial_spread = Duration::from_secs(30) + NS,
            ),
        ];
        each_ends_where_it_says(DialGateConfig::try_new, &cases);
    }
}
