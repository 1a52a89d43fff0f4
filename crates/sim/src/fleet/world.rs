//! The world: clients, providers, ways, backends and users, from one event to the next.
//!
//! It decides nothing that a policy could. It carries what connections put on the wire, breaks what a scenario breaks, and
//! keeps the books.
//!
//! ```text
//! event ─▶ whom it concerns ─▶ settle: facts, outputs, datagrams, until there is nothing left ─▶ one wake each
//! ```
//!
//! | file | what |
//! |---|---|
//! | `world` | the loop, and what events do |
//! | `world/client` | what a client wants done |
//! | `world/server` | what a provider wants done, and what meets a dial |
//! | `world/breaks` | what faults do |
//!
//! Most of what happens in a fleet is an acknowledgement that changes nothing for a node. Such an event ends at the
//! connection: a node is called when it is told something, when what its connection can take has changed, or when its own
//! time has come. For the same reason a client's other connections are left alone while something happens at one of them:
//! an end at which nothing was done since it was settled, and that is not due, has nothing to say.
//!
//! Invariants: time never goes back; a client and a provider's end of a connection have one scheduled wake each, and one
//! that is no longer wanted is ignored when it comes; what concerns a connection that is gone meets nobody.

mod breaks;
mod client;
mod server;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;

use super::backend::Backends;
use super::books::Books;
use super::carriage::{Carriage, Carriages, Side, UdpDatagram as _};
use super::connection::{Connection, ConnectionId, Far};
use super::faults::{self, Moment};
use super::node::{Answer, ClientId, ClientNode as _, Ended, FleetSize, Item, Policy, ServerId};
use super::queue::Queue;
use super::way::{Access, Ways};
use super::{Options, SimError, work};
use crate::check::{Checks, Fact};
use crate::outcome::PolicyOutcome;
use crate::scenario::Scenario;

/// Never.
const NEVER: u64 = u64::MAX;
/// Most rounds of one settling: more is an end that never comes to rest.
const ROUNDS_MAX: u32 = 200_000;
/// Most events at one moment, for the same reason.
const AT_ONCE_MAX: u64 = 50_000_000;
/// How often progress is told, in virtual time.
const PROGRESS_NS: u64 = 100_000_000;

type Link<P, C> = <C as Carriages<<P as Policy>::Unit>>::Carriage;
/// A place of the slab of connections; one that is free holds none.
type Place<P, C> = Option<Box<Connection<Link<P, C>>>>;
type Wire<P, C> = <Link<P, C> as Carriage<<P as Policy>::Unit>>::Udp;

/// What happens.
#[derive(Debug)]
enum Event<D> {
    /// A datagram arrives.
    Arrives(ConnectionId, Side, D),
    /// A host tells the client's end that its dial or its connection is not there.
    Told(ConnectionId, Side, Ended),
    /// The client's socket is asked to prove its address; the first packet that it sends again arrives.
    Proven(ConnectionId),
    WakeClient(ClientId),
    WakeFar(ConnectionId),
    WakeServer(ServerId),
    /// A handshake has taken as long as it may.
    Deadline(ConnectionId),
    /// A user does this entry of its work.
    Work(ClientId, u16),
    Answer(ClientId, u64, Answer),
    Starts(ClientId),
    /// A provider comes back: the one of this incarnation.
    Returns(ServerId, u32),
    Breaks(usize),
}

/// A client's end of a connection, as far as a client with several has to know it. What happens at one of them leaves the
/// others untouched: they lie far away in memory, and a client has more wakes than anything else.
#[derive(Debug, Clone, Copy)]
struct Tie {
    server: ServerId,
    id: ConnectionId,
    /// Nothing was done to this end since it had nothing left to tell its node, to hand over and to send.
    is_settled: bool,
    /// When the carriage's end wants to be called, for one that is settled.
    due_ns: u64,
}

impl Tie {
    fn new(server: ServerId, id: ConnectionId) -> Self {
        Self {
            server,
            id,
            is_settled: false,
            due_ns: NEVER,
        }
    }

    /// Whether there is nothing to do at this end.
    fn rests(&self, now_ns: u64) -> bool {
        self.is_settled && self.due_ns > now_ns
    }
}

/// A client in the world.
#[derive(Debug)]
struct Client<N> {
    /// `None`: it has not started. Boxed: most events of a fleet end before a node, and what they touch is to lie close
    /// together.
    node: Option<Box<N>>,
    /// Whom it is connected to, or dials.
    ties: Vec<Tie>,
    wake_ns: u64,
    /// When the node wants to be called, as it said last.
    node_due_ns: u64,
    up: Access,
    down: Access,
    bytes_out: u64,
    told_bytes_out: u64,
    /// Reasons for having no network.
    no_uplink: u8,
    /// Reasons for being asleep.
    asleep: u8,
    shared_nat: u8,
}

/// A provider in the world.
#[derive(Debug)]
struct Server<N> {
    /// `None`: it is dead.
    node: Option<N>,
    incarnation: u32,
    cut_up: u8,
    cut_down: u8,
    acks_lost: u8,
    refusing: u8,
    dead: u8,
    /// How long it is away once it has stopped.
    away_ns: Option<u64>,
    wake_ns: u64,
    sessions: u32,
    /// First packets of this second.
    handshakes: (u64, u32),
    /// Which connection a session is of. Looked up, never walked.
    of_session: HashMap<u64, ConnectionId, FixedState>,
}

/// All of it.
pub(super) struct World<'a, P: Policy, C: Carriages<P::Unit>> {
    scenario: &'a Scenario,
    policy: &'a P,
    carriages: C,
    size: FleetSize,
    seed: u64,
    origin: Instant,
    now_ns: u64,
    now: Instant,
    queue: Queue<Event<Wire<P, C>>>,
    clients: Vec<Client<P::Client>>,
    servers: Vec<Server<P::Server>>,
    connections: Vec<Place<P, C>>,
    free: Vec<u32>,
    turns: u32,
    dials: u64,
    ways: Ways,
    backends: Backends,
    moments: Vec<Moment>,
    books: Books,
    checks: Checks,
    packs: Vec<(u64, u32)>,
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn size_of(scenario: &Scenario) -> FleetSize {
    FleetSize {
        clients: scenario.fleet.clients,
        servers: scenario.fleet.providers,
        backends: scenario.fleet.backends,
        catalog: scenario.fleet.catalog.min(scenario.fleet.providers),
    }
}

impl<'a, P: Policy, C: Carriages<P::Unit>> World<'a, P, C> {
    /// A world in which nobody has started.
    pub(super) fn new(
        scenario: &'a Scenario,
        (name, policy): (&str, &'a P),
        carriages: C,
        options: &Options,
    ) -> Self {
        let size = size_of(scenario);
        let origin = Instant::now();
        let duration_ns = ns(scenario.duration);
        let broken = faults::broken(scenario);
        let sizes = (size.clients, size.servers);
        let step_ms = options.step_ms.unwrap_or_else(|| step_of(duration_ns));
        let mut world = Self {
            books: Books::new(name, sizes, broken, step_ms, duration_ns),
            checks: Checks::new(name, scenario, options),
            scenario,
            policy,
            carriages,
            size,
            seed: options.seed,
            origin,
            now_ns: 0,
            now: origin,
            queue: Queue::default(),
            clients: (0..size.clients).map(|_| Client::new()).collect(),
            servers: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            turns: 0,
            dials: 0,
            ways: Ways::new(&scenario.path, options.seed),
            backends: Backends::new(scenario, options.seed),
            moments: faults::moments(scenario),
            packs: Vec::new(),
        };
        for id in 0..size.servers {
            let node = world.policy.server(id, 0, &size, world.seed);
            world.servers.push(Server::new(node));
        }
        world.schedule();
        world
    }

    fn schedule(&mut self) {
        for (index, moment) in self.moments.iter().enumerate() {
            self.queue.push(moment.at_ns, Event::Breaks(index));
        }
        let over = u128::from(ns(self.scenario.fleet.start_over));
        for client in 0..self.size.clients {
            let at = over * u128::from(client) / u128::from(self.size.clients.max(1));
            let at = u64::try_from(at).unwrap_or(0);
            self.queue.push(at, Event::Starts(client));
        }
    }

    /// Lives through the scenario.
    pub(super) fn run(
        mut self,
        progress: &mut dyn FnMut(Duration),
    ) -> Result<PolicyOutcome, SimError> {
        let end_ns = ns(self.scenario.duration);
        let (mut at_once, mut told_ns) = (0, 0);
        while let Some((at_ns, event)) = self.queue.pop(end_ns) {
            at_once = if at_ns > self.now_ns { 0 } else { at_once + 1 };
            if at_once > AT_ONCE_MAX {
                return Err(SimError::Restless {
                    at: Duration::from_nanos(self.now_ns),
                });
            }
            self.pass(at_ns);
            if self.now_ns >= told_ns {
                progress(Duration::from_nanos(self.now_ns));
                told_ns = self.now_ns + PROGRESS_NS;
            }
            self.happen(event);
        }
        self.pass(end_ns);
        progress(self.scenario.duration);
        self.look_at_clients();
        let complaints = std::mem::take(&mut self.checks).finish(end_ns);
        self.books.complain_first(complaints);
        Ok(self.books.finish())
    }

    fn pass(&mut self, at_ns: u64) {
        if at_ns > self.now_ns {
            self.now_ns = at_ns;
            self.now = self.origin + Duration::from_nanos(at_ns);
        }
        self.books.on_time(self.now_ns);
    }

    fn since(&self, at: Instant) -> u64 {
        ns(at.saturating_duration_since(self.origin))
    }

    fn look_at_clients(&mut self) {
        for (id, client) in (0..).zip(&self.clients) {
            let Some(node) = &client.node else { continue };
            let facts = &node.facts(self.now);
            let stands = Fact::Stands { client: id, facts };
            self.checks.saw(stands, self.now_ns);
            self.books.sent_again(facts.sent_again);
            if facts.unaccounted != 0 {
                let count = facts.unaccounted;
                let words = || format!("{count} items of client {id}");
                self.books.complain("nowhere", words);
            }
        }
    }

    // --- events ------------------------------------------------------------------

    fn happen(&mut self, event: Event<Wire<P, C>>) {
        match event {
            Event::Arrives(id, Side::Client, udp) => self.arrive_at_client(id, udp),
            Event::Arrives(id, Side::Server, udp) => self.arrive_at_server(id, udp),
            Event::Told(id, side, ended) => self.tell(id, side, ended),
            Event::Proven(id) => self.prove(id),
            Event::WakeClient(client) => self.wake_client(client),
            Event::WakeFar(id) => self.wake_far(id),
            Event::WakeServer(server) => self.wake_server(server),
            Event::Deadline(id) => self.end_handshake(id),
            Event::Work(client, entry) => self.work(client, entry),
            Event::Answer(client, call, answer) => self.answer(client, call, answer),
            Event::Starts(client) => self.start(client),
            Event::Returns(server, incarnation) => self.come_back(server, incarnation),
            Event::Breaks(index) => self.change(index),
        }
    }

    fn start(&mut self, client: ClientId) {
        let node = self.policy.client(client, &self.size, self.seed, self.now);
        self.clients[client as usize].node = Some(Box::new(node));
        for (flow, entry) in (0..).zip(&self.scenario.work) {
            let at = work::first_ns(entry, flow, client, self.seed, self.now_ns);
            if let Some(at_ns) = at {
                self.queue.push(at_ns, Event::Work(client, flow));
            }
        }
        self.settle_client(client);
    }

    fn work(&mut self, client: ClientId, flow: u16) {
        let Some(entry) = self.scenario.work.get(usize::from(flow)) else {
            return;
        };
        let offer = work::offer(entry, self.now_ns);
        if let Some(at_ns) = offer.next_ns {
            self.queue.push(at_ns, Event::Work(client, flow));
        }
        let of = &mut self.clients[client as usize];
        // Who sleeps does nothing.
        let Some(node) = of.node.as_mut().filter(|_| of.asleep == 0) else {
            return;
        };
        for _ in 0..offer.items {
            let item = Item {
                number: self.books.offer(client),
                flow,
                kind: offer.kind,
                len_bytes: offer.len_bytes,
            };
            let number = item.number;
            self.checks
                .saw(Fact::Offered { client, number }, self.now_ns);
            node.offer(item, self.now);
        }
        self.settle_client(client);
    }

    // --- connections ---------------------------------------------------------------

    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection<Link<P, C>>> {
        let connection = self.connections.get_mut(id.place as usize)?.as_mut()?;
        (connection.turn == id.turn).then_some(connection)
    }

    fn connect(&mut self, client: ClientId, server: ServerId, attempt: u64) -> ConnectionId {
        self.dials += 1;
        self.turns = self.turns.wrapping_add(1);
        let connection = Box::new(Connection {
            turn: self.turns,
            client,
            server,
            attempt,
            at_client: true,
            far: Far::Fresh,
            carriage: self.carriages.dial(self.dials, self.now),
            pending: Default::default(),
            due_ns: [0; 2],
            wake_ns: NEVER,
            node_due_ns: NEVER,
            stood: false,
            told: [None; 2],
        });
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            u32::try_from(self.connections.len() - 1).unwrap_or(u32::MAX)
        });
        self.connections[place as usize] = Some(connection);
        ConnectionId {
            place,
            turn: self.turns,
        }
    }

    /// Forgets a connection that neither end has any more.
    fn tidy(&mut self, id: ConnectionId) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let far_is_over = matches!(connection.far, Far::Fresh | Far::Gone | Far::Retried);
        if !connection.at_client && far_is_over {
            self.connections[id.place as usize] = None;
            self.free.push(id.place);
        }
    }

    /// Puts a datagram on its way.
    fn send(&mut self, id: ConnectionId, from: Side, udp: Wire<P, C>) {
        let Some(connection) = self
            .connections
            .get_mut(id.place as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let len_bytes = udp.len_bytes();
        let backlog = connection
            .carriage
            .facts(from)
            .map_or(0, |f| f.backlog_bytes);
        let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        let is_dial = udp.is_dial();
        let client = &mut self.clients[connection.client as usize];
        let server = &self.servers[usize::from(connection.server)];
        let pending = &mut connection.pending[from as usize];
        let causes = if is_dial {
            super::node::Causes::default()
        } else {
            pending.leave(len_bytes, backlog)
        };
        let (cut, access) = match from {
            Side::Client => {
                client.bytes_out += u64::from(len_bytes);
                let left = Fact::Left {
                    client: connection.client,
                    bytes: len_bytes,
                };
                self.checks.saw(left, self.now_ns);
                self.books
                    .leaves_client(len_bytes, is_dial, &causes, self.now_ns);
                (server.cut_up > 0, &mut client.up)
            }
            Side::Server => {
                self.books.leaves_server(len_bytes, is_dial, &causes);
                (server.cut_down > 0, &mut client.down)
            }
        };
        if cut || client.no_uplink > 0 {
            return;
        }
        let due = &mut connection.due_ns[from as usize];
        if let Some(at_ns) = self.ways.cross(len_bytes, access, due, self.now_ns) {
            self.queue
                .push(at_ns, Event::Arrives(id, from.other(), udp));
        }
    }
}

/// Some 600 steps, of whole tenths of a second.
fn step_of(duration_ns: u64) -> u64 {
    (duration_ns / 600 / 100_000_000).max(1) * 100
}

impl<N> Client<N> {
    fn new() -> Self {
        Self {
            node: None,
            ties: Vec::new(),
            wake_ns: NEVER,
            node_due_ns: NEVER,
            up: Access::default(),
            down: Access::default(),
            bytes_out: 0,
            told_bytes_out: 0,
            no_uplink: 0,
            asleep: 0,
            shared_nat: 0,
        }
    }
}

impl<N> Server<N> {
    fn new(node: N) -> Self {
        Self {
            node: Some(node),
            incarnation: 0,
            cut_up: 0,
            cut_down: 0,
            acks_lost: 0,
            refusing: 0,
            dead: 0,
            away_ns: None,
            wake_ns: NEVER,
            sessions: 0,
            handshakes: (0, 0),
            of_session: HashMap::default(),
        }
    }
}
