//! Bounds in pairs (N passes, N + 1 does not), the writers' rules for values out of range, and round trips of anything.

use proptest::prelude::*;

use super::*;
use crate::registry::{ACK_RANGES_MAX, DEP_MAX, ErrorCode};

fn written(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    assert_eq!(bytes.len(), frame.encoded_len(), "{frame:?}");
    bytes
}

fn parse_all(bytes: &[u8]) -> Result<Vec<Frame<'_>>, FrameError> {
    Frames::new(bytes).collect()
}

fn pack(number: u64, dep: u64, data: &[u8]) -> Pack<'_> {
    Pack {
        lane: Lane::FLOW,
        number,
        tx: number + 1,
        flags: PackFlags::WHOLE,
        dep,
        data,
    }
}

fn ack(cumulative: u64, ranges: &[AckRange]) -> Ack<'_> {
    Ack {
        lane: Lane::FLOW,
        cumulative,
        ranges: AckRanges::new(ranges),
        largest_tx: 9,
        delay_us: 100,
        dup_tx: None,
        credit: Credit::FIRST,
    }
}

/// `count` ranges of one number each above 0, every second number missing.
fn comb(count: u64) -> Vec<AckRange> {
    (1..=count)
        .map(|n| AckRange {
            first: 2 * n,
            last: 2 * n,
        })
        .collect()
}

fn range(first: u64, last: u64) -> AckRange {
    AckRange { first, last }
}

// case B79
#[test]
fn every_prefix_of_a_datagram_is_an_error_or_fewer_frames() {
    let ranges = comb(3);
    let ping = Ping {
        nonce: 7,
        lanes: Lane::ALL
            .map(|lane| LaneProbe {
                lane,
                largest_number: 300,
                tx: 70_000,
            })
            .into_iter()
            .collect(),
    };
    let frames = [
        Frame::Pack(pack(5, 2, b"packet")),
        Frame::Ack(Ack {
            dup_tx: Some(3),
            ..ack(1, &ranges)
        }),
        Frame::Skip(Skip {
            lane: Lane::MESSAGE,
            up_to: 70,
            bytes_up_to: 100_000,
        }),
        Frame::Dgram(b"datagram"),
        Frame::Ping(ping),
        Frame::Pong(Pong { nonce: 7 }),
    ];
    let mut bytes = Vec::new();
    let ends: Vec<usize> = frames
        .iter()
        .map(|frame| {
            frame.write(&mut bytes);
            bytes.len()
        })
        .collect();
    assert_eq!(parse_all(&bytes).as_deref(), Ok(&frames[..]));
    for cut in 0..bytes.len() {
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        let mut walk = Frames::new(&bytes[..cut]);
        for frame in &frames[..whole] {
            assert_eq!(walk.next(), Some(Ok(*frame)), "cut at {cut}");
        }
        match walk.next() {
            None => assert!(ends.contains(&cut), "cut at {cut}"),
            Some(Ok(frame)) => panic!("cut at {cut}: {frame:?}"),
            Some(Err(FrameError::EmptyDatagram)) => assert_eq!(cut, 0),
            Some(Err(error)) => assert!(matches!(error, FrameError::Truncated { .. }), "{error}"),
        }
        assert_eq!(walk.next(), None, "something after the end");
    }
}

#[test]
fn nothing_comes_after_an_error() {
    // A frame type 0, then a PONG that would parse.
    let mut bytes = vec![0];
    Pong { nonce: 1 }.write(&mut bytes);
    let mut walk = Frames::new(&bytes);
    assert_eq!(
        walk.next(),
        Some(Err(FrameError::UnknownType { number: 0 }))
    );
    assert_eq!(walk.next(), None);
    assert_eq!(walk.next(), None);
    assert_eq!(
        FrameError::UnknownType { number: 0 }.code(),
        ErrorCode::MalformedFrame
    );
}

#[test]
fn frames_borrow_their_bytes_from_the_datagram() {
    let bytes = written(&Frame::Dgram(b"packet"));
    let Some(Ok(Frame::Dgram(packet))) = Frames::new(&bytes).next() else {
        panic!("a DGRAM")
    };
    assert_eq!(packet.as_ptr(), bytes[2..].as_ptr());
}

#[test]
fn dep_reaches_to_the_bitmap_and_to_number_0() {
    for (number, dep, kept) in [
        (DEP_MAX, DEP_MAX, true),
        (DEP_MAX + 1, DEP_MAX, true),
        (DEP_MAX + 1, DEP_MAX + 1, false),
        (3, 3, true),
        (3, 4, false),
        (0, 0, true),
    ] {
        let bytes = written(&Frame::Pack(pack(number, dep, b"x")));
        let expected = pack(number, if kept { dep } else { 0 }, b"x");
        assert_eq!(
            parse_all(&bytes),
            Ok(vec![Frame::Pack(expected)]),
            "{number} - {dep}"
        );
    }
}

#[test]
fn numbers_above_the_largest_saturate() {
    let bytes = written(&Frame::Pack(Pack {
        number: u64::MAX,
        tx: varint::MAX + 1,
        ..pack(0, 0, b"")
    }));
    let expected = Pack {
        number: varint::MAX,
        tx: varint::MAX,
        ..pack(0, 0, b"")
    };
    assert_eq!(parse_all(&bytes), Ok(vec![Frame::Pack(expected)]));
}

#[test]
fn pack_overhead() {
    let data = vec![0; 65_535];
    let longest = Pack {
        number: varint::MAX,
        tx: varint::MAX,
        dep: DEP_MAX,
        ..pack(0, 0, &data)
    };
    assert_eq!(longest.header_len(), PACK_OVERHEAD_MAX);
    assert_eq!(
        written(&Frame::Pack(longest)).len(),
        PACK_OVERHEAD_MAX + 65_535
    );
    assert_eq!(pack(0, 0, b"").header_len(), 7);
}

#[test]
fn dgram_overhead() {
    for (payload, overhead) in [
        (0, 2),
        (63, 2),
        (64, 3),
        (1_280, 3),
        (16_383, 3),
        (16_384, 5),
        (65_535, 5),
    ] {
        assert_eq!(dgram_len(payload), payload + overhead);
        assert_eq!(
            written(&Frame::Dgram(&vec![0; payload])).len(),
            payload + overhead
        );
        assert!(overhead <= DGRAM_OVERHEAD_MAX);
    }
}

#[test]
fn sixty_four_ranges_and_no_more() {
    let comb = comb(65);
    let full = written(&Frame::Ack(ack(1, &comb[..ACK_RANGES_MAX])));
    let Some(Ok(Frame::Ack(read))) = Frames::new(&full).next() else {
        panic!("an ACK")
    };
    assert!(read.ranges.iter().eq(comb[..64].iter().copied()));
    // The writer leaves out what a reader would refuse, the highest first.
    assert_eq!(written(&Frame::Ack(ack(1, &comb))), full);
    assert_eq!(ack(1, &comb).ranges.len(), ACK_RANGES_MAX);

    let head = full.len() - 2 * ACK_RANGES_MAX - 2;
    let mut more = full[..head].to_vec();
    varint::write(&mut more, 65);
    more.extend_from_slice(&full[head + 2..]);
    more.extend_from_slice(&[0, 0]);
    assert_eq!(
        parse_all(&more),
        Err(FrameError::TooManyRanges { count: 65 })
    );
}

#[test]
fn ranges_out_of_order_end_the_list_that_is_written() {
    let good = range(12, 14);
    let cases = [
        ("touches the one before", range(15, 16)),
        ("overlaps it", range(14, 20)),
        ("lies below it", range(5, 6)),
        ("is inverted", range(20, 19)),
        ("ends too high", range(20, varint::MAX + 1)),
    ];
    for (what, bad) in cases {
        let list = [good, bad, range(30, 31)];
        let bytes = written(&Frame::Ack(ack(10, &list)));
        assert_eq!(
            parse_all(&bytes),
            Ok(vec![Frame::Ack(ack(10, &[good]))]),
            "{what}"
        );
    }
    for first in [0, 9, 10] {
        let list = [range(first, 14)];
        let bytes = written(&Frame::Ack(ack(10, &list)));
        assert_eq!(
            parse_all(&bytes),
            Ok(vec![Frame::Ack(ack(10, &[]))]),
            "from {first}"
        );
    }
    let list = [range(11, 14)];
    let bytes = written(&Frame::Ack(ack(10, &list)));
    assert_eq!(parse_all(&bytes), Ok(vec![Frame::Ack(ack(10, &list))]));
}

#[test]
fn the_largest_number_can_be_in_a_range() {
    let list = [range(varint::MAX, varint::MAX)];
    let bytes = written(&Frame::Ack(ack(varint::MAX - 1, &list)));
    assert_eq!(
        parse_all(&bytes),
        Ok(vec![Frame::Ack(ack(varint::MAX - 1, &list))])
    );
    // One number later there is none above the cumulative.
    let bytes = written(&Frame::Ack(ack(varint::MAX, &list)));
    assert_eq!(
        parse_all(&bytes),
        Ok(vec![Frame::Ack(ack(varint::MAX, &[]))])
    );
}

#[test]
fn an_ack_is_cut_to_the_room_by_its_highest_ranges() {
    let comb = comb(64);
    let whole = ack(1, &comb);
    let bare = ack(1, &[]).encoded_len();
    assert_eq!(whole.fitting(bare - 1), None);
    let mut kept_before = 0;
    for room in bare..=whole.encoded_len() {
        let cut = whole.fitting(room).expect("fits without ranges");
        let kept = cut.ranges.len();
        // 64 ranges need a count of two bytes, so that the last one comes three bytes later.
        assert_eq!(
            kept,
            if room == whole.encoded_len() {
                64
            } else {
                ((room - bare) / 2).min(63)
            }
        );
        assert!(kept >= kept_before && cut.encoded_len() <= room);
        assert!(cut.ranges.iter().eq(comb[..kept].iter().copied()));
        assert_eq!(
            parse_all(&written(&Frame::Ack(cut))),
            Ok(vec![Frame::Ack(cut)])
        );
        kept_before = kept;
    }
    assert_eq!(kept_before, 64);
}

#[test]
fn the_longest_ack_and_ping() {
    let high = 1 << 61;
    let list: Vec<_> = (0..64)
        .map(|n| range(high + n * (high >> 6), high + n * (high >> 6) + (high >> 8)))
        .collect();
    let longest = Ack {
        largest_tx: varint::MAX,
        delay_us: varint::MAX,
        dup_tx: Some(varint::MAX),
        credit: Credit {
            max_bytes: varint::MAX,
            max_number: varint::MAX,
        },
        ..ack(1 << 60, &list)
    };
    assert_eq!(written(&Frame::Ack(longest)).len(), Ack::ENCODED_LEN_MAX);
    let lanes = Lane::ALL.map(|lane| LaneProbe {
        lane,
        largest_number: varint::MAX,
        tx: varint::MAX,
    });
    let longest = Ping {
        nonce: u64::MAX,
        lanes: lanes.into_iter().collect(),
    };
    assert_eq!(written(&Frame::Ping(longest)).len(), Ping::ENCODED_LEN_MAX);
}

#[test]
fn a_lane_is_named_once_in_a_ping() {
    let probe = |lane, tx| LaneProbe {
        lane,
        largest_number: 4,
        tx,
    };
    let mut lanes = LaneProbes::new();
    assert!(lanes.is_empty());
    assert_eq!(lanes.insert(probe(Lane::FLOW, 1)), None);
    assert_eq!(
        lanes.insert(probe(Lane::FLOW, 2)),
        Some(probe(Lane::FLOW, 1))
    );
    assert_eq!(lanes.insert(probe(Lane::MESSAGE, 3)), None);
    assert_eq!(lanes.len(), 2);
    assert_eq!(lanes.of(Lane::FLOW), Some(probe(Lane::FLOW, 2)));
    assert!(
        lanes
            .iter()
            .eq([probe(Lane::MESSAGE, 3), probe(Lane::FLOW, 2)])
    );
}

#[test]
fn lanes() {
    assert_eq!(Lane::from_number(2), None);
    assert_eq!(Lane::from_number(1 << 32), None);
    for (index, lane) in Lane::ALL.into_iter().enumerate() {
        assert_eq!(lane.index(), index);
        assert_eq!(Lane::from_number(u64::from(lane.number())), Some(lane));
    }
    assert_eq!(Lane::ALL.map(Lane::name), ["message", "flow"]);
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, 0..=varint::MAX, varint::MAX - 200..=varint::MAX]
}

fn any_lane() -> impl Strategy<Value = Lane> {
    prop::sample::select(Lane::ALL.to_vec())
}

fn any_flags() -> impl Strategy<Value = PackFlags> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(first, last, unordered)| PackFlags {
        first,
        last,
        unordered,
    })
}

/// Ranges above `cumulative`, from gaps and lengths.
fn ranges_above(cumulative: u64, steps: &[(u64, u64)]) -> Vec<AckRange> {
    let mut next = cumulative;
    let mut ranges = Vec::new();
    for (gap, length) in steps {
        let first = next + 1 + gap;
        let last = first + length;
        if last > varint::MAX {
            break;
        }
        ranges.push(range(first, last));
        next = last + 1;
    }
    ranges
}

proptest! {
    #[test]
    fn packs_come_back(
        lane in any_lane(), number in any_number(), tx in any_number(), flags in any_flags(), dep in 0..=DEP_MAX,
        data in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let pack = Pack { lane, number, tx, flags, dep: dep.min(number), data: &data };
        let bytes = written(&Frame::Pack(pack));
        prop_assert_eq!(bytes.len(), pack.header_len() + data.len());
        prop_assert_eq!(parse_all(&bytes), Ok(vec![Frame::Pack(pack)]));
    }

    #[test]
    fn acks_come_back(
        lane in any_lane(), cumulative in any_number(),
        steps in prop::collection::vec((0..1_000_u64, 0..1_000_u64), 0..80),
        largest_tx in any_number(), delay_us in any_number(), dup_tx in prop::option::of(any_number()),
        max_bytes in any_number(), max_number in any_number(), room in 0..1_200_usize,
    ) {
        let ranges = ranges_above(cumulative, &steps);
        let credit = Credit { max_bytes, max_number };
        let ranges = AckRanges::new(&ranges);
        let ack = Ack { lane, cumulative, ranges, largest_tx, delay_us, dup_tx, credit };
        let bytes = written(&Frame::Ack(ack));
        prop_assert_eq!(parse_all(&bytes), Ok(vec![Frame::Ack(ack)]));
        if let Some(cut) = ack.fitting(room) {
            let bytes = written(&Frame::Ack(cut));
            prop_assert!(bytes.len() <= room);
            prop_assert_eq!(parse_all(&bytes), Ok(vec![Frame::Ack(cut)]));
        } else {
            let bare = Ack { ranges: AckRanges::EMPTY, ..ack };
            prop_assert!(bare.encoded_len() > room);
        }
    }

    #[test]
    fn any_list_of_ranges_is_written_as_one_that_is_read(
        cumulative in 0..60_u64,
        list in prop::collection::vec((0..80_u64, 0..80_u64), 0..8),
    ) {
        let list: Vec<_> = list.into_iter().map(|(first, last)| range(first, last)).collect();
        let bytes = written(&Frame::Ack(ack(cumulative, &list)));
        let frames = parse_all(&bytes);
        prop_assert!(frames.is_ok(), "{:?}", frames);
        // Whatever was left out, nothing is claimed that was not in the list.
        for frame in frames.unwrap_or_default() {
            if let Frame::Ack(read) = frame {
                let kept = read.ranges.len();
                prop_assert!(read.ranges.iter().eq(list[..kept].iter().copied()));
            }
        }
    }

    #[test]
    fn the_rest_comes_back(
        lane in any_lane(), up_to in any_number(), bytes_up_to in any_number(), nonce in any::<u64>(),
        probes in prop::collection::vec((any_lane(), any_number(), any_number()), 0..4),
        packet in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let probes = probes.into_iter().map(|(lane, largest_number, tx)| LaneProbe { lane, largest_number, tx });
        for frame in [
            Frame::Skip(Skip { lane, up_to, bytes_up_to }),
            Frame::Dgram(&packet),
            Frame::Ping(Ping { nonce, lanes: probes.collect() }),
            Frame::Pong(Pong { nonce }),
        ] {
            let bytes = written(&frame);
            prop_assert_eq!(parse_all(&bytes), Ok(vec![frame]));
        }
    }

    // case B79
    #[test]
    fn any_bytes_are_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzz::frames(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_frame_type_are_frames_or_an_error(
        number in 1..=6_u8, bytes in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..60),
    ) {
        crate::fuzz::frames(&[&[number], &bytes[..]].concat());
    }
}
