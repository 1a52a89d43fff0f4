//! quell for embedders: a VPN client or an exit inside a program of one's own.
//!
//! A client carries a user's IP packets over QUIC to one of several exits, and stays quiet and correct when things break:
//! nothing is retried without a bound, nothing accepted is lost without being counted. This page is the way from a line in
//! `Cargo.toml` to packets.
#![doc = ""]
#![doc = include_str!("../EMBEDDING.md")]
#![warn(missing_docs)]

pub mod arithmetic;
pub mod client;
pub mod config;
pub mod control;
mod device;
mod doors;
#[cfg(feature = "provider")]
mod drain;
#[cfg(feature = "provider")]
mod egress;
mod embed;
pub mod error;
pub mod metrics;
#[cfg(feature = "provider")]
pub mod month_file;
mod packets;
pub mod plane;
#[cfg(feature = "provider")]
pub mod provider;
mod proxy;
pub mod reload;
mod running;
pub mod state_file;

pub use client::Client;
pub use config::{ClientFile, Config};
pub use embed::client::ClientBuilder;
pub use embed::events::{EVENTS_MAX, Events};
#[cfg(feature = "provider")]
pub use embed::provider::ProviderBuilder;
pub use error::Error;
#[cfg(feature = "provider")]
pub use provider::Provider;
/// What is asked of a control plane: the trait to implement, and its HTTP client.
pub use quell_backend as backend;
/// Every decision, without I/O: for drivers of one's own.
pub use quell_core as core;
pub use quell_core::multi::Network;
pub use quell_core::status::TunnelAddresses;
pub use quell_net::engine::client::{ClientReport, Device};
pub use quell_net::engine::{Event, ExitName, Messages};
pub use quell_net::identity::Identity;
pub use quell_net::signer::Signer;
/// Views of packets, and small builders of them.
pub use quell_packet as packet;
pub use quell_proxy::{Listening, Observer as ProxyObserver, ProxyStatus};
pub use quell_tun::channel::{ChannelHandle, InjectError};
pub use quell_tun::{ReadOutcome, StopHandle, TunError, TunReader, TunWriter, WriteReport};
/// How own packets stay outside of a tunnel that takes all else.
pub use quell_underlay::Underlay;
pub use quell_wire::key::{PublicKey, SecretKey};
