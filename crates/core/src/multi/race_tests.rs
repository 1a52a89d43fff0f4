//! The racer alone: bounds, waits, and what is remembered.
#![allow(clippy::unwrap_used)]

use super::*;

const A: ExitId = ExitId(0);
const B: ExitId = ExitId(1);
const C: ExitId = ExitId(2);
const DELAY: Duration = Duration::from_millis(250);

fn key(port: u16) -> FlowKey {
    FlowKey {
        source: [10, 0, 0, 1].into(),
        destination: [192, 0, 2, 1].into(),
        protocol: 6,
        source_port: port,
        destination_port: 443,
    }
}

fn syn() -> Bytes {
    Bytes::from_static(&[0; 60])
}

fn racer() -> Racer {
    Racer::new(RacerConfig::default(), 1)
}

/// A race whose first copy went over [`A`] as pack 7.
fn begun(now: Instant) -> Racer {
    let mut racer = racer();
    assert!(racer.begin(key(1), syn(), now));
    racer.on_sent(&key(1), A, Some(7));
    racer
}

fn live(racer: &Racer) -> Vec<ExitId> {
    racer.live(&key(1)).collect()
}

#[test]
fn a_hedge_is_due_exactly_at_its_delay_and_once() {
    let t0 = Instant::now();
    let mut racer = begun(t0);
    assert_eq!(racer.poll_timeout(), Some((t0 + DELAY, "hedge")));
    let never = |_, _| false;
    let just_before = t0 + DELAY - Duration::from_nanos(1);
    assert_eq!(racer.poll_hedge(never, just_before), None);
    assert_eq!(racer.poll_hedge(never, t0 + DELAY), Some(key(1)));
    assert_eq!(racer.poll_hedge(never, t0 + 10 * DELAY), None);
    assert_eq!(racer.poll_timeout(), None);
}

#[test]
fn a_pack_that_was_acknowledged_draws_no_hedge_and_one_that_nobody_acknowledges_does() {
    let t0 = Instant::now();
    let mut racer = begun(t0);
    let acked = |exit, pack| (exit, pack) == (A, 7);
    assert_eq!(racer.poll_hedge(acked, t0 + DELAY), None);
    let mut racer = self::racer();
    racer.begin(key(1), syn(), t0);
    racer.on_sent(&key(1), A, None);
    assert_eq!(racer.poll_hedge(|_, _| true, t0 + DELAY), Some(key(1)));
}

#[test]
fn the_users_own_second_question_takes_the_place_of_the_hedge() {
    let t0 = Instant::now();
    let mut racer = begun(t0);
    let asked = racer.again(&key(1), syn(), 2, t0 + DELAY / 2);
    assert_eq!(asked, Some(Again::Add));
    racer.on_sent(&key(1), B, Some(1));
    assert_eq!(racer.poll_hedge(|_, _| false, t0 + DELAY), None);
}

#[test]
fn one_more_question_replaces_the_oldest_and_in_a_narrow_race_all() {
    let t0 = Instant::now();
    let mut racer = begun(t0);
    racer.on_sent(&key(1), B, Some(1));
    let again = |racer: &mut Racer, width| racer.again(&key(1), syn(), width, t0);
    assert_eq!(again(&mut racer, 2), Some(Again::Replace(vec![A])));
    racer.on_replaced(&key(1), A);
    racer.on_sent(&key(1), C, None);
    assert_eq!(live(&racer), [B, C]);
    assert_eq!(again(&mut racer, 1), Some(Again::Replace(vec![B, C])));
    assert_eq!(again(&mut racer, 3), Some(Again::Add));
    assert_eq!(racer.again(&key(2), syn(), 2, t0), None);
}

#[test]
fn the_first_willing_answer_wins_and_names_the_losers() {
    let mut racer = begun(Instant::now());
    racer.on_sent(&key(1), B, Some(1));
    racer.on_sent(&key(1), C, Some(1));
    let ruling = racer.on_answer(&key(1), B, Answer::Yes);
    assert_eq!(ruling, Ruling::Won(vec![A, C]));
    assert_eq!(racer.on_answer(&key(1), A, Answer::Yes), Ruling::NoRace);
    assert_eq!((racer.len(), racer.counters().won_by_another), (0, 1));
}

#[test]
fn a_refusal_counts_when_it_is_the_last_and_is_kept_until_then() {
    let t0 = Instant::now();
    let mut racer = begun(t0);
    racer.on_sent(&key(1), B, Some(1));
    assert_eq!(racer.on_answer(&key(1), A, Answer::No), Ruling::Keep);
    racer.keep(&key(1), Bytes::from_static(b"no"));
    assert_eq!(racer.on_answer(&key(1), A, Answer::Yes), Ruling::Late);
    assert_eq!(racer.on_answer(&key(1), B, Answer::Other), Ruling::Pass);
    let mut other = begun(t0);
    assert_eq!(other.on_answer(&key(1), A, Answer::No), Ruling::Lost);
    let asked = racer.again(&key(1), syn(), 2, t0);
    assert_eq!(asked, Some(Again::Refuse(Bytes::from_static(b"no"))));
    assert!(!racer.is_racing(&key(1)));
}

#[test]
fn an_exit_that_fails_leaves_races_bare_as_long_as_the_bound_holds() {
    let t0 = Instant::now();
    let mut racer = begun(t0);
    assert_eq!(racer.on_exit_failed(B), []);
    assert_eq!(racer.on_exit_failed(A), [key(1)]);
    racer.on_sent(&key(1), B, Some(1));
    // One question, two copies: the bound is reached.
    assert_eq!(racer.on_exit_failed(B), []);
    assert_eq!(live(&racer), []);
    assert_eq!(racer.again(&key(1), syn(), 2, t0), Some(Again::Add));
}

#[test]
fn as_many_races_as_may_be_begin_and_one_more_does_not() {
    let t0 = Instant::now();
    let config = RacerConfig {
        races_max: 16,
        ..RacerConfig::default()
    };
    let mut racer = Racer::new(config, 1);
    assert!((0..16).all(|port| racer.begin(key(port), syn(), t0)));
    assert!(!racer.begin(key(16), syn(), t0));
    assert_eq!(racer.counters().unraced, 1);
    racer.end(&key(0));
    assert!(racer.begin(key(16), syn(), t0));
}

#[test]
fn races_whose_user_left_make_room_and_those_asked_about_since_stay() {
    let t0 = Instant::now();
    let config = RacerConfig {
        races_max: 16,
        ..RacerConfig::default()
    };
    let mut racer = Racer::new(config, 1);
    (0..16).for_each(|port| assert!(racer.begin(key(port), syn(), t0)));
    racer.again(&key(3), syn(), 2, t0 + ABANDONED_AFTER / 2);
    let just_before = t0 + ABANDONED_AFTER - Duration::from_nanos(1);
    assert!(!racer.begin(key(99), syn(), just_before));
    assert!(racer.begin(key(99), syn(), t0 + ABANDONED_AFTER));
    assert!(racer.is_racing(&key(3)));
    assert_eq!(racer.len(), 2);
}

#[test]
fn what_is_remembered_of_races_that_are_over_is_bounded() {
    let t0 = Instant::now();
    let mut racer = racer();
    let most = AGES_A_RACE_MAX * racer.config.races_max;
    for n in 0..3 * most {
        let port = u16::try_from(n % 60_000).unwrap();
        racer.begin(key(port), syn(), t0);
        racer.end(&key(port));
        racer.poll_hedge(|_, _| true, t0 + DELAY);
    }
    assert!(racer.ages.len() <= most && racer.hedges.is_empty());
}
