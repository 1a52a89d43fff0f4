//! The crate against a real kernel: one program, so that its tests share their helpers.
//!
//! Needs root, and says `skipped: needs root` without.

#![allow(clippy::unwrap_used)]

mod device;
mod link;
mod namespace;
mod offload;
mod packets;
