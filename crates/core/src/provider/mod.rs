//! The exit: who may connect, which address is whose, which packet goes where.
//!
//! One [`Provider`] owns all sessions of a process. A session's driver feeds and
//! drains its own session; what one session's input causes in another (a newer
//! connection of the same key *fences* the older one, a packet of the world
//! reaches its client) is announced through [`Provider::poll_ready`].
//!
//! Invariants:
//! - One key has at most one session that is up; the newest wins, so that a
//!   client that lost its connection never waits for its own ghost.
//! - A host number is held by a session that is up or suspended, and only by one.
//! - A handshake that the [`doorman`] let begin has a place that is counted and a deadline.
//! - What one client may take is [`limits`]'s to say, whose packet is next at the egress [`fair`]'s.
//! - Sessions with a connection are bounded by `sessions_max`, greeting ones
//!   included; so are those without one.

pub mod addresses;
mod billing;
mod closed;
mod contracts;
pub mod doorman;
mod drain;
mod egress;
pub mod fair;
pub mod limits;
mod reload;
mod resume;
mod roster;
pub mod rules;
mod session;
mod session_contracts;
mod sessions;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::FixedState;
use quell_packet::IpPacket;
use quell_wire::control::Hello;
use quell_wire::key::PublicKey;
use quell_wire::registry::ErrorCode;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

pub use addresses::AddressPool;
pub use closed::ClosedCounters;
use doorman::Doorman;
use fair::Fair;
use limits::{Ceiling, DestinationTokens, MonthUse, RefusalCounters};
pub use reload::Reloaded;
pub use roster::Roster;
use rules::{EgressCounters, EgressGuard, HostAddresses, RuleSet};
pub use session::Output;
use session::{Request, Session};
use sessions::Sessions;

use crate::budget::ProcessBudget;
use crate::config::ProviderConfig;
use crate::contract::Books;
use crate::drops::{DropReason, Drops};
use crate::health::Signal;
use crate::path::{Buffer, CarrierFacts, PathBooks, Violation};
use crate::send::Backpressure;
use crate::status::{ProviderStatus, TunnelAddresses};

/// What a client is called that the provider knows by its contract alone.
const BY_CONTRACT: &str = "by contract";

/// Names a session within its provider; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u64);

/// The exit and all its sessions.
#[derive(Debug)]
pub struct Provider {
    config: ProviderConfig,
    roster: Roster,
    pool: AddressPool,
    doorman: Doorman,
    host: HostAddresses,
    rules: Arc<RuleSet>,
    /// When the provider, told to stop, stops carrying.
    drains_until: Option<Instant>,
    mtu_max: u16,
    signal: Signal,
    budget: ProcessBudget,
    rng: SmallRng,
    next_id: u64,
    sessions: Sessions,
    by_key: HashMap<PublicKey, SessionId>,
    /// Looked at with every packet of the world; the numbers are the pool's, and no peer's choice.
    by_host: HashMap<u32, SessionId, FixedState>,
    ready: VecDeque<SessionId>,
    /// Who is next at the egress, and who is next that comes from there.
    outward: Fair<SessionId>,
    inward: Fair<SessionId>,
    ceiling: Ceiling,
    /// What clients that are gone had left, by listed keys.
    tokens: HashMap<PublicKey, DestinationTokens>,
    /// Sessions without a connection, and since when.
    suspended: BTreeMap<SessionId, Instant>,
    sessions_total: u64,
    resumes: u64,
    refused: BTreeMap<&'static str, u64>,
    tun_packets: u64,
    tun_drops: Drops,
    early_datagrams: u64,
    /// What datagrams of busy sessions are written into.
    buffer: Buffer,
    /// What sessions of unlisted keys are carried for.
    contracts: Option<Box<Books>>,
    ended: PathBooks,
    ended_received_drops: Drops,
    ended_delivered: u64,
    ended_closed: ClosedCounters,
    ended_egress: EgressCounters,
    ended_refusals: RefusalCounters,
}

impl Provider {
    /// An exit for the clients of `roster`, whose egress takes packets of up to
    /// `mtu_max` bytes.
    pub fn new(
        config: ProviderConfig,
        roster: Roster,
        pool: AddressPool,
        mtu_max: u16,
        seed: u64,
    ) -> Self {
        let host = HostAddresses::default();
        Self {
            doorman: Doorman::new(config.doorman.clone()),
            rules: Arc::new(RuleSet::new(&config.egress_rules, &host, &pool.gateway())),
            host,
            drains_until: None,
            outward: Fair::new(&config.client, &config.share, seed),
            inward: Fair::new(&config.client, &config.share, seed),
            ceiling: Ceiling::new(config.month_bytes_max, MonthUse::default()),
            tokens: HashMap::new(),
            config,
            roster,
            pool,
            mtu_max,
            signal: Signal::default(),
            budget: ProcessBudget::default(),
            rng: SmallRng::seed_from_u64(seed),
            next_id: 0,
            sessions: Sessions::default(),
            by_key: HashMap::new(),
            by_host: HashMap::with_hasher(FixedState::with_seed(seed)),
            ready: VecDeque::new(),
            suspended: BTreeMap::new(),
            sessions_total: 0,
            resumes: 0,
            refused: BTreeMap::new(),
            tun_packets: 0,
            tun_drops: Drops::default(),
            early_datagrams: 0,
            buffer: Buffer::default(),
            contracts: None,
            ended: PathBooks::default(),
            ended_received_drops: Drops::default(),
            ended_delivered: 0,
            ended_closed: ClosedCounters::default(),
            ended_egress: EgressCounters::default(),
            ended_refusals: RefusalCounters::default(),
        }
    }

    /// Lets sessions to come widen their waits while `signal` says that the
    /// control plane is degraded.
    #[must_use]
    pub fn with_signal(mut self, signal: Signal) -> Self {
        self.signal = signal;
        self
    }

    /// Whether there is a session, connected or suspended.
    pub fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// The provider's own addresses inside the tunnel.
    pub fn gateway(&self) -> TunnelAddresses {
        self.pool.gateway()
    }

    /// Who may start a handshake.
    pub fn doorman(&mut self) -> &mut Doorman {
        &mut self.doorman
    }

    /// A connection whose peer proved to hold `key`.
    ///
    /// # Errors
    /// The connection is to be closed with this.
    pub fn on_connection(&mut self, key: PublicKey, now: Instant) -> Result<SessionId, Violation> {
        let listed = self.roster.name_of(&key).map(str::to_owned);
        let billed = listed.is_none();
        if billed && self.contracts.is_none() {
            return Err(self.refuse(
                ErrorCode::UnknownClient,
                format!("no client with the key {key} is listed here"),
            ));
        }
        let client = listed.unwrap_or_else(|| BY_CONTRACT.to_owned());
        if self.is_draining() {
            let code = ErrorCode::ShuttingDown;
            return Err(self.refuse(code, code.words().to_owned()));
        }
        if self.ceiling.is_used_up() {
            return Err(self.refuse(ErrorCode::MonthUsedUp, self.ceiling.words()));
        }
        let connected = self.sessions.len().saturating_sub(self.suspended.len());
        if connected >= self.config.sessions_max {
            let words = format!(
                "{} sessions, the most allowed, are open",
                self.config.sessions_max
            );
            return Err(self.refuse(ErrorCode::TooManySessions, words));
        }
        let id = SessionId(self.next_id);
        self.next_id += 1;
        let shared = (self.signal.clone(), self.budget.clone());
        let draws = (shared, self.rng.random());
        let rules = Arc::clone(&self.rules);
        let guard = EgressGuard::new(rules, &self.config.egress_rules, self.pool.gateway());
        let mut session =
            Session::new(&self.config, (key, client), self.mtu_max, draws, guard, now);
        if let Some(books) = self.contracts.as_deref().filter(|_| billed) {
            session.bill(books.config().pause_max, now);
        }
        self.sessions.insert(id, Box::new(session));
        Ok(id)
    }

    fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    fn refuse(&mut self, code: ErrorCode, words: String) -> Violation {
        self.count_refused(code);
        Violation { code, words }
    }

    fn count_refused(&mut self, code: ErrorCode) {
        let count = self.refused.entry(code.name()).or_default();
        *count = count.saturating_add(1);
    }

    /// Bytes of the session's control stream.
    pub fn handle_control(&mut self, id: SessionId, bytes: &[u8], now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        for request in session.handle_control(bytes, now) {
            match request {
                Request::Welcome(hello) => self.welcome(id, &hello),
                Request::Resume(resume) => self.resume(id, &resume, now),
                Request::Contract(form) => self.on_contract(id, &form, now),
                Request::Receipt(form) => self.on_receipt(id, &form, now),
            }
        }
    }

    /// Bytes that cannot be a control message, such as a stream that ends early.
    pub fn on_control_broken(&mut self, id: SessionId, violation: Violation) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.close(violation);
        }
    }

    fn welcome(&mut self, id: SessionId, hello: &Hello) {
        let asking = self.sessions.get(&id).filter(|session| session.is_asking());
        let Some(key) = asking.map(|session| session.key) else {
            return;
        };
        let features = self.features(id);
        if features & !hello.features != 0 {
            self.close(id, Self::contract_required());
            return;
        }
        let Some(host) = self.pool.assign(&key) else {
            let words = format!("all {} addresses are taken", self.pool.capacity());
            let code = ErrorCode::AddressesExhausted;
            self.close(id, Violation { code, words });
            return;
        };
        let older = self.by_key.insert(key, id);
        let tokens = older.and_then(|older| self.session(older).map(Session::tokens));
        let tokens = tokens.or_else(|| self.tokens.remove(&key));
        if let Some(older) = older {
            self.settle(older);
            self.fence(older);
        }
        self.by_host.insert(host, id);
        let addresses = self.pool.addresses(host);
        let session_id = self.rng.random::<[u8; 16]>();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.welcome(hello, features, addresses, session_id, self.mtu_max);
            session.set_tokens(tokens);
            self.sessions_total += 1;
        }
    }

    fn close(&mut self, id: SessionId, violation: Violation) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.close(violation);
        }
    }

    /// A QUIC datagram of the session.
    pub fn handle_datagram(&mut self, id: SessionId, datagram: &Bytes, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id)
            && !session.handle_datagram(datagram, now)
        {
            self.early_datagrams += 1;
        }
        self.look_if_due(id, now);
    }

    /// A packet of the world; the session it belongs to is announced by
    /// [`Provider::poll_ready`].
    pub fn handle_packet(&mut self, packet: Bytes, now: Instant) {
        self.tun_packets += 1;
        match self.session_for(&packet) {
            Ok(id) => {
                if let Some(packet) = self.inward.offer(id, packet, now) {
                    self.hand_inward(id, packet, now);
                }
            }
            Err(reason) => self.tun_drops.count(reason),
        }
    }

    fn session_for(&self, packet: &[u8]) -> Result<SessionId, DropReason> {
        let view = IpPacket::parse(packet).map_err(|_| DropReason::Malformed)?;
        let destination = view.destination();
        if !quell_packet::addr::is_host(destination) {
            return Err(DropReason::NotUnicast);
        }
        let host = self
            .pool
            .host_of(destination)
            .ok_or(DropReason::NoSession)?;
        self.by_host
            .get(&host)
            .copied()
            .ok_or(DropReason::NoSession)
    }

    /// What the session's QUIC connection can take, and what it has let go.
    pub fn on_carrier(&mut self, id: SessionId, facts: CarrierFacts, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.on_carrier(facts, now);
        }
    }

    /// QUIC refused the session's datagram that was handed to it last.
    pub fn on_refused(&mut self, id: SessionId, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.path().on_refused(now);
        }
    }

    /// Whether what is handed over for the session must leave whatever the congestion
    /// window says: see [`crate::path::Path::is_hushed`].
    pub fn is_hushed(&self, id: SessionId, now: Instant) -> bool {
        let hushed = |session: &Session| session.is_up() && session.path_ref().is_hushed(now);
        self.session(id).is_some_and(hushed)
    }

    /// Takes a message for the session's client, of at most half the window.
    ///
    /// # Errors
    /// The bound that is in the way; nothing was taken. [`Backpressure::Ended`]
    /// also for a session that is not up.
    pub fn send_message(
        &mut self,
        id: SessionId,
        message: &[u8],
        now: Instant,
    ) -> Result<(), Backpressure> {
        let lives = |session: &&mut Session| session.is_up() || session.is_suspended();
        let session = self.sessions.get_mut(&id).filter(lives);
        let session = session.ok_or(Backpressure::Ended)?;
        session.path().send_message(message, now)
    }

    /// The session of a client's key.
    pub fn session_of(&self, key: &PublicKey) -> Option<SessionId> {
        self.by_key.get(key).copied()
    }

    /// Whose session it is.
    pub fn key_of(&self, id: SessionId) -> Option<PublicKey> {
        self.sessions.get(&id).map(|session| session.key)
    }

    /// Whether [`Provider::poll_message`] would yield one.
    pub fn has_message(&self, id: SessionId) -> bool {
        let has = |session: &Session| session.path_ref().has_message();
        self.session(id).is_some_and(has)
    }

    /// The next message of the session's client. Taking it is what lets it send more.
    pub fn poll_message(&mut self, id: SessionId) -> Option<Bytes> {
        self.sessions.get_mut(&id)?.path().poll_message()
    }

    /// The session's connection is gone; `code` is what the client closed it with,
    /// if it did. A session that was up and lost its connection waits for another;
    /// of any other everything is released.
    pub fn on_closed(&mut self, id: SessionId, code: Option<ErrorCode>, now: Instant) {
        if code.is_some() || !self.suspend(id, now) {
            self.release(id);
        }
    }

    fn release(&mut self, id: SessionId) {
        self.suspended.remove(&id);
        self.settle(id);
        let Some(mut session) = self.sessions.remove(&id) else {
            return;
        };
        session.path().close();
        self.ended += PathBooks::of(session.path());
        let status = session.status();
        self.ended_received_drops += status.received_drops;
        self.ended_delivered += status.delivered;
        self.ended_closed += status.closed;
        self.ended_egress += status.egress;
        self.ended_refusals += status.usage.refusals;
        self.forget_lines(id);
        if self.by_key.get(&session.key) != Some(&id) {
            return;
        }
        self.by_key.remove(&session.key);
        self.tokens.insert(session.key, session.tokens());
        if let Some(host) = self.pool.release(&session.key) {
            self.by_host.remove(&host);
        }
    }

    /// The next thing that the session's driver has to do.
    pub fn poll_output(&mut self, id: SessionId, now: Instant) -> Option<Output> {
        if let Some(packet) = self.poll_passed(id, now) {
            return Some(Output::Deliver(packet));
        }
        let session = self.sessions.get_mut(&id)?;
        // One buffer for all that are busy: see `crate::path::slab`.
        let is_busy = session.path.is_busy(now);
        if is_busy {
            session.path.swap_buffer(&mut self.buffer);
        }
        let output = session.poll_output(now);
        if is_busy {
            session.path.swap_buffer(&mut self.buffer);
        }
        let output = output?;
        if let Output::Close(violation) = &output {
            let code = violation.code;
            self.count_refused(code);
        }
        Some(output)
    }

    /// Whether the session's carrier is to be looked at when something has left it.
    pub fn awaits_departure(&self, id: SessionId) -> bool {
        let awaits = Session::awaits_departure;
        self.session(id).is_some_and(awaits)
    }

    /// When to call [`Provider::handle_timeout`] for the session, and why.
    pub fn poll_timeout(&self, id: SessionId) -> Option<(Instant, &'static str)> {
        self.sessions.get(&id)?.poll_timeout()
    }

    /// Does what is due for the session at `now`.
    pub fn handle_timeout(&mut self, id: SessionId, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.handle_timeout(now);
        }
        self.look_if_due(id, now);
    }

    /// A session that another input than its own gave something to do.
    pub fn poll_ready(&mut self) -> Option<SessionId> {
        self.ready.pop_front()
    }

    /// A snapshot.
    pub fn status(&self) -> ProviderStatus {
        let mut status = ProviderStatus {
            sessions: self.session_statuses(),
            sessions_total: self.sessions_total,
            resumes: self.resumes,
            handshakes: self.doorman.counters(),
            is_draining: self.is_draining(),
            refused: self.refused.clone(),
            tun_packets: self.tun_packets,
            tun_drops: self.tun_drops + self.inward.status().drops,
            inward: self.inward.status(),
            month: Some(self.ceiling.status()),
            contracts: self.contracts_status(),
            early_datagrams: self.early_datagrams,
            ended: self.ended,
            ended_received_drops: self.ended_received_drops,
            ended_delivered: self.ended_delivered,
            ended_closed: self.ended_closed,
            egress: self.egress_counters(),
            ended_refusals: self.ended_refusals,
            max_sends_of_one_pack: 0,
            unaccounted: 0,
        };
        let books = status.books();
        status.max_sends_of_one_pack = books.max_sends_of_one_pack();
        status.unaccounted = books.unaccounted();
        status
    }
}
