//! The loss floor: a lower bound of the congestion window that random loss does
//! not move (DESIGN §4, "The QUIC beneath").
//!
//! A loss-based controller takes every loss for a full queue. On a path that loses
//! 1 % at random, Cubic fills 3 % of 100 Mbit/s. What the path delivers and how
//! long it takes show the difference: loss with a queue is congestion, loss
//! without one is not. So
//!
//! ```text
//! window = max(Cubic's, floor)      floor = gain · best delivery rate · RTT without a queue
//! ```
//!
//! | phase | gain | until |
//! |---|---|---|
//! | start-up | [`STARTUP_GAIN`](phase::STARTUP_GAIN) | a queue stands, or three full rounds brought no quarter more |
//! | cruise | [`YIELD_GAIN`] for a round, then [`CRUISE_GAIN`](phase::CRUISE_GAIN) | [`CRUISE_ROUNDS_MIN`](phase::CRUISE_ROUNDS_MIN) full rounds, twice as many after each vain probe |
//! | probe | [`PROBE_GAIN`](phase::PROBE_GAIN) | [`PROBE_ROUNDS`](phase::PROBE_ROUNDS) full rounds without growth |
//! | any, while a queue stands or the path loses too much | [`YIELD_GAIN`] | it does not |
//!
//! A *queue stands* while the lowest RTT of a round is a quarter above the minimum
//! ([`QUEUE_PART`]), or when the path marks packets (ECN): the floor then holds less
//! than the path does, the queue is left to Cubic, and flows beside it keep their
//! share. The lowest and not the smoothed RTT: jitter raises a mean most.
//!
//! Why it cruises and probes instead of keeping one gain: see [`phase`].
//!
//! **What ends it.**
//! - Loss above [`LOSS_PART`]: best rates of earlier rounds are forgotten at once,
//!   so a path that shrinks from 100 to 1 Mbit/s is believed in the round that saw
//!   it, and not ten later.
//! - [`LossFloor::on_persistent_congestion`] and silence of
//!   [`SILENCE_RTTS`]: nothing was delivered, so the floor is 0 and starts anew.
//! - Idleness: see [`rate`].
//! - A minimum RTT that might hold our own queue: see [`min_rtt`]. While it is
//!   measured, the window is capped, Cubic's too; this is the only time that the
//!   rule takes something away.
//!
//! An outage that QUIC takes for a round trip: see [`stale`]. Sans-IO: the caller
//! says what was sent, acknowledged and lost, and when. Arithmetic saturates, and a
//! clock that stands still makes no sample. Another address, another `LossFloor`.

pub mod min_rtt;
pub mod phase;
pub mod rate;
pub mod stale;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use min_rtt::MinRtt;
use phase::Phase;
use rate::{BestRate, Round, RoundInProgress};

/// Gain while a queue stands, in percent (DESIGN §4).
///
/// 85: below the path's share, so that the queue drains when it is ours.
pub const YIELD_GAIN: u64 = 85;

/// Share of what the path holds that a drain leaves in flight, in percent.
///
/// 75: enough below it that no queue is left. Half would measure the same and keep
/// packets waiting above us for another quarter of a round trip.
pub const DRAIN_GAIN: u64 = 75;

/// A queue stands when the RTT is above the minimum by one such part of it.
///
/// 4: the factor of 1.25 of DESIGN §4.
pub const QUEUE_PART: u32 = 4;

/// Least delay that is taken for a standing queue.
///
/// 2 ms: on a short path a quarter is less than a wake-up is late.
pub const QUEUE_DELAY_MIN: Duration = Duration::from_millis(2);

/// Lost share of two rounds' bytes above which loss is congestion: one such part.
///
/// 5, that is 20 %: four times the worst path that the floor is for, and all that
/// a probe into a full path with no queue can make (1 − 1/1.25).
pub const LOSS_PART: u64 = 5;

/// Bytes of two rounds below which the lost share says nothing.
///
/// 24,000: twenty packets of 1,200; at 5 % random loss five of them are lost once
/// in 400 times.
pub const LOSS_BYTES_MIN: u64 = 24_000;

/// Silence, in smoothed RTTs, after which nothing that was measured holds.
///
/// 8, and [`SILENCE_MIN`]: a lost tail is probed for and answered within three, and
/// within seven when the probe is lost as well. It may be long: as nothing is
/// acknowledged, the window is full, and little leaves whatever its size.
pub const SILENCE_RTTS: u32 = 8;

/// Least silence.
///
/// 500 ms: three probe timeouts in a row of a path of some milliseconds, with
/// QUIC's longest delay of an acknowledgement (25 ms) in each.
pub const SILENCE_MIN: Duration = Duration::from_millis(500);

/// Packets above the gain's share that the floor allows, where that is no more than
/// half of it.
///
/// 6: the mean wait of an acknowledgement of ten packets, and one packet that no
/// longer fits. A path that holds twenty packets would else never be filled.
pub const EXTRA_PACKETS: u64 = 6;

/// Smallest window of a drain, in packets: RFC 9002 §7.2 allows no less than two,
/// and four keep acknowledgements coming.
pub const DRAIN_PACKETS_MIN: u64 = 4;

/// Largest floor in bytes, whatever was acknowledged how fast.
///
/// 64 MiB: 10 Gbit/s at 50 ms.
pub const FLOOR_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The rule. See the [module](self).
#[derive(Debug, Clone)]
pub struct LossFloor {
    rates: BestRate,
    round: Option<RoundInProgress>,
    /// `None` before the first acknowledgement.
    min_rtt: Option<MinRtt>,
    phase: Phase,
    /// In the newest round a queue stood, or too much was lost.
    yielding: bool,
    /// How far the lowest mean RTT of a round of this cruise lay above the minimum.
    jitter: Duration,
    /// Bytes (acknowledged, lost) of the round before.
    before: (u64, u64),
    /// Of the acknowledgement being handled: departure of the newest packet.
    newest_sent: Option<Instant>,
    srtt: Duration,
    in_flight_bytes: u64,
    /// When the last acknowledgement came that left something in flight.
    waiting_since: Option<Instant>,
    /// The window in force when the round's content was sent.
    window_bytes: u64,
    floor_bytes: u64,
    packet_bytes: u64,
}

impl LossFloor {
    /// Knows nothing of the path but that its packets have `packet_bytes`.
    pub fn new(packet_bytes: u64) -> Self {
        Self {
            packet_bytes,
            rates: BestRate::default(),
            round: None,
            min_rtt: None,
            phase: Phase::START,
            yielding: false,
            jitter: Duration::ZERO,
            before: (0, 0),
            newest_sent: None,
            srtt: Duration::ZERO,
            in_flight_bytes: 0,
            waiting_since: None,
            window_bytes: u64::MAX,
            floor_bytes: 0,
        }
    }

    /// The path's packets have `packet_bytes`.
    pub fn on_packet_bytes(&mut self, packet_bytes: u64) {
        self.packet_bytes = packet_bytes;
    }

    /// Packets of `bytes` in all left, acknowledgements included.
    pub fn on_sent(&mut self, bytes: u64, now: Instant) {
        self.forget_if_silent(now);
        self.refresh(now);
        if self.in_flight_bytes == 0 {
            // What comes back first after a pause ends no round that began before it.
            self.round = None;
        }
        self.in_flight_bytes = self.in_flight_bytes.saturating_add(bytes);
        if let Some(round) = &mut self.round {
            // An eighth: bursts of the pacer; two packets: what no longer fits.
            let near = (self.window_bytes / 8).saturating_add(self.packet_bytes.saturating_mul(2));
            if self.in_flight_bytes.saturating_add(near) >= self.window_bytes {
                round.on_filled();
            }
        }
    }

    /// One packet of `bytes` that left at `sent` was acknowledged; `srtt` is the
    /// smoothed RTT so far, less the peer's delay. [`on_acks_end`](Self::on_acks_end)
    /// closes the acknowledgement.
    pub fn on_acked(&mut self, bytes: u64, sent: Instant, srtt: Duration, now: Instant) {
        self.forget_if_silent(now);
        self.srtt = srtt;
        self.newest_sent = self.newest_sent.max(Some(sent));
        if let Some(round) = &mut self.round {
            round.on_acked(bytes);
        }
    }

    /// The acknowledgement is complete: `in_flight_bytes` are left.
    pub fn on_acks_end(&mut self, in_flight_bytes: u64, now: Instant) {
        self.in_flight_bytes = in_flight_bytes;
        self.waiting_since = (in_flight_bytes > 0).then_some(now);
        let Some(sent) = self.newest_sent.take() else {
            return;
        };
        let sample = now.saturating_duration_since(sent);
        let cap_bytes = self.drain_bytes();
        let min_rtt = self.min_rtt.get_or_insert_with(|| MinRtt::new(sample, now));
        min_rtt.on_sample(sample, sent, now);
        min_rtt.on_acks_end(in_flight_bytes, cap_bytes, now);
        let round = self
            .round
            .get_or_insert_with(|| RoundInProgress::new(sent, now));
        // Sparse traffic is acknowledged late, which the smoothed RTT leaves out.
        round.on_rtt(sample.min(self.srtt));
        if let Some(round) = round.end(sent, now) {
            self.round = Some(RoundInProgress::new(sent, now));
            self.on_round(round, now);
        }
        self.refresh(now);
    }

    /// Packets of `bytes` in all were found lost.
    pub fn on_lost(&mut self, bytes: u64) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes);
        if let Some(round) = &mut self.round {
            round.on_lost(bytes);
        }
    }

    /// Packets came through marked (ECN-CE): the path itself says that a queue stands
    /// (RFC 3168 §5), however short it is.
    pub fn on_marked(&mut self) {
        if let Some(round) = &mut self.round {
            round.on_marked();
        }
        self.yielding = true;
        self.floor_bytes = self.floor();
    }

    /// All that was sent over three probe timeouts was lost (RFC 9002 §7.6).
    pub fn on_persistent_congestion(&mut self) {
        self.forget();
    }

    /// The window: `other_bytes`, the wrapped controller's, raised to the floor, or
    /// capped while a drain measures the path.
    pub fn window_bytes(&mut self, other_bytes: u64) -> u64 {
        let window = other_bytes.max(self.floor_bytes);
        let window = match &self.min_rtt {
            Some(min_rtt) if min_rtt.is_draining() => window.min(self.drain_bytes()),
            Some(_) | None => window,
        };
        self.window_bytes = window;
        window
    }

    /// The floor in bytes; 0 while nothing is known.
    pub fn floor_bytes(&self) -> u64 {
        self.floor_bytes
    }

    /// The path's round-trip time without a queue, as far as is known.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.as_ref().map(MinRtt::value)
    }

    fn on_round(&mut self, round: Round, now: Instant) {
        let Some(min_rtt) = &mut self.min_rtt else {
            return;
        };
        // A window that is capped delivers less than the path would.
        let limited = round.limited || min_rtt.is_draining();
        if min_rtt.has_aged(now) {
            if round.limited {
                min_rtt.believe(round.rtt_min, now);
            } else {
                min_rtt.drain(round.rtt_min, now);
            }
        }
        let base = min_rtt.value();
        let queued = round.rtt_min > base.saturating_add((base / QUEUE_PART).max(QUEUE_DELAY_MIN));
        if let Phase::Cruise { .. } = self.phase {
            let mean = round.rtt_mean.saturating_sub(base);
            self.jitter = self.jitter.min(mean);
        }
        let lossy = self.is_lossy(&round);
        self.yielding = queued || lossy || round.marked;
        let Some(rate) = round.rate else { return };
        let best_before = self.rates.best();
        if lossy {
            self.rates.restart(rate, now);
        } else {
            self.rates.add(rate, limited, now);
        }
        if self.yielding {
            self.phase = Phase::EMPTIED;
            self.jitter = base / QUEUE_PART;
        } else if !limited || self.phase.is_emptying() {
            self.phase = self.phase.next(rate, self.rates.best(), best_before);
        }
        if self.phase.is_emptying() {
            self.jitter = base / QUEUE_PART;
        }
    }

    fn is_lossy(&mut self, round: &Round) -> bool {
        let (acked, lost) = self.before;
        self.before = (round.acked_bytes, round.lost_bytes);
        let lost = lost.saturating_add(round.lost_bytes);
        let all = acked.saturating_add(round.acked_bytes).saturating_add(lost);
        all >= LOSS_BYTES_MIN && lost > all / LOSS_PART
    }

    fn refresh(&mut self, now: Instant) {
        if self.rates.age(now) {
            self.phase = Phase::START;
        }
        self.floor_bytes = self.floor();
    }

    fn floor(&self) -> u64 {
        if self.yielding || self.phase.is_emptying() {
            return self.held_bytes(YIELD_GAIN, Duration::ZERO);
        }
        let held = self.held_bytes(self.phase.gain(), self.jitter);
        let extra = self.packet_bytes.saturating_mul(EXTRA_PACKETS);
        held.saturating_add(extra.min(held / 2))
            .min(FLOOR_BYTES_MAX)
    }

    fn drain_bytes(&self) -> u64 {
        let least = self.packet_bytes.saturating_mul(DRAIN_PACKETS_MIN);
        self.held_bytes(DRAIN_GAIN, Duration::ZERO).max(least)
    }

    /// `gain` percent of what the path holds: best rate times minimum RTT and `jitter`.
    fn held_bytes(&self, gain: u64, jitter: Duration) -> u64 {
        let Some(min_rtt) = &self.min_rtt else {
            return 0;
        };
        let held = u128::from(self.rates.best())
            .saturating_mul(min_rtt.value().saturating_add(jitter).as_nanos())
            .saturating_mul(u128::from(gain))
            / (100 * 1_000_000_000);
        u64::try_from(held).unwrap_or(u64::MAX).min(FLOOR_BYTES_MAX)
    }

    fn forget_if_silent(&mut self, now: Instant) {
        let silence = self.srtt.saturating_mul(SILENCE_RTTS).max(SILENCE_MIN);
        let silent = self
            .waiting_since
            .is_some_and(|since| now.saturating_duration_since(since) > silence);
        if silent {
            self.forget();
        }
    }

    /// What was delivered says nothing any more. The minimum RTT stays: it is a
    /// lower bound, and ages by itself.
    fn forget(&mut self) {
        self.rates = BestRate::default();
        self.round = None;
        self.phase = Phase::START;
        self.yielding = false;
        self.before = (0, 0);
        self.waiting_since = None;
        self.floor_bytes = 0;
    }
}
