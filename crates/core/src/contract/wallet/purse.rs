//! What a client holds for one party: contracts in the order of their use, and what is delivered and not signed.
//!
//! The first contract with room is the one that bytes fill; a receipt says that contract's total. When none has room and
//! the provider carries on, it does so in grace, which is signed under the last one. A contract that is signed to the full
//! goes when another is there; one that is over goes when nothing is left to sign.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quell_wire::contract::{
    CONTRACT_LEN, ContractId, ContractTerms, RECEIPT_LEN, SignedContract, SignedReceipt,
};
use rand::rngs::SmallRng;

use super::StoredContract;
use crate::config::WalletConfig;
use crate::health::Backoff;
use crate::health::backoff::after;

/// Most contracts in hand: as many as a provider takes.
const HELD_MAX: usize = 4;
/// A rate is measured over this time, and halves with each such time without bytes.
const RATE_OVER: Duration = Duration::from_secs(10);

/// One contract in hand.
#[derive(Debug, Clone)]
pub(super) struct Held {
    terms: ContractTerms,
    form: [u8; CONTRACT_LEN],
    total: u64,
    /// Of `total`, what was signed since the start: it stands on a count that may have been lost.
    fresh: u64,
    receipt: Option<[u8; RECEIPT_LEN]>,
}

impl Held {
    fn is_good(&self, wall_s: u64) -> bool {
        self.terms.not_before_s <= wall_s.saturating_add(60) && wall_s < self.terms.not_after_s
    }

    /// Bytes that are not signed for, grace left out.
    pub(super) fn bytes_left(&self) -> u64 {
        self.terms.bytes.saturating_sub(self.total)
    }
}

/// Bytes a second of late.
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
        if now.saturating_duration_since(since) >= RATE_OVER {
            *self = Self {
                since: Some(now),
                bytes: 0,
                per_s: self.at(now),
            };
        }
    }

    /// The mean of this span and what was before, the more of this the longer it lasts.
    fn at(&self, now: Instant) -> u64 {
        let Some(since) = self.since else {
            return 0;
        };
        let took = now.saturating_duration_since(since);
        let over = took.max(Duration::from_secs(1)).as_secs_f64();
        let recent = self.bytes as f64 / over;
        let weight = (took.as_secs_f64() / RATE_OVER.as_secs_f64()).min(1.0);
        // A float saturates as it becomes a whole number.
        (recent * weight + self.per_s as f64 * (1.0 - weight)) as u64
    }
}

/// The contracts of one party.
#[derive(Debug)]
pub(super) struct Purse {
    held: VecDeque<Held>,
    unsigned: u64,
    unsigned_since: Option<Instant>,
    /// What may have been delivered and not signed when the client crashed; signed with the first bytes of the exit.
    doubt: u64,
    rate: Rate,
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Purse {
    pub(super) fn new(config: &WalletConfig) -> Self {
        let (base, max) = (config.refused_wait, config.refused_wait_max);
        Self {
            held: VecDeque::new(),
            unsigned: 0,
            unsigned_since: None,
            doubt: 0,
            rate: Rate::default(),
            backoff: Backoff::new(base, max, 0.75, 1.25),
            not_before: None,
        }
    }

    // --- contracts -----------------------------------------------------------

    /// Takes a contract; whether it is another than those in hand.
    pub(super) fn take(&mut self, contract: &SignedContract, wall_s: u64) -> bool {
        let id = contract.terms.contract_id;
        self.drop_useless(wall_s);
        self.backoff.succeeded();
        self.not_before = None;
        let known = self.held.iter().any(|held| held.terms.contract_id == id);
        if known || self.held.len() >= HELD_MAX {
            return false;
        }
        self.held.push_back(Held {
            terms: contract.terms,
            form: contract.encode(),
            total: 0,
            fresh: 0,
            receipt: None,
        });
        true
    }

    pub(super) fn restore(
        &mut self,
        contract: &SignedContract,
        kept: &StoredContract,
        doubt: u64,
        wall_s: u64,
    ) {
        let over = wall_s >= contract.terms.not_after_s;
        if over || !self.take(contract, wall_s) {
            return;
        }
        if let Some(held) = self.held.back_mut() {
            held.total = kept.signed_total;
            held.receipt = kept.receipt;
        }
        self.doubt = self.doubt.max(doubt);
    }

    /// Good contracts that have room.
    pub(super) fn live(&self, wall_s: u64) -> impl Iterator<Item = &Held> + Clone {
        let good = move |held: &&Held| held.is_good(wall_s) && held.bytes_left() > 0;
        self.held.iter().filter(good)
    }

    fn drop_useless(&mut self, wall_s: u64) {
        let unsigned = self.unsigned > 0;
        let useful = |held: &Held| {
            let may_sign = unsigned && held.bytes_left() > 0;
            held.is_good(wall_s) && held.bytes_left() > 0 || may_sign
        };
        // The last one stays for grace, until its grace is over too.
        let last = self.held.back().map(|held| held.terms.contract_id);
        let in_grace = |held: &Held| {
            let until = held
                .terms
                .not_after_s
                .saturating_add(held.terms.grace_s.into());
            Some(held.terms.contract_id) == last && wall_s < until
        };
        self.held.retain(|held| useful(held) || in_grace(held));
    }

    /// Gives up a contract, or all; whether any went.
    pub(super) fn give_up(&mut self, contract: Option<ContractId>) -> bool {
        let before = self.held.len();
        let stays = |held: &Held| contract.is_some_and(|id| id != held.terms.contract_id);
        self.held.retain(stays);
        self.held.len() < before
    }

    pub(super) fn forms(&self) -> impl Iterator<Item = [u8; CONTRACT_LEN]> {
        self.held.iter().map(|held| held.form)
    }

    pub(super) fn receipts(&self) -> impl Iterator<Item = [u8; RECEIPT_LEN]> {
        self.held.iter().filter_map(|held| held.receipt)
    }

    pub(super) fn stored(&self) -> impl Iterator<Item = StoredContract> {
        self.held.iter().map(|held| StoredContract {
            contract: held.form,
            signed_total: held.total,
            receipt: held.receipt,
        })
    }

    // --- wants -------------------------------------------------------------

    /// When another contract is to be asked for: at once, at a time, or (`None`) when something else happens.
    pub(super) fn want_at(
        &self,
        config: &WalletConfig,
        wall_s: u64,
        now: Instant,
    ) -> Option<Instant> {
        let not_before = self.not_before.unwrap_or(now);
        let mut live = self.live(wall_s);
        let (Some(first), None) = (live.next(), live.next()) else {
            let none = self.live(wall_s).next().is_none();
            return none.then_some(not_before);
        };
        let ContractTerms {
            bytes,
            not_before_s,
            not_after_s,
            ..
        } = first.terms;
        let spent = first.total.saturating_add(self.unsigned);
        if spent as f64 >= bytes as f64 * config.prefetch {
            return Some(not_before);
        }
        let share = not_after_s.saturating_sub(not_before_s) as f64 * config.prefetch;
        let due_s = not_before_s.saturating_add(share as u64);
        let in_s = due_s.saturating_sub(wall_s);
        Some(not_before.max(after(now, Duration::from_secs(in_s))))
    }

    /// Whether nothing is in hand.
    pub(super) fn is_empty(&self, wall_s: u64) -> bool {
        self.live(wall_s).next().is_none()
    }

    pub(super) fn bytes_wanted(&self, config: &WalletConfig, now: Instant) -> u64 {
        let by_rate = self
            .rate
            .at(now)
            .saturating_mul(config.contract_time.as_secs());
        by_rate
            .max(config.contract_bytes)
            .min(config.contract_bytes_max)
    }

    /// It was refused: the next want waits.
    pub(super) fn rest(&mut self, rng: &mut SmallRng, now: Instant) {
        self.not_before = Some(after(now, self.backoff.failed(rng)));
    }

    // --- receipts ----------------------------------------------------------

    pub(super) fn on_delivered(&mut self, bytes: u64, now: Instant) {
        if bytes == 0 {
            return;
        }
        let doubt = std::mem::take(&mut self.doubt);
        self.unsigned = self.unsigned.saturating_add(bytes).saturating_add(doubt);
        self.unsigned_since.get_or_insert(now);
        self.rate.add(bytes, now);
    }

    fn step(&self, config: &WalletConfig, now: Instant) -> u64 {
        config.receipt_bytes.max(self.rate.at(now) / 8)
    }

    /// When a receipt is due, if anything is unsigned and may be signed.
    pub(super) fn receipt_at(
        &self,
        config: &WalletConfig,
        wall_s: u64,
        now: Instant,
    ) -> Option<Instant> {
        if self.unsigned == 0 || self.filled(wall_s).is_none() {
            return None;
        }
        if self.unsigned >= self.step(config, now) {
            return Some(now);
        }
        let since = self.unsigned_since.unwrap_or(now);
        Some(after(since, config.receipt_interval))
    }

    /// The contract that the next bytes fill, and how many it takes.
    fn filled(&self, wall_s: u64) -> Option<(usize, u64)> {
        let room = |held: &Held| (held.bytes_left() > 0).then(|| held.bytes_left());
        let first = (0..)
            .zip(&self.held)
            .find_map(|(at, held)| Some((at, room(held)?)));
        let in_grace = || {
            let (at, held) = (self.held.len().checked_sub(1)?, self.held.back()?);
            let until = held
                .terms
                .not_after_s
                .saturating_add(held.terms.grace_s.into());
            let all = held.terms.bytes.saturating_add(held.terms.grace_bytes);
            let left = all.saturating_sub(held.total);
            (left > 0 && wall_s <= until).then_some((at, left))
        };
        first.or_else(in_grace)
    }

    pub(super) fn poll_receipt(
        &mut self,
        config: &WalletConfig,
        wall_s: u64,
        now: Instant,
    ) -> Option<(ContractId, u64)> {
        self.receipt_at(config, wall_s, now)
            .filter(|at| *at <= now)?;
        let (at, room) = self.filled(wall_s)?;
        let held = self.held.get_mut(at)?;
        let bytes = self.unsigned.min(room);
        held.total = held.total.saturating_add(bytes);
        held.fresh = held.fresh.saturating_add(bytes);
        let receipt = (held.terms.contract_id, held.total);
        self.unsigned -= bytes;
        if self.unsigned == 0 {
            self.unsigned_since = None;
        }
        Some(receipt)
    }

    pub(super) fn on_signed(&mut self, receipt: &SignedReceipt) {
        let of = |held: &&mut Held| held.terms.contract_id == receipt.terms.contract_id;
        if let Some(held) = self.held.iter_mut().find(of)
            && held.total <= receipt.terms.bytes_total
        {
            held.receipt = Some(receipt.encode());
        }
    }

    pub(super) fn on_echo(&mut self, receipt: &SignedReceipt) -> bool {
        let of = |held: &&mut Held| held.terms.contract_id == receipt.terms.contract_id;
        let total = receipt.terms.bytes_total;
        match self.held.iter_mut().find(of) {
            Some(held) if held.total < total => {
                // It was signed before this start, so nothing that was signed since is in it.
                let fresh = std::mem::take(&mut held.fresh);
                let doubt = std::mem::take(&mut self.doubt);
                self.unsigned = self.unsigned.saturating_add(fresh).saturating_add(doubt);
                held.total = total;
                held.receipt = Some(receipt.encode());
                true
            }
            Some(_) | None => false,
        }
    }

    // --- what a person sees --------------------------------------------------

    pub(super) fn rate(&self, now: Instant) -> u64 {
        self.rate.at(now)
    }

    pub(super) fn lasts(&self, rate: u64, wall_s: u64) -> Duration {
        let left = self.live(wall_s).map(Held::bytes_left);
        let left = left
            .fold(0, u64::saturating_add)
            .saturating_sub(self.unsigned);
        let ends = self.live(wall_s).map(|held| held.terms.not_after_s).max();
        let by_time = ends.unwrap_or(wall_s).saturating_sub(wall_s);
        let by_bytes = left.checked_div(rate).unwrap_or(u64::MAX);
        Duration::from_secs(by_bytes.min(by_time))
    }
}
