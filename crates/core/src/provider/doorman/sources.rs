//! The budgets of sources that proved their address, for a bounded number of them.
//!
//! A source is a prefix: one IPv4 address, or an IPv6 /64, which is what one
//! household is given (RFC 6177). An IPv4 address that came over a socket of both
//! families is the IPv4 address, not one of a /64 that all of IPv4 would share.
//!
//! Spoofed sources never get here, so the table cannot be filled by who does not
//! read what is sent to an address. Without a place, the prefix heard of longest
//! ago is forgotten; who is refused was heard of just now and stays remembered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use lru_slab::LruSlab;

use crate::bucket::TokenBucket;
use crate::config::DoormanConfig;

/// Whose budget an address draws from: whatever is given to one household.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourcePrefix {
    /// One IPv4 address.
    V4([u8; 4]),
    /// An IPv6 /64 (RFC 6177).
    V6([u8; 8]),
}

impl SourcePrefix {
    /// The prefix of an address; an IPv4 address in IPv6 form is the IPv4 address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Sources {
    full: TokenBucket,
    /// Never walked: what is forgotten follows the slab's order. Hashed with a
    /// secret, as sources choose their own address.
    places: HashMap<SourcePrefix, u32>,
    slab: LruSlab<(SourcePrefix, TokenBucket)>,
    len_max: usize,
}

impl Sources {
    pub(super) fn new(config: &DoormanConfig) -> Self {
        Self {
            full: TokenBucket::new(
                config.source_handshakes_per_s,
                config.source_handshake_burst,
            ),
            places: HashMap::new(),
            slab: LruSlab::new(),
            len_max: config.sources_max.max(1) as usize,
        }
    }

    /// Takes one handshake from the budget of `prefix`, if there is one.
    pub(super) fn take(&mut self, prefix: SourcePrefix, now: Instant) -> bool {
        let place = match self.places.get(&prefix) {
            Some(place) => *place,
            None => self.insert(prefix),
        };
        self.slab.get_mut(place).1.take(now)
    }

    fn insert(&mut self, prefix: SourcePrefix) -> u32 {
        if self.places.len() >= self.len_max
            && let Some(oldest) = self.slab.lru()
        {
            let (forgotten, _) = self.slab.remove(oldest);
            self.places.remove(&forgotten);
        }
        let place = self.slab.insert((prefix, self.full.clone()));
        self.places.insert(prefix, place);
        place
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}
