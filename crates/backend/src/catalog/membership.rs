//! Who is in the catalog, as a state machine without I/O.
//!
//! ```text
//! store, heartbeats ──┐                                        ┌→ in      (never limited, R-50)
//! probes ─────────────┼→ what is known of a host → verdict ────┤
//! time ───────────────┘                                        └→ out     hard: at once (R-53)
//!                                                                         soft: if most would remain,
//!                                                                               and the damper lets it
//! any change of the exits → a new version, min_interval after the last at the soonest
//! ```
//!
//! - A host that may not leave is *held*: it stays in the catalog, and its next bad news is asked about anew (R-53).
//!   Bad news are a probe that ended while the host is critical, and each [`RECHECK`] of silence.
//! - Soft evidence against so many that less than `soft_keeps_percent` would remain is no evidence against them: the
//!   observer is cut off, or the storm is one (case B25). The damper is not asked then, so nothing is spent.
//! - Leaving and coming back within `min_interval` makes no version: what would be published is compared with what is.
//! - Versions name the server's start and a count: a client that comes from another replica, or from before a restart,
//!   holds one that is not known here, and is given the catalog at once.
//!
//! Exits are kept in the order of their keys, so that two replicas with the same hosts show the same list.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quell_core::flap::{Decision, Evidence, FlapCounters, FlapDamper};
use quell_core::health::probe_latch::{ProbeEpoch, ProbeOutcome};
use quell_wire::key::PublicKey;

use super::config::CatalogConfig;
use super::host::{Heard, Host, HostReport, Verdict};
use crate::api::{CatalogExit, EXITS_MAX};

/// How often a host that is silent and held is asked about anew.
const RECHECK: Duration = Duration::from_secs(5);
/// Hosts from which on a majority can be spoken of.
const MAJORITY_OF: usize = 3;

const HELD_BY_HOST: &str = "it changed too often";
const HELD_BY_CATALOG: &str = "too many hosts changed at once";
const HELD_BY_DOUBT: &str = "most hosts look so, which speaks against this server's own view";

/// What the catalog did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct CatalogCounters {
    /// Versions that were published.
    pub versions: u64,
    /// Hosts that came into service.
    pub entered: u64,
    /// Hosts that left it.
    pub left: u64,
    /// Soft evidence that was not believed, since too few hosts would have remained.
    pub doubted: u64,
    /// Hosts that were not taken in, since the catalog is full.
    pub refused_full: u64,
}

/// The catalog as a state machine.
#[derive(Debug)]
pub struct Membership {
    config: CatalogConfig,
    hosts: BTreeMap<PublicKey, Host>,
    damper: FlapDamper<PublicKey>,
    /// How many of `hosts` are in service.
    serving: usize,
    instance: u64,
    published: Vec<CatalogExit>,
    published_at: Option<Instant>,
    is_dirty: bool,
    recheck_at: Option<Instant>,
    counters: CatalogCounters,
}

impl Membership {
    /// No hosts. `config` is validated; `seed` feeds the draws of the damper and names this server's start.
    #[must_use]
    pub fn new(config: CatalogConfig, seed: u64) -> Self {
        Self {
            damper: FlapDamper::new(config.flap.clone(), seed),
            config,
            hosts: BTreeMap::new(),
            serving: 0,
            instance: seed,
            published: Vec::new(),
            published_at: None,
            is_dirty: true,
            recheck_at: None,
            counters: CatalogCounters::default(),
        }
    }

    /// A provider is enrolled and not banned, and this was heard of it. False when there is no place for it.
    pub fn on_heard(&mut self, key: PublicKey, heard: Heard, now: Instant) -> bool {
        let is_full = self.hosts.len() >= EXITS_MAX;
        match self.hosts.get_mut(&key) {
            Some(host) => {
                let shown = (host.name.clone(), host.addresses.clone());
                host.hear(heard, now);
                self.is_dirty |= shown != (host.name.clone(), host.addresses.clone());
            }
            None if is_full => {
                self.counters.refused_full += 1;
                return false;
            }
            None => {
                let host = Host::new(heard, &self.config.probe, now);
                self.hosts.insert(key, host);
            }
        }
        self.judge(&key, now);
        true
    }

    /// Whether a word that was said at `said_s` is not older than the last one.
    #[must_use]
    pub fn is_news(&self, key: &PublicKey, said_s: u64) -> bool {
        self.hosts.get(key).is_none_or(|host| said_s >= host.said_s)
    }

    /// A word that was said at `said_s` was heard.
    pub fn on_word(&mut self, key: &PublicKey, said_s: u64) {
        if let Some(host) = self.hosts.get_mut(key) {
            host.said_s = host.said_s.max(said_s);
        }
    }

    /// A provider is banned, or enrolled no longer: it leaves at once.
    pub fn on_gone(&mut self, key: &PublicKey) {
        if let Some(host) = self.hosts.remove(key)
            && host.in_service
        {
            self.serving -= 1;
            self.counters.left += 1;
            self.is_dirty = true;
        }
    }

    /// The epoch of a host's probe, to be taken when a probe of it starts (R-43).
    #[must_use]
    pub fn epoch(&self, key: &PublicKey) -> Option<ProbeEpoch> {
        Some(self.hosts.get(key)?.latch.epoch())
    }

    /// A probe that was started in `epoch` ended.
    pub fn on_probed(
        &mut self,
        key: &PublicKey,
        epoch: ProbeEpoch,
        outcome: ProbeOutcome,
        now: Instant,
    ) {
        if let Some(host) = self.hosts.get_mut(key) {
            host.latch.on_outcome(epoch, outcome);
            self.judge(key, now);
        }
    }

    /// An operator starts a host's latch anew (R-43). False when there is no such host.
    pub fn reset(&mut self, key: &PublicKey, now: Instant) -> bool {
        let Some(host) = self.hosts.get_mut(key) else {
            return false;
        };
        host.latch.reset();
        self.judge(key, now);
        true
    }

    /// Decides anew whether a host is in service.
    fn judge(&mut self, key: &PublicKey, now: Instant) {
        let Some(host) = self.hosts.get(key) else {
            return;
        };
        let was_in = host.in_service;
        let (is_in, held) = match host.verdict(self.config.heartbeat_max_age, now) {
            Verdict::In => {
                self.damper.on_healthy(key);
                (true, None)
            }
            Verdict::NotYet => (false, None),
            Verdict::Out(_) if !was_in => (false, None),
            Verdict::Out(evidence) => match self.may_leave(key, evidence, now) {
                Ok(()) => (false, None),
                Err(held) => (true, Some(held)),
            },
        };
        if let Some(host) = self.hosts.get_mut(key) {
            (host.in_service, host.held) = (is_in, held);
        }
        match (was_in, is_in) {
            (false, true) => {
                self.serving += 1;
                self.counters.entered += 1;
                self.is_dirty = true;
            }
            (true, false) => {
                self.serving -= 1;
                self.counters.left += 1;
                self.is_dirty = true;
            }
            (true, true) | (false, false) => {}
        }
    }

    fn may_leave(
        &mut self,
        key: &PublicKey,
        evidence: Evidence,
        now: Instant,
    ) -> Result<(), &'static str> {
        if evidence == Evidence::Soft && !self.would_remain() {
            self.counters.doubted += 1;
            return Err(HELD_BY_DOUBT);
        }
        match self.damper.decide(key, evidence, now) {
            Decision::Allowed => Ok(()),
            Decision::DeniedByHost => Err(HELD_BY_HOST),
            Decision::DeniedByCatalog => Err(HELD_BY_CATALOG),
        }
    }

    /// Whether enough hosts remain in service when one more leaves. Those that drain, or were never heard from, are not
    /// among those that could be.
    fn would_remain(&self) -> bool {
        let could = |host: &&Host| !host.is_draining && host.heard_at.is_some();
        let all = self.hosts.values().filter(could).count();
        let rest = self.serving.saturating_sub(1);
        all < MAJORITY_OF || rest * 100 >= all * usize::from(self.config.soft_keeps_percent)
    }

    /// When [`Membership::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let publish_at = self.is_dirty.then(|| self.publish_at()).flatten();
        [publish_at, self.recheck_at].into_iter().flatten().min()
    }

    /// From when on a version may be published; `None`: from any time on.
    fn publish_at(&self) -> Option<Instant> {
        self.published_at?.checked_add(self.config.min_interval)
    }

    /// Time has passed. The exits, when there is a new version of them.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<&[CatalogExit]> {
        if self.recheck_at.is_none_or(|at| at <= now) {
            self.recheck(now);
        }
        if !self.is_dirty || self.publish_at().is_some_and(|at| at > now) {
            return None;
        }
        self.is_dirty = false;
        let exits = self.exits();
        if exits == self.published && self.published_at.is_some() {
            return None;
        }
        self.published = exits;
        self.published_at = Some(now);
        self.counters.versions += 1;
        Some(&self.published)
    }

    /// Looks at who has gone silent. A host that has is looked at again each time, so that a held one is asked about.
    fn recheck(&mut self, now: Instant) {
        let age_max = self.config.heartbeat_max_age;
        let is_silent = |host: &Host| host.silent_at(age_max).is_some_and(|at| at <= now);
        let silent: Vec<PublicKey> = self
            .hosts
            .iter()
            .filter(|(_, host)| host.in_service && is_silent(host))
            .map(|(key, _)| *key)
            .collect();
        for key in silent {
            self.judge(&key, now);
        }
        self.recheck_at = now.checked_add(RECHECK);
    }

    fn exits(&self) -> Vec<CatalogExit> {
        self.hosts
            .iter()
            .filter(|(_, host)| host.in_service && !host.addresses.is_empty())
            .map(|(key, host)| CatalogExit {
                public_key: key.to_text(),
                name: host.name.clone(),
                addresses: host.addresses.clone(),
            })
            .collect()
    }

    /// The name of the version that was published last.
    #[must_use]
    pub fn version(&self) -> String {
        format!("{:x}.{}", self.instance, self.counters.versions)
    }

    /// Whether a host is in the catalog, and why; `None` when it is not known.
    #[must_use]
    pub fn standing(&self, key: &PublicKey, now: Instant) -> Option<(bool, String)> {
        let host = self.hosts.get(key)?;
        let reason = host.reason(self.config.heartbeat_max_age, now);
        Some((host.in_service, reason))
    }

    /// When a host last said that it lives.
    #[must_use]
    pub fn heard_at(&self, key: &PublicKey) -> Option<Instant> {
        self.hosts.get(key)?.heard_at
    }

    /// All hosts, in the order of their keys: whom to probe.
    pub fn hosts(&self) -> impl Iterator<Item = &PublicKey> {
        self.hosts.keys()
    }

    /// Where a host is reached.
    #[must_use]
    pub fn addresses(&self, key: &PublicKey) -> Option<&[String]> {
        Some(&self.hosts.get(key)?.addresses)
    }

    /// All hosts for people and programs, in the order of their keys.
    #[must_use]
    pub fn report(&self, now: Instant) -> Vec<HostReport> {
        let report = |(key, host): (&PublicKey, &Host)| HostReport {
            public_key: key.to_text(),
            name: host.name.clone(),
            in_service: host.in_service,
            reason: host.reason(self.config.heartbeat_max_age, now),
            heartbeat_age_s: host.age_s(now),
            probe: host.latch.status(),
            flap: self.damper.host(key),
        };
        self.hosts.iter().map(report).collect()
    }

    /// What the damper decided so far (R-54).
    #[must_use]
    pub fn flap_counters(&self) -> FlapCounters {
        self.damper.counters()
    }

    /// What the catalog did so far.
    #[must_use]
    pub fn counters(&self) -> CatalogCounters {
        self.counters
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &CatalogConfig {
        &self.config
    }
}

#[cfg(test)]
mod tests;
