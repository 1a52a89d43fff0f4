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
    #[cfg(feature = "provider")]
    #[error(transparent)]
    Egress(#[from] quell_egress::EgressError),
    /// The client's proxy.
    #[error(transparent)]
    Proxy(#[from] quell_proxy::ProxyError),
    /// QUIC, or the threads around it.
    #[error(transparent)]
    Net(#[from] quell_net::NetError),
    /// The month's count.
    #[cfg(feature = "provider")]
    #[error(transparent)]
    Month(#[from] crate::month_file::MonthFileError),
    /// What is kept for a start without the backend.
    #[error(transparent)]
    State(#[from] crate::state_file::StateFileError),
    /// A provider's receipts.
    #[cfg(feature = "provider")]
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
    /// A builder was given no configuration.
    #[error("no configuration: give one with `config(Config::from_text(…)?)` before `start`")]
    NoConfig,
    /// A builder was given the other role's configuration.
    #[error(
        "the configuration is a {found}'s, a {wanted}'s is needed: `listen` makes a provider's, [provider] a client's"
    )]
    WrongRole {
        /// The role that was started.
        wanted: &'static str,
        /// The configuration's.
        found: &'static str,
    },
    /// Neither the configuration nor the builder has a private key.
    #[error(
        "no private key: give one with `key` before `start`, or name its file in private_key_file"
    )]
    NoKey,
    /// Each question over HTTP is signed with the key itself.
    #[error(
        "backend.url needs the private key itself, and a signer does not give it: give a `backend` of your own"
    )]
    SignerOverHttp,
    /// It did not end in time, and was left to itself.
    #[error(
        "it has not ended within {limit:?}: a device of one's own that waits in a call keeps its thread"
    )]
    Overdue {
        /// The time it had.
        limit: std::time::Duration,
    },
    /// It did not say in time what it is doing.
    #[error("no answer within {limit:?}")]
    Silent {
        /// The time it had.
        limit: std::time::Duration,
    },
    /// The engine's thread died; this is a bug.
    #[error("the engine ended without a word")]
    EngineLost,
}
