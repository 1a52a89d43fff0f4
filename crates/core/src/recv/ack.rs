//! When an ACK leaves, and what it says of time.
//!
//! ```text
//! new pack, in order ──── every 8th ──────────────────────────┐
//!                    └─── first one waits min(10 ms, srtt/4) ─┤
//! gap, duplicate, late pack, SKIP ── at once, ≤ 1 per ms ─────┼──→ due ──→ taken (all is said)
//! PING ───────────────────────────── at once ─────────────────┤
//! a quarter of the window drained ── at once, ≤ 1 per ms ─────┘
//! ```
//!
//! Any datagram on its way takes along what is not said yet (*piggyback*), so on a busy path the timer seldom runs out. A
//! gap is, as in RFC 9000 §13.2.1, a pack that is not the one after the highest seen: below a hole that is known already,
//! in-order arrivals are no news, and the pack that fills it is.
//!
//! The ACK of a PING is not limited in rate: it belongs into the PONG's datagram, and PINGs have their own limit.
//! `largest_tx` goes with the time of its arrival, so that the peer can take our delay out of its round trip. A duplicate is
//! reported once (RFC 2883), the latest if there are several: it tells the peer that a resend was not needed.

use std::time::{Duration, Instant};

use crate::config::receive::ReceiveConfig;

#[derive(Debug)]
pub(super) struct AckPolicy {
    packs_max: u32,
    delay_max: Duration,
    interval_min: Duration,
    /// `min(10 ms, srtt/4)`.
    delay: Duration,
    /// New packs that no ACK has covered.
    unacked: u32,
    due: Option<Instant>,
    taken_at: Option<Instant>,
    largest_tx: u64,
    largest_tx_at: Option<Instant>,
    dup_tx: Option<u64>,
}

impl AckPolicy {
    pub(super) fn new(config: &ReceiveConfig) -> Self {
        Self {
            packs_max: config.ack_packs_max,
            delay_max: config.ack_delay_max,
            interval_min: config.ack_interval_min,
            delay: config.ack_delay_max,
            unacked: 0,
            due: None,
            taken_at: None,
            largest_tx: 0,
            largest_tx_at: None,
            dup_tx: None,
        }
    }

    pub(super) fn on_rtt(&mut self, srtt: Duration) {
        self.delay = self.delay_max.min(srtt / 4);
    }

    /// How long a new pack waits for its ACK at most.
    pub(super) const fn delay(&self) -> Duration {
        self.delay
    }

    /// A new pack; `in_order` when it is the one after the highest seen.
    pub(super) fn on_new(&mut self, tx: u64, in_order: bool, now: Instant) {
        self.on_tx(tx, now);
        self.unacked += 1;
        if self.unacked >= self.packs_max {
            self.by(now);
        } else if in_order {
            self.by(now + self.delay);
        } else {
            self.prompt(now);
        }
    }

    /// A pack that had come before.
    pub(super) fn on_duplicate(&mut self, tx: u64, now: Instant) {
        self.on_tx(tx, now);
        self.dup_tx = Some(tx);
        self.prompt(now);
    }

    /// A pack that came after its number was skipped.
    pub(super) fn on_late(&mut self, tx: u64, now: Instant) {
        self.on_tx(tx, now);
        self.prompt(now);
    }

    /// A PING that spent a `tx` of this lane.
    pub(super) fn on_ping(&mut self, tx: u64, now: Instant) {
        self.on_tx(tx, now);
        self.by(now);
    }

    /// Asks for an ACK at once, but not within the interval after the last one.
    pub(super) fn prompt(&mut self, now: Instant) {
        let earliest = self.taken_at.map_or(now, |at| at + self.interval_min);
        self.by(earliest.max(now));
    }

    fn by(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn on_tx(&mut self, tx: u64, now: Instant) {
        if self.largest_tx_at.is_none() || tx > self.largest_tx {
            self.largest_tx = tx;
            self.largest_tx_at = Some(now);
        }
    }

    /// When an ACK has to leave; it is due for as long as something is not said.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// `largest_tx`, the µs since it came, and the duplicate to report.
    pub(super) fn fields(&self, now: Instant) -> (u64, u64, Option<u64>) {
        let delay = self
            .largest_tx_at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        (self.largest_tx, delay_us, self.dup_tx)
    }

    /// An ACK left: all is said.
    pub(super) fn taken(&mut self, now: Instant) {
        self.unacked = 0;
        self.due = None;
        self.dup_tx = None;
        self.taken_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NS: Duration = Duration::from_nanos(1);

    fn policy() -> (AckPolicy, Instant) {
        (AckPolicy::new(&ReceiveConfig::default()), Instant::now())
    }

    #[test]
    fn the_eighth_pack_is_acked_at_once_and_the_seventh_waits() {
        let (mut acks, t0) = policy();
        (1..=7).for_each(|tx| acks.on_new(tx, true, t0));
        assert!(!acks.is_due(t0));
        acks.on_new(8, true, t0);
        assert!(acks.is_due(t0));
        acks.taken(t0);
        assert_eq!(acks.due(), None);
        acks.on_new(9, true, t0 + MS);
        assert!(!acks.is_due(t0 + MS), "the count begins anew");
    }

    #[test]
    fn the_first_pack_waits_ten_ms_or_a_quarter_of_a_round_trip() {
        for (srtt_ms, delay_us) in [
            (None, 10_000),
            (Some(50), 10_000),
            (Some(40), 10_000),
            (Some(39), 9_750),
            (Some(4), 1_000),
        ] {
            let (mut acks, t0) = policy();
            if let Some(ms) = srtt_ms {
                acks.on_rtt(Duration::from_millis(ms));
            }
            acks.on_new(1, true, t0);
            acks.on_new(2, true, t0 + NS);
            let due = t0 + Duration::from_micros(delay_us);
            assert_eq!(acks.due(), Some(due), "srtt {srtt_ms:?}");
            assert!(!acks.is_due(due - NS) && acks.is_due(due));
        }
    }

    #[test]
    fn a_gap_and_a_duplicate_are_told_at_once_but_not_twice_in_a_ms() {
        type Event = fn(&mut AckPolicy, Instant);
        let events: [Event; 4] = [
            |acks, now| acks.on_new(5, false, now),
            |acks, now| acks.on_duplicate(5, now),
            |acks, now| acks.on_late(5, now),
            |acks, now| acks.prompt(now),
        ];
        for event in events {
            let (mut acks, t0) = policy();
            event(&mut acks, t0);
            assert!(acks.is_due(t0));
            acks.taken(t0);
            event(&mut acks, t0 + MS / 2);
            assert_eq!(acks.due(), Some(t0 + MS));
            acks.taken(t0 + MS);
            event(&mut acks, t0 + 2 * MS);
            assert!(acks.is_due(t0 + 2 * MS));
        }
    }

    #[test]
    fn a_ping_is_answered_at_once_whatever_left_just_before() {
        let (mut acks, t0) = policy();
        acks.taken(t0);
        acks.on_ping(3, t0);
        assert!(acks.is_due(t0));
        assert_eq!(acks.fields(t0), (3, 0, None));
    }

    #[test]
    fn the_delay_counts_from_the_arrival_of_the_largest_tx() {
        let (mut acks, t0) = policy();
        acks.on_new(7, true, t0);
        acks.on_new(6, false, t0 + 2 * MS);
        assert_eq!(acks.fields(t0 + 3 * MS), (7, 3_000, None));
        acks.on_duplicate(9, t0 + 3 * MS);
        assert_eq!(acks.fields(t0 + 4 * MS), (9, 1_000, Some(9)));
        acks.taken(t0 + 4 * MS);
        assert_eq!(acks.fields(t0 + 4 * MS).2, None, "a duplicate is told once");
    }
}
