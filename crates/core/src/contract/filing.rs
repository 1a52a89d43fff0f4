//! Receipts on their way to the backend.
//!
//! What is filed is durable here first, so a backend never knows more than this provider would after a crash. Per
//! contract the latest total alone is of interest, and it never falls: filing it twice, in any order, or in parts
//! changes nothing, which is all that "exactly once in effect" takes.
//!
//! ```text
//! durable ──> to file ──request (≤ 256, one in flight)──> settled: done up to that total
//!                ^                   │                 └─> refused: counted, logged, not filed again
//!                '───── failed ──────'
//! ```
//!
//! When a request may go is said by the backend's health, the same for all who ask (DESIGN §5), and by
//! `filing_interval`, so that clients who sign each second do not make a request each second. An outage makes nothing
//! grow: one record a contract is kept, and how many contracts there are is bounded by the books.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quell_wire::contract::ContractId;

use super::asked::{self, AskEnd, RefusedFor};
use super::journal::Record;
use crate::health::BackendHealth;
use crate::health::backend::Attempt;
use crate::health::backoff::after;

/// Most receipts of one request.
pub const FILED_MAX: usize = 256;

/// Receipts for the backend, in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilingRequest {
    /// Answers name it.
    pub id: u64,
    /// 1 to [`FILED_MAX`].
    pub receipts: Vec<Record>,
}

/// What became of one receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filed {
    /// The contract's total is durable at the backend at this many bytes.
    Settled(u64),
    /// It counts for nothing, and why.
    Refused(RefusedFor),
}

/// A contract's filed total moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Of which contract.
    pub id: ContractId,
    /// Its record, with the total up to which it is done.
    pub record: Record,
    /// What the receipt says.
    pub total: u64,
    /// It was refused, for this.
    pub refused: Option<RefusedFor>,
}

#[derive(Debug)]
struct InFlight {
    id: u64,
    attempt: Attempt,
    of: Vec<(ContractId, u64)>,
}

/// The way to the backend.
#[derive(Debug)]
pub struct Filing {
    to_file: BTreeMap<ContractId, (Record, u64)>,
    in_flight: Option<InFlight>,
    interval: Duration,
    not_before: Option<Instant>,
    next_id: u64,
    /// Where the next request begins, so that none waits behind those before it in the order of ids.
    turn: Option<ContractId>,
    settled: u64,
    refused: BTreeMap<RefusedFor, u64>,
}

impl Filing {
    /// Files at most each `interval`, but for what fills requests.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self {
            to_file: BTreeMap::new(),
            in_flight: None,
            interval,
            not_before: None,
            next_id: 0,
            turn: None,
            settled: 0,
            refused: BTreeMap::new(),
        }
    }

    /// A receipt is durable here. Nothing happens when the backend has as much.
    pub fn on_durable(&mut self, id: ContractId, record: Record, total: u64) {
        if total <= record.filed_total {
            return;
        }
        let entry = self.to_file.entry(id).or_insert((record, total));
        let filed_total = entry.0.filed_total.max(record.filed_total);
        if total >= entry.1 {
            *entry = (record, total);
        }
        entry.0.filed_total = filed_total;
    }

    /// The next request. `None`: nothing to file, one is in flight, or not yet: see [`Filing::poll_timeout`].
    pub fn poll_request(&mut self, health: &BackendHealth, now: Instant) -> Option<FilingRequest> {
        let rests = self.not_before.is_some_and(|until| now < until);
        if self.in_flight.is_some() || self.to_file.is_empty() || rests {
            return None;
        }
        let attempt = match asked::admit(health, now) {
            Ok(attempt) => attempt,
            Err(wait) => {
                self.not_before = Some(wait.until.max(now));
                return None;
            }
        };
        let of = self.next_in_turn();
        let receipts = of
            .iter()
            .filter_map(|(id, _)| Some(self.to_file.get(id)?.0));
        let receipts = receipts.collect();
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight = Some(InFlight { id, attempt, of });
        Some(FilingRequest { id, receipts })
    }

    fn next_in_turn(&mut self) -> Vec<(ContractId, u64)> {
        let turn = self.turn.unwrap_or(ContractId([0; 16]));
        let (before, from) = (self.to_file.range(..turn), self.to_file.range(turn..));
        let in_turn = from.chain(before).map(|(id, (_, total))| (*id, *total));
        let mut of: Vec<_> = in_turn.take(FILED_MAX + 1).collect();
        self.turn = of.get(FILED_MAX).map(|(id, _)| *id);
        of.truncate(FILED_MAX);
        of
    }

    /// The backend answered the request: one outcome a receipt, in their order. Another number of outcomes is no answer.
    /// What moved is to be noted in the journal.
    pub fn on_answer(
        &mut self,
        id: u64,
        outcomes: &[Filed],
        health: &BackendHealth,
        now: Instant,
    ) -> Vec<Moved> {
        let Some(asked) = self.in_flight.take_if(|asked| asked.id == id) else {
            return Vec::new();
        };
        if outcomes.len() != asked.of.len() {
            self.end(asked.attempt, AskEnd::Failed, health, now);
            return Vec::new();
        }
        health.succeeded(asked.attempt, now);
        self.rest(now);
        let pairs = asked.of.into_iter().zip(outcomes);
        pairs
            .filter_map(|((id, total), outcome)| self.settle(id, total, outcome))
            .collect()
    }

    fn settle(&mut self, id: ContractId, asked: u64, outcome: &Filed) -> Option<Moved> {
        let (record, total) = self.to_file.get_mut(&id)?;
        let (done_to, refused) = match outcome {
            Filed::Settled(total) => {
                self.settled = self.settled.saturating_add(1);
                (*total, None)
            }
            Filed::Refused(reason) => {
                let count = self.refused.entry(*reason).or_default();
                *count = count.saturating_add(1);
                (asked, Some(*reason))
            }
        };
        record.filed_total = record.filed_total.max(done_to);
        let moved = Moved {
            id,
            record: *record,
            total: *total,
            refused,
        };
        if *total <= record.filed_total {
            self.to_file.remove(&id);
        }
        Some(moved)
    }

    /// The request got no answer that says what became of its receipts. They are filed again, when the backend's health
    /// lets them; even when the whole was refused, since that says nothing of any of them.
    pub fn on_ended(&mut self, id: u64, end: AskEnd, health: &BackendHealth, now: Instant) {
        if let Some(asked) = self.in_flight.take_if(|asked| asked.id == id) {
            self.end(asked.attempt, end, health, now);
        }
    }

    fn end(&mut self, attempt: Attempt, end: AskEnd, health: &BackendHealth, now: Instant) {
        if let AskEnd::Refused(reason) = end {
            let count = self.refused.entry(reason).or_default();
            *count = count.saturating_add(1);
        }
        asked::report(health, attempt, end, now);
        self.rest(now);
    }

    /// The next request is some time away, unless more waits than one holds.
    fn rest(&mut self, now: Instant) {
        let full = self.turn.is_some();
        self.not_before = (!full).then(|| after(now, self.interval));
    }

    /// When [`Filing::poll_request`] may have something.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let waits = self.in_flight.is_none() && !self.to_file.is_empty();
        waits.then(|| self.not_before.unwrap_or(now))
    }

    /// Whether the contract's latest receipt is with the backend.
    #[must_use]
    pub fn is_filed(&self, id: &ContractId) -> bool {
        !self.to_file.contains_key(id)
    }

    /// Contracts that wait, and receipts settled so far.
    #[must_use]
    pub fn counters(&self) -> (usize, u64) {
        (self.to_file.len(), self.settled)
    }

    /// Refusals so far, by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (RefusedFor, u64)> {
        self.refused.iter().map(|(reason, count)| (*reason, *count))
    }
}

#[cfg(test)]
mod tests;
