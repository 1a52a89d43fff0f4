//! The TUN device, its addresses and routes, behind one batch-shaped trait (DESIGN §9).
//!
//! A TUN thread reads a batch of packets, hands it to the engine over a bounded channel, and reads on. This crate is the
//! part below that thread: [`TunReader`] and [`TunWriter`], with two devices behind them:
//!
//! - [`os::TunDevice`], the kernel's (Linux), through the crate `tun`, with the kernel's offloads ([`Offload`]);
//! - [`channel`], a pair of bounded channels, for tests and for embedders who get their packets from elsewhere.
//!
//! # One frame form (case B55)
//!
//! A packet is one whole, bare IP packet: its first nibble is the IP version, nothing stands before it or after it.
//! Systems differ (macOS puts a four-byte address family before each packet, Linux a `tun_pi` or a virtio-net header when
//! asked): whatever a system adds, the device strips on reading and adds on writing, inside this crate. No caller ever
//! looks at such a header, so no caller can be right on one system and wrong on another.
//!
//! # Errors (case B81)
//!
//! [`classify`] is the one place that says what an errno means. A reader waits out what passes, backs off on what may
//! pass, and ends with [`TunError::Fatal`] on what cannot; after that it never touches the device again. No error is
//! answered by an unbounded or unpaused loop, and none writes more than one log line a minute.
//!
//! # Memory
//!
//! The packets of a batch are cut out of one pooled buffer; see [`SLAB_BYTES`] for what a packet that is kept pins.

#![warn(missing_docs)]

pub mod channel;
mod classify;
mod device;
mod error;
#[cfg(target_os = "linux")]
pub mod link;
pub mod log_gate;
mod offload;
#[cfg(target_os = "linux")]
pub mod os;
mod patience;
mod raw;
mod reader;
mod slab;
mod stop;
mod writer;

pub use classify::{Class, Direction, END_OF_FILE, Trouble, classify};
pub use device::{
    BATCH_PACKETS_MAX, DropCounts, MTU_MIN, PACKET_BYTES_MAX, PacketIn, PromptOutcome,
    PromptReader, QUIET_AFTER, ReadOutcome, TunReader, TunWriter, WriteReport,
};
pub use error::TunError;
pub use log_gate::LogGate;
pub use offload::{Offload, OffloadMode, OffloadStats};
pub use slab::SLAB_BYTES;
pub use stop::StopHandle;
