//! What a number stood for: its length and a checksum of all that a resend must repeat.
//!
//! A resend differs from the first send in `tx` alone. A peer that sends other contents under a number it has used is
//! broken or lies, and the two ends would disagree on what was delivered: that ends the connection (`NUMBER_CHANGED`)
//! wherever it is seen. It is seen for 8,192 numbers back: a slot lives until the number one window above takes it, which
//! covers every resend that a window can hold. What is older is taken for a duplicate.
//!
//! *Cost.* Eight bytes a number, made as numbers come and doubled up to 64 KiB for a lane that has gone round its window; a
//! session that sleeps has a few hundred bytes. The checksum takes four independent multiplications for 32 bytes, some 60 ns for 1,200
//! bytes; the bytes were decrypted just before and lie in the cache. It is no defence against a search for collisions: who
//! finds one has changed only what was dropped as a duplicate. A change of any one 8-byte word never goes unseen inside its
//! accumulator, for each step is a bijection; folding four of them to 32 bits lets one change in 2³² through.

use quell_wire::frame::Pack;
use quell_wire::registry::BITMAP_NUMBERS;

/// Places that the first number of a lane makes.
const LEN_MIN: usize = 16;

/// Odd, with bits all over: 2⁶⁴ divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// What one number stood for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    len_bytes: u32,
    sum: u32,
}

impl Fingerprint {
    /// A number that was skipped before it came: longer than any datagram, so no pack is like it.
    pub(super) const SKIPPED: Self = Self {
        len_bytes: u32::MAX,
        sum: 0,
    };

    /// Of all that is the same in every send of a pack.
    pub(super) fn of(pack: &Pack<'_>) -> Self {
        let len_bytes = u32::try_from(pack.data.len()).unwrap_or(u32::MAX - 1);
        let head = u64::from(pack.flags.bits()) << 32 | pack.dep;
        Self {
            len_bytes,
            sum: checksum(head, pack.data),
        }
    }

    pub(super) fn len_bytes(self) -> u64 {
        u64::from(self.len_bytes)
    }
}

fn step(state: u64, word: u64) -> u64 {
    (state ^ word).wrapping_mul(MULTIPLIER).rotate_left(29)
}

/// Whole blocks of 32 bytes first, a loop without a length in it: it is what a full-sized pack costs. A word that the data
/// does not fill is filled with zeros, and one that it does not reach at all is no step.
fn checksum(head: u64, data: &[u8]) -> u32 {
    let mut sums = [head, 1, 2, 3];
    let (blocks, rest) = data.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = step(*sum, u64::from_le_bytes(*word));
        }
    }
    for (sum, bytes) in sums.iter_mut().zip(rest.chunks(8)) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        *sum = step(*sum, u64::from_le_bytes(word));
    }
    let folded = sums.into_iter().fold(0, step);
    // The high half of a product depends on every bit of its factor.
    (folded.wrapping_mul(MULTIPLIER) >> 32) as u32
}

/// The fingerprints of the last 8,192 numbers and of those in the window.
#[derive(Debug, Default)]
pub(super) struct Fingerprints(Vec<Fingerprint>);

impl Fingerprints {
    pub(super) fn insert(&mut self, number: u64, fingerprint: Fingerprint) {
        let place = place(number);
        if place >= self.0.len() {
            let len = (place + 1).next_power_of_two().max(LEN_MIN);
            self.0.resize(len, Fingerprint::SKIPPED);
        }
        self.0[place] = fingerprint;
    }

    /// What was noted last for `number` or for one a multiple of 8,192 away: the caller knows which.
    pub(super) fn slot(&self, number: u64) -> Fingerprint {
        let slot = self.0.get(place(number)).copied();
        slot.unwrap_or(Fingerprint::SKIPPED)
    }

    /// Places that were made.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

const fn place(number: u64) -> usize {
    (number % BITMAP_NUMBERS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quell_wire::frame::{Lane, PackFlags};

    fn pack(data: &[u8]) -> Pack<'_> {
        Pack {
            lane: Lane::FLOW,
            number: 9,
            tx: 1,
            flags: PackFlags::WHOLE,
            dep: 3,
            data,
        }
    }

    #[test]
    fn flags_and_dep_belong_to_it_and_tx_does_not() {
        let first = pack(b"data");
        let fingerprint = Fingerprint::of(&first);
        assert_eq!(Fingerprint::of(&Pack { tx: 7, ..first }), fingerprint);
        assert_ne!(Fingerprint::of(&Pack { dep: 2, ..first }), fingerprint);
        let flags = PackFlags::default();
        assert_ne!(Fingerprint::of(&Pack { flags, ..first }), fingerprint);
    }

    proptest! {
        #[test]
        fn any_other_byte_and_any_other_length_is_seen(
            mut data in prop::collection::vec(any::<u8>(), 1..1_500),
            at: prop::sample::Index,
            change in 1_u8..,
        ) {
            let before = Fingerprint::of(&pack(&data));
            prop_assert_ne!(Fingerprint::of(&pack(&data[..data.len() - 1])), before);
            let at = at.index(data.len());
            data[at] ^= change;
            prop_assert_ne!(Fingerprint::of(&pack(&data)), before);
        }
    }

    /// Word for word, as the sum is defined.
    fn defined(head: u64, data: &[u8]) -> u32 {
        let mut sums = [head, 1, 2, 3];
        for (at, bytes) in data.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            sums[at % 4] = step(sums[at % 4], u64::from_le_bytes(word));
        }
        let folded = sums.into_iter().fold(0, step);
        (folded.wrapping_mul(MULTIPLIER) >> 32) as u32
    }

    #[test]
    fn blocks_words_and_what_is_left_add_up_to_one_sum() {
        let data: Vec<u8> = (0..=255).cycle().take(1_400).collect();
        for len in (0..100).chain([1_367, 1_368, 1_400]) {
            let data = &data[..len];
            assert_eq!(checksum(7, data), defined(7, data), "{len} bytes");
        }
    }

    #[test]
    fn places_are_made_as_numbers_come_and_never_more_than_the_window_has() {
        let mut all = Fingerprints::default();
        assert_eq!(all.len(), 0);
        let some = Fingerprint::of(&pack(b"x"));
        for (number, len) in [(0, 16), (15, 16), (16, 32), (8_191, 8_192), (8_192, 8_192)] {
            all.insert(number, some);
            assert_eq!((all.slot(number), all.len()), (some, len));
        }
        assert_eq!(all.slot(17), Fingerprint::SKIPPED);
    }
}
