//! Super-packets taken apart, against packets that were built one by one.
//!
//! The oracle knows nothing of splitting: it builds each segment with the test builder (itself held against etherparse
//! by the test `oracle`), from the numbers that the segment must have. What it builds must come out byte for byte.

use std::net::IpAddr;

use proptest::prelude::*;
use quell_packet::build::{Header, Segment};
use quell_packet::offload::{Gso, Split, VirtioHeader, fuzz, split, virtio};
use quell_packet::tcp::flags;
use quell_packet::{IpPacket, PACKET_BYTES_MAX, PacketError, checksum, protocol};

const TIMESTAMPS: &[u8] = &[1, 1, 8, 10, 0, 1, 2, 3, 0, 4, 5, 6];

pub(crate) fn v4() -> Header<'static> {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    Header {
        identification: 0xfffe,
        ..Header::new(ip("10.0.0.1"), ip("192.0.2.9"))
    }
}

pub(crate) fn v6() -> Header<'static> {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    Header::new(ip("fd00::1"), ip("2001:db8::9"))
}

pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// What the kernel hands over: the checksum's field holds the pseudo header's sum alone.
pub(crate) fn left_to_us(mut packet: Vec<u8>, gso: Gso, gso_size: u16) -> (VirtioHeader, Vec<u8>) {
    let ip = IpPacket::parse(&packet).unwrap();
    let at = ip.header_len();
    let length = u16::try_from(packet.len() - at).unwrap();
    let pseudo = !checksum::pseudo(ip.source(), ip.destination(), ip.protocol(), length).finish();
    let offset = if ip.protocol() == protocol::TCP {
        16
    } else {
        6
    };
    packet[at + offset..at + offset + 2].copy_from_slice(&pseudo.to_be_bytes());
    let header = VirtioHeader {
        needs_checksum: true,
        gso,
        gso_size,
        // A hint, and wrong on purpose: nothing may be computed from it.
        header_len: u16::MAX,
        checksum_start: u16::try_from(at).unwrap(),
        checksum_offset: u16::try_from(offset).unwrap(),
        ecn: false,
    };
    (header, packet)
}

pub(crate) fn split_all(header: &VirtioHeader, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut packet = packet.to_vec();
    let mut split = Split::new(header, &packet).unwrap();
    let count = split.segments();
    let mut segments = Vec::new();
    while let Some((head, body)) = split.next(&mut packet) {
        segments.push([head, body].concat());
    }
    assert_eq!(segments.len(), count);
    segments
}

/// Each segment, built by itself.
pub(crate) fn expected_tcp(
    header: Header<'_>,
    tcp: Segment<'_>,
    payload: &[u8],
    size: usize,
) -> Vec<Vec<u8>> {
    let count = payload.chunks(size).count();
    let segment = |(n, chunk): (usize, &[u8])| {
        let mut kept = tcp.flags;
        if n > 0 {
            kept &= !flags::CWR;
        }
        if n + 1 < count {
            kept &= !(flags::FIN | flags::PSH);
        }
        let tcp = Segment {
            sequence: tcp.sequence.wrapping_add((n * size) as u32),
            flags: kept,
            ..tcp
        };
        let identification = header.identification.wrapping_add(n as u16);
        let header = Header {
            identification,
            ..header
        };
        header.tcp(4_000, 443, &tcp, chunk)
    };
    payload.chunks(size).enumerate().map(segment).collect()
}

pub(crate) fn gso_of(header: &Header<'_>) -> Gso {
    if header.source.is_ipv4() {
        Gso::TcpV4
    } else {
        Gso::TcpV6
    }
}

fn check_tcp(header: Header<'_>, tcp: Segment<'_>, payload: &[u8], size: u16) {
    let whole = header.tcp(4_000, 443, &tcp, payload);
    let (virtio, packet) = left_to_us(whole.clone(), gso_of(&header), size);
    let expected = expected_tcp(header, tcp, payload, usize::from(size));
    assert_eq!(split_all(&virtio, &packet), expected);
    // A kernel that left the checksum alone gets the same.
    let virtio = VirtioHeader {
        needs_checksum: false,
        ..virtio
    };
    assert_eq!(split_all(&virtio, &whole), expected);
}

fn segment(flags: u8) -> Segment<'static> {
    Segment {
        sequence: u32::MAX - 2_000,
        acknowledgement: 77,
        flags,
        window: 501,
        options: TIMESTAMPS,
    }
}

#[test]
fn fin_and_psh_stay_for_the_last_and_cwr_for_the_first() {
    let all = flags::ACK | flags::FIN | flags::PSH | flags::CWR | flags::ECE;
    for header in [v4(), v6()] {
        for len in [1_447, 1_448, 1_449, 2_896, 2_897, 60_000] {
            check_tcp(header, segment(all), &bytes(len), 1_448);
        }
    }
}

// case B54
#[test]
fn an_ipv6_chain_before_tcp_is_a_part_of_every_segment() {
    let extensions: &[(u8, &[u8])] = &[
        (protocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0]),
        (
            protocol::DESTINATION_OPTIONS,
            &[1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];
    let one: &[(u8, &[u8])] = &[(protocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0])];
    for extensions in [one, extensions] {
        let header = Header { extensions, ..v6() };
        check_tcp(
            header,
            segment(flags::ACK | flags::PSH),
            &bytes(10_000),
            1_420,
        );
    }
}

// case B53: a super-packet of the largest size, at each segment size from the least that Linux sends.
#[test]
fn every_segment_size_of_the_longest_packet_makes_all_its_segments() {
    for header in [v4(), v6()] {
        let plain = Segment {
            options: &[],
            ..segment(flags::ACK)
        };
        let headers = header.tcp(4_000, 443, &plain, &[]).len();
        let payload = bytes(PACKET_BYTES_MAX - headers);
        let whole = header.tcp(4_000, 443, &plain, &payload);
        assert_eq!(whole.len(), PACKET_BYTES_MAX);
        for size in 48..=1_448 {
            let (virtio, packet) = left_to_us(whole.clone(), gso_of(&header), size);
            let segments = split_all(&virtio, &packet);
            assert_eq!(segments.len(), payload.len().div_ceil(usize::from(size)));
            if size % 100 == 48 {
                assert_eq!(
                    segments,
                    expected_tcp(header, plain, &payload, usize::from(size))
                );
            }
        }
    }
}

#[test]
fn udp_datagrams_get_their_own_lengths() {
    for header in [v4(), v6()] {
        let payload = bytes(12 * 1_200 + 1);
        let (virtio, packet) = left_to_us(header.udp(5, 53, &payload), Gso::Udp, 1_200);
        let expected: Vec<_> = payload
            .chunks(1_200)
            .zip(0..)
            .map(|(chunk, n)| {
                let identification = header.identification.wrapping_add(n);
                Header {
                    identification,
                    ..header
                }
                .udp(5, 53, chunk)
            })
            .collect();
        assert_eq!(split_all(&virtio, &packet), expected);
    }
}

#[test]
fn a_checksum_that_was_left_to_us_is_completed() {
    for header in [v4(), v6()] {
        for len in [0, 1, 99, 1_400] {
            let payload = bytes(len);
            for whole in [
                header.udp(5, 53, &payload),
                header.tcp(5, 53, &segment(flags::ACK), &payload),
            ] {
                let (virtio, mut packet) = left_to_us(whole.clone(), Gso::None, 0);
                split::complete(&virtio, &mut packet).unwrap();
                assert_eq!(packet, whole);
            }
        }
    }
    // In UDP, 0 would say that there is none.
    let mut payload = [0; 2];
    let zero = (0..=u16::MAX).find(|word| {
        payload = word.to_be_bytes();
        let packet = v4().udp(5, 53, &payload);
        packet[26..28] == [0xff, 0xff]
    });
    let whole = v4().udp(5, 53, &zero.unwrap().to_be_bytes());
    let (virtio, mut packet) = left_to_us(whole.clone(), Gso::None, 0);
    split::complete(&virtio, &mut packet).unwrap();
    assert_eq!(packet, whole);
}

// case B53: nonsense is refused, each with its reason, and changes nothing.
#[test]
fn a_header_that_disagrees_with_its_packet_is_refused() {
    let whole = v4().tcp(5, 53, &segment(flags::ACK), &bytes(5_000));
    let (good, packet) = left_to_us(whole, Gso::TcpV4, 1_000);
    assert!(Split::new(&good, &packet).is_ok());
    let mismatches = [
        VirtioHeader {
            gso: Gso::TcpV6,
            ..good
        },
        VirtioHeader {
            gso: Gso::Udp,
            ..good
        },
        VirtioHeader {
            gso: Gso::None,
            ..good
        },
        VirtioHeader {
            gso_size: 0,
            ..good
        },
        VirtioHeader {
            checksum_start: good.checksum_start + 1,
            ..good
        },
        VirtioHeader {
            checksum_start: u16::MAX,
            ..good
        },
        VirtioHeader {
            checksum_offset: 6,
            ..good
        },
    ];
    for header in mismatches {
        let refused = Split::new(&header, &packet).unwrap_err();
        assert_eq!(refused, PacketError::OffloadMismatch, "{header:?}");
    }
    let cut = Split::new(&good, &packet[..packet.len() - 1]).unwrap_err();
    assert_eq!(cut, PacketError::LengthMismatch);
    let fragment = Header {
        more_fragments: true,
        ..v4()
    };
    let (header, packet) = left_to_us(
        fragment.tcp(5, 53, &segment(flags::ACK), &bytes(5_000)),
        Gso::TcpV4,
        1_000,
    );
    assert!(Split::new(&header, &packet).is_err());
    // UFO (3), and a type of tomorrow.
    for kind in [2, 3, 6, 0x20, 0x83] {
        let mut bytes = good.encode();
        bytes[1] = kind;
        let refused = VirtioHeader::decode(&bytes).unwrap_err();
        assert_eq!(refused, PacketError::UnknownOffload, "{kind}");
    }
    let outside = VirtioHeader {
        gso: Gso::None,
        checksum_start: 9,
        checksum_offset: 2,
        ..good
    };
    let mut short = [7; 12];
    assert!(split::complete(&outside, &mut short).is_err());
    assert!(
        split::complete(
            &VirtioHeader {
                checksum_offset: 1,
                ..outside
            },
            &mut short
        )
        .is_ok()
    );
}

proptest! {
    #[test]
    fn any_super_packet_is_what_its_segments_built_alone_are(
        is_v4: bool, kept in any::<u8>(), len in 1_usize..20_000, size in 1_u16..3_000,
        id: u16, sequence: u32, class: u8, options in prop::sample::select(vec![&[][..], TIMESTAMPS]),
    ) {
        let size = size.max((len / 500) as u16 + 1);
        let base = if is_v4 { v4() } else { v6() };
        let header = Header { identification: id, traffic_class: class, ..base };
        let tcp = Segment { sequence, flags: kept, options, ..segment(0) };
        check_tcp(header, tcp, &bytes(len), size);
    }

    #[test]
    fn any_header_before_any_packet_breaks_nothing(
        header in any::<[u8; virtio::HEADER_BYTES]>(), kind in 0_u8..6, size in 0_u16..400,
        is_v4: bool, is_tcp: bool, len in 0_usize..4_000, cut in 0_usize..8,
    ) {
        let base = if is_v4 { v4() } else { v6() };
        let packet = if is_tcp {
            base.tcp(1, 2, &segment(flags::ACK), &bytes(len))
        } else {
            base.udp(1, 2, &bytes(len))
        };
        let [flags, _, h0, h1, _, _, s0, s1, o0, o1] = header;
        let [g0, g1] = size.to_ne_bytes();
        let header = [flags, kind, h0, h1, g0, g1, s0, s1, o0, o1];
        let end = packet.len().saturating_sub(cut.saturating_sub(4));
        fuzz::offload(&[&header[..], &packet[..end]].concat());
    }
}
