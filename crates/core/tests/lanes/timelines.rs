//! One misfortune each, with its moments. RTT 50 ms; a lone pack's ACK is 10 ms late, so that the PTO is 71 ms.

use std::time::Duration;

use quell_core::config::receive::ReceiveConfig;
use quell_core::drops::DropReason;
use quell_core::send::{Backpressure, Kind};
use quell_wire::frame::{Frame, Frames, Lane, PackFlags};

use crate::pair::traffic::steady;
use crate::pair::{MS, Pair, S, Sent, Setup, packs_of};

/// A warm pair and its window of 64 numbers.
fn small(lane: Lane) -> Pair {
    let mut setup = Setup::new(lane, 1);
    setup.receive = ReceiveConfig {
        window_bytes: 64 * 1024,
        window_numbers: 64,
        ..ReceiveConfig::default()
    };
    let mut pair = setup.build();
    pair.warm_up();
    pair
}

fn warm() -> Pair {
    let mut pair = Setup::new(Lane::FLOW, 1).build();
    pair.warm_up();
    pair
}

/// Swallows the first datagram of each number in `lost`.
fn lose(pair: &mut Pair, lost: &'static [u64]) {
    let mut left = lost.to_vec();
    pair.forward.swallow = Some(Box::new(move |datagram| {
        let before = left.len();
        left.retain(|number| packs_of(datagram).all(|n| n != *number));
        left.len() < before
    }));
}

fn has_skip(datagram: &[u8]) -> bool {
    Frames::new(datagram).any(|frame| matches!(frame, Ok(Frame::Skip(_))))
}

fn resends(sent: &[Sent]) -> Vec<(u64, Kind)> {
    let resends = sent.iter().filter(|sent| sent.kind != Kind::First);
    resends.map(|sent| (sent.number, sent.kind)).collect()
}

#[test]
fn acks_lost_while_data_arrives_draw_guesses_only_and_the_first_one_settles_all() {
    // case B01, B60
    let mut pair = warm();
    let elapsed = pair.elapsed();
    pair.offer(steady(200, 0, 500, elapsed, 5 * MS));
    pair.back.swallow = Some(Box::new(|_| true));
    pair.run_for(1_010 * MS);
    let guesses = resends(&pair.sent);
    // All of it has arrived, and the sender knows of nothing: PTO · (1 + 2 + 4) = 497 ms, then 1,065 ms with jitter.
    assert!((3..=5).contains(&guesses.len()), "{guesses:?}");
    assert!(guesses.iter().all(|guess| *guess == (40, Kind::Silence)));
    assert_eq!(pair.sender.counters().in_flight, 200);
    pair.back.swallow = None;
    let left = pair.sent.len();
    pair.run_to_rest(5 * S);
    pair.expect_all_delivered();
    // At most one more guess, and no evidence of a loss that never was.
    assert!(
        resends(&pair.sent[left..]).len() <= 1,
        "{:?}",
        &pair.sent[left..]
    );
    let counters = pair.receiver.counters();
    assert_eq!((counters.duplicates, counters.holds), (pair.resends(), 0));
}

#[test]
fn credit_that_was_lost_is_recovered_by_a_pong() {
    let mut pair = small(Lane::FLOW);
    pair.takes = false;
    let elapsed = pair.elapsed();
    pair.offer(steady(100, 0, 100, elapsed, MS));
    pair.run_for(S);
    let counters = pair.sender.counters();
    assert_eq!(
        (counters.in_flight, counters.acked),
        (0, 40 + 64),
        "all that credit admits"
    );
    assert_eq!(pair.receiver.counters().held, 64);
    // The application takes it all; the ACK that says so is lost.
    pair.back.swallow = Some(Box::new(|_| true));
    pair.takes = true;
    pair.drain();
    pair.run_for(30 * MS);
    pair.back.swallow = None;
    assert_eq!(
        pair.receiver.poll_timeout(),
        None,
        "the receiver has said it, and will not again"
    );
    assert_eq!(pair.sender.admits(1, 100), Err(Backpressure::Credit));
    pair.run_for(100 * S);
    assert_eq!(
        pair.sender.admits(1, 100),
        Err(Backpressure::Credit),
        "nobody has anything to say"
    );
    // Any PING of the path will do, for it names a lane that is short of credit.
    pair.ping();
    pair.run_to_rest(S);
    pair.expect_all_delivered();
    assert_eq!((pair.pongs, pair.resends()), (1, 0));
    // With credit enough it does not: a lane that has nothing to ask costs a PING nothing.
    let probes = pair.sender.counters().probes;
    pair.ping();
    pair.run_to_rest(S);
    assert_eq!((pair.pongs, pair.sender.counters().probes), (2, probes));
}

#[test]
fn a_lost_skip_is_repeated_after_a_pto_and_frees_who_waits() {
    let mut pair = warm();
    let elapsed = pair.elapsed();
    // Number 40 never passes; 41 of the same flow is held for it.
    let mut skips = 0;
    pair.forward.swallow = Some(Box::new(move |datagram| {
        let lost = has_skip(datagram) && skips < 2;
        skips += u32::from(lost);
        lost || packs_of(datagram).any(|n| n == 40)
    }));
    pair.offer(steady(2, 0, 500, elapsed, 5 * MS));
    pair.run_until(elapsed + S);
    assert_eq!(pair.books.delivered.len(), 41, "its hold has ended");
    pair.run_until(elapsed + 60 * S + 24 * MS);
    assert_eq!(
        (pair.sender.counters().expired, pair.sender.counters().skips),
        (1, 1)
    );
    assert_eq!(pair.receiver.cumulative(), 40);
    // Repeated after one PTO and after two more; the third passes.
    let pto = pair.sender.pto();
    pair.run_until(elapsed + 60 * S + 3 * pto + 24 * MS);
    assert_eq!(
        (pair.sender.counters().skips, pair.receiver.cumulative()),
        (3, 40)
    );
    pair.run_until(elapsed + 60 * S + 3 * pto + 25 * MS);
    assert_eq!(pair.receiver.cumulative(), 42);
    pair.run_to_rest(S);
    pair.expect_only_path_to_blame();
    assert_eq!(pair.receiver.counters().skipped, 1);
}

#[test]
fn what_comes_after_its_skip_is_dropped_by_name_and_acked() {
    let mut setup = Setup::new(Lane::FLOW, 1);
    setup.send.ack_timeout = S;
    let mut pair = setup.build();
    pair.warm_up();
    // The first copy takes ten seconds; the others are lost.
    pair.set_path(|carrier| (carrier.link.reorder, carrier.link.reorder_hold) = (1.0, 10 * S));
    pair.offer_one(0, 500);
    pair.set_path(|carrier| carrier.link.reorder = 0.0);
    pair.forward.swallow = Some(Box::new(|datagram| packs_of(datagram).any(|n| n == 40)));
    pair.run_for(9 * S);
    assert_eq!(
        (pair.sender.counters().expired, pair.receiver.cumulative()),
        (1, 41)
    );
    assert!(pair.sender.poll_timeout().is_none(), "the SKIP was heard");
    pair.run_to_rest(5 * S);
    assert_eq!(pair.receiver.drops()[DropReason::Skipped], 1);
    assert_eq!(pair.books.delivered.len(), 40);
    pair.expect_settled();
}

#[test]
fn an_outage_is_not_learnt_as_a_round_trip() {
    // The last ACK before a cut is lost; after it a SKIP draws one that names a `tx` of before.
    let mut pair = warm();
    let pto = pair.sender.pto();
    pair.offer_one(0, 500);
    pair.run_for(30 * MS);
    assert_eq!(pair.receiver.cumulative(), 41);
    pair.set_cut(true);
    pair.run_for(10 * MS);
    pair.offer_one(0, 500);
    pair.run_for(3_600 * S);
    assert_eq!(pair.sender.counters().expired, 2);
    pair.set_cut(false);
    pair.run_to_rest(6 * S);
    assert_eq!((pair.receiver.cumulative(), pair.sender.pto()), (42, pto));
    pair.expect_only_path_to_blame();
}

#[test]
fn an_rtt_from_50_ms_to_10_s_and_back_costs_a_logarithm() {
    // case B03
    let mut pair = warm();
    pair.set_path(|carrier| (carrier.link.delay, carrier.rtt) = (5 * S, 10 * S));
    let elapsed = pair.elapsed();
    pair.offer(steady(1, 0, 500, elapsed, S));
    pair.run_to_rest(60 * S);
    // 71 ms · (2ⁿ − 1) ≤ 10 s
    let guesses = resends(&pair.sent);
    assert!((5..=8).contains(&guesses.len()), "{guesses:?}");
    let elapsed = pair.elapsed();
    pair.offer(steady(30, 0, 500, elapsed, 20 * S));
    pair.run_to_rest(700 * S);
    assert!(pair.sender.pto() >= 10 * S);
    let slow = pair.resends();
    assert!(slow <= guesses.len() as u64 + 8, "{slow}");
    // A PTO of 10 s and more holds back only who lost the last pack; it is unlearnt in some sixty round trips.
    pair.set_path(|carrier| (carrier.link.delay, carrier.rtt) = (25 * MS, 50 * MS));
    let elapsed = pair.elapsed();
    pair.offer(steady(120, 0, 500, elapsed, 100 * MS));
    pair.run_to_rest(60 * S);
    pair.expect_all_delivered();
    assert!(pair.sender.pto() < 100 * MS, "{:?}", pair.sender.pto());
    assert_eq!(pair.resends(), slow, "and costs nothing");
    assert_eq!(pair.receiver.counters().duplicates, slow);
}

#[test]
fn a_window_that_is_full_at_both_ends_holds_still_and_goes_on_where_it_was() {
    // R-3, case B62: nothing is evicted, nothing grows, and what is refused keeps its place
    for lane in Lane::ALL {
        let mut pair = Setup::new(lane, 1).build();
        pair.warm_up();
        pair.takes = false;
        let elapsed = pair.elapsed();
        pair.offer(steady(12_000, 0, 200, elapsed, Duration::ZERO));
        pair.run_for(20 * S);
        let receiver = pair.receiver.counters();
        assert_eq!((receiver.held, receiver.held_bytes), (8_192, 8_192 * 200));
        assert_eq!(pair.sender.counters().in_flight, 0);
        assert_eq!(pair.sender.admits(1, 0), Err(Backpressure::Credit));
        let rings = pair.sender.allocated_bytes();
        pair.run_for(300 * S);
        assert_eq!(pair.sender.allocated_bytes(), rings);
        pair.takes = true;
        pair.drain();
        pair.run_to_rest(60 * S);
        pair.expect_all_delivered();
        assert_eq!(pair.resends(), 0);
        assert_eq!(pair.books.delivered.len(), 12_040);
    }
}

#[test]
fn the_senders_own_window_refuses_before_the_credit_does_and_evicts_nothing() {
    // case B62
    let mut setup = Setup::new(Lane::FLOW, 1);
    setup.send.window_numbers = 64;
    let mut pair = setup.build();
    pair.warm_up();
    pair.set_cut(true);
    let elapsed = pair.elapsed();
    pair.offer(steady(100, 0, 1_000, elapsed, Duration::ZERO));
    pair.run_for(S);
    assert_eq!(pair.sender.counters().in_flight, 64);
    let now = pair.now;
    let too_long = pair.sender.accept(PackFlags::WHOLE, 0, &[0; 65_536], now);
    assert_eq!(too_long, Err(Backpressure::TooLong));
    assert_eq!(pair.sender.admits(1, 0), Err(Backpressure::Count));
    pair.set_cut(false);
    pair.run_to_rest(60 * S);
    pair.expect_all_delivered();
}

#[test]
fn a_pack_that_outgrows_the_path_is_skipped_and_holds_up_nobody() {
    let mut pair = warm();
    let elapsed = pair.elapsed();
    // 40 and 42 of flow 0 and 1 are lost; when their turn comes again the path carries 600 bytes.
    lose(&mut pair, &[40, 42]);
    let lens = [1_000, 300, 300, 1_000];
    let offer = move |(n, len): (u32, usize)| crate::pair::traffic::Offer {
        at: elapsed + 10 * MS * n,
        flow: (n % 2) as u16,
        len,
        parts: 1,
    };
    pair.offer((0..).zip(lens).map(offer));
    pair.run_until(elapsed + 45 * MS);
    pair.set_path(|carrier| carrier.datagram_len_max = 600);
    pair.run_to_rest(5 * S);
    let counters = pair.sender.counters();
    // 43 had left before, and arrived; 40 was lost and is too large; 42 is small and was sent again.
    assert_eq!(
        (counters.too_large, counters.expired, counters.skips),
        (1, 0, 1)
    );
    assert_eq!(resends(&pair.sent), [(42, Kind::Evidence)]);
    let out: Vec<_> = pair.books.delivered[40..]
        .iter()
        .map(|out| out.id)
        .collect();
    assert_eq!(out.len(), 3);
    assert!(!out.contains(&40), "{out:?}");
    assert_eq!(pair.receiver.counters().skipped, 1);
    // It did not take 60 s.
    assert!(pair.elapsed() - elapsed < S);
    pair.expect_only_path_to_blame();
}

#[test]
fn a_carrier_that_is_held_is_no_silence_and_no_loss() {
    // DESIGN §4: being blocked by congestion control is not silence
    let mut pair = warm();
    let elapsed = pair.elapsed();
    pair.set_path(|carrier| carrier.held = true);
    pair.offer(steady(50, 0, 1_000, elapsed, 10 * MS));
    pair.run_for(40 * S);
    let due = pair.sender.poll_timeout().map(|(_, why)| why);
    assert_eq!((due, pair.resends()), (Some("ack timeout"), 0));
    // The queue holds 2 ms of 125,000 B in 50 ms, in whole datagrams.
    assert_eq!(pair.books.hand_overs - 40, 4);
    pair.set_path(|carrier| carrier.held = false);
    pair.run_to_rest(5 * S);
    pair.expect_all_delivered();
    assert_eq!(pair.resends(), 0);
}

#[test]
fn refusals_spend_nothing_and_wait_for_the_event_that_clears_them() {
    // whether writes succeed or not
    let mut pair = warm();
    pair.set_path(|carrier| carrier.refusals = 0.9);
    let elapsed = pair.elapsed();
    pair.offer(steady(100, 0, 1_000, elapsed, 10 * MS));
    pair.run_to_rest(60 * S);
    pair.expect_all_delivered();
    let counters = pair.sender.counters();
    assert!(counters.refused > 500, "{counters:?}");
    assert_eq!(counters.first_sends, 140);
}
