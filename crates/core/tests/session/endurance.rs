//! Outages of a day and failures of a week: what is held, and what is done, stays what it was in the first minute.
//!
//! A leak of one entry a minute is nothing in a test of seconds and an outage of its own in a week. What stands for memory
//! here are live items: packs and bytes that wait, sessions, connections, requests in flight, words of a status.

use std::sync::Arc;
use std::time::Instant;

use quell_core::config::BackendHealthConfig;
use quell_core::health::Signal;
use quell_core::health::backend::{Admission, BackendHealth, Work};
use quell_packet::build::{Header, Segment};
use quell_sim::pair::{End, Reach, Way, World, WorldConfig};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

use crate::common::*;

/// What lives in the world, by kind.
fn live_items(world: &World) -> [u64; 7] {
    let client = world.client_status(0).path().cloned().unwrap_or_default();
    let provider = world.provider_status();
    let far = provider.sessions.first().map(|session| &session.path);
    let far = far.cloned().unwrap_or_default();
    let waits = |path: &quell_core::status::PathStatus| {
        let packs = path.flow.send.in_flight + path.message.send.in_flight;
        packs + path.flow.receive.held + path.message.receive.held
    };
    [
        waits(&client),
        client.queued_bytes as u64,
        waits(&far),
        far.queued_bytes as u64,
        provider.sessions.len() as u64,
        world.connections() as u64,
        world.client_status(0).reason.len() as u64 / 200,
    ]
}

/// A minute's traffic: TCP and UDP, and a minute of time.
fn minute(world: &mut World, minute: u32) {
    for place in 0..20 {
        let fields = Segment {
            sequence: minute * 20 + place,
            ..Segment::default()
        };
        let header = Header::new(inner(world, 0).0, ip(WORLD_V4));
        let segment = header.tcp(1, 443, &fields, &[0; 960]);
        world.inject(End::Client(0), segment);
        let datagram = outwards(world, 0, 1_000);
        world.inject(End::Client(0), datagram);
    }
    world.run_for(60 * S);
    world.take_events();
    world.take_delivered(End::Provider);
}

fn wakes(world: &World) -> u64 {
    world.wakes().values().sum()
}

#[test]
fn a_day_in_which_nothing_answers_holds_and_does_no_more_than_its_first_minute() {
    // case B64
    let mut world = World::up(WorldConfig::default());
    world.set_reach(Reach::Silent);
    world.set_blackhole(Way::Both, true);
    minute(&mut world, 0);
    let (first, first_wakes) = (live_items(&world), wakes(&world));
    assert!(first.iter().sum::<u64>() > 0, "there is something to hold");
    let mut before = first_wakes;
    for place in 1..24 * 60 {
        minute(&mut world, place);
        let live = live_items(&world);
        let grown = live.iter().zip(first).any(|(live, first)| *live > first);
        assert!(!grown, "{live:?} in minute {place}, {first:?} in the first");
        let woken = wakes(&world) - std::mem::replace(&mut before, wakes(&world));
        assert!(
            woken <= first_wakes,
            "woken {woken} times in minute {place}, {first_wakes} in the first"
        );
    }
    let status = world.client_status(0);
    assert_eq!(status.unaccounted, 0);
    assert_eq!(
        status.tun_packets,
        24 * 60 * 40,
        "all was taken and counted"
    );
}

#[test]
fn a_day_without_a_control_plane_costs_what_flows_nothing_and_holds_nothing() {
    // case B64, case B30
    const KINDS: [Work; 4] = [Work::Auth, Work::Catalog, Work::Contract, Work::Probe];
    let epoch = Instant::now();
    let rng = &mut SmallRng::seed_from_u64(1);
    let config = BackendHealthConfig::default();
    let backend = Arc::new(BackendHealth::new(config.clone(), epoch, rng));
    let mut world = World::up(WorldConfig {
        signal: Signal::new(Arc::clone(&backend) as _),
        ..WorldConfig::default()
    });
    let mut first = None;
    let mut asked = 0;
    for place in 0..24 * 60 {
        minute(&mut world, place);
        let now = epoch + world.elapsed();
        // Many ask in each minute, and none gets an answer: half of them fail, half are given up.
        for _ in 0..20 {
            for work in KINDS {
                match backend.admit(work, now) {
                    Admission::Go(attempt) | Admission::Probe(attempt) => {
                        asked += 1;
                        if asked % 2 == 0 {
                            backend.failed(attempt, now + 5 * S);
                        } else {
                            drop(attempt);
                        }
                    }
                    Admission::Wait(wait) => assert!(wait.until > now),
                }
            }
        }
        let status = backend.status(now);
        let in_flight: usize = status.work.iter().map(|work| work.in_flight).sum();
        assert!(in_flight <= KINDS.len() * config.in_flight_max);
        assert!(status.reason.len() < 300, "{}", status.reason);
        let live = live_items(&world);
        assert_eq!(live, *first.get_or_insert(live), "in minute {place}");
    }
    let kinds = KINDS.len() as u64;
    assert!(asked <= kinds * (24 * 60 + 40), "asked {asked} times");
    let client = world.client_status(0);
    assert_eq!((client.state, client.dials, client.sessions), ("up", 1, 1));
    let flow = client.path().unwrap().flow.send;
    assert_eq!((flow.first_sends, flow.given_up()), (24 * 60 * 20, 0));
}

#[test]
fn a_peer_that_fails_for_a_week_stays_small_and_costs_its_neighbour_nothing() {
    // case B65
    const HOURS: u64 = 7 * 24;
    let mut world = World::up(WorldConfig {
        // Each look at the books of both ends costs more than the step it follows.
        books_every: 64,
        ..WorldConfig::default()
    });
    // Its key is on no list: each of its dials is refused.
    let failing = world.add_client(9);
    let mut dials = 0;
    for hour in 0..HOURS {
        world.run_for(3_600 * S);
        world.take_events();
        let asked = Instant::now();
        let (status, provider) = (world.client_status(failing), world.provider_status());
        assert!(asked.elapsed() < S, "status took {:?}", asked.elapsed());
        let in_this_hour = status.dials - std::mem::replace(&mut dials, status.dials);
        assert!(
            (1..=90).contains(&in_this_hour),
            "{in_this_hour} dials in hour {hour}"
        );
        assert_eq!((status.sessions, status.path()), (0, None));
        assert!(status.reason.len() < 300, "{}", status.reason);
        assert_eq!((provider.sessions.len(), provider.refused.len()), (1, 1));
        assert!(world.connections() <= 2, "{}", world.connections());
        assert!(provider.handshakes.sources <= 1);
    }
    let refused = world.provider_status().refused["unknown_client"];
    assert!(
        refused + 1 >= dials && refused <= dials,
        "{refused}, {dials}"
    );
    let good = world.client_status(0);
    assert_eq!((good.state, good.dials, good.sessions), ("up", 1, 1));
}
