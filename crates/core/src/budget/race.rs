//! The budget of extra copies: what may be sent twice so that one arrives sooner.
//!
//! A race costs a second packet and a second flow at another exit. While a few
//! destinations are slow, a share of what is sent anyway pays for that; when all
//! of them are, copies help nobody, and the share does not grow with them because
//! copies do not count as first sends.
//!
//! It is apart from the budget of resends: an outage spends that one, and races
//! are how the first packets find the exit that still works.

use std::time::Instant;

use super::ledger::{Clock, Ledger, Source, Spending};
use crate::config::RaceConfig;

/// A copy that is planned, to be given back with [`RaceBudget::refund`] if it is
/// not sent.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is not sent is to be given back"]
pub struct CopyReservation {
    bytes: usize,
    tick: u32,
    source: Source,
}

/// How many extra copies may be sent (DESIGN §6 "Racer").
#[derive(Debug)]
pub struct RaceBudget {
    clock: Clock,
    ledger: Ledger,
}

impl RaceBudget {
    /// A budget as configured, nothing spent.
    pub fn new(config: &RaceConfig) -> Self {
        Self {
            clock: Clock::default(),
            ledger: Ledger::new(config.race_share_percent, config.race_copies_per_s),
        }
    }

    /// The first copy, of `bytes`, of something that may be raced was sent.
    pub fn on_first_sent(&mut self, bytes: usize, now: Instant) {
        self.ledger.on_first_sent(bytes, self.clock.tick(now));
    }

    /// Takes an extra copy of `bytes` out; `None` changes nothing but a count.
    pub fn reserve(&mut self, bytes: usize, now: Instant) -> Option<CopyReservation> {
        let tick = self.clock.tick(now);
        let source = self.ledger.reserve(bytes, tick)?;
        Some(CopyReservation {
            bytes,
            tick,
            source,
        })
    }

    /// The copy was not needed and not sent.
    pub fn refund(&mut self, reservation: CopyReservation) {
        let CopyReservation {
            bytes,
            tick,
            source,
        } = reservation;
        self.ledger.refund(bytes, tick, source);
    }

    /// What it gave, as of `now`.
    pub fn spending(&self, now: Instant) -> Spending {
        self.ledger.spending(self.clock.tick(now))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_fifth_of_the_raced_and_twenty_copies_and_none_more() {
        let (mut budget, now) = (RaceBudget::new(&RaceConfig::default()), Instant::now());
        (0..100).for_each(|_| budget.on_first_sent(60, now));
        let copies: Vec<_> = (0..100).map_while(|_| budget.reserve(60, now)).collect();
        assert_eq!(copies.len(), 20 + 20);
        assert_eq!(budget.spending(now).denied, 1);
    }

    #[test]
    fn copies_buy_no_copies_and_a_refunded_one_is_free() {
        let (mut budget, now) = (RaceBudget::new(&RaceConfig::default()), Instant::now());
        let mut copies: Vec<_> = (0..100).map_while(|_| budget.reserve(60, now)).collect();
        assert_eq!(copies.len(), 20);
        budget.refund(copies.pop().unwrap());
        let again = budget.reserve(60, now);
        assert!(again.is_some() && budget.reserve(60, now).is_none());
        let later = now + Duration::from_secs(11);
        assert!(budget.reserve(60, later).is_some(), "a new window");
    }
}
