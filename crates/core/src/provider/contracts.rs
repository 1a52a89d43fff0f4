//! Sessions that are carried under contracts (DESIGN §7): what a provider with [`Books`] does more.
//!
//! ```text
//! CONTRACT ──> books ──> the client's last receipt, sent back; or ERROR, in words
//! RECEIPT ───> books ──> poll_persist ──(disk)──> on_persisted: credit ──> poll_filing ──(backend)──> on_filed
//! ```
//!
//! With books any key may connect that says it sends contracts; clients of the roster are carried beside them, unbilled.
//!
//! **What a driver has to do.** Write what [`Provider::poll_persist`] gives and say how that went; file what
//! [`Provider::poll_filing`] gives; say how late it is; and call [`Provider::handle_contracts`] when
//! [`Provider::poll_contracts`] says. Sessions whose pause ends or begins by it are announced by
//! [`Provider::poll_ready`].

use std::time::Instant;

use bytes::Bytes;
use quell_wire::registry::{ErrorCode, feature};

use super::{Provider, SessionId};
use crate::contract::books::BooksStatus;
use crate::contract::named::refusal_words;
use crate::contract::verify::{ContractRefusal, ReceiptRefusal};
use crate::contract::{AskEnd, Batch, Books, Filed, FilingRequest, Pause, RefusedFor, Trusted};
use crate::health::BackendHealth;
use crate::path::Violation;
use crate::send::Degraded as _;

impl Provider {
    /// Carries keys that are not listed, under contracts.
    #[must_use]
    pub fn with_contracts(mut self, books: Books) -> Self {
        self.set_contracts(books);
        self
    }

    /// As [`Provider::with_contracts`], before it has sessions.
    pub fn set_contracts(&mut self, books: Books) {
        self.contracts = Some(Box::new(books));
    }

    /// The features that a session is told of.
    pub(super) fn features(&self, id: SessionId) -> u64 {
        let billed = self.session(id).is_some_and(super::Session::is_billed);
        if billed { feature::CONTRACTS } else { 0 }
    }

    /// Why a client that cannot send contracts is not carried.
    pub(super) fn contract_required() -> Violation {
        Violation {
            code: ErrorCode::ContractRequired,
            words: "this provider carries for contracts, which the client does not offer"
                .to_owned(),
        }
    }

    /// How late it is, in seconds since 1970 UTC. To be said at least once a minute.
    pub fn on_contract_clock(&mut self, wall_s: u64, now: Instant) {
        if let Some(books) = &mut self.contracts {
            books.on_wall_clock(wall_s, now);
        }
        self.handle_contracts(now);
    }

    /// Whose contracts are honoured from here on.
    pub fn on_trusted(&mut self, trusted: Trusted) {
        if let Some(books) = &mut self.contracts {
            books.on_trusted(trusted);
        }
    }

    /// The receipts that are to be durable next.
    pub fn poll_persist(&mut self, now: Instant) -> Option<Batch> {
        self.contracts.as_mut()?.poll_persist(now)
    }

    /// The batch is durable.
    pub fn on_persisted(&mut self, batch: u64, now: Instant) {
        if let Some(books) = &mut self.contracts {
            books.on_persisted(batch, now);
        }
        self.handle_contracts(now);
    }

    /// The batch could not be written.
    pub fn on_persist_failed(&mut self, batch: u64, now: Instant) {
        if let Some(books) = &mut self.contracts {
            books.on_persist_failed(batch, now);
        }
    }

    /// The receipts that are to be filed next.
    pub fn poll_filing(&mut self, health: &BackendHealth, now: Instant) -> Option<FilingRequest> {
        self.contracts.as_mut()?.poll_filing(health, now)
    }

    /// The backend answered a filing, an outcome for each receipt; what it refused, for a log.
    pub fn on_filed(
        &mut self,
        request: u64,
        outcomes: &[Filed],
        health: &BackendHealth,
        now: Instant,
    ) -> Vec<RefusedFor> {
        let Some(books) = &mut self.contracts else {
            return Vec::new();
        };
        books.on_filed(request, outcomes, health, now)
    }

    /// A filing ended without such an answer.
    pub fn on_filing_ended(&mut self, id: u64, end: AskEnd, health: &BackendHealth, now: Instant) {
        if let Some(books) = &mut self.contracts {
            books.on_filing_ended(id, end, health, now);
        }
    }

    /// When to call [`Provider::handle_contracts`], and why; it is due too when a receipt came.
    pub fn poll_contracts(&self, now: Instant) -> Option<(Instant, &'static str)> {
        self.contracts.as_ref()?.poll_timeout(now)
    }

    /// Does what is due at `now` with contracts; then [`Provider::poll_persist`] and [`Provider::poll_filing`] may have
    /// something.
    pub fn handle_contracts(&mut self, now: Instant) {
        let degraded = self.signal.is_degraded(now);
        let mut changed = Vec::new();
        if let Some(books) = &mut self.contracts {
            books.on_backend(degraded);
            books.handle_timeout(now);
            changed.extend(std::iter::from_fn(|| books.poll_changed()));
        }
        for key in changed {
            if let Some(id) = self.by_key.get(&key).copied() {
                self.look(id, now);
                self.ready.push_back(id);
            }
        }
    }

    /// A snapshot of the books, if there are any.
    pub fn contracts_status(&self) -> Option<BooksStatus> {
        self.contracts.as_ref().map(|books| books.status())
    }

    /// Why the session is paused, if it is.
    pub fn pause_of(&self, id: SessionId) -> Option<Pause> {
        self.session(id)?.pause()
    }

    /// Asks the books how the session goes on.
    ///
    /// Each look sees how the backend is: a session that is paused is looked at each second, so grace begins within one of
    /// the backend's being degraded, whoever calls [`Provider::handle_contracts`] when.
    pub(super) fn look(&mut self, id: SessionId, now: Instant) {
        let degraded = self.signal.is_degraded(now);
        if let (Some(books), Some(session)) = (&mut self.contracts, self.sessions.get_mut(&id)) {
            books.on_backend(degraded);
            session.look(books, now);
        }
    }

    /// After an input: asks the books if the session cannot tell how it goes on.
    pub(super) fn look_if_due(&mut self, id: SessionId, now: Instant) {
        if self
            .session(id)
            .is_some_and(|session| session.is_look_due(now))
        {
            self.look(id, now);
        }
    }

    /// What the session counted goes into the books, before another one of its key is up.
    pub(super) fn settle(&mut self, id: SessionId) {
        if let (Some(books), Some(session)) = (&mut self.contracts, self.sessions.get_mut(&id)) {
            session.settle(books);
        }
    }

    pub(super) fn on_contract(&mut self, id: SessionId, form: &[u8], now: Instant) {
        let (Some(books), Some(session)) = (&mut self.contracts, self.sessions.get_mut(&id)) else {
            return;
        };
        let key = session.key;
        match books.on_contract(&key, form, now) {
            taken @ (Ok(_) | Err(ContractRefusal::Replaced)) => {
                // One that is used up says as much by its last receipt; a client that lost its count needs no refusal.
                if taken.is_err() {
                    session.count_refusal(ErrorCode::ContractRefused, "used up contracts again");
                }
                let last = books.account_of(&key).into_iter();
                let last = last.flat_map(|account| account.receipts());
                last.for_each(|form| session.send_back(form));
            }
            Err(refusal) => session.refuse_contract(&refusal_words(form, &refusal)),
        }
        self.look(id, now);
    }

    pub(super) fn on_receipt(&mut self, id: SessionId, form: &Bytes, now: Instant) {
        let (Some(books), Some(session)) = (&mut self.contracts, self.sessions.get_mut(&id)) else {
            return;
        };
        let key = session.key;
        match books.on_receipt(&key, form, now) {
            Ok(()) => session.on_receipt_taken(),
            Err(refusal) => {
                session.refuse_receipt(&refusal);
                if matches!(refusal, ReceiptRefusal::NotHigher { .. }) {
                    let last = books.account_of(&key).into_iter();
                    let last = last.flat_map(|account| account.receipts());
                    last.for_each(|form| session.send_back(form));
                }
            }
        }
        self.look(id, now);
    }
}
