//! The library people embed: configuration, client and provider.
#![warn(missing_docs)]

pub mod control;
