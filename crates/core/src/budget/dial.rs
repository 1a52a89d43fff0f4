//! The budget of dials: how often a process may knock, whoever is asked.
//!
//! Each server has a gate of its own that makes redials rare. A catalog of a
//! thousand servers has a thousand gates, and each is right to let its first dial
//! pass; together they would be a storm. This bucket is asked last, when a gate
//! has said yes, and what it refuses is told when to come back.

use std::time::Instant;

use serde::Serialize;

use crate::bucket::TokenBucket;
use crate::config::DialBudgetConfig;

/// How often a process may dial, over all servers.
#[derive(Debug, Clone)]
pub struct DialBudget {
    bucket: TokenBucket,
    status: DialStatus,
}

/// What a dial budget said so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DialStatus {
    /// Dials that were let pass.
    pub allowed: u64,
    /// Times that a dial was told to wait.
    pub deferred: u64,
}

impl DialBudget {
    /// A full bucket.
    pub fn new(config: &DialBudgetConfig) -> Self {
        Self {
            bucket: TokenBucket::with_interval(config.dial_interval, config.dial_burst),
            status: DialStatus::default(),
        }
    }

    /// Takes a dial out.
    ///
    /// # Errors
    /// There is none; when to ask again. Nothing is taken.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        if self.bucket.take(now) {
            self.status.allowed += 1;
            return Ok(());
        }
        self.status.deferred += 1;
        Err(self.bucket.ready_at(now).unwrap_or(now).max(now))
    }

    /// What it said so far.
    pub fn status(&self) -> DialStatus {
        self.status
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_burst_passes_then_one_each_interval_at_the_moment_that_was_told() {
        let start = Instant::now();
        let mut budget = DialBudget::new(&DialBudgetConfig::default());
        assert!((0..12).all(|_| budget.take(start).is_ok()));
        let at = budget.take(start).unwrap_err();
        assert_eq!(at, start + Duration::from_secs(5));
        assert_eq!(budget.take(at - Duration::from_nanos(1)), Err(at));
        budget.take(at).unwrap();
        budget.take(at).unwrap_err();
        let status = budget.status();
        assert_eq!((status.allowed, status.deferred), (13, 3));
    }

    #[test]
    fn a_night_asleep_gives_the_burst_and_no_more() {
        let start = Instant::now();
        let mut budget = DialBudget::new(&DialBudgetConfig::default());
        budget.take(start).unwrap();
        let morning = start + Duration::from_secs(8 * 3_600);
        let passed = (0..100).filter(|_| budget.take(morning).is_ok()).count();
        assert_eq!(passed, 12);
    }
}
