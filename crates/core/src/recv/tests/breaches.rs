//! What a lying or broken peer sends: each a named breach, and memory flat.

use super::*;

fn small() -> Bench {
    let config = ReceiveConfig {
        window_bytes: 65_536,
        window_numbers: 64,
        ..ReceiveConfig::default()
    };
    Bench::with(Lane::FLOW, config)
}

#[test]
fn the_last_byte_of_credit_passes_and_one_more_is_a_breach() {
    let mut bench = small();
    let block = Bytes::from(vec![1; 65_535]);
    bench.send(0, PackFlags::WHOLE, 0, &block).unwrap();
    let code = bench.breach(1, &Bytes::from_static(b"ab"));
    assert_eq!(code, ErrorCode::CreditExceeded);
    bench
        .send(1, PackFlags::WHOLE, 0, &Bytes::from_static(b"a"))
        .unwrap();
    let code = bench.breach(2, &Bytes::from_static(b"a"));
    assert_eq!(code, ErrorCode::CreditExceeded);
    bench.send(2, PackFlags::WHOLE, 0, &Bytes::new()).unwrap();
    // A duplicate costs nothing.
    bench.send(0, PackFlags::WHOLE, 0, &block).unwrap();
}

#[test]
fn the_last_number_of_credit_passes_and_the_next_is_a_breach() {
    let mut bench = small();
    bench.whole(63, 0);
    assert_eq!(bench.breach(64, &data(64)), ErrorCode::CreditExceeded);
    let ping = |number| probe(Lane::FLOW, number, 5);
    bench.lane.on_ping(ping(63), bench.now).unwrap();
    let breach = bench.lane.on_ping(ping(64), bench.now).unwrap_err();
    assert_eq!(breach.code, ErrorCode::CreditExceeded);
    // The one taken counts once it is announced.
    bench.ack();
    bench.whole(64, 0);
    assert_eq!(bench.breach(65, &data(65)), ErrorCode::CreditExceeded);
}

#[test]
fn the_last_number_of_the_window_passes_and_the_next_is_a_breach() {
    let mut bench = Bench::new(Lane::FLOW);
    bench.whole(8_191, 0);
    assert_eq!(bench.breach(8_192, &data(0)), ErrorCode::NumberOutOfWindow);
    bench.whole(0, 0);
    bench.at(MS).ack();
    bench.whole(8_192, 0);
    assert_eq!(bench.breach(8_193, &data(0)), ErrorCode::NumberOutOfWindow);
}

#[test]
fn a_number_keeps_its_contents_for_a_window_back() {
    let mut bench = Bench::new(Lane::FLOW);
    let other = Bytes::from_static(b"else");
    bench.whole(0, 0);
    bench.whole(2, 0);
    assert_eq!(bench.breach(0, &other), ErrorCode::NumberChanged);
    assert_eq!(bench.breach(2, &other), ErrorCode::NumberChanged);
    assert_eq!(
        bench.breach(2, &data(2).slice(..3)),
        ErrorCode::NumberChanged
    );
    let marks = bench.send(2, FIRST, 0, &data(2)).unwrap_err();
    assert_eq!(marks.code, ErrorCode::NumberChanged);
    let dep = bench.send(2, PackFlags::WHOLE, 1, &data(2)).unwrap_err();
    assert_eq!(dep.code, ErrorCode::NumberChanged);
    // Number 0 is remembered until number 8,192 takes its place.
    bench.whole(1, 0);
    for number in 3..8_192 {
        bench.whole(number, 0);
    }
    bench.at(MS).ack();
    assert_eq!(bench.breach(0, &other), ErrorCode::NumberChanged);
    bench.whole(8_192, 0);
    bench.send(0, PackFlags::WHOLE, 0, &other).unwrap();
    assert_eq!(bench.lane.counters().duplicates, 1);
    assert_eq!(bench.delivered(), [0; 0]);
}

#[test]
fn skips_may_overtake_each_other_and_may_not_contradict() {
    let backwards = Err(ErrorCode::SkipBackwards);
    let mut bench = Bench::new(Lane::FLOW);
    bench.whole(0, 0);
    bench.whole(2, 0);
    // 0 and 2 came with 4 bytes each: less up to there is a lie, whatever 1 was.
    assert_eq!(bench.try_skip(2, 7), backwards);
    assert_eq!(bench.try_skip(2, 108), Ok(()));
    assert_eq!(bench.try_skip(2, 108), Ok(()), "repeated");
    assert_eq!(bench.try_skip(2, 107), backwards);
    assert_eq!(bench.try_skip(2, 109), backwards);
    assert_eq!(bench.try_skip(9, 500), Ok(()));
    assert_eq!(bench.try_skip(2, 108), Ok(()), "an older one, late");
    assert_eq!(
        bench.try_skip(1, 104),
        Ok(()),
        "an older one, first seen now"
    );
    assert_eq!(bench.try_skip(1, 501), backwards);
    assert_eq!(bench.try_skip(10, 499), backwards);
    assert_eq!(bench.try_skip(10, 500), Ok(()), "an empty pack");
}

#[test]
fn a_skip_of_numbers_long_gone_is_held_against_an_earlier_one() {
    let backwards = Err(ErrorCode::SkipBackwards);
    let mut bench = Bench::new(Lane::FLOW);
    assert_eq!(bench.try_skip(2, 108), Ok(()));
    (3..6).for_each(|n| drop(bench.whole(n, 0)));
    // Both lie within the 120 bytes up to number 5.
    assert_eq!(bench.try_skip(1, 109), backwards);
    assert_eq!(bench.try_skip(4, 107), backwards);
    assert_eq!(bench.try_skip(1, 107), Ok(()));
    assert_eq!(bench.try_skip(4, 116), Ok(()));
}

#[test]
fn a_skipped_number_forgets_the_one_a_window_below() {
    let mut bench = Bench::new(Lane::FLOW);
    (0..8_192).for_each(|n| drop(bench.whole(n, 0)));
    bench.at(MS).ack();
    assert_eq!(bench.try_skip(8_192, 8_193 * 4), Ok(()));
    assert_eq!(bench.whole(8_192, 0), [0; 0]);
    assert_eq!(bench.lane.drops()[DropReason::Skipped], 1);
}

#[test]
fn a_skip_over_what_came_says_its_bytes_exactly() {
    let mut bench = Bench::new(Lane::FLOW);
    (0..5).for_each(|n| drop(bench.whole(n, 0)));
    assert_eq!(bench.try_skip(4, 19), Err(ErrorCode::SkipBackwards));
    assert_eq!(bench.try_skip(4, 21), Err(ErrorCode::SkipBackwards));
    // Of numbers long gone only the sum with later ones is remembered.
    assert_eq!(bench.try_skip(2, 21), Err(ErrorCode::SkipBackwards));
    assert_eq!(bench.try_skip(2, 12), Ok(()));
    assert_eq!(bench.try_skip(4, 20), Ok(()));
    assert_eq!(bench.lane.counters().skipped, 0);
}

#[test]
fn a_skip_reaches_no_farther_than_a_pack() {
    let mut bench = small();
    assert_eq!(bench.try_skip(8_192, 0), Err(ErrorCode::NumberOutOfWindow));
    assert_eq!(bench.try_skip(64, 0), Err(ErrorCode::CreditExceeded));
    assert_eq!(bench.try_skip(63, 65_537), Err(ErrorCode::CreditExceeded));
    let mut bench = small();
    assert_eq!(bench.try_skip(63, 65_536), Ok(()));
    let mut bench = small();
    bench.whole(9, 0);
    assert_eq!(bench.try_skip(8, 65_533), Err(ErrorCode::CreditExceeded));
    let mut bench = small();
    bench.whole(9, 0);
    assert_eq!(bench.try_skip(8, 65_532), Ok(()));
}

#[test]
fn skipped_bytes_count_against_credit_like_any_other() {
    let mut bench = small();
    assert_eq!(bench.try_skip(0, 65_000), Ok(()));
    let block = Bytes::from(vec![1; 537]);
    assert_eq!(bench.breach(1, &block), ErrorCode::CreditExceeded);
    // They are not with us, so they are granted anew.
    assert_eq!(
        written(&bench.ack().unwrap(), |ack| ack.credit),
        credit(130_536, 65)
    );
    bench.send(1, PackFlags::WHOLE, 0, &block).unwrap();
}

#[test]
fn a_message_that_is_skipped_is_a_breach_and_a_delivered_one_is_not() {
    let mut bench = Bench::new(Lane::MESSAGE);
    bench.whole(0, 0);
    bench.whole(2, 0);
    assert_eq!(bench.try_skip(0, 4), Ok(()));
    assert_eq!(bench.try_skip(2, 12), Err(ErrorCode::WrongState));
}

#[test]
fn marks_that_make_no_message_are_a_breach_on_the_message_lane_and_a_drop_on_the_other() {
    let mut bench = Bench::new(Lane::MESSAGE);
    let breach = bench.send(0, LAST, 0, &data(0)).unwrap_err();
    assert_eq!(breach.code, ErrorCode::WrongState);
    let mut bench = Bench::new(Lane::FLOW);
    assert_eq!(bench.piece(0, LAST, 0), [0; 0]);
    assert_eq!(bench.lane.drops()[DropReason::FragmentOrphaned], 1);
    assert_eq!(bench.lane.counters().held_bytes, 0);
}

#[test]
fn whoever_sends_all_that_is_granted_and_nothing_whole_gets_no_more() {
    // Every second number, a piece each, all waiting for ever.
    let mut bench = small();
    let block = Bytes::from(vec![1; 2_048]);
    for number in (1..64).step_by(2) {
        bench.send(number, FIRST, 0, &block).unwrap();
        bench.at(Duration::from_secs(number)).tick();
        bench.ack();
    }
    assert_eq!(bench.lane.counters().held_bytes, 65_536);
    assert_eq!(
        bench.breach(2, &Bytes::from_static(b"x")),
        ErrorCode::CreditExceeded
    );
    assert_eq!(bench.breach(64, &Bytes::new()), ErrorCode::CreditExceeded);
}

#[test]
fn the_largest_numbers_of_the_wire_are_only_out_of_the_window() {
    let largest = quell_wire::varint::MAX;
    let mut bench = Bench::new(Lane::FLOW);
    assert_eq!(
        bench.breach(largest, &data(0)),
        ErrorCode::NumberOutOfWindow
    );
    assert_eq!(
        bench.try_skip(largest, largest),
        Err(ErrorCode::NumberOutOfWindow)
    );
    assert_eq!(bench.try_skip(0, largest), Err(ErrorCode::CreditExceeded));
}
