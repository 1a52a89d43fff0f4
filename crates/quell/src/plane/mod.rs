//! The control plane's driver: what client and provider ask of a backend, and what they keep of its answers.
//!
//! | file | what |
//! |---|---|
//! | `client` | the catalog, contracts |
//! | `provider` | heartbeats, receipts to file |
//! | `answers` | what an answer means to the core |
//! | `kept` | a client's catalog and contracts, for a start without the backend |
//! | `receipts` | a provider's receipts, durable before they give credit |
//!
//! It decides nothing: when something is asked, how often, and what an answer means is said by
//! [`quell_core::contract`] and [`quell_core::health`].

mod answers;
pub(crate) mod client;
pub(crate) mod kept;
#[cfg(feature = "provider")]
pub(crate) mod provider;
#[cfg(feature = "provider")]
pub mod receipts;

use std::sync::Arc;
use std::time::Duration;

use quell_backend::ask::Backend;
use quell_backend::http::{BaseUrl, HttpBackend};
use quell_underlay::Underlay;
use quell_wire::key::SecretKey;

use crate::error::Error;

/// The backend at a URL, asked in the name of `secret` by the way of `underlay`.
///
/// # Errors
/// There is nobody whose certificates could be trusted.
pub(crate) fn over_http(
    url: &BaseUrl,
    secret: SecretKey,
    timeout: Duration,
    underlay: Underlay,
) -> Result<Arc<dyn Backend>, Error> {
    let backend = HttpBackend::over(url.clone(), secret, timeout, underlay)?;
    Ok(Arc::new(backend))
}
