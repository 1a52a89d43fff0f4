//! Constants of an acknowledged lane's sender: how much it holds, how often and
//! how long it tries.
//!
//! The three bounds work together. `max_resend_count` bounds the copies of one
//! pack, `ack_timeout` its life, and the two resend intervals the pace between.
//! Sixteen resends, doubling from one PTO to a ceiling of 5 s, end at about 53 of
//! the 60 s on a path of 50 ms: the count and the life run out together, so
//! neither is there for show.

use std::time::Duration;

use quell_wire::registry::BITMAP_NUMBERS;

use super::{ConfigError, duration, number};

/// How the sender of one acknowledged lane behaves (DESIGN §4).
#[derive(Debug, Clone, PartialEq)]
pub struct LaneConfig {
    /// Most resends of one pack, by evidence and by silence together.
    ///
    /// 16: one first send and 16 resends, 17 hand-overs at most. Range 0 to 64.
    pub max_resend_count: u8,
    /// How long a pack stays unacknowledged, from its first departure, before it is
    /// given up; and one that cannot leave, from its acceptance.
    ///
    /// 60 s: as long as a TCP would bear. Range 1 s to 10 min.
    pub ack_timeout: Duration,
    /// Shortest wait for an acknowledgement before a silence counts.
    ///
    /// 50 ms (DESIGN §4): above the scheduling noise of either end on a local
    /// path. Range 10 ms to 1 s.
    pub min_resend_interval: Duration,
    /// Longest wait between two silences while the backend is healthy.
    ///
    /// 5 s (DESIGN §4): what a person bears after a path is back. Range
    /// `min_resend_interval` to 60 s.
    pub max_resend_interval: Duration,
    /// Most payload bytes from the first unacknowledged pack on.
    ///
    /// 2 MiB: the first credit, 160 Mbit/s at 100 ms. Range 64 KiB to 16 MiB.
    pub window_bytes: usize,
    /// Most packs from the first unacknowledged one on.
    ///
    /// 8,192: the receiver's bitmap. Range 16 to 8,192.
    pub window_numbers: usize,
    /// Smallest factor of a wait after the first silence.
    ///
    /// 0.75 (DESIGN §4). Range 0.5 to 1.
    pub jitter_min: f64,
    /// Largest factor of a wait after the first silence; 1 with `jitter_min` 1 is no jitter.
    ///
    /// 1.25 (DESIGN §4). Range 1 to 1.5.
    pub jitter_max: f64,
    /// The probe timeout before the first RTT sample.
    ///
    /// 1 s (RFC 6298 §2). Range 50 ms to 10 s.
    pub first_pto: Duration,
    /// Longest time that the receiver holds an acknowledgement back.
    ///
    /// 10 ms: the receiver's own bound (DESIGN §4). Range 0 to 100 ms.
    pub ack_delay_max: Duration,
    /// Smallest reorder window.
    ///
    /// 2 ms: batches of segmentation offload displace by that much on a local
    /// path. Range 0 to 50 ms.
    pub reorder_window_min: Duration,
}

impl Default for LaneConfig {
    fn default() -> Self {
        Self {
            max_resend_count: 16,
            ack_timeout: Duration::from_secs(60),
            min_resend_interval: Duration::from_millis(50),
            max_resend_interval: Duration::from_secs(5),
            window_bytes: 2 * 1024 * 1024,
            window_numbers: BITMAP_NUMBERS as usize,
            jitter_min: 0.75,
            jitter_max: 1.25,
            first_pto: Duration::from_secs(1),
            ack_delay_max: Duration::from_millis(10),
            reorder_window_min: Duration::from_millis(2),
        }
    }
}

impl LaneConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let key = |name| format!("lanes.{name}");
        let ms = Duration::from_millis;
        number(key("max_resend_count"), self.max_resend_count, 0..=64)?;
        let numbers_max = BITMAP_NUMBERS as usize;
        number(key("window_numbers"), self.window_numbers, 16..=numbers_max)?;
        number(
            key("window_bytes"),
            self.window_bytes,
            64 * 1024..=16 * 1024 * 1024,
        )?;
        number(key("jitter_min"), self.jitter_min, 0.5..=1.0)?;
        number(key("jitter_max"), self.jitter_max, 1.0..=1.5)?;
        let table = [
            ("ack_timeout", self.ack_timeout, ms(1_000)..=ms(600_000)),
            (
                "min_resend_interval",
                self.min_resend_interval,
                ms(10)..=ms(1_000),
            ),
            (
                "max_resend_interval",
                self.max_resend_interval,
                self.min_resend_interval..=ms(60_000),
            ),
            ("first_pto", self.first_pto, ms(50)..=ms(10_000)),
            ("ack_delay_max", self.ack_delay_max, ms(0)..=ms(100)),
            (
                "reorder_window_min",
                self.reorder_window_min,
                ms(0)..=ms(50),
            ),
        ];
        for (name, value, allowed) in table {
            duration(key(name), value, allowed)?;
        }
        Ok(self)
    }

    /// Most hand-overs of one pack: the first send and the resends.
    pub fn sends_max(&self) -> u8 {
        self.max_resend_count.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ranges::{Change, each_ends_where_it_says};
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_are_those_of_the_requirements() {
        // 16 resends; R-11: 60 s
        let config = LaneConfig::default().try_new().unwrap();
        assert_eq!(config.sends_max(), 17);
        assert_eq!(config.ack_timeout, Duration::from_secs(60));
    }

    #[test]
    fn each_range_ends_where_it_says() {
        let cases: [(&str, Change<LaneConfig>, Change<LaneConfig>); 6] = [
            (
                "lanes.max_resend_count",
                |c| c.max_resend_count = 64,
                |c| c.max_resend_count = 65,
            ),
            (
                "lanes.window_numbers",
                |c| c.window_numbers = 8_192,
                |c| c.window_numbers = 8_193,
            ),
            (
                "lanes.window_bytes",
                |c| c.window_bytes = 65_536,
                |c| c.window_bytes = 65_535,
            ),
            (
                "lanes.max_resend_interval",
                |c| c.max_resend_interval = c.min_resend_interval,
                |c| c.max_resend_interval = Duration::from_millis(49),
            ),
            (
                "lanes.ack_timeout",
                |c| c.ack_timeout = Duration::from_secs(1),
                |c| c.ack_timeout = Duration::from_millis(999),
            ),
            (
                "lanes.jitter_min",
                |c| c.jitter_min = 0.5,
                |c| c.jitter_min = f64::NAN,
            ),
        ];
        each_ends_where_it_says(LaneConfig::try_new, &cases);
    }
}
