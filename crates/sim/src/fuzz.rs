//! Bodies of the fuzz targets, as plain functions.
//!
//! `fuzz/fuzz_targets/` calls them with what libFuzzer makes up, `tests/corpus.rs` with every file of the committed corpus,
//! on the stable toolchain. Any bytes are a schedule ([`Op::read`]); the body panics where an invariant of
//! [`crate::pair`] does not hold, or where the clients are not served again after all is well.

use crate::pair::{Op, World, WorldConfig};

/// Most operations of a schedule: some seconds of the fuzzer's time at the very most.
const OPS_MAX: usize = 200;

/// Takes the first byte of `data` for the seed and the rest for a schedule of what happens to three clients and a provider.
///
/// # Panics
/// When an invariant of both ends does not hold.
pub fn session(data: &[u8]) {
    let Some((&seed, mut rest)) = data.split_first() else {
        return;
    };
    let ops: Vec<_> = std::iter::from_fn(|| Op::read(&mut rest))
        .take(OPS_MAX)
        .collect();
    let config = WorldConfig {
        seed: seed.into(),
        ..WorldConfig::default()
    };
    World::new(config).survive(&ops);
}
