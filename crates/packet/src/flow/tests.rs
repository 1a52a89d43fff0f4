//! The five-tuple as both ends see it.
//!
//! A flow's packets must meet under one key in either direction, whatever part of them can be read: fragments, cut
//! headers and protocols without ports included.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::build::{self, Header, Segment};

fn key(packet: &[u8]) -> FlowKey {
    FlowKey::of(&IpPacket::parse(packet).unwrap())
}

fn ports(packet: &[u8]) -> (u8, u16, u16) {
    let key = key(packet);
    (key.protocol, key.source_port, key.destination_port)
}

fn pairs() -> [(IpAddr, IpAddr); 2] {
    [
        ("10.0.0.1".parse().unwrap(), "192.0.2.9".parse().unwrap()),
        ("fd00::1".parse().unwrap(), "2001:db8::9".parse().unwrap()),
    ]
}

/// The source is the header's source, in both families (case B78: checking the destination in its place lets a peer
/// send as another).
#[test]
fn the_source_is_the_senders() {
    for (source, destination) in pairs() {
        let key = key(&build::udp(
            (source, 53).into(),
            (destination, 4000).into(),
            b"x",
        ));
        assert_eq!((key.source, key.destination), (source, destination));
        assert_eq!((key.source_port, key.destination_port), (53, 4000));
        assert_ne!(key, key.reversed());
    }
}

#[test]
fn an_answer_has_the_reversed_key() {
    for (us, them) in pairs() {
        let (a, b) = ((us, 1234).into(), (them, 443).into());
        assert_eq!(
            key(&build::tcp_syn(a, b, 1200)).reversed(),
            key(&build::tcp_syn(b, a, 1200))
        );
        assert_eq!(
            key(&build::udp(a, b, b"q")).reversed(),
            key(&build::udp(b, a, b"answer"))
        );
        let request = build::icmp_echo(us, them, 77, 1, b"ping");
        assert_eq!(key(&request).source_port, 77);
        let reply = build::icmp_echo_reply(them, us, 77, 1, b"ping");
        assert_eq!(key(&reply).reversed(), key(&request));
    }
}

#[test]
fn ports_that_cannot_be_read_are_zero() {
    let [(a, b), (a6, b6)] = pairs();
    let v4 = Header::new(a, b);
    let v6 = Header::new(a6, b6);
    assert_eq!(ports(&v4.packet(47, &[1; 8])), (47, 0, 0));
    assert_eq!(
        ports(&v4.packet(protocol::UDP, &[1, 1, 1])),
        (protocol::UDP, 0, 0)
    );
    assert_eq!(
        ports(&v4.packet(protocol::UDP, &[1, 1, 1, 1])),
        (protocol::UDP, 257, 257)
    );
    assert_eq!(
        ports(&v4.packet(protocol::ICMP, &[8, 0, 0, 0, 1, 1, 1])),
        (protocol::ICMP, 0, 0)
    );
    // Neither an error, nor the other family's echo, has an identifier.
    assert_eq!(
        ports(&v4.icmp(icmp::V4_UNREACHABLE, 1, [1; 4], &[])),
        (protocol::ICMP, 0, 0)
    );
    assert_eq!(
        ports(&v6.packet(protocol::ICMP, &[8, 0, 0, 0, 1, 1, 1, 1])),
        (protocol::ICMP, 0, 0)
    );
    assert_eq!(
        ports(&v4.packet(protocol::ICMPV6, &[128, 0, 0, 0, 1, 1, 1, 1])),
        (protocol::ICMPV6, 0, 0)
    );
}

#[test]
fn only_the_first_fragment_has_ports() {
    let [(a, b), (a6, b6)] = pairs();
    let first = Header {
        more_fragments: true,
        dont_fragment: false,
        ..Header::new(a, b)
    };
    let later = Header {
        fragment_offset: 8,
        ..first
    };
    assert_eq!(ports(&first.udp(7, 9, &[0; 8])), (protocol::UDP, 7, 9));
    assert_eq!(ports(&later.udp(7, 9, &[0; 8])), (protocol::UDP, 0, 0));
    assert_eq!(
        key(&first.udp(7, 9, &[0; 8])).without_ports(),
        key(&later.udp(7, 9, &[0; 8]))
    );
    for (offset_and_more, expected) in [
        ([0, 1], (7, 9)),
        ([0, 8], (0, 0)),
        ([0, 9], (0, 0)),
        ([0, 0], (7, 9)),
    ] {
        let body = [offset_and_more[0], offset_and_more[1], 0, 0, 0, 1];
        let header = Header {
            extensions: &[(protocol::FRAGMENT, &body)],
            ..Header::new(a6, b6)
        };
        let key = key(&header.tcp(7, 9, &Segment::default(), &[]));
        assert_eq!(
            (key.source_port, key.destination_port),
            expected,
            "{offset_and_more:?}"
        );
        assert_eq!(key.protocol, protocol::TCP);
    }
}
