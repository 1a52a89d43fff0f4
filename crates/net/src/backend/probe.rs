//! The tasks that ask: one for each URL, so that none waits for another.
//!
//! ```text
//!          ┌──────────── nobody wants a session ←──────────────┐
//!          ↓                                                   │
//!   core: may I? ── not before … ──→ sleep till then ──────────┤
//!          │ yes                                               │
//!          ↓                                                   │
//!   ask, attempt_timeout at most ── report ── well: check_interval ± 20 %
//!                                        └─── not well: ask the core again
//! ```
//!
//! The core is asked before each request and decides all pacing; the one wait of our own
//! is the cadence while all is well, which the core does not pace. One request at a time
//! is in flight to each URL, because its task does nothing else meanwhile. A task holds
//! nothing of the engine: it runs beside it, and ends when the engine drops it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_core::config::BackendHealthConfig;
use quell_core::health::backend::{Admission, Work};
use quell_underlay::Underlay;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::debug;

use super::ask::{Answer, Asker};
use super::{Backend, BackendHandle, BackendSettings};
use crate::engine::{now, sleep_until};
use crate::error::NetError;

/// Asks all backends of an engine.
#[derive(Debug)]
pub(crate) struct Prober {
    backends: BackendHandle,
    config: BackendHealthConfig,
    asker: Option<Asker>,
}

impl Prober {
    /// Nothing is asked before [`Prober::start`].
    ///
    /// # Errors
    /// A URL needs the system's certificate authorities, and they cannot be read.
    pub(crate) fn new(
        settings: &BackendSettings,
        underlay: &Underlay,
        seed: u64,
    ) -> Result<Self, NetError> {
        let asker = match settings.urls.as_slice() {
            [] => None,
            urls => Some(Asker::new(urls, underlay)?),
        };
        Ok(Self {
            backends: BackendHandle::new(settings, seed),
            config: settings.health.clone(),
            asker,
        })
    }

    pub(crate) fn handle(&self) -> BackendHandle {
        self.backends.clone()
    }

    /// Asks from now on, on the present runtime, while `wanted` says that there is a use
    /// for the answer, and until the result is dropped.
    pub(crate) fn start(&self, wanted: &watch::Receiver<bool>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let Some(asker) = &self.asker else {
            return tasks;
        };
        for (index, backend) in self.backends.0.backends.iter().enumerate() {
            let Some(url) = backend.url.clone() else {
                continue;
            };
            let (shared, wanted) = (Arc::clone(&self.backends.0), wanted.clone());
            let (config, asker) = (self.config.clone(), asker.clone());
            tasks.spawn(async move {
                if let Some(backend) = shared.backends.get(index) {
                    keep_asking(backend, &config, wanted, || asker.ask(&url)).await;
                }
            });
        }
        tasks
    }
}

/// Asks `backend` by `ask` until nobody is left who could want it.
pub(super) async fn keep_asking<A: Future<Output = Answer>>(
    backend: &Backend,
    config: &BackendHealthConfig,
    mut wanted: watch::Receiver<bool>,
    ask: impl Fn() -> A,
) {
    while wanted.wait_for(|wanted| *wanted).await.is_ok() {
        let attempt = match backend.health.admit(Work::Probe, now()) {
            Admission::Go(attempt) | Admission::Probe(attempt) => attempt,
            Admission::Wait(wait) => {
                sleep_until(Some(wait.until)).await;
                continue;
            }
        };
        let answer = answer_within(config.attempt_timeout, ask()).await;
        debug!(backend = backend.name(), ?answer, "asked");
        backend.report(attempt, answer, now());
        if let Some(at) = next_check(backend, config.check_interval) {
            sleep_until(Some(at)).await;
        }
    }
}

async fn answer_within(timeout: Duration, ask: impl Future<Output = Answer>) -> Answer {
    match tokio::time::timeout(timeout, ask).await {
        Ok(answer) => answer,
        Err(_) => Answer::Failed(format!("no answer within {timeout:?}")),
    }
}

/// When a backend that is well is asked again; `None`: as soon as the core allows.
fn next_check(backend: &Backend, interval: Duration) -> Option<Instant> {
    let now = now();
    let well = backend.is_well(now);
    let mut book = backend.book.lock();
    let wait = interval.mul_f64(book.spread());
    book.next_check = well.then(|| now.checked_add(wait)).flatten();
    book.next_check
}
