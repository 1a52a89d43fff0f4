//! The library people embed: configuration, client and provider.
#![warn(missing_docs)]

pub mod client;
pub mod config;
pub mod control;
mod device;
pub mod error;
pub mod month_file;
pub mod provider;
mod running;

pub use quell_net::engine::Messages;
