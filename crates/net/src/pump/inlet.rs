//! Packets from the TUN, over the reader's thread or read by the engine itself.
//!
//! A packet that comes alone would wait for two wake-ups, of the thread and of the engine, at both ends, both ways. So a
//! device that is quiet is read by the engine ([`quell_tun::PromptReader`]): it is told by the same poll that tells it of
//! datagrams. A load is read by the thread, so that another core bears it: the turn is the thread's as soon as one read
//! gave more than [`PROMPT_PACKETS_MAX`], and stays its own until nothing comes for [`quell_tun::QUIET_AFTER`].
//!
//! The thread says that it has done with its turn by an empty batch, which comes after all that it read: packets keep their
//! order. The engine gives its turn back with whatever it read in hand, so that what the thread reads comes later, too.
//!
//! A batch may hold more than there is room for. What does not fit is put back and comes first again.
//!
//! In the thread's turn the engine's poll does not know the device: each packet would wake it once more.

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::BytesMut;
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use quell_tun::{PromptOutcome, PromptReader, ReadOutcome, TunError, TunReader};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::{BATCHES_MAX, PROMPT_PACKETS_MAX};
use crate::readable;

/// The engine's end of the reader.
pub(crate) struct Inlet {
    batches: Receiver<Vec<BytesMut>>,
    spare: Sender<Vec<BytesMut>>,
    wake: Arc<Notify>,
    prompt: Option<Prompt>,
    /// An emptied batch that the engine may read into.
    emptied: Vec<BytesMut>,
    /// What was put back: it comes before all else.
    rest: Vec<BytesMut>,
}

/// The reader's thread's end.
pub(super) struct Reading {
    batches: Sender<Vec<BytesMut>>,
    spare: Receiver<Vec<BytesMut>>,
    wake: Arc<Notify>,
}

/// The engine's own reader.
struct Prompt {
    reader: Box<dyn PromptReader>,
    /// What the poll is asked about; `None`: it is the thread's turn.
    watched: Option<AsyncFd<OwnedFd>>,
}

/// Both ends, with the engine's own reader where the device has one.
pub(super) fn pair(prompt: Option<Box<dyn PromptReader>>) -> (Inlet, Reading) {
    let (batches, received) = bounded(BATCHES_MAX);
    let (spare, spares) = bounded(BATCHES_MAX + 1);
    let wake = Arc::new(Notify::new());
    let inlet = Inlet {
        batches: received,
        spare,
        wake: Arc::clone(&wake),
        prompt: prompt.map(|reader| Prompt {
            reader,
            watched: None,
        }),
        emptied: Vec::new(),
        rest: Vec::new(),
    };
    let reading = Reading {
        batches,
        spare: spares,
        wake,
    };
    (inlet, reading)
}

impl Reading {
    pub(super) fn read_all(self, mut reader: Box<dyn TunReader>) -> Result<(), TunError> {
        let result = self.read_until_end(&mut *reader);
        let Self { batches, wake, .. } = self;
        // The channel must be seen closed by whoever this wakes.
        drop(batches);
        wake.notify_one();
        result
    }

    fn read_until_end(&self, reader: &mut dyn TunReader) -> Result<(), TunError> {
        loop {
            let mut batch = self.spare.try_recv().unwrap_or_default();
            match reader.read_batch(&mut batch)? {
                ReadOutcome::Stopped => return Ok(()),
                // An empty batch says that of `Quiet`.
                ReadOutcome::Packets | ReadOutcome::Quiet => {
                    if self.batches.send(batch).is_err() {
                        return Ok(());
                    }
                    self.wake.notify_one();
                }
            }
        }
    }
}

impl Inlet {
    /// The next batch; `None` when the device can give no more. Cancelling it
    /// loses nothing.
    pub(crate) async fn receive(&mut self) -> Option<Vec<BytesMut>> {
        if !self.rest.is_empty() {
            return Some(mem::take(&mut self.rest));
        }
        loop {
            match self.batches.try_recv() {
                Ok(batch) if batch.is_empty() => {
                    self.recycle(batch);
                    self.prompt = self.prompt.take().and_then(Prompt::begin);
                }
                Ok(batch) => return Some(batch),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {
                    let batch = self.wait().await;
                    if batch.is_some() {
                        return batch;
                    }
                }
            }
        }
    }

    /// Waits for a word of the thread, or for what the engine reads itself.
    async fn wait(&mut self) -> Option<Vec<BytesMut>> {
        match &mut self.prompt {
            Some(prompt) if prompt.watched.is_some() => {
                tokio::select! {
                    () = self.wake.notified() => None,
                    () = prompt.read(&mut self.emptied) => {
                        let batch = std::mem::take(&mut self.emptied);
                        (!batch.is_empty()).then_some(batch)
                    }
                }
            }
            Some(_) | None => {
                self.wake.notified().await;
                None
            }
        }
    }

    /// Whether it is the engine's turn.
    #[cfg(test)]
    pub(super) fn is_reading(&self) -> bool {
        let prompt = self.prompt.as_ref();
        prompt.is_some_and(|prompt| prompt.watched.is_some())
    }

    /// Keeps what found no room: the next that is received. The device waits meanwhile, and nothing is dropped for coming in
    /// one batch.
    pub(crate) fn put_back(&mut self, packets: &mut impl Iterator<Item = BytesMut>) {
        let mut rest = mem::take(&mut self.emptied);
        rest.extend(packets);
        self.rest = rest;
    }

    /// Gives an emptied batch back.
    pub(crate) fn recycle(&mut self, mut batch: Vec<BytesMut>) {
        batch.clear();
        if self.emptied.capacity() == 0 {
            self.emptied = batch;
            return;
        }
        let _ = self.spare.try_send(batch);
    }
}

impl Prompt {
    /// Begins the engine's turn. `None`: the device cannot be polled, and the thread reads it for good.
    fn begin(mut self) -> Option<Self> {
        let file = self.reader.file().try_clone_to_owned().ok()?;
        self.watched = Some(readable::watch(file).ok()?);
        Some(self)
    }

    /// Waits until the device has something, and reads it. Without packets it is over when the turn is.
    async fn read(&mut self, batch: &mut Vec<BytesMut>) {
        let Some(watched) = &self.watched else {
            return;
        };
        let is_over = loop {
            let Ok(mut ready) = readable::news(watched).await else {
                break true;
            };
            match self.reader.read_now(batch) {
                PromptOutcome::Packets => {
                    // A batch that is not full ended because there was no more.
                    if batch.len() < quell_tun::BATCH_PACKETS_MAX {
                        ready.clear_ready();
                    }
                    break batch.len() > PROMPT_PACKETS_MAX;
                }
                PromptOutcome::Nothing => ready.clear_ready(),
                PromptOutcome::Trouble => break true,
            }
        };
        if is_over {
            self.watched = None;
            self.reader.give_back();
        }
    }
}
