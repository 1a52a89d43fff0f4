//! `last_backend_fail`: how one kind of work fares, in one word.
//!
//! ```text
//! 63            48 47      40 39                                     0
//! | generation 16 | streak 8 | milliseconds since the epoch + 1: 40  |   0 ms: never
//! ```
//!
//! The word is read on the way of every packet that may be resent, by any thread, and
//! written by whoever made a call; so it is one atomic, and every change a
//! compare-exchange of the whole. A reader cannot see the streak of one moment with the
//! generation of another.
//!
//! - A *success* counts when no other success came since its attempt began: it raises
//!   the generation and clears the rest. An older straggler knows nothing of the
//!   failures since, and changes nothing.
//! - A *failure* always writes its time (R-15). The streak grows only when the attempt's
//!   generation is still the word's, and the time lies in a later 500 ms slot than the
//!   one stored: a blip that hits ten parallel calls is one failure. Times never go
//!   back, so that two threads on either side of a slot's edge count two at most.
//!
//! The streak saturates at 255, the time after 34 years. A generation returns after
//! 65,536 successes: an attempt that hangs so long counts one failure too many.

use std::time::Instant;

use super::super::sync::{AtomicU64, Ordering};

const STREAK_SHIFT: u32 = 40;
const GENERATION_SHIFT: u32 = 48;
const TIME_MAX: u64 = (1 << STREAK_SHIFT) - 1;

/// Failures of one slot count as one.
const SLOT_MS: u64 = 500;

/// The content of the word at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailRecord {
    /// Successes so far, modulo 65,536.
    pub generation: u16,
    /// Failures in a row, at most one each 500 ms, since the last success; 255 is 255 or more.
    pub streak: u8,
    /// The last failure since the last success, in milliseconds since the epoch.
    pub failed_ms: Option<u64>,
}

impl FailRecord {
    fn unpack(word: u64) -> Self {
        let [high, low, streak, ..] = word.to_be_bytes();
        Self {
            generation: u16::from_be_bytes([high, low]),
            streak,
            failed_ms: (word & TIME_MAX).checked_sub(1),
        }
    }

    fn pack(self) -> u64 {
        let time = self.failed_ms.map_or(0, |ms| ms.min(TIME_MAX - 1) + 1);
        u64::from(self.generation) << GENERATION_SHIFT
            | u64::from(self.streak) << STREAK_SHIFT
            | time
    }

    fn after_failure(self, generation: u16, at_ms: u64) -> Self {
        let at_ms = at_ms.min(TIME_MAX - 1);
        let later_slot = self
            .failed_ms
            .is_none_or(|last| at_ms / SLOT_MS > last / SLOT_MS);
        let counts = generation == self.generation && later_slot;
        Self {
            generation: self.generation,
            streak: self.streak.saturating_add(u8::from(counts)),
            failed_ms: self.failed_ms.max(Some(at_ms)),
        }
    }

    fn after_success(self, generation: u16) -> Self {
        if generation != self.generation {
            return self;
        }
        Self {
            generation: generation.wrapping_add(1),
            ..Self::default()
        }
    }
}

/// How one kind of work fares; shared by all who do it and all who ask.
#[derive(Debug)]
pub struct LastBackendFail {
    epoch: Instant,
    word: AtomicU64,
}

impl LastBackendFail {
    /// Nothing has failed. Times are counted from `epoch`; earlier ones count as `epoch`.
    pub fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            word: AtomicU64::new(0),
        }
    }

    /// What the word says.
    pub fn record(&self) -> FailRecord {
        FailRecord::unpack(self.word.load(Ordering::Acquire))
    }

    /// An attempt that began in `generation` failed at `now`. Returns what the word said
    /// before and says after it.
    pub fn fail(&self, generation: u16, now: Instant) -> (FailRecord, FailRecord) {
        let at_ms = now.saturating_duration_since(self.epoch).as_millis();
        let at_ms = u64::try_from(at_ms).unwrap_or(TIME_MAX);
        self.update(|record| record.after_failure(generation, at_ms))
    }

    /// An attempt that began in `generation` succeeded. Returns whether it counted.
    pub fn succeed(&self, generation: u16) -> bool {
        let (before, after) = self.update(|record| record.after_success(generation));
        before != after
    }

    /// When the last failure was, if one came since the last success.
    pub fn failed_at(&self) -> Option<Instant> {
        let ms = self.record().failed_ms?;
        self.epoch.checked_add(std::time::Duration::from_millis(ms))
    }

    /// Each turn of the loop that does not end it means that another thread's did.
    fn update(&self, change: impl Fn(FailRecord) -> FailRecord) -> (FailRecord, FailRecord) {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let before = FailRecord::unpack(word);
            let after = change(before);
            match self.word.compare_exchange(
                word,
                after.pack(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return (before, after),
                Err(other) => word = other,
            }
        }
    }
}
