//! The library people embed: configuration, client and provider.
#![warn(missing_docs)]

pub mod arithmetic;
pub mod client;
pub mod config;
pub mod control;
mod device;
mod egress;
pub mod error;
pub mod month_file;
mod packets;
pub mod plane;
pub mod provider;
mod proxy;
mod running;
pub mod state_file;

/// What is asked of a control plane: the trait to implement, and its HTTP client.
pub use quell_backend as backend;
pub use quell_net::engine::Messages;
pub use quell_proxy::{Listening, Observer as ProxyObserver, ProxyStatus};
/// How own packets stay outside of a tunnel that takes all else.
pub use quell_underlay::Underlay;
