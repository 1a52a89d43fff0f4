//! The word: its ends, and any schedule against a model that forgets nothing.

use proptest::prelude::*;

use super::*;

#[test]
fn each_field_saturates_at_its_own_end() {
    let (health, t0) = setup();
    for slot in 0..300 {
        fail(&health, Work::Auth, t0 + slot * S);
    }
    let record = health.record(Work::Auth);
    assert_eq!((record.streak, record.generation), (255, 0));
    let age = Duration::from_secs(40 * 365 * 86_400);
    fail(&health, Work::Auth, t0 + age);
    let record = health.record(Work::Auth);
    assert_eq!(record.failed_ms, Some((1 << 40) - 2));
    assert_eq!((record.streak, record.generation), (255, 0));
    for _ in 0..=u16::MAX {
        health.note_success(t0);
    }
    assert_eq!(health.record(Work::Probe), FailRecord::default(), "wrapped");
    assert_eq!(health.record(Work::Auth).streak, 255);
}

#[test]
fn a_time_before_the_epoch_is_the_epoch() {
    let epoch = Instant::now() + 100 * S;
    let health = backend(BackendHealthConfig::default(), epoch);
    fail(&health, Work::Auth, epoch - 50 * S);
    assert_eq!(health.record(Work::Auth).failed_ms, Some(0));
}

#[derive(Debug, Clone)]
enum Op {
    Begin(Work),
    Succeed(usize),
    Fail(usize),
    Drop(usize),
    /// Milliseconds; the clock may go back.
    Advance(i64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let work = (0..Work::ALL.len()).prop_map(|i| Work::ALL[i]);
    let op = prop_oneof![
        3 => work.prop_map(Op::Begin),
        2 => (0..8_usize).prop_map(Op::Succeed),
        4 => (0..8_usize).prop_map(Op::Fail),
        1 => (0..8_usize).prop_map(Op::Drop),
        4 => prop_oneof![-700..700_i64, 0..7_000_i64, Just(100_000_000)].prop_map(Op::Advance),
    ];
    prop::collection::vec(op, 0..200)
}

/// Everything that happened to one kind of work.
#[derive(Default)]
struct Model {
    successes: u16,
    /// Since the last success: when, and whether the attempt knew that success.
    failures: Vec<(u64, bool)>,
}

impl Model {
    fn streak(&self) -> u8 {
        let mut latest_slot = None;
        let mut streak = 0;
        for (at, fresh) in &self.failures {
            let later = latest_slot.is_none_or(|slot| at / 500 > slot);
            streak += u8::from(later && *fresh);
            latest_slot = latest_slot.max(Some(at / 500));
        }
        streak
    }
}

proptest! {
    #[test]
    fn any_schedule_leaves_what_the_model_says(ops in ops()) {
        let t0 = Instant::now();
        let health = backend(BackendHealthConfig::default(), t0);
        let mut model: [Model; 4] = Default::default();
        let mut open: Vec<(Attempt, u16, i64)> = Vec::new();
        let mut ms = 0_i64;
        let at = |ms: i64| t0 + Duration::from_millis(ms.unsigned_abs());
        for op in ops {
            match op {
                Op::Begin(work) => {
                    let generation = model[work as usize].successes;
                    open.push((health.begin(work, at(ms)), generation, ms));
                }
                Op::Drop(i) if i < open.len() => drop(open.remove(i)),
                Op::Succeed(i) if i < open.len() => {
                    let (attempt, generation, start) = open.remove(i);
                    let kind = &mut model[attempt.work() as usize];
                    if ms - start > 5_000 {
                        kind.failures.push((ms.unsigned_abs(), generation == kind.successes));
                    } else if generation == kind.successes {
                        kind.successes += 1;
                        kind.failures.clear();
                    }
                    health.succeeded(attempt, at(ms));
                }
                Op::Fail(i) if i < open.len() => {
                    let (attempt, generation, _) = open.remove(i);
                    let kind = &mut model[attempt.work() as usize];
                    kind.failures.push((ms.unsigned_abs(), generation == kind.successes));
                    health.failed(attempt, at(ms));
                }
                Op::Advance(by) => ms = (ms + by).max(0),
                Op::Succeed(_) | Op::Fail(_) | Op::Drop(_) => {}
            }
            for work in Work::ALL {
                let (record, model) = (health.record(work), &model[work as usize]);
                prop_assert_eq!(record.generation, model.successes);
                prop_assert_eq!(record.streak, model.streak());
                let last = model.failures.iter().map(|(at, _)| *at).max();
                prop_assert_eq!(record.failed_ms, last);
                prop_assert_eq!(health.is_work_degraded(work), model.streak() >= 3);
            }
        }
    }
}
