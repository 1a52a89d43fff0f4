//! What is handed over next, and what became of it.
//!
//! Resends go before first sends: the receiver holds whole flows for them. A
//! hand-over counts at once, as the bytes are out of our hands; if the carrier
//! refuses it in the same breath, [`SendSequence::on_refused`] takes it back, with
//! its count, and the pack stands first in line again. Nothing is retried on a
//! timer: the caller polls again when the carrier has room.

use std::time::Instant;

use quell_wire::frame::{Lane, Pack};
use quell_wire::varint;

use super::counters::GiveUp;
use super::resend_queue::{Kind, Slot};
use super::sequence::SendSequence;
use super::tx_ring::Sent;
use super::{Degraded, ResendBudget};

/// A pack to write into the next datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// The frame.
    pub pack: Pack<'a>,
    /// Why it goes.
    pub kind: Kind,
}

/// What goes next.
struct Next {
    number: u64,
    kind: Kind,
    /// Bytes of its frame.
    frame_len: usize,
}

impl<B: ResendBudget, D: Degraded> SendSequence<B, D> {
    /// Whether a resend may wait in our own queue.
    pub(crate) fn may_resend(&self) -> bool {
        !self.resends.is_empty()
    }

    /// The kind and the longest frame of what [`SendSequence::poll_transmit`] would
    /// yield with enough room; packs that fit no datagram at all are given up here.
    pub fn next_transmit(&mut self, now: Instant) -> Option<(Kind, usize)> {
        let next = self.next_fitting(now)?;
        Some((next.kind, next.frame_len))
    }

    /// The next pack to hand over, if its frame takes at most `room_bytes`.
    ///
    /// It counts as sent. Its `tx` is reported to [`SendSequence::on_departed`] when
    /// it has left the carrier, or to [`SendSequence::on_refused`].
    pub fn poll_transmit(&mut self, room_bytes: usize, now: Instant) -> Option<Transmit<'_>> {
        self.expire(now);
        let Next {
            number,
            kind,
            frame_len,
        } = self.next_fitting(now)?;
        if frame_len > room_bytes {
            return None;
        }
        let tx = self.hand_over(number, kind)?;
        let slot = self.queue.slot(number)?;
        let pack = Pack {
            data: self.queue.data(slot),
            ..header(self.lane, number, slot, tx)
        };
        Some(Transmit { pack, kind })
    }

    /// The transmission `tx` has left the carrier's queue: its time runs.
    pub fn on_departed(&mut self, tx: u64, now: Instant) {
        let bytes = self.note_departed(tx, now);
        if bytes > 0 {
            self.book_first_sent(bytes, now);
        }
    }

    /// `bytes` of payload left for the first time.
    pub(crate) fn book_first_sent(&mut self, bytes: usize, now: Instant) {
        self.budget.on_first_sent(bytes, now);
    }

    /// [`SendSequence::on_departed`] without the budget's books, for an owner who tells of many; the bytes that are to be
    /// booked.
    pub(crate) fn note_departed(&mut self, tx: u64, now: Instant) -> usize {
        let Some(entry) = self.ring.entry_mut(tx) else {
            return 0;
        };
        let is_news = entry.departed.is_none();
        let departed = *entry.departed.get_or_insert(now);
        let Sent::Pack {
            number, kind, len, ..
        } = entry.sent
        else {
            return 0;
        };
        let first_sent = if is_news && kind == Kind::First {
            len as usize
        } else {
            0
        };
        if let Some(slot) = self.queue.slot_mut(number).filter(|slot| slot.tx == tx) {
            slot.departed = Some(departed);
            slot.first_departed.get_or_insert(departed);
            if slot.sent_as == Kind::Silence {
                // The lane's next turn counts from here, also when it is another pack's.
                self.since = self.since.max(Some(departed));
            }
        }
        if tx < self.rack.largest() {
            self.detect_losses(now);
        }
        first_sent
    }

    /// The carrier refused the transmission `tx` at once: it never happened.
    pub fn on_refused(&mut self, tx: u64) {
        let Some(entry) = self.ring.entry_mut(tx).filter(|e| e.departed.is_none()) else {
            return;
        };
        let sent = std::mem::replace(&mut entry.sent, Sent::Refused);
        let Sent::Pack {
            number,
            previous,
            kind,
            len,
        } = sent
        else {
            return;
        };
        self.counters.refused += 1;
        // Also where the pack is gone: the datagram's next one may have ended the lane.
        self.uncount(kind, len.into());
        let before = self.ring.entry_mut(previous).map(|before| {
            before.superseded = false;
            before.departed
        });
        let Some(slot) = self.queue.slot_mut(number).filter(|slot| slot.tx == tx) else {
            return;
        };
        slot.sends = slot.sends.saturating_sub(1);
        slot.tx = previous;
        slot.departed = before.unwrap_or(slot.first_departed);
        if slot.is_open() && kind != Kind::First {
            // What it reserved stays reserved.
            slot.queued = Some(kind);
            self.resends.push_front(number);
        }
        self.first_from = self.first_from.min(number);
        self.spent_end = self.spent_end.min(number);
        self.shrink_sent_end();
        self.skip_spent();
    }

    /// Numbers at the end that were never handed over after all.
    fn shrink_sent_end(&mut self) {
        let unsent = |n: u64| {
            self.queue
                .slot(n)
                .is_some_and(|s| s.is_open() && s.sends == 0)
        };
        while self.sent_end > self.queue.base() && unsent(self.sent_end - 1) {
            self.sent_end -= 1;
        }
    }

    /// What goes next, after giving up what fits no datagram of the path.
    #[inline]
    fn next_fitting(&mut self, now: Instant) -> Option<Next> {
        // Most lanes have nothing to send most of the time: that is seen without a look at a pack.
        let is_idle = self.resends.is_empty() && self.first_from >= self.queue.end();
        if is_idle || self.paused || self.ended {
            return None;
        }
        // Each round that does not return settles a pack.
        loop {
            let (number, kind) = self.next_in_line()?;
            let frame_len = self.frame_len(number, self.queue.slot(number)?);
            if frame_len <= self.frame_len_max {
                return Some(Next {
                    number,
                    kind,
                    frame_len,
                });
            }
            self.give_up(number, GiveUp::TooLargeForPath, now);
            if self.ended {
                return None;
            }
        }
    }

    #[inline]
    fn next_in_line(&mut self) -> Option<(u64, Kind)> {
        while let Some(number) = self.resends.front().copied() {
            if let Some(kind) = self.queue.slot(number).and_then(|slot| slot.queued) {
                return Some((number, kind));
            }
            self.resends.pop_front();
        }
        let first = self.queue.slot(self.first_from);
        if first.is_some_and(|slot| slot.is_open() && slot.sends == 0) {
            return Some((self.first_from, Kind::First));
        }
        loop {
            let number = self.queue.next_open(self.first_from, self.queue.end())?;
            self.first_from = number;
            if self.queue.slot(number)?.sends == 0 {
                return Some((number, Kind::First));
            }
            self.first_from = number + 1;
        }
    }

    /// Counts the send that is about to happen; its `tx`.
    fn hand_over(&mut self, number: u64, kind: Kind) -> Option<u64> {
        let sends_max = self.config.sends_max();
        let slot = self.queue.slot(number)?;
        let tx = self.ring.push(Sent::Pack {
            number,
            previous: slot.tx,
            kind,
            len: slot.len,
        });
        let slot = self.queue.slot_mut(number)?;
        debug_assert!(slot.sends < sends_max, "R-10: a pack beyond its cap");
        slot.sends = slot.sends.saturating_add(1);
        self.counters.max_sends_of_one_pack.note(slot.sends.into());
        slot.tx = tx;
        slot.departed = None;
        slot.sent_as = kind;
        let bytes = u64::from(slot.len);
        if slot.queued.take().is_some() {
            self.resends.pop_front();
        } else {
            self.first_from = number + 1;
            self.sent_end = self.sent_end.max(number + 1);
        }
        let (sends, total) = self.send_counters(kind);
        *sends += 1;
        *total += bytes;
        self.spent_end = self.spent_end.min(number);
        self.skip_spent();
        Some(tx)
    }

    /// Bytes of the frame of a pack, were it sent next.
    #[inline]
    pub(super) fn frame_len(&self, number: u64, slot: &Slot) -> usize {
        let data = slot.len as usize;
        // Without data the length field takes its shortest form, one byte.
        let probe = header(self.lane, number, slot, self.ring.next());
        probe.header_len() - 1 + varint::len(data as u64) + data
    }

    fn uncount(&mut self, kind: Kind, bytes: u64) {
        let (sends, total) = self.send_counters(kind);
        *sends -= 1;
        *total -= bytes;
    }

    fn send_counters(&mut self, kind: Kind) -> (&mut u64, &mut u64) {
        let c = &mut self.counters;
        match kind {
            Kind::First => (&mut c.first_sends, &mut c.first_bytes),
            Kind::Evidence => (&mut c.evidence_resends, &mut c.resent_bytes),
            Kind::Silence => (&mut c.silence_resends, &mut c.resent_bytes),
        }
    }
}

fn header(lane: Lane, number: u64, slot: &Slot, tx: u64) -> Pack<'static> {
    Pack {
        lane,
        number,
        tx,
        flags: slot.flags,
        dep: u64::from(slot.dep),
        data: &[],
    }
}
