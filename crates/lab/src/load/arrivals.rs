//! A record of arrivals, shared between a load's thread and whoever asks.
//!
//! What arrives within a millisecond is kept as one entry, and the newest [`ENTRIES_MAX`] entries are kept: 65 s of the
//! densest traffic, hours of a ping each 100 ms. So the memory is bounded, at some 4 MiB, and questions about a time are
//! answered to the millisecond. The totals count everything, also what is no longer kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Bound of the entries kept.
pub(super) const ENTRIES_MAX: usize = 65_536;

/// What arrives within it of an entry's first arrival belongs to that entry.
const GRAIN: Duration = Duration::from_millis(1);

/// When what arrived. Clones share one record.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    record: Arc<Mutex<Record>>,
}

#[derive(Debug, Default)]
struct Record {
    count: u64,
    bytes: u64,
    entries: VecDeque<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    first: Instant,
    last: Instant,
    bytes: u64,
    age_max: Option<Duration>,
}

impl Arrivals {
    /// How many have arrived. For a stream: how often the socket had something.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.record.lock().count
    }

    /// Payload bytes that have arrived.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.record.lock().bytes
    }

    /// The first arrival after `from`.
    #[must_use]
    pub fn first_after(&self, from: Instant) -> Option<Instant> {
        let record = self.record.lock();
        let entry = record.after(from).next()?;
        // An entry that had begun by then has an arrival after it: its last.
        Some(if entry.first > from {
            entry.first
        } else {
            entry.last
        })
    }

    /// The latest arrival.
    #[must_use]
    pub fn last(&self) -> Option<Instant> {
        self.record.lock().entries.back().map(|entry| entry.last)
    }

    /// The oldest of the answers that arrived after `from`: its time from being asked for to its arrival. None for streams,
    /// whose bytes have no age.
    #[must_use]
    pub fn age_max_after(&self, from: Instant) -> Option<Duration> {
        let record = self.record.lock();
        record.after(from).filter_map(|entry| entry.age_max).max()
    }

    /// Payload bytes that arrived after `from`, up to and including `to`.
    #[must_use]
    pub fn bytes_between(&self, from: Instant, to: Instant) -> u64 {
        let record = self.record.lock();
        record
            .after(from)
            .skip_while(|entry| entry.first <= from)
            .take_while(|entry| entry.first <= to)
            .map(|entry| entry.bytes)
            .sum()
    }

    /// The longest time without an arrival between `from` and `to`, from and up to these themselves included.
    #[must_use]
    pub fn gap_max_between(&self, from: Instant, to: Instant) -> Duration {
        let record = self.record.lock();
        let (mut moved, mut gap) = (from, Duration::ZERO);
        for entry in record.after(from).take_while(|entry| entry.first <= to) {
            gap = gap.max(entry.first.saturating_duration_since(moved));
            moved = entry.last;
        }
        gap.max(to.saturating_duration_since(moved))
    }

    pub(super) fn note(&self, at: Instant, bytes: usize, age: Option<Duration>) {
        let mut record = self.record.lock();
        record.count += 1;
        record.bytes += bytes as u64;
        if let Some(entry) = record.entries.back_mut()
            && at.saturating_duration_since(entry.first) < GRAIN
        {
            entry.last = entry.last.max(at);
            entry.bytes += bytes as u64;
            entry.age_max = entry.age_max.max(age);
            return;
        }
        if record.entries.len() == ENTRIES_MAX {
            record.entries.pop_front();
        }
        record.entries.push_back(Entry {
            first: at,
            last: at,
            bytes: bytes as u64,
            age_max: age,
        });
    }
}

impl Record {
    /// The entries with an arrival after `from`, in order.
    fn after(&self, from: Instant) -> impl Iterator<Item = &Entry> {
        let start = self.entries.partition_point(|entry| entry.last <= from);
        self.entries.range(start..)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn questions_about_a_time_are_answered_by_what_came_after_it() {
        let arrivals = Arrivals::default();
        let start = Instant::now();
        assert_eq!((arrivals.first_after(start), arrivals.last()), (None, None));
        for (at_ms, bytes, age_ms) in [(10, 100, 9), (20, 200, 70), (40, 300, 3)] {
            arrivals.note(start + at_ms * MS, bytes, Some(age_ms * MS));
        }
        assert_eq!((arrivals.count(), arrivals.bytes()), (3, 600));
        assert_eq!(arrivals.first_after(start), Some(start + 10 * MS));
        assert_eq!(arrivals.first_after(start + 10 * MS), Some(start + 20 * MS));
        assert_eq!(arrivals.first_after(start + 40 * MS), None);
        assert_eq!(arrivals.last(), Some(start + 40 * MS));
        assert_eq!(arrivals.age_max_after(start), Some(70 * MS));
        assert_eq!(arrivals.age_max_after(start + 20 * MS), Some(3 * MS));
        assert_eq!(arrivals.age_max_after(start + 40 * MS), None);
        assert_eq!(
            arrivals.bytes_between(start + 10 * MS, start + 40 * MS),
            500
        );
        assert_eq!(arrivals.bytes_between(start + 9 * MS, start + 39 * MS), 300);
    }

    #[test]
    fn the_longest_gap_may_lie_at_either_end() {
        let arrivals = Arrivals::default();
        let start = Instant::now();
        arrivals.note(start + 30 * MS, 1, None);
        arrivals.note(start + 50 * MS, 1, None);
        let gap = |from, to| arrivals.gap_max_between(start + from * MS, start + to * MS);
        assert_eq!(gap(0, 60), 30 * MS);
        assert_eq!(gap(25, 60), 20 * MS);
        assert_eq!(gap(25, 90), 40 * MS);
        assert_eq!(gap(51, 90), 39 * MS);
    }

    #[test]
    fn a_millisecond_is_one_entry_and_no_more() {
        let arrivals = Arrivals::default();
        let start = Instant::now();
        let within = start + Duration::from_micros(999);
        arrivals.note(start, 1, Some(MS));
        arrivals.note(within, 1, Some(5 * MS));
        assert_eq!(arrivals.record.lock().entries.len(), 1);
        // Its second arrival is found although the entry began before.
        assert_eq!(arrivals.first_after(start), Some(within));
        assert_eq!(arrivals.age_max_after(start), Some(5 * MS));
        arrivals.note(start + MS, 1, None);
        assert_eq!(arrivals.record.lock().entries.len(), 2);
    }

    #[test]
    fn the_newest_are_kept_and_all_are_counted() {
        let arrivals = Arrivals::default();
        let start = Instant::now();
        let at = |index: usize| start + MS * u32::try_from(index).unwrap();
        for index in 0..ENTRIES_MAX {
            arrivals.note(at(index), 1, None);
        }
        let before = start.checked_sub(MS).unwrap();
        assert_eq!(arrivals.first_after(before), Some(start));
        arrivals.note(at(ENTRIES_MAX), 1, None);
        assert_eq!(arrivals.first_after(before), Some(at(1)));
        assert_eq!(arrivals.count(), ENTRIES_MAX as u64 + 1);
        assert_eq!(arrivals.record.lock().entries.len(), ENTRIES_MAX);
    }
}
