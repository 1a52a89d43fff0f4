//! The clamp on whole, cut, odd and damaged SYNs.
//!
//! It rewrites a stranger's segment in place and repairs its checksum by difference: a damaged segment must stay damaged,
//! and what is no SYN must not change by a bit.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use super::*;
use crate::build::{self, Header, Segment};
use crate::tcp::flags;

fn v4() -> Header<'static> {
    Header::new("10.0.0.1".parse().unwrap(), "192.0.2.9".parse().unwrap())
}

fn v6() -> Header<'static> {
    Header::new("fd00::1".parse().unwrap(), "2001:db8::9".parse().unwrap())
}

fn syn<'a>(flags: u8, options: &'a [u8]) -> Segment<'a> {
    Segment {
        flags,
        options,
        ..Segment::default()
    }
}

fn mss_of(packet: &[u8]) -> Option<u16> {
    TcpView::parse(IpPacket::parse(packet).unwrap().payload())
        .unwrap()
        .mss()
}

/// Clamps, asserts that the read-only question said the same and the checksum stays right, and returns the value left.
fn clamped(mut packet: Vec<u8>, mtu: u16) -> (bool, Option<u16>) {
    let before = packet.clone();
    let wanted = wants_clamp(&packet, mtu);
    assert_eq!(clamp(&mut packet, mtu), wanted);
    assert_eq!(packet != before, wanted);
    let ip = IpPacket::parse(&packet).unwrap();
    if !ip.is_fragment() {
        assert_ne!(checksum::upper_layer_valid(&ip), Some(false));
    }
    (wanted, mss_of(&packet))
}

#[test]
fn the_value_is_lowered_to_what_the_mtu_leaves() {
    for (header, ip_and_tcp) in [(v4(), 40), (v6(), 60)] {
        let with = |mss: u16| {
            let [high, low] = mss.to_be_bytes();
            header.tcp(1, 2, &syn(flags::SYN, &[2, 4, high, low]), &[])
        };
        assert_eq!(
            clamped(with(9_000), 1_280),
            (true, Some(1_280 - ip_and_tcp))
        );
        assert_eq!(
            clamped(with(1_280 - ip_and_tcp + 1), 1_280),
            (true, Some(1_280 - ip_and_tcp))
        );
        assert_eq!(
            clamped(with(1_280 - ip_and_tcp), 1_280),
            (false, Some(1_280 - ip_and_tcp))
        );
        assert_eq!(
            clamped(with(536), 1_280),
            (false, Some(536)),
            "never raised"
        );
        assert_eq!(
            clamped(with(u16::MAX), u16::MAX),
            (true, Some(u16::MAX - ip_and_tcp))
        );
    }
}

#[test]
fn ip_options_and_extension_headers_count() {
    let options = Header {
        options: &[7, 7, 4, 0, 0, 0, 0],
        ..v4()
    };
    let extensions = Header {
        extensions: &[(protocol::HOP_BY_HOP, &[0; 6])],
        ..v6()
    };
    let segment = syn(flags::SYN, &[2, 4, 0x05, 0xb4]);
    assert_eq!(
        clamped(options.tcp(1, 2, &segment, &[]), 1_280),
        (true, Some(1_280 - 40 - 8))
    );
    assert_eq!(
        clamped(extensions.tcp(1, 2, &segment, &[]), 1_280),
        (true, Some(1_280 - 60 - 8))
    );
}

#[test]
fn a_useless_mtu_leaves_the_least_value() {
    let packet = || v4().tcp(1, 2, &syn(flags::SYN, &[2, 4, 0x05, 0xb4]), &[]);
    assert_eq!(
        clamped(packet(), 40 + MSS_MIN + 1),
        (true, Some(MSS_MIN + 1))
    );
    assert_eq!(clamped(packet(), 40 + MSS_MIN - 1), (true, Some(MSS_MIN)));
    assert_eq!(clamped(packet(), 0), (true, Some(MSS_MIN)));
}

#[test]
fn only_a_whole_syn_is_touched() {
    let mss = [2, 4, 0x23, 0x28];
    for (flags, wanted) in [
        (flags::SYN, true),
        (flags::SYN | flags::ACK, true),
        (flags::SYN | flags::ECE | flags::CWR, true),
        (flags::ACK, false),
        (flags::RST, false),
        (0, false),
    ] {
        assert_eq!(
            clamped(v4().tcp(1, 2, &syn(flags, &mss), &[]), 1_280).0,
            wanted,
            "{flags:#x}"
        );
        assert_eq!(
            clamped(v6().tcp(1, 2, &syn(flags, &mss), &[]), 1_280).0,
            wanted,
            "{flags:#x}"
        );
    }
    let segment = syn(flags::SYN, &mss);
    let first = Header {
        more_fragments: true,
        dont_fragment: false,
        ..v4()
    };
    let later = Header {
        fragment_offset: 8,
        dont_fragment: false,
        ..v4()
    };
    let v6_first = Header {
        extensions: &[(protocol::FRAGMENT, &[0, 1, 0, 0, 0, 1])],
        ..v6()
    };
    let atomic = Header {
        extensions: &[(protocol::FRAGMENT, &[0, 0, 0, 0, 0, 1])],
        ..v6()
    };
    for (header, wanted) in [
        (first, false),
        (later, false),
        (v6_first, false),
        (atomic, true),
    ] {
        assert_eq!(clamped(header.tcp(1, 2, &segment, &[]), 1_280).0, wanted);
    }
    // The same bytes under another protocol's number.
    let tcp = v4().tcp(1, 2, &segment, &[]);
    assert!(!wants_clamp(&v4().packet(protocol::UDP, &tcp[20..]), 1_280));
}

#[test]
fn any_place_in_the_list_keeps_the_checksum() {
    for shift in 0..8_usize {
        let mut options = vec![1_u8; shift];
        options.extend_from_slice(&[2, 4, 0x05, 0xb4, 3, 3, 7]);
        let packet = v6().tcp(1, 2, &syn(flags::SYN, &options), b"data of a fast open");
        assert_eq!(clamped(packet, 1_280), (true, Some(1_220)), "shift {shift}");
    }
}

#[test]
fn every_mss_option_is_lowered() {
    let ten: Vec<u8> = [2, 4, 0x05, 0xb4].repeat(10);
    let mut packet = v4().tcp(1, 2, &syn(flags::SYN, &ten), &[]);
    assert!(clamp(&mut packet, 1_280) && !wants_clamp(&packet, 1_280));
    let ip = IpPacket::parse(&packet).unwrap();
    let values: Vec<u16> = TcpView::parse(ip.payload())
        .unwrap()
        .mss_options()
        .map(|(value, _)| value)
        .collect();
    assert_eq!(values, [1_240; 10]);
    assert_eq!(checksum::upper_layer_valid(&ip), Some(true));
}

#[test]
fn malformed_options_end_the_search() {
    let cases: [(&[u8], bool); 8] = [
        (&[], false),
        (&[0, 2, 4, 0x23, 0x28], false),
        (&[3, 0, 2, 4, 0x23, 0x28], false),
        (&[3, 1, 2, 4, 0x23, 0x28], false),
        (&[3, 200, 2, 4, 0x23, 0x28], false),
        (&[2, 3, 0x23, 0], false),
        (&[2, 5, 0x23, 0x28, 0], false),
        (&[2, 4, 0x23, 0x28, 3, 0], true),
    ];
    for (options, wanted) in cases {
        let packet = v4().tcp(1, 2, &syn(flags::SYN, options), &[]);
        assert_eq!(wants_clamp(&packet, 1_280), wanted, "{options:?}");
        clamped(packet, 1_280);
    }
}

#[test]
fn a_damaged_segment_stays_damaged() {
    let (a, b): (IpAddr, IpAddr) = (v4().source, v4().destination);
    let mut packet = build::tcp_syn((a, 1).into(), (b, 2).into(), 9_000);
    packet[25] ^= 0xff;
    assert!(clamp(&mut packet, 1_280));
    assert_eq!(
        checksum::upper_layer_valid(&IpPacket::parse(&packet).unwrap()),
        Some(false)
    );
}

#[test]
fn what_is_no_packet_is_left_alone() {
    let whole = v4().tcp(1, 2, &syn(flags::SYN, &[2, 4, 0x23, 0x28]), &[]);
    for end in 0..whole.len() {
        let mut cut = whole[..end].to_vec();
        assert!(!wants_clamp(&cut, 1_280) && !clamp(&mut cut, 1_280));
        assert_eq!(cut, whole[..end]);
    }
}
