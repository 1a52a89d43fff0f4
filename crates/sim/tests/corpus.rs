//! Replays the committed fuzz corpus of schedules, on the stable toolchain.
//!
//! The seeds (`seed-*`) are written here as the operations they are, one of each kind and the courses that once mattered, so
//! that the fuzzer begins with sessions that are up. `QUELL_WRITE_CORPUS=1 cargo test -p quell-sim --test corpus` writes
//! them; without it the test holds that they are there and up to date. Whatever else lies in the folder (inputs that the
//! fuzzer found) is replayed as well.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use quell_sim::fuzz;
use quell_sim::pair::Op;

type Seeds = BTreeMap<String, Vec<u8>>;

/// Fewer files than the seeds alone: the corpus was lost.
const FILES_MIN: usize = 24;

/// Operations as the bytes that [`Op::read`] takes: kind, three arguments, and the bytes of a lie.
const UP: &[u8] = &[0, 2, 0, 0];
const OUT: &[u8] = &[3, 0, 0, 40];
const IN: &[u8] = &[0x83, 0, 0, 40];
const SECOND: &[u8] = &[0, 2, 0, 0];
const IDLE: &[u8] = &[0, 3, 9, 0];

/// Seed 7, a second for the sessions to come up, then the parts.
fn schedule(parts: &[&[u8]]) -> Vec<u8> {
    [&[7], UP, &parts.concat()].concat()
}

/// `kind` with `bytes` behind its arguments.
fn lie(kind: u8, to: u8, bytes: &[u8]) -> Vec<u8> {
    let len = u8::try_from(bytes.len()).unwrap();
    [&[kind, to, len, 0], bytes].concat()
}

fn seeds() -> Seeds {
    let hello = [
        16, 0xa5, 0, 1, 1, 1, 2, 0, 3, 0x61, b'x', 4, 0x82, 0x19, 4, 0, 8,
    ];
    let two_hellos = [&hello[..], &hello[..]].concat();
    let pings: Vec<u8> = (0..6)
        .flat_map(|nonce| [5, 0, 0, 0, 0, 0, 0, 0, nonce, 0])
        .collect();
    let piece = [1, 1, 5, 6, 4, 0, 2, 9, 9];
    let shrink: &[&[u8]] = &[
        &[11, 177],
        OUT,
        &[3, 0, 0, 80],
        &[12, 1, 0, 0],
        &[3, 0, 0, 80],
        OUT,
        &[11, 40, 0, 0],
        &[12, 0, 0, 0],
        SECOND,
    ];
    let list: Vec<(&str, Vec<u8>)> = vec![
        ("quiet", schedule(&[])),
        ("both-ways", schedule(&[OUT, IN, OUT, IN, SECOND])),
        ("idle", schedule(&[IDLE, IDLE, IDLE])),
        (
            "pieces",
            schedule(&[&[11, 40, 0, 0], OUT, IN, SECOND, OUT, SECOND]),
        ),
        (
            "every-kind",
            schedule(
                &(0..64)
                    .map(|kind| vec![3, kind % 3, kind, 90])
                    .collect::<Vec<_>>()
                    .iter()
                    .map(Vec::as_slice)
                    .collect::<Vec<_>>(),
            ),
        ),
        ("shrinks", schedule(shrink)),
        (
            "narrow-pong",
            schedule(&[&[11, 1, 0, 0], &lie(8, 1, &pings), IN, SECOND]),
        ),
        (
            "garbage",
            schedule(&[&lie(7, 0, b"\x45\0\0\x14"), &lie(7, 1, b"\x60")]),
        ),
        (
            "ping-burst",
            schedule(&[&lie(8, 1, &pings), &lie(8, 0, &pings)]),
        ),
        ("piece", schedule(&[&lie(8, 1, &piece), IDLE])),
        ("skip", schedule(&[&lie(8, 0, &[3, 1, 0, 0]), IDLE])),
        ("empty-datagram", schedule(&[&lie(8, 1, &[]), IDLE])),
        (
            "two-hellos",
            [
                &[7, 0, 0, 24, 0][..],
                &lie(9, 1, &two_hellos),
                &lie(9, 3, &two_hellos),
                IDLE,
            ]
            .concat(),
        ),
        ("hello-again", schedule(&[&lie(9, 1, &hello), IDLE])),
        (
            "control-garbage",
            schedule(&[&lie(9, 0, b"\x05GET /"), IDLE]),
        ),
        (
            "control-too-large",
            schedule(&[&lie(9, 1, &[0x80, 1, 0, 1]), IDLE]),
        ),
        (
            "loss",
            schedule(&[&[10, 0x1f, 60, 0], OUT, IN, OUT, IN, IDLE]),
        ),
        (
            "slow",
            schedule(&[&[10, 0x80, 0, 0], OUT, OUT, OUT, OUT, SECOND]),
        ),
        (
            "held",
            schedule(&[&[12, 1, 0, 0], OUT, OUT, OUT, &[12, 0, 0, 0], OUT]),
        ),
        (
            "cut",
            schedule(&[&[13, 3, 0, 0], OUT, IDLE, &[13, 0, 0, 0], IDLE]),
        ),
        (
            "cut-one-way",
            schedule(&[&[13, 1, 0, 0], OUT, IN, IDLE, &[13, 2, 0, 0], IDLE]),
        ),
        ("refused", schedule(&[&[14, 1, 0, 0], &[15, 0, 0, 0], IDLE])),
        (
            "silent",
            schedule(&[&[14, 2, 0, 0], &[15, 1, 0, 0], OUT, IDLE]),
        ),
        ("crash", schedule(&[&[15, 1, 0, 0], OUT, IDLE, OUT])),
        ("restart", schedule(&[&[15, 0, 0, 0], OUT, IDLE, OUT])),
        (
            "farewell-behind-a-packet",
            schedule(&[OUT, &lie(9, 0, &[0x80, 1, 0, 1]), IDLE]),
        ),
        (
            "breaks",
            schedule(&[
                &[16, 0, 0, 0],
                OUT,
                SECOND,
                &[16, 1, 0, 0],
                &[16, 2, 0, 0],
                IDLE,
            ]),
        ),
        (
            "stale-and-nudge",
            schedule(&[&[17, 0, 0, 0], &[17, 1, 0, 0], OUT, &[17, 1, 0, 0]]),
        ),
    ];
    list.into_iter()
        .map(|(name, bytes)| (format!("seed-{name}"), bytes))
        .collect()
}

#[test]
fn session() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/session");
    let seeds = seeds();
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
        fuzz::session(bytes);
    }
}

#[test]
fn the_seeds_say_what_they_mean() {
    let mut rest: &[u8] = &schedule(&[OUT, IN, &lie(8, 1, b"abc"), IDLE])[1..];
    let ops: Vec<_> = std::iter::from_fn(|| Op::read(&mut rest)).collect();
    let packet = |inwards| Op::Packet {
        inwards,
        client: 0,
        kind: 0,
        size: 40,
    };
    let lie = Op::Datagram {
        to_provider: true,
        client: 0,
        bytes: b"abc".to_vec(),
    };
    let wait = |scale, steps| Op::Wait { scale, steps };
    assert_eq!(
        ops,
        [wait(2, 0), packet(false), packet(true), lie, wait(3, 9)]
    );
}
