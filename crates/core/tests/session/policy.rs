//! Who may be spoken to through a provider, from the client's packet to what it hears (DESIGN §8).
//!
//! The worlds check their books after every step: what is denied is dropped with a reason, the classes sum to it, and the
//! answers are in the books of the path that brings them. The rules themselves are tested beside the rules.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use quell_core::config::{EgressRulesConfig, ProviderConfig};
use quell_core::drops::DropReason;
use quell_core::provider::rules::{Asked, Class, HostAddresses, Port};
use quell_packet::build::{self, Header, Segment};
use quell_packet::tcp::flags;
use quell_packet::{IcmpView, IpPacket, TcpView, protocol};
use quell_sim::pair::{End, Event, Way, World, WorldConfig};
use quell_wire::control::{Control, FiveTuple, FlowClose};

use crate::common::*;

/// Destinations that every provider denies, one a class and spelling.
const DENIED_V4: [(&str, Class); 7] = [
    ("169.254.169.254", Class::Metadata),
    ("127.0.0.1", Class::Loopback),
    ("10.85.0.1", Class::OwnAddress),
    ("10.85.0.77", Class::Clients),
    ("192.168.0.1", Class::Private),
    ("169.254.0.1", Class::LinkLocal),
    ("198.18.0.1", Class::Reserved),
];
const DENIED_V6: [(&str, Class); 6] = [
    ("fd00:ec2::254", Class::Metadata),
    ("::ffff:127.0.0.1", Class::Loopback),
    ("fd71:75e1::1", Class::OwnAddress),
    ("fd71:75e1::77", Class::Clients),
    ("64:ff9b::10.0.0.1", Class::Private),
    ("2002:a9fe:1::1", Class::LinkLocal),
];

fn rules(allow: &[&str], deny: &[&str]) -> EgressRulesConfig {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    EgressRulesConfig {
        allow: rules(allow),
        deny: rules(deny),
        ..EgressRulesConfig::default()
    }
}

fn up(allow: &[&str], deny: &[&str]) -> World {
    let provider = ProviderConfig {
        egress_rules: rules(allow, deny),
        ..ProviderConfig::default()
    };
    World::up(WorldConfig {
        provider,
        ..WorldConfig::default()
    })
}

fn segment(source: IpAddr, destination: IpAddr, flags: u8) -> Bytes {
    let segment = Segment {
        sequence: 100,
        acknowledgement: 900,
        flags,
        ..Segment::default()
    };
    let header = Header::new(source, destination);
    header.tcp(4_000, 443, &segment, b"").into()
}

/// What comes out at the provider and back at the client when the client sends this.
fn send(world: &mut World, packet: impl Into<Bytes>) -> (Vec<Bytes>, Vec<Bytes>) {
    world.inject(End::Client(0), packet);
    world.run_for(Duration::from_secs(2));
    delivered(world)
}

/// What was handed to the egress, and what to the client's device.
fn delivered(world: &mut World) -> (Vec<Bytes>, Vec<Bytes>) {
    let (mut out, mut back) = (Vec::new(), Vec::new());
    for (_, event) in world.take_events() {
        if let Event::Deliver(to, packet) = event {
            match to {
                End::Provider => out.push(packet),
                End::Client(_) => back.push(packet),
            }
        }
    }
    (out, back)
}

fn denied(world: &World, class: Class) -> u64 {
    world.provider_status().egress.denied[class]
}

fn v4_or_v6(world: &World, destination: IpAddr) -> IpAddr {
    let (v4, v6) = inner(world, 0);
    if destination.is_ipv4() { v4 } else { v6 }
}

// DESIGN §8
#[test]
fn what_is_denied_goes_nowhere_and_is_told() {
    let mut world = up(&[], &[]);
    let mut total = 0;
    for (text, class) in DENIED_V4.into_iter().chain(DENIED_V6) {
        let destination = ip(text);
        let own = v4_or_v6(&world, destination);
        let before = denied(&world, class);
        let (out, told) = send(&mut world, segment(own, destination, flags::SYN));
        assert_eq!(out, [] as [Bytes; 0], "{text}");
        let [reset] = &told[..] else {
            panic!("{text}: {told:?}");
        };
        let view = IpPacket::parse(reset).unwrap();
        let tcp = TcpView::parse(view.payload()).unwrap();
        assert!(tcp.is_rst() && tcp.acknowledgement() == 101, "{text}");
        assert_eq!((view.source(), view.destination()), (destination, own));

        let (out, told) = send(&mut world, packet(own, destination, 100));
        assert_eq!(out, [] as [Bytes; 0], "{text}");
        let [error] = &told[..] else {
            panic!("{text}: {told:?}");
        };
        let view = IpPacket::parse(error).unwrap();
        let message = IcmpView::parse(view.payload()).unwrap();
        let prohibited = if own.is_ipv4() { (3, 13) } else { (1, 1) };
        assert_eq!((message.kind(), message.code()), prohibited, "{text}");
        assert_eq!(denied(&world, class), before + 2, "{text}");
        total += 2;
    }
    let status = world.provider_status();
    let session = &status.sessions[0];
    assert_eq!(session.received_drops[DropReason::Denied], total);
    assert_eq!((session.egress.denials_told, session.delivered), (total, 0));
    assert_eq!(status.egress, session.egress);
    // The world is as open as ever.
    for destination in [WORLD_V4, WORLD_V6].map(ip) {
        let packet = packet(v4_or_v6(&world, destination), destination, 100);
        assert_eq!(send(&mut world, packet.clone()).0, [packet]);
    }
}

// DESIGN §8
#[test]
fn the_gateway_is_pinged_through_either_egress_and_reached_by_nothing_else() {
    let mut world = up(&[], &[]);
    let (v4, v6) = inner(&world, 0);
    for (own, gateway) in [(v4, ip("10.85.0.1")), (v6, ip("fd71:75e1::1"))] {
        let ping = build::icmp_echo(own, gateway, 7, 1, &[9; 1_000]);
        let (out, back) = send(&mut world, ping);
        assert_eq!(out, [] as [Bytes; 0]);
        let view = IpPacket::parse(&back[0]).unwrap();
        assert_eq!((view.source(), view.destination()), (gateway, own));
        assert_eq!(view.payload()[8..], [9; 1_000]);
        assert_eq!(back.len(), 1);
    }
    let status = world.provider_status();
    assert_eq!(status.egress.echoes_answered, 2);
    assert_eq!(status.sessions[0].received_drops.total(), 0);
    world.set_egress_rules(rules(&["10.85.0.1"], &[]));
    let ping = build::icmp_echo(v4, ip("10.85.0.1"), 7, 1, b"");
    let (out, back) = send(&mut world, ping.clone());
    assert_eq!((out, back.len()), (vec![Bytes::from(ping)], 0));
}

// DESIGN §8
#[test]
fn a_changed_rule_holds_for_connections_that_stand() {
    let mut world = up(&[], &[]);
    let (own, _) = inner(&world, 0);
    let data = segment(own, ip(WORLD_V4), flags::ACK | flags::PSH);
    assert_eq!(
        send(&mut world, data.clone()).0,
        std::slice::from_ref(&data)
    );
    world.set_egress_rules(rules(&[], &["192.0.2.0/24"]));
    let (out, told) = send(&mut world, data.clone());
    assert_eq!(out, [] as [Bytes; 0]);
    let view = IpPacket::parse(&told[0]).unwrap();
    let tcp = TcpView::parse(view.payload()).unwrap();
    // Where the connection's end expects it, so that it believes it (RFC 5961 §3.2).
    assert!(tcp.is_rst() && tcp.sequence() == 900);
    world.set_egress_rules(rules(&["0.0.0.0/0"], &[]));
    assert_eq!(send(&mut world, data.clone()).0, [data]);
    assert_eq!(denied(&world, Class::Operator), 1);
}

// DESIGN §8
#[test]
fn the_hosts_addresses_are_denied_for_as_long_as_it_has_them() {
    let mut world = up(&[], &[]);
    let host = |own: &str, link: &str| HostAddresses {
        own: vec![ip(own)],
        on_link: vec![link.parse().unwrap()],
    };
    let passes = |world: &mut World, destination: &str| {
        let destination = ip(destination);
        let packet = packet(v4_or_v6(world, destination), destination, 100);
        !send(world, packet).0.is_empty()
    };
    for (own, link, neighbour, beyond) in [
        (
            "203.0.113.9",
            "203.0.113.8/29",
            "203.0.113.15",
            "203.0.113.16",
        ),
        (
            "2001:db8:9::9",
            "2001:db8:9::/64",
            "2001:db8:9::1",
            "2001:db8:9:1::1",
        ),
    ] {
        assert!(passes(&mut world, own) && passes(&mut world, neighbour));
        world.set_host(host(own, link));
        assert!(!passes(&mut world, own), "{own}");
        assert!(!passes(&mut world, neighbour), "{neighbour}");
        assert!(passes(&mut world, beyond), "{beyond}");
        world.set_host(HostAddresses::default());
        assert!(passes(&mut world, own) && passes(&mut world, neighbour));
    }
    assert_eq!(denied(&world, Class::OwnAddress), 2);
    assert_eq!(denied(&world, Class::OnLink), 2);
}

// DESIGN §8
#[test]
fn a_flow_to_what_is_denied_cannot_be_closed_either() {
    let mut world = up(&["192.168.7.1"], &[]);
    let (own, _) = inner(&world, 0);
    let mut close = |destination: &str| {
        let flow = FiveTuple {
            protocol: protocol::TCP,
            source: own,
            source_port: 4_000,
            destination: ip(destination),
            destination_port: 443,
        };
        let sequence = Some(1);
        let message = on_stream(&Control::FlowClose(FlowClose { flow, sequence }));
        assert!(world.inject_control(0, End::Provider, &message));
        world.take_delivered(End::Provider).len()
    };
    assert_eq!(close("192.168.7.2"), 0, "a reset for a private host");
    assert_eq!(close("192.168.7.1"), 1);
    assert_eq!(world.provider_status().sessions[0].closed.refused, 1);
}

// case B78
#[test]
fn a_spoofed_source_is_dropped_before_the_rules_and_hears_nothing() {
    let mut world = up(&[], &[]);
    for (source, destination) in [("198.51.100.9", "10.0.0.1"), ("10.85.0.1", WORLD_V4)] {
        let spoofed = packet(ip(source), ip(destination), 100);
        world.inject_datagram(0, End::Provider, dgram(&spoofed));
    }
    world.run_for(S);
    assert_eq!(delivered(&mut world), (Vec::new(), Vec::new()));
    let status = world.provider_status();
    let drops = status.sessions[0].received_drops;
    assert_eq!(drops[DropReason::SourceNotAssigned], 2);
    assert_eq!(status.egress.denied.total(), 0);
}

#[test]
fn what_is_counted_is_explained_and_outlives_the_session() {
    let mut world = up(&[], &[]);
    let (own, _) = inner(&world, 0);
    let asked = |destination: &str| Asked {
        destination: Some(ip(destination)),
        protocol: None,
        port: Port::None,
    };
    for _ in 0..3 {
        send(&mut world, packet(own, ip("10.0.0.1"), 100));
    }
    let multicast = dgram(&packet(own, ip("224.0.0.1"), 100));
    world.inject_datagram(0, End::Provider, multicast);
    let check = |world: &World| {
        let private = world.explain(&asked("172.16.0.1"));
        assert_eq!(
            (private.class, private.denied_packets),
            (Some("private"), 3)
        );
        let nobody = world.explain(&asked("224.0.0.9"));
        assert_eq!(
            (nobody.class, nobody.denied_packets),
            (Some("not_unicast"), 1)
        );
        assert!(world.explain(&asked(WORLD_V4)).allowed);
    };
    check(&world);
    // The connection is lost, and its session with it in the end.
    world.set_blackhole(Way::Both, true);
    world.run_for(Duration::from_secs(300));
    assert!(world.provider_status().sessions.is_empty());
    check(&world);
}

#[test]
fn counts_and_allowance_go_on_with_the_session_over_another_connection() {
    let mut world = up(&[], &[]);
    let (own, _) = inner(&world, 0);
    send(&mut world, packet(own, ip("10.0.0.1"), 100));
    let before = world.provider_status().sessions[0].egress;
    assert_eq!(before.denied[Class::Private], 1);
    world.break_connection(0);
    world.run_for(Duration::from_secs(10));
    let status = world.provider_status();
    assert_eq!((status.resumes, status.sessions.len()), (1, 1));
    assert_eq!(status.sessions[0].egress, before);
}
