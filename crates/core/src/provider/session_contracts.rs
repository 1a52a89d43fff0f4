//! A session's side of contracts: what it says about them, and what it may carry.
//!
//! The books are the provider's; `billing` is what a session has of them. A client of the roster has no billing, and all
//! of this answers that it may go on.

use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_wire::control::{Control, ErrorMessage, Receipt};
use quell_wire::registry::ErrorCode;

use super::billing::Billing;
use super::session::Session;
use crate::contract::verify::ReceiptRefusal;
use crate::contract::{Books, Pause};
use crate::path::Violation;

impl Session {
    /// It is carried under contracts alone.
    pub(super) fn bill(&mut self, pause_max: Duration, now: Instant) {
        self.billing = Some(Box::new(Billing::new(pause_max, now)));
    }

    pub(super) fn is_billed(&self) -> bool {
        self.billing.is_some()
    }

    pub(super) fn pause(&self) -> Option<Pause> {
        self.billing.as_ref()?.pause()
    }

    pub(super) fn is_look_due(&self, now: Instant) -> bool {
        let lives = self.is_up() || self.is_suspended();
        let billing = self.billing.as_ref().filter(|_| lives);
        billing.is_some_and(|billing| billing.is_look_due(now))
    }

    pub(super) fn look(&mut self, books: &mut Books, now: Instant) {
        if !self.is_up() && !self.is_suspended() {
            return;
        }
        if let Some(billing) = &mut self.billing {
            billing.look(books, &self.key, &self.path, now);
        }
    }

    pub(super) fn settle(&mut self, books: &mut Books) {
        if let Some(billing) = &mut self.billing {
            billing.settle(books, &self.key);
        }
    }

    /// Whether a packet of the client may pass, which counts it.
    pub(super) fn pays_for(&mut self, bytes: usize) -> bool {
        let billing = self.billing.as_mut();
        billing.is_none_or(|billing| billing.admit(bytes))
    }

    /// Sends the client a receipt of its own.
    pub(super) fn send_back(&mut self, form: &[u8]) {
        let bytes = Bytes::copy_from_slice(form);
        self.say(&Control::Receipt(Receipt { bytes }));
    }

    pub(super) fn refuse_contract(&mut self, words: &str) {
        let error = ErrorMessage::new(ErrorCode::ContractRefused, words);
        self.say(&Control::Error(error));
        self.count_refusal(
            ErrorCode::ContractRefused,
            "too many contracts were refused",
        );
    }

    pub(super) fn refuse_receipt(&mut self, refusal: &ReceiptRefusal) {
        let code = ErrorCode::ReceiptRefused;
        if refusal.is_breach() {
            let words = refusal.to_string();
            self.close(Violation { code, words });
        } else {
            self.count_refusal(code, "too many receipts said nothing new");
        }
    }

    pub(super) fn on_receipt_taken(&mut self) {
        if let Some(billing) = &mut self.billing {
            billing.on_taken();
        }
    }

    pub(super) fn count_refusal(&mut self, code: ErrorCode, words: &str) {
        if self
            .billing
            .as_mut()
            .is_some_and(|billing| billing.on_refused())
        {
            let words = words.to_owned();
            self.close(Violation { code, words });
        }
    }
}
