//! Packets whose frames no longer fit a datagram of the path.
//!
//! A path can shrink under what is on its way, and a cut often looks like that to
//! QUIC: large packets were lost, a small question is answered. To give such a
//! packet up costs its TCP a retransmission timer that may have grown to many
//! seconds meanwhile. So its owner takes it back and cuts it anew; the old numbers
//! are given up, and a SKIP tells the receiver that nothing comes under them.
//!
//! What was taken back may have arrived without our knowledge. The packet then
//! comes twice, as packets on a network do; no pack does.
//!
//! A message is never taken back: its pieces fit every path.

use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::counters::GiveUp;
use super::sequence::{Delivery, SendSequence};
use super::{Degraded, ResendBudget};

/// A packet that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenBack {
    /// All of its bytes.
    pub packet: Bytes,
    /// Whether it stood in no order.
    pub unordered: bool,
    /// When it was accepted.
    pub accepted_at: Instant,
}

impl<B: ResendBudget, D: Degraded> SendSequence<B, D> {
    /// Takes all packets back that wait or are unacknowledged and of which a pack
    /// fits no datagram any more. One that is partly acknowledged stays, and is
    /// given up when its turn comes.
    pub fn take_back_oversize(&mut self, now: Instant) -> Vec<TakenBack> {
        let mut taken = Vec::new();
        if self.ended || self.delivery == Delivery::Strict {
            return taken;
        }
        let end = self.queue.end();
        let mut from = self.queue.base();
        while let Some(number) = self.queue.next_open(from, end) {
            from = number + 1;
            let slot = self.queue.slot(number);
            let fits = |slot| self.frame_len(number, slot) <= self.frame_len_max;
            if slot.is_none_or(fits) {
                continue;
            }
            let Some(packet) = self.whole(number) else {
                continue;
            };
            from = self.queue.message_of(number).1 + 1;
            taken.push(packet);
            self.give_up(number, GiveUp::CutAnew, now);
        }
        taken
    }

    /// The packet that `number` is a part of, if all of its packs are open.
    fn whole(&self, number: u64) -> Option<TakenBack> {
        let (first, last) = self.queue.message_of(number);
        let (head, tail) = (self.queue.slot(first)?, self.queue.slot(last)?);
        if !head.flags.first || !tail.flags.last {
            return None;
        }
        let mut packet = BytesMut::new();
        for part in first..=last {
            let slot = self.queue.slot(part).filter(|slot| slot.is_open())?;
            packet.extend_from_slice(self.queue.data(slot));
        }
        Some(TakenBack {
            packet: packet.freeze(),
            unordered: head.flags.unordered,
            accepted_at: head.accepted_at,
        })
    }
}
