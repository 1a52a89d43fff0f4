//! Golden tables: RTT 50 ms, jitter off, nothing answered for 60 s, budgets open.
//!
//! PTO = srtt 50 ms + max(4 · rttvar, 1 ms) + ACK delay 10 ms = 61 ms: 20 equal
//! samples have brought 4 · rttvar below a millisecond.
//!
//! Healthy: 61 · 2ᵏ ms for k = 0 … 6 add up to 7.747 s; from k = 7 on it is 5 s:
//! nine more, to 52.747 s, sixteen in all. The next turn, at 57.747 s, is the next
//! pack's. Degraded: .061 s, then (60 − .061) / 16 = 3.746 s fifteen times.

use super::*;

fn unanswered(degraded: bool) -> (Lab, Vec<(Duration, Out)>, u64) {
    let mut lab = Lab::warm();
    lab.degraded.set(degraded);
    let head = lab.accept(1_000).unwrap();
    lab.accept(1_000).unwrap();
    let left = lab.run_until(60_000);
    (lab, left, head)
}

#[test]
fn healthy_the_head_is_resent_sixteen_times_and_then_comes_the_next_pack() {
    // R-3 R-10 R-11, case B01
    let (lab, left, head) = unanswered(false);
    let mut expected = vec![61.0, 183.0, 427.0, 915.0, 1_891.0, 3_843.0, 7_747.0];
    expected.extend((1..=9).map(|n| 7_747.0 + 5_000.0 * f64::from(n)));
    assert_eq!(expected.len(), 16);
    assert_eq!(resends_of(head, &left), expected);
    assert_eq!(resends_of(head + 1, &left), [57_747.0]);
    assert_eq!(lab.counters().expired, 2);
}

#[test]
fn degraded_all_sixteen_are_spread_evenly_and_the_last_comes_near_56_seconds() {
    // R-4 R-11
    let (_, left, head) = unanswered(true);
    let resends = resends_of(head, &left);
    assert_eq!(resends.len(), 16);
    assert_eq!(resends[0], 61.0);
    let step = (60_000.0 - 61.0) / 16.0;
    for pair in resends.windows(2) {
        assert!((pair[1] - pair[0] - step).abs() < 0.01, "{pair:?}");
    }
    assert!((resends[15] - 56_253.8).abs() < 0.1, "{}", resends[15]);
}

#[test]
fn with_one_pack_only_the_turns_after_its_resends_ask_for_a_ping() {
    let mut lab = Lab::warm();
    lab.accept(1_000).unwrap();
    lab.run_until(52_800);
    assert!(!lab.lane.wants_probe());
    lab.run_until(57_746);
    assert!(!lab.lane.wants_probe());
    lab.run_until(57_747);
    assert!(lab.lane.wants_probe());
    let probe = lab.lane.probe().unwrap();
    assert_eq!((probe.largest_number, probe.tx), (20, 38));
    assert!(!lab.lane.wants_probe());
}

#[test]
fn paused_nothing_is_resent_and_the_life_of_a_pack_runs_on() {
    // the stall's part of the lane
    let mut lab = Lab::warm();
    let head = lab.accept(1_000).unwrap();
    let before = lab.run_until(1_000);
    assert_eq!(resends_of(head, &before).len(), 4);
    lab.lane.pause(lab.now);
    lab.accept(1_000).unwrap();
    assert_eq!(lab.run_until(59_999), []);
    assert_eq!(lab.counters().expired, 0);
    assert_eq!(lab.lane.poll_timeout().unwrap().1, "ack timeout");
    lab.run_until(60_000);
    assert_eq!(lab.counters().expired, 1);
    assert_eq!(lab.lane.poll_skip(1_200, lab.now), None, "paused");
    lab.lane.resume(lab.now);
    assert!(lab.lane.poll_skip(1_200, lab.now).is_some());
    assert_eq!(lab.drain().len(), 1, "what waited");
}

#[test]
fn a_resumed_lane_waits_a_plain_timeout_before_it_guesses() {
    let mut lab = Lab::warm();
    lab.accept(1_000).unwrap();
    lab.run_until(500);
    lab.lane.pause(lab.now);
    lab.run_until(10_000);
    lab.lane.resume(lab.now);
    // The three silences before the pause are those of another path.
    let left = lab.run_until(12_000);
    assert_eq!(resends_of(20, &left)[0], 10_061.0);
}
