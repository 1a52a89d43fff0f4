//! A ring of bytes in which every pack lies in one piece.
//!
//! Packs are pushed in order and freed in order, so a ring needs no free list.
//! Where a pack does not fit before the ring's end it goes to its beginning, and
//! the rest of the end stays unused until the ring has gone round: less than one
//! pack. A ring of the lane's bound plus one longest pack therefore always has
//! room for what the bound admits; below that size it doubles, and lays its packs
//! side by side again.

use super::limits::PACK_BYTES_MAX;

/// First size of a ring in bytes: a question or two, for most lanes of a provider's sleeping clients hold no more. A busy
/// lane doubles it a dozen times, once.
const FIRST_LEN: usize = 512;

#[derive(Debug)]
pub(crate) struct ByteRing {
    buffer: Vec<u8>,
    /// Where the oldest pack begins.
    head: usize,
    /// Where the next pack goes. Below `head`, or equal to it without packs: wrapped.
    tail: usize,
    wrapped: bool,
    len_max: usize,
}

impl ByteRing {
    /// A ring for at most `bytes_max` bytes of packs at a time.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            head: 0,
            tail: 0,
            wrapped: false,
            len_max: bytes_max + PACK_BYTES_MAX,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Where `len` bytes would go.
    fn place(&self, len: usize) -> Option<usize> {
        if self.wrapped {
            return (self.head - self.tail >= len).then_some(self.tail);
        }
        if self.buffer.len() - self.tail >= len {
            return Some(self.tail);
        }
        (self.head >= len).then_some(0)
    }

    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.place(len).is_some()
    }

    /// Doubles the ring until `len` more bytes fit, `live_bytes` of packs kept:
    /// `spans` are their places, oldest first, which are corrected.
    pub(crate) fn grow<'a>(
        &mut self,
        spans: impl Iterator<Item = (&'a mut usize, usize)>,
        live_bytes: usize,
        len: usize,
    ) {
        let needed = live_bytes + len;
        let doubled = (2 * self.buffer.len()).max(FIRST_LEN);
        let size = doubled.max(needed.next_power_of_two()).min(self.len_max);
        let mut buffer = Vec::with_capacity(size.max(needed));
        for (start, len) in spans {
            let place = buffer.len();
            buffer.extend_from_slice(self.slice(*start, len));
            *start = place;
        }
        self.tail = buffer.len();
        self.head = 0;
        self.wrapped = false;
        buffer.resize(size.max(needed), 0);
        self.buffer = buffer;
    }

    /// Copies `data` in; where it begins. There must be room.
    pub(crate) fn push(&mut self, data: &[u8]) -> usize {
        let start = self.place(data.len()).unwrap_or(0);
        self.wrapped |= start < self.tail;
        self.tail = start + data.len();
        if let Some(place) = self.buffer.get_mut(start..self.tail) {
            place.copy_from_slice(data);
        }
        start
    }

    /// Frees everything before the pack that begins at `head`; all of it for `None`.
    pub(crate) fn free_before(&mut self, head: Option<usize>) {
        match head {
            None => (self.head, self.tail, self.wrapped) = (0, 0, false),
            Some(head) => {
                // The oldest pack jumped to the beginning: the ring has gone round.
                self.wrapped &= head >= self.head;
                self.head = head;
            }
        }
    }

    pub(crate) fn slice(&self, start: usize, len: usize) -> &[u8] {
        self.buffer.get(start..start + len).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Against a queue of vectors: what is pushed is what is read, through
        /// growth and wrapping, and the size never passes its bound.
        #[test]
        fn packs_stay_whole_and_the_size_bounded(
            ops in proptest::collection::vec((0_usize..3, 0_usize..9_000), 1..300),
        ) {
            let bytes_max = 64 * 1024;
            let mut ring = ByteRing::new(bytes_max);
            let mut model: VecDeque<(usize, Vec<u8>)> = VecDeque::new();
            for (index, (op, len)) in ops.into_iter().enumerate() {
                let live: usize = model.iter().map(|(_, data)| data.len()).sum();
                if op > 0 && live + len <= bytes_max {
                    let data = vec![index as u8; len];
                    if !ring.has_room(len) {
                        let spans = model.iter_mut().map(|(start, data)| (start, data.len()));
                        ring.grow(spans, live, len);
                    }
                    model.push_back((ring.push(&data), data));
                } else if op == 0 {
                    model.pop_front();
                    ring.free_before(model.front().map(|(start, _)| *start));
                }
                for (start, data) in &model {
                    prop_assert_eq!(ring.slice(*start, data.len()), &data[..]);
                }
                prop_assert!(ring.capacity() <= bytes_max + PACK_BYTES_MAX);
            }
        }
    }

    #[test]
    fn a_full_ring_of_the_largest_size_goes_round_without_growing() {
        let bytes_max = 256 * 1024;
        let mut ring = ByteRing::new(bytes_max);
        let mut starts: VecDeque<usize> = VecDeque::new();
        let data = vec![7; 1_399];
        let mut size = None;
        for round in 0..2_000 {
            if starts.len() * data.len() + data.len() > bytes_max {
                starts.pop_front();
                ring.free_before(starts.front().copied());
                size = size.or(Some(ring.capacity()));
            }
            if !ring.has_room(data.len()) {
                assert_eq!(size, None, "grew when full, round {round}");
                let live = starts.len() * data.len();
                ring.grow(starts.iter_mut().map(|s| (s, 1_399)), live, data.len());
            }
            starts.push_back(ring.push(&data));
        }
        assert_eq!(size, Some(ring.capacity()));
    }
}
