//! Exits that come from a catalog, and leave it.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use quell_core::config::ClientConfig;
use quell_core::multi::{CatalogExit, Client, EXITS_MAX, ExitId, ExitSettings};
use quell_sim::exits::{Config, Manner, World};
use quell_wire::key::PublicKey;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const SITE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

fn world(exits: usize) -> World {
    let config = Config {
        by_catalog: true,
        ..Config::of(exits)
    };
    let mut world = World::new(config);
    world.outside.set(SITE, Manner::Answers(20 * MS));
    world
}

fn named(world: &World, place: usize) -> String {
    world.status().exits[place].name.clone()
}

/// The provider that is the first choice, by the number in its name.
fn first_choice(world: &World) -> usize {
    let name = named(world, world.status().main_exit);
    name.trim_start_matches("exit-").parse().unwrap()
}

#[test]
fn a_client_without_exits_waits_and_a_catalog_gives_it_some() {
    let mut world = world(3);
    world.run_for(60 * S);
    assert_eq!((world.bytes_out(), world.status().dials), (0, 0));
    world.tell_catalog(&[2, 0, 1]);
    world.run_for(5 * S);
    let status = world.status();
    assert_eq!((status.state, status.window.members), ("up", 2));
    let user = world.connect(SITE, 1_000);
    world.run_for(S);
    assert_eq!(world.user(user).connected_after, Some(40 * MS));
    world.check();
}

#[test]
fn the_same_catalog_again_changes_nothing() {
    let mut world = world(3);
    world.tell_catalog(&[0, 1, 2]);
    world.run_for(5 * S);
    let before = world.status();
    let names: Vec<_> = (0..3).map(|place| named(&world, place)).collect();
    for order in [[2, 1, 0], [0, 1, 2], [1, 2, 0]] {
        world.tell_catalog(&order);
        world.run_for(S);
    }
    let after = world.status();
    assert_eq!(
        (after.dials, after.main_exit),
        (before.dials, before.main_exit)
    );
    let now: Vec<_> = (0..3).map(|place| named(&world, place)).collect();
    assert_eq!(now, names, "who has a place keeps it");
}

// case B30: what the control plane says about an exit costs no connection that stands.
#[test]
fn an_exit_that_leaves_the_catalog_keeps_its_flows_and_gets_no_new_ones() {
    let mut world = world(3);
    world.tell_catalog(&[0, 1, 2]);
    world.run_for(5 * S);
    let old = first_choice(&world);
    let place = world.status().main_exit;
    let user = world.connect(SITE, 900);
    world.run_for(S);
    let rest: Vec<usize> = (0..3).filter(|index| *index != old).collect();
    world.tell_catalog(&rest);
    world.run_for(300 * S);
    assert_eq!(world.user(user).reset_after, None);
    assert_eq!(world.status().exits[place].flows, 1, "the open flow stays");
    assert_eq!(named(&world, place), format!("exit-{old}"));
    assert_ne!(first_choice(&world), old);
    let new = world.connect(SITE, 901);
    world.run_for(S);
    assert_eq!(world.user(new).connected_after, Some(40 * MS));
    assert_eq!(world.status().exits[place].flows, 1);
    world.check();
}

#[test]
fn an_exit_that_left_and_carries_nothing_is_sent_away_and_its_place_serves_another() {
    let mut world = world(4);
    world.tell_catalog(&[0, 1]);
    world.run_for(5 * S);
    let before = world.status();
    let place = before.main_exit;
    let old = first_choice(&world);
    let other = 1 - old;
    world.tell_catalog(&[other, 2]);
    world.run_for(120 * S);
    let status = world.status();
    let words = &status.exits[place].window;
    assert_eq!(status.exits[place].state, "waiting", "{words}");
    assert!(
        status.exits[place]
            .window
            .contains("the catalog names it no longer"),
        "{}",
        status.exits[place].window
    );
    assert_eq!(status.exits.len(), 3);
    world.tell_catalog(&[other, 2, 3]);
    world.run_for(120 * S);
    let status = world.status();
    assert_eq!(status.exits.len(), 3, "the free place is used");
    assert_eq!(named(&world, place), "exit-3");
    assert_eq!(
        status.exits[place].dials, before.exits[place].dials,
        "counts are the place's"
    );
    world.check();
}

#[test]
fn a_catalog_of_nothing_is_not_believed() {
    let mut world = world(2);
    world.tell_catalog(&[0, 1]);
    world.run_for(5 * S);
    let before = world.status();
    world.tell_catalog(&[]);
    world.run_for(300 * S);
    let after = world.status();
    assert_eq!(after.window.members, 2);
    assert_eq!(after.dials, before.dials);
    assert!(after.exits.iter().all(|exit| exit.is_usable));
}

#[test]
fn the_last_exits_serve_although_the_catalog_names_others_that_do_not_answer() {
    let mut world = world(4);
    world.tell_catalog(&[0, 1]);
    world.run_for(5 * S);
    world.kill(2);
    world.kill(3);
    world.tell_catalog(&[2, 3]);
    world.run_for(120 * S);
    let user = world.connect(SITE, 900);
    world.run_for(S);
    assert_eq!(world.user(user).connected_after, Some(40 * MS));
}

fn catalog(count: usize) -> Vec<CatalogExit> {
    let exit = |index: usize| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(index as u64).to_be_bytes());
        CatalogExit {
            key: PublicKey(key),
            settings: ExitSettings::named(format!("exit-{index}")),
        }
    };
    (0..count).map(exit).collect()
}

fn client(seed: u64, now: Instant) -> Client {
    Client::with_exits(
        ClientConfig::default(),
        Vec::new(),
        "test",
        1_420,
        seed,
        now,
    )
}

#[test]
fn a_catalog_fills_the_places_that_there_are_and_not_one_more() {
    let now = Instant::now();
    for (exits, places) in [(EXITS_MAX, EXITS_MAX), (EXITS_MAX + 1, EXITS_MAX)] {
        let mut client = client(1, now);
        let placed = client.on_catalog(&catalog(exits), now);
        assert_eq!(
            (placed.len(), client.status(now).exits.len()),
            (places, places)
        );
    }
}

#[test]
fn clients_of_a_large_fleet_take_different_parts_of_it() {
    let now = Instant::now();
    let all = catalog(10 * EXITS_MAX);
    let drawn = |seed| {
        let mut placed = client(seed, now).on_catalog(&all, now);
        placed.sort_unstable_by_key(|(_, index)| *index);
        placed
            .into_iter()
            .map(|(_, index)| index)
            .collect::<Vec<_>>()
    };
    let (one, two) = (drawn(1), drawn(2));
    assert_eq!(one, drawn(1), "the draw is the seed's");
    let both = one.iter().filter(|index| two.contains(index)).count();
    assert!(both < EXITS_MAX / 4, "{both} in common");
}

#[test]
fn an_exit_that_is_named_twice_counts_once() {
    let now = Instant::now();
    let mut twice = catalog(3);
    twice.extend(catalog(3));
    let mut client = client(1, now);
    let placed = client.on_catalog(&twice, now);
    assert_eq!(placed.len(), 3);
    assert_eq!(client.on_catalog(&twice, now).len(), 3);
    let mut ids: Vec<_> = placed.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [ExitId(0), ExitId(1), ExitId(2)]);
}

#[test]
fn exits_that_are_ready_join_first_and_two_spares_are_to_be_ready() {
    let now = Instant::now();
    let later = now + Duration::from_millis(1);
    let mut client = client(3, now);
    let placed = client.on_catalog(&catalog(20), now);
    placed
        .iter()
        .for_each(|(exit, _)| client.set_ready(*exit, false));
    client.set_ready(ExitId(7), true);
    client.set_ready(ExitId(11), true);
    client.handle_timeout(later);
    let wanted = client.exits_to_be_ready();
    assert_eq!(wanted[..2], [ExitId(7), ExitId(11)], "the window's");
    assert_eq!(wanted.len(), 4, "and two spares: {wanted:?}");
    client.set_ready(wanted[3], true);
    let again = client.exits_to_be_ready();
    assert_eq!(again[2], wanted[3], "one that is ready stays a spare");
}
