//! Constants of the doubt about one's own uplink.
//!
//! Exits that fall silent together have something in common, and the nearest such thing is
//! this machine's own link. The doubt is short: it is there to not judge exits by a link
//! that was away for a moment, and ends before a person would call it stubborn.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// When many stalls at once count against the own uplink (DESIGN §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UplinkDoubtConfig {
    /// Fewest exits that must stall together.
    ///
    /// 2 (DESIGN §5): one alone says nothing about what it shares. Range 2 to 64.
    pub exits_min: usize,
    /// Time within which stalls count as one event.
    ///
    /// 10 s (DESIGN §5): stalls of one cut are noticed within 3 probe timeouts of each path.
    /// Range 1 s to 60 s.
    pub stall_window: Duration,
    /// Longest doubt.
    ///
    /// 15 s (DESIGN §5): one dial's time. Range 1 s to 5 min.
    pub doubt_max: Duration,
    /// Shortest time between two dials while in doubt.
    ///
    /// 10 s (DESIGN §5): one question and one more. Range 1 s to 5 min.
    pub canary_interval: Duration,
}

impl Default for UplinkDoubtConfig {
    fn default() -> Self {
        Self {
            exits_min: 2,
            stall_window: Duration::from_secs(10),
            doubt_max: Duration::from_secs(15),
            canary_interval: Duration::from_secs(10),
        }
    }
}

impl UplinkDoubtConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let s = Duration::from_secs;
        number("uplink.exits_min", self.exits_min, 2..=64)?;
        duration("uplink.stall_window", self.stall_window, s(1)..=s(60))?;
        duration("uplink.doubt_max", self.doubt_max, s(1)..=s(300))?;
        duration(
            "uplink.canary_interval",
            self.canary_interval,
            s(1)..=s(300),
        )?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_range_ends_where_it_says() {
        UplinkDoubtConfig::default().try_new().unwrap();
        for (exits_min, right) in [(1, false), (2, true), (64, true), (65, false)] {
            let config = UplinkDoubtConfig {
                exits_min,
                ..UplinkDoubtConfig::default()
            };
            assert_eq!(config.try_new().is_ok(), right, "{exits_min}");
        }
        let second = Duration::from_secs(1);
        for (interval, right) in [(second, true), (second - Duration::from_nanos(1), false)] {
            let config = UplinkDoubtConfig {
                canary_interval: interval,
                ..UplinkDoubtConfig::default()
            };
            assert_eq!(config.try_new().is_ok(), right, "{interval:?}");
        }
    }
}
