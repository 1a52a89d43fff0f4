//! Body of the fuzz target `send`, as a plain function: any bytes are what an application, a carrier, a network, a peer and
//! a clock do to a lane's sender.
//!
//! The first bytes choose the lane, its windows and its cap; three bytes are an operation each: a pack, a hand-over that is
//! refused, waits or leaves and then arrives or not, an ACK, an old one, a lie, time, the next timer, a PING, a SKIP, and
//! what the path and the backend say. Beside the sender runs a `model` that remembers every pack and a peer that tells the
//! truth. After every operation:
//!
//! - no pack was handed over more often than its cap, nor after it was acknowledged or skipped;
//! - each send of a pack is the same but for its `tx`, which counts up by one;
//! - a SKIP passes only what is settled, and says its bytes exactly;
//! - the books close; rings, window and credit keep their bounds; what was reserved covers what was spent;
//! - a truth is believed, a lie is named and leaves no trace;
//! - a timer that was handled is not due any more.
//!
//! In the end the faults are over, and everything must be settled, at both ends alike. The proptest below, the committed
//! corpus (`tests/corpus`) and libFuzzer all run this body.

mod model;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use quell_wire::frame::{Ack, AckRange, AckRanges, Credit, Lane, PackFlags};
use quell_wire::registry::ErrorCode;

use self::model::{Model, Peer};
use super::{Backpressure, Degraded, Delivery, Kind, ResendBudget, Reservation, SendSequence};
use crate::config::LaneConfig;

/// Most operations of a schedule.
const OPS_MAX: usize = 600;

/// Most rounds of the time after the faults.
const HEAL_ROUNDS_MAX: u32 = 20_000;

/// Room of a datagram.
const ROOM_BYTES: usize = 1_200;

/// Bytes of the rings for a number of the window: its slot, its transmissions, its place among the resends, doubled.
const RING_BYTES_A_NUMBER: usize = 512;

/// Takes `data` for a schedule that begins at `start`.
///
/// # Panics
/// When an invariant of [`crate::send`] does not hold.
pub fn send(data: &[u8], start: Instant) {
    let Some((&[kind, cap, seed], ops)) = data.split_first_chunk() else {
        return;
    };
    let mut run = Run::new(kind, cap, seed, start);
    for op in ops.chunks_exact(3).take(OPS_MAX) {
        let [what, a, b] = *op else { return };
        run.apply(what, a, b);
        run.check();
    }
    run.heal();
}

/// What the world around the lane says, switched by operations.
#[derive(Debug, Clone, Default)]
struct World {
    degraded: Rc<Cell<bool>>,
    closed: Rc<Cell<bool>>,
    reserved: Rc<Cell<u64>>,
    refunded: Rc<Cell<u64>>,
    first_sent: Rc<Cell<u64>>,
}

impl ResendBudget for World {
    fn on_first_sent(&mut self, bytes: usize, _now: Instant) {
        self.first_sent.set(self.first_sent.get() + bytes as u64);
    }

    fn reserve(&mut self, bytes: usize, _now: Instant) -> Option<Reservation> {
        if self.closed.get() {
            return None;
        }
        self.reserved.set(self.reserved.get() + bytes as u64);
        Some(Reservation::of(bytes))
    }

    fn refund(&mut self, reservation: Reservation, _now: Instant) {
        let bytes = reservation.bytes() as u64;
        self.refunded.set(self.refunded.get() + bytes);
    }
}

impl Degraded for World {
    fn is_degraded(&self, _now: Instant) -> bool {
        self.degraded.get()
    }
}

struct Run {
    lane: Lane,
    sequence: SendSequence<World, World>,
    world: World,
    model: Model,
    peer: Peer,
    /// What the peer said once, to be said again late.
    old: Peer,
    /// Transmissions in the carrier's queue, and whether they will arrive.
    waiting: Vec<(u64, u64, bool)>,
    memory_max: usize,
    window_bytes: usize,
    now: Instant,
}

impl Run {
    fn new(kind: u8, cap: u8, seed: u8, start: Instant) -> Self {
        let lane = Lane::ALL[usize::from(kind & 1)];
        let config = LaneConfig {
            max_resend_count: cap % 24,
            window_numbers: if kind & 2 == 0 { 64 } else { 8_192 },
            window_bytes: 64 * 1024,
            ack_timeout: Duration::from_secs(if kind & 4 == 0 { 60 } else { 5 }),
            ..LaneConfig::default()
        };
        let delivery = if kind & 1 == 0 {
            Delivery::Strict
        } else {
            Delivery::Skipping
        };
        let credit = Credit {
            max_bytes: if kind & 8 == 0 { u64::MAX >> 2 } else { 20_000 },
            max_number: if kind & 8 == 0 { u64::MAX >> 2 } else { 40 },
        };
        let world = World::default();
        let shared = (world.clone(), world.clone());
        let (sends_max, numbers, window_bytes) = (
            config.sends_max(),
            config.window_numbers,
            config.window_bytes,
        );
        Self {
            lane,
            sequence: SendSequence::new(lane, delivery, config, credit, shared, seed.into()),
            world,
            model: Model::new(sends_max, credit),
            peer: Peer::new(credit),
            old: Peer::new(credit),
            waiting: Vec::new(),
            memory_max: window_bytes + 128 * 1024 + numbers * RING_BYTES_A_NUMBER,
            window_bytes,
            now: start,
        }
    }

    fn apply(&mut self, what: u8, a: u8, b: u8) {
        match what % 24 {
            0..=3 => self.accept(a, b),
            4..=8 => self.hand_over(a, b),
            9 => self.depart(usize::from(a)),
            10..=12 => self.say(b & 1 == 1),
            13 => self.say_old(),
            14 => self.pass(Duration::from_micros(50 * u64::from(a))),
            15 => self.pass(Duration::from_millis(20 * u64::from(a))),
            16 | 17 => self.timer(),
            18 => self.probe(a & 1 == 0),
            19 => self.skip(a & 1 == 0),
            20 if b & 1 == 0 => self.sequence.pause(self.now),
            20 => self.sequence.resume(self.now),
            21 if b & 1 == 0 => self.world.degraded.set(a & 1 == 0),
            21 => self.world.closed.set(a & 1 == 0),
            22 if b == 255 => self.close(),
            22 => {
                // From 60 bytes, which is small, to more than a datagram.
                let bytes = 60 + 8 * usize::from(a);
                self.sequence.on_frame_len_max(bytes);
                if b & 1 == 1 {
                    self.take_back();
                }
            }
            _ => self.lie(a, b),
        }
    }

    /// What is taken back was open, and is given up under its old numbers.
    fn take_back(&mut self) {
        let before = self.sequence.counters();
        let taken = self.sequence.take_back_oversize(self.now);
        let after = self.sequence.counters();
        let packs = before.in_flight - after.in_flight;
        assert_eq!(after.cut_anew - before.cut_anew, packs);
        assert!(taken.len() as u64 <= packs);
    }

    fn accept(&mut self, a: u8, b: u8) {
        let len = usize::from(a) * (1 + usize::from(b >> 5));
        let flags = PackFlags {
            first: b & 3 != 1,
            last: b & 3 != 2,
            unordered: b & 4 == 4,
        };
        let data = model::content(self.model.end(), len);
        let dep = u16::from(b >> 3).min(u16::try_from(self.model.end()).unwrap_or(0));
        if let Ok(number) = self.sequence.accept(flags, dep, &data, self.now) {
            self.model.accepted(number, flags, dep, len);
        }
    }

    fn hand_over(&mut self, a: u8, b: u8) {
        let room = if b & 0x80 == 0 {
            ROOM_BYTES
        } else {
            usize::from(a)
        };
        let Some(transmit) = self.sequence.poll_transmit(room, self.now) else {
            return;
        };
        assert!(transmit.pack.encoded_len() <= room, "no room for it");
        let (number, tx) = (transmit.pack.number, transmit.pack.tx);
        self.model.sent(&transmit);
        let arrives = b & 1 == 0;
        match (b >> 1) % 8 {
            0 => {
                self.sequence.on_refused(tx);
                self.model.refused(number);
            }
            1 | 2 => self.waiting.push((number, tx, arrives)),
            _ => self.leave(number, tx, arrives),
        }
    }

    fn leave(&mut self, number: u64, tx: u64, arrives: bool) {
        self.sequence.on_departed(tx, self.now);
        if arrives {
            self.peer.receive(number, tx, self.model.len(number));
        }
    }

    /// One of the carrier's queue leaves; which one is the network's whim.
    fn depart(&mut self, which: usize) {
        if !self.waiting.is_empty() {
            let (number, tx, arrives) = self.waiting.remove(which % self.waiting.len());
            self.leave(number, tx, arrives);
        }
    }

    fn say(&mut self, dup: bool) {
        self.peer.grant();
        let peer = self.peer.clone();
        self.tell(&peer, dup);
        self.old = peer;
    }

    fn say_old(&mut self) {
        let old = self.old.clone();
        self.tell(&old, false);
    }

    /// Tells the sender a truth.
    fn tell(&mut self, peer: &Peer, dup: bool) {
        let ranges = peer.ranges();
        let ack = Ack {
            lane: self.lane,
            cumulative: peer.cumulative(),
            ranges: AckRanges::new(&ranges),
            largest_tx: peer.largest_tx(),
            delay_us: 0,
            dup_tx: peer.duplicate().filter(|_| dup),
            credit: peer.credit(),
        };
        let acked = self.sequence.handle_ack(&ack, self.now);
        assert!(acked.is_ok(), "a truth was taken for a lie: {acked:?}");
        self.model.granted(ack.credit);
        self.model.acked(ack.cumulative, &ranges);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.handle_timeout();
    }

    fn timer(&mut self) {
        if let Some((due, _)) = self.sequence.poll_timeout() {
            self.now = self.now.max(due);
            self.handle_timeout();
        }
    }

    fn handle_timeout(&mut self) {
        self.sequence.handle_timeout(self.now);
        let due = self.sequence.poll_timeout();
        assert!(
            due.is_none_or(|(at, _)| at > self.now),
            "still due: {due:?}"
        );
    }

    fn probe(&mut self, arrives: bool) {
        let Some(probe) = self.sequence.probe() else {
            return;
        };
        self.model.probed(&probe);
        self.sequence.on_departed(probe.tx, self.now);
        if arrives {
            self.peer.see(probe.tx);
        }
    }

    fn skip(&mut self, arrives: bool) {
        let Some(skip) = self.sequence.poll_skip(ROOM_BYTES, self.now) else {
            return;
        };
        self.model.skipped(&skip);
        if arrives {
            self.peer.skip(skip.up_to);
        }
    }

    fn close(&mut self) {
        self.sequence.close(self.now);
        assert_eq!(self.sequence.poll_timeout(), None, "an end with a timer");
    }

    /// Acknowledges what was never sent, in one of the ways there are.
    fn lie(&mut self, a: u8, b: u8) {
        // What was given up before its first send counts as sent: its SKIP passes it.
        let beyond = self.sequence.sent_end + u64::from(a);
        let tx = self.model.next_tx() + u64::from(a);
        let ranges = [AckRange {
            first: beyond.max(1),
            last: beyond.max(1),
        }];
        let truth = Ack {
            lane: self.lane,
            cumulative: 0,
            ranges: AckRanges::EMPTY,
            largest_tx: 0,
            delay_us: b.into(),
            dup_tx: None,
            credit: Credit {
                max_bytes: 0,
                max_number: 0,
            },
        };
        let lie = match b % 5 {
            0 => Ack {
                cumulative: beyond + 1,
                ..truth
            },
            1 => Ack {
                ranges: AckRanges::new(&ranges),
                ..truth
            },
            2 => Ack {
                largest_tx: tx,
                ..truth
            },
            3 => Ack {
                dup_tx: Some(tx),
                ..truth
            },
            _ => Ack {
                dup_tx: Some(0),
                ..truth
            },
        };
        let before = self.sequence.counters();
        let violation = self.sequence.handle_ack(&lie, self.now).err();
        let code = violation.map(|violation| violation.code);
        assert_eq!(code, Some(ErrorCode::AckedUnsent), "{lie:?}");
        assert_eq!(self.sequence.counters(), before, "a lie left a trace");
    }

    fn check(&self) {
        let counters = self.sequence.counters();
        assert_eq!(counters.unaccounted(), 0, "{counters:?}");
        assert!(self.sequence.window_bytes() <= self.window_bytes);
        let held = self.sequence.allocated_bytes();
        assert!(held <= self.memory_max, "{held} B of rings");
        self.model.check(&counters);
        // A silence was reserved before it was sent, and is not refunded then. Evidence that was a guess was refunded.
        let spent = self
            .world
            .reserved
            .get()
            .checked_sub(self.world.refunded.get());
        assert!(spent.is_some(), "more was refunded than reserved");
        assert!(
            spent >= Some(self.model.silence_bytes()),
            "sent without a budget"
        );
        let paying = self.world.first_sent.get();
        assert!(paying <= counters.first_bytes, "{paying} B pay for guesses");
    }

    /// The faults are over: everything is settled, and both ends agree.
    fn heal(mut self) {
        self.world.closed.set(false);
        self.world.degraded.set(false);
        self.sequence.resume(self.now);
        self.sequence.on_frame_len_max(usize::MAX);
        while !self.waiting.is_empty() {
            self.depart(0);
        }
        for _ in 0..HEAL_ROUNDS_MAX {
            while let Some(transmit) = self.sequence.poll_transmit(usize::MAX, self.now) {
                let (number, tx) = (transmit.pack.number, transmit.pack.tx);
                self.model.sent(&transmit);
                self.leave(number, tx, true);
            }
            self.skip(true);
            self.now += Duration::from_millis(1);
            self.say(false);
            self.check();
            if self.is_settled() {
                break;
            }
            if let Some((due, _)) = self.sequence.poll_timeout() {
                self.now = self.now.max(due);
                self.handle_timeout();
            }
        }
        assert!(self.is_settled(), "{:?}", self.sequence.counters());
    }

    /// Whether nothing is open, and the peer knows it unless the lane has ended.
    fn is_settled(&self) -> bool {
        let is_rest = self.sequence.counters().in_flight == 0;
        let agreed = self.peer.cumulative() == self.sequence.next_number();
        let has_ended = self.sequence.admits(1, 0) == Err(Backpressure::Ended);
        is_rest && self.sequence.poll_timeout().is_none() && (agreed || has_ended)
    }
}

/// Whether a send of this kind draws on the budget of guesses.
fn is_guess(kind: Kind) -> bool {
    match kind {
        Kind::Silence => true,
        Kind::First | Kind::Evidence => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]
        #[test]
        fn any_schedule_agrees_with_the_model(
            head: [u8; 3], ops in prop::collection::vec(any::<[u8; 3]>(), 0..400),
        ) {
            let data: Vec<_> = head.into_iter().chain(ops.into_iter().flatten()).collect();
            send(&data, Instant::now());
        }
    }
}
