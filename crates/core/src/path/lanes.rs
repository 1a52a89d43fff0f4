//! The acked lanes of a path: both ends of each, and what waits in them.
//!
//! Lane `message` is strict and ends with the first pack it has to give up; lane
//! `flow` skips. Neither knows of the other. What the path knows beyond the lanes
//! is what *waits*: bytes taken in and never sent, which are a queue like any
//! other and bounded by time, where what is sent and unacknowledged is not.

use std::time::Instant;

use quell_wire::frame::{Credit, Lane, PackFlags};

use super::cut::Cut;
use crate::budget::SilenceBudget;
use crate::config::LanesConfig;
use crate::health::Signal;
use crate::recv::ReceiveSequence;
use crate::send::{Backpressure, Delivery, Kind, SendSequence};

/// The sending end of a lane of a path.
pub(super) type Sender = SendSequence<SilenceBudget, Signal>;

#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) send: [Sender; Lane::COUNT],
    pub(super) receive: [ReceiveSequence; Lane::COUNT],
    waiting_bytes: [usize; Lane::COUNT],
    /// Packs given up, as of the last look: some may never have been sent.
    given_up: [u64; Lane::COUNT],
    /// Something was refused for want of credit, and no pack of ours is on its
    /// way that would bring news of it.
    starved: [bool; Lane::COUNT],
}

impl Lanes {
    /// `budget` is the path's: its lanes share it.
    pub(super) fn new(
        config: &LanesConfig,
        (budget, signal): (&SilenceBudget, &Signal),
        seed: u64,
        now: Instant,
    ) -> Self {
        let none = Credit {
            max_bytes: 0,
            max_number: 0,
        };
        let sender = |lane: Lane| {
            let delivery = if lane == Lane::MESSAGE {
                Delivery::Strict
            } else {
                Delivery::Skipping
            };
            let seed = seed ^ u64::from(lane.number());
            let terms = (budget.clone(), signal.clone());
            Sender::new(lane, delivery, config.send.clone(), none, terms, seed)
        };
        Self {
            send: Lane::ALL.map(sender),
            receive: Lane::ALL.map(|lane| ReceiveSequence::new(lane, config.receive.clone(), now)),
            waiting_bytes: [0; Lane::COUNT],
            given_up: [0; Lane::COUNT],
            starved: [false; Lane::COUNT],
        }
    }

    /// Takes something in that is cut into packs: all of it, or nothing.
    ///
    /// `dep` is asked for the distance of the first pack, with its number and the
    /// first number after the last.
    pub(super) fn accept(
        &mut self,
        lane: Lane,
        data: &[u8],
        cut: Cut,
        (unordered, dep): (bool, impl FnOnce(u64, u64) -> u16),
        now: Instant,
    ) -> Result<(), Backpressure> {
        let send = &mut self.send[lane.index()];
        if let Err(reason) = send.admits(cut.pieces(), data.len()) {
            let starves = reason == Backpressure::Credit && !send.is_unacked();
            self.starved[lane.index()] |= starves;
            send.on_not_admitted(reason);
            return Err(reason);
        }
        let first = send.next_number();
        let mut dep = dep(first, first + cut.pieces() as u64);
        for (range, is_first, is_last) in cut.ranges() {
            let flags = PackFlags {
                first: is_first,
                last: is_last,
                unordered,
            };
            send.accept(flags, std::mem::take(&mut dep), &data[range], now)?;
        }
        self.waiting_bytes[lane.index()] += data.len();
        Ok(())
    }

    /// Bytes of a lane that wait for their first send.
    pub(super) fn waiting_bytes(&mut self, lane: Lane) -> usize {
        let index = lane.index();
        let given_up = self.send[index].given_up();
        if given_up != self.given_up[index] {
            self.given_up[index] = given_up;
            self.waiting_bytes[index] = self.send[index].unsent_bytes();
        }
        self.waiting_bytes[index]
    }

    /// A pack of `bytes` was handed over.
    pub(super) fn on_handed_over(&mut self, lane: Lane, kind: Kind, bytes: usize) {
        if kind == Kind::First {
            let waiting = &mut self.waiting_bytes[lane.index()];
            *waiting = waiting.saturating_sub(bytes);
        }
    }

    /// A hand-over of the lane was refused: what waits is counted anew.
    pub(super) fn on_refused(&mut self, lane: Lane, tx: u64) {
        let index = lane.index();
        self.send[index].on_refused(tx);
        self.waiting_bytes[index] = self.send[index].unsent_bytes();
    }

    /// Whether a pack of any lane waits for its acknowledgement.
    pub(super) fn is_unacked(&self) -> bool {
        self.send.iter().any(SendSequence::is_unacked)
    }

    /// Whether a lane has something to say that only a PING can.
    pub(super) fn wants_probe(&self) -> bool {
        self.send.iter().any(SendSequence::wants_probe)
    }

    /// Whether a lane waits for credit of which no news is on its way.
    pub(super) fn is_starved(&self) -> bool {
        self.starved.contains(&true)
    }

    /// An ACK of the lane brought credit.
    pub(super) fn on_acked(&mut self, lane: Lane) {
        self.starved[lane.index()] = false;
    }

    /// As lanes do when a timer is due.
    pub(super) fn look_at_signal(&mut self, now: Instant) {
        let look = |send: &mut Sender| send.look_at_signal(now);
        self.send.iter_mut().for_each(look);
    }

    pub(super) fn pause(&mut self, now: Instant) {
        self.send.iter_mut().for_each(|send| send.pause(now));
    }

    pub(super) fn resume(&mut self, now: Instant) {
        self.send.iter_mut().for_each(|send| send.resume(now));
    }

    pub(super) fn close(&mut self, now: Instant) {
        self.send.iter_mut().for_each(|send| send.close(now));
        self.receive.iter_mut().for_each(ReceiveSequence::close);
        self.waiting_bytes = [0; Lane::COUNT];
        self.starved = [false; Lane::COUNT];
    }
}
