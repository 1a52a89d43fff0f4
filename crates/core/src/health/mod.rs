//! Is it well, and how fast may what failed be tried again?
//!
//! Each question has a type of its own, so that no answer to one leaks into
//! another (DESIGN §5):
//!
//! | type | question |
//! |---|---|
//! | [`BackendHealth`] | does the control plane answer, and may I ask it? |
//! | [`Signal`] | the same, for those who only widen their waits by it |
//! | `path::PathHealth` | does data make progress on this path? |
//! | [`UplinkDoubt`] | is it us? |
//! | [`DialGate`] | may I dial this server? |
//! | [`ProbeLatch`] | does a provider's health probe count, and what does it say? |
//! | [`refusal::Refusals`] | does this machine send at all? |
//! | [`sleep::SleepWatch`] | was this machine asleep? |
//!
//! Each can be used without the others, by another program too. [`Backoff`] is the only
//! exponential wait of the project.

pub mod backend;
pub mod backoff;
pub mod dial_gate;
pub(crate) mod path;
pub mod probe_latch;
pub mod refusal;
pub mod signal;
pub mod sleep;
mod sync;
pub mod uplink_doubt;

pub use backend::{BackendHealth, Backends};
pub use backoff::{Backoff, Jitter};
pub use dial_gate::DialGate;
pub use probe_latch::ProbeLatch;
pub use signal::Signal;
pub use uplink_doubt::UplinkDoubt;
