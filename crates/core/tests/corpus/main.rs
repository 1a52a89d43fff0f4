//! Replays the committed fuzz corpora of a lane's two ends, on the stable toolchain.
//!
//! The seeds (`seed-*`) are written here as the operations they are. `QUELL_WRITE_CORPUS=1 cargo test -p quell-core --test
//! corpus` writes them; without it the tests hold that they are there and up to date. Whatever else lies in the folders
//! (inputs that the fuzzer found) is replayed as well.

#![allow(clippy::unwrap_used)]

mod recv;
mod send;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

type Seeds = BTreeMap<String, Vec<u8>>;

/// Writes the seeds of `target` where that is asked for, then runs `body` on its whole corpus.
fn replay(target: &str, seeds: &Seeds, body: impl Fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = folder.join(target);
    if std::env::var_os("QUELL_WRITE_CORPUS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in seeds {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let mut files = Seeds::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        files.insert(name, fs::read(entry.path()).unwrap());
    }
    for (name, bytes) in seeds {
        assert_eq!(files.get(name), Some(bytes), "{name} is not up to date");
    }
    for (name, bytes) in files {
        let is_seed = name.starts_with("seed-");
        assert!(!is_seed || seeds.contains_key(&name), "{name} is no seed");
        body(&bytes);
    }
}
