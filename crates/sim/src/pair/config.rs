//! What a world is made of, and what may happen to it.
//!
//! The defaults are a good day: one provider that holds pools of both families, a path of 20 ms, nothing lost. A test
//! states what differs.

use std::time::Duration;

use quell_core::config::{ClientConfig, ProviderConfig};
use quell_core::health::Signal;
use quell_core::path::{MessagesEnd, Violation};
use quell_core::status::TunnelAddresses;

use bytes::Bytes;
use quell_core::multi::Notice;

pub use super::carrier::CarrierConfig;

/// How a [`World`](super::World) begins.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// Feeds every random draw.
    pub seed: u64,
    /// Each client's core.
    pub client: ClientConfig,
    /// The provider's core.
    pub provider: ProviderConfig,
    /// The key tags 1 to `listed` are in the provider's roster.
    pub listed: u8,
    /// The books of all ends are looked at every so many times that the world comes to rest: it is the cost of many clients.
    pub books_every: u64,
    /// The provider's IPv4 pool, as text; empty for none.
    pub ipv4_pool: &'static str,
    /// The provider's IPv6 pool, as text; empty for none.
    pub ipv6_pool: &'static str,
    /// Largest packet of the clients' devices, in bytes.
    pub client_mtu_max: u16,
    /// Largest packet of the provider's device, in bytes.
    pub provider_mtu_max: u16,
    /// From the clients to the provider.
    pub to_provider: CarrierConfig,
    /// From the provider to the clients.
    pub to_client: CarrierConfig,
    /// What all ends are told of the control plane.
    pub signal: Signal,
    /// QUIC's idle timeout at both ends: an end that hears nothing for so long is closed without a word.
    pub idle_timeout: Duration,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            client: ClientConfig::default(),
            provider: ProviderConfig::default(),
            listed: 8,
            books_every: 1,
            ipv4_pool: "10.85.0.0/16",
            ipv6_pool: "fd71:75e1::/64",
            client_mtu_max: 1_500,
            provider_mtu_max: 1_500,
            to_provider: CarrierConfig::default(),
            to_client: CarrierConfig::default(),
            signal: Signal::default(),
            // `ack_timeout` + 15 s (DESIGN §4).
            idle_timeout: Duration::from_secs(75),
        }
    }
}

/// An end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The client of this number.
    Client(usize),
    /// The provider.
    Provider,
}

/// Directions of all paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the clients to the provider.
    ToProvider,
    /// From the provider to the clients.
    ToClient,
    /// Both.
    Both,
}

/// What a dial meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The provider answers.
    Up,
    /// The host answers, the provider does not run: each dial fails after a round trip.
    Refusing,
    /// Nothing answers.
    Silent,
}

/// What was seen from outside, at which time since the beginning.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A client dials.
    Dial {
        /// Which client.
        client: usize,
        /// The number of the dial.
        attempt: u64,
    },
    /// A client's device is to have these addresses.
    Configure(usize, TunnelAddresses),
    /// A client's device is to have this MTU, in bytes.
    Mtu(usize, u16),
    /// A client says something to people.
    Notice(usize, Notice),
    /// A packet was handed to the device of this end.
    Deliver(End, Bytes),
    /// A session of this end carries no more messages to its peer.
    MessagesEnded(End, MessagesEnd),
    /// This end closed a connection.
    Close(End, Violation),
    /// The provider refused a client's connection.
    Refuse(usize, Violation),
}
