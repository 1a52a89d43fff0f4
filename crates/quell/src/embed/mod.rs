//! What embedders start with: builders, and the stream of events.
//!
//! | file | what |
//! |---|---|
//! | `client` | [`ClientBuilder`](client::ClientBuilder) |
//! | `provider` | [`ProviderBuilder`](provider::ProviderBuilder) |
//! | `events` | [`Events`](events::Events): bounded, whoever reads |
//!
//! A builder gathers what a configuration cannot hold: keys from elsewhere, a device, hooks. It decides nothing; what it
//! misses, or has in vain, is said by `start`.

pub(crate) mod client;
pub(crate) mod events;
#[cfg(feature = "provider")]
pub(crate) mod provider;

use quell_wire::key::SecretKey;

use crate::config::read_private_key;
use crate::error::Error;

/// The key that was handed over, or the one that the configuration names.
pub(crate) fn key_of(given: Option<SecretKey>, file: &std::path::Path) -> Result<SecretKey, Error> {
    match given {
        Some(key) => Ok(key),
        None if file.as_os_str().is_empty() => Err(Error::NoKey),
        None => Ok(read_private_key(file)?),
    }
}
