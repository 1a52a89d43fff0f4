//! A session that is carried under contracts: its meter, and whether it is paused.
//!
//! The books are the provider's, by key; a session has a [`Meter`] of them, which says at once whether a packet may pass
//! and counts it. When the meter is empty the provider looks at the books, and the session is open again or paused with a
//! reason. A paused session drops packets of both directions (`Unpaid`), and does everything else: it acknowledges, answers
//! PINGs, takes contracts and receipts. One that is paused for `pause_max` ends.
//!
//! Packets for the client that nobody acknowledges are counted as they come in; what of them grows too old in our queue
//! was not carried after all, and is given back at the next look.

use std::time::{Duration, Instant};

use crate::contract::{Books, Carried, Meter, Pause, Verdict};
use crate::path::{Path, Violation};
use quell_wire::key::PublicKey;
use quell_wire::registry::ErrorCode;

/// How often a paused session is looked at, for what nobody announces (old packets that were dropped).
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Contracts and receipts in a row that are refused before the session ends. Each costs a signature's check.
const REFUSED_MAX: u32 = 16;

#[derive(Debug)]
pub(super) struct Billing {
    meter: Meter,
    /// Why, and since when.
    paused: Option<(Pause, Instant)>,
    look_at: Option<Instant>,
    /// Bytes that nobody acknowledges: counted on this path, and given back.
    charged: u64,
    refunded: u64,
    refused: u32,
    pause_max: Duration,
}

impl Billing {
    pub(super) fn new(pause_max: Duration, now: Instant) -> Self {
        Self {
            meter: Meter::default(),
            paused: Some((Pause::NoContract, now)),
            look_at: None,
            charged: 0,
            refunded: 0,
            refused: 0,
            pause_max,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.meter.is_open()
    }

    /// A packet of the client.
    pub(super) fn admit(&mut self, bytes: usize) -> bool {
        self.meter.admit(Carried::Known, bytes)
    }

    /// A packet for the client was taken in; `laned_bytes` of it into the flow lane.
    pub(super) fn charge(&mut self, bytes: usize, laned_bytes: u64) {
        if laned_bytes > 0 {
            self.meter.charge(Carried::Known, laned_bytes);
        } else {
            let bytes = bytes as u64;
            self.charged = self.charged.saturating_add(bytes);
            self.meter.charge(Carried::Unacknowledged, bytes);
        }
    }

    /// Whether only another look at the books can tell how to go on.
    pub(super) fn wants_look(&self) -> bool {
        !self.meter.is_open() && self.paused.is_none()
    }

    pub(super) fn is_look_due(&self, now: Instant) -> bool {
        self.wants_look() || self.look_at.is_some_and(|at| at <= now)
    }

    pub(super) fn look(&mut self, books: &mut Books, key: &PublicKey, path: &Path, now: Instant) {
        let carried = path.unacknowledged_bytes().saturating_add(self.refunded);
        let refund = self.charged.saturating_sub(carried);
        self.refunded = self.refunded.saturating_add(refund);
        books.settle(key, &mut self.meter);
        books.refund(key, refund);
        let verdict = books.judge(key, &mut self.meter, now);
        self.look_at = books.next_change(key, now);
        self.paused = match (verdict, self.paused) {
            (Verdict::Go, _) => None,
            (Verdict::Paused(why), Some((_, since))) => Some((why, since)),
            (Verdict::Paused(why), None) => Some((why, now)),
        };
        if self.paused.is_some() {
            let again = now + LOOK_AGAIN;
            self.look_at = Some(self.look_at.map_or(again, |at| at.min(again)));
        }
    }

    pub(super) fn settle(&mut self, books: &mut Books, key: &PublicKey) {
        books.settle(key, &mut self.meter);
    }

    pub(super) fn pause(&self) -> Option<Pause> {
        self.paused.map(|(why, _)| why)
    }

    pub(super) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let end = self.paused.map(|(_, since)| since + self.pause_max);
        let due = [(end, "pause"), (self.look_at, "contract")];
        let each = due.into_iter().filter_map(|(at, why)| Some((at?, why)));
        each.min_by_key(|(at, _)| *at)
    }

    /// The end of a session that was paused for too long.
    pub(super) fn overdue(&self, now: Instant) -> Option<Violation> {
        let (why, since) = self.paused?;
        (now >= since + self.pause_max).then(|| Violation {
            code: ErrorCode::ContractRequired,
            words: format!("paused for {:?}: {}", self.pause_max, why.words()),
        })
    }

    pub(super) fn on_taken(&mut self) {
        self.refused = 0;
    }

    /// Another one was refused; whether that is too many.
    pub(super) fn on_refused(&mut self) -> bool {
        self.refused = self.refused.saturating_add(1);
        self.refused > REFUSED_MAX
    }
}
