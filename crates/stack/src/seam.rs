//! What the engine sees: a device that takes batches of packets and gives batches of packets.
//!
//! ```text
//! engine ─ PacketSink ──> [bounded channel of batches] ──> Inlet       (packets from the tunnel)
//! engine <─ PacketSource ─ [bounded channel of batches] <── Outbox      (packets into the tunnel)
//! ```
//!
//! The engine's halves block their caller's thread and never the stack's; their shapes and their promises are those of a
//! TUN's halves, so that the pump of an engine drives either. This crate does not know the TUN's traits (DESIGN §1): whoever
//! joins the two wraps each half in five lines, and hands the stop channel of its own handle to [`pair`].
//!
//! A full channel is back-pressure. Inwards the sink waits for [`PATIENCE`], as a write to a TUN may, and then drops the
//! batch, counted by its caller; towards the engine the flows stop sending, then stop reading from the world. Empty
//! batches travel back, so that at a steady rate none is allocated.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crossbeam_channel::{Receiver, SendTimeoutError, Sender, TryRecvError, bounded, select};
use tokio::sync::Notify;

use crate::ledger::Ledger;

/// The most packets in a batch, as the TUN's devices have it.
pub const BATCH_PACKETS_MAX: usize = 64;
/// Batches in each channel: 0.6 ms at 10 Gbit/s, as between a TUN's threads and the engine.
const BATCHES_MAX: usize = 8;
/// How long a batch may wait for room, as a write to a TUN may.
const PATIENCE: Duration = Duration::from_millis(20);

/// The stack has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the userspace network stack has ended")]
pub struct Gone;

/// Why a read came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// At least one packet was appended.
    Packets,
    /// The stop signal was given; no packet was appended. Every later read says the same.
    Stopped,
}

/// What became of a batch: the sum is what was offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use = "the dropped packets are to be counted"]
pub struct SinkReport {
    /// Packets that the stack took.
    pub taken: usize,
    /// Packets for which its queue had no room in time.
    pub queue_full: usize,
}

/// Takes packets from the engine.
#[derive(Debug)]
pub struct PacketSink {
    batches: Sender<Vec<Bytes>>,
    spare: Receiver<Vec<Bytes>>,
    waker: Waker,
    ledger: Arc<dyn Ledger>,
}

/// Wakes the stack; also when it is dropped, so that a channel that closes is seen.
#[derive(Debug)]
struct Waker(Arc<Notify>);

impl Drop for Waker {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl PacketSink {
    /// Hands packets over, in order. Waits up to 20 ms for room.
    ///
    /// # Errors
    /// [`Gone`]: the stack has ended, and took none of this batch.
    pub fn send_batch(&mut self, packets: &[Bytes]) -> Result<SinkReport, Gone> {
        let mut report = SinkReport::default();
        for chunk in packets.chunks(BATCH_PACKETS_MAX) {
            let mut batch = self.spare.try_recv().unwrap_or_default();
            batch.extend_from_slice(chunk);
            match self.batches.send_timeout(batch, PATIENCE) {
                Ok(()) => {
                    report.taken += chunk.len();
                    self.ledger.offered(chunk.len());
                    self.waker.0.notify_one();
                }
                Err(SendTimeoutError::Timeout(_)) => report.queue_full += chunk.len(),
                Err(SendTimeoutError::Disconnected(_)) if report == SinkReport::default() => {
                    return Err(Gone);
                }
                Err(SendTimeoutError::Disconnected(_)) => report.queue_full += chunk.len(),
            }
        }
        Ok(report)
    }
}

/// Gives packets to the engine.
#[derive(Debug)]
pub struct PacketSource {
    batches: Receiver<Vec<BytesMut>>,
    spare: Sender<Vec<BytesMut>>,
    room: Waker,
    stopped: Receiver<()>,
    is_stopped: bool,
}

impl PacketSource {
    /// Blocks until at least one packet is there, the stop signal is given, or the stack has ended. Appends 1 to
    /// [`BATCH_PACKETS_MAX`] packets, each owned alone; what the batch holds already stays.
    ///
    /// # Errors
    /// [`Gone`]: no further packet will come.
    pub fn read_batch(&mut self, batch: &mut Vec<BytesMut>) -> Result<Taken, Gone> {
        if self.is_stopped {
            return Ok(Taken::Stopped);
        }
        select! {
            recv(self.stopped) -> _ => {
                self.is_stopped = true;
                Ok(Taken::Stopped)
            }
            recv(self.batches) -> packets => {
                let Ok(mut packets) = packets else {
                    // An egress that ends because it was stopped is no loss.
                    self.is_stopped = self.stopped.try_recv() != Err(TryRecvError::Empty);
                    return if self.is_stopped { Ok(Taken::Stopped) } else { Err(Gone) };
                };
                self.room.0.notify_one();
                batch.append(&mut packets);
                // The way back is as long as the way there; a batch that finds no room is freed.
                let _ = self.spare.try_send(packets);
                Ok(Taken::Packets)
            }
        }
    }
}

/// The stack's end of [`PacketSink`].
#[derive(Debug)]
pub struct Inlet {
    batches: Receiver<Vec<Bytes>>,
    spare: Sender<Vec<Bytes>>,
    wake: Arc<Notify>,
}

impl Inlet {
    /// The next batch; `None` when none will come. Cancelling it loses nothing.
    pub async fn receive(&self) -> Option<Vec<Bytes>> {
        loop {
            match self.batches.try_recv() {
                Ok(batch) => return Some(batch),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => self.wake.notified().await,
            }
        }
    }

    /// Gives an emptied batch back.
    pub fn recycle(&self, batch: Vec<Bytes>) {
        let _ = self.spare.try_send(batch);
    }
}

/// The stack's end of [`PacketSource`], for an [`Outbox`](crate::Outbox).
#[derive(Debug)]
pub struct Outlet {
    pub(crate) batches: Sender<Vec<BytesMut>>,
    pub(crate) spare: Receiver<Vec<BytesMut>>,
    /// Told when a batch was taken.
    pub(crate) room: Arc<Notify>,
}

/// Both channels: the engine's halves, and the stack's. `stopped` ends a blocked read for good, by a message or by being closed.
pub fn pair(
    ledger: &Arc<dyn Ledger>,
    stopped: Receiver<()>,
) -> (PacketSink, Inlet, PacketSource, Outlet) {
    let (in_tx, in_rx) = bounded(BATCHES_MAX);
    let (in_spare_tx, in_spare_rx) = bounded(BATCHES_MAX + 1);
    let (out_tx, out_rx) = bounded(BATCHES_MAX);
    let (out_spare_tx, out_spare_rx) = bounded(BATCHES_MAX + 1);
    let (wake, room) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let sink = PacketSink {
        batches: in_tx,
        spare: in_spare_rx,
        waker: Waker(Arc::clone(&wake)),
        ledger: Arc::clone(ledger),
    };
    let inlet = Inlet {
        batches: in_rx,
        spare: in_spare_tx,
        wake,
    };
    let source = PacketSource {
        batches: out_rx,
        spare: out_spare_tx,
        room: Waker(Arc::clone(&room)),
        stopped,
        is_stopped: false,
    };
    let outlet = Outlet {
        batches: out_tx,
        spare: out_spare_rx,
        room,
    };
    (sink, inlet, source, outlet)
}
