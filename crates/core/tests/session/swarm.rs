//! A hundred clients of one provider, an outage of all of it, and how they come back.

use std::collections::BTreeSet;
use std::time::Duration;

use quell_sim::pair::{End, Event, Reach, Way, World, WorldConfig};

use crate::common::*;

const CLIENTS: usize = 100;
/// Of each client: 10 packets a second.
const STEP: Duration = Duration::from_millis(100);
/// What a client may send in a minute without progress (DESIGN §5).
const QUIET_BYTES: u64 = 16 * 1024;

/// All are up, and each sends at its own moments.
fn swarm() -> World {
    let mut world = World::new(WorldConfig {
        listed: 100,
        books_every: 997,
        ..WorldConfig::default()
    });
    for client in 0..CLIENTS {
        world.add_client(u8::try_from(client).unwrap() + 1);
        world.run_for(Duration::from_millis(37));
    }
    world.run_for(10 * S);
    assert_eq!(world.provider_status().sessions.len(), CLIENTS);
    world
}

/// Each client sends a packet each 100 ms; what arrived at the provider, when and from whom.
fn offer(world: &mut World, time: Duration) -> Vec<(Duration, usize)> {
    let pause = STEP / CLIENTS as u32;
    for _ in 0..time.as_millis() / STEP.as_millis() {
        for client in 0..CLIENTS {
            if world.client_status(client).addresses.is_some() {
                let packet = outwards(world, client, 200 + client);
                world.inject(End::Client(client), packet);
            }
            world.run_for(pause);
        }
    }
    let mut arrivals = Vec::new();
    for (at, event) in world.take_events() {
        if let Event::Deliver(End::Provider, packet) = event {
            arrivals.push((at, packet.len() - 200));
        }
    }
    arrivals
}

/// The most packets within any 100 ms.
fn peak(arrivals: &[(Duration, usize)]) -> usize {
    let times: Vec<_> = arrivals.iter().map(|(at, _)| *at).collect();
    together(&times, STEP)
}

/// The most moments within any `time`.
fn together(moments: &[Duration], time: Duration) -> usize {
    let mut most = 0;
    let mut first = 0;
    for (last, at) in moments.iter().enumerate() {
        while moments[first] + time <= *at {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

fn cut(world: &mut World, cut: bool) {
    world.set_reach(if cut { Reach::Silent } else { Reach::Up });
    world.set_blackhole(Way::Both, cut);
}

/// When the last client's first packet arrived.
fn all_moving(arrivals: &[(Duration, usize)]) -> Option<Duration> {
    let mut seen = BTreeSet::new();
    let last = |(at, client): &(Duration, usize)| {
        seen.insert(*client);
        (seen.len() == CLIENTS).then_some(*at)
    };
    arrivals.iter().find_map(last)
}

#[test]
fn after_a_short_outage_all_move_within_two_seconds_and_no_herd_arrives() {
    //
    let mut world = swarm();
    let steady = peak(&offer(&mut world, 3 * S));
    assert!((95..=130).contains(&steady), "{steady}");
    cut(&mut world, true);
    offer(&mut world, 45 * S);
    cut(&mut world, false);
    let healed = world.elapsed();
    let arrivals = offer(&mut world, 5 * S);
    let moving = all_moving(&arrivals).map(|at| at - healed);
    assert!(moving.is_some_and(|time| time <= 2 * S), "{moving:?}");
    let herd = peak(&arrivals);
    assert!(herd <= 3 * steady, "{herd} in 100 ms, {steady} before");
    let sessions = (0..CLIENTS).map(|client| world.client_status(client).sessions);
    assert!(sessions.max() == Some(1));
}

#[test]
fn four_hours_of_outage_cost_each_client_less_than_its_ceiling_in_every_minute() {
    // case B85
    let mut world = swarm();
    let steady = peak(&offer(&mut world, 2 * S));
    cut(&mut world, true);
    offer(&mut world, S);
    world.run_for(59 * S);
    let mut before: Vec<_> = (0..CLIENTS)
        .map(|client| world.wire_bytes(client))
        .collect();
    for minute in 1..4 * 60 {
        for client in 0..CLIENTS {
            let packet = outwards(&world, client, 300);
            world.inject(End::Client(client), packet);
        }
        world.run_for(60 * S);
        for (client, before) in before.iter_mut().enumerate() {
            let bytes = world.wire_bytes(client);
            let spent = bytes - std::mem::replace(before, bytes);
            assert!(
                spent <= QUIET_BYTES,
                "{spent} bytes of client {client} in minute {minute}"
            );
        }
        let dials = dials(&world.take_events());
        if minute >= 2 * 60 {
            // 100 in some 90 s; the first of them began within a second.
            let together = together(&dials, S);
            assert!(
                together <= 10,
                "{together} dials within a second of minute {minute}"
            );
        }
    }
    cut(&mut world, false);
    let healed = world.elapsed();
    let arrivals = offer(&mut world, 120 * S);
    let moving = all_moving(&arrivals).map(|at| at - healed);
    // Their sessions are long gone, and a dial may be spent in a minute and a half.
    assert!(moving.is_some_and(|time| time <= 120 * S), "{moving:?}");
    let herd = peak(&arrivals);
    assert!(herd <= 3 * steady, "{herd} in 100 ms, {steady} before");
}
