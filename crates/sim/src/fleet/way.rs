//! What lies between a client and its providers, in a dozen bytes a client.
//!
//! The arithmetic is that of [`crate::link`]: a bottleneck with a drop-tail queue, then loss, then delay ± jitter that
//! keeps the order. A fleet has no room for a link of each connection. What is the same for all stands here once; a client
//! has its access, which all its connections share, and a connection the time of what it sent last.

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::node::rng_of;
use crate::scenario::PathModel;

/// A bottleneck: when it is free again, and what the divisions so far left over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access {
    free_at_ns: u64,
    /// In bytes·10⁹ modulo the rate.
    remainder: u64,
}

/// The ways of a world.
#[derive(Debug)]
pub(crate) struct Ways {
    delay_ns: u64,
    jitter_ns: u64,
    loss: f64,
    rate_bytes_per_s: Option<u64>,
    queue_ns: u64,
    rng: SmallRng,
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Ways {
    /// The ways of this model.
    pub(crate) fn new(model: &PathModel, seed: u64) -> Self {
        let delay_ns = ns(model.rtt) / 2;
        Self {
            delay_ns,
            jitter_ns: ns(model.jitter).min(delay_ns),
            loss: model.loss,
            rate_bytes_per_s: model.rate_bits_per_s.map(|bits| (bits / 8).max(1)),
            queue_ns: ns(model.queue),
            rng: rng_of(seed, 0x0077_6179),
        }
    }

    /// One way without queues.
    pub(crate) fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// When a datagram that leaves now arrives; `None`: it is lost. `due_ns` is when the one before it does.
    pub(crate) fn cross(
        &mut self,
        len_bytes: u32,
        access: &mut Access,
        due_ns: &mut u64,
        now_ns: u64,
    ) -> Option<u64> {
        let leaves = match self.rate_bytes_per_s {
            None => now_ns,
            Some(rate) => self.pass(len_bytes, access, rate, now_ns)?,
        };
        // Lost behind the bottleneck: what is lost has taken its share of the rate.
        if self.loss > 0.0 && self.rng.random::<f64>() < self.loss {
            return None;
        }
        let mut delay = self.delay_ns;
        if self.jitter_ns > 0 {
            delay += self.rng.random_range(0..=2 * self.jitter_ns);
            delay -= self.jitter_ns;
        }
        *due_ns = (leaves + delay).max(*due_ns);
        Some(*due_ns)
    }

    fn pass(&self, len_bytes: u32, access: &mut Access, rate: u64, now_ns: u64) -> Option<u64> {
        let start = access.free_at_ns.max(now_ns);
        if start == now_ns {
            access.remainder = 0;
        }
        if start - now_ns > self.queue_ns {
            return None;
        }
        let work = u64::from(len_bytes) * 1_000_000_000 + access.remainder;
        access.remainder = work % rate;
        access.free_at_ns = start + work / rate;
        Some(access.free_at_ns)
    }
}
