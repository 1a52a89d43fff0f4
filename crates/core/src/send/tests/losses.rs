//! Evidence of loss as timelines: RTT 50 ms, so a reorder window of 12.5 ms.

use super::*;

/// Ten packs, a millisecond apart, handed over and departed; their numbers begin at 20.
fn ten() -> Lab {
    let mut lab = Lab::warm();
    for n in 0..10_u32 {
        lab.at(f64::from(n));
        lab.accept(1_000).unwrap();
        assert_eq!(lab.drain().len(), 1);
    }
    lab
}

#[test]
fn a_pack_displaced_within_the_reorder_window_is_not_resent() {
    // case B03
    let mut lab = ten();
    // 20 arrives after 21, 22 and 23, and later still than they do.
    lab.at(51.0);
    lab.ack(20, &[(21, 21)], 22).unwrap();
    lab.at(52.0);
    lab.ack(20, &[(21, 22)], 23).unwrap();
    lab.at(53.0);
    lab.ack(20, &[(21, 23)], 24).unwrap();
    lab.at(62.4);
    assert_eq!(lab.drain(), []);
    lab.ack(24, &[], 24).unwrap();
    lab.at(79.0);
    lab.ack(30, &[], 30).unwrap();
    assert_eq!(lab.drain(), []);
    assert_eq!(lab.counters().evidence_resends, 0);
}

#[test]
fn a_pack_that_misses_the_window_is_resent_once_and_exactly_then() {
    let mut lab = ten();
    lab.at(51.0);
    lab.ack(20, &[(21, 21)], 22).unwrap();
    assert_eq!(
        lab.lane
            .poll_timeout()
            .map(|(at, why)| (at - lab.start, why)),
        Some((62_500 * MS / 1_000, "reorder window"))
    );
    lab.at(62.499_999);
    assert_eq!(lab.drain(), []);
    lab.at(62.5);
    let out = lab.drain();
    assert_eq!(
        (out.len(), out[0].number, out[0].kind),
        (1, 20, Kind::Evidence)
    );
    lab.at(70.0);
    lab.ack(20, &[(21, 29)], 30).unwrap();
    assert_eq!(lab.drain(), []);
}

#[test]
fn there_is_no_count_of_packs_that_makes_a_loss() {
    // case B03
    let mut lab = ten();
    lab.at(59.0);
    lab.ack(20, &[(29, 29)], 30).unwrap();
    // Nine packs were overtaken; the first has 3.5 ms left.
    assert_eq!(lab.drain(), []);
    lab.at(62.4);
    assert_eq!(lab.drain(), []);
}

#[test]
fn evidence_resends_one_pack_at_most_once_in_an_rtt() {
    let mut lab = ten();
    lab.at(62.5);
    let mut tx = 22;
    lab.ack(20, &[(21, 21)], tx).unwrap();
    let mut sent_at = vec![];
    for ms in 62..400_u32 {
        lab.at(f64::from(ms) + 0.5);
        // Every millisecond a fresh pack overtakes, and its ACK is there at once.
        let fresh = lab.accept(10).unwrap();
        for out in lab.drain() {
            if out.number == 20 {
                sent_at.push((ms, lab.lane.rtt().unwrap().as_millis()));
            } else {
                tx = out.tx;
            }
        }
        lab.ack(20, &[(21, fresh)], tx).unwrap();
    }
    assert!(sent_at.len() >= 4, "{sent_at:?}");
    for pair in sent_at.windows(2) {
        let gap = pair[1].0 - pair[0].0;
        assert!(u128::from(gap) >= pair[1].1, "{sent_at:?}");
    }
}

#[test]
fn a_pings_tx_is_evidence_for_all_before_it() {
    let mut lab = ten();
    lab.at(100.0);
    let probe = lab.lane.probe().unwrap();
    assert_eq!((probe.lane, probe.largest_number), (Lane::FLOW, 29));
    lab.lane.on_departed(probe.tx, lab.now);
    assert_eq!(lab.drain().len(), 1, "the silence of 70 ms");
    lab.at(150.0);
    lab.ack(20, &[], probe.tx).unwrap();
    let out: Vec<_> = lab
        .drain()
        .iter()
        .map(|out| (out.number, out.kind))
        .collect();
    // The head was sent again after the PING, and is not judged by it.
    let expected: Vec<_> = (21..30).map(|n| (n, Kind::Evidence)).collect();
    assert_eq!(out, expected);
}

#[test]
fn a_needless_resend_widens_the_window_and_a_network_duplicate_does_not() {
    // case B60
    let mut lab = ten();
    lab.at(62.5);
    lab.ack(20, &[(21, 21)], 22).unwrap();
    let resend = lab.drain()[0];
    assert_eq!(resend.number, 20);
    lab.at(63.0);
    // The original was merely late; 25 was doubled on its way.
    lab.ack_with(24, &[], 24, Some(24)).unwrap();
    assert_eq!(lab.counters().network_duplicates, 1);
    lab.at(113.0);
    lab.ack_with(30, &[], resend.tx, Some(resend.tx)).unwrap();
    let counters = lab.counters();
    assert_eq!(
        (counters.needless_resends, counters.network_duplicates),
        (1, 1)
    );
    // 12.5 ms more patience: the same displacement costs nothing next time.
    lab.start = lab.now;
    for n in 0..2_u32 {
        lab.at(f64::from(n));
        lab.accept(1_000).unwrap();
        lab.drain();
    }
    lab.at(51.0);
    lab.ack(30, &[(31, 31)], resend.tx + 2).unwrap();
    let due = lab.lane.poll_timeout().unwrap();
    assert_eq!(due.1, "reorder window");
    let wait = (due.0 - lab.start).as_millis();
    assert!((74..=77).contains(&wait), "{wait}");
}

#[test]
fn the_late_original_of_a_resend_is_ours_too() {
    // case B60: the copy that comes second may be the first one sent
    let mut lab = ten();
    lab.at(62.5);
    lab.ack(20, &[(21, 21)], 22).unwrap();
    let resend = lab.drain()[0];
    lab.at(113.0);
    lab.ack_with(30, &[], resend.tx, Some(21)).unwrap();
    assert_eq!(lab.counters().needless_resends, 1);
}

#[test]
fn acks_lost_while_data_arrives_cost_nothing_once_one_comes_through() {
    let mut lab = ten();
    lab.at(59.0);
    lab.ack(30, &[], 30).unwrap();
    assert_eq!(lab.drain(), []);
    assert_eq!(lab.lane.poll_timeout(), None);
    assert_eq!(lab.counters().acked, 30);
}

#[test]
fn an_rtt_that_grows_two_hundredfold_and_comes_back_costs_a_logarithm() {
    // case B03: 50 ms → 10 s → 50 ms
    let mut lab = Lab::warm();
    let head = lab.accept(1_000).unwrap();
    let left = lab.run_until(10_000);
    let first_tx = left[0].1.tx;
    let resends = resends_of(head, &left).len();
    assert!(resends <= 8, "{resends}");
    lab.ack(head + 1, &[], first_tx).unwrap();
    assert!(lab.lane.pto() > 5 * S);
    assert_eq!(lab.lane.silences(), 0);
    for _ in 0..100 {
        let number = lab.accept(1_000).unwrap();
        let out = lab.transmit().unwrap();
        lab.now += 50 * MS;
        lab.ack(number + 1, &[], out.tx).unwrap();
    }
    assert_eq!(lab.lane.pto().as_millis(), 61);
}

#[test]
fn no_wait_is_shorter_than_an_answer_takes_whatever_the_ceiling_says() {
    // case B03: 10 s RTT, the ceiling at 5 s, jitter on
    let mut lab = Lab::new(LaneConfig::default());
    for _ in 0..60 {
        let number = lab.accept(100).unwrap();
        let out = lab.transmit().unwrap();
        lab.now += 10 * S;
        lab.ack(number + 1, &[], out.tx).unwrap();
    }
    lab.start = lab.now;
    let head = lab.accept(100).unwrap();
    let resends = resends_of(head, &lab.run_until(60_000));
    assert_eq!(resends.len(), 5, "{resends:?}");
    assert_eq!(resends[0], lab.lane.pto().as_secs_f64() * 1e3);
}
