//! What threads share in `health`, under each order of steps that the memory model allows.
//!
//! Only in builds with `--cfg quell_loom`, where the shared words are loom's:
//!
//! ```text
//! RUSTFLAGS='--cfg quell_loom' CARGO_TARGET_DIR=target/loom cargo test -p quell-core --test loom
//! ```
//!
//! Each test runs its closure once for every interleaving, with at most three preemptions
//! where there are locks: more find nothing that three do not in protocols as small as
//! these, and take minutes.
#![cfg(quell_loom)]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use loom::thread::{JoinHandle, spawn};
use quell_core::config::{BackendHealthConfig, DialGateConfig};
use quell_core::health::backend::{Admission, FailRecord, LastBackendFail, Work};
use quell_core::health::dial_gate::RetryReason;
use quell_core::health::{BackendHealth, DialGate};
use quell_core::send::Degraded as _;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

const S: Duration = Duration::from_secs(1);

fn explore(test: impl Fn(Instant) + Sync + Send + 'static) {
    let t0 = Instant::now();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || test(t0));
}

fn on<T: 'static>(
    word: &Arc<LastBackendFail>,
    work: impl FnOnce(&LastBackendFail) -> T + 'static,
) -> JoinHandle<T> {
    let word = Arc::clone(word);
    spawn(move || work(&word))
}

fn record(generation: u16, streak: u8, failed_ms: Option<u64>) -> FailRecord {
    FailRecord {
        generation,
        streak,
        failed_ms,
    }
}

#[test]
fn no_failure_is_lost_and_no_reader_sees_half_of_one() {
    explore(|t0| {
        let word = Arc::new(LastBackendFail::new(t0));
        let late = on(&word, move |word| word.fail(0, t0 + S));
        let early = on(&word, move |word| word.fail(0, t0));
        let seen = word.record();
        let (late, early) = (late.join().unwrap(), early.join().unwrap());
        // The two changes follow on each other, in one order or the other.
        let first = FailRecord::default();
        let end = word.record();
        let in_order = (late.0, late.1, early.0, early.1);
        let chained =
            in_order == (early.1, end, first, early.1) || in_order == (first, late.1, late.1, end);
        assert!(chained, "{late:?} {early:?} {end:?}");
        assert_eq!(end.failed_ms, Some(1_000));
        let whole = [
            first,
            record(0, 1, Some(0)),
            record(0, 1, Some(1_000)),
            record(0, 2, Some(1_000)),
        ];
        assert!(whole.contains(&seen), "{seen:?}");
    });
}

#[test]
fn a_failure_that_meets_a_success_is_before_it_or_of_an_older_generation() {
    explore(|t0| {
        let word = Arc::new(LastBackendFail::new(t0));
        let failure = on(&word, move |word| word.fail(0, t0 + S));
        let success = on(&word, |word| word.succeed(0));
        failure.join().unwrap();
        assert!(success.join().unwrap());
        let end = word.record();
        let whole = [record(1, 0, None), record(1, 0, Some(1_000))];
        assert!(whole.contains(&end), "{end:?}");
    });
}

#[test]
fn of_two_successes_of_one_generation_one_counts_and_stragglers_change_nothing() {
    // case B21
    explore(|t0| {
        let word = Arc::new(LastBackendFail::new(t0));
        word.fail(0, t0);
        let one = on(&word, |word| word.succeed(0));
        let other = on(&word, |word| word.succeed(0));
        let counted = [one.join().unwrap(), other.join().unwrap()];
        assert_eq!(counted.iter().filter(|counted| **counted).count(), 1);
        assert_eq!(word.record(), record(1, 0, None));
        word.fail(1, t0 + S);
        assert!(!word.succeed(0));
        assert_eq!(word.record(), record(1, 1, Some(1_000)));
    });
}

fn degraded(t0: Instant) -> Arc<BackendHealth> {
    let config = BackendHealthConfig {
        failures_to_degrade: 1,
        ..BackendHealthConfig::default()
    };
    let health = BackendHealth::new(config, t0, &mut SmallRng::seed_from_u64(1));
    health.note_failure(t0);
    assert!(health.is_degraded(t0));
    Arc::new(health)
}

#[test]
fn of_two_threads_that_ask_a_degraded_backend_one_is_the_probe() {
    // case B18
    explore(|t0| {
        let health = degraded(t0);
        let other = Arc::clone(&health);
        let ask = spawn(move || other.admit(Work::Probe, t0 + 60 * S));
        let mine = health.admit(Work::Probe, t0 + 60 * S);
        let answers = [mine, ask.join().unwrap()];
        let probes = answers.iter().filter(|a| matches!(a, Admission::Probe(_)));
        let waits = answers.iter().filter(|a| matches!(a, Admission::Wait(_)));
        assert_eq!((probes.count(), waits.count()), (1, 1));
    });
}

#[test]
fn a_probe_that_succeeds_elsewhere_ends_the_outage_for_all() {
    explore(|t0| {
        let health = degraded(t0);
        let now = t0 + 60 * S;
        let Admission::Probe(attempt) = health.admit(Work::Probe, now) else {
            panic!("no probe");
        };
        let other = Arc::clone(&health);
        let end = spawn(move || other.succeeded(attempt, now));
        // Before it, a probe is under way; after it, all may go.
        let answer = health.admit(Work::Probe, now);
        assert!(!matches!(answer, Admission::Probe(_)), "a second probe");
        end.join().unwrap();
        assert!(!health.is_degraded(now));
        drop(answer);
        assert!(matches!(health.admit(Work::Probe, now), Admission::Go(_)));
    });
}

#[test]
fn a_permit_that_is_dropped_elsewhere_frees_the_slot() {
    // R-36, case B20
    explore(|t0| {
        let config = DialGateConfig {
            failure_threshold: 1,
            ..DialGateConfig::default()
        };
        let mut gate = DialGate::new(config, SmallRng::seed_from_u64(1));
        let permit = gate.try_acquire(t0).unwrap();
        gate.failed(permit, t0);
        let now = t0 + 2 * S;
        let permit = gate.try_acquire(now).unwrap();
        let dialer = spawn(move || drop(permit));
        let during = gate.try_acquire(now).unwrap_err().reason;
        let known = [RetryReason::ProbeInFlight, RetryReason::Blocked];
        assert!(known.contains(&during));
        dialer.join().unwrap();
        let after = gate.try_acquire(now).unwrap_err();
        assert_eq!(after.reason, RetryReason::Blocked);
        assert!(gate.try_acquire(after.at).unwrap().is_probe());
    });
}
