//! Seeded models of the network that quell is tested against.
//!
//! Everything here is a value driven by its caller: no socket, no thread, no clock read and no global random number
//! generator. `std::time::Instant` appears as a value that the caller hands in, so the same link runs in virtual time
//! under the simulator and in real time inside a UDP relay, and one seed gives one course of events in both.
//!
//! - [`link`]: one direction of a path: delay, jitter, loss, bursts, duplicates, reordering, a bottleneck with a
//!   drop-tail queue, a size limit, a silent cut.
//! - [`duplex`]: two of them, one each way.
#![warn(missing_docs)]

pub mod duplex;
pub mod link;
