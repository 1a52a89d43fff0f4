//! Which numbers came: one bit each, over a window that moves up.
//!
//! ```text
//!            base (next expected)              end (above all that came)    base + 8,192
//!   ─────────┬─────────────────────────────────┬────────────────────────────┬──────────
//!    all here│ 0 1 1 0 0 1 ...               1 │ 0 0 0 ...                  │ refused
//! ```
//!
//! A [`BitRing`], at most 1 KiB. Below `base` everything came or was skipped, and
//! `base` itself did not: so `base` is an ACK's `cumulative` as it stands. Number 0 is a number like any other (case B59).
//!
//! Invariants: no bit is set outside `base..end`; `base ≤ end ≤ base + 8,192`; the bit of `base` is clear. Every number is
//! set and cleared once, so the work of moving `base` is paid for by what moves it.

use quell_wire::frame::AckRange;
use quell_wire::registry::BITMAP_NUMBERS;

use crate::bits::{BitRing, WORD_BITS, bit};

/// Where a number lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It came or was skipped.
    Known,
    /// It did not come, and may.
    Missing,
    /// Too far ahead to be remembered.
    Beyond,
}

#[derive(Debug)]
pub(super) struct Bitmap {
    bits: BitRing,
    base: u64,
    end: u64,
}

impl Bitmap {
    pub(super) fn new() -> Self {
        Self {
            bits: BitRing::default(),
            base: 0,
            end: 0,
        }
    }

    /// The lowest number that did not come.
    pub(super) const fn base(&self) -> u64 {
        self.base
    }

    /// One above the highest number that came or was skipped.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn place(&self, number: u64) -> Place {
        if self.contains(number) {
            Place::Known
        } else if number - self.base < BITMAP_NUMBERS {
            Place::Missing
        } else {
            Place::Beyond
        }
    }

    /// Whether `number` came or was skipped.
    pub(super) fn contains(&self, number: u64) -> bool {
        number < self.base || (number < self.end && self.bits.word(number) & bit(number) != 0)
    }

    /// Notes that `number` came. It must be [`Place::Missing`].
    pub(super) fn insert(&mut self, number: u64) {
        debug_assert_eq!(self.place(number), Place::Missing);
        *self.bits.word_mut(number) |= bit(number);
        self.end = self.end.max(number + 1);
        self.advance();
    }

    /// Takes all numbers below `base` for known; it must lie in the window.
    pub(super) fn skip_to(&mut self, base: u64) {
        debug_assert!(base <= self.base + BITMAP_NUMBERS);
        while self.base < base {
            self.bits.clear(self.base);
            self.base += 1;
        }
        self.end = self.end.max(self.base);
        self.advance();
    }

    /// Moves `base` over the numbers that came, a word at a time.
    fn advance(&mut self) {
        while self.base < self.end {
            let slot = self.bits.word_mut(self.base);
            let offset = self.base % WORD_BITS;
            let run = u64::from((*slot >> offset).trailing_ones());
            let mask = u64::MAX.checked_shr(64 - run as u32).unwrap_or(0);
            *slot &= !(mask << offset);
            self.base += run;
            if run < WORD_BITS - offset {
                return;
            }
        }
    }

    /// Whether no number above `base` came: there is no run.
    pub(super) const fn is_contiguous(&self) -> bool {
        self.base == self.end
    }

    /// Runs of numbers that came above `base`, lowest first.
    pub(super) fn ranges(&self) -> impl Iterator<Item = AckRange> + '_ {
        let mut from = self.base;
        std::iter::from_fn(move || {
            let first = self.find(from, true)?;
            from = self.find(first, false).unwrap_or(self.end);
            Some(AckRange {
                first,
                last: from - 1,
            })
        })
    }

    /// The first number from `at` on, up to `end`, whose bit is `set`; `None` when a run goes up to `end`.
    ///
    /// Never beyond: the number below `end` is set and that of `end` is not, even where its bit is that of `base`.
    fn find(&self, mut at: u64, set: bool) -> Option<u64> {
        while at < self.end {
            let bits = self.bits.word(at);
            let wanted = (if set { bits } else { !bits }) >> (at % WORD_BITS);
            if wanted != 0 {
                return Some(at + u64::from(wanted.trailing_zeros()));
            }
            at = (at / WORD_BITS + 1) * WORD_BITS;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn listed(bitmap: &Bitmap) -> Vec<(u64, u64)> {
        bitmap.ranges().map(|r| (r.first, r.last)).collect()
    }

    #[test]
    fn the_first_number_is_a_number_like_any_other() {
        // case B59
        let mut bitmap = Bitmap::new();
        assert_eq!(bitmap.place(0), Place::Missing);
        bitmap.insert(0);
        assert_eq!((bitmap.place(0), bitmap.base()), (Place::Known, 1));
    }

    #[test]
    fn the_last_number_of_the_window_is_missing_and_the_next_beyond() {
        let mut bitmap = Bitmap::new();
        for base in [0, 1, 63, 64, 8_191, 8_192, 100_000] {
            bitmap.skip_to(bitmap.base() + (base - bitmap.base()) % BITMAP_NUMBERS);
            let base = bitmap.base();
            assert_eq!(bitmap.place(base + 8_191), Place::Missing);
            assert_eq!(bitmap.place(base + 8_192), Place::Beyond);
        }
    }

    #[test]
    fn a_full_window_closes_in_one_step() {
        let mut bitmap = Bitmap::new();
        bitmap.skip_to(77);
        for number in (78..77 + 8_192).rev() {
            bitmap.insert(number);
        }
        assert_eq!(listed(&bitmap), [(78, 77 + 8_191)]);
        bitmap.insert(77);
        assert_eq!((bitmap.base(), bitmap.end()), (77 + 8_192, 77 + 8_192));
        assert!(bitmap.bits.words().iter().all(|word| *word == 0));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(steps in prop::collection::vec((0_u8..10, 0_u64..8_300), 1..300), start in 0_u64..20_000) {
            let mut bitmap = Bitmap::new();
            for _ in 0..3 {
                bitmap.skip_to((bitmap.base() + 8_192).min(start));
            }
            let (mut came, mut base) = (BTreeSet::new(), bitmap.base());
            for (kind, ahead) in steps {
                let number = base + if kind % 2 == 0 { ahead } else { ahead % 150 };
                if kind == 0 {
                    base = base.max(base + ahead.min(8_192));
                    bitmap.skip_to(base);
                } else if bitmap.place(number) == Place::Missing {
                    prop_assert!(!came.contains(&number) && number < base + 8_192);
                    bitmap.insert(number);
                    came.insert(number);
                } else {
                    prop_assert!(came.contains(&number) || number >= base + 8_192);
                }
                while came.contains(&base) {
                    base += 1;
                }
                came.retain(|number| *number >= base);
                prop_assert_eq!(bitmap.base(), base);
                let mut runs: Vec<(u64, u64)> = Vec::new();
                for &number in &came {
                    match runs.last_mut() {
                        Some((_, last)) if *last + 1 == number => *last = number,
                        _ => runs.push((number, number)),
                    }
                }
                prop_assert_eq!(listed(&bitmap), runs);
            }
        }
    }
}
