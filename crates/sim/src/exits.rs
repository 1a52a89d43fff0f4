//! One client, some providers, and the world behind them, in virtual time.
//!
//! Where [`crate::pair`] models one path in every detail, this models many in few: a
//! delay, and whether it carries at all. What is under test is what a client does with
//! several exits: which it dials, which it keeps, over which it opens connections.
//!
//! ```text
//! user's TCP ─▶ Client ─▶ way 0 ─▶ Provider 0 ─┐
//!     ▲            │  ├──▶ way 1 ─▶ Provider 1 ─┼─▶ Outside: destinations by address
//!     └────────────┘  └──▶ way n ─▶ Provider n ─┘
//! ```
//!
//! A [`World`] is the driver of all of them. Both halves are the core's own; rules of
//! quell stand there. A way is in one of the states of [`Way`]; what reaches a provider
//! that died meets nobody, and one that was restarted answers old connections with a
//! reset, as QUIC does.
//!
//! Every step looks at the books of the client: packets of the TUN, and copies of
//! them, are in a path or dropped with a reason; nothing is unaccounted.

mod connection;
mod outside;
mod steer;
mod user;

use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::{ClientConfig, ProviderConfig};
use quell_core::health::Signal;
use quell_core::multi::{CatalogExit, Client, ExitId, ExitSettings, Loss, Notice, Output};
use quell_core::path::{CarrierFacts, Violation};
use quell_core::provider::{self, AddressPool, Provider, Roster};
use quell_core::status::ClientStatus;
use quell_wire::key::PublicKey;
use quell_wire::registry::ErrorCode;

use connection::Connection;
pub use outside::{Heard, Manner, Outside};
pub use user::Connecting;

/// Most steps at one instant: more is a client that never comes to rest.
const STEPS_AT_ONCE_MAX: u32 = 50_000;
/// Most outputs of one end in one go.
const OUTPUTS_MAX: u32 = 200_000;
/// How long a connection lives without hearing anything.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// What the way to a provider does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It carries, both ways.
    Up,
    /// It swallows everything.
    Silent,
    /// It swallows what the provider says.
    Deaf,
    /// Dials are refused at once; what is connected is carried.
    Refusing,
}

/// One provider and the way to it.
#[derive(Debug)]
struct Exit {
    /// `None`: it is dead.
    provider: Option<Provider>,
    incarnation: u64,
    way: Way,
    /// One way.
    delay: Duration,
    /// The connection of the current dial, at the client.
    connection: Option<u64>,
    /// Datagrams of the client that are to be lost.
    to_lose: u32,
}

/// What a client sends.
#[derive(Debug)]
enum Up {
    /// The first flight of a dial.
    Initial,
    /// The last flight: the handshake is complete at the provider.
    Finished,
    Control(Bytes),
    Datagram(Bytes),
    Closed(Violation),
}

/// What a provider sends.
#[derive(Debug)]
enum Down {
    /// The answer to a first flight: the handshake is complete at the client.
    Answer,
    Control(Bytes),
    Datagram(Bytes),
    Closed(Loss),
}

#[derive(Debug)]
enum Event {
    Up(Up),
    Down(Down),
    /// A destination answers behind an exit.
    Inwards(usize, Bytes),
    /// The user's TCP looks at its clock.
    User(usize),
}

#[derive(Debug)]
struct Due {
    at: Instant,
    order: u64,
    /// Of which connection, where it is of one.
    connection: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Settings of a world.
#[derive(Debug, Clone)]
pub struct Config {
    /// The client's core.
    pub client: ClientConfig,
    /// Each provider's core.
    pub provider: ProviderConfig,
    /// One way to each provider.
    pub delays: Vec<Duration>,
    /// The client begins without an exit, until [`World::tell_catalog`].
    pub by_catalog: bool,
    /// The providers' weights; 100 where there is none.
    pub weights: Vec<u32>,
    /// The control plane's signal.
    pub signal: Signal,
    /// Feeds all random draws.
    pub seed: u64,
}

impl Config {
    /// So many providers, each 10 ms away.
    #[must_use]
    pub fn of(exits: usize) -> Self {
        Self {
            client: ClientConfig::default(),
            provider: ProviderConfig::default(),
            delays: vec![Duration::from_millis(10); exits],
            by_catalog: false,
            weights: Vec::new(),
            signal: Signal::default(),
            seed: 1,
        }
    }
}

/// What happened, and when, for tests to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// A dial began.
    Dial(usize),
    /// The client ended a connection or a dial.
    Close(usize),
    /// Something a person may want to read.
    Notice(usize, Notice),
    /// The TUN got a packet.
    Deliver(Bytes),
}

/// One client of some providers.
#[derive(Debug)]
pub struct World {
    config: Config,
    start: Instant,
    now: Instant,
    client: Client,
    exits: Vec<Exit>,
    /// Which provider is in which place of the client.
    places: Vec<usize>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    heap: BinaryHeap<Due>,
    next_order: u64,
    /// The world behind the exits.
    pub outside: Outside,
    users: Vec<Connecting>,
    happened: Vec<(Duration, Happened)>,
    /// Whether [`World::take_happened`] has something to remember.
    recording: bool,
    bytes_out: u64,
    steps: u64,
}

fn key() -> PublicKey {
    PublicKey([7; 32])
}

impl World {
    /// A client that begins to dial.
    ///
    /// # Panics
    /// When the settings are not valid.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let now = Instant::now();
        let weight = |index| config.weights.get(index).copied().unwrap_or(100);
        let listed = if config.by_catalog {
            0
        } else {
            config.delays.len()
        };
        let settings = (0..listed).map(|index| ExitSettings {
            name: format!("exit-{index}"),
            weight: weight(index),
        });
        let client = Client::with_exits(
            config.client.clone(),
            settings.collect(),
            "sim",
            1_500,
            config.seed,
            now,
        )
        .with_signal(config.signal.clone());
        let exits = config.delays.iter().enumerate().map(|(index, delay)| Exit {
            provider: Some(new_provider(&config, index, 0)),
            incarnation: 0,
            way: Way::Up,
            delay: *delay,
            connection: None,
            to_lose: 0,
        });
        let mut world = Self {
            exits: exits.collect(),
            places: (0..listed).collect(),
            config,
            start: now,
            now,
            client,
            connections: BTreeMap::new(),
            next_connection: 1,
            heap: BinaryHeap::new(),
            next_order: 0,
            outside: Outside::default(),
            users: Vec::new(),
            happened: Vec::new(),
            recording: true,
            bytes_out: 0,
            steps: 0,
        };
        world.settle();
        world
    }

    /// A world whose window is filled and proved.
    #[must_use]
    pub fn up(config: Config) -> Self {
        let mut world = Self::new(config);
        world.run_for(Duration::from_secs(5));
        world.take_happened();
        world
    }

    /// Stops remembering what happens: for runs of days.
    pub fn forget_what_happens(&mut self) {
        self.recording = false;
    }

    /// Virtual time since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now.duration_since(self.start)
    }

    /// The client's snapshot.
    #[must_use]
    pub fn status(&self) -> ClientStatus {
        self.client.status(self.now)
    }

    /// UDP payload that the client sent, with what QUIC adds, roughly.
    #[must_use]
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out
    }

    /// What happened since the last call.
    pub fn take_happened(&mut self) -> Vec<(Duration, Happened)> {
        std::mem::take(&mut self.happened)
    }

    fn record(&mut self, what: Happened) {
        if self.recording {
            self.happened.push((self.elapsed(), what));
        }
    }

    // --- what a test does ------------------------------------------------

    /// Changes the way to a provider. What a cut held of the handshake and of control
    /// bytes is lost with it here: their repetition is QUIC's, and not modelled.
    pub fn set_way(&mut self, exit: usize, way: Way) {
        self.exits[exit].way = way;
    }

    /// The client's next datagram to this provider is lost.
    pub fn lose_next(&mut self, exit: usize) {
        self.exits[exit].to_lose += 1;
    }

    /// Tells the client where its datagrams to a provider go.
    pub fn set_underlay(&mut self, exit: usize, addresses: &[std::net::IpAddr]) {
        let place = self.place_of(exit);
        self.client.on_underlay(place, addresses);
    }

    /// The provider dies without a word.
    pub fn kill(&mut self, exit: usize) {
        self.exits[exit].provider = None;
    }

    /// A dead provider comes back, and knows nothing of before.
    pub fn restart(&mut self, exit: usize) {
        self.exits[exit].incarnation += 1;
        let incarnation = self.exits[exit].incarnation;
        self.exits[exit].provider = Some(new_provider(&self.config, exit, incarnation));
        for connection in self.connections.values_mut() {
            if connection.exit == exit {
                connection.session = None;
                connection.forgotten = true;
            }
        }
    }

    /// Whether the provider lives.
    #[must_use]
    pub fn is_alive(&self, exit: usize) -> bool {
        self.exits[exit].provider.is_some()
    }

    /// Whether the provider is about to stop, or has stopped.
    #[must_use]
    pub fn is_draining(&self, exit: usize) -> bool {
        let provider = self.exits[exit].provider.as_ref();
        provider.is_some_and(Provider::is_draining)
    }

    /// Forgets what became of users' connections: for runs of days.
    pub fn forget_users(&mut self) {
        if self.users.iter().all(|user| !user.is_asking()) {
            self.users.clear();
        }
    }

    /// The provider is told to stop, and says so.
    pub fn drain_provider(&mut self, exit: usize) {
        let now = self.now;
        if let Some(provider) = &mut self.exits[exit].provider {
            provider.drain(now);
        }
        self.settle();
    }

    /// A packet of the TUN.
    pub fn send(&mut self, packet: Bytes) {
        self.client.handle_packet(packet, self.now);
        self.settle();
    }

    /// The machine slept until now.
    pub fn wake(&mut self) {
        self.client.on_wake(self.now);
        self.settle();
    }

    /// The client's own addresses.
    ///
    /// # Panics
    /// When no session was up yet.
    #[must_use]
    pub fn own(&self) -> std::net::Ipv4Addr {
        let addresses = self.status().addresses.expect("a session was up");
        addresses.ipv4.expect("an address").0
    }

    /// A user's TCP opens a connection; its number.
    pub fn connect(&mut self, destination: std::net::Ipv4Addr, port: u16) -> usize {
        let user = Connecting::new(self.own(), destination, port, self.now);
        self.users.push(user);
        let number = self.users.len() - 1;
        self.at(Duration::ZERO, 0, Event::User(number));
        self.settle();
        number
    }

    /// What became of a user's connection.
    #[must_use]
    pub fn user(&self, number: usize) -> &Connecting {
        &self.users[number]
    }

    // --- time ------------------------------------------------------------

    fn at(&mut self, wait: Duration, connection: u64, event: Event) {
        self.next_order += 1;
        self.heap.push(Due {
            at: self.now + wait,
            order: self.next_order,
            connection,
            event,
        });
    }

    fn next_wake(&self) -> Option<Instant> {
        let client = self.client.poll_timeout().map(|(at, _)| at);
        let event = self.heap.peek().map(|due| due.at);
        let sessions = self.connections.values().filter_map(|connection| {
            let provider = self.exits[connection.exit].provider.as_ref()?;
            Some(provider.poll_timeout(connection.live()?)?.0)
        });
        let providers = self.exits.iter().filter_map(|exit| exit.provider.as_ref());
        let suspended = providers.flat_map(|provider| {
            let timers = [provider.poll_suspended(), provider.poll_drain()];
            timers.into_iter().flatten().map(|(at, _)| at)
        });
        let idle = self.connections.values().filter_map(Connection::idle_at);
        let timers = client.into_iter().chain(event).chain(idle);
        timers.chain(sessions).chain(suspended).min()
    }

    /// Lives for `time` and stands exactly at its end.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        let mut at_once = 0;
        while let Some(at) = self.next_wake().filter(|at| *at <= end) {
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(
                at_once < STEPS_AT_ONCE_MAX,
                "{}",
                self.says("it never comes to rest")
            );
            self.step(at);
        }
        self.now = end;
    }

    fn step(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.steps += 1;
        while self.heap.peek().is_some_and(|due| due.at <= self.now) {
            let Some(due) = self.heap.pop() else { break };
            self.happen(due);
            self.settle();
        }
        self.end_idle();
        self.fire();
        self.settle();
        self.stop_drained();
        if self.steps.is_multiple_of(16) {
            self.check();
        }
    }

    fn fire(&mut self) {
        let now = self.now;
        if self.client.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.client.handle_timeout(now);
        }
        for connection in self.connections.values() {
            let Some(provider) = &mut self.exits[connection.exit].provider else {
                continue;
            };
            let Some(id) = connection.live() else {
                continue;
            };
            if provider.poll_timeout(id).is_some_and(|(at, _)| at <= now) {
                provider.handle_timeout(id, now);
            }
        }
        for exit in &mut self.exits {
            let Some(provider) = &mut exit.provider else {
                continue;
            };
            if provider.poll_suspended().is_some_and(|(at, _)| at <= now) {
                provider.handle_suspended(now);
            }
        }
    }

    /// Providers that have carried on for long enough close what they have, and die.
    fn stop_drained(&mut self) {
        for index in 0..self.exits.len() {
            let provider = self.exits[index].provider.as_mut();
            let Some(provider) = provider.filter(|provider| provider.is_drained(self.now)) else {
                continue;
            };
            provider.close_all(ErrorCode::ShuttingDown);
            self.settle();
            self.exits[index].provider = None;
        }
    }

    /// The books of the client.
    ///
    /// # Panics
    /// When they do not close.
    pub fn check(&self) {
        let status = self.status();
        let books = status.books();
        assert_eq!(status.unaccounted, 0, "{}", self.says("unaccounted"));
        assert_eq!(
            status.tun_packets + status.extra_copies,
            books.counters.accepted + status.tun_drops.total(),
            "{}",
            self.says("packets of the TUN are nowhere")
        );
        assert_eq!(
            books.counters.received,
            status.delivered + status.received_drops.total(),
            "{}",
            self.says("received packets are nowhere")
        );
    }

    fn says(&self, what: &str) -> String {
        let (at, seed) = (self.elapsed(), self.config.seed);
        format!("{what}\nat {at:?}, step {}, seed {seed}", self.steps)
    }

    // --- outputs ---------------------------------------------------------

    fn settle(&mut self) {
        let now = self.now;
        for _ in 0..OUTPUTS_MAX {
            self.client.on_wire(self.bytes_out, now);
            self.tell_carriers();
            let mut idle = true;
            while let Some(output) = self.client.poll_output(now) {
                idle = false;
                self.perform(output);
            }
            idle &= !self.drain_providers();
            if idle {
                return;
            }
        }
        panic!("{}", self.says("the ends keep each other busy"));
    }

    fn tell_carriers(&mut self) {
        for (index, exit) in self.exits.iter().enumerate() {
            let Some(connection) = exit.connection.and_then(|n| self.connections.get(&n)) else {
                continue;
            };
            let facts = facts(exit.delay);
            let id = place_of(&self.places, index);
            self.client
                .on_carrier(id, connection.attempt, facts, self.now);
        }
    }

    /// Tells the client that these providers are in the catalog.
    pub fn tell_catalog(&mut self, providers: &[usize]) {
        let named = providers.iter().map(|index| CatalogExit {
            key: PublicKey([u8::try_from(index + 1).unwrap_or(u8::MAX); 32]),
            settings: ExitSettings::named(format!("exit-{index}")),
        });
        let named: Vec<_> = named.collect();
        for (place, index) in self.client.on_catalog(&named, self.now) {
            let place = place.index();
            let places = self.places.len().max(place + 1);
            self.places.resize(places, usize::MAX);
            // Who had the place before is reached through it no more.
            self.places
                .iter_mut()
                .filter(|of| **of == providers[index])
                .for_each(|of| *of = usize::MAX);
            self.places[place] = providers[index];
        }
        self.settle();
    }

    /// The client's place for a provider; one that no client has for a provider without.
    pub(crate) fn place_of(&self, provider: usize) -> ExitId {
        place_of(&self.places, provider)
    }

    fn provider_at(&self, place: ExitId) -> usize {
        self.places
            .get(place.index())
            .copied()
            .unwrap_or(usize::MAX)
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Dial { exit, attempt } => self.dial(self.provider_at(exit), attempt),
            Output::Control { exit, bytes } => {
                self.bytes_out += bytes.len() as u64 + 60;
                self.carry_up(self.provider_at(exit), Up::Control(bytes));
            }
            Output::Datagram { exit, bytes } => {
                self.bytes_out += bytes.len() as u64 + 38;
                self.carry_up(self.provider_at(exit), Up::Datagram(bytes));
            }
            Output::Deliver(packet) => {
                self.hear(&packet);
                self.record(Happened::Deliver(packet));
            }
            Output::Close { exit, violation } => {
                self.record(Happened::Close(self.provider_at(exit)));
                self.carry_up(self.provider_at(exit), Up::Closed(violation));
                self.leave_client(self.provider_at(exit));
            }
            Output::Notice { exit, notice } => {
                self.record(Happened::Notice(self.provider_at(exit), notice));
            }
            Output::Configure(_) | Output::Mtu(_) | Output::MessagesEnded { .. } => {}
        }
    }

    /// Does what the providers say; whether there was anything.
    fn drain_providers(&mut self) -> bool {
        let now = self.now;
        let mut any = false;
        let numbers: Vec<_> = self.connections.keys().copied().collect();
        for number in numbers {
            let Some(connection) = self.connections.get(&number) else {
                continue;
            };
            let (exit, Some(id)) = (connection.exit, connection.live()) else {
                continue;
            };
            let facts = facts(self.exits[exit].delay);
            if let Some(provider) = &mut self.exits[exit].provider {
                provider.on_carrier(id, facts, now);
            }
            while let Some(output) = self.poll_provider(exit, id) {
                any = true;
                self.perform_provider(number, exit, id, output);
            }
        }
        any
    }

    fn poll_provider(&mut self, exit: usize, id: provider::SessionId) -> Option<provider::Output> {
        let provider = self.exits[exit].provider.as_mut()?;
        provider.poll_output(id, self.now)
    }

    fn perform_provider(
        &mut self,
        number: u64,
        exit: usize,
        id: provider::SessionId,
        output: provider::Output,
    ) {
        match output {
            provider::Output::Control(bytes) => {
                self.carry_down(number, exit, Down::Control(bytes));
            }
            provider::Output::Datagram(bytes) => {
                self.carry_down(number, exit, Down::Datagram(bytes));
            }
            provider::Output::Deliver(packet) => {
                let answers = self.outside.handle(exit, &packet, self.now - self.start);
                if let Some((wait, answer)) = answers {
                    self.at(wait, 0, Event::Inwards(exit, answer));
                }
            }
            provider::Output::Close(violation) => {
                let code = violation.code;
                self.carry_down(number, exit, Down::Closed(Loss::said(&violation)));
                self.leave_provider(number);
                if let Some(provider) = &mut self.exits[exit].provider {
                    provider.on_closed(id, Some(code), self.now);
                }
            }
            provider::Output::MessagesEnded(_) => {}
        }
    }
}

fn facts(delay: Duration) -> CarrierFacts {
    CarrierFacts {
        datagram_len_max: 1_414,
        backlog_bytes: 0,
        cwnd_bytes: 1 << 20,
        rtt: 2 * delay,
    }
}

fn place_of(places: &[usize], provider: usize) -> ExitId {
    let place = places.iter().position(|of| *of == provider);
    ExitId(
        place
            .and_then(|place| u16::try_from(place).ok())
            .unwrap_or(u16::MAX),
    )
}

fn new_provider(config: &Config, index: usize, incarnation: u64) -> Provider {
    // A pool of its own each: addresses differ from exit to exit.
    let pool = format!("10.{}.0.0/16", 64 + index % 128);
    let pool = AddressPool::try_new(pool.parse().ok(), None).expect("a pool");
    let roster = Roster::try_new([("client".to_owned(), key())]).expect("a roster");
    let seed = config.seed.wrapping_mul(31) ^ (index as u64) << 32 ^ incarnation;
    Provider::new(config.provider.clone(), roster, pool, 1_500, seed)
}
