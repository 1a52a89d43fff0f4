//! quell's client for Kotlin, Swift and Python.
//!
//! The crate `quell` in the shapes that UniFFI can carry over: values and objects, no lifetimes, every call from any thread.
//! What a call does, when an event comes and what it means is said there; here is nothing decided. One thing differs: time
//! crosses as milliseconds from the moment of the event, since no other language knows our clock.
//!
//! ```text
//! Kotlin, Swift, Python ── generated code ──> Tunnel ──> quell::Client
//!                       <── Protector, KeyHolder (theirs, called here)
//!                       ── Packets: a channel in the place of a TUN
//! ```
//!
//! Calls that wait take a limit in milliseconds and wait with their thread; none needs an event loop.
#![warn(missing_docs)]
// What UniFFI's macros expand to exports functions by name and reads the caller's memory, which is unsafe by nature.
#![allow(unsafe_code)]

mod error;
mod event;
mod hooks;
mod packets;
mod tunnel;

pub use error::TunnelError;
pub use event::TunnelEvent;
pub use hooks::{KeyHolder, Protector, TunnelHooks};
pub use packets::Packets;
pub use tunnel::{Tunnel, TunnelOptions};

uniffi::setup_scaffolding!("quell");

/// A key pair, in text form.
#[derive(Debug, Clone, uniffi::Record)]
pub struct KeyPair {
    /// Who holds it can pose as its owner.
    pub secret_key: String,
    /// What others know it by.
    pub public_key: String,
}

/// A new key pair from the system's random numbers.
///
/// # Errors
/// The system has none.
#[uniffi::export]
pub fn generate_key() -> Result<KeyPair, TunnelError> {
    let identity = quell::Identity::generate().map_err(TunnelError::failed)?;
    Ok(KeyPair {
        secret_key: identity.secret_key().to_text(),
        public_key: identity.public_key().to_string(),
    })
}
