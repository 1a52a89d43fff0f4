//! The sender of one acknowledged lane (DESIGN §4).
//!
//! *Intuition.* A pack that was lost is sent again; the art is to know when. While
//! acknowledgements flow they say it themselves: something sent later arrived, so
//! this one did not. When nothing comes back, nobody can say whether the pack, its
//! acknowledgement or the whole path is gone, and every resend is a guess. Guesses
//! are few, ever further apart, counted against a budget, and end at a hard cap.
//!
//! ```text
//!  accept ──→ waiting ──poll_transmit──→ handed over ──on_departed──→ in flight ──ack──→ acked
//!   │refused     ↑ on_refused                │                         │  ↑
//!   ↓            └───────────────────────────┘          evidence,      ↓  │ poll_transmit
//!  Backpressure                                         silence      queued ──ack──→ acked, refunded
//!
//!  in flight or queued ──ack_timeout, too large, a fragment of its message──→ given up ──→ SKIP
//! ```
//!
//! Invariants:
//! - No pack is handed over more than `max_resend_count` + 1 times.
//! - Time runs from departure. A pack that waits, for cwnd or in the carrier's
//!   queue, is not lost and its silence is none.
//! - `ack_timeout` after its first departure an unacknowledged pack is given up,
//!   whatever else would be due, also while the lane is paused.
//! - What is held is bounded in packs and bytes; at the bound it refuses.
//! - accepted = acked + given up + dropped + in flight.
//! - The degraded signal is looked at from the second silence in a row on only:
//!   with acknowledgements flowing it changes nothing (R-19).
//!
//! | file | question |
//! |---|---|
//! | `sequence` | the lane: what comes in, the end |
//! | `timers` | what is due when, what a silence asks for |
//! | `acks` | what an ACK settles |
//! | `transmit` | what is handed over next, and what became of it |
//! | `resend_queue`, `byte_ring`, `tx_ring` | what is remembered |
//! | `rack`, `rtt`, `silence` | when is a pack lost |
//! | `reservation` | what a guess took out of its budget |
//! | `limits`, `credit`, `skip`, `counters` | what may come in, what is owed, what happened |
//! | `wiring` | what a path asks of its lanes |

mod acks;
mod byte_ring;
mod counters;
mod credit;
pub mod fuzz;
mod limits;
mod rack;
mod recut;
mod resend_queue;
mod reservation;
mod resume;
pub(crate) mod rtt;
mod sequence;
mod silence;
mod skip;
mod timers;
mod transmit;
mod tx_ring;
mod wiring;

use std::time::Instant;

pub use acks::Acked;
pub use counters::{GiveUp, SendCounters};
pub use limits::{Backpressure, PACK_BYTES_MAX, Refusals};
pub use recut::TakenBack;
pub use resend_queue::Kind;
pub use reservation::Reservation;
pub use sequence::{Delivery, Exhausted, SendSequence};
pub use transmit::Transmit;

/// Bytes that may be resent into silences; shared by what draws on it.
pub trait ResendBudget {
    /// `bytes` left for the first time: what a share is counted of.
    fn on_first_sent(&mut self, bytes: usize, now: Instant);
    /// Takes `bytes` out for a resend that is scheduled; `None` takes nothing.
    fn reserve(&mut self, bytes: usize, now: Instant) -> Option<Reservation>;
    /// Gives a reservation back: the resend was not needed after all.
    fn refund(&mut self, reservation: Reservation, now: Instant);
}

/// A budget without a bound, for tests and for lanes that something else bounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl ResendBudget for Unlimited {
    fn on_first_sent(&mut self, _bytes: usize, _now: Instant) {}

    fn reserve(&mut self, bytes: usize, _now: Instant) -> Option<Reservation> {
        Some(Reservation::of(bytes))
    }

    fn refund(&mut self, _reservation: Reservation, _now: Instant) {}
}

/// Whether the backend is degraded (DESIGN §5).
pub trait Degraded {
    /// As of `now`.
    fn is_degraded(&self, now: Instant) -> bool;
}

/// The signal of a backend that always answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysHealthy;

impl Degraded for AlwaysHealthy {
    fn is_degraded(&self, _now: Instant) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
