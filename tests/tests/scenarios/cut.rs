//! Paths that are cut, clogged or lossy, under real QUIC: what is sent meanwhile, how soon they are used again, and whether
//! a path that merely suffers is taken for dead.
//!
//! Every figure is printed. Bounds on bytes and counts hold as they stand; a wall clock fails at [`WALL_CLOCK_SLACK`] times
//! its bound, since debug builds of several worlds share the machine's cores with each other.
//!
//! - [`matrix`]: round trips × lengths of a cut.
//! - [`one_sided`]: one way cut alone, and a provider that stands still.
//! - [`given_up`]: a cut that outlives the session.
//! - [`suffering`]: losses and congestion, which are not death.
//! - [`bulk`]: a full link after a cut: no herd, and soon as fast as before.

mod bulk;
mod given_up;
mod loaded;
mod matrix;
mod one_sided;
mod suffering;

use std::thread;

use crate::fixture::Outcome;

/// A wall clock fails at this many times its bound.
const WALL_CLOCK_SLACK: u32 = 3;

/// All trials of cut and suffering paths.
pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
    let trials = [
        matrix::trials(),
        given_up::trials(),
        one_sided::trials(),
        suffering::trials(),
        bulk::trials(),
    ];
    trials.into_iter().flatten().collect()
}

/// What cells that ran side by side come to, each under its name: all that failed are told.
fn together(cells: impl IntoIterator<Item = (String, thread::Result<Outcome>)>) -> Outcome {
    let mut failed = Vec::new();
    for (name, result) in cells {
        match result {
            Ok(Ok(())) => {}
            Ok(Err(why)) => failed.push(format!("{name}: {}", why.message().unwrap_or_default())),
            Err(_) => failed.push(format!("{name}: it panicked")),
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(failed.join("\n").into())
}
