//! The client of one provider.
//!
//! A composition: `dial` says when to connect, `guard` which
//! packets may pass, [`crate::path`] carries them. What this file adds is the
//! greeting (HELLO, WELCOME) and the books of packets that met no path. A session
//! outlives its connection: see `session`.
//!
//! The driver tells each fact with the number of the dial it belongs to; what
//! comes late from an earlier dial is ignored.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use quell_wire::control::{Control, ControlDecoder, Hello, Welcome};
use quell_wire::registry::{self, ErrorCode};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::dial::{Dial, State};
use super::guard::Guard;
use super::output::{Loss, Notice, Output};
use super::quiet::Quiet;
use super::session::Held;
use crate::budget::ProcessBudget;
use crate::config::ClientConfig;
use crate::drops::{DropReason, Drops};
use crate::greeting::{self, encode};
use crate::health::Signal;
use crate::path::{CarrierFacts, Path, PathBooks, PathTerms, Role, Violation};
use crate::send::Backpressure;
use crate::status::{ClientStatus, PathStatus, TunnelAddresses};

/// The client of one provider.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    agent: String,
    mtu_max: u16,
    pub(super) rng: SmallRng,
    pub(super) dial: Dial,
    guard: Guard,
    signal: Signal,
    budget: ProcessBudget,
    pub(super) quiet: Quiet,
    decoder: ControlDecoder,
    pub(super) path: Option<Path>,
    /// What names the session of the path.
    pub(super) held: Option<Held>,
    carrier: Option<CarrierFacts>,
    addresses: Option<TunnelAddresses>,
    mtu: u16,
    pub(super) out: VecDeque<Output>,
    pub(super) reason: String,
    sessions: u64,
    pub(super) resumes: u64,
    tun_packets: u64,
    tun_drops: Drops,
    received_drops: Drops,
    delivered: u64,
    early_datagrams: u64,
    ended: PathBooks,
    now: Instant,
}

impl Client {
    /// A client whose TUN takes packets of up to `mtu_max` bytes. It asks for a
    /// dial at once. `agent` is told to the provider, 64 bytes of it at most.
    pub fn new(
        config: ClientConfig,
        agent: impl Into<String>,
        mtu_max: u16,
        seed: u64,
        now: Instant,
    ) -> Self {
        let mut client = Self {
            dial: Dial::new(&config, seed, now),
            quiet: Quiet::new(config.quiet.clone(), now),
            config,
            agent: greeting::bounded(agent.into()),
            mtu_max,
            rng: SmallRng::seed_from_u64(seed),
            guard: Guard::default(),
            signal: Signal::default(),
            budget: ProcessBudget::default(),
            decoder: ControlDecoder::new(),
            path: None,
            held: None,
            carrier: None,
            addresses: None,
            mtu: 0,
            out: VecDeque::new(),
            reason: "starting".to_owned(),
            sessions: 0,
            resumes: 0,
            tun_packets: 0,
            tun_drops: Drops::default(),
            received_drops: Drops::default(),
            delivered: 0,
            early_datagrams: 0,
            ended: PathBooks::default(),
            now,
        };
        client.handle_timeout(now);
        client
    }

    /// Lets sessions to come widen their waits while `signal` says that the
    /// control plane is degraded.
    #[must_use]
    pub fn with_signal(mut self, signal: Signal) -> Self {
        self.signal = signal;
        self
    }

    /// Lets what sessions to come spend on guesses count together with the other
    /// clients of this process.
    #[must_use]
    pub fn with_budget(mut self, budget: ProcessBudget) -> Self {
        self.budget = budget;
        self
    }

    /// UDP payload that left this process since the start, dials and QUIC's own
    /// included.
    pub fn on_wire(&mut self, bytes_out: u64, now: Instant) {
        self.quiet.on_wire(bytes_out, now);
    }

    /// The machine slept: what is there may be another network, and the other end may
    /// have given us up. One question finds out at once, and a dial that waits is due.
    pub fn on_wake(&mut self, now: Instant) {
        self.now = now;
        match &mut self.path {
            Some(path) if !path.is_suspended() => path.want_ping(),
            Some(_) | None => self.dial.postpone(now),
        }
    }

    /// Where the tunnel's own datagrams go: packets to these addresses are dropped.
    pub fn on_underlay(&mut self, addresses: Vec<IpAddr>) {
        self.guard.set_underlay(addresses);
    }

    /// The QUIC connection of this dial stands, the provider's key was right.
    pub fn on_connected(&mut self, attempt: u64, now: Instant) {
        self.now = now;
        if !self.is_current(attempt) || !self.dial.on_connected() {
            return;
        }
        self.reason = "connected, waiting for the welcome".to_owned();
        self.decoder = ControlDecoder::new();
        if self.ask_to_resume(now) {
            return;
        }
        self.greet(now);
    }

    /// Asks for a new session.
    pub(super) fn greet(&mut self, now: Instant) {
        let hello = Control::Hello(Hello {
            version: registry::VERSION,
            features: 0,
            agent: self.agent.clone(),
            limits: self.config.path.lanes.receive.first_credit(),
        });
        self.say(&hello, now);
    }

    pub(super) fn say(&mut self, message: &Control, now: Instant) {
        match encode(message) {
            Ok(bytes) => self.out.push_back(Output::Control(bytes)),
            Err(violation) => self.close(violation, now),
        }
    }

    /// The dial failed, or its connection is gone.
    pub fn on_closed(&mut self, attempt: u64, loss: impl Into<Loss>, now: Instant) {
        self.now = now;
        if self.is_current(attempt) {
            self.lose(loss.into(), now);
        }
    }

    fn is_current(&self, attempt: u64) -> bool {
        attempt == self.dial.attempt() && !matches!(self.dial.state(), State::Waiting { .. })
    }

    /// What is left of the session: nothing. Its books are kept.
    pub(super) fn end_path(&mut self) {
        self.held = None;
        if let Some(mut path) = self.path.take() {
            path.close();
            let end = path.poll_messages_end().map(Output::MessagesEnded);
            self.out.extend(end);
            self.ended += PathBooks::of(&path);
        }
    }

    /// The dial or its connection is over; the session only where it ended.
    pub(super) fn redial(&mut self, words: String, fenced: bool, now: Instant) {
        let was_up = matches!(self.dial.state(), State::Up { .. });
        self.quiet.on_dial_ended();
        self.carrier = None;
        let next_dial_in = self.dial.on_ended(fenced, &mut self.rng, now);
        self.reason.clone_from(&words);
        let notice = if was_up && self.path.is_some() {
            Notice::Suspended {
                words,
                next_dial_in,
            }
        } else if was_up {
            Notice::Down {
                words,
                next_dial_in,
            }
        } else {
            Notice::DialFailed {
                words,
                failures: self.dial.failures(),
                next_dial_in,
            }
        };
        self.out.push_back(Output::Notice(notice));
    }

    /// Bytes of the control stream.
    pub fn handle_control(&mut self, attempt: u64, bytes: &[u8], now: Instant) {
        self.now = now;
        if !self.is_current(attempt) {
            return;
        }
        self.decoder.push(bytes);
        loop {
            let step = match self.decoder.next() {
                Ok(Some(message)) => self.handle_message(message, now),
                Ok(None) => return,
                Err(error) => Err(Violation {
                    code: error.code(),
                    words: error.to_string(),
                }),
            };
            if let Err(violation) = step {
                self.close(violation, now);
                return;
            }
        }
    }

    fn handle_message(&mut self, message: Control, now: Instant) -> Result<(), Violation> {
        match (message, self.dial.state()) {
            (Control::Welcome(welcome), State::Greeting { .. }) if !self.is_resuming() => {
                self.welcome(&welcome, now)
            }
            (Control::Resumed(resumed), State::Greeting { .. }) if self.is_resuming() => {
                self.resumed(&resumed, now)
            }
            (Control::Error(error), State::Greeting { .. }) if self.is_resuming() => {
                self.not_resumed(&error, now)
            }
            (Control::Goaway(goaway), State::Up { .. }) => {
                self.on_goaway(&goaway);
                Ok(())
            }
            (message, _) => Err(Violation {
                code: ErrorCode::WrongState,
                words: format!("{} was not expected here", message.name()),
            }),
        }
    }

    fn welcome(&mut self, welcome: &Welcome, now: Instant) -> Result<(), Violation> {
        if welcome.version != registry::VERSION {
            let words = format!(
                "the provider speaks version {}, this client {}",
                welcome.version,
                registry::VERSION
            );
            return Err(Violation {
                code: ErrorCode::UnsupportedVersion,
                words,
            });
        }
        if welcome.ipv4.is_none() && welcome.ipv6.is_none() {
            return Err(Violation {
                code: ErrorCode::MalformedControl,
                words: "WELCOME gives no address".to_owned(),
            });
        }
        let addresses = TunnelAddresses {
            ipv4: welcome.ipv4,
            ipv6: welcome.ipv6,
            gateway_ipv4: welcome.gateway_ipv4,
            gateway_ipv6: welcome.gateway_ipv6,
        };
        self.sessions += 1;
        self.held = Some(Held::new(welcome.session_id));
        self.guard.set_addresses(addresses);
        self.path = Some(self.open_path(welcome, &addresses, now));
        self.addresses = Some(addresses);
        self.out.push_back(Output::Configure(addresses));
        self.mtu = 0;
        self.follow_mtu();
        self.on_up(now);
        Ok(())
    }

    /// The provider carries the session from here on.
    pub(super) fn on_up(&mut self, now: Instant) {
        let failures_before = self.dial.failures();
        self.dial.on_welcome(now);
        self.quiet.on_dial_ended();
        self.quiet.on_progress(now);
        self.reason = "up".to_owned();
        self.out
            .push_back(Output::Notice(Notice::Up { failures_before }));
    }

    fn open_path(&mut self, welcome: &Welcome, addresses: &TunnelAddresses, now: Instant) -> Path {
        // A provider that names an MTU below IPv6's minimum cannot be meant.
        let mtu_max = self.mtu_max.min(welcome.mtu.max(1_280));
        let terms = PathTerms {
            config: self.config.path.clone(),
            role: Role::Client,
            mtu_max,
            signal: self.signal.clone(),
            budget: self.budget.clone(),
            seed: self.rng.random(),
        };
        let mut path = Path::new(terms, now);
        path.on_first_credit(welcome.limits);
        let gateways = [
            addresses.gateway_ipv4.map(IpAddr::from),
            addresses.gateway_ipv6.map(IpAddr::from),
        ];
        gateways
            .into_iter()
            .flatten()
            .for_each(|source| path.set_icmp_source(source));
        if let Some(facts) = self.carrier {
            path.on_carrier(facts, now);
        }
        path.want_ping();
        path
    }

    /// Ends the connection, and the session with it.
    pub(super) fn close(&mut self, violation: Violation, now: Instant) {
        let words = violation.words.clone();
        self.out.push_back(Output::Close(violation));
        self.end_path();
        self.redial(words, false, now);
    }

    /// Ends the connection or the dial alone.
    fn give_up_dial(&mut self, violation: Violation, now: Instant) {
        let words = violation.words.clone();
        self.out.push_back(Output::Close(violation));
        self.lose(words.into(), now);
    }

    pub(super) fn carrier(&self) -> Option<CarrierFacts> {
        self.carrier
    }

    /// What the QUIC connection of this dial can take, and what it has let go.
    pub fn on_carrier(&mut self, attempt: u64, facts: CarrierFacts, now: Instant) {
        self.now = now;
        if !self.is_current(attempt) {
            return;
        }
        self.carrier = Some(facts);
        if let Some(path) = self.path.as_mut().filter(|path| !path.is_suspended()) {
            path.on_carrier(facts, now);
            self.follow_mtu();
        }
    }

    /// QUIC refused the datagram that was handed to it last.
    pub fn on_refused(&mut self, attempt: u64, now: Instant) {
        self.now = now;
        if let Some(path) = self
            .path
            .as_mut()
            .filter(|_| attempt == self.dial.attempt())
        {
            path.on_refused(now);
        }
    }

    pub(super) fn follow_mtu(&mut self) {
        let Some(path) = &self.path else { return };
        let mtu = path.inner_mtu();
        if mtu != self.mtu {
            self.mtu = mtu;
            self.out.push_back(Output::Mtu(mtu));
        }
    }

    /// A QUIC datagram of this dial's connection.
    pub fn handle_datagram(&mut self, attempt: u64, datagram: &Bytes, now: Instant) {
        self.now = now;
        if !self.is_current(attempt) {
            return;
        }
        // Before the WELCOME or RESUMED is read, datagrams that overtook it find no path.
        let Some(path) = self.path.as_mut().filter(|path| !path.is_suspended()) else {
            self.early_datagrams += 1;
            return;
        };
        let result = path.handle_datagram(datagram, now);
        self.quiet.look(path.progress(), now);
        self.drain_received();
        if let Err(violation) = result {
            self.close(violation, now);
        }
    }

    fn drain_received(&mut self) {
        let Some(path) = &mut self.path else { return };
        while let Some(packet) = path.poll_received() {
            match self.guard.judge_inward(&packet) {
                Ok(()) => {
                    self.delivered += 1;
                    self.out.push_back(Output::Deliver(path.clamp_mss(packet)));
                }
                Err(reason) => self.received_drops.count(reason),
            }
        }
    }

    /// Whether the TUN should be read: whether a packet would find room.
    ///
    /// Without a session packets are taken and dropped, counted: an application
    /// is to notice that there is no network, not to hang.
    pub fn wants_packets(&self) -> bool {
        let full = |path: &Path| path.is_full_for(usize::from(self.mtu_max));
        !self.path.as_ref().is_some_and(full)
    }

    /// Whether the carrier is to be looked at when something has left it.
    pub fn awaits_departure(&self) -> bool {
        self.path.as_ref().is_some_and(Path::awaits_departure)
    }

    /// Whether what is handed over must leave whatever the congestion window says:
    /// see [`Path::is_hushed`].
    pub fn is_hushed(&self, now: Instant) -> bool {
        self.path.as_ref().is_some_and(|path| path.is_hushed(now))
    }

    /// Takes a message for the provider, of at most half the window.
    ///
    /// # Errors
    /// The bound that is in the way; nothing was taken. [`Backpressure::Ended`]
    /// also while no session is up.
    pub fn send_message(&mut self, message: &[u8], now: Instant) -> Result<(), Backpressure> {
        self.now = now;
        match &mut self.path {
            Some(path) => path.send_message(message, now),
            None => Err(Backpressure::Ended),
        }
    }

    /// Whether [`Client::poll_message`] would yield one.
    pub fn has_message(&self) -> bool {
        self.path.as_ref().is_some_and(Path::has_message)
    }

    /// The provider's next message. Taking it is what lets it send more.
    pub fn poll_message(&mut self) -> Option<Bytes> {
        self.path.as_mut()?.poll_message()
    }

    /// A packet of the TUN. Every outcome is counted.
    pub fn handle_packet(&mut self, packet: Bytes, now: Instant) {
        self.now = now;
        self.tun_packets += 1;
        let Some(path) = &mut self.path else {
            self.tun_drops.count(DropReason::NoTunnel);
            return;
        };
        if let Err(reason) = self.guard.judge_outward(&packet) {
            self.tun_drops.count(reason);
            return;
        }
        path.handle_packet(packet, now);
        self.drain_icmp();
    }

    fn drain_icmp(&mut self) {
        let Some(path) = &mut self.path else { return };
        while let Some(error) = path.poll_icmp() {
            self.out.push_back(Output::Deliver(error));
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self, now: Instant) -> Option<Output> {
        self.now = now;
        if let Some(output) = self.out.pop_front() {
            return Some(output);
        }
        let path = self.path.as_mut()?;
        let datagram = path.poll_datagram(now);
        let end = path.poll_messages_end().map(Output::MessagesEnded);
        self.out.extend(end);
        self.drain_icmp();
        datagram
            .map(Output::Datagram)
            .or_else(|| self.out.pop_front())
    }

    /// When to call [`Client::handle_timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if !self.out.is_empty() {
            return Some((self.now, "output"));
        }
        let path = self.path.as_ref().and_then(Path::poll_timeout);
        [self.dial.poll_timeout(), path]
            .into_iter()
            .flatten()
            .min_by_key(|(at, _)| *at)
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.dial.is_overdue(now) {
            let words = format!("no answer within {:?}", self.config.dial_timeout);
            self.give_up_dial(
                Violation {
                    code: ErrorCode::Idle,
                    words,
                },
                now,
            );
        }
        if self.may_dial(now) {
            self.reason = "dialling".to_owned();
            let attempt = self.dial.attempt();
            self.out.push_back(Output::Dial { attempt });
        }
        let result = match &mut self.path {
            Some(path) => path.handle_timeout(now),
            None => Ok(()),
        };
        self.drain_received();
        self.drain_icmp();
        if let Err(violation) = result {
            self.on_gone(violation, now);
        }
    }

    /// A snapshot.
    pub fn status(&self, now: Instant) -> ClientStatus {
        let (state, next) = match self.dial.state() {
            State::Waiting { until } => ("waiting", Some(until.saturating_duration_since(now))),
            State::Dialing { .. } => ("dialing", None),
            State::Greeting { .. } => ("greeting", None),
            State::Up { .. } => ("up", None),
        };
        let mut status = ClientStatus {
            state,
            reason: self.reason.clone(),
            next_dial_in_ms: next.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            dials: self.dial.attempt(),
            sessions: self.sessions,
            resumes: self.resumes,
            addresses: self.addresses,
            path: self.path.as_ref().map(PathStatus::of),
            tun_packets: self.tun_packets,
            tun_drops: self.tun_drops,
            received_drops: self.received_drops,
            delivered: self.delivered,
            early_datagrams: self.early_datagrams,
            ended: self.ended,
            quiet: self.quiet.status(now),
            dial_gate: Some(self.dial.gate_status(now)),
            max_sends_of_one_pack: 0,
            unaccounted: 0,
        };
        let books = status.books();
        status.max_sends_of_one_pack = books.max_sends_of_one_pack();
        status.unaccounted = books.unaccounted();
        status
    }
}
