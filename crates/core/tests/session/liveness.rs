//! What an idle session costs, and how many PINGs are too many.

use std::time::Instant;

use bytes::BytesMut;
use quell_core::multi::Output;
use quell_core::path::Violation;
use quell_sim::pair::{End, World, WorldConfig};
use quell_wire::control::Control;
use quell_wire::frame::{Frame, Frames, Pong};
use quell_wire::registry::ErrorCode;

use crate::common::*;

#[test]
fn an_idle_hour_wakes_for_keepalives_alone() {
    // case B87
    let mut world = World::up(WorldConfig::default());
    let [before, _] = world.fates();
    world.run_for(3_600 * S);
    let [after, back] = world.fates();
    // A keepalive is its timer; the provider wakes for the datagram alone.
    assert_eq!(
        world.wakes().iter().collect::<Vec<_>>(),
        [(&"keepalive", &180)]
    );
    assert_eq!(after.sent.datagrams - before.sent.datagrams, 180);
    assert_eq!(
        (back.sent.pings, back.arrived.pongs),
        (0, after.arrived.pings)
    );
    assert_eq!(world.take_events(), []);
    assert_eq!(
        (
            world.client_status(0).dials,
            world.provider_status().sessions_total
        ),
        (1, 1)
    );
}

#[test]
fn a_fragmented_packet_leaves_no_timer_behind() {
    // case B87
    let mut world = World::up(WorldConfig::default());
    world.set_datagram_len_max(1_162);
    let packet = outwards(&world, 0, 1_280);
    world.inject(End::Client(0), packet);
    world.run_for(19 * S);
    assert_eq!(world.take_delivered(End::Provider).len(), 1);
    // Its acknowledgement is the last that anybody waits for.
    let wakes: Vec<_> = world.wakes().keys().collect();
    assert_eq!(wakes, [&"ack"]);
}

#[test]
fn spurious_wake_ups_change_nothing() {
    let mut world = World::up(WorldConfig::default());
    let mut calm = World::up(WorldConfig::default());
    for _ in 0..1_000 {
        world.run_for(97 * MS);
        world.nudge();
        calm.run_for(97 * MS);
    }
    assert_eq!(world.client_status(0), calm.client_status(0));
    assert_eq!(world.provider_status(), calm.provider_status());
    assert_eq!(world.take_events(), calm.take_events());
}

#[test]
fn a_hundred_pings_at_once_are_answered_and_one_more_is_a_flood() {
    for (to, other) in [(End::Provider, 0), (End::Client(0), 1)] {
        let mut world = World::up(WorldConfig::default());
        // What the first PING took is there again.
        world.run_for(S);
        let before = world.fates()[1 - other].sent.pongs;
        world.inject_datagram(0, to, pings(100));
        world.run_for(15 * MS);
        assert_eq!(world.fates()[1 - other].sent.pongs - before, 100);
        assert_eq!(world.take_events(), []);

        let mut world = World::up(WorldConfig::default());
        world.run_for(S);
        world.inject_datagram(0, to, pings(101));
        let flood = Violation {
            code: ErrorCode::PingFlood,
            words: "more than 50 PINGs a second".to_owned(),
        };
        assert_eq!(closes(&world.take_events()), [(to, flood)]);
    }
}

#[test]
fn fifty_pings_a_second_go_on_for_ever() {
    let mut world = World::up(WorldConfig::default());
    world.run_for(S);
    for _ in 0..1_000 {
        world.inject_datagram(0, End::Provider, pings(1));
        world.run_for(20 * MS);
    }
    assert_eq!(closes(&world.take_events()), []);
}

#[test]
fn an_answer_that_comes_before_the_departure_is_known_leaves_no_question_open() {
    let now = Instant::now();
    let mut client = lone_client(now);
    client.on_connected(EXIT, 1, now);
    client.on_carrier(EXIT, 1, facts(1_414), now);
    client.handle_control(EXIT, 1, &on_stream(&Control::Welcome(welcome())), now);
    let outputs = client_outputs(&mut client, now);
    let Some(Output::Datagram {
        bytes: datagram, ..
    }) = outputs.last()
    else {
        panic!("{outputs:?}");
    };
    let Some(Ok(Frame::Ping(ping))) = Frames::new(datagram).next() else {
        panic!("no PING");
    };
    let mut pong = BytesMut::new();
    Pong { nonce: ping.nonce }.write(&mut pong);
    client.handle_datagram(EXIT, 1, &pong.freeze(), now + MS);
    client.on_carrier(EXIT, 1, facts(1_414), now + MS);
    client_outputs(&mut client, now + MS);
    assert_eq!(client.poll_timeout(), Some((now + 20 * S, "keepalive")));
}

#[test]
fn after_a_sleep_one_question_goes_at_once_and_a_dial_that_waits_is_due() {
    // case B32
    let now = Instant::now();
    let mut client = welcomed_client(welcome(), now);
    client.on_carrier(EXIT, 1, facts(1_414), now);
    client_outputs(&mut client, now);
    client.on_wake(now + S);
    let asked = client_outputs(&mut client, now + S);
    let [
        Output::Datagram {
            bytes: datagram, ..
        },
    ] = asked.as_slice()
    else {
        panic!("{asked:?}");
    };
    assert!(matches!(
        Frames::new(datagram).next(),
        Some(Ok(Frame::Ping(_)))
    ));
    client.on_closed(EXIT, 1, "gone", now + S);
    client_outputs(&mut client, now + S);
    client.on_wake(now + S);
    assert_eq!(client.poll_timeout(), Some((now + S, "dial")));
}
