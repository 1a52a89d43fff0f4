//! The receiving end of an acked lane: each number once, in the order that matters, and the truth about it to the peer.
//!
//! A lane's sender repeats a pack until it hears that it came, so this end will see packs twice, late, and out of order.
//! It answers three questions, each in a room of its own: *did it come?* (`bitmap`, `fingerprint`, `skip`), *may it
//! go on to the application?* (`fragments`, `hold`), and *what does the peer have to know?* (`ack`, `credit`).
//! [`ReceiveSequence`] puts them together.
//!
//! ```text
//!              ┌ beyond window or credit, changed ──→ Violation
//!  PACK ───────┤
//!              ├ known ─────────────────────────────→ duplicate, or dropped (skipped before)
//!              │
//!              └ new ──→ in pieces ──→ held for its predecessor ──→ ready ──poll_deliver──→ application
//!                           │  siblings here    │  predecessor gone, or the hold ends
//!                           └─ doomed: dropped  └─ (no predecessor: straight on)
//!  SKIP ──→ missing numbers are known and gone: frees who waits for them, dooms their siblings
//! ```
//!
//! Invariants, held after every input:
//! - A number is delivered at most once, and what credit admitted is delivered, or dropped with a reason.
//! - `received` = `delivered` + `duplicates` + drops + `held`, in packs.
//! - What is held is at most the window, in bytes and in numbers: credit is memory.
//! - An ACK means *received*, not released: the peer never resends what merely waits here.
//! - A packet waits only for the previous one of its own flow, and on the flow lane at most for the hold limit.
//!
//! No room trusts a number of the peer for an allocation: bitmap and books have a fixed size, and what waits are bytes that
//! came. Time is an input; the only sources of order are numbers and moments.

mod ack;
mod bitmap;
mod counters;
mod credit;
mod fingerprint;
mod fragments;
mod frame;
pub mod fuzz;
mod hold;
mod sequence;
mod skip;
mod wiring;

use quell_wire::frame::Lane;
use quell_wire::registry::ErrorCode;

pub use self::counters::ReceiveCounters;
pub use self::frame::{AckFrame, Delivery};
pub use self::sequence::ReceiveSequence;
use crate::path::Violation;

/// What a packet of the lane waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The one before it, without an end. `dep` and the `unordered` mark mean nothing here.
    Strict,
    /// The previous one of its own flow, for a bounded time; unordered ones for none.
    Flow,
}

impl Order {
    fn of(lane: Lane) -> Self {
        if lane == Lane::MESSAGE {
            Self::Strict
        } else {
            Self::Flow
        }
    }
}

fn violation(code: ErrorCode, words: String) -> Violation {
    Violation { code, words }
}

#[cfg(test)]
mod tests;
