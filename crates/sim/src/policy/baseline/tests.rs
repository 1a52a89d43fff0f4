//! The counts of the reference, on the wire: nodes of each make against each other, through outages.
#![allow(clippy::unwrap_used)]

mod world;

use std::time::Duration;

use crate::fleet::node::{ClientNode as _, ServerId};
use crate::policy::baseline::Rules;
use crate::policy::{report_claim, report_fix, upstream_2026_05, upstream_2026_08};
use world::{Fault, ONE_WAY, World};

const ALL: [&Rules; 5] = [
    &upstream_2026_05::RULES,
    &upstream_2026_08::RULES,
    &upstream_2026_08::UNRELIABLE_RULES,
    &report_claim::RULES,
    &report_fix::RULES,
];
const MAY: &Rules = &upstream_2026_05::RULES;
const AUGUST: &Rules = &upstream_2026_08::RULES;
const SIX: &[ServerId] = &[0, 1, 2, 3, 4, 5];

fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// All sends of `item`, by provider.
fn sends_of(world: &World, item: u32) -> Vec<(ServerId, usize)> {
    let sends = world
        .seen
        .sends
        .iter()
        .filter(|((_, _, of), _)| *of == item);
    sends
        .map(|((server, _, _), at)| (*server, at.len()))
        .collect()
}

/// One packet at 10 s by one provider while acks are lost, after one that was acked if `sampled`: times from its first send.
fn one_pack(rules: &'static Rules, sampled: bool) -> Vec<Duration> {
    let mut world = World::new(rules, 1, 1, 1);
    world.fault(Fault::Acks, s(5), s(300));
    if sampled {
        world.offer(s(4), 0, 100);
    }
    let item = world.offer(s(10), 0, 1_200);
    world.run(s(200));
    let mut sends = world
        .seen
        .sends
        .iter()
        .filter(|((_, _, of), _)| *of == item);
    let (_, times) = sends.next().unwrap();
    assert!(sends.next().is_none());
    assert_eq!(
        world.seen.delivered.get(&item),
        Some(&1),
        "acks alone are lost"
    );
    times.iter().map(|at| *at - times[0]).collect()
}

// the counts of one pack for a client of one provider.
#[test]
fn one_pack_over_one_provider() {
    assert_eq!(one_pack(MAY, true).len(), 30);
    assert_eq!(one_pack(MAY, false).len(), 30);
    let at = [
        0, 300, 900, 2_100, 4_500, 9_300, 17_300, 25_300, 33_300, 41_300, 49_300, 57_300,
    ];
    assert_eq!(one_pack(AUGUST, true), at.map(ms));
    assert_eq!(one_pack(AUGUST, false).len(), 9);
    assert_eq!(
        one_pack(&upstream_2026_08::UNRELIABLE_RULES, true).len(),
        47
    );
    assert_eq!(one_pack(&report_claim::RULES, true).len(), 600);
    assert_eq!(one_pack(&report_fix::RULES, true).len(), 17);
}

/// `packets` at `at` seconds by six providers, acks lost from 5 s on: sends of each packet by each provider, and user
/// bytes on the wire.
fn burst(rules: &'static Rules, at: u64, packets: u32) -> (Vec<(ServerId, usize)>, u64) {
    let mut world = World::new(rules, 6, 1, 1);
    world.fault(Fault::Acks, s(5), s(300));
    for _ in 0..packets {
        world.offer(s(at), 0, 1_200);
    }
    world.run(s(at + 100));
    let each: Vec<_> = (0..packets).map(|item| sends_of(&world, item)).collect();
    assert!(each.iter().all(|sends| *sends == each[0]), "{each:?}");
    let bytes = world.seen.bytes;
    assert_eq!(bytes.first_send, packets * 1_208);
    let total = bytes.first_send + bytes.race + bytes.resend;
    (each[0].clone(), u64::from(total))
}

// the race of all six, and what it makes of each pack's sends.
#[test]
fn a_burst_races_over_all_six() {
    let six = |sends: usize| {
        SIX.iter()
            .map(|server| (*server, sends))
            .collect::<Vec<_>>()
    };
    assert_eq!(burst(MAY, 10, 50), (six(15), 50 * 6 * 15 * 1_208));
    assert_eq!(burst(AUGUST, 10, 50), (six(8), 50 * 6 * 8 * 1_208));
    // Samples of the admission's pings are gone by then.
    assert_eq!(burst(AUGUST, 100, 50), (six(5), 50 * 6 * 5 * 1_208));
    assert_eq!(
        burst(&report_claim::RULES, 10, 50),
        (six(600), 50 * 6 * 600 * 1_208)
    );
    let (sends, bytes) = burst(&report_fix::RULES, 10, 50);
    assert_eq!(sends.len(), 2);
    assert!(sends.iter().all(|(_, sends)| *sends <= 17));
    assert_eq!(bytes, 50 * 2 * 15 * 1_208);
}

// 2 MiB each 2 s, 60 MiB in a minute; about 24 MiB.
#[test]
fn a_full_queue_is_sent_whole_again_and_again() {
    for (rules, sends) in [(MAY, 30), (AUGUST, 12)] {
        let mut world = World::new(rules, 1, 1, 1);
        world.fault(Fault::Acks, s(5), s(300));
        world.offer(s(4), 0, 100);
        world.run(s(6));
        let before = world.seen.bytes;
        let queued = (2 << 20) / 1_208;
        for _ in 0..queued + 10 {
            world.offer(s(10), 0, 1_200);
        }
        world.run(s(72));
        let bytes = world.seen.bytes;
        assert_eq!(bytes.first_send - before.first_send, queued * 1_208);
        let total = bytes.first_send + bytes.resend - before.first_send - before.resend;
        assert_eq!(total, queued * 1_208 * sends, "{}", rules.name);
        let mib = f64::from(total) / f64::from(1 << 20);
        assert!((mib - 2.0 * f64::from(sends)).abs() < 0.1, "{mib} MiB");
        if sends == 30 {
            let mbit_per_s = f64::from(total) * 8.0 / 60e6;
            assert!((8.3..8.45).contains(&mbit_per_s), "{mbit_per_s}");
        }
        assert!(world.client().facts(world.now()).dropped >= 10);
    }
}

#[test]
fn without_a_response_each_packet_after_2_s_races_over_all_again() {
    let mut world = World::new(AUGUST, 6, 1, 1);
    world.fault(Fault::Blackhole(SIX), s(5), s(300));
    let items: Vec<u32> = (0..10)
        .map(|n| world.offer(s(10 + 3 * n), 0, 500))
        .collect();
    world.run(s(42));
    assert!(items.iter().all(|item| sends_of(&world, *item).len() >= 6));
}

#[test]
fn on_a_good_day_one_packet_races_and_all_others_go_once() {
    for rules in ALL {
        let mut world = World::new(rules, 6, 1, 1);
        world.answers = true;
        let items: Vec<u32> = (0..100)
            .map(|n| world.offer(s(5) + ms(200 * n), 0, 500))
            .collect();
        world.run(s(60));
        let races = rules.fan_out.unwrap_or(6);
        assert_eq!(sends_of(&world, items[0]).len(), races, "{}", rules.name);
        for item in &items[1..] {
            assert_eq!(sends_of(&world, *item).len(), 1);
            assert_eq!(world.seen.delivered.get(item), Some(&1));
        }
        assert_eq!(world.seen.delivered.len(), 100);
        if rules.name != report_claim::RULES.name {
            assert_eq!(world.seen.bytes.resend, 0, "{}", rules.name);
        }
        assert_eq!(world.client().facts(world.now()).unacked, 0);
        assert_eq!(world.client().facts(world.now()).sessions, 6);
        assert_eq!(world.seen.answers as usize, 99 + races);
        assert_eq!(world.seen.dials.len(), 6);
        // Two passes of the window and six contracts.
        assert_eq!(world.seen.asks.len(), 8);
    }
}

#[test]
fn a_dead_exit_is_left_after_its_ack_timeout() {
    for rules in [MAY, AUGUST] {
        let mut world = World::new(rules, 6, 1, 1);
        world.offer(s(5), 0, 500);
        world.run(s(9));
        let probe = world.offer(s(9), 0, 500);
        world.run(s(10));
        let winner = sends_of(&world, probe)[0].0;
        world.fault(
            Fault::Blackhole(&SIX[usize::from(winner)..][..1]),
            s(10),
            s(300),
        );
        world.offer(ms(10_500), 0, 500);
        let items: Vec<u32> = (0..60).map(|n| world.offer(s(11 + n), 0, 500)).collect();
        world.run(s(90));
        let first = items
            .iter()
            .position(|item| world.seen.delivered.contains_key(item));
        assert_eq!(first, Some(30), "30 s after the first that was lost");
        let dialled_again = world
            .seen
            .dials
            .iter()
            .any(|dial| *dial > (s(40), 0) && dial.1 == winner);
        assert!(dialled_again, "it is evaluated once more");
    }
}

#[test]
fn sequences_that_end_ask_anew() {
    let mut asks = Vec::new();
    for rules in [MAY, AUGUST] {
        let mut world = World::new(rules, 1, 1, 1);
        world.fault(Fault::BackendFails, s(0), s(600));
        (0..86).for_each(|n| {
            world.offer(s(1 + 7 * n), 0, 500);
        });
        world.run(s(600));
        assert!(
            world.seen.sends.is_empty(),
            "nothing goes without a contract"
        );
        asks.push(world.seen.asks.len());
    }
    // A sequence lives for 60 s and the next begins 3 s later. In May each asks 12 times, and the tenth 7 times until
    // the end; in August the first asks 3 times, which degrades, and each of the others once.
    assert_eq!(asks, [9 * 12 + 7, 3 + 9]);
}

#[test]
fn the_window_asks_a_silent_backend_every_15_s() {
    let mut world = World::new(MAY, 6, 1, 1);
    world.fault(Fault::BackendSilent, s(0), s(60));
    world.run(s(61));
    let passes: Vec<_> = world
        .seen
        .asks
        .iter()
        .take_while(|at| **at <= s(60))
        .collect();
    assert_eq!(
        passes,
        [&s(0), &s(15), &s(30), &s(45), &s(60)],
        "not paused in an outage"
    );
    world.run(s(70));
    assert_eq!(world.client().facts(world.now()).sessions, 6);
}

#[test]
fn a_provider_without_a_memory_goes_on_at_the_head() {
    for rules in [MAY, AUGUST] {
        let mut world = World::new(rules, 1, 1, 1);
        world.offer(s(5), 0, 500);
        world.run(s(10));
        world.restart(0);
        let item = world.offer(s(10), 0, 500);
        world.run(s(20));
        assert_eq!(world.seen.delivered.get(&item), Some(&1), "{}", rules.name);
        assert_eq!(world.seen.dials.len(), 2);
        assert_eq!(world.seen.dials[1].0, s(10), "at once");
        assert_eq!(
            sends_of(&world, item),
            [(0, 1)],
            "one that was written into a connection"
        );
    }
}

#[test]
fn all_makes_come_back_after_an_outage() {
    for rules in ALL {
        let mut world = World::new(rules, 6, 1, 3);
        world.answers = true;
        world.fault(Fault::Blackhole(SIX), s(20), s(80));
        world.fault(Fault::BackendSilent, s(20), s(80));
        let items: Vec<u32> = (0..150).map(|n| world.offer(s(1 + n), 0, 500)).collect();
        world.run(s(240));
        let missing: Vec<_> = items[130..]
            .iter()
            .filter(|item| !world.seen.delivered.contains_key(item))
            .collect();
        assert!(missing.is_empty(), "{}: {missing:?}", rules.name);
        let facts = world.client().facts(world.now());
        assert_eq!(
            (facts.unacked, facts.degraded),
            (0, false),
            "{}",
            rules.name
        );
    }
}

#[test]
fn one_seed_gives_one_course() {
    let course = |seed| {
        let mut world = World::new(MAY, 12, 1, seed);
        world.fault(Fault::Blackhole(&[1, 2, 3]), s(3), s(90));
        (0..40).for_each(|n| {
            world.offer(s(1 + 2 * n), 0, 500);
        });
        world.run(s(120));
        world.seen
    };
    assert_eq!(course(7), course(7));
    assert_ne!(course(7).dials, course(8).dials);
}

#[test]
fn an_ack_waits_10_ms_in_august_alone() {
    for (rules, wait) in [(MAY, 0), (AUGUST, 10)] {
        let mut world = World::new(rules, 1, 0, 1);
        world.offer(s(1), 0, 500);
        world.run(s(1) + 2 * ONE_WAY + ms(wait));
        assert_eq!(world.client().facts(world.now()).unacked, 1);
        world.run(s(1) + 2 * ONE_WAY + ms(wait + 1));
        assert_eq!(world.client().facts(world.now()).unacked, 0);
    }
}

/// `messages`, one each `every`, over one provider with this loss, delayed by up to 225 ms: all come, in order and once.
fn all_come_through(rules: &'static Rules, messages: u32, every: Duration, loss: f64) {
    let mut world = World::new(rules, 1, 1, 5);
    (world.loss, world.jitter) = (loss, ms(200));
    (0..messages).for_each(|n| {
        world.offer(s(3) + every * n, 0, 100);
    });
    world.run(s(3) + every * messages + s(50));
    let facts = world.client().facts(world.now());
    assert_eq!((facts.dropped, facts.unacked), (0, 0), "{}", rules.name);
    assert!(
        world.seen.order.iter().copied().eq(0..messages),
        "{}",
        rules.name
    );
}

// The system's own test of its sequences, which the models have to pass as it does.
#[test]
fn a_thousand_messages_survive_a_tenth_of_loss() {
    for rules in ALL {
        all_come_through(rules, 1_024, ms(10), 0.1);
    }
}

// With 12 sends a pack in August, a few of so many would not arrive in their 60 s: 16,384 / 2^12.
#[test]
fn many_messages_survive_half_of_loss() {
    all_come_through(MAY, 16_384, Duration::from_nanos(305_000), 0.5);
}

#[test]
fn what_comes_before_there_is_an_exit_is_held() {
    let mut world = World::new(AUGUST, 6, 1, 1);
    let items: Vec<u32> = (0..20).map(|_| world.offer(s(0), 0, 500)).collect();
    world.run(s(3));
    assert!(
        items
            .iter()
            .all(|item| world.seen.delivered.contains_key(item))
    );
}

#[test]
fn what_is_held_is_bounded_in_bytes_and_time() {
    let mut world = World::new(AUGUST, 6, 1, 1);
    world.fault(Fault::BackendSilent, s(0), s(300));
    let most: u32 = (2 << 20) / 1_024;
    (0..=most).for_each(|_| {
        world.offer(s(1), 0, 1_024);
    });
    world.run(s(2));
    let facts = world.client().facts(world.now());
    assert_eq!((facts.dropped, facts.held_bytes), (1, 2 << 20));
    world.run(s(31));
    assert_eq!(world.client().facts(world.now()).dropped, 1);
    world.run(s(31) + ms(1));
    let facts = world.client().facts(world.now());
    assert_eq!((facts.dropped, facts.held_bytes), (u64::from(most) + 1, 0));
}

#[test]
fn when_all_exits_fail_at_once_they_stay_and_race_again() {
    let mut world = World::new(AUGUST, 6, 1, 1);
    world.fault(Fault::Blackhole(SIX), s(3), s(300));
    let lost = world.offer(s(6), 0, 500);
    let next = world.offer(s(37), 0, 500);
    world.run(s(38));
    assert_eq!(sends_of(&world, lost).len(), 6);
    assert_eq!(sends_of(&world, next).len(), 6);
    assert_eq!(world.seen.closes, 0);
}

#[test]
fn a_failed_exit_that_stays_loses_its_flows() {
    let mut world = World::new(MAY, 2, 1, 1);
    world.offer(s(3), 0, 500);
    world.run(s(4));
    let probe = world.offer(s(4), 0, 500);
    world.run(s(5));
    let winner = usize::from(sends_of(&world, probe)[0].0);
    world.fault(Fault::Blackhole(&SIX[winner..=winner]), s(5), s(300));
    let lost = world.offer(s(6), 0, 500);
    let next = world.offer(s(37), 0, 500);
    world.run(s(38));
    let came = |item| world.seen.delivered.contains_key(&item);
    assert_eq!((came(lost), came(next)), (false, true));
    assert_eq!((sends_of(&world, next).len(), world.seen.closes), (2, 0));
}

#[test]
fn an_exit_that_answers_and_does_not_ack_is_removed() {
    let mut world = World::new(MAY, 6, 1, 1);
    world.answers = true;
    world.fault(Fault::Acks, s(10), s(60));
    (0..35).for_each(|n| {
        world.offer(s(5 + n), 0, 500);
    });
    world.run(s(20));
    assert_eq!(world.seen.closes, 0);
    world.run(s(30));
    assert_eq!(world.seen.closes, 1, "the one that had the flow");
}

#[test]
fn who_is_not_admitted_in_30_s_makes_room_for_another() {
    for dead in 0..7 {
        let all = &[0, 1, 2, 3, 4, 5, 6];
        let mut world = World::new(MAY, 7, 1, 1);
        world.fault(Fault::Blackhole(&all[dead..=dead]), s(0), s(900));
        // The dead one may be drawn again, and again.
        world.run(s(300));
        assert_eq!(
            world.client().facts(world.now()).sessions,
            6,
            "without {dead}"
        );
    }
}
