//! The resend queue against a naive model.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;

use super::*;

const WINDOW: usize = 64 * 1024;

proptest! {
    /// Open numbers, base, bytes and contents agree with a map, under any order of
    /// pushes and settlements.
    #[test]
    fn it_agrees_with_a_map(ops in proptest::collection::vec((0_u8..4, 0_u64..60, 0_usize..3_000), 1..400)) {
        let (mut queue, now) = (ResendQueue::new(WINDOW), Instant::now());
        let mut open: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut lens: Vec<usize> = Vec::new();
        for (op, back, len) in ops {
            if op > 0 && queue.window_bytes() + len <= WINDOW {
                let data = vec![back as u8; len];
                let number = queue.push(PackFlags::WHOLE, 0, &data, now);
                prop_assert_eq!(number, lens.len() as u64);
                lens.push(len);
                open.insert(number, data);
            } else {
                let number = queue.base() + back;
                let state = if op == 0 { State::Acked } else { State::GivenUp };
                queue.settle(number, state);
                queue.advance();
                open.remove(&number);
            }
            let base = open.keys().next().copied().unwrap_or(lens.len() as u64);
            prop_assert_eq!(queue.base(), base);
            prop_assert_eq!(queue.open_count(), open.len() as u64);
            let (settled, window) = lens.split_at(base as usize);
            prop_assert_eq!(queue.settled_bytes(), settled.iter().sum::<usize>() as u64);
            prop_assert_eq!(queue.window_bytes(), window.iter().sum::<usize>());
            let walked: Vec<u64> =
                std::iter::successors(queue.next_open(0, u64::MAX), |n| queue.next_open(n + 1, u64::MAX)).collect();
            prop_assert_eq!(walked, open.keys().copied().collect::<Vec<_>>());
            for (number, data) in &open {
                prop_assert_eq!(queue.data(queue.slot(*number).unwrap()), &data[..]);
            }
        }
    }
}

#[test]
fn a_full_window_of_numbers_stays_told_apart_around_the_bitmap() {
    let (mut queue, now) = (ResendQueue::new(WINDOW), Instant::now());
    for _ in 0..8_192 {
        queue.push(PackFlags::WHOLE, 0, &[1], now);
    }
    for number in 0..4_000 {
        queue.settle(number, State::Acked);
    }
    queue.advance();
    for _ in 0..4_000 {
        queue.push(PackFlags::WHOLE, 0, &[2], now);
    }
    assert_eq!((queue.base(), queue.end()), (4_000, 12_192));
    assert_eq!(queue.next_open(0, u64::MAX), Some(4_000));
    assert_eq!(queue.next_open(12_191, u64::MAX), Some(12_191));
    queue.settle(12_191, State::Acked);
    assert_eq!(queue.next_open(12_191, u64::MAX), None);
}

#[test]
fn a_message_is_found_from_any_of_its_packs() {
    let (mut queue, now) = (ResendQueue::new(WINDOW), Instant::now());
    let flags = |first, last| PackFlags {
        first,
        last,
        unordered: false,
    };
    for (first, last) in [
        (true, true),
        (true, false),
        (false, false),
        (false, true),
        (true, true),
    ] {
        queue.push(flags(first, last), 0, &[0], now);
    }
    let found: Vec<_> = (0..5).map(|n| queue.message_of(n)).collect();
    assert_eq!(found, [(0, 0), (1, 3), (1, 3), (1, 3), (4, 4)]);
}
