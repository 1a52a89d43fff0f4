//! The writing loop: each packet is written, or dropped with a reason that is counted.
//!
//! Dropping is the right answer to a full queue: what is written here is IP traffic, and its senders adapt to loss, while
//! a writer that waits on holds up everything behind it. So a batch may wait [`WAIT_MAX`] in all for room, and what does
//! not fit then is dropped. A device that is down fails each packet at once; the rest of the batch is dropped without
//! asking it again.
//!
//! Invariants: `written + dropped == offered`; a packet costs at most [`ATTEMPTS_MAX`] system calls; a batch blocks for
//! at most [`WAIT_MAX`] (and one tick of the system's timer).
//!
//! An unknown errno drops its packet only. It becomes fatal when [`FAILED_BATCHES_MAX`] batches in a row had such an
//! error and not one packet written: a peer that finds a packet with a strange errno cannot end a tunnel that works.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::classify::{Class, Direction, Trouble, classify};
use crate::device::{DropCounts, PACKET_BYTES_MAX, TunWriter, WriteReport};
use crate::error::TunError;
use crate::log_gate::LogGate;
use crate::raw::{Interest, RawDevice, fatal};

/// How long one batch may wait for room, in all: the queueing delay that one device may add.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(20);
/// System calls that one packet may cost.
pub(crate) const ATTEMPTS_MAX: u32 = 16;
/// Batches in a row that may fail altogether for unknown reasons.
pub(crate) const FAILED_BATCHES_MAX: u32 = 16;
/// The pause after a device that said "ready" and then "full": its readiness means nothing (ENOBUFS, ENOMEM).
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Writes batches to a raw device.
#[derive(Debug)]
pub(crate) struct Writer<D> {
    device: D,
    failed_batches: u32,
    log: LogGate,
    failed: Option<(i32, &'static str)>,
}

/// What became of one packet.
enum Fate {
    Written,
    QueueFull,
    Invalid,
    Down,
    Failed(i32),
    Fatal(i32, &'static str),
}

/// The time that a batch may still wait.
struct Budget {
    left: Duration,
}

impl<D: RawDevice> Writer<D> {
    pub(crate) fn new(device: D) -> Self {
        Self {
            device,
            failed_batches: 0,
            log: LogGate::default(),
            failed: None,
        }
    }

    fn write_one(&mut self, packet: &[u8], budget: &mut Budget) -> Fate {
        if packet.is_empty() || packet.len() > PACKET_BYTES_MAX {
            return Fate::Invalid;
        }
        let mut full = 0_u32;
        for _ in 0..ATTEMPTS_MAX {
            let Err(errno) = self.device.write(packet) else {
                return Fate::Written;
            };
            match classify(errno, Direction::Write) {
                Class::Retry => {}
                Class::Fatal(words) => return Fate::Fatal(errno, words),
                Class::Transient(Trouble::QueueFull | Trouble::NotReady) => {
                    if !self.wait_for_room(full, budget) {
                        return Fate::QueueFull;
                    }
                    full += 1;
                }
                Class::Transient(Trouble::Invalid) => return Fate::Invalid,
                Class::Transient(Trouble::Down) => return Fate::Down,
                Class::Transient(Trouble::Unknown) => return Fate::Failed(errno),
            }
        }
        if full > 0 {
            Fate::QueueFull
        } else {
            Fate::Failed(crate::classify::errno_table::EINTR)
        }
    }

    /// Spends of the batch's budget. `false` when nothing is left, or when waiting is not possible.
    fn wait_for_room(&mut self, times_full: u32, budget: &mut Budget) -> bool {
        if budget.left.is_zero() {
            return false;
        }
        let (interest, limit) = if times_full == 0 {
            (Interest::Writable, budget.left)
        } else {
            (Interest::Pause, budget.left.min(FULL_PAUSE))
        };
        let started = Instant::now();
        let waited = self.device.wait(interest, Some(limit));
        budget.left = budget.left.saturating_sub(started.elapsed());
        // The write that follows tells what became of the device; an interrupted wait is as good as a short one.
        waited.is_ok() || waited == Err(crate::classify::errno_table::EINTR)
    }

    /// After a batch: did the device do anything at all?
    fn judge(&mut self, report: &WriteReport, last_failure: Option<i32>) {
        let Some(errno) = last_failure else {
            if report.written > 0 {
                self.failed_batches = 0;
            }
            return;
        };
        if let Some(count) = self.log.admit(Instant::now()) {
            let error = std::io::Error::from_raw_os_error(errno);
            tracing::warn!(%error, count, "writing to the TUN device fails");
        }
        if report.written > 0 {
            self.failed_batches = 0;
            return;
        }
        self.failed_batches += 1;
        if self.failed_batches >= FAILED_BATCHES_MAX {
            self.failed = Some((errno, "it failed too often in a row"));
        }
    }
}

impl<D: RawDevice> TunWriter for Writer<D> {
    fn write_batch(&mut self, packets: &[Bytes]) -> Result<WriteReport, TunError> {
        if let Some((errno, words)) = self.failed {
            return Err(fatal(errno, words));
        }
        let mut written = 0;
        let mut dropped = DropCounts::default();
        let mut budget = Budget { left: WAIT_MAX };
        let mut last_failure = None;
        for (index, packet) in packets.iter().enumerate() {
            match self.write_one(packet, &mut budget) {
                Fate::Written => written += 1,
                Fate::QueueFull => dropped.queue_full += 1,
                Fate::Invalid => dropped.invalid += 1,
                Fate::Failed(errno) => {
                    dropped.failed += 1;
                    last_failure = Some(errno);
                }
                Fate::Down => {
                    dropped.down += packets.len() - index;
                    break;
                }
                Fate::Fatal(errno, words) => {
                    self.failed = Some((errno, words));
                    if written == 0 {
                        return Err(fatal(errno, words));
                    }
                    dropped.gone = packets.len() - index;
                    break;
                }
            }
        }
        let report = WriteReport { written, dropped };
        debug_assert_eq!(report.offered(), packets.len());
        if self.failed.is_none() {
            self.judge(&report, last_failure);
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
