//! The reading loop: drain the device into a batch, wait when it is empty, bear what passes, end on what does not.
//!
//! ```text
//!            ┌────────────── packet ──────────────┐
//!            v                                    │
//!  read_batch ── stopped? ── read ── nothing yet ─┼── batch full, slab full or device empty ──> Packets
//!                              │                  │
//!                              ├─ EAGAIN ─> wait for readable ──> read again
//!                              ├─ EINTR, EIO, unknown ─> Patience: again | pause | give up
//!                              └─ fatal ─> remembered; what was read goes first ──> Fatal, for good
//! ```
//!
//! What the device took from the kernel and dropped (a super-packet that makes no sense, case B53) is progress without a
//! packet: the loop goes on, and blocks as soon as the kernel has nothing more.
//!
//! Invariants: a call returns at least one packet, or `Stopped`, or an error. Every turn of the loop that reads nothing
//! either took a packet from the kernel, blocks in `wait` or is counted by `Patience`, so the loop cannot spin (case B81). The stop flag is looked at
//! once a call: under load a stop takes effect after one batch at most.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use crate::classify::{Class, Direction, Trouble, classify};
#[cfg(target_os = "linux")]
use crate::device::PromptOutcome;
use crate::device::{BATCH_PACKETS_MAX, ReadOutcome, TunReader};
use crate::error::TunError;
use crate::log_gate::LogGate;
use crate::patience::{Patience, Verdict};
use crate::raw::{Interest, RawDevice, Wakeup, fatal};
use crate::slab::SlabPool;
use crate::stop::StopHandle;

/// Reads batches from a raw device.
#[derive(Debug)]
pub(crate) struct Reader<D> {
    device: D,
    stop: StopHandle,
    slabs: SlabPool,
    patience: Patience,
    log: LogGate,
    failed: Option<(i32, &'static str)>,
}

/// What to do after a turn without a packet.
enum Next {
    Go,
    Stopped,
    Quiet,
    Failed(TunError),
}

impl<D: RawDevice> Reader<D> {
    pub(crate) fn new(device: D, stop: StopHandle) -> Self {
        Self {
            device,
            stop,
            slabs: SlabPool::new(),
            patience: Patience::default(),
            log: LogGate::default(),
            failed: None,
        }
    }

    /// Reads until the batch is full or the device says no. Returns the number of packets and the errno that ended it. What
    /// the device dropped takes a place in the batch, so that a row of such packets ends, too.
    fn fill(&mut self, batch: &mut Vec<BytesMut>) -> (usize, Option<i32>) {
        let (mut lens, mut count, mut errno) = ([0; BATCH_PACKETS_MAX], 0, None);
        self.slabs.start_batch();
        for _ in 0..BATCH_PACKETS_MAX {
            if count > 0 && !self.slabs.has_room() {
                break;
            }
            match self.device.read(self.slabs.buffer()) {
                Ok(0) => self.patience.progress(),
                Ok(bytes) => {
                    lens[count] = bytes;
                    count += 1;
                }
                Err(failure) => {
                    errno = Some(failure);
                    break;
                }
            }
        }
        self.slabs.cut(&lens[..count], batch);
        (count, errno)
    }

    /// After packets: a fatal errno is kept for the next call, any other will show itself again if it matters.
    fn note(&mut self, errno: Option<i32>) {
        if let Some(errno) = errno
            && let Class::Fatal(words) = classify(errno, Direction::Read)
        {
            self.failed = Some((errno, words));
        }
    }

    /// After nothing: waits, pauses, or ends.
    fn bear(&mut self, errno: i32, limit: Option<Duration>) -> Next {
        let verdict = match classify(errno, Direction::Read) {
            Class::Retry => self.patience.idle_turn(Instant::now()),
            Class::Transient(Trouble::NotReady) => return self.wait(errno, limit),
            Class::Transient(Trouble::Down | Trouble::QueueFull) => {
                self.report(errno);
                self.patience.trouble(Instant::now())
            }
            Class::Transient(Trouble::Invalid | Trouble::Unknown) => {
                self.report(errno);
                self.patience.failure(Instant::now())
            }
            Class::Fatal(words) => return self.end(errno, words),
        };
        self.obey(verdict, errno)
    }

    /// Blocks until there is something to read, or the limit is over. A wake-up alone is no progress: it is an idle turn
    /// until a packet comes.
    fn wait(&mut self, errno: i32, limit: Option<Duration>) -> Next {
        match self.device.wait(Interest::Readable, limit) {
            Ok(Wakeup::Stopped) => Next::Stopped,
            Ok(Wakeup::TimedOut) if limit.is_some() => Next::Quiet,
            Ok(Wakeup::Ready | Wakeup::TimedOut) => {
                let verdict = self.patience.idle_turn(Instant::now());
                self.obey(verdict, errno)
            }
            Err(wait_errno) => match classify(wait_errno, Direction::Read) {
                Class::Fatal(words) => self.end(wait_errno, words),
                Class::Retry => {
                    let verdict = self.patience.idle_turn(Instant::now());
                    self.obey(verdict, wait_errno)
                }
                Class::Transient(_) => {
                    self.report(wait_errno);
                    let verdict = self.patience.failure(Instant::now());
                    self.obey(verdict, wait_errno)
                }
            },
        }
    }

    fn obey(&mut self, verdict: Verdict, errno: i32) -> Next {
        match verdict {
            Verdict::Again => Next::Go,
            Verdict::GiveUp => self.end(errno, "it failed too often in a row"),
            // A pause that is cut short by a signal or an error is followed by the same call, and counted again.
            Verdict::Pause(pause) => match self.device.wait(Interest::Pause, Some(pause)) {
                Ok(Wakeup::Stopped) => Next::Stopped,
                Ok(Wakeup::Ready | Wakeup::TimedOut) | Err(_) => Next::Go,
            },
        }
    }

    fn end(&mut self, errno: i32, words: &'static str) -> Next {
        self.failed = Some((errno, words));
        Next::Failed(fatal(errno, words))
    }

    fn report(&mut self, errno: i32) {
        if let Some(count) = self.log.admit(Instant::now()) {
            let error = std::io::Error::from_raw_os_error(errno);
            tracing::warn!(%error, count, "reading the TUN device fails");
        }
    }
}

impl<D: RawDevice> Reader<D> {
    /// As [`TunReader::read_batch`]; with a limit it says [`ReadOutcome::Quiet`] when nothing came for so long.
    pub(crate) fn read(
        &mut self,
        batch: &mut Vec<BytesMut>,
        limit: Option<Duration>,
    ) -> Result<ReadOutcome, TunError> {
        loop {
            if self.stop.is_stopped() {
                return Ok(ReadOutcome::Stopped);
            }
            if let Some((errno, words)) = self.failed {
                return Err(fatal(errno, words));
            }
            let (count, errno) = self.fill(batch);
            if count > 0 {
                self.patience.progress();
                self.note(errno);
                return Ok(ReadOutcome::Packets);
            }
            match errno.map_or(Next::Go, |errno| self.bear(errno, limit)) {
                Next::Go => {}
                Next::Stopped => return Ok(ReadOutcome::Stopped),
                Next::Quiet => return Ok(ReadOutcome::Quiet),
                Next::Failed(error) => return Err(error),
            }
        }
    }

    /// Reads what there is, without waiting, pausing or logging: whatever else it takes is left to [`Reader::read`].
    #[cfg(target_os = "linux")]
    pub(crate) fn read_now(&mut self, batch: &mut Vec<BytesMut>) -> PromptOutcome {
        if self.stop.is_stopped() || self.failed.is_some() {
            return PromptOutcome::Trouble;
        }
        let (count, errno) = self.fill(batch);
        if count > 0 {
            self.patience.progress();
            self.note(errno);
            return PromptOutcome::Packets;
        }
        match errno.map(|errno| classify(errno, Direction::Read)) {
            Some(Class::Transient(Trouble::NotReady)) => PromptOutcome::Nothing,
            Some(_) | None => PromptOutcome::Trouble,
        }
    }
}

impl<D: RawDevice> TunReader for Reader<D> {
    fn read_batch(&mut self, batch: &mut Vec<BytesMut>) -> Result<ReadOutcome, TunError> {
        self.read(batch, None)
    }
}

#[cfg(test)]
mod tests;
