//! A client's two questions to its control plane: which exits are there, and contracts for them.
//!
//! ```text
//! catalog task   admitted ─→ long poll ─→ engine: exits; kept ─→ 1 to 3 s ─→ again
//! contract task  engine: wanted ─→ asked once ─→ engine: how it ended
//! keeper task    contracts or catalog changed ─→ the file, at most once a second; and at the end
//! ```
//!
//! Each question goes when the core says so, once; a failure is told and not repeated here. What was kept is used at once,
//! so that a start without the control plane is a start like any other.
//!
//! The catalog is asked by a long poll of 25 s: below what proxies on the way cut off (30 s and more), and long enough that
//! an idle fleet of 100,000 is 4,000 questions a second and not 100,000. Between two polls is a pause of 1 to 3 s, so that
//! a catalog that changes each second, and a fleet that hears of it in one moment, do not ask in one moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quell_backend::api::{CatalogAnswer, CatalogExit, ContractWant, ContractsRequest, EXITS_MAX};
use quell_backend::ask::Backend;
use quell_core::contract::wallet::StoredContract;
use quell_core::health::BackendHealth;
use quell_core::health::backend::{Admission, Work};
use quell_net::engine::client::Server;
use quell_net::engine::paying::{ContractsEnded, ContractsWanted, Paying};
use rand::RngExt as _;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::answers;
use super::kept::{Kept, KeptFile};

/// How long the backend keeps a poll that has nothing new.
const POLL_WAIT: Duration = Duration::from_secs(25);
/// The pause between two polls, in milliseconds.
const POLL_PAUSE_MS: std::ops::Range<u64> = 1_000..3_000;
/// The weight of an exit of the catalog: that of one in a file that says nothing else.
const WEIGHT: u32 = 100;
/// How long changes gather before they are written.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// What the tasks work with.
pub(crate) struct ClientPlane {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) health: Arc<BackendHealth>,
    pub(crate) file: KeptFile,
    pub(crate) kept: Kept,
    /// Where the engine hears of exits.
    pub(crate) exits: watch::Sender<Vec<Server>>,
    /// The engine's wallet.
    pub(crate) paying: Paying,
}

impl ClientPlane {
    /// Runs until the engine is gone, then writes what is kept.
    pub(crate) async fn run(self) {
        let Self {
            backend,
            health,
            file,
            kept,
            exits,
            paying,
        } = self;
        let (catalog, catalog_at) = watch::channel(kept.catalog);
        if let Some(known) = catalog.borrow().as_ref() {
            info!(
                exits = known.exits.len(),
                "starting with the catalog of last time"
            );
            exits.send_replace(servers(known));
        }
        let Paying {
            wanted,
            ended,
            stored,
        } = paying;
        let asker = Asker {
            backend: &*backend,
            health: &health,
        };
        let keeper = Keeper {
            file,
            catalog: catalog_at,
            stored,
        };
        tokio::select! {
            () = asker.follow_catalog(&catalog, &exits) => {}
            () = asker.ask_for_contracts(wanted, ended) => {}
            () = keeper.follow() => {}
        }
        keeper.keep(true);
    }
}

struct Asker<'a> {
    backend: &'a dyn Backend,
    health: &'a BackendHealth,
}

impl Asker<'_> {
    async fn follow_catalog(
        &self,
        catalog: &watch::Sender<Option<CatalogAnswer>>,
        exits: &watch::Sender<Vec<Server>>,
    ) {
        let mut told = String::new();
        loop {
            let attempt = match self.health.admit(Work::Catalog, now()) {
                Admission::Go(attempt) | Admission::Probe(attempt) => attempt.held_for(POLL_WAIT),
                Admission::Wait(wait) => {
                    tokio::time::sleep_until(wait.until.into()).await;
                    continue;
                }
            };
            let after = catalog.borrow().as_ref().map(|known| known.version.clone());
            let answer = self.backend.catalog(after.as_deref(), POLL_WAIT).await;
            answers::report(self.health, attempt, &answer, now());
            match answer {
                Ok(Some(new)) => {
                    exits.send_replace(servers(&new));
                    catalog.send_replace(Some(new));
                    told.clear();
                }
                Ok(None) => told.clear(),
                Err(error) => {
                    let words = error.to_string();
                    if words != told {
                        warn!(words, "no catalog");
                        told = words;
                    }
                }
            }
            let pause = rand::rng().random_range(POLL_PAUSE_MS);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn ask_for_contracts(
        &self,
        mut wanted: mpsc::Receiver<ContractsWanted>,
        ended: mpsc::Sender<ContractsEnded>,
    ) {
        while let Some(asked) = wanted.recv().await {
            let number = asked.number;
            let answer = self.backend.contracts(&request_of(&asked)).await;
            let end = match answer {
                Ok(answer) => Ok(answer
                    .outcomes
                    .into_iter()
                    .map(answers::want_outcome)
                    .collect()),
                Err(error) => {
                    info!(%error, "no contracts");
                    Err(answers::end_of(&error))
                }
            };
            if ended.send(ContractsEnded { number, end }).await.is_err() {
                return;
            }
        }
    }
}

fn request_of(asked: &ContractsWanted) -> ContractsRequest {
    let want = |(binding, bytes): &(quell_wire::contract::SignedBinding, u64)| ContractWant {
        binding: STANDARD.encode(binding.encode()),
        bytes: *bytes,
    };
    ContractsRequest {
        request_id: asked
            .request_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
        wants: asked.wants.iter().map(want).collect(),
    }
}

/// The exits of a catalog as the engine knows them; what is no key or has no address is left out.
fn servers(catalog: &CatalogAnswer) -> Vec<Server> {
    let server = |exit: &CatalogExit| {
        Some(Server {
            name: exit.name.clone(),
            key: exit.public_key.parse().ok()?,
            remote: exit.addresses.first()?.clone(),
            weight: WEIGHT,
            identity: None,
            is_paid: true,
        })
    };
    catalog
        .exits
        .iter()
        .take(EXITS_MAX)
        .filter_map(server)
        .collect()
}

struct Keeper {
    file: KeptFile,
    catalog: watch::Receiver<Option<CatalogAnswer>>,
    stored: watch::Receiver<Vec<StoredContract>>,
}

impl Keeper {
    /// Writes what changed, until the engine is gone.
    async fn follow(&self) {
        let (mut catalog, mut stored) = (self.catalog.clone(), self.stored.clone());
        loop {
            tokio::select! {
                Ok(()) = catalog.changed() => {}
                changed = stored.changed() => if changed.is_err() {
                    return;
                },
            }
            self.keep(false);
            tokio::time::sleep(KEEP_EVERY).await;
        }
    }

    fn keep(&self, clean: bool) {
        let kept = Kept {
            catalog: self.catalog.borrow().clone(),
            contracts: self.stored.borrow().clone(),
            clean,
        };
        if let Err(error) = self.file.write(&kept) {
            warn!(%error, "what a start without the backend needs is not kept");
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
