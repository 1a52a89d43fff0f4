//! The library people embed: configuration, client and provider.
#![warn(missing_docs)]

pub mod config;
pub mod control;
