//! Replays the committed fuzz corpora through the fuzz bodies, on the stable toolchain.
//!
//! The seeds (`seed-*`) are made from the vectors of `golden/`, so that the fuzzer begins with every form there is.
//! `QUELL_WRITE_CORPUS=1 cargo test -p quell-wire --test corpus` writes them; without it the test holds that they are
//! there and up to date. Whatever else lies in a corpus folder (inputs that the fuzzer found) is replayed as well.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use common::vectors;
use quell_wire::{fuzz, varint};

type Seeds = BTreeMap<String, Vec<u8>>;

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

fn frames_seeds() -> Seeds {
    let files = [
        include_str!("../golden/frames.txt"),
        include_str!("../golden/frames-malformed.txt"),
    ];
    let seed = |(name, bytes, _)| (format!("seed-{name}"), bytes);
    files.into_iter().flat_map(vectors).map(seed).collect()
}

/// The control target's input begins with a byte that sets the size of the pieces, less one.
fn control_seeds() -> Seeds {
    let files = [
        include_str!("../golden/control.txt"),
        include_str!("../golden/control-malformed.txt"),
    ];
    let mut seeds = Seeds::new();
    let mut all = Vec::new();
    for (name, body, reason) in files.into_iter().flat_map(vectors) {
        seeds.insert(format!("seed-body-{name}"), [&[0xff], &body[..]].concat());
        if reason.is_empty() {
            let mut stream = Vec::new();
            varint::write(&mut stream, body.len() as u64);
            stream.extend_from_slice(&body);
            all.extend_from_slice(&stream);
            seeds.insert(format!("seed-stream-{name}"), [&[0], &stream[..]].concat());
        }
    }
    // All messages end to end; then again with a length of 65,537 in the middle.
    seeds.insert("seed-stream-all".into(), [&[6], &all[..]].concat());
    seeds.insert(
        "seed-stream-too-large".into(),
        [&[6], &all[..], &[0x80, 1, 0, 1], &all[..]].concat(),
    );
    seeds
}

fn contracts_seeds() -> Seeds {
    let files = [
        include_str!("../golden/contracts.txt"),
        include_str!("../golden/contracts-malformed.txt"),
    ];
    let seed = |(name, bytes, reason): common::Vector| {
        let kind = if reason.is_empty() { "good" } else { "bad" };
        (format!("seed-{kind}-{name}"), bytes)
    };
    files.into_iter().flat_map(vectors).map(seed).collect()
}

fn replay(target: &str, seeds: &Seeds, body: fn(&[u8])) {
    let folder = folder(target);
    if std::env::var_os("QUELL_WRITE_CORPUS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in seeds {
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
        files.len() >= 24,
        "{} files: the corpus of {target} is lost",
        files.len()
    );
    for (name, bytes) in seeds {
        assert_eq!(
            files.get(name),
            Some(bytes),
            "{target}/{name} is not what golden/ says"
        );
    }
    for (name, bytes) in files {
        assert!(
            !name.starts_with("seed-") || seeds.contains_key(&name),
            "{target}/{name} has no vector"
        );
        body(&bytes);
    }
}

#[test]
fn frames() {
    replay("frames", &frames_seeds(), fuzz::frames);
}

#[test]
fn control() {
    replay("control", &control_seeds(), fuzz::control);
}

#[test]
fn contracts() {
    replay("contracts", &contracts_seeds(), fuzz::contracts);
}
