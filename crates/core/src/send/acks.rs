//! What an ACK settles.
//!
//! Everything that an ACK says is true for good, so old ones and new ones are
//! taken alike: numbers become acknowledged, the credit rises, and only a `tx`
//! larger than any before gives an RTT sample and evidence of loss. A peer that
//! acknowledges what was never sent has broken the protocol: there is no way in
//! which an honest one could know of it.

use std::time::{Duration, Instant};

use quell_wire::frame::Ack;
use quell_wire::registry::ErrorCode;

use super::resend_queue::{Kind, State};
use super::sequence::SendSequence;
use super::tx_ring::Sent;
use super::{Degraded, ResendBudget};
use crate::path::Violation;

/// What one ACK brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acked {
    /// Packs acknowledged for the first time.
    pub packs: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// The round trip that it measured, the peer's delay included.
    pub rtt: Option<Duration>,
}

fn unsent(what: &str, value: u64) -> Violation {
    Violation {
        code: ErrorCode::AckedUnsent,
        words: format!("{what} {value} was never sent"),
    }
}

impl<B: ResendBudget, D: Degraded> SendSequence<B, D> {
    /// Takes an ACK of this lane in.
    ///
    /// # Errors
    /// The peer acknowledged what was never sent.
    pub fn handle_ack(&mut self, ack: &Ack<'_>, now: Instant) -> Result<Acked, Violation> {
        self.look_at_signal(now);
        self.check(ack)?;
        self.allowance.grant(ack.credit);
        if let Some(tx) = ack.dup_tx {
            self.on_duplicate(tx);
        }
        let mut acked = Acked {
            rtt: self.on_largest_tx(ack, now),
            ..Acked::default()
        };
        self.acknowledge(0, ack.cumulative, &mut acked, now)?;
        for range in ack.ranges {
            self.acknowledge(range.first, range.last + 1, &mut acked, now)?;
        }
        if ack.cumulative > self.allowance.cumulative() {
            self.allowance.advance(ack.cumulative);
            self.skip.progressed();
        }
        if acked.packs > 0 {
            self.silence.broken();
            self.since = Some(now);
            self.probe_wanted = false;
        }
        self.advance();
        self.detect_losses(now);
        Ok(acked)
    }

    /// Refuses what cannot be, before anything is changed.
    fn check(&self, ack: &Ack<'_>) -> Result<(), Violation> {
        if ack.cumulative > self.sent_end {
            return Err(unsent("number", ack.cumulative - 1));
        }
        let beyond = |last: &u64| *last >= self.sent_end;
        if let Some(last) = ack.ranges.iter().map(|range| range.last).find(beyond) {
            return Err(unsent("number", last));
        }
        if ack.largest_tx != 0 {
            self.check_tx(ack.largest_tx)?;
        }
        let Some(dup_tx) = ack.dup_tx else {
            return Ok(());
        };
        self.check_tx(dup_tx)?;
        match self.ring.entry(dup_tx).map(|entry| entry.sent) {
            Some(Sent::Probe) => Err(Violation {
                code: ErrorCode::AckedUnsent,
                words: format!("tx {dup_tx} was a PING and cannot be a duplicate"),
            }),
            Some(Sent::Pack { .. } | Sent::Refused) | None => Ok(()),
        }
    }

    fn check_tx(&self, tx: u64) -> Result<(), Violation> {
        let refused = self.ring.entry(tx).map(|entry| entry.sent) == Some(Sent::Refused);
        if tx == 0 || tx >= self.ring.next() || refused {
            return Err(unsent("tx", tx));
        }
        Ok(())
    }

    /// A number came twice: through us, or through the network (case B60)?
    fn on_duplicate(&mut self, tx: u64) {
        let entry = self.ring.entry(tx);
        // What is forgotten is taken for ours: patience harms less than a resend.
        let ours = entry.is_none_or(|entry| {
            let resend = matches!(entry.sent, Sent::Pack { previous, .. } if previous != 0);
            resend || entry.superseded
        });
        if ours {
            self.counters.needless_resends += 1;
            self.rack.on_needless_resend();
        } else {
            self.counters.network_duplicates += 1;
        }
    }

    fn on_largest_tx(&mut self, ack: &Ack<'_>, now: Instant) -> Option<Duration> {
        if !self.rack.on_acked(ack.largest_tx, self.ring.next()) {
            return None;
        }
        let departed = self.ring.entry(ack.largest_tx)?.departed?;
        let latest = now.saturating_duration_since(departed);
        let delay = Duration::from_micros(ack.delay_us);
        self.rtt.sample(latest, delay).then_some(latest)
    }

    /// Settles the open packs from `from` on and below `end`.
    fn acknowledge(
        &mut self,
        from: u64,
        end: u64,
        acked: &mut Acked,
        now: Instant,
    ) -> Result<(), Violation> {
        let mut next = self.queue.next_open(from, end);
        while let Some(number) = next {
            let Some(slot) = self.queue.slot(number) else {
                return Ok(());
            };
            if slot.sends == 0 {
                return Err(unsent("number", number));
            }
            acked.packs += 1;
            acked.bytes += u64::from(slot.len);
            if slot.sends == 1 {
                self.rack.on_sent_once_acked(slot.tx);
            }
            if self.cancel_resend(number, now) {
                self.counters.cancelled += 1;
            }
            self.queue.settle(number, State::Acked);
            self.counters.acked += 1;
            next = self.queue.next_open(number + 1, end);
        }
        Ok(())
    }

    /// Judges the transmissions before the largest acknowledged one, in their order.
    pub(super) fn detect_losses(&mut self, now: Instant) {
        self.reorder_due = None;
        let Some(patient) = self.rtt.patient() else {
            return;
        };
        let smoothed = self.rtt.smoothed().unwrap_or(patient);
        let wait = patient + self.rack.window(smoothed);
        loop {
            let tx = self.ring.undecided();
            if tx >= self.rack.largest() {
                return;
            }
            if let Some((number, departed)) = self.outstanding(tx) {
                let Some(departed) = departed else {
                    // It left before what was acknowledged: the report is on its way.
                    return;
                };
                let due = departed.checked_add(wait);
                if due.is_none_or(|due| due > now) {
                    self.reorder_due = due;
                    return;
                }
                self.on_lost(number, now);
            }
            self.ring.decide(tx);
        }
    }

    /// The pack whose latest transmission is `tx`, if it is open, and when it left.
    fn outstanding(&self, tx: u64) -> Option<(u64, Option<Instant>)> {
        let entry = self.ring.entry(tx)?;
        let Sent::Pack { number, .. } = entry.sent else {
            return None;
        };
        let slot = self.queue.slot(number)?;
        (slot.is_open() && slot.tx == tx).then_some((number, entry.departed))
    }

    pub(super) fn on_lost(&mut self, number: u64, now: Instant) {
        let queued = self.queue.slot(number).and_then(|slot| slot.queued);
        match queued {
            None if self.resends_left(number) > 0 => self.queue_resend(number, Kind::Evidence),
            None | Some(Kind::First | Kind::Evidence) => {}
            Some(Kind::Silence) => {
                // What was a guess is known now, and costs the budget of guesses nothing.
                let Some(slot) = self.queue.slot_mut(number) else {
                    return;
                };
                slot.queued = Some(Kind::Evidence);
                if let Some(reserved) = slot.reserved.take() {
                    self.budget.refund(reserved, now);
                }
            }
        }
    }
}
