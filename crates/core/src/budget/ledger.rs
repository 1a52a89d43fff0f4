//! A share of what is sent, and a floor beside it, over a window of ten seconds.
//!
//! ```text
//!  tick         t-10 t-9  …  t-1   t
//!  first-sent         [===========]     counted over the last 10 ticks: 10 s at most
//!  reserved      [================]     counted over the last 11 ticks: 10 s at least
//! ```
//!
//! A reservation is charged to the share while the share holds it, else to the
//! floor, which is counted in packs whatever their length: a starved sender of
//! large packs may send as many as one of small ones (case B11). The two windows
//! differ by a tick so that the promise holds for a window of ten seconds that
//! ends at any moment, and not only for one that ends with a tick: *when something
//! is charged to the share, all charges to it of the last 10 s are at most the
//! percentage of what was first sent in them*; and the floor never gives more in
//! any 10 s than ten times its rate.
//!
//! First sends come with every pack, from any thread: one atomic word a tick holds
//! the tick and its bytes, and no lock is taken. Reservations are rare, and are
//! checked and booked under one lock, so that two threads cannot spend the same
//! byte. A caller whose clock is a little late counts in its own tick if that is
//! still in the ring, and else not at all: it errs towards sending less.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use serde::Serialize;

/// Seconds over which a share is counted.
pub(super) const WINDOW_S: u32 = 10;
/// Ticks of the ring: the window, and the tick that has just begun.
const TICKS: usize = WINDOW_S as usize + 1;

/// Turns moments into ticks of a second since the first that it saw.
#[derive(Debug, Default)]
pub(super) struct Clock(OnceLock<Instant>);

impl Clock {
    /// The tick of `now`; 0 for what lies before the first, saturating after 136 years.
    pub(super) fn tick(&self, now: Instant) -> u32 {
        let start = *self.0.get_or_init(|| now);
        let seconds = now.saturating_duration_since(start).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

/// Where a reservation was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Share,
    Floor,
}

/// What was reserved in one tick.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    tick: u32,
    share_bytes: u64,
    floor_packs: u32,
}

#[derive(Debug, Default)]
struct Reserved {
    ring: [Spent; TICKS],
    denied: u64,
}

/// What a budget holds and what it gave, over its window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spending {
    /// Bytes sent for the first time in the last 10 s.
    pub first_bytes: u64,
    /// Bytes reserved out of the share.
    pub share_bytes: u64,
    /// Packs reserved out of the floor.
    pub floor_packs: u64,
    /// Reservations refused, since the beginning.
    pub denied: u64,
}

/// The account of one sender, or of several together.
#[derive(Debug)]
pub(super) struct Ledger {
    percent: u64,
    floor_packs: u64,
    /// A tick in the upper half of each word, its bytes in the lower.
    firsts: [AtomicU64; TICKS],
    reserved: Mutex<Reserved>,
}

fn place(tick: u32) -> usize {
    tick as usize % TICKS
}

fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn pack(tick: u32, bytes: u32) -> u64 {
    u64::from(tick) << 32 | u64::from(bytes)
}

impl Ledger {
    /// `percent` of what is first sent, and `packs_per_s` beside it.
    pub(super) fn new(percent: u32, packs_per_s: u32) -> Self {
        Self {
            percent: percent.into(),
            floor_packs: u64::from(packs_per_s) * u64::from(WINDOW_S),
            firsts: Default::default(),
            reserved: Mutex::default(),
        }
    }

    /// `bytes` were sent for the first time. 4 GiB in one tick saturate.
    pub(super) fn on_first_sent(&self, bytes: usize, tick: u32) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let add = |word: u64| {
            let (at, sum) = unpack(word);
            match at.cmp(&tick) {
                std::cmp::Ordering::Less => Some(pack(tick, bytes)),
                std::cmp::Ordering::Equal => Some(pack(tick, sum.saturating_add(bytes))),
                std::cmp::Ordering::Greater => None,
            }
        };
        // Where the word is of a later tick, this caller is ten seconds late.
        let _ = self.firsts[place(tick)].fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn first_bytes(&self, tick: u32) -> u64 {
        let words = self
            .firsts
            .iter()
            .map(|w| unpack(w.load(Ordering::Relaxed)));
        let recent = words.filter(|(at, _)| at.saturating_add(WINDOW_S) > tick);
        recent.map(|(_, bytes)| u64::from(bytes)).sum()
    }

    fn reserved(&self) -> MutexGuard<'_, Reserved> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges a pack of `bytes`; where, or `None` and nothing is changed but the
    /// count of refusals.
    pub(super) fn reserve(&self, bytes: usize, tick: u32) -> Option<Source> {
        let share = self.first_bytes(tick).saturating_mul(self.percent) / 100;
        let mut reserved = self.reserved();
        let (share_bytes, floor_packs) = reserved.sums(tick);
        let source = if share_bytes.saturating_add(bytes as u64) <= share {
            Source::Share
        } else if floor_packs < self.floor_packs {
            Source::Floor
        } else {
            reserved.denied += 1;
            return None;
        };
        let Some(spent) = reserved.at(tick) else {
            reserved.denied += 1;
            return None;
        };
        match source {
            Source::Share => spent.share_bytes = spent.share_bytes.saturating_add(bytes as u64),
            Source::Floor => spent.floor_packs = spent.floor_packs.saturating_add(1),
        }
        Some(source)
    }

    /// Takes back what was charged at `tick`; once it has left the window, nothing is left of it.
    pub(super) fn refund(&self, bytes: usize, tick: u32, source: Source) {
        let mut reserved = self.reserved();
        let spent = &mut reserved.ring[place(tick)];
        if spent.tick != tick {
            return;
        }
        match source {
            Source::Share => spent.share_bytes = spent.share_bytes.saturating_sub(bytes as u64),
            Source::Floor => spent.floor_packs = spent.floor_packs.saturating_sub(1),
        }
    }

    pub(super) fn spending(&self, tick: u32) -> Spending {
        let reserved = self.reserved();
        let (share_bytes, floor_packs) = reserved.sums(tick);
        Spending {
            first_bytes: self.first_bytes(tick),
            share_bytes,
            floor_packs,
            denied: reserved.denied,
        }
    }
}

impl Reserved {
    /// Bytes out of the share and packs out of the floor that still count.
    fn sums(&self, tick: u32) -> (u64, u64) {
        let counts = |spent: &&Spent| spent.tick.saturating_add(WINDOW_S) >= tick;
        let recent = self.ring.iter().filter(counts);
        recent.fold((0, 0), |(bytes, packs), spent| {
            (
                u64::saturating_add(bytes, spent.share_bytes),
                packs + u64::from(spent.floor_packs),
            )
        })
    }

    /// The entry of a tick; `None` where a later one has taken its place.
    fn at(&mut self, tick: u32) -> Option<&mut Spent> {
        let spent = &mut self.ring[place(tick)];
        if spent.tick < tick {
            *spent = Spent {
                tick,
                ..Spent::default()
            };
        }
        (spent.tick == tick).then_some(spent)
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
