//! The ceiling over everything that a process sends while nothing makes progress.
//!
//! ```text
//!             progress          + quiet_after
//!  ──────────────┬───────────────────┬───────────────────────────────→ time
//!    free again  │  free: redials,   │  in force: any 60 s hold at most
//!                │  questions        │  quiet_bytes, dials included
//! ```
//!
//! *Intuition.* Every timer here is modest on its own, and that was true of each
//! program that spent fifty gigabytes of somebody's mobile plan on asking in vain
//! (case B85). So the sum is bounded too, whatever the parts do: a minute's bytes
//! are counted, and what wants to leave asks whether the minute holds it.
//!
//! A dial is dear and its length is not known beforehand: it reserves what one may
//! cost. The reservation is booked as if it were spent as late as a dial may last
//! ([`DIAL_TIME_MAX`]); what the dial sends is moved out of it into the second in
//! which it leaves, so that it counts for a minute from then; what is left is given
//! back when the dial ends. A reservation that nobody gives back ages away by
//! itself, so a lost one costs two quiet minutes and no leak.
//!
//! What was sent before the ceiling was in force does not count: a minute begins
//! with it. Counting goes by whole seconds, and a sum covers 61 of them, so any 60 s
//! are within the bound, wherever they begin. What waits and what is sent without
//! asking (an acknowledgement, QUIC's own) is counted by [`QuietCeiling::on_sent`];
//! if it alone passes the bound, `over_bytes` says by how much.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::config::QuietConfig;

/// The longest that a reservation may wait to be spent: the largest `dial_timeout`.
pub const DIAL_TIME_MAX: Duration = Duration::from_secs(60);

/// Seconds of the bound.
const MINUTE: u64 = 60;
/// Seconds of the ring: a minute back, a dial ahead, and the second that runs; a power of two.
const SLOTS: usize = 128;

/// Bytes that a dial may send, to be used up with [`QuietCeiling::on_dial_sent`]
/// and ended with [`QuietCeiling::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what the dial does not send is to be given back"]
pub struct DialReservation {
    tick: u64,
    left: u64,
}

impl DialReservation {
    /// Bytes that are left of it.
    pub fn left_bytes(&self) -> u64 {
        self.left
    }
}

/// What the ceiling says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QuietStatus {
    /// Whether the ceiling is in force.
    pub in_force: bool,
    /// Bytes that the current minute holds, reserved ones included.
    pub minute_bytes: u64,
    /// Bytes that may still leave in it; `None` while the ceiling is not in force.
    pub room_bytes: Option<u64>,
    /// Times that a dial was told to wait.
    pub dials_deferred: u64,
    /// Bytes that left although the minute had no room for them.
    pub over_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    tick: u64,
    bytes: u64,
}

/// The ceiling of one process, or of one session of a provider (DESIGN §5).
#[derive(Debug, Clone)]
pub struct QuietCeiling {
    config: QuietConfig,
    start: Instant,
    /// The latest second that was seen: time does not go back here.
    tick: u64,
    /// From this second on bytes count.
    counts_from: u64,
    /// When the ceiling is in force; `None`: in no time that can be told.
    in_force_at: Option<Instant>,
    slots: [Slot; SLOTS],
    dials_deferred: u64,
    over_bytes: u64,
}

impl QuietCeiling {
    /// A process that begins at `now`: it has made no progress yet.
    pub fn new(config: QuietConfig, now: Instant) -> Self {
        let mut ceiling = Self {
            config,
            start: now,
            tick: 0,
            counts_from: 0,
            in_force_at: None,
            slots: [Slot::default(); SLOTS],
            dials_deferred: 0,
            over_bytes: 0,
        };
        ceiling.on_progress(now);
        ceiling
    }

    /// Something made progress on some path: the ceiling is lifted. Costs next to
    /// nothing; it may be called for each acknowledgement.
    pub fn on_progress(&mut self, now: Instant) {
        self.look(now);
        let at = now.checked_add(self.config.quiet_after);
        // A late caller's progress does not shorten what an earlier one's gave.
        self.in_force_at = at.map(|at| at.max(self.in_force_at.unwrap_or(at)));
        let from = self.in_force_at.map(|at| self.seconds(at));
        self.counts_from = from.unwrap_or(u64::MAX);
    }

    /// `bytes` of UDP payload left that no reservation covers.
    pub fn on_sent(&mut self, bytes: u64, now: Instant) {
        self.look(now);
        let room = self.room(now).unwrap_or(u64::MAX);
        let over = bytes.saturating_sub(room);
        self.over_bytes = self.over_bytes.saturating_add(over);
        self.book(self.tick, bytes);
    }

    /// `bytes` of UDP payload left for the dial that `reservation` was made for.
    pub fn on_dial_sent(&mut self, reservation: &mut DialReservation, bytes: u64, now: Instant) {
        self.look(now);
        let covered = bytes.min(reservation.left);
        reservation.left -= covered;
        self.take_back(reservation.tick, covered);
        self.book(self.tick, covered);
        if bytes > covered {
            self.on_sent(bytes - covered, now);
        }
    }

    /// Reserves the bytes of a dial.
    ///
    /// # Errors
    /// The minute does not hold them: when it will, if nothing else leaves until
    /// then. Nothing is reserved.
    pub fn may_dial(&mut self, now: Instant) -> Result<DialReservation, Instant> {
        self.look(now);
        let needed = self.config.dial_bytes;
        if self.room(now).is_some_and(|room| room < needed) {
            self.dials_deferred = self.dials_deferred.saturating_add(1);
            return Err(self.holds_at(needed));
        }
        let tick = self.tick.saturating_add(DIAL_TIME_MAX.as_secs());
        self.book(tick, needed);
        Ok(DialReservation { tick, left: needed })
    }

    /// The dial has ended: what it did not send may be spent otherwise.
    pub fn release(&mut self, reservation: DialReservation) {
        self.take_back(reservation.tick, reservation.left);
    }

    /// Bytes that may leave at `now`; `None`: as many as there are.
    pub fn room(&self, now: Instant) -> Option<u64> {
        let in_force = self.in_force_at.is_some_and(|at| at <= now);
        in_force.then(|| self.config.quiet_bytes.saturating_sub(self.minute(now)))
    }

    /// What it says of itself.
    pub fn status(&self, now: Instant) -> QuietStatus {
        let room_bytes = self.room(now);
        QuietStatus {
            in_force: room_bytes.is_some(),
            minute_bytes: self.minute(now),
            room_bytes,
            dials_deferred: self.dials_deferred,
            over_bytes: self.over_bytes,
        }
    }

    fn seconds(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_secs()
    }

    fn look(&mut self, now: Instant) {
        self.tick = self.tick.max(self.seconds(now));
    }

    fn minute(&self, now: Instant) -> u64 {
        self.sum_from(self.tick.max(self.seconds(now)).saturating_sub(MINUTE))
    }

    /// What is booked from the second `from` on, reservations ahead included.
    fn sum_from(&self, from: u64) -> u64 {
        let from = from.max(self.counts_from);
        let counted = self.slots.iter().filter(|slot| slot.tick >= from);
        counted.fold(0, |sum, slot| sum.saturating_add(slot.bytes))
    }

    fn slot(&mut self, tick: u64) -> &mut Slot {
        &mut self.slots[(tick % SLOTS as u64) as usize]
    }

    fn book(&mut self, tick: u64, bytes: u64) {
        let slot = self.slot(tick);
        if slot.tick != tick {
            *slot = Slot { tick, bytes: 0 };
        }
        slot.bytes = slot.bytes.saturating_add(bytes);
    }

    /// Takes out of a second what was booked there, if it is still remembered.
    fn take_back(&mut self, tick: u64, bytes: u64) {
        let slot = self.slot(tick);
        if slot.tick == tick {
            slot.bytes = slot.bytes.saturating_sub(bytes);
        }
    }

    /// The first second from which on a minute holds `needed` more. Bounded: once
    /// the last second that is booked has aged, the minute is empty.
    fn holds_at(&self, needed: u64) -> Instant {
        let last = self.slots.iter().map(|slot| slot.tick).max().unwrap_or(0);
        let end = last.saturating_add(MINUTE + 1);
        let end = end.max(self.tick.saturating_add(1));
        let holds = |at: &u64| {
            let held = self.sum_from(at.saturating_sub(MINUTE));
            held.saturating_add(needed) <= self.config.quiet_bytes
        };
        let tick = (self.tick..end).find(holds).unwrap_or(end);
        let at = self.start.checked_add(Duration::from_secs(tick));
        at.unwrap_or(self.start)
    }
}

#[cfg(test)]
#[path = "quiet_tests.rs"]
mod tests;
