//! Senders with and without the floor on one bottleneck, in virtual time.
//!
//! A sender is QUIC's recovery (RFC 9002) reduced to what the floor sees: a window
//! and a pacer of 1.25 windows an RTT, acknowledgements of every tenth packet or of
//! a gap, loss by three later packets or 9/8 RTT, one probe when nothing comes
//! back. Under the floor is AIMD: it adds a packet an RTT and keeps half on
//! a loss, as TCP's oldest and gentlest do. All senders share one drop-tail link with
//! random loss behind it; acknowledgements come back over links that lose as much.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quell_core::congestion::LossFloor;
use quell_sim::link::{Link, LinkConfig};

pub(crate) const PACKET: u64 = 1_200;
const STEP: Duration = Duration::from_micros(250);
/// Numbers below the highest received that an acknowledgement can name.
const ACK_SPAN: u64 = 256;

#[derive(Debug, Clone)]
struct Packet {
    flow: usize,
    number: u64,
}

#[derive(Debug, Clone)]
struct Ack {
    numbers: Vec<u64>,
    /// How long the newest of them waited at the receiver.
    delay: Duration,
}

/// Additive increase, multiplicative decrease, with slow start.
#[derive(Debug)]
struct Aimd {
    window: f64,
    threshold: f64,
    recovery_since: Option<Instant>,
}

impl Aimd {
    fn on_acked(&mut self, sent: Instant, limited: bool) {
        if limited || self.recovery_since.is_some_and(|since| sent <= since) {
            return;
        }
        let packet = PACKET as f64;
        self.window += if self.window < self.threshold {
            packet
        } else {
            packet * packet / self.window
        };
    }

    fn on_lost(&mut self, sent: Instant, persistent: bool, now: Instant) {
        if persistent {
            self.window = 2.0 * PACKET as f64;
        }
        if self.recovery_since.is_some_and(|since| sent <= since) {
            return;
        }
        self.recovery_since = Some(now);
        self.window = (self.window / 2.0).max(2.0 * PACKET as f64);
        self.threshold = self.window;
    }
}

/// What a flow has to send.
pub(crate) type Offer = fn(since_start: Duration) -> bool;

pub(crate) struct Flow {
    pub(crate) floor: Option<LossFloor>,
    pub(crate) offer: Offer,
    other: Aimd,
    next: u64,
    unacked: BTreeMap<u64, Instant>,
    tokens: f64,
    pub(crate) srtt: Duration,
    last_ack: Option<Instant>,
    probes: u32,
    probe_at: Option<Instant>,
    limited: bool,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    // the receiving end
    received: Vec<u64>,
    highest: u64,
    newest_at: Option<Instant>,
    waiting: u32,
    waiting_since: Option<Instant>,
    pub(crate) delivered: u64,
}

impl Flow {
    pub(crate) fn new(floor: bool, offer: Offer) -> Self {
        Self {
            floor: floor.then(|| LossFloor::new(PACKET)),
            offer,
            other: Aimd {
                window: 10.0 * PACKET as f64,
                threshold: f64::MAX,
                recovery_since: None,
            },
            next: 0,
            unacked: BTreeMap::new(),
            tokens: 0.0,
            srtt: Duration::ZERO,
            last_ack: None,
            probes: 0,
            probe_at: None,
            limited: false,
            sent: 0,
            lost: 0,
            received: Vec::new(),
            highest: 0,
            newest_at: None,
            waiting: 0,
            waiting_since: None,
            delivered: 0,
        }
    }

    fn in_flight(&self) -> u64 {
        self.unacked.len() as u64 * PACKET
    }

    pub(crate) fn window(&mut self) -> u64 {
        let other = self.other.window as u64;
        match &mut self.floor {
            Some(floor) => floor.window_bytes(other),
            None => other,
        }
    }

    fn send(&mut self, now: Instant) -> u64 {
        let number = self.next;
        self.next += 1;
        self.unacked.insert(number, now);
        self.sent += 1;
        if let Some(floor) = &mut self.floor {
            floor.on_sent(PACKET, now);
        }
        number
    }

    /// The numbers that may leave at `now`.
    fn poll(&mut self, start: Instant, now: Instant) -> Vec<u64> {
        let srtt = self.srtt.max(Duration::from_millis(1));
        let mut out = Vec::new();
        let window = self.window();
        let gained = window as f64 * 1.25 * STEP.as_secs_f64() / srtt.as_secs_f64();
        self.tokens = (self.tokens + gained).min((10 * PACKET) as f64 + gained);
        let offered = (self.offer)(now - start);
        let timeout = 2 * srtt.max(Duration::from_millis(20)) + Duration::from_millis(25);
        if self.unacked.is_empty() {
            self.probe_at = None;
        } else if *self.probe_at.get_or_insert(now + timeout) <= now {
            self.probes += 1;
            self.probe_at = Some(now + timeout * 2u32.pow(self.probes.min(8)));
            out.push(self.send(now));
        }
        while offered && self.tokens >= PACKET as f64 && self.in_flight() + PACKET < self.window() {
            self.tokens -= PACKET as f64;
            out.push(self.send(now));
        }
        self.limited = !offered;
        out
    }

    fn arrive(&mut self, number: u64, now: Instant) {
        self.delivered += 1;
        let gap = number != self.highest + 1;
        if number > self.highest {
            self.highest = number;
            self.newest_at = Some(now);
        }
        self.received.push(number);
        self.waiting += if gap { 10 } else { 1 };
        self.waiting_since.get_or_insert(now);
    }

    /// The acknowledgement that is due, if one is.
    fn acknowledge(&mut self, now: Instant) -> Option<Ack> {
        let delay = now.saturating_duration_since(self.newest_at?);
        let late = now.saturating_duration_since(self.waiting_since?) >= Duration::from_millis(25);
        if self.waiting < 10 && !late {
            return None;
        }
        (self.waiting, self.waiting_since) = (0, None);
        let from = self.highest.saturating_sub(ACK_SPAN);
        self.received.retain(|&number| number >= from);
        Some(Ack {
            numbers: self.received.clone(),
            delay,
        })
    }

    fn on_ack(&mut self, ack: &Ack, now: Instant) {
        let Some(&largest) = ack.numbers.iter().max() else {
            return;
        };
        let mut newest = None;
        // quinn's guess before the first sample
        let srtt = if self.srtt.is_zero() {
            Duration::from_millis(333)
        } else {
            self.srtt
        };
        for number in &ack.numbers {
            let Some(sent) = self.unacked.remove(number) else {
                continue;
            };
            newest = newest.max(Some(sent));
            self.other.on_acked(sent, self.limited);
            if let Some(floor) = &mut self.floor {
                floor.on_acked(PACKET, sent, srtt, now);
            }
        }
        let Some(sent) = newest else { return };
        let in_flight = self.in_flight();
        if let Some(floor) = &mut self.floor {
            floor.on_acks_end(in_flight, now);
        }
        let sample = (now - sent).saturating_sub(ack.delay);
        self.srtt = if self.srtt.is_zero() {
            sample
        } else {
            (self.srtt * 7 + sample) / 8
        };
        self.probe_at = None;
        self.probes = 0;
        self.detect_lost(largest, sample, now);
        self.last_ack = Some(now);
    }

    fn detect_lost(&mut self, largest: u64, latest: Duration, now: Instant) {
        let delay = self.srtt.max(latest) * 9 / 8;
        let lost: Vec<_> = self
            .unacked
            .range(..largest)
            .filter(|&(&number, &sent)| largest >= number + 3 || now - sent >= delay)
            .map(|(&number, &sent)| (number, sent))
            .collect();
        let (Some(&(_, first)), Some(&(_, last))) = (lost.first(), lost.last()) else {
            return;
        };
        for (number, _) in &lost {
            self.unacked.remove(number);
        }
        self.lost += lost.len() as u64;
        let silent = self.last_ack.is_some_and(|at| now - at > 3 * self.srtt);
        let persistent = silent && last - first > 3 * (2 * self.srtt + Duration::from_millis(25));
        self.other.on_lost(last, persistent, now);
        if let Some(floor) = &mut self.floor {
            floor.on_lost(lost.len() as u64 * PACKET);
            if persistent {
                floor.on_persistent_congestion();
            }
        }
    }
}

pub(crate) struct World {
    pub(crate) flows: Vec<Flow>,
    link: Link<Packet>,
    back: Vec<Link<Ack>>,
    start: Instant,
    pub(crate) now: Instant,
}

/// A link of `mbit` with a one-way delay and a queue in milliseconds.
pub(crate) fn link(mbit: f64, delay_ms: u64, queue_ms: u64, loss: f64) -> LinkConfig {
    LinkConfig {
        delay: Duration::from_millis(delay_ms),
        loss,
        rate_bytes_per_s: Some((mbit * 125_000.0) as u64),
        queue_ms_max: queue_ms,
        ..LinkConfig::default()
    }
}

impl World {
    pub(crate) fn new(config: LinkConfig, flows: Vec<Flow>, seed: u64) -> Self {
        let start = Instant::now();
        let back = LinkConfig {
            rate_bytes_per_s: None,
            ..config
        };
        let back = (0..flows.len()).map(|i| Link::new(back, seed + 1 + i as u64));
        Self {
            back: back.collect(),
            flows,
            link: Link::new(config, seed),
            start,
            now: start,
        }
    }

    pub(crate) fn set_link(&mut self, config: LinkConfig) {
        self.link.set_config(config);
        for back in &mut self.back {
            back.set_config(LinkConfig {
                rate_bytes_per_s: None,
                ..config
            });
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        while let Some(packet) = self.link.poll(now) {
            self.flows[packet.flow].arrive(packet.number, now);
        }
        for (id, flow) in self.flows.iter_mut().enumerate() {
            if let Some(ack) = flow.acknowledge(now) {
                self.back[id].send(ack, 60, now);
            }
            while let Some(ack) = self.back[id].poll(now) {
                flow.on_ack(&ack, now);
            }
            for number in flow.poll(self.start, now) {
                self.link
                    .send(Packet { flow: id, number }, PACKET as usize, now);
            }
        }
    }

    /// Runs for `time` and returns what each flow saw meanwhile.
    pub(crate) fn run(&mut self, time: Duration) -> Vec<Seen> {
        let before: Vec<_> = self
            .flows
            .iter()
            .map(|f| (f.delivered, f.sent, f.lost))
            .collect();
        let (mut srtt_ms, mut steps) = (vec![0.0; self.flows.len()], 0.0);
        let end = self.now + time;
        while self.now < end {
            self.step();
            steps += 1.0;
            for (sum, flow) in srtt_ms.iter_mut().zip(&self.flows) {
                *sum += flow.srtt.as_secs_f64() * 1e3;
            }
        }
        let flows = self.flows.iter().zip(before).zip(srtt_ms);
        flows
            .map(|((flow, (delivered, sent, lost)), srtt_ms)| Seen {
                mbit: (flow.delivered - delivered) as f64 * PACKET as f64 * 8e-6
                    / time.as_secs_f64(),
                lost: (flow.lost - lost) as f64 / ((flow.sent - sent) as f64).max(1.0),
                srtt_ms: srtt_ms / steps,
            })
            .collect()
    }
}

/// What a flow saw over a while.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Delivered, in Mbit/s.
    pub(crate) mbit: f64,
    /// Share of its packets that it found lost.
    pub(crate) lost: f64,
    /// Mean of the smoothed RTT.
    pub(crate) srtt_ms: f64,
}
