//! One direction under a lane: a short queue that is paced, and the link.
//!
//! ```text
//! hand_over ──▶ queue, ≤ max(2 datagrams, 2 ms of rate) ──pace──▶ departed ──▶ link ──▶ poll
//!     │ refused: nothing happened, and nothing is taken until it clears
//! ```
//!
//! What leaves the queue has *departed*; the sender's time runs from there. The link does not say what it lost, so each
//! datagram notes its own end in a [`Ledger`] when it is dropped: that keeps the books exact, packs and copies included,
//! without the link's help, and its counters are held against them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_sim::link::{Link, LinkConfig};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Most bytes that wait for their departure (DESIGN §4).
const QUEUE_BYTES_MAX: usize = 32 * 1024;
/// The share of the rate that may wait.
const QUEUE_TIME: Duration = Duration::from_millis(2);
/// How long a refusal lasts.
const REFUSAL: Duration = Duration::from_millis(3);

/// What became of the packs of a direction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Packs and datagrams that left the queue.
    pub(crate) sent: Tally,
    /// Made by the link.
    pub(crate) copied: Tally,
    pub(crate) arrived: Tally,
    pub(crate) lost: Tally,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) datagrams: u64,
    pub(crate) packs: u64,
}

impl Tally {
    fn add(&mut self, packs: u64) {
        self.datagrams += 1;
        self.packs += packs;
    }
}

/// A datagram under way, which notes how its way ends.
#[derive(Debug)]
struct Parcel {
    bytes: Bytes,
    packs: u64,
    arrived: bool,
    ledger: Rc<RefCell<Ledger>>,
}

impl Clone for Parcel {
    fn clone(&self) -> Self {
        self.ledger.borrow_mut().copied.add(self.packs);
        Self {
            bytes: self.bytes.clone(),
            ledger: Rc::clone(&self.ledger),
            ..*self
        }
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        let mut ledger = self.ledger.borrow_mut();
        let end = if self.arrived {
            &mut ledger.arrived
        } else {
            &mut ledger.lost
        };
        end.add(self.packs);
    }
}

/// A datagram to be handed over.
#[derive(Debug, Default)]
pub(crate) struct Datagram {
    pub(crate) bytes: Vec<u8>,
    /// The transmissions in it, PINGs included.
    pub(crate) txs: Vec<u64>,
    pub(crate) packs: u64,
}

/// What a direction is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CarrierConfig {
    pub(crate) link: LinkConfig,
    pub(crate) datagram_len_max: usize,
    pub(crate) cwnd_bytes: u64,
    /// With `cwnd_bytes`, the pace.
    pub(crate) rtt: Duration,
    /// Congestion control lets nothing leave.
    pub(crate) held: bool,
    /// Probability that a hand-over is refused.
    pub(crate) refusals: f64,
}

/// Says which datagrams the path swallows.
pub(crate) type Swallow = Box<dyn FnMut(&[u8]) -> bool>;

pub(crate) struct Carrier {
    config: CarrierConfig,
    link: Link<Parcel>,
    queue: VecDeque<Datagram>,
    queue_bytes: usize,
    free_at: Instant,
    refuses_until: Instant,
    rng: SmallRng,
    ledger: Rc<RefCell<Ledger>>,
    pub(crate) swallow: Option<Swallow>,
    swallowed: u64,
}

impl Carrier {
    pub(crate) fn new(config: CarrierConfig, seed: u64, now: Instant) -> Self {
        config.link.validate().unwrap();
        Self {
            link: Link::new(config.link, seed),
            config,
            queue: VecDeque::new(),
            queue_bytes: 0,
            free_at: now,
            refuses_until: now,
            rng: SmallRng::seed_from_u64(!seed),
            ledger: Rc::default(),
            swallow: None,
            swallowed: 0,
        }
    }

    pub(crate) fn config(&self) -> CarrierConfig {
        self.config
    }

    pub(crate) fn set_config(&mut self, config: CarrierConfig) {
        if config.link != self.config.link {
            self.link.set_config(config.link);
        }
        self.config = config;
    }

    fn time_of(&self, bytes: usize) -> Duration {
        let nanos = bytes as u128 * self.config.rtt.as_nanos() / u128::from(self.config.cwnd_bytes);
        Duration::from_nanos(u64::try_from(nanos).unwrap())
    }

    fn queue_bytes_max(&self) -> usize {
        let rate = u128::from(self.config.cwnd_bytes) * QUEUE_TIME.as_nanos();
        let share = usize::try_from(rate / self.config.rtt.as_nanos().max(1)).unwrap();
        share
            .max(2 * self.config.datagram_len_max)
            .min(QUEUE_BYTES_MAX)
    }

    /// Whether one more datagram may be handed over.
    pub(crate) fn has_room(&self, now: Instant) -> bool {
        now >= self.refuses_until
            && self.queue_bytes + self.config.datagram_len_max <= self.queue_bytes_max()
    }

    /// Takes a datagram, or gives it back: it never was handed over.
    pub(crate) fn hand_over(&mut self, datagram: Datagram, now: Instant) -> Result<(), Datagram> {
        assert!(datagram.bytes.len() <= self.config.datagram_len_max);
        if self.config.refusals > 0.0 && self.rng.random::<f64>() < self.config.refusals {
            self.refuses_until = now + REFUSAL;
            return Err(datagram);
        }
        self.queue_bytes += datagram.bytes.len();
        self.queue.push_back(datagram);
        Ok(())
    }

    /// Lets leave what may; the transmissions that departed with the next datagram.
    pub(crate) fn depart(&mut self, now: Instant) -> Option<Vec<u64>> {
        if self.config.held || self.free_at > now {
            return None;
        }
        let datagram = self.queue.pop_front()?;
        let len = datagram.bytes.len();
        self.queue_bytes -= len;
        self.free_at = now + self.time_of(len);
        self.ledger.borrow_mut().sent.add(datagram.packs);
        let parcel = Parcel {
            packs: datagram.packs,
            bytes: datagram.bytes.into(),
            arrived: false,
            ledger: Rc::clone(&self.ledger),
        };
        let swallow = self.swallow.as_mut();
        if swallow.is_some_and(|swallow| swallow(&parcel.bytes)) {
            self.swallowed += 1;
        } else {
            self.link.send(parcel, len, now);
        }
        Some(datagram.txs)
    }

    /// The next datagram that arrives.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Bytes> {
        let mut parcel = self.link.poll(now)?;
        parcel.arrived = true;
        Some(parcel.bytes.clone())
    }

    /// When something leaves or arrives next, or a refusal clears.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let leaves = (!self.queue.is_empty() && !self.config.held).then_some(self.free_at);
        let clears = Some(self.refuses_until).filter(|until| *until > now);
        [leaves, clears, self.link.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// When [`Carrier::has_room`] may be true next, if it is not.
    pub(crate) fn room_at(&self) -> Instant {
        self.free_at.max(self.refuses_until)
    }

    pub(crate) fn ledger(&self) -> Ledger {
        *self.ledger.borrow()
    }

    /// Packs that were handed over and did not leave.
    pub(crate) fn waiting_packs(&self) -> u64 {
        self.queue.iter().map(|datagram| datagram.packs).sum()
    }

    /// Whether nothing waits, nothing is under way, and nothing is kept from being handed over.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.queue.is_empty() && self.link.counters().in_flight == 0 && self.refuses_until <= now
    }

    /// Whether our ledger and the link's counters tell the same story.
    pub(crate) fn is_conserved(&self) -> bool {
        let (ledger, link) = (self.ledger(), self.link.counters());
        let ended = ledger.arrived.datagrams + ledger.lost.datagrams;
        link.is_conserved()
            && ledger.sent.datagrams == link.sent + self.swallowed
            && ledger.arrived.datagrams == link.delivered
            && ledger.sent.datagrams + ledger.copied.datagrams == ended + link.in_flight
            && (link.in_flight > 0
                || ledger.sent.packs + ledger.copied.packs
                    == ledger.arrived.packs + ledger.lost.packs)
    }
}
