//! What a sequence may send: contracts of the backend, asked for again and again by whoever waits for one.
//!
//! A contract is a number of bytes, four fifths of which the sender uses. A sequence's first one is 1 MiB, each further
//! one twice as large, up to 128 MiB (the reference gives both ends; doubling between them is assumed). First sends are
//! debited, resends never: a pack that is sent thirty times costs its sequence one.
//!
//! ```text
//! enough left ──a pack does not fit──▶ waiting ──▶ asks ──wait──▶ asks ──wait──▶ …      until Yes, or the sequence ends
//! ```
//!
//! The first request of a new sequence is never held back, and a sequence that gets no contract ends by its ack timeout,
//! so what is gated per sequence begins anew with each of them.

use std::time::{Duration, Instant};

use super::rules::ContractRules;

const MIB: u64 = 1 << 20;
/// The first contract of a sequence, in bytes.
const SIZE_MIN: u64 = MIB;
/// The largest, in bytes.
const SIZE_MAX: u64 = 128 * MIB;

/// What a sequence may send.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    left_bytes: u64,
    next_size: u64,
    /// Requests since it waits; the first of all is the opening one.
    asked: u32,
    was_opened: bool,
    ask_at: Option<Instant>,
}

impl Grant {
    /// A new sequence's: nothing yet.
    pub(crate) fn opening() -> Self {
        Self {
            left_bytes: 0,
            next_size: SIZE_MIN,
            asked: 0,
            was_opened: false,
            ask_at: None,
        }
    }

    /// Takes `bytes` off; if there are not enough, waits for a contract.
    pub(crate) fn debit(&mut self, bytes: u32, now: Instant) -> bool {
        if self.left_bytes < u64::from(bytes) {
            self.ask_at.get_or_insert(now);
            return false;
        }
        self.left_bytes -= u64::from(bytes);
        true
    }

    /// A contract came.
    pub(crate) fn add(&mut self) {
        self.left_bytes += self.next_size / 5 * 4;
        self.next_size = (self.next_size * 2).min(SIZE_MAX);
        self.asked = 0;
        self.ask_at = None;
    }

    /// When to ask; `None`: not waiting.
    pub(crate) fn ask_at(&self) -> Option<Instant> {
        self.ask_at
    }

    /// Whether to ask at once, by `rules`.
    pub(crate) fn poll_ask(&mut self, rules: &ContractRules, degraded: bool, now: Instant) -> bool {
        if self.ask_at.is_none_or(|at| at > now) {
            return false;
        }
        let goes = !self.was_opened || !rules.gated || !degraded;
        self.ask_at = Some(now + self.wait(rules));
        if goes {
            self.was_opened = true;
            self.asked = self.asked.saturating_add(1);
        }
        goes
    }

    fn wait(&self, rules: &ContractRules) -> Duration {
        let doublings = self.asked.min(16);
        rules
            .wait_min
            .saturating_mul(1 << doublings)
            .min(rules.wait_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{upstream_2026_05, upstream_2026_08};

    fn asks_s(rules: &ContractRules, degraded: bool, until_s: u64) -> Vec<u64> {
        let start = Instant::now();
        let mut grant = Grant::opening();
        assert!(!grant.debit(1_000, start));
        let mut asks = Vec::new();
        while let Some(at) = grant.ask_at()
            && at < start + Duration::from_secs(until_s)
        {
            if grant.poll_ask(rules, degraded, at) {
                asks.push((at - start).as_secs());
            }
        }
        asks
    }

    // R-21: contract requests of one waiting sequence in its life of 30 s.
    #[test]
    fn a_waiting_sequence_asks_again_and_again() {
        let may = upstream_2026_05::RULES.contract;
        assert_eq!(asks_s(&may, false, 30), [0, 5, 10, 15, 20, 25]);
        assert_eq!(asks_s(&may, true, 30), [0, 5, 10, 15, 20, 25]);
        let august = upstream_2026_08::RULES.contract;
        assert_eq!(asks_s(&august, false, 30), [0, 1, 3, 7, 12, 17, 22, 27]);
    }

    #[test]
    fn the_gate_lets_the_opening_request_pass_and_no_other() {
        assert_eq!(asks_s(&upstream_2026_08::RULES.contract, true, 30), [0]);
    }

    #[test]
    fn contracts_grow_to_128_mib_and_four_fifths_are_used() {
        let now = Instant::now();
        let mut grant = Grant::opening();
        grant.add();
        assert!(grant.debit(838_860, now));
        assert!(!grant.debit(1, now));
        assert_eq!(grant.ask_at(), Some(now));
        for _ in 0..20 {
            grant.add();
        }
        assert_eq!(grant.ask_at(), None);
        let before = grant.left_bytes;
        grant.add();
        assert_eq!(grant.left_bytes - before, (128 << 20) / 5 * 4);
    }
}
