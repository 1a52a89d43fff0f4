//! Pieces at the boundaries, and pieces put together again.
//!
//! Offsets count in eights, so every boundary is tested with one byte more and one less; random packets cut at random
//! sizes must make up the packet again, also when a piece is cut a second time.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::Header as RawHeader;
use super::*;
use crate::build::Header;
use crate::protocol;

fn header() -> Header<'static> {
    Header {
        dont_fragment: false,
        identification: 0x1234,
        ttl: 9,
        traffic_class: 0xb8,
        ..Header::new("10.0.0.1".parse().unwrap(), "192.0.2.9".parse().unwrap())
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// (offset, payload length, MF) of each piece.
fn shape(packet: &[u8], mtu: u16) -> Vec<(u16, usize, bool)> {
    ipv4(packet, mtu)
        .unwrap()
        .map(|piece| {
            let view = Ipv4View::parse(&piece).unwrap();
            assert!(view.header_checksum_valid() && piece.len() <= usize::from(mtu));
            (
                view.fragment_offset(),
                view.payload().len(),
                view.more_fragments(),
            )
        })
        .collect()
}

#[test]
fn a_packet_is_cut_at_multiples_of_eight() {
    let packet = header().packet(protocol::UDP, &pattern(1_480));
    assert_eq!(
        shape(&packet, 1_280),
        [(0, 1_256, true), (1_256, 224, false)]
    );
    assert_eq!(
        shape(&packet, 1_283),
        [(0, 1_256, true), (1_256, 224, false)]
    );
    assert_eq!(
        shape(&packet, 1_284),
        [(0, 1_264, true), (1_264, 216, false)]
    );
    assert_eq!(shape(&packet, 1_499), [(0, 1_472, true), (1_472, 8, false)]);
}

#[test]
fn no_empty_piece_follows_a_full_one() {
    let packet = |length| header().packet(protocol::UDP, &pattern(length));
    assert_eq!(
        shape(&packet(2 * 1_256), 1_276),
        [(0, 1_256, true), (1_256, 1_256, false)]
    );
    // The last piece may fill the MTU with a length that is no multiple of 8.
    assert_eq!(
        shape(&packet(1_256 + 1_260), 1_280),
        [(0, 1_256, true), (1_256, 1_260, false)]
    );
    assert_eq!(
        shape(&packet(1_256 + 1_261), 1_280),
        [(0, 1_256, true), (1_256, 1_256, true), (2_512, 5, false)]
    );
}

#[test]
fn a_packet_that_fits_is_its_only_piece() {
    for dont_fragment in [false, true] {
        let packet = Header {
            dont_fragment,
            ..header()
        }
        .packet(protocol::UDP, &pattern(1_260));
        assert_eq!(ipv4(&packet, 1_280).unwrap().collect::<Vec<_>>(), [packet]);
    }
}

#[test]
fn what_identifies_the_datagram_is_carried() {
    let packet = header().packet(protocol::UDP, &pattern(3_000));
    for piece in ipv4(&packet, 1_280).unwrap() {
        let view = Ipv4View::parse(&piece).unwrap();
        assert_eq!(
            (view.identification(), view.ttl(), view.traffic_class()),
            (0x1234, 9, 0xb8)
        );
        assert_eq!(
            (view.protocol(), view.dont_fragment()),
            (protocol::UDP, false)
        );
        assert_eq!(view.source().octets(), [10, 0, 0, 1]);
        assert_eq!(view.destination().octets(), [192, 0, 2, 9]);
    }
}

#[test]
fn a_fragment_is_cut_on() {
    let middle = Header {
        fragment_offset: 1_480,
        more_fragments: true,
        ..header()
    };
    let last = Header {
        fragment_offset: 1_480,
        ..header()
    };
    assert_eq!(
        shape(&middle.packet(protocol::UDP, &pattern(1_480)), 1_280),
        [(1_480, 1_256, true), (2_736, 224, true)]
    );
    assert_eq!(
        shape(&last.packet(protocol::UDP, &pattern(1_480)), 1_280),
        [(1_480, 1_256, true), (2_736, 224, false)]
    );
}

#[test]
fn refusals() {
    let packet = |header: Header<'_>| header.packet(protocol::UDP, &pattern(1_480));
    let df = packet(Header {
        dont_fragment: true,
        ..header()
    });
    assert_eq!(ipv4(&df, 1_280).err(), Some(PacketError::DontFragment));
    let v6 = packet(Header::new(
        "fd00::1".parse().unwrap(),
        "fd00::2".parse().unwrap(),
    ));
    assert_eq!(ipv4(&v6, 1_280).err(), Some(PacketError::DontFragment));
    assert_eq!(ipv4(&v6, 9_000).err(), Some(PacketError::DontFragment));
    let whole = packet(header());
    assert_eq!(
        ipv4(&whole, MTU_MIN - 1).err(),
        Some(PacketError::MtuTooSmall)
    );
    assert!(ipv4(&whole, MTU_MIN).is_ok());
    assert_eq!(
        ipv4(&whole[..100], 1_280).err(),
        Some(PacketError::LengthMismatch)
    );
    let malformed = packet(Header {
        options: &[7, 1, 0, 0],
        ..header()
    });
    assert_eq!(ipv4(&malformed, 1_280).err(), Some(PacketError::BadOption));
}

#[test]
fn a_fragment_ends_inside_the_largest_datagram() {
    // 65,528 is the last offset; 7 bytes more reach byte 65,535.
    let at = |fragment_offset, length| {
        Header {
            fragment_offset,
            ..header()
        }
        .packet(protocol::UDP, &pattern(length))
    };
    assert_eq!(
        shape(&at(64_000, 1_535), 1_280),
        [(64_000, 1_256, true), (65_256, 279, false)]
    );
    assert_eq!(
        ipv4(&at(64_000, 1_536), 1_280).err(),
        Some(PacketError::FragmentBeyondDatagram)
    );
}

#[test]
fn the_number_of_pieces_is_bounded() {
    let options = [0x83_u8, 40, 4]
        .into_iter()
        .chain([0; 37])
        .collect::<Vec<_>>();
    let packet = Header {
        options: &options,
        ..header()
    }
    .packet(protocol::UDP, &pattern(65_475));
    let pieces = ipv4(&packet, MTU_MIN).unwrap();
    assert_eq!(pieces.clone().count(), 65_475_usize.div_ceil(8));
    assert!(pieces.into_iter().all(|piece| piece.len() <= 68));
}

#[test]
fn options_go_into_later_pieces_by_their_copied_flag() {
    // Record route (7, not copied), no operation, loose source route (131, copied), timestamp (68, not copied).
    let options = [7, 7, 4, 0, 0, 0, 0, 1, 131, 7, 4, 192, 0, 2, 1, 68, 4, 5, 0];
    let packet = Header {
        options: &options,
        ..header()
    }
    .packet(protocol::UDP, &pattern(200));
    let pieces: Vec<_> = ipv4(&packet, 128).unwrap().collect();
    let first = Ipv4View::parse(&pieces[0]).unwrap();
    assert_eq!(first.header()[20..], packet[20..40]);
    for piece in &pieces[1..] {
        let view = Ipv4View::parse(piece).unwrap();
        assert_eq!(view.header()[20..], [131, 7, 4, 192, 0, 2, 1, 0]);
    }
    // 128 − 40 = 88 bytes in the first, 128 − 28 = 100 → 96 in the next.
    assert_eq!(
        shape(&packet, 128),
        [(0, 88, true), (88, 96, true), (184, 16, false)]
    );
}

#[test]
fn a_header_never_outgrows_its_buffer() {
    let options = [0x88_u8, 40].into_iter().chain([1; 38]).collect::<Vec<_>>();
    let packet = Header {
        options: &options,
        ..header()
    }
    .packet(protocol::UDP, &pattern(200));
    let later = RawHeader::later(&Ipv4View::parse(&packet).unwrap()).unwrap();
    assert_eq!(later.len, HEADER_BYTES_MAX);
}

proptest! {
    #[test]
    fn pieces_make_up_the_packet(
        length in 0_usize..6_000,
        mtu in MTU_MIN..2_000,
        offset in 0_u16..7_000,
        more_fragments: bool,
        options in prop::sample::select(vec![&[][..], &[1, 131, 3, 4], &[7, 3, 4, 0], &[148, 4, 0, 0, 7, 3, 4]]),
    ) {
        let header = Header { fragment_offset: offset * 8, more_fragments, options, ..header() };
        let packet = header.packet(protocol::TCP, &pattern(length));
        let Ok(pieces) = ipv4(&packet, mtu) else {
            prop_assert!(usize::from(offset) * 8 + length > PACKET_BYTES_MAX);
            return Ok(());
        };
        let mut payload = Vec::new();
        let mut last = true;
        for piece in pieces {
            let view = Ipv4View::parse(&piece).unwrap();
            prop_assert!(view.header_checksum_valid());
            prop_assert_eq!(usize::from(view.fragment_offset()), usize::from(offset) * 8 + payload.len());
            payload.extend_from_slice(view.payload());
            last = view.more_fragments();
            prop_assert!(last || payload.len() == length);
            // A real cut is as long as it can be.
            prop_assert!(payload.len() == length || piece.len() + 8 > usize::from(mtu));
        }
        prop_assert_eq!(last, more_fragments);
        prop_assert_eq!(payload, pattern(length));
    }
}
