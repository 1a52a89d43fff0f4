//! Seeded models of the network that quell is tested against.
//!
//! Everything here is a value driven by its caller: no socket, no thread, no clock read and no global random number
//! generator. `std::time::Instant` appears as a value that the caller hands in, so the same link runs in virtual time
//! under the simulator and in real time inside a UDP relay, and one seed gives one course of events in both.
//!
//! - [`link`]: one direction of a path: delay, jitter, loss, bursts, duplicates, reordering, a bottleneck with a
//!   drop-tail queue, a size limit, a silent cut.
//! - [`duplex`]: two of them, one each way.
//! - [`pair`]: clients and a provider of quell-core on such a path, driven from one wake-up to the next, with their books
//!   checked after every step.
//! - [`fleet`], [`scenario`], [`outcome`]: many clients, providers and backends through an outage, by any policy.
//! - [`report`]: what came of it, for people and programs.
//! - [`policy`]: quell's own policy, quell less one mechanism at a time, and what it is compared with.
//! - [`check`], [`swarm`]: what must hold in every run of quell's, and random scenarios in which it is seen to hold.
//! - [`mutant`]: quell broken in one way each, which a checker must notice.
//! - [`fuzz`]: random schedules of what may happen to them.
#![warn(missing_docs)]

pub mod check;
pub mod duplex;
pub mod exits;
pub mod fleet;
pub mod fuzz;
pub mod link;
pub mod mutant;
pub mod outcome;
pub mod pair;
pub mod policy;
pub mod report;
pub mod scenario;
pub mod swarm;
