//! How much a path carries: a server to measure against, and what asks it.
//!
//! ```text
//! Gauge ── order (16 bytes over TCP) ──> Server      then, by the order:
//!   sink     bytes ───────────────────────> counted; the count comes back
//!   source   <─────────────────────── bytes for so long
//!   count    datagrams with a token ──────> counted; the counts come back when they are asked for
//!   echo     datagrams with a token ──────> sent back as they are
//! ```
//!
//! Both figures of a direction are taken where they matter: bytes count when the far end has them, and the time runs until
//! its answer is here, so what waits in a queue is no throughput.
//!
//! A server may stand on a machine that others reach. It sends a datagram only as the answer to one of the same size that
//! bears a token which was handed out over TCP, so nobody can have it speak to a third; all it does is bounded in time
//! ([`TIME_MAX`]) and in number ([`ORDERS_MAX`]). It does give its bandwidth to whoever asks: it is meant to run as long as
//! somebody measures.

mod client;
mod datagrams;
mod order;
mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use client::{Gauge, Transfer};
pub use datagrams::{Datagrams, RoundTrips};
pub use server::Server;

/// Orders that a server serves at a time; one that comes beyond is closed at once.
pub const ORDERS_MAX: usize = 64;
/// Longest time that an order may take.
pub const TIME_MAX: Duration = Duration::from_secs(60);
/// Shortest payload of a datagram: its token and its number, in bytes.
pub const PAYLOAD_BYTES_MIN: usize = 16;
/// Longest payload of a datagram, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 65_507;
/// How long an end waits for what has to come at once. Long enough for a path whose queues are full.
const ANSWER_TIME: Duration = Duration::from_secs(10);
