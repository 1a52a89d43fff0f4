//! The ledger against a list of everything that ever happened.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const PERCENT: u32 = 20;
const PACKS_PER_S: u32 = 2;

#[derive(Debug, Clone, Copy)]
enum Op {
    First(usize),
    Reserve(usize),
    /// Gives back one of the reservations that are left.
    Refund(usize),
    Wait(Duration),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1_usize..70_000).prop_map(Op::First),
        4 => (1_usize..9_000).prop_map(Op::Reserve),
        1 => any::<usize>().prop_map(Op::Refund),
        3 => (0_u64..2_500).prop_map(|ms| Op::Wait(Duration::from_millis(ms))),
        // The clock jumps: a night asleep.
        1 => (0_u64..40_000).prop_map(|s| Op::Wait(Duration::from_secs(s))),
    ]
}

#[derive(Debug, Clone, Copy)]
struct Charge {
    at: Duration,
    bytes: usize,
    source: Source,
}

/// Everything, never forgotten, summed anew for each question.
#[derive(Debug, Default)]
struct Model {
    firsts: Vec<(Duration, usize)>,
    charges: Vec<Charge>,
}

impl Model {
    fn share(&self, now: Duration) -> u64 {
        let recent = |(at, _): &&(Duration, usize)| at.as_secs() + 10 > now.as_secs();
        let bytes: usize = self
            .firsts
            .iter()
            .filter(recent)
            .map(|(_, bytes)| bytes)
            .sum();
        bytes as u64 * u64::from(PERCENT) / 100
    }

    fn charged(&self, source: Source, now: Duration) -> (u64, u64) {
        let recent = |c: &&Charge| c.source == source && c.at.as_secs() + 10 >= now.as_secs();
        let charges = self.charges.iter().filter(recent);
        charges.fold((0, 0), |(bytes, packs), c| {
            (bytes + c.bytes as u64, packs + 1)
        })
    }

    fn reserve(&self, bytes: usize, now: Duration) -> Option<Source> {
        if self.charged(Source::Share, now).0 + bytes as u64 <= self.share(now) {
            return Some(Source::Share);
        }
        let packs = self.charged(Source::Floor, now).1;
        (packs < u64::from(PACKS_PER_S) * 10).then_some(Source::Floor)
    }

    /// The promise in any ten seconds that end at `now`, to the nanosecond.
    fn check(&self, now: Duration) {
        let since = now.saturating_sub(Duration::from_secs(10));
        let firsts = self.firsts.iter().filter(|(at, _)| *at >= since);
        let first_bytes: usize = firsts.map(|(_, bytes)| bytes).sum();
        let recent = self.charges.iter().filter(|c| c.at >= since);
        let (share, floor): (Vec<&Charge>, _) = recent.partition(|c| c.source == Source::Share);
        assert!(floor.len() <= 20);
        if self
            .charges
            .last()
            .is_some_and(|c| c.at == now && c.source == Source::Share)
        {
            let bytes: usize = share.iter().map(|c| c.bytes).sum();
            assert!(bytes * 100 <= first_bytes * PERCENT as usize);
        }
    }
}

proptest! {
    // case B10, case B11
    #[test]
    fn it_agrees_with_a_list_of_everything(ops in proptest::collection::vec(op(), 1..250)) {
        let (clock, start) = (Clock::default(), Instant::now());
        let ledger = Ledger::new(PERCENT, PACKS_PER_S);
        clock.tick(start);
        let (mut model, mut now) = (Model::default(), Duration::ZERO);
        for op in ops {
            let tick = clock.tick(start + now);
            match op {
                Op::First(bytes) => {
                    ledger.on_first_sent(bytes, tick);
                    model.firsts.push((now, bytes));
                }
                Op::Reserve(bytes) => {
                    let expected = model.reserve(bytes, now);
                    prop_assert_eq!(ledger.reserve(bytes, tick), expected);
                    if let Some(source) = expected {
                        model.charges.push(Charge { at: now, bytes, source });
                        model.check(now);
                    }
                }
                Op::Refund(which) if !model.charges.is_empty() => {
                    let charge = model.charges.swap_remove(which % model.charges.len());
                    let at = clock.tick(start + charge.at);
                    ledger.refund(charge.bytes, at, charge.source);
                }
                Op::Refund(_) => {}
                Op::Wait(time) => now += time,
            }
            let spending = ledger.spending(clock.tick(start + now));
            prop_assert_eq!(spending.share_bytes, model.charged(Source::Share, now).0);
            prop_assert_eq!(spending.floor_packs, model.charged(Source::Floor, now).1);
        }
    }
}

#[test]
fn the_window_of_first_sends_ends_after_ten_ticks_and_that_of_charges_after_eleven() {
    let ledger = Ledger::new(20, 0);
    ledger.on_first_sent(1_000, 0);
    assert_eq!(ledger.reserve(200, 9), Some(Source::Share));
    assert_eq!(ledger.reserve(1, 9), None);
    assert_eq!(ledger.spending(9).first_bytes, 1_000);
    assert_eq!(ledger.spending(10).first_bytes, 0);
    assert_eq!(ledger.spending(19).share_bytes, 200);
    assert_eq!(ledger.spending(20).share_bytes, 0);
}

#[test]
fn what_has_left_the_window_lifts_nobody_elses_charge() {
    let ledger = Ledger::new(20, 1);
    assert!((0..10).all(|_| ledger.reserve(500, 0) == Some(Source::Floor)));
    assert!((0..10).all(|_| ledger.reserve(500, 11) == Some(Source::Floor)));
    ledger.refund(500, 0, Source::Floor);
    assert_eq!(ledger.reserve(500, 11), None);
    ledger.refund(500, 11, Source::Floor);
    assert_eq!(ledger.reserve(500, 11), Some(Source::Floor));
}

#[test]
fn sums_saturate_and_the_end_of_time_gives_no_share() {
    let ledger = Ledger::new(100, 1);
    (0..3).for_each(|_| ledger.on_first_sent(usize::MAX, 5));
    assert_eq!(ledger.spending(5).first_bytes, u64::from(u32::MAX));
    assert_eq!(ledger.reserve(usize::MAX, 5), Some(Source::Floor));
    ledger.on_first_sent(1_000, u32::MAX);
    assert_eq!(ledger.reserve(1, u32::MAX), Some(Source::Floor));
    let start = Instant::now();
    let clock = Clock::default();
    assert_eq!(
        (
            clock.tick(start),
            clock.tick(start - Duration::from_secs(1))
        ),
        (0, 0)
    );
    assert_eq!(clock.tick(start + Duration::from_secs(1 << 33)), u32::MAX);
}

#[test]
fn a_caller_ten_seconds_late_counts_for_nothing() {
    let ledger = Ledger::new(20, 1);
    ledger.on_first_sent(1_000, 11);
    ledger.on_first_sent(1_000, 0);
    assert_eq!(ledger.spending(11).first_bytes, 1_000);
    assert!(ledger.reserve(100, 11).is_some());
    assert_eq!(ledger.reserve(100, 0), None);
}
