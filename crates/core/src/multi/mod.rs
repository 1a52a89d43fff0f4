//! The client: which provider, when to dial, what may leave the TUN.
//!
//! [`Client`] is a composition: the `guard` judges packets of the TUN, the
//! `dial` state decides when to connect, the [`crate::path`] carries, and `session`
//! takes it from one connection to the next.

pub mod client;
mod dial;
mod exit_id;
pub mod flows;
mod guard;
mod output;
mod quiet;
mod session;

pub use client::Client;
pub use exit_id::ExitId;
pub use output::{Loss, Notice, Output};
