//! The writing loop: each packet is written, or dropped with a reason that is counted.
//!
//! Dropping is the right answer to a full queue: what is written here is IP traffic, and its senders adapt to loss, while
//! a writer that waits on holds up everything behind it. So a batch may wait [`WAIT_MAX`] in all for room, and what does
//! not fit then is dropped. A device that is down fails each packet at once; the rest of the batch is dropped without
//! asking it again.
//!
//! Where the kernel takes merged packets, a batch is sorted into runs first ([`Coalescer`]), and a run costs one call. A
//! merged packet that is refused as invalid, or as if the interface were down, is written again at once, packet by packet
//! (case B50). When the first of those goes, it was the merging that was refused, and there is no more of it.
//!
//! Invariants: `written + dropped == offered`; a packet costs at most [`ATTEMPTS_MAX`] system calls, and as many in a merged
//! one; a batch blocks for
//! at most [`WAIT_MAX`] (and one tick of the system's timer).
//!
//! Packets of one flow are written in order; those of several may change places within a batch.
//!
//! An unknown errno drops its packet only. It becomes fatal when [`FAILED_BATCHES_MAX`] batches in a row had such an
//! error and not one packet written: a peer that finds a packet with a strange errno cannot end a tunnel that works.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_packet::offload::coalesce::PACKETS_MAX;
use quell_packet::offload::{Allowed, Coalescer, MergedHeader, Run};

use crate::classify::{Class, Direction, Trouble, classify};
use crate::device::{PACKET_BYTES_MAX, TunWriter, WriteReport};
use crate::error::TunError;
use crate::log_gate::LogGate;
use crate::offload::Offload;
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
    offload: Offload,
    coalescer: Coalescer,
    /// How long a batch may wait for room.
    wait_max: Duration,
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

/// What has become of a batch so far.
struct Tally {
    offered: usize,
    report: WriteReport,
    budget: Budget,
    last_failure: Option<i32>,
}

impl Tally {
    fn new(offered: usize, wait_max: Duration) -> Self {
        Self {
            offered,
            report: WriteReport::default(),
            budget: Budget { left: wait_max },
            last_failure: None,
        }
    }

    /// Packets that nothing has become of yet.
    fn left(&self) -> usize {
        self.offered - self.report.offered()
    }

    /// Counts what became of so many packets.
    fn add(&mut self, fate: &Fate, packets: usize) {
        let dropped = &mut self.report.dropped;
        match fate {
            Fate::Written => self.report.written += packets,
            Fate::QueueFull => dropped.queue_full += packets,
            Fate::Invalid => dropped.invalid += packets,
            Fate::Down => dropped.down += packets,
            Fate::Fatal(..) => dropped.gone += packets,
            Fate::Failed(errno) => {
                dropped.failed += packets;
                self.last_failure = Some(*errno);
            }
        }
    }
}

impl<D: RawDevice> Writer<D> {
    /// `offload` says which runs the device takes as one.
    pub(crate) fn new(device: D, offload: Offload) -> Self {
        Self {
            device,
            offload,
            coalescer: Coalescer::new(),
            wait_max: WAIT_MAX,
            failed_batches: 0,
            log: LogGate::default(),
            failed: None,
        }
    }

    /// A writer that never waits: see [`TunWriter::prompt`].
    pub(crate) fn prompt(device: D, offload: Offload) -> Self {
        Self {
            wait_max: Duration::ZERO,
            ..Self::new(device, offload)
        }
    }

    fn write_one(&mut self, packet: &[u8], budget: &mut Budget) -> Fate {
        if packet.is_empty() || packet.len() > PACKET_BYTES_MAX {
            return Fate::Invalid;
        }
        self.attempt(budget, |device| device.write(packet))
    }

    /// Makes a call until it has an answer that counts.
    fn attempt(
        &mut self,
        budget: &mut Budget,
        mut call: impl FnMut(&mut D) -> Result<(), i32>,
    ) -> Fate {
        let mut full = 0_u32;
        for _ in 0..ATTEMPTS_MAX {
            let Err(errno) = call(&mut self.device) else {
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

    /// Writes a run as one. `None` when it has to be written packet by packet.
    fn write_merged(&mut self, run: &Run, packets: &[Bytes], budget: &mut Budget) -> Option<Fate> {
        let header = MergedHeader::of(run, packets)?;
        let mut parts = [IoSlice::new(&[]); PACKETS_MAX + 1];
        let payloads = run.places().map(|place| {
            let payload = packets.get(place).and_then(|it| it.get(run.header_len()..));
            payload.unwrap_or_default()
        });
        let all = std::iter::once(header.bytes()).chain(payloads);
        for (part, bytes) in parts.iter_mut().zip(all) {
            *part = IoSlice::new(bytes);
        }
        let parts = parts.get(..=run.count())?;
        match self.attempt(budget, |device| device.write_parts(parts)) {
            Fate::Invalid | Fate::Down | Fate::Failed(_) => None,
            fate @ (Fate::Written | Fate::QueueFull | Fate::Fatal(..)) => Some(fate),
        }
    }

    /// Writes the packets of a run. `false` when the device takes nothing more of the batch.
    fn write_run(&mut self, run: &Run, packets: &[Bytes], tally: &mut Tally) -> bool {
        let count = run.count();
        let mut was_refused = false;
        if count > 1 {
            if let Some(fate) = self.write_merged(run, packets, &mut tally.budget) {
                if matches!(fate, Fate::Written) {
                    self.offload.note_merged(count);
                }
                return self.settle(&fate, count, tally);
            }
            was_refused = true;
        }
        for place in run.places() {
            let packet = packets.get(place).map_or(&[][..], |packet| packet);
            let fate = self.write_one(packet, &mut tally.budget);
            if was_refused && matches!(fate, Fate::Written) {
                was_refused = false;
                self.offload.fall_back(run.is_tcp());
            }
            if !self.settle(&fate, 1, tally) {
                return false;
            }
        }
        true
    }

    /// Counts what became of packets, and of the rest of the batch where that is decided, too. `false` then.
    fn settle(&mut self, fate: &Fate, packets: usize, tally: &mut Tally) -> bool {
        match fate {
            Fate::Down | Fate::Fatal(..) => {
                if let Fate::Fatal(errno, words) = fate {
                    self.failed = Some((*errno, words));
                }
                let left = tally.left();
                tally.add(fate, left);
                false
            }
            Fate::Written | Fate::QueueFull | Fate::Invalid | Fate::Failed(_) => {
                tally.add(fate, packets);
                true
            }
        }
    }

    /// Writes packets that are looked at together. `false` when the device takes nothing more of the batch.
    fn write_chunk(&mut self, packets: &[Bytes], tally: &mut Tally) -> bool {
        let allowed = self.offload.allowed();
        if allowed == Allowed::default() {
            return packets.iter().all(|packet| {
                let fate = self.write_one(packet, &mut tally.budget);
                self.settle(&fate, 1, tally)
            });
        }
        let mut coalescer = std::mem::take(&mut self.coalescer);
        let runs = coalescer.plan(packets, allowed);
        let goes_on = runs.iter().all(|run| self.write_run(run, packets, tally));
        self.coalescer = coalescer;
        goes_on
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
        let mut tally = Tally::new(packets.len(), self.wait_max);
        let _ = packets
            .chunks(PACKETS_MAX)
            .all(|chunk| self.write_chunk(chunk, &mut tally));
        let report = tally.report;
        debug_assert_eq!(report.offered(), packets.len());
        match self.failed {
            Some((errno, words)) if report.written == 0 => return Err(fatal(errno, words)),
            Some(_) => {}
            None => self.judge(&report, tally.last_failure),
        }
        Ok(report)
    }
}

#[cfg(test)]
mod merge_tests;
#[cfg(test)]
mod tests;
