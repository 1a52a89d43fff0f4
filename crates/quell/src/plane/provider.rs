//! A provider's part with its control plane: it says that it lives, and files what clients signed.
//!
//! ```text
//! heartbeat task  admitted ─→ HEARTBEAT ─→ trusted keys to the engine ─→ as the backend says, ± 20 % ─→ again
//! filing task     engine: request ─→ asked once ─→ engine: how it ended
//! ```
//!
//! Trusted keys are kept in `state_dir`, so that a provider that starts while the backend is down honours contracts. Those
//! of the last heartbeat hold until the next one; a backend that names none is not believed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quell_backend::api::{FiledReceipt, HeartbeatAnswer, HeartbeatRequest, ReceiptsRequest};
use quell_backend::ask::Backend;
use quell_core::contract::{FilingRequest, Record, Trusted};
use quell_core::health::BackendHealth;
use quell_core::health::backend::{Admission, Work};
use quell_net::engine::Handle;
use quell_net::engine::provider::{FilingEnded, ProviderReport};
use quell_wire::key::PublicKey;
use rand::RngExt as _;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::answers;
use crate::state_file::{StateFile, StateFileError};

/// The next heartbeat at the soonest and at the latest, whatever the backend says.
const NEXT: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(300);
/// The spread of a fleet that was started in one moment.
const SPREAD: std::ops::Range<f64> = 0.8..1.2;
/// The longest list of keys that is read.
const KEYS_BYTES_MAX: u64 = 4_096;

/// What the tasks work with.
pub(crate) struct ProviderPlane {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) health: Arc<BackendHealth>,
    pub(crate) addresses: Vec<String>,
    pub(crate) keys: TrustedFile,
    pub(crate) engine: Handle<ProviderReport>,
    pub(crate) filings: mpsc::Receiver<FilingRequest>,
    pub(crate) filed: mpsc::Sender<FilingEnded>,
    pub(crate) trusted: watch::Sender<Trusted>,
}

impl ProviderPlane {
    /// Runs until the engine is gone.
    pub(crate) async fn run(self) {
        let Self {
            backend,
            health,
            addresses,
            keys,
            engine,
            filings,
            filed,
            trusted,
        } = self;
        let filing = file(&*backend, filings, filed);
        let heart = Heart {
            backend: &*backend,
            health: &health,
            addresses,
            keys,
            engine,
            trusted,
        };
        tokio::select! {
            () = filing => {}
            () = heart.beat() => {}
        }
    }
}

async fn file(
    backend: &dyn Backend,
    mut filings: mpsc::Receiver<FilingRequest>,
    filed: mpsc::Sender<FilingEnded>,
) {
    while let Some(request) = filings.recv().await {
        let receipt = |record: &Record| FiledReceipt {
            contract: STANDARD.encode(record.contract),
            receipt: STANDARD.encode(record.receipt),
        };
        let receipts = request.receipts.iter().map(receipt).collect();
        let end = match backend.receipts(&ReceiptsRequest { receipts }).await {
            Ok(answer) => Ok(answer.outcomes.into_iter().map(answers::filed).collect()),
            Err(error) => {
                info!(%error, "receipts are not filed");
                Err(answers::end_of(&error))
            }
        };
        let id = request.id;
        if filed.send(FilingEnded { id, end }).await.is_err() {
            return;
        }
    }
}

struct Heart<'a> {
    backend: &'a dyn Backend,
    health: &'a BackendHealth,
    addresses: Vec<String>,
    keys: TrustedFile,
    engine: Handle<ProviderReport>,
    trusted: watch::Sender<Trusted>,
}

impl Heart<'_> {
    async fn beat(&self) {
        let mut told = String::new();
        loop {
            let attempt = match self.health.admit(Work::Catalog, now()) {
                Admission::Go(attempt) | Admission::Probe(attempt) => attempt,
                Admission::Wait(wait) => {
                    tokio::time::sleep_until(wait.until.into()).await;
                    continue;
                }
            };
            let Ok(status) = self.engine.status().await else {
                return;
            };
            let sessions = status.provider.sessions.len();
            let request = HeartbeatRequest {
                addresses: self.addresses.clone(),
                sessions: u32::try_from(sessions).unwrap_or(u32::MAX),
                draining: status.provider.is_draining,
            };
            let answer = self.backend.heartbeat(&request).await;
            answers::report(self.health, attempt, &answer, now());
            let next = match answer {
                Ok(answer) => self.take(&answer, &mut told),
                Err(error) => {
                    say(&mut told, &error.to_string());
                    *NEXT.start()
                }
            };
            tokio::time::sleep(next).await;
        }
    }

    fn take(&self, answer: &HeartbeatAnswer, told: &mut String) -> Duration {
        match read_keys(&answer.trusted_keys) {
            Some(keys) => {
                if let Ok(trusted) = Trusted::try_new(&keys) {
                    let changed = self.trusted.send_if_modified(|known| {
                        let changed = *known != trusted;
                        *known = trusted.clone();
                        changed
                    });
                    if changed {
                        self.keys.keep(&keys);
                    }
                }
            }
            None => warn!("the backend names no key to trust; those of before stay"),
        }
        let standing = match answer.in_service {
            true => format!("in the catalog: {}", answer.reason),
            false => format!("not in the catalog: {}", answer.reason),
        };
        say(told, &standing);
        let next = Duration::from_secs(answer.next_s.into()).clamp(*NEXT.start(), *NEXT.end());
        next.mul_f64(rand::rng().random_range(SPREAD))
    }
}

/// Says what is new.
fn say(told: &mut String, words: &str) {
    if told != words {
        info!(words, "control plane");
        words.clone_into(told);
    }
}

/// All of them, one at least, or nothing.
fn read_keys(texts: &[String]) -> Option<Vec<PublicKey>> {
    let keys: Option<Vec<PublicKey>> = texts.iter().map(|text| text.parse().ok()).collect();
    keys.filter(|keys| !keys.is_empty())
}

/// The trusted keys of the last heartbeat, in `state_dir/trusted-<name>.json`.
pub(crate) struct TrustedFile(StateFile);

impl TrustedFile {
    /// The file, and whose contracts are honoured as of last time; `None` before the first heartbeat.
    ///
    /// # Errors
    /// The folder or the file is not to be had.
    pub(crate) fn open(
        folder: &Path,
        name: &str,
    ) -> Result<(Self, Option<Vec<PublicKey>>), StateFileError> {
        let file = StateFile::in_folder(folder, &format!("trusted-{name}"), "json")?;
        let text = file.read(KEYS_BYTES_MAX)?.unwrap_or_default();
        let keys = serde_json::from_slice(&text).ok();
        let keys = keys.and_then(|texts: Vec<String>| read_keys(&texts));
        Ok((Self(file), keys))
    }

    fn keep(&self, keys: &[PublicKey]) {
        let texts: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let kept = match serde_json::to_vec(&texts) {
            Ok(text) => self.0.replace(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = kept {
            warn!(
                error,
                "the keys to trust are not kept for a start without the backend"
            );
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_keys_of_the_last_heartbeat_are_found_by_the_next_start() {
        let home = tempfile::tempdir().unwrap();
        let (file, none) = TrustedFile::open(home.path(), "exit").unwrap();
        assert_eq!(none, None);
        let keys = vec![PublicKey([1; 32]), PublicKey([2; 32])];
        file.keep(&keys);
        assert_eq!(
            TrustedFile::open(home.path(), "exit").unwrap().1,
            Some(keys)
        );
    }

    #[test]
    fn a_list_with_anything_else_in_it_is_none() {
        let good = PublicKey([1; 32]).to_string();
        assert_eq!(read_keys(&[]), None);
        assert_eq!(read_keys(&[good.clone(), "key".to_owned()]), None);
        assert_eq!(read_keys(&[good]), Some(vec![PublicKey([1; 32])]));
    }
}
