//! What was accepted and is not settled: a ring of packs by number, a ring of their bytes.
//!
//! ```text
//!            base                  sent_end            end
//!   settled   | open  acked  open   |  waiting waiting  |  next accepted
//!   ----------+---------------------+-------------------+-------------->  number
//! ```
//!
//! `base` is the first number that is neither acknowledged nor given up. A pack
//! settled above it keeps its place until `base` passes, as the peer's window
//! does; so the bounds on numbers and bytes are those that the peer counts by.
//! A bitmap of open numbers lets an ACK that repeats a long range cost a word for
//! 64 numbers.
//!
//! Bytes are copied once, into a [`ByteRing`] of the lane: a slice of a received
//! buffer would pin all of that buffer for as long as one pack of it waits. Both
//! rings grow by doubling up to their bound and never shrink; once they have seen
//! the lane's high-water mark, nothing is allocated.

use std::collections::VecDeque;
use std::time::Instant;

use quell_wire::frame::PackFlags;

use super::byte_ring::ByteRing;
use super::reservation::Reservation;
use crate::bits::{BitRing, WORD_BITS, bit};

/// Why a pack is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// For the first time.
    First,
    /// A later transmission was acknowledged and the reorder window has passed.
    Evidence,
    /// Nothing was acknowledged for a probe timeout or more.
    Silence,
}

/// Where a pack stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Neither acknowledged nor given up.
    Open,
    Acked,
    GivenUp,
}

/// One pack.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    start: usize,
    pub(crate) len: u32,
    pub(crate) flags: PackFlags,
    pub(crate) dep: u16,
    /// Hand-overs so far.
    pub(crate) sends: u8,
    pub(crate) state: State,
    /// Why it was handed over last.
    pub(crate) sent_as: Kind,
    /// The resend that waits in our own queue.
    pub(crate) queued: Option<Kind>,
    /// What the latest guess took out of the budget, until it is given back.
    pub(crate) reserved: Option<Reservation>,
    /// The latest transmission; 0 before the first.
    pub(crate) tx: u64,
    /// When the latest transmission left, once it has.
    pub(crate) departed: Option<Instant>,
    pub(crate) accepted_at: Instant,
    /// When a transmission of this pack left first.
    pub(crate) first_departed: Option<Instant>,
}

impl Slot {
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }
}

/// The numbers of the ring that are open.
#[derive(Debug, Default)]
struct OpenBits(BitRing);

impl OpenBits {
    fn set(&mut self, number: u64) {
        *self.0.word_mut(number) |= bit(number);
    }

    fn clear(&mut self, number: u64) {
        self.0.clear(number);
    }

    /// The first open number from `from` on and below `end`.
    fn next(&self, mut from: u64, end: u64) -> Option<u64> {
        while from < end {
            let offset = from % WORD_BITS;
            let rest = self.0.word(from) >> offset;
            if rest != 0 {
                let number = from + u64::from(rest.trailing_zeros());
                return (number < end).then_some(number);
            }
            from += WORD_BITS - offset;
        }
        None
    }
}

/// The packs of a lane from `base` on.
#[derive(Debug)]
pub(crate) struct ResendQueue {
    base: u64,
    slots: VecDeque<Slot>,
    open: OpenBits,
    open_count: u64,
    bytes: ByteRing,
    /// Payload of all numbers from `base` on.
    window_bytes: usize,
    /// Payload of all numbers below `base`.
    settled_bytes: u64,
    /// One more than the largest given-up number below `base`; 0 for none.
    given_up_end: u64,
}

impl ResendQueue {
    /// A queue whose owner never lets more than `window_bytes_max` bytes stand in it.
    pub(crate) fn new(window_bytes_max: usize) -> Self {
        Self {
            base: 0,
            slots: VecDeque::new(),
            open: OpenBits::default(),
            open_count: 0,
            bytes: ByteRing::new(window_bytes_max),
            window_bytes: 0,
            settled_bytes: 0,
            given_up_end: 0,
        }
    }

    /// The first number that is neither acknowledged nor given up.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The number that the next pack gets.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Numbers from `base` on.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Packs neither acknowledged nor given up.
    pub(crate) fn open_count(&self) -> u64 {
        self.open_count
    }

    /// Payload bytes of all numbers from `base` on.
    pub(crate) fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// Payload bytes of all numbers below `base`.
    pub(crate) fn settled_bytes(&self) -> u64 {
        self.settled_bytes
    }

    /// One more than the largest given-up number below `base`; 0 for none.
    pub(crate) fn given_up_end(&self) -> u64 {
        self.given_up_end
    }

    /// Bytes of memory held.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.bytes.capacity()
    }

    /// Copies a pack in. The owner has checked the bounds.
    pub(crate) fn push(&mut self, flags: PackFlags, dep: u16, data: &[u8], now: Instant) -> u64 {
        let number = self.end();
        if !self.bytes.has_room(data.len()) {
            let spans = self
                .slots
                .iter_mut()
                .map(|s| (&mut s.start, s.len as usize));
            self.bytes.grow(spans, self.window_bytes, data.len());
        }
        let start = self.bytes.push(data);
        self.slots.push_back(Slot {
            start,
            len: u32::try_from(data.len()).unwrap_or(u32::MAX),
            flags,
            dep,
            sends: 0,
            state: State::Open,
            sent_as: Kind::First,
            queued: None,
            reserved: None,
            tx: 0,
            departed: None,
            accepted_at: now,
            first_departed: None,
        });
        self.window_bytes += data.len();
        self.open.set(number);
        self.open_count += 1;
        number
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.base)?).ok()
    }

    /// The pack of a number, unless `base` has passed it or it was never accepted.
    pub(crate) fn slot(&self, number: u64) -> Option<&Slot> {
        self.slots.get(self.index(number)?)
    }

    pub(crate) fn slot_mut(&mut self, number: u64) -> Option<&mut Slot> {
        let index = self.index(number)?;
        self.slots.get_mut(index)
    }

    /// The bytes of `slot`, one of this queue's.
    pub(crate) fn data(&self, slot: &Slot) -> &[u8] {
        self.bytes.slice(slot.start, slot.len as usize)
    }

    /// The first open number from `from` on and below `end`.
    pub(crate) fn next_open(&self, from: u64, end: u64) -> Option<u64> {
        self.open.next(from.max(self.base), end.min(self.end()))
    }

    /// Settles an open pack. [`ResendQueue::advance`] follows.
    pub(crate) fn settle(&mut self, number: u64, state: State) {
        let Some(slot) = self.slot_mut(number).filter(|slot| slot.is_open()) else {
            return;
        };
        slot.state = state;
        slot.queued = None;
        self.open.clear(number);
        self.open_count -= 1;
    }

    /// Lets go of settled packs at the front.
    pub(crate) fn advance(&mut self) {
        while let Some(slot) = self.slots.front().filter(|slot| !slot.is_open()) {
            let len = slot.len as usize;
            self.window_bytes -= len;
            self.settled_bytes += len as u64;
            self.base += 1;
            if slot.state == State::GivenUp {
                self.given_up_end = self.base;
            }
            self.slots.pop_front();
        }
        self.bytes
            .free_before(self.slots.front().map(|slot| slot.start));
    }

    /// The numbers of the message or packet that `number` is a part of, as far as
    /// they stand in the ring: first and last.
    pub(crate) fn message_of(&self, number: u64) -> (u64, u64) {
        let flags = |n| self.slot(n).map(|slot| slot.flags);
        let mut first = number;
        while first > self.base && flags(first).is_some_and(|f| !f.first) {
            first -= 1;
        }
        let mut last = number;
        while last + 1 < self.end() && flags(last).is_some_and(|f| !f.last) {
            last += 1;
        }
        (first, last)
    }
}

#[cfg(test)]
#[path = "resend_queue_tests.rs"]
mod tests;
