//! What the builders write, read back by the views of this crate.
//!
//! `tests/oracle.rs` holds the same packets against another implementation; here stand the edges that only the builder
//! has: mixed families, payloads beyond the length field, the order of extension headers.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{FlowKey, IpPacket, TcpView};

fn pairs() -> [(IpAddr, IpAddr); 2] {
    [
        ("10.0.0.1".parse().unwrap(), "192.0.2.9".parse().unwrap()),
        ("fd00::1".parse().unwrap(), "2001:db8::9".parse().unwrap()),
    ]
}

#[test]
fn what_is_built_is_valid_and_says_what_was_asked() {
    for (a, b) in pairs() {
        let (from, to) = (SocketAddr::new(a, 5), SocketAddr::new(b, 6));
        for packet in [
            udp(from, to, b"odd"),
            tcp(
                from,
                to,
                &Segment {
                    flags: flags::ACK,
                    options: &[1; 5],
                    ..Segment::default()
                },
                b"data",
            ),
            tcp_syn(from, to, 1_240),
            icmp_echo(a, b, 5, 6, b"data"),
            icmp_echo_reply(a, b, 5, 6, b"data"),
        ] {
            let ip = IpPacket::parse(&packet).unwrap();
            assert_eq!((ip.source(), ip.destination(), ip.ttl()), (a, b, 64));
            assert_eq!(checksum::upper_layer_valid(&ip), Some(true));
            assert!(matches!(ip, IpPacket::V6(_)) || checksum::internet(&packet[..20]) == 0);
        }
        let syn = tcp_syn(from, to, 1_240);
        let tcp = TcpView::parse(IpPacket::parse(&syn).unwrap().payload()).unwrap();
        assert!(tcp.is_opening() && tcp.mss() == Some(1_240));
    }
}

#[test]
fn a_mixed_pair_becomes_ipv6() {
    let [(v4, _), (v6, _)] = pairs();
    for (a, b) in [(v4, v6), (v6, v4)] {
        let packet = udp((a, 1).into(), (b, 2).into(), b"x");
        let ip = IpPacket::parse(&packet).unwrap();
        assert!(ip.source().is_ipv6() && ip.destination().is_ipv6());
        assert_eq!(checksum::upper_layer_valid(&ip), Some(true));
        // Also when the fields are set afterwards.
        let late = Header {
            source: a,
            destination: b,
            ..Header::new(a, b)
        };
        assert_eq!(late.udp(1, 2, b"x"), packet);
    }
}

#[test]
fn a_payload_is_cut_where_the_length_field_ends() {
    let [(a4, b4), (a6, b6)] = pairs();
    let v4 = Header::new(a4, b4);
    let v6 = Header {
        extensions: &[(protocol::HOP_BY_HOP, &[0; 6])],
        ..Header::new(a6, b6)
    };
    let huge = vec![0; 70_000];
    for packet in [
        v4.packet(200, &huge),
        v4.udp(1, 2, &huge),
        v4.icmp(8, 0, [0; 4], &huge),
    ] {
        assert_eq!(
            (packet.len(), IpPacket::parse(&packet).is_ok()),
            (65_535, true)
        );
    }
    let segment = Segment {
        options: &[1; 60],
        ..Segment::default()
    };
    for packet in [
        v6.packet(200, &huge),
        v6.udp(1, 2, &huge),
        v6.tcp(1, 2, &segment, &huge),
    ] {
        assert_eq!(
            (packet.len(), IpPacket::parse(&packet).is_ok()),
            (65_575, true)
        );
    }
    assert_eq!(v4.udp(1, 2, &vec![0; 65_507]).len(), 65_535);
}

#[test]
fn extension_headers_are_chained_in_order() {
    let [_, (a, b)] = pairs();
    let extensions: [(u8, &[u8]); 5] = [
        (protocol::HOP_BY_HOP, &[5, 2, 0, 0]),
        (protocol::DESTINATION_OPTIONS, &[0; 14]),
        (protocol::ROUTING, &[0; 6]),
        (protocol::FRAGMENT, &[0, 0, 0, 0, 0, 9]),
        (protocol::AUTHENTICATION, &[7; 22]),
    ];
    let packet = Header {
        extensions: &extensions,
        ..Header::new(a, b)
    }
    .udp(1, 2, b"x");
    let IpPacket::V6(view) = IpPacket::parse(&packet).unwrap() else {
        panic!("IPv6")
    };
    assert_eq!(view.header_len(), 40 + 8 + 16 + 8 + 8 + 24);
    assert_eq!(
        (view.next_header(), view.protocol()),
        (protocol::HOP_BY_HOP, protocol::UDP)
    );
    assert_eq!(view.fragment().unwrap().identification, 9);
    assert_eq!(FlowKey::of(&IpPacket::V6(view)).source_port, 1);
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_ones() {
    for (a, b) in pairs() {
        let header = Header::new(a, b);
        let at = header.header_len() + 6;
        let sum = |packet: &[u8]| [packet[at], packet[at + 1]];
        // The word that fills the sum up to ffff, whose complement is 0 (RFC 768: 0 means "none").
        let filling = sum(&header.udp(1, 2, &[0, 0]));
        let packet = header.udp(1, 2, &filling);
        assert_eq!(sum(&packet), [0xff, 0xff]);
        assert_eq!(
            checksum::upper_layer_valid(&IpPacket::parse(&packet).unwrap()),
            Some(true)
        );
    }
}
