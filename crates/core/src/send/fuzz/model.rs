//! What the sender is held against: every pack by number, and a peer that tells the truth.

use std::collections::BTreeSet;

use quell_wire::frame::{AckRange, Credit, LaneProbe, PackFlags, Skip};
use quell_wire::registry::{ACK_RANGES_MAX, BITMAP_NUMBERS};

use super::super::{SendCounters, Transmit};
use super::is_guess;

/// The payload of a number.
pub(super) fn content(number: u64, len: usize) -> Vec<u8> {
    let byte = |at: usize| (number as usize).wrapping_mul(37).wrapping_add(at) as u8;
    (0..len).map(byte).collect()
}

#[derive(Debug)]
struct Record {
    flags: PackFlags,
    dep: u16,
    len: usize,
    /// Payload of all numbers up to and with this one.
    bytes_to: u64,
    sends: u8,
    settled: bool,
}

/// Every pack that was accepted.
#[derive(Debug)]
pub(super) struct Model {
    sends_max: u8,
    credit: Credit,
    records: Vec<Record>,
    acked: u64,
    next_tx: u64,
    silence_bytes: u64,
    /// The last hand-over, should it be refused.
    last_guess_bytes: u64,
    farthest_skip: Option<(u64, u64)>,
}

impl Model {
    pub(super) fn new(sends_max: u8, credit: Credit) -> Self {
        Self {
            sends_max,
            credit,
            records: Vec::new(),
            acked: 0,
            next_tx: 1,
            silence_bytes: 0,
            last_guess_bytes: 0,
            farthest_skip: None,
        }
    }

    /// The next number.
    pub(super) fn end(&self) -> u64 {
        self.records.len() as u64
    }

    pub(super) fn len(&self, number: u64) -> usize {
        self.records[number as usize].len
    }

    pub(super) fn next_tx(&self) -> u64 {
        self.next_tx
    }

    /// Payload that was sent into silences.
    pub(super) fn silence_bytes(&self) -> u64 {
        self.silence_bytes
    }

    pub(super) fn accepted(&mut self, number: u64, flags: PackFlags, dep: u16, len: usize) {
        assert_eq!(number, self.end());
        let before = self.records.last().map_or(0, |record| record.bytes_to);
        self.records.push(Record {
            flags,
            dep,
            len,
            bytes_to: before + len as u64,
            sends: 0,
            settled: false,
        });
        assert!(self.end() <= self.credit.max_number, "beyond the credit");
        assert!(
            before + len as u64 <= self.credit.max_bytes,
            "beyond the credit"
        );
    }

    pub(super) fn granted(&mut self, credit: Credit) {
        self.credit.max_bytes = self.credit.max_bytes.max(credit.max_bytes);
        self.credit.max_number = self.credit.max_number.max(credit.max_number);
    }

    pub(super) fn sent(&mut self, transmit: &Transmit<'_>) {
        let pack = transmit.pack;
        let record = &mut self.records[pack.number as usize];
        assert!(!record.settled, "{pack:?} is settled");
        assert_eq!((pack.flags, pack.dep), (record.flags, record.dep.into()));
        assert_eq!(
            pack.data,
            content(pack.number, record.len),
            "{}",
            pack.number
        );
        assert_eq!(pack.tx, self.next_tx, "a tx that does not count up by one");
        self.next_tx += 1;
        record.sends += 1;
        assert!(record.sends <= self.sends_max, "R-10: {pack:?}");
        self.last_guess_bytes = if is_guess(transmit.kind) {
            record.len as u64
        } else {
            0
        };
        self.silence_bytes += self.last_guess_bytes;
    }

    /// The last hand-over never happened.
    pub(super) fn refused(&mut self, number: u64) {
        self.records[number as usize].sends -= 1;
        self.silence_bytes -= self.last_guess_bytes;
    }

    pub(super) fn probed(&mut self, probe: &LaneProbe) {
        assert_eq!(probe.tx, self.next_tx);
        assert!(probe.largest_number < self.end().max(1));
        self.next_tx += 1;
    }

    pub(super) fn acked(&mut self, cumulative: u64, ranges: &[AckRange]) {
        let below = (0, cumulative);
        let spans = ranges.iter().map(|range| (range.first, range.last + 1));
        for (first, end) in std::iter::once(below).chain(spans) {
            for record in &mut self.records[first as usize..end as usize] {
                record.settled = true;
            }
        }
    }

    pub(super) fn skipped(&mut self, skip: &Skip) {
        let record = &self.records[skip.up_to as usize];
        assert_eq!(skip.bytes_up_to, record.bytes_to, "{skip:?}");
        let said = Some((skip.up_to, skip.bytes_up_to));
        assert!(said >= self.farthest_skip, "{skip:?} goes back");
        self.farthest_skip = said;
        for record in &mut self.records[..=skip.up_to as usize] {
            record.settled = true;
        }
    }

    pub(super) fn check(&self, counters: &SendCounters) {
        let accepted = self.end();
        assert_eq!(counters.accepted, accepted);
        assert!(counters.acked >= self.acked && counters.in_flight <= accepted);
        let sends: u64 = self.records.iter().map(|r| u64::from(r.sends)).sum();
        let counted = counters.first_sends + counters.evidence_resends + counters.silence_resends;
        assert_eq!(counted, sends, "{counters:?}");
    }
}

/// A receiver that tells the truth, and grants what its application took: all of it.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    cumulative: u64,
    above: BTreeSet<u64>,
    largest_tx: u64,
    duplicate: Option<u64>,
    window: Credit,
    credit: Credit,
    bytes: u64,
}

impl Peer {
    pub(super) fn new(window: Credit) -> Self {
        Self {
            cumulative: 0,
            above: BTreeSet::new(),
            largest_tx: 0,
            duplicate: None,
            window,
            credit: window,
            bytes: 0,
        }
    }

    pub(super) fn receive(&mut self, number: u64, tx: u64, len: usize) {
        self.see(tx);
        if number < self.cumulative || !self.above.insert(number) {
            self.duplicate = Some(tx);
            return;
        }
        self.bytes += len as u64;
        assert!(
            number < self.cumulative + BITMAP_NUMBERS,
            "beyond the bitmap"
        );
        self.advance();
    }

    pub(super) fn see(&mut self, tx: u64) {
        self.largest_tx = self.largest_tx.max(tx);
    }

    pub(super) fn skip(&mut self, up_to: u64) {
        self.cumulative = self.cumulative.max(up_to + 1);
        self.above = self.above.split_off(&self.cumulative);
        self.advance();
    }

    fn advance(&mut self) {
        while self.above.remove(&self.cumulative) {
            self.cumulative += 1;
        }
    }

    /// Grants a window beyond what came.
    pub(super) fn grant(&mut self) {
        self.credit.max_bytes = self.window.max_bytes.saturating_add(self.bytes);
        self.credit.max_number = self.window.max_number.saturating_add(self.cumulative);
    }

    pub(super) fn credit(&self) -> Credit {
        self.credit
    }

    pub(super) fn cumulative(&self) -> u64 {
        self.cumulative
    }

    pub(super) fn largest_tx(&self) -> u64 {
        self.largest_tx
    }

    pub(super) fn duplicate(&self) -> Option<u64> {
        self.duplicate
    }

    pub(super) fn ranges(&self) -> Vec<AckRange> {
        let mut ranges: Vec<AckRange> = Vec::new();
        for &number in &self.above {
            match ranges.last_mut() {
                Some(range) if range.last + 1 == number => range.last = number,
                _ => ranges.push(AckRange {
                    first: number,
                    last: number,
                }),
            }
        }
        ranges.truncate(ACK_RANGES_MAX);
        ranges
    }
}
