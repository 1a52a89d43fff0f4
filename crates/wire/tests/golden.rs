//! The vectors of `golden/` against the values they stand for, both ways.
//!
//! The hex was written by hand from the layout in the module docs, not by the code under test, and the keys by another
//! implementation of BIP 350. So these tests hold the writers and the readers to the documents.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use common::{hex, lines, vectors};
use quell_wire::control::{
    Contract, Control, ControlDecoder, ErrorMessage, FiveTuple, FlowClose, Goaway, Hello, Receipt,
    Resume, ResumeLane, Welcome,
};
use quell_wire::frame::{
    Ack, AckRange, AckRanges, Credit, Frame, Frames, Lane, LaneProbe, Pack, PackFlags, Ping, Pong,
    Skip,
};
use quell_wire::key::{PublicKey, SecretKey};
use quell_wire::registry::ErrorCode;
use quell_wire::varint;

/// Whether a vector is a form that is read but never written.
fn read_only(name: &str) -> bool {
    name.ends_with("-read-only")
}

const NONCE: u64 = 0x0123_4567_89ab_cdef;
const SESSION_ID: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const NO_CREDIT: Credit = Credit {
    max_bytes: 0,
    max_number: 0,
};
const RANGES: [AckRange; 2] = [
    AckRange {
        first: 12,
        last: 14,
    },
    AckRange {
        first: 17,
        last: 17,
    },
];
const TOP: [AckRange; 1] = [AckRange {
    first: varint::MAX,
    last: varint::MAX,
}];

fn ack<'a>(lane: Lane, cumulative: u64, ranges: &'a [AckRange]) -> Ack<'a> {
    let ranges = AckRanges::new(ranges);
    Ack {
        lane,
        cumulative,
        ranges,
        largest_tx: 0,
        delay_us: 0,
        dup_tx: None,
        credit: Credit::FIRST,
    }
}

fn pack<'a>(lane: Lane, number: u64, tx: u64, dep: u64, data: &'a [u8]) -> Pack<'a> {
    Pack {
        lane,
        number,
        tx,
        flags: PackFlags::WHOLE,
        dep,
        data,
    }
}

fn ping(lanes: &[(Lane, u64, u64)]) -> Frame<'static> {
    let probe = |&(lane, largest_number, tx)| LaneProbe {
        lane,
        largest_number,
        tx,
    };
    Frame::Ping(Ping {
        nonce: NONCE,
        lanes: lanes.iter().map(probe).collect(),
    })
}

fn datagrams() -> BTreeMap<&'static str, Vec<Frame<'static>>> {
    let fragment = PackFlags {
        first: false,
        last: true,
        unordered: true,
    };
    let first = PackFlags {
        first: true,
        ..PackFlags::default()
    };
    let lanes = [(Lane::MESSAGE, 5, 7), (Lane::FLOW, 255, 256)];
    let skip = Frame::Skip(Skip {
        lane: Lane::FLOW,
        up_to: 9,
        bytes_up_to: 15_293,
    });
    BTreeMap::from([
        (
            "pack-whole",
            vec![Frame::Pack(pack(Lane::FLOW, 5, 7, 2, &[0x45, 0, 0, 0x14]))],
        ),
        (
            "pack-largest",
            vec![Frame::Pack(Pack {
                flags: first,
                ..pack(Lane::MESSAGE, varint::MAX, 494_878_333, 8_191, &[])
            })],
        ),
        (
            "pack-fragment",
            vec![Frame::Pack(Pack {
                flags: fragment,
                ..pack(Lane::FLOW, 64, 65, 0, &[0xab, 0xcd])
            })],
        ),
        ("ack-nothing-yet", vec![Frame::Ack(ack(Lane::FLOW, 0, &[]))]),
        (
            "ack-ranges",
            vec![Frame::Ack(Ack {
                largest_tx: 20,
                delay_us: 1_500,
                dup_tx: Some(19),
                ..ack(Lane::FLOW, 10, &RANGES)
            })],
        ),
        (
            "ack-largest",
            vec![Frame::Ack(Ack {
                largest_tx: 1,
                credit: NO_CREDIT,
                ..ack(Lane::MESSAGE, varint::MAX - 2, &TOP)
            })],
        ),
        ("skip", vec![skip]),
        ("dgram", vec![Frame::Dgram(&[0x45, 0, 0])]),
        ("dgram-empty", vec![Frame::Dgram(&[])]),
        (
            "dgram-long-length-read-only",
            vec![Frame::Dgram(&[0x45, 0, 0])],
        ),
        ("ping-bare", vec![ping(&[])]),
        ("ping-lanes", vec![ping(&lanes)]),
        ("ping-lanes-reversed-read-only", vec![ping(&lanes)]),
        ("pong", vec![Frame::Pong(Pong { nonce: NONCE })]),
        (
            "datagram-ack-pong",
            vec![
                Frame::Ack(Ack {
                    largest_tx: 20,
                    ..ack(Lane::FLOW, 10, &[])
                }),
                Frame::Pong(Pong { nonce: NONCE }),
            ],
        ),
        (
            "datagram-mixed",
            vec![
                Frame::Pack(pack(Lane::FLOW, 5, 7, 2, &[0x45, 0])),
                skip,
                Frame::Dgram(&[0x45]),
            ],
        ),
    ])
}

#[test]
fn frames() {
    let mut expected = datagrams();
    for (name, bytes, _) in vectors(include_str!("../golden/frames.txt")) {
        let frames = expected
            .remove(name.as_str())
            .unwrap_or_else(|| panic!("no value for {}", name));
        let read: Result<Vec<_>, _> = Frames::new(&bytes).collect();
        assert_eq!(read.as_ref(), Ok(&frames), "{}", name);
        let mut written = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut written));
        assert_eq!(
            written == bytes,
            !read_only(&name),
            "{}: {written:02x?}",
            name
        );
    }
    assert!(expected.is_empty(), "no vector for {:?}", expected.keys());
}

// case B79
#[test]
fn malformed_frames() {
    for (name, bytes, reason) in vectors(include_str!("../golden/frames-malformed.txt")) {
        let error = Frames::new(&bytes)
            .find_map(Result::err)
            .unwrap_or_else(|| panic!("{} passes", name));
        assert_eq!(error.to_string(), reason, "{}", name);
        assert_eq!(error.code(), ErrorCode::MalformedFrame);
    }
}

fn welcome(features: u64, addresses: bool) -> Control {
    Control::Welcome(Welcome {
        version: 1,
        features,
        session_id: SESSION_ID,
        ipv4: addresses.then(|| ("10.64.0.2".parse().unwrap(), 32)),
        ipv6: addresses.then(|| ("fd71::2".parse().unwrap(), 128)),
        gateway_ipv4: addresses.then(|| "10.64.0.1".parse().unwrap()),
        gateway_ipv6: addresses.then(|| "fd71::1".parse().unwrap()),
        mtu: 1_280,
        limits: Credit::FIRST,
    })
}

fn flow_close(
    protocol: u8,
    source: (&str, u16),
    destination: (&str, u16),
    sequence: Option<u32>,
) -> Control {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    Control::FlowClose(FlowClose {
        flow: FiveTuple {
            protocol,
            source: ip(source.0),
            source_port: source.1,
            destination: ip(destination.0),
            destination_port: destination.1,
        },
        sequence,
    })
}

fn messages() -> BTreeMap<&'static str, Control> {
    let hello = Control::Hello(Hello {
        version: 1,
        features: 0,
        agent: "quell/0.1".into(),
        limits: Credit::FIRST,
    });
    let lane = |lane, cumulative, ranges: &[AckRange]| ResumeLane {
        lane,
        cumulative,
        ranges: ranges.to_vec(),
        credit: Credit::FIRST,
    };
    let lanes = vec![lane(Lane::MESSAGE, 0, &[]), lane(Lane::FLOW, 10, &RANGES)];
    let goaway = Control::Goaway(Goaway {
        reason: ErrorCode::ShuttingDown.code(),
        drain_ms: 30_000,
    });
    let words = "not known".into();
    BTreeMap::from([
        ("hello", hello.clone()),
        ("hello-unknown-fields-read-only", hello),
        ("welcome", welcome(0, true)),
        ("welcome-bare", welcome(u64::MAX, false)),
        (
            "contract",
            Control::Contract(Contract {
                bytes: Bytes::from_static(&[0xde, 0xad, 0xbe, 0xef]),
            }),
        ),
        (
            "receipt",
            Control::Receipt(Receipt {
                bytes: Bytes::new(),
            }),
        ),
        (
            "flow-close-ipv4",
            flow_close(6, ("10.64.0.2", 50_000), ("192.0.2.1", 443), None),
        ),
        (
            "flow-close-sequence",
            flow_close(6, ("10.64.0.2", 50_000), ("192.0.2.1", 443), Some(u32::MAX)),
        ),
        (
            "flow-close-ipv6",
            flow_close(17, ("fd71::2", 0), ("2001:db8::1", 53), None),
        ),
        (
            "resume",
            Control::Resume(Resume {
                session_id: SESSION_ID,
                epoch: 2,
                lanes,
            }),
        ),
        (
            "resumed",
            Control::Resumed(Resume {
                session_id: SESSION_ID,
                epoch: 2,
                lanes: Vec::new(),
            }),
        ),
        ("goaway", goaway.clone()),
        ("goaway-long-integers-read-only", goaway),
        (
            "error",
            Control::Error(ErrorMessage {
                code: ErrorCode::UnknownClient.code(),
                words,
            }),
        ),
    ])
}

#[test]
fn control_messages() {
    let mut expected = messages();
    for (name, bytes, _) in vectors(include_str!("../golden/control.txt")) {
        let message = expected
            .remove(name.as_str())
            .unwrap_or_else(|| panic!("no value for {}", name));
        assert_eq!(
            Control::decode_body(&bytes).as_ref(),
            Ok(&message),
            "{}",
            name
        );
        let body = message.encode_body().unwrap();
        assert_eq!(body == bytes, !read_only(&name), "{}: {body:02x?}", name);

        let mut stream = BytesMut::new();
        message.encode(&mut stream).unwrap();
        let mut prefix = Vec::new();
        varint::write(&mut prefix, body.len() as u64);
        assert_eq!(stream, [prefix, body].concat());
        let mut decoder = ControlDecoder::new();
        decoder.push(&stream);
        assert_eq!(decoder.next(), Ok(Some(message)));
        assert_eq!(decoder.next(), Ok(None));
    }
    assert!(expected.is_empty(), "no vector for {:?}", expected.keys());
}

// case B79
#[test]
fn malformed_control_messages() {
    for (name, bytes, reason) in vectors(include_str!("../golden/control-malformed.txt")) {
        let error = Control::decode_body(&bytes).expect_err(&name);
        assert_eq!(error.to_string(), reason, "{}", name);
        assert_eq!(error.code(), ErrorCode::MalformedControl);
    }
}

#[test]
fn varints() {
    for (name, bytes, _) in vectors(include_str!("../golden/varints.txt")) {
        let value: u64 = name.parse().unwrap();
        let mut written = Vec::new();
        varint::write(&mut written, value);
        assert_eq!(written, bytes);
        assert_eq!(varint::Reader::new(&bytes).varint(), Some(value));
    }
}

#[test]
fn keys() {
    for line in lines(include_str!("../golden/keys.txt")) {
        let [kind, raw, text] = line
            .split('=')
            .map(str::trim)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        let raw: [u8; 32] = hex(raw).try_into().unwrap();
        if kind == "public" {
            assert_eq!(PublicKey(raw).to_text(), text);
            assert_eq!(text.parse(), Ok(PublicKey(raw)));
        } else {
            assert_eq!(kind, "secret");
            assert_eq!(SecretKey::from_bytes(raw).to_text(), text);
            assert_eq!(text.parse::<SecretKey>().unwrap().as_bytes(), &raw);
        }
    }
}
