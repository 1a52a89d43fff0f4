//! What a path asks of its lanes beyond receiving and acknowledging.

use std::time::Instant;

use bytes::BufMut;
use quell_wire::control::ResumeLane;
use quell_wire::registry::ACK_RANGES_MAX;

use super::ReceiveSequence;

impl ReceiveSequence {
    /// What is held, for a sender whose connection was replaced. What it says of
    /// credit is announced by it.
    pub fn resume_lane(&mut self) -> ResumeLane {
        let cumulative = self.bitmap.base();
        let credit = self.credit.grown(cumulative);
        self.credit.announce(credit);
        ResumeLane {
            lane: self.lane,
            cumulative,
            ranges: self.bitmap.ranges().take(ACK_RANGES_MAX).collect(),
            credit,
        }
    }

    /// [`ReceiveSequence::poll_ack`], written into `buf`; whether there was one.
    pub(crate) fn write_ack(&mut self, room: usize, now: Instant, buf: &mut impl BufMut) -> bool {
        self.now = now;
        self.acks.is_due(now) && self.take_ack(room, now, |ack| ack.write(buf)).is_some()
    }

    /// [`ReceiveSequence::piggyback_ack`], written into `buf`; whether there was one.
    pub(crate) fn write_ready_ack(
        &mut self,
        room: usize,
        now: Instant,
        buf: &mut impl BufMut,
    ) -> bool {
        self.now = now;
        self.acks.due().is_some() && self.take_ack(room, now, |ack| ack.write(buf)).is_some()
    }

    /// Whether an ACK is to leave at `now`.
    #[must_use]
    pub fn is_ack_due(&self, now: Instant) -> bool {
        self.acks.is_due(now)
    }

    /// When a packet that is held is released at the latest. A carrier without
    /// room delays ACKs, but not this.
    #[must_use]
    pub fn poll_hold(&self) -> Option<Instant> {
        self.holds.deadline()
    }

    /// Whether [`ReceiveSequence::poll_deliver`] would yield something.
    #[must_use]
    pub fn has_delivery(&self) -> bool {
        !self.ready.is_empty()
    }
}
