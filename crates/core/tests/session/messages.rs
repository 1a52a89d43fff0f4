//! The embedder's messages: whole, once, in order, or an end with a name.

use bytes::Bytes;
use quell_core::path::MessagesEnd;
use quell_core::send::Backpressure;
use quell_sim::pair::{End, Event, Way, World, WorldConfig, for_seeds};

use crate::common::*;

fn message(number: usize, len: usize) -> Bytes {
    (0..len).map(|at| (number * 7 + at) as u8).collect()
}

fn ends(world: &mut World) -> Vec<(End, MessagesEnd)> {
    let end = |(_, event)| match event {
        Event::MessagesEnded(end, why) => Some((end, why)),
        Event::Dial { .. }
        | Event::Configure(..)
        | Event::Mtu(..)
        | Event::Notice(..)
        | Event::Deliver(..)
        | Event::Close(..)
        | Event::Refuse(..) => None,
    };
    world.take_events().into_iter().filter_map(end).collect()
}

#[test]
fn messages_of_all_sizes_arrive_whole_and_in_order_both_ways_over_a_bad_path() {
    for_seeds(
        "session::messages::messages_of_all_sizes_arrive_whole_and_in_order_both_ways_over_a_bad_path",
        20,
        |seed| {
            let mut world = World::up(WorldConfig {
                seed,
                ..WorldConfig::default()
            });
            world.set_carrier(Way::Both, |carrier| {
                carrier.link.loss = 0.3;
                carrier.link.jitter = 10 * MS;
                carrier.link.duplicate = 0.05;
            });
            let sizes = [1, 2, 1_099, 1_100, 1_101, 2_200, 20_000, 5, 60_000, 1];
            let (mut sent, mut came) = (vec![], [vec![], vec![]]);
            for (number, size) in sizes.into_iter().enumerate() {
                let message = message(number, size);
                world.send_message(0, End::Client(0), &message).unwrap();
                world.send_message(0, End::Provider, &message).unwrap();
                sent.push(message);
                world.run_for(50 * MS);
            }
            for _ in 0..60 {
                world.run_for(S);
                came[0].extend(world.take_messages(0, End::Provider));
                came[1].extend(world.take_messages(0, End::Client(0)));
            }
            assert_eq!(ends(&mut world), []);
            let lens = |m: &Vec<Bytes>| m.iter().map(Bytes::len).collect::<Vec<_>>();
            assert_eq!(came.each_ref().map(lens), [lens(&sent), lens(&sent)]);
            assert!(came == [sent.clone(), sent]);
        },
    );
}

#[test]
fn half_the_window_passes_and_one_byte_more_is_too_long() {
    let mut world = World::up(WorldConfig::default());
    let largest = message(1, 1 << 20);
    world.send_message(0, End::Client(0), &largest).unwrap();
    let longer = message(1, (1 << 20) + 1);
    for refused in [&longer[..], &[]] {
        let error = world.send_message(0, End::Client(0), refused);
        assert_eq!(error, Err(Backpressure::TooLong), "{}", refused.len());
    }
    world.run_for(5 * S);
    assert_eq!(world.take_messages(0, End::Provider), [largest]);
}

#[test]
fn messages_that_nobody_takes_hold_the_sender_back_until_they_are_taken() {
    let mut world = World::up(WorldConfig::default());
    let block = message(3, 200_000);
    let mut sent = 0;
    for _ in 0..100 {
        sent += usize::from(world.send_message(0, End::Client(0), &block).is_ok());
        world.run_for(100 * MS);
    }
    assert_eq!(
        sent,
        2 * 1_024 * 1_024 / 200_000,
        "the credit of the greeting"
    );
    assert_eq!(
        world.send_message(0, End::Client(0), &block),
        Err(Backpressure::Credit)
    );
    assert_eq!(world.take_messages(0, End::Provider).len(), sent);
    world.run_for(S);
    world.send_message(0, End::Client(0), &block).unwrap();
    world.run_for(S);
    assert_eq!(world.take_messages(0, End::Provider).len(), 1);
}

#[test]
fn credit_whose_ack_was_lost_is_asked_for_and_comes_with_the_pong() {
    let mut world = World::up(WorldConfig::default());
    let block = message(3, 200_000);
    while world.send_message(0, End::Client(0), &block).is_ok() {
        world.run_for(S);
    }
    // The answer to the question that the refusal drew: no more credit than before.
    world.run_for(S);
    world.set_blackhole(Way::ToClient, true);
    assert_eq!(world.take_messages(0, End::Provider).len(), 10);
    world.run_for(50 * MS);
    world.set_blackhole(Way::ToClient, false);
    // Nothing is on its way that would bring the news.
    world.run_for(2 * S);
    let refused = world.send_message(0, End::Client(0), &block);
    assert_eq!(refused, Err(Backpressure::Credit));
    world.run_for(100 * MS);
    world.send_message(0, End::Client(0), &block).unwrap();
}

#[test]
fn a_sender_that_keeps_asking_for_room_does_not_flood_its_peer() {
    let mut world = World::up(WorldConfig::default());
    let block = message(3, 200_000);
    while world.send_message(0, End::Client(0), &block).is_ok() {
        world.run_for(S);
    }
    let pings = |world: &World| {
        world
            .client_status(0)
            .path()
            .unwrap()
            .clone()
            .counters
            .pings_sent
    };
    let before = pings(&world);
    for _ in 0..10_000 {
        let refused = world.send_message(0, End::Client(0), &block);
        assert_eq!(refused, Err(Backpressure::Credit));
        world.run_for(MS);
    }
    let asked = pings(&world) - before;
    assert!((9..=11).contains(&asked), "{asked} in 10 s");
    assert_eq!(ends(&mut world), []);
}

#[test]
fn a_pack_that_never_arrives_ends_the_lane_by_name_and_the_silent_session_with_it() {
    //
    let mut world = World::up(WorldConfig::default());
    world.run_for(S);
    world.take_events();
    world.set_blackhole(Way::ToProvider, true);
    world.send_message(0, End::Client(0), b"lost").unwrap();
    world.run_for(60 * S - NS);
    assert_eq!(ends(&mut world), []);
    world.run_for(S);
    let [(End::Client(0), MessagesEnd::ResendsExhausted(end))] = ends(&mut world)[..] else {
        panic!("the lane did not end");
    };
    assert_eq!(end.number, 0);
    assert!((1..=17).contains(&end.sends), "{end:?}");
    assert_eq!(
        world.send_message(0, End::Client(0), b"after"),
        Err(Backpressure::Ended)
    );
    world.set_blackhole(Way::ToProvider, false);
    world.run_for(20 * S);
    let status = world.client_status(0);
    assert_eq!((status.state, status.sessions), ("up", 2));
    let packet = outwards(&world, 0, 100);
    world.inject(End::Client(0), packet.clone());
    world.run_for(S);
    assert!(world.take_delivered(End::Provider).contains(&packet));
}

#[test]
fn a_session_that_ends_says_what_it_does_not_know_of() {
    let mut world = World::up(WorldConfig::default());
    world.send_message(0, End::Client(0), b"perhaps").unwrap();
    world.crash_provider();
    world.break_connection(0);
    assert_eq!(ends(&mut world), [], "another connection may bring it");
    world.run_for(20 * S);
    assert_eq!(
        ends(&mut world),
        [(End::Client(0), MessagesEnd::DeliveryUnknown { packs: 1 })]
    );
    world.send_message(0, End::Client(0), b"anew").unwrap();
    world.run_for(S);
    assert!(
        world
            .take_messages(0, End::Provider)
            .contains(&Bytes::from_static(b"anew"))
    );
}
