//! The doorman against one that remembers everything and sums anew for each question.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

fn config() -> DoormanConfig {
    DoormanConfig {
        handshakes_free: 2,
        handshakes_max: 4,
        handshake_timeout: 15 * S,
        source_handshakes_per_s: 1,
        source_handshake_burst: 2,
        sources_max: 3,
    }
    .try_new()
    .unwrap()
}

fn from(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A doorman with its free places taken.
fn busy(config: DoormanConfig, now: Instant) -> Doorman {
    let free = config.handshakes_free;
    let mut doorman = Doorman::new(config);
    for _ in 0..free {
        let answer = doorman.on_initial(from("198.51.100.1:9"), false, now);
        assert!(matches!(answer, Answer::Accept { .. }), "{answer:?}");
    }
    doorman
}

/// What becomes of a proven source at a busy doorman whose handshakes end at once.
fn knock(doorman: &mut Doorman, source: &str, now: Instant) -> Answer {
    let answer = doorman.on_initial(from(source), true, now);
    if matches!(answer, Answer::Accept { .. }) {
        doorman.on_ended(Ended::Completed);
    }
    answer
}

#[test]
fn nobody_proves_anything_while_few_handshakes_are_under_way() {
    let now = Instant::now();
    let mut doorman = busy(config(), now);
    let source = from("192.0.2.1:4000");
    assert_eq!(doorman.on_initial(source, false, now), Answer::Retry);
    // One place is free again, and half a second has passed, in which one may begin.
    doorman.on_ended(Ended::Failed);
    let later = now + 500 * MS;
    let deadline = later + 15 * S;
    let answer = doorman.on_initial(source, false, later);
    assert_eq!(answer, Answer::Accept { deadline });
    let answer = doorman.on_initial(source, false, later + 500 * MS);
    assert_eq!(answer, Answer::Retry);
}

#[test]
fn handshakes_that_break_off_at_once_are_load_too() {
    // case B76
    let now = Instant::now();
    let mut doorman = Doorman::new(config());
    let source = from("192.0.2.1:4000");
    for _ in 0..2 {
        let answer = doorman.on_initial(source, false, now);
        assert!(matches!(answer, Answer::Accept { .. }), "{answer:?}");
        doorman.on_ended(Ended::Failed);
    }
    let half_a_second = now + 500 * MS;
    let before = half_a_second - Duration::from_nanos(1);
    assert_eq!(doorman.on_initial(source, false, before), Answer::Retry);
    let answer = doorman.on_initial(source, false, half_a_second);
    assert!(matches!(answer, Answer::Accept { .. }), "{answer:?}");
}

#[test]
fn a_flood_without_proof_leaves_places_and_budgets_to_those_with_it() {
    // case B76
    let now = Instant::now();
    let mut doorman = busy(config(), now);
    for host in 0..10_000_u32 {
        let spoofed = SocketAddr::from((Ipv4Addr::from(0x0a00_0001 + host), 4_000));
        assert_eq!(doorman.on_initial(spoofed, false, now), Answer::Retry);
    }
    assert_eq!(
        doorman.counters().sources,
        0,
        "who proved nothing is not remembered"
    );
    let answer = doorman.on_initial(from("192.0.2.1:4000"), true, now);
    assert!(matches!(answer, Answer::Accept { .. }), "{answer:?}");
}

#[test]
fn the_last_place_passes_and_one_more_does_not() {
    let now = Instant::now();
    let mut doorman = busy(config(), now);
    for host in 1..=2 {
        let source = SocketAddr::from(([192, 0, 2, host], 4_000));
        let answer = doorman.on_initial(source, true, now);
        assert!(matches!(answer, Answer::Accept { .. }), "{answer:?}");
    }
    let answer = doorman.on_initial(from("192.0.2.3:4000"), true, now);
    assert_eq!(answer, Answer::Refuse(Refused::Full));
    // case B67: a handshake that nobody ends gives its place back.
    doorman.on_ended(Ended::TimedOut);
    let answer = doorman.on_initial(from("192.0.2.3:4000"), true, now);
    assert!(matches!(answer, Answer::Accept { .. }), "{answer:?}");
    let counters = doorman.counters();
    let ended = counters.completed + counters.failed + counters.timed_out;
    assert_eq!(counters.accepted, counters.under_way + ended);
}

#[test]
fn a_prefix_has_one_budget_and_no_other_pays_for_it() {
    let now = Instant::now();
    let refused = Answer::Refuse(Refused::SourceBudget);
    // Neighbours share: ports of an address, addresses of a /64, both forms of IPv4.
    let shared = [
        ["192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3"],
        ["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::ffff]:1"],
    ];
    for [first, second, third] in shared {
        let mut doorman = busy(config(), now);
        assert_ne!(knock(&mut doorman, first, now), refused);
        assert_ne!(knock(&mut doorman, second, now), refused);
        assert_eq!(knock(&mut doorman, third, now), refused);
        for other in ["[::ffff:192.0.2.2]:1", "[2001:db8:0:1::1]:1"] {
            assert_ne!(knock(&mut doorman, other, now), refused);
        }
        assert_eq!(knock(&mut doorman, third, now + 999 * MS), refused);
        assert_ne!(knock(&mut doorman, third, now + S), refused);
    }
}

#[test]
fn as_many_sources_are_remembered_as_may_be_and_who_was_heard_of_longest_ago_goes_first() {
    let now = Instant::now();
    let refused = Answer::Refuse(Refused::SourceBudget);
    let mut doorman = busy(config(), now);
    let [first, second, third, fourth] = [1, 2, 3, 4].map(|n| format!("192.0.2.{n}:1"));
    for source in [&first, &second, &third] {
        assert_ne!(knock(&mut doorman, source, now), refused);
        assert_ne!(knock(&mut doorman, source, now), refused);
    }
    // Three are known by their empty budgets; to ask is to be heard of.
    for source in [&third, &second, &first] {
        assert_eq!(knock(&mut doorman, source, now), refused);
    }
    assert_eq!(doorman.counters().sources, 3);
    assert_ne!(knock(&mut doorman, &fourth, now), refused);
    assert_eq!(doorman.counters().sources, 3);
    for source in [&second, &first] {
        assert_eq!(knock(&mut doorman, source, now), refused);
    }
    assert_ne!(knock(&mut doorman, &third, now), refused, "it is forgotten");
}

#[test]
fn who_cannot_be_answered_is_ignored_and_nobody_enters_when_it_stops() {
    let now = Instant::now();
    let mut doorman = Doorman::new(config());
    for source in ["192.0.2.1:0", "0.0.0.0:1", "224.0.0.1:1", "[ff02::1]:1"] {
        assert_eq!(doorman.on_initial(from(source), true, now), Answer::Ignore);
    }
    doorman.stop();
    let stopping = Answer::Refuse(Refused::Stopping);
    for is_proven in [false, true] {
        let answer = doorman.on_initial(from("192.0.2.1:1"), is_proven, now);
        assert_eq!(answer, stopping);
    }
    let counters = doorman.counters();
    assert_eq!((counters.ignored, counters.refused_stopping), (4, 2));
}

#[test]
fn a_clock_that_goes_back_gives_no_budget_and_takes_no_place() {
    let now = Instant::now() + 3_600 * S;
    let mut doorman = busy(config(), now);
    let refused = Answer::Refuse(Refused::SourceBudget);
    let source = "192.0.2.1:1";
    assert_ne!(knock(&mut doorman, source, now), refused);
    assert_ne!(knock(&mut doorman, source, now), refused);
    for (earlier, other) in [(now - MS, "192.0.2.2:1"), (now - 3_600 * S, "192.0.2.3:1")] {
        assert_eq!(knock(&mut doorman, source, earlier), refused);
        assert_ne!(knock(&mut doorman, other, earlier), refused);
    }
    assert_ne!(knock(&mut doorman, source, now + S), refused);
    assert_eq!(doorman.counters().under_way, 2);
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Initial { source: u8, is_proven: bool },
    End,
    Wait(Duration),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0_u8..6, any::<bool>())
            .prop_map(|(source, is_proven)| Op::Initial { source, is_proven }),
        3 => Just(Op::End),
        2 => (0_u64..1_500).prop_map(|ms| Op::Wait(Duration::from_millis(ms))),
        // The clock jumps: a night asleep.
        1 => (0_u64..40_000).prop_map(|s| Op::Wait(Duration::from_secs(s))),
    ]
}

/// Tokens of a source in milliseconds of its time, and when it was heard of last.
#[derive(Debug, Clone, Copy)]
struct Known {
    tokens_ms: u128,
    at_ms: u128,
    turn: usize,
}

#[derive(Debug, Default)]
struct Model {
    under_way: usize,
    /// When those handshakes began that began while it was quiet.
    began_ms: Vec<u128>,
    known: HashMap<u8, Known>,
}

impl Model {
    /// Two at once and two a second: what began ran a queue up by half a second each.
    fn may_begin(&self, now_ms: u128) -> bool {
        let queue = |end: u128, began: &u128| end.max(*began) + 500;
        let end = self.began_ms.iter().fold(0, queue);
        end.max(now_ms) + 500 - now_ms <= 1_000
    }

    fn on_initial(&mut self, source: u8, is_proven: bool, now_ms: u128, turn: usize) -> Said {
        if self.under_way < 2 && self.may_begin(now_ms) {
            self.began_ms.push(now_ms);
            self.under_way += 1;
            return Said::Accept;
        }
        if !is_proven {
            return Said::Retry;
        }
        if self.under_way >= 4 {
            return Said::Full;
        }
        if !self.known.contains_key(&source) && self.known.len() == 3 {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.turn);
            let oldest = *oldest.unwrap().0;
            self.known.remove(&oldest);
        }
        let known = self.known.entry(source).or_insert(Known {
            tokens_ms: 2_000,
            at_ms: now_ms,
            turn,
        });
        known.turn = turn;
        known.tokens_ms = (known.tokens_ms + now_ms - known.at_ms).min(2_000);
        known.at_ms = now_ms;
        if known.tokens_ms < 1_000 {
            return Said::Source;
        }
        known.tokens_ms -= 1_000;
        self.under_way += 1;
        Said::Accept
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Accept,
    Retry,
    Full,
    Source,
    Other,
}

fn said(answer: Answer) -> Said {
    match answer {
        Answer::Accept { .. } => Said::Accept,
        Answer::Retry => Said::Retry,
        Answer::Refuse(Refused::Full) => Said::Full,
        Answer::Refuse(Refused::SourceBudget) => Said::Source,
        Answer::Refuse(Refused::Stopping) | Answer::Ignore => Said::Other,
    }
}

proptest! {
    #[test]
    fn it_answers_as_a_naive_model_does(ops in prop::collection::vec(op(), 0..400)) {
        // case B76
        let start = Instant::now();
        let mut at = Duration::ZERO;
        let (mut doorman, mut model) = (Doorman::new(config()), Model::default());
        for (turn, op) in ops.into_iter().enumerate() {
            match op {
                Op::Initial { source, is_proven } => {
                    let address = SocketAddr::from(([192, 0, 2, source], 4_000));
                    let answer = doorman.on_initial(address, is_proven, start + at);
                    let expected = model.on_initial(source, is_proven, at.as_millis(), turn);
                    prop_assert_eq!(said(answer), expected);
                }
                Op::End if model.under_way > 0 => {
                    model.under_way -= 1;
                    doorman.on_ended(Ended::Completed);
                }
                Op::End => {}
                Op::Wait(time) => at += time,
            }
            let counters = doorman.counters();
            prop_assert_eq!(counters.under_way, model.under_way as u64);
            prop_assert_eq!(counters.sources, model.known.len() as u64);
            prop_assert!(counters.under_way <= 4 && counters.sources <= 3);
        }
    }
}
