//! The driver: QUIC, tokio and the TUN threads carry what the core decides.
//!
//! | module | job |
//! |---|---|
//! | [`engine`] | the tasks that feed and drain the core |
//! | [`backend`] | asks the control plane how it is |
//! | [`host`] | which addresses this host has |
//! | `pump` | the TUN threads and their channels |
//! | `carrier` | the seam to QUIC: batches of datagrams |
//! | [`scrape`] | the loopback listener that a collector of metrics asks |
//! | `readable` | files that the engine's poll tells of |
//! | [`mod@slice`] | a short time slice for threads that carry packets |
//! | `socket` | our UDP socket under QUIC: it counts and it forgives |
//! | `quic` | the engines' QUIC: quinn-proto on the engine's own thread |
//! | [`endpoint`], [`transport`] | QUIC's settings, and quinn's own endpoint for probes |
//! | [`congestion`] | quinn's Cubic with the core's loss floor under it |
//! | [`identity`], [`signer`], `tls` | one Ed25519 key a peer, perhaps held elsewhere; raw public keys both ways |

pub mod backend;
mod carrier;
pub mod congestion;
#[cfg(test)]
mod counting;
pub mod endpoint;
pub mod engine;
mod error;
pub mod host;
pub mod identity;
mod pump;
mod quic;
mod readable;
pub mod scrape;
pub mod signer;
pub mod slice;
mod socket;
mod tls;
pub mod transport;
mod words;

pub use carrier::QuicReport;
pub use error::NetError;
pub use pump::DeviceCounters;
pub use socket::{Protect, SocketCounters, SocketWatch, UdpReport};
pub use tls::KeyRefused;
