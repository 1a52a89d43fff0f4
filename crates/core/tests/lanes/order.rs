//! Order: messages strictly, flows each for itself.
//!
//! Sixteen thousand messages wrap the receiver's bitmap twice while nearly every ACK tells of gaps. At 50 % loss a message
//! has a chance of 2⁻¹⁷ that all of its sends are lost, so that one in eight runs ends with a named pack; that this is the
//! only way in which it ends is what the test demands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::receive::ReceiveConfig;
use quell_core::recv::ReceiveSequence;
use quell_sim::pair::for_seeds;
use quell_wire::frame::{Lane, Pack, PackFlags};
use quell_wire::registry::BITMAP_NUMBERS;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::pair::traffic::{Offer, steady};
use crate::pair::{MS, Out, Pair, S, Setup, packs_of};

const MESSAGES: u32 = 16_384;

fn messages(loss: f64, seed: u64) -> Pair {
    let mut setup = Setup::new(Lane::MESSAGE, seed);
    setup.carrier.link.loss = loss;
    setup.carrier.cwnd_bytes = 1 << 20;
    let mut pair = setup.build();
    pair.offer(steady(MESSAGES, 0, 100, Duration::ZERO, Duration::ZERO));
    pair.run_to_rest(3_600 * S);
    pair
}

#[test]
fn at_30_percent_loss_all_messages_arrive_in_order() {
    let test = "lanes::order::at_30_percent_loss_all_messages_arrive_in_order";
    for_seeds(test, 3, |seed| {
        let mut pair = messages(0.3, seed);
        pair.expect_all_delivered();
        assert_eq!(pair.books.delivered.len(), MESSAGES as usize);
    });
}

#[test]
fn at_50_percent_loss_they_arrive_in_order_or_the_lane_ends_by_name() {
    let test = "lanes::order::at_50_percent_loss_they_arrive_in_order_or_the_lane_ends_by_name";
    for_seeds(test, 6, |seed| {
        let mut pair = messages(0.5, seed);
        pair.expect_only_path_to_blame();
        let ended = pair.sender.exhausted();
        assert!(ended.is_some() || pair.books.delivered.len() == MESSAGES as usize);
    });
}

#[test]
fn a_message_whose_every_send_is_lost_ends_the_lane_by_name() {
    // R-3 R-10: number 40 never passes, and everything else does
    let mut pair = Setup::new(Lane::MESSAGE, 1).build();
    pair.warm_up();
    pair.forward.swallow = Some(Box::new(|datagram| packs_of(datagram).any(|n| n == 40)));
    let elapsed = pair.elapsed();
    pair.offer(steady(10, 0, 1_000, elapsed, 20 * MS));
    pair.run_to_rest(100 * S);
    pair.expect_only_path_to_blame();
    let ended = pair.sender.exhausted().unwrap();
    assert_eq!((ended.number, ended.sends), (40, 17));
    assert_eq!(pair.books.delivered.len(), 40);
    // What lies behind it was acknowledged, and is told apart from what was delivered.
    assert_eq!(
        (pair.sender.counters().acked, pair.receiver.counters().held),
        (49, 9)
    );
}

/// Two flows in turn, a pack each 2 ms, the first two RTTs without loss; when each packet came out, by flow.
fn two_flows(lost: impl Fn(u64) -> bool + 'static) -> BTreeMap<u16, Vec<Out>> {
    let mut setup = Setup::new(Lane::FLOW, 1);
    // No pace: a resend takes nobody's turn.
    setup.carrier.cwnd_bytes = 1 << 40;
    let mut pair = setup.build();
    pair.warm_up();
    let elapsed = pair.elapsed();
    let offer = move |n: u32| Offer {
        at: elapsed + 2 * MS * n,
        flow: (n % 2) as u16,
        len: 700,
        parts: 1,
    };
    pair.offer((0..400).map(offer));
    let mut seen = BTreeMap::new();
    pair.forward.swallow = Some(Box::new(move |datagram| {
        let first = packs_of(datagram).all(|n| seen.insert(n, ()).is_none());
        first && packs_of(datagram).any(&lost)
    }));
    pair.run_to_rest(10 * S);
    pair.expect_all_delivered();
    let mut by_flow: BTreeMap<u16, Vec<Out>> = BTreeMap::new();
    for out in &pair.books.delivered {
        by_flow.entry(out.flow).or_default().push(*out);
    }
    by_flow
}

#[test]
fn the_loss_of_one_flow_delays_no_other() {
    let whole = two_flows(|_| false);
    // Every tenth number, all of them of flow 0: 40 packets went before, and even ones are its own.
    let lossy = two_flows(|number| number >= 40 && number % 10 == 0);
    assert_eq!(lossy[&1], whole[&1], "not by a nanosecond");
    assert_ne!(lossy[&0], whole[&0]);
    for flow in [0, 1] {
        assert!(
            lossy[&flow].is_sorted_by_key(|out| out.id),
            "flow {flow} in its order"
        );
    }
}

#[test]
fn on_the_message_lane_the_same_loss_delays_all_behind_it() {
    // What the flows are for: strict order has one head, and everything waits for it.
    let mut setup = Setup::new(Lane::MESSAGE, 1);
    setup.carrier.cwnd_bytes = 1 << 40;
    let mut pair = setup.build();
    pair.warm_up();
    let mut seen = false;
    pair.forward.swallow = Some(Box::new(move |datagram| {
        packs_of(datagram).any(|n| n == 40) && !std::mem::replace(&mut seen, true)
    }));
    let elapsed = pair.elapsed();
    pair.offer(steady(10, 1, 700, elapsed, 2 * MS));
    pair.run_to_rest(10 * S);
    pair.expect_all_delivered();
    let outs = &pair.books.delivered[40..];
    assert!(
        outs.iter()
            .all(|out| out.at == outs[0].at && out.at > elapsed + 75 * MS),
        "{outs:?}"
    );
}

#[test]
fn a_whole_window_in_any_order_and_twice_is_delivered_once() {
    // case B59: permutations within 8,191 numbers, and the first number is one like any other
    let test = "lanes::order::a_whole_window_in_any_order_and_twice_is_delivered_once";
    for_seeds(test, 5, |seed| {
        let now = Instant::now();
        let mut receiver = ReceiveSequence::new(Lane::FLOW, ReceiveConfig::default(), now);
        let mut order: Vec<u64> = (0..BITMAP_NUMBERS).flat_map(|n| [n, n]).collect();
        order.shuffle(&mut SmallRng::seed_from_u64(seed));
        let mut delivered = BTreeSet::new();
        for (number, tx) in order.iter().copied().zip(1..) {
            let data = number.to_be_bytes();
            let pack = Pack {
                lane: Lane::FLOW,
                number,
                tx,
                flags: PackFlags::WHOLE,
                dep: 0,
                data: &data,
            };
            let bytes = Bytes::copy_from_slice(&data);
            receiver.handle_pack(&pack, bytes, now).unwrap();
            while let Some(delivery) = receiver.poll_deliver() {
                assert_eq!(delivery.bytes, delivery.number.to_be_bytes()[..]);
                assert!(delivered.insert(delivery.number), "{delivery:?} again");
            }
        }
        assert!(delivered.into_iter().eq(0..BITMAP_NUMBERS));
        assert_eq!(receiver.cumulative(), BITMAP_NUMBERS);
        assert_eq!(receiver.counters().duplicates, BITMAP_NUMBERS);
    });
}
