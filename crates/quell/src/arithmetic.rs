//! What a configuration file costs in an outage, worked out before there is one.
//!
//! The figures are the core's, [`quell_core::arithmetic`]; this is the way from a file to its question. An embedder
//! that builds its settings in code asks the core directly.

use std::time::{Duration, Instant};

#[cfg(feature = "provider")]
use quell_core::config::ConfigError;

pub use quell_core::arithmetic::*;

#[cfg(feature = "provider")]
use crate::config::ProviderFile;
use crate::config::{BackendSection, ClientFile};

fn backend(section: &BackendSection) -> Option<BackendQuestion> {
    // With a control plane of our own kind, catalog and contracts are asked of it too; each has the health of the first.
    let urls = section.settings().urls.len();
    (urls > 0).then(|| BackendQuestion {
        urls,
        health: section.settings().health,
    })
}

/// What a client's file comes to at this round trip.
#[must_use]
pub fn of_client_file(file: &ClientFile, rtt: Duration) -> ClientFigures {
    let question = ClientQuestion {
        config: file.core(),
        exits: file.exits(),
        backend: backend(&file.backend),
        mtu_bytes: file.transport.mtu_upper,
        rtt,
    };
    client(&question, Instant::now())
}

/// What a provider's file comes to at this round trip.
#[cfg(feature = "provider")]
///
/// # Errors
/// Its pools of addresses are not allowed.
pub fn of_provider_file(
    file: &ProviderFile,
    rtt: Duration,
) -> Result<ProviderFigures, ConfigError> {
    let question = ProviderQuestion {
        config: file.core(),
        clients: match file.backend.url {
            // Whoever has a contract.
            Some(_) => file.limits.sessions_max,
            None => file.clients.len(),
        },
        addresses: file.addresses.pool()?.capacity(),
        backend: backend(&file.backend),
        rtt,
    };
    Ok(provider(&question, Instant::now()))
}
