//! A ring of bits, one for each number of a window, that takes memory as numbers come.
//!
//! A bit lies at its number modulo 8,192. Numbers begin at 0, so a lane that carried little has only ever touched the first
//! words of its ring, and one that carried nothing none: a provider holds four rings for each of thousands of sessions,
//! most of which sleep. What was not touched reads as clear.
//!
//! The words double up to 1 KiB and never shrink; once a lane has gone round, nothing is allocated.

use quell_wire::registry::BITMAP_NUMBERS;

/// Bits of a word.
pub(crate) const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = (BITMAP_NUMBERS / WORD_BITS) as usize;

/// One bit for each of 8,192 numbers in a row.
#[derive(Debug, Default)]
pub(crate) struct BitRing(Vec<u64>);

impl BitRing {
    /// The 64 bits among which that of `number` is.
    pub(crate) fn word(&self, number: u64) -> u64 {
        self.0.get(place(number)).copied().unwrap_or(0)
    }

    /// The same, to be changed.
    pub(crate) fn word_mut(&mut self, number: u64) -> &mut u64 {
        let place = place(number);
        if place >= self.0.len() {
            self.0.resize((place + 1).next_power_of_two(), 0);
        }
        &mut self.0[place]
    }

    /// Clears the bit of `number`.
    pub(crate) fn clear(&mut self, number: u64) {
        if let Some(word) = self.0.get_mut(place(number)) {
            *word &= !bit(number);
        }
    }

    #[cfg(test)]
    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }
}

const fn place(number: u64) -> usize {
    (number / WORD_BITS) as usize % WORDS
}

/// The bit of `number` in its word.
pub(crate) const fn bit(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_the_numbers_that_come_and_never_beyond_its_window() {
        let mut ring = BitRing::default();
        ring.clear(8_191);
        assert_eq!((ring.word(8_191), ring.words().len()), (0, 0));
        *ring.word_mut(63) |= bit(63);
        assert_eq!(ring.words(), [1 << 63]);
        *ring.word_mut(64) |= bit(64);
        assert_eq!(ring.words().len(), 2);
        *ring.word_mut(8_191) |= bit(8_191);
        assert_eq!(ring.words().len(), WORDS);
        *ring.word_mut(8_192) |= bit(8_192);
        assert_eq!((ring.word(0), ring.words().len()), (1 << 63 | 1, WORDS));
        ring.clear(8_192);
        assert_eq!(ring.word(0), 1 << 63);
    }
}
