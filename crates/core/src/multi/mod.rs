//! The client: which provider, when to dial, what may leave the TUN.
//!
//! [`Client`] is a composition: the `guard` judges packets of the TUN, the
//! `dial` state decides when to connect, the [`crate::path`] carries.

pub mod client;
mod dial;
mod guard;
mod output;

pub use client::Client;
pub use output::{Notice, Output};
