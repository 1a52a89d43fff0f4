//! The channel device: a TUN without a kernel, for tests and for embedders who get their packets from elsewhere.
//!
//! [`pair`] gives a [`ChannelTun`], which splits into the same two traits as the kernel's device, and a
//! [`ChannelHandle`], the "kernel's side": [`inject`](ChannelHandle::inject) a packet that the reader shall read, and
//! [`take`](ChannelHandle::take) what the writer wrote. Both directions are bounded by the same capacity, in packets:
//!
//! - injecting into a full channel gives the packet back;
//! - writing to a full channel drops it as `queue_full`, at once: there is no kernel whose queue drains by itself.
//!
//! The device is gone when its handle is: the reader delivers what is queued and ends with
//! [`TunError::Fatal`], the writer ends. A test thus sees the same life as with a real device, unplugging included.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};

use crate::device::{
    BATCH_PACKETS_MAX, DropCounts, PACKET_BYTES_MAX, PacketIn, ReadOutcome, TunReader, TunWriter,
    WriteReport,
};
use crate::error::TunError;
use crate::stop::StopHandle;

/// Makes a channel device whose queues hold `capacity` packets each way, at least one.
#[must_use]
pub fn pair(capacity: usize) -> (ChannelTun, ChannelHandle) {
    let (inject, from_handle) = bounded(capacity.max(1));
    let (to_handle, take) = bounded(capacity.max(1));
    let (stop, stopped) = StopHandle::with_channel();
    let reader = ChannelReader {
        packets: from_handle,
        stopped,
        stop: stop.clone(),
    };
    let writer = ChannelWriter { packets: to_handle };
    (
        ChannelTun {
            reader,
            writer,
            stop,
        },
        ChannelHandle { inject, take },
    )
}

/// A channel device before it is split.
#[derive(Debug)]
pub struct ChannelTun {
    reader: ChannelReader,
    writer: ChannelWriter,
    stop: StopHandle,
}

impl ChannelTun {
    /// The halves, and what ends a blocked read.
    #[must_use]
    pub fn split(self) -> (ChannelReader, ChannelWriter, StopHandle) {
        (self.reader, self.writer, self.stop)
    }
}

/// Reads what the handle injects.
#[derive(Debug)]
pub struct ChannelReader {
    packets: Receiver<PacketIn>,
    stopped: Receiver<()>,
    stop: StopHandle,
}

impl TunReader for ChannelReader {
    fn read_batch(&mut self, batch: &mut Vec<PacketIn>) -> Result<ReadOutcome, TunError> {
        if self.stop.is_stopped() {
            return Ok(ReadOutcome::Stopped);
        }
        select! {
            recv(self.stopped) -> _ => return Ok(ReadOutcome::Stopped),
            recv(self.packets) -> packet => batch.push(packet.map_err(|_| gone())?),
        }
        batch.extend(self.packets.try_iter().take(BATCH_PACKETS_MAX - 1));
        Ok(ReadOutcome::Packets)
    }
}

/// Writes what the handle takes.
#[derive(Debug)]
pub struct ChannelWriter {
    packets: Sender<Bytes>,
}

impl TunWriter for ChannelWriter {
    fn write_batch(&mut self, packets: &[Bytes]) -> Result<WriteReport, TunError> {
        let mut written = 0;
        let mut dropped = DropCounts::default();
        for (index, packet) in packets.iter().enumerate() {
            if !is_packet(packet) {
                dropped.invalid += 1;
                continue;
            }
            match self.packets.try_send(packet.clone()) {
                Ok(()) => written += 1,
                Err(TrySendError::Full(_)) => dropped.queue_full += 1,
                Err(TrySendError::Disconnected(_)) if written == 0 => return Err(gone()),
                Err(TrySendError::Disconnected(_)) => {
                    dropped.gone = packets.len() - index;
                    break;
                }
            }
        }
        Ok(WriteReport { written, dropped })
    }
}

/// The other side of a channel device. Clones share the queues; the device is gone when the last clone is.
#[derive(Debug, Clone)]
pub struct ChannelHandle {
    inject: Sender<PacketIn>,
    take: Receiver<Bytes>,
}

/// Why a packet was not injected; it is given back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectError {
    /// The queue is full.
    Full(PacketIn),
    /// The reader was dropped.
    Closed(PacketIn),
    /// It is no packet: empty, over [`PACKET_BYTES_MAX`], or neither IPv4 nor IPv6.
    Invalid(PacketIn),
}

impl ChannelHandle {
    /// Queues a packet for the reader, without waiting.
    ///
    /// # Errors
    ///
    /// [`InjectError`], with the packet.
    pub fn inject(&self, packet: PacketIn) -> Result<(), InjectError> {
        if !is_packet(&packet) {
            return Err(InjectError::Invalid(packet));
        }
        self.inject.try_send(packet).map_err(|error| match error {
            TrySendError::Full(packet) => InjectError::Full(packet),
            TrySendError::Disconnected(packet) => InjectError::Closed(packet),
        })
    }

    /// Queues a copy of a packet, as [`inject`](Self::inject) does.
    ///
    /// # Errors
    ///
    /// [`InjectError`], with the copy.
    pub fn inject_copy(&self, packet: &[u8]) -> Result<(), InjectError> {
        self.inject(BytesMut::from(packet))
    }

    /// The next packet that was written, without waiting; `None` when there is none, or none will come.
    #[must_use]
    pub fn take(&self) -> Option<Bytes> {
        self.take.try_recv().ok()
    }

    /// The next packet that was written, waiting at most `limit` for it.
    #[must_use]
    pub fn take_within(&self, limit: Duration) -> Option<Bytes> {
        self.take.recv_timeout(limit).ok()
    }

    /// Packets that wait for the reader.
    #[must_use]
    pub fn injected_waiting(&self) -> usize {
        self.inject.len()
    }

    /// Packets that wait to be taken.
    #[must_use]
    pub fn written_waiting(&self) -> usize {
        self.take.len()
    }
}

/// What the kernel's device would take (`tun_get_user` looks at the version alone).
fn is_packet(packet: &[u8]) -> bool {
    packet.len() <= PACKET_BYTES_MAX
        && packet
            .first()
            .is_some_and(|first| matches!(first >> 4, 4 | 6))
}

fn gone() -> TunError {
    TunError::Fatal {
        source: io::Error::from(io::ErrorKind::UnexpectedEof),
        words: "the other end of the channel was dropped",
    }
}

#[cfg(test)]
mod tests;
