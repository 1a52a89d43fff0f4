//! A bucket for each of a bounded number of whoever asks.
//!
//! Without a place for a new one, the one heard of longest ago is forgotten, and would begin with a full bucket. Whoever
//! is refused was heard of just now, so a table that is full of sources gives nobody who floods a new budget unless he
//! has as many addresses as there are places.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use lru_slab::LruSlab;
use quell_core::bucket::TokenBucket;

#[derive(Debug)]
pub(super) struct Buckets<K> {
    full: TokenBucket,
    /// Hashed with a secret, as who asks chooses his own address and key.
    places: HashMap<K, u32>,
    slab: LruSlab<(K, TokenBucket)>,
    len_max: usize,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    pub(super) fn new(rate_per_s: u32, burst: u32, len_max: u32) -> Self {
        Self {
            full: TokenBucket::new(rate_per_s, burst),
            places: HashMap::new(),
            slab: LruSlab::new(),
            len_max: len_max.max(1) as usize,
        }
    }

    /// Takes a token of `key`, or says in how long there is one.
    pub(super) fn take(&mut self, key: K, now: Instant) -> Result<(), Duration> {
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => self.insert(key),
        };
        let (_, bucket) = self.slab.get_mut(place);
        if bucket.take(now) {
            return Ok(());
        }
        let at = bucket.ready_at(now).unwrap_or(now);
        Err(at.saturating_duration_since(now))
    }

    fn insert(&mut self, key: K) -> u32 {
        if self.places.len() >= self.len_max
            && let Some(oldest) = self.slab.lru()
        {
            let (forgotten, _) = self.slab.remove(oldest);
            self.places.remove(&forgotten);
        }
        let place = self.slab.insert((key.clone(), self.full.clone()));
        self.places.insert(key, place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_burst_and_one_more_waits() {
        let now = Instant::now();
        let mut buckets = Buckets::new(10, 3, 100);
        for key in 0..2 {
            assert!((0..3).all(|_| buckets.take(key, now).is_ok()));
            assert_eq!(buckets.take(key, now), Err(Duration::from_millis(100)));
        }
        assert_eq!(buckets.take(0, now + Duration::from_millis(100)), Ok(()));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_who_was_heard_of_longest_ago() {
        let now = Instant::now();
        let mut buckets = Buckets::new(1, 1, 2);
        assert!(buckets.take(0, now).is_ok() && buckets.take(1, now).is_ok());
        assert!(buckets.take(0, now).is_err());
        assert!(buckets.take(2, now).is_ok());
        assert_eq!((buckets.places.len(), buckets.slab.len()), (2, 2));
        // Who floods is remembered, the other was forgotten.
        assert!(buckets.take(0, now).is_err());
        assert!(buckets.take(1, now).is_ok());
    }
}
