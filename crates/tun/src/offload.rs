//! What a device's kernel takes off our hands, and what came of it.
//!
//! ```text
//!              reading                                   writing
//! off       one packet a call                         one packet a call
//! on        super-packets, split by us                runs of packets, merged by us
//! fallback  (as on)                                   one packet a call, from the first merged one that was refused
//! ```
//!
//! Reading and writing are independent in the kernel: what is read is decided by `TUNSETOFFLOAD` at the beginning, what
//! may be written by the driver's version alone. A kernel may also begin to refuse merged packets at runtime (case B50):
//! the run's packets are then written one by one at once, and if they go, merging ends for that protocol, for good. TCP
//! and UDP are apart, since a kernel may know the one and not the other.
//!
//! The handle outlives the device, so that counters can be read at the end. All loads and stores are relaxed: each number
//! stands for itself, and a batch that merges once more after a fallback costs one refused call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quell_packet::offload::Allowed;

/// Whether a device uses the kernel's offloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OffloadMode {
    /// Where the kernel has them, each that it has.
    #[default]
    Auto,
    /// Never: one packet a system call.
    Off,
}

/// The offloads of one device: which are on, and what they did. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Offload {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    reads_super: AtomicBool,
    merges_tcp: AtomicBool,
    merges_udp: AtomicBool,
    split: AtomicU64,
    split_packets: AtomicU64,
    refused: AtomicU64,
    merged: AtomicU64,
    merged_packets: AtomicU64,
    fallbacks: AtomicU64,
}

/// What an [`Offload`] says at one moment. Packets are IP packets as the tunnel carries them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct OffloadStats {
    /// The kernel may hand over super-packets.
    pub reads_super: bool,
    /// Runs of TCP segments are written as one.
    pub merges_tcp: bool,
    /// Runs of UDP datagrams are written as one.
    pub merges_udp: bool,
    /// Super-packets that were read and split.
    pub split: u64,
    /// Packets that they became.
    pub split_packets: u64,
    /// What was read and dropped because its virtio-net header made no sense.
    pub refused: u64,
    /// Merged packets that the kernel took.
    pub merged: u64,
    /// Packets that they stood for.
    pub merged_packets: u64,
    /// Times that merging was given up for a protocol, 0 to 2.
    pub fallbacks: u64,
}

impl Offload {
    /// What holds at the moment.
    #[must_use]
    pub fn stats(&self) -> OffloadStats {
        let flag = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let it = &self.shared;
        OffloadStats {
            reads_super: flag(&it.reads_super),
            merges_tcp: flag(&it.merges_tcp),
            merges_udp: flag(&it.merges_udp),
            split: count(&it.split),
            split_packets: count(&it.split_packets),
            refused: count(&it.refused),
            merged: count(&it.merged),
            merged_packets: count(&it.merged_packets),
            fallbacks: count(&it.fallbacks),
        }
    }

    /// Which runs may be merged.
    pub(crate) fn allowed(&self) -> Allowed {
        Allowed {
            tcp: self.shared.merges_tcp.load(Ordering::Relaxed),
            udp: self.shared.merges_udp.load(Ordering::Relaxed),
        }
    }

    /// Says what the kernel took at the beginning.
    pub(crate) fn switch_on(&self, reads_super: bool, merges: Allowed) {
        self.shared
            .reads_super
            .store(reads_super, Ordering::Relaxed);
        self.shared.merges_tcp.store(merges.tcp, Ordering::Relaxed);
        self.shared.merges_udp.store(merges.udp, Ordering::Relaxed);
    }

    /// Ends the merging of TCP, or of UDP.
    pub(crate) fn fall_back(&self, is_tcp: bool) {
        let flag = if is_tcp {
            &self.shared.merges_tcp
        } else {
            &self.shared.merges_udp
        };
        if flag.swap(false, Ordering::Relaxed) {
            self.shared.fallbacks.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn note_split(&self, packets: usize) {
        self.shared.split.fetch_add(1, Ordering::Relaxed);
        self.shared
            .split_packets
            .fetch_add(packets as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_refused(&self) {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_merged(&self, packets: usize) {
        self.shared.merged.fetch_add(1, Ordering::Relaxed);
        self.shared
            .merged_packets
            .fetch_add(packets as u64, Ordering::Relaxed);
    }
}
