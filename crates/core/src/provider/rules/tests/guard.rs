//! What a client hears.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_packet::build::{self, Header, Segment};
use quell_packet::tcp::flags;
use quell_packet::{IpPacket, TcpView, checksum, icmp, protocol};

use super::*;

const OWN: [&str; 2] = ["10.85.0.9", "fd71:7175:656c::9"];
const DENIED: [&str; 2] = ["192.168.1.1", "fc00::1"];
const GATEWAY: [&str; 2] = ["10.85.0.1", "fd71:7175:656c::1"];

fn guard(allow: &[&str]) -> EgressGuard {
    let config = config(allow, &[]);
    EgressGuard::new(Arc::new(rules(allow, &[])), &config, gateway())
}

fn judge(guard: &mut EgressGuard, packet: &[u8], now: Instant) -> Fate {
    guard.judge(&IpPacket::parse(packet).unwrap(), now)
}

fn segment(source: &str, destination: &str, flags: u8) -> Vec<u8> {
    let segment = Segment {
        sequence: 7,
        acknowledgement: 9,
        flags,
        ..Segment::default()
    };
    Header::new(ip(source), ip(destination)).tcp(4_000, 443, &segment, b"")
}

fn datagram(source: &str, destination: &str) -> Vec<u8> {
    Header::new(ip(source), ip(destination)).udp(4_000, 53, b"question")
}

#[test]
fn a_denied_segment_draws_a_reset_that_its_sender_believes() {
    let now = Instant::now();
    for (own, denied) in OWN.into_iter().zip(DENIED) {
        let mut guard = guard(&[]);
        for (bits, sequence, acknowledges) in [(flags::SYN, 0, Some(8)), (flags::ACK, 9, None)] {
            let Fate::Denied(Some(reset)) = judge(&mut guard, &segment(own, denied, bits), now)
            else {
                panic!("no answer from {denied}");
            };
            let view = IpPacket::parse(&reset).unwrap();
            assert_eq!((view.source(), view.destination()), (ip(denied), ip(own)));
            let tcp = TcpView::parse(view.payload()).unwrap();
            assert!(tcp.is_rst());
            assert_eq!((tcp.source_port(), tcp.destination_port()), (443, 4_000));
            assert_eq!(tcp.sequence(), sequence);
            assert_eq!(tcp.is_ack().then(|| tcp.acknowledgement()), acknowledges);
            assert_eq!(checksum::upper_layer_valid(&view), Some(true));
        }
        // A reset is not answered, and spends nothing.
        let reset = segment(own, denied, flags::RST);
        assert_eq!(judge(&mut guard, &reset, now), Fate::Denied(None));
        let counters = guard.counters();
        assert_eq!(
            (counters.denied[Class::Private], counters.denials_told),
            (3, 2)
        );
    }
}

#[test]
fn what_is_no_tcp_draws_administratively_prohibited() {
    let now = Instant::now();
    for family in 0..2 {
        let mut guard = guard(&[]);
        let (own, denied) = (OWN[family], DENIED[family]);
        for packet in [
            datagram(own, denied),
            build::icmp_echo(ip(own), ip(denied), 7, 1, b"data"),
            Header::new(ip(own), ip(denied)).packet(50, &[0; 16]),
        ] {
            let Fate::Denied(Some(error)) = judge(&mut guard, &packet, now) else {
                panic!("no answer from {denied}");
            };
            let view = IpPacket::parse(&error).unwrap();
            assert_eq!(
                (view.source(), view.destination()),
                (ip(GATEWAY[family]), ip(own))
            );
            let message = quell_packet::IcmpView::parse(view.payload()).unwrap();
            let expected = [(3, 13), (1, 1)][family];
            assert_eq!((message.kind(), message.code()), expected);
            assert_eq!(checksum::upper_layer_valid(&view), Some(true));
        }
        // An error is never answered with an error.
        let about = icmp::unreachable(&datagram(denied, own), icmp::Unreachable::Port, ip(own));
        let error = about.unwrap();
        assert_eq!(judge(&mut guard, &error, now), Fate::Denied(None));
        assert_eq!(guard.counters().denied.total(), 4);
    }
}

#[test]
fn denials_are_told_up_to_the_burst_and_then_at_the_rate() {
    let now = Instant::now();
    let mut guard = guard(&[]);
    let packet = datagram(OWN[0], DENIED[0]);
    let mut told = |now| matches!(judge(&mut guard, &packet, now), Fate::Denied(Some(_)));
    assert!((0..100).all(|_| told(now)));
    assert!(!told(now));
    let interval = Duration::from_millis(20);
    assert!(!told(now + interval - Duration::from_nanos(1)));
    assert!(told(now + interval));
    assert!(!told(now + interval));
    let counters = guard.counters();
    assert_eq!((counters.denials_told, counters.denials_limited), (101, 3));
    assert_eq!(counters.denied[Class::Private], 104);
}

#[test]
fn the_gateway_answers_pings_and_nothing_else() {
    let now = Instant::now();
    for (own, gateway) in OWN.into_iter().zip(GATEWAY) {
        let mut guard = guard(&[]);
        let ping = build::icmp_echo(ip(own), ip(gateway), 77, 5, b"payload");
        let Fate::Answered(reply) = judge(&mut guard, &ping, now) else {
            panic!("{gateway} is silent");
        };
        let expected = Header {
            dont_fragment: false,
            ..Header::new(ip(gateway), ip(own))
        };
        let kind = if ip(own).is_ipv4() { 0 } else { 129 };
        assert_eq!(reply, expected.icmp(kind, 0, [0, 77, 0, 5], b"payload"));
        // Damaged on the way; and not an echo request.
        let mut damaged = ping.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let syn = segment(own, gateway, flags::SYN);
        let reply = build::icmp_echo_reply(ip(own), ip(gateway), 77, 5, b"payload");
        let odd = Header::new(ip(own), ip(gateway)).icmp(
            if ip(own).is_ipv4() { 8 } else { 128 },
            1,
            [0; 4],
            b"",
        );
        for packet in [damaged, syn, reply, odd, datagram(own, gateway)] {
            assert!(matches!(judge(&mut guard, &packet, now), Fate::Denied(_)));
        }
        // Another address of the provider's host is not the gateway.
        let other = if ip(own).is_ipv4() {
            "198.51.100.2"
        } else {
            "2001:db8:100::2"
        };
        let ping = build::icmp_echo(ip(own), ip(other), 77, 5, b"payload");
        assert!(matches!(judge(&mut guard, &ping, now), Fate::Denied(_)));
        let counters = guard.counters();
        assert_eq!(
            (counters.echoes_answered, counters.denied[Class::OwnAddress]),
            (1, 6)
        );
    }
}

#[test]
fn a_ping_that_the_operator_lets_through_goes_to_the_egress() {
    let mut guard = guard(&["10.85.0.1"]);
    let ping = build::icmp_echo(ip(OWN[0]), ip(GATEWAY[0]), 77, 5, b"payload");
    assert_eq!(judge(&mut guard, &ping, Instant::now()), Fate::Pass);
    assert_eq!(guard.counters(), EgressCounters::default());
}

#[test]
fn fragments_cannot_bring_a_denied_port_through() {
    let now = Instant::now();
    let mut guard = guard(&[]);
    let header = Header {
        more_fragments: true,
        ..Header::new(ip(OWN[0]), ip("203.0.113.1"))
    };
    let tcp = |port: u16| {
        let segment = Segment::default();
        let whole = Header::new(ip(OWN[0]), ip("203.0.113.1")).tcp(4_000, port, &segment, b"");
        whole[20..].to_vec()
    };
    let mut fate = |header: Header<'_>, payload: &[u8]| {
        judge(&mut guard, &header.packet(protocol::TCP, payload), now)
    };
    assert!(matches!(fate(header, &tcp(25)[..8]), Fate::Denied(_)));
    assert_eq!(fate(header, &tcp(26)[..8]), Fate::Pass);
    // Too short for its ports: it could be any.
    assert!(matches!(fate(header, &[]), Fate::Denied(_)));
    // A later fragment has none, and is worth nothing alone.
    let later = Header {
        fragment_offset: 8,
        ..header
    };
    assert_eq!(fate(later, &tcp(25)[..8]), Fate::Pass);
    assert_eq!(guard.counters().denied[Class::Smtp], 2);
}

#[test]
fn other_rules_hold_from_the_next_packet_on() {
    let now = Instant::now();
    let mut guard = guard(&[]);
    let packet = segment(OWN[0], "203.0.113.1", flags::ACK);
    let flow = quell_packet::FlowKey::of(&IpPacket::parse(&packet).unwrap());
    assert_eq!(judge(&mut guard, &packet, now), Fate::Pass);
    assert!(!guard.denies(&flow));
    guard.on_rules(&Arc::new(rules(&[], &["203.0.113.0/24"])));
    assert!(matches!(
        judge(&mut guard, &packet, now),
        Fate::Denied(Some(_))
    ));
    assert!(guard.denies(&flow));
    guard.on_rules(&Arc::new(rules(&[], &[])));
    assert_eq!(judge(&mut guard, &packet, now), Fate::Pass);
}

#[test]
fn a_part_of_a_ping_is_not_answered() {
    let mut guard = guard(&[]);
    let header = Header {
        more_fragments: true,
        ..Header::new(ip(OWN[0]), ip(GATEWAY[0]))
    };
    let part = header.icmp(icmp::V4_ECHO_REQUEST, 0, [0; 4], &[0; 8]);
    let fate = judge(&mut guard, &part, Instant::now());
    assert!(matches!(fate, Fate::Denied(_)), "{fate:?}");
}

#[test]
fn a_packet_that_names_its_own_way_is_denied_wherever_it_goes_first() {
    let mut guard = guard(&["0.0.0.0/0", "::/0"]);
    let now = Instant::now();
    let header = Header::new(ip(OWN[0]), ip("203.0.113.1"));
    for (options, is_denied) in [
        (&[131, 7, 4, 10, 0, 0, 1, 0][..], true),
        (&[1, 137, 7, 4, 10, 0, 0, 1], true),
        // Recorded, not named.
        (&[7, 7, 4, 0, 0, 0, 0, 0], false),
        (&[], false),
    ] {
        let packet = Header { options, ..header }.udp(4_000, 53, b"data");
        let fate = judge(&mut guard, &packet, now);
        assert_eq!(fate != Fate::Pass, is_denied, "{options:?}");
    }
    let via = ip("fc00::7");
    let std::net::IpAddr::V6(via) = via else {
        panic!("{via}");
    };
    let header = Header::new(ip(OWN[1]), ip("2001:db8::1"));
    for (segments_left, is_denied) in [(1, true), (0, false)] {
        // Behind next header and length: type 0, segments left, four reserved bytes, one address.
        let mut routing = vec![0, segments_left, 0, 0, 0, 0];
        routing.extend(via.octets());
        let extensions = [(protocol::ROUTING, &routing[..])];
        let packet = Header {
            extensions: &extensions,
            ..header
        };
        let fate = judge(&mut guard, &packet.udp(4_000, 53, b"data"), now);
        assert_eq!(fate != Fate::Pass, is_denied, "{segments_left}");
    }
    assert_eq!(guard.counters().denied[Class::SourceRoute], 3);
}
