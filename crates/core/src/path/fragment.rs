//! Packets on a path whose datagrams are smaller than the packet.
//!
//! IPv6 promises every host 1,280 bytes, and QUIC promises only 1,200 of UDP
//! payload. Between the two, a packet of up to [`ALWAYS_CARRIED_LEN`] crosses in
//! pieces: PACKs of lane `flow` with consecutive numbers, the first and the last
//! marked, unordered. The pieces are of equal size, so that they fill
//! segmentation batches.
//!
//! The receiver holds pieces by number and looks for a whole run around each
//! arrival. Everything it holds is bounded by bytes and by age; a packet's
//! pieces are bounded by [`FRAGMENTS_MAX`], so no peer makes us search far.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quell_wire::frame::{Lane, Pack, PackFlags};

use crate::drops::DropReason;

/// An inner packet of this size always crosses: the IPv6 minimum MTU (RFC 8200 §5).
pub const ALWAYS_CARRIED_LEN: usize = 1_280;

/// Most pieces of one packet: 1,280 bytes in pieces of 160.
pub const FRAGMENTS_MAX: usize = 8;

/// What a piece costs us at the least, whatever its length: the bound on bytes
/// is a bound on pieces through it.
const PIECE_COST_BYTES: usize = 64;

/// One piece of a packet on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) number: u64,
    pub(crate) first: bool,
    pub(crate) last: bool,
    pub(crate) data: Bytes,
}

impl Piece {
    pub(crate) fn frame(&self) -> Pack<'_> {
        Pack {
            lane: Lane::FLOW,
            number: self.number,
            tx: self.number + 1,
            flags: PackFlags {
                first: self.first,
                last: self.last,
                unordered: true,
            },
            dep: 0,
            data: &self.data,
        }
    }
}

/// Cuts packets into numbered pieces.
#[derive(Debug, Default)]
pub(crate) struct Fragmenter {
    next_number: u64,
}

impl Fragmenter {
    /// Cuts `packet` so that each piece's frame takes at most `frame_len_max`
    /// bytes; `None` when that would need more than [`FRAGMENTS_MAX`] pieces.
    pub(crate) fn cut(&mut self, packet: &Bytes, frame_len_max: usize) -> Option<VecDeque<Piece>> {
        let piece_len_max = frame_len_max.checked_sub(self.header_len_max())?;
        if piece_len_max == 0 || packet.is_empty() {
            return None;
        }
        let count = packet.len().div_ceil(piece_len_max);
        if count > FRAGMENTS_MAX {
            return None;
        }
        let piece_len = packet.len().div_ceil(count);
        let starts = (0..packet.len()).step_by(piece_len);
        let pieces = starts.map(|start| {
            let end = packet.len().min(start + piece_len);
            let number = self.next_number;
            self.next_number += 1;
            Piece {
                number,
                first: start == 0,
                last: end == packet.len(),
                data: packet.slice(start..end),
            }
        });
        Some(pieces.collect())
    }

    /// Bytes of a PACK before its data, for the numbers about to be used.
    fn header_len_max(&self) -> usize {
        let number = self.next_number + FRAGMENTS_MAX as u64;
        let probe = Piece {
            number,
            first: true,
            last: true,
            data: Bytes::new(),
        };
        // The length field of an empty piece takes one byte, of any real one two.
        probe.frame().encoded_len() + 1
    }
}

#[derive(Debug)]
struct Held {
    first: bool,
    last: bool,
    data: Bytes,
    since: Instant,
}

/// Pieces that wait for the rest of their packet.
#[derive(Debug)]
pub(crate) struct Reassembly {
    held: BTreeMap<u64, Held>,
    /// Arrivals in order of time, for the age limit. Entries of pieces that
    /// left since are skipped.
    arrivals: VecDeque<(Instant, u64)>,
    bytes: usize,
    bytes_max: usize,
    age_max: Duration,
}

impl Reassembly {
    pub(crate) fn new(bytes_max: usize, age_max: Duration) -> Self {
        Self {
            held: BTreeMap::new(),
            arrivals: VecDeque::new(),
            bytes: 0,
            bytes_max,
            age_max,
        }
    }

    /// Takes a piece in; the packet, when this piece completes it.
    ///
    /// # Errors
    /// The reason why this one piece was dropped.
    pub(crate) fn insert(
        &mut self,
        pack: &Pack<'_>,
        data: Bytes,
        now: Instant,
    ) -> Result<Option<Complete>, DropReason> {
        if data.is_empty() {
            return Err(DropReason::FragmentInvalid);
        }
        if self.held.contains_key(&pack.number) {
            return Err(DropReason::FragmentDuplicate);
        }
        if self.bytes + data.len() > self.bytes_max
            || self.held.len() >= self.bytes_max / PIECE_COST_BYTES
        {
            return Err(DropReason::FragmentOverflow);
        }
        self.bytes += data.len();
        let piece = Held {
            first: pack.flags.first,
            last: pack.flags.last,
            data,
            since: now,
        };
        self.held.insert(pack.number, piece);
        self.arrivals.push_back((now, pack.number));
        self.forget_departed();
        Ok(self.complete(pack.number))
    }

    /// Drops pieces that waited too long; how many.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        while let Some((since, number)) = self.arrivals.front().copied() {
            let live = self
                .held
                .get(&number)
                .is_some_and(|held| held.since == since);
            if live && now.saturating_duration_since(since) < self.age_max {
                break;
            }
            self.arrivals.pop_front();
            if live {
                self.remove(number);
                expired += 1;
            }
        }
        expired
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.arrivals.front()?.0.checked_add(self.age_max)
    }

    /// Pieces held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Entries of departed pieces would pile up behind one that waits, so they
    /// are swept out once they outnumber the live ones. Those at the head, which
    /// would wake us for nothing, go with the next [`Reassembly::expire`].
    fn forget_departed(&mut self) {
        if self.arrivals.len() <= 2 * self.held.len() + 32 {
            return;
        }
        let held = &self.held;
        self.arrivals
            .retain(|(since, number)| held.get(number).is_some_and(|piece| piece.since == *since));
    }

    fn complete(&mut self, number: u64) -> Option<Complete> {
        let limit = FRAGMENTS_MAX as u64;
        let walk_back = (0..limit).map_while(|back| number.checked_sub(back));
        let first = self.run_end(walk_back, |held| held.first)?;
        let last = self.run_end(
            (0..limit).map_while(|ahead| first.checked_add(ahead)),
            |held| held.last,
        )?;
        if last < number {
            return None;
        }
        let pieces = last - first + 1;
        let mut packet = BytesMut::new();
        for number in first..=last {
            packet.extend_from_slice(&self.remove(number)?.data);
        }
        Some(Complete {
            packet: packet.freeze(),
            pieces,
        })
    }

    /// Walks along held numbers to the one that `ends` the run; `None` at a gap.
    fn run_end(
        &self,
        numbers: impl Iterator<Item = u64>,
        ends: impl Fn(&Held) -> bool,
    ) -> Option<u64> {
        for number in numbers {
            if ends(self.held.get(&number)?) {
                return Some(number);
            }
        }
        None
    }

    fn remove(&mut self, number: u64) -> Option<Held> {
        let held = self.held.remove(&number)?;
        self.bytes -= held.data.len();
        Some(held)
    }
}

/// A packet put together again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complete {
    pub(crate) packet: Bytes,
    pub(crate) pieces: u64,
}

#[cfg(test)]
#[path = "fragment_tests.rs"]
mod tests;
