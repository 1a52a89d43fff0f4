//! A client's questions to the backend, through the health that paces them.
//!
//! What a client asks for is what one needs while it carries: its catalog and its contracts (DESIGN §7), each once in two of
//! the scenario's intervals ± 20 %, so that one question is due each interval. Who it is it asks once, which is no load.
//!
//! ```text
//! due ──gate: go──→ asked ──yes──→ due in 2 intervals ± 20 %
//!  ↑ └─gate: wait──→ due when the wait is over │
//!  └───────── no, or nothing for attempt_timeout ─────┘
//! ```
//!
//! One request is in flight at a time: what is due meanwhile waits for its end, the longest due goes first, and of two
//! that failed neither takes the other's turn, since each failure moves its own next probe 5 s away at least. While none
//! is answered nothing changes for the data.
//!
//! How many kinds there are is what a fleet's backend meets after an outage: each kind is probed every 30 s at most,
//! whatever its usual rate is. With n kinds, each asked once in n intervals of 30 s, a fleet asks n times as often in an
//! outage as before it, and goes on so for up to 30 s after the heal. A client that asked for ever more kinds of things
//! would be its backend's herd by that alone; DESIGN §7 has two, batched.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_core::config::BackendHealthConfig;
use quell_core::health::backend::{Admission, Attempt, Work};
use quell_core::health::{BackendHealth, Signal};
use quell_core::send::Degraded as _;
use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::Ablation;
use crate::fleet::node::{Answer, BackendId, ClientId, rng_of};
use crate::scenario::Scenario;

/// What clients ask for.
const KINDS: [Work; 2] = [Work::Catalog, Work::Contract];

/// What is the same for all clients.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    interval: Duration,
    is_gated: bool,
    config: BackendHealthConfig,
}

impl Terms {
    pub(super) fn of(scenario: &Scenario, ablation: Ablation) -> Self {
        Self {
            interval: scenario.backend.demand_interval,
            is_gated: ablation != Ablation::ProbeGate,
            config: BackendHealthConfig::default(),
        }
    }
}

/// One kind of work.
#[derive(Debug)]
struct Question {
    /// When it is to be asked next, or, while it is asked, when it is given up.
    at: Instant,
    asked: Option<(u32, Attempt)>,
}

/// One client's questions.
#[derive(Debug)]
pub(super) struct Asking {
    health: Arc<BackendHealth>,
    backend: BackendId,
    questions: [Question; 2],
    interval: Duration,
    timeout: Duration,
    is_gated: bool,
    calls: u32,
    rng: SmallRng,
}

impl Asking {
    /// `None`: there is no backend to ask.
    pub(super) fn new(
        terms: &Terms,
        client: ClientId,
        backends: u8,
        seed: u64,
        now: Instant,
    ) -> Option<Self> {
        let backend = BackendId::try_from(client.checked_rem(u32::from(backends))?).ok()?;
        let mut rng = rng_of(seed, 0x61_736B);
        let interval = terms.interval * 2;
        let health = BackendHealth::new(terms.config.clone(), now, &mut rng);
        let questions = KINDS.map(|_| Question {
            at: now + interval.mul_f64(rng.random::<f64>()),
            asked: None,
        });
        Some(Self {
            health: Arc::new(health),
            backend,
            questions,
            interval,
            timeout: terms.config.attempt_timeout,
            is_gated: terms.is_gated,
            calls: 0,
            rng,
        })
    }

    pub(super) fn signal(&self) -> Signal {
        Signal::new(Arc::clone(&self.health) as _)
    }

    pub(super) fn is_degraded(&self, now: Instant) -> bool {
        self.health.is_degraded(now)
    }

    /// When there is something to do: while a question is under way, not before its end.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let all = self.questions.iter();
        let asked = all.clone().find(|question| question.asked.is_some());
        asked
            .or_else(|| all.min_by_key(|question| question.at))
            .map(|question| question.at)
    }

    /// The next question that is to be asked.
    pub(super) fn poll(&mut self, now: Instant) -> Option<(BackendId, Work, u64)> {
        // While one is under way nothing is due before its end, and of several that wait nothing before the first.
        if self.poll_timeout().is_none_or(|at| at > now) {
            return None;
        }
        self.give_up(now);
        if self
            .questions
            .iter()
            .any(|question| question.asked.is_some())
        {
            return None;
        }
        let mut due: [_; 2] = std::array::from_fn(|index| index);
        due.sort_by_key(|index| self.questions.get(*index).map(|question| question.at));
        due.into_iter().find_map(|index| self.ask(index, now))
    }

    /// What nobody answered in time has failed, and is due.
    fn give_up(&mut self, now: Instant) {
        for question in &mut self.questions {
            if question.at <= now
                && let Some((_, attempt)) = question.asked.take()
            {
                self.health.failed(attempt, now);
            }
        }
    }

    /// Asks this, if it is due and may be asked.
    fn ask(&mut self, index: usize, now: Instant) -> Option<(BackendId, Work, u64)> {
        let work = *KINDS.get(index)?;
        let question = self.questions.get_mut(index)?;
        if question.at > now {
            return None;
        }
        let attempt = if self.is_gated {
            match self.health.admit(work, now) {
                Admission::Go(attempt) | Admission::Probe(attempt) => attempt,
                Admission::Wait(wait) => {
                    // A wait that is over is one that a look later shows.
                    question.at = wait.until.max(now + Duration::from_millis(1));
                    return None;
                }
            }
        } else {
            self.health.begin(work, now)
        };
        self.calls = self.calls.wrapping_add(1);
        question.asked = Some((self.calls, attempt));
        question.at = now + self.timeout;
        Some((self.backend, work, u64::from(self.calls)))
    }

    /// What an answer says; whether it began when, and came as hoped.
    pub(super) fn on_answer(&mut self, call: u64, answer: Answer, now: Instant) -> Option<Instant> {
        let is_asked = |question: &&mut Question| {
            let asked = question.asked.as_ref();
            asked.is_some_and(|(number, _)| u64::from(*number) == call)
        };
        let question = self.questions.iter_mut().find(is_asked)?;
        let (_, attempt) = question.asked.take()?;
        let begun = attempt.start();
        match answer {
            Answer::Yes => {
                self.health.succeeded(attempt, now);
                let jitter = self.rng.random_range(0.8..=1.2);
                question.at = now + self.interval.mul_f64(jitter);
                return Some(begun);
            }
            Answer::Unavailable(retry_after) => {
                self.health.unavailable(attempt, retry_after, now);
            }
            Answer::Failed => self.health.failed(attempt, now),
        }
        // Whoever asks no gate asks again each second.
        question.at = if self.is_gated {
            now
        } else {
            now + Duration::from_secs(1)
        };
        None
    }
}
