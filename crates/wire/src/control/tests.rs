//! The decoder against a stream in pieces, bounds in pairs (N passes, N + 1 does not), and round trips of anything.
//! What single malformed bodies are answered with stands in `golden/control-malformed.txt`.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::frame::{AckRange, Credit, Lane};
use crate::registry::{
    ACK_RANGES_MAX, AGENT_BYTES_MAX, CBOR_DEPTH_MAX, CONTRACT_BYTES_MAX, ErrorCode,
    RECEIPT_BYTES_MAX, WORDS_BYTES_MAX,
};

fn goaway(drain_ms: u64) -> Control {
    Control::Goaway(Goaway {
        reason: 2,
        drain_ms,
    })
}

fn encoded(message: &Control) -> Vec<u8> {
    let mut stream = BytesMut::new();
    message.encode(&mut stream).unwrap();
    stream.to_vec()
}

fn prefix(length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint::write(&mut bytes, length);
    bytes
}

/// A GOAWAY of exactly `length` bytes: an unknown field holds the rest.
fn goaway_of(length: usize) -> Vec<u8> {
    let mut body = vec![0xa4, 0, 8, 1, 2, 2, 0, 3, 0x5a];
    let filling = length - body.len() - 4;
    body.extend_from_slice(&u32::try_from(filling).unwrap().to_be_bytes());
    body.resize(length, 0);
    body
}

fn pushed(pieces: &[&[u8]]) -> ControlDecoder {
    let mut decoder = ControlDecoder::new();
    pieces.iter().for_each(|piece| decoder.push(piece));
    decoder
}

#[test]
fn messages_come_out_whatever_the_pieces() {
    let messages = [goaway(1), goaway(100_000), goaway(0)];
    let stream: Vec<u8> = messages.iter().flat_map(encoded).collect();
    for piece in 1..=stream.len() {
        let mut decoder = ControlDecoder::new();
        let mut read = Vec::new();
        for bytes in stream.chunks(piece) {
            decoder.push(bytes);
            while let Some(message) = decoder.next().unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, messages, "pieces of {piece}");
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}

#[test]
fn a_stream_cut_short_waits_and_says_so() {
    let stream = encoded(&goaway(1));
    for cut in 0..stream.len() {
        let mut decoder = pushed(&[&stream[..cut]]);
        assert_eq!(decoder.next(), Ok(None));
        assert_eq!(decoder.buffered_bytes(), cut);
    }
}

#[test]
fn sixty_four_kib_pass_and_one_byte_more_is_refused_at_the_prefix() {
    let length = CONTROL_MESSAGE_BYTES_MAX;
    let mut decoder = pushed(&[&prefix(length as u64), &goaway_of(length)]);
    assert_eq!(decoder.next(), Ok(Some(goaway(0))));

    let too_large = ControlError::TooLarge {
        length: length as u64 + 1,
    };
    let mut decoder = pushed(&[&prefix(length as u64 + 1), &goaway_of(length + 1)]);
    assert_eq!(decoder.buffered_bytes(), 0, "nothing of it is stored");
    assert_eq!(decoder.next(), Err(too_large.clone()));
    assert_eq!(too_large.code(), ErrorCode::ControlTooLarge);
    assert_eq!(Control::decode_body(&goaway_of(length)), Ok(goaway(0)));
    assert_eq!(Control::decode_body(&goaway_of(length + 1)), Err(too_large));
}

#[test]
fn a_refused_message_does_not_take_those_before_it_along() {
    let mut decoder = pushed(&[
        &encoded(&goaway(1)),
        &prefix(varint::MAX),
        &encoded(&goaway(2)),
    ]);
    assert_eq!(decoder.next(), Ok(Some(goaway(1))));
    let refused = Err(ControlError::TooLarge {
        length: varint::MAX,
    });
    assert_eq!(decoder.next(), refused);
    decoder.push(&encoded(&goaway(3)));
    assert_eq!(decoder.next(), refused, "an error is for good");
    assert_eq!(decoder.buffered_bytes(), 0);
}

#[test]
fn a_malformed_message_ends_the_stream() {
    let mut decoder = pushed(&[&[1, 0x00], &encoded(&goaway(1))]);
    let error = decoder.next().unwrap_err();
    assert_eq!(error.code(), ErrorCode::MalformedControl);
    assert_eq!(decoder.buffered_bytes(), 0);
    decoder.push(&encoded(&goaway(1)));
    assert_eq!(decoder.next(), Err(error));
    assert_eq!(decoder.buffered_bytes(), 0, "bytes stored after the end");
}

#[test]
fn an_empty_message_is_malformed() {
    let mut decoder = pushed(&[&[0]]);
    assert_eq!(
        decoder.next(),
        Err(ControlError::Truncated {
            message: "control message",
            field: "map"
        })
    );
}

#[test]
fn a_prefix_longer_than_needed_is_read() {
    let body = goaway(1).encode_body().unwrap();
    let mut decoder = pushed(&[&[0xc0, 0, 0, 0, 0, 0, 0, body.len() as u8], &body]);
    assert_eq!(decoder.next(), Ok(Some(goaway(1))));
}

// case B64
#[test]
fn a_claimed_length_reserves_nothing() {
    // 65,536 are claimed of each, and nothing comes.
    let decoders: Vec<_> = (0..1_000)
        .map(|_| pushed(&[&prefix(65_536), &[0xa3]]))
        .collect();
    assert!(decoders.iter().all(|decoder| decoder.buffered_bytes() == 5));
}

/// HELLO's four fields, or a GOAWAY, with an unknown last field.
fn with_unknown(field: &[u8]) -> Vec<u8> {
    [&[0xa4, 0, 8, 1, 2, 2, 0, 3], field].concat()
}

#[test]
fn unknown_fields_nest_to_the_bound_and_no_deeper() {
    // An array in an array in an array …, a map likewise, a tag likewise; the innermost value is 0.
    for nest in [&[0x81][..], &[0xa1, 0x00], &[0xc1]] {
        let nested = |depth: usize| with_unknown(&[nest.repeat(depth), vec![0]].concat());
        assert_eq!(Control::decode_body(&nested(CBOR_DEPTH_MAX)), Ok(goaway(0)));
        let deeper = Control::decode_body(&nested(CBOR_DEPTH_MAX + 1));
        assert_eq!(deeper, Err(ControlError::TooDeep { message: "GOAWAY" }));
        assert_eq!(Control::decode_body(&nested(30_000)), deeper);
    }
    // Empty ones nest as well.
    let empty = with_unknown(&[vec![0x81; CBOR_DEPTH_MAX], vec![0x80]].concat());
    assert!(matches!(
        Control::decode_body(&empty),
        Err(ControlError::TooDeep { .. })
    ));
}

#[test]
fn unknown_fields_of_every_kind_are_skipped() {
    let kinds: [&[u8]; 14] = [
        &[0x1b, 255, 255, 255, 255, 255, 255, 255, 255],
        &[0x3b, 255, 255, 255, 255, 255, 255, 255, 255],
        &[0x43, 1, 2, 3],
        &[0x63, b'a', b'b', b'c'],
        &[0x80],
        &[0x82, 0x81, 0x80, 0x00],
        &[0xa0],
        &[0xa2, 0x00, 0x82, 0x01, 0x02, 0x61, b'k', 0xa1, 0x20, 0xf6],
        &[0xd8, 0x18, 0x41, 0x00],
        &[0xf9, 0x3e, 0x00],
        &[0xfa, 0, 0, 0, 0],
        &[0xfb, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xf7],
        &[0xf8, 0xff],
    ];
    for kind in kinds {
        let whole = with_unknown(kind);
        assert_eq!(Control::decode_body(&whole), Ok(goaway(0)), "{kind:02x?}");
        for cut in 0..whole.len() {
            let error = Control::decode_body(&whole[..cut]).unwrap_err();
            assert!(
                matches!(error, ControlError::Truncated { .. }),
                "{kind:02x?} cut at {cut}: {error}"
            );
        }
        let error = Control::decode_body(&[&whole[..], &[0]].concat()).unwrap_err();
        assert_eq!(
            error,
            ControlError::TrailingBytes {
                message: "GOAWAY",
                count: 1
            },
            "{kind:02x?}"
        );
    }
}

#[test]
fn unknown_fields_between_known_ones_are_skipped() {
    // A lane of RESUMED with keys 0, 5 (unknown) about the known four.
    let mut body = vec![0xa4, 0, 7, 1, 0x50];
    body.extend_from_slice(&[0; 16]);
    body.extend_from_slice(&[
        2, 0, 3, 0x81, 0xa6, 0, 0x80, 1, 1, 2, 0, 3, 0x80, 4, 0x82, 0, 0, 5, 0xa0,
    ]);
    let credit = Credit {
        max_bytes: 0,
        max_number: 0,
    };
    let lane = ResumeLane {
        lane: Lane::FLOW,
        cumulative: 0,
        ranges: Vec::new(),
        credit,
    };
    let expected = Control::Resumed(Resume {
        session_id: [0; 16],
        epoch: 0,
        lanes: vec![lane],
    });
    assert_eq!(Control::decode_body(&body), Ok(expected));
}

fn hello(agent: String) -> Control {
    Control::Hello(Hello {
        version: 1,
        features: 0,
        agent,
        limits: Credit::FIRST,
    })
}

/// A message whose one field has `length` bytes, written without the writer's check.
fn unchecked(number: u8, key: u8, major: u8, length: usize) -> Vec<u8> {
    let bytes = u16::try_from(length).unwrap().to_be_bytes();
    let mut body = match number {
        1 => vec![0xa5, 0, 1, 1, 1, 2, 0, key, major | 25],
        9 => vec![0xa3, 0, 9, 1, 0, key, major | 25],
        _ => vec![0xa2, 0, number, key, major | 25],
    };
    body.extend_from_slice(&bytes);
    body.resize(body.len() + length, b'a');
    if number == 1 {
        body.extend_from_slice(&[4, 0x82, 0, 0]);
    }
    body
}

#[test]
fn texts_and_byte_strings_have_their_bound_both_ways() {
    let text = |length: usize| "a".repeat(length);
    let bytes = |length: usize| Bytes::from(vec![b'a'; length]);
    type Make<'a> = &'a dyn Fn(usize) -> Control;
    let cases: [(usize, Make<'_>, u8, u8, u8); 4] = [
        (AGENT_BYTES_MAX, &|n| hello(text(n)), 1, 3, 0x60),
        (
            WORDS_BYTES_MAX,
            &|n| {
                Control::Error(ErrorMessage {
                    code: 0,
                    words: text(n),
                })
            },
            9,
            2,
            0x60,
        ),
        (
            CONTRACT_BYTES_MAX,
            &|n| Control::Contract(Contract { bytes: bytes(n) }),
            3,
            1,
            0x40,
        ),
        (
            RECEIPT_BYTES_MAX,
            &|n| Control::Receipt(Receipt { bytes: bytes(n) }),
            4,
            1,
            0x40,
        ),
    ];
    for (max, make, number, key, major) in cases {
        assert_eq!(
            Control::decode_body(&make(max).encode_body().unwrap()),
            Ok(make(max))
        );
        assert!(Control::decode_body(&unchecked(number, key, major, max)).is_ok());
        let read = Control::decode_body(&unchecked(number, key, major, max + 1)).unwrap_err();
        let mut stream = BytesMut::from(&b"before"[..]);
        let write = make(max + 1).encode(&mut stream).unwrap_err();
        assert_eq!(write, read, "both ends refuse alike");
        assert!(
            matches!(read, ControlError::TooLong { length, max: bound, .. }
            if bound == max && length == max as u64 + 1)
        );
        assert_eq!(
            stream,
            b"before"[..],
            "a failed write leaves nothing behind"
        );
    }
}

#[test]
fn an_error_message_is_cut_at_a_character() {
    // 1,024 does not lie on a boundary of these two-byte characters behind the words' odd length.
    for padding in ["", "x"] {
        let message = ErrorMessage::new(
            ErrorCode::Fenced,
            format!("{padding}{}", "ü".repeat(WORDS_BYTES_MAX)),
        );
        assert!(
            message.words.len() >= WORDS_BYTES_MAX - 1 && message.words.len() <= WORDS_BYTES_MAX
        );
        assert!(message.words.starts_with(ErrorCode::Fenced.words()));
        assert!(Control::Error(message).encode_body().is_ok());
    }
}

fn resume(lanes: Vec<ResumeLane>) -> Control {
    Control::Resume(Resume {
        session_id: [7; 16],
        epoch: 1,
        lanes,
    })
}

fn lane(lane: Lane, cumulative: u64, ranges: Vec<AckRange>) -> ResumeLane {
    ResumeLane {
        lane,
        cumulative,
        ranges,
        credit: Credit::FIRST,
    }
}

#[test]
fn ranges_of_a_lane_have_their_bound_both_ways() {
    let comb = |count: u64| {
        (1..=count)
            .map(|n| AckRange {
                first: 2 * n,
                last: 2 * n,
            })
            .collect::<Vec<_>>()
    };
    let full = resume(vec![lane(Lane::FLOW, 1, comb(64))]);
    let body = full.encode_body().unwrap();
    assert_eq!(Control::decode_body(&body), Ok(full));
    let over = resume(vec![lane(Lane::FLOW, 1, comb(65))])
        .encode_body()
        .unwrap_err();
    assert_eq!(
        over.to_string(),
        "RESUME lane: `ranges` has 65, at most 64 are allowed"
    );
    // The same array said to have 130 ends: refused by the number, before any is read.
    let at = body
        .windows(2)
        .position(|w| w == [0x98, 2 * ACK_RANGES_MAX as u8])
        .unwrap();
    let mut more = body;
    more[at + 1] += 2;
    let error = Control::decode_body(&more).unwrap_err();
    assert_eq!(
        error.to_string(),
        "RESUME lane: `ranges` has 130, at most 128 are allowed"
    );
}

#[test]
fn what_a_reader_refuses_is_not_written() {
    let range = |first, last| vec![AckRange { first, last }];
    let flow = |destination: IpAddr| FiveTuple {
        protocol: 6,
        source: [10, 0, 0, 1].into(),
        source_port: 1,
        destination,
        destination_port: 2,
    };
    let huge = Credit {
        max_bytes: varint::MAX + 1,
        max_number: 0,
    };
    let welcome = |ipv4, ipv6, limits| {
        Control::Welcome(Welcome {
            version: 1,
            features: 0,
            session_id: [0; 16],
            ipv4,
            ipv6,
            gateway_ipv4: None,
            gateway_ipv6: None,
            mtu: 1_280,
            limits,
        })
    };
    let (v4, v6) = ([10, 0, 0, 1].into(), [0xfd, 0, 0, 0, 0, 0, 0, 1].into());
    let mut oversized_credit = lane(Lane::FLOW, 0, vec![]);
    oversized_credit.credit = huge;
    let refused = [
        resume(vec![lane(Lane::FLOW, 10, range(10, 11))]),
        resume(vec![lane(Lane::FLOW, 10, range(12, 11))]),
        resume(vec![lane(Lane::FLOW, 10, range(12, varint::MAX + 1))]),
        resume(vec![lane(Lane::FLOW, varint::MAX + 1, vec![])]),
        resume(vec![
            lane(Lane::FLOW, 0, vec![]),
            lane(Lane::FLOW, 0, vec![]),
        ]),
        resume(vec![lane(Lane::FLOW, 0, vec![]); 3]),
        resume(vec![oversized_credit]),
        Control::FlowClose(FlowClose {
            flow: flow(IpAddr::from([0_u16; 8])),
            sequence: None,
        }),
        Control::Hello(Hello {
            version: 1,
            features: 0,
            agent: String::new(),
            limits: huge,
        }),
        welcome(Some((v4, 33)), None, Credit::FIRST),
        welcome(None, Some((v6, 129)), Credit::FIRST),
        welcome(None, None, huge),
    ];
    for message in refused {
        let mut stream = BytesMut::new();
        assert!(message.encode(&mut stream).is_err(), "{message:?}");
        assert!(stream.is_empty());
    }
    let passed = [
        resume(vec![
            lane(Lane::FLOW, 10, range(11, varint::MAX)),
            lane(Lane::MESSAGE, varint::MAX, vec![]),
        ]),
        welcome(Some((v4, 32)), Some((v6, 128)), Credit::FIRST),
        Control::FlowClose(FlowClose {
            flow: flow([0; 4].into()),
            sequence: Some(u32::MAX),
        }),
    ];
    for message in passed {
        assert_eq!(
            Control::decode_body(&message.encode_body().unwrap()),
            Ok(message)
        );
    }
}

fn any_credit() -> impl Strategy<Value = Credit> {
    (0..=varint::MAX, 0..=varint::MAX).prop_map(|(max_bytes, max_number)| Credit {
        max_bytes,
        max_number,
    })
}

fn any_lane(lane: Lane) -> impl Strategy<Value = ResumeLane> {
    let steps = prop::collection::vec((0..1_000_u64, 0..1_000_u64), 0..=ACK_RANGES_MAX);
    (0..1_u64 << 60, steps, any_credit()).prop_map(move |(cumulative, steps, credit)| {
        let mut next = cumulative;
        let ranges = steps.into_iter().map(|(gap, length)| {
            let first = next + 1 + gap;
            next = first + length + 1;
            AckRange {
                first,
                last: first + length,
            }
        });
        ResumeLane {
            lane,
            cumulative,
            ranges: ranges.collect(),
            credit,
        }
    })
}

fn any_resume() -> impl Strategy<Value = Resume> {
    let lanes = (
        prop::option::of(any_lane(Lane::MESSAGE)),
        prop::option::of(any_lane(Lane::FLOW)),
    );
    (any::<[u8; 16]>(), any::<u64>(), lanes).prop_map(|(session_id, epoch, (message, flow))| {
        Resume {
            session_id,
            epoch,
            lanes: [flow, message].into_iter().flatten().collect(),
        }
    })
}

fn any_welcome() -> impl Strategy<Value = Welcome> {
    let ipv4 = prop::option::of((any::<std::net::Ipv4Addr>(), 0..=32_u8));
    let ipv6 = prop::option::of((any::<std::net::Ipv6Addr>(), 0..=128_u8));
    let gateways = (
        any::<Option<std::net::Ipv4Addr>>(),
        any::<Option<std::net::Ipv6Addr>>(),
    );
    let head = (
        any::<u64>(),
        any::<u64>(),
        any::<[u8; 16]>(),
        any::<u16>(),
        any_credit(),
    );
    (head, ipv4, ipv6, gateways).prop_map(
        |((version, features, session_id, mtu, limits), ipv4, ipv6, gateways)| {
            let (gateway_ipv4, gateway_ipv6) = gateways;
            Welcome {
                version,
                features,
                session_id,
                ipv4,
                ipv6,
                gateway_ipv4,
                gateway_ipv6,
                mtu,
                limits,
            }
        },
    )
}

fn any_flow() -> impl Strategy<Value = FiveTuple> {
    let ends = prop_oneof![
        any::<[std::net::Ipv4Addr; 2]>().prop_map(|pair| pair.map(IpAddr::V4)),
        any::<[std::net::Ipv6Addr; 2]>().prop_map(|pair| pair.map(IpAddr::V6)),
    ];
    (any::<u8>(), ends, any::<[u16; 2]>()).prop_map(|(protocol, [source, destination], ports)| {
        FiveTuple {
            protocol,
            source,
            source_port: ports[0],
            destination,
            destination_port: ports[1],
        }
    })
}

fn any_message() -> impl Strategy<Value = Control> {
    let opaque = || prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    prop_oneof![
        (
            any::<u64>(),
            any::<u64>(),
            "[a-z/0-9üß]{0,30}",
            any_credit()
        )
            .prop_map(|(version, features, agent, limits)| Control::Hello(Hello {
                version,
                features,
                agent,
                limits
            })),
        any_welcome().prop_map(Control::Welcome),
        opaque().prop_map(|bytes| Control::Contract(Contract { bytes })),
        opaque().prop_map(|bytes| Control::Receipt(Receipt { bytes })),
        (any_flow(), any::<Option<u32>>())
            .prop_map(|(flow, sequence)| Control::FlowClose(FlowClose { flow, sequence })),
        any_resume().prop_map(Control::Resume),
        any_resume().prop_map(Control::Resumed),
        (any::<u64>(), any::<u64>())
            .prop_map(|(reason, drain_ms)| Control::Goaway(Goaway { reason, drain_ms })),
        (any::<u64>(), "\\PC{0,200}")
            .prop_map(|(code, words)| Control::Error(ErrorMessage { code, words })),
    ]
}

proptest! {
    #[test]
    fn messages_come_back(message in any_message()) {
        let body = message.encode_body().unwrap();
        prop_assert_eq!(Control::decode_body(&body), Ok(message.clone()));
        let mut decoder = pushed(&[&encoded(&message)]);
        prop_assert_eq!(decoder.next(), Ok(Some(message)));
        prop_assert_eq!(decoder.next(), Ok(None));
    }

    // case B79
    #[test]
    fn every_prefix_of_a_message_is_an_error(message in any_message()) {
        let body = message.encode_body().unwrap();
        for cut in 0..body.len() {
            prop_assert!(Control::decode_body(&body[..cut]).is_err(), "cut at {}", cut);
        }
    }

    // case B79
    #[test]
    fn a_message_with_any_byte_changed_is_read_or_refused(
        message in any_message(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut stream = encoded(&message);
        let at = at.index(stream.len());
        stream[at] = byte;
        crate::fuzz::control(&[&[3], &stream[..]].concat());
    }

    #[test]
    fn any_bytes_are_messages_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzz::control(&bytes);
    }
}
