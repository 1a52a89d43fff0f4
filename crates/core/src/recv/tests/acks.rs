//! What the peer hears, and when.

use super::*;

#[test]
fn eight_packs_are_acked_at_once_and_seven_after_the_delay() {
    let mut bench = Bench::new(Lane::FLOW);
    (0..7).for_each(|n| drop(bench.whole(n, 0)));
    assert!(bench.ack().is_none());
    assert_eq!(bench.due(), Some((10 * MS, "ack")));
    bench.whole(7, 0);
    let ack = bench.ack().unwrap();
    assert_eq!(
        written(&ack, |ack| (ack.cumulative, ack.largest_tx)),
        (8, 8)
    );
    assert_eq!(bench.due(), None);
    bench.at(MS).whole(8, 0);
    assert!(bench.at(11 * MS - NS).ack().is_none());
    let ack = bench.at(11 * MS).ack().unwrap();
    assert_eq!(
        written(&ack, |ack| (ack.cumulative, ack.delay_us)),
        (9, 10_000)
    );
}

#[test]
fn a_short_round_trip_shortens_the_ack_and_with_it_the_hold() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.lane.on_rtt(20 * MS);
    bench.whole(0, 0);
    assert_eq!(bench.due(), Some((5 * MS, "ack")));
    bench.whole(2, 1);
    assert!(bench.ack().is_some());
    assert_eq!(bench.due(), Some((60 * MS, "hold")));
}

#[test]
fn a_datagram_on_its_way_takes_along_what_is_not_said_and_nothing_else() {
    let mut bench = Bench::new(Lane::FLOW);
    assert!(bench.lane.piggyback_ack(1_200, bench.now).is_none());
    bench.whole(0, 0);
    assert!(bench.ack().is_none());
    assert!(bench.lane.piggyback_ack(1_200, bench.now).is_some());
    assert!(bench.lane.piggyback_ack(1_200, bench.now).is_none());
    assert_eq!((bench.due(), bench.lane.counters().acks), (None, 1));
}

#[test]
fn a_gap_is_told_at_once_and_again_only_when_there_is_news() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.whole(0, 0);
    bench.ack();
    bench.at(5 * MS).whole(2, 0);
    assert_eq!(ranges(&bench.ack().unwrap()), [(2, 2)]);
    // Below the known hole an in-order pack is no news.
    bench.at(7 * MS).whole(3, 0);
    assert!(bench.ack().is_none());
    // Filling it is; and within a millisecond it waits.
    bench.at(8 * MS).whole(1, 0);
    assert_eq!(written(&bench.ack().unwrap(), |ack| ack.cumulative), 4);
    bench.at(8 * MS + NS).whole(5, 0);
    assert!(bench.at(9 * MS - NS).ack().is_none());
    assert!(bench.at(9 * MS).ack().is_some());
}

#[test]
fn a_duplicate_is_told_once_by_its_tx() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.whole(0, 0);
    bench.at(2 * MS).whole(0, 0);
    let dup = |ack: AckFrame| written(&ack, |ack| ack.dup_tx);
    assert_eq!(bench.ack().map(dup), Some(Some(2)));
    bench.at(4 * MS).whole(2, 0);
    assert_eq!(bench.ack().map(dup), Some(None));
}

#[test]
fn a_flood_of_duplicates_draws_one_ack_a_millisecond() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.whole(0, 0);
    let mut acks = 0;
    for us in 0..100_000 {
        bench.at(Duration::from_micros(us));
        bench.whole(0, 0);
        acks += u32::from(bench.ack().is_some());
    }
    assert_eq!(acks, 100);
}

#[test]
fn sixty_four_ranges_go_into_an_ack_and_of_sixty_five_the_lowest() {
    for count in [64_u64, 65] {
        let mut bench = Bench::new(Lane::FLOW);
        (1..=count).for_each(|n| drop(bench.whole(2 * n, 0)));
        let ack = bench.at(MS).ack().unwrap();
        let expected: Vec<_> = (1..=64).map(|n| (2 * n, 2 * n)).collect();
        assert_eq!(ranges(&ack), expected, "of {count}");
    }
}

#[test]
fn an_ack_without_room_stays_due_and_with_little_has_the_lowest_ranges() {
    let mut bench = Bench::new(Lane::FLOW);
    (1..=20).for_each(|n| drop(bench.whole(2 * n, 0)));
    let bare = written(&bench.at(MS).ack().unwrap(), |ack| ack.encoded_len()) - 40;
    bench.at(3 * MS).whole(2, 0);
    assert!(bench.lane.poll_ack(bare - 1, bench.now).is_none());
    assert_eq!(bench.due(), Some((3 * MS, "ack")));
    assert_eq!(bench.lane.counters().acks, 1);
    // The duplicate's tx takes the byte that the delay saves.
    let ack = bench.lane.poll_ack(bare + 7, bench.now).unwrap();
    assert_eq!(ranges(&ack), [(2, 2), (4, 4), (6, 6)]);
}

#[test]
fn a_ping_draws_an_ack_at_once_that_sees_its_tx() {
    let mut bench = Bench::new(Lane::FLOW);
    assert_eq!(bench.whole(0, 0), [0]);
    bench.at(10 * MS).ack();
    let ping = probe(Lane::FLOW, 4, 9);
    bench.lane.on_ping(ping, bench.now).unwrap();
    let ack = bench.ack().unwrap();
    let seen = written(&ack, |ack| (ack.cumulative, ack.largest_tx, ack.delay_us));
    assert_eq!(seen, (1, 9, 0));
}

#[test]
fn credit_follows_what_the_application_takes() {
    let config = ReceiveConfig {
        window_bytes: 65_536,
        window_numbers: 64,
        ..ReceiveConfig::default()
    };
    let mut bench = Bench::with(Lane::MESSAGE, config);
    let block = Bytes::from(vec![7; 16_384]);
    for number in 0..4 {
        bench.send(number, PackFlags::WHOLE, 0, &block).unwrap();
    }
    let granted = |ack: AckFrame| written(&ack, |ack| ack.credit);
    let ack = bench.at(10 * MS).ack();
    assert_eq!(
        ack.map(granted),
        Some(credit(65_536, 64)),
        "nothing was taken"
    );
    // One quarter of the window is worth an ACK of its own.
    bench.at(20 * MS);
    bench.lane.poll_ack(0, bench.now);
    assert!(bench.lane.poll_deliver().is_some());
    assert_eq!(bench.ack().map(granted), Some(credit(81_920, 65)));
    assert_eq!(bench.delivered(), [1, 2, 3]);
    assert_eq!(
        bench.at(30 * MS).ack().map(granted),
        Some(credit(131_072, 68))
    );
}

#[test]
fn a_lost_grant_comes_again_with_the_answer_to_a_ping() {
    let mut bench = Bench::new(Lane::FLOW);
    let block = Bytes::from(vec![1; 1_024]);
    for number in 0..2_048 {
        bench.send(number, PackFlags::WHOLE, 0, &block).unwrap();
    }
    bench.delivered();
    assert!(bench.at(10 * MS).ack().is_some());
    assert_eq!(bench.due(), None, "nothing new to say");
    bench.at(2_000 * MS);
    let ping = probe(Lane::FLOW, 2_047, 2_049);
    bench.lane.on_ping(ping, bench.now).unwrap();
    let again = written(&bench.ack().unwrap(), |ack| ack.credit);
    assert_eq!(again, credit(2 * 2_097_152, 2_048 + 8_192));
}

#[test]
fn a_skip_is_acked_at_once_and_each_time() {
    let mut bench = Bench::new(Lane::FLOW);
    for ms in [0, 2, 4] {
        bench.at(ms * MS);
        bench.skip(6);
        assert_eq!(written(&bench.ack().unwrap(), |ack| ack.cumulative), 7);
    }
    // A SKIP alone has no tx to report.
    bench.at(6 * MS).skip(6);
    assert_eq!(written(&bench.ack().unwrap(), |ack| ack.largest_tx), 0);
}

#[test]
fn a_pack_after_its_skip_is_answered_at_once_and_is_no_duplicate() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.skip(3);
    bench.ack();
    bench.at(5 * MS).whole(1, 0);
    let ack = bench.ack().unwrap();
    assert_eq!(written(&ack, |ack| (ack.largest_tx, ack.dup_tx)), (1, None));
}
