//! A sender whose connection was lost and replaced (DESIGN §4, RESUME).
//!
//! What the peer holds is known to the number then, and what it does not hold is
//! not on its way: the connection that carried it is dead. So no evidence and no
//! silence is waited for; all of it stands in line to be resent, in its order and as
//! the new connection's window allows. Send counts stay, so a pack never has more
//! than its cap however often connections change. The round trip is that of another
//! way, and is measured anew.

use std::time::Instant;

use quell_wire::control::ResumeLane;
use quell_wire::frame::{Ack, AckRanges};

use super::rtt::Rtt;
use super::sequence::SendSequence;
use super::{Degraded, ResendBudget};
use crate::path::Violation;

impl<B: ResendBudget, D: Degraded> SendSequence<B, D> {
    /// A new connection stands and the peer says what it `holds` of this lane.
    ///
    /// # Errors
    /// The peer holds what was never sent.
    pub fn resume_after_loss(&mut self, holds: &ResumeLane, now: Instant) -> Result<(), Violation> {
        let ack = Ack {
            lane: self.lane,
            cumulative: holds.cumulative,
            ranges: AckRanges::new(&holds.ranges),
            largest_tx: 0,
            delay_us: 0,
            dup_tx: None,
            credit: holds.credit,
        };
        self.handle_ack(&ack, now)?;
        self.rtt = Rtt::new(&self.config);
        let mut next = self.queue.next_open(0, self.sent_end);
        while let Some(number) = next {
            let sent = self.queue.slot(number).is_some_and(|slot| slot.sends > 0);
            if sent {
                self.on_lost(number, now);
            }
            next = self.queue.next_open(number + 1, self.sent_end);
        }
        self.skip.repeat();
        self.resume(now);
        Ok(())
    }
}
