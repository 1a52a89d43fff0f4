//! Receipts on their way to the disk.
//!
//! A receipt gives credit once it is durable, so what counts is how soon a batch is written. There is one batch in
//! flight; what comes meanwhile gathers, the latest receipt of a contract in the place of the one before, and is the
//! next batch: a slow disk makes batches larger, not queues longer.
//!
//! ```text
//! note ──> gathering ──poll_persist──> in flight ──on_persisted──> durable: credit, filing
//!              ^                           │
//!              '──── on_persist_failed ────'   waits 1, 2, 4 … 30 s; sessions pause at their limit, nothing is lost
//! ```
//!
//! A batch that failed may be on the disk or not; it is written again with whatever came later. Totals never fall, so
//! writing a record twice changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use quell_wire::contract::{CONTRACT_LEN, ContractId, RECEIPT_LEN, SignedContract, SignedReceipt};
use rand::rngs::SmallRng;

use crate::health::Backoff;
use crate::health::backoff::after;

/// Most records of one batch: 350 KiB.
pub const BATCH_MAX: usize = 1_024;

/// What a store keeps of a contract, by its id: the latest receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The contract's signed form: a backend needs it to know what the receipt is worth.
    pub contract: [u8; CONTRACT_LEN],
    /// The receipt's signed form.
    pub receipt: [u8; RECEIPT_LEN],
    /// How many bytes the backend has settled, or refused for good; a receipt of no more is not filed again.
    pub filed_total: u64,
}

impl Record {
    /// Which contract, and how many bytes the receipt says; `None` where the bytes are none of the forms.
    #[must_use]
    pub fn key(&self) -> Option<(ContractId, u64)> {
        let contract = SignedContract::decode(&self.contract).ok()?;
        let receipt = SignedReceipt::decode(&self.receipt).ok()?;
        let id = contract.terms.contract_id;
        (receipt.terms.contract_id == id).then_some((id, receipt.terms.bytes_total))
    }
}

/// What is to be written in one transaction, and synced before it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Answers name it.
    pub id: u64,
    /// To be stored, each in the place of the record of the same contract.
    pub records: Vec<(ContractId, Record)>,
    /// To be deleted.
    pub forgotten: Vec<ContractId>,
    /// To be stored in the place of the one before, in the same transaction: see [`Stored::floor_s`]. It never falls.
    pub floor_s: u64,
}

/// What a store gives back at a start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The latest of each contract.
    pub records: Vec<Record>,
    /// Contracts that end no later than this, in seconds since 1970 UTC, are refused: records of them may be gone.
    pub floor_s: u64,
}

#[derive(Debug, Clone, Copy)]
struct Noted {
    record: Record,
    total: u64,
}

/// The way to the disk.
#[derive(Debug)]
pub struct Journal {
    gathering: BTreeMap<ContractId, Noted>,
    forgetting: BTreeSet<ContractId>,
    floor_s: u64,
    /// No batch that is durable has it yet.
    floor_due: bool,
    in_flight: Option<Batch>,
    next_id: u64,
    backoff: Backoff,
    not_before: Option<Instant>,
    rng: SmallRng,
    failures: u64,
}

impl Journal {
    /// A way with nothing on it.
    #[must_use]
    pub fn new(rng: SmallRng) -> Self {
        let (base, max) = (Duration::from_secs(1), Duration::from_secs(30));
        Self {
            gathering: BTreeMap::new(),
            forgetting: BTreeSet::new(),
            floor_s: 0,
            floor_due: false,
            in_flight: None,
            next_id: 0,
            backoff: Backoff::new(base, max, 0.75, 1.25),
            not_before: None,
            rng,
            failures: 0,
        }
    }

    /// A record is to be durable. A lower total than one that waits changes no more than how much of it is filed.
    pub fn note(&mut self, id: ContractId, record: Record, total: u64) {
        self.forgetting.remove(&id);
        let noted = self.gathering.entry(id).or_insert(Noted { record, total });
        let filed_total = noted.record.filed_total.max(record.filed_total);
        if total >= noted.total {
            *noted = Noted { record, total };
        }
        noted.record.filed_total = filed_total;
    }

    /// Nothing more comes of a contract: its record may go.
    pub fn forget(&mut self, id: ContractId) {
        self.gathering.remove(&id);
        self.forgetting.insert(id);
    }

    /// Contracts that end no later than this are refused from here on, after a restart too. A lower one changes nothing.
    pub fn raise_floor(&mut self, floor_s: u64) {
        self.floor_due |= floor_s > self.floor_s;
        self.floor_s = self.floor_s.max(floor_s);
    }

    /// What is to be written next; nothing while a batch is in flight, or the disk rests from a failure.
    pub fn poll_persist(&mut self, now: Instant) -> Option<Batch> {
        let rests = self.not_before.is_some_and(|until| now < until);
        if self.in_flight.is_some() || rests || !self.has_something() {
            return None;
        }
        let mut records = Vec::new();
        while records.len() < BATCH_MAX
            && let Some((id, noted)) = self.gathering.pop_first()
        {
            records.push((id, noted.record));
        }
        let mut forgotten = Vec::new();
        while forgotten.len() < BATCH_MAX
            && let Some(id) = self.forgetting.pop_first()
        {
            forgotten.push(id);
        }
        let id = self.next_id;
        self.next_id += 1;
        let batch = Batch {
            id,
            records,
            forgotten,
            floor_s: self.floor_s,
        };
        self.floor_due = false;
        self.in_flight = Some(batch.clone());
        Some(batch)
    }

    /// The batch is durable. Its records, for credit and filing; none for an id that is not in flight.
    pub fn on_persisted(&mut self, id: u64) -> Vec<(ContractId, Record)> {
        let Some(batch) = self.in_flight.take_if(|batch| batch.id == id) else {
            return Vec::new();
        };
        self.backoff.succeeded();
        self.not_before = None;
        batch.records
    }

    /// The batch may not be durable: it is written again, later.
    pub fn on_persist_failed(&mut self, id: u64, now: Instant) {
        let Some(batch) = self.in_flight.take_if(|batch| batch.id == id) else {
            return;
        };
        self.failures = self.failures.saturating_add(1);
        for (id, record) in batch.records {
            if !self.forgetting.contains(&id) {
                let total = record.key().map_or(0, |(_, total)| total);
                self.note(id, record, total);
            }
        }
        let came_back = |id: &ContractId| !self.gathering.contains_key(id);
        let forgotten: Vec<_> = batch.forgotten.into_iter().filter(came_back).collect();
        self.forgetting.extend(forgotten);
        self.floor_due = true;
        self.not_before = Some(after(now, self.backoff.failed(&mut self.rng)));
    }

    fn has_something(&self) -> bool {
        !self.gathering.is_empty() || !self.forgetting.is_empty() || self.floor_due
    }

    /// When [`Journal::poll_persist`] has something, if that is a matter of time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let idle = self.in_flight.is_none() && self.has_something();
        self.not_before.filter(|_| idle)
    }

    /// Whether [`Journal::poll_persist`] has something at `now`.
    #[must_use]
    pub fn is_ready(&self, now: Instant) -> bool {
        let rests = self.not_before.is_some_and(|until| now < until);
        self.in_flight.is_none() && !rests && self.has_something()
    }

    /// Records that wait, and batches that failed so far.
    #[must_use]
    pub fn counters(&self) -> (usize, u64) {
        let in_flight = self.in_flight.as_ref().map_or(0, |b| b.records.len());
        (self.gathering.len() + in_flight, self.failures)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::*;
    use super::*;
    use rand::SeedableRng as _;

    fn journal() -> Journal {
        Journal::new(SmallRng::seed_from_u64(1))
    }

    fn note(journal: &mut Journal, of: u8, total: u64) {
        let contract = contract(of, 1 << 20);
        let record = Record {
            contract: contract.encode(),
            receipt: receipt(&contract.terms, total).try_into().unwrap(),
            filed_total: 0,
        };
        journal.note(contract.terms.contract_id, record, total);
    }

    fn totals(batch: &Batch) -> Vec<u64> {
        let total = |(_, record): &(ContractId, Record)| record.key().unwrap().1;
        batch.records.iter().map(total).collect()
    }

    #[test]
    fn one_batch_is_in_flight_and_the_latest_receipt_of_each_contract_rides_the_next() {
        let (mut journal, now) = (journal(), Instant::now());
        assert_eq!(journal.poll_persist(now), None);
        note(&mut journal, 1, 10);
        let first = journal.poll_persist(now).unwrap();
        assert_eq!(totals(&first), [10]);
        for total in [20, 40, 30] {
            note(&mut journal, 1, total);
        }
        note(&mut journal, 2, 5);
        assert_eq!(journal.poll_persist(now), None, "one is in flight");
        assert_eq!(journal.on_persisted(first.id + 1), [], "another's answer");
        assert_eq!(journal.on_persisted(first.id), first.records);
        assert_eq!(journal.on_persisted(first.id), [], "answered twice");
        assert_eq!(totals(&journal.poll_persist(now).unwrap()), [40, 5]);
    }

    #[test]
    fn a_batch_that_failed_is_written_again_later_and_nothing_is_lost_or_falls() {
        // A full disk.
        let (mut journal, now) = (journal(), Instant::now());
        note(&mut journal, 1, 10);
        note(&mut journal, 2, 7);
        let batch = journal.poll_persist(now).unwrap();
        note(&mut journal, 1, 20);
        journal.on_persist_failed(batch.id, now);
        assert_eq!(journal.poll_persist(now), None, "it rests");
        let due = journal.poll_timeout().unwrap();
        assert!(due >= now + Duration::from_millis(750) && due <= now + Duration::from_secs(2));
        let again = journal.poll_persist(due).unwrap();
        assert_eq!(totals(&again), [20, 7]);
        journal.on_persist_failed(again.id, due);
        let later = journal.poll_timeout().unwrap();
        assert!(
            later >= due + Duration::from_millis(1_500),
            "it waits longer"
        );
        assert_eq!(journal.counters(), (2, 2));
        let last = journal.poll_persist(later).unwrap();
        assert_eq!(journal.on_persisted(last.id).len(), 2);
        assert_eq!(journal.poll_timeout(), None);
    }

    #[test]
    fn a_batch_is_bounded() {
        let (mut journal, now) = (journal(), Instant::now());
        let record = Record {
            contract: contract(1, 1).encode(),
            receipt: [0; RECEIPT_LEN],
            filed_total: 0,
        };
        for id in 0..=u16::try_from(BATCH_MAX).unwrap() {
            let mut name = [0; 16];
            name[..2].copy_from_slice(&id.to_be_bytes());
            journal.note(ContractId(name), record, 1);
        }
        let batch = journal.poll_persist(now).unwrap();
        assert_eq!(batch.records.len(), BATCH_MAX);
        journal.on_persisted(batch.id);
        assert_eq!(journal.poll_persist(now).unwrap().records.len(), 1);
    }

    #[test]
    fn what_is_forgotten_is_deleted_unless_a_receipt_comes_after() {
        let (mut journal, now) = (journal(), Instant::now());
        let id = contract(1, 1).terms.contract_id;
        note(&mut journal, 1, 10);
        journal.forget(id);
        let batch = journal.poll_persist(now).unwrap();
        assert_eq!(
            (batch.records.len(), batch.forgotten.as_slice()),
            (0, &[id][..])
        );
        note(&mut journal, 1, 20);
        journal.on_persist_failed(batch.id, now);
        let later = journal.poll_timeout().unwrap();
        let again = journal.poll_persist(later).unwrap();
        assert_eq!((totals(&again), again.forgotten.len()), (vec![20], 0));
    }
}
