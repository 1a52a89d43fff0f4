//! Constants of a lane's receiver: how much it takes, how soon it answers, how long it holds.
//!
//! Window and credit are one thing seen from two ends: what a receiver may have to remember is what it allowed the peer
//! to send, so memory is chosen here and nowhere else. The numbers of an acknowledgement's delay bound what the peer's
//! silence timer has to add to its round trip. The hold is a trade: longer hides more loss from the user's TCP, shorter
//! lets that TCP see what is lost; its bounds stand in DESIGN §4.

use std::time::Duration;

use quell_wire::frame::Credit;
use quell_wire::registry::{BITMAP_NUMBERS, FIRST_CREDIT_BYTES};

use super::{ConfigError, duration, number};

/// Payload of a message's packs, all but the last (DESIGN §4).
const MESSAGE_PACK_BYTES: u64 = 1_100;

/// How the receiver of one acked lane behaves. Used alike by client and provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveConfig {
    /// Payload bytes a peer may have with us that the application has not taken.
    ///
    /// 2 MiB (DESIGN §3): 100 Mbit/s over 160 ms. Range 64 KiB to 8 MiB, and at most 1,100 for each of `window_numbers`: the
    /// largest message, half of these bytes in packs of 1,100 B, must find numbers too.
    pub window_bytes: u64,
    /// Numbers a peer may have with us that the application has not taken.
    ///
    /// 8,192, the bitmap (DESIGN §3): 90 Mbit/s over a second in packs of 1,400 B. Range 64 to 8,192.
    pub window_numbers: u64,
    /// New packs after which an acknowledgement leaves at once.
    ///
    /// 8 (DESIGN §4): acknowledgements cost a hundredth of the bytes they answer. Range 1 to 64.
    pub ack_packs_max: u32,
    /// Longest wait of an acknowledgement; a quarter of the round trip where that is less.
    ///
    /// 10 ms (DESIGN §4): the peer's silence timer reckons with it (RFC 9002 §6.2.1) and is not told otherwise, so it may
    /// only be less. Range 1 ms to 10 ms.
    pub ack_delay_max: Duration,
    /// Shortest time between two acknowledgements that a gap, a duplicate or a SKIP asks for.
    ///
    /// 1 ms (DESIGN §4): whoever sends duplicates on purpose gets a thousand answers a second at most. Range 100 µs to 10 ms.
    pub ack_interval_min: Duration,
    /// Shortest hold of a pack whose flow's predecessor is missing.
    ///
    /// 20 ms (DESIGN §4): a resend on a short path needs the sender's reorder window and its pacing too. Range 1 ms to
    /// 100 ms.
    pub hold_min: Duration,
    /// Longest hold of a pack whose flow's predecessor is missing.
    ///
    /// 200 ms (DESIGN §4): the least retransmission timeout of common TCPs; held longer, the user's TCP would resend what
    /// we still resend. Range `hold_min` to 1 s.
    pub hold_max: Duration,
}

impl Default for ReceiveConfig {
    fn default() -> Self {
        Self {
            window_bytes: FIRST_CREDIT_BYTES,
            window_numbers: BITMAP_NUMBERS,
            ack_packs_max: 8,
            ack_delay_max: Duration::from_millis(10),
            ack_interval_min: Duration::from_millis(1),
            hold_min: Duration::from_millis(20),
            hold_max: Duration::from_millis(200),
        }
    }
}

impl ReceiveConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let l = |name| format!("lanes.{name}");
        let ms = Duration::from_millis;
        let numbers = 64..=BITMAP_NUMBERS;
        number(l("window_numbers"), self.window_numbers, numbers)?;
        let bytes_max = (8 * 1024 * 1024).min(self.window_numbers * MESSAGE_PACK_BYTES);
        let bytes = 64 * 1024..=bytes_max;
        number(l("window_bytes"), self.window_bytes, bytes)?;
        number(l("ack_packs_max"), self.ack_packs_max, 1..=64)?;
        duration(l("ack_delay_max"), self.ack_delay_max, ms(1)..=ms(10))?;
        let interval = Duration::from_micros(100)..=ms(10);
        duration(l("ack_interval_min"), self.ack_interval_min, interval)?;
        duration(l("hold_min"), self.hold_min, ms(1)..=ms(100))?;
        duration(l("hold_max"), self.hold_max, self.hold_min..=ms(1_000))?;
        Ok(self)
    }

    /// What HELLO or WELCOME grants before the first acknowledgement.
    #[must_use]
    pub const fn first_credit(&self) -> Credit {
        Credit {
            max_bytes: self.window_bytes,
            max_number: self.window_numbers,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_grant_what_the_wire_says() {
        let config = ReceiveConfig::default().try_new().unwrap();
        assert_eq!(config.first_credit(), Credit::FIRST);
    }

    #[test]
    fn each_end_of_a_range_passes_and_the_next_value_does_not() {
        type Set = fn(&mut ReceiveConfig, u64);
        let (ms, ns) = (1_000_000, 1);
        let table: [(&str, Set, u64, u64); 7] = [
            ("window_bytes", |c, v| c.window_bytes = v, 65_536, 8_388_608),
            (
                "window_numbers",
                |c, v| (c.window_numbers, c.window_bytes) = (v, 65_536),
                64,
                8_192,
            ),
            ("ack_packs_max", |c, v| c.ack_packs_max = v as u32, 1, 64),
            (
                "ack_delay_max",
                |c, v| c.ack_delay_max = Duration::from_nanos(v),
                ms,
                10 * ms,
            ),
            (
                "ack_interval_min",
                |c, v| c.ack_interval_min = Duration::from_nanos(v),
                ms / 10,
                10 * ms,
            ),
            (
                "hold_min",
                |c, v| c.hold_min = Duration::from_nanos(v),
                ms,
                100 * ms,
            ),
            (
                "hold_max",
                |c, v| c.hold_max = Duration::from_nanos(v),
                20 * ms,
                1_000 * ms,
            ),
        ];
        for (name, set, low, high) in table {
            let with = |value| {
                let mut config = ReceiveConfig::default();
                set(&mut config, value);
                config.try_new().map(|_| ()).map_err(|error| error.key)
            };
            assert_eq!((with(low), with(high)), (Ok(()), Ok(())), "{name}");
            let refused = Err(format!("lanes.{name}"));
            assert_eq!(with(low - ns), refused, "{name}");
            assert_eq!(with(high + ns), refused, "{name}");
        }
    }

    #[test]
    fn the_bytes_may_fill_the_numbers_in_packs_of_a_message_and_no_more() {
        let with = |window_bytes| ReceiveConfig {
            window_bytes,
            window_numbers: 1_000,
            ..ReceiveConfig::default()
        };
        with(1_100_000).try_new().unwrap();
        let error = with(1_100_001).try_new().unwrap_err();
        assert_eq!(error.key, "lanes.window_bytes");
    }
}
