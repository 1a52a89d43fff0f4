//! Why a server does not start, or cannot go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use quell_core::config::ConfigError;
use quell_net::NetError;

use crate::store::StoreError;

/// A server does not start, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration, or a file that it names, cannot be read.
    #[error("{}: {words}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        words: String,
    },
    /// A setting is out of its range.
    #[error("{}: {source}", path.display())]
    Setting {
        /// Of which file.
        path: PathBuf,
        /// Which setting.
        source: ConfigError,
    },
    /// A setting that no file was read for is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This server was built without that store.
    #[error("`store.{0}`: this server was built without it")]
    NoSuchStore(&'static str),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Metrics cannot be served.
    #[error("{0}")]
    Metrics(NetError),
    /// TLS refuses certificate or key.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The prober cannot start.
    #[error("the prober: {0}")]
    Prober(#[from] NetError),
}
