//! Clients and a provider of `quell-core` on a modelled path, in virtual time.
//!
//! A [`World`] is the driver of both ends. It performs every output, hands in every fact, and goes from one wake-up to the
//! next: never by ticks, which would hide a timer that is late, and never waking an end that has nothing due, which would
//! hide a timer that is missing.
//!
//! ```text
//!        inject          ┌──────── step ────────┐
//!  test ────────▶ core ──┤ 1 next wake-up = min │──▶ 2 arrivals ──▶ 3 timers due, after each: drain who was touched ──▶ 4 books
//!                        │   of all timers      │        ▲                                      │
//!                        └──────────────────────┘        └──── carrier (backlog, link) ◀────────┘
//! ```
//!
//! Rules of quell stand in the core, never here: a harness that helps its subject proves nothing. What stands here is what a
//! driver does (`arrive`, `perform`), what QUIC does (`carrier`), and what must be true after every step (`books`).
//!
//! Everything is a function of the seed, the settings and the calls. A failed check names the time, the step and the seed;
//! [`for_seeds`] adds the command that repeats it.
//!
//! - Steps are bounded, in all and at one instant: a core that asks to be woken for ever fails, it does not hang.
//! - A world that nobody lied to ([`World::inject_datagram`], [`World::inject_control`]) must not see an end accuse the other
//!   of a breach: such a close fails the run.

mod arrive;
mod books;
mod carrier;
mod config;
mod fault;
mod ops;
mod parcel;
mod perform;
mod seeds;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::multi::Client;
use quell_core::provider::{AddressPool, Provider, Roster, SessionId};
use quell_core::status::{ClientStatus, ProviderStatus, TunnelAddresses};
use quell_wire::key::PublicKey;

use books::Seen;
use carrier::Direction;
pub use config::{CarrierConfig, End, Event, Reach, Way, WorldConfig};
pub use ops::Op;
pub use parcel::{Cargo, Fate};
pub use seeds::for_seeds;

use crate::link::LinkCounters;

/// Most steps at one instant.
const STEPS_AT_ONCE_MAX: u32 = 20_000;
/// Most steps of one call of [`World::run_for`].
const STEPS_A_RUN_MAX: u32 = 5_000_000;

/// One client and what was seen of it.
#[derive(Debug)]
struct Node {
    core: Client,
    key: PublicKey,
    /// The connection of the current dial.
    connection: Option<u64>,
    seen: Seen,
    /// UDP payload of its dials.
    dial_bytes: u64,
}

impl Node {
    fn wire_bytes(&self) -> u64 {
        let handed = &self.seen.handed;
        handed.bytes + perform::QUIC_OVERHEAD_BYTES * handed.datagrams + self.dial_bytes
    }
}

/// A modelled QUIC connection and which ends still have it.
#[derive(Debug)]
struct Connection {
    client: usize,
    attempt: u64,
    session: Option<SessionId>,
    at_client: bool,
    at_provider: bool,
    /// The provider forgot it without a word; what comes is answered with a reset.
    forgotten: bool,
    to_provider: Direction,
    to_client: Direction,
    heard_by_client: Instant,
    heard_by_provider: Instant,
}

/// Clients and a provider, and the path between them.
#[derive(Debug)]
pub struct World {
    config: WorldConfig,
    start: Instant,
    now: Instant,
    reach: Reach,
    provider: Provider,
    provider_seen: Seen,
    incarnation: u64,
    clients: Vec<Node>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    past: [Fate; 2],
    past_links: [LinkCounters; 2],
    touched: BTreeSet<End>,
    touched_sessions: BTreeSet<u64>,
    events: Vec<(Duration, Event)>,
    wakes: BTreeMap<&'static str, u64>,
    lied_to: bool,
    steps: u64,
    settled: u64,
}

impl World {
    /// A provider without clients.
    ///
    /// # Panics
    /// When the settings are not valid.
    #[must_use]
    pub fn new(config: WorldConfig) -> Self {
        let start = Instant::now();
        Self {
            provider: new_provider(&config, 0),
            config,
            start,
            now: start,
            reach: Reach::Up,
            provider_seen: Seen::default(),
            incarnation: 0,
            clients: Vec::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            past: [Fate::default(); 2],
            past_links: [LinkCounters::default(); 2],
            touched: BTreeSet::new(),
            touched_sessions: BTreeSet::new(),
            events: Vec::new(),
            wakes: BTreeMap::new(),
            lied_to: false,
            steps: 0,
            settled: 0,
        }
    }

    /// A provider and one client that begins to dial.
    ///
    /// # Panics
    /// When the settings are not valid.
    #[must_use]
    pub fn pair(config: WorldConfig) -> Self {
        let mut world = Self::new(config);
        world.add_client(1);
        world
    }

    /// A pair whose session is up and whose first PING was answered; what happened until then is forgotten.
    ///
    /// # Panics
    /// When the session does not come up.
    #[must_use]
    pub fn up(config: WorldConfig) -> Self {
        let mut world = Self::pair(config);
        world.run_for(Duration::from_secs(30));
        if world.client_status(0).state != "up" {
            world.fail("the session did not come up");
        }
        world.take_events();
        world.wakes.clear();
        world
    }

    /// Adds a client whose key has this tag; it dials at once. Its number.
    pub fn add_client(&mut self, key_tag: u8) -> usize {
        let client = self.clients.len();
        let seed = self
            .config
            .seed
            .wrapping_mul(31)
            .wrapping_add(client as u64);
        let core = Client::new(
            self.config.client.clone(),
            "sim",
            self.config.client_mtu_max,
            seed,
            self.now,
        )
        .with_signal(self.config.signal.clone());
        self.clients.push(Node {
            core,
            key: PublicKey([key_tag; 32]),
            connection: None,
            seen: Seen::default(),
            dial_bytes: 0,
        });
        self.touched.insert(End::Client(client));
        self.settle();
        client
    }

    /// Virtual time since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now.duration_since(self.start)
    }

    /// The next wake-up of anything there is; `None`: nothing will ever happen by itself.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        let clients = self.clients.iter().map(|node| node.core.poll_timeout());
        let sessions = self.connections.values().map(|connection| {
            let id = connection.live_session()?;
            self.provider.poll_timeout(id)
        });
        let shared = [self.provider.poll_suspended(), self.provider.poll_egress()];
        let cores = clients.chain(sessions).chain(shared);
        let cores = cores.flatten().map(|(at, _)| at);
        let carriers = self
            .connections
            .values()
            .filter_map(|connection| connection.poll_timeout(self.config.idle_timeout));
        cores.chain(carriers).min()
    }

    /// Goes to the next wake-up and does what is due; `false` when there is none.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_wake() else {
            return false;
        };
        self.now = self.now.max(at);
        self.steps += 1;
        self.arrive();
        self.drain();
        self.fire();
        self.fire_suspended();
        self.fire_egress();
        self.settle();
        true
    }

    /// Lives for `time` and stands exactly at its end.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        let (mut steps, mut at_once) = (0, 0);
        while let Some(at) = self.next_wake().filter(|at| *at <= end) {
            at_once = if at > self.now { 0 } else { at_once + 1 };
            steps += 1;
            if at_once > STEPS_AT_ONCE_MAX || steps > STEPS_A_RUN_MAX {
                self.fail("it never comes to rest");
            }
            self.step();
        }
        self.now = end;
    }

    /// Timers that are due.
    fn fire(&mut self) {
        let now = self.now;
        for (number, node) in self.clients.iter_mut().enumerate() {
            if let Some((_, why)) = node.core.poll_timeout().filter(|(at, _)| *at <= now) {
                *self.wakes.entry(why).or_default() += 1;
                node.core.handle_timeout(now);
                self.touched.insert(End::Client(number));
            }
        }
        for (number, connection) in &self.connections {
            let Some(id) = connection.live_session() else {
                continue;
            };
            if let Some((_, why)) = self.provider.poll_timeout(id).filter(|(at, _)| *at <= now) {
                *self.wakes.entry(why).or_default() += 1;
                self.provider.handle_timeout(id, now);
                self.touched_sessions.insert(*number);
            }
        }
    }

    fn fire_suspended(&mut self) {
        let due = self.provider.poll_suspended();
        if let Some((_, why)) = due.filter(|(at, _)| *at <= self.now) {
            *self.wakes.entry(why).or_default() += 1;
            self.provider.handle_suspended(self.now);
        }
    }

    /// What waited for its turn at the provider's egress, in either direction.
    fn fire_egress(&mut self) {
        let due = self.provider.poll_egress();
        if let Some((_, why)) = due.filter(|(at, _)| *at <= self.now) {
            *self.wakes.entry(why).or_default() += 1;
            self.provider.handle_egress(self.now);
            while let Some(packet) = self.provider.poll_delivery(self.now) {
                self.provider_seen.delivered += 1;
                self.record(Event::Deliver(End::Provider, packet));
            }
        }
    }

    /// Drains every end that was touched, then looks at the books.
    fn settle(&mut self) {
        self.drain();
        self.bury();
        self.settled += 1;
        if self.settled.is_multiple_of(self.config.books_every) {
            self.check();
        }
    }

    /// Forgets connections that neither end has.
    fn bury(&mut self) {
        // A dial that ended before its first flight arrived was never known to the provider.
        let unknown =
            |c: &Connection| c.session.is_none() && c.to_provider.poll_timeout().is_none();
        let gone = |c: &Connection| !c.at_client && (!c.at_provider || unknown(c));
        let numbers: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, c)| gone(c))
            .map(|(n, _)| *n)
            .collect();
        for number in numbers {
            let Some(mut connection) = self.connections.remove(&number) else {
                continue;
            };
            connection.to_provider.abandon();
            connection.to_client.abandon();
            for (slot, direction) in [&connection.to_provider, &connection.to_client]
                .into_iter()
                .enumerate()
            {
                if !direction.is_conserved() {
                    self.fail("a connection that ended has datagrams that are nowhere");
                }
                self.past[slot] += direction.fate();
                add_link(&mut self.past_links[slot], direction.link());
            }
        }
    }

    /// What happened since the last call, and when.
    pub fn take_events(&mut self) -> Vec<(Duration, Event)> {
        std::mem::take(&mut self.events)
    }

    /// The packets handed to the device of `end` since the last call; other events are forgotten.
    pub fn take_delivered(&mut self, end: End) -> Vec<Bytes> {
        let mine = |(_, event)| match event {
            Event::Deliver(to, packet) if to == end => Some(packet),
            Event::Deliver(..)
            | Event::Dial { .. }
            | Event::Configure(..)
            | Event::Mtu(..)
            | Event::Notice(..)
            | Event::MessagesEnded(..)
            | Event::Close(..)
            | Event::Refuse(..) => None,
        };
        self.take_events().into_iter().filter_map(mine).collect()
    }

    /// How often a core's timer fired, by what it was for.
    #[must_use]
    pub fn wakes(&self) -> &BTreeMap<&'static str, u64> {
        &self.wakes
    }

    /// A client's snapshot.
    #[must_use]
    pub fn client_status(&self, client: usize) -> ClientStatus {
        self.clients[client].core.status(self.now)
    }

    /// Whether a client's device should be read.
    #[must_use]
    pub fn wants_packets(&self, client: usize) -> bool {
        self.has_room_for(client, 1)
    }

    /// Whether so many of the device's largest packets would find room with a client.
    #[must_use]
    pub fn has_room_for(&self, client: usize, packets: usize) -> bool {
        self.clients[client].core.wants_packets(packets)
    }

    /// The provider's snapshot.
    #[must_use]
    pub fn provider_status(&self) -> ProviderStatus {
        self.provider.status()
    }

    /// UDP payload that a client sent so far: datagrams with what QUIC adds to them, and dials.
    #[must_use]
    pub fn wire_bytes(&self, client: usize) -> u64 {
        self.clients[client].wire_bytes()
    }

    /// The addresses of a client's last session; all `None` before the first.
    #[must_use]
    pub fn addresses(&self, client: usize) -> TunnelAddresses {
        self.client_status(client).addresses.unwrap_or_default()
    }

    /// What became of all datagrams: to the provider, and to the clients.
    #[must_use]
    pub fn fates(&self) -> [Fate; 2] {
        let mut fates = self.past;
        for connection in self.connections.values() {
            fates[0] += connection.to_provider.fate();
            fates[1] += connection.to_client.fate();
        }
        fates
    }

    /// What the links did: to the provider, and to the clients.
    #[must_use]
    pub fn links(&self) -> [LinkCounters; 2] {
        let mut links = self.past_links;
        for connection in self.connections.values() {
            add_link(&mut links[0], connection.to_provider.link());
            add_link(&mut links[1], connection.to_client.link());
        }
        links
    }

    /// Tells a client where the tunnel's own datagrams go.
    pub fn set_underlay(&mut self, client: usize, underlay: Vec<IpAddr>) {
        self.clients[client]
            .core
            .on_underlay(perform::EXIT, &underlay);
    }

    /// Ends the run: something that must hold does not.
    fn fail(&self, what: &str) -> ! {
        panic!(
            "{what}\nat {:?}, step {}, seed {}",
            self.elapsed(),
            self.steps,
            self.config.seed
        )
    }
}

fn new_provider(config: &WorldConfig, incarnation: u64) -> Provider {
    let parse = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a prefix"));
    let pool =
        AddressPool::try_new(parse(config.ipv4_pool), parse(config.ipv6_pool)).expect("pools");
    let named = |tag: u8| (format!("client-{tag}"), PublicKey([tag; 32]));
    let roster = Roster::try_new((1..=config.listed).map(named)).expect("a roster");
    let seed = config.seed.wrapping_add(incarnation << 32);
    Provider::new(
        config.provider.clone(),
        roster,
        pool,
        config.provider_mtu_max,
        seed,
    )
    .with_signal(config.signal.clone())
}

fn add_link(sum: &mut LinkCounters, link: LinkCounters) {
    sum.sent += link.sent;
    sum.delivered += link.delivered;
    sum.lost_random += link.lost_random;
    sum.lost_queue += link.lost_queue;
    sum.lost_blackhole += link.lost_blackhole;
    sum.lost_mtu += link.lost_mtu;
    sum.duplicated += link.duplicated;
    sum.reordered += link.reordered;
    sum.in_flight += link.in_flight;
}
