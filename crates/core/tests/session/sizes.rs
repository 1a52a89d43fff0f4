//! Packets larger than the path, and paths that change.

use std::net::IpAddr;

use bytes::Bytes;
use quell_core::config::TcpLane;
use quell_core::drops::DropReason;
use quell_core::status::PathStatus;
use quell_packet::{IpPacket, Ipv4View, TcpView, build, icmp, protocol};
use quell_sim::pair::{End, Event, Way, World, WorldConfig};

use crate::common::*;

/// A world on datagrams of this size whose clients' and provider's devices take jumbo packets.
fn jumbo(datagram_len_max: usize) -> World {
    let mut config = WorldConfig {
        client_mtu_max: 9_000,
        provider_mtu_max: 9_000,
        ..WorldConfig::default()
    };
    // Where TCP goes without a lane, the MTU is what a DGRAM carries.
    config.client.path.lanes.tcp = TcpLane::Dgram;
    config.provider.path.lanes.tcp = TcpLane::Dgram;
    config.to_provider.datagram_len_max = datagram_len_max;
    config.to_client.datagram_len_max = datagram_len_max;
    World::up(config)
}

/// What the packets report as too big: source, destination and MTU of each.
fn too_bigs(packets: &[Bytes]) -> Vec<(IpAddr, IpAddr, u32)> {
    let report = |packet: &Bytes| {
        let view = IpPacket::parse(packet).unwrap();
        (
            view.source(),
            view.destination(),
            icmp::reported_mtu(&view).expect("a packet-too-big"),
        )
    };
    packets.iter().map(report).collect()
}

/// Lets nothing leave the carriers, which then take two datagrams and no more; or lets all go.
fn hold(world: &mut World, held: bool) {
    world.set_carrier(Way::Both, |carrier| {
        carrier.held = held;
        carrier.cwnd_bytes = if held { 1 } else { 1 << 20 };
    });
}

fn path_of(world: &World, end: End) -> PathStatus {
    match end {
        End::Client(client) => world.client_status(client).path().unwrap().clone(),
        End::Provider => world.provider_status().sessions[0].path.clone(),
    }
}

#[test]
fn one_packet_too_big_draws_one_packet_too_big_with_the_mtu_that_fits() {
    // case B45: v6 and v4, from the user and from the world.
    for (datagram_len_max, mtu) in [
        (1_162, 1_280),
        (1_283, 1_280),
        (1_284, 1_281),
        (1_303, 1_300),
    ] {
        let mut world = jumbo(datagram_len_max);
        let (v4, v6) = inner(&world, 0);
        for (own, other, gateway) in [
            (v4, ip(WORLD_V4), ip("10.85.0.1")),
            (v6, ip(WORLD_V6), ip("fd71:75e1::1")),
        ] {
            world.inject(End::Client(0), packet(own, other, 1_440));
            world.run_for(S);
            let events = world.take_events();
            let [(_, Event::Deliver(End::Client(0), told))] = events.as_slice() else {
                panic!("{events:?}");
            };
            assert_eq!(too_bigs(std::slice::from_ref(told)), [(gateway, own, mtu)]);

            world.inject(End::Provider, packet(other, own, 1_440));
            world.run_for(S);
            let events = world.take_events();
            let [(_, Event::Deliver(End::Provider, told))] = events.as_slice() else {
                panic!("{events:?}");
            };
            // From the client's address: the world's router would drop it as spoofed otherwise.
            assert_eq!(too_bigs(std::slice::from_ref(told)), [(own, other, mtu)]);
        }
        for end in [End::Client(0), End::Provider] {
            let path = path_of(&world, end);
            assert_eq!(
                (
                    path.counters.icmp_made,
                    path.drops[DropReason::TooBig],
                    path.drops.total()
                ),
                (2, 2, 2)
            );
        }
    }
}

#[test]
fn a_packet_of_exactly_the_mtu_crosses_and_one_byte_more_is_told() {
    for datagram_len_max in [300, 1_162, 1_283, 1_284, 1_414, 1_452, 4_000] {
        let mut world = jumbo(datagram_len_max);
        let mtu = usize::from(path_of(&world, End::Client(0)).inner_mtu);
        assert_eq!(mtu, 1_280.max(datagram_len_max - 3), "{datagram_len_max}");
        let (v4, v6) = inner(&world, 0);
        for (own, other) in [(v4, ip(WORLD_V4)), (v6, ip(WORLD_V6))] {
            let fits = packet(own, other, mtu);
            world.inject(End::Client(0), fits.clone());
            world.run_for(S);
            assert_eq!(world.take_delivered(End::Provider), [fits]);
            world.inject(End::Client(0), packet(own, other, mtu + 1));
            world.run_for(S);
            assert_eq!(too_bigs(&world.take_delivered(End::Client(0))).len(), 1);
        }
    }
}

#[test]
fn the_ipv6_minimum_always_crosses() {
    for datagram_len_max in (300..1_300).step_by(37).chain([1_162, 1_250, 1_282, 1_283]) {
        let mut world = jumbo(datagram_len_max);
        let (_, v6) = inner(&world, 0);
        let packet = packet(v6, ip(WORLD_V6), 1_280);
        for _ in 0..3 {
            world.inject(End::Client(0), packet.clone());
        }
        world.run_for(S);
        assert_eq!(
            world.take_delivered(End::Provider),
            vec![packet; 3],
            "{datagram_len_max}"
        );
        let path = path_of(&world, End::Client(0));
        let in_pieces = if datagram_len_max < 1_283 { 3 } else { 0 };
        assert_eq!(
            (path.counters.sent, path.counters.laned, path.drops.total()),
            (3 - in_pieces, in_pieces, 0)
        );
        assert_eq!(path_of(&world, End::Provider).flow.receive.held, 0);
    }
}

/// Puts the IPv4 fragments of one packet together.
fn defragment(fragments: &[Bytes]) -> Vec<u8> {
    let mut views: Vec<_> = fragments
        .iter()
        .map(|bytes| match IpPacket::parse(bytes).unwrap() {
            IpPacket::V4(view) => view,
            IpPacket::V6(_) => panic!("IPv6 is never fragmented on the way"),
        })
        .collect();
    views.sort_by_key(Ipv4View::fragment_offset);
    let mut payload = Vec::new();
    for view in &views {
        assert_eq!(usize::from(view.fragment_offset()), payload.len(), "a gap");
        payload.extend_from_slice(view.payload());
    }
    payload
}

#[test]
fn ipv4_that_may_be_fragmented_is_and_comes_together_again() {
    for (datagram_len_max, len) in [
        (1_414, 1_412),
        (1_414, 4_000),
        (1_162, 1_281),
        (1_162, 9_000),
        (300, 2_000),
    ] {
        let mut world = jumbo(datagram_len_max);
        let (v4, _) = inner(&world, 0);
        let whole = fragmentable(v4, ip(WORLD_V4), len);
        world.inject(End::Client(0), whole.clone());
        world.run_for(S);
        let fragments = world.take_delivered(End::Provider);
        assert!(fragments.len() >= 2, "{len} on {datagram_len_max}");
        assert_eq!(
            defragment(&fragments),
            IpPacket::parse(&whole).unwrap().payload()
        );
        let path = path_of(&world, End::Client(0));
        assert_eq!(
            (
                path.counters.accepted,
                path.counters.sent + path.counters.laned,
                path.drops.total()
            ),
            (fragments.len() as u64, fragments.len() as u64, 0)
        );
        assert_eq!(
            path.counters.icmp_made, 0,
            "nobody is told what he need not know"
        );
    }
}

#[test]
fn each_packet_that_a_shrinking_path_catches_draws_a_packet_too_big() {
    // case B44
    let mut world = jumbo(1_412);
    let (v4, v6) = inner(&world, 0);
    hold(&mut world, true);
    for (own, other) in [(v4, ip(WORLD_V4)), (v6, ip(WORLD_V6))] {
        for _ in 0..10 {
            world.inject(End::Client(0), packet(own, other, 1_409));
        }
    }
    let handed = path_of(&world, End::Client(0)).counters.sent;
    assert_eq!(handed, 2, "the carrier took two, 18 wait");
    world.take_events();
    world.set_datagram_len_max(1_162);
    hold(&mut world, false);
    world.run_for(50 * MS);
    let events = world.take_events();
    assert_eq!(
        events[0].1,
        Event::Mtu(0, 1_280),
        "the device learns it first: {events:?}"
    );
    let told: Vec<_> = events[1..]
        .iter()
        .map(|(_, event)| {
            let Event::Deliver(End::Client(0), packet) = event else {
                panic!("{event:?}");
            };
            packet.clone()
        })
        .collect();
    let told = too_bigs(&told);
    // Each that waited, and once the flow of the two that were on their way.
    assert_eq!(told.len(), 18 + 1);
    assert!(told.iter().all(|(_, _, mtu)| *mtu == 1_280));
    let path = path_of(&world, End::Client(0));
    assert_eq!(
        (
            path.drops[DropReason::TooBig],
            path.drops.total(),
            path.counters.in_flight
        ),
        (18, 18, 0)
    );
    // What quinn held is lost with its queue, as quinn does it.
    let fate = world.fates()[0];
    assert_eq!(fate.lost.packets, 2);
    // Each packet after that is told at once, and one that fits crosses.
    world.inject(End::Client(0), packet(v6, ip(WORLD_V6), 1_409));
    assert_eq!(too_bigs(&world.take_delivered(End::Client(0))).len(), 1);
    world.inject(End::Client(0), packet(v6, ip(WORLD_V6), 1_280));
    world.run_for(S);
    assert_eq!(world.take_delivered(End::Provider).len(), 1);
}

#[test]
fn a_packet_half_sent_when_the_path_shrinks_is_cut_anew_and_arrives() {
    let mut world = jumbo(1_162);
    let (v4, _) = inner(&world, 0);
    hold(&mut world, true);
    // One whole packet and the first of two pieces fill the carrier's two datagrams.
    world.inject(End::Client(0), packet(v4, ip(WORLD_V4), 1_100));
    world.inject(End::Client(0), packet(v4, ip(WORLD_V4), 1_280));
    let small = packet(v4, ip(WORLD_V4), 200);
    world.inject(End::Client(0), small.clone());
    let path = path_of(&world, End::Client(0));
    assert_eq!(
        (path.flow.send.first_sends, path.counters.in_flight),
        (1, 1)
    );
    world.set_datagram_len_max(300);
    hold(&mut world, false);
    world.run_for(50 * MS);
    let whole = packet(v4, ip(WORLD_V4), 1_280);
    assert_eq!(world.take_delivered(End::Provider), [small, whole]);
    let path = path_of(&world, End::Client(0));
    let send = path.flow.send;
    // Two of up to 1,162 bytes, then five of up to 300.
    assert_eq!((send.accepted, send.given_up(), send.in_flight), (7, 2, 0));
    assert_eq!((send.cut_anew, send.too_large), (2, 0));
}

#[test]
fn a_sender_that_respects_the_mtu_is_never_told_that_it_is_too_big() {
    // case B48: UDP payloads of 1,200 to 1,500 bytes, less QUIC's 38.
    for payload in 1_200..=1_500 {
        let mut world = jumbo(payload - 38);
        let mtu = usize::from(path_of(&world, End::Client(0)).inner_mtu);
        let (v4, v6) = inner(&world, 0);
        for (own, other) in [(v4, ip(WORLD_V4)), (v6, ip(WORLD_V6))] {
            for len in [mtu, mtu - 1, mtu / 2] {
                world.inject(End::Client(0), packet(own, other, len));
                world.inject(End::Provider, packet(other, own, len));
            }
        }
        world.run_for(S);
        for end in [End::Client(0), End::Provider] {
            let path = path_of(&world, end);
            assert_eq!(
                (
                    path.drops.total(),
                    path.counters.icmp_made,
                    path.counters.sent + path.counters.laned
                ),
                (0, 0, 6),
                "{payload}"
            );
        }
    }
}

#[test]
fn the_device_follows_the_path_and_never_passes_its_own_bound() {
    let mut world = World::up(WorldConfig::default());
    let mut mtus = Vec::new();
    for len in [1_414, 1_300, 1_283, 1_282, 300, 1_503, 1_504, 8_000] {
        world.set_datagram_len_max(len);
        for (_, event) in world.take_events() {
            let Event::Mtu(0, mtu) = event else {
                panic!("{event:?}");
            };
            mtus.push(mtu);
        }
    }
    // 1,414 is what it was; a pack adds 15 bytes; the IPv6 minimum is carried in pieces if need be.
    assert_eq!(mtus, [1_285, 1_280, 1_488, 1_489, 1_500]);
}

#[test]
fn a_provider_with_a_smaller_device_bounds_its_clients() {
    for (provider_mtu_max, mtu) in [(1_399, 1_399), (1_398, 1_398), (1_000, 1_280)] {
        let mut world = World::pair(WorldConfig {
            provider_mtu_max,
            ..WorldConfig::default()
        });
        world.run_for(S);
        assert_eq!(
            world.client_status(0).path().unwrap().clone().inner_mtu,
            mtu
        );
    }
}

#[test]
fn errors_are_limited_in_rate_and_never_answer_errors() {
    // case B42
    let mut world = World::up(WorldConfig::default());
    let (v4, _) = inner(&world, 0);
    for _ in 0..201 {
        world.inject(End::Client(0), packet(v4, ip(WORLD_V4), 1_440));
    }
    let path = path_of(&world, End::Client(0));
    assert_eq!(
        (
            path.counters.icmp_made,
            path.counters.icmp_limited,
            path.drops[DropReason::TooBig]
        ),
        (200, 1, 201)
    );
    world.run_for(10 * MS);
    world.inject(End::Client(0), packet(v4, ip(WORLD_V4), 1_440));
    assert_eq!(path_of(&world, End::Client(0)).counters.icmp_made, 201);
    world.run_for(10 * S);
    world.take_events();
    let error =
        build::Header::new(v4, ip(WORLD_V4)).icmp(icmp::V4_TIME_EXCEEDED, 0, [0; 4], &[0; 1_412]);
    world.inject(End::Client(0), error);
    assert_eq!(world.take_events(), []);
    let path = path_of(&world, End::Client(0));
    assert_eq!(
        (path.counters.icmp_made, path.counters.icmp_limited),
        (201, 1)
    );
}

fn mss(packet: &[u8]) -> u16 {
    let view = IpPacket::parse(packet).unwrap();
    assert_eq!(view.protocol(), protocol::TCP);
    TcpView::parse(view.payload()).unwrap().mss().unwrap()
}

#[test]
fn the_mss_of_a_syn_is_lowered_where_it_comes_out() {
    for (datagram_len_max, mtu) in [(1_162, 1_280), (1_414, 1_399)] {
        let mut world = World::up(WorldConfig::default());
        world.set_datagram_len_max(datagram_len_max);
        world.take_events();
        let (v4, v6) = inner(&world, 0);
        for (own, other, headers) in [(v4, ip(WORLD_V4), 40), (v6, ip(WORLD_V6), 60)] {
            let fits = mtu - headers;
            for (offered, expected) in [(fits, fits), (fits + 1, fits), (8_960, fits), (536, 536)] {
                let out = build::tcp_syn((own, 1).into(), (other, 2).into(), offered);
                world.inject(End::Client(0), out);
                world.run_for(S);
                assert_eq!(
                    world
                        .take_delivered(End::Provider)
                        .iter()
                        .map(|p| mss(p))
                        .collect::<Vec<_>>(),
                    [expected]
                );
                let back = build::tcp_syn((other, 2).into(), (own, 1).into(), offered);
                world.inject(End::Provider, back);
                world.run_for(S);
                assert_eq!(
                    world
                        .take_delivered(End::Client(0))
                        .iter()
                        .map(|p| mss(p))
                        .collect::<Vec<_>>(),
                    [expected]
                );
            }
        }
    }
}
