//! Delivery rate: one sample a round trip, and the best of the last ten.
//!
//! A *round* begins with an acknowledgement and ends with the first one that
//! covers a packet sent after that: one round trip, queue included. Its sample is
//! the bytes acknowledged in it over the longer of two intervals: between the
//! acknowledgements, and between the departures of the newest packets that they
//! cover. The second guards against acknowledgements that were held up and arrive
//! at once: nothing is delivered faster than it was sent (the reasoning of
//! draft-cheng-iccrg-delivery-rate-estimation, on rounds instead of packets, so
//! that no state a packet is needed).
//!
//! A round in which the window was not filled (*limited*) says what the sender
//! had, not what the path carries. Its sample counts where it is the best, and
//! else neither lowers the rate nor uses up one of the ten rounds; only
//! [`RATE_AGE_MAX`] ends what no full round has confirmed. So a quiet second
//! costs nothing and an idle connection keeps nothing for ever.

use std::time::{Duration, Instant};

/// Full rounds for which the best sample counts.
///
/// 10: BBR's window. Longer than a burst of loss, and a path that became slower
/// is believed within ten round trips.
pub const RATE_ROUNDS: usize = 10;

/// Age at which a sample is forgotten, whatever came after it.
///
/// 10 s: the age of [`MIN_RTT_AGE_MAX`](super::min_rtt::MIN_RTT_AGE_MAX); ten
/// rounds of a path of 1 s are the slowest that are worth remembering.
pub const RATE_AGE_MAX: Duration = Duration::from_secs(10);

/// What one round trip showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Round {
    /// Bytes a second; `None` where the clock did not move.
    pub(super) rate: Option<u64>,
    pub(super) acked_bytes: u64,
    pub(super) lost_bytes: u64,
    /// The lowest sample of the round-trip time.
    pub(super) rtt_min: Duration,
    /// The mean of the samples.
    pub(super) rtt_mean: Duration,
    /// The window was not filled.
    pub(super) limited: bool,
    /// The path marked packets.
    pub(super) marked: bool,
}

/// The round in progress.
#[derive(Debug, Clone)]
pub(super) struct RoundInProgress {
    began: Instant,
    /// Departure of the newest packet acknowledged when it began.
    newest_sent_then: Instant,
    acked_bytes: u64,
    lost_bytes: u64,
    rtt_min: Duration,
    rtt_sum: Duration,
    rtt_samples: u32,
    filled: bool,
    marked: bool,
}

impl RoundInProgress {
    pub(super) fn new(newest_sent: Instant, now: Instant) -> Self {
        Self {
            began: now,
            newest_sent_then: newest_sent,
            acked_bytes: 0,
            lost_bytes: 0,
            rtt_min: Duration::MAX,
            rtt_sum: Duration::ZERO,
            rtt_samples: 0,
            filled: false,
            marked: false,
        }
    }

    pub(super) fn on_acked(&mut self, bytes: u64) {
        self.acked_bytes = self.acked_bytes.saturating_add(bytes);
    }

    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.lost_bytes = self.lost_bytes.saturating_add(bytes);
    }

    pub(super) fn on_rtt(&mut self, sample: Duration) {
        self.rtt_min = self.rtt_min.min(sample);
        self.rtt_sum = self.rtt_sum.saturating_add(sample);
        self.rtt_samples = self.rtt_samples.saturating_add(1);
    }

    pub(super) fn on_filled(&mut self) {
        self.filled = true;
    }

    pub(super) fn on_marked(&mut self) {
        self.marked = true;
    }

    /// The round, if the packet that left at `newest_sent` ends it.
    pub(super) fn end(&self, newest_sent: Instant, now: Instant) -> Option<Round> {
        if newest_sent < self.began {
            return None;
        }
        let acks = now.saturating_duration_since(self.began);
        let departures = newest_sent.saturating_duration_since(self.newest_sent_then);
        Some(Round {
            rate: rate_per_s(self.acked_bytes, acks.max(departures)),
            acked_bytes: self.acked_bytes,
            lost_bytes: self.lost_bytes,
            rtt_min: self.rtt_min,
            rtt_mean: self.rtt_sum / self.rtt_samples.max(1),
            limited: !self.filled,
            marked: self.marked,
        })
    }
}

fn rate_per_s(bytes: u64, interval: Duration) -> Option<u64> {
    let rate = (u128::from(bytes) * 1_000_000_000).checked_div(interval.as_nanos())?;
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    rate: u64,
    at: Instant,
}

/// The best sample of the last [`RATE_ROUNDS`] full rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct BestRate {
    /// A ring; `None` where no sample is, or where one has aged.
    samples: [Option<Sample>; RATE_ROUNDS],
    next: usize,
}

impl BestRate {
    /// Bytes a second; 0: nothing is known.
    pub(super) fn best(&self) -> u64 {
        let rates = self.samples.iter().flatten().map(|sample| sample.rate);
        rates.max().unwrap_or(0)
    }

    pub(super) fn add(&mut self, rate: u64, limited: bool, now: Instant) {
        if limited && rate < self.best() {
            return;
        }
        self.samples[self.next] = Some(Sample { rate, at: now });
        self.next = (self.next + 1) % RATE_ROUNDS;
    }

    /// Forgets all before and starts with this sample.
    pub(super) fn restart(&mut self, rate: u64, now: Instant) {
        *self = Self::default();
        self.add(rate, false, now);
    }

    /// Forgets what is too old; whether that was the last.
    pub(super) fn age(&mut self, now: Instant) -> bool {
        let mut aged = false;
        for slot in &mut self.samples {
            let old = slot.is_some_and(|s| now.saturating_duration_since(s.at) > RATE_AGE_MAX);
            if old {
                *slot = None;
                aged = true;
            }
        }
        aged && self.samples.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_round_ends_with_a_packet_sent_when_it_began_and_not_before() {
        let start = Instant::now();
        let began = start + 40 * MS;
        let mut round = RoundInProgress::new(start, began);
        round.on_acked(4_000);
        let now = began + 40 * MS;
        assert_eq!(round.end(began - Duration::from_nanos(1), now), None);
        assert_eq!(round.end(began, now).unwrap().rate, Some(100_000));
    }

    #[test]
    fn acknowledgements_that_arrive_at_once_are_no_higher_rate() {
        let start = Instant::now();
        let began = start + 40 * MS;
        let mut round = RoundInProgress::new(start, began);
        round.on_acked(80_000);
        // sent over 80 ms, acknowledged within 41
        let ended = round.end(start + 80 * MS, began + 41 * MS).unwrap();
        assert_eq!(ended.rate, Some(1_000_000));
        let ended = round.end(start + 41 * MS, began + 80 * MS).unwrap();
        assert_eq!(ended.rate, Some(1_000_000));
    }

    #[test]
    fn a_clock_that_stands_still_gives_no_rate_and_a_fast_one_saturates() {
        let now = Instant::now();
        let mut round = RoundInProgress::new(now, now);
        round.on_acked(u64::MAX);
        round.on_acked(1);
        round.on_lost(u64::MAX);
        round.on_lost(1);
        let ended = round.end(now, now).unwrap();
        assert_eq!((ended.rate, ended.lost_bytes), (None, u64::MAX));
        let ended = round.end(now, now + Duration::from_nanos(1)).unwrap();
        assert_eq!(ended.rate, Some(u64::MAX));
    }

    #[test]
    fn the_best_counts_for_ten_full_rounds_and_not_for_an_eleventh() {
        let now = Instant::now();
        let mut rates = BestRate::default();
        rates.add(1_000, false, now);
        for round in 1..=10 {
            assert_eq!(rates.best(), 1_000, "{round}");
            rates.add(100 + round, false, now);
        }
        assert_eq!(rates.best(), 110);
    }

    #[test]
    fn a_limited_round_counts_where_it_is_no_worse() {
        let now = Instant::now();
        let mut rates = BestRate::default();
        rates.add(1_000, false, now);
        for _ in 0..RATE_ROUNDS {
            rates.add(999, true, now);
        }
        assert_eq!(rates.best(), 1_000);
        rates.add(1_001, true, now);
        assert_eq!(rates.best(), 1_001);
    }

    #[test]
    fn a_sample_lives_ten_seconds() {
        let now = Instant::now();
        let mut rates = BestRate::default();
        rates.add(1_000, false, now);
        rates.add(500, false, now + MS);
        assert!(!rates.age(now + RATE_AGE_MAX));
        assert_eq!(rates.best(), 1_000);
        assert!(!rates.age(now + RATE_AGE_MAX + Duration::from_nanos(1)));
        assert_eq!(rates.best(), 500);
        assert!(rates.age(now + RATE_AGE_MAX + 2 * MS), "the last has gone");
        assert!(
            !rates.age(now + RATE_AGE_MAX + 2 * MS),
            "which is said once"
        );
    }
}
