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

use std::os::fd::BorrowedFd;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::error::TunError;

/// The most packets that one read returns.
pub const BATCH_PACKETS_MAX: usize = 64;

/// The longest packet that a TUN device carries: the kernel's bound on an MTU, and of an IPv4 packet.
pub const PACKET_BYTES_MAX: usize = 65_535;

/// A device that gave nothing for so long is read by who wants the packets. 1 ms: some 30 times what it takes to wake a
/// thread, so that a load is never read in turns, and a pause between a user's packets is long enough.
pub const QUIET_AFTER: Duration = Duration::from_millis(1);

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
    /// Nothing came for [`QUIET_AFTER`], and it is the prompt reader's turn now; no packet was appended. Only of a reader
    /// whose [`TunReader::prompt`] was taken.
    Quiet,
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

    /// A second reader on the same device, for few packets on the thread that wants them: to wake that thread from another
    /// takes longer than to read them. They take turns, and this one begins: see [`PromptReader`].
    ///
    /// `None`: there is none, or it is in use.
    fn prompt(&mut self) -> Option<Box<dyn PromptReader>> {
        None
    }
}

/// The reading half of a device as it is used from the thread that wants the packets. It never waits.
///
/// One of the two reads at a time, or packets would change places. A turn of the [`TunReader`] ends with
/// [`ReadOutcome::Quiet`], one of this with [`PromptReader::give_back`]; in between the other one waits in its
/// [`TunReader::read_batch`].
pub trait PromptReader: Send {
    /// What becomes readable when there is something to read.
    fn file(&self) -> BorrowedFd<'_>;

    /// Appends what the device has, [`BATCH_PACKETS_MAX`] packets at most. Only in its turn.
    fn read_now(&mut self, batch: &mut Vec<PacketIn>) -> PromptOutcome;

    /// The turn is the other one's. To be dropped does the same.
    fn give_back(&mut self);
}

/// What a [`PromptReader`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptOutcome {
    /// At least one packet was appended.
    Packets,
    /// There is none at the moment.
    Nothing,
    /// Something is in the way. The other reader knows what to do: it is to be its turn.
    Trouble,
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
