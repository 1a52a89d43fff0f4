//! A provider's books for one client key: what was carried, what is signed, and whether to go on.
//!
//! ```text
//!            0 ······· durable ······· signed ······· owed ······· allowed
//!                         └──────── exposure ────────┘└─── room ───┘
//! ```
//!
//! *Allowed* is what the contracts in hand add up to, *owed* what was carried under them, *signed* what receipts say and
//! *durable* what of that would survive a crash. The session goes on while there is room and the exposure is below its
//! limit: `exposure_bytes`, or `exposure_time` of the rate at which this client has signed durably, so that who wants a
//! larger limit must have paid at that rate first. A packet is admitted while both hold, so each is passed by one packet
//! at most.
//!
//! **What is counted.** Packets as they are admitted, both directions. The client signs what it received; the two counts
//! differ by what is lost on the way, by refusals that a race held back and by what a crash took. Counted in full, such
//! differences would add up until they pause an honest client. So a packet is owed at 63/64 of its bytes, and one that
//! nobody acknowledges on its way to the client at 7/8: a path that loses one in eight is of no use. A client that signs
//! only what it owes gains that much and no more.
//!
//! **More than was carried.** A client may count a packet before the provider sees its acknowledgement, or before a
//! crash took the provider's count. A receipt is taken up to what its contract allows: it costs nobody but who signs. The
//! client has it in credit, until the contract that it is under makes place.
//!
//! **Contracts** in hand are the current one and at most [`NEXT_MAX`] next ones; bytes fill them in the order in which
//! they came. One that is signed to the full, or over, makes place for the next. Its id is kept until its time is over
//! too, so that the same form again gives nothing; where more are to be kept than fit, `floor_s` refuses all that ended
//! before. Nothing that a clock does makes a contract begin anew.
//!
//! Bytes are held in 64ths, so that the weights are exact. What a packet costs is a product, a comparison and two sums
//! of its session's [`Meter`]: how much may pass before anything can change is worked out by [`Account::judge`].

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use quell_wire::contract::{
    CONTRACT_LEN, ContractId, ContractTerms, RECEIPT_LEN, SignedContract, SignedReceipt,
};

use super::grace::Grace;
use super::journal::Record;
use super::verify::{ContractRefusal, ReceiptRefusal, verify_receipt};
use crate::config::ContractsConfig;

/// Most contracts in hand that are still to be used, beside the current one.
pub const NEXT_MAX: usize = 3;
/// Most contracts that are over and may still get a receipt.
const OVER_MAX: usize = 4;
/// Most ids of contracts that are used up, per client.
const SPENT_MAX: usize = 1_024;
/// Last receipts of contracts that are used up, kept for a client that lost its count of them.
const CLOSED_MAX: usize = 8;
/// In what bytes are counted here.
const SHARE: u64 = 64;

/// How a packet goes to, or comes from, its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// Acknowledged, or received: both ends know.
    Known,
    /// Towards the client, unacknowledged: it may be lost.
    Unacknowledged,
}

impl Carried {
    const fn weight(self) -> u64 {
        match self {
            Self::Known => 63,
            Self::Unacknowledged => 56,
        }
    }
}

/// A session's hand on its account: how much may pass before the account is to be looked at, and what did.
#[derive(Debug, Default)]
pub struct Meter {
    left: u64,
    spent: u64,
    bytes: u64,
}

impl Meter {
    /// Whether a packet of `bytes` may be carried; if so it is counted. A `false` may mean no more than that the account
    /// is to be looked at.
    pub fn admit(&mut self, carried: Carried, bytes: usize) -> bool {
        let open = self.is_open();
        if open {
            self.charge(carried, bytes as u64);
        }
        open
    }

    /// Whether a packet may pass.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.left > 0
    }

    /// Counts a packet that passed while the meter was open.
    pub fn charge(&mut self, carried: Carried, bytes: u64) {
        let cost = bytes.saturating_mul(carried.weight());
        self.left = self.left.saturating_sub(cost);
        self.spent = self.spent.saturating_add(cost);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Why a session is not carried on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pause {
    /// No contract came yet.
    NoContract,
    /// More is unsigned than may be.
    ReceiptDue,
    /// It is signed, and not yet safe from a crash.
    NotDurable,
    /// The bytes of all contracts are used up.
    UsedUp,
    /// The time of all contracts is over.
    Over,
}

impl Pause {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::NoContract,
        Self::ReceiptDue,
        Self::NotDurable,
        Self::UsedUp,
        Self::Over,
    ];

    /// A stable name in snake_case, for metrics and machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoContract => "no_contract",
            Self::ReceiptDue => "receipt_due",
            Self::NotDurable => "not_durable",
            Self::UsedUp => "used_up",
            Self::Over => "over",
        }
    }

    /// One sentence for a person, without the final stop.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NoContract => "no contract came",
            Self::ReceiptDue => "more bytes than may be are without a receipt",
            Self::NotDurable => "the receipts are not stored yet",
            Self::UsedUp => "the contract's bytes are used up",
            Self::Over => "the contract's time is over",
        }
    }
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Go,
    /// No, and why.
    Paused(Pause),
}

/// What an account is judged by, which is the same for all.
#[derive(Debug)]
pub struct Terms<'a> {
    /// Limits.
    pub config: &'a ContractsConfig,
    /// What may be had beyond contracts.
    pub grace: &'a mut Grace,
    /// The wall clock, in seconds since 1970 UTC.
    pub wall_s: u64,
}

/// Bytes a second that a client signed durably of late.
#[derive(Debug, Default)]
struct Rate {
    since: Option<Instant>,
    bytes: u64,
    per_s: u64,
}

impl Rate {
    fn add(&mut self, bytes: u64, now: Instant) {
        let since = *self.since.get_or_insert(now);
        self.bytes = self.bytes.saturating_add(bytes);
        let took = now.saturating_duration_since(since);
        if took >= Duration::from_secs(1) {
            let ms = took.as_millis().max(1);
            let per_s = u128::from(self.bytes) * 1_000 / ms;
            self.per_s = u64::try_from(per_s).unwrap_or(u64::MAX);
            (self.since, self.bytes) = (Some(now), 0);
        }
    }
}

#[derive(Debug)]
struct InHand {
    terms: ContractTerms,
    form: [u8; CONTRACT_LEN],
    signed: u64,
    durable: u64,
    receipt: Option<[u8; RECEIPT_LEN]>,
    grace_bytes: u64,
    /// Its time is over: it allows what was signed under it.
    over: bool,
}

impl InHand {
    fn id(&self) -> ContractId {
        self.terms.contract_id
    }

    fn allowed(&self) -> u64 {
        if self.over {
            self.signed
        } else {
            self.terms.bytes.saturating_add(self.grace_bytes)
        }
    }

    fn ends_s(&self, skew_s: u64) -> u64 {
        let grace_s = if self.grace_bytes > 0 {
            self.terms.grace_s
        } else {
            0
        };
        let ends = self.terms.not_after_s.saturating_add(skew_s);
        ends.saturating_add(grace_s.into())
    }

    fn is_used_up(&self) -> bool {
        self.over || self.durable >= self.terms.bytes.saturating_add(self.grace_bytes)
    }
}

/// When nothing more can come of a contract, grace and skew included, in seconds since 1970 UTC.
pub(super) fn ends_for_good_s(terms: &ContractTerms, skew_s: u64) -> u64 {
    let ends = terms.not_after_s.saturating_add(terms.grace_s.into());
    ends.saturating_add(skew_s)
}

/// The books for one client key.
#[derive(Debug)]
pub struct Account {
    in_hand: Vec<InHand>,
    /// Contracts that give nothing more, and when they end.
    spent: BTreeMap<ContractId, u64>,
    /// The last receipts of the last of them.
    closed: VecDeque<[u8; RECEIPT_LEN]>,
    /// Contracts that end no later than this are refused.
    floor_s: u64,
    /// Carried under the contracts in hand, in 64ths of a byte.
    owed: u64,
    /// What may be carried before the verdict can change, in 64ths.
    left: u64,
    carried_bytes: u64,
    rate: Rate,
    verdict: Verdict,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            in_hand: Vec::new(),
            spent: BTreeMap::new(),
            closed: VecDeque::new(),
            floor_s: 0,
            owed: 0,
            left: 0,
            carried_bytes: 0,
            rate: Rate::default(),
            verdict: Verdict::Paused(Pause::NoContract),
        }
    }
}

impl Account {
    /// Takes a contract that was verified for this client.
    ///
    /// # Errors
    /// It is used up, or too many are in hand. Nothing changed.
    pub fn on_contract(
        &mut self,
        contract: &SignedContract,
        terms: &mut Terms<'_>,
    ) -> Result<(), ContractRefusal> {
        let id = contract.terms.contract_id;
        self.judge(terms);
        if self.in_hand.iter().any(|held| held.id() == id) {
            return Ok(());
        }
        if self.spent.contains_key(&id) {
            return Err(ContractRefusal::Replaced);
        }
        let skew_s = terms.config.clock_skew.as_secs();
        if ends_for_good_s(&contract.terms, skew_s) <= self.floor_s {
            return Err(ContractRefusal::Expired { since_s: 0 });
        }
        let live = self.in_hand.iter().filter(|held| !held.is_used_up());
        if live.count() > NEXT_MAX {
            return Err(ContractRefusal::TooMany);
        }
        self.in_hand.push(InHand {
            terms: contract.terms,
            form: contract.encode(),
            signed: 0,
            durable: 0,
            receipt: None,
            grace_bytes: 0,
            over: false,
        });
        self.judge(terms);
        Ok(())
    }

    /// Takes up what a store kept: this much was signed under the contract.
    pub(super) fn restore(&mut self, contract: &SignedContract, record: &Record, total: u64) {
        let held = InHand {
            terms: contract.terms,
            form: record.contract,
            signed: total,
            durable: total,
            receipt: Some(record.receipt),
            grace_bytes: 0,
            over: false,
        };
        self.owed = self.owed.saturating_add(total.saturating_mul(SHARE));
        self.in_hand.push(held);
    }

    /// A receipt of the client. `Ok` is what is to be made durable; it counts once [`Account::on_durable`] says so.
    ///
    /// # Errors
    /// Why it counts for nothing.
    pub fn on_receipt(
        &mut self,
        form: &[u8],
        terms: &mut Terms<'_>,
    ) -> Result<(ContractId, Record), ReceiptRefusal> {
        let named = SignedReceipt::decode(form)?.terms.contract_id;
        let held = self.in_hand.iter_mut().find(|held| held.id() == named);
        let held = held.ok_or(ReceiptRefusal::UnknownContract)?;
        let receipt = verify_receipt(form, &held.terms, held.signed)?;
        held.signed = receipt.terms.bytes_total;
        let form = receipt.encode();
        held.receipt = Some(form);
        let record = Record {
            contract: held.form,
            receipt: form,
            filed_total: 0,
        };
        self.judge(terms);
        Ok((named, record))
    }

    /// This much of a contract is safe from a crash.
    pub fn on_durable(&mut self, id: ContractId, total: u64, terms: &mut Terms<'_>, now: Instant) {
        let Some(held) = self.in_hand.iter_mut().find(|held| held.id() == id) else {
            return;
        };
        let total = total.min(held.signed);
        let news = total.saturating_sub(held.durable);
        held.durable = held.durable.max(total);
        if news > 0 {
            self.rate.add(news, now);
            self.judge(terms);
        }
    }

    /// Takes over what a session's meter counted.
    pub fn settle(&mut self, meter: &mut Meter) {
        self.owed = self.owed.saturating_add(std::mem::take(&mut meter.spent));
        self.carried_bytes = self
            .carried_bytes
            .saturating_add(std::mem::take(&mut meter.bytes));
        meter.left = 0;
    }

    /// Lets a session carry as much as the last look said.
    pub fn refill(&self, meter: &mut Meter) {
        meter.left = self.left.saturating_sub(meter.spent);
    }

    /// What was admitted and then dropped on this side is not owed.
    pub fn refund(&mut self, carried: Carried, bytes: u64) {
        self.owed = self
            .owed
            .saturating_sub(bytes.saturating_mul(carried.weight()));
        self.carried_bytes = self.carried_bytes.saturating_sub(bytes);
    }

    /// Works out whether to go on, and how far.
    pub fn judge(&mut self, terms: &mut Terms<'_>) -> Verdict {
        let skew_s = terms.config.clock_skew.as_secs();
        self.end_what_is_over(skew_s, terms.wall_s);
        self.retire(skew_s);
        self.left = self.room();
        if self.left == 0 && self.ask_grace(terms) {
            self.left = self.room();
        }
        let exposed = self.limit(terms.config).saturating_sub(self.exposure());
        self.verdict = match (self.left, exposed) {
            (0, _) => Verdict::Paused(self.why_no_room()),
            (_, 0) if self.owed.saturating_sub(self.signed()) >= self.limit(terms.config) => {
                Verdict::Paused(Pause::ReceiptDue)
            }
            (_, 0) => Verdict::Paused(Pause::NotDurable),
            (_, _) => Verdict::Go,
        };
        self.left = self.left.min(exposed);
        self.verdict
    }

    /// What the last look said.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    fn end_what_is_over(&mut self, skew_s: u64, wall_s: u64) {
        for held in &mut self.in_hand {
            held.over = wall_s > held.ends_s(skew_s);
        }
    }

    /// Lets go of what gives nothing more: signed to the full with another in hand, or over for too long.
    fn retire(&mut self, skew_s: u64) {
        while let Some(at) = self.retirable() {
            let held = self.in_hand.remove(at);
            self.owed = self.owed.saturating_sub(held.durable.saturating_mul(SHARE));
            self.note_spent(held.id(), ends_for_good_s(&held.terms, skew_s));
            self.closed.extend(held.receipt);
            if self.closed.len() > CLOSED_MAX {
                self.closed.pop_front();
            }
        }
    }

    fn retirable(&self) -> Option<usize> {
        let live = self.in_hand.iter().any(|held| !held.is_used_up());
        let full = |held: &InHand| !held.over && held.is_used_up() && live;
        let over = self.in_hand.iter().filter(|held| held.over).count();
        let full = self.in_hand.iter().position(full);
        let oldest_over = || self.in_hand.iter().position(|held| held.over);
        full.or_else(|| (over > OVER_MAX).then(oldest_over).flatten())
    }

    fn note_spent(&mut self, id: ContractId, ends_s: u64) {
        self.spent.insert(id, ends_s);
        if self.spent.len() > SPENT_MAX {
            let first = self.spent.iter().min_by_key(|(_, ends)| **ends);
            if let Some((id, ends)) = first.map(|(id, ends)| (*id, *ends)) {
                self.spent.remove(&id);
                self.floor_s = self.floor_s.max(ends);
            }
        }
    }

    fn ask_grace(&mut self, terms: &mut Terms<'_>) -> bool {
        let skew_s = terms.config.clock_skew.as_secs();
        let good = |held: &&mut InHand| {
            held.grace_bytes == 0
                && held.terms.grace_bytes > 0
                && terms.wall_s <= ends_for_good_s(&held.terms, skew_s)
        };
        let Some(held) = self.in_hand.iter_mut().rev().find(good) else {
            return false;
        };
        let key = held.terms.client_key;
        match terms.grace.ask(key, held.terms.grace_bytes) {
            Ok(bytes) => {
                held.grace_bytes = bytes;
                held.over = false;
                true
            }
            Err(_) => false,
        }
    }

    fn sum(&self, of: impl Fn(&InHand) -> u64) -> u64 {
        let each = self
            .in_hand
            .iter()
            .map(|held| of(held).saturating_mul(SHARE));
        each.fold(0, u64::saturating_add)
    }

    fn signed(&self) -> u64 {
        self.sum(|held| held.signed)
    }

    fn room(&self) -> u64 {
        self.sum(InHand::allowed).saturating_sub(self.owed)
    }

    fn exposure(&self) -> u64 {
        self.owed.saturating_sub(self.sum(|held| held.durable))
    }

    fn limit(&self, config: &ContractsConfig) -> u64 {
        let ms = u64::try_from(config.exposure_time.as_millis()).unwrap_or(u64::MAX);
        let by_rate = self.rate.per_s.saturating_mul(ms) / 1_000;
        config.exposure_bytes.max(by_rate).saturating_mul(SHARE)
    }

    fn why_no_room(&self) -> Pause {
        if self.in_hand.iter().any(|held| !held.over) {
            return Pause::UsedUp;
        }
        if self.in_hand.is_empty() && self.spent.is_empty() {
            return Pause::NoContract;
        }
        Pause::Over
    }

    /// The last receipts of the contracts in hand and of the last few before: a client that lost its count finds it in them.
    pub fn receipts(&self) -> impl Iterator<Item = &[u8; RECEIPT_LEN]> {
        let in_hand = self.in_hand.iter().filter_map(|held| held.receipt.as_ref());
        self.closed.iter().chain(in_hand)
    }

    /// The contracts in hand, and what is signed under each in bytes.
    pub fn contracts(&self) -> impl Iterator<Item = (&ContractTerms, u64)> {
        self.in_hand.iter().map(|held| (&held.terms, held.signed))
    }

    /// In how many seconds of the wall clock the next contract in hand is over.
    #[must_use]
    pub fn next_end_in_s(&self, config: &ContractsConfig, wall_s: u64) -> Option<u64> {
        let skew_s = config.clock_skew.as_secs();
        let live = self.in_hand.iter().filter(|held| !held.over);
        let ends = live.map(|held| held.ends_s(skew_s).saturating_sub(wall_s).saturating_add(1));
        ends.min()
    }

    /// Bytes that are owed and not durably signed, and how many may be.
    #[must_use]
    pub fn exposure_bytes(&self, config: &ContractsConfig) -> (u64, u64) {
        (self.exposure() / SHARE, self.limit(config) / SHARE)
    }

    /// Bytes of packets carried in all, both directions.
    #[must_use]
    pub fn carried_bytes(&self) -> u64 {
        self.carried_bytes
    }

    /// Until when something is to be remembered, in seconds since 1970 UTC; how many contracts are.
    pub(super) fn memory(&self, skew_s: u64) -> (u64, usize) {
        let held = self
            .in_hand
            .iter()
            .map(|held| ends_for_good_s(&held.terms, skew_s));
        let last = held.chain(self.spent.values().copied()).max();
        (last.unwrap_or(0), self.in_hand.len() + self.spent.len())
    }
}

#[cfg(test)]
mod tests;
