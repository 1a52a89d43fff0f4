//! Which packets draw an error, what the error quotes, and who stays silent.
//!
//! An error that answers an error, a broadcast or a forged source is a weapon (RFC 1122 §3.2.2, RFC 4443 §2.4), so the
//! larger part of this file is about silence.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use super::*;
use crate::build::{self, Header, Segment};
use crate::{Ipv4View, checksum};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v4() -> Header<'static> {
    Header::new(ip("10.0.0.1"), ip("192.0.2.9"))
}

fn v6() -> Header<'static> {
    Header::new(ip("fd00::1"), ip("2001:db8::9"))
}

fn gateway(of: &Header<'_>) -> IpAddr {
    if of.source.is_ipv4() {
        ip("10.0.0.254")
    } else {
        ip("fd00::fe")
    }
}

/// A UDP packet of `total` bytes.
fn sized(header: Header<'_>, total: usize) -> Vec<u8> {
    let empty = header.udp(1000, 2000, &[]).len();
    header.udp(1000, 2000, &vec![0xa5; total - empty])
}

/// Case B45: what does not fit draws exactly one message, and the message says 1,280.
#[test]
fn a_packet_of_1440_bytes_draws_one_message_of_1280() {
    for (header, kind, code) in [(v4(), 3, 4), (v6(), 2, 0)] {
        let original = sized(header, 1_440);
        let from = gateway(&header);
        let answer = too_big(&original, 1_280, from).unwrap();
        let parsed = IpPacket::parse(&answer).unwrap();
        assert_eq!(reported_mtu(&parsed), Some(1_280));
        assert_eq!(
            (parsed.source(), parsed.destination()),
            (from, header.source)
        );
        let message = IcmpView::parse(parsed.payload()).unwrap();
        assert_eq!((message.kind(), message.code()), (kind, code));
        assert_eq!(message.rest_of_header(), [0, 0, 5, 0]);
        assert_eq!(checksum::upper_layer_valid(&parsed), Some(true));
        assert!(original.starts_with(message.payload()));
        assert_eq!(
            quoted_flow(&parsed),
            Some(FlowKey::of(&IpPacket::parse(&original).unwrap()))
        );
        // The message itself draws none.
        assert!(is_error(&parsed));
        assert_eq!(too_big(&answer, 68, header.source), None);
    }
}

#[test]
fn the_message_begins_where_the_packet_does_not_fit() {
    for header in [v4(), v6()] {
        let from = gateway(&header);
        assert_eq!(too_big(&sized(header, 1_400), 1_400, from), None);
        let answer = too_big(&sized(header, 1_401), 1_400, from).unwrap();
        assert_eq!(
            reported_mtu(&IpPacket::parse(&answer).unwrap()),
            Some(1_400)
        );
    }
}

#[test]
fn ipv6_is_never_told_less_than_1280() {
    assert_eq!(too_big(&sized(v6(), 1_280), 600, ip("fd00::fe")), None);
    let answer = too_big(&sized(v6(), 1_281), 600, ip("fd00::fe")).unwrap();
    assert_eq!(
        reported_mtu(&IpPacket::parse(&answer).unwrap()),
        Some(1_280)
    );
    let answer = too_big(&sized(v4(), 1_280), 600, ip("10.0.0.254")).unwrap();
    assert_eq!(reported_mtu(&IpPacket::parse(&answer).unwrap()), Some(600));
}

#[test]
fn the_quotation_fills_the_message_and_no_more() {
    let length = |header: &Header<'_>, total| {
        unreachable(&sized(*header, total), Unreachable::Host, gateway(header))
            .unwrap()
            .len()
    };
    // IPv4: 576 in all (RFC 1812 §4.3.2.3), of which 20 + 8 are the message's own.
    assert_eq!(length(&v4(), 547), 575);
    assert_eq!(length(&v4(), 548), 576);
    assert_eq!(length(&v4(), 549), 576);
    // IPv6: 1,280 in all (RFC 4443 §2.4 c), of which 40 + 8 are the message's own.
    assert_eq!(length(&v6(), 1_231), 1_279);
    assert_eq!(length(&v6(), 1_232), 1_280);
    assert_eq!(length(&v6(), 1_233), 1_280);
}

#[test]
fn ipv4_without_df_is_fragmented_not_refused() {
    let header = Header {
        dont_fragment: false,
        ..v4()
    };
    assert_eq!(
        too_big(&sized(header, 1_440), 1_280, ip("10.0.0.254")),
        None
    );
    assert!(unreachable(&sized(header, 1_440), Unreachable::Port, ip("10.0.0.254")).is_some());
}

#[test]
fn codes_of_the_refusals() {
    for (why, v4_code, v6_code) in [
        (Unreachable::AdminProhibited, 13, 1),
        (Unreachable::Host, 1, 3),
        (Unreachable::Port, 3, 4),
    ] {
        for (header, kind, code) in [(v4(), 3, v4_code), (v6(), 1, v6_code)] {
            let answer = unreachable(&sized(header, 100), why, gateway(&header)).unwrap();
            let parsed = IpPacket::parse(&answer).unwrap();
            let message = IcmpView::parse(parsed.payload()).unwrap();
            assert_eq!(
                (message.kind(), message.code(), message.rest_of_header()),
                (kind, code, [0; 4])
            );
            assert_eq!(reported_mtu(&parsed), None);
            assert_eq!(checksum::upper_layer_valid(&parsed), Some(true));
            assert_eq!(quoted_flow(&parsed).unwrap().destination_port, 2000);
        }
    }
}

/// The outer header of an IPv4 error: precedence 6 (RFC 1812 §4.3.2.5), right checksum.
#[test]
fn the_header_of_an_error() {
    let answer = unreachable(&sized(v4(), 100), Unreachable::Host, ip("10.0.0.254")).unwrap();
    let view = Ipv4View::parse(&answer).unwrap();
    assert_eq!(
        (view.traffic_class(), view.ttl(), view.header_len()),
        (0xc0, 64, 20)
    );
    assert!(view.header_checksum_valid());
}

fn silent(original: &[u8], from: IpAddr) -> bool {
    let silent = unreachable(original, Unreachable::Host, from).is_none();
    assert!(!silent || too_big(original, 100, from).is_none());
    silent
}

/// Case B42: no answer to an error, none to what cannot be told from one; an echo is answered.
#[test]
fn errors_are_never_answered() {
    let of = |header: &Header<'_>, kind| header.icmp(kind, 0, [0; 4], &[0; 1_400]);
    for kind in [3, 4, 5, 11, 12] {
        assert!(
            silent(&of(&v4(), kind), ip("10.0.0.254")),
            "ICMP type {kind}"
        );
    }
    for kind in [0, 1, 2, 3, 4, 100, 127, 137] {
        assert!(
            silent(&of(&v6(), kind), ip("fd00::fe")),
            "ICMPv6 type {kind}"
        );
    }
    for kind in [0, 8, 13] {
        assert!(
            !silent(&of(&v4(), kind), ip("10.0.0.254")),
            "ICMP type {kind}"
        );
    }
    for kind in [128, 129, 135] {
        assert!(
            !silent(&of(&v6(), kind), ip("fd00::fe")),
            "ICMPv6 type {kind}"
        );
    }
    assert!(silent(&v4().packet(protocol::ICMP, &[]), ip("10.0.0.254")));
    assert!(!silent(
        &v4().packet(protocol::ICMP, &[8]),
        ip("10.0.0.254")
    ));
    // The other family's numbers mean nothing.
    assert!(!silent(
        &v4().packet(protocol::ICMPV6, &[1; 8]),
        ip("10.0.0.254")
    ));
}

#[test]
fn later_fragments_are_never_answered() {
    let first = Header {
        more_fragments: true,
        dont_fragment: false,
        ..v4()
    };
    let later = Header {
        fragment_offset: 8,
        ..first
    };
    assert!(!silent(&sized(first, 1_440), ip("10.0.0.254")));
    assert!(silent(&sized(later, 1_440), ip("10.0.0.254")));
    for (body, expected) in [([0, 1, 0, 0, 0, 1], false), ([0, 8, 0, 0, 0, 1], true)] {
        let header = Header {
            extensions: &[(protocol::FRAGMENT, &body)],
            ..v6()
        };
        assert_eq!(silent(&sized(header, 1_440), ip("fd00::fe")), expected);
    }
}

#[test]
fn only_single_hosts_are_answered() {
    let from = |address: &str, header: Header<'static>| Header {
        source: ip(address),
        ..header
    };
    let to = |address: &str, header: Header<'static>| Header {
        destination: ip(address),
        ..header
    };
    let all = |addresses: &[&str], header: Header<'static>, us: &str| {
        for address in addresses {
            assert!(
                silent(&sized(from(address, header), 1_440), ip(us)),
                "from {address}"
            );
            assert!(
                silent(&sized(to(address, header), 1_440), ip(us)),
                "to {address}"
            );
            assert!(silent(&sized(header, 1_440), ip(address)), "by {address}");
        }
    };
    let (us4, us6) = ("10.0.0.254", "fd00::fe");
    all(
        &[
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
        ],
        v4(),
        us4,
    );
    all(&["::", "ff02::1", "ff0e::1"], v6(), us6);
    assert!(silent(&sized(from("127.0.0.1", v4()), 1_440), ip(us4)));
    assert!(silent(&sized(from("::1", v6()), 1_440), ip(us6)));
    assert!(!silent(&sized(to("127.0.0.1", v4()), 1_440), ip(us4)));
    // The other family cannot speak.
    assert!(silent(&sized(v4(), 1_440), ip(us6)));
    assert!(silent(&sized(v6(), 1_440), ip(us4)));
    // No packet, no answer.
    assert!(silent(&sized(v4(), 1_440)[..1_439], ip(us4)));
}

/// Case B79: a quotation may end anywhere.
#[test]
fn a_quotation_may_be_cut_anywhere() {
    for header in [
        v4(),
        Header {
            options: &[1; 12],
            ..v4()
        },
        v6(),
    ] {
        let inner = header.tcp(7, 9, &Segment::default(), b"payload");
        let whole = FlowKey::of(&IpPacket::parse(&inner).unwrap());
        let headers = inner.len() - 27;
        for end in 0..=inner.len() {
            let kind = if header.source.is_ipv4() {
                V4_TIME_EXCEEDED
            } else {
                3
            };
            let back = Header::new(gateway(&header), header.source);
            let outer = back.icmp(kind, 0, [0; 4], &inner[..end]);
            let expected = match end {
                _ if end < headers => None,
                _ if end < headers + 4 => Some(whole.without_ports()),
                _ => Some(whole),
            };
            assert_eq!(
                quoted_flow(&IpPacket::parse(&outer).unwrap()),
                expected,
                "{end} bytes"
            );
        }
    }
}

#[test]
fn a_quotation_may_be_padded_or_forged() {
    let inner = v4().udp(7, 9, b"x");
    let outer = |quotation: &[u8]| v4().icmp(V4_UNREACHABLE, 3, [0; 4], quotation);
    let flow = |packet: &[u8]| quoted_flow(&IpPacket::parse(packet).unwrap());
    let mut padded = inner.clone();
    padded.resize(128, 0);
    assert_eq!(flow(&outer(&padded)).unwrap().source_port, 7);
    for whole in [inner.clone(), v6().udp(7, 9, b"x")] {
        let padded = [&whole[..], &[0; 64]].concat();
        assert_eq!(IpPacket::parse_quoted(&padded), IpPacket::parse(&whole));
    }
    // A total length below the header's, the other family, a later fragment, nothing.
    let mut short = inner.clone();
    short[2..4].copy_from_slice(&[0, 19]);
    assert_eq!(flow(&outer(&short)), None);
    assert_eq!(flow(&outer(&v6().udp(7, 9, b"x"))), None);
    let later = Header {
        fragment_offset: 8,
        ..v4()
    }
    .udp(7, 9, b"x");
    assert_eq!(flow(&outer(&later)).unwrap().source_port, 0);
    assert_eq!(flow(&outer(&[])), None);
    // What is no error quotes nothing.
    assert_eq!(flow(&v4().icmp(V4_ECHO_REQUEST, 0, [0; 4], &inner)), None);
    assert_eq!(
        flow(&v6().icmp(V6_REDIRECT, 0, [0; 4], &v6().udp(7, 9, b"x"))),
        None
    );
}

#[test]
fn messages_are_read() {
    let echo = build::icmp_echo(ip("10.0.0.1"), ip("10.0.0.2"), 0x1234, 0x5678, b"data");
    let message = IcmpView::parse(&echo[20..]).unwrap();
    assert_eq!((message.kind(), message.code()), (V4_ECHO_REQUEST, 0));
    assert_eq!(
        (message.identifier(), message.sequence(), message.payload()),
        (0x1234, 0x5678, &b"data"[..])
    );
    assert!(!is_error(&IpPacket::parse(&echo).unwrap()));
    assert_eq!(IcmpView::parse(&echo[20..27]), Err(PacketError::Truncated));
    assert!(IcmpView::parse(&echo[20..28]).is_ok());
}
