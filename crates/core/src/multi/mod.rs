//! The client: which provider, when to dial, what may leave the TUN.
//!
//! [`Client`] is a composition: the [`guard`] judges packets of the TUN, the
//! [`dial`] state decides when to connect, the [`crate::path`] carries.

pub mod client;
mod dial;
mod guard;

pub use client::{Client, Notice, Output};
