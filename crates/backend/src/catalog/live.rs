//! The catalog at work: one lock, one task, and the channel on which long polls wait.
//!
//! ```text
//!  heartbeats, probes, store ──→ Mutex<Membership> ──(version)──→ watch ──→ every long poll
//!                                      ↑ wake
//!                                 the task that drives it
//! ```
//!
//! The lock is held for a decision, never over an await. A version is written as JSON by the task, once; those who wait
//! share its bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use quell_core::health::probe_latch::{ProbeEpoch, ProbeOutcome};
use quell_wire::key::PublicKey;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use super::config::CatalogConfig;
use super::host::Heard;
use super::membership::Membership;
use crate::api::{CatalogAnswer, Role};
use crate::store::{Account, HEARTBEAT_AHEAD_MAX_S};
use crate::wall_s;

/// A provider that was last heard of longer ago than this when the server starts has left for good, until it says
/// otherwise. 1 day: a backend may be down for a night, and the providers that were well before are then served at once,
/// as those that live will say within `heartbeat_max_age`.
const HEARD_BEFORE_MAX_S: u64 = 86_400;

/// One version of the catalog, as it is served.
#[derive(Debug, Clone)]
pub struct Published {
    /// Its name; empty before the first.
    pub version: String,
    /// A [`CatalogAnswer`] in JSON.
    pub body: Bytes,
}

/// The catalog of a server.
#[derive(Debug)]
pub struct Catalog {
    membership: Mutex<Membership>,
    wake: Notify,
    published: watch::Sender<Arc<Published>>,
    started: Instant,
    /// How often somebody was banned here, so that what was read of the store before does not undo it.
    bans: AtomicU64,
}

/// When the store was begun to be read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    at: Instant,
    bans: u64,
}

impl Catalog {
    /// An empty catalog. Nothing is published before [`Catalog::drive`] runs.
    #[must_use]
    pub fn new(config: CatalogConfig, seed: u64) -> Arc<Self> {
        let none = Published {
            version: String::new(),
            body: Bytes::new(),
        };
        Arc::new(Self {
            membership: Mutex::new(Membership::new(config, seed)),
            wake: Notify::new(),
            published: watch::Sender::new(Arc::new(none)),
            started: Instant::now(),
            bans: AtomicU64::new(0),
        })
    }

    /// Publishes versions until it is dropped.
    pub async fn drive(&self) {
        loop {
            let next = self.step(Instant::now());
            let sleep = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => {}
                () = self.wake.notified() => {}
            }
        }
    }

    /// Publishes what is due; when to come again.
    fn step(&self, now: Instant) -> Option<Instant> {
        let mut membership = self.membership.lock();
        if let Some(exits) = membership.handle_timeout(now) {
            let exits = exits.to_vec();
            let count = exits.len();
            let version = membership.version();
            let answer = CatalogAnswer {
                version: version.clone(),
                issued_s: wall_s(),
                exits,
            };
            match serde_json::to_vec(&answer) {
                Ok(body) => {
                    info!(%version, exits = count, "the catalog changed");
                    let body = body.into();
                    let published = Arc::new(Published { version, body });
                    self.published.send_replace(published);
                }
                Err(error) => warn!(%error, "the catalog cannot be written"),
            }
        }
        membership.poll_timeout()
    }

    /// The present version, and a way to wait for the next.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Published>> {
        self.published.subscribe()
    }

    /// What the membership says; the driver looks at what it means for the catalog afterwards.
    pub fn with<T>(&self, act: impl FnOnce(&mut Membership) -> T) -> T {
        let told = act(&mut self.membership.lock());
        self.wake.notify_one();
        told
    }

    /// Looks at the membership.
    pub fn look<T>(&self, at: impl FnOnce(&Membership) -> T) -> T {
        at(&self.membership.lock())
    }

    /// Whether a word that a provider signed at `said_s` comes after the last one of it that was heard here. One that does
    /// not is a replay, or was held up on the way, and would bring back where the provider was and what it meant then.
    #[must_use]
    pub fn is_news(&self, key: &PublicKey, said_s: u64) -> bool {
        self.look(|membership| membership.is_news(key, said_s))
    }

    /// A provider said, at `said_s` by its own clock, that it lives.
    pub fn on_heartbeat(
        &self,
        account: &Account,
        addresses: Vec<String>,
        draining: bool,
        said_s: u64,
    ) -> (bool, String) {
        let (key, now) = (account.key, Instant::now());
        let heard = Heard {
            name: account.name.clone(),
            addresses,
            age: Some(Duration::ZERO),
            draining: Some(draining),
        };
        self.with(|membership| {
            if !membership.on_heard(key, heard, now) {
                return (false, "the catalog is full".to_owned());
            }
            // No later than now: whose clock was ahead and was set right is heard at once.
            membership.on_word(&key, said_s.min(wall_s()));
            membership.standing(&key, now).unwrap_or_default()
        })
    }

    /// To be taken before the store is read.
    #[must_use]
    pub fn begin_reading(&self) -> Reading {
        Reading {
            at: Instant::now(),
            bans: self.bans.load(Ordering::Acquire),
        }
    }

    /// The store was read: all providers, banned ones included. Whoever is not among them is gone. False when a ban came
    /// in between, which what was read may not hold yet: it is to be read again.
    pub fn on_accounts(&self, reading: Reading, accounts: &[Account]) -> bool {
        let (now, now_s) = (Instant::now(), wall_s());
        // What was silent while this server was down could not say otherwise: its silence counts from the start.
        let up = now.saturating_duration_since(self.started);
        let kept: BTreeMap<PublicKey, &Account> = accounts
            .iter()
            .filter(|account| account.role == Role::Provider && !account.is_banned)
            .map(|account| (account.key, account))
            .collect();
        self.with(|membership| {
            if self.bans.load(Ordering::Acquire) != reading.bans {
                return false;
            }
            let gone: Vec<PublicKey> = membership
                .hosts()
                .copied()
                .filter(|key| !kept.contains_key(key))
                // Enrolled while the store was read.
                .filter(|key| membership.heard_at(key).is_none_or(|at| at < reading.at))
                .collect();
            gone.iter().for_each(|key| membership.on_gone(key));
            for (key, account) in kept {
                let at_s = account.heartbeat_s;
                let age_s = now_s.saturating_sub(at_s);
                // A time that lies far ahead was written by a clock that was wrong, and says nothing.
                let is_told = at_s > 0 && at_s <= now_s.saturating_add(HEARTBEAT_AHEAD_MAX_S);
                let age = (is_told && age_s <= HEARD_BEFORE_MAX_S)
                    .then(|| Duration::from_secs(age_s).min(up));
                let heard = Heard {
                    name: account.name.clone(),
                    addresses: account.addresses.clone(),
                    age,
                    draining: None,
                };
                membership.on_heard(key, heard, now);
            }
            true
        })
    }

    /// A provider is banned: it leaves at once.
    pub fn on_banned(&self, key: &PublicKey) {
        self.with(|membership| {
            self.bans.fetch_add(1, Ordering::AcqRel);
            membership.on_gone(key);
        });
    }

    /// A probe ended.
    pub fn on_probed(&self, key: &PublicKey, epoch: ProbeEpoch, outcome: ProbeOutcome) {
        let now = Instant::now();
        self.with(|membership| membership.on_probed(key, epoch, outcome, now));
    }
}
