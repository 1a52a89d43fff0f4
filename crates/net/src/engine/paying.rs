//! The client's contracts at the engine: the wallet beside the core, and the way to who asks the backend.
//!
//! ```text
//!  core ── carried bytes, news ──> Wallet ── receipts, contracts ──> core ──> provider
//!                                    │ ^
//!                    ContractsWanted v │ ContractsEnded
//!                              who asks the backend (outside)
//! ```
//!
//! The wallet decides (`quell_core::contract`); here are the keys. Towards each provider the client is a key of its own
//! day ([`Identity::towards`]). A session keeps its key past midnight and across connections; a new one takes the key of
//! a contract that is in hand, or the day's.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quell_core::config::WalletConfig;
use quell_core::contract::days::{day_of, own_days};
use quell_core::contract::wallet::{ContractsAsked, Party, StoredContract, Want, WantOutcome};
use quell_core::contract::{AskEnd, Wallet, seal};
use quell_core::health::BackendHealth;
use quell_core::multi::{Client, ContractNews, ExitId};
use quell_wire::contract::{BindingTerms, SignedBinding};
use quell_wire::key::PublicKey;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::client::Server;
use crate::identity::Identity;

/// What a client pays with.
#[derive(Debug)]
pub struct PaySettings {
    /// When it asks, and when it signs; validated.
    pub wallet: WalletConfig,
    /// What an earlier process kept.
    pub stored: Vec<StoredContract>,
    /// That process ended in order.
    pub clean: bool,
}

/// The other ends of a client's wallet.
#[derive(Debug)]
pub struct Paying {
    /// Requests for contracts, one at a time. Each is to be answered with its number.
    pub wanted: mpsc::Receiver<ContractsWanted>,
    /// How they ended.
    pub ended: mpsc::Sender<ContractsEnded>,
    /// What is to be kept for the next start, whenever it changes.
    pub stored: watch::Receiver<Vec<StoredContract>>,
}

/// A request for contracts, to be sent as it is.
#[derive(Debug, Clone)]
pub struct ContractsWanted {
    /// Names this sending of it.
    pub number: u64,
    /// Names the request to the backend.
    pub request_id: [u8; 16],
    /// Whose key for which provider, and how many bytes.
    pub wants: Vec<(SignedBinding, u64)>,
}

/// How a request ended.
#[derive(Debug, Clone)]
pub struct ContractsEnded {
    /// Which sending.
    pub number: u64,
    /// An outcome for each want, or none at all.
    pub end: Result<Vec<WantOutcome>, AskEnd>,
}

/// Who the client is to one exit.
#[derive(Debug, Clone)]
struct Payer {
    party: Party,
    identity: Identity,
    day: u32,
}

/// The wallet, at work.
pub(super) struct Payments {
    own: Identity,
    wallet: Wallet,
    /// In the order of the exits.
    payers: Vec<Option<Payer>>,
    wanted: mpsc::Sender<ContractsWanted>,
    ended: mpsc::Receiver<ContractsEnded>,
    stored: watch::Sender<Vec<StoredContract>>,
    /// An exit, or what is in hand for it, came or went.
    look_due: bool,
}

/// What exits are paid with, for people and programs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ContractsReport {
    /// Contracts in hand that are good.
    pub contracts: usize,
    /// Bytes left in them.
    pub bytes_left: u64,
    /// How long what is in hand lasts without the backend at the recent rate, in seconds.
    pub survives_s: u64,
    /// The same in words.
    pub survives: String,
    /// Requests for contracts that went to the backend, repeats included.
    pub requests: u64,
    /// Contracts that were granted.
    pub granted: u64,
    /// Wants that were refused.
    pub refused: u64,
    /// Receipts that were signed.
    pub receipts: u64,
}

/// Seconds since 1970 UTC, by the system's clock; 0 before.
pub(super) fn wall_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

impl Payments {
    pub(super) fn new(own: Identity, settings: PaySettings, seed: u64) -> (Self, Paying) {
        let (wanted, wanted_at) = mpsc::channel(1);
        let (end, ended) = mpsc::channel(1);
        let (stored, stored_at) = watch::channel(settings.stored.clone());
        let mut wallet = Wallet::new(settings.wallet, seed);
        wallet.restore(&settings.stored, settings.clean, wall_s());
        let payments = Self {
            own,
            wallet,
            payers: Vec::new(),
            wanted,
            ended,
            stored,
            look_due: true,
        };
        let paying = Paying {
            wanted: wanted_at,
            ended: end,
            stored: stored_at,
        };
        (payments, paying)
    }

    /// How the request in flight ended; pending while none does.
    pub(super) async fn next(&mut self) -> ContractsEnded {
        match self.ended.recv().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Who to be in the next dial of an exit. `goes_on`: a session waits for it, whose key it must be.
    pub(super) fn identity(
        &mut self,
        exit: ExitId,
        provider: PublicKey,
        goes_on: bool,
    ) -> Option<Identity> {
        if !goes_on || self.payer(exit, provider).is_none() {
            let payer = self.payer_in_hand(provider);
            self.set_payer(exit, payer);
        }
        Some(self.payer(exit, provider)?.identity.clone())
    }

    fn payer(&self, exit: ExitId, provider: PublicKey) -> Option<&Payer> {
        let payer = self.payers.get(exit.index())?.as_ref();
        payer.filter(|payer| payer.party.provider_key == provider)
    }

    fn set_payer(&mut self, exit: ExitId, payer: Option<Payer>) {
        if self.payers.len() <= exit.index() {
            self.payers.resize(exit.index() + 1, None);
        }
        if let Some(place) = self.payers.get_mut(exit.index()) {
            *place = payer;
        }
    }

    /// The key that a contract is in hand for, of the latest day that has one; else the day's.
    fn payer_in_hand(&self, provider: PublicKey) -> Option<Payer> {
        let wall_s = wall_s();
        let today = day_of(wall_s);
        let usable: Vec<_> = self.wallet.usable(wall_s).copied().collect();
        let in_hand = own_days(wall_s).find_map(|day| {
            let payer = self.payer_of(provider, day)?;
            usable.contains(&payer.party).then_some(payer)
        });
        in_hand.or_else(|| self.payer_of(provider, today))
    }

    fn payer_of(&self, provider: PublicKey, day: u32) -> Option<Payer> {
        let identity = self.own.towards(&provider, day).ok()?;
        let party = Party {
            provider_key: provider,
            client_key: identity.public_key(),
        };
        Some(Payer {
            party,
            identity,
            day,
        })
    }

    /// Looks after all of it: what was carried is signed for, what is wanted is asked for.
    pub(super) fn drain(
        &mut self,
        core: &mut Client,
        servers: &[Server],
        health: &BackendHealth,
        now: Instant,
    ) {
        let wall_s = wall_s();
        self.take_news(core, now);
        self.count(core, now);
        self.sign(core, wall_s, now);
        if std::mem::take(&mut self.look_due) {
            self.look(core, servers);
        }
        self.ask(health, wall_s, now);
        if self.wallet.take_changed() {
            self.look_due = true;
            self.stored.send_replace(self.wallet.stored());
        }
    }

    fn take_news(&mut self, core: &mut Client, now: Instant) {
        while let Some((exit, news)) = core.poll_contract_news() {
            let Some(party) = self.party_of(exit) else {
                continue;
            };
            match news {
                ContractNews::Wanted => {
                    for form in self.wallet.contracts_for(&party) {
                        core.send_contract(exit, &form, now);
                    }
                    for form in self.wallet.receipts_for(&party) {
                        core.send_receipt(exit, &form, now);
                    }
                    self.look_due = true;
                }
                ContractNews::Refused { contract, words } => {
                    warn!(%exit, words, "the provider does not honour a contract");
                    self.wallet.on_contract_refused(&party, contract, now);
                }
                ContractNews::SentBack(form) => {
                    self.wallet.on_echo(&party, &form);
                }
            }
        }
    }

    fn party_of(&self, exit: ExitId) -> Option<Party> {
        Some(self.payers.get(exit.index())?.as_ref()?.party)
    }

    fn parties(&self) -> impl Iterator<Item = (ExitId, &Payer)> {
        let ids = (0..).map(ExitId);
        ids.zip(&self.payers)
            .filter_map(|(exit, payer)| Some((exit, payer.as_ref()?)))
    }

    fn count(&mut self, core: &mut Client, now: Instant) {
        for (exit, payer) in (0..).map(ExitId).zip(&self.payers) {
            let Some(payer) = payer else { continue };
            let bytes = core.take_billed(exit);
            if bytes > 0 {
                self.wallet.on_delivered(&payer.party, bytes, now);
            }
        }
    }

    fn sign(&mut self, core: &mut Client, wall_s: u64, now: Instant) {
        while let Some((party, terms)) = self.wallet.poll_receipt(wall_s, now) {
            let Some(payer) = self.payer_to(&party, wall_s) else {
                // Its key is older than any that is remembered: nobody takes such a receipt.
                continue;
            };
            let receipt = seal::sign_receipt(payer.identity.secret_key(), terms);
            self.wallet.on_signed(&party, &receipt);
            // Where its place is another provider's by now, it waits for its return.
            let exit = self.parties().find(|(_, payer)| payer.party == party);
            if let Some((exit, _)) = exit {
                core.send_receipt(exit, &receipt.encode(), now);
            }
        }
    }

    /// Who the client is to a party, whether it has a place at the moment or not.
    fn payer_to(&self, party: &Party, wall_s: u64) -> Option<Payer> {
        let placed = self.parties().find(|(_, payer)| payer.party == *party);
        if let Some((_, payer)) = placed {
            return Some(payer.clone());
        }
        own_days(wall_s).find_map(|day| {
            let payer = self.payer_of(party.provider_key, day)?;
            (payer.party == *party).then_some(payer)
        })
    }

    /// Looks which exits contracts are wanted for, and which could be used at once.
    fn look(&mut self, core: &mut Client, servers: &[Server]) {
        let mut wanted = Vec::new();
        for exit in core.exits_to_be_ready() {
            let Some(server) = servers.get(exit.index()).filter(|server| server.is_paid) else {
                continue;
            };
            if self.payer(exit, server.key).is_none() {
                let payer = self.payer_in_hand(server.key);
                self.set_payer(exit, payer);
            }
            wanted.extend(self.party_of(exit));
        }
        self.wallet.set_wanted(&wanted);
        let usable: Vec<_> = self
            .wallet
            .usable(wall_s())
            .map(|p| p.provider_key)
            .collect();
        for (exit, server) in (0..).map(ExitId).zip(servers) {
            let ready = !server.is_paid || usable.contains(&server.key);
            core.set_ready(exit, ready);
        }
    }

    fn ask(&mut self, health: &BackendHealth, wall_s: u64, now: Instant) {
        let Ok(place) = self.wanted.try_reserve() else {
            return;
        };
        let Some(asked) = self.wallet.poll_request(health, wall_s, now) else {
            return;
        };
        let ContractsAsked {
            number,
            request_id,
            wants,
        } = asked;
        let bound = wants
            .iter()
            .map(|want| Some((self.binding(want, wall_s)?, want.bytes)));
        match bound.collect::<Option<Vec<_>>>() {
            Some(wants) => place.send(ContractsWanted {
                number,
                request_id,
                wants,
            }),
            // A key that nobody has: it is older than any that is remembered.
            None => self
                .wallet
                .on_ended(number, AskEnd::Cancelled, health, wall_s, now),
        }
    }

    /// The client's word that a fresh key is its own.
    fn binding(&self, want: &Want, wall_s: u64) -> Option<SignedBinding> {
        let party = want.party;
        let day = self.payer_to(&party, wall_s)?.day;
        let terms = BindingTerms {
            account_key: self.own.public_key(),
            client_key: party.client_key,
            provider_key: party.provider_key,
            day,
        };
        // A key that is held elsewhere may be locked: the want is asked for again.
        let signature = self.own.sign(&terms.to_signed_part()).ok()?;
        Some(SignedBinding { terms, signature })
    }

    /// How the request ended.
    pub(super) fn on_ended(
        &mut self,
        core: &mut Client,
        ended: ContractsEnded,
        health: &BackendHealth,
        now: Instant,
    ) {
        let wall_s = wall_s();
        let outcomes = match ended.end {
            Ok(outcomes) => outcomes,
            Err(end) => {
                if let AskEnd::Refused(reason) = end {
                    warn!(reason = reason.name(), "the backend gives no contracts");
                }
                return self.wallet.on_ended(ended.number, end, health, wall_s, now);
            }
        };
        for outcome in &outcomes {
            if let WantOutcome::Refused(reason) = outcome {
                warn!(reason = reason.name(), "the backend refuses a contract");
            }
        }
        let new = self
            .wallet
            .on_answer(ended.number, &outcomes, health, wall_s, now);
        if !new.is_empty() {
            info!(contracts = new.len(), "contracts came");
        }
        for (party, form) in new {
            let exit = self.parties().find(|(_, payer)| payer.party == party);
            if let Some((exit, _)) = exit {
                core.send_contract(exit, &form, now);
            }
        }
    }

    /// When to look after it next.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        if self.look_due {
            return Some(now);
        }
        if self.wanted.is_closed() {
            // Nobody asks any more: what is due will not become less so.
            return None;
        }
        self.wallet.poll_timeout(wall_s(), now).map(|(at, _)| at)
    }

    /// An exit came or went: contracts may be wanted for others.
    pub(super) fn look_soon(&mut self) {
        self.look_due = true;
    }

    /// The end: everything that was carried is signed for, and kept.
    pub(super) fn end(&mut self, core: &mut Client, now: Instant) {
        self.count(core, now);
        self.stored.send_replace(self.wallet.stored());
    }

    pub(super) fn report(&self, now: Instant) -> ContractsReport {
        let status = self.wallet.status(wall_s(), now);
        ContractsReport {
            contracts: status.contracts,
            bytes_left: status.bytes_left,
            survives_s: status.survives.as_secs(),
            survives: survives(status.survives),
            requests: status.requests,
            granted: status.granted,
            refused: status.refused,
            receipts: status.receipts,
        }
    }
}

/// How long the backend may be away, in words.
fn survives(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match (minutes / 60, minutes % 60) {
        (0, 0) if time.is_zero() => "does not survive without the backend".to_owned(),
        (0, 0) => format!("survives {} s without the backend", time.as_secs()),
        (0, minutes) => format!("survives {minutes} min without the backend"),
        (hours, minutes) => format!("survives {hours} h {minutes} min without the backend"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_lasts_is_said_in_words() {
        let words = |s| survives(Duration::from_secs(s));
        assert_eq!(words(0), "does not survive without the backend");
        assert_eq!(words(59), "survives 59 s without the backend");
        assert_eq!(words(60), "survives 1 min without the backend");
        assert_eq!(words(20_400), "survives 5 h 40 min without the backend");
    }
}
