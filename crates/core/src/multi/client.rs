//! The client: a user's packets on one side, some exits on the other.
//!
//! ```text
//! TUN → guard → flows ─┬─ known ──────────────→ its exit ─→ path ─→ QUIC
//!                      └─ new → choose → race ─┘
//! QUIC → path of an exit → guard → flows, race → TUN
//! ```
//!
//! | file | question |
//! |---|---|
//! | `exit`, `session`, `dial`, `contracts` | what is with one provider |
//! | `exits` | which of them there is anything to ask of |
//! | `dials` | which exit is dialled, and when |
//! | `window`, `may`, `score` | which exits are kept |
//! | `choose` | which exit a new flow takes |
//! | `flows` | which flow is where |
//! | `race`, `races` | over how many exits a connection is opened |
//! | `carry`, `guard`, `address` | what becomes of a packet |
//! | `steer` | hold, sleep, network, selection: what person and system say |
//! | `story` | what an embedder is told |
//!
//! This file is the seam to the driver, which tells each fact with the exit and the
//! number of the dial that it belongs to.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::address::Inside;
use super::choose::Chooser;
use super::contracts::ContractNews;
use super::exit::{Exit, ExitTerms, News};
use super::exit_id::ExitId;
use super::exits::Exits;
use super::flows::FlowTable;
use super::guard::Guard;
use super::members::Members;
use super::output::{Loss, Output};
use super::quiet::Quiet;
use super::race::Racer;
use super::steer::Steering;
use super::story::Story;
use super::verdict::No;
use super::window::Window;
use crate::bucket::TokenBucket;
use crate::budget::{DialBudget, ProcessBudget};
use crate::config::ClientConfig;
use crate::drops::Drops;
use crate::flap::FlapDamper;
use crate::greeting;
use crate::health::Signal;
use crate::health::uplink_doubt::UplinkDoubt;
use crate::path::{CarrierFacts, Path, Violation};
use crate::send::Backpressure;

/// A provider that may be an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitSettings {
    /// What people call it.
    pub name: String,
    /// What it is preferred by: one of 200 is taken twice as often as one of 100.
    pub weight: u32,
}

impl ExitSettings {
    /// An exit that is preferred by nothing.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            weight: 100,
        }
    }
}

/// Answers to what exits that are out of a race still send, each second in the long
/// run and at once: more says nothing new to them.
const LATE_CLOSES: (u32, u32) = (20, 40);

/// A client of some providers.
#[derive(Debug)]
pub struct Client {
    pub(super) settings: Vec<ExitSettings>,
    /// What exits to come are made with.
    pub(super) terms: ExitTerms,
    mtu_max: u16,
    pub(super) rng: SmallRng,
    pub(super) exits: Exits,
    pub(super) members: Members,
    pub(super) window: Window,
    pub(super) damper: FlapDamper<ExitId>,
    pub(super) doubt: UplinkDoubt,
    pub(super) dial_budget: DialBudget,
    pub(super) quiet: Quiet,
    pub(super) chooser: Chooser,
    pub(super) steering: Steering,
    pub(super) story: Story,
    pub(super) flows: FlowTable,
    pub(super) racer: Racer,
    /// Why the last copy that was due of its own accord was not sent.
    pub(super) race_held: Option<No>,
    pub(super) late_closes: TokenBucket,
    pub(super) guard: Guard,
    pub(super) inside: Inside,
    pub(super) signal: Signal,
    mtu: u16,
    pub(super) out: VecDeque<Output>,
    pub(super) contract_news: VecDeque<(ExitId, ContractNews)>,
    /// Whose turn it is to send the next datagram.
    turn: usize,
    /// An exit's fortune changed: the window is to be looked at.
    pub(super) review_wanted: bool,
    pub(super) tun_packets: u64,
    pub(super) tun_drops: Drops,
    pub(super) received_drops: Drops,
    pub(super) delivered: u64,
    /// Copies of packets of the TUN that were sent over one more exit.
    pub(super) extra_copies: u64,
    /// Packets that this client itself made for the TUN: resets, and refusals that
    /// were kept for a while.
    pub(super) made: u64,
    pub(super) now: Instant,
}

impl Client {
    /// A client of one provider whose TUN takes packets of up to `mtu_max` bytes. See
    /// [`Client::with_exits`].
    pub fn new(
        config: ClientConfig,
        agent: impl Into<String>,
        mtu_max: u16,
        seed: u64,
        now: Instant,
    ) -> Self {
        let exits = vec![ExitSettings::named("provider")];
        Self::with_exits(config, exits, agent, mtu_max, seed, now)
    }

    /// A client of the providers in `exits`, and of those that [`Client::on_catalog`] tells
    /// it of, whose TUN takes packets of up to `mtu_max`
    /// bytes. It asks for dials at once. `agent` is told to providers, 64 bytes of it
    /// at most. `seed` feeds all random draws. Of more than [`EXITS_MAX`] exits the
    /// first are taken.
    ///
    /// [`EXITS_MAX`]: super::EXITS_MAX
    pub fn with_exits(
        config: ClientConfig,
        mut exits: Vec<ExitSettings>,
        agent: impl Into<String>,
        mtu_max: u16,
        seed: u64,
        now: Instant,
    ) -> Self {
        exits.truncate(super::EXITS_MAX);
        let config = Arc::new(config);
        let terms = ExitTerms {
            config: Arc::clone(&config),
            agent: greeting::bounded(agent.into()),
            mtu_max,
            signal: Signal::default(),
            budget: ProcessBudget::default(),
            offers_contracts: false,
        };
        let mut rng = SmallRng::seed_from_u64(seed);
        let ids = (0..).map(ExitId).take(exits.len());
        let of = |(index, id): (u64, ExitId)| {
            // The first is seeded as a client of one is.
            let seed = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            Exit::new(id, terms.clone(), seed, now)
        };
        let (late_per_s, late_burst) = LATE_CLOSES;
        let mut client = Self {
            exits: Exits::new((0_u64..).zip(ids).map(of).collect()),
            members: Members::new(exits.len(), &config.probe),
            window: Window::new(config.window.clone(), exits.len(), rng.random(), now),
            damper: FlapDamper::new(config.flap.clone(), rng.random()),
            doubt: UplinkDoubt::new(config.uplink.clone()),
            dial_budget: DialBudget::new(&config.dials),
            quiet: Quiet::new(config.quiet.clone(), now),
            chooser: Chooser::new(config.window.exit_policy, rng.random()),
            steering: Steering::default(),
            story: Story::new(now),
            flows: FlowTable::new(config.flows.clone(), rng.random()),
            racer: Racer::new(config.racer.clone(), rng.random()),
            race_held: None,
            late_closes: TokenBucket::new(late_per_s, late_burst),
            settings: exits,
            terms,
            mtu_max,
            rng,
            guard: Guard::default(),
            inside: Inside::default(),
            signal: Signal::default(),
            mtu: 0,
            out: VecDeque::new(),
            contract_news: VecDeque::new(),
            turn: 0,
            review_wanted: true,
            tun_packets: 0,
            tun_drops: Drops::default(),
            received_drops: Drops::default(),
            delivered: 0,
            extra_copies: 0,
            made: 0,
            now,
        };
        client.handle_timeout(now);
        client
    }

    /// Lets sessions to come widen their waits, races narrow and the window rest while
    /// `signal` says that the control plane is degraded.
    #[must_use]
    pub fn with_signal(mut self, signal: Signal) -> Self {
        self.signal = signal.clone();
        self.terms.signal = signal.clone();
        for exit in self.exits.iter_mut() {
            exit.terms_mut().signal = signal.clone();
        }
        self
    }

    /// Lets what sessions to come spend on guesses count together with the other
    /// clients of this process.
    #[must_use]
    pub fn with_budget(mut self, budget: ProcessBudget) -> Self {
        self.terms.budget = budget.clone();
        for exit in self.exits.iter_mut() {
            exit.terms_mut().budget = budget.clone();
        }
        self
    }

    // --- facts -----------------------------------------------------------

    /// UDP payload that left this process since the start, dials and QUIC's own
    /// included.
    pub fn on_wire(&mut self, bytes_out: u64, now: Instant) {
        self.quiet.on_wire(bytes_out, now);
    }

    /// The machine slept: what is there may be another network, and the other ends may
    /// have given us up.
    pub fn on_wake(&mut self, now: Instant) {
        self.now = now;
        self.exits.iter_mut().for_each(|exit| exit.on_wake(now));
        self.review_wanted = true;
    }

    /// The control plane answered a request that began at `begun`: the uplink is well.
    pub fn on_backend_success(&mut self, begun: Instant, now: Instant) {
        self.now = now;
        self.doubt.on_backend_success(begun, now);
    }

    /// Where the tunnel's own datagrams to `exit` go: packets to these addresses are
    /// dropped.
    pub fn on_underlay(&mut self, exit: ExitId, addresses: &[IpAddr]) {
        self.guard.set_underlay(exit, addresses);
    }

    /// The QUIC connection of this dial stands, the provider's key was right.
    pub fn on_connected(&mut self, exit: ExitId, attempt: u64, now: Instant) {
        self.on_exit(exit, now, |exit| exit.on_connected(attempt, now));
    }

    /// The dial failed, or its connection is gone.
    pub fn on_closed(&mut self, exit: ExitId, attempt: u64, loss: impl Into<Loss>, now: Instant) {
        let loss = loss.into();
        self.on_exit(exit, now, |exit| exit.on_closed(attempt, loss, now));
    }

    /// Bytes of the control stream.
    pub fn handle_control(&mut self, exit: ExitId, attempt: u64, bytes: &[u8], now: Instant) {
        self.doubt.on_inbound(now);
        self.on_exit(exit, now, |exit| exit.handle_control(attempt, bytes, now));
    }

    /// What the QUIC connection of this dial can take, and what it has let go.
    pub fn on_carrier(&mut self, exit: ExitId, attempt: u64, facts: CarrierFacts, now: Instant) {
        self.now = now;
        if let Some(exit) = self.exits.get_mut(exit.index()) {
            exit.on_carrier(attempt, facts, now);
            self.follow_mtu();
        }
    }

    /// QUIC refused the datagram that was handed to it last.
    pub fn on_refused(&mut self, exit: ExitId, attempt: u64, now: Instant) {
        self.now = now;
        if let Some(exit) = self.exits.get_mut(exit.index()) {
            exit.on_refused(attempt, now);
        }
    }

    /// A QUIC datagram of this dial's connection.
    pub fn handle_datagram(&mut self, exit: ExitId, attempt: u64, datagram: &Bytes, now: Instant) {
        self.doubt.on_inbound(now);
        let mut result = Ok(());
        self.on_exit(exit, now, |exit| {
            result = exit.handle_datagram(attempt, datagram, now);
        });
        if let Err(violation) = result {
            self.on_exit(exit, now, |exit| exit.close(violation, now));
        }
    }

    fn on_exit(&mut self, exit: ExitId, now: Instant, act: impl FnOnce(&mut Exit)) {
        self.now = now;
        if let Some(of) = self.exits.get_mut(exit.index()) {
            act(of);
            self.absorb(exit, now);
            self.settle(now);
        }
    }

    /// Takes what came of something that was done to an exit.
    pub(super) fn absorb(&mut self, exit: ExitId, now: Instant) {
        self.take_received(exit, now);
        let Some(of) = self.exits.get_mut(exit.index()) else {
            return;
        };
        let news = of.take_news();
        if news.up && self.inside.adopt(of.addresses()) {
            self.mtu = 0;
            let addresses = *self.inside.addresses();
            self.out.push_back(Output::Configure(addresses));
            self.follow_mtu();
        }
        self.take_output(exit);
        if news != News::default() {
            self.take_news(exit, news, now);
        }
        self.watch(exit, now);
        self.quiet.look(self.exits.progress(), now);
        if !self.window.is_member(exit) {
            self.exits.lay_down(exit);
        }
    }

    pub(super) fn take_output(&mut self, exit: ExitId) {
        if let Some(of) = self.exits.get_mut(exit.index()) {
            if !of.out.is_empty() {
                self.out.append(&mut of.out);
            }
            for news in of.take_contract_news() {
                self.contract_news.push_back((exit, news));
            }
        }
    }

    fn take_news(&mut self, exit: ExitId, news: News, now: Instant) {
        if news.dial_ended {
            self.quiet.on_dial_ended(exit);
        }
        if news.up {
            self.quiet.on_progress(now);
            self.damper.on_healthy(&exit);
        }
        if news.gone {
            self.lose_flows(exit, now);
        }
        if news.failed {
            self.members.on_failure(exit, now);
        }
        if news.failed || news.gone {
            self.on_exit_failed(exit, now);
        }
        self.review_wanted = true;
    }

    /// Does what has become due by what happened.
    fn settle(&mut self, now: Instant) {
        if self.review_wanted || self.window.is_due(now) {
            self.review(now);
        }
        self.follow_mtu();
    }

    pub(super) fn follow_mtu(&mut self) {
        let Some(mtu) = self.main_path().map(Path::inner_mtu) else {
            return;
        };
        if mtu != self.mtu {
            self.mtu = mtu;
            self.out.push_back(Output::Mtu(mtu));
        }
    }

    /// The path of the exit that is the first choice, or of the first that has one.
    pub(super) fn main_exit(&self) -> Option<&Exit> {
        let has_path = |exit: &&Exit| exit.path.is_some();
        let primary = self.chooser.primary();
        let primary = primary.and_then(|exit| self.exits.get(exit.index()));
        primary
            .filter(has_path)
            .or_else(|| self.exits.live().find(has_path))
    }

    fn main_path(&self) -> Option<&Path> {
        self.main_exit()?.path.as_deref()
    }

    // --- answers ---------------------------------------------------------

    /// Packets of the TUN that were not carried, whatever the reason: [`Client::status`]
    /// tells it. A caller that compares this before and after a packet learns at no cost
    /// whether that one was.
    pub fn tun_dropped(&self) -> u64 {
        self.tun_drops.total()
    }

    /// Whether the TUN should be read: whether so many packets more would find room.
    ///
    /// Without a session packets are taken and dropped, counted: an application
    /// is to notice that there is no network, not to hang. One exit whose queue is full
    /// stops the TUN only when each exit that carries something is full.
    /// Suspended it is not read: what waits there waits in the device.
    pub fn wants_packets(&self, packets: usize) -> bool {
        if self.is_suspended() {
            return false;
        }
        let mut carrying = self.exits.live().filter(|exit| {
            exit.path.is_some()
                && (self.flows.flows_on(exit.id) > 0 || self.chooser.primary() == Some(exit.id))
        });
        let len = usize::from(self.mtu_max);
        let full = |exit: &Exit| {
            exit.path
                .as_deref()
                .is_some_and(|path| path.is_full_for(packets, len))
        };
        match carrying.next() {
            Some(first) => !(full(first) && carrying.all(full)),
            None => !self.main_exit().is_some_and(full),
        }
    }

    /// Whether the carrier of `exit` is to be looked at when something has left it.
    pub fn awaits_departure(&self, exit: ExitId) -> bool {
        let exit = self.exits.get(exit.index());
        exit.is_some_and(Exit::awaits_departure)
    }

    /// Whether what is handed over to `exit` must leave whatever the congestion window
    /// says: see [`Path::is_hushed`].
    pub fn is_hushed(&self, exit: ExitId, now: Instant) -> bool {
        let exit = self.exits.get(exit.index());
        exit.is_some_and(|exit| exit.is_hushed(now))
    }

    /// Takes a message for the provider that is the first choice, of at most half the
    /// window.
    ///
    /// # Errors
    /// The bound that is in the way; nothing was taken. [`Backpressure::Ended`]
    /// also while no session is up.
    pub fn send_message(&mut self, message: &[u8], now: Instant) -> Result<(), Backpressure> {
        self.now = now;
        let exit = self.main_exit().map(|exit| exit.id);
        let exit = exit.and_then(|exit| self.exits.get_mut(exit.index()));
        match exit.and_then(|exit| exit.path.as_deref_mut()) {
            Some(path) => path.send_message(message, now),
            None => Err(Backpressure::Ended),
        }
    }

    /// Whether [`Client::poll_message`] would yield one.
    pub fn has_message(&self) -> bool {
        self.paths().any(Path::has_message)
    }

    /// A provider's next message, and whose it is. Taking it is what lets it send more.
    pub fn poll_message(&mut self) -> Option<(ExitId, Bytes)> {
        let next = |exit: &mut Exit| Some((exit.id, exit.path.as_deref_mut()?.poll_message()?));
        self.exits.live_mut().find_map(next)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.exits.live().filter_map(|exit| exit.path.as_deref())
    }

    // --- outputs and time ------------------------------------------------

    /// The next thing to do.
    pub fn poll_output(&mut self, now: Instant) -> Option<Output> {
        self.now = now;
        if let Some(output) = self.out.pop_front() {
            return Some(output);
        }
        if self.is_suspended() {
            return None;
        }
        let count = self.exits.len();
        for _ in 0..count {
            let index = if self.turn < count { self.turn } else { 0 };
            if let Some(output) = self.poll_exit(index, now) {
                return Some(output);
            }
            self.turn = index + 1;
        }
        None
    }

    /// The next thing of one exit, which goes on being asked until it has nothing.
    fn poll_exit(&mut self, index: usize, now: Instant) -> Option<Output> {
        if !self.exits.is_live(index) {
            return None;
        }
        let exit = self.exits.get_mut(index)?;
        if exit.is_resting(now) {
            return None;
        }
        let id = exit.id;
        let datagram = exit.poll_datagram(now);
        if !exit.out.is_empty() {
            self.out.append(&mut exit.out);
        }
        self.take_icmp(id);
        let datagram = datagram.map(|bytes| Output::Datagram { exit: id, bytes });
        datagram.or_else(|| self.out.pop_front())
    }

    /// When to call [`Client::handle_timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if !self.out.is_empty() {
            return Some((self.now, "output"));
        }
        if self.is_suspended() {
            return None;
        }
        let wanted = |exit: &Exit| exit.poll_timeout(self.window.is_member(exit.id));
        let held = self.is_held();
        let own = [
            self.window.poll_timeout().filter(|_| !held),
            self.steering.poll_timeout(),
            self.racer.poll_timeout(),
            self.flows.poll_timeout(),
            self.review_wanted.then_some((self.now, "window")),
        ];
        self.exits
            .live()
            .filter_map(wanted)
            .chain(own.into_iter().flatten())
            .min_by_key(|(at, _)| *at)
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.is_suspended() {
            return;
        }
        self.wake_if_due(now);
        for index in 0..self.exits.len() {
            if !self.exits.is_live(index) {
                continue;
            }
            let Some(of) = self.exits.get_mut(index) else {
                continue;
            };
            let (exit, result) = (of.id, of.handle_timeout(now));
            self.absorb(exit, now);
            if let Err(violation) = result {
                self.give_up(exit, violation, now);
            }
        }
        self.doubt.handle_timeout(now);
        self.flows.expire(now);
        self.hedge(now);
        self.settle(now);
        self.start_dials(now);
    }

    fn give_up(&mut self, exit: ExitId, violation: Violation, now: Instant) {
        if let Some(of) = self.exits.get_mut(exit.index()) {
            of.on_gone(violation, now);
            self.absorb(exit, now);
        }
    }
}
