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
pub mod provider;
mod proxy;
mod running;
pub mod state_file;

pub use quell_net::engine::Messages;
pub use quell_proxy::{Listening, Observer as ProxyObserver, ProxyStatus};
