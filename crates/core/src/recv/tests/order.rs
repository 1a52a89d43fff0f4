//! Who is delivered when: each number once, each flow in order, no flow behind another.

use super::*;

/// Numbers `0..count` in an order that `seed` draws.
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<_> = (0..count).collect();
    numbers.sort_by_key(|n| (n + 1).wrapping_mul(seed | 1).rotate_left(23));
    numbers
}

#[test]
fn a_window_in_any_order_is_delivered_once_and_the_first_number_too() {
    // case B59
    let reversed: Vec<_> = (0..8_192).rev().collect();
    let last_first = [8_191].into_iter().chain(0..8_191).collect();
    let seeds = [7, 0x1234_5678_9abc_def1, u64::MAX / 3];
    let drawn = seeds.map(|seed| shuffled(8_192, seed));
    for order in [reversed, last_first].into_iter().chain(drawn) {
        for lane in Lane::ALL {
            let mut bench = Bench::new(lane);
            let mut delivered = Vec::new();
            for number in &order {
                delivered.extend(bench.whole(*number, 0));
            }
            if lane == Lane::FLOW {
                assert_eq!(delivered, order, "none waits for another flow");
            } else {
                assert!(delivered.iter().copied().eq(0..8_192));
            }
            let again: Vec<_> = order.iter().flat_map(|n| bench.whole(*n, 0)).collect();
            assert_eq!(again, [0; 0]);
            assert_eq!(bench.lane.counters().duplicates, 8_192);
            assert_eq!(bench.lane.cumulative(), 8_192);
        }
    }
}

#[test]
fn resend_and_original_are_delivered_once_and_the_second_is_counted() {
    // case B60
    for lane in Lane::ALL {
        let mut bench = Bench::new(lane);
        assert_eq!(bench.whole(0, 0), [0]);
        bench.at(10 * MS);
        assert!(bench.ack().is_some(), "which is lost on its way");
        bench.at(61 * MS);
        assert_eq!(bench.whole(0, 0), [0; 0]);
        let counters = bench.lane.counters();
        assert_eq!(
            (counters.received, counters.delivered, counters.duplicates),
            (2, 1, 1)
        );
        let ack = bench.ack().unwrap();
        assert_eq!(
            written(&ack, |ack| (ack.cumulative, ack.dup_tx)),
            (1, Some(2))
        );
    }
}

#[test]
fn the_message_lane_waits_for_each_number_and_without_an_end() {
    let mut bench = Bench::new(Lane::MESSAGE);
    let unordered = PackFlags {
        unordered: true,
        ..PackFlags::WHOLE
    };
    assert_eq!(bench.whole(1, 0), [0; 0]);
    assert_eq!(bench.piece(3, unordered, 0), [0; 0]);
    assert_eq!(bench.piece(2, PackFlags::WHOLE, 2), [0; 0]);
    bench.at(Duration::from_secs(86_400));
    assert_eq!(bench.tick(), [0; 0]);
    assert_eq!(bench.whole(0, 0), [0, 1, 2, 3]);
}

#[test]
fn messages_of_many_packs_keep_their_order() {
    let mut bench = Bench::new(Lane::MESSAGE);
    assert_eq!(bench.piece(1, FIRST, 0), [0; 0]);
    assert_eq!(bench.piece(4, LAST, 0), [0; 0]);
    assert_eq!(bench.piece(2, LAST, 0), [0; 0]);
    assert_eq!(bench.whole(0, 0), [0, 1]);
    assert_eq!(bench.lane.counters().held, 1);
    let delivered = {
        bench.send(3, FIRST, 0, &data(3)).unwrap();
        bench.lane.poll_deliver().unwrap()
    };
    assert_eq!((delivered.number, delivered.packs), (3, 2));
    assert_eq!(delivered.bytes, [data(3), data(4)].concat());
}

#[test]
fn a_gap_holds_its_own_flow_and_no_other() {
    // Flow a: 0, 2, 4; flow b: 1, 3, 5. Number 0 is lost.
    let mut bench = Bench::new(Lane::FLOW);
    assert_eq!(bench.whole(1, 0), [1]);
    assert_eq!(bench.whole(2, 2), [0; 0]);
    assert_eq!(bench.whole(3, 2), [3]);
    assert_eq!(bench.whole(4, 2), [0; 0]);
    assert_eq!(bench.whole(5, 2), [5]);
    assert_eq!(bench.whole(0, 0), [0, 2, 4]);
    assert_eq!(bench.lane.counters().holds_expired, 0);
}

#[test]
fn an_unordered_packet_waits_for_none() {
    let mut bench = Bench::new(Lane::FLOW);
    let unordered = PackFlags {
        unordered: true,
        ..PackFlags::WHOLE
    };
    assert_eq!(bench.piece(3, unordered, 2), [3]);
}

#[test]
fn a_hold_begins_with_the_held_packet_and_ends_exactly_at_its_limit() {
    // srtt 50 ms: 2 · (1.25 · 50 + 10) = 145 ms.
    let mut bench = Bench::new(Lane::FLOW);
    bench.lane.on_rtt(50 * MS);
    let limit = 145 * MS;
    bench.at(3 * MS).whole(1, 1);
    bench.at(5 * MS).whole(3, 1);
    bench.ack();
    assert_eq!(bench.due(), Some((3 * MS + limit, "hold")));
    assert_eq!(bench.at(3 * MS + limit - NS).tick(), [0; 0]);
    assert_eq!(bench.at(3 * MS + limit).tick(), [1]);
    assert_eq!(bench.due(), Some((5 * MS + limit, "hold")));
    assert_eq!(bench.at(5 * MS + limit - NS).tick(), [0; 0]);
    assert_eq!(bench.at(5 * MS + limit).tick(), [3]);
    assert_eq!(bench.lane.counters().holds_expired, 2);
    // What came too late for its flow is delivered all the same.
    assert_eq!(bench.whole(0, 0), [0]);
}

#[test]
fn before_the_first_round_trip_is_known_a_hold_lasts_the_longest() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.whole(1, 1);
    assert_eq!(bench.at(200 * MS - NS).tick(), [0; 0]);
    assert_eq!(bench.at(200 * MS).tick(), [1]);
}

#[test]
fn when_a_hold_ends_the_flow_stays_in_order() {
    // 3 came first and waits for 2, which waits for 1, which is lost.
    let mut bench = Bench::new(Lane::FLOW);
    bench.whole(3, 1);
    assert_eq!(bench.at(100 * MS).whole(2, 1), [0; 0]);
    assert_eq!(bench.at(200 * MS).tick(), [2, 3]);
    assert_eq!(bench.lane.counters().holds_expired, 2);
    assert_eq!(bench.whole(4, 1), [4], "its predecessor is out");
    assert_eq!(bench.lane.counters().held, 0);
}

#[test]
fn a_packet_waits_for_the_pieces_of_the_one_before_it() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.whole(0, 0);
    assert_eq!(bench.piece(2, LAST, 0), [0; 0]);
    assert_eq!(bench.whole(3, 1), [0; 0]);
    assert_eq!(bench.piece(1, FIRST, 1), [1, 3]);
}

#[test]
fn a_skip_frees_who_waited_and_what_comes_late_is_dropped() {
    let mut bench = Bench::new(Lane::FLOW);
    assert_eq!(bench.whole(1, 1), [0; 0]);
    assert_eq!(bench.whole(3, 1), [0; 0]);
    assert_eq!(bench.skip(2), [1, 3]);
    assert_eq!(bench.lane.cumulative(), 4);
    assert_eq!(bench.whole(0, 0), [0; 0]);
    assert_eq!(bench.lane.drops()[DropReason::Skipped], 1);
    assert_eq!(bench.lane.counters().skipped, 2);
    assert_eq!(bench.whole(1, 1), [0; 0]);
    assert_eq!(bench.lane.counters().duplicates, 1);
}

#[test]
fn a_skip_that_ends_inside_a_packet_on_its_way_leaves_it_alone() {
    // 0 was given up; 1 and 2 came and are acked, 3 completes their packet.
    let mut bench = Bench::new(Lane::FLOW);
    let middle = PackFlags::default();
    bench.piece(1, FIRST, 0);
    bench.piece(2, middle, 0);
    assert_eq!(bench.skip(2), [0; 0]);
    assert_eq!(bench.piece(3, LAST, 0), [1]);
}

#[test]
fn a_piece_given_up_gives_up_its_packet_and_frees_its_bytes() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.piece(0, FIRST, 0);
    bench.piece(2, LAST, 0);
    assert_eq!(bench.whole(3, 1), [0; 0]);
    assert_eq!(bench.skip(2), [3]);
    assert_eq!(bench.lane.drops()[DropReason::FragmentOrphaned], 2);
    let counters = bench.lane.counters();
    assert_eq!((counters.held, counters.held_bytes), (0, 0));
}

#[test]
fn what_waits_at_the_end_of_the_lane_is_dropped_by_name() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.send(0, PackFlags::WHOLE, 0, &data(0)).unwrap();
    bench.send(2, PackFlags::WHOLE, 1, &data(2)).unwrap();
    bench.send(4, FIRST, 0, &data(4)).unwrap();
    bench.lane.close();
    bench.check();
    assert_eq!(bench.delivered(), [0; 0]);
    assert_eq!(bench.lane.drops()[DropReason::PathClosed], 3);
    assert_eq!(bench.lane.counters().held_bytes, 0);
}

#[test]
fn what_is_not_taken_does_not_keep_its_datagrams() {
    let mut bench = Bench::new(Lane::FLOW);
    let datagrams: Vec<_> = (0..66_u8).map(|n| Bytes::from(vec![n; 1_200])).collect();
    for (number, datagram) in (0..).zip(&datagrams) {
        let slice = datagram.slice(..4);
        bench.send(number, PackFlags::WHOLE, 0, &slice).unwrap();
    }
    let kept = datagrams.iter().filter(|datagram| !datagram.is_unique());
    assert_eq!(kept.count(), 64);
    assert_eq!(bench.delivered().len(), 66);
}
