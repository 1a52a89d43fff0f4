//! The egress against a real kernel: sysctls, nftables and forwarding in network namespaces of their own.
//!
//! Needs root, and says `skipped: needs root` without; what needs the program `nft` says so too.

#![allow(clippy::unwrap_used)]

mod forwarding;
mod host;
mod namespace;
mod unclean;
