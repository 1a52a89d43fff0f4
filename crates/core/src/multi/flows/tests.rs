//! Who is forgotten, when, and what that costs.
//!
//! `model` holds any row of calls against a table that looks at everything each time; here are the ends of each range.

#![allow(clippy::unwrap_used)]

mod model;

use quell_packet::IpPacket;
use quell_packet::build::{Segment, tcp};
use quell_packet::tcp::flags;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

const NS: Duration = Duration::from_nanos(1);
const SYN: u8 = flags::SYN;
const ACK: u8 = flags::ACK;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const A: ExitId = ExitId(0);
const B: ExitId = ExitId(7);

fn key(protocol: u8, port: u16) -> FlowKey {
    FlowKey {
        source: IpAddr::from([10, 0, 0, 2]),
        destination: IpAddr::from([192, 0, 2, 1]),
        protocol,
        source_port: port,
        destination_port: 443,
    }
}

fn tcp_key(port: u16) -> FlowKey {
    key(protocol::TCP, port)
}

fn udp_key(port: u16) -> FlowKey {
    key(protocol::UDP, port)
}

fn table(flows_max: u32) -> FlowTable {
    let config = FlowsConfig {
        flows_max,
        ..FlowsConfig::default()
    };
    FlowTable::new(config.try_new().unwrap(), 7)
}

/// Runs `look` on a segment with these flags.
fn with_segment<T>(flags: u8, numbers: (u32, u32), look: impl FnOnce(&TcpView<'_>) -> T) -> T {
    let segment = Segment {
        flags,
        sequence: numbers.0,
        acknowledgement: numbers.1,
        ..Segment::default()
    };
    let (user, world) = ("10.0.0.2:4000".parse(), "192.0.2.1:443".parse());
    let packet = tcp(user.unwrap(), world.unwrap(), &segment, &[]);
    let ip = IpPacket::parse(&packet).unwrap();
    look(&TcpView::parse(ip.payload()).unwrap())
}

fn out(table: &mut FlowTable, key: &FlowKey, flags: u8, now: Instant) -> Option<Flow> {
    with_segment(flags, (1, 1), |tcp| {
        table.touch_outward(key, Some(tcp), now).copied()
    })
}

fn inward(
    table: &mut FlowTable,
    key: &FlowKey,
    exit: ExitId,
    flags: u8,
    now: Instant,
) -> Option<Flow> {
    with_segment(flags, (1, 1), |tcp| {
        table.touch_inward(key, exit, Some(tcp), now).copied()
    })
}

#[test]
fn as_many_flows_as_may_and_one_more_forgets_the_least_recently_used() {
    let now = Instant::now();
    let mut table = table(16);
    for port in 0..16 {
        assert_eq!(table.insert(udp_key(port), A, None, now), None);
    }
    assert_eq!(table.len(), 16);
    // The first is used once more; the second is the eldest then.
    assert!(table.touch_outward(&udp_key(0), None, now + s(1)).is_some());
    let evicted = table.insert(udp_key(16), B, None, now + s(2));
    assert_eq!(evicted.map(|flow| flow.key), Some(udp_key(1)));
    assert_eq!((table.len(), table.status().counters.evicted), (16, 1));
    let stays = |port: &u16| table.peek(&udp_key(*port)).is_some();
    let kept: Vec<u16> = (0..17).filter(stays).collect();
    assert_eq!(
        kept,
        [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    );
    assert_eq!((table.flows_on(A), table.flows_on(B)), (15, 1));
}

#[test]
fn the_least_recently_used_is_that_of_all_classes() {
    let now = Instant::now();
    let mut table = table(16);
    table.insert(tcp_key(0), A, None, now);
    for port in 1..16 {
        table.insert(udp_key(port), A, None, now + s(1));
    }
    let evicted = table.insert(udp_key(16), A, None, now + s(2));
    assert_eq!(evicted.map(|flow| flow.key), Some(tcp_key(0)));
}

#[test]
fn what_is_due_goes_before_what_lives() {
    let now = Instant::now();
    let mut table = table(16);
    table.insert(tcp_key(0), A, None, now);
    for port in 1..16 {
        table.insert(udp_key(port), A, None, now + s(1));
    }
    let later = now + s(1) + s(120);
    assert_eq!(table.insert(udp_key(16), A, None, later), None);
    assert!(table.peek(&tcp_key(0)).is_some());
    let counters = table.status().counters;
    assert_eq!((counters.evicted, counters.expired), (0, 1));
}

/// Each class lives through the last nanosecond of its time and is gone with the next, expired or looked up.
#[test]
fn idle_times_end_at_their_nanosecond() {
    let begin = Instant::now();
    type Make = fn(&mut FlowTable, Instant);
    let makes: [(u64, Make); 5] = [
        (600, |table, now| {
            table.insert(tcp_key(1), A, None, now);
        }),
        (120, |table, now| {
            table.insert(udp_key(1), A, None, now);
        }),
        (10, |table, now| {
            table.insert(tcp_key(1), A, None, now);
            inward(table, &tcp_key(1), A, flags::RST, now);
        }),
        (10, |table, now| {
            table.insert(tcp_key(1), A, None, now);
            out(table, &tcp_key(1), flags::FIN | ACK, now);
            inward(table, &tcp_key(1), A, flags::FIN | ACK, now);
        }),
        (60, |table, now| {
            table.insert(tcp_key(1), A, None, now);
            out(table, &tcp_key(1), ACK, now);
            table.lose_exit(A, now, |_| {});
        }),
    ];
    for (idle, make) in makes {
        let mut table = table(16);
        make(&mut table, begin);
        let due = begin + s(idle);
        assert_eq!(table.poll_timeout(), Some((due, "idle flow")), "{idle}");
        assert_eq!(table.expire(due - NS), 0);
        assert_eq!((table.expire(due), table.len()), (1, 0), "{idle} s");
        assert_eq!(table.poll_timeout(), None);
        assert_eq!(table.status().counters.expired, 1);
        // A lookup needs nobody to have called in time.
        make(&mut table, due);
        let found = [udp_key(1), tcp_key(1)].map(|key| {
            let lives = table
                .touch_outward(&key, None, due + s(idle) - NS)
                .is_some();
            lives
                && table
                    .touch_outward(&key, None, due + s(idle) - NS + s(idle))
                    .is_none()
        });
        assert_eq!(found.into_iter().filter(|it| *it).count(), 1, "{idle} s");
        assert_eq!(table.len(), 0);
    }
}

#[test]
fn an_expiry_is_bounded_and_comes_back_at_once() {
    let now = Instant::now();
    let mut table = table(1_024);
    for port in 0..300 {
        table.insert(udp_key(port), A, None, now);
    }
    let due = now + s(120);
    for left in [300 - EXPIRE_MAX, 300 - 2 * EXPIRE_MAX] {
        assert_eq!((table.expire(due), table.len()), (EXPIRE_MAX, left));
        assert_eq!(table.poll_timeout(), Some((due, "idle flow")));
    }
    assert_eq!(table.expire(due), 300 - 2 * EXPIRE_MAX);
    assert_eq!((table.expire(due), table.poll_timeout()), (0, None));
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    let now = Instant::now() + s(1_000);
    let mut table = table(16);
    table.insert(udp_key(1), A, None, now);
    table.insert(udp_key(2), A, None, now - s(500));
    assert_eq!(table.poll_timeout(), Some((now + s(120), "idle flow")));
    assert!(
        table
            .touch_outward(&udp_key(1), None, now - s(900))
            .is_some()
    );
    assert_eq!(table.expire(now + s(120)), 2);
}

#[test]
fn a_lost_exit_leaves_tombstones_of_tcp_alone() {
    let now = Instant::now();
    let mut table = table(64);
    let (open, begun, refused, over) = (tcp_key(1), tcp_key(2), tcp_key(3), tcp_key(4));
    for key in [open, begun, refused, over, udp_key(5)] {
        table.open(key, A, Some(100), now);
    }
    table.open(tcp_key(6), B, Some(100), now);
    out(&mut table, &open, ACK, now);
    inward(&mut table, &refused, A, flags::RST | ACK, now);
    out(&mut table, &over, ACK, now);
    out(&mut table, &over, flags::FIN | ACK, now);
    inward(&mut table, &over, A, flags::FIN | ACK, now);

    let mut told = Vec::new();
    table.lose_exit(A, now, |flow| told.push((flow.key, flow.lost)));
    assert_eq!(told, [(open, true), (over, true)]);
    // The user's next packet of these picks another exit.
    for key in [begun, refused, udp_key(5)] {
        assert_eq!(table.peek(&key), None);
    }
    assert_eq!(
        (table.flows_on(A), table.flows_on(B), table.len()),
        (0, 1, 3)
    );
    assert_eq!((table.status().lost, table.status().counters.lost), (2, 2));

    // A tombstone takes nothing from any exit, goes nowhere, and is not lost twice.
    let before = *table.peek(&open).unwrap();
    inward(&mut table, &open, A, ACK, now + s(1));
    table.assign(&open, B);
    table.lose_exit(A, now + s(1), |_| panic!("there is nothing left to lose"));
    assert_eq!(table.peek(&open), Some(&before));
    assert_eq!(table.flows_on(B), 1);

    // What it is asked updates what it answers.
    let asked = with_segment(ACK, (500, 900), |tcp| {
        table.touch_outward(&open, Some(tcp), now + s(2)).copied()
    });
    let asked = asked.unwrap();
    assert!(asked.lost && asked.track.receive_next() == 900);
    assert_eq!(asked.track.send_next(), Some(500));

    let reset = asked.reset_for_user().unwrap();
    let ip = IpPacket::parse(&reset).unwrap();
    let tcp = TcpView::parse(ip.payload()).unwrap();
    assert_eq!(FlowKey::of(&ip), open.reversed());
    assert!(tcp.is_rst() && tcp.is_ack());
    assert_eq!((tcp.sequence(), tcp.acknowledgement()), (900, 500));

    // The same ports opened anew are another connection.
    assert_eq!(out(&mut table, &open, SYN, now + s(3)), None);
    assert_eq!((table.peek(&open), table.status().lost), (None, 1));
}

#[test]
fn a_syn_that_is_resent_is_of_the_same_connection() {
    let now = Instant::now();
    let mut table = table(16);
    table.open(tcp_key(1), A, Some(100), now);
    assert!(out(&mut table, &tcp_key(1), SYN, now).is_some());
    assert_eq!(table.status().counters.removed, 0);
    inward(&mut table, &tcp_key(1), A, flags::RST, now);
    assert!(out(&mut table, &tcp_key(1), SYN, now).is_none());
    assert_eq!(table.status().counters.removed, 1);
}

/// The exit that lost a race resets what it had opened; the winner's connection knows nothing of that.
#[test]
fn a_segment_of_another_exit_changes_nothing() {
    let now = Instant::now();
    let mut table = table(16);
    table.open(tcp_key(1), A, Some(100), now);
    let before = *table.peek(&tcp_key(1)).unwrap();
    let of_other = inward(&mut table, &tcp_key(1), B, flags::RST, now + s(1));
    assert_eq!(of_other, Some(before));
    assert_eq!(table.peek(&tcp_key(1)), Some(&before));
    // A datagram is of the flow, whichever way it came.
    table.insert(udp_key(2), A, None, now);
    let lives = table.touch_inward(&udp_key(2), B, None, now + s(100));
    assert!(lives.is_some());
    assert!(
        table
            .touch_inward(&udp_key(2), B, None, now + s(219))
            .is_some()
    );
}

#[test]
fn exits_count_what_they_carry() {
    let now = Instant::now();
    let mut table = table(16);
    for port in 0..4 {
        table.insert(udp_key(port), A, None, now);
    }
    table.assign(&udp_key(0), B);
    table.assign(&udp_key(1), A);
    table.assign(&udp_key(9), B);
    assert_eq!((table.flows_on(A), table.flows_on(B)), (3, 1));
    assert_eq!(table.remove(&udp_key(0)).map(|flow| flow.exit), Some(B));
    assert_eq!(table.remove(&udp_key(0)), None);
    // Begun anew elsewhere, it is one flow still.
    table.insert(udp_key(1), B, None, now);
    assert_eq!((table.flows_on(A), table.flows_on(B)), (2, 1));
    assert_eq!((table.len(), table.flows_on(ExitId(u16::MAX))), (3, 0));
    let counters = table.status().counters;
    assert_eq!((counters.opened, counters.removed), (5, 2));
}

#[test]
fn a_flow_takes_the_bytes_that_are_said() {
    assert_eq!(Slots::SLOT_BYTES, 88);
    // A place is four bytes, and its tag one.
    let mut table = table(32_768);
    let now = Instant::now();
    for port in 0..32_768 {
        table.insert(udp_key(port), A, None, now);
    }
    let index = table.index.allocation_size();
    assert!(index <= 12 * 32_768, "{index}");
    assert!(table.slots.slots() * Slots::SLOT_BYTES + index <= 3_300_000);
}

/// A scan that never repeats a key: memory is that of the flows that may be.
#[test]
fn a_million_flows_grow_nothing() {
    let mut rng = SmallRng::seed_from_u64(11);
    let mut table = table(1_000);
    let mut now = Instant::now();
    let mut index_bytes = 0;
    for round in 0..1_000_000_u32 {
        let key = FlowKey {
            destination: IpAddr::from(rng.random::<[u8; 16]>()),
            source: IpAddr::from(rng.random::<[u8; 16]>()),
            ..key(rng.random(), rng.random())
        };
        now += Duration::from_millis(rng.random_range(0..3));
        table.insert(key, ExitId(rng.random_range(0..4)), None, now);
        if round == 100_000 {
            index_bytes = table.index.allocation_size();
        }
    }
    assert_eq!((table.len(), table.slots.slots()), (1_000, 1_000));
    assert_eq!(table.index.allocation_size(), index_bytes);
    let carried: usize = (0..4).map(|exit| table.flows_on(ExitId(exit))).sum();
    assert_eq!((carried, table.on_exit.len()), (1_000, 4));
    let counters = table.status().counters;
    assert_eq!(
        counters.opened,
        1_000 + counters.evicted + counters.expired + counters.removed
    );
}

/// Addresses whose words cancel each other out meet in the sums of a linear hash, whatever its seed.
#[test]
fn chosen_addresses_do_not_choose_places() {
    use std::collections::HashSet;
    let state = FixedState::with_seed(3);
    let hashes = (0..4_096_u128).map(|n| {
        let low = 0_u64.wrapping_sub((n as u64).wrapping_mul(0xf135_7aea_2e62_a9c5));
        let key = FlowKey {
            source: IpAddr::from(std::net::Ipv6Addr::from_bits(1)),
            destination: IpAddr::from(std::net::Ipv6Addr::from_bits(n << 64 | u128::from(low))),
            ..key(6, 1)
        };
        hash_of(&state, &key)
    });
    let low_bits: HashSet<u64> = hashes.map(|hash| hash & 0xffff).collect();
    // 4,096 balls in 65,536 urns: about 3,970 urns are hit.
    assert!(low_bits.len() > 3_800, "{}", low_bits.len());
    let other = hash_of(&FixedState::with_seed(4), &key(6, 1));
    assert_ne!(hash_of(&state, &key(6, 1)), other);
}
