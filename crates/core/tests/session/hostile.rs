//! Input that nobody vouched for: at the devices, in datagrams, from peers that lie.

use std::net::IpAddr;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use quell_core::config::ProviderConfig;
use quell_core::drops::{DropReason, Drops};
use quell_packet::build::{self, Header};
use quell_packet::{IpPacket, protocol};
use quell_sim::pair::{End, World, WorldConfig};
use quell_wire::frame::{Ack, AckRanges, Credit, Lane, Pack, PackFlags, Pong, Skip};
use quell_wire::registry::ErrorCode;

use crate::common::*;

fn names(drops: &Drops) -> Vec<(&'static str, u64)> {
    drops.iter().map(|(reason, n)| (reason.name(), n)).collect()
}

/// A world in which the client with this number is up, and so is one more.
fn two_clients() -> World {
    let mut world = World::up(WorldConfig::default());
    world.add_client(2);
    world.run_for(10 * S);
    world.take_events();
    world
}

#[test]
fn a_client_cannot_send_from_an_address_that_is_not_its_own() {
    // case B78
    let mut world = two_clients();
    let (own_v4, own_v6) = inner(&world, 0);
    let (other_v4, other_v6) = inner(&world, 1);
    let gateway = ip("10.85.0.1");
    for source in [ip("198.51.100.9"), other_v4, gateway] {
        world.inject_datagram(0, End::Provider, dgram(&packet(source, ip(WORLD_V4), 100)));
    }
    for source in [ip("2001:db8::9"), other_v6, ip("fe80::1")] {
        world.inject_datagram(0, End::Provider, dgram(&packet(source, ip(WORLD_V6), 100)));
    }
    assert_eq!(world.take_events(), []);
    let status = world.provider_status();
    assert_eq!(
        names(&status.sessions[0].received_drops),
        [("source_not_assigned", 6)]
    );
    assert_eq!(names(&status.sessions[1].received_drops), []);
    // The destination is not what is asked: its own packets do pass.
    for (source, destination) in [(own_v4, ip(WORLD_V4)), (own_v6, ip(WORLD_V6))] {
        let packet = packet(source, destination, 100);
        world.inject_datagram(0, End::Provider, dgram(&packet));
        assert_eq!(world.take_delivered(End::Provider), [packet]);
    }
}

#[test]
fn a_client_that_spoofs_is_stopped_at_its_own_end_too() {
    // case B78
    let mut world = World::up(WorldConfig::default());
    for (source, destination) in [("192.168.1.5", WORLD_V4), ("fe80::5", WORLD_V6)] {
        world.inject(End::Client(0), packet(ip(source), ip(destination), 100));
    }
    assert_eq!(
        names(&world.client_status(0).tun_drops),
        [("source_not_assigned", 2)]
    );
}

#[test]
fn packets_that_would_carry_the_tunnel_in_itself_go_nowhere() {
    // case B38
    let mut world = World::up(WorldConfig::default());
    let (v4, v6) = inner(&world, 0);
    world.set_underlay(0, vec![ip("203.0.113.5"), ip("2001:db8:5::5")]);
    let sent = world.fates()[0].sent.datagrams;
    for (source, destination) in [
        (v4, v4),
        (v6, v6),
        (v4, ip("203.0.113.5")),
        (v6, ip("2001:db8:5::5")),
    ] {
        world.inject(End::Client(0), packet(source, destination, 100));
    }
    world.run_for(S);
    assert_eq!(
        names(&world.client_status(0).tun_drops),
        [("own_address", 2), ("underlay_address", 2)]
    );
    assert_eq!(world.fates()[0].sent.datagrams, sent, "0 egress");
    assert_eq!(world.take_events(), []);
    // A neighbour of the underlay's address is like any other host.
    world.inject(End::Client(0), packet(v4, ip("203.0.113.6"), 100));
    world.run_for(S);
    assert_eq!(world.take_delivered(End::Provider).len(), 1);
}

#[test]
fn what_no_exit_can_forward_is_dropped_at_both_ends() {
    let mut world = World::up(WorldConfig::default());
    let (v4, v6) = inner(&world, 0);
    let nowhere = [
        (v4, "224.0.0.251"),
        (v4, "255.255.255.255"),
        (v4, "0.0.0.0"),
        (v6, "ff02::1"),
        (v6, "::"),
    ];
    for (source, destination) in nowhere {
        let packet = packet(source, ip(destination), 100);
        world.inject(End::Client(0), packet.clone());
        world.inject_datagram(0, End::Provider, dgram(&packet));
    }
    assert_eq!(
        names(&world.client_status(0).tun_drops),
        [("not_unicast", 5)]
    );
    assert_eq!(
        names(&world.provider_status().sessions[0].received_drops),
        [("not_unicast", 5)]
    );
    assert_eq!(world.take_events(), []);
}

/// Hands `bytes` to both devices and, inside DGRAM frames, to both ends; whether they are a packet at all.
fn hand_everywhere(world: &mut World, bytes: &[u8]) -> bool {
    world.inject(End::Client(0), bytes.to_vec());
    world.inject(End::Provider, bytes.to_vec());
    world.inject_datagram(0, End::Client(0), dgram(bytes));
    world.inject_datagram(0, End::Provider, dgram(bytes));
    IpPacket::parse(bytes).is_ok()
}

/// Packets dropped as malformed at the four places.
fn malformed(world: &World) -> [u64; 4] {
    let (client, provider) = (world.client_status(0), world.provider_status());
    let session = &provider.sessions[0];
    [
        client.tun_drops,
        provider.tun_drops,
        client.received_drops,
        session.received_drops,
    ]
    .map(|drops| drops[DropReason::Malformed])
}

fn samples(v4: IpAddr, v6: IpAddr) -> Vec<Vec<u8>> {
    const CHAIN: &[(u8, &[u8])] = &[
        (protocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0]),
        (protocol::DESTINATION_OPTIONS, &[0; 22]),
    ];
    let four = Header {
        options: &[7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0],
        ..Header::new(v4, ip(WORLD_V4))
    };
    let six = Header {
        extensions: CHAIN,
        ..Header::new(v6, ip(WORLD_V6))
    };
    vec![
        four.udp(1, 2, &[0; 20]),
        six.udp(1, 2, &[0; 20]),
        build::tcp_syn((v4, 1).into(), (ip(WORLD_V4), 2).into(), 8_960),
        build::tcp_syn((v6, 1).into(), (ip(WORLD_V6), 2).into(), 8_960),
        build::icmp_echo(v4, ip(WORLD_V4), 1, 1, &[0; 8]),
        build::icmp_echo(v6, ip(WORLD_V6), 1, 1, &[0; 8]),
    ]
}

#[test]
fn every_prefix_of_a_packet_is_malformed_everywhere() {
    // case B79
    let mut world = World::up(WorldConfig::default());
    let (v4, v6) = inner(&world, 0);
    let mut expected = 0;
    for packet in samples(v4, v6) {
        for len in 0..packet.len() {
            assert!(
                !hand_everywhere(&mut world, &packet[..len]),
                "{len} of {packet:?}"
            );
            expected += 1;
        }
        assert!(hand_everywhere(&mut world, &packet));
    }
    assert_eq!(malformed(&world), [expected; 4]);
    assert_eq!(world.client_status(0).state, "up");
    assert_eq!(closes(&world.take_events()), []);
}

#[test]
fn every_header_length_with_every_length_is_judged_alike_everywhere() {
    // case B79
    let mut world = World::up(WorldConfig::default());
    let (v4, _) = inner(&world, 0);
    let whole = packet(v4, ip(WORLD_V4), 80);
    let (mut expected, mut sound) = (0, 0);
    for ihl in 0..16_u8 {
        for len in 0..=80 {
            // The total length says what is there, then 80 whatever is there, then one byte more than there is.
            for total in [len, 80, len + 1] {
                let mut bytes = whole.to_vec();
                bytes[0] = 0x40 | ihl;
                bytes[2..4].copy_from_slice(&u16::try_from(total).unwrap().to_be_bytes());
                bytes.truncate(len);
                if hand_everywhere(&mut world, &bytes) {
                    sound += 1;
                } else {
                    expected += 1;
                }
            }
        }
    }
    assert_eq!(malformed(&world), [expected; 4]);
    assert_eq!(sound + expected, 16 * 81 * 3);
    assert!(sound > 400, "{sound} sound ones are no proof");
    assert_eq!(world.client_status(0).state, "up");
}

#[test]
fn other_versions_of_ip_are_malformed() {
    let mut world = World::up(WorldConfig::default());
    for version in (0..16_u8).filter(|version| ![4, 6].contains(version)) {
        hand_everywhere(&mut world, &[version << 4 | 5; 60]);
    }
    assert_eq!(malformed(&world), [14; 4]);
}

/// A datagram that closes the connection, and with which words.
fn breaches() -> Vec<(Bytes, ErrorCode, &'static str)> {
    let of = |write: &dyn Fn(&mut BytesMut)| {
        let mut bytes = BytesMut::new();
        write(&mut bytes);
        bytes.freeze()
    };
    let pack = |lane, first| Pack {
        lane,
        number: 8_191,
        tx: 1,
        flags: PackFlags {
            first,
            last: true,
            unordered: false,
        },
        dep: 0,
        data: b"x",
    };
    let beyond = Pack {
        number: 8_192,
        ..pack(Lane::FLOW, true)
    };
    let message_zero = Pack {
        number: 0,
        ..pack(Lane::MESSAGE, false)
    };
    let ack = Ack {
        lane: Lane::FLOW,
        cumulative: 1,
        largest_tx: 1,
        delay_us: 0,
        dup_tx: None,
        credit: Credit::FIRST,
        ranges: AckRanges::new(&[]),
    };
    let skip = Skip {
        lane: Lane::MESSAGE,
        up_to: 0,
        bytes_up_to: 0,
    };
    vec![
        (Bytes::new(), ErrorCode::MalformedFrame, "an empty datagram"),
        (
            Bytes::from_static(&[0x3f]),
            ErrorCode::MalformedFrame,
            "unknown frame type 0x3f",
        ),
        (
            Bytes::from_static(&[4, 9, 1]),
            ErrorCode::MalformedFrame,
            "DGRAM: the bytes end in `bytes`",
        ),
        (
            Bytes::from_static(&[5, 1, 2]),
            ErrorCode::MalformedFrame,
            "PING: the bytes end in `nonce`",
        ),
        (
            of(&|b| ack.write(b)),
            ErrorCode::AckedUnsent,
            "number 0 was never sent",
        ),
        (
            of(&|b| skip.write(b)),
            ErrorCode::WrongState,
            "SKIP up to 0, and 1 did not come",
        ),
        (
            of(&|b| beyond.write(b)),
            ErrorCode::NumberOutOfWindow,
            "number 8192, the window is 8192 from 0 on",
        ),
        (
            of(&|b| message_zero.write(b)),
            ErrorCode::WrongState,
            "packs 0 to 0 make no message",
        ),
    ]
}

#[test]
fn a_breach_closes_the_connection_and_names_itself_at_either_end() {
    for (datagram, code, words) in breaches() {
        for at in [End::Client(0), End::Provider] {
            let mut world = World::up(WorldConfig::default());
            world.inject_datagram(0, at, datagram.clone());
            let closed = closes(&world.take_events());
            assert_eq!(closed.len(), 1, "{words}");
            let (end, violation) = &closed[0];
            assert_eq!(
                (*end, violation.code, violation.words.as_str()),
                (at, code, words)
            );
            // Both ends learn of it, and a new session stands some seconds later.
            world.run_for(10 * S);
            assert_eq!(world.client_status(0).state, "up");
            assert_eq!(world.provider_status().sessions.len(), 1);
        }
    }
}

#[test]
fn what_stood_before_a_breach_in_its_datagram_stands() {
    let mut world = World::up(WorldConfig::default());
    let packet = outwards(&world, 0, 100);
    let datagram = [&dgram(&packet)[..], &[0x3f]].concat();
    world.inject_datagram(0, End::Provider, datagram);
    assert_eq!(world.take_delivered(End::Provider), [packet]);
}

#[test]
fn a_pong_to_nothing_and_pieces_of_nothing_are_borne_and_bounded() {
    let mut world = World::up(WorldConfig::default());
    let mut pong = BytesMut::new();
    Pong { nonce: 4 }.write(&mut pong);
    world.inject_datagram(0, End::Provider, pong.freeze());
    for number in 0..4_096 {
        let mut datagram = BytesMut::with_capacity(64);
        let flags = PackFlags {
            first: false,
            last: false,
            unordered: true,
        };
        let piece = Pack {
            lane: Lane::FLOW,
            number: number * 2,
            tx: 1,
            flags,
            dep: 0,
            data: b"never whole",
        };
        piece.write(&mut datagram);
        datagram.put_slice(&[]);
        world.inject_datagram(0, End::Provider, datagram.freeze());
    }
    let flow = world.provider_status().sessions[0].path.flow.receive;
    // Number 0 cannot be a middle piece of anything: it is dropped. For the rest: what credit admitted is never refused, and it is little.
    assert_eq!((flow.held, flow.held_bytes), (4_095, 11 * 4_095));
    assert_eq!(closes(&world.take_events()), []);
    let beyond = Pack {
        lane: Lane::FLOW,
        number: 8_193,
        tx: 1,
        flags: PackFlags::WHOLE,
        dep: 0,
        data: b"beyond",
    };
    let mut datagram = BytesMut::new();
    beyond.write(&mut datagram);
    world.inject_datagram(0, End::Provider, datagram.freeze());
    let closed = closes(&world.take_events());
    assert_eq!(closed[0].1.code, ErrorCode::NumberOutOfWindow);
}

#[test]
fn a_peer_that_takes_no_datagram_worth_the_name_starves_itself_alone() {
    // Its word (RFC 9221 §3) is our limit: below a PONG there is nothing that could be said.
    for len in [0, 1, 8, 9, 43] {
        let mut world = World::up(WorldConfig::default());
        world.set_datagram_len_max(len);
        let before = world.fates()[1].sent.pongs;
        world.inject_datagram(0, End::Provider, pings(3));
        let packet = inwards(&world, 0, 100);
        world.inject(End::Provider, packet);
        world.run_for(S);
        let path = &world.provider_status().sessions[0].path;
        assert_eq!(names(&path.drops), [("too_big", 1)], "{len}");
        world.set_datagram_len_max(1_414);
        world.run_for(S);
        assert_eq!(
            world.fates()[1].sent.pongs - before,
            3,
            "owed for all that time"
        );
    }
}

#[test]
fn datagrams_of_a_client_that_was_not_welcomed_are_counted_and_not_looked_at() {
    let now = Instant::now();
    let mut provider = lone_provider(ProviderConfig::default(), "10.85.0.0/16");
    let id = provider.on_connection(key(1), now).unwrap();
    provider.handle_datagram(id, &Bytes::from_static(&[0x3f]), now);
    assert_eq!(session_outputs(&mut provider, id, now), []);
    assert_eq!(provider.status().early_datagrams, 1);
}
