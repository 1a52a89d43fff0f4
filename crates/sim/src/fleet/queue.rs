//! What happens next: an ordered queue of a million events that is fast for near ones.
//!
//! Nearly all that is put in here is due within a round trip, and next to nothing within an hour. So time is cut into slots
//! of a millisecond or so, and a ring of slots takes whatever falls into this page of them or the next unsorted; a slot is
//! sorted when its time comes. What lies beyond waits in one unsorted list a page: to put in what is due in a minute costs no
//! more than what is due at once.
//!
//! ```text
//! push ─┬─ this slot ──▶ current: sorted, popped from the end
//!       ├─ the ring ───▶ one unsorted list a slot ──(its time comes)──▶ current
//!       └─ beyond ─────▶ one unsorted list a page ──(the page before it begins)──▶ the ring
//! ```
//!
//! Invariants: events come out by time, and those of one time in the order in which they were put in. Nothing comes out
//! before `now`; what is put in for a moment that has passed is due at once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// Nanoseconds of one slot, as a power of two: 2²⁰ ns are about a millisecond. Fewer events than a cache holds fall into
/// one, and an empty world skips a thousand a second.
const SLOT_BITS: u32 = 20;
/// Slots of a page, as a power of two: 2¹⁴ are 17 s.
const PAGE_BITS: u32 = 14;
/// Slots of the ring: two pages.
const RING: usize = 2 << PAGE_BITS;

/// Empty lists that are kept.
const SPARE_MAX: usize = 64;

#[derive(Debug)]
struct Entry<T> {
    at_ns: u64,
    order: u64,
    event: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.order)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// The greatest is the one that is due first, as [`BinaryHeap`] wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Events by time, then by the order of their coming.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// Of the slot that time stands in: sorted, the next one last.
    current: Vec<Entry<T>>,
    /// Put into the current slot while it is being emptied.
    late: BinaryHeap<Entry<T>>,
    /// The slot that time stands in.
    slot: u64,
    ring: Vec<Vec<Entry<T>>>,
    in_ring: usize,
    /// Lists that are empty: what a busy slot grew to is used again, and not held by each slot.
    spare: Vec<Vec<Entry<T>>>,
    /// Of pages after the next one.
    beyond: BTreeMap<u64, Vec<Entry<T>>>,
    order: u64,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            late: BinaryHeap::new(),
            slot: 0,
            ring: (0..RING).map(|_| Vec::new()).collect(),
            in_ring: 0,
            spare: Vec::new(),
            beyond: BTreeMap::new(),
            order: 0,
            len: 0,
        }
    }
}

fn slot_of(at_ns: u64) -> u64 {
    at_ns >> SLOT_BITS
}

fn page_of(slot: u64) -> u64 {
    slot >> PAGE_BITS
}

fn place_of(slot: u64) -> usize {
    usize::try_from(slot % RING as u64).unwrap_or(0)
}

impl<T> Queue<T> {
    /// Puts an event in.
    pub(crate) fn push(&mut self, at_ns: u64, event: T) {
        self.order += 1;
        self.len += 1;
        let entry = Entry {
            at_ns,
            order: self.order,
            event,
        };
        self.place(entry);
    }

    fn place(&mut self, entry: Entry<T>) {
        let slot = slot_of(entry.at_ns);
        if slot <= self.slot {
            self.late.push(entry);
        } else if page_of(slot) <= page_of(self.slot) + 1 {
            self.in_ring += 1;
            let list = &mut self.ring[place_of(slot)];
            if list.capacity() == 0
                && let Some(spare) = self.spare.pop()
            {
                *list = spare;
            }
            list.push(entry);
        } else {
            let page = self.beyond.entry(page_of(slot)).or_default();
            page.push(entry);
        }
    }

    /// The next event that is due at `until_ns` at the latest, and when it is.
    pub(crate) fn pop(&mut self, until_ns: u64) -> Option<(u64, T)> {
        loop {
            if let Some(entry) = self.pop_current(until_ns) {
                self.len -= 1;
                return Some((entry.at_ns, entry.event));
            }
            if !self.current.is_empty() || !self.late.is_empty() || self.slot >= slot_of(until_ns) {
                return None;
            }
            self.advance(slot_of(until_ns));
        }
    }

    fn pop_current(&mut self, until_ns: u64) -> Option<Entry<T>> {
        let from_late = match (self.current.last(), self.late.peek()) {
            (None, None) => return None,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(sorted), Some(late)) => late.key() < sorted.key(),
        };
        let next = if from_late {
            self.late.peek()
        } else {
            self.current.last()
        };
        if next?.at_ns > until_ns {
            return None;
        }
        if from_late {
            self.late.pop()
        } else {
            self.current.pop()
        }
    }

    /// Goes to the next slot that holds something, or to `slot_max`.
    fn advance(&mut self, slot_max: u64) {
        if self.in_ring == 0 {
            // To the end of the page before the one in front of which the next page's list is taken.
            let next = self.beyond.first_key_value().map(|(page, _)| *page);
            let begins = next.map_or(slot_max, |page| page.saturating_sub(1) << PAGE_BITS);
            self.slot = begins.saturating_sub(1).clamp(self.slot, slot_max - 1);
        }
        self.slot += 1;
        let next = page_of(self.slot) + 1;
        while let Some(page) = self.beyond.first_entry().filter(|page| *page.key() <= next) {
            page.remove()
                .into_iter()
                .for_each(|entry| self.place(entry));
        }
        let list = std::mem::take(&mut self.ring[place_of(self.slot)]);
        self.in_ring -= list.len();
        let empty = std::mem::replace(&mut self.current, list);
        if empty.capacity() > 0 && self.spare.len() < SPARE_MAX {
            self.spare.push(empty);
        }
        self.current.sort_unstable();
    }

    /// How many events wait.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_times_keep_their_order_and_the_past_is_due_at_once() {
        let mut queue = Queue::default();
        for event in 0..4 {
            queue.push(7 << SLOT_BITS, event);
        }
        assert_eq!(queue.pop((7 << SLOT_BITS) - 1), None);
        assert_eq!(queue.pop(7 << SLOT_BITS), Some((7 << SLOT_BITS, 0)));
        queue.push(3, 9);
        assert_eq!(queue.pop(u64::MAX), Some((3, 9)));
        assert_eq!(queue.pop(u64::MAX).unwrap().1, 1);
        assert_eq!(queue.len(), 2);
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_list(times in prop::collection::vec((0u64..1 << 38, 0u64..1 << 38), 1..200)) {
            let mut queue = Queue::default();
            let mut model: Vec<(u64, usize)> = Vec::new();
            let (mut now, mut popped) = (0, 0);
            for (index, (after, until)) in times.iter().enumerate() {
                queue.push(now + after % (1 << (index % 39)), index);
                model.push((now + after % (1 << (index % 39)), index));
                if index % 3 == 0 {
                    let until = now + until % (1 << (index % 37));
                    while let Some((at, event)) = queue.pop(until) {
                        model.sort_unstable();
                        prop_assert_eq!((at, event), model.remove(0));
                        popped += 1;
                        now = now.max(at);
                    }
                    prop_assert!(model.iter().all(|(at, _)| *at > until));
                    now = until;
                }
            }
            prop_assert_eq!(queue.len() + popped, times.len());
        }
    }
}
