//! QUIC as the engines drive it: quinn-proto's state machine on the engine's own thread.
//!
//! quinn wraps the same state machine for any runtime: a lock and a wake-up for each datagram, a channel between the
//! tasks of an endpoint and of its connections, ten datagrams a system call. On the packet path that cost a sixth of an
//! engine's time. Here everything of an endpoint lives on one thread: state is borrowed, never locked; what arrived
//! is handed to its connection at once; what an engine hands over leaves in the same turn ([`Connection::flush`]), in
//! batches as large as the system segments.
//!
//! ```text
//! socket ── receive task (one an endpoint) ──> Connection::state ── wakes ──> engine
//! socket <─ Connection::flush <── engine                  └─ driver task (one a connection): timers, a full socket
//! ```
//!
//! quinn itself stays where its comfort costs nothing: in probes, and in the backend.
//!
//! Invariants: no borrow is held across an await or while a waker is called that could run code; a connection is
//! waited for by one task a purpose ([`waiting`]), the last one to ask is told; a connection whose last handle is
//! dropped is closed, and its endpoint serves it until it is drained.

mod connection;
mod driver;
mod endpoint;
mod receive;
mod streams;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use connection::Connection;
pub(crate) use endpoint::{Endpoint, Incoming, connect, listen};
pub(crate) use streams::{Over, RecvStream, SendStream};
