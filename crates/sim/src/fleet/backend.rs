//! The control plane, as it answers: well, or as a fault says.
//!
//! A call takes `answer_time`, whatever the answer; it reaches a backend at once, and is counted there even if nobody
//! answers. Of several faults the one that came last rules. A call that no answer is for is left to the caller's patience.

use std::collections::BTreeMap;

use quell_core::health::backend::Work;
use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::node::{Answer, BackendId, rng_of};
use crate::scenario::{BackendModel, FaultKind, Scenario};

fn ns(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// All backends.
#[derive(Debug)]
pub(crate) struct Backends {
    model: BackendModel,
    /// Faults of each, by their place in the scenario, in the order of their coming.
    faults: Vec<Vec<usize>>,
    /// Requests of the second that each is in.
    second: BTreeMap<BackendId, (u64, u32)>,
    rng: SmallRng,
}

impl Backends {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Self {
        Self {
            model: scenario.backend.clone(),
            faults: vec![Vec::new(); usize::from(scenario.fleet.backends)],
            second: BTreeMap::new(),
            rng: rng_of(seed, 0x0062_6163_6B65_6E64),
        }
    }

    /// A fault begins or ends at this backend.
    pub(crate) fn change(&mut self, backend: u32, fault: usize, begins: bool) {
        let Some(faults) = self.faults.get_mut(backend as usize) else {
            return;
        };
        if begins {
            faults.push(fault);
        } else if let Some(place) = faults.iter().position(|of| *of == fault) {
            faults.remove(place);
        }
    }

    /// What is answered to a call, and after how long; `None`: nothing, ever.
    pub(crate) fn ask(
        &mut self,
        backend: BackendId,
        work: Work,
        scenario: &Scenario,
        now_ns: u64,
    ) -> Option<(u64, Answer)> {
        let well = ns(self.model.answer_time);
        let fault = self.faults.get(usize::from(backend))?.last();
        let fault = fault.and_then(|index| scenario.fault.get(*index));
        if self.is_full(backend, now_ns) {
            return Some((well, Answer::Unavailable(None)));
        }
        let Some(fault) = fault else {
            return Some((well, Answer::Yes));
        };
        match &fault.kind {
            FaultKind::BackendRefuses => Some((well, Answer::Failed)),
            FaultKind::BackendSilent => None,
            FaultKind::BackendSlow { answer_time } => Some((ns(*answer_time), Answer::Yes)),
            FaultKind::BackendUnavailable { retry_after } => {
                Some((well, Answer::Unavailable(*retry_after)))
            }
            FaultKind::BackendFails { part } => {
                let fails = self.rng.random::<f64>() < *part;
                Some((well, if fails { Answer::Failed } else { Answer::Yes }))
            }
            FaultKind::BackendFailsOne { work: one } => {
                let fails = one == work.name();
                Some((well, if fails { Answer::Failed } else { Answer::Yes }))
            }
            FaultKind::Blackhole { .. }
            | FaultKind::AcksLost
            | FaultKind::DialsRefused
            | FaultKind::ProviderDeath
            | FaultKind::RollingRestart { .. }
            | FaultKind::UplinkLoss
            | FaultKind::Suspend
            | FaultKind::SharedNat
            | FaultKind::ClockOff { .. } => Some((well, Answer::Yes)),
        }
    }

    fn is_full(&mut self, backend: BackendId, now_ns: u64) -> bool {
        let Some(max) = self.model.requests_per_s_max else {
            return false;
        };
        let second = now_ns / 1_000_000_000;
        let count = self.second.entry(backend).or_insert((second, 0));
        if count.0 != second {
            *count = (second, 0);
        }
        count.1 += 1;
        count.1 > max
    }
}
