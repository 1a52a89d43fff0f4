//! One lane's sender: the composition of the parts, its intake, its end, and what it shows.
//!
//! The state here is what several parts share; each part's own stands in its
//! file, and so does what an input does to it: `acks`, `transmit`, `timers`.
//! Three marks run along the numbers so that nothing is searched for from the
//! start: no pack below `first_from` waits for its first send, none from
//! `sent_end` on was handed over, and none below `spent_end` has a resend left.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quell_wire::frame::{Credit, Lane, LaneProbe, PackFlags, Skip};

use super::counters::{GiveUp, SendCounters};
use super::credit::Allowance;
use super::limits::{Backpressure, Limits, PACK_BYTES_MAX};
use super::rack::Rack;
use super::resend_queue::{ResendQueue, State};
use super::rtt::Rtt;
use super::silence::Silence;
use super::skip::SkipState;
use super::tx_ring::{Sent, TxRing};
use super::{Degraded, ResendBudget};
use crate::config::LaneConfig;
use crate::drops::DropReason;

/// What becomes of a lane that gives a pack up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The peer is told to go on without it (SKIP).
    Skipping,
    /// The lane ends: without that pack the rest is worth nothing.
    Strict,
}

/// Why a strict lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted {
    /// The pack that was given up.
    pub number: u64,
    /// How often it was handed over.
    pub sends: u8,
    /// Why it was given up.
    pub cause: GiveUp,
}

/// The sender of one acknowledged lane.
#[derive(Debug)]
pub struct SendSequence<B, D> {
    pub(super) lane: Lane,
    pub(super) delivery: Delivery,
    pub(super) config: LaneConfig,
    pub(super) limits: Limits,
    pub(super) allowance: Allowance,
    pub(super) queue: ResendQueue,
    pub(super) ring: TxRing,
    pub(super) rtt: Rtt,
    pub(super) rack: Rack,
    pub(super) silence: Silence,
    pub(super) skip: SkipState,
    pub(super) budget: B,
    pub(super) degraded: D,
    /// The signal as of the last input: [`SendSequence::poll_timeout`] has no clock.
    pub(super) was_degraded: bool,
    /// Resends that wait in our own queue; entries of packs settled since are skipped.
    pub(super) resends: VecDeque<u64>,
    /// No pack below this number waits for its first send.
    pub(super) first_from: u64,
    /// One more than the largest number handed over.
    pub(super) sent_end: u64,
    /// No open pack below this number has a resend left.
    pub(super) spent_end: u64,
    /// The last sign of life, unsuccessful silence or resumption.
    pub(super) since: Option<Instant>,
    /// When the reorder window of the first undecided transmission closes.
    pub(super) reorder_due: Option<Instant>,
    pub(super) probe_wanted: bool,
    pub(super) paused: bool,
    pub(super) ended: bool,
    pub(super) exhausted: Option<Exhausted>,
    /// Longest frame that the path carries.
    pub(super) frame_len_max: usize,
    pub(super) counters: SendCounters,
}

impl<B: ResendBudget, D: Degraded> SendSequence<B, D> {
    /// An empty lane that may send up to `first` credit; `seed` feeds the jitter.
    pub fn new(
        lane: Lane,
        delivery: Delivery,
        config: LaneConfig,
        first: Credit,
        (budget, degraded): (B, D),
        seed: u64,
    ) -> Self {
        Self {
            lane,
            delivery,
            limits: Limits::new(&config),
            allowance: Allowance::new(first),
            queue: ResendQueue::new(config.window_bytes),
            ring: TxRing::new(config.window_numbers),
            rtt: Rtt::new(&config),
            rack: Rack::new(config.reorder_window_min),
            silence: Silence::new(&config, seed),
            skip: SkipState::new(config.max_resend_interval),
            config,
            budget,
            degraded,
            was_degraded: false,
            resends: VecDeque::new(),
            first_from: 0,
            sent_end: 0,
            spent_end: 0,
            since: None,
            reorder_due: None,
            probe_wanted: false,
            paused: false,
            ended: false,
            exhausted: None,
            frame_len_max: usize::MAX,
            counters: SendCounters::default(),
        }
    }

    /// Whether `packs` packs of `bytes` bytes together would be accepted at this
    /// moment: a message in several packs is asked for as a whole.
    ///
    /// # Errors
    /// The bound that is in the way.
    pub fn admits(&self, packs: usize, bytes: usize) -> Result<(), Backpressure> {
        if self.ended {
            return Err(Backpressure::Ended);
        }
        let held = (self.queue.len(), self.queue.window_bytes());
        self.limits.admit(held, packs, bytes)?;
        let end = self.queue.end().saturating_add(packs as u64);
        let total = self.queue.settled_bytes() + (held.1 + bytes) as u64;
        self.allowance.admit(end, total)
    }

    /// Copies a pack in; its number. `dep` is the distance back to the pack that
    /// the receiver is to hold it for, 0 for none. One that is not sent within
    /// `ack_timeout` is given up.
    ///
    /// # Errors
    /// The bound that is in the way. Nothing changed but the count of refusals.
    pub fn accept(
        &mut self,
        flags: PackFlags,
        dep: u16,
        data: &[u8],
        now: Instant,
    ) -> Result<u64, Backpressure> {
        let admitted = if data.len() > PACK_BYTES_MAX {
            Err(Backpressure::TooLong)
        } else {
            self.admits(1, data.len())
        };
        if let Err(reason) = admitted {
            self.counters.refusals.count(reason);
            return Err(reason);
        }
        self.counters.accepted += 1;
        Ok(self.queue.push(flags, dep, data, now))
    }

    /// Stops the silence timer and all sends: the path is stalled. Resends that
    /// were guesses are taken back.
    pub fn pause(&mut self, now: Instant) {
        self.paused = true;
        self.cancel_silences(now);
    }

    /// The path is back: the silence timer begins anew, with a plain PTO. What was
    /// sent into the silence before says nothing about the path that there is.
    pub fn resume(&mut self, now: Instant) {
        self.paused = false;
        self.silence.broken();
        self.since = Some(now);
        self.detect_losses(now);
    }

    /// Whether the lane is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The longest frame that a datagram of the path carries, in bytes. Packs that
    /// do not fit are given up when their turn comes.
    pub fn on_frame_len_max(&mut self, bytes: usize) {
        self.frame_len_max = bytes;
    }

    /// Gives a pack up, and with it the packet or message that it is a part of.
    pub(super) fn give_up(&mut self, number: u64, cause: GiveUp, now: Instant) {
        let sends = self.queue.slot(number).map_or(0, |slot| slot.sends);
        let (first, last) = self.queue.message_of(number);
        let mut next = self.queue.next_open(first, last + 1);
        while let Some(part) = next {
            self.cancel_resend(part, now);
            self.queue.settle(part, State::GivenUp);
            self.counters
                .gave_up(if part == number || cause == GiveUp::CutAnew {
                    cause
                } else {
                    GiveUp::WithMessage
                });
            next = self.queue.next_open(part + 1, last + 1);
        }
        if self.delivery == Delivery::Strict {
            self.exhausted = Some(Exhausted {
                number,
                sends,
                cause,
            });
            self.close(now);
            return;
        }
        self.advance();
    }

    /// Lets go of what is settled, and owes a SKIP for what was given up.
    pub(super) fn advance(&mut self) {
        self.queue.advance();
        let cumulative = self.allowance.cumulative();
        self.skip.update(self.queue.given_up_end(), cumulative);
        // A given-up pack that was never handed over is passed by its SKIP.
        self.first_from = self.first_from.max(self.queue.base());
        self.sent_end = self.sent_end.max(self.queue.base());
        self.skip_spent();
    }

    /// Ends the lane: all that it holds is dropped.
    pub fn close(&mut self, now: Instant) {
        self.cancel_silences(now);
        let (first, end) = (self.queue.base(), self.queue.end());
        let open = self.queue.open_count();
        while let Some(number) = self.queue.next_open(first, end) {
            self.queue.settle(number, State::GivenUp);
        }
        self.counters.dropped.add(DropReason::PathClosed, open);
        self.queue.advance();
        self.resends.clear();
        (self.ended, self.probe_wanted, self.reorder_due) = (true, false, None);
    }

    /// The pack over which a strict lane ended, once it did.
    pub fn exhausted(&self) -> Option<Exhausted> {
        self.exhausted
    }

    // --- probes, SKIP ----------------------------------------------------

    /// Whether a silence asks for a PING: no pack has a resend left.
    pub fn wants_probe(&self) -> bool {
        self.probe_wanted
    }

    /// What a PING that is about to leave says of this lane; it takes a `tx`, whose
    /// departure is reported as that of a pack. `None` while nothing is
    /// unacknowledged and there is credit for half of a window and more.
    pub fn probe(&mut self) -> Option<LaneProbe> {
        self.probe_wanted = false;
        self.skip.repeat();
        if self.queue.next_open(0, self.sent_end).is_none() && !self.is_credit_scarce() {
            return None;
        }
        self.counters.probes += 1;
        Some(LaneProbe {
            lane: self.lane,
            largest_number: self.sent_end.saturating_sub(1),
            tx: self.ring.push(Sent::Probe),
        })
    }

    /// Whether news of credit would be welcome: the ACK that brought it may be lost.
    fn is_credit_scarce(&self) -> bool {
        let used = self.queue.settled_bytes() + self.queue.window_bytes() as u64;
        let was_used = self.sent_end > 0 && !self.ended;
        was_used && self.allowance.is_scarce(self.queue.end(), used)
    }

    /// A SKIP that is due and takes at most `room_bytes`.
    pub fn poll_skip(&mut self, room_bytes: usize, now: Instant) -> Option<Skip> {
        if self.paused || self.ended || !self.skip.is_wanted() {
            return None;
        }
        let skip = Skip {
            lane: self.lane,
            up_to: self.queue.base().checked_sub(1)?,
            bytes_up_to: self.queue.settled_bytes(),
        };
        if skip.encoded_len() > room_bytes {
            return None;
        }
        self.skip.on_sent(now);
        Some(skip)
    }

    // --- what a person sees ----------------------------------------------

    /// The smoothed round-trip time, once there is a sample.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// The unwidened probe timeout.
    pub fn pto(&self) -> Duration {
        self.rtt.pto()
    }

    /// Silences in a row.
    pub fn silences(&self) -> u32 {
        self.silence.row()
    }

    /// Payload bytes from the first unacknowledged pack on.
    pub fn window_bytes(&self) -> usize {
        self.queue.window_bytes()
    }

    /// Bytes of memory that the lane's rings hold: what they grew to, in use or not.
    pub fn allocated_bytes(&self) -> usize {
        let resends = self.resends.capacity() * size_of::<u64>();
        self.queue.allocated_bytes() + self.ring.allocated_bytes() + resends
    }

    /// The next number to be given out.
    pub fn next_number(&self) -> u64 {
        self.queue.end()
    }

    /// What happened so far.
    pub fn counters(&self) -> SendCounters {
        SendCounters {
            in_flight: self.queue.open_count(),
            skips: self.skip.sent(),
            ..self.counters
        }
    }
}
