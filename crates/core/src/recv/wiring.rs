//! What a path asks of its lanes beyond receiving and acknowledging.

use std::time::Instant;

use quell_wire::control::ResumeLane;

use super::ReceiveSequence;

impl ReceiveSequence {
    /// What is held, for a sender whose connection was replaced. What it says of
    /// credit is announced by it.
    pub fn resume_lane(&mut self) -> ResumeLane {
        let frame = self.ack_frame((0, 0, None));
        self.credit.announce(frame.credit);
        let ack = frame.ack();
        ResumeLane {
            lane: ack.lane,
            cumulative: ack.cumulative,
            ranges: ack.ranges.into_iter().collect(),
            credit: ack.credit,
        }
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
