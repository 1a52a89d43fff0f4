//! Constants of a path's health: when it falls quiet, stalls, and is given up.
//!
//! Two and three probe timeouts are the shortest waits that a single lost answer
//! does not reach: the first is spent on the loss, the second on its repair. All
//! else says how seldom a path that does not answer may speak.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// When a path is hushed, stalled or dead (DESIGN §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathHealthConfig {
    /// Probe timeouts without an inbound frame, something being unanswered, after
    /// which nothing is sent for the first time.
    ///
    /// 2 (DESIGN §4). Range 2 to 8.
    pub hush_ptos: u32,
    /// Probe timeouts without progress after which the path is stalled.
    ///
    /// 3 (DESIGN §4). Range 3 to 16.
    pub stall_ptos: u32,
    /// Shortest time without progress after which the path is stalled.
    ///
    /// 1 s (DESIGN §4): what a short path's wireless link takes for its own
    /// repairs is not a stall. Range 200 ms to 10 s.
    pub stall_time_min: Duration,
    /// Silence after which a path that carries nothing acknowledged asks with a PING.
    ///
    /// 250 ms (DESIGN §4), or a probe timeout where that is longer. Range 50 ms to 10 s.
    pub ask_after_min: Duration,
    /// Shortest time between two PINGs of a client's stalled path.
    ///
    /// 600 ms (DESIGN §4): with the next value, a path that returns is used within
    /// a second. Range 100 ms to 10 s.
    pub stalled_ping_min: Duration,
    /// Longest time between two PINGs of a client's stalled path.
    ///
    /// 800 ms (DESIGN §4). Range `stalled_ping_min` to 10 s.
    pub stalled_ping_max: Duration,
    /// How long a client's stalled path is asked that often.
    ///
    /// 2 min (DESIGN §4): by then a person has noticed. Range 1 s to 1 h.
    pub stalled_ping_eager: Duration,
    /// Time between two PINGs of a stalled path after that; a provider's doubles up to it.
    ///
    /// 5 s (DESIGN §4). Range `stalled_ping_max` to 5 min.
    pub stalled_ping_lazy: Duration,
    /// Shortest time between PINGs that something else than the schedule prompts.
    ///
    /// 1 s (DESIGN §4). Range 100 ms to 60 s.
    pub prompted_ping_min: Duration,
    /// Rounds of an answered PING and a resent pack that does not arrive, after
    /// which the path is dead for data.
    ///
    /// 3 (DESIGN §4). Range 2 to 100.
    pub data_dead_rounds: u32,
    /// The shortest time that such rounds must take together.
    ///
    /// 3 s (DESIGN §4). Range 1 s to 5 min.
    pub data_dead_time_min: Duration,
}

impl Default for PathHealthConfig {
    fn default() -> Self {
        Self {
            hush_ptos: 2,
            stall_ptos: 3,
            stall_time_min: Duration::from_secs(1),
            ask_after_min: Duration::from_millis(250),
            stalled_ping_min: Duration::from_millis(600),
            stalled_ping_max: Duration::from_millis(800),
            stalled_ping_eager: Duration::from_secs(120),
            stalled_ping_lazy: Duration::from_secs(5),
            prompted_ping_min: Duration::from_secs(1),
            data_dead_rounds: 3,
            data_dead_time_min: Duration::from_secs(3),
        }
    }
}

impl PathHealthConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let h = |name| format!("health.{name}");
        let ms = Duration::from_millis;
        number(h("hush_ptos"), self.hush_ptos, 2..=8)?;
        number(h("stall_ptos"), self.stall_ptos, 3..=16)?;
        number(h("data_dead_rounds"), self.data_dead_rounds, 2..=100)?;
        let (ping_min, ping_max) = (self.stalled_ping_min, self.stalled_ping_max);
        let table = [
            ("stall_time_min", self.stall_time_min, ms(200)..=ms(10_000)),
            ("ask_after_min", self.ask_after_min, ms(50)..=ms(10_000)),
            ("stalled_ping_min", ping_min, ms(100)..=ms(10_000)),
            ("stalled_ping_max", ping_max, ping_min..=ms(10_000)),
            (
                "stalled_ping_eager",
                self.stalled_ping_eager,
                ms(1_000)..=ms(3_600_000),
            ),
            (
                "stalled_ping_lazy",
                self.stalled_ping_lazy,
                ping_max..=ms(300_000),
            ),
            (
                "prompted_ping_min",
                self.prompted_ping_min,
                ms(100)..=ms(60_000),
            ),
            (
                "data_dead_time_min",
                self.data_dead_time_min,
                ms(1_000)..=ms(300_000),
            ),
        ];
        for (name, value, allowed) in table {
            duration(h(name), value, allowed)?;
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
        PathHealthConfig::default().try_new().unwrap();
    }

    #[test]
    fn each_range_ends_where_it_says() {
        let cases: [(&str, Change<PathHealthConfig>, Change<PathHealthConfig>); 4] = [
            ("health.hush_ptos", |c| c.hush_ptos = 2, |c| c.hush_ptos = 1),
            (
                "health.stall_time_min",
                |c| c.stall_time_min = Duration::from_millis(200),
                |c| c.stall_time_min = Duration::from_millis(199),
            ),
            (
                "health.stalled_ping_max",
                |c| c.stalled_ping_max = c.stalled_ping_min,
                |c| c.stalled_ping_max = Duration::from_millis(599),
            ),
            (
                "health.data_dead_rounds",
                |c| c.data_dead_rounds = 100,
                |c| c.data_dead_rounds = 101,
            ),
        ];
        each_ends_where_it_says(PathHealthConfig::try_new, &cases);
    }
}
