//! Packets on their way into the tunnel, gathered to batches.
//!
//! Whoever has a packet writes it straight into a slab; a batch goes when it is full, and else when every task that was
//! ready has run: the flusher is woken by the first packet and stands behind them in the queue. So a lone packet waits
//! for microseconds, and a busy stack pays one hand-over for 64.
//!
//! Two bounds. [`has_room`](Outbox::has_room) is asked by whoever can wait: a flow that has more to send, an association
//! that could read another datagram. They wait for [`space`](Outbox::space), the world behind them waits for them, and
//! nothing is dropped. What cannot wait (the answer to a packet that came in) may go beyond that, by
//! [`RESERVE_PACKETS`]; then it is dropped, and the caller counts it. A TCP makes up for an answer that is lost.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::BytesMut;
use crossbeam_channel::TrySendError;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::ledger::Ledger;
use crate::seam::{BATCH_PACKETS_MAX, Outlet};

/// What packets are cut from: a batch of 64 packets of 1,280 bytes, and again. A packet that is kept pins as much.
const SLAB_BYTES: usize = 160 * 1024;
/// Packets that may be written beyond what the channel takes: the answers to four batches from the engine.
const RESERVE_PACKETS: usize = 4 * BATCH_PACKETS_MAX;

/// The way into the tunnel, shared by all tasks of a stack.
#[derive(Debug)]
pub struct Outbox {
    gathered: RefCell<Gathered>,
    outlet: Outlet,
    dirty: Notify,
    space: Notify,
    ledger: Arc<dyn Ledger>,
}

#[derive(Debug)]
struct Gathered {
    slab: BytesMut,
    batch: Vec<BytesMut>,
}

impl Outbox {
    /// An empty one. Its owner runs [`flush_for_ever`](Self::flush_for_ever) in a task of its own.
    #[must_use]
    pub fn new(outlet: Outlet, ledger: Arc<dyn Ledger>) -> Self {
        Self {
            gathered: RefCell::new(Gathered {
                slab: BytesMut::with_capacity(SLAB_BYTES),
                batch: Vec::with_capacity(BATCH_PACKETS_MAX),
            }),
            outlet,
            dirty: Notify::new(),
            space: Notify::new(),
            ledger,
        }
    }

    /// How its owner counts.
    #[must_use]
    pub fn ledger(&self) -> &dyn Ledger {
        self.ledger.as_ref()
    }

    /// Whether another packet may be written by who can wait.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.gathered.borrow().batch.len() < BATCH_PACKETS_MAX || !self.outlet.batches.is_full()
    }

    /// Told when there may be room again.
    pub fn space(&self) -> Notified<'_> {
        self.space.notified()
    }

    /// A place for one packet; `None` when even the reserve is used up.
    #[must_use]
    pub fn place(&self) -> Option<Place<'_>> {
        (self.gathered.borrow().batch.len() < RESERVE_PACKETS).then_some(Place(self))
    }

    fn write<R>(&self, len: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut gathered = self.gathered.borrow_mut();
        if gathered.slab.capacity() < len {
            // Reclaims the whole slab when its packets are gone, allocates another when not.
            gathered.slab.reserve(SLAB_BYTES.max(len));
        }
        gathered.slab.resize(len, 0);
        let result = write(&mut gathered.slab);
        let packet = gathered.slab.split_to(len);
        gathered.batch.push(packet);
        let waiting = gathered.batch.len();
        drop(gathered);
        self.ledger.packet_out();
        if waiting == 1 {
            self.dirty.notify_one();
        } else if waiting.is_multiple_of(BATCH_PACKETS_MAX) {
            self.flush();
        }
        result
    }

    /// Writes a copy of a whole packet; whether there was room.
    #[must_use]
    pub fn push(&self, packet: &[u8]) -> bool {
        let Some(place) = self.place() else {
            return false;
        };
        place.write(packet.len(), |buffer| buffer.copy_from_slice(packet));
        true
    }

    /// Hands over what is gathered, as far as the channel has room; whether all of it went.
    fn flush(&self) -> bool {
        let mut gathered = self.gathered.borrow_mut();
        while !gathered.batch.is_empty() {
            if self.outlet.batches.is_full() {
                return false;
            }
            let mut next = self.outlet.spare.try_recv().unwrap_or_default();
            let keep = gathered.batch.len().min(BATCH_PACKETS_MAX);
            next.extend(gathered.batch.drain(keep..));
            let full = std::mem::replace(&mut gathered.batch, next);
            match self.outlet.batches.try_send(full) {
                Ok(()) => {}
                // Full it cannot be, as nobody else sends: nobody reads any more.
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    gathered.batch.clear();
                }
            }
        }
        true
    }

    /// Flushes for as long as the stack lives.
    pub async fn flush_for_ever(&self) {
        loop {
            self.dirty.notified().await;
            while !self.flush() {
                self.outlet.room.notified().await;
                self.space.notify_waiters();
            }
            self.space.notify_waiters();
        }
    }
}

/// Room for a packet, to be used at once.
#[derive(Debug)]
pub struct Place<'a>(&'a Outbox);

impl Place<'_> {
    /// Writes the packet, of `len` bytes.
    pub fn write<R>(self, len: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
        self.0.write(len, write)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::ledger::testing::Counts;
    use crate::seam;

    fn outbox() -> (Outbox, seam::PacketSource) {
        let ledger: Arc<dyn Ledger> = Arc::new(Counts::default());
        let (_sink, _inlet, source, outlet) = seam::pair(&ledger, crossbeam_channel::never());
        (Outbox::new(outlet, ledger), source)
    }

    #[test]
    fn room_ends_with_the_channel_and_the_reserve_a_while_later() {
        let (outbox, mut source) = outbox();
        let mut written = 0;
        while outbox.has_room() {
            assert!(outbox.push(&[0x45; 1_280]));
            written += 1;
        }
        assert_eq!(written, 8 * 64 + 64);
        let reserve = (0..1_000).filter(|_| outbox.push(&[0x45; 40])).count();
        assert_eq!(reserve, RESERVE_PACKETS - 64);

        let mut batch = Vec::new();
        source.read_batch(&mut batch).unwrap();
        assert_eq!(batch.len(), 64);
        assert!(!outbox.flush());
        let mut rest = 0;
        while rest < written + reserve - 64 {
            batch.clear();
            source.read_batch(&mut batch).unwrap();
            assert!((1..=64).contains(&batch.len()));
            rest += batch.len();
            outbox.flush();
        }
        assert!(outbox.has_room() && outbox.flush());
    }

    #[test]
    fn nobody_who_reads_is_no_dead_end() {
        let (outbox, source) = outbox();
        drop(source);
        for _ in 0..10_000 {
            assert!(outbox.push(&[0x45; 1_280]));
        }
    }
}
