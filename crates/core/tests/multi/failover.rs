//! Exits that fail: how soon new flows go elsewhere, what becomes of open ones, and
//! what does not change.

use std::net::Ipv4Addr;
use std::time::Duration;

use quell_core::health::dial_gate::GateState;
use quell_sim::exits::{Config, Manner, Way, World};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const SITE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

fn up(exits: usize) -> World {
    let mut world = World::up(Config::of(exits));
    world.outside.set(SITE, Manner::Answers(20 * MS));
    world
}

#[test]
fn two_of_three_are_kept_and_the_first_choice_stays() {
    let mut world = up(3);
    let first = world.status().main_exit;
    for port in 0..50 {
        let user = world.connect(SITE, 1_000 + port);
        world.run_for(S);
        assert_eq!(world.user(user).connected_after, Some(40 * MS));
    }
    let status = world.status();
    assert_eq!((status.window.members, status.main_exit), (2, first));
    assert_eq!(status.exits[first].flows, 50);
    assert_eq!(status.exit_changes, 0);
}

#[test]
fn a_silent_cut_of_the_first_choice_moves_new_flows_within_the_hedge() {
    let mut world = up(3);
    let first = world.status().main_exit;
    let old = world.connect(SITE, 900);
    world.run_for(S);
    world.set_way(first, Way::Silent);
    for port in 0..20 {
        let user = world.connect(SITE, 1_000 + port);
        world.run_for(500 * MS);
        let after = world.user(user).connected_after.unwrap();
        assert!(after <= 300 * MS, "{port}: {after:?}");
    }
    let status = world.status();
    assert_ne!(status.main_exit, first);
    assert_eq!(status.exit_changes, 1);
    assert_eq!(world.user(old).reset_after, None, "its session may go on");
}

#[test]
fn open_flows_of_an_exit_that_is_gone_are_reset_at_once_and_others_stay() {
    let mut world = up(3);
    let first = world.status().main_exit;
    let old = world.connect(SITE, 900);
    world.run_for(S);
    world.kill(first);
    let mut new = Vec::new();
    for port in 0..20 {
        new.push(world.connect(SITE, 1_000 + port));
        world.run_for(S);
    }
    assert_eq!(world.user(old).reset_after, None);
    world.restart(first);
    world.run_for(30 * S);
    let reset = world.user(old).reset_after.unwrap();
    assert!(reset > 20 * S, "{reset:?}");
    for user in new {
        let user = world.user(user);
        assert!(
            user.connected_after.is_some() && user.reset_after.is_none(),
            "{user:?}"
        );
    }
}

#[test]
fn a_provider_that_stops_sends_new_flows_elsewhere_at_once() {
    let mut world = up(3);
    let first = world.status().main_exit;
    let old = world.connect(SITE, 900);
    world.run_for(S);
    world.drain_provider(first);
    world.run_for(20 * MS);
    let new = world.connect(SITE, 1_000);
    world.run_for(S);
    let status = world.status();
    assert_ne!(status.main_exit, first);
    assert_eq!(world.user(new).connected_after, Some(40 * MS));
    assert_eq!(status.exits[first].flows, 1, "the old one is still there");
    world.run_for(10 * S);
    assert!(world.user(old).reset_after.is_some());
    assert_eq!(world.user(new).reset_after, None);
}

#[test]
fn an_exit_that_is_back_does_not_become_the_first_choice_again() {
    let mut world = up(2);
    let first = world.status().main_exit;
    world.set_way(first, Way::Silent);
    world.connect(SITE, 1_000);
    world.run_for(10 * S);
    world.set_way(first, Way::Up);
    world.run_for(60 * S);
    world.connect(SITE, 1_001);
    let status = world.status();
    assert!(status.exits.iter().all(|exit| exit.is_usable));
    assert_ne!(status.main_exit, first);
}

//
#[test]
fn the_gate_of_a_dead_server_is_its_own_and_opens_when_that_is_back() {
    let mut world = up(2);
    let well = world.status().main_exit;
    let dead = 1 - well;
    let dials_of = |world: &World, exit: usize| world.status().exits[exit].dials;
    let (before, others) = (dials_of(&world, dead), dials_of(&world, well));
    let user = world.connect(SITE, 900);
    world.run_for(S);
    world.kill(dead);
    world.run_for(600 * S);
    let status = world.status();
    let gates = |exit: usize| status.exits[exit].dial_gate.clone().unwrap();
    assert!(gates(dead).failures >= 3, "{:?}", gates(dead));
    assert_ne!(gates(dead).state, GateState::Ready, "{:?}", gates(dead));
    assert_eq!(gates(well).state, GateState::Ready);
    assert_eq!(gates(well).failures, 0);
    // Waits double to a minute: ten minutes hold some twenty dials at the very most.
    let dials = dials_of(&world, dead) - before;
    assert!((3..=20).contains(&dials), "{dials}");
    assert_eq!(
        dials_of(&world, well),
        others,
        "an established one is untouched"
    );
    assert_eq!(world.user(user).reset_after, None);
    world.restart(dead);
    world.run_for(180 * S);
    let gate = world.status().exits.swap_remove(dead).dial_gate.unwrap();
    assert_eq!(
        (gate.state, gate.failures),
        (GateState::Ready, 0),
        "{gate:?}"
    );
}

#[test]
fn when_all_fall_silent_nobody_is_evicted_and_all_go_on() {
    // case B25
    let mut world = up(6);
    let old = world.connect(SITE, 900);
    world.run_for(S);
    for exit in 0..6 {
        world.set_way(exit, Way::Silent);
    }
    world.connect(SITE, 1_000);
    world.run_for(10 * S);
    let status = world.status();
    assert!(
        status.uplink.as_ref().unwrap().in_doubt,
        "{:?}",
        status.uplink
    );
    assert_eq!(status.window.evictions, 0);
    world.run_for(20 * S);
    for exit in 0..6 {
        world.set_way(exit, Way::Up);
    }
    world.run_for(10 * S);
    let status = world.status();
    assert_eq!(status.window.evictions, 0);
    assert_eq!(world.user(old).reset_after, None);
    let new = world.connect(SITE, 1_001);
    world.run_for(S);
    assert_eq!(world.user(new).connected_after, Some(40 * MS));
}
