//! no pack is handed over more than `max_resend_count` + 1 times, whatever happens.
//!
//! The books count every hand-over of every number themselves and fail at the first one too many. Here they are given
//! schedules that nobody would think of: loss that comes and goes, cuts one way, held carriers, refused writes, clocks that
//! jump, a lane that is paused, an application that sleeps, a signal that flaps. Afterwards the faults end, and all must be
//! settled within the life of a pack.

use std::time::Duration;

use proptest::prelude::*;
use quell_core::send::Kind;
use quell_wire::frame::Lane;

use crate::pair::traffic::{LEN_MIN, Offer, steady};
use crate::pair::{MS, Pair, S, Setup, packs_of};

#[derive(Debug, Clone, Copy)]
enum Op {
    Offer {
        flow: u16,
        len: usize,
        parts: u64,
        count: u8,
    },
    /// In percent, both ways.
    Loss(u8),
    /// Forward and back.
    Cut(bool, bool),
    /// In percent.
    Refusals(u8),
    Hold(bool),
    DelayMs(u32),
    RunMs(u32),
    /// The clock stands at a later time, and nobody was woken in between.
    JumpMs(u32),
    Pause(bool),
    Degraded(bool),
    Take(bool),
    Ping,
    DatagramLenMax(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let offer =
        (0_u16..3, LEN_MIN..1_000, 1_u64..4, 1_u8..20).prop_map(|(flow, len, parts, count)| {
            Op::Offer {
                flow,
                len,
                parts,
                count,
            }
        });
    prop_oneof![
        6 => offer,
        12 => (1_u32..300).prop_map(Op::RunMs),
        3 => (1_000_u32..20_000).prop_map(Op::RunMs),
        2 => (1_u32..90_000).prop_map(Op::JumpMs),
        2 => (0_u8..90).prop_map(Op::Loss),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(forward, back)| Op::Cut(forward, back)),
        1 => (0_u8..90).prop_map(Op::Refusals),
        1 => any::<bool>().prop_map(Op::Hold),
        1 => (1_u32..2_000).prop_map(Op::DelayMs),
        1 => any::<bool>().prop_map(Op::Pause),
        1 => any::<bool>().prop_map(Op::Degraded),
        1 => any::<bool>().prop_map(Op::Take),
        1 => Just(Op::Ping),
        1 => (600_usize..1_400).prop_map(Op::DatagramLenMax),
    ]
}

fn apply(pair: &mut Pair, op: Op) {
    match op {
        Op::Offer {
            flow,
            len,
            parts,
            count,
        } => {
            let at = pair.elapsed();
            let offer = Offer {
                at,
                flow,
                len,
                parts,
            };
            pair.offer(std::iter::repeat_n(offer, count.into()));
            pair.run_for(Duration::ZERO);
        }
        Op::Loss(percent) => pair.set_path(|c| c.link.loss = f64::from(percent) / 100.0),
        Op::Cut(forward, back) => {
            for (carrier, cut) in [(&mut pair.forward, forward), (&mut pair.back, back)] {
                let mut config = carrier.config();
                config.link.blackhole = cut;
                carrier.set_config(config);
            }
        }
        Op::Refusals(percent) => pair.set_path(|c| c.refusals = f64::from(percent) / 100.0),
        Op::Hold(held) => {
            let mut config = pair.forward.config();
            config.held = held;
            pair.forward.set_config(config);
        }
        Op::DelayMs(ms) => {
            pair.set_path(|c| (c.link.delay, c.link.jitter) = (MS * ms, MS * ms / 2))
        }
        Op::RunMs(ms) => pair.run_for(MS * ms),
        Op::JumpMs(ms) => pair.jump(MS * ms),
        Op::Pause(true) => pair.sender.pause(pair.now),
        Op::Pause(false) => pair.sender.resume(pair.now),
        Op::Degraded(on) => pair.degraded.0.set(on),
        Op::Take(takes) => pair.takes = takes,
        Op::Ping => pair.ping(),
        Op::DatagramLenMax(len) => pair.set_path(|c| c.datagram_len_max = len),
    }
}

fn run(lane: Lane, max_resend_count: u8, seed: u64, ops: Vec<Op>) {
    let mut setup = Setup::new(lane, seed);
    setup.send.max_resend_count = max_resend_count;
    let mut pair = setup.build();
    for op in ops {
        apply(&mut pair, op);
    }
    pair.set_path(|c| *c = Setup::new(lane, seed).carrier);
    pair.sender.resume(pair.now);
    pair.takes = true;
    pair.drain();
    // A clock that jumped by 90 s measured a round trip of that, and a PTO of three times as much: at its end a tail that was
    // lost is long given up, and a SKIP that was lost is said again.
    pair.run_to_rest(1_000 * S);
    pair.expect_settled();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    // R-3 R-10, case B01
    #[test]
    fn under_any_schedule_no_pack_passes_its_cap_and_all_is_settled(
        message: bool,
        max_resend_count in prop_oneof![Just(16_u8), 0_u8..18],
        seed: u32,
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let lane = if message { Lane::MESSAGE } else { Lane::FLOW };
        run(lane, max_resend_count, seed.into(), ops);
    }
}

/// How often number 40 was handed over that never passes, and of these into a silence.
fn sends_of_the_lost(max_resend_count: u8, others: u32) -> (u8, usize) {
    let mut setup = Setup::new(Lane::FLOW, 1);
    setup.send.max_resend_count = max_resend_count;
    // No jitter: silences at their plain times, so that 60 s see all of them.
    (setup.send.jitter_min, setup.send.jitter_max) = (1.0, 1.0);
    let mut pair = setup.build();
    pair.warm_up();
    pair.forward.swallow = Some(Box::new(|datagram| packs_of(datagram).any(|n| n == 40)));
    let elapsed = pair.elapsed();
    pair.offer(steady(1 + others, 0, 1_000, elapsed, 10 * MS));
    pair.run_to_rest(100 * S);
    pair.expect_only_path_to_blame();
    let sends = pair.sent.iter().filter(|sent| sent.number == 40);
    let silences = sends.filter(|sent| sent.kind == Kind::Silence).count();
    (pair.books.sends_of(40), silences)
}

#[test]
fn the_bound_is_exact_by_silence_and_by_evidence() {
    // 15 resends give 16 sends, 16 give 17, 17 would give 18
    for max_resend_count in [0, 1, 15, 16] {
        let all = max_resend_count + 1;
        assert_eq!(
            sends_of_the_lost(max_resend_count, 0),
            (all, max_resend_count.into())
        );
        // With traffic behind it nearly all are evidence, one each RTT and a quarter: the cap is reached in two seconds.
        let (sends, silences) = sends_of_the_lost(max_resend_count, 600);
        assert_eq!(sends, all);
        assert!(silences <= 1, "{silences}");
    }
    let (sends, _) = sends_of_the_lost(17, 600);
    assert_eq!(sends, 18);
}
