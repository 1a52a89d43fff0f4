//! All of a provider's contracts and receipts: accounts, what is on the way to the disk, what is on the way to the
//! backend.
//!
//! ```text
//! CONTRACT ──verify──> account <──admit── packets
//! RECEIPT ───verify──> account ──> journal ──durable──> account (credit)
//!                                     │
//!                                     └──durable──> filing ──settled──> journal (how much is filed)
//! ```
//!
//! An account belongs to a key and outlives its sessions, so that nobody sheds a debt by connecting anew, and no
//! contract gives its bytes twice. It goes when nothing can come of its contracts any more, a day after the last of them
//! ended ([`KEPT_S`]); what ended by then is refused for good by `floor_s`, whatever the wall clock says later. What is on
//! disk goes with it, if the backend has it, and `floor_s` goes to the disk no later than that: a clock that jumped and a
//! restart together make no contract begin anew.
//!
//! How many contracts are remembered is bounded: one more is refused, and the client told why.
//!
//! A driver writes what [`Books::poll_persist`] gives and files what [`Books::poll_filing`] gives, one of each at a time;
//! [`Books::poll_changed`] names the keys whose verdict another look may change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use quell_wire::contract::{ContractId, ContractTerms, SignedContract, SignedReceipt};
use quell_wire::key::PublicKey;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use serde::Serialize;

use super::account::{Account, Meter, Terms, Verdict, ends_for_good_s};
use super::asked::{AskEnd, RefusedFor};
use super::filing::{Filed, Filing, FilingRequest};
use super::grace::Grace;
use super::journal::{Batch, Journal, Record, Stored};
use super::verify::{ContractRefusal, ReceiptRefusal, Verifier};
use super::wall::Wall;
use crate::config::ContractsConfig;
use crate::health::BackendHealth;

/// How long a contract is remembered after its end, in seconds: a clock that was an hour ahead for a while, and set
/// back, finds it.
pub const KEPT_S: u64 = 86_400;
/// How often what is over is looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

/// A snapshot, for status and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BooksStatus {
    /// Keys with contracts.
    pub accounts: usize,
    /// Contracts that are remembered.
    pub contracts: usize,
    /// Receipts on the way to the disk.
    pub to_persist: usize,
    /// Batches that could not be written.
    pub persist_failures: u64,
    /// Contracts whose last receipt the backend does not have.
    pub to_file: usize,
    /// Receipts that the backend settled.
    pub settled: u64,
    /// Contracts and receipts that were refused here, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Receipts that the backend refused, by reason.
    pub refused_by_backend: BTreeMap<&'static str, u64>,
    /// Outages of the backend so far.
    pub outages: u64,
    /// Bytes of grace given in this outage, or the last.
    pub grace_bytes: u64,
}

/// What a restart found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Records that are in force again.
    pub taken: usize,
    /// Records that are no contract of this provider's, or more than may be.
    pub refused: usize,
}

/// The books of a provider.
#[derive(Debug)]
pub struct Books {
    config: ContractsConfig,
    verifier: Verifier,
    wall: Wall,
    accounts: HashMap<PublicKey, Account>,
    /// Whose the contracts in hand are, and until when each is remembered.
    owners: HashMap<ContractId, (PublicKey, u64)>,
    floor_s: u64,
    grace: Grace,
    journal: Journal,
    filing: Filing,
    changed: BTreeSet<PublicKey>,
    sweep_at: Option<Instant>,
    refused: BTreeMap<&'static str, u64>,
}

impl Books {
    /// Empty books of a provider that honours what `verifier` does. It is `wall_s` seconds after 1970 UTC.
    #[must_use]
    pub fn new(
        config: ContractsConfig,
        verifier: Verifier,
        seed: u64,
        wall_s: u64,
        now: Instant,
    ) -> Self {
        Self {
            grace: Grace::new(config.grace_bytes_max),
            journal: Journal::new(SmallRng::seed_from_u64(seed)),
            filing: Filing::new(config.filing_interval),
            config,
            verifier,
            wall: Wall::new(wall_s, now),
            accounts: HashMap::new(),
            owners: HashMap::new(),
            floor_s: 0,
            changed: BTreeSet::new(),
            sweep_at: None,
            refused: BTreeMap::new(),
        }
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &ContractsConfig {
        &self.config
    }

    /// Takes up what a store kept. To be said once, before any session.
    pub fn restore(&mut self, stored: Stored) -> Restored {
        self.raise_floor(stored.floor_s);
        let mut restored = Restored::default();
        for record in stored.records {
            let taken = self.restore_one(&record);
            restored.taken += usize::from(taken);
            restored.refused += usize::from(!taken);
        }
        restored
    }

    fn restore_one(&mut self, record: &Record) -> bool {
        // The signing key may have been dropped since: what is durable was verified then, and is filed all the same.
        let contract = SignedContract::decode(&record.contract);
        let receipt = SignedReceipt::decode(&record.receipt);
        let (Ok(contract), Ok(receipt)) = (contract, receipt) else {
            return false;
        };
        let (id, total) = (receipt.terms.contract_id, receipt.terms.bytes_total);
        let own = contract.terms.provider_key == self.verifier.provider_key;
        let full = self.owners.len() >= self.config.contracts_max;
        if !own || full || id != contract.terms.contract_id || self.owners.contains_key(&id) {
            return false;
        }
        let key = contract.terms.client_key;
        self.remember(&contract.terms);
        let account = self.accounts.entry(key).or_default();
        account.restore(&contract, record, total);
        self.filing.on_durable(id, *record, total);
        true
    }

    fn raise_floor(&mut self, floor_s: u64) {
        self.floor_s = self.floor_s.max(floor_s);
        self.journal.raise_floor(self.floor_s);
    }

    fn remember(&mut self, terms: &ContractTerms) {
        let ends_s = ends_for_good_s(terms, self.config.clock_skew.as_secs());
        let until = ends_s.saturating_add(KEPT_S);
        self.owners
            .insert(terms.contract_id, (terms.client_key, until));
    }

    /// It is `wall_s` seconds after 1970 UTC. To be said at least once a minute.
    pub fn on_wall_clock(&mut self, wall_s: u64, now: Instant) {
        if self.wall.set(wall_s, now) {
            // A jump: what is over, and when the next is, is another question.
            self.changed.extend(self.accounts.keys());
        }
    }

    /// Whose contracts are honoured from here on.
    pub fn on_trusted(&mut self, trusted: super::verify::Trusted) {
        self.verifier.trusted = trusted;
    }

    /// How this provider sees the backend: only its own eyes allow grace.
    pub fn on_backend(&mut self, degraded: bool) {
        if self.grace.on_backend(degraded) && degraded {
            let paused = |account: &Account| account.verdict() != Verdict::Go;
            let waiting = self.accounts.iter().filter(|(_, account)| paused(account));
            self.changed.extend(waiting.map(|(key, _)| *key));
        }
    }

    /// A contract that a session of `key` sent.
    ///
    /// # Errors
    /// Why it is not honoured; counted.
    pub fn on_contract(
        &mut self,
        key: &PublicKey,
        form: &[u8],
        now: Instant,
    ) -> Result<ContractId, ContractRefusal> {
        let result = self.take_contract(key, form, now);
        if let Err(refusal) = &result {
            self.count_refused(refusal.name());
        }
        result
    }

    fn take_contract(
        &mut self,
        key: &PublicKey,
        form: &[u8],
        now: Instant,
    ) -> Result<ContractId, ContractRefusal> {
        let wall_s = self.wall.at(now);
        let contract = self.verifier.verify(form, key, wall_s)?;
        let id = contract.terms.contract_id;
        let known = self.owners.contains_key(&id);
        let skew_s = self.config.clock_skew.as_secs();
        if !known && ends_for_good_s(&contract.terms, skew_s) <= self.floor_s {
            return Err(ContractRefusal::Expired { since_s: 0 });
        }
        if !known && self.owners.len() >= self.config.contracts_max {
            return Err(ContractRefusal::BooksFull);
        }
        let (account, mut terms) = self.account(*key, wall_s);
        account.on_contract(&contract, &mut terms)?;
        if !known {
            self.remember(&contract.terms);
        }
        Ok(id)
    }

    fn account(&mut self, key: PublicKey, wall_s: u64) -> (&mut Account, Terms<'_>) {
        let terms = Terms {
            config: &self.config,
            grace: &mut self.grace,
            wall_s,
        };
        (self.accounts.entry(key).or_default(), terms)
    }

    /// A receipt that a session of `key` sent. It gives credit when it is durable.
    ///
    /// # Errors
    /// Why it counts for nothing; counted.
    pub fn on_receipt(
        &mut self,
        key: &PublicKey,
        form: &[u8],
        now: Instant,
    ) -> Result<(), ReceiptRefusal> {
        let wall_s = self.wall.at(now);
        let mut terms = Terms {
            config: &self.config,
            grace: &mut self.grace,
            wall_s,
        };
        let account = self.accounts.get_mut(key);
        let taken = match account {
            Some(account) => account.on_receipt(form, &mut terms),
            None => Err(ReceiptRefusal::UnknownContract),
        };
        match taken {
            Ok((id, record)) => {
                let total = record.key().map_or(0, |(_, total)| total);
                self.journal.note(id, record, total);
                Ok(())
            }
            Err(refusal) => {
                self.count_refused(refusal.name());
                Err(refusal)
            }
        }
    }

    fn count_refused(&mut self, name: &'static str) {
        let count = self.refused.entry(name).or_default();
        *count = count.saturating_add(1);
    }

    /// Looks at an account: takes what its session's meter counted, and lets it carry what it may.
    pub fn judge(&mut self, key: &PublicKey, meter: &mut Meter, now: Instant) -> Verdict {
        let wall_s = self.wall.at(now);
        let (account, mut terms) = self.account(*key, wall_s);
        account.settle(meter);
        let verdict = account.judge(&mut terms);
        account.refill(meter);
        verdict
    }

    /// So many bytes that no one acknowledges were counted and then dropped on this side.
    pub fn refund(&mut self, key: &PublicKey, bytes: u64) {
        if let Some(account) = self.accounts.get_mut(key) {
            account.refund(super::account::Carried::Unacknowledged, bytes);
        }
    }

    /// A session ends: what its meter counted stays owed.
    pub fn settle(&mut self, key: &PublicKey, meter: &mut Meter) {
        if let Some(account) = self.accounts.get_mut(key) {
            account.settle(meter);
        }
    }

    /// The books of one key, if there are any.
    #[must_use]
    pub fn account_of(&self, key: &PublicKey) -> Option<&Account> {
        self.accounts.get(key)
    }

    /// When the verdict of a key may change by time alone.
    #[must_use]
    pub fn next_change(&self, key: &PublicKey, now: Instant) -> Option<Instant> {
        let account = self.accounts.get(key)?;
        let in_s = account.next_end_in_s(&self.config, self.wall.at(now))?;
        now.checked_add(Duration::from_secs(in_s.min(super::wall::FAR_S)))
    }

    /// A key whose verdict another look may change.
    pub fn poll_changed(&mut self) -> Option<PublicKey> {
        self.changed.pop_first()
    }

    /// What is to be written next, as one transaction that is synced before it is answered.
    pub fn poll_persist(&mut self, now: Instant) -> Option<Batch> {
        self.journal.poll_persist(now)
    }

    /// The batch is durable: its receipts give credit.
    pub fn on_persisted(&mut self, batch: u64, now: Instant) {
        let wall_s = self.wall.at(now);
        for (id, record) in self.journal.on_persisted(batch) {
            let Some((_, total)) = record.key() else {
                continue;
            };
            self.filing.on_durable(id, record, total);
            let Some((key, _)) = self.owners.get(&id).copied() else {
                continue;
            };
            let (account, mut terms) = self.account(key, wall_s);
            account.on_durable(id, total, &mut terms, now);
            self.changed.insert(key);
        }
    }

    /// The batch could not be written. Sessions pause at their limits until a later one can.
    pub fn on_persist_failed(&mut self, batch: u64, now: Instant) {
        self.journal.on_persist_failed(batch, now);
    }

    /// What is to be filed next with the backend.
    pub fn poll_filing(&mut self, health: &BackendHealth, now: Instant) -> Option<FilingRequest> {
        self.filing.poll_request(health, now)
    }

    /// The backend answered. What it refused, for a log: never of whom.
    pub fn on_filed(
        &mut self,
        request: u64,
        outcomes: &[Filed],
        health: &BackendHealth,
        now: Instant,
    ) -> Vec<RefusedFor> {
        let moved = self.filing.on_answer(request, outcomes, health, now);
        let mut refused = Vec::new();
        for moved in moved {
            refused.extend(moved.refused);
            self.journal.note(moved.id, moved.record, moved.total);
        }
        refused
    }

    /// The request got no such answer.
    pub fn on_filing_ended(&mut self, id: u64, end: AskEnd, health: &BackendHealth, now: Instant) {
        self.filing.on_ended(id, end, health, now);
    }

    /// When something is due, and why.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<(Instant, &'static str)> {
        let persist = if self.journal.is_ready(now) {
            Some(now)
        } else {
            self.journal.poll_timeout()
        };
        let changed = (!self.changed.is_empty()).then_some(now);
        let due = [
            (changed, "contract"),
            (persist, "receipts to persist"),
            (self.filing.poll_timeout(now), "receipts to file"),
            (self.sweep_at, "contracts that are over"),
        ];
        let each = due.into_iter().filter_map(|(at, why)| Some((at?, why)));
        each.min_by_key(|(at, _)| *at)
    }

    /// Does what is due at `now`: forgets what nothing can come of.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.sweep_at.is_some_and(|at| now < at) {
            return;
        }
        self.sweep_at = now.checked_add(SWEEP_EVERY);
        let (wall_s, skew_s) = (self.wall.at(now), self.config.clock_skew.as_secs());
        let over = |account: &Account| account.memory(skew_s).0.saturating_add(KEPT_S) < wall_s;
        let mut floor_s = self.floor_s;
        self.accounts.retain(|_, account| {
            let keep = !over(account);
            if !keep {
                floor_s = floor_s.max(account.memory(skew_s).0);
            }
            keep
        });
        self.raise_floor(floor_s);
        let (accounts, filing) = (&self.accounts, &self.filing);
        let gone = |id: &ContractId, key: &PublicKey, until: u64| {
            until < wall_s && !accounts.contains_key(key) && filing.is_filed(id)
        };
        let ids: BTreeSet<ContractId> = self
            .owners
            .iter()
            .filter(|(id, (key, until))| gone(id, key, *until))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.owners.remove(&id);
            self.journal.forget(id);
        }
    }

    /// A snapshot.
    #[must_use]
    pub fn status(&self) -> BooksStatus {
        let (to_persist, persist_failures) = self.journal.counters();
        let (to_file, settled) = self.filing.counters();
        let (outages, grace_bytes, _) = self.grace.counters();
        let by_backend = self.filing.refusals();
        BooksStatus {
            accounts: self.accounts.len(),
            contracts: self.owners.len(),
            to_persist,
            persist_failures,
            to_file,
            settled,
            refused: self.refused.clone(),
            refused_by_backend: by_backend.map(|(of, count)| (of.name(), count)).collect(),
            outages,
            grace_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
