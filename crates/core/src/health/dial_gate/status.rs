//! A gate for people and programs: state, reason, next dial.
//!
//! Made on request, consulted by no decision, and changes nothing: a probe that was
//! dropped is shown as under way until the next call that may act on it.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{DialGate, State};

/// The state's name in status, metrics and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// Dials pass.
    Ready,
    /// Dials fail at once.
    Backoff,
    /// One dial is under way, others fail at once.
    Probing,
}

/// One gate. Its text is what `why` shows to people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DialGateStatus {
    /// Where it stands.
    pub state: GateState,
    /// Failed dials in a row.
    pub failures: u32,
    /// Connections in a row that died before they were stable.
    pub died_young: u32,
    /// How long until a dial may pass, in seconds; `None`: at once.
    pub next_in_s: Option<f64>,
    /// Why, in words.
    pub reason: String,
}

impl fmt::Display for DialGateStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl DialGate {
    /// A snapshot in words and numbers.
    pub fn status(&self, now: Instant) -> DialGateStatus {
        let (state, next) = match &self.state {
            State::Ready => (GateState::Ready, self.not_before),
            State::Backoff { until } => (GateState::Backoff, Some(*until)),
            State::Probing(probe) => (GateState::Probing, Some(probe.lease)),
        };
        let next = next
            .map(|at| at.saturating_duration_since(now))
            .filter(|wait| !wait.is_zero());
        DialGateStatus {
            state,
            failures: self.failures,
            died_young: self.died_young,
            next_in_s: next.map(|wait| wait.as_secs_f64()),
            reason: self.words(state, next),
        }
    }

    fn words(&self, state: GateState, next: Option<Duration>) -> String {
        if self.is_off() {
            return "ready: the gate is switched off".to_owned();
        }
        let why = match (self.failures, self.died_young) {
            (0, 0) => String::new(),
            (0, 1) => ": the last connection broke soon after it stood".to_owned(),
            (0, young) => format!(": the last {young} connections broke soon after they stood"),
            (1, _) => ": the last dial failed".to_owned(),
            (failed, _) => format!(": the last {failed} dials failed"),
        };
        let next = next.map(|wait| format!("{:.1} s", wait.as_secs_f64()));
        match (state, next) {
            (GateState::Ready, None) => format!("ready{why}"),
            (GateState::Ready, Some(wait)) => format!("ready in {wait}{why}"),
            (GateState::Backoff, None) => format!("the next dial finds out{why}"),
            (GateState::Backoff, Some(wait)) => format!("blocked for {wait}{why}"),
            (GateState::Probing, None) => format!("one dial is overdue{why}"),
            (GateState::Probing, Some(wait)) => {
                format!("one dial is finding out, for {wait} at most{why}")
            }
        }
    }
}
