//! Body of the fuzz target `recv`, as a plain function: any bytes are what a peer, a network and a clock do to a lane.
//!
//! The first bytes choose the lane, its window and the peer's packets; four bytes are an operation each: a pack of the plan
//! in any order, a resend, a SKIP, time, an ACK, a PING, or a lie. Beside the receiver runs a `model` that remembers
//! everything in one map and answers each question by looking through all of it. After every operation both must agree:
//!
//! - the same breach, or none;
//! - a number is delivered at most once, with the bytes that came, its pieces in a row;
//! - no packet before its predecessor while that one is here, none held longer than the limit, none held for nothing;
//! - the books close, what is held is what the model holds, and never more than the window;
//! - an ACK says what came, and grants what was released.
//!
//! After a lie that was believed the contents are nobody's plan any more; books and memory are checked on. The proptest
//! below, the committed corpus (`tests/corpus`) and libFuzzer all run this body.

mod model;

use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_wire::frame::{Lane, LaneProbe, Pack, PackFlags, Skip};
use quell_wire::registry::ErrorCode;

use self::model::{Model, Plan};
use super::ReceiveSequence;
use crate::config::receive::ReceiveConfig;
use crate::path::Violation;

/// Most operations of a schedule: the model's work grows with their square.
const OPS_MAX: usize = 400;

/// Takes `data` for a schedule that begins at `start`.
///
/// # Panics
/// When an invariant of [`crate::recv`] does not hold.
pub fn recv(data: &[u8], start: Instant) {
    let Some((&[kind, seed], ops)) = data.split_first_chunk() else {
        return;
    };
    let mut run = Run::new(kind, seed, start);
    for op in ops.chunks_exact(4).take(OPS_MAX) {
        let [what, a, b, _] = *op else { return };
        if run.apply(what, a, b).is_err() {
            break;
        }
        run.check();
    }
    run.finish();
}

struct Run {
    lane: Lane,
    /// Deliveries are taken after each operation, so that their moment is known.
    eager: bool,
    sequence: ReceiveSequence,
    model: Model,
    plan: Plan,
    tx: u64,
    now: Instant,
}

impl Run {
    fn new(kind: u8, seed: u8, start: Instant) -> Self {
        let config = ReceiveConfig {
            window_bytes: if kind & 4 == 0 { 2 << 20 } else { 64 << 10 },
            window_numbers: if kind & 12 == 12 { 64 } else { 8_192 },
            ..ReceiveConfig::default()
        };
        let lane = Lane::ALL[usize::from(kind & 1)];
        Self {
            lane,
            eager: kind & 2 == 0,
            sequence: ReceiveSequence::new(lane, config.clone(), start),
            model: Model::new(lane, config),
            plan: Plan::new(seed.into()),
            tx: 0,
            now: start,
        }
    }

    fn apply(&mut self, what: u8, a: u8, b: u8) -> Result<(), ErrorCode> {
        let (near, base) = (u64::from(a), self.model.base());
        match what % 16 {
            0..=6 => self.send_planned(base + near % 16)?,
            7 => self.send_planned(base.saturating_sub(1 + near % 32))?,
            8 => self.skip_planned(base + near % 8)?,
            9 => self.skip_planned(base.saturating_sub(1 + near % 8))?,
            10 if b & 1 == 0 => self.pass(Duration::from_micros(20 * near)),
            10 => self.pass(Duration::from_millis(near)),
            11 => self.drain(),
            12 => self.ack(if b & 1 == 0 { 1_200 } else { usize::from(a) }),
            13 => self.ping(base + near % 16)?,
            14 => {
                let srtt = Duration::from_millis(near);
                self.sequence.on_rtt(srtt);
                self.model.on_rtt(srtt);
            }
            _ => self.lie(a, b)?,
        }
        if self.eager {
            self.drain();
        }
        Ok(())
    }

    fn send_planned(&mut self, number: u64) -> Result<(), ErrorCode> {
        let (flags, dep, data) = self.plan.pack(number);
        self.send(number, flags, dep, data)
    }

    fn send(
        &mut self,
        number: u64,
        flags: PackFlags,
        dep: u64,
        data: Bytes,
    ) -> Result<(), ErrorCode> {
        self.tx += 1;
        let pack = Pack {
            lane: self.lane,
            number,
            tx: self.tx,
            flags,
            dep,
            data: &data,
        };
        let expected = self.model.pack(&pack, self.now);
        let result = self.sequence.handle_pack(&pack, data.clone(), self.now);
        agree(expected, result)?;
        assert!(self.sequence.poll_timeout().is_some(), "no ACK for a pack");
        Ok(())
    }

    fn skip_planned(&mut self, up_to: u64) -> Result<(), ErrorCode> {
        let skip = Skip {
            lane: self.lane,
            up_to,
            bytes_up_to: self.plan.bytes_up_to(up_to),
        };
        let expected = if self.model.exact() {
            self.model.skip(up_to, |number| self.plan.len(number))
        } else {
            None
        };
        agree(expected, self.sequence.handle_skip(&skip, self.now))
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        if self.eager {
            self.drain();
        }
        self.sequence.handle_timeout(self.now);
        self.model.timeout(self.now);
    }

    fn drain(&mut self) {
        while let Some(delivery) = self.sequence.poll_deliver() {
            self.model.delivered(&delivery, self.eager, self.now);
        }
        self.model.drained(self.eager, self.now);
    }

    fn ack(&mut self, room: usize) {
        if let Some(frame) = self.sequence.piggyback_ack(room, self.now) {
            assert!(frame.encoded_len() <= room);
            self.model.acked(&frame.ack(), self.tx, room >= 1_200);
        }
    }

    fn ping(&mut self, largest_number: u64) -> Result<(), ErrorCode> {
        self.tx += 1;
        let probe = LaneProbe {
            lane: self.lane,
            largest_number,
            tx: self.tx,
        };
        let expected = self.model.ping(largest_number);
        agree(expected, self.sequence.on_ping(probe, self.now))?;
        self.ack(1_200);
        Ok(())
    }

    fn lie(&mut self, a: u8, b: u8) -> Result<(), ErrorCode> {
        let (near, base) = (u64::from(a), self.model.base());
        match b % 4 {
            // As far as the window reaches, and farther.
            0 => self.send_planned(base + near * 33),
            1 => {
                let number = base.saturating_sub(near % 8);
                let (flags, dep, _) = self.plan.pack(number);
                let other = Bytes::copy_from_slice(&[a; 3]);
                self.send(number, flags, dep, other)
            }
            2 => {
                let number = base + near % 16;
                let flags = PackFlags::from_bits(b >> 5).unwrap_or_default();
                let dep = number.min(u64::from(b >> 2) % 8);
                self.send(number, flags, dep, Bytes::copy_from_slice(&[a; 2]))
            }
            _ => {
                self.model.lied();
                let skip = Skip {
                    lane: self.lane,
                    up_to: base + near,
                    bytes_up_to: self.plan.bytes_up_to(base) + u64::from(b),
                };
                agree(None, self.sequence.handle_skip(&skip, self.now))
            }
        }
    }

    fn check(&self) {
        let counters = self.sequence.counters();
        let drops = self.sequence.drops();
        assert_eq!(counters.unaccounted(&drops), 0, "{counters:?} {drops:?}");
        self.model.check(&counters, &drops);
    }

    /// The lane ends; nothing stays, and the books close.
    fn finish(mut self) {
        self.sequence.close();
        let counters = self.sequence.counters();
        assert_eq!(counters.unaccounted(&self.sequence.drops()), 0);
        assert_eq!((counters.held, counters.held_bytes), (0, 0));
    }
}

/// The breach that was expected, or none; `None`: the model does not know.
fn agree(
    expected: Option<Result<(), ErrorCode>>,
    result: Result<(), Violation>,
) -> Result<(), ErrorCode> {
    let result = result.map_err(|violation| violation.code);
    if let Some(expected) = expected {
        assert_eq!(result, expected, "receiver, then model");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn op() -> impl Strategy<Value = [u8; 4]> {
        // Mostly packs close by; lies and SKIPs end a run soon.
        let what = prop_oneof![
            12 => 0_u8..8,
            1 => 8_u8..10,
            6 => 10_u8..15,
            1 => Just(15_u8),
        ];
        (what, any::<u8>(), any::<u8>()).prop_map(|(what, a, b)| [what, a, b, 0])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_500))]
        #[test]
        fn any_schedule_agrees_with_the_model(
            head: [u8; 2], ops in prop::collection::vec(op(), 0..250),
        ) {
            let data: Vec<_> = head.into_iter().chain(ops.into_iter().flatten()).collect();
            recv(&data, Instant::now());
        }
    }
}
