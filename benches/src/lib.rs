//! Shared fixtures of the benchmarks.

pub mod tunnel;
