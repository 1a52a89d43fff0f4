//! What is due when, and the resends that time asks for.
//!
//! Four moments can be due, and [`SendSequence::poll_timeout`] names the first:
//! the head's `ack_timeout`, a reorder window that closes, the silence, and a
//! SKIP to repeat. All are computed from what is known, so an input never has to
//! remember to arm or stop anything; a late or spurious call finds nothing due.
//!
//! The silence timer stands still while its pack waits in our own queue or in the
//! carrier's, and while the lane is paused. The `ack_timeout` never does.
//!
//! Packs are accepted and depart in the order of their numbers, so looking at the
//! head alone finds what is overdue. One that waits behind a head that departed
//! late may outlive its own time, by less than that time again.

use std::time::Instant;

use super::counters::GiveUp;
use super::resend_queue::Kind;
use super::sequence::SendSequence;
use super::silence::{Life, Target};
use super::{Degraded, ResendBudget};

impl<B: ResendBudget, D: Degraded> SendSequence<B, D> {
    /// When to call [`SendSequence::handle_timeout`], and why. What waits to be
    /// sent is not in it: see [`SendSequence::next_transmit`].
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let timers = [
            (self.expiry(), "ack timeout"),
            (self.reorder_due, "reorder window"),
            (self.silence_due().map(|(at, _)| at), "silence"),
            (self.skip_due(), "skip"),
        ];
        let due = |(at, why): (Option<Instant>, &'static str)| at.map(|at| (at, why));
        timers.into_iter().filter_map(due).min_by_key(|(at, _)| *at)
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.look_at_signal(now);
        self.expire(now);
        if self.reorder_due.is_some_and(|due| due <= now) {
            self.detect_losses(now);
        }
        if let Some((_, target)) = self.silence_due().filter(|(due, _)| *due <= now) {
            self.handle_silence(&target, now);
        }
        if self.skip_due().is_some_and(|due| due <= now) {
            self.skip.repeat();
        }
    }

    pub(crate) fn look_at_signal(&mut self, now: Instant) {
        self.was_degraded = self.degraded.is_degraded(now);
    }

    fn skip_due(&self) -> Option<Instant> {
        let may_send = !self.paused && !self.ended;
        may_send.then(|| self.skip.due(self.rtt.pto())).flatten()
    }

    /// When the head is given up: it was accepted first and departs first, so it
    /// expires first. What could not be sent in all that time is worth as little as
    /// what was not acknowledged: a path that returns must not bring yesterday's.
    fn expiry(&self) -> Option<Instant> {
        let head = self.queue.slot(self.queue.base())?;
        let since = head.first_departed.unwrap_or(head.accepted_at);
        since.checked_add(self.config.ack_timeout)
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while self.expiry().is_some_and(|at| at <= now) && !self.ended {
            self.give_up(self.queue.base(), GiveUp::Expired, now);
        }
    }

    /// Moves `spent_end` over packs that are settled or out of resends.
    pub(super) fn skip_spent(&mut self) {
        let mut from = self.spent_end;
        self.spent_end = loop {
            match self.queue.next_open(from, self.sent_end) {
                Some(number) if self.resends_left(number) == 0 => from = number + 1,
                Some(number) => break number,
                None => break self.sent_end,
            }
        };
    }

    /// Resends that a pack has left; also 0 before its first send.
    pub(super) fn resends_left(&self, number: u64) -> u8 {
        let sends = self.queue.slot(number).map_or(0, |slot| slot.sends);
        if sends == 0 {
            return 0;
        }
        self.config.sends_max().saturating_sub(sends)
    }

    /// The pack that the silence timer would resend.
    fn target_number(&self) -> Option<u64> {
        self.queue.next_open(self.spent_end, self.sent_end)
    }

    fn target(&self) -> Option<Target> {
        let number = self.target_number();
        let watched = number.or_else(|| self.queue.next_open(0, self.sent_end))?;
        let slot = self.queue.slot(watched)?;
        // Waiting for room, here or in the carrier, is not silence.
        let departed = slot.departed.filter(|_| slot.queued.is_none())?;
        let since = self.since.map_or(departed, |since| since.max(departed));
        let life = number.and(slot.first_departed).map(|first| Life {
            ends: first
                .checked_add(self.config.ack_timeout)
                .unwrap_or(departed),
            resends_left: self.resends_left(watched),
        });
        Some(Target { since, life })
    }

    fn silence_due(&self) -> Option<(Instant, Target)> {
        if self.paused {
            return None;
        }
        let target = self.target()?;
        let due = self
            .silence
            .due(&target, self.rtt.pto(), self.was_degraded)?;
        Some((due, target))
    }

    fn handle_silence(&mut self, target: &Target, now: Instant) {
        self.silence.fired(target, self.rtt.pto());
        let Some(number) = self.target_number() else {
            self.probe_wanted = true;
            self.since = Some(now);
            return;
        };
        let bytes = self.queue.slot(number).map_or(0, |slot| slot.len as usize);
        let Some(reserved) = self.budget.reserve(bytes, now) else {
            self.counters.denied += 1;
            self.since = Some(now);
            return;
        };
        if let Some(slot) = self.queue.slot_mut(number) {
            slot.reserved = Some(reserved);
        }
        self.queue_resend(number, Kind::Silence);
    }

    pub(super) fn queue_resend(&mut self, number: u64, kind: Kind) {
        if let Some(slot) = self.queue.slot_mut(number) {
            slot.queued = Some(kind);
            self.resends.push_back(number);
        }
    }

    /// Takes a queued resend back and refunds what it reserved.
    pub(super) fn cancel_resend(&mut self, number: u64, now: Instant) -> bool {
        let Some(slot) = self.queue.slot_mut(number) else {
            return false;
        };
        let Some(kind) = slot.queued.take() else {
            return false;
        };
        if kind == Kind::Silence
            && let Some(reserved) = slot.reserved.take()
        {
            self.budget.refund(reserved, now);
        }
        true
    }

    pub(super) fn cancel_silences(&mut self, now: Instant) {
        for index in 0..self.resends.len() {
            let number = self.resends[index];
            let queued = self.queue.slot(number).and_then(|slot| slot.queued);
            if queued == Some(Kind::Silence) && self.cancel_resend(number, now) {
                self.counters.cancelled += 1;
            }
        }
        let queue = &self.queue;
        let waits = |n: &u64| queue.slot(*n).is_some_and(|slot| slot.queued.is_some());
        self.resends.retain(waits);
    }
}
