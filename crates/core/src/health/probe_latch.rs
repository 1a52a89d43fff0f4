//! Does a provider's health probe count, and what does it say?
//!
//! A provider may be asked for its health over a path that it does not serve, that a
//! firewall eats, or that another program answers. Such a probe never says anything,
//! and must not take a provider out that carries packets well. So a probe counts from
//! its first readable answer on: the *latch*.
//!
//! ```text
//!                  a readable answer                 failures_before_critical in a row
//!  Unsupported ─────────────────────→ Latched: Passing ────────────────→ Latched: Critical
//!  (in service)                       (in service)     ←────────────────  (out of service)
//!       ↑                                            success_before_passing good ones in a row
//!       └──── another probe configuration, or a reset by the operator ────┘
//! ```
//!
//! Latched means for good, as long as the configuration is the same: no time and no number
//! of rejections unlatches. A rule of the kind "no real failure lately" would: a dead
//! provider that fails once and then rejects for a while would come back into service
//! with every such round (case B23). Once latched, everything but a good answer is a
//! failure (R-41).
//!
//! Probes under way when the configuration changes answer for the one before: each
//! carries its [`ProbeEpoch`], and one of another epoch is not counted (R-43).

use std::fmt;

use serde::Serialize;

use crate::config::ProbeLatchConfig;

/// One probe configuration in the life of a latch. Take it when a probe starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeEpoch(u64);

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// A readable answer: well.
    Passing,
    /// A readable answer: not well.
    Critical,
    /// An answer that is not one to this question (404, another protocol).
    Rejected,
    /// No answer: refused, timed out, reset.
    Failed,
}

impl ProbeOutcome {
    fn is_readable(self) -> bool {
        match self {
            Self::Passing | Self::Critical => true,
            Self::Rejected | Self::Failed => false,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Passing => "it said that it is well",
            Self::Critical => "it said that it is not well",
            Self::Rejected => "it did not understand the probe",
            Self::Failed => "it did not answer",
        }
    }
}

/// Where a latch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeState {
    /// The probe has never been answered readably: it does not count.
    ProbeUnsupported,
    /// The probe counts, and the provider is well.
    Passing,
    /// The probe counts, and the provider is not well.
    Critical,
}

/// A latch for people and programs. Its text is what `why` shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeLatchStatus {
    /// Where it stands.
    pub state: ProbeState,
    /// Whether the probe lets the provider be in service.
    pub in_service: bool,
    /// Good answers in a row; saturates.
    pub successes: u32,
    /// Probes in a row without a good answer; saturates.
    pub failures: u32,
    /// Why, in words.
    pub reason: String,
}

impl fmt::Display for ProbeLatchStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The latch of one provider's health probe.
#[derive(Debug, Clone)]
pub struct ProbeLatch {
    config: ProbeLatchConfig,
    epoch: u64,
    state: ProbeState,
    successes: u32,
    failures: u32,
    last: Option<ProbeOutcome>,
}

impl ProbeLatch {
    /// A probe that has never been answered.
    pub fn new(config: ProbeLatchConfig) -> Self {
        Self {
            config,
            epoch: 0,
            state: ProbeState::ProbeUnsupported,
            successes: 0,
            failures: 0,
            last: None,
        }
    }

    /// The present probe configuration.
    pub fn epoch(&self) -> ProbeEpoch {
        ProbeEpoch(self.epoch)
    }

    /// A probe that was started in `epoch` ended. Returns whether the state changed.
    pub fn on_outcome(&mut self, epoch: ProbeEpoch, outcome: ProbeOutcome) -> bool {
        if epoch != self.epoch() {
            return false;
        }
        let before = self.state;
        self.last = Some(outcome);
        if outcome == ProbeOutcome::Passing {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
        } else {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
        }
        self.state = self.next(outcome);
        self.state != before
    }

    fn next(&mut self, outcome: ProbeOutcome) -> ProbeState {
        let passing = self.successes >= self.config.success_before_passing;
        let critical = self.failures >= self.config.failures_before_critical;
        match self.state {
            ProbeState::ProbeUnsupported if outcome.is_readable() => {
                // What came before the latch did not count, and does not count later.
                self.failures = u32::from(outcome != ProbeOutcome::Passing);
                if self.failures >= self.config.failures_before_critical {
                    ProbeState::Critical
                } else {
                    ProbeState::Passing
                }
            }
            ProbeState::Passing if critical => ProbeState::Critical,
            ProbeState::Critical if passing => ProbeState::Passing,
            ProbeState::ProbeUnsupported | ProbeState::Passing | ProbeState::Critical => self.state,
        }
    }

    /// The probe asks another question now (its path, port or protocol changed): the
    /// latch starts anew, and probes under way are not counted.
    pub fn on_reconfigured(&mut self, config: ProbeLatchConfig) {
        let epoch = self.epoch.wrapping_add(1);
        *self = Self {
            epoch,
            ..Self::new(config)
        };
    }

    /// Starts anew with the same configuration, on an operator's word.
    pub fn reset(&mut self) {
        self.on_reconfigured(self.config.clone());
    }

    /// Where it stands.
    pub fn state(&self) -> ProbeState {
        self.state
    }

    /// Whether the probe lets the provider be in service.
    pub fn is_in_service(&self) -> bool {
        self.state != ProbeState::Critical
    }

    /// A snapshot in words and numbers.
    pub fn status(&self) -> ProbeLatchStatus {
        ProbeLatchStatus {
            state: self.state,
            in_service: self.is_in_service(),
            successes: self.successes,
            failures: self.failures,
            reason: self.reason(),
        }
    }

    /// Why it stands where it does, in words (R-44).
    pub fn reason(&self) -> String {
        let last = self
            .last
            .map_or("it has not been asked", ProbeOutcome::words);
        let (successes, failures) = (self.successes, self.failures);
        match self.state {
            ProbeState::ProbeUnsupported => format!(
                "probe_unsupported: in service, because the probe was never answered readably ({last})"
            ),
            ProbeState::Passing if failures == 0 => format!("passing: {last}"),
            ProbeState::Passing => format!(
                "passing: {failures} of {} probes in a row failed ({last})",
                self.config.failures_before_critical
            ),
            ProbeState::Critical if successes > 0 => format!(
                "critical: {successes} of {} good answers in a row",
                self.config.success_before_passing
            ),
            ProbeState::Critical => {
                format!("critical: {failures} probes in a row failed ({last})")
            }
        }
    }
}

#[cfg(test)]
mod tests;
