//! Two limiters on transitions from healthy to unhealthy.
//!
//! ```text
//!              Hard ─────────────────────────────────────────→ Allowed
//!   decide ──┤
//!              Soft ──→ host's bucket ──→ catalog's bucket ──→ Allowed
//!                           │ empty            │ empty
//!                           ↓                  ↓
//!                     DeniedByHost      DeniedByCatalog           held healthy
//! ```
//!
//! - The host's bucket is asked first, and what it denies spends nothing of the
//!   catalog's: one host that flaps does not use up what all others need (R-51).
//! - What the catalog denies spends nothing of the host's: it did not happen.
//! - Hard evidence passes and spends nothing. That the service itself fails is no
//!   opinion, and holding such a host healthy would only send people to it.
//! - From unhealthy to healthy nothing is asked. [`FlapDamper::on_healthy`] only
//!   takes note; it cannot refuse.
//! - A host that is denied is *held*: it stays healthy for whoever watches, and its
//!   next bad news is asked about anew.
//!
//! Each host's rate is drawn once, from 0.8 to 1.2 of the configured one: hosts
//! that failed together would else be released together, for ever (R-52).
//!
//! With both rates unbounded, the default, all passes and is counted.

use std::hash::Hash;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::hosts::{FlapCounters, Host, HostStatus, Hosts};
use crate::bucket::TokenBucket;
use crate::config::FlapConfig;

/// The smallest and the largest factor of a host's rate.
const RATE_FACTOR: (f64, f64) = (0.8, 1.2);

/// What speaks against a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// An opinion: a score that fell, a single probe that was not answered.
    Soft,
    /// The service itself fails: data that does not arrive, a session that is
    /// gone, a dial that is refused.
    Hard,
}

/// Whether a host may become unhealthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It may.
    Allowed,
    /// Its own limiter denies it: it is held healthy.
    DeniedByHost,
    /// The limiter of the whole catalog denies it: it is held healthy.
    DeniedByCatalog,
}

impl Decision {
    /// Whether the host is to be shown as unhealthy.
    pub fn is_allowed(self) -> bool {
        self == Self::Allowed
    }
}

/// The limiters of a catalog of hosts `K` (DESIGN §5).
#[derive(Debug)]
pub struct FlapDamper<K> {
    config: FlapConfig,
    catalog: TokenBucket,
    hosts: Hosts<K>,
    counters: FlapCounters,
    rng: SmallRng,
}

impl<K: Hash + Eq + Clone> FlapDamper<K> {
    /// A damper that knows no host yet. `config` is validated; `seed` feeds the
    /// draws of the hosts' rates.
    pub fn new(config: FlapConfig, seed: u64) -> Self {
        Self {
            catalog: TokenBucket::with_interval(config.catalog_interval, config.catalog_burst),
            hosts: Hosts::new(config.hosts_max, seed),
            counters: FlapCounters::default(),
            rng: SmallRng::seed_from_u64(seed),
            config,
        }
    }

    /// A healthy host is to become unhealthy: may it?
    pub fn decide(&mut self, host: &K, evidence: Evidence, now: Instant) -> Decision {
        let (config, rng) = (&self.config, &mut self.rng);
        let host = self.hosts.touch(host, || new_host(config, rng));
        let decision = match evidence {
            Evidence::Hard => Decision::Allowed,
            Evidence::Soft => ask(&mut host.bucket, &mut self.catalog, now),
        };
        host.is_held = !decision.is_allowed();
        for counters in [&mut host.counters, &mut self.counters] {
            count(counters, decision, evidence);
        }
        decision
    }

    /// A host is healthy again, or still: never limited. A hold ends.
    pub fn on_healthy(&mut self, host: &K) {
        if let Some(host) = self.hosts.peek_mut(host) {
            host.is_held = false;
        }
    }

    /// What was decided so far, for all hosts, those forgotten included.
    pub fn counters(&self) -> FlapCounters {
        self.counters
    }

    /// What is remembered of a host, unless it was never asked for or is forgotten.
    pub fn host(&self, host: &K) -> Option<HostStatus> {
        self.hosts.peek(host).map(Host::status)
    }

    /// All hosts that are remembered, the one asked for last first.
    pub fn hosts(&self) -> impl Iterator<Item = (&K, HostStatus)> {
        self.hosts.iter()
    }

    /// How many those are.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }
}

fn new_host(config: &FlapConfig, rng: &mut SmallRng) -> Host {
    let (low, high) = RATE_FACTOR;
    let factor = low + (high - low) * rng.random::<f64>();
    // Whole nanoseconds of an hour at most: far from what an `f64` cannot hold.
    let interval = Duration::from_secs_f64(config.host_interval.as_secs_f64() / factor);
    Host::new(TokenBucket::with_interval(interval, config.host_burst))
}

fn ask(host: &mut TokenBucket, catalog: &mut TokenBucket, now: Instant) -> Decision {
    if !host.is_ready(now) {
        return Decision::DeniedByHost;
    }
    if !catalog.take(now) {
        return Decision::DeniedByCatalog;
    }
    host.take(now);
    Decision::Allowed
}

fn count(counters: &mut FlapCounters, decision: Decision, evidence: Evidence) {
    let counter = match decision {
        Decision::Allowed => &mut counters.allowed,
        Decision::DeniedByHost => &mut counters.denied_host,
        Decision::DeniedByCatalog => &mut counters.denied_catalog,
    };
    *counter += 1;
    counters.hard += u64::from(evidence == Evidence::Hard);
}

#[cfg(test)]
#[path = "damper_tests.rs"]
mod tests;
