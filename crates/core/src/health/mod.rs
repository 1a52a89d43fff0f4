//! Is it well, and how fast may what failed be tried again?
//!
//! Each question has a type of its own, so that no answer to one leaks into
//! another: `path::PathHealth` asks whether data makes progress on one path,
//! [`signal::Signal`] carries the word of the control plane's health to those
//! who widen their waits by it, and [`refusal::Refusals`] asks whether this machine
//! sends at all. [`backoff::Backoff`] is the only exponential
//! wait of the project.

pub mod backoff;
pub(crate) mod path;
pub mod refusal;
pub mod signal;

pub use backoff::{Backoff, Jitter};
pub use signal::Signal;
