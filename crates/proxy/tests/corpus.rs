//! Replays the fuzz corpus of the SOCKS5 messages, so that what the fuzzer once found stays found.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

#[test]
fn the_corpus_holds() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/socks");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        quell_proxy::fuzz::messages(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "{count} inputs");
}
