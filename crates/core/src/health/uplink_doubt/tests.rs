//! The doubt as timelines, and against a model that keeps every event.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);
const NS: Duration = Duration::from_nanos(1);

fn setup() -> (UplinkDoubt, Instant) {
    (
        UplinkDoubt::new(UplinkDoubtConfig::default()),
        Instant::now(),
    )
}

fn in_doubt() -> (UplinkDoubt, Instant) {
    let (mut doubt, t0) = setup();
    doubt.on_stalled(1, 4, t0);
    assert!(doubt.on_stalled(2, 4, t0));
    (doubt, t0)
}

#[test]
fn half_of_the_window_is_doubt_and_less_is_not() {
    for (window, stalls) in [(1, 2), (2, 2), (3, 2), (4, 2), (5, 3), (6, 3)] {
        let (mut doubt, t0) = setup();
        for exit in 1..stalls {
            assert!(!doubt.on_stalled(exit, window, t0));
        }
        assert!(!doubt.is_in_doubt(t0), "{stalls} - 1 of {window}");
        assert!(doubt.on_stalled(stalls, window, t0));
        assert!(doubt.is_in_doubt(t0), "{stalls} of {window}");
    }
}

#[test]
fn one_exit_that_stalls_again_and_again_is_one() {
    let (mut doubt, t0) = setup();
    for second in 0..20 {
        assert!(!doubt.on_stalled(7, 1, t0 + second * S));
    }
}

#[test]
fn stalls_ten_seconds_apart_are_one_event_and_further_are_two() {
    for (apart, together) in [(10 * S, true), (10 * S + NS, false)] {
        let (mut doubt, t0) = setup();
        doubt.on_stalled(1, 2, t0);
        assert_eq!(doubt.on_stalled(2, 2, t0 + apart), together);
    }
}

#[test]
fn it_ends_after_fifteen_seconds_and_needs_new_stalls_to_begin_again() {
    let (mut doubt, t0) = in_doubt();
    let end = t0 + 15 * S;
    assert_eq!(doubt.poll_timeout(), Some((end, "uplink doubt")));
    doubt.on_stalled(3, 4, end - S);
    assert!(!doubt.handle_timeout(end - NS));
    assert!(
        doubt.is_in_doubt(end - NS),
        "a later stall does not lengthen it"
    );
    assert!(!doubt.is_in_doubt(end), "even before anyone says so");
    assert!(doubt.handle_timeout(end));
    assert_eq!(doubt.poll_timeout(), None);
    assert!(!doubt.on_stalled(4, 4, end), "the third was used up");
    assert!(doubt.on_stalled(5, 4, end));
}

#[test]
fn an_inbound_packet_ends_it_and_all_that_led_to_it() {
    let (mut doubt, t0) = in_doubt();
    doubt.on_inbound(t0 + S);
    assert!(!doubt.is_in_doubt(t0 + S));
    assert!(!doubt.on_stalled(3, 4, t0 + S));
    assert!(doubt.on_stalled(1, 4, t0 + S));
}

#[test]
fn a_roam_of_a_second_and_a_half_judges_nobody() {
    // case B71
    let (mut doubt, t0) = in_doubt();
    let back = t0 + 1_500 * Duration::from_millis(1);
    assert!(doubt.is_in_doubt(t0) && doubt.is_in_doubt(back - NS));
    doubt.on_inbound(back);
    assert!(!doubt.is_in_doubt(back));
    assert_eq!(doubt.admit_dial(back), DialAdvice::Go);
    assert_eq!(doubt.status(back).to_string(), "trusted: a packet came in");
}

#[test]
fn while_one_exit_carries_packets_there_is_no_doubt() {
    let (mut doubt, t0) = setup();
    for exit in 1..100 {
        let now = t0 + S * exit as u32 / 10;
        assert!(!doubt.on_stalled(exit, 2, now));
        doubt.on_inbound(now);
    }
}

#[test]
fn a_backends_answer_counts_when_it_was_asked_for_after_the_last_stall() {
    let (mut doubt, t0) = in_doubt();
    doubt.on_stalled(3, 4, t0 + S);
    doubt.on_backend_success(t0 + S, t0 + 2 * S);
    assert!(doubt.is_in_doubt(t0 + 2 * S));
    doubt.on_backend_success(t0 + S + NS, t0 + 2 * S);
    assert!(!doubt.is_in_doubt(t0 + 2 * S));
    assert_eq!(
        doubt.status(t0 + 2 * S).to_string(),
        "trusted: the backend answered"
    );
}

#[test]
fn one_canary_goes_each_ten_seconds_and_a_flapping_uplink_gets_no_more() {
    let (mut doubt, t0) = setup();
    assert_eq!(doubt.admit_dial(t0), DialAdvice::Go);
    doubt.on_stalled(1, 2, t0);
    doubt.on_stalled(2, 2, t0);
    assert_eq!(doubt.admit_dial(t0), DialAdvice::Canary);
    for _ in 0..100 {
        assert_eq!(doubt.admit_dial(t0), DialAdvice::Wait(t0 + 10 * S));
    }
    let before = t0 + 10 * S - NS;
    assert_eq!(doubt.admit_dial(before), DialAdvice::Wait(t0 + 10 * S));
    doubt.on_inbound(before);
    assert_eq!(doubt.admit_dial(before), DialAdvice::Go);
    doubt.on_stalled(1, 2, before);
    doubt.on_stalled(2, 2, before);
    assert_eq!(doubt.admit_dial(before), DialAdvice::Wait(t0 + 10 * S));
    assert_eq!(doubt.admit_dial(t0 + 10 * S), DialAdvice::Canary);
    // The doubt ends before the next canary would be due.
    let end = before + 15 * S;
    assert_eq!(doubt.admit_dial(t0 + 20 * S), DialAdvice::Canary);
    assert_eq!(doubt.admit_dial(end - NS), DialAdvice::Wait(end));
    assert_eq!(doubt.admit_dial(end), DialAdvice::Go);
}

#[test]
fn what_is_remembered_is_bounded_and_a_large_window_can_be_doubted() {
    let (mut doubt, t0) = setup();
    let began: Vec<_> = (1..=10_000)
        .filter(|exit| doubt.on_stalled(*exit, 10_000, t0))
        .collect();
    assert_eq!(began, [32]);
    assert_eq!(doubt.stalls.len(), STALLS_MAX);
}

#[test]
fn it_says_in_words_how_it_stands() {
    let (mut doubt, t0) = setup();
    assert_eq!(doubt.status(t0).to_string(), "trusted");
    doubt.on_stalled(1, 4, t0);
    doubt.on_stalled(2, 4, t0);
    let status = doubt.status(t0 + S);
    let words = "in doubt: 2 of 4 exits stalled together";
    assert_eq!(
        (status.to_string().as_str(), status.in_doubt),
        (words, true)
    );
    assert_eq!(status.ends_in_s, Some(14.0));
    doubt.handle_timeout(t0 + 15 * S);
    let words = "trusted: nothing came in for the whole of the last doubt";
    assert_eq!(doubt.status(t0 + 15 * S).to_string(), words);
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Stall(u64),
    Inbound,
    /// A backend's success; it took so many milliseconds.
    Backend(u64),
    Dial,
    Advance(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        5 => (0..6_u64).prop_map(Op::Stall),
        1 => Just(Op::Inbound),
        1 => (0..4_000_u64).prop_map(Op::Backend),
        4 => Just(Op::Dial),
        6 => prop_oneof![0..3_000_u64, 0..20_000_u64, Just(1 << 40)].prop_map(Op::Advance),
    ];
    prop::collection::vec(op, 0..200)
}

/// Every event since the last proof of the uplink, in milliseconds.
#[derive(Default)]
struct Model {
    stalls: Vec<(u64, u64)>,
    doubt_since: Option<u64>,
}

impl Model {
    fn prove(&mut self) {
        *self = Self::default();
    }

    fn settle(&mut self, ms: u64) {
        if self.doubt_since.is_some_and(|since| ms >= since + 15_000) {
            self.prove();
        }
    }

    fn stall(&mut self, exit: u64, window: usize, ms: u64) {
        self.stalls.push((exit, ms));
        let recent = self.stalls.iter().filter(|(_, at)| ms - at <= 10_000);
        let exits: std::collections::BTreeSet<_> = recent.map(|(exit, _)| exit).collect();
        if exits.len() >= 2 && exits.len() * 2 >= window {
            self.doubt_since.get_or_insert(ms);
        }
    }
}

proptest! {
    #[test]
    fn any_schedule_does_what_the_model_does(ops in ops(), window in 1..8_usize) {
        let (mut doubt, t0) = setup();
        let mut model = Model::default();
        let mut ms = 0_u64;
        let at = |ms: u64| t0 + Duration::from_millis(ms);
        let mut last_canary: Option<u64> = None;
        for op in ops {
            model.settle(ms);
            match op {
                Op::Stall(exit) => {
                    let was = model.doubt_since.is_some();
                    model.stall(exit, window, ms);
                    let began = doubt.on_stalled(exit, window, at(ms));
                    prop_assert_eq!(began, !was && model.doubt_since.is_some());
                }
                Op::Inbound => {
                    model.prove();
                    doubt.on_inbound(at(ms));
                }
                Op::Backend(took) => {
                    let begun = ms.saturating_sub(took);
                    // An old stall is forgotten when a new one comes, by both alike.
                    if model.stalls.iter().map(|(_, at)| *at).max().is_some_and(|at| begun > at) {
                        model.prove();
                    }
                    doubt.on_backend_success(at(begun), at(ms));
                }
                Op::Dial => match doubt.admit_dial(at(ms)) {
                    DialAdvice::Go => prop_assert!(model.doubt_since.is_none()),
                    DialAdvice::Canary => {
                        prop_assert!(model.doubt_since.is_some());
                        prop_assert!(last_canary.is_none_or(|last| ms >= last + 10_000));
                        last_canary = Some(ms);
                    }
                    DialAdvice::Wait(until) => {
                        prop_assert!(until > at(ms) && model.doubt_since.is_some());
                    }
                },
                Op::Advance(by) => ms = (ms + by).min(1 << 43),
            }
            model.settle(ms);
            prop_assert_eq!(doubt.is_in_doubt(at(ms)), model.doubt_since.is_some());
        }
    }
}
