//! What can go wrong in the driver before anything runs.

use std::io;

use thiserror::Error;

/// The driver cannot start, or cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// The secret key is not one of Ed25519.
    #[error("the secret key is not usable: {0}")]
    Key(String),
    /// TLS refused our settings.
    #[error("TLS settings: {0}")]
    Tls(#[from] rustls::Error),
    /// A transport setting is out of what QUIC can express.
    #[error("QUIC settings: {0}")]
    Transport(String),
    /// The UDP socket could not be opened.
    #[error("cannot open a UDP socket on {address}: {source}")]
    Socket {
        /// Where it was to be bound.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Metrics cannot be served.
    #[error("metrics.listen: cannot listen on {address}: {source}")]
    Metrics {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A backend is to be asked over TLS, and there is nobody to trust.
    #[error(
        "cannot ask a backend by https: the system's certificate authorities are not to be had: {words}"
    )]
    Trust {
        /// What is wrong with them.
        words: String,
    },
    /// Clients would reach the host itself.
    #[error("cannot read the addresses of this host, which clients must not reach: {0}")]
    HostAddresses(io::Error),
    /// The TUN failed for good.
    #[error("the TUN failed: {0}")]
    Tun(#[from] quell_tun::TunError),
    /// A thread could not be started.
    #[error("cannot start the thread {name}: {source}")]
    Thread {
        /// Its name.
        name: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The month's count would be lost by a restart.
    #[error("{bytes} bytes were carried in {month}, which a restart will not know: {source}")]
    MonthNotKept {
        /// Which month.
        month: String,
        /// The count.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A message was not taken.
    #[error("the message was not taken: {0}")]
    Message(quell_core::send::Backpressure),
    /// The engine ended while it was asked something.
    #[error("the engine has stopped")]
    Stopped,
}
