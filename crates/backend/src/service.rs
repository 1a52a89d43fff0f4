//! The rules of the reference server, between HTTP and the store.
//!
//! HTTP hands in who asks (the key whose signature of the request holds), the body, and the time; what comes out is an
//! answer, or a refusal with its reason. What happens at once or not at all is the store's. Nothing here reads a clock,
//! draws random numbers, or holds state: any number of servers may have the same rules over one store.
//!
//! | file | what |
//! |---|---|
//! | [`config`] | sizes, lives, retention; signing keys and their rotation |
//! | [`invitation`] | the text of an invitation |
//! | `enrol` | who comes in, who may ask, that a provider lives |
//! | `contracts` | what is signed for whom |
//! | `receipts` | what counts |
//! | [`admin`] | invitations, bans, allowances, lists; forgetting |
//!
//! Times are seconds since 1970 UTC. A clock that jumps makes no byte more payable than contracts allow: what was
//! settled never falls, and what is signed is bounded by its own bytes.

pub mod admin;
pub mod config;
mod contracts;
mod enrol;
pub mod invitation;
mod receipts;
mod refuse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use quell_core::config::ConfigError;

pub use self::config::{ServiceConfig, SigningKeys};
pub use self::invitation::InvitationText;
pub use self::refuse::ServiceError;
use crate::store::Store;

/// The rules, over a store.
pub struct Service {
    store: Arc<dyn Store>,
    keys: SigningKeys,
    config: ServiceConfig,
}

impl Service {
    /// Rules over a store.
    ///
    /// # Errors
    /// The first setting outside its range.
    pub fn try_new(
        store: Arc<dyn Store>,
        keys: SigningKeys,
        config: ServiceConfig,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            store,
            keys,
            config: config.try_new()?,
        })
    }

    /// The keys that sign and are trusted.
    #[must_use]
    pub fn keys(&self) -> &SigningKeys {
        &self.keys
    }
}
