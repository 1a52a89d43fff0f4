//! A world for these tests alone: constant delay, no QUIC, acks or everything lost for a while, a backend that answers or
//! does not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use quell_core::path::CarrierFacts;
use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::super::{Baseline, Client, Rules, Server, Unit};
use crate::fleet::node::{
    Answer, Causes, ClientNode as _, ClientOutput, Ended, FleetSize, Item, Kind, Policy as _,
    ServerId, ServerNode as _, ServerOutput, rng_of,
};

pub(super) const ONE_WAY: Duration = Duration::from_millis(25);
const ANSWER_TIME: Duration = Duration::from_millis(80);
const FACTS: CarrierFacts = CarrierFacts {
    datagram_len_max: 1_414,
    backlog_bytes: 0,
    cwnd_bytes: 1 << 24,
    rtt: Duration::from_millis(50),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Acks alone are lost.
    Acks,
    /// Nothing gets to or from these providers.
    Blackhole(&'static [ServerId]),
    /// The backend fails all calls.
    BackendFails,
    /// The backend says nothing.
    BackendSilent,
}

#[derive(Debug)]
enum Event {
    Offer(Item),
    Connect(ServerId, u64),
    Connected(ServerId, u64, u64),
    Refused(ServerId, u64),
    Up(ServerId, u64, Unit),
    Down(ServerId, u64, Unit),
    Answered(u64, Answer),
}

/// What was seen on the wire.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// Times of all sends of each pack: by provider, path-wide number and item.
    pub(super) sends: BTreeMap<(ServerId, u64, u32), Vec<Duration>>,
    pub(super) bytes: Causes,
    /// Items by how often they came out.
    pub(super) delivered: BTreeMap<u32, u32>,
    /// The same, in order.
    pub(super) order: Vec<u32>,
    /// When each call was made.
    pub(super) asks: Vec<Duration>,
    pub(super) dials: Vec<(Duration, ServerId)>,
    pub(super) closes: u32,
    /// Answers that the user got.
    pub(super) answers: u32,
}

struct Session {
    attempt: u64,
    session: u64,
}

pub(super) struct World {
    baseline: Baseline,
    fleet: FleetSize,
    client: Client,
    servers: Vec<Server>,
    sessions: BTreeMap<ServerId, Session>,
    events: BTreeMap<(Instant, u64), Event>,
    next_event: u64,
    faults: Vec<(Fault, Duration, Duration)>,
    start: Instant,
    now: Instant,
    next_item: u32,
    /// Whether the world answers each item with one of 100 bytes.
    pub(super) answers: bool,
    /// Probability of loss, each way.
    pub(super) loss: f64,
    /// Beyond the constant delay, uniform from nothing to this.
    pub(super) jitter: Duration,
    rng: SmallRng,
    pub(super) seen: Seen,
}

impl World {
    pub(super) fn new(rules: &'static Rules, servers: u16, backends: u8, seed: u64) -> Self {
        let baseline = Baseline::new(rules);
        let fleet = FleetSize {
            clients: 1,
            servers,
            backends,
            catalog: servers,
        };
        let now = Instant::now();
        Self {
            baseline,
            fleet,
            client: baseline.client(0, &fleet, seed, now),
            servers: (0..servers)
                .map(|id| baseline.server(id, 0, &fleet, seed))
                .collect(),
            sessions: BTreeMap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            faults: Vec::new(),
            start: now,
            now,
            next_item: 0,
            answers: false,
            loss: 0.0,
            jitter: Duration::ZERO,
            rng: rng_of(seed, 99),
            seen: Seen::default(),
        }
    }

    pub(super) fn fault(&mut self, fault: Fault, from: Duration, until: Duration) {
        self.faults.push((fault, from, until));
    }

    fn age(&self) -> Duration {
        self.now - self.start
    }

    fn is_on(&self, wanted: impl Fn(Fault) -> bool) -> bool {
        let age = self.age();
        let mut faults = self.faults.iter();
        faults.any(|(fault, from, until)| wanted(*fault) && (*from..*until).contains(&age))
    }

    fn is_cut(&self, server: ServerId) -> bool {
        self.is_on(|fault| matches!(fault, Fault::Blackhole(whom) if whom.contains(&server)))
    }

    /// A packet of `flow` at `at`; its number.
    pub(super) fn offer(&mut self, at: Duration, flow: u16, len_bytes: u16) -> u32 {
        let number = self.next_item;
        self.next_item += 1;
        let kind = Kind::Tcp;
        let item = Item {
            number,
            flow,
            kind,
            len_bytes,
        };
        self.put(self.start + at, Event::Offer(item));
        number
    }

    fn put(&mut self, at: Instant, event: Event) {
        self.events.insert((at, self.next_event), event);
        self.next_event += 1;
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.put(self.now + delay, event);
    }

    /// Puts a unit on its way, or loses it.
    fn cross(&mut self, event: Event) {
        if self.loss > 0.0 && self.rng.random_bool(self.loss) {
            return;
        }
        let jitter = self.rng.random_range(Duration::ZERO..=self.jitter);
        self.after(ONE_WAY + jitter, event);
    }

    /// This provider comes back without a memory; its connection is reset.
    pub(super) fn restart(&mut self, server: ServerId) {
        self.servers[usize::from(server)] = self.baseline.server(server, 1, &self.fleet, 1);
        if let Some(session) = self.sessions.remove(&server) {
            self.client
                .on_closed(server, session.attempt, Ended::Reset, self.now);
        }
        self.drain();
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Runs to `until`, from one thing that is due to the next.
    pub(super) fn run(&mut self, until: Duration) {
        let end = self.start + until;
        let mut steps_at_once = 0;
        while let Some(at) = self.next_at()
            && at < end
        {
            steps_at_once = if at > self.now { 0 } else { steps_at_once + 1 };
            assert!(steps_at_once < 100_000, "time stands still");
            self.now = self.now.max(at);
            self.step();
            self.drain();
            assert_eq!(self.client.facts(self.now).unaccounted, 0, "books");
        }
        self.now = end;
    }

    fn next_at(&self) -> Option<Instant> {
        let servers = self.sessions.iter().filter_map(|(server, session)| {
            self.servers[usize::from(*server)].poll_timeout(session.session)
        });
        let event = self.events.keys().next().map(|(at, _)| *at);
        servers.chain(event).chain(self.client.poll_timeout()).min()
    }

    fn step(&mut self) {
        if let Some(entry) = self.events.first_entry()
            && entry.key().0 <= self.now
        {
            let event = entry.remove();
            return self.happen(event);
        }
        if self.client.poll_timeout().is_some_and(|at| at <= self.now) {
            return self.client.handle_timeout(self.now);
        }
        for (server, session) in &self.sessions {
            let node = &mut self.servers[usize::from(*server)];
            if node
                .poll_timeout(session.session)
                .is_some_and(|at| at <= self.now)
            {
                node.handle_timeout(session.session, self.now);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Offer(item) => self.client.offer(item, now),
            Event::Connect(server, attempt) => {
                let node = &mut self.servers[usize::from(server)];
                let event = match node.on_connection(0, now) {
                    Ok(session) => Event::Connected(server, attempt, session),
                    Err(_) => Event::Refused(server, attempt),
                };
                self.after(ONE_WAY, event);
            }
            Event::Connected(server, attempt, session) => {
                self.sessions.insert(server, Session { attempt, session });
                self.client.on_connected(server, attempt, now);
                self.client.on_carrier(server, attempt, FACTS, now);
            }
            Event::Refused(server, attempt) => {
                self.client.on_closed(server, attempt, Ended::Refused, now);
            }
            Event::Up(server, session, unit) => {
                let node = &mut self.servers[usize::from(server)];
                if unit == Unit::Hello {
                    node.handle_control(session, &unit, now);
                } else {
                    node.handle_datagram(session, &unit, now);
                }
            }
            Event::Down(server, attempt, unit) => {
                self.client.handle_datagram(server, attempt, &unit, now);
            }
            Event::Answered(call, answer) => self.client.on_answer(call, answer, now),
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.poll_output(self.now) {
            self.client_wants(output);
        }
        let facts: Vec<_> = self
            .sessions
            .iter()
            .map(|(s, at)| (*s, at.attempt))
            .collect();
        for (server, attempt) in facts {
            self.client.on_carrier(server, attempt, FACTS, self.now);
        }
        for index in 0..self.fleet.servers {
            self.drain_server(index);
        }
    }

    fn client_wants(&mut self, output: ClientOutput<Unit>) {
        let age = self.age();
        match output {
            ClientOutput::Dial { server, attempt } => {
                self.seen.dials.push((age, server));
                if !self.is_cut(server) {
                    self.after(ONE_WAY, Event::Connect(server, attempt));
                }
            }
            ClientOutput::Close { server } => {
                self.sessions.remove(&server);
                self.seen.closes += 1;
            }
            ClientOutput::Datagram {
                server,
                unit,
                causes,
            } => {
                self.note(server, &unit, &causes);
                self.send_up(server, unit);
            }
            ClientOutput::Control { server, unit, .. } => self.send_up(server, unit),
            ClientOutput::Ask { call, .. } => {
                self.seen.asks.push(age);
                if self.is_on(|fault| fault == Fault::BackendFails) {
                    self.after(ONE_WAY, Event::Answered(call, Answer::Failed));
                } else if !self.is_on(|fault| fault == Fault::BackendSilent) {
                    self.after(ANSWER_TIME, Event::Answered(call, Answer::Yes));
                }
            }
            ClientOutput::Deliver(_) => self.seen.answers += 1,
        }
    }

    fn note(&mut self, server: ServerId, unit: &Unit, causes: &Causes) {
        let age = self.age();
        let mut packs = Vec::new();
        self.baseline.packs(unit, &mut packs);
        for (number, item) in packs {
            let times = self.seen.sends.entry((server, number, item)).or_default();
            times.push(age);
        }
        self.seen.bytes.first_send += causes.first_send;
        self.seen.bytes.resend += causes.resend;
        self.seen.bytes.race += causes.race;
        self.seen.bytes.ack += causes.ack;
        self.seen.bytes.ping += causes.ping;
    }

    fn send_up(&mut self, server: ServerId, unit: Unit) {
        let unit = self.survives(server, unit);
        if let (Some(session), Some(unit)) = (self.sessions.get(&server), unit) {
            let session = session.session;
            self.cross(Event::Up(server, session, unit));
        }
    }

    fn survives(&self, server: ServerId, unit: Unit) -> Option<Unit> {
        if self.is_cut(server) {
            None
        } else if self.is_on(|fault| fault == Fault::Acks) {
            self.baseline.without_acks(&unit)
        } else {
            Some(unit)
        }
    }

    fn drain_server(&mut self, server: ServerId) {
        let index = usize::from(server);
        let mut woken: BTreeSet<u64> = BTreeSet::new();
        while let Some(session) = self.servers[index].poll_ready() {
            woken.insert(session);
        }
        for session in woken {
            while let Some(output) = self.servers[index].poll_output(session, self.now) {
                self.server_wants(server, session, output);
            }
            self.servers[index].on_carrier(session, FACTS, self.now);
        }
    }

    fn server_wants(&mut self, server: ServerId, session: u64, output: ServerOutput<Unit>) {
        let unit = match output {
            ServerOutput::Datagram { unit, .. } | ServerOutput::Control { unit, .. } => unit,
            ServerOutput::Deliver(item) => {
                *self.seen.delivered.entry(item.number).or_default() += 1;
                self.seen.order.push(item.number);
                if self.answers {
                    let answer = Item {
                        len_bytes: 100,
                        ..item
                    };
                    let node = &mut self.servers[usize::from(server)];
                    node.answer(session, answer, self.now);
                    self.drain_server(server);
                }
                return;
            }
            ServerOutput::Close => return,
        };
        let attempt = self.sessions.get(&server).map(|session| session.attempt);
        if let (Some(attempt), Some(unit)) = (attempt, self.survives(server, unit)) {
            self.cross(Event::Down(server, attempt, unit));
        }
    }
}
