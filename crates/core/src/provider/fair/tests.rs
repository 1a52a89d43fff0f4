//! Turns, shares, bounds and books of the lines; the property test runs against a bare account of what was offered.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);
const PACKET: usize = 1_000;

fn fair(egress: Option<u64>, client: Option<u64>) -> Fair<u32> {
    let limits = ClientLimitsConfig {
        client_rate_bits_per_s: client,
        ..ClientLimitsConfig::default()
    };
    let share = ShareConfig {
        egress_rate_bits_per_s: egress,
        ..ShareConfig::default()
    };
    Fair::new(&limits, &share, 7)
}

/// Lines before a device without room: everything that is offered waits.
fn stuck(waiting_bytes_max: usize, wait_max: Duration) -> Fair<u32> {
    let share = ShareConfig {
        waiting_bytes_max,
        wait_max,
        ..ShareConfig::default()
    };
    let mut fair = Fair::new(&ClientLimitsConfig::default(), &share, 7);
    fair.on_room(0);
    fair
}

fn packet(len: usize) -> Bytes {
    Bytes::from(vec![0; len])
}

/// A packet that is told by its length.
fn offer(fair: &mut Fair<u32>, client: u32, len: usize, now: Instant) -> bool {
    fair.offer(client, packet(len), now).is_some()
}

fn poll_all(fair: &mut Fair<u32>, now: Instant) -> Vec<(u32, usize)> {
    let polled = std::iter::from_fn(|| fair.poll(now));
    polled
        .map(|(client, packet)| (client, packet.len()))
        .collect()
}

#[test]
fn without_a_rate_and_with_room_nothing_waits() {
    let now = Instant::now();
    let mut fair = fair(None, None);
    for client in 0..1_000 {
        assert!(offer(&mut fair, client % 7, PACKET, now));
    }
    assert_eq!(fair.status(), ShareStatus::default());
    assert_eq!((fair.poll_timeout(), fair.poll(now)), (None, None));
}

#[test]
fn what_there_is_room_for_passes_and_the_next_one_waits_for_room() {
    let now = Instant::now();
    let mut fair = fair(None, None);
    fair.on_room(2);
    assert!(offer(&mut fair, 1, 100, now) && offer(&mut fair, 1, 101, now));
    assert!(!offer(&mut fair, 1, 102, now));
    assert!(fair.awaits_room() && fair.poll_timeout().is_none());
    assert_eq!(fair.poll(now), None);
    fair.on_room(1);
    assert_eq!(fair.poll_timeout(), Some(now));
    // What comes later does not overtake.
    assert!(!offer(&mut fair, 2, 103, now));
    assert_eq!(poll_all(&mut fair, now), [(1, 102)]);
    fair.on_room(5);
    assert_eq!(poll_all(&mut fair, now), [(2, 103)]);
    assert!(offer(&mut fair, 1, 104, now));
}

#[test]
fn clients_take_turns_whoever_came_first_and_with_how_much() {
    let now = Instant::now();
    let mut fair = stuck(1 << 20, 50 * MS);
    for client in [1, 1, 1, 1, 2, 2, 3] {
        assert!(!offer(&mut fair, client, 1_500, now));
    }
    fair.on_room(100);
    let order: Vec<u32> = poll_all(&mut fair, now).iter().map(|it| it.0).collect();
    assert_eq!(order, [1, 2, 3, 1, 2, 1, 1]);
}

#[test]
fn small_packets_are_shared_by_bytes_and_large_ones_wait_for_their_rounds() {
    let now = Instant::now();
    let mut fair = stuck(1 << 20, 50 * MS);
    for _ in 0..30 {
        offer(&mut fair, 1, 100, now);
    }
    offer(&mut fair, 2, 4_000, now);
    offer(&mut fair, 3, 1_500, now);
    fair.on_room(100);
    let order: Vec<u32> = poll_all(&mut fair, now).iter().map(|it| it.0).collect();
    // Fifteen of 100 bytes a turn; 4,000 bytes take three rounds.
    let mut expected = vec![1; 15];
    expected.push(3);
    expected.extend([1; 15]);
    expected.push(2);
    assert_eq!(order, expected);
}

#[test]
fn nobody_saves_turns_up_by_sending_little_at_a_time() {
    let now = Instant::now();
    let mut fair = stuck(1 << 20, 50 * MS);
    for _ in 0..20 {
        offer(&mut fair, 1, 100, now);
        fair.on_room(1);
        assert_eq!(poll_all(&mut fair, now), [(1, 100)]);
        fair.on_room(0);
    }
    for client in [1, 1, 1, 2, 2, 2] {
        offer(&mut fair, client, 1_500, now);
    }
    fair.on_room(100);
    let order: Vec<u32> = poll_all(&mut fair, now).iter().map(|it| it.0).collect();
    assert_eq!(order, [1, 2, 1, 2, 1, 2]);
}

#[test]
fn the_rate_of_all_lets_a_packet_go_at_its_time_and_not_before() {
    let now = Instant::now();
    // A byte a microsecond, and a burst of 15,000.
    let mut fair = fair(Some(8_000_000), None);
    for _ in 0..15 {
        assert!(offer(&mut fair, 1, PACKET, now));
    }
    assert!(!offer(&mut fair, 1, PACKET, now) && !offer(&mut fair, 2, PACKET, now));
    let due = now + MS;
    assert_eq!(fair.poll_timeout(), Some(due));
    assert_eq!(fair.poll(due - NS), None);
    assert_eq!(poll_all(&mut fair, due), [(1, PACKET)]);
    assert_eq!(fair.poll_timeout(), Some(due + MS));
    assert_eq!(poll_all(&mut fair, due + MS), [(2, PACKET)]);
    assert_eq!(fair.poll_timeout(), None);
}

#[test]
fn a_client_beyond_its_own_rate_waits_and_holds_nobody_up() {
    let now = Instant::now();
    let mut fair = fair(None, Some(8_000_000));
    for _ in 0..15 {
        assert!(offer(&mut fair, 1, PACKET, now));
    }
    assert!(!offer(&mut fair, 1, PACKET, now) && !offer(&mut fair, 1, PACKET, now));
    assert_eq!(fair.poll(now), None);
    assert!(offer(&mut fair, 2, PACKET, now));
    let due = now + MS;
    assert_eq!(fair.poll_timeout(), Some(due));
    assert_eq!(poll_all(&mut fair, due - NS), []);
    assert_eq!(poll_all(&mut fair, due), [(1, PACKET)]);
    assert_eq!(poll_all(&mut fair, due + MS), [(1, PACKET)]);
    assert_eq!(fair.status(), ShareStatus::default());
}

#[test]
fn a_line_alone_fills_half_and_pays_with_its_oldest_beyond() {
    let now = Instant::now();
    let cost = PACKET + OVERHEAD_BYTES;
    let mut fair = stuck(20 * cost, 50 * MS);
    for _ in 0..10 {
        offer(&mut fair, 1, PACKET, now);
    }
    assert_eq!(fair.status_of(1).waiting_packets, 10);
    assert_eq!(fair.status().drops.total(), 0);
    offer(&mut fair, 1, PACKET - 1, now);
    let status = fair.status_of(1);
    assert_eq!(
        (status.waiting_packets, status.waiting_bytes),
        (10, 10 * cost - 1)
    );
    assert_eq!(status.drops[DropReason::ShareFull], 1);
    fair.on_room(100);
    // The oldest went, the newest is there.
    assert_eq!(poll_all(&mut fair, now).last(), Some(&(1, PACKET - 1)));
}

#[test]
fn a_newcomer_finds_room_beside_those_who_fill_all_they_may() {
    let now = Instant::now();
    let mut fair = stuck(1 << 20, 50 * MS);
    for _ in 0..2_000 {
        (0..9).for_each(|client| assert!(!offer(&mut fair, client, PACKET, now)));
    }
    for _ in 0..20 {
        offer(&mut fair, 9, PACKET, now);
    }
    let newcomer = fair.status_of(9);
    assert_eq!((newcomer.waiting_packets, newcomer.drops.total()), (20, 0));
    assert!(fair.status().waiting_bytes <= 1 << 20);
}

#[test]
fn a_packet_that_fits_nowhere_is_the_one_that_goes_and_leaves_no_empty_turn() {
    let now = Instant::now();
    let mut fair = stuck(10_000, 50 * MS);
    offer(&mut fair, 2, 3_000, now);
    offer(&mut fair, 1, 100, now);
    offer(&mut fair, 1, 9_000, now);
    // It cost its client all it had, and itself.
    assert_eq!(fair.status_of(1).drops[DropReason::ShareFull], 2);
    assert_eq!(fair.status_of(1).waiting_packets, 0);
    // It has one turn a round as before.
    for client in [1, 1, 3] {
        offer(&mut fair, client, 1_500, now);
    }
    fair.on_room(9);
    let order: Vec<u32> = poll_all(&mut fair, now).iter().map(|it| it.0).collect();
    assert_eq!(order, [1, 3, 2, 1]);
    assert_eq!(
        (fair.poll_timeout(), fair.status().waiting_bytes),
        (None, 0)
    );
}

#[test]
fn what_waited_too_long_goes_but_for_two_packets() {
    let now = Instant::now();
    let wait = 50 * MS;
    let mut fair = stuck(1 << 20, wait);
    for _ in 0..5 {
        offer(&mut fair, 1, 1_500, now);
    }
    fair.on_room(1);
    assert_eq!(poll_all(&mut fair, now + wait - NS).len(), 1);
    assert_eq!(fair.status().drops.total(), 0);
    fair.on_room(9);
    assert_eq!(poll_all(&mut fair, now + wait).len(), 2);
    assert_eq!(fair.status().drops[DropReason::ShareAged], 2);
}

#[test]
fn who_leaves_takes_its_line_along_and_who_is_renamed_keeps_it() {
    let now = Instant::now();
    let mut fair = stuck(1 << 20, 50 * MS);
    for client in [1, 1, 2, 3] {
        offer(&mut fair, client, PACKET, now);
    }
    let left = fair.remove(1, DropReason::PathClosed);
    assert_eq!(
        (left.waiting_packets, left.drops[DropReason::PathClosed]),
        (0, 2)
    );
    fair.rename(2, 4);
    assert_eq!(fair.status_of(2), ShareStatus::default());
    fair.on_room(9);
    assert_eq!(poll_all(&mut fair, now), [(3, PACKET), (4, PACKET)]);
    assert_eq!(fair.status().waiting_bytes, 0);
}

/// Jain's index: 1 where all have the same.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Ten clients over 10 Mbit/s for 10 s in steps of a millisecond. How many bytes a millisecond each offers; bytes that
/// each got, and packets of it that were dropped.
fn ten_over_a_bottleneck(offered: [usize; 10]) -> ([f64; 10], [u64; 10]) {
    let start = Instant::now();
    let mut fair = fair(Some(10_000_000), None);
    let (mut got, mut credit) = ([0.0; 10], [0; 10]);
    for step in 0..10_000 {
        let now = start + step * MS;
        while let Some((client, packet)) = fair.poll(now) {
            got[client as usize] += packet.len() as f64;
        }
        for client in 0..10 {
            credit[client] += offered[client];
            while credit[client] >= 1_400 {
                credit[client] -= 1_400;
                if let Some(packet) = fair.offer(client as u32, packet(1_400), now) {
                    got[client] += packet.len() as f64;
                }
            }
        }
    }
    let drops = std::array::from_fn(|client| fair.status_of(client as u32).drops.total());
    (got, drops)
}

#[test]
fn one_that_offers_twenty_times_its_share_gets_its_share() {
    // The share is 125 bytes a millisecond. All are greedy, one is without measure.
    let mut offered = [150; 10];
    offered[0] = 20 * 125;
    let (got, _) = ten_over_a_bottleneck(offered);
    assert!(jain(&got) >= 0.99, "{} of {got:?}", jain(&got));
    // Work is conserved: the line is full, but for what the first round found empty.
    let sum: f64 = got.iter().sum();
    assert!((12_480_000.0..=12_530_000.0).contains(&sum), "{sum}");
}

#[test]
fn nine_modest_clients_lose_nothing_while_one_floods() {
    let mut offered = [100; 10];
    offered[3] = 20 * 125;
    let (got, drops) = ten_over_a_bottleneck(offered);
    for client in (0..10).filter(|client| *client != 3) {
        assert_eq!(drops[client], 0, "client {client}");
        assert!(got[client] >= 990_000.0, "{got:?}");
    }
    assert!(drops[3] > 1_000);
    // What the nine leave is the tenth's.
    assert!(got[3] > 3_400_000.0, "{got:?}");
}

#[derive(Debug, Clone)]
enum Op {
    Offer(u32, usize),
    Room(usize),
    Poll,
    Wait(u64),
    Leave(u32),
    Rename(u32, u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..5_u32, 1..4_000_usize).prop_map(|(client, len)| Op::Offer(client, len)),
        2 => (0..20_usize).prop_map(Op::Room),
        4 => Just(Op::Poll),
        2 => (0..60_000_u64).prop_map(Op::Wait),
        1 => (0..5_u32).prop_map(Op::Leave),
        1 => (0..5_u32, 5..9_u32).prop_map(|(from, to)| Op::Rename(from, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Offered = gone + dropped + waiting, whatever happens; nothing waits while it may go; and the bound holds.
    #[test]
    fn books_sum_and_nothing_waits_in_vain(
        ops in proptest::collection::vec(op(), 1..200),
        rate in proptest::option::of(100_000..50_000_000_u64),
        own in proptest::option::of(100_000..50_000_000_u64),
    ) {
        let mut now = Instant::now();
        let limits = ClientLimitsConfig { client_rate_bits_per_s: own, ..ClientLimitsConfig::default() };
        let share = ShareConfig {
            egress_rate_bits_per_s: rate,
            waiting_bytes_max: 64 << 10,
            ..ShareConfig::default()
        };
        let mut fair = Fair::<u32>::new(&limits, &share, 1);
        let (mut offered, mut gone, mut room) = (0_u64, 0_u64, usize::MAX);
        for op in ops {
            match op {
                Op::Offer(client, len) => {
                    offered += 1;
                    if fair.offer(client, packet(len), now).is_some() {
                        gone += 1;
                        room -= 1;
                    }
                }
                Op::Room(packets) => {
                    room = packets;
                    fair.on_room(packets);
                }
                Op::Poll => {
                    while fair.poll(now).is_some() {
                        gone += 1;
                        room -= 1;
                    }
                    // Work is conserved: what still waits, waits for room or for a time to come.
                    let status = fair.status();
                    if status.waiting_packets > 0 && room > 0 {
                        prop_assert!(fair.poll_timeout().is_some_and(|at| at > now), "{fair:?}");
                    }
                    if rate.is_none() && own.is_none() && room > 0 {
                        prop_assert_eq!(status.waiting_packets, 0);
                    }
                }
                Op::Wait(micros) => now += Duration::from_micros(micros),
                Op::Leave(client) => {
                    fair.remove(client, DropReason::PathClosed);
                }
                Op::Rename(from, to) => fair.rename(from, to),
            }
            let status = fair.status();
            prop_assert_eq!(offered, gone + status.drops.total() + status.waiting_packets as u64);
            prop_assert!(status.waiting_bytes <= 64 << 10);
            let lines = (0..9).map(|client| fair.status_of(client));
            let (packets, bytes) = lines.fold((0, 0), |(packets, bytes), line| {
                (packets + line.waiting_packets, bytes + line.waiting_bytes)
            });
            prop_assert_eq!((packets, bytes), (status.waiting_packets, status.waiting_bytes));
        }
    }

    /// Of clients whose lines never emptied none got more than a quantum and a packet more than another.
    #[test]
    fn shares_differ_by_a_quantum_and_a_packet_at_most(
        lens in proptest::collection::vec(proptest::collection::vec(40..1_500_usize, 64), 2..8),
        polls in 1..400_usize,
    ) {
        let now = Instant::now();
        let mut fair = stuck(1 << 30, MS * 1_000);
        for (client, lens) in lens.iter().enumerate() {
            for len in lens.iter().cycle().take(400) {
                offer(&mut fair, client as u32, *len, now);
            }
        }
        fair.on_room(polls);
        let mut got = BTreeMap::new();
        for client in 0..lens.len() as u32 {
            got.insert(client, 0);
        }
        for _ in 0..polls {
            let (client, packet) = fair.poll(now).unwrap();
            *got.get_mut(&client).unwrap() += packet.len();
            let (least, most) = (got.values().min().unwrap(), got.values().max().unwrap());
            prop_assert!(most - least <= QUANTUM + 1_500, "{got:?}");
        }
    }
}
