//! Packets and messages out of packs: from one marked `first`, over consecutive numbers, to one marked `last`.
//!
//! Pieces that lie side by side are one *run*; an arrival extends a run, joins two, or begins one. No run reaches over a
//! `first` or a `last`, so a run that begins with the one and ends with the other is a whole packet, and no arrival looks
//! farther than at its two neighbours: a message of a thousand packs in any order costs a thousand small steps.
//!
//! ```text
//! number   7   8   9   10  11  12  13            runs      8..=9 (first, open)   11..=12 (open, last)
//! came     W   F   ·   ?   ·   L   F     10 comes → 8..=12, a packet;            13.. (first, open)
//! ```
//!
//! A run is *doomed* when it does not begin with `first` though the number before it is known and no open run, or does not
//! end with `last` though the number after it is known and no continuation: the peer gave a sibling up (SKIP), or its marks
//! contradict each other. It can never become whole; it is taken out at once, so that its bytes go back into credit.
//!
//! Pieces are copied when they come in: a piece that waits must not keep the datagram it came in. What waits here is bounded
//! by the lane's credit, which counted it before; there is no age limit, since the peer sends what is missing or skips it.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use quell_wire::frame::PackFlags;

use super::bitmap::Bitmap;

/// A whole packet or message and the numbers it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Distance from `first` back to the flow's previous packet, 0 for none.
    pub(super) dep: u64,
    pub(super) bytes: Bytes,
    /// Waits for no other packet.
    pub(super) unordered: bool,
}

impl Packet {
    pub(super) const fn packs(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Pieces that can never become a packet, out of our hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doomed {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
struct Run {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    first: bool,
    last: bool,
    dep: u64,
    unordered: bool,
}

impl Run {
    fn of(flags: PackFlags, dep: u64, data: Bytes) -> Self {
        Self {
            bytes: data.len(),
            pieces: VecDeque::from([data]),
            first: flags.first,
            last: flags.last,
            dep,
            unordered: flags.unordered,
        }
    }

    fn packs(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// This run with `right` behind it. The longer one takes the other's pieces in, so that a piece moves seldom.
    fn join(mut self, mut right: Self) -> Self {
        self.bytes += right.bytes;
        self.last = right.last;
        if self.pieces.len() >= right.pieces.len() {
            self.pieces.append(&mut right.pieces);
        } else {
            while let Some(piece) = self.pieces.pop_back() {
                right.pieces.push_front(piece);
            }
            self.pieces = right.pieces;
        }
        self
    }

    fn into_packet(self, first: u64) -> Packet {
        let last = first + self.packs() - 1;
        let mut bytes = BytesMut::with_capacity(self.bytes);
        for piece in &self.pieces {
            bytes.extend_from_slice(piece);
        }
        Packet {
            first,
            last,
            dep: self.dep,
            bytes: bytes.freeze(),
            unordered: self.unordered,
        }
    }
}

/// Pieces that wait for the rest of their packet.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// By the first number of each run.
    runs: BTreeMap<u64, Run>,
    packs: u64,
}

impl Fragments {
    /// Takes in a piece whose number `bitmap` knows already; the packet, when this piece completes it.
    pub(super) fn insert(
        &mut self,
        number: u64,
        flags: PackFlags,
        dep: u64,
        data: &Bytes,
    ) -> Option<Packet> {
        let mut run = Run::of(flags, dep, Bytes::copy_from_slice(data));
        let mut first = number;
        self.packs += 1;
        if !flags.first
            && let Some((left_first, left)) = self.take_open_left_of(number)
        {
            run = left.join(run);
            first = left_first;
        }
        if !flags.last
            && let Some(right) = self.take_open_right_of(number)
        {
            run = run.join(right);
        }
        if run.first && run.last {
            self.packs -= run.packs();
            return Some(run.into_packet(first));
        }
        self.runs.insert(first, run);
        None
    }

    fn take_open_left_of(&mut self, number: u64) -> Option<(u64, Run)> {
        let (&first, run) = self.runs.range(..number).next_back()?;
        if first + run.packs() != number || run.last {
            return None;
        }
        Some((first, self.runs.remove(&first)?))
    }

    fn take_open_right_of(&mut self, number: u64) -> Option<Run> {
        let right = self.runs.get(&(number + 1))?;
        if right.first {
            return None;
        }
        self.runs.remove(&(number + 1))
    }

    /// Takes out a run that touches `first..=last` and is doomed; ask until there is none.
    ///
    /// To be asked about every number that became known, in this way or by a SKIP: nothing else dooms a run.
    pub(super) fn take_doomed(&mut self, first: u64, last: u64, bitmap: &Bitmap) -> Option<Doomed> {
        let touching = self.runs.range(..=last + 1).rev();
        let touching = touching.take_while(|(start, run)| **start + run.packs() >= first);
        let doomed = |(start, run): &(&u64, &Run)| is_doomed(**start, run, bitmap);
        let (&start, _) = { touching }.find(doomed)?;
        let run = self.runs.remove(&start)?;
        self.packs -= run.packs();
        Some(Doomed {
            first: start,
            last: start + run.packs() - 1,
            bytes: run.bytes as u64,
        })
    }

    /// Whether the piece of this number waits here.
    pub(super) fn covers(&self, number: u64) -> bool {
        let run = self.runs.range(..=number).next_back();
        run.is_some_and(|(first, run)| number < first + run.packs())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Pieces that wait.
    pub(super) const fn packs(&self) -> u64 {
        self.packs
    }

    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.packs = 0;
    }
}

/// Neighbours that fit were joined, so a known number at an open end is a contradiction.
fn is_doomed(first: u64, run: &Run, bitmap: &Bitmap) -> bool {
    let known_before = first.checked_sub(1).is_none_or(|n| bitmap.contains(n));
    let known_after = bitmap.contains(first + run.packs());
    (!run.first && known_before) || (!run.last && known_after)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const FIRST: PackFlags = flags(true, false);
    const MIDDLE: PackFlags = flags(false, false);
    const LAST: PackFlags = flags(false, true);

    const fn flags(first: bool, last: bool) -> PackFlags {
        PackFlags {
            first,
            last,
            unordered: false,
        }
    }

    #[derive(Default)]
    struct Bench {
        fragments: Fragments,
        bitmap: Option<Bitmap>,
    }

    impl Bench {
        fn bitmap(&mut self) -> &mut Bitmap {
            self.bitmap.get_or_insert_with(Bitmap::new)
        }

        /// A packet that became whole, or the first and last numbers of what was doomed.
        fn put(&mut self, number: u64, flags: PackFlags) -> (Option<Packet>, Vec<(u64, u64)>) {
            self.bitmap().insert(number);
            let data = Bytes::from(vec![number as u8]);
            let whole = flags.first && flags.last;
            let packet = (!whole)
                .then(|| self.fragments.insert(number, flags, number, &data))
                .flatten();
            (packet, self.doomed(number, number))
        }

        fn doomed(&mut self, first: u64, last: u64) -> Vec<(u64, u64)> {
            let bitmap = self.bitmap.get_or_insert_with(Bitmap::new);
            let next = || self.fragments.take_doomed(first, last, bitmap);
            let mut doomed: Vec<_> = std::iter::from_fn(next).collect();
            doomed.sort_by_key(|doomed| doomed.first);
            assert!(doomed.iter().all(|d| d.bytes == d.last - d.first + 1));
            doomed.iter().map(|d| (d.first, d.last)).collect()
        }
    }

    fn shuffled(order: &[u64], seed: u64) -> Vec<u64> {
        let mut order = order.to_vec();
        order.sort_by_key(|n| (n + 1).wrapping_mul(seed | 1).rotate_left(17));
        order
    }

    proptest! {
        #[test]
        fn a_packet_in_any_order_comes_out_once_and_whole(count in 2_u64..60, seed: u64) {
            let mut bench = Bench::default();
            bench.put(0, flags(true, true));
            let numbers: Vec<_> = (1..=count).collect();
            let order = shuffled(&numbers, seed);
            for (at, &number) in order.iter().enumerate() {
                let (packet, doomed) = bench.put(number, flags(number == 1, number == count));
                prop_assert!(doomed.is_empty());
                prop_assert_eq!(packet.is_some(), at as u64 + 1 == count);
                if let Some(packet) = packet {
                    prop_assert_eq!((packet.first, packet.last, packet.dep), (1, count, 1));
                    let expected: Vec<_> = (1..=count).map(|n| n as u8).collect();
                    prop_assert_eq!(packet.bytes, expected);
                }
            }
            prop_assert_eq!((bench.fragments.packs(), bench.fragments.is_empty()), (0, true));
        }

        #[test]
        fn whatever_the_marks_nothing_is_lost_and_no_doomed_run_stays(
            marks in prop::collection::vec((any::<bool>(), any::<bool>()), 1..40), seed: u64,
        ) {
            let mut bench = Bench::default();
            let numbers: Vec<_> = (0..marks.len() as u64).collect();
            let mut gone = 0;
            for number in shuffled(&numbers, seed) {
                let (first, last) = marks[number as usize];
                let (packet, doomed) = bench.put(number, flags(first, last));
                gone += u64::from(first && last) + packet.map_or(0, |packet| packet.packs());
                gone += doomed.iter().map(|(first, last)| last - first + 1).sum::<u64>();
            }
            // Only a run with an open end at the top may wait.
            let last_run = bench.fragments.runs.last_key_value();
            let waiting = last_run.map_or(0, |(first, run)| {
                assert!(run.first && first + run.packs() == numbers.len() as u64);
                run.packs()
            });
            prop_assert_eq!((bench.fragments.runs.len() <= 1, gone + waiting), (true, numbers.len() as u64));
            prop_assert_eq!(bench.fragments.packs(), waiting);
        }
    }

    #[test]
    fn a_piece_between_two_runs_joins_them_and_each_piece_is_covered() {
        let mut bench = Bench::default();
        bench.put(8, FIRST);
        bench.put(9, MIDDLE);
        bench.put(11, MIDDLE);
        bench.put(12, LAST);
        bench.put(13, FIRST);
        let covered: Vec<_> = (6..16).filter(|n| bench.fragments.covers(*n)).collect();
        assert_eq!(covered, [8, 9, 11, 12, 13]);
        let (packet, doomed) = bench.put(10, MIDDLE);
        let packet = packet.unwrap();
        assert_eq!((packet.first, packet.last, doomed.len()), (8, 12, 0));
        assert_eq!(&packet.bytes[..], [8, 9, 10, 11, 12]);
        assert_eq!(bench.fragments.packs(), 1);
    }

    #[test]
    fn a_skipped_sibling_dooms_the_pieces_on_both_sides() {
        let mut bench = Bench::default();
        bench.put(0, FIRST);
        bench.put(2, LAST);
        bench.put(3, FIRST);
        bench.bitmap().skip_to(2);
        assert_eq!(bench.doomed(1, 1), [(0, 0), (2, 2)]);
        assert_eq!(bench.fragments.packs(), 1, "the next packet is none of it");
    }

    #[test]
    fn marks_that_contradict_each_other_doom_what_they_cut_off() {
        const WHOLE: PackFlags = flags(true, true);
        // (packs in order of arrival, what the last of them dooms)
        type Case = (&'static [(u64, PackFlags)], &'static [(u64, u64)]);
        let table: [Case; 6] = [
            (&[(0, MIDDLE)], &[(0, 0)]),
            (&[(4, WHOLE), (5, LAST)], &[(5, 5)]),
            (&[(5, LAST), (4, WHOLE)], &[(5, 5)]),
            (&[(4, FIRST), (5, WHOLE)], &[(4, 4)]),
            (&[(4, FIRST), (6, FIRST), (5, MIDDLE)], &[(4, 5)]),
            (&[(4, FIRST), (7, LAST), (5, LAST), (6, FIRST)], &[]),
        ];
        for (packs, expected) in table {
            let mut bench = Bench::default();
            let last = packs.iter().map(|(n, flags)| bench.put(*n, *flags)).last();
            assert_eq!(last.unwrap().1, expected, "{packs:?}");
        }
    }
}
