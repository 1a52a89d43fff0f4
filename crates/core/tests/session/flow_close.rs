//! FLOW_CLOSE: a client that gives a flow up, and a destination that is told so.
//!
//! The worlds check their books after every step, so each packet that is dropped here and each reset that is made is
//! accounted for.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::{ClosedFlowsConfig, ProviderConfig};
use quell_core::drops::DropReason;
use quell_core::provider::{ClosedCounters, Output};
use quell_packet::build::{Header, Segment};
use quell_packet::tcp::flags;
use quell_packet::{FlowKey, IpPacket, TcpView, checksum, icmp, protocol, reset};
use quell_sim::pair::{End, World, WorldConfig};
use quell_wire::control::{Control, FiveTuple, FlowClose};
use quell_wire::registry::ErrorCode;

use crate::common::*;

const SYN: u8 = flags::SYN;
const ACK: u8 = flags::ACK;
const RST: u8 = flags::RST;

/// How long a closed flow is remembered.
const TERM: Duration = Duration::from_secs(30);
/// The time between two resets of one flow.
const RESET: Duration = Duration::from_millis(100);

/// A flow of the client to the world, of the family that is asked for.
fn flow(world: &World, v4: bool, protocol: u8, port: u16) -> FlowKey {
    let (own_v4, own_v6) = inner(world, 0);
    let (source, destination) = if v4 {
        (own_v4, ip(WORLD_V4))
    } else {
        (own_v6, ip(WORLD_V6))
    };
    FlowKey {
        source,
        destination,
        protocol,
        source_port: port,
        destination_port: 443,
    }
}

fn tcp_flow(world: &World, port: u16) -> FlowKey {
    flow(world, true, protocol::TCP, port)
}

fn flow_close(flow: &FlowKey, sequence: Option<u32>) -> Control {
    Control::FlowClose(FlowClose {
        flow: FiveTuple {
            protocol: flow.protocol,
            source: flow.source,
            source_port: flow.source_port,
            destination: flow.destination,
            destination_port: flow.destination_port,
        },
        sequence,
    })
}

fn close(world: &mut World, flow: &FlowKey, sequence: Option<u32>) {
    let message = on_stream(&flow_close(flow, sequence));
    assert!(world.inject_control(0, End::Provider, &message));
}

/// A segment of the flow, or a datagram where it is one of UDP.
fn packet_of(flow: &FlowKey, bits: u8) -> Bytes {
    let header = Header::new(flow.source, flow.destination);
    let (from, to) = (flow.source_port, flow.destination_port);
    if flow.protocol == protocol::UDP {
        return header.udp(from, to, b"data").into();
    }
    let segment = Segment {
        flags: bits,
        sequence: 5_000,
        acknowledgement: 9_000,
        ..Segment::default()
    };
    header.tcp(from, to, &segment, b"").into()
}

/// What the client sends reaches the egress, or not.
fn from_client(world: &mut World, packet: &[u8]) -> Vec<Bytes> {
    world.inject_datagram(0, End::Provider, dgram(packet));
    world.take_delivered(End::Provider)
}

/// What the world sends; what it is answered at once.
fn from_world(world: &mut World, packet: impl Into<Bytes>) -> Vec<Bytes> {
    world.inject(End::Provider, packet);
    world.take_delivered(End::Provider)
}

fn counters(world: &World) -> ClosedCounters {
    world.provider_status().sessions[0].closed
}

/// Packets of closed flows that were dropped: the world's, the client's.
fn dropped(world: &World) -> (u64, u64) {
    let status = world.provider_status();
    let reason = DropReason::FlowClosed;
    let of_client = status.sessions[0].received_drops[reason];
    (status.tun_drops[reason], of_client)
}

#[track_caller]
fn is_reset(packets: &[Bytes], of: &FlowKey, sequence: u32) {
    let [packet] = packets else {
        panic!("{packets:?}")
    };
    let ip = IpPacket::parse(packet).unwrap();
    assert_eq!(FlowKey::of(&ip), *of);
    assert_eq!(checksum::upper_layer_valid(&ip), Some(true));
    let tcp = TcpView::parse(ip.payload()).unwrap();
    assert_eq!((tcp.flags(), tcp.sequence()), (RST, sequence));
}

#[test]
fn the_destination_of_a_closed_connection_is_reset() {
    let mut world = World::up(WorldConfig::default());
    for v4 in [true, false] {
        let key = flow(&world, v4, protocol::TCP, 4_000);
        close(&mut world, &key, Some(77));
        is_reset(&world.take_delivered(End::Provider), &key, 77);
        // Without the number there is none to guess; a datagram's flow has none at all.
        let key = flow(&world, v4, protocol::TCP, 4_001);
        close(&mut world, &key, None);
        let key = flow(&world, v4, protocol::UDP, 4_000);
        close(&mut world, &key, Some(77));
        assert_eq!(world.take_delivered(End::Provider), [] as [Bytes; 0]);
    }
    let expected = ClosedCounters {
        closed: 6,
        refused: 0,
        resets: 2,
    };
    assert_eq!(counters(&world), expected);
    assert_eq!(world.take_events(), []);
}

#[test]
fn what_the_destination_still_sends_is_answered_and_not_carried() {
    let mut world = World::up(WorldConfig::default());
    for v4 in [true, false] {
        let key = flow(&world, v4, protocol::TCP, 4_000);
        close(&mut world, &key, None);
        let syn_ack = packet_of(&key.reversed(), SYN | ACK);
        is_reset(&from_world(&mut world, syn_ack), &key, 9_000);
        // Without an acknowledgement the whole segment is acknowledged.
        world.run_for(RESET);
        let answer = from_world(&mut world, packet_of(&key.reversed(), SYN));
        let bare = packet_of(&key.reversed(), SYN);
        let expected = reset::tcp_reset_for(&IpPacket::parse(&bare).unwrap());
        assert_eq!(answer, [Bytes::from(expected.unwrap())]);
        // A reset is what was wanted.
        world.run_for(RESET);
        let none = from_world(&mut world, packet_of(&key.reversed(), RST));
        assert_eq!(none, [] as [Bytes; 0]);
    }
    world.run_for(S);
    assert_eq!(world.take_delivered(End::Client(0)), [] as [Bytes; 0]);
    assert_eq!((dropped(&world), counters(&world).resets), ((6, 0), 4));
}

#[test]
fn a_flow_draws_one_reset_in_its_interval() {
    let mut world = World::up(WorldConfig::default());
    let (one, other) = (tcp_flow(&world, 4_000), tcp_flow(&world, 4_001));
    let ack = |flow: &FlowKey| packet_of(&flow.reversed(), ACK);
    close(&mut world, &one, Some(1));
    close(&mut world, &other, None);
    assert_eq!(world.take_delivered(End::Provider).len(), 1);
    // The reset of the close counts, of its own flow alone.
    assert_eq!(from_world(&mut world, ack(&one)).len(), 0);
    assert_eq!(from_world(&mut world, ack(&other)).len(), 1);
    world.run_for(RESET - NS);
    assert_eq!(from_world(&mut world, ack(&one)).len(), 0);
    world.run_for(NS);
    assert_eq!(from_world(&mut world, ack(&one)).len(), 1);
    assert_eq!(from_world(&mut world, ack(&one)).len(), 0);
    assert_eq!(dropped(&world), (5, 0));
}

#[test]
fn other_flows_are_carried() {
    let mut world = World::up(WorldConfig::default());
    let key = tcp_flow(&world, 4_000);
    close(&mut world, &key, Some(1));
    world.take_delivered(End::Provider);
    let neighbour = FlowKey {
        destination: ip("192.0.2.8"),
        ..key
    };
    let others = [
        tcp_flow(&world, 4_001),
        neighbour,
        flow(&world, true, protocol::UDP, 4_000),
        flow(&world, false, protocol::TCP, 4_000),
    ];
    for other in others {
        let packet = packet_of(&other, ACK);
        assert_eq!(from_client(&mut world, &packet), [packet]);
        assert_eq!(
            from_world(&mut world, packet_of(&other.reversed(), ACK)).len(),
            0
        );
    }
    world.run_for(S);
    assert_eq!(world.take_delivered(End::Client(0)).len(), others.len());
    assert_eq!(dropped(&world), (0, 0));
}

#[test]
fn a_closed_flow_of_datagrams_is_dropped_in_silence() {
    let mut world = World::up(WorldConfig::default());
    let key = flow(&world, true, protocol::UDP, 4_000);
    close(&mut world, &key, None);
    assert_eq!(
        from_world(&mut world, packet_of(&key.reversed(), 0)).len(),
        0
    );
    assert_eq!(from_client(&mut world, &packet_of(&key, 0)).len(), 0);
    assert_eq!(dropped(&world), (1, 1));
}

#[test]
fn the_clients_own_segments_are_dropped_but_a_syn_opens_the_flow_again() {
    let mut world = World::up(WorldConfig::default());
    let key = tcp_flow(&world, 4_000);
    close(&mut world, &key, None);
    for bits in [ACK, RST, flags::FIN | ACK, SYN | ACK] {
        assert_eq!(from_client(&mut world, &packet_of(&key, bits)).len(), 0);
    }
    assert_eq!(dropped(&world), (0, 4));
    for bits in [SYN, ACK] {
        let packet = packet_of(&key, bits);
        assert_eq!(from_client(&mut world, &packet), [packet]);
    }
    assert_eq!(
        from_world(&mut world, packet_of(&key.reversed(), ACK)).len(),
        0
    );
    world.run_for(S);
    assert_eq!(world.take_delivered(End::Client(0)).len(), 1);
    assert_eq!(dropped(&world), (0, 4));
}

/// Errors are of the flow that they quote (case B42: and are answered by nothing).
#[test]
fn errors_about_a_closed_flow_go_nowhere() {
    let mut world = World::up(WorldConfig::default());
    let router = ip("198.51.100.1");
    let key = tcp_flow(&world, 4_000);
    let error = |about: &FlowKey, from: IpAddr, to: IpAddr| {
        let quoted = packet_of(about, ACK);
        Header::new(from, to).icmp(icmp::V4_UNREACHABLE, 1, [0; 4], &quoted)
    };
    close(&mut world, &key, None);
    let inward = error(&key, router, key.source);
    assert_eq!(from_world(&mut world, inward).len(), 0);
    let outward = error(&key.reversed(), key.source, key.destination);
    assert_eq!(from_client(&mut world, &outward).len(), 0);
    assert_eq!((dropped(&world), counters(&world).resets), ((1, 1), 0));
    // Of another flow they are carried.
    let other = tcp_flow(&world, 4_001);
    from_world(&mut world, error(&other, router, other.source));
    world.run_for(S);
    assert_eq!(world.take_delivered(End::Client(0)).len(), 1);
}

#[test]
fn a_closed_flow_is_remembered_to_its_last_nanosecond() {
    let mut world = World::up(WorldConfig::default());
    let key = tcp_flow(&world, 4_000);
    close(&mut world, &key, None);
    world.run_for(TERM - NS);
    assert_eq!(
        from_world(&mut world, packet_of(&key.reversed(), ACK)).len(),
        1
    );
    world.run_for(NS);
    assert_eq!(
        from_world(&mut world, packet_of(&key.reversed(), ACK)).len(),
        0
    );
    assert_eq!(dropped(&world), (1, 0));
    // Closed once more, its time begins anew.
    close(&mut world, &key, None);
    world.run_for(TERM - NS);
    close(&mut world, &key, None);
    world.run_for(TERM - NS);
    from_world(&mut world, packet_of(&key.reversed(), ACK));
    assert_eq!(dropped(&world), (2, 0));
}

#[test]
fn the_flow_that_was_closed_first_is_forgotten_first() {
    const MAX: u16 = 16;
    let mut config = WorldConfig::default();
    config.provider.closed_flows = ClosedFlowsConfig {
        closed_flows_max: u32::from(MAX),
        ..ClosedFlowsConfig::default()
    };
    let mut world = World::up(config);
    let is_held = |world: &mut World, port| {
        let key = tcp_flow(world, port);
        from_client(world, &packet_of(&key, ACK)).is_empty()
    };
    for port in 0..MAX {
        let key = tcp_flow(&world, port);
        close(&mut world, &key, None);
    }
    // One that is closed again takes no other's place, and is the last.
    let fifth = tcp_flow(&world, 5);
    close(&mut world, &fifth, None);
    assert!((0..MAX).all(|port| is_held(&mut world, port)));
    for port in MAX..MAX + 6 {
        let key = tcp_flow(&world, port);
        close(&mut world, &key, None);
    }
    let gone: Vec<u16> = (0..MAX + 6)
        .filter(|port| !is_held(&mut world, *port))
        .collect();
    assert_eq!(gone, [0, 1, 2, 3, 4, 6]);
}

#[test]
fn a_flow_that_is_not_the_clients_is_not_closed() {
    let mut world = World::up(WorldConfig::default());
    world.add_client(2);
    world.run_for(10 * S);
    world.take_events();
    let own = tcp_flow(&world, 4_000);
    let others = [
        // case B78: another client's, the provider's, the world's.
        FlowKey {
            source: inner(&world, 1).0,
            ..own
        },
        FlowKey {
            source: ip("10.85.0.1"),
            ..own
        },
        own.reversed(),
        FlowKey {
            destination: ip("224.0.0.1"),
            ..own
        },
        FlowKey {
            destination: ip("0.0.0.0"),
            ..own
        },
    ];
    for other in &others {
        close(&mut world, other, Some(1));
    }
    assert_eq!(world.take_delivered(End::Provider), [] as [Bytes; 0]);
    let expected = ClosedCounters {
        closed: 0,
        refused: 5,
        resets: 0,
    };
    assert_eq!(counters(&world), expected);
    let of_other = packet_of(&others[0].reversed(), ACK);
    world.inject(End::Provider, of_other);
    world.run_for(S);
    assert_eq!(world.take_delivered(End::Client(1)).len(), 1);
    assert_eq!(world.take_events(), []);
}

#[test]
fn a_client_that_floods_closes_breaks_the_protocol() {
    let now = Instant::now();
    let config = ProviderConfig::default();
    let (rate, burst) = (
        config.closed_flows.flow_closes_per_s_max,
        config.closed_flows.flow_close_burst_max,
    );
    let mut provider = lone_provider(config, "10.85.0.0/16");
    let (id, _) = crate::admission::greet(&mut provider, 1, now);
    let addresses = provider.status().sessions[0].addresses.unwrap();
    let message = |port| {
        let key = FlowKey {
            source: addresses.ipv4.unwrap().0.into(),
            destination: ip(WORLD_V4),
            protocol: protocol::TCP,
            source_port: port,
            destination_port: 443,
        };
        on_stream(&flow_close(&key, Some(1)))
    };
    for port in 0..burst {
        provider.handle_control(id, &message(port as u16), now);
    }
    let said = session_outputs(&mut provider, id, now);
    assert_eq!(said.len(), burst as usize);
    assert!(said.iter().all(|out| matches!(out, Output::Deliver(_))));
    // One returns with the time of one, and not before.
    let later = now + S / rate;
    provider.handle_control(id, &message(1), later);
    assert_eq!(session_outputs(&mut provider, id, later).len(), 1);
    provider.handle_control(id, &message(1), later + S / rate - NS);
    let said = session_outputs(&mut provider, id, later);
    let [Output::Close(violation)] = said.as_slice() else {
        panic!("{said:?}")
    };
    assert_eq!(violation.code, ErrorCode::FlowCloseFlood);
    assert_eq!(violation.words, "more than 100 flows closed a second");
    let counters = provider.status().sessions[0].closed;
    assert_eq!(
        (counters.closed, counters.resets),
        (u64::from(burst) + 1, u64::from(burst) + 1)
    );
    // What ended is not forgotten in the sums.
    provider.on_closed(id, None, later);
    assert_eq!(provider.status().ended_closed, counters);
}

#[test]
fn a_client_that_was_not_welcomed_has_no_flow_to_close() {
    let now = Instant::now();
    let mut provider = lone_provider(ProviderConfig::default(), "10.85.0.0/16");
    let id = provider.on_connection(key(1), now).unwrap();
    let flow = FlowKey {
        source: ip("10.85.0.2"),
        destination: ip(WORLD_V4),
        protocol: protocol::TCP,
        source_port: 1,
        destination_port: 2,
    };
    provider.handle_control(id, &on_stream(&flow_close(&flow, Some(1))), now);
    let said = session_outputs(&mut provider, id, now);
    assert!(matches!(said.as_slice(), [Output::Close(v)] if v.code == ErrorCode::WrongState));
}

#[test]
fn a_session_that_resumes_remembers_what_was_closed() {
    let mut world = World::up(WorldConfig::default());
    let key = tcp_flow(&world, 4_000);
    close(&mut world, &key, None);
    world.break_connection(0);
    // Without a connection too it is nobody's, and the destination is told.
    world.run_for(MS);
    is_reset(
        &from_world(&mut world, packet_of(&key.reversed(), ACK)),
        &key,
        9_000,
    );
    world.run_for(10 * S);
    assert_eq!(world.provider_status().resumes, 1);
    is_reset(
        &from_world(&mut world, packet_of(&key.reversed(), ACK)),
        &key,
        9_000,
    );
    assert_eq!((counters(&world).closed, counters(&world).resets), (1, 2));
    assert_eq!(dropped(&world), (2, 0));
}
