//! Constants of a provider's health probe: how often it must say so before it is believed.
//!
//! Leaving takes more than returning would excuse: a probe that is lost now and then must
//! not take a provider out, and one lucky answer must not bring a dying one back.

use super::{ConfigError, number};

/// Plain thresholds of a health probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeLatchConfig {
    /// Good answers in a row after which a provider that was out is in service again.
    ///
    /// 2: one may be the last before it dies. Range 1 to 100.
    pub success_before_passing: u32,
    /// Probes in a row without a good answer after which a provider is out of service.
    ///
    /// 3: one lost probe and its lost repair are no outage. Range 1 to 100.
    pub failures_before_critical: u32,
}

impl Default for ProbeLatchConfig {
    fn default() -> Self {
        Self {
            success_before_passing: 2,
            failures_before_critical: 3,
        }
    }
}

impl ProbeLatchConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let (success, failures) = (self.success_before_passing, self.failures_before_critical);
        number("probe.success_before_passing", success, 1..=100)?;
        number("probe.failures_before_critical", failures, 1..=100)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_range_ends_where_it_says() {
        ProbeLatchConfig::default().try_new().unwrap();
        for (value, right) in [(0, false), (1, true), (100, true), (101, false)] {
            let success = ProbeLatchConfig {
                success_before_passing: value,
                ..ProbeLatchConfig::default()
            };
            assert_eq!(success.try_new().is_ok(), right, "{value}");
            let failures = ProbeLatchConfig {
                failures_before_critical: value,
                ..ProbeLatchConfig::default()
            };
            assert_eq!(failures.try_new().is_ok(), right, "{value}");
        }
    }
}
