//! A provider's contracts at the engine: a task beside it that carries between the core's books, a disk and a backend.
//!
//! ```text
//! core.poll_persist ── Batch ──────────> who writes (outside) ── durable or not ──> core: credit
//! core.poll_filing ─── FilingRequest ──> who asks the backend ── FilingEnded ─────> core
//! ```
//!
//! One batch and one request are in flight at a time, so channels of one place do. The task looks whenever a client said
//! something on its control stream, an answer came, or the core says that time alone changes something; packets pass it
//! by.

use std::rc::Rc;
use std::time::Instant;

use quell_core::config::ContractsConfig;
use quell_core::contract::{AskEnd, Batch, Books, Filed, FilingRequest, Stored, Trusted, Verifier};
use quell_core::health::BackendHealth;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::{ProviderEngine, Shared, unix_now};
use crate::engine::{now, sleep_until};

/// What a provider carries for contracts with.
#[derive(Debug)]
pub struct BillSettings {
    /// How far what is not signed is trusted; validated.
    pub contracts: ContractsConfig,
    /// Whose contracts are honoured.
    pub trusted: Trusted,
    /// What its disk holds.
    pub stored: Stored,
}

/// The other ends of a provider's books.
#[derive(Debug)]
pub struct Billing {
    /// What is to be written, one batch at a time.
    pub batches: mpsc::Receiver<Batch>,
    /// Whether a batch, by its id, is durable.
    pub written: mpsc::Sender<(u64, bool)>,
    /// What is to be filed, one request at a time.
    pub filings: mpsc::Receiver<FilingRequest>,
    /// How it ended.
    pub filed: mpsc::Sender<FilingEnded>,
    /// Whose contracts are honoured from here on.
    pub trusted: watch::Sender<Trusted>,
}

/// How a filing ended.
#[derive(Debug, Clone)]
pub struct FilingEnded {
    /// Which.
    pub id: u64,
    /// An outcome for each receipt, or none at all.
    pub end: Result<Vec<Filed>, AskEnd>,
}

/// This side's ends.
#[derive(Debug)]
pub(super) struct Bills {
    batches: mpsc::Sender<Batch>,
    written: mpsc::Receiver<(u64, bool)>,
    filings: mpsc::Sender<FilingRequest>,
    filed: mpsc::Receiver<FilingEnded>,
    trusted: watch::Receiver<Trusted>,
}

impl ProviderEngine {
    /// Carries keys that are not listed, for contracts. To be called before it runs.
    pub fn bill(&mut self, settings: BillSettings, seed: u64) -> Billing {
        let (batches, batches_at) = mpsc::channel(1);
        let (write, written) = mpsc::channel(1);
        let (filings, filings_at) = mpsc::channel(1);
        let (file, filed) = mpsc::channel(1);
        let (trust, trusted) = watch::channel(settings.trusted.clone());
        let verifier = Verifier {
            trusted: settings.trusted,
            provider_key: self.public_key,
            clock_skew: settings.contracts.clock_skew,
        };
        let mut books = Books::new(settings.contracts, verifier, seed, unix_now(), now());
        let restored = books.restore(settings.stored);
        if restored.refused > 0 {
            warn!(
                receipts = restored.refused,
                "receipts on the disk are not of this provider"
            );
        }
        info!(receipts = restored.taken, "receipts were found on the disk");
        self.shared.core.borrow_mut().set_contracts(books);
        self.bills = Some(Bills {
            batches,
            written,
            filings,
            filed,
            trusted,
        });
        Billing {
            batches: batches_at,
            written: write,
            filings: filings_at,
            filed: file,
            trusted: trust,
        }
    }

    /// Starts the task, which ends when the set is dropped.
    pub(super) fn start_bills(&mut self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if let Some(bills) = self.bills.take() {
            let shared = Rc::clone(&self.shared);
            let health = self.prober.handle().first();
            tasks.spawn_local(async move { shared.keep_books(bills, &health).await });
        }
        tasks
    }
}

impl Shared {
    async fn keep_books(&self, mut bills: Bills, health: &BackendHealth) {
        loop {
            // One moment for all of it: what falls due while this looks is later than that, and found.
            let at = now();
            self.pass_on(&bills, health, at);
            self.wake_ready();
            let due = self.core.borrow().poll_contracts(at).map(|(due, _)| due);
            // A place that is not free has its own answer to wait for.
            let due = due.filter(|due| *due > at);
            tokio::select! {
                () = self.control_heard.notified() => {}
                () = sleep_until(due) => {}
                Some((batch, durable)) = bills.written.recv() => {
                    let mut core = self.core.borrow_mut();
                    match durable {
                        true => core.on_persisted(batch, now()),
                        false => core.on_persist_failed(batch, now()),
                    }
                }
                Some(ended) = bills.filed.recv() => self.on_filed(ended, health),
                Ok(()) = bills.trusted.changed() => {
                    let trusted = bills.trusted.borrow_and_update().clone();
                    self.core.borrow_mut().on_trusted(trusted);
                }
            }
        }
    }

    /// What is due, to whom it concerns.
    fn pass_on(&self, bills: &Bills, health: &BackendHealth, now: Instant) {
        let mut core = self.core.borrow_mut();
        core.handle_contracts(now);
        if let Ok(place) = bills.batches.try_reserve()
            && let Some(batch) = core.poll_persist(now)
        {
            place.send(batch);
        }
        if let Ok(place) = bills.filings.try_reserve()
            && let Some(request) = core.poll_filing(health, now)
        {
            place.send(request);
        }
    }

    fn on_filed(&self, ended: FilingEnded, health: &BackendHealth) {
        let mut core = self.core.borrow_mut();
        match ended.end {
            Ok(outcomes) => {
                for reason in core.on_filed(ended.id, &outcomes, health, now()) {
                    warn!(reason = reason.name(), "the backend refuses a receipt");
                }
            }
            Err(end) => {
                if let AskEnd::Refused(reason) = end {
                    warn!(reason = reason.name(), "the backend takes no receipts");
                }
                core.on_filing_ended(ended.id, end, health, now());
            }
        }
    }
}
