//! One modelled QUIC connection, direction by direction.
//!
//! Only what the core can notice is modelled. *Datagrams* wait in a first-in first-out backlog, leave it paced at
//! cwnd ÷ rtt, cross a [`Link`] and may get lost. *Reliable* items (the handshake's flights, bytes of the control stream)
//! arrive in order and whole, after the link's delay; while the link is cut they wait, as QUIC would send them again. The
//! *end* of a connection (CONNECTION_CLOSE) crosses once and is lost in a cut, as RFC 9000 §10.2 has it: the other end then
//! learns of it by its idle timer, or by a reset when it sends something to an end that is gone.
//!
//! ```text
//! hand_over → backlog ──pace, not held──▶ link ──due──▶ arrival
//!                │ path shrank: too large       │ path shrank: too large
//!                └────────────── lost ──────────┘
//! ```
//!
//! Not modelled: cwnd does not react to loss, and acknowledgements take no bandwidth. What reacts to cwnd is tested by
//! setting it.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::multi::Loss;
use quell_core::path::CarrierFacts;

use super::parcel::{Fate, Parcel, Tally};
use crate::link::{Link, LinkConfig, LinkCounters};

/// Settings of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CarrierConfig {
    /// The link under it. Its `mtu` is left alone; sizes are limited by `datagram_len_max`.
    pub link: LinkConfig,
    /// Largest datagram that QUIC takes, in bytes.
    pub datagram_len_max: usize,
    /// The congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// Congestion control lets nothing leave.
    pub held: bool,
}

impl Default for CarrierConfig {
    /// 10 ms each way, datagrams of 1,414 bytes (a UDP payload of 1,452), a window of 1 MiB.
    fn default() -> Self {
        Self {
            link: LinkConfig {
                delay: Duration::from_millis(10),
                ..LinkConfig::default()
            },
            datagram_len_max: 1_414,
            cwnd_bytes: 1 << 20,
            held: false,
        }
    }
}

/// What crosses a connection besides datagrams.
#[derive(Debug, Clone)]
pub(super) enum Item {
    /// The client's first flight.
    Initial,
    /// The provider's answer to it: the client's handshake is complete.
    Answer,
    /// The client's last flight: the provider's handshake is complete.
    Finished,
    /// Bytes of the control stream.
    Control(Bytes),
}

/// What came out of a direction.
#[derive(Debug)]
pub(super) enum Arrival {
    Item(Item),
    Datagram(Bytes),
    Closed(Loss),
}

#[derive(Debug)]
struct Reliable {
    sent_at: Instant,
    item: Item,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Direction {
    config: CarrierConfig,
    rtt: Duration,
    link: Link<Rc<Parcel>>,
    tally: Tally,
    backlog: VecDeque<Rc<Parcel>>,
    backlog_bytes: usize,
    /// When the next datagram may leave the backlog.
    free_at: Instant,
    reliable: VecDeque<Reliable>,
    /// When a cut ended: what waited for it begins its way there.
    healed_at: Instant,
    farewell: Option<(Instant, Loss)>,
    shrunk_away: u64,
}

impl Direction {
    pub(super) fn new(config: CarrierConfig, seed: u64, now: Instant) -> Self {
        Self {
            rtt: 2 * config.link.delay,
            link: Link::new(config.link, seed),
            config,
            tally: Tally::default(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            free_at: now,
            reliable: VecDeque::new(),
            healed_at: now,
            farewell: None,
            shrunk_away: 0,
        }
    }

    /// New settings for what is yet to leave. Datagrams that are too large for a path that shrank are lost, whether they
    /// wait or are under way.
    pub(super) fn set_config(&mut self, config: CarrierConfig, rtt: Duration, now: Instant) {
        if self.config.link.blackhole && !config.link.blackhole {
            self.healed_at = now;
        }
        if config.link.blackhole {
            self.farewell = None;
        }
        if config.link != self.config.link {
            self.link.set_config(config.link);
        }
        self.config = config;
        self.rtt = rtt;
        self.backlog
            .retain(|parcel| parcel.len() <= config.datagram_len_max);
        self.backlog_bytes = self.backlog.iter().map(|parcel| parcel.len()).sum();
        self.depart(now);
    }

    /// What a driver would read off the connection.
    pub(super) fn facts(&self) -> CarrierFacts {
        CarrierFacts {
            datagram_len_max: self.config.datagram_len_max,
            backlog_bytes: self.backlog_bytes,
            cwnd_bytes: self.config.cwnd_bytes,
            rtt: self.rtt,
        }
    }

    /// Takes a datagram from the sending end; `Err`: larger than the path takes, which quinn refuses.
    pub(super) fn hand_over(&mut self, datagram: Bytes, now: Instant) -> Result<(), Bytes> {
        if datagram.len() > self.config.datagram_len_max {
            return Err(datagram);
        }
        self.backlog_bytes += datagram.len();
        self.backlog.push_back(self.tally.parcel(datagram));
        self.depart(now);
        Ok(())
    }

    /// Lets leave what pacing allows.
    fn depart(&mut self, now: Instant) {
        while !self.config.held && self.free_at <= now {
            let Some(parcel) = self.backlog.pop_front() else {
                return;
            };
            let len = parcel.len();
            self.backlog_bytes -= len;
            let pace =
                self.rtt.as_nanos() * len as u128 / u128::from(self.config.cwnd_bytes.max(1));
            let pace = Duration::from_nanos(u64::try_from(pace).unwrap_or(u64::MAX));
            self.free_at = self.free_at.max(now) + pace.min(Duration::from_secs(60));
            self.link.send(parcel, len, now);
        }
    }

    pub(super) fn send(&mut self, item: Item, now: Instant) {
        self.reliable.push_back(Reliable { sent_at: now, item });
    }

    /// Ends the connection: datagrams that wait to leave are lost, the reason crosses once, behind what is under way.
    pub(super) fn close(&mut self, loss: Loss, now: Instant) {
        self.backlog.clear();
        self.backlog_bytes = 0;
        if self.config.link.blackhole {
            self.reliable.clear();
        } else if self.farewell.is_none() {
            self.farewell = Some((now + self.config.link.delay, loss));
        }
    }

    /// The receiving end is gone: nothing arrives any more.
    pub(super) fn abandon(&mut self) {
        self.forget();
        self.farewell = None;
        self.link.set_blackhole(true);
    }

    /// The sending end is gone without a word: what it had not sent will not be.
    pub(super) fn forget(&mut self) {
        self.backlog.clear();
        self.backlog_bytes = 0;
        self.reliable.clear();
    }

    fn item_due(&self) -> Option<Instant> {
        let head = self.reliable.front()?;
        if self.config.link.blackhole {
            return None;
        }
        Some(head.sent_at.max(self.healed_at) + self.config.link.delay)
    }

    fn departure_due(&self) -> Option<Instant> {
        let waits = !self.backlog.is_empty() && !self.config.held;
        waits.then_some(self.free_at)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let farewell = self.farewell.as_ref().map(|(due, _)| *due);
        [
            self.item_due(),
            self.departure_due(),
            self.link.poll_timeout(),
            farewell,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next thing that arrives at `now`. Whether something left the backlog shows in [`Direction::facts`].
    pub(super) fn poll(&mut self, now: Instant) -> Option<Arrival> {
        self.depart(now);
        if self.item_due().is_some_and(|due| due <= now) {
            return Some(Arrival::Item(self.reliable.pop_front()?.item));
        }
        while let Some(parcel) = self.link.poll(now) {
            if parcel.len() <= self.config.datagram_len_max {
                return Some(Arrival::Datagram(parcel.open()));
            }
            self.shrunk_away += 1;
        }
        let (_, loss) = self.farewell.take_if(|(due, _)| *due <= now)?;
        Some(Arrival::Closed(loss))
    }

    pub(super) fn fate(&self) -> Fate {
        self.tally.fate()
    }

    /// Whether every datagram is accounted for: handed over = waiting, lost before the link, or given to the link; and
    /// what the link delivered arrived, was a copy, or had become too large.
    pub(super) fn is_conserved(&self) -> bool {
        let (fate, link) = (self.tally.fate(), self.link.counters());
        let came_out = fate.arrived.datagrams + fate.copies.datagrams + self.shrunk_away;
        let waiting = self.backlog.len() as u64;
        link.is_conserved()
            && link.delivered == came_out
            && fate.sent.datagrams >= link.sent + waiting
            && fate.sent.datagrams >= fate.arrived.datagrams + fate.lost.datagrams
            && (link.in_flight + waiting > 0
                || fate.sent.datagrams == fate.arrived.datagrams + fate.lost.datagrams)
    }

    pub(super) fn link(&self) -> LinkCounters {
        self.link.counters()
    }
}
