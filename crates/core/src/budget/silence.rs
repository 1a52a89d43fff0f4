//! The budget of resends into silences: one a path, within one a process.
//!
//! A path's purse keeps one path from spending what others would need; the
//! process's keeps a hundred paths, each within its own, from being a flood
//! together. A resend is charged to both. All paths of a process take theirs from
//! one [`ProcessBudget`], and the lanes of a path share one [`SilenceBudget`]: both
//! are handles, and a clone draws on the same account.
//!
//! Bytes first sent are counted when they leave the carrier, so that what it
//! refuses or still holds pays for nothing. Resends on evidence cost nothing here:
//! the acknowledgements that prove the loss clock them.

use std::sync::Arc;
use std::time::Instant;

use super::ledger::{Clock, Ledger, Source, Spending};
use crate::config::SilenceConfig;
use crate::send::{ResendBudget, Reservation};

#[derive(Debug)]
struct Shared {
    clock: Clock,
    ledger: Ledger,
    config: SilenceConfig,
}

/// What all paths of a process may resend into silences. A handle: a clone is the
/// same budget, from any thread.
#[derive(Debug, Clone)]
pub struct ProcessBudget(Arc<Shared>);

impl ProcessBudget {
    /// A budget of its own, for a process and for each of its paths.
    pub fn new(config: SilenceConfig) -> Self {
        let (share, packs) = (config.process_share_percent, config.process_packs_per_s);
        Self(Arc::new(Shared {
            clock: Clock::default(),
            ledger: Ledger::new(share, packs),
            config,
        }))
    }

    /// The budget of one more path within this one.
    pub fn path(&self) -> SilenceBudget {
        let config = &self.0.config;
        let path = Ledger::new(config.path_share_percent, config.path_packs_per_s);
        SilenceBudget {
            path: Arc::new(path),
            process: self.clone(),
        }
    }

    /// What it gave, as of `now`.
    pub fn spending(&self, now: Instant) -> Spending {
        self.0.ledger.spending(self.0.clock.tick(now))
    }
}

impl Default for ProcessBudget {
    fn default() -> Self {
        Self::new(SilenceConfig::default())
    }
}

/// What one path may resend into silences, within its process. A handle, as the
/// lanes of a path share it.
#[derive(Debug, Clone)]
pub struct SilenceBudget {
    path: Arc<Ledger>,
    process: ProcessBudget,
}

impl SilenceBudget {
    /// What the path's own part gave, as of `now`.
    pub fn spending(&self, now: Instant) -> Spending {
        self.path.spending(self.process.0.clock.tick(now))
    }
}

impl ResendBudget for SilenceBudget {
    fn on_first_sent(&mut self, bytes: usize, now: Instant) {
        let tick = self.process.0.clock.tick(now);
        self.path.on_first_sent(bytes, tick);
        self.process.0.ledger.on_first_sent(bytes, tick);
    }

    fn reserve(&mut self, bytes: usize, now: Instant) -> Option<Reservation> {
        let tick = self.process.0.clock.tick(now);
        let path = self.path.reserve(bytes, tick)?;
        let Some(process) = self.process.0.ledger.reserve(bytes, tick) else {
            self.path.refund(bytes, tick, path);
            return None;
        };
        Some(Reservation {
            tick,
            path_floor: path == Source::Floor,
            process_floor: process == Source::Floor,
            ..Reservation::of(bytes)
        })
    }

    fn refund(&mut self, reservation: Reservation, _now: Instant) {
        let (bytes, tick) = (reservation.bytes(), reservation.tick);
        let source = |floor| if floor { Source::Floor } else { Source::Share };
        self.path
            .refund(bytes, tick, source(reservation.path_floor));
        let process = source(reservation.process_floor);
        self.process.0.ledger.refund(bytes, tick, process);
    }
}

#[cfg(test)]
#[path = "silence_tests.rs"]
mod tests;
