//! What person and system say: hold, sleep, another network, that exit; and what an embedder is told of it.

use std::net::Ipv4Addr;
use std::time::Duration;

use quell_core::multi::{ExitId, Network, Told};
use quell_sim::exits::{Config, Manner, Way, World};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const SITE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

fn up(exits: usize) -> World {
    let mut world = World::up(Config::of(exits));
    world.outside.set(SITE, Manner::Answers(20 * MS));
    world.run_for(10 * S);
    world.take_told();
    world
}

fn connects(world: &mut World, port: u16) -> Option<Duration> {
    let user = world.connect(SITE, port);
    world.run_for(S);
    world.user(user).connected_after
}

fn network(metered: bool) -> Network {
    Network {
        validated: true,
        metered,
    }
}

#[test]
fn held_nothing_leaves_and_released_all_is_as_before() {
    let mut world = up(2);
    world.steer(|client, now| client.hold(now));
    assert_eq!(world.take_told(), [Told::Held]);
    world.run_for(S);
    let (before, dials) = (world.bytes_out(), world.status().dials);
    assert_eq!(connects(&mut world, 1_000), None);
    world.steer(|client, now| client.on_network_changed(network(true), now));
    world.steer(|client, now| client.on_wake(now));
    world.run_for(3_600 * S);
    assert_eq!(world.bytes_out(), before, "an hour, and not a byte");
    let status = world.status();
    assert_eq!((status.dials, status.window.members), (dials, 0));
    assert_eq!(world.take_told(), []);
    world.steer(|client, now| client.release(now));
    world.run_for(5 * S);
    assert!(matches!(world.take_told()[..], [Told::Up { .. }, ..]));
    assert!(connects(&mut world, 2_000).is_some());
}

#[test]
fn suspended_nothing_is_begun_and_on_waking_the_session_goes_on() {
    // case B29
    let mut world = up(1);
    let sessions = world.status().sessions;
    world.steer(|client, now| client.on_suspended(now));
    let before = world.bytes_out();
    world.connect(SITE, 900);
    world.run_for(50 * S);
    assert_eq!(world.bytes_out(), before, "no packet, no keepalive");
    world.steer(|client, now| client.on_resumed(now));
    assert!(world.bytes_out() > before, "asked at once");
    assert!(connects(&mut world, 1_000).is_some());
    assert_eq!(world.status().sessions, sessions);
}

#[test]
fn suspended_no_exit_that_failed_is_dialled_until_the_end_of_it() {
    let mut world = up(1);
    world.steer(|client, now| client.on_suspended(now));
    world.kill(0);
    world.run_for(600 * S);
    let dials = world.status().dials;
    assert_eq!(dials, 1);
    world.restart(0);
    world.steer(|client, now| client.on_resumed(now));
    world.run_for(30 * S);
    assert!(world.status().dials > dials);
    assert!(connects(&mut world, 1_000).is_some());
}

#[test]
fn a_network_that_changes_is_asked_over_at_once_and_a_portal_is_not() {
    let mut world = up(1);
    let asked = |world: &mut World, network| {
        let before = world.bytes_out();
        world.steer(|client, now| client.on_network_changed(network, now));
        world.bytes_out() > before
    };
    let portal = Network {
        validated: false,
        metered: false,
    };
    assert!(!asked(&mut world, portal));
    assert!(asked(&mut world, network(false)));
    world.run_for(100 * MS);
    assert!(!asked(&mut world, network(false)), "once a second");
    let before = world.bytes_out();
    world.run_for(900 * MS);
    assert!(world.bytes_out() > before, "the last change is not lost");
}

#[test]
fn metered_one_exit_is_kept_and_another_stands_in_for_it_in_an_outage() {
    let mut world = up(3);
    assert_eq!(world.status().window.members, 2);
    world.steer(|client, now| client.on_network_changed(network(true), now));
    world.run_for(120 * S);
    assert_eq!(world.status().window.members, 1);
    assert!(connects(&mut world, 1_000).is_some());
    assert_eq!(world.status().extra_copies, 0);
    let first = world.status().main_exit;
    world.set_way(first, Way::Silent);
    let user = world.connect(SITE, 2_000);
    world.run_for(60 * S);
    assert!(world.user(user).connected_after.is_some());
    assert_ne!(world.status().main_exit, first);
    world.steer(|client, now| client.on_network_changed(network(false), now));
    world.run_for(60 * S);
    assert!(world.status().window.members >= 2);
}

#[test]
fn a_selected_exit_takes_new_flows_is_stood_in_for_and_returns() {
    let mut world = up(4);
    let other = |world: &World| {
        let status = world.status();
        let outside = |exit: &usize| status.exits[*exit].state != "up";
        (0..4).find(outside).unwrap()
    };
    let selected = other(&world);
    let id = ExitId(u16::try_from(selected).unwrap());
    world.steer(|client, now| client.select(Some(id), now));
    world.run_for(10 * S);
    assert!(connects(&mut world, 1_000).is_some());
    assert_eq!(world.status().main_exit, selected);
    assert_eq!(world.status().exits[selected].flows, 1);
    assert!(
        world
            .take_told()
            .iter()
            .any(|told| matches!(told, Told::Moved { to, .. } if *to == id))
    );
    world.set_way(selected, Way::Silent);
    world.run_for(10 * S);
    assert!(connects(&mut world, 2_000).is_some());
    assert_ne!(world.status().main_exit, selected);
    world.set_way(selected, Way::Up);
    world.run_for(60 * S);
    assert!(connects(&mut world, 3_000).is_some());
    assert_eq!(world.status().main_exit, selected);
    world.steer(|client, now| client.select(Some(ExitId(99)), now));
    world.steer(|client, _| assert_eq!(client.selected(), None));
}

#[test]
fn an_outage_is_told_when_it_begins_with_its_attempts_and_when_it_ends() {
    let mut world = up(1);
    world.set_way(0, Way::Silent);
    let mut told = Vec::new();
    for _ in 0..300 {
        let port = 1_000 + u16::try_from(told.len()).unwrap();
        world.connect(SITE, port);
        world.run_for(100 * MS);
        told.extend(world.take_told());
    }
    assert!(matches!(told[0], Told::Stalled { .. }), "{told:?}");
    assert!((2..=40).contains(&told.len()), "{}", told.len());
    let since = |told: &Told| match told {
        Told::Stalled { since, .. } => Some(*since),
        Told::Up { .. }
        | Told::Moved { .. }
        | Told::Rejoined { .. }
        | Told::Held
        | Told::Outage { .. } => None,
    };
    let begun: Vec<_> = told.iter().map(since).collect();
    assert!(begun.iter().all(|at| *at == begun[0] && at.is_some()));
    world.set_way(0, Way::Up);
    world.run_for(10 * S);
    let told = world.take_told();
    let after = |told: &Told| matches!(told, Told::Up { after, .. } if *after >= 20 * S);
    assert!(told.iter().any(after), "{told:?}");
}
