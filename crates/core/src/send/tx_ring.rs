//! The lane's transmissions in order: which pack each was, and when it left.
//!
//! A number says what arrived, a `tx` says *which send* of it; RTT samples and
//! evidence of loss are drawn from `tx` alone (RFC 8985), so a resend never blurs
//! them (Karn). PINGs take a `tx` too.
//!
//! ```text
//!   forgotten | history (256)  | undecided: not yet judged lost or delivered | next
//! ```
//!
//! `undecided` moves only forward, so each transmission is judged once. What lies
//! behind it is kept a little longer, to tell whose fault a duplicate was. The
//! ring is bounded: when nothing is acknowledged for long, the oldest are
//! forgotten, and their packs are left to the silence timer, which is what
//! finds them then anyway.

use std::collections::VecDeque;
use std::time::Instant;

use super::resend_queue::Kind;

/// Judged transmissions that are remembered: some 8 ACKs of 8 packs and their resends.
const HISTORY: usize = 256;

/// What was sent under a `tx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A pack.
    Pack {
        number: u64,
        /// Its transmission before this one, 0 for none.
        previous: u64,
        kind: Kind,
        len: u32,
    },
    /// A PING.
    Probe,
    /// Nothing: the hand-over was refused.
    Refused,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Transmission {
    pub(crate) sent: Sent,
    pub(crate) departed: Option<Instant>,
    /// The pack was sent again after this transmission.
    pub(crate) superseded: bool,
}

#[derive(Debug)]
pub(crate) struct TxRing {
    /// The `tx` of the first entry; they begin with 1.
    base: u64,
    entries: VecDeque<Transmission>,
    undecided: u64,
    len_max: usize,
}

impl TxRing {
    /// A ring for a lane of at most `numbers_max` outstanding packs.
    pub(crate) fn new(numbers_max: usize) -> Self {
        Self {
            base: 1,
            entries: VecDeque::new(),
            undecided: 1,
            len_max: 2 * numbers_max + HISTORY,
        }
    }

    /// The `tx` of the next transmission.
    pub(crate) fn next(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// The first transmission that was not judged.
    pub(crate) fn undecided(&self) -> u64 {
        self.undecided.max(self.base)
    }

    pub(crate) fn decide(&mut self, tx: u64) {
        self.undecided = self.undecided.max(tx + 1);
        self.trim();
    }

    /// Bytes of memory held.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Transmission>()
    }

    pub(crate) fn push(&mut self, sent: Sent) -> u64 {
        let tx = self.next();
        if let Sent::Pack { previous, .. } = sent
            && let Some(before) = self.entry_mut(previous)
        {
            before.superseded = true;
        }
        self.entries.push_back(Transmission {
            sent,
            departed: None,
            superseded: false,
        });
        self.trim();
        tx
    }

    pub(crate) fn entry(&self, tx: u64) -> Option<&Transmission> {
        let index = usize::try_from(tx.checked_sub(self.base)?).ok()?;
        self.entries.get(index)
    }

    pub(crate) fn entry_mut(&mut self, tx: u64) -> Option<&mut Transmission> {
        let index = usize::try_from(tx.checked_sub(self.base)?).ok()?;
        self.entries.get_mut(index)
    }

    fn trim(&mut self) {
        let floor = self.undecided.saturating_sub(HISTORY as u64);
        while self.base < floor || self.entries.len() > self.len_max {
            self.entries.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pack(number: u64) -> Sent {
        Sent::Pack {
            number,
            previous: 0,
            kind: Kind::First,
            len: 1,
        }
    }

    #[test]
    fn it_counts_from_one_and_never_holds_more_than_its_bound() {
        let mut ring = TxRing::new(16);
        for number in 0..10_000 {
            assert_eq!(ring.push(pack(number)), number + 1);
        }
        assert_eq!(ring.entries.len(), 2 * 16 + HISTORY);
        assert_eq!(ring.entry(10_000).unwrap().sent, pack(9_999));
        assert!(ring.entry(1).is_none() && ring.entry(10_001).is_none());
        assert_eq!(ring.undecided(), 10_001 - (2 * 16 + HISTORY as u64));
    }

    #[test]
    fn what_was_judged_is_kept_for_a_while_and_then_forgotten() {
        let mut ring = TxRing::new(8_192);
        for number in 0..1_000 {
            ring.push(pack(number));
            ring.decide(number + 1);
        }
        assert_eq!(ring.entries.len(), HISTORY);
        assert_eq!(ring.next(), 1_001);
    }

    #[test]
    fn a_resend_marks_the_transmission_before_it() {
        let mut ring = TxRing::new(16);
        let first = ring.push(pack(0));
        ring.push(pack(1));
        ring.push(Sent::Pack {
            number: 0,
            previous: first,
            kind: Kind::Evidence,
            len: 1,
        });
        assert!(ring.entry(1).unwrap().superseded);
        assert!(!ring.entry(2).unwrap().superseded);
        assert!(!ring.entry(3).unwrap().superseded);
    }
}
