//! One direction of a path between two hosts.
//!
//! A packet passes these stages, in this order; each can end it, and each end has its counter:
//!
//! ```text
//! send ─▶ cut? ─▶ mtu? ─▶ bounds? ─▶ bottleneck queue ─▶ loss (random, bursts) ─▶ delay ± jitter ─▶ due ─▶ poll
//!          │        │        │              │                     │                  (held, copied)
//!   lost_blackhole  │        └─ lost_queue ─┘                lost_random
//!                lost_mtu
//! ```
//!
//! Loss comes after the bottleneck, as on a radio hop behind a full buffer: what is lost has taken its share of the rate.
//!
//! Invariants:
//! - `sent + duplicated == delivered + lost_random + lost_queue + lost_blackhole + lost_mtu + in_flight`, after each call.
//! - Jitter keeps the order: among packets that were not held back by `reorder`, one that was sent later is never due
//!   earlier. Equal due times are delivered in the order of sending.
//! - Back-to-back packets of b bytes in all leave a bottleneck of r bytes/s after exactly ⌊b·10⁹/r⌋ ns: the remainder of each
//!   division is carried on, so that rounding does not add up to another rate.
//! - The course depends on the seed, the settings and the calls alone. The generator is xoshiro256++ on all 64-bit targets; a
//!   draw is made only for a setting that is in use.
//!
//! A cut loses what is sent into it *and* what was in flight, because a path that is gone does not deliver its queue later.

mod config;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

pub use config::{DELAY_MAX, GilbertElliott, LinkConfig, LinkError};

/// What happened to the packets of a link, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Handed to [`Link::send`].
    pub sent: u64,
    /// Came out of [`Link::poll`], copies included.
    pub delivered: u64,
    /// Lost by `loss` or in a burst.
    pub lost_random: u64,
    /// The bottleneck's queue, or the bound of the packets in flight, was full.
    pub lost_queue: u64,
    /// Sent into a cut, or in flight when it came.
    pub lost_blackhole: u64,
    /// Longer than `mtu`.
    pub lost_mtu: u64,
    /// Copies made by `duplicate`.
    pub duplicated: u64,
    /// Held back by `reorder`.
    pub reordered: u64,
    /// On their way.
    pub in_flight: u64,
}

impl LinkCounters {
    /// All that did not arrive, whatever the reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_random + self.lost_queue + self.lost_blackhole + self.lost_mtu
    }

    /// Whether every packet is accounted for.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.sent + self.duplicated == self.delivered + self.lost() + self.in_flight
    }
}

/// One packet on its way. Ordered so that the *greatest* is the next one due, as [`BinaryHeap`] wants it.
#[derive(Debug)]
struct Flight<T> {
    due: Instant,
    /// Order of sending; unique.
    order: u64,
    len_bytes: usize,
    payload: T,
}

impl<T> Ord for Flight<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl<T> PartialOrd for Flight<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Flight<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Flight<T> {}

/// The bottleneck: when it is free again, and what the divisions so far left over.
#[derive(Debug, Default)]
struct Bottleneck {
    free_at: Option<Instant>,
    /// In bytes·10⁹ modulo the rate; below the rate.
    remainder: u128,
}

impl Bottleneck {
    /// When a packet sent at `now` has left at `rate` bytes/s, or `None`: it would wait longer than `wait_max`.
    fn pass(
        &mut self,
        len_bytes: usize,
        rate: u64,
        wait_max: Duration,
        now: Instant,
    ) -> Option<Instant> {
        if rate == 0 {
            return None;
        }
        let start = match self.free_at {
            Some(at) if at > now => at,
            Some(_) | None => {
                self.remainder = 0;
                now
            }
        };
        if start.duration_since(now) > wait_max {
            return None;
        }
        let (rate, work) = (
            u128::from(rate),
            len_bytes as u128 * 1_000_000_000 + self.remainder,
        );
        self.remainder = work % rate;
        let nanos = u64::try_from(work / rate).unwrap_or(u64::MAX);
        let leaves = start + Duration::from_nanos(nanos).min(DELAY_MAX);
        self.free_at = Some(leaves);
        Some(leaves)
    }
}

/// One direction of a path. See the [module](self) for what happens in which order.
#[derive(Debug)]
pub struct Link<T> {
    config: LinkConfig,
    rng: SmallRng,
    /// The state of the Gilbert–Elliott chain.
    in_burst: bool,
    bottleneck: Bottleneck,
    /// The latest due time of a packet that keeps the order.
    due_latest: Option<Instant>,
    flights: BinaryHeap<Flight<T>>,
    in_flight_bytes: usize,
    order_next: u64,
    counters: LinkCounters,
}

impl<T> Link<T> {
    /// A link with nothing in flight. `config` is taken as it is; see [`LinkConfig::validate`].
    #[must_use]
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            rng: SmallRng::seed_from_u64(seed),
            in_burst: false,
            bottleneck: Bottleneck::default(),
            due_latest: None,
            flights: BinaryHeap::new(),
            in_flight_bytes: 0,
            order_next: 0,
            counters: LinkCounters::default(),
        }
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes the settings for what is sent from here on. What is in flight keeps its due time, unless the new settings cut
    /// the link: then it is lost.
    pub fn set_config(&mut self, config: LinkConfig) {
        if config.rate_bytes_per_s != self.config.rate_bytes_per_s {
            self.bottleneck.remainder = 0;
        }
        self.config = config;
        self.set_blackhole(config.blackhole);
    }

    /// Cuts the link silently, or heals it. A cut loses what is in flight at once.
    pub fn set_blackhole(&mut self, blackhole: bool) {
        self.config.blackhole = blackhole;
        if blackhole {
            self.counters.lost_blackhole += self.flights.len() as u64;
            self.flights.clear();
            self.in_flight_bytes = 0;
            self.bottleneck = Bottleneck::default();
            self.due_latest = None;
        }
        self.count_in_flight();
    }

    /// The next packet that is due at `now`: by due time, then in the order of sending. To be called until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<T> {
        if self.flights.peek()?.due > now {
            return None;
        }
        let flight = self.flights.pop()?;
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(flight.len_bytes);
        self.counters.delivered += 1;
        self.count_in_flight();
        Some(flight.payload)
    }

    /// When [`Link::poll`] has something next; `None`: nothing is in flight.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flights.peek().map(|flight| flight.due)
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    fn count_in_flight(&mut self) {
        self.counters.in_flight = self.flights.len() as u64;
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random::<f64>() < probability
    }

    fn has_room(&self, len_bytes: usize) -> bool {
        self.flights.len() < self.config.in_flight_max
            && self
                .in_flight_bytes
                .checked_add(len_bytes)
                .is_some_and(|sum| sum <= self.config.in_flight_bytes_max)
    }

    /// Steps the burst chain for one packet, then draws both kinds of loss.
    fn is_lost(&mut self) -> bool {
        let in_burst_loss = match self.config.burst {
            Some(burst) => {
                let change = if self.in_burst {
                    burst.p_bad_to_good
                } else {
                    burst.p_good_to_bad
                };
                if self.chance(change) {
                    self.in_burst = !self.in_burst;
                }
                self.in_burst && self.chance(burst.loss_in_bad)
            }
            None => {
                self.in_burst = false;
                false
            }
        };
        // Both are drawn for each packet, so that the chain's course does not depend on independent loss.
        self.chance(self.config.loss) || in_burst_loss
    }

    /// `delay` ± `jitter`, never negative.
    fn draw_delay(&mut self) -> Duration {
        let (delay, jitter) = (
            self.config.delay.min(DELAY_MAX),
            self.config.jitter.min(DELAY_MAX),
        );
        if jitter.is_zero() {
            return delay;
        }
        let width_nanos = u64::try_from(2 * jitter.as_nanos()).unwrap_or(u64::MAX);
        let drawn = Duration::from_nanos(self.rng.random_range(0..=width_nanos));
        (delay + drawn).saturating_sub(jitter)
    }

    /// Puts a packet that left the bottleneck at `leaves` on its way.
    fn fly(&mut self, payload: T, len_bytes: usize, leaves: Instant) {
        let drawn = leaves + self.draw_delay();
        let mut due = self.due_latest.map_or(drawn, |latest| drawn.max(latest));
        if self.chance(self.config.reorder) {
            // A held packet does not hold those behind it: it is their overtaking that makes the reordering.
            due += self.config.reorder_hold.min(DELAY_MAX);
            self.counters.reordered += 1;
        } else {
            self.due_latest = Some(due);
        }
        let order = self.order_next;
        self.order_next += 1;
        self.in_flight_bytes += len_bytes;
        self.flights.push(Flight {
            due,
            order,
            len_bytes,
            payload,
        });
    }
}

impl<T: Clone> Link<T> {
    /// Sends a packet of `len_bytes` (what the rate, the bounds and the MTU count; the payload itself is not looked at) at
    /// `now`. `now` must not go back between calls.
    pub fn send(&mut self, payload: T, len_bytes: usize, now: Instant) {
        self.counters.sent += 1;
        self.admit(payload, len_bytes, now);
        self.count_in_flight();
    }

    fn admit(&mut self, payload: T, len_bytes: usize, now: Instant) {
        if self.config.blackhole {
            self.counters.lost_blackhole += 1;
            return;
        }
        if self.config.mtu.is_some_and(|mtu| len_bytes > mtu) {
            self.counters.lost_mtu += 1;
            return;
        }
        if !self.has_room(len_bytes) {
            self.counters.lost_queue += 1;
            return;
        }
        let leaves = match self.config.rate_bytes_per_s {
            None => now,
            Some(rate) => {
                let wait_max = Duration::from_millis(self.config.queue_ms_max);
                let Some(leaves) = self.bottleneck.pass(len_bytes, rate, wait_max, now) else {
                    self.counters.lost_queue += 1;
                    return;
                };
                leaves
            }
        };
        if self.is_lost() {
            self.counters.lost_random += 1;
            return;
        }
        // The copy is made only where it is wanted; without room it is not made at all.
        let copy = (self.chance(self.config.duplicate)).then(|| payload.clone());
        self.fly(payload, len_bytes, leaves);
        if let Some(copy) = copy
            && self.has_room(len_bytes)
        {
            self.counters.duplicated += 1;
            self.fly(copy, len_bytes, leaves);
        }
    }
}
