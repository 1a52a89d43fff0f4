//! Two accounts at once: paths within a process, and threads that share one.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;

const S: Duration = Duration::from_secs(1);

/// How many of `packs` resends of `bytes` each pass at once.
fn passed(budget: &mut SilenceBudget, packs: usize, bytes: usize, now: Instant) -> usize {
    let reserved = (0..packs).map_while(|_| budget.reserve(bytes, now));
    reserved.count()
}

// case B10
#[test]
fn of_a_thousand_that_time_out_in_one_tick_a_fifth_and_the_floor_are_scheduled() {
    let (process, now) = (ProcessBudget::default(), Instant::now());
    let mut path = process.path();
    (0..1_000).for_each(|_| path.on_first_sent(1_200, now));
    let in_a_tick = now + S * 3;
    assert_eq!(passed(&mut path, 1_000, 1_200, in_a_tick), 200 + 20);
    assert_eq!(passed(&mut path, 1_000, 1_200, in_a_tick + S * 3), 0);
    let spending = path.spending(in_a_tick);
    assert_eq!((spending.share_bytes, spending.floor_packs), (240_000, 20));
    assert_eq!(spending.denied, 2);
}

// case B11
#[test]
fn six_packs_that_are_all_lost_may_all_be_resent_whatever_their_length() {
    for bytes in [40, 1_200, 60_000] {
        let (process, now) = (ProcessBudget::default(), Instant::now());
        let mut path = process.path();
        (0..6).for_each(|_| path.on_first_sent(bytes, now));
        assert_eq!(passed(&mut path, 6, bytes, now + S), 6, "of {bytes} B");
        // Resends are no first sends: they buy nothing.
        let all = passed(&mut path, 1_000, bytes, now + S);
        assert!(all <= 16, "{all} more of {bytes} B");
    }
}

// case B10
#[test]
fn a_hundred_paths_within_their_own_stay_within_the_process_together() {
    let (process, now) = (ProcessBudget::default(), Instant::now());
    let mut paths: Vec<_> = (0..100).map(|_| process.path()).collect();
    let all: usize = paths
        .iter_mut()
        .map(|path| passed(path, 50, 1_200, now))
        .sum();
    assert_eq!(all, 100, "ten seconds of ten packs");
    // What the process denied cost the path nothing.
    let last = paths.last().unwrap();
    assert_eq!(last.spending(now).floor_packs, 0);
    assert_eq!(process.spending(now).denied, 95);
}

// case B10
#[test]
fn a_refund_goes_back_to_both_accounts_and_to_where_it_came_from() {
    let (process, now) = (ProcessBudget::default(), Instant::now());
    let mut path = process.path();
    path.on_first_sent(6_000, now);
    let shared = path.reserve(1_200, now).unwrap();
    let from_floor = path.reserve(1_200, now).unwrap();
    let both = |now| (path.spending(now), process.spending(now));
    let (own, all) = both(now);
    assert_eq!((own.share_bytes, own.floor_packs), (1_200, 1));
    assert_eq!((all.share_bytes, all.floor_packs), (1_200, 1));
    let mut lane = path.clone();
    lane.refund(shared, now + S);
    lane.refund(from_floor, now + S);
    for spending in [path.spending(now), process.spending(now)] {
        assert_eq!((spending.share_bytes, spending.floor_packs), (0, 0));
    }
}

#[test]
fn threads_that_share_a_process_never_spend_the_same_byte() {
    let (process, now) = (ProcessBudget::default(), Instant::now());
    let passed: usize = std::thread::scope(|scope| {
        let one = |_| {
            let mut path = process.path();
            scope.spawn(move || {
                (0..100).for_each(|_| path.on_first_sent(1_000, now));
                passed(&mut path, 1_000, 1_000, now)
            })
        };
        let threads: Vec<_> = (0..8).map(one).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    let spending = process.spending(now);
    assert_eq!(spending.first_bytes, 800_000, "no first send is lost");
    assert_eq!(
        passed as u64,
        spending.share_bytes / 1_000 + spending.floor_packs
    );
    assert!(spending.share_bytes <= 160_000 && spending.floor_packs <= 100);
}
