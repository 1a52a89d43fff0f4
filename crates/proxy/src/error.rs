//! What keeps a proxy from starting, each with what to do about it. Once it runs, whatever goes wrong concerns one
//! connection: it is told there, and counted ([`Refusal`](crate::Refusal)).

use std::io;
use std::net::SocketAddr;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// A setting outside its range.
    #[error("{key} = {value}: allowed is {allowed}")]
    InvalidSetting {
        /// Its name, as in a configuration file.
        key: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// The address is taken, or not this host's.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The host gives no thread or runtime.
    #[error("cannot start the proxy's thread: {source}")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}
