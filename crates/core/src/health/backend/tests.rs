//! Backend health as timelines, and the word against a naive model.
#![allow(clippy::unwrap_used)]

mod pacing;
mod word;

use std::sync::Arc;

use rand::SeedableRng as _;

use super::*;
use crate::health::Signal;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

fn backend(config: BackendHealthConfig, epoch: Instant) -> BackendHealth {
    BackendHealth::new(config, epoch, &mut SmallRng::seed_from_u64(5))
}

fn setup() -> (BackendHealth, Instant) {
    let t0 = Instant::now();
    (backend(BackendHealthConfig::default(), t0), t0)
}

fn fail(health: &BackendHealth, work: Work, now: Instant) {
    health.failed(health.begin(work, now), now);
}

fn degrade(health: &BackendHealth, work: Work, t0: Instant) -> Instant {
    for second in 0..3 {
        fail(health, work, t0 + second * S);
    }
    assert!(health.is_degraded(t0 + 2 * S));
    t0 + 2 * S
}

#[test]
fn the_third_failure_degrades_and_no_time_ends_it() {
    //
    let (health, t0) = setup();
    fail(&health, Work::Auth, t0);
    fail(&health, Work::Auth, t0 + S);
    assert!(!health.is_degraded(t0 + S), "two are not enough");
    fail(&health, Work::Auth, t0 + 2 * S);
    let mut now = t0 + 2 * S;
    for _ in 0..1_000 {
        assert!(health.is_degraded(now));
        now += 86_400 * S;
    }
    let attempt = health.begin(Work::Auth, now);
    health.succeeded(attempt, now);
    assert!(!health.is_degraded(now));
}

#[test]
fn every_failure_is_written_and_one_blip_is_one_failure() {
    //
    let (health, t0) = setup();
    for ms in [0, 1, 250, 499] {
        fail(&health, Work::Contract, t0 + ms * MS);
        let record = health.record(Work::Contract);
        assert_eq!(record.failed_ms, Some(u64::from(ms)), "written");
        assert_eq!(record.streak, 1, "and counted once");
    }
    fail(&health, Work::Contract, t0 + 500 * MS);
    assert_eq!(health.record(Work::Contract).streak, 2, "the next slot");
    fail(&health, Work::Contract, t0 + 499 * MS);
    let record = health.record(Work::Contract);
    assert_eq!((record.streak, record.failed_ms), (2, Some(500)));
}

#[test]
fn a_success_clears_its_own_kind_alone() {
    let (health, t0) = setup();
    let now = degrade(&health, Work::Auth, t0);
    degrade(&health, Work::Catalog, t0);
    for work in [Work::Contract, Work::Probe, Work::Catalog] {
        health.succeeded(health.begin(work, now), now);
        assert!(health.is_degraded(now), "{work}");
    }
    assert!(!health.is_work_degraded(Work::Catalog));
    health.refused(health.begin(Work::Auth, now), now);
    assert!(!health.is_degraded(now), "a refusal is an answer");
}

#[test]
fn an_answer_is_late_after_five_seconds_whatever_it_says() {
    type End = fn(&BackendHealth, Attempt, Instant);
    let ends: [End; 3] = [
        BackendHealth::succeeded,
        BackendHealth::refused,
        |health, attempt, now| health.throttled(attempt, S, now),
    ];
    for end in ends {
        for (took, streak) in [(5 * S, 0), (5 * S + NS, 1)] {
            let (health, t0) = setup();
            let attempt = health.begin(Work::Catalog, t0);
            end(&health, attempt, t0 + took);
            assert_eq!(health.record(Work::Catalog).streak, streak, "{took:?}");
        }
    }
}

#[test]
fn a_straggler_of_an_older_generation_neither_ends_nor_deepens() {
    // case B21
    let (health, t0) = setup();
    let old = [(); 2].map(|()| health.begin(Work::Auth, t0));
    health.succeeded(health.begin(Work::Auth, t0), t0);
    let now = degrade(&health, Work::Auth, t0 + S / 2);
    let [success, failure] = old;
    health.succeeded(success, now);
    assert!(health.is_degraded(now));
    health.failed(failure, now + S);
    let record = health.record(Work::Auth);
    assert_eq!(record.streak, 3);
    assert_eq!(record.failed_ms, Some(3_500), "and yet it is written");
}

#[test]
fn a_dropped_attempt_is_neither() {
    let (health, t0) = setup();
    for second in 0..10 {
        drop(health.begin(Work::Auth, t0 + second * S));
    }
    assert_eq!(health.record(Work::Auth), FailRecord::default());
    let now = degrade(&health, Work::Auth, t0);
    drop(health.begin(Work::Auth, now));
    assert!(health.is_degraded(now));
}

#[test]
fn an_embedders_notes_begin_and_end_it() {
    //
    let (health, t0) = setup();
    for second in 0..3 {
        health.note_failure(t0 + second * S);
    }
    assert!(health.is_work_degraded(Work::Probe));
    health.note_success(t0 + 2 * S);
    assert!(!health.is_degraded(t0 + 2 * S));
}

#[test]
fn all_who_listen_hear_one_signal_and_several_backends_fail_together() {
    //
    let t0 = Instant::now();
    let make = || Arc::new(backend(BackendHealthConfig::default(), t0));
    let (a, b) = (make(), make());
    let one = Signal::new(a.clone());
    let both = Signal::new(Arc::new(Backends::new([a.clone(), b.clone()])));
    let none = Signal::new(Arc::new(Backends::default()));
    let now = degrade(&a, Work::Contract, t0);
    let said = |now| [&one, &both, &none].map(|signal| signal.is_degraded(now));
    assert_eq!(said(now), [true, false, false]);
    let backends = Backends::new([a.clone(), b.clone()]);
    assert!(Arc::ptr_eq(backends.preferred(now).unwrap(), &b));
    degrade(&b, Work::Auth, t0);
    assert_eq!(said(now), [true, true, false]);
    assert!(Arc::ptr_eq(backends.preferred(now).unwrap(), &a));
    a.succeeded(a.begin(Work::Contract, now), now);
    assert_eq!(said(now), [false, false, false]);
}

#[test]
fn it_says_in_words_how_it_stands() {
    let (health, t0) = setup();
    let status = health.status(t0);
    assert_eq!(status.state, BackendState::Well);
    assert_eq!(status.to_string(), "well: it answers");
    fail(&health, Work::Contract, t0);
    assert_eq!(
        health.status(t0).to_string(),
        "failing: contract failed 1 time in a row, last 0 s ago; next attempt in 1 s"
    );
    let now = degrade(&health, Work::Contract, t0 + S);
    let status = health.status(now + 4 * S);
    assert_eq!(status.state, BackendState::Degraded);
    let words = status.to_string();
    let head = "degraded: contract failed 4 times in a row, last 4 s ago; ";
    assert!(words.starts_with(head), "{words}");
    let next = status.work[2].next_in_s;
    assert!(next.is_none_or(|wait| wait <= 2.25), "{next:?}");
}
