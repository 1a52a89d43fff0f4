//! Pacing of what failed.
//!
//! Each question has a type of its own, so that no answer to one leaks into
//! another. [`backoff::Backoff`] is the only exponential wait of the project.

pub mod backoff;

pub use backoff::{Backoff, Jitter};
