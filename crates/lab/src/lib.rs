//! What a demo, a drill or a test of quell needs around it, on a bare Linux machine and without any external program.
//!
//! - [`netns`]: network namespaces that vanish with the process, veth pairs, addresses, routes, sysctls.
//! - [`topology`]: ready-made arrangements: two hosts, or client – router – provider – world.
//! - [`relay`]: a UDP relay that delays, loses, reorders, limits and cuts, for kernels without netem.
//! - [`gauge`]: how much a path carries, against a server that may stand on another machine.
//! - [`http`], [`content`]: downloads and uploads of known bytes, with the longest stall measured.
//! - [`probe`]: echo requests, UDP round trips, DNS questions, and whether ICMP errors come back.
//! - [`socks`]: the way of an application that knows a proxy.
//! - [`load`]: steady UDP, TCP and ping loads that note when what arrived.
//! - [`sniff`]: every packet that crosses a namespace.
//! - [`child`]: processes inside a namespace that do not outlive the one that started them.
//!
//! Every call is synchronous and every resource is a guard: dropping it stops the thread, closes the socket, ends the child
//! or removes the namespace. Nothing is kept in the file system, so that even `kill -9` leaves nothing behind. Signals are
//! the caller's business: a Ctrl-C handler that lets `main` return runs all guards.
#![warn(missing_docs)]

mod buffers;
pub mod child;
pub mod content;
mod error;
pub mod gauge;
pub mod http;
pub mod load;
pub mod netns;
pub mod probe;
pub mod relay;
pub mod sniff;
pub mod socks;
mod stop;
pub mod topology;

pub use error::{LabError, Result};
