//! A client's contracts: which it holds, which it asks for, what it signs.
//!
//! ```text
//!            wanted (the window's exits)
//!                 │ none in hand, or 50 % of the last one spent
//!                 v
//! one request, ≤ 16 wants ──answer──> held: sent to the exit ──bytes delivered──> receipts
//!        │    ^                └────> refused: that exit's want rests
//!        └────┘ no answer: the same request again, when the backend's health lets it
//! ```
//!
//! **One request.** There is one in flight, whatever is wanted; what is wanted meanwhile rides the next. A request that got
//! no answer may have been served all the same, so it is the same one, with its id, that is repeated: the backend gives
//! the same contracts again. During an outage that makes one question each 5 to 30 s (R-18), however many exits there are.
//!
//! **Receipts** say what was delivered in all, per contract. Bytes fill contracts in the order in which they came, as the
//! provider counts them. One is due after `receipt_bytes`, or an eighth of a second's bytes at a high rate (a provider
//! bears two seconds), or `receipt_interval` after the first unsigned byte. The wallet says what to sign; the key stays
//! with the driver.
//!
//! **A count that is lost** with the client's memory is found at the provider: it sends back the last receipt it has,
//! which only this client can have signed, so it is believed. What was delivered and not signed at a crash is taken for
//! the most that a provider bears ([`DOUBT_STEPS`] times `receipt_bytes`), or a debt that nobody remembers would pause the
//! session for good; what was signed too much is credit under the same contract.
//!
//! A party is a provider and the key that is used towards it: a session keeps its key past midnight, and its contracts
//! with it.

mod purse;
mod request;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quell_wire::contract::{
    CONTRACT_LEN, ContractId, RECEIPT_LEN, ReceiptTerms, SignedContract, SignedReceipt,
};
use quell_wire::key::PublicKey;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

use self::purse::Purse;
use self::request::Request;
pub use self::request::{ContractsAsked, WANTS_MAX, Want, WantOutcome};
use super::seal;
use crate::config::WalletConfig;

/// Most parties that contracts are wanted for: the window's exits, and a few sessions with the key of the day before.
pub const WANTED_MAX: usize = 64;
/// What a crash leaves in doubt, in `receipt_bytes`: a client signs each quarter of what a provider bears.
pub const DOUBT_STEPS: u64 = 4;
/// Most parties that are remembered.
const PARTIES_MAX: usize = 1_024;

/// A provider, and the key by which it knows this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Party {
    /// The provider.
    pub provider_key: PublicKey,
    /// The fresh key of the session.
    pub client_key: PublicKey,
}

/// What a client keeps of a contract across restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredContract {
    /// The contract's signed form.
    pub contract: [u8; CONTRACT_LEN],
    /// Bytes signed for in all.
    pub signed_total: u64,
    /// The last receipt's signed form.
    pub receipt: Option<[u8; RECEIPT_LEN]>,
}

/// A snapshot, for status and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalletStatus {
    /// Contracts in hand that are good.
    pub contracts: usize,
    /// Bytes left in them.
    pub bytes_left: u64,
    /// How long they last without the backend.
    pub survives: Duration,
    /// Requests that went to the backend, repeats included.
    pub requests: u64,
    /// Contracts that were granted, and wants that were refused.
    pub granted: u64,
    /// See `granted`.
    pub refused: u64,
    /// Receipts signed.
    pub receipts: u64,
}

/// The contracts of a client.
#[derive(Debug)]
pub struct Wallet {
    config: WalletConfig,
    purses: BTreeMap<Party, Purse>,
    wanted: Vec<Party>,
    request: Option<Request>,
    not_before: Option<Instant>,
    rng: SmallRng,
    changed: bool,
    requests: u64,
    granted: u64,
    refused: u64,
    receipts: u64,
}

impl Wallet {
    /// An empty wallet. `seed` draws the ids of requests: it must differ from start to start.
    #[must_use]
    pub fn new(config: WalletConfig, seed: u64) -> Self {
        Self {
            config,
            purses: BTreeMap::new(),
            wanted: Vec::new(),
            request: None,
            not_before: None,
            rng: SmallRng::seed_from_u64(seed),
            changed: false,
            requests: 0,
            granted: 0,
            refused: 0,
            receipts: 0,
        }
    }

    // --- what is wanted and held -------------------------------------------

    /// Contracts are wanted for these, the most important first; of more than [`WANTED_MAX`] the first.
    pub fn set_wanted(&mut self, parties: &[Party]) {
        self.wanted.clear();
        self.wanted.extend(parties.iter().take(WANTED_MAX));
    }

    /// Takes up what was stored. `clean`: it was stored by a client that ended in order; else some bytes may have
    /// been delivered since the last receipt, and are signed for with the next. Forms that are none, or over, are left out.
    pub fn restore(&mut self, stored: &[StoredContract], clean: bool, wall_s: u64) {
        let most = self.config.receipt_bytes.saturating_mul(DOUBT_STEPS);
        let doubt = if clean { 0 } else { most };
        for kept in stored {
            let Ok(contract) = SignedContract::decode(&kept.contract) else {
                continue;
            };
            let party = Party {
                provider_key: contract.terms.provider_key,
                client_key: contract.terms.client_key,
            };
            if let Some(purse) = self.purse(party, wall_s) {
                purse.restore(&contract, kept, doubt, wall_s);
            }
        }
    }

    /// What is to be stored.
    #[must_use]
    pub fn stored(&self) -> Vec<StoredContract> {
        self.purses.values().flat_map(Purse::stored).collect()
    }

    /// Whether contracts came or went since this was asked last: what is stored is out of date. Receipts alone do not
    /// make it so, since a provider has them.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn purse(&mut self, party: Party, wall_s: u64) -> Option<&mut Purse> {
        if self.purses.len() >= PARTIES_MAX && !self.purses.contains_key(&party) {
            let wanted = &self.wanted;
            let keeps = |party: &Party, purse: &mut Purse| {
                wanted.contains(party) || purse.live(wall_s).next().is_some()
            };
            self.purses.retain(|party, purse| keeps(party, purse));
            if self.purses.len() >= PARTIES_MAX {
                return None;
            }
        }
        let new = || Purse::new(&self.config);
        Some(self.purses.entry(party).or_insert_with(new))
    }

    /// The parties that a good contract is in hand for: what can be used without the backend.
    pub fn usable(&self, wall_s: u64) -> impl Iterator<Item = &Party> {
        let good = move |purse: &Purse| purse.live(wall_s).next().is_some();
        let of = self.purses.iter().filter(move |(_, purse)| good(purse));
        of.map(|(party, _)| party)
    }

    /// What a session is to be told when it is up, or up again: its contracts, in the order in which they are used.
    #[must_use]
    pub fn contracts_for(&self, party: &Party) -> Vec<[u8; CONTRACT_LEN]> {
        let purse = self.purses.get(party);
        purse
            .map(|purse| purse.forms().collect())
            .unwrap_or_default()
    }

    /// And after them: the last receipts, in case the provider lost them.
    #[must_use]
    pub fn receipts_for(&self, party: &Party) -> Vec<[u8; RECEIPT_LEN]> {
        let purse = self.purses.get(party);
        purse
            .map(|purse| purse.receipts().collect())
            .unwrap_or_default()
    }

    /// The provider does not honour a contract of this party: it is given up, and another wanted after a rest. Where the
    /// provider does not say which, that is all that is in hand for it; one that is not in hand changes nothing.
    pub fn on_contract_refused(
        &mut self,
        party: &Party,
        contract: Option<ContractId>,
        now: Instant,
    ) {
        if let Some(purse) = self.purses.get_mut(party)
            && purse.give_up(contract)
        {
            purse.rest(&mut self.rng, now);
            self.changed = true;
        }
    }

    // --- receipts ----------------------------------------------------------

    /// So many bytes more were delivered: received from the exit, or acknowledged by it.
    pub fn on_delivered(&mut self, party: &Party, bytes: u64, now: Instant) {
        if let Some(purse) = self.purses.get_mut(party) {
            purse.on_delivered(bytes, now);
        }
    }

    /// The next receipt that is due, to be signed with the party's client key. Its bytes count as signed.
    pub fn poll_receipt(&mut self, wall_s: u64, now: Instant) -> Option<(Party, ReceiptTerms)> {
        for (party, purse) in &mut self.purses {
            if let Some((contract_id, bytes_total)) = purse.poll_receipt(&self.config, wall_s, now)
            {
                self.receipts = self.receipts.saturating_add(1);
                let terms = ReceiptTerms {
                    contract_id,
                    provider_key: party.provider_key,
                    bytes_total,
                    issued_s: wall_s,
                };
                return Some((*party, terms));
            }
        }
        None
    }

    /// The receipt is signed, and kept for the next connection.
    pub fn on_signed(&mut self, party: &Party, receipt: &SignedReceipt) {
        if let Some(purse) = self.purses.get_mut(party) {
            purse.on_signed(receipt);
        }
    }

    /// A provider sent back a receipt. Whether it says something new: that this client signed more than it knows.
    pub fn on_echo(&mut self, party: &Party, form: &[u8]) -> bool {
        let Ok(receipt) = SignedReceipt::decode(form) else {
            return false;
        };
        let own = receipt.terms.provider_key == party.provider_key
            && seal::is_receipt_signed(&party.client_key, &receipt);
        let purse = self.purses.get_mut(party).filter(|_| own);
        purse.is_some_and(|purse| purse.on_echo(&receipt))
    }

    // --- time --------------------------------------------------------------

    /// When the next receipt or request may be due, and why.
    #[must_use]
    pub fn poll_timeout(&self, wall_s: u64, now: Instant) -> Option<(Instant, &'static str)> {
        let receipts = self.purses.values();
        let receipts = receipts.filter_map(|purse| purse.receipt_at(&self.config, wall_s, now));
        let receipts = receipts.map(|at| (at, "receipt"));
        let request = self.request_at(wall_s, now).map(|at| (at, "contracts"));
        receipts.chain(request).min_by_key(|(at, _)| *at)
    }

    /// How long what is in hand lasts without the backend: by bytes at the recent rate, or by time, whichever is less,
    /// with the exit for which it is longest.
    #[must_use]
    pub fn survives(&self, wall_s: u64, now: Instant) -> Duration {
        let rates = self.purses.values().map(|purse| purse.rate(now));
        let rate = rates.fold(0, u64::saturating_add);
        let each = self.purses.values().map(|purse| purse.lasts(rate, wall_s));
        each.max().unwrap_or(Duration::ZERO)
    }

    /// A snapshot.
    #[must_use]
    pub fn status(&self, wall_s: u64, now: Instant) -> WalletStatus {
        let live = self.purses.values().flat_map(|purse| purse.live(wall_s));
        let bytes = live.clone().map(purse::Held::bytes_left);
        WalletStatus {
            contracts: live.count(),
            bytes_left: bytes.fold(0, u64::saturating_add),
            survives: self.survives(wall_s, now),
            requests: self.requests,
            granted: self.granted,
            refused: self.refused,
            receipts: self.receipts,
        }
    }
}

#[cfg(test)]
mod tests;
