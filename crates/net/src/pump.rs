//! The threads between the TUN and the engine.
//!
//! ```text
//! TUN → reader thread → [bounded channel of batches] → Inlet::receive (engine): see `inlet`
//! TUN ← writer thread ← [bounded channel of batches] ← Outlet::send   (engine)
//! ```
//!
//! Inwards, a full channel stops the reader, and the TUN's own queue in the
//! kernel fills: back-pressure without a drop of ours. Outwards the engine never
//! waits: what the writer's channel does not take at the moment stays with the
//! engine's end, gathers to full batches there, and goes as soon as the writer has
//! taken one; beyond that bound it is dropped and counted. Empty batches travel
//! back, so that at steady state no batch is allocated.
//!
//! Few packets at a time do not take that way: the engine reads them itself, and while the writer's thread has nothing to
//! do, writes them itself, too ([`TunWriter::prompt`]). To wake a thread takes some 30 µs, and a packet would wait for it at both ends, both ways. The
//! engine is the only one who gives the thread work, so a thread that has done with all it was given rests until the
//! engine gives it more: packets keep their order.
//!
//! The writer parks while it has nothing to do. A blocking receive would spin
//! before it sleeps, which at some thousand packets a second is most of what the
//! thread does.

mod inlet;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};
use quell_core::drops::{DropReason, Drops};
use quell_tun::{StopHandle, TunError, TunReader, TunWriter, WriteReport};
use serde::Serialize;
use tokio::sync::Notify;

pub(crate) use inlet::Inlet;

use crate::error::NetError;
use crate::slice;

/// Batches between a TUN thread and the engine. 8 batches of 64 packets are 0.6 ms
/// at 10 Gbit/s: enough to cover a turn of the engine, too little to be a queue
/// that anyone notices.
const BATCHES_MAX: usize = 8;

/// Packets that wait at the engine's end of the writer: four times what the channel
/// holds in full batches. On a machine with more to do than cores the writer waits
/// for its turn for a millisecond or two, and what came meanwhile at 5 Gbit/s is
/// this much: with a quarter of it a TCP lost three times as many packets here and
/// was a tenth slower.
const WAITING_PACKETS_MAX: usize = 4 * BATCHES_MAX * quell_tun::BATCH_PACKETS_MAX;

/// Packets that the engine writes itself. 8: some 10 µs, less than what it takes to wake the writer's thread; more at a time
/// are a load that another core can bear.
const PROMPT_PACKETS_MAX: usize = 8;

/// What became of packets handed to the device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeviceCounters {
    /// Packets that the device took.
    pub written: u64,
    /// Packets on their way to the device.
    pub in_flight: u64,
    /// Packets that it did not take, by reason.
    pub drops: Drops,
}

#[derive(Debug, Default)]
struct Books {
    offered: AtomicU64,
    written: AtomicU64,
    full: AtomicU64,
    refused: AtomicU64,
}

impl Books {
    fn report(&self, report: &WriteReport) {
        let add = |counter: &AtomicU64, n: usize| counter.fetch_add(n as u64, Ordering::Relaxed);
        add(&self.written, report.written);
        add(&self.full, report.dropped.queue_full);
        add(
            &self.refused,
            report.dropped.total() - report.dropped.queue_full,
        );
    }

    fn counters(&self) -> DeviceCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (written, full, refused) = (read(&self.written), read(&self.full), read(&self.refused));
        let mut drops = Drops::default();
        drops.add(DropReason::DeviceFull, full);
        drops.add(DropReason::DeviceRefused, refused);
        let offered = read(&self.offered);
        DeviceCounters {
            written,
            in_flight: offered.saturating_sub(written + full + refused),
            drops,
        }
    }
}

/// Both threads, and the way to end them.
pub(crate) struct Pump {
    stop: StopHandle,
    reader: JoinHandle<Result<(), TunError>>,
    writer: JoinHandle<Result<(), TunError>>,
    books: Arc<Books>,
}

/// The engine's end of the writer.
pub(crate) struct Outlet {
    batches: Option<Sender<Vec<Bytes>>>,
    spare: Receiver<Vec<Bytes>>,
    waiting: VecDeque<Bytes>,
    writer: Thread,
    /// The engine's own writer, where the device has one.
    prompt: Option<Box<dyn TunWriter>>,
    /// Batches that the writer's thread was given.
    given: u64,
    /// Of these, how many it has done with.
    done: Arc<AtomicU64>,
    /// Told whenever the writer has taken a batch.
    room: Arc<Notify>,
    books: Arc<Books>,
}

/// Starts the threads of a device.
pub(crate) fn start(
    mut reader: Box<dyn TunReader>,
    mut writer: Box<dyn TunWriter>,
    stop: StopHandle,
) -> Result<(Pump, Inlet, Outlet), NetError> {
    let (inlet, reading) = inlet::pair(reader.prompt());
    let prompt = writer.prompt();
    let done = Arc::new(AtomicU64::new(0));
    let (out_tx, out_rx) = bounded(BATCHES_MAX);
    let (out_spare_tx, out_spare_rx) = bounded(BATCHES_MAX + 1);
    let books = Arc::new(Books::default());
    let reader = spawn("quell-tun-read", move || reading.read_all(reader))?;
    let writer_books = Arc::clone(&books);
    let room = Arc::new(Notify::new());
    let writing = Writing {
        batches: out_rx,
        spare: out_spare_tx,
        books: writer_books,
        room: Arc::clone(&room),
        done: Arc::clone(&done),
    };
    let writer = spawn("quell-tun-write", move || writing.write_all(writer))?;
    let outlet = Outlet {
        batches: Some(out_tx),
        spare: out_spare_rx,
        waiting: VecDeque::new(),
        writer: writer.thread().clone(),
        prompt,
        given: 0,
        done,
        room,
        books: Arc::clone(&books),
    };
    let pump = Pump {
        stop,
        reader,
        writer,
        books,
    };
    Ok((pump, inlet, outlet))
}

fn spawn<T: Send + 'static>(
    name: &'static str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NetError> {
    let body = move || {
        slice::shorten();
        body()
    };
    let spawned: io::Result<_> = thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.map_err(|source| NetError::Thread { name, source })
}

/// The writer's end of what it shares with the engine.
struct Writing {
    batches: Receiver<Vec<Bytes>>,
    spare: Sender<Vec<Bytes>>,
    books: Arc<Books>,
    room: Arc<Notify>,
    done: Arc<AtomicU64>,
}

impl Writing {
    fn write_all(self, mut writer: Box<dyn TunWriter>) -> Result<(), TunError> {
        loop {
            let mut batch = match self.batches.try_recv() {
                Ok(batch) => batch,
                // Whoever sends, or lets go of the channel, unparks: nothing is missed.
                Err(TryRecvError::Empty) => {
                    thread::park();
                    continue;
                }
                Err(TryRecvError::Disconnected) => return Ok(()),
            };
            self.room.notify_one();
            match writer.write_batch(&batch) {
                Ok(report) => self.books.report(&report),
                Err(error) => {
                    let lost = batch.len() as u64;
                    self.books.refused.fetch_add(lost, Ordering::Relaxed);
                    return Err(error);
                }
            }
            // The device has them before whoever sees this writes.
            self.done.fetch_add(1, Ordering::Release);
            batch.clear();
            // The way back is as long as the way there; a batch that finds no room is freed.
            let _ = self.spare.try_send(batch);
        }
    }
}

impl Outlet {
    /// Adds a packet to what waits. Beyond the bound it is dropped: it came last.
    pub(crate) fn push(&mut self, packet: Bytes) {
        self.books.offered.fetch_add(1, Ordering::Relaxed);
        if self.waiting.len() >= WAITING_PACKETS_MAX {
            self.books.full.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.waiting.push_back(packet);
        if self
            .waiting
            .len()
            .is_multiple_of(quell_tun::BATCH_PACKETS_MAX)
        {
            self.flush();
        }
    }

    /// Hands what waits to the writer, as far as it has room; few packets go at once.
    pub(crate) fn flush(&mut self) {
        self.write_promptly();
        while !self.waiting.is_empty() {
            let Some(batches) = &self.batches else {
                return self.refuse();
            };
            if batches.is_full() {
                return;
            }
            let mut batch = self.spare.try_recv().unwrap_or_default();
            let packets = self.waiting.len().min(quell_tun::BATCH_PACKETS_MAX);
            batch.extend(self.waiting.drain(..packets));
            match batches.try_send(batch) {
                Ok(()) => {
                    self.given += 1;
                    self.writer.unpark();
                }
                Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                    // Full it cannot be, as nobody else sends: the writer has ended.
                    let lost = batch.len() as u64;
                    self.books.refused.fetch_add(lost, Ordering::Relaxed);
                    return self.refuse();
                }
            }
        }
    }

    /// Writes what waits itself, when it is little and the writer's thread rests.
    fn write_promptly(&mut self) {
        let is_little = (1..=PROMPT_PACKETS_MAX).contains(&self.waiting.len());
        if !is_little || self.done.load(Ordering::Acquire) != self.given {
            return;
        }
        let Some(prompt) = &mut self.prompt else {
            return;
        };
        match prompt.write_batch(self.waiting.make_contiguous()) {
            Ok(report) => {
                self.books.report(&report);
                self.waiting.clear();
            }
            // The thread finds that out, too, and ends with the reason.
            Err(_) => self.prompt = None,
        }
    }

    fn refuse(&mut self) {
        let lost = self.waiting.drain(..).count() as u64;
        self.books.refused.fetch_add(lost, Ordering::Relaxed);
    }

    /// Packets that it takes and need not keep: room for them is in the writer's channel. Any number when that has
    /// ended, so that they are counted here.
    pub(crate) fn free(&self) -> usize {
        let Some(batches) = &self.batches else {
            return usize::MAX;
        };
        let free = BATCHES_MAX.saturating_sub(batches.len()) * quell_tun::BATCH_PACKETS_MAX;
        free.saturating_sub(self.waiting.len())
    }

    /// Whether packets wait for room in the writer's channel.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Told when there may be room again.
    pub(crate) fn room(&self) -> Arc<Notify> {
        Arc::clone(&self.room)
    }

    /// Lets the writer's thread end; what is pushed after this is dropped.
    pub(crate) fn close(&mut self) {
        self.flush();
        self.refuse();
        self.batches = None;
        self.writer.unpark();
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.close();
    }
}

impl Pump {
    pub(crate) fn counters(&self) -> DeviceCounters {
        self.books.counters()
    }

    /// Lets the reader's thread end. To be called before the outlet is closed: a device
    /// whose writing half is gone may take that for its end, and the reader for a failure.
    pub(crate) fn stop_reading(&self) {
        self.stop.stop();
    }

    /// Stops both threads and waits for them. The inlet and the outlet must be
    /// gone by now: their ends of the channels are what the threads wait for.
    ///
    /// # Errors
    /// Why a thread had ended before it was told to.
    pub(crate) fn stop(self) -> Result<(), TunError> {
        self.stop.stop();
        let reader = self.reader.join().unwrap_or(Ok(()));
        let writer = self.writer.join().unwrap_or(Ok(()));
        reader.and(writer)
    }
}

#[cfg(test)]
mod tests;
