//! Super-packets: up to 64 KiB of one flow that cross a TUN as one packet (virtio-net header, GSO).
//!
//! A system call and a walk through the kernel's stack cost about the same for 64 bytes as for 64 KiB, so a kernel that
//! is told so (`TUNSETOFFLOAD`) hands over what TCP has to say as *one* packet with a virtio-net header before it, and
//! takes as much back. Between the two a tunnel carries packets as they would have been on a wire:
//!
//! ```text
//! kernel ─ super-packet ─> Split ─ packets ─> tunnel ─ packets ─> Coalescer ─ super-packet ─> kernel
//! ```
//!
//! | module | its job |
//! |---|---|
//! | [`virtio`] | the ten bytes before each packet |
//! | [`split`] | one super-packet into the packets it stands for, and checksums that were left to us |
//! | [`coalesce`] | which packets of a batch may travel as one |
//! | [`merged`] | the header of the super-packet that they become |
//! | [`fuzz`] | the body of the fuzz target |
//!
//! Invariants: splitting what was merged gives the merged packets, byte for byte (but the IPv4 identification of packets
//! with DF, which RFC 6864 §4.1 tells everyone to ignore); a packet with a wrong checksum is never merged, since the
//! merged one gets a right one; packets of one flow keep their order; nothing copies a payload.

pub mod coalesce;
pub mod fuzz;
pub mod merged;
pub mod split;
pub mod virtio;

pub use coalesce::{Allowed, Coalescer, Run};
pub use merged::MergedHeader;
pub use split::Split;
pub use virtio::{Gso, VirtioHeader};

/// Where the checksum stands in a TCP header.
pub(crate) const TCP_CHECKSUM_AT: usize = 16;
/// Where the checksum stands in a UDP header.
pub(crate) const UDP_CHECKSUM_AT: usize = 6;
/// Where the flags stand in a TCP header.
pub(crate) const TCP_FLAGS_AT: usize = 13;
/// Where the sequence number stands in a TCP header.
pub(crate) const TCP_SEQUENCE_AT: usize = 4;

/// Writes a field where there is room for it.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = value;
    }
}

/// Reads a 16-bit field; 0 where there is none.
pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |field| u16::from_be_bytes(*field))
}
