//! What a client says about contracts, and hears (DESIGN §7).
//!
//! The contracts themselves are the [`Wallet`](crate::contract::Wallet)'s, which the driver owns beside the client, since
//! it asks a backend and signs. What is here is their way to an exit and what was carried for them:
//!
//! ```text
//! WELCOME, RESUMED ──> ContractNews::Wanted ──> send_contract, send_receipt, of all that the wallet holds for it
//! RECEIPT ───────────> ContractNews::SentBack    the provider's last one: Wallet::on_echo
//! ERROR ─────────────> ContractNews::Refused     in words: Wallet::on_contract_refused
//! take_billed ───────> Wallet::on_delivered ──> poll_receipt ──> send_receipt
//! ```
//!
//! Counted are inner packets: those that the user got over this exit, and those of the user's that left for good. What a
//! race lost, and resends, count nothing.

use std::time::Instant;

use bytes::Bytes;
use quell_wire::contract::ContractId;
use quell_wire::control::{Contract, Control, ErrorMessage, Receipt};
use quell_wire::registry::{ErrorCode, feature};

use super::client::Client;
use super::dial::State;
use super::exit::Exit;
use super::exit_id::ExitId;
use crate::contract::named::named_in;
use crate::path::{Path, Violation};

/// Most news of one exit that wait for the driver; further receipts that were sent back are dropped.
const NEWS_MAX: usize = 64;

/// What an exit says about contracts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContractNews {
    /// Its session is up, or up again, and carries for contracts.
    Wanted,
    /// It does not honour a contract, and says why.
    Refused {
        /// Which; `None` where it does not say.
        contract: Option<ContractId>,
        /// For people.
        words: String,
    },
    /// The last receipt that it has under one of the contracts, signed by this client.
    SentBack(Bytes),
}

/// An exit's part in contracts.
#[derive(Debug, Default)]
pub(super) struct Billed {
    /// The provider of the session wants them.
    wants: bool,
    news: Vec<ContractNews>,
    /// Bytes that the user got.
    down_bytes: u64,
    /// Bytes of the user's, of paths that ended.
    ended_bytes: u64,
    taken_bytes: u64,
}

impl Billed {
    /// Whether something was said of contracts that nobody took.
    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The features of HELLO.
    pub(super) fn features(offers: bool) -> u64 {
        if offers { feature::CONTRACTS } else { 0 }
    }

    /// The features of WELCOME.
    pub(super) fn on_welcome(&mut self, offers: bool, features: u64) {
        self.wants = offers && features & feature::CONTRACTS != 0;
    }

    pub(super) fn on_up(&mut self) {
        if self.wants {
            self.news.clear();
            self.news.push(ContractNews::Wanted);
        }
    }

    pub(super) fn on_received(&mut self, bytes: usize) {
        self.down_bytes = self.down_bytes.saturating_add(bytes as u64);
    }

    pub(super) fn on_path_end(&mut self, path: &Path) {
        self.ended_bytes = self.ended_bytes.saturating_add(path.settled_bytes());
    }

    fn tell(&mut self, news: ContractNews) {
        if self.news.len() < NEWS_MAX {
            self.news.push(news);
        }
    }
}

impl Exit {
    /// A message about contracts; what else it is comes back.
    pub(super) fn handle_contract_message(&mut self, message: Control) -> Result<(), Violation> {
        let up = matches!(self.dial.state(), State::Up { .. }) && self.billed.wants;
        match (message, up) {
            (Control::Receipt(receipt), true) => {
                self.billed.tell(ContractNews::SentBack(receipt.bytes));
                Ok(())
            }
            (Control::Error(ErrorMessage { code, words }), true)
                if code == ErrorCode::ContractRefused.code() =>
            {
                let contract = named_in(&words);
                self.billed.tell(ContractNews::Refused { contract, words });
                Ok(())
            }
            (
                message @ (Control::Hello(_)
                | Control::Welcome(_)
                | Control::Contract(_)
                | Control::Receipt(_)
                | Control::FlowClose(_)
                | Control::Resume(_)
                | Control::Resumed(_)
                | Control::Goaway(_)
                | Control::Error(_)),
                _,
            ) => Err(Violation {
                code: ErrorCode::WrongState,
                words: format!("{} was not expected here", message.name()),
            }),
        }
    }

    /// News of contracts since the last call.
    pub(super) fn take_contract_news(&mut self) -> Vec<ContractNews> {
        std::mem::take(&mut self.billed.news)
    }

    fn say_of_contracts(&mut self, message: &Control, now: Instant) -> bool {
        let up = self.is_up() && self.billed.wants;
        if up {
            self.say(message, now);
        }
        up
    }

    fn take_billed(&mut self) -> u64 {
        let up = self.path.as_deref().map_or(0, Path::settled_bytes);
        let billed = &mut self.billed;
        let total = billed.down_bytes.saturating_add(billed.ended_bytes);
        // What QUIC refuses after all is counted back, so the sum may fall for a moment.
        let new = total.saturating_add(up).saturating_sub(billed.taken_bytes);
        billed.taken_bytes = billed.taken_bytes.saturating_add(new);
        new
    }
}

impl Client {
    /// Offers contracts to the providers that want them, in sessions to come.
    #[must_use]
    pub fn with_contracts(mut self) -> Self {
        self.offer_contracts();
        self
    }

    /// As [`Client::with_contracts`].
    pub fn offer_contracts(&mut self) {
        self.terms.offers_contracts = true;
        for exit in self.exits.iter_mut() {
            exit.terms_mut().offers_contracts = true;
        }
    }

    /// Whether a session with an exit is up, or waits for a connection.
    pub fn has_session(&self, exit: ExitId) -> bool {
        let of = self.exits.get(exit.index());
        of.is_some_and(|of| of.path.is_some())
    }

    /// What an exit says about contracts.
    pub fn poll_contract_news(&mut self) -> Option<(ExitId, ContractNews)> {
        self.contract_news.pop_front()
    }

    /// Sends a contract's signed form to an exit. `false`: it has no session, or wants none.
    pub fn send_contract(&mut self, exit: ExitId, form: &[u8], now: Instant) -> bool {
        let bytes = Bytes::copy_from_slice(form);
        self.say_of_contracts(exit, &Control::Contract(Contract { bytes }), now)
    }

    /// Sends a receipt's signed form to an exit. `false`: it has no session, or wants none.
    pub fn send_receipt(&mut self, exit: ExitId, form: &[u8], now: Instant) -> bool {
        let bytes = Bytes::copy_from_slice(form);
        self.say_of_contracts(exit, &Control::Receipt(Receipt { bytes }), now)
    }

    fn say_of_contracts(&mut self, exit: ExitId, message: &Control, now: Instant) -> bool {
        self.now = now;
        let of = self.exits.get_mut(exit.index());
        let said = of.is_some_and(|of| of.say_of_contracts(message, now));
        self.take_output(exit);
        said
    }

    /// Bytes that were carried over an exit since the last call, both directions, and are to be signed for.
    pub fn take_billed(&mut self, exit: ExitId) -> u64 {
        let of = self.exits.get_mut(exit.index());
        of.map_or(0, Exit::take_billed)
    }
}
