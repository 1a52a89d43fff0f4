//! Replays the committed fuzz corpus through the fuzz body, on the stable toolchain.
//!
//! The seeds (`seed-*`) are built here, one of each form that the crate looks into, so that the fuzzer begins behind
//! the first checks. `QUELL_WRITE_CORPUS=1 cargo test -p quell-packet --test corpus` writes them; without it the test
//! holds that they are there and up to date. Whatever else lies in the folder (inputs that the fuzzer found) is
//! replayed as well. The body takes its MTU from an input's last two bytes.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use quell_packet::build::{Header, Segment};
use quell_packet::offload::{Gso, VirtioHeader};
use quell_packet::{fuzz, icmp, offload, protocol};

type Seeds = BTreeMap<String, Vec<u8>>;

/// Fewer files than the seeds alone: the corpus was lost.
const FILES_MIN: usize = 48;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The headers that each upper layer is built behind.
fn headers() -> Vec<(&'static str, Header<'static>)> {
    const ROUTED: &[(u8, &[u8])] = &[
        (protocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0]),
        (protocol::ROUTING, &[0; 22]),
        (protocol::AUTHENTICATION, &[7; 22]),
    ];
    const ATOMIC: &[(u8, &[u8])] = &[(protocol::FRAGMENT, &[0, 0, 0, 0, 0, 1])];
    const FIRST: &[(u8, &[u8])] = &[(protocol::FRAGMENT, &[0, 1, 0, 0, 0, 1])];
    const LATER: &[(u8, &[u8])] = &[(protocol::FRAGMENT, &[0, 9, 0, 0, 0, 1])];
    const OPTIONS: &[u8] = &[1, 4, 0, 0, 0, 0];
    const CHAIN: &[(u8, &[u8])] = &[(protocol::DESTINATION_OPTIONS, OPTIONS); 9];
    let v4 = Header::new(ip("10.0.0.1"), ip("192.0.2.9"));
    let may = Header {
        dont_fragment: false,
        identification: 7,
        ..v4
    };
    let v6 = Header::new(ip("fd00::1"), ip("2001:db8::9"));
    vec![
        ("v4", v4),
        ("v4-may-fragment", may),
        (
            "v4-options",
            Header {
                options: &[7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0],
                ..may
            },
        ),
        (
            "v4-options-malformed",
            Header {
                options: &[7, 1, 0, 0],
                ..may
            },
        ),
        (
            "v4-first-fragment",
            Header {
                more_fragments: true,
                ..may
            },
        ),
        (
            "v4-later-fragment",
            Header {
                fragment_offset: 1_480,
                more_fragments: true,
                ..may
            },
        ),
        (
            "v4-last-offset",
            Header {
                fragment_offset: 65_528,
                ..may
            },
        ),
        (
            "v4-multicast",
            Header {
                destination: ip("224.0.0.251"),
                ..v4
            },
        ),
        ("v6", v6),
        (
            "v6-routed",
            Header {
                extensions: ROUTED,
                ..v6
            },
        ),
        (
            "v6-atomic",
            Header {
                extensions: ATOMIC,
                ..v6
            },
        ),
        (
            "v6-first-fragment",
            Header {
                extensions: FIRST,
                ..v6
            },
        ),
        (
            "v6-later-fragment",
            Header {
                extensions: LATER,
                ..v6
            },
        ),
        (
            "v6-chain-too-long",
            Header {
                extensions: CHAIN,
                ..v6
            },
        ),
        (
            "v6-unspecified",
            Header {
                source: ip("::"),
                ..v6
            },
        ),
    ]
}

fn seeds() -> Seeds {
    let mut seeds = Seeds::new();
    // The last two bytes: an MTU of 68.
    let payload = [&[0xa5; 118][..], &[0, 68]].concat();
    for (name, header) in headers() {
        let syn = Segment {
            flags: 2,
            options: &[1, 2, 4, 0x23, 0x28, 1, 3, 3, 7],
            ..Segment::default()
        };
        let quoted = header.udp(53, 4_000, &payload);
        // What a router answers: the quoted packet came from where the error goes.
        let mirrored = Header {
            source: header.destination,
            destination: header.source,
            ..header
        }
        .udp(53, 4_000, &payload);
        let time_exceeded = if header.source.is_ipv4() {
            icmp::V4_TIME_EXCEEDED
        } else {
            3
        };
        for (kind, packet) in [
            ("udp", header.udp(4_000, 53, &payload)),
            ("syn", header.tcp(4_000, 443, &syn, &[0x05, 0])),
            (
                "echo",
                header.icmp(
                    if header.source.is_ipv4() { 8 } else { 128 },
                    0,
                    [0, 7, 0, 1],
                    &payload,
                ),
            ),
            ("error", header.icmp(time_exceeded, 0, [0; 4], &quoted)),
            (
                "error-mirrored",
                header.icmp(time_exceeded, 0, [0; 4], &mirrored),
            ),
        ] {
            seeds.insert(format!("seed-{name}-{kind}"), packet);
        }
    }
    let large = Header::new(ip("fd00::1"), ip("2001:db8::9")).udp(1, 2, &[5; 1_392]);
    let answer = icmp::too_big(&large, 1_280, ip("fd00::fe")).unwrap();
    seeds.insert("seed-v6-1440".into(), large);
    seeds.insert("seed-v6-packet-too-big".into(), answer);
    for text in ["10.0.0.0/8", "fd00::/8", "::/0", "10.0.0.1/8", "192.0.2.1"] {
        seeds.insert(
            format!("seed-prefix-{}", text.replace(['/', ':'], "_")),
            text.into(),
        );
    }
    seeds
}

/// A super-packet of each kind behind its virtio header, and batches with heirs (see `offload::fuzz`).
fn offload_seeds() -> Seeds {
    let mut seeds = Seeds::new();
    let payload = [0xa5; 400];
    for (name, header) in headers() {
        let segment = Segment {
            flags: 0x18,
            options: &[1, 1, 8, 10, 0, 1, 2, 3, 0, 4, 5, 6],
            ..Segment::default()
        };
        for (kind, packet) in [
            ("tcp", header.tcp(4_000, 443, &segment, &payload)),
            ("udp", header.udp(4_000, 53, &payload)),
        ] {
            let gso = match (kind, header.source.is_ipv4()) {
                ("udp", _) => Gso::Udp,
                (_, true) => Gso::TcpV4,
                (_, false) => Gso::TcpV6,
            };
            let virtio = VirtioHeader {
                gso,
                gso_size: 150,
                needs_checksum: true,
                ..VirtioHeader::default()
            };
            seeds.insert(
                format!("seed-{name}-{kind}"),
                [&virtio.encode()[..], &packet].concat(),
            );
            let length = u16::try_from(packet.len()).unwrap();
            let batch: Vec<u8> = [5, 0, 31]
                .iter()
                .flat_map(|heirs: &u16| {
                    [&(heirs << 11 | length).to_be_bytes()[..], &packet].concat()
                })
                .collect();
            seeds.insert(format!("seed-batch-{name}-{kind}"), batch);
        }
    }
    seeds
}

#[test]
fn packets() {
    replay("packets", seeds(), fuzz::packets);
}

#[test]
fn super_packets() {
    replay("offload", offload_seeds(), offload::fuzz::offload);
}

fn replay(target: &str, seeds: Seeds, body: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    if std::env::var_os("QUELL_WRITE_CORPUS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in &seeds {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let mut files = Seeds::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        files.insert(
            entry.file_name().into_string().unwrap(),
            fs::read(entry.path()).unwrap(),
        );
    }
    assert!(
        files.len() >= FILES_MIN,
        "{} files: the corpus is lost",
        files.len()
    );
    for (name, bytes) in &seeds {
        assert_eq!(
            files.get(name),
            Some(bytes),
            "{name} is not what is built here"
        );
    }
    for (name, bytes) in &files {
        assert!(
            !name.starts_with("seed-") || seeds.contains_key(name),
            "{name} is not built here"
        );
        body(bytes);
    }
}
