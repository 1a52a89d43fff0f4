//! What the damper remembers of each host, for a bounded number of them.
//!
//! The host that was asked for longest ago is forgotten when there is no place for
//! a new one. Forgetting gives a host its whole burst back, so it must not be the
//! one that flaps: that one was asked for just now. A full cache of hosts that all
//! flap is what the catalog's limiter is there for.
//!
//! A map finds a host's place in a slab that keeps the order of use. The map is
//! never walked: what a person reads comes in the slab's order, which is the same
//! in each run.

use std::collections::HashMap;
use std::hash::Hash;

use lru_slab::LruSlab;
use rustc_hash::FxSeededState;
use serde::Serialize;

use crate::bucket::TokenBucket;
use crate::counters::counters;

counters! {
    /// Decisions so far. `allowed`, `denied_host` and `denied_catalog` add up to all.
    pub struct FlapCounters {
        /// Transitions to unhealthy that were let pass.
        pub allowed: u64,
        /// Transitions that the host's own limiter denied.
        pub denied_host: u64,
        /// Transitions that the catalog's limiter denied.
        pub denied_catalog: u64,
        /// Those of `allowed` that passed on hard evidence.
        pub hard: u64,
    }
}

/// What is remembered of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HostStatus {
    /// Its decisions since it is remembered.
    pub counters: FlapCounters,
    /// Whether its last bad news was denied: it is shown healthy and may not be.
    pub is_held: bool,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) bucket: TokenBucket,
    pub(super) counters: FlapCounters,
    pub(super) is_held: bool,
}

impl Host {
    pub(super) fn new(bucket: TokenBucket) -> Self {
        Self {
            bucket,
            counters: FlapCounters::default(),
            is_held: false,
        }
    }

    pub(super) fn status(&self) -> HostStatus {
        HostStatus {
            counters: self.counters,
            is_held: self.is_held,
        }
    }
}

#[derive(Debug)]
pub(super) struct Hosts<K> {
    places: HashMap<K, u32, FxSeededState>,
    slab: LruSlab<(K, Host)>,
    len_max: usize,
}

impl<K: Hash + Eq + Clone> Hosts<K> {
    /// Room for `len_max` hosts, 0 taken as 1; it is taken as hosts come.
    pub(super) fn new(len_max: u32, seed: u64) -> Self {
        Self {
            // The seed decides where a host lies, and nothing that is seen.
            places: HashMap::with_hasher(FxSeededState::with_seed(seed as usize)),
            slab: LruSlab::new(),
            len_max: len_max.max(1) as usize,
        }
    }

    /// The host, as the one asked for last; one that is not known is made.
    pub(super) fn touch(&mut self, key: &K, make: impl FnOnce() -> Host) -> &mut Host {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => self.insert(key, make()),
        };
        &mut self.slab.get_mut(place).1
    }

    fn insert(&mut self, key: &K, host: Host) -> u32 {
        if self.places.len() >= self.len_max
            && let Some(oldest) = self.slab.lru()
        {
            let (forgotten, _) = self.slab.remove(oldest);
            self.places.remove(&forgotten);
        }
        let place = self.slab.insert((key.clone(), host));
        self.places.insert(key.clone(), place);
        place
    }

    /// The host, its turn unchanged.
    pub(super) fn peek(&self, key: &K) -> Option<&Host> {
        let place = self.places.get(key)?;
        Some(&self.slab.peek(*place).1)
    }

    pub(super) fn peek_mut(&mut self, key: &K) -> Option<&mut Host> {
        let place = self.places.get(key)?;
        Some(&mut self.slab.peek_mut(*place).1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, HostStatus)> {
        self.slab
            .iter()
            .map(|(_, (key, host))| (key, host.status()))
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}
