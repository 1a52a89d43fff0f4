//! The right to dial once.
//!
//! A permit lives where the dial runs, the gate where decisions are made. What they share
//! is one byte: the permit writes that it was dropped, the gate that the lease ran out.
//! Both are looked at, never waited for, so that dropping a dial's future is cheap and
//! safe anywhere, a panic's unwinding included.

use std::sync::Arc;
use std::time::Instant;

use super::super::sync::{AtomicU8, Ordering};

/// What one side has to tell the other.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Mark {
    Dropped = 1,
    Expired = 2,
}

#[derive(Debug, Default)]
pub(super) struct Marks(AtomicU8);

impl Marks {
    pub(super) fn set(&self, mark: Mark) {
        self.0.fetch_or(mark as u8, Ordering::AcqRel);
    }

    pub(super) fn is(&self, mark: Mark) -> bool {
        self.0.load(Ordering::Acquire) & mark as u8 != 0
    }
}

/// The right to one dial of one server. Give it back with the result, to the gate that
/// gave it; a permit that is dropped says that the dial was cancelled.
#[derive(Debug)]
#[must_use = "a permit that is dropped cancels its dial"]
pub struct DialPermit {
    number: u64,
    probe: Option<(Arc<Marks>, Instant)>,
}

impl DialPermit {
    pub(super) fn new(number: u64, probe: Option<(Arc<Marks>, Instant)>) -> Self {
        Self { number, probe }
    }

    /// The gate's generation in which it was given. A probe is alone in its own.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether this dial alone finds out if a blocked server is back.
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// When a probe's dial must have ended; others have the dial timeout alone.
    pub fn lease(&self) -> Option<Instant> {
        self.probe.as_ref().map(|(_, lease)| *lease)
    }

    /// Whether the gate has given this probe up: abort the dial.
    pub fn is_expired(&self) -> bool {
        let marks = self.probe.as_ref().map(|(marks, _)| marks);
        marks.is_some_and(|marks| marks.is(Mark::Expired))
    }
}

impl Drop for DialPermit {
    fn drop(&mut self) {
        if let Some((marks, _)) = &self.probe {
            marks.set(Mark::Dropped);
        }
    }
}
