//! What waits, how much of it, how long, and what becomes of the rest.

use std::time::Instant;

use quell_core::drops::DropReason;
use quell_packet::build::{Header, Segment};
use quell_sim::pair::{End, Way, World, WorldConfig};

use crate::common::*;

/// Bytes of each packet here: 64 of them are 64 KiB.
const LEN: usize = 1_024;

fn small_queue() -> WorldConfig {
    let mut config = WorldConfig::default();
    config.client.path.dgram_queue_bytes_max = 64 * LEN;
    config.provider.path.dgram_queue_bytes_max = 64 * LEN;
    config
}

/// A world in which nothing leaves, and what each end has handed to its carrier already: two datagrams.
fn held() -> World {
    let mut world = World::up(small_queue());
    world.set_carrier(Way::Both, |carrier| {
        carrier.held = true;
        carrier.cwnd_bytes = 1;
    });
    world
}

fn path_of(world: &World, end: End) -> quell_core::status::PathStatus {
    match end {
        End::Client(client) => world.client_status(client).path().unwrap().clone(),
        End::Provider => world.provider_status().sessions[0].path.clone(),
    }
}

#[test]
fn the_queue_takes_its_last_byte_and_refuses_one_packet_more() {
    for end in [End::Client(0), End::Provider] {
        let mut world = held();
        let packet = if end == End::Provider {
            inwards(&world, 0, LEN)
        } else {
            outwards(&world, 0, LEN)
        };
        while path_of(&world, end).queued_bytes == 0 {
            world.inject(end, packet.clone());
        }
        for _ in 1..64 {
            world.inject(end, packet.clone());
        }
        let full = path_of(&world, end);
        assert_eq!(
            (
                full.queued_bytes,
                full.counters.in_flight,
                full.drops.total()
            ),
            (64 * LEN, 64, 0)
        );
        world.inject(end, packet);
        let over = path_of(&world, end);
        assert_eq!(
            (over.queued_bytes, over.drops[DropReason::QueueFull]),
            (64 * LEN, 1)
        );
        assert_eq!(over.drops.total(), 1);
    }
}

#[test]
fn the_device_is_read_while_one_more_of_its_largest_packets_fits() {
    let mut world = held();
    let packet = outwards(&world, 0, LEN);
    // 1,500 bytes, the device's largest packet, fit behind 62 packets and not behind 63.
    while world.client_status(0).path().unwrap().clone().queued_bytes < 62 * LEN {
        assert!(world.wants_packets(0));
        world.inject(End::Client(0), packet.clone());
    }
    // 2,048 bytes are left: one.
    assert!(world.has_room_for(0, 1) && !world.has_room_for(0, 2));
    world.inject(End::Client(0), packet);
    assert!(!world.wants_packets(0));
    world.run_for(100 * MS);
    assert!(world.wants_packets(0), "age made room");
}

#[test]
fn a_packet_waits_a_hundred_milliseconds_and_no_longer() {
    // case B62
    let mut world = held();
    let packet = outwards(&world, 0, LEN);
    while path_of(&world, End::Client(0)).queued_bytes == 0 {
        world.inject(End::Client(0), packet.clone());
    }
    world.run_for(100 * MS - NS);
    assert_eq!(path_of(&world, End::Client(0)).counters.in_flight, 1);
    world.run_for(NS);
    let path = path_of(&world, End::Client(0));
    assert_eq!(
        (path.counters.in_flight, path.drops[DropReason::Aged]),
        (0, 1)
    );
    assert_eq!(world.wakes()["age limit"], 1);
}

#[test]
fn nothing_waits_longer_than_its_age_under_tenfold_overload() {
    // case B62
    let mut world = World::up(WorldConfig::default());
    // 100 kB/s leave, 1 MB/s come.
    world.set_carrier(Way::ToProvider, |carrier| carrier.cwnd_bytes = 2_000);
    let packet = outwards(&world, 0, LEN);
    for _ in 0..2_000 {
        world.inject(End::Client(0), packet.clone());
        world.run_for(MS);
        let queued = world.client_status(0).path().unwrap().clone().queued_bytes;
        assert!(queued <= 101 * LEN, "{queued} bytes wait");
    }
    world.run_for(S);
    let path = world.client_status(0).path().unwrap().clone();
    assert_eq!(path.counters.sent + path.drops[DropReason::Aged], 2_000);
    let carried = world.take_delivered(End::Provider).len();
    assert!(
        (180..=210).contains(&carried),
        "{carried} of about 195 that fit"
    );
}

#[test]
fn what_waits_when_a_session_ends_stays_in_the_books() {
    // case B86
    let mut world = held();
    let packet = outwards(&world, 0, LEN);
    for _ in 0..20 {
        world.inject(End::Client(0), packet.clone());
    }
    let waiting = world
        .client_status(0)
        .path()
        .unwrap()
        .clone()
        .counters
        .in_flight;
    assert!(waiting > 0);
    world.crash_provider();
    world.break_connection(0);
    // What nobody acknowledges does not wait for another connection.
    world.run_for(S / 2);
    let path = world.client_status(0).path().unwrap().clone();
    assert_eq!(path.drops[DropReason::Aged], waiting);
    world.run_for(20 * S);
    let status = world.client_status(0);
    assert_eq!((status.sessions, status.resumes), (2, 0));
    assert_eq!(
        (status.ended.counters.accepted, status.ended.unaccounted()),
        (20, 0)
    );
}

#[test]
fn packets_of_the_world_for_nobody_are_counted_by_reason() {
    // case B86
    let mut world = World::up(WorldConfig::default());
    for destination in [
        "10.85.77.77",
        "198.51.100.1",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        world.inject(End::Provider, packet(ip(WORLD_V4), ip(destination), 100));
    }
    world.inject(
        End::Provider,
        packet(ip(WORLD_V6), ip("fd71:75e1::abcd"), 100),
    );
    world.inject(End::Provider, packet(ip(WORLD_V6), ip("ff02::1"), 100));
    world.inject(End::Provider, vec![0x45; 7]);
    let status = world.provider_status();
    let drops: Vec<_> = status
        .tun_drops
        .iter()
        .map(|(reason, n)| (reason.name(), n))
        .collect();
    assert_eq!(
        drops,
        [("malformed", 1), ("not_unicast", 3), ("no_session", 3)]
    );
    assert_eq!(status.tun_packets, 7);
}

#[test]
fn a_burst_leaves_as_fast_as_the_carrier_has_room_and_nobody_has_to_ask() {
    for end in [End::Client(0), End::Provider] {
        let mut world = World::up(WorldConfig::default());
        // 3 MB/s: 6 kB may stand in the carrier's queue, 50 packets take 17 ms.
        world.set_carrier(Way::Both, |carrier| carrier.cwnd_bytes = 60_000);
        let (packet, other) = match end {
            End::Client(_) => (outwards(&world, 0, LEN), End::Provider),
            End::Provider => (inwards(&world, 0, LEN), End::Client(0)),
        };
        for _ in 0..50 {
            world.inject(end, packet.clone());
        }
        assert!(path_of(&world, end).counters.in_flight > 40);
        world.run_for(30 * MS);
        assert_eq!(world.take_delivered(other).len(), 50);
    }
}

#[test]
fn an_end_that_was_not_drained_is_due_at_once() {
    let now = Instant::now();
    let mut client = welcomed_client(welcome(), now);
    assert_eq!(client.poll_timeout(), Some((now + 20 * S, "keepalive")));
    client.handle_packet(packet(ip("10.85.0.2"), ip(WORLD_V4), 100), now + S);
    assert_eq!(client.poll_timeout(), Some((now + S, "datagram")));
    client.handle_datagram(
        EXIT,
        1,
        &dgram(&packet(ip(WORLD_V4), ip("10.85.0.2"), 100)),
        now + S,
    );
    assert_eq!(client.poll_timeout(), Some((now + S, "output")));
    assert_eq!(client_outputs(&mut client, now + S).len(), 2);
    assert_eq!(client.poll_timeout(), Some((now + 21 * S, "keepalive")));
}

#[test]
fn packs_that_wait_when_a_session_ends_stay_in_the_books() {
    // case B86
    let mut world = World::up(WorldConfig::default());
    world.set_datagram_len_max(700);
    world.set_carrier(Way::ToProvider, |carrier| carrier.cwnd_bytes = 100);
    let packet = outwards(&world, 0, 1_280);
    world.inject(End::Client(0), packet);
    // The first piece arrives; the second one waits for its pace when the connection breaks.
    world.run_for(11 * MS);
    let flow = path_of(&world, End::Provider).flow;
    assert_eq!((flow.receive.held, flow.receive.delivered), (1, 0));
    world.inject_datagram(0, End::Provider, vec![0x3f]);
    let ended = world.provider_status().ended.flow;
    assert_eq!((ended.receive.received, ended.receive.held), (1, 0));
    assert_eq!(ended.receive_drops[DropReason::PathClosed], 1);
    world.run_for(S);
    let ended = world.client_status(0).ended.flow.send;
    assert_eq!((ended.accepted, ended.acked), (2, 0));
    assert_eq!(ended.dropped[DropReason::PathClosed], 2);
}

#[test]
fn a_datagram_that_quic_refuses_was_never_sent() {
    let now = Instant::now();
    let mut client = welcomed_client(welcome(), now);
    let own = ip("10.85.0.2");
    let segment = Header::new(own, ip(WORLD_V4)).tcp(1, 443, &Segment::default(), &[7; 100]);
    client.handle_packet(segment.into(), now);
    client.handle_packet(packet(own, ip(WORLD_V4), 100), now);
    assert_eq!(
        client_outputs(&mut client, now).len(),
        1,
        "both in one datagram"
    );
    client.on_refused(EXIT, 1, now);
    let path = client.status(now).path().unwrap().clone();
    assert_eq!(
        (path.counters.sent, path.drops[DropReason::Refused]),
        (0, 1)
    );
    assert_eq!((path.flow.send.first_sends, path.flow.send.refused), (0, 1));
    assert_eq!(
        (path.counters.datagrams_sent, path.unaccounted),
        (1, 0),
        "the PING of the greeting"
    );
    // A connection that is closed refuses for ever, and tells the same for ever.
    client.on_carrier(EXIT, 1, facts(1_414), now);
    assert_eq!(client_outputs(&mut client, now).len(), 0);
    // What a lane has is said again, what none has is not.
    let mut news = facts(1_414);
    news.cwnd_bytes += 1;
    client.on_carrier(EXIT, 1, news, now);
    assert_eq!(client_outputs(&mut client, now).len(), 1);
    let path = client.status(now).path().unwrap().clone();
    assert_eq!((path.counters.sent, path.flow.send.first_sends), (0, 1));
    assert_eq!(path.unaccounted, 0);
}
