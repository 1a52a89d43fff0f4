//! Many clients, providers and backends in virtual time: what an outage costs, and whom.
//!
//! ```text
//! Work ─▶ ClientNode ─▶ Carriage ─▶ way (link, faults) ─▶ Carriage ─▶ ServerNode ─▶ delivered
//!             │  ▲                                                        │
//!             ▼  └────────────── the same way back ◀──── an answer ◀──────┘
//!          backends (faults)
//! ```
//!
//! Three seams, so that what is compared differs in one thing alone:
//!
//! - [`node`]: what a *policy* is: how clients and providers of one make behave. quell's own is the core that
//!   production runs; the others are models of it that forgo something, or of systems with other rules.
//! - [`carriage`]: the QUIC connection beneath. One is a model that fleets can afford, one is a real QUIC.
//! - `crate::scenario`: what happens to all of them.
//!
//! The world itself decides nothing that a policy could: it carries, counts, loses what a fault loses, and tells time.

pub mod carriage;
pub mod node;
