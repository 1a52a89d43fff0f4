//! The receiver of one lane, put together: who is asked in which order.
//!
//! A pack goes down a stair, and each step can be its last: window (too far ahead: a breach), known number (duplicate, late,
//! or changed: a breach), credit (beyond it: a breach), pieces (waits for its siblings), order (waits for another packet),
//! and out. The steps decide; this file only asks them, keeps the books, and passes on what became free.
//!
//! Making something *gone* (delivered, dropped or skipped) can free others, which are gone then themselves. That is a queue
//! of number ranges worked off in [`ReceiveSequence::settle_gone`], not a recursion: each pack passes it once, so the
//! longest chain that credit admits is also the longest loop.
//!
//! A delivery leaves as a slice of its datagram when the caller drains at once, as it should; a caller that lets them pile
//! up gets copies, so that what waits is what credit counted and not the datagrams around it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_wire::frame::{Ack, AckRanges, Lane, LaneProbe, Pack};
use quell_wire::registry::{BITMAP_NUMBERS, ErrorCode};

use super::ack::AckPolicy;
use super::bitmap::{Bitmap, Place};
use super::counters::ReceiveCounters;
use super::credit::CreditBook;
use super::fingerprint::{Fingerprint, Fingerprints};
use super::fragments::{Fragments, Packet};
use super::frame::{AckFrame, Delivery, NO_RANGES};
use super::hold::{self, Holds};
use super::skip::SkipBook;
use super::{Order, violation};
use crate::config::receive::ReceiveConfig;
use crate::drops::{DropReason, Drops};
use crate::path::Violation;

/// Deliveries that may wait as slices of their datagrams: as many packs as one datagram brings, about.
const READY_SLICES_MAX: usize = 64;

/// The receiving end of one acked lane (DESIGN §4).
#[derive(Debug)]
pub struct ReceiveSequence {
    pub(super) lane: Lane,
    pub(super) order: Order,
    pub(super) config: ReceiveConfig,
    pub(super) bitmap: Bitmap,
    pub(super) fingerprints: Fingerprints,
    /// Payload of all numbers below the bitmap's base.
    pub(super) bytes_below_base: u64,
    pub(super) credit: CreditBook,
    pub(super) acks: AckPolicy,
    pub(super) skips: SkipBook,
    fragments: Fragments,
    pub(super) holds: Holds,
    /// Numbers that are gone and may have freed others.
    pub(super) gone: VecDeque<(u64, u64)>,
    pub(super) ready: VecDeque<Delivery>,
    ready_packs: u64,
    srtt: Option<Duration>,
    pub(super) counters: ReceiveCounters,
    drops: Drops,
    pub(super) now: Instant,
}

impl ReceiveSequence {
    /// The receiver of `lane`, with nothing received; `config` must be validated.
    #[must_use]
    pub fn new(lane: Lane, config: ReceiveConfig, now: Instant) -> Self {
        Self {
            lane,
            order: Order::of(lane),
            bitmap: Bitmap::new(),
            fingerprints: Fingerprints::default(),
            bytes_below_base: 0,
            credit: CreditBook::new(&config),
            acks: AckPolicy::new(&config),
            skips: SkipBook::default(),
            fragments: Fragments::default(),
            holds: Holds::default(),
            gone: VecDeque::new(),
            ready: VecDeque::new(),
            ready_packs: 0,
            srtt: None,
            counters: ReceiveCounters::default(),
            drops: Drops::default(),
            config,
            now,
        }
    }

    /// The path's smoothed round trip: sets how long ACKs and packets wait from here on.
    pub fn on_rtt(&mut self, srtt: Duration) {
        self.srtt = Some(srtt);
        self.acks.on_rtt(srtt);
    }

    /// Takes a pack of this lane. `data` is its payload, the same bytes as `pack.data`.
    ///
    /// # Errors
    /// `NUMBER_OUT_OF_WINDOW`, `CREDIT_EXCEEDED`, `NUMBER_CHANGED` for a number that came with other contents, and
    /// `WRONG_STATE` on the message lane for marks that make no message. The connection is to be closed with it.
    pub fn handle_pack(
        &mut self,
        pack: &Pack<'_>,
        data: Bytes,
        now: Instant,
    ) -> Result<(), Violation> {
        self.now = now;
        match self.bitmap.place(pack.number) {
            Place::Beyond => Err(self.out_of_window(pack.number)),
            Place::Known => self.handle_known(pack, now),
            Place::Missing => self.handle_new(pack, data, now),
        }
    }

    pub(super) fn out_of_window(&self, number: u64) -> Violation {
        let base = self.bitmap.base();
        let words = format!("number {number}, the window is {BITMAP_NUMBERS} from {base} on");
        violation(ErrorCode::NumberOutOfWindow, words)
    }

    fn handle_known(&mut self, pack: &Pack<'_>, now: Instant) -> Result<(), Violation> {
        // The slot belongs to the number one window above as soon as that is known.
        let forgotten = self
            .bitmap
            .contains(pack.number.saturating_add(BITMAP_NUMBERS));
        let was = (!forgotten).then(|| self.fingerprints.slot(pack.number));
        if was == Some(Fingerprint::SKIPPED) {
            self.drops.count(DropReason::Skipped);
            self.acks.on_late(pack.tx, now);
        } else if was.is_some_and(|was| was != Fingerprint::of(pack)) {
            let words = format!("number {} came before with other contents", pack.number);
            return Err(violation(ErrorCode::NumberChanged, words));
        } else {
            self.counters.duplicates += 1;
            self.acks.on_duplicate(pack.tx, now);
        }
        self.counters.received += 1;
        Ok(())
    }

    fn handle_new(&mut self, pack: &Pack<'_>, data: Bytes, now: Instant) -> Result<(), Violation> {
        self.credit.check_number(pack.number)?;
        self.credit.admit_bytes(data.len() as u64)?;
        self.counters.received += 1;
        self.counters.received_bytes += data.len() as u64;
        let in_order = pack.number == self.bitmap.end();
        self.acks.on_new(pack.tx, in_order, now);
        let base = self.bitmap.base();
        self.fingerprints.insert(pack.number, Fingerprint::of(pack));
        self.bitmap.insert(pack.number);
        self.count_bytes_below(base);
        let whole = pack.flags.first && pack.flags.last;
        let packet = if whole {
            Some(Packet {
                first: pack.number,
                last: pack.number,
                dep: pack.dep,
                bytes: data,
                unordered: pack.flags.unordered,
            })
        } else {
            self.fragments
                .insert(pack.number, pack.flags, pack.dep, &data)
        };
        if let Some(packet) = packet {
            self.settle(packet);
        }
        self.drop_doomed(pack.number, pack.number)?;
        self.settle_gone()
    }

    /// Counts the payload of the numbers from `base` on that the bitmap's base has passed.
    pub(super) fn count_bytes_below(&mut self, base: u64) {
        for number in base..self.bitmap.base() {
            self.bytes_below_base += self.fingerprints.slot(number).len_bytes();
        }
    }

    /// Drops the pieces that cannot become whole any more because `first..=last` are known.
    fn drop_doomed(&mut self, first: u64, last: u64) -> Result<(), Violation> {
        while !self.fragments.is_empty()
            && let Some(doomed) = self.fragments.take_doomed(first, last, &self.bitmap)
        {
            let packs = doomed.last - doomed.first + 1;
            self.drops.add(DropReason::FragmentOrphaned, packs);
            self.credit.release(packs, doomed.bytes);
            if self.order == Order::Strict {
                let words = format!("packs {} to {} make no message", doomed.first, doomed.last);
                return Err(violation(ErrorCode::WrongState, words));
            }
            self.gone.push_back((doomed.first, doomed.last));
        }
        Ok(())
    }

    /// Holds a whole packet, or lets it out.
    fn settle(&mut self, packet: Packet) {
        match self.predecessor(&packet) {
            Some(number) if self.is_pending(number) => {
                let until = match self.order {
                    Order::Strict => None,
                    Order::Flow => Some(self.now + self.hold_limit()),
                };
                self.counters.holds += 1;
                self.holds.hold(packet, number, until);
            }
            _ => self.let_out(packet),
        }
    }

    fn predecessor(&self, packet: &Packet) -> Option<u64> {
        match self.order {
            Order::Strict => packet.first.checked_sub(1),
            Order::Flow if packet.unordered || packet.dep == 0 => None,
            Order::Flow => packet.first.checked_sub(packet.dep),
        }
    }

    /// Whether a number may still lead to a delivery.
    fn is_pending(&self, number: u64) -> bool {
        !self.bitmap.contains(number) || self.fragments.covers(number) || self.holds.covers(number)
    }

    /// How long a packet waits for another at most.
    fn hold_limit(&self) -> Duration {
        hold::limit(&self.config, self.srtt, self.acks.delay())
    }

    fn let_out(&mut self, mut packet: Packet) {
        if self.ready.len() >= READY_SLICES_MAX && packet.packs() == 1 {
            packet.bytes = Bytes::copy_from_slice(&packet.bytes);
        }
        self.ready_packs += packet.packs();
        // What is gone frees what waits for it, and mostly nothing waits.
        if !self.holds.is_empty() || !self.fragments.is_empty() {
            self.gone.push_back((packet.first, packet.last));
        }
        self.ready.push_back(Delivery {
            number: packet.first,
            packs: packet.packs(),
            bytes: packet.bytes,
        });
    }

    /// Works off what is gone until nothing more becomes free.
    pub(super) fn settle_gone(&mut self) -> Result<(), Violation> {
        while let Some((first, last)) = self.gone.pop_front() {
            self.drop_doomed(first, last)?;
            while !self.holds.is_empty()
                && let Some(waiter) = self.holds.take_waiter(first, last)
            {
                self.let_out(waiter);
            }
        }
        Ok(())
    }

    /// The next packet or message, in order where there is one. Taking it is what grants the peer new credit.
    pub fn poll_deliver(&mut self) -> Option<Delivery> {
        let delivery = self.ready.pop_front()?;
        let bytes = delivery.bytes.len() as u64;
        self.ready_packs -= delivery.packs;
        self.counters.delivered += delivery.packs;
        self.counters.delivered_bytes += bytes;
        self.counters.deliveries += 1;
        self.credit.release(delivery.packs, bytes);
        if self.credit.wants_update(self.bitmap.base()) {
            self.acks.prompt(self.now);
        }
        Some(delivery)
    }

    /// Takes what a PING says of this lane: its `tx` is seen, and an ACK is due at once, for the PONG's datagram.
    ///
    /// # Errors
    /// `CREDIT_EXCEEDED` when the peer says that it has sent a number it may not send.
    pub fn on_ping(&mut self, probe: LaneProbe, now: Instant) -> Result<(), Violation> {
        self.now = now;
        self.credit.check_number(probe.largest_number)?;
        self.acks.on_ping(probe.tx, now);
        Ok(())
    }

    /// The ACK that is due, with as many of the lowest ranges as go into `room` bytes. It counts as sent.
    pub fn poll_ack(&mut self, room: usize, now: Instant) -> Option<AckFrame> {
        self.now = now;
        if !self.acks.is_due(now) {
            return None;
        }
        self.take_ack(room, now, AckFrame::of)
    }

    /// An ACK for a datagram that leaves in any case, if anything is not said yet; as [`ReceiveSequence::poll_ack`].
    pub fn piggyback_ack(&mut self, room: usize, now: Instant) -> Option<AckFrame> {
        self.now = now;
        self.acks.due()?;
        self.take_ack(room, now, AckFrame::of)
    }

    /// Hands the ACK as it is at `now` to `take`, with as many ranges as go into `room` bytes. It counts as sent.
    pub(super) fn take_ack<T>(
        &mut self,
        room: usize,
        now: Instant,
        take: impl FnOnce(&Ack<'_>) -> T,
    ) -> Option<T> {
        let mut ranges;
        let ranges = if self.bitmap.is_contiguous() {
            AckRanges::EMPTY
        } else {
            ranges = NO_RANGES;
            let filled = ranges.iter_mut().zip(self.bitmap.ranges());
            let count = filled.map(|(slot, range)| *slot = range).count();
            AckRanges::new(&ranges[..count])
        };
        let base = self.bitmap.base();
        let (largest_tx, delay_us, dup_tx) = self.acks.fields(now);
        let ack = Ack {
            lane: self.lane,
            cumulative: base,
            ranges,
            largest_tx,
            delay_us,
            dup_tx,
            credit: self.credit.grown(base),
        };
        let ack = ack.fitting(room)?;
        let taken = take(&ack);
        self.credit.announce(ack.credit);
        self.acks.taken(now);
        self.counters.acks += 1;
        Some(taken)
    }

    /// When to call [`ReceiveSequence::handle_timeout`] or [`ReceiveSequence::poll_ack`], and why.
    ///
    /// Deliveries wake nobody: they are there after an input or not at all, and an application that leaves them holds the
    /// peer back through credit.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let timers = [(self.acks.due(), "ack"), (self.holds.deadline(), "hold")];
        let due = |(at, why): (Option<Instant>, &'static str)| at.map(|at| (at, why));
        timers.into_iter().filter_map(due).min_by_key(|(at, _)| *at)
    }

    /// Releases the packets whose hold has ended.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        while let Some(packet) = self.holds.take_expired(now) {
            let before = self.ready.len();
            self.let_out(packet);
            // Nothing becomes known here, so no pieces are doomed and nothing is broken.
            let _ = self.settle_gone();
            self.counters.holds_expired += (self.ready.len() - before) as u64;
        }
    }

    /// Lets go of what waits for an earlier packet of its flow: the session ends, that one will not come, and what is here
    /// was acknowledged, so that nobody else has it.
    pub fn release_holds(&mut self) {
        while let Some(packet) = self.holds.take_bounded() {
            let before = self.ready.len();
            self.let_out(packet);
            let _ = self.settle_gone();
            self.counters.holds_expired += (self.ready.len() - before) as u64;
        }
    }

    /// Drops what waits: the lane is over.
    pub fn close(&mut self) {
        let held = self.held_packs();
        self.drops.add(DropReason::PathClosed, held);
        self.credit.release(held, self.credit.held_bytes());
        self.fragments.clear();
        self.holds.clear();
        self.ready.clear();
        self.ready_packs = 0;
    }

    fn held_packs(&self) -> u64 {
        self.fragments.packs() + self.holds.packs() + self.ready_packs
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> ReceiveCounters {
        ReceiveCounters {
            held: self.held_packs(),
            held_bytes: self.credit.held_bytes(),
            ..self.counters
        }
    }

    /// Packs that were dropped, by reason.
    #[must_use]
    pub const fn drops(&self) -> Drops {
        self.drops
    }

    /// The next number expected: all below it came or were skipped.
    #[must_use]
    pub const fn cumulative(&self) -> u64 {
        self.bitmap.base()
    }
}
