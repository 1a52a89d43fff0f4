//! Calls to the backend, and the one judgement of it that the newer make has.
//!
//! Each call holds a task for up to 15 s; one without an answer by then has failed. Nothing bounds how many there are
//! but who asks: each waiting sequence, each pass of the window. *Degraded* means that the last 3 calls of whatever kind
//! failed, the latest of them less than 2 min ago; any success clears it. Retry-After is not heeded.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quell_core::health::backend::Work;

use crate::fleet::node::{Answer, BackendId, ServerId};

/// How long a call waits for its answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Failures in a row that make it degraded.
const FAILURES_MIN: u32 = 3;
/// How long after the last one it still is.
const FAILURES_LIFE: Duration = Duration::from_secs(120);

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The window, for exits to evaluate.
    Catalog,
    /// A sequence to this provider, for a contract.
    Contract { server: ServerId, sequence: u32 },
}

impl Purpose {
    pub(crate) fn work(self) -> Work {
        match self {
            Self::Catalog => Work::Catalog,
            Self::Contract { .. } => Work::Contract,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Call {
    number: u64,
    deadline: Instant,
    purpose: Purpose,
}

/// The calls that wait, and what became of the last ones.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    backends: u8,
    next: u64,
    waiting: VecDeque<Call>,
    failures: u32,
    failed_at: Option<Instant>,
}

impl Calls {
    pub(crate) fn new(backends: u8) -> Self {
        Self {
            backends,
            next: 0,
            waiting: VecDeque::new(),
            failures: 0,
            failed_at: None,
        }
    }

    pub(crate) fn has_backends(&self) -> bool {
        self.backends > 0
    }

    /// Whom to ask under which number, all backends in turn; `None`: there is no backend, and all is granted.
    pub(crate) fn ask(&mut self, purpose: Purpose, now: Instant) -> Option<(BackendId, u64)> {
        let turn = self.next.checked_rem(u64::from(self.backends))?;
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Call {
            number,
            deadline: now + CALL_TIMEOUT,
            purpose,
        });
        Some((BackendId::try_from(turn).unwrap_or_default(), number))
    }

    /// An answer came: who asked for it, if it was in time.
    pub(crate) fn on_answer(&mut self, call: u64, answer: Answer, now: Instant) -> Option<Purpose> {
        let index = self
            .waiting
            .binary_search_by_key(&call, |call| call.number)
            .ok()?;
        let call = self.waiting.remove(index)?;
        match answer {
            Answer::Yes => (self.failures, self.failed_at) = (0, None),
            Answer::Unavailable(_) | Answer::Failed => self.on_failure(now),
        }
        Some(call.purpose)
    }

    fn on_failure(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.failed_at = Some(now);
    }

    /// Gives up the calls that waited too long.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while self.poll_timeout().is_some_and(|at| at <= now) {
            self.waiting.pop_front();
            self.on_failure(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        Some(self.waiting.front()?.deadline)
    }

    pub(crate) fn is_degraded(&self, now: Instant) -> bool {
        self.failures >= FAILURES_MIN
            && self
                .failed_at
                .is_some_and(|at| now.saturating_duration_since(at) < FAILURES_LIFE)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn fail(calls: &mut Calls, now: Instant) {
        let (_, call) = calls.ask(Purpose::Catalog, now).unwrap();
        assert!(calls.on_answer(call, Answer::Failed, now).is_some());
    }

    #[test]
    fn three_failures_degrade_for_two_minutes_or_until_a_success() {
        let start = Instant::now();
        let mut calls = Calls::new(1);
        fail(&mut calls, start);
        fail(&mut calls, start);
        assert!(!calls.is_degraded(start));
        fail(&mut calls, start);
        assert!(calls.is_degraded(start + s(119)));
        assert!(!calls.is_degraded(start + s(120)));
        let (_, call) = calls.ask(Purpose::Catalog, start).unwrap();
        calls.on_answer(call, Answer::Yes, start);
        assert!(!calls.is_degraded(start));
    }

    #[test]
    fn a_call_without_an_answer_fails_after_15_s() {
        let start = Instant::now();
        let mut calls = Calls::new(2);
        let purpose = Purpose::Contract {
            server: 1,
            sequence: 1,
        };
        let asked: Vec<_> = (0..3).map(|_| calls.ask(purpose, start).unwrap()).collect();
        assert_eq!(asked, [(0, 0), (1, 1), (0, 2)]);
        calls.handle_timeout(start + s(15) - Duration::from_nanos(1));
        assert_eq!(calls.on_answer(1, Answer::Yes, start), Some(purpose));
        calls.handle_timeout(start + s(15));
        assert_eq!(calls.poll_timeout(), None);
        assert_eq!(
            (calls.failures, calls.on_answer(0, Answer::Yes, start)),
            (2, None)
        );
    }

    #[test]
    fn without_a_backend_nobody_is_asked() {
        assert_eq!(Calls::new(0).ask(Purpose::Catalog, Instant::now()), None);
    }
}
