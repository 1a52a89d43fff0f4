//! The client: which providers, when to dial them, which of them carries what.
//!
//! [`Client`] is a composition; its module says which file answers which question.

mod address;
mod carry;
mod catalog;
mod choose;
pub mod client;
mod contracts;
mod dial;
mod dials;
mod exit;
mod exit_id;
mod exits;
pub mod flows;
mod guard;
mod may;
mod members;
mod output;
mod quiet;
mod race;
mod races;
mod score;
mod session;
mod snapshot;
mod steer;
mod story;
mod verdict;
mod window;

pub use catalog::{CatalogExit, SPARES};
pub use client::{Client, ExitSettings};
pub use contracts::ContractNews;
pub use exit_id::ExitId;
pub use output::{Loss, Notice, Output};
pub use race::RaceCounters;
pub(crate) use score::Carried;
pub use steer::{NETWORK_WAKE_INTERVAL, Network};
pub use story::{Told, USAGE_INTERVAL, UsageMeter};
pub use window::WindowStatus;

/// Most exits that a client has a place for: more would be looked at with every new flow.
pub const EXITS_MAX: usize = 256;
