//! Super-packets, both ways: one program, since what is merged has to come apart again.
//!
//! - `split`: against packets that were built one by one;
//! - `coalesce`: against what was merged;
//! - `peer`: against another implementation.
//!
//! The first two also run the body of the fuzz target (`quell_packet::offload::fuzz`) over generated inputs.

#![allow(clippy::unwrap_used)]

mod coalesce;
#[cfg(target_os = "linux")]
mod peer;
mod split;
