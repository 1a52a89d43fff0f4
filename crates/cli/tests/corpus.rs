//! Replays the fuzz corpus of the files that people hand in, so that what the fuzzer once found stays found.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

#[test]
fn the_corpus_holds() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wg_quick");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        quell_cli::fuzz::wg_quick(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "{count} inputs");
}
