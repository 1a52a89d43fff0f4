//! Constants of the client's window: which exit carries what, how many are kept, and
//! when one is taken in or sent away.
//!
//! Everything here is slow on purpose. A user's traffic moves to another exit at once
//! when it must (the stall of a path decides that, within seconds); which exits are
//! *kept* is a question of minutes, and a window that follows every wobble dials more
//! than it carries.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{ConfigError, duration, number};

/// Which exit a new flow takes (DESIGN §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExitPolicy {
    /// One exit carries all new flows until it stalls or is gone: the user's address
    /// in the world stays the same.
    #[default]
    Sticky,
    /// Flows are spread over the window, those to one destination together.
    Spread,
}

impl fmt::Display for ExitPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sticky => "sticky",
            Self::Spread => "spread",
        })
    }
}

impl FromStr for ExitPolicy {
    /// What is allowed.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sticky" => Ok(Self::Sticky),
            "spread" => Ok(Self::Spread),
            _ => Err("sticky or spread"),
        }
    }
}

/// The client's window of exits (DESIGN §6 "Window").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowConfig {
    /// Which exit a new flow takes.
    ///
    /// `sticky`: who watches a film or is logged in somewhere does not change the
    /// address for no reason. `sticky` or `spread`.
    pub exit_policy: ExitPolicy,
    /// Exits that are kept, as long as there are so many.
    ///
    /// 2 (DESIGN §6): one that carries and one that could at once. Range 1 to 8.
    pub window_min: usize,
    /// Most exits that are kept.
    ///
    /// 6 (DESIGN §6): each costs a keepalive. Range `window_min` to 32.
    pub window_max: usize,
    /// How often the window asks whether it should be another.
    ///
    /// 15 s (DESIGN §6). Range 1 s to 10 min.
    pub window_resize_interval: Duration,
    /// Flows that one exit of a `spread` window carries before another is wanted.
    ///
    /// 64: a browser with a few pages stays on the smallest window. Range 1 to 65,536.
    pub flows_per_exit: usize,
    /// Evictions within `eviction_period`.
    ///
    /// 2 (DESIGN §6). Never more than half of the window either. Range 1 to 16.
    pub evictions_max: usize,
    /// See `evictions_max`.
    ///
    /// 30 s (DESIGN §6). Range 1 s to 10 min.
    pub eviction_period: Duration,
    /// How long an exit is kept at least, unless it is gone.
    ///
    /// 60 s (DESIGN §6): four looks of the window, and the time of a score's memory.
    /// Range 1 s to 1 h.
    pub membership_min: Duration,
    /// First rest of an exit that was sent away; doubles from there.
    ///
    /// 60 s: longer than a provider takes to restart. Range 1 s to 1 h.
    pub quarantine_base: Duration,
    /// Longest rest.
    ///
    /// 30 min: a provider that is well again is found within it. Range
    /// `quarantine_base` to 24 h.
    pub quarantine_max: Duration,
    /// Membership after which earlier rests are forgotten.
    ///
    /// 10 min. Range 1 min to 24 h.
    pub quarantine_forgotten_after: Duration,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self {
            exit_policy: ExitPolicy::default(),
            window_min: 2,
            window_max: 6,
            window_resize_interval: Duration::from_secs(15),
            flows_per_exit: 64,
            evictions_max: 2,
            eviction_period: Duration::from_secs(30),
            membership_min: Duration::from_secs(60),
            quarantine_base: Duration::from_secs(60),
            quarantine_max: Duration::from_secs(30 * 60),
            quarantine_forgotten_after: Duration::from_secs(10 * 60),
        }
    }
}

impl WindowConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let s = Duration::from_secs;
        let w = |name| format!("window.{name}");
        number(w("window_min"), self.window_min, 1..=8)?;
        number(w("window_max"), self.window_max, self.window_min..=32)?;
        let interval = self.window_resize_interval;
        duration(w("window_resize_interval"), interval, s(1)..=s(600))?;
        number(w("flows_per_exit"), self.flows_per_exit, 1..=65_536)?;
        number(w("evictions_max"), self.evictions_max, 1..=16)?;
        duration(w("eviction_period"), self.eviction_period, s(1)..=s(600))?;
        duration(w("membership_min"), self.membership_min, s(1)..=s(3_600))?;
        duration(w("quarantine_base"), self.quarantine_base, s(1)..=s(3_600))?;
        let longest = self.quarantine_base..=s(86_400);
        duration(w("quarantine_max"), self.quarantine_max, longest)?;
        let forgotten = self.quarantine_forgotten_after;
        duration(
            w("quarantine_forgotten_after"),
            forgotten,
            s(60)..=s(86_400),
        )?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranges::each_ends_where_it_says;
    use super::*;

    #[test]
    fn each_range_ends_where_it_says() {
        each_ends_where_it_says::<WindowConfig>(
            WindowConfig::try_new,
            &[
                (
                    "window.window_min",
                    |c| c.window_min = 1,
                    |c| c.window_min = 0,
                ),
                (
                    "window.window_max",
                    |c| c.window_max = 32,
                    |c| c.window_max = 33,
                ),
                (
                    "window.window_max",
                    |c| c.window_max = 2,
                    |c| c.window_max = 1,
                ),
                (
                    "window.window_min",
                    |c| c.window_min = 6,
                    |c| c.window_min = 9,
                ),
                (
                    "window.window_resize_interval",
                    |c| c.window_resize_interval = Duration::from_secs(1),
                    |c| c.window_resize_interval = Duration::from_millis(999),
                ),
                (
                    "window.flows_per_exit",
                    |c| c.flows_per_exit = 65_536,
                    |c| c.flows_per_exit = 65_537,
                ),
                (
                    "window.evictions_max",
                    |c| c.evictions_max = 1,
                    |c| c.evictions_max = 0,
                ),
                (
                    "window.eviction_period",
                    |c| c.eviction_period = Duration::from_secs(600),
                    |c| c.eviction_period = Duration::new(600, 1),
                ),
                (
                    "window.membership_min",
                    |c| c.membership_min = Duration::from_secs(1),
                    |c| c.membership_min = Duration::from_millis(999),
                ),
                (
                    "window.quarantine_base",
                    |c| c.quarantine_base = Duration::from_secs(1_800),
                    |c| c.quarantine_base = Duration::new(3_600, 1),
                ),
                (
                    "window.quarantine_max",
                    |c| c.quarantine_max = Duration::from_secs(86_400),
                    |c| c.quarantine_max = Duration::new(86_400, 1),
                ),
                (
                    "window.quarantine_forgotten_after",
                    |c| c.quarantine_forgotten_after = Duration::from_secs(86_400),
                    |c| c.quarantine_forgotten_after = Duration::new(86_400, 1),
                ),
                (
                    "window.window_resize_interval",
                    |c| c.window_resize_interval = Duration::from_secs(600),
                    |c| c.window_resize_interval = Duration::new(600, 1),
                ),
                (
                    "window.flows_per_exit",
                    |c| c.flows_per_exit = 1,
                    |c| c.flows_per_exit = 0,
                ),
                (
                    "window.evictions_max",
                    |c| c.evictions_max = 16,
                    |c| c.evictions_max = 17,
                ),
                (
                    "window.eviction_period",
                    |c| c.eviction_period = Duration::from_secs(1),
                    |c| c.eviction_period = Duration::from_millis(999),
                ),
                (
                    "window.membership_min",
                    |c| c.membership_min = Duration::from_secs(3_600),
                    |c| c.membership_min = Duration::new(3_600, 1),
                ),
                (
                    "window.quarantine_base",
                    |c| c.quarantine_base = Duration::from_secs(1),
                    |c| c.quarantine_base = Duration::from_millis(999),
                ),
                (
                    "window.quarantine_max",
                    |c| c.quarantine_max = Duration::from_secs(60),
                    |c| c.quarantine_max = Duration::from_secs(59),
                ),
                (
                    "window.quarantine_forgotten_after",
                    |c| c.quarantine_forgotten_after = Duration::from_secs(60),
                    |c| c.quarantine_forgotten_after = Duration::from_secs(59),
                ),
            ],
        );
    }

    #[test]
    fn the_least_window_and_the_first_rest_end_where_they_say_with_the_others_moved() {
        let most = WindowConfig {
            window_min: 8,
            window_max: 8,
            quarantine_base: Duration::from_secs(3_600),
            quarantine_max: Duration::from_secs(3_600),
            ..WindowConfig::default()
        };
        assert_eq!(most.clone().try_new().as_ref(), Ok(&most));
    }
}
