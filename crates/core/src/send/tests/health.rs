//! What degradation changes, and what it must not change.

use super::*;

/// Sends a pack a millisecond for a second over 25 ms each way, an ACK for every
/// eighth; `lost` first sends do not arrive. Everything that left, with its time.
fn flowing(degraded: bool, lost: &[u64]) -> (Vec<(Duration, Out)>, SendCounters) {
    let mut lab = Lab::warmed(LaneConfig::default());
    lab.degraded.set(degraded);
    let mut left = Vec::new();
    let mut arriving: std::collections::VecDeque<(Instant, Out)> = Default::default();
    let mut received: std::collections::BTreeSet<u64> = (0..20).collect();
    let mut largest_tx = 0;
    for tick in 0..2_000_u32 {
        lab.at(f64::from(tick));
        while let Some((_, out)) = arriving.pop_front_if(|(at, _)| *at <= lab.now) {
            received.insert(out.number);
            largest_tx = out.tx;
            let cumulative = (0..).find(|n| !received.contains(n)).unwrap();
            let top = *received.last().unwrap();
            // One range at most is missing here: what lies above the gap is whole.
            let ranges: &[_] = if top > cumulative {
                &[(cumulative + 1, top)]
            } else {
                &[]
            };
            lab.ack(cumulative, ranges, largest_tx).unwrap();
        }
        if tick < 1_000 {
            lab.accept(1_000).unwrap();
        }
        for out in lab.drain() {
            left.push((lab.now - lab.start, out));
            if !(out.kind == Kind::First && lost.contains(&out.number)) {
                arriving.push_back((lab.now + 50 * MS, out));
            }
        }
    }
    assert!(largest_tx > 0);
    (left, lab.counters())
}

#[test]
fn with_acks_flowing_degraded_or_not_the_outputs_are_the_same() {
    //
    let (healthy, counters) = flowing(false, &[]);
    let (degraded, _) = flowing(true, &[]);
    assert_eq!(healthy, degraded);
    assert_eq!(counters.first_sends, 1_020);
    assert_eq!(counters.evidence_resends + counters.silence_resends, 0);
    assert_eq!(counters.in_flight, 0);
}

#[test]
fn with_a_loss_now_and_then_degraded_or_not_the_outputs_are_the_same() {
    //
    let lost = &[100, 300];
    let (healthy, counters) = flowing(false, lost);
    let (degraded, _) = flowing(true, lost);
    assert_eq!(healthy, degraded);
    assert_eq!(counters.evidence_resends, 2);
    assert_eq!(counters.silence_resends, 0);
}

#[test]
fn a_lone_tail_pack_lost_while_degraded_is_resent_at_plain_pto() {
    //
    for degraded in [false, true] {
        let mut lab = Lab::warmed(LaneConfig::default());
        lab.degraded.set(degraded);
        let tail = lab.accept(1_000).unwrap();
        let left = lab.run_until(100);
        assert_eq!(resends_of(tail, &left), [61.0], "degraded {degraded}");
    }
}

#[test]
fn the_row_ends_with_any_new_ack_and_the_next_silence_is_plain() {
    let mut lab = Lab::warm();
    lab.degraded.set(true);
    let head = lab.accept(1_000).unwrap();
    lab.accept(1_000).unwrap();
    let left = lab.run_until(5_000);
    assert_eq!(resends_of(head, &left).len(), 2);
    assert_eq!(lab.lane.silences(), 2);
    lab.ack(head, &[(head + 1, head + 1)], 0).unwrap();
    assert_eq!(lab.lane.silences(), 0);
    let left = lab.run_until(6_000);
    assert_eq!(resends_of(head, &left), [5_061.0]);
}

#[test]
fn degraded_is_never_ahead_of_healthy_on_a_slow_path() {
    // at 2 s RTT the even spread is shorter than the healthy wait of 5 s
    let resends = |degraded| {
        let mut lab = Lab::new(config(false));
        lab.degraded.set(degraded);
        for _ in 0..40 {
            let number = lab.accept(100).unwrap();
            let out = lab.transmit().unwrap();
            lab.now += 2 * S;
            lab.ack(number + 1, &[], out.tx).unwrap();
        }
        lab.start = lab.now;
        let head = lab.accept(100).unwrap();
        resends_of(head, &lab.run_until(60_000))
    };
    let (healthy, degraded) = (resends(false), resends(true));
    assert!(healthy.len() > 10);
    for (h, d) in healthy.iter().zip(&degraded) {
        assert!(d >= h, "degraded {degraded:?} healthy {healthy:?}");
    }
}

#[test]
fn degradation_late_in_a_life_does_not_hurry_the_resends_that_are_left() {
    // the next pack has all its resends and little time when the head has spent its own
    let mut lab = Lab::warm();
    lab.degraded.set(true);
    lab.accept(1_000).unwrap();
    lab.run_until(5_000);
    for _ in 0..50 {
        lab.accept(1_000).unwrap();
    }
    let left = lab.run_until(80_000);
    let mut silences: Vec<_> = left
        .iter()
        .filter(|(_, out)| out.kind == Kind::Silence)
        .collect();
    silences.retain(|(at, _)| *at > S);
    for pair in silences.windows(2) {
        let gap = pair[1].0 - pair[0].0;
        assert!(gap >= 3_529 * MS, "{pair:?}");
    }
}

#[test]
fn the_signal_that_ends_lets_the_healthy_pace_return() {
    let mut lab = Lab::warm();
    lab.degraded.set(true);
    lab.accept(1_000).unwrap();
    lab.run_until(1_000);
    lab.degraded.set(false);
    lab.at(1_000.0);
    let left = lab.run_until(1_001);
    assert_eq!(resends_of(20, &left), [1_000.0]);
}
