//! What a path asks of its lanes beyond sending and acknowledging.

use quell_wire::frame::{Credit, Pack, PackFlags};
use quell_wire::registry::DEP_MAX;

use super::limits::Backpressure;
use super::sequence::SendSequence;
use super::{Degraded, ResendBudget};

impl<B: ResendBudget, D: Degraded> SendSequence<B, D> {
    /// Takes the credit of the greeting; a smaller one than before changes nothing.
    pub fn grant(&mut self, credit: Credit) {
        self.allowance.grant(credit);
    }

    /// Counts that something of several packs was refused as a whole.
    pub fn on_not_admitted(&mut self, reason: Backpressure) {
        self.counters.refusals.count(reason);
    }

    /// Whether a pack is acknowledged or given up. What was never accepted is not.
    pub fn is_settled(&self, number: u64) -> bool {
        let slot = self.queue.slot(number);
        number < self.queue.base() || slot.is_some_and(|slot| !slot.is_open())
    }

    /// Whether a pack was handed over that is neither acknowledged nor given up.
    pub fn is_unacked(&self) -> bool {
        self.queue.next_open(0, self.sent_end).is_some()
    }

    /// Payload bytes that wait for their first send. Walks over what waits: for
    /// the rare moments in which a running sum may have gone astray.
    pub fn unsent_bytes(&self) -> usize {
        let mut bytes = 0;
        let mut next = self.queue.next_open(self.first_from, self.queue.end());
        while let Some(number) = next {
            if let Some(slot) = self.queue.slot(number).filter(|slot| slot.sends == 0) {
                bytes += slot.len as usize;
            }
            next = self.queue.next_open(number + 1, self.queue.end());
        }
        bytes
    }

    /// Packs given up so far.
    pub fn given_up(&self) -> u64 {
        self.counters.given_up()
    }

    /// Whether a SKIP is to leave.
    pub fn wants_skip(&self) -> bool {
        !self.paused && !self.ended && self.skip.is_wanted()
    }

    /// The most that a frame of this lane adds to a pack of 64 bytes or more, for
    /// the packs of the near future.
    ///
    /// Numbers and `tx` are counted as four bytes from the start, so that what a
    /// path carries does not shrink by a byte here and there; from 2³⁰ on as eight.
    pub fn pack_overhead_bytes(&self) -> usize {
        let far = |number: u64| number.saturating_add(1 << 20);
        let probe = Pack {
            lane: self.lane,
            number: far(self.queue.end()),
            tx: far(self.ring.next()),
            flags: PackFlags::WHOLE,
            dep: DEP_MAX,
            data: &[0; 64],
        };
        probe.header_len()
    }
}
