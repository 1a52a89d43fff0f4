//! Constants of the budgets: guessed resends, race copies, dials, a quiet minute.
//!
//! A share of what is sent anyway lets the extra grow with the traffic and with
//! nothing else; the floor beside it is what an idle or starved sender lives on
//! (cases B10, B11). Both count over the same ten seconds.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// How much may be spent on resends into silences (DESIGN §6 "Resend budget").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilenceConfig {
    /// Bytes of such resends of a path, in percent of its first-sent bytes.
    ///
    /// 20 (DESIGN §6). Range 1 to 100.
    pub path_share_percent: u32,
    /// Such resends that a path has a second beside its share.
    ///
    /// 2 (DESIGN §6): in ten seconds of an outage one lane asks for 8. Range 1 to 100.
    pub path_packs_per_s: u32,
    /// Bytes of such resends of all paths, in percent of all first-sent bytes.
    ///
    /// 20 (DESIGN §6). Range 1 to 100.
    pub process_share_percent: u32,
    /// Such resends that the process has a second beside its share.
    ///
    /// 10 (DESIGN §6): six paths of an outage ask for no more. Range 1 to 10,000.
    pub process_packs_per_s: u32,
}

impl Default for SilenceConfig {
    fn default() -> Self {
        Self {
            path_share_percent: 20,
            path_packs_per_s: 2,
            process_share_percent: 20,
            process_packs_per_s: 10,
        }
    }
}

impl SilenceConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let b = |name| format!("budget.{name}");
        number(b("path_share_percent"), self.path_share_percent, 1..=100)?;
        number(b("path_packs_per_s"), self.path_packs_per_s, 1..=100)?;
        let share = self.process_share_percent;
        number(b("process_share_percent"), share, 1..=100)?;
        let packs = self.process_packs_per_s;
        number(b("process_packs_per_s"), packs, 1..=10_000)?;
        Ok(self)
    }
}

/// How much may be spent on race copies (DESIGN §6 "Racer").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceConfig {
    /// Bytes of extra copies, in percent of the bytes of what was raced.
    ///
    /// 20 (DESIGN §6, as for resends): a share of destinations that are slow
    /// draws copies, a cut does not. Range 1 to 100.
    pub race_share_percent: u32,
    /// Extra copies a second beside that share.
    ///
    /// 2 (DESIGN §6, as for a path's resends): a page opens, and its first
    /// connections may race. Range 1 to 100.
    pub race_copies_per_s: u32,
}

impl Default for RaceConfig {
    fn default() -> Self {
        Self {
            race_share_percent: 20,
            race_copies_per_s: 2,
        }
    }
}

impl RaceConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let share = self.race_share_percent;
        number("budget.race_share_percent", share, 1..=100)?;
        number("budget.race_copies_per_s", self.race_copies_per_s, 1..=100)?;
        Ok(self)
    }
}

/// What a process may send while nothing makes progress (DESIGN §5 "Quiet ceiling").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuietConfig {
    /// UDP payload bytes a minute, whatever they are for, while there is no progress.
    ///
    /// 16 KiB (DESIGN §5): one dial and the questions of its paths; 23 MiB a day
    /// at the very most. Range 12 KiB to 1 MiB.
    pub quiet_bytes: u64,
    /// How long after the last progress the ceiling begins.
    ///
    /// 60 s (DESIGN §5): short outages are worth their dials. Range 1 s to 10 min.
    pub quiet_after: Duration,
    /// What a dial reserves.
    ///
    /// 12,000 (DESIGN §5): ten datagrams of 1,200 B, a first flight of two that is
    /// sent five times. Range 1,200 to `quiet_bytes`.
    pub dial_bytes: u64,
}

impl Default for QuietConfig {
    fn default() -> Self {
        Self {
            quiet_bytes: 16 * 1024,
            quiet_after: Duration::from_secs(60),
            dial_bytes: 12_000,
        }
    }
}

impl QuietConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        number(
            "budget.quiet_bytes",
            self.quiet_bytes,
            12 * 1024..=1024 * 1024,
        )?;
        duration(
            "budget.quiet_after",
            self.quiet_after,
            Duration::from_secs(1)..=Duration::from_secs(600),
        )?;
        let dial = 1_200..=self.quiet_bytes;
        number("budget.dial_bytes", self.dial_bytes, dial)?;
        Ok(self)
    }
}

/// How often a process may dial, whomever (DESIGN §5 `DialGate`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialBudgetConfig {
    /// Time in which the process gains one dial.
    ///
    /// 5 s: six servers that each wait a minute leave half of it. Range 100 ms to 10 min.
    pub dial_interval: Duration,
    /// Dials that may be made at once.
    ///
    /// 12: a whole window of 6, and each of them replaced once. Range 1 to 1,000.
    pub dial_burst: u32,
}

impl Default for DialBudgetConfig {
    fn default() -> Self {
        Self {
            dial_interval: Duration::from_secs(5),
            dial_burst: 12,
        }
    }
}

impl DialBudgetConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let range = Duration::from_millis(100)..=Duration::from_secs(600);
        duration("budget.dial_interval", self.dial_interval, range)?;
        number("budget.dial_burst", self.dial_burst, 1..=1_000)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        SilenceConfig::default().try_new().unwrap();
        RaceConfig::default().try_new().unwrap();
        QuietConfig::default().try_new().unwrap();
        DialBudgetConfig::default().try_new().unwrap();
    }

    #[test]
    fn each_range_ends_where_it_says() {
        let silence = |path_packs_per_s| SilenceConfig {
            path_packs_per_s,
            ..SilenceConfig::default()
        };
        silence(1).try_new().unwrap();
        let error = silence(0).try_new().unwrap_err();
        assert_eq!(error.key, "budget.path_packs_per_s");
        let race = |race_share_percent| RaceConfig {
            race_share_percent,
            ..RaceConfig::default()
        };
        race(100).try_new().unwrap();
        let error = race(101).try_new().unwrap_err();
        assert_eq!(error.key, "budget.race_share_percent");
        let dial = |dial_burst| DialBudgetConfig {
            dial_burst,
            ..DialBudgetConfig::default()
        };
        dial(1).try_new().unwrap();
        assert_eq!(dial(0).try_new().unwrap_err().key, "budget.dial_burst");
    }

    #[test]
    fn a_dial_that_no_minute_could_hold_is_refused() {
        let with = |dial_bytes| QuietConfig {
            dial_bytes,
            ..QuietConfig::default()
        };
        with(16_384).try_new().unwrap();
        let error = with(16_385).try_new().unwrap_err();
        assert_eq!(
            error.to_string(),
            "budget.dial_bytes = 16385: allowed is 1200 to 16384"
        );
    }
}
