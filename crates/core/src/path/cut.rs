//! Packets on a path whose datagrams are smaller than the packet.
//!
//! IPv6 promises every host 1,280 bytes, and QUIC promises only 1,200 of UDP
//! payload. Between the two, a packet of up to [`ALWAYS_CARRIED_LEN`] crosses in
//! pieces: packs of lane `flow` with consecutive numbers, the first and the last
//! marked. The pieces are of equal size, so that they fill segmentation batches.
//! Messages are cut the same way into packs of their own lane.

use std::ops::Range;

/// An inner packet of this size always crosses: the IPv6 minimum MTU (RFC 8200 §5).
pub const ALWAYS_CARRIED_LEN: usize = 1_280;

/// Most pieces of one packet: 1,280 bytes in pieces of 160.
pub const FRAGMENTS_MAX: usize = 8;

/// How something of `len` bytes is cut into pieces of at most `piece_len_max`;
/// `None` when there is nothing to cut, or no way to do it in `pieces_max`.
pub(crate) fn cut(len: usize, piece_len_max: usize, pieces_max: usize) -> Option<Cut> {
    if len == 0 || piece_len_max == 0 {
        return None;
    }
    let pieces = len.div_ceil(piece_len_max);
    (pieces <= pieces_max).then_some(Cut {
        len,
        pieces,
        piece_len: len.div_ceil(pieces),
    })
}

/// The places to cut at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    len: usize,
    pieces: usize,
    piece_len: usize,
}

impl Cut {
    /// How many pieces there are: at least 1.
    pub(crate) fn pieces(&self) -> usize {
        // Rounding up twice can leave the last of them empty.
        self.len.div_ceil(self.piece_len).min(self.pieces)
    }

    /// Each piece's bytes, and whether it is the first and the last.
    pub(crate) fn ranges(self) -> impl Iterator<Item = (Range<usize>, bool, bool)> {
        (0..self.len).step_by(self.piece_len).map(move |start| {
            let end = self.len.min(start + self.piece_len);
            (start..end, start == 0, end == self.len)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_pieces_are_the_whole_and_none_is_empty(len in 1_usize..70_000, piece in 1_usize..1_500) {
            let Some(cut) = cut(len, piece, usize::MAX) else {
                return Err(TestCaseError::fail("not cut"));
            };
            let ranges: Vec<_> = cut.ranges().collect();
            prop_assert_eq!(ranges.len(), cut.pieces());
            let mut end = 0;
            for (index, (range, first, last)) in ranges.iter().enumerate() {
                prop_assert_eq!(range.start, end);
                prop_assert!(!range.is_empty() && range.len() <= piece);
                prop_assert_eq!((*first, *last), (index == 0, index + 1 == ranges.len()));
                end = range.end;
            }
            prop_assert_eq!(end, len);
        }
    }

    #[test]
    fn eight_pieces_pass_and_nine_do_not() {
        assert_eq!(cut(1_280, 160, FRAGMENTS_MAX).unwrap().pieces(), 8);
        assert_eq!(cut(1_280, 159, FRAGMENTS_MAX), None);
        assert_eq!(cut(1_280, 0, FRAGMENTS_MAX), None);
        assert_eq!(cut(0, 160, FRAGMENTS_MAX), None);
    }

    #[test]
    fn pieces_are_equal_but_for_the_last_byte() {
        let lens: Vec<_> = cut(1_281, 1_162, 8).unwrap().ranges().collect();
        assert_eq!(lens, [(0..641, true, false), (641..1_281, false, true)]);
    }
}
