//! quell for embedders: a VPN client or an exit inside a program of one's own.
//!
//! A client carries a user's IP packets over QUIC to one of several exits, and stays quiet and correct when things break:
//! nothing is retried without a bound, nothing accepted is lost without being counted. This page is the way from a line in
//! `Cargo.toml` to packets.
//!
//! # 1. The dependency
//!
//! ```toml
//! quell = { path = "…/quell/crates/quell", default-features = false, features = ["client"] }
//! ```
//!
//! `client` alone brings no server, no database and no plots; `provider`, on by default, adds the exit.
//!
//! # 2. A client
//!
//! Three things are needed: whom to connect to ([`Config`]), who this is (a [`SecretKey`]), and where packets come from
//! ([`Device`]). Here both ends run in one process, on the loopback, and both devices are channels:
//!
//! ```
//! # #[cfg(feature = "provider")] fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use quell::{Client, Config, Device, Event, Identity, Provider};
//!
//! // Who both are. A key stands in a file or a keystore: `quell keygen` makes one.
//! let (me, exit) = (Identity::generate()?, Identity::generate()?);
//!
//! // An exit, with a channel in the place of the world.
//! let (world_device, world) = Device::channel(1_024);
//! let provider = Provider::builder()
//!     .config(Config::from_text(&format!(r#"
//!         listen = "127.0.0.1:0"
//!         addresses.ipv4_pool = "10.86.0.0/24"
//!         egress.allow = ["192.0.2.0/24"]
//!         clients = [{{ name = "laptop", public_key = "{}" }}]
//!     "#, me.public_key()))?)
//!     .key(exit.secret_key().clone())
//!     .device(world_device)
//!     .start()?;
//!
//! // The client.
//! let (device, packets) = Device::channel(1_024);
//! let client = Client::builder()
//!     .config(Config::from_text(&format!(r#"
//!         [provider]
//!         address = "{}"
//!         public_key = "{}"
//!     "#, provider.local_addr(), exit.public_key()))?)
//!     .key(me.secret_key().clone())
//!     .device(device)
//!     .start()?;
//!
//! // What happens is told: first what the device is to look like, then that packets are carried.
//! let mut events = client.events();
//! let mut own = None;
//! loop {
//!     match events.next_within(Duration::from_secs(10)).ok_or("nothing happened")? {
//!         Event::Tunnel { addresses, mtu } => own = addresses.ipv4.map(|(ip, _)| (ip, mtu)),
//!         Event::Up { exit, .. } => break println!("up over {}", exit.name),
//!         _ => {}
//!     }
//! }
//!
//! // A packet in, the same packet out of the exit.
//! let (own, _mtu) = own.ok_or("no address")?;
//! let packet = quell::packet::build::udp((own, 4_000).into(), "192.0.2.1:53".parse()?, b"hello");
//! packets.inject_copy(&packet).map_err(|_| "the channel is full")?;
//! assert_eq!(world.take_within(Duration::from_secs(10)).ok_or("lost")?, packet);
//!
//! client.shutdown(Duration::from_secs(1))?;
//! provider.shutdown(Duration::from_secs(10))?;
//! # Ok(()) }
//! # #[cfg(not(feature = "provider"))] fn main() {}
//! ```
//!
//! # 3. The device
//!
//! | what there is | how |
//! |---|---|
//! | a TUN that the system opened (Android's `VpnService`, a helper with privileges) | [`Device::from_fd`] |
//! | packets in the program itself | [`Device::channel`] |
//! | anything else | [`Device::own`], over the traits [`TunReader`] and [`TunWriter`] |
//! | none: a SOCKS5 or HTTP proxy will do | `[proxy]` in the configuration, no device |
//! | root on Linux | `[tun]` in the configuration, no device: an interface is made, with its addresses and `tun.routes` |
//!
//! With a device of one's own quell touches no address, route, DNS or firewall: [`Event::Tunnel`] says what there is to
//! set. A system that wants the addresses before it opens its TUN gets them from a first start with a channel: they stay
//! the same for the same key and provider.
//!
//! # 4. The hooks of a phone
//!
//! | hook | when |
//! |---|---|
//! | [`ClientBuilder::protect`] | each socket, before its first byte: `VpnService.protect(fd)` |
//! | [`Client::network_changed`] | the system's callback, each time: `validated`, `metered` |
//! | [`Client::suspended`], [`Client::resumed`] | `onTrimMemory`, `sleep`, `wake`: nothing is begun in between |
//! | [`Client::hold`] | the person's pause: no session, and nothing leaves in the clear |
//! | [`Client::select`] | the person's exit: it carries new flows whenever it can |
//! | [`ClientBuilder::signer`] | a key that a keystore holds: it signs, and is never seen |
//! | [`ClientBuilder::memory_max`] | a ceiling, such as the 24 MiB that some systems give an extension |
//! | [`Client::shutdown`] | the end, with a deadline |
//!
//! All of them may be called from any thread and never wait, `shutdown` excepted.
//!
//! # 5. What happens
//!
//! [`Client::events`] is a bounded stream ([`Events`]): whoever reads slowly loses the oldest, counted, and holds nothing
//! up. [`Client::status`] is a snapshot of everything, in the words that `quell status --json` has.
//!
//! # 6. The control plane
//!
//! With `[backend] url` exits come from quell's own; [`ClientBuilder::backend`] takes any other that speaks
//! [`backend::ask::Backend`]. A program that talks to its control plane by itself tells how that went
//! ([`Client::note_backend_failure`], [`Client::note_backend_success`]). An outage of it costs no packet: what is in hand
//! lasts as long as [`Event::Outage`] says.
//!
//! # 7. A driver of one's own
//!
//! [`core`] decides everything without I/O and can be driven by any loop; `examples/own_driver.rs` is one.
#![warn(missing_docs)]

pub mod arithmetic;
pub mod client;
pub mod config;
pub mod control;
mod device;
#[cfg(feature = "provider")]
mod egress;
mod embed;
pub mod error;
#[cfg(feature = "provider")]
pub mod month_file;
mod packets;
pub mod plane;
#[cfg(feature = "provider")]
pub mod provider;
mod proxy;
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
pub use quell_wire::key::{PublicKey, SecretKey};
