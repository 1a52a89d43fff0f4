//! The two halves of a device, as the TUN threads see them.
//!
//! Reading and writing are separate objects because they live on separate threads. Both speak batches: a channel
//! hand-over, a wake-up and a cache miss are paid once for up to [`BATCH_PACKETS_MAX`] packets.
//!
//! Invariants, which every device of this crate keeps:
//!
//! - a packet is a whole, bare IP packet of 1 to [`PACKET_BYTES_MAX`] bytes (case B55);
//! - a packet that was read is uniquely owned: the caller may rewrite it in place;
//! - for each write, `written + dropped == offered` ([`WriteReport`]): nothing vanishes uncounted;
//! - after [`TunError::Fatal`] each further call gives it again at once.
//!
//! The batch size is a compromise: 64 packets of 1,500 bytes fit the second-level cache beside the core's state, and at
//! 10 Gbit/s they are 77 µs of traffic, well below the delays the queues are allowed to add. It also holds all 45 segments
//! of a full super-packet ([`Offload`](crate::Offload)) and some more; a longer row of segments goes on in the next batch.

use bytes::{Bytes, BytesMut};

use crate::error::TunError;

/// The most packets that one read returns.
pub const BATCH_PACKETS_MAX: usize = 64;

/// The longest packet that a TUN device carries: the kernel's bound on an MTU, and of an IPv4 packet.
pub const PACKET_BYTES_MAX: usize = 65_535;

/// The smallest MTU of a tunnel, in bytes: IPv6 needs it (RFC 8200 §5), and the kernel switches IPv6 off below it. Inner
/// packets of this size are carried on every path (DESIGN §4), so no path asks for less.
pub const MTU_MIN: u16 = 1_280;

/// A packet as it is read: whole, bare, and owned alone, so that it can be changed in place.
pub type PacketIn = BytesMut;

/// Why a read came back without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// At least one packet was appended.
    Packets,
    /// The stop signal was given; no packet was appended. Every later read says the same.
    Stopped,
}

/// The reading half.
pub trait TunReader: Send {
    /// Blocks until at least one packet is there, the stop signal is given, or the device is gone for good.
    ///
    /// Appends 1 to [`BATCH_PACKETS_MAX`] packets to `batch`; what it holds already stays.
    ///
    /// # Errors
    ///
    /// [`TunError::Fatal`] when the device can give no more packets. What was read before the failure is returned
    /// first; the error comes with the next call, and with each one after that.
    fn read_batch(&mut self, batch: &mut Vec<PacketIn>) -> Result<ReadOutcome, TunError>;
}

/// The writing half.
pub trait TunWriter: Send {
    /// Writes the packets in order. May wait a bounded time (20 ms a batch) for room in the device's queue.
    ///
    /// # Errors
    ///
    /// [`TunError::Fatal`] when the device is gone: none of *this* batch was written, so the caller counts all of it
    /// as dropped. A batch that was cut off in the middle is reported with the rest in [`DropCounts::gone`], and the
    /// error comes with the next call.
    fn write_batch(&mut self, packets: &[Bytes]) -> Result<WriteReport, TunError>;

    /// A second writer on the same device, for few packets from the thread that has them: to wake the writing thread takes
    /// longer than to write them. It never waits: what the device does not take at once is dropped. Whoever uses both
    /// sees to it that one has ended before the other begins, or packets change places.
    ///
    /// `None`: there is none, or it is in use.
    fn prompt(&mut self) -> Option<Box<dyn TunWriter>> {
        None
    }
}

/// What became of a batch that was written: `written + dropped.total()` is the number of packets offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use = "the dropped packets are to be counted"]
pub struct WriteReport {
    /// Packets the device took.
    pub written: usize,
    /// Packets it did not, by reason.
    pub dropped: DropCounts,
}

impl WriteReport {
    /// The number of packets that were offered.
    #[must_use]
    pub fn offered(&self) -> usize {
        self.written + self.dropped.total()
    }
}

/// Packets that a write dropped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// The device's queue stayed full, or the kernel short of memory, for as long as a write may wait.
    pub queue_full: usize,
    /// Not a packet the device takes: empty, over [`PACKET_BYTES_MAX`], or neither IPv4 nor IPv6.
    pub invalid: usize,
    /// The interface is down.
    pub down: usize,
    /// The device refused for a reason that is none of the others.
    pub failed: usize,
    /// The device went away after it had taken an earlier packet of the same batch.
    pub gone: usize,
}

impl DropCounts {
    /// All drops together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.iter().map(|(_, count)| count).sum()
    }

    /// Each reason, as a metric's label, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> + use<> {
        [
            ("tun_queue_full", self.queue_full),
            ("tun_invalid", self.invalid),
            ("tun_down", self.down),
            ("tun_failed", self.failed),
            ("tun_gone", self.gone),
        ]
        .into_iter()
    }
}
