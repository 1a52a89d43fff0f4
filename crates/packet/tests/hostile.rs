//! Case B79: bytes that are almost a packet.
//!
//! Every cut of every kind of packet, every header length, every disagreement of lengths: each is refused with its own
//! reason (case B86: one reason a cause, so that a drop counter's label says what happened), and none panics.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::net::IpAddr;

use quell_packet::build::{Header, Segment};
use quell_packet::ipv6::EXTENSIONS_MAX;
use quell_packet::{
    FlowKey, IcmpView, IpPacket, Ipv4View, Ipv6View, PacketError, TcpView, UdpView, fuzz, icmp,
    protocol,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v4() -> Header<'static> {
    Header {
        dont_fragment: false,
        ..Header::new(ip("10.0.0.1"), ip("192.0.2.9"))
    }
}

fn v6() -> Header<'static> {
    Header::new(ip("fd00::1"), ip("2001:db8::9"))
}

/// One packet of each kind that the crate looks into.
fn kinds() -> Vec<Vec<u8>> {
    let chain: [(u8, &[u8]); 4] = [
        (protocol::HOP_BY_HOP, &[1, 4, 0, 0, 0, 0]),
        (protocol::ROUTING, &[0; 6]),
        (protocol::FRAGMENT, &[0, 1, 0, 0, 0, 1]),
        (protocol::AUTHENTICATION, &[0; 14]),
    ];
    let syn = Segment {
        flags: 2,
        options: &[2, 4, 0x23, 0x28, 1, 3, 3, 7],
        ..Segment::default()
    };
    let mut packets = Vec::new();
    for header in [
        v4(),
        Header {
            options: &[7, 7, 4, 0, 0, 0, 0, 0],
            ..v4()
        },
        v6(),
        Header {
            extensions: &chain,
            ..v6()
        },
    ] {
        packets.push(header.udp(1, 2, b"payload"));
        packets.push(header.tcp(1, 2, &syn, b"payload"));
        packets.push(header.icmp(8, 0, [0; 4], b"payload"));
        let inner = header.udp(3, 4, b"payload");
        packets.push(header.icmp(3, 1, [0; 4], &inner));
        packets.push(header.icmp(1, 1, [0; 4], &inner));
    }
    packets
}

#[test]
fn every_cut_is_refused() {
    for packet in kinds() {
        assert!(IpPacket::parse(&packet).is_ok());
        fuzz::packets(&packet);
        for end in 0..packet.len() {
            let cut = &packet[..end];
            let error = IpPacket::parse(cut).unwrap_err();
            let expected: &[PacketError] = match end {
                0 => &[PacketError::Empty],
                1..20 => &[PacketError::Truncated],
                20..40 => &[
                    PacketError::Truncated,
                    PacketError::BadHeaderLength,
                    PacketError::LengthMismatch,
                ],
                _ => &[PacketError::LengthMismatch],
            };
            assert!(expected.contains(&error), "{end} bytes: {error:?}");
            fuzz::packets(cut);
        }
    }
}

#[test]
fn bytes_behind_the_packet_are_refused() {
    for mut packet in kinds() {
        packet.push(0);
        assert_eq!(IpPacket::parse(&packet), Err(PacketError::LengthMismatch));
    }
}

#[test]
fn every_header_length_against_every_size() {
    for size in 0..=64_usize {
        for ihl in 0..=15_u8 {
            for total in [size.saturating_sub(1), size, size + 1] {
                let mut packet = vec![0_u8; size];
                for (place, byte) in packet.iter_mut().zip([0x40 | ihl, 0, 0, total as u8]) {
                    *place = byte;
                }
                let header = usize::from(ihl) * 4;
                let expected = match size {
                    0 => Some(PacketError::Empty),
                    1..20 => Some(PacketError::Truncated),
                    _ if ihl < 5 || header > size => Some(PacketError::BadHeaderLength),
                    _ if total != size => Some(PacketError::LengthMismatch),
                    _ => None,
                };
                assert_eq!(
                    IpPacket::parse(&packet).err(),
                    expected,
                    "IHL {ihl}, {size} bytes, total {total}"
                );
                if let Ok(ip) = IpPacket::parse(&packet) {
                    assert_eq!(
                        (ip.header_len(), ip.payload().len()),
                        (header, size - header)
                    );
                }
                fuzz::packets(&packet);
            }
        }
    }
}

#[test]
fn only_versions_4_and_6_are_packets() {
    for version in 0..=15_u8 {
        let mut packet = v6().udp(1, 2, b"x");
        packet[0] = version << 4;
        let known = matches!(version, 4 | 6);
        assert_eq!(
            IpPacket::parse(&packet) == Err(PacketError::UnknownVersion),
            !known,
            "{version}"
        );
    }
}

#[test]
fn a_view_takes_its_own_version_alone() {
    let (v4, v6) = (v4().udp(1, 2, &[0; 64]), v6().udp(1, 2, &[0; 64]));
    assert_eq!(Ipv4View::parse(&v6), Err(PacketError::UnknownVersion));
    assert_eq!(Ipv6View::parse(&v4), Err(PacketError::UnknownVersion));
    assert_eq!(Ipv4View::parse(&[]), Err(PacketError::Empty));
    assert_eq!(Ipv6View::parse(&[]), Err(PacketError::Empty));
}

#[test]
fn every_data_offset_against_every_size() {
    for size in 0..=64_usize {
        for offset in 0..=15_u8 {
            let mut segment = vec![0_u8; size];
            if let Some(byte) = segment.get_mut(12) {
                *byte = offset << 4;
            }
            let header = usize::from(offset) * 4;
            let expected = match size {
                0..20 => Some(PacketError::Truncated),
                _ if offset < 5 || header > size => Some(PacketError::BadHeaderLength),
                _ => None,
            };
            assert_eq!(
                TcpView::parse(&segment).err(),
                expected,
                "offset {offset}, {size} bytes"
            );
        }
    }
}

#[test]
fn every_udp_length_against_every_size() {
    for size in 0..=20_usize {
        for length in 0..=22_u8 {
            let mut datagram = vec![0_u8; size];
            if let Some(byte) = datagram.get_mut(5) {
                *byte = length;
            }
            let expected = match (size, usize::from(length)) {
                (0..8, _) => Err(PacketError::Truncated),
                (_, 0..8) => Err(PacketError::BadHeaderLength),
                (size, length) if length > size => Err(PacketError::LengthMismatch),
                (_, length) => Ok(length - 8),
            };
            assert_eq!(
                UdpView::parse(&datagram).map(|udp| udp.payload().len()),
                expected
            );
        }
    }
}

#[test]
fn an_extension_chain_is_bounded() {
    let body: &[u8] = &[0; 6];
    for count in 0..=EXTENSIONS_MAX + 1 {
        let mut extensions = vec![(protocol::DESTINATION_OPTIONS, body); count];
        let packet = Header {
            extensions: &extensions,
            ..v6()
        }
        .udp(1, 2, b"x");
        match IpPacket::parse(&packet) {
            Ok(ip) => {
                assert!(count <= EXTENSIONS_MAX);
                assert_eq!(
                    (ip.header_len(), ip.protocol()),
                    (40 + 8 * count, protocol::UDP)
                );
            }
            Err(error) => {
                assert!(count > EXTENSIONS_MAX);
                assert_eq!(error, PacketError::ExtensionChainTooLong);
            }
        }
        // The hop-by-hop header may be the first alone.
        extensions.push((protocol::HOP_BY_HOP, body));
        let expected = if count == 0 {
            None
        } else {
            Some(PacketError::ExtensionChainOrder)
        };
        if extensions.len() <= EXTENSIONS_MAX {
            let packet = Header {
                extensions: &extensions,
                ..v6()
            }
            .udp(1, 2, b"x");
            assert_eq!(IpPacket::parse(&packet).err(), expected);
        }
    }
}

#[test]
fn an_extension_header_ends_inside_the_packet() {
    for number in [
        protocol::HOP_BY_HOP,
        protocol::ROUTING,
        protocol::DESTINATION_OPTIONS,
        protocol::AUTHENTICATION,
    ] {
        for units in 0..=255_u8 {
            let length = if number == protocol::AUTHENTICATION {
                (usize::from(units) + 2) * 4
            } else {
                (usize::from(units) + 1) * 8
            };
            for size in [0, 1, 2, length - 1, length, length + 1] {
                let mut rest = vec![0_u8; size];
                for (place, byte) in rest.iter_mut().zip([protocol::NO_NEXT_HEADER, units]) {
                    *place = byte;
                }
                let packet = v6().packet(number, &rest);
                let expected = match size {
                    0 | 1 => Some(PacketError::ExtensionChainTruncated),
                    _ if number == protocol::AUTHENTICATION && units == 0 => {
                        Some(PacketError::BadHeaderLength)
                    }
                    _ if size < length => Some(PacketError::ExtensionChainTruncated),
                    _ => None,
                };
                assert_eq!(
                    IpPacket::parse(&packet).err(),
                    expected,
                    "{number}: {units} units, {size} bytes"
                );
                if let Ok(ip) = IpPacket::parse(&packet) {
                    assert_eq!(
                        (ip.header_len(), ip.payload().len()),
                        (40 + length, size - length)
                    );
                }
            }
        }
    }
}

#[test]
fn a_fragment_header_is_eight_bytes_and_stands_once() {
    for size in 0..10_usize {
        // The reserved byte is no length.
        let rest = [protocol::NO_NEXT_HEADER, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
        let packet = v6().packet(protocol::FRAGMENT, &rest[..size]);
        let expected = (size < 8).then_some(PacketError::ExtensionChainTruncated);
        assert_eq!(IpPacket::parse(&packet).err(), expected, "{size} bytes");
    }
    let atomic: (u8, &[u8]) = (protocol::FRAGMENT, &[0, 0, 0, 0, 0, 1]);
    let twice = Header {
        extensions: &[atomic, atomic],
        ..v6()
    }
    .udp(1, 2, b"x");
    assert_eq!(
        IpPacket::parse(&twice),
        Err(PacketError::ExtensionChainOrder)
    );
}

#[test]
fn behind_a_later_fragment_header_there_is_data() {
    // The data would be an extension header that runs off the end, were it taken for one.
    let later: (u8, &[u8]) = (protocol::FRAGMENT, &[0, 8, 0, 0, 0, 1]);
    let mut packet = Header {
        extensions: &[later],
        ..v6()
    }
    .packet(protocol::DESTINATION_OPTIONS, &[17, 200, 0, 0]);
    let parsed = IpPacket::parse(&packet).unwrap();
    assert_eq!(
        (parsed.protocol(), parsed.header_len()),
        (protocol::DESTINATION_OPTIONS, 48)
    );
    assert!(parsed.is_fragment());
    // A first fragment must hold the whole chain (RFC 7112).
    packet[43] = 1;
    assert_eq!(
        IpPacket::parse(&packet),
        Err(PacketError::ExtensionChainTruncated)
    );
}

#[test]
fn jumbograms_are_refused() {
    // RFC 2675: a payload length of 0, and the length in a hop-by-hop option.
    let header = Header {
        extensions: &[(protocol::HOP_BY_HOP, &[0xc2, 4, 0, 1, 0, 0])],
        ..v6()
    };
    let mut packet = header.packet(protocol::UDP, &[0; 64]);
    packet[4..6].fill(0);
    assert_eq!(IpPacket::parse(&packet), Err(PacketError::LengthMismatch));
}

#[test]
fn short_upper_layers_have_no_ports_and_no_errors() {
    for size in 0..8 {
        for number in [
            protocol::TCP,
            protocol::UDP,
            protocol::ICMP,
            protocol::ICMPV6,
        ] {
            for header in [v4(), v6()] {
                let packet = header.packet(number, &vec![1_u8; size]);
                let parsed = IpPacket::parse(&packet).unwrap();
                let key = FlowKey::of(&parsed);
                assert!(size >= 4 || key == key.without_ports());
                assert_eq!(icmp::quoted_flow(&parsed), None);
                assert_eq!(icmp::reported_mtu(&parsed), None);
                assert_eq!(
                    IcmpView::parse(parsed.payload()).err(),
                    Some(PacketError::Truncated)
                );
            }
        }
    }
}

/// Case B86: one label a cause.
#[test]
fn reasons_are_labels_and_differ() {
    let all = [
        PacketError::Empty,
        PacketError::UnknownVersion,
        PacketError::Truncated,
        PacketError::BadHeaderLength,
        PacketError::LengthMismatch,
        PacketError::ExtensionChainTooLong,
        PacketError::ExtensionChainTruncated,
        PacketError::ExtensionChainOrder,
        PacketError::BadOption,
        PacketError::DontFragment,
        PacketError::MtuTooSmall,
        PacketError::FragmentBeyondDatagram,
        PacketError::PrefixSyntax,
        PacketError::PrefixLength { max: 32 },
        PacketError::PrefixHostBits {
            network: ip("10.0.0.0"),
            len: 8,
        },
    ];
    let reasons: HashSet<_> = all.iter().map(|error| error.reason()).collect();
    assert_eq!(reasons.len(), all.len());
    assert!(reasons.iter().all(|reason| {
        reason
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    }));
    let words: HashSet<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), all.len());
}
