//! What is known of one host, and what speaks for and against it.
//!
//! ```text
//!              banned ────────────────→ out, at once (hard)
//!              draining ──────────────→ out, at once (hard)
//!              never heard from ──────→ not in yet
//!   believed   probe critical ────────→ out, when the damper lets it (soft)
//!              silent too long ───────→ out, when the damper lets it (soft)
//!              none of these ─────────→ in
//! ```
//!
//! The first that applies is the reason. Hard is what the host or its operator says itself: no opinion of ours, and
//! holding such a host in the catalog would only send people to it (R-53). Silence is soft: a provider that cannot reach
//! the backend may carry packets well, and the probe knows better.
//!
//! A host with a ban is forgotten, not kept as banned: its key comes back only through the store.

use std::time::{Duration, Instant};

use quell_core::config::ProbeLatchConfig;
use quell_core::flap::{Evidence, HostStatus};
use quell_core::health::probe_latch::{ProbeLatch, ProbeLatchStatus};
use serde::Serialize;

/// A provider's word, or the store's of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// What people call it.
    pub name: String,
    /// Where clients reach it.
    pub addresses: Vec<String>,
    /// How long ago it last said that it lives; `None` for never, or so long ago that it does not count.
    pub age: Option<Duration>,
    /// Whether it said that it is about to stop; `None` when that is not known here (the store does not keep it).
    pub draining: Option<bool>,
}

/// A host for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostReport {
    /// Its key.
    pub public_key: String,
    /// What people call it.
    pub name: String,
    /// Whether it is in the catalog.
    pub in_service: bool,
    /// Why, in words.
    pub reason: String,
    /// How long ago it said that it lives, in seconds; none for never.
    pub heartbeat_age_s: Option<u64>,
    /// What the probe says.
    pub probe: ProbeLatchStatus,
    /// What the damper decided about it, unless it was never asked.
    pub flap: Option<HostStatus>,
}

/// What is to become of a host by what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing speaks against it.
    In,
    /// It was never heard from.
    NotYet,
    /// Something does.
    Out(Evidence),
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) addresses: Vec<String>,
    pub(super) latch: ProbeLatch,
    pub(super) is_draining: bool,
    pub(super) heard_at: Option<Instant>,
    /// When it signed its last word, in seconds since 1970 UTC; 0 for none that was heard here.
    pub(super) said_s: u64,
    pub(super) in_service: bool,
    /// Why it is in service all the same, when it is.
    pub(super) held: Option<&'static str>,
}

impl Host {
    pub(super) fn new(heard: Heard, probe: &ProbeLatchConfig, now: Instant) -> Self {
        let mut host = Self {
            name: String::new(),
            addresses: Vec::new(),
            latch: ProbeLatch::new(probe.clone()),
            is_draining: false,
            heard_at: None,
            said_s: 0,
            in_service: false,
            held: None,
        };
        host.hear(heard, now);
        host
    }

    /// Takes over what was heard. An older word than the last does not make it older.
    pub(super) fn hear(&mut self, heard: Heard, now: Instant) {
        self.name = heard.name;
        self.addresses = heard.addresses;
        self.is_draining = heard.draining.unwrap_or(self.is_draining);
        let at = heard.age.map(|age| now.checked_sub(age).unwrap_or(now));
        self.heard_at = self.heard_at.max(at);
    }

    pub(super) fn silent_at(&self, age_max: Duration) -> Option<Instant> {
        self.heard_at?.checked_add(age_max)
    }

    fn is_silent(&self, age_max: Duration, now: Instant) -> bool {
        self.silent_at(age_max).is_some_and(|at| at <= now)
    }

    pub(super) fn verdict(&self, age_max: Duration, now: Instant) -> Verdict {
        if self.is_draining {
            return Verdict::Out(Evidence::Hard);
        }
        if self.heard_at.is_none() {
            return Verdict::NotYet;
        }
        if !self.latch.is_in_service() || self.is_silent(age_max, now) {
            return Verdict::Out(Evidence::Soft);
        }
        Verdict::In
    }

    /// Why it is in the catalog or not, in words (R-44).
    pub(super) fn reason(&self, age_max: Duration, now: Instant) -> String {
        let why = if self.is_draining {
            "draining: it said that it is about to stop".to_owned()
        } else if self.heard_at.is_none() {
            "not in the catalog yet: it has not said that it lives".to_owned()
        } else if self.latch.is_in_service() && self.is_silent(age_max, now) {
            let age_s = self.age_s(now).unwrap_or_default();
            format!("silent: it has not said for {age_s} s that it lives")
        } else {
            self.latch.reason()
        };
        match self.held {
            Some(held) => format!("held in service ({held}), though {why}"),
            None => why,
        }
    }

    pub(super) fn age_s(&self, now: Instant) -> Option<u64> {
        let at = self.heard_at?;
        Some(now.saturating_duration_since(at).as_secs())
    }
}
