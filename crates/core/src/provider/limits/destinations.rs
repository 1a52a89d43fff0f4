//! How fast a client may speak to addresses that it did not speak to lately.
//!
//! Known destinations are free, a new one costs a token. The memory is bounded: the destination used longest ago is
//! forgotten for a new one, and costs a token again should it come back. One that was refused is not remembered, so
//! asking again and again opens nothing.
//!
//! An address counts, not an address and port: many ports of one host are many flows, which have a bound of their own.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use foldhash::fast::FixedState;
use lru_slab::LruSlab;

use crate::bucket::TokenBucket;
use crate::config::ClientLimitsConfig;
use crate::drops::DropReason;

/// What a client has left to spend on new destinations.
#[derive(Debug, Clone)]
pub(in crate::provider) struct DestinationTokens(TokenBucket);

#[derive(Debug)]
pub(super) struct Destinations {
    tokens: DestinationTokens,
    /// Never walked: what is forgotten follows the slab's order.
    places: HashMap<IpAddr, u32, FixedState>,
    slab: LruSlab<IpAddr>,
    len_max: usize,
}

impl Destinations {
    pub(super) fn new(config: &ClientLimitsConfig, seed: u64) -> Self {
        let rate = config.client_new_destinations_per_s;
        let bucket = TokenBucket::new(rate, config.client_new_destination_burst);
        Self {
            tokens: DestinationTokens(bucket),
            places: HashMap::with_hasher(FixedState::with_seed(seed)),
            slab: LruSlab::new(),
            len_max: config.client_destinations_max.max(1) as usize,
        }
    }

    pub(super) fn set_tokens(&mut self, tokens: DestinationTokens) {
        self.tokens = tokens;
    }

    pub(super) fn tokens(&self) -> DestinationTokens {
        self.tokens.clone()
    }

    /// A packet goes to `destination`.
    ///
    /// # Errors
    /// It is a new one, and there were too many of them.
    pub(super) fn admit(&mut self, destination: IpAddr, now: Instant) -> Result<(), DropReason> {
        if let Some(place) = self.places.get(&destination) {
            // Asking for it is what makes it the last to be forgotten.
            let _ = self.slab.get_mut(*place);
            return Ok(());
        }
        if !self.tokens.0.take(now) {
            return Err(DropReason::DestinationLimit);
        }
        if self.places.len() >= self.len_max
            && let Some(oldest) = self.slab.lru()
        {
            let forgotten = self.slab.remove(oldest);
            self.places.remove(&forgotten);
        }
        let place = self.slab.insert(destination);
        self.places.insert(destination, place);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}
