//! What keeps a client or a provider from running.

use std::io;

use quell_core::config::ConfigError;
use thiserror::Error;

use crate::config::LoadError;
use crate::control::ControlError;

/// A client or a provider cannot start, or cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The private key's file is not usable.
    #[error(transparent)]
    Key(#[from] LoadError),
    /// A setting is not allowed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The TUN, or its addresses.
    #[error(transparent)]
    Tun(#[from] quell_tun::TunError),
    /// The way from the TUN to the world.
    #[error(transparent)]
    Egress(#[from] quell_egress::EgressError),
    /// The client's proxy.
    #[error(transparent)]
    Proxy(#[from] quell_proxy::ProxyError),
    /// QUIC, or the threads around it.
    #[error(transparent)]
    Net(#[from] quell_net::NetError),
    /// The month's count.
    #[error(transparent)]
    Month(#[from] crate::month_file::MonthFileError),
    /// What is kept for a start without the backend.
    #[error(transparent)]
    State(#[from] crate::state_file::StateFileError),
    /// A provider's receipts.
    #[error(transparent)]
    Receipts(#[from] crate::plane::receipts::ReceiptsError),
    /// The control plane's address cannot be asked.
    #[error(transparent)]
    Backend(#[from] quell_backend::http::HttpError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The system gives no thread, no runtime or no random numbers.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The engine's thread died; this is a bug.
    #[error("the engine ended without a word")]
    EngineLost,
}
