//! How a provider's packets reach the world (DESIGN §8): kernel forwarding and masquerade, or unprivileged sockets.
//!
//! [`userspace`] is the egress without privileges, and says itself how it works. The rest is the egress `tun`.
//!
//! With the egress `tun`, a provider writes its clients' packets to its own TUN, and the kernel does the rest: it forwards
//! them, and translates their pool addresses to the host's. [`KernelEgress`] is the host's side of that:
//!
//! ```text
//! clients' packets ─> TUN ─> forwarding (sysctl) ─> anti-spoofing, masquerade (nftables) ─> another interface
//! ```
//!
//! It changes settings that belong to the whole host, so the rules of a guest hold:
//!
//! - **What was there before is remembered**, in a state file, before anything is changed. A provider that is killed
//!   (`kill -9`) is mended by the next [`install`](KernelEgress::install), or by
//!   [`clean_up_stale`](KernelEgress::clean_up_stale).
//! - **What somebody else changed meanwhile stays**: a value is put back only while it is the one that was set here.
//! - **The last one turns the lights off**: with several egresses on one host, the one that leaves hands what it remembers
//!   to one that stays.
//! - **All or nothing**: an installation that fails is rolled back, and says what to do.
//! - **Each family on its own** (case B88): a host without IPv6 is an egress for IPv4.
//!
//! One table of nftables, `inet quell_<tun>`, holds all rules. It accepts nothing that the host's own firewall drops: a
//! host that denies forwarding has to allow the TUN itself.
//!
//! What cannot be known: whether a program that started later relies on the forwarding that it found switched on. A host
//! that is a router for other reasons should switch it on itself; then nothing is changed and nothing put back.
//!
//! The calls block (files, one child process) for milliseconds, at most for [`nft`](KernelEgress::install)'s ten seconds.
//! They act on the calling thread's network namespace.

#![warn(missing_docs)]

mod error;
mod host;
mod kernel;
mod nft;
mod plan;
mod state;
mod sysctl;
pub mod userspace;

pub use error::EgressError;
pub use kernel::{EgressConfig, KernelEgress};
pub use quell_packet::Prefix;

#[cfg(test)]
mod testing;
