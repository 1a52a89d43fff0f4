//! What runs beside the answers: the store is read, contracts are forgotten, the catalog is published, providers are
//! probed.
//!
//! The catalog is not published before the store was read once: a client that asks just after a start is told to come
//! again, and not that there are no exits. While the store gives no answer, the catalog stays as it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_wire::key::PublicKey;
use rand::RngExt as _;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::App;
use super::steady::Steady;
use crate::api::{EXITS_MAX, Role};
use crate::catalog::Reading;
use crate::probe::Prober;
use crate::service::ServiceError;
use crate::service::admin::ACCOUNTS_MAX;
use crate::store::Account;
use crate::wall_s;

/// How often contracts whose retention is over are looked for.
const FORGET_INTERVAL: Duration = Duration::from_secs(300);
/// Most pages of accounts that one reading takes: 10 million accounts.
const PAGES_MAX: usize = 10_000;

/// Starts all of it; it ends when what is returned is dropped.
pub(super) fn start(app: &Arc<App>, prober: Prober, refresh_interval: Duration) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let seed = rand::rng().random();
    tasks.spawn(follow(Arc::clone(app), prober, seed, refresh_interval));
    let app = Arc::clone(app);
    tasks.spawn(async move {
        let mut steady = Steady::new(Instant::now(), wall_s());
        loop {
            tokio::time::sleep(FORGET_INTERVAL).await;
            if !steady.look(Instant::now(), wall_s()) {
                continue;
            }
            match app.service.forget(wall_s()).await {
                Ok(0) => {}
                Ok(records) => info!(records, "forgot what is past its retention"),
                Err(error) => warn!(%error, "could not forget"),
            }
        }
    });
    tasks
}

async fn follow(app: Arc<App>, prober: Prober, seed: u64, refresh_interval: Duration) {
    while !refresh(&app).await {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let refreshed = async {
        loop {
            tokio::time::sleep(refresh_interval).await;
            refresh(&app).await;
        }
    };
    tokio::join!(app.catalog.drive(), prober.run(seed), refreshed);
}

/// Reads who is enrolled. False when the store gave no answer, or was changed meanwhile.
async fn refresh(app: &App) -> bool {
    let reading = app.catalog.begin_reading();
    match providers(app).await {
        Ok(accounts) => take(app, reading, &accounts),
        Err(error) => {
            warn!(%error, "the store cannot be read; the catalog stays as it is");
            false
        }
    }
}

fn take(app: &App, reading: Reading, accounts: &[Account]) -> bool {
    app.catalog.on_accounts(reading, accounts)
}

async fn providers(app: &App) -> Result<Vec<Account>, ServiceError> {
    let mut providers = Vec::new();
    let mut after: Option<PublicKey> = None;
    for _ in 0..PAGES_MAX {
        let page = app.service.accounts(after, ACCOUNTS_MAX).await?;
        let is_last = page.len() < ACCOUNTS_MAX;
        after = page.last().map(|account| account.key);
        let found = page
            .into_iter()
            .filter(|account| account.role == Role::Provider);
        providers.extend(found.filter(|account| !account.is_banned));
        if is_last || providers.len() >= EXITS_MAX {
            break;
        }
    }
    Ok(providers)
}
