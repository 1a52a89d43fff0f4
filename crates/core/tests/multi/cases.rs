//! Faults of systems like this one that only a client of several exits can have.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use quell_core::config::ExitPolicy;
use quell_packet::build;
use quell_sim::exits::{Config, Manner, Way, World};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const SITE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

fn up(exits: usize) -> World {
    let mut world = World::up(Config::of(exits));
    world.outside.set(SITE, Manner::Answers(20 * MS));
    world
}

fn resent(world: &World) -> Vec<u64> {
    let exits = world.status().exits;
    let of = |path: &quell_core::status::PathStatus| {
        path.flow.send.evidence_resends + path.flow.send.silence_resends
    };
    exits
        .iter()
        .map(|exit| exit.path.as_ref().map_or(0, of))
        .collect()
}

#[test]
fn a_lost_packet_is_resent_once_over_its_own_exit() {
    // case B04
    let mut world = up(2);
    let user = world.connect(SITE, 1_000);
    world.run_for(S);
    let exit = world.status().main_exit;
    world.lose_next(exit);
    world.speak(user);
    world.run_for(5 * S);
    let mut expected = vec![0, 0];
    expected[exit] = 1;
    assert_eq!(resent(&world), expected);
}

#[test]
fn an_exit_that_is_not_heard_gets_no_resends_while_another_carries() {
    // case B04
    let mut world = up(2);
    let first = world.status().main_exit;
    world.set_way(1 - first, Way::Deaf);
    world.run_for(30 * S);
    for port in 0..50 {
        let user = world.connect(SITE, 1_000 + port);
        world.run_for(S);
        assert!(world.user(user).connected_after.is_some());
    }
    assert_eq!(resent(&world)[1 - first], 0);
}

#[test]
fn an_icmp_error_makes_no_flow_and_draws_no_answer() {
    // case B42
    let mut world = up(2);
    let own = world.own();
    let stranger = build::udp(
        (SITE, 53).into(),
        (own, 4_242).into(),
        b"an answer to nothing",
    );
    // Type 3, code 3: port unreachable, as the user's system sends it.
    let error = build::Header::new(own.into(), SITE.into()).icmp(3, 3, [0; 4], &stranger);
    world.take_happened();
    for _ in 0..20 {
        world.send(Bytes::from(error.clone()));
        world.run_for(S);
    }
    let status = world.status();
    assert_eq!(status.flows.flows, 0);
    assert_eq!(status.delivered + status.made, 0);
}

#[test]
fn a_packet_to_any_exit_of_the_list_never_enters_the_tunnel() {
    // case B39
    let mut world = up(3);
    let own = world.own();
    let addresses = [[198, 51, 100, 1], [198, 51, 100, 2], [198, 51, 100, 3]];
    for (exit, address) in addresses.into_iter().enumerate() {
        world.set_underlay(exit, &[address.into()]);
    }
    let before = world.status().books().counters.accepted;
    for address in addresses {
        let packet = build::udp(
            (own, 9).into(),
            (Ipv4Addr::from(address), 6_610).into(),
            b"x",
        );
        world.send(Bytes::from(packet));
    }
    let status = world.status();
    let reason = quell_core::drops::DropReason::UnderlayAddress;
    assert_eq!(status.tun_drops[reason], 3);
    assert_eq!(status.books().counters.accepted, before);
}

#[test]
fn a_client_whose_packets_come_back_says_that_there_is_no_underlay() {
    // case B40
    let mut world = up(2);
    let own = world.own();
    let to = Ipv4Addr::new(198, 51, 100, 1);
    for exit in 0..2 {
        world.set_underlay(exit, &[to.into()]);
        world.set_way(exit, Way::Silent);
    }
    let looped = build::udp((own, 9).into(), (to, 6_610).into(), b"x");
    for _ in 0..100 {
        world.send(Bytes::from(looped.clone()));
        world.run_for(S / 2);
    }
    let no_underlay = |reason: &str| reason.starts_with("no underlay: ");
    let status = world.status();
    assert!(no_underlay(&status.reason), "{}", status.reason);
    assert!(status.exits.iter().all(|exit| no_underlay(&exit.reason)));
    (0..2).for_each(|exit| world.set_way(exit, Way::Up));
    world.run_for(30 * S);
    assert!(!no_underlay(&world.status().reason));
}

#[test]
fn addresses_of_the_tun_stay_when_exits_and_sessions_change() {
    let mut world = up(3);
    let own = world.own();
    let first = world.status().main_exit;
    let known_by = |world: &World, exit: usize| world.status().exits[exit].addresses.unwrap();
    assert_ne!(
        known_by(&world, first).ipv4.unwrap().0,
        known_by_another(&world, first),
        "the exits' pools differ"
    );
    for round in 0..4 {
        let exit = world.status().main_exit;
        world.kill(exit);
        world.run_for(90 * S);
        world.restart(exit);
        world.run_for(120 * S);
        assert_eq!(world.own(), own, "round {round}");
        let user = world.connect(SITE, 2_000 + round);
        world.run_for(S);
        assert!(world.user(user).connected_after.is_some());
    }
}

fn known_by_another(world: &World, exit: usize) -> Ipv4Addr {
    let exits = world.status().exits;
    let others = exits.iter().enumerate().filter(|(index, _)| *index != exit);
    let known = others.filter_map(|(_, of)| of.addresses?.ipv4);
    known.map(|(address, _)| address).next().unwrap()
}

#[test]
fn spread_divides_destinations_and_keeps_each_with_its_exit() {
    let mut config = Config::of(4);
    config.client.window.window_min = 4;
    config.client.window.exit_policy = ExitPolicy::Spread;
    let mut world = World::up(config);
    let mut of = Vec::new();
    for n in 0..80 {
        let site = Ipv4Addr::new(192, 0, 2, n);
        world.outside.set(site, Manner::Answers(MS));
        for port in [1_000, 2_000] {
            world.connect(site, port + u16::from(n));
            world.run_for(100 * MS);
        }
        let heard = world.outside.take_heard();
        let exits: std::collections::BTreeSet<_> = heard.iter().map(|h| h.1).collect();
        assert_eq!(exits.len(), 1, "one destination, one exit: {heard:?}");
        of.extend(exits);
    }
    for exit in 0..4 {
        let load = of.iter().filter(|of| **of == exit).count();
        assert!((8..=35).contains(&load), "exit {exit} has {load} of 80");
    }
}
