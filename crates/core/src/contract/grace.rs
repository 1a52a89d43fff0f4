//! What may be had beyond a contract while the backend cannot be asked for another.
//!
//! Grace is signed into a contract by the backend, for accounts that have settled one before. It may be used only while
//! this provider *itself* sees the backend degraded: what a client says about the backend is worth nothing. Once an
//! outage a key, and all keys together up to a ceiling, since what is carried in grace is carried on trust.
//!
//! ```text
//! well ──degraded──> outage: each key may ask once, the ceiling fills ──well──> forgotten
//! ```
//!
//! A backend that flaps starts many outages. That gives nobody more than was signed: grace is of a contract, and had
//! once; a key gets it again in another outage only by a contract that was not used for it.

use std::collections::HashSet;

use quell_wire::key::PublicKey;

/// Most keys that may have grace in one outage.
const KEYS_MAX: usize = 65_536;

/// Why there is no grace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoGrace {
    /// The backend answers.
    #[error("the backend answers: it is to be asked for a contract")]
    BackendIsWell,
    /// The key had its share of this outage.
    #[error("this key has had its grace in this outage")]
    Had,
    /// The provider gives no more in this outage.
    #[error("this provider gives no more grace in this outage")]
    Ceiling,
}

/// The grace that a provider gives.
#[derive(Debug)]
pub struct Grace {
    bytes_max: u64,
    degraded: bool,
    given: u64,
    had: HashSet<PublicKey>,
    outages: u64,
    given_total: u64,
}

impl Grace {
    /// Gives `bytes_max` in one outage, to all clients together.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            degraded: false,
            given: 0,
            had: HashSet::new(),
            outages: 0,
            given_total: 0,
        }
    }

    /// How this provider sees the backend. Whether that is news.
    pub fn on_backend(&mut self, degraded: bool) -> bool {
        let news = degraded != self.degraded;
        if news && degraded {
            self.outages = self.outages.saturating_add(1);
            self.given = 0;
            self.had.clear();
        }
        self.degraded = degraded;
        news
    }

    /// Asks for `bytes` for a key: so many are given, at least one, at most what the ceiling leaves.
    ///
    /// # Errors
    /// Why there are none.
    pub fn ask(&mut self, key: PublicKey, bytes: u64) -> Result<u64, NoGrace> {
        if !self.degraded {
            return Err(NoGrace::BackendIsWell);
        }
        if self.had.contains(&key) {
            return Err(NoGrace::Had);
        }
        let given = bytes.min(self.bytes_max.saturating_sub(self.given));
        if given == 0 || self.had.len() >= KEYS_MAX {
            return Err(NoGrace::Ceiling);
        }
        self.had.insert(key);
        self.given += given;
        self.given_total = self.given_total.saturating_add(given);
        Ok(given)
    }

    /// Outages so far, bytes given in this one or the last, and in all.
    #[must_use]
    pub fn counters(&self) -> (u64, u64, u64) {
        (self.outages, self.given, self.given_total)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::public;
    use super::*;

    #[test]
    fn it_is_given_in_an_outage_alone_and_once_a_key() {
        let mut grace = Grace::new(1_000);
        assert_eq!(grace.ask(public(1), 10), Err(NoGrace::BackendIsWell));
        assert!(grace.on_backend(true));
        assert!(!grace.on_backend(true), "the same outage");
        assert_eq!(grace.ask(public(1), 10), Ok(10));
        assert_eq!(grace.ask(public(1), 10), Err(NoGrace::Had));
        assert_eq!(grace.ask(public(2), 10), Ok(10));
        grace.on_backend(false);
        assert_eq!(grace.ask(public(3), 10), Err(NoGrace::BackendIsWell));
        grace.on_backend(true);
        assert_eq!(grace.ask(public(1), 10), Ok(10), "another outage");
        assert_eq!(grace.counters(), (2, 10, 30));
    }

    #[test]
    fn all_keys_together_get_the_ceiling_and_not_a_byte_more() {
        let mut grace = Grace::new(25);
        grace.on_backend(true);
        let given: Vec<_> = (1..5).map(|key| grace.ask(public(key), 10)).collect();
        assert_eq!(given, [Ok(10), Ok(10), Ok(5), Err(NoGrace::Ceiling)]);
        let mut none = Grace::new(0);
        none.on_backend(true);
        assert_eq!(none.ask(public(1), 1), Err(NoGrace::Ceiling));
    }
}
