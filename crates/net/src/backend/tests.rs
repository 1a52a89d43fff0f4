//! Backends in virtual time: how often they are asked, when they are degraded, what is
//! logged of it. The answers come from a script, the pacing is the core's own.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::sync::watch;

use super::probe::keep_asking;
use super::*;
use crate::counting::Lines;

const HOUR: Duration = Duration::from_secs(3_600);
/// How exactly a change of state is seen.
const LOOK: Duration = Duration::from_millis(50);

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn handle(urls: &[&str], seed: u64) -> BackendHandle {
    let settings = BackendSettings {
        urls: urls.iter().map(|url| url.parse().unwrap()).collect(),
        ..BackendSettings::default()
    };
    BackendHandle::new(&settings.try_new().unwrap(), seed)
}

/// What happened, in time since the start.
#[derive(Debug, Default)]
struct Seen {
    asked: Vec<Duration>,
    most_in_flight: usize,
    /// Each change of "degraded".
    turns: Vec<(Duration, bool)>,
}

impl Seen {
    fn within(&self, from: f64, to: f64) -> Vec<Duration> {
        let inside = |at: &&Duration| **at >= s(from) && **at < s(to);
        self.asked.iter().filter(inside).copied().collect()
    }
}

/// Asks the first backend of `handle` for `length`; `script` says what is answered, at
/// once, to a question asked at a time, or that nothing is.
async fn watched(
    handle: &BackendHandle,
    wanted: watch::Receiver<bool>,
    length: Duration,
    script: impl Fn(Duration) -> Option<Answer>,
) -> Seen {
    let start = now();
    let (asked, in_flight, most) = (RefCell::new(Vec::new()), Cell::new(0), Cell::new(0));
    struct Leaves<'a>(&'a Cell<usize>);
    impl Drop for Leaves<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    let ask = || async {
        let at = now() - start;
        asked.borrow_mut().push(at);
        in_flight.set(in_flight.get() + 1);
        most.set(most.get().max(in_flight.get()));
        let _leaves = Leaves(&in_flight);
        match script(at) {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    };
    let mut turns = Vec::new();
    let look = async {
        let mut last = handle.is_degraded();
        while now() - start < length {
            tokio::time::sleep(LOOK).await;
            if handle.is_degraded() != last {
                last = !last;
                turns.push((now() - start, last));
            }
        }
    };
    let config = BackendHealthConfig::default();
    tokio::select! {
        () = keep_asking(&handle.0.backends[0], &config, wanted, ask) => {}
        () = look => {}
    }
    Seen {
        asked: asked.take(),
        most_in_flight: most.get(),
        turns,
    }
}

fn always() -> watch::Receiver<bool> {
    let (give, wanted) = watch::channel(true);
    // Wanted for as long as the test runs.
    std::mem::forget(give);
    wanted
}

fn broken() -> Option<Answer> {
    Some(Answer::Failed("refused".to_owned()))
}

fn good() -> Option<Answer> {
    Some(Answer::Good)
}

// case B84
#[tokio::test(start_paused = true)]
async fn an_hour_of_outage_is_few_probes_one_state_and_two_lines() {
    for answers in [broken, || None] {
        let handle = handle(&["http://h/"], 1);
        let lines = Lines::default();
        let _guard = lines.watch();
        let script = |at: Duration| match at < s(120.0) || at >= s(120.0) + HOUR {
            true => good(),
            false => answers(),
        };
        let seen = watched(&handle, always(), HOUR + s(240.0), script).await;
        assert_eq!(seen.turns.len(), 2, "{:?}", seen.turns);
        assert_eq!((seen.turns[0].1, seen.turns[1].1), (true, false));
        // 30 s ± 25 % at most, plus what an attempt takes: never one task a question.
        assert_eq!(seen.most_in_flight, 1);
        let probes = seen.within(180.0, 120.0 + 3_600.0);
        assert!(
            (90..=157).contains(&probes.len()),
            "{} probes",
            probes.len()
        );
        for pair in probes.windows(2) {
            assert!(pair[1] - pair[0] >= s(5.0 * 0.75), "{pair:?}");
        }
        let written = lines.take();
        assert_eq!(written.len(), 2, "{written:?}");
        assert!(
            written[0].starts_with("the backend is degraded: "),
            "{written:?}"
        );
        assert_eq!(written[1], "the backend answers again suppressed=0");
    }
}

// the waits widen from 5 s to 30 s.
#[tokio::test(start_paused = true)]
async fn the_waits_of_a_degraded_backend_widen_to_half_a_minute() {
    let handle = handle(&["http://h/"], 3);
    let seen = watched(&handle, always(), s(400.0), |_| broken()).await;
    let waits: Vec<_> = seen
        .asked
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(waits[..2].iter().all(|wait| *wait < s(1.1)), "{waits:?}");
    for (wait, around) in waits[2..].iter().zip([5.0, 10.0, 20.0, 30.0, 30.0, 30.0]) {
        let most = s((around * 1.25_f64).min(30.0) + 0.1);
        assert!(
            *wait >= s(around * 0.7) && *wait <= most,
            "{wait:?} for {around}: {waits:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_known_within_the_documented_times() {
    for seed in 0..24 {
        let dies = s(60.0 + 1.3 * seed as f64);
        let is_up = |at: Duration| at < dies || at >= s(900.0);
        for (answers, down_within, up_within) in [
            (broken as fn() -> _, s(38.1), s(30.1)),
            (|| None, s(53.1), s(35.1)),
        ] {
            let handle = handle(&["http://h/"], seed);
            let script = |at| if is_up(at) { good() } else { answers() };
            let seen = watched(&handle, always(), s(960.0), script).await;
            let [(went, true), (came, false)] = seen.turns[..] else {
                panic!("{:?}", seen.turns);
            };
            assert!(
                went > dies && went - dies <= down_within + LOOK,
                "{went:?} {dies:?}"
            );
            assert!(came - s(900.0) <= up_within + LOOK, "{came:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_answers_is_asked_twice_a_minute_and_never_in_unison() {
    let mut firsts = Vec::new();
    for seed in 0..8 {
        let handle = handle(&["http://h/"], seed);
        let seen = watched(&handle, always(), HOUR, |_| good()).await;
        assert!(
            (110..=130).contains(&seen.asked.len()),
            "{}",
            seen.asked.len()
        );
        assert_eq!(seen.turns, []);
        firsts.push(seen.asked[1]);
    }
    firsts.sort();
    firsts.dedup();
    assert!(firsts.len() >= 7, "{firsts:?}");
}

#[tokio::test(start_paused = true)]
async fn who_wants_no_session_asks_nothing_and_who_wants_one_asks_at_once() {
    let handle = handle(&["http://h/"], 1);
    let (want, wanted) = watch::channel(false);
    let start = now();
    let turn = async {
        for (at, wants) in [(600.0, true), (610.0, false), (1_200.0, true)] {
            tokio::time::sleep(s(at) - (now() - start)).await;
            want.send_replace(wants);
        }
        std::future::pending::<()>().await;
    };
    let seen = tokio::select! {
        seen = watched(&handle, wanted, s(1_210.0), |_| broken()) => seen,
        () = turn => unreachable!(),
    };
    assert_eq!(seen.within(0.0, 600.0), []);
    assert!(seen.within(600.0, 600.1).len() == 1, "{:?}", seen.asked);
    assert_eq!(seen.within(612.0, 1_200.0), []);
    assert!(seen.within(1_200.0, 1_200.1).len() == 1, "{:?}", seen.asked);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_says_when_to_come_again_is_left_alone_till_then() {
    let wait = s(200.0);
    // Too often is an answer, overload is a failure; both are obeyed.
    for (answer, failures) in [
        (Answer::Throttled(wait), 0),
        (Answer::Unavailable(Some(wait)), 1),
    ] {
        let handle = handle(&["http://h/"], 1);
        let script = |at: Duration| match at < s(1.0) {
            true => Some(answer.clone()),
            false => good(),
        };
        let seen = watched(&handle, always(), s(100.0), script).await;
        assert_eq!(seen.asked.len(), 1, "{:?}", seen.asked);
        assert_eq!(
            handle.0.backends[0].health.record(Work::Probe).streak,
            failures
        );
        let next = handle.report().backends[0].next_attempt_in_s.unwrap();
        assert!((99.0..=101.0).contains(&next), "{next}");
        let seen = watched(&handle, always(), s(101.0), |_| good()).await;
        assert!(seen.asked[0] >= s(99.8), "{:?}", seen.asked);
    }
}

//
#[tokio::test(start_paused = true)]
async fn a_flapping_backend_writes_a_line_a_minute_and_its_state_is_right_throughout() {
    let handle = handle(&[], 1);
    let signal = handle.signal();
    let lines = Lines::default();
    let _guard = lines.watch();
    assert_eq!(
        handle.report(),
        BackendReport {
            reason: "none configured".to_owned(),
            ..BackendReport::default()
        }
    );
    for _ in 0..600 {
        for _ in 0..3 {
            handle.note_failure();
            tokio::time::advance(s(1.0)).await;
        }
        assert!(signal.is_degraded(now()) && handle.report().degraded);
        handle.note_success();
        tokio::time::advance(s(3.0)).await;
        assert!(!signal.is_degraded(now()) && !handle.report().degraded);
        // Another test's thread may have come to the same line first, and found that nobody listens.
        tracing::callsite::rebuild_interest_cache();
    }
    let written = lines.take();
    assert!(written.len() <= 2 * 61, "{} lines", written.len());
    let degraded = written.iter().filter(|line| line.contains("is degraded"));
    let told: u64 = degraded
        .map(|line| {
            1 + line
                .split_once("suppressed=")
                .unwrap()
                .1
                .parse::<u64>()
                .unwrap()
        })
        .sum();
    assert!((585..=600).contains(&told), "{told} of 600 changes told");
}

#[tokio::test(start_paused = true)]
async fn what_the_log_says_last_becomes_true() {
    let handle = handle(&[], 1);
    let lines = Lines::default();
    let _guard = lines.watch();
    let start = now();
    // Degraded again within the minute of the line that said so before, and still so after it.
    for (at, fails) in [
        (0, true),
        (1, true),
        (2, true),
        (10, false),
        (20, true),
        (21, true),
    ] {
        tokio::time::advance(s(f64::from(at)) - (now() - start)).await;
        if fails {
            handle.note_failure();
        } else {
            handle.note_success();
        }
    }
    let (down, up) = ("the backend is degraded", "the backend answers again");
    assert_eq!(lines.take().len(), 2);
    for (at, written) in [(22, None), (61, None), (62, Some(down)), (130, None)] {
        tokio::time::advance(s(f64::from(at)) - (now() - start)).await;
        handle.note_failure();
        assert!(handle.is_degraded());
        let lines = lines.take();
        assert_eq!(lines.len(), usize::from(written.is_some()), "{lines:?}");
        assert!(
            lines
                .iter()
                .zip(written)
                .all(|(line, words)| line.starts_with(words))
        );
    }
    handle.note_success();
    let last = lines.take();
    assert!(last.len() == 1 && last[0].starts_with(up), "{last:?}");
}

//
#[tokio::test(start_paused = true)]
async fn several_are_degraded_when_all_are_and_each_is_told_of() {
    let handle = handle(&["https://a/h?key=s3cret", "http://b:81/"], 1);
    let fail = |index: usize| {
        let backend: &Backend = &handle.0.backends[index];
        let attempt = backend.health.begin(Work::Probe, now());
        backend.report(attempt, Answer::Failed("no route".to_owned()), now());
    };
    for _ in 0..3 {
        fail(1);
        tokio::time::advance(s(1.0)).await;
    }
    let report = handle.report();
    assert!(!report.degraded);
    assert_eq!(report.backends[0].reason, "well: not asked yet");
    assert_eq!(report.backends[1].last_failure.as_deref(), Some("no route"));
    assert!(
        report
            .reason
            .starts_with("1 of 2 well; http://b:81/: degraded: probe failed 3 times"),
        "{}",
        report.reason
    );
    for _ in 0..3 {
        fail(0);
        tokio::time::advance(s(1.0)).await;
    }
    let report = handle.report();
    assert!(report.degraded && handle.signal().is_degraded(now()));
    assert_eq!(report.backends[0].failed_ago_s, Some(1.0));
    assert!(!format!("{report:?}").contains("s3cret"));
    handle.note_success();
    assert_eq!(handle.report().reason, "well: all 2");
}

#[test]
fn the_list_of_urls_is_bounded_and_without_repetition() {
    let settings = |count: usize| BackendSettings {
        urls: (0..count)
            .map(|n| format!("http://h/{n}").parse().unwrap())
            .collect(),
        ..BackendSettings::default()
    };
    settings(BACKENDS_MAX).try_new().unwrap();
    assert_eq!(
        settings(BACKENDS_MAX + 1).try_new().unwrap_err().key,
        "backend.urls"
    );
    let mut twice = settings(2);
    twice.urls[1] = twice.urls[0].clone();
    assert_eq!(twice.try_new().unwrap_err().key, "backend.urls[1]");
}
