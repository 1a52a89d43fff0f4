//! Bytes to packets and back without a kernel.
//!
//! Two ends of a tunnel do without privileges: the provider whose clients' packets end in ordinary host sockets (the
//! crate `quell-egress`), and the client whose applications speak to a proxy (the crate `quell-proxy`). Both are a
//! *device* to their engine, and both join a host's byte stream to a TCP of their own. What they share is here:
//!
//! ```text
//! engine ─ PacketSink ──> Inlet ─> (a router of theirs) ─> Feed ─> Tcp ─> Relay <─> HostStream     (a task a flow)
//! engine <─ PacketSource ─ Outbox <─────────────────────────────── Tcp
//! ```
//!
//! | module | its job |
//! |---|---|
//! | `seam` | the two bounded channels of batches to and from an engine |
//! | `outbox` | packets on their way out, gathered to batches; who asks for room is back-pressure |
//! | `feed` | the queue before one flow's TCP |
//! | `link` | what smoltcp sees of the two |
//! | `loss`, `sacked` | what a TCP sent and is to be taken for lost, and what of it the peer holds |
//! | `tcp` | one TCP: as the end that listens, or as the end that connects |
//! | `host`, `relay` | a host's stream, and the bytes, ends and resets between it and a TCP |
//! | `sound` | whether a packet may be acted upon |
//! | `answer` | resets and ICMP errors |
//! | `memory` | buffers that cost what they hold |
//! | `descriptors` | how many sockets are left to the rest of the process |
//! | `ledger` | how the owner counts |
//!
//! Everything but the outer halves of the seam lives on one thread: it is borrowed, never locked, and never across an
//! await.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod answer;
mod descriptors;
mod feed;
mod host;
mod ledger;
mod link;
mod loss;
mod memory;
mod outbox;
mod relay;
mod sacked;
mod seam;
mod sound;
mod tcp;

pub use descriptors::spare;
pub use feed::{Feed, QUEUE_PACKETS_MAX, QueueFull};
pub use host::HostStream;
pub use ledger::Ledger;
pub use memory::{BUFFER_BYTES_MIN, Memory, buffer_bytes};
pub use outbox::{Outbox, Place};
pub use relay::{End, Patience, Relay};
pub use seam::{BATCH_PACKETS_MAX, Gone, Inlet, Outlet, PacketSink, PacketSource, SinkReport};
pub use seam::{Taken, pair};
pub use sound::{Unsound, judge_network, judge_upper};
pub use tcp::{Endpoints, NotOpened, Tcp};
