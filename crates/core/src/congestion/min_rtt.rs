//! The path's round-trip time without a queue, and how it ages.
//!
//! The lowest sample stands until none near it has come for [`MIN_RTT_AGE_MAX`].
//! Then either the path is longer than it was, or a queue of ours has stood in it
//! all that time, and from the samples alone the two look the same. Believing them
//! would be a ratchet: a longer minimum makes a larger floor, that a longer queue,
//! that a longer minimum. So a sender that fills its window *drains* first: its
//! window falls to three quarters of what the path holds (Cubic's share included) until that
//! is all that is in flight, and on for one round trip; the lowest sample of that
//! round trip is the new minimum.
//!
//! ```text
//!           aged, window filled            in flight <= cap          a packet sent since is acked
//! Holding ──────────────────────▶ Emptying ────────────────▶ Measuring ─────────────▶ Holding
//!    │ ▲                             └───────── DRAIN_RTTS_MAX ─────────┴────────────────▲
//!    └─┘ aged, window not filled: no queue of ours to drain, the newest round is believed
//! ```
//!
//! A sample within a sixteenth of the minimum confirms it without raising it, so a
//! sender that keeps no standing queue (the floor's cruise, see the
//! [module](super)) never drains at all. Too low a minimum is the safe error: it
//! makes the floor smaller.

use std::time::{Duration, Instant};

/// Time without a sample near the minimum after which it is measured anew.
///
/// 10 s: BBR's. A drain costs a quarter of the rate for about a round trip, 0.1 % of
/// the goodput at 40 ms.
pub const MIN_RTT_AGE_MAX: Duration = Duration::from_secs(10);

/// A sample above the minimum by one such part of it still confirms it.
///
/// 16: the jitter of a quiet wire; a quarter is where a queue begins.
const CONFIRM_PART: u32 = 16;

/// Round trips after which a drain ends, whatever it saw.
///
/// 4: one for the queue, one to measure, and as many again where the queue was as
/// long as the path.
const DRAIN_RTTS_MAX: u32 = 4;

/// Longest drain, however long the round trips are.
///
/// 3 s: four of a geostationary satellite's, and a clock that jumped.
const DRAIN_MAX: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
enum State {
    Holding,
    Emptying {
        until: Instant,
    },
    Measuring {
        since: Instant,
        until: Instant,
        lowest: Duration,
    },
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct MinRtt {
    value: Duration,
    confirmed: Instant,
    state: State,
}

impl MinRtt {
    pub(super) fn new(sample: Duration, now: Instant) -> Self {
        Self {
            value: sample,
            confirmed: now,
            state: State::Holding,
        }
    }

    pub(super) fn value(&self) -> Duration {
        self.value
    }

    pub(super) fn is_draining(&self) -> bool {
        !matches!(self.state, State::Holding)
    }

    /// A sample of a packet that left at `sent`.
    pub(super) fn on_sample(&mut self, sample: Duration, sent: Instant, now: Instant) {
        if sample <= self.value.saturating_add(self.value / CONFIRM_PART) {
            self.confirmed = now;
            self.value = self.value.min(sample);
        }
        if let State::Measuring { since, lowest, .. } = &mut self.state
            && sent >= *since
        {
            *lowest = sample.min(*lowest);
        }
    }

    /// Whether the minimum is due to be measured anew.
    pub(super) fn has_aged(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.confirmed) > MIN_RTT_AGE_MAX
    }

    /// Takes `rtt` for the minimum: the sender keeps no queue that could be in it.
    pub(super) fn believe(&mut self, rtt: Duration, now: Instant) {
        *self = Self::new(rtt, now);
    }

    /// Starts to drain. `rtt` is that of the newest round, queue included.
    pub(super) fn drain(&mut self, rtt: Duration, now: Instant) {
        if let State::Holding = self.state {
            let until = now + rtt.saturating_mul(DRAIN_RTTS_MAX).min(DRAIN_MAX);
            self.state = State::Emptying { until };
        }
    }

    /// An acknowledgement has left `in_flight_bytes` of at most `cap_bytes` in
    /// flight.
    pub(super) fn on_acks_end(&mut self, in_flight_bytes: u64, cap_bytes: u64, now: Instant) {
        match self.state {
            State::Holding => {}
            // Nothing was measured: the old value stands, and is tried again.
            State::Emptying { until } if now >= until => {
                self.confirmed = now;
                self.state = State::Holding;
            }
            State::Emptying { until } if in_flight_bytes <= cap_bytes => {
                self.state = State::Measuring {
                    since: now,
                    until,
                    lowest: Duration::MAX,
                };
            }
            State::Emptying { .. } => {}
            State::Measuring { until, lowest, .. } => {
                if lowest < Duration::MAX {
                    self.believe(lowest, now);
                } else if now >= until {
                    self.confirmed = now;
                    self.state = State::Holding;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NS: Duration = Duration::from_nanos(1);
    const RTT: Duration = Duration::from_millis(64);
    const CAP: u64 = 10_000;

    fn draining() -> (MinRtt, Instant) {
        let now = Instant::now();
        let mut min_rtt = MinRtt::new(RTT, now);
        min_rtt.drain(100 * MS, now);
        (min_rtt, now)
    }

    #[test]
    fn a_sample_within_a_sixteenth_confirms_and_raises_nothing() {
        let start = Instant::now();
        let late = start + MIN_RTT_AGE_MAX + NS;
        for (sample, confirms) in [(68 * MS, true), (68 * MS + NS, false)] {
            let mut min_rtt = MinRtt::new(RTT, start);
            min_rtt.on_sample(sample, start, start + MS);
            assert_eq!(min_rtt.value(), RTT);
            assert_eq!(min_rtt.has_aged(late), !confirms);
        }
    }

    #[test]
    fn a_lower_sample_is_the_minimum_at_once() {
        let now = Instant::now();
        let mut min_rtt = MinRtt::new(RTT, now);
        min_rtt.on_sample(RTT - NS, now, now);
        assert_eq!(min_rtt.value(), RTT - NS);
    }

    #[test]
    fn ten_seconds_are_no_age_and_a_nanosecond_more_is() {
        let now = Instant::now();
        let min_rtt = MinRtt::new(RTT, now);
        assert!(!min_rtt.has_aged(now + MIN_RTT_AGE_MAX));
        assert!(min_rtt.has_aged(now + MIN_RTT_AGE_MAX + NS));
    }

    #[test]
    fn a_drain_measures_what_left_after_the_queue_had_gone() {
        let (mut min_rtt, start) = draining();
        let mut now = start + 50 * MS;
        min_rtt.on_acks_end(CAP + 1, CAP, now);
        min_rtt.on_sample(150 * MS, now, now);
        min_rtt.on_acks_end(CAP, CAP, now);
        let emptied = now;
        now += 80 * MS;
        min_rtt.on_sample(70 * MS, emptied - NS, now);
        min_rtt.on_acks_end(CAP, CAP, now);
        assert!(min_rtt.is_draining(), "it had left before");
        min_rtt.on_sample(80 * MS, emptied + NS, now);
        min_rtt.on_acks_end(CAP, CAP, now);
        assert!(!min_rtt.is_draining());
        assert_eq!(min_rtt.value(), 80 * MS);
        assert!(!min_rtt.has_aged(now + MIN_RTT_AGE_MAX));
    }

    #[test]
    fn a_drain_that_cannot_empty_or_measure_ends_with_the_old_value() {
        for in_flight in [CAP + 1, CAP] {
            let (mut min_rtt, start) = draining();
            min_rtt.on_acks_end(in_flight, CAP, start + MS);
            min_rtt.on_acks_end(in_flight, CAP, start + 400 * MS - NS);
            assert!(min_rtt.is_draining());
            min_rtt.on_acks_end(in_flight, CAP, start + 400 * MS);
            assert!(!min_rtt.is_draining());
            assert_eq!(min_rtt.value(), RTT);
            assert!(!min_rtt.has_aged(start + 400 * MS + MIN_RTT_AGE_MAX));
        }
    }

    #[test]
    fn a_drain_is_not_begun_anew_while_it_lasts() {
        let (mut min_rtt, start) = draining();
        min_rtt.drain(100 * MS, start + 300 * MS);
        min_rtt.on_acks_end(CAP + 1, CAP, start + 400 * MS);
        assert!(!min_rtt.is_draining());
    }

    #[test]
    fn no_drain_is_longer_than_three_seconds() {
        let now = Instant::now();
        let mut min_rtt = MinRtt::new(RTT, now);
        min_rtt.drain(Duration::MAX, now);
        min_rtt.on_acks_end(CAP + 1, CAP, now + DRAIN_MAX - NS);
        assert!(min_rtt.is_draining());
        min_rtt.on_acks_end(CAP + 1, CAP, now + DRAIN_MAX);
        assert!(!min_rtt.is_draining());
    }
}
