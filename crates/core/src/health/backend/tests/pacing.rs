//! Who may ask, and when.

use proptest::prelude::*;

use super::*;

fn wait(health: &BackendHealth, work: Work, now: Instant) -> Wait {
    match health.admit(work, now) {
        Admission::Wait(wait) => wait,
        Admission::Go(_) | Admission::Probe(_) => panic!("admitted"),
    }
}

fn go(health: &BackendHealth, work: Work, now: Instant) -> Attempt {
    let Admission::Go(attempt) = health.admit(work, now) else {
        panic!("not admitted at once");
    };
    attempt
}

fn probe(health: &BackendHealth, work: Work, now: Instant) -> Attempt {
    let Admission::Probe(attempt) = health.admit(work, now) else {
        panic!("not admitted as a probe");
    };
    attempt
}

#[test]
fn a_fast_refusal_waits_and_a_success_forgets_it() {
    //
    let (health, t0) = setup();
    health.failed(go(&health, Work::Auth, t0), t0);
    let told = wait(&health, Work::Auth, t0);
    assert_eq!((told.until, told.reason), (t0 + S, WaitReason::Failed));
    assert_eq!(wait(&health, Work::Auth, t0 + S - NS), told);
    drop(go(&health, Work::Contract, t0));
    let attempt = go(&health, Work::Auth, t0 + S);
    health.succeeded(attempt, t0 + S);
    drop(go(&health, Work::Auth, t0 + S));
}

#[test]
fn in_flight_is_bounded_and_a_place_is_free_when_its_attempt_ends_or_hangs() {
    let t0 = Instant::now();
    let config = BackendHealthConfig {
        in_flight_max: 2,
        ..BackendHealthConfig::default()
    };
    let health = backend(config, t0);
    let first = go(&health, Work::Contract, t0);
    let second = go(&health, Work::Contract, t0 + S);
    let told = wait(&health, Work::Contract, t0 + S);
    assert_eq!((told.until, told.reason), (t0 + 5 * S, WaitReason::Busy));
    assert_eq!(health.status(t0 + S).work[2].in_flight, 2);
    drop(go(&health, Work::Auth, t0 + S));
    drop(first);
    let third = go(&health, Work::Contract, t0 + S);
    wait(&health, Work::Contract, t0 + 6 * S - NS);
    // The second hangs; both of its row were begun at 1 s.
    let fourth = go(&health, Work::Contract, t0 + 6 * S);
    health.succeeded(fourth, t0 + 6 * S);
    health.failed(second, t0 + 7 * S);
    health.failed(third, t0 + 7 * S);
    assert_eq!(health.record(Work::Contract).streak, 0, "older generation");
}

#[test]
fn a_degraded_backend_is_probed_after_five_ten_twenty_and_thirty_seconds() {
    let (health, t0) = setup();
    let mut now = degrade(&health, Work::Contract, t0);
    for seconds in [5.0, 10.0, 20.0, 30.0, 30.0, 30.0] {
        let told = wait(&health, Work::Contract, now);
        assert_eq!(told.reason, WaitReason::Degraded);
        let waited = (told.until - now).as_secs_f64();
        assert!(waited >= 0.75 * seconds, "{waited} of {seconds}");
        assert!(
            waited <= (1.25 * seconds).min(30.0),
            "{waited} of {seconds}"
        );
        assert_eq!(wait(&health, Work::Contract, told.until - NS), told);
        now = told.until;
        let attempt = probe(&health, Work::Contract, now);
        let during = wait(&health, Work::Contract, now + S);
        assert_eq!(during.reason, WaitReason::ProbeInFlight);
        assert_eq!(during.until, now + 5 * S);
        now += S;
        health.failed(attempt, now);
    }
    let now = wait(&health, Work::Contract, now).until;
    health.succeeded(probe(&health, Work::Contract, now), now);
    drop(go(&health, Work::Contract, now));
}

#[test]
fn the_first_demand_after_idling_probes_at_once_and_waits_begin_anew() {
    let (health, t0) = setup();
    let mut now = degrade(&health, Work::Auth, t0);
    for _ in 0..4 {
        now = wait(&health, Work::Auth, now).until;
        health.failed(probe(&health, Work::Auth, now), now);
    }
    now = wait(&health, Work::Auth, now).until;
    // One nanosecond less than idle, and idle.
    for (idle, longest) in [(30 * S - NS, 30 * S), (30 * S, 25 * S / 4)] {
        now += idle;
        health.failed(probe(&health, Work::Auth, now), now);
        let until = wait(&health, Work::Auth, now).until;
        let waited = until - now;
        assert!(waited <= longest && waited >= longest / 2, "{waited:?}");
        now = until;
    }
}

#[test]
fn all_kinds_are_gated_and_each_has_a_pace_of_its_own() {
    let (health, t0) = setup();
    let now = degrade(&health, Work::Contract, t0);
    let attempt = probe(&health, Work::Auth, now);
    wait(&health, Work::Contract, now);
    health.succeeded(attempt, now + S);
    assert!(health.is_degraded(now + S));
    let told = wait(&health, Work::Auth, now + S);
    assert!(told.until - now <= 25 * S / 4, "well, so it is not widened");
    drop(probe(&health, Work::Auth, told.until));
    drop(probe(
        &health,
        Work::Contract,
        told.until.max(now + 25 * S / 4),
    ));
}

#[test]
fn cancelled_probes_are_no_faster_than_failed_ones_and_hung_ones_free_their_place() {
    // case B20
    let (health, t0) = setup();
    let mut now = degrade(&health, Work::Auth, t0);
    now = wait(&health, Work::Auth, now).until;
    for _ in 0..20 {
        drop(probe(&health, Work::Auth, now));
        let told = wait(&health, Work::Auth, now);
        assert!(told.until - now >= 15 * S / 4, "{:?}", told.until - now);
        now = told.until;
    }
    let hung = probe(&health, Work::Auth, now);
    let lease = wait(&health, Work::Auth, now).until;
    assert_eq!(lease, now + 5 * S);
    let told = wait(&health, Work::Auth, lease);
    assert_eq!(told.reason, WaitReason::Degraded, "a hang is a failure");
    health.failed(hung, lease + S);
    assert_eq!(wait(&health, Work::Auth, lease + S), told, "told too late");
    drop(probe(&health, Work::Auth, told.until));
}

#[test]
fn late_failures_of_the_last_healthy_moment_do_not_move_the_probe() {
    // R-35, case B16
    let (health, t0) = setup();
    let late = [(); 5].map(|()| health.begin(Work::Auth, t0));
    let now = degrade(&health, Work::Auth, t0);
    let told = wait(&health, Work::Auth, now);
    for attempt in late {
        health.failed(attempt, now + S);
        assert_eq!(wait(&health, Work::Auth, now + S), told);
    }
}

#[test]
fn what_the_backend_asks_for_is_honoured_up_to_ten_minutes() {
    let (health, t0) = setup();
    health.throttled(go(&health, Work::Contract, t0), 20 * S, t0);
    let told = wait(&health, Work::Contract, t0);
    assert_eq!(
        (told.until, told.reason),
        (t0 + 20 * S, WaitReason::RetryAfter)
    );
    assert_eq!(health.record(Work::Contract).streak, 0, "it is an answer");
    let mut now = t0 + 20 * S;
    for asked in [600 * S, 601 * S, Duration::MAX] {
        let attempt = go(&health, Work::Contract, now);
        health.throttled(attempt, asked, now);
        assert_eq!(wait(&health, Work::Contract, now).until, now + 600 * S);
        now += 600 * S;
    }
    let attempt = go(&health, Work::Contract, now);
    health.unavailable(attempt, Some(S / 2), now);
    assert_eq!(health.record(Work::Contract).streak, 1, "it is a failure");
    assert_eq!(wait(&health, Work::Contract, now + S / 2).until, now + S);
    health.unavailable(go(&health, Work::Auth, now), None, now);
    assert_eq!(wait(&health, Work::Auth, now).reason, WaitReason::Failed);
}

#[test]
fn of_64_threads_at_the_same_instant_one_is_the_probe() {
    // case B18
    let (health, t0) = setup();
    let now = degrade(&health, Work::Auth, t0) + 60 * S;
    let (health, barrier) = (&health, std::sync::Barrier::new(64));
    let admitted = std::thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            health.admit(Work::Auth, now)
        };
        let threads: Vec<_> = (0..64).map(|_| scope.spawn(ask)).collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.collect::<Vec<_>>()
    });
    let probes = admitted.iter().filter(|a| matches!(a, Admission::Probe(_)));
    let waits = admitted.iter().filter(|a| matches!(a, Admission::Wait(_)));
    assert_eq!((probes.count(), waits.count()), (1, 63));
}

#[derive(Debug, Clone)]
enum Op {
    Admit,
    Succeed(usize),
    Fail(usize),
    Throttle(usize, u64),
    Drop(usize),
    Advance(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => Just(Op::Admit),
        1 => (0..3_usize).prop_map(Op::Succeed),
        6 => (0..3_usize).prop_map(Op::Fail),
        1 => (0..3_usize, 0..u64::MAX).prop_map(|(i, ms)| Op::Throttle(i, ms)),
        2 => (0..3_usize).prop_map(Op::Drop),
        6 => prop_oneof![0..2_000_u64, 0..40_000_u64, Just(10_000_000)].prop_map(Op::Advance),
    ];
    prop::collection::vec(op, 0..200)
}

proptest! {
    #[test]
    fn under_any_schedule_probes_are_single_and_seldom_and_flights_bounded(ops in ops()) {
        let mut now = Instant::now();
        let config = BackendHealthConfig { in_flight_max: 3, ..BackendHealthConfig::default() };
        let health = backend(config, now);
        // Attempts that are under way, when they began, and whether as a probe.
        let mut open: Vec<(Attempt, Instant, bool)> = Vec::new();
        let mut last_probe: Option<Instant> = None;
        for op in ops {
            match op {
                Op::Admit => match health.admit(Work::Auth, now) {
                    Admission::Go(attempt) => open.push((attempt, now, false)),
                    Admission::Probe(attempt) => {
                        if let Some(last) = last_probe {
                            prop_assert!(now - last >= 15 * S / 4, "{:?}", now - last);
                        }
                        last_probe = Some(now);
                        open.push((attempt, now, true));
                    }
                    Admission::Wait(wait) => prop_assert!(wait.until > now),
                },
                Op::Succeed(i) if i < open.len() => {
                    let degraded = health.is_degraded(now);
                    health.succeeded(open.remove(i).0, now);
                    // Whatever ended the outage, the next one begins its own row.
                    if degraded && !health.is_degraded(now) {
                        last_probe = None;
                    }
                }
                Op::Fail(i) if i < open.len() => health.failed(open.remove(i).0, now),
                Op::Throttle(i, ms) if i < open.len() => {
                    let degraded = health.is_degraded(now);
                    health.throttled(open.remove(i).0, Duration::from_millis(ms), now);
                    if degraded && !health.is_degraded(now) {
                        last_probe = None;
                    }
                }
                Op::Drop(i) if i < open.len() => drop(open.remove(i)),
                Op::Advance(ms) => now += ms as u32 * MS,
                Op::Succeed(_) | Op::Fail(_) | Op::Throttle(..) | Op::Drop(_) => {}
            }
            let alive = |(_, began, _): &&(Attempt, Instant, bool)| now < *began + 5 * S;
            prop_assert!(open.iter().filter(alive).count() <= 3);
            let probes = open.iter().filter(alive).filter(|(_, _, probe)| *probe);
            prop_assert!(probes.count() <= 1);
        }
    }
}
