//! Any schedule: losses, duplicates, late ACKs, refusals, pauses, a switching
//! signal, a budget that closes. The cap, the books and the bounds hold at every
//! step (in `Lab`), and when all is over the peer has each pack or was told.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy)]
enum Op {
    Accept(usize),
    /// Hands over; the bits say whether it is refused and whether it arrives.
    Send {
        refused: bool,
        arrives: bool,
    },
    /// The peer's ACK comes, or an older one of it.
    Ack {
        old: bool,
        dup: bool,
    },
    Wait(u32),
    Timer,
    Probe {
        arrives: bool,
    },
    Skip {
        arrives: bool,
    },
    Pause(bool),
    Degraded(bool),
    Budget(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0_usize..2_000).prop_map(Op::Accept),
        8 => (prop::bool::weighted(0.1), any::<bool>()).prop_map(|(refused, arrives)| Op::Send { refused, arrives }),
        4 => (any::<bool>(), any::<bool>()).prop_map(|(old, dup)| Op::Ack { old, dup }),
        3 => (0_u32..200).prop_map(Op::Wait),
        8 => Just(Op::Timer),
        1 => any::<bool>().prop_map(|arrives| Op::Probe { arrives }),
        1 => any::<bool>().prop_map(|arrives| Op::Skip { arrives }),
        1 => any::<bool>().prop_map(Op::Pause),
        1 => any::<bool>().prop_map(Op::Degraded),
        1 => any::<bool>().prop_map(Op::Budget),
    ]
}

/// A receiver that tells the truth.
#[derive(Debug, Default, Clone)]
struct Peer {
    cumulative: u64,
    above: BTreeSet<u64>,
    largest_tx: u64,
    last_tx: u64,
}

impl Peer {
    fn receive(&mut self, number: u64, tx: u64) {
        self.largest_tx = self.largest_tx.max(tx);
        self.last_tx = tx;
        if number >= self.cumulative {
            self.above.insert(number);
        }
        while self.above.remove(&self.cumulative) {
            self.cumulative += 1;
        }
    }

    fn skip(&mut self, up_to: u64) {
        self.cumulative = self.cumulative.max(up_to + 1);
        self.above = self.above.split_off(&self.cumulative);
        while self.above.remove(&self.cumulative) {
            self.cumulative += 1;
        }
    }

    fn ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for n in &self.above {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == *n => *last = *n,
                _ => ranges.push((*n, *n)),
            }
        }
        ranges.truncate(64);
        ranges
    }
}

fn say(lab: &mut Lab, peer: &Peer, dup: bool) {
    let dup = (dup && peer.last_tx > 0).then_some(peer.last_tx);
    lab.ack_with(peer.cumulative, &peer.ranges(), peer.largest_tx, dup)
        .unwrap();
}

fn apply(lab: &mut Lab, peer: &mut Peer, old: &mut Peer, op: Op) {
    match op {
        Op::Accept(len) => drop(lab.accept(len)),
        Op::Send { refused, arrives } => send(lab, peer, refused, arrives),
        Op::Ack { old: true, .. } => say(lab, old, false),
        Op::Ack { old: false, dup } => {
            say(lab, peer, dup);
            *old = peer.clone();
        }
        Op::Wait(ms) => lab.now += ms * MS,
        Op::Timer => {
            if let Some((due, _)) = lab.lane.poll_timeout() {
                lab.now = lab.now.max(due);
                lab.lane.handle_timeout(lab.now);
            }
        }
        Op::Probe { arrives } => {
            if let Some(probe) = lab.lane.probe() {
                lab.lane.on_departed(probe.tx, lab.now);
                if arrives {
                    peer.largest_tx = probe.tx;
                }
            }
        }
        Op::Skip { arrives } => {
            let skip = lab.lane.poll_skip(1_200, lab.now);
            if let Some(skip) = skip.filter(|_| arrives) {
                peer.skip(skip.up_to);
            }
        }
        Op::Pause(true) => lab.lane.pause(lab.now),
        Op::Pause(false) => lab.lane.resume(lab.now),
        Op::Degraded(on) => lab.degraded.set(on),
        Op::Budget(open) => lab.purse.open.set(open),
    }
    lab.check();
}

fn send(lab: &mut Lab, peer: &mut Peer, refused: bool, arrives: bool) {
    let Some(out) = lab.hand_over() else {
        return;
    };
    if refused {
        lab.lane.on_refused(out.tx);
        *lab.sends.borrow_mut().get_mut(&out.number).unwrap() -= 1;
        return;
    }
    lab.lane.on_departed(out.tx, lab.now);
    if arrives {
        peer.receive(out.number, out.tx);
    }
}

/// The faults are over: everything is settled, and both ends agree.
fn heal(lab: &mut Lab, peer: &mut Peer) {
    lab.lane.resume(lab.now);
    lab.degraded.set(false);
    lab.purse.open.set(true);
    for _ in 0..20_000 {
        while let Some(out) = lab.transmit() {
            peer.receive(out.number, out.tx);
        }
        while let Some(skip) = lab.lane.poll_skip(1_200, lab.now) {
            peer.skip(skip.up_to);
        }
        lab.now += MS;
        say(lab, peer, false);
        match lab.lane.poll_timeout() {
            Some((due, _)) => lab.now = lab.now.max(due),
            None => break,
        }
        lab.lane.handle_timeout(lab.now);
    }
    let counters = lab.counters();
    assert_eq!(counters.in_flight, 0, "{counters:?}");
    assert_eq!(peer.cumulative, lab.lane.next_number());
}

fn run(max_resend_count: u8, ops: Vec<Op>) {
    let mut lab = Lab::new(LaneConfig {
        max_resend_count,
        window_numbers: 64,
        window_bytes: 64 * 1024,
        ..LaneConfig::default()
    });
    let (mut peer, mut old) = (Peer::default(), Peer::default());
    for op in ops {
        apply(&mut lab, &mut peer, &mut old, op);
    }
    let guesses = lab.counters().silence_resends;
    assert!(guesses == 0 || lab.purse.reserved.get() >= 0);
    heal(&mut lab, &mut peer);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // R-10, case B01
    #[test]
    fn under_any_schedule_the_cap_holds_and_after_healing_all_is_settled(
        max_resend_count in 0_u8..20,
        ops in proptest::collection::vec(op(), 1..300),
    ) {
        run(max_resend_count, ops);
    }
}
