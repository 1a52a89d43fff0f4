//! One client of a provider, from its connection to its end.
//!
//! ```text
//! Greeting --HELLO, version ok--> Asking --address free--> Up <--RESUME-- Suspended
//!     |                              |                      |
//!     +- hello_timeout, wrong message, none free, a breach -+--> Closing (the driver closes the connection)
//!                                                           '--connection lost--> Suspended
//! ```
//!
//! Only `Up` carries packets; `Suspended` has no driver and takes what waits. A RESUME
//! moves the path into the session of the connection that it came on.
//! Every packet of the client must come from an
//! address of this session (RFC 2827): a client that borrows another's address
//! would be answered in its place (case B78). Where it may go, the rules say.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_packet::IpPacket;
use quell_wire::control::{
    Control, ControlDecoder, ErrorMessage, FlowClose, Goaway, Hello, Resume, Resumed,
    SessionId as WireId, Welcome,
};
use quell_wire::key::PublicKey;
use quell_wire::registry::{self, ErrorCode};

use super::billing::Billing;
use super::closed::{ClosedFlows, Inward, key_of};
use super::fair::ShareStatus;
use super::limits::{ClientLimits, DestinationTokens};
use super::rules::{EgressCounters, EgressGuard, Fate};
use crate::budget::ProcessBudget;
use crate::config::ProviderConfig;
use crate::drops::{DropReason, Drops};
use crate::greeting::encode;
use crate::health::Signal;
use crate::path::{CarrierFacts, MessagesEnd, Path, PathTerms, Role, Violation};
use crate::status::{PathStatus, SessionStatus, TunnelAddresses};

/// What the driver of a session has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Write these bytes to the control stream.
    Control(Bytes),
    /// Send this QUIC datagram.
    Datagram(Bytes),
    /// Hand this packet to the egress.
    Deliver(Bytes),
    /// The session carries no more messages to the client.
    MessagesEnded(MessagesEnd),
    /// Close the connection with a code and a reason in words.
    Close(Violation),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting {
        deadline: Instant,
    },
    /// HELLO was read; the provider decides before the next input.
    Asking,
    Up {
        addresses: TunnelAddresses,
    },
    Suspended {
        addresses: TunnelAddresses,
    },
    Closing,
}

/// What a client asked for, which only the provider as a whole can decide.
#[derive(Debug)]
pub(super) enum Request {
    Welcome(Hello),
    Resume(Resume),
    Contract(Bytes),
    Receipt(Bytes),
}

/// One client's session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) key: PublicKey,
    client: String,
    state: State,
    decoder: ControlDecoder,
    pub(super) path: Path,
    /// What names the session on the wire, and the connection of it that holds.
    wire: Option<(WireId, u64)>,
    out: VecDeque<Output>,
    /// Packets of the client for the egress, judged; whose turn it is, the provider decides.
    passed: VecDeque<Bytes>,
    limits: ClientLimits,
    received_drops: Drops,
    delivered: u64,
    delivered_bytes: u64,
    closed: ClosedFlows,
    guard: EgressGuard,
    /// Of a session that is carried under contracts.
    pub(super) billing: Option<Box<Billing>>,
    /// As last seen, for a path that is taken over.
    carrier: Option<CarrierFacts>,
    now: Instant,
}

impl Session {
    pub(super) fn new(
        config: &ProviderConfig,
        (key, client): (PublicKey, String),
        mtu_max: u16,
        ((signal, budget), seed): ((Signal, ProcessBudget), u64),
        guard: EgressGuard,
        now: Instant,
    ) -> Self {
        let terms = PathTerms {
            config: config.path.clone(),
            role: Role::Provider,
            mtu_max,
            signal,
            budget,
            seed,
        };
        Self {
            key,
            client,
            state: State::Greeting {
                deadline: now + config.hello_timeout,
            },
            decoder: ControlDecoder::new(),
            path: Path::new(terms, now),
            wire: None,
            out: VecDeque::new(),
            passed: VecDeque::new(),
            limits: ClientLimits::new(&config.client, seed),
            received_drops: Drops::default(),
            delivered: 0,
            delivered_bytes: 0,
            closed: ClosedFlows::new(config.closed_flows.clone(), seed),
            guard,
            billing: None,
            carrier: None,
            now,
        }
    }

    pub(super) fn path(&mut self) -> &mut Path {
        &mut self.path
    }

    pub(super) fn guard(&mut self) -> &mut EgressGuard {
        &mut self.guard
    }

    pub(super) fn egress_counters(&self) -> EgressCounters {
        self.guard.counters()
    }

    pub(super) fn received_drops(&self) -> Drops {
        self.received_drops
    }

    pub(super) fn path_ref(&self) -> &Path {
        &self.path
    }

    pub(super) fn awaits_departure(&self) -> bool {
        self.is_up() && self.path.awaits_departure()
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Takes bytes of the control stream; requests are for the provider.
    pub(super) fn handle_control(&mut self, bytes: &[u8], now: Instant) -> Vec<Request> {
        self.now = now;
        let mut requests = Vec::new();
        if self.state == State::Closing {
            return requests;
        }
        self.decoder.push(bytes);
        loop {
            match self.decoder.next() {
                Ok(Some(message)) => match self.handle_message(message) {
                    Ok(request) => requests.extend(request),
                    Err(violation) => {
                        self.close(violation);
                        return requests;
                    }
                },
                Ok(None) => return requests,
                Err(error) => {
                    self.close(Violation {
                        code: error.code(),
                        words: error.to_string(),
                    });
                    return requests;
                }
            }
        }
    }

    fn handle_message(&mut self, message: Control) -> Result<Option<Request>, Violation> {
        match (message, self.state) {
            (Control::Hello(hello), State::Greeting { .. }) => {
                if hello.version == registry::VERSION {
                    self.state = State::Asking;
                    return Ok(Some(Request::Welcome(hello)));
                }
                let words = format!(
                    "the client speaks version {}, this provider {}",
                    hello.version,
                    registry::VERSION
                );
                Err(Violation {
                    code: ErrorCode::UnsupportedVersion,
                    words,
                })
            }
            (Control::Resume(resume), State::Greeting { .. }) => {
                self.state = State::Asking;
                Ok(Some(Request::Resume(resume)))
            }
            (Control::FlowClose(close), State::Up { addresses }) => {
                self.close_flow(&close, &addresses)?;
                Ok(None)
            }
            (Control::Contract(contract), State::Up { .. }) if self.is_billed() => {
                Ok(Some(Request::Contract(contract.bytes)))
            }
            (Control::Receipt(receipt), State::Up { .. }) if self.is_billed() => {
                Ok(Some(Request::Receipt(receipt.bytes)))
            }
            (message, _) => Err(Violation {
                code: ErrorCode::WrongState,
                words: format!("{} was not expected here", message.name()),
            }),
        }
    }

    /// The client gives a flow up. One that its packets could not be of is not closed: the
    /// reset that it draws goes where a packet of the client would.
    fn close_flow(
        &mut self,
        close: &FlowClose,
        addresses: &TunnelAddresses,
    ) -> Result<(), Violation> {
        self.closed.admit(self.now)?;
        let flow = &close.flow;
        let is_ours = addresses.owns(flow.source) && quell_packet::addr::is_host(flow.destination);
        if !is_ours || self.guard.denies(&key_of(close)) {
            self.closed.refuse();
            return Ok(());
        }
        let reset = self.closed.close(close, self.now);
        self.out.extend(reset.map(Output::Deliver));
        Ok(())
    }

    /// Whether the provider's decision is awaited.
    pub(super) fn is_asking(&self) -> bool {
        self.state == State::Asking
    }

    /// The session is accepted with these addresses.
    pub(super) fn welcome(
        &mut self,
        hello: &Hello,
        features: u64,
        addresses: TunnelAddresses,
        session_id: [u8; 16],
        mtu: u16,
    ) {
        self.path.on_first_credit(hello.limits);
        self.state = State::Up { addresses };
        self.wire = Some((session_id, 0));
        let client = [
            addresses.ipv4.map(|a| IpAddr::from(a.0)),
            addresses.ipv6.map(|a| a.0.into()),
        ];
        // Errors towards the world must not come from an address of the host
        // itself: its kernel would drop them as spoofed.
        client
            .into_iter()
            .flatten()
            .for_each(|source| self.path.set_icmp_source(source));
        let welcome = Welcome {
            version: registry::VERSION,
            features,
            session_id,
            ipv4: addresses.ipv4,
            ipv6: addresses.ipv6,
            gateway_ipv4: addresses.gateway_ipv4,
            gateway_ipv6: addresses.gateway_ipv6,
            mtu,
            limits: self.path.first_credit(),
        };
        self.say(&Control::Welcome(welcome));
    }

    pub(super) fn say(&mut self, message: &Control) {
        match encode(message) {
            Ok(bytes) => self.out.push_back(Output::Control(bytes)),
            Err(violation) => self.close(violation),
        }
    }

    /// Tells the client that its session is carried for `drain` and no longer.
    pub(super) fn go_away(&mut self, reason: ErrorCode, drain: Duration) {
        self.say(&Control::Goaway(Goaway {
            reason: reason.code(),
            drain_ms: u64::try_from(drain.as_millis()).unwrap_or(u64::MAX),
        }));
    }

    // --- RESUME ----------------------------------------------------------

    /// The connection is gone; whether the session waits for another.
    pub(super) fn suspend(&mut self, now: Instant) -> bool {
        let State::Up { addresses } = self.state else {
            return false;
        };
        self.now = now;
        self.state = State::Suspended { addresses };
        self.path.suspend(now);
        // What was to be said was to be said on the dead connection.
        let stays = |out: &Output| matches!(out, Output::Deliver(_) | Output::MessagesEnded(_));
        self.out.retain(stays);
        true
    }

    pub(super) fn is_suspended(&self) -> bool {
        matches!(self.state, State::Suspended { .. })
    }

    /// Whether `resume` names this session, and a connection of it that is newer.
    pub(super) fn is_named_by(&self, resume: &Resume) -> bool {
        let lives = self.is_up() || self.is_suspended();
        let named = |(id, epoch)| id == resume.session_id && epoch < resume.epoch;
        lives && self.wire.is_some_and(named)
    }

    /// Goes on with what `older` was, on this connection. The books of it move too.
    pub(super) fn take_over(&mut self, older: &mut Self, resume: &Resume, now: Instant) {
        let (State::Up { addresses } | State::Suspended { addresses }) = older.state else {
            return;
        };
        self.now = now;
        if !older.is_suspended() {
            older.path.suspend(now);
        }
        std::mem::swap(&mut self.path, &mut older.path);
        std::mem::swap(&mut self.received_drops, &mut older.received_drops);
        std::mem::swap(&mut self.delivered, &mut older.delivered);
        std::mem::swap(&mut self.delivered_bytes, &mut older.delivered_bytes);
        std::mem::swap(&mut self.closed, &mut older.closed);
        std::mem::swap(&mut self.guard, &mut older.guard);
        std::mem::swap(&mut self.passed, &mut older.passed);
        std::mem::swap(&mut self.limits, &mut older.limits);
        std::mem::swap(&mut self.billing, &mut older.billing);
        self.state = State::Up { addresses };
        self.wire = Some((resume.session_id, resume.epoch));
        let facts = self.carrier.take();
        if let Err(violation) = self.path.resume(&resume.lanes, facts, now) {
            self.close(violation);
            return;
        }
        let resumed = Resumed {
            session_id: resume.session_id,
            epoch: resume.epoch,
            lanes: self.path.resume_lanes(),
        };
        self.say(&Control::Resumed(resumed));
    }

    /// The session that the client asks for is not here: it may greet anew.
    pub(super) fn refuse_resume(&mut self, deadline: Instant) {
        self.state = State::Greeting { deadline };
        let error = ErrorMessage::new(ErrorCode::SessionGone, "it is not known here");
        self.say(&Control::Error(error));
    }

    /// What the connection can take, and what has left.
    pub(super) fn on_carrier(&mut self, facts: CarrierFacts, now: Instant) {
        self.carrier = Some(facts);
        self.path.on_carrier(facts, now);
    }

    /// Takes a datagram; `false` when the session is not up and does not look at it.
    ///
    /// An honest client sends none before WELCOME. A session that ends may still
    /// be sent some.
    pub(super) fn handle_datagram(&mut self, datagram: &Bytes, now: Instant) -> bool {
        self.now = now;
        if !self.is_up() {
            return false;
        }
        let result = self.path.handle_datagram(datagram, now);
        self.drain_received();
        if let Err(violation) = result {
            self.close(violation);
        }
        true
    }

    fn drain_received(&mut self) {
        while let Some(packet) = self.path.poll_received() {
            match self.judge(&packet) {
                Ok(Fate::Pass) if !self.pays_for(packet.len()) => {
                    self.received_drops.count(DropReason::Unpaid);
                }
                Ok(Fate::Pass) => {
                    let packet = self.path.clamp_mss(packet);
                    self.passed.push_back(packet);
                }
                Err(reason) => {
                    self.received_drops.count(reason);
                    self.tell_of_refusal(reason, &packet);
                }
                Ok(Fate::Denied(answer)) => {
                    self.received_drops.count(DropReason::Denied);
                    self.answer(answer);
                }
                Ok(Fate::Answered(answer)) => self.answer(Some(answer)),
            }
        }
    }

    /// Says something of our own to the client.
    fn answer(&mut self, packet: Option<Bytes>) {
        if let Some(packet) = packet {
            self.path.handle_packet(packet, self.now);
        }
    }

    fn judge(&mut self, packet: &[u8]) -> Result<Fate, DropReason> {
        let view = IpPacket::parse(packet).map_err(|_| DropReason::Malformed)?;
        let (State::Up { addresses } | State::Suspended { addresses }) = self.state else {
            return Err(DropReason::PathClosed);
        };
        if !addresses.owns(view.source()) {
            return Err(DropReason::SourceNotAssigned);
        }
        if !quell_packet::addr::is_host(view.destination()) {
            return Err(DropReason::NotUnicast);
        }
        if self.closed.holds_outward(&view, self.now) {
            return Err(DropReason::FlowClosed);
        }
        match self.guard.judge(&view, self.now) {
            Fate::Pass => {
                self.limits.judge(&view, self.now)?;
                Ok(Fate::Pass)
            }
            fate @ (Fate::Denied(_) | Fate::Answered(_)) => Ok(fate),
        }
    }

    /// Tells the client why a packet went nowhere, where that is not its own doing alone.
    fn tell_of_refusal(&mut self, reason: DropReason, packet: &[u8]) {
        let State::Up { addresses } = self.state else {
            return;
        };
        if matches!(reason, DropReason::FlowLimit | DropReason::DestinationLimit)
            && let Some(answer) = self.limits.refuse(packet, &addresses, self.now)
        {
            self.path.handle_packet(answer, self.now);
        }
    }

    /// The next packet of the client for the egress.
    pub(super) fn pop_passed(&mut self) -> Option<Bytes> {
        self.passed.pop_front()
    }

    /// A packet of the client, of `len` bytes, went to the egress.
    pub(super) fn on_delivered(&mut self, len: usize) {
        self.delivered += 1;
        self.delivered_bytes += len as u64;
    }

    /// What the client has left for new destinations.
    pub(super) fn tokens(&self) -> DestinationTokens {
        self.limits.tokens()
    }

    /// Goes on with what an earlier session of the client had left.
    pub(super) fn set_tokens(&mut self, tokens: Option<DestinationTokens>) {
        if let Some(tokens) = tokens {
            self.limits.set_tokens(tokens);
        }
    }

    /// A packet of the world for this client, or why the path does not get it.
    pub(super) fn handle_packet(&mut self, packet: Bytes, now: Instant) -> Result<(), DropReason> {
        self.now = now;
        if let Inward::Drop { reset } = self.closed.judge_inward(&packet, now) {
            self.out.extend(reset.map(Output::Deliver));
            return Err(DropReason::FlowClosed);
        }
        if self
            .billing
            .as_ref()
            .is_some_and(|billing| !billing.is_open())
        {
            return Err(DropReason::Unpaid);
        }
        self.limits.note_inward(&packet, now);
        let (len, laned_bytes) = (packet.len(), self.path.laned_bytes());
        self.path.handle_packet(packet, now);
        if let Some(billing) = &mut self.billing {
            billing.charge(len, self.path.laned_bytes().saturating_sub(laned_bytes));
        }
        self.drain_icmp();
        Ok(())
    }

    fn drain_icmp(&mut self) {
        while let Some(error) = self.path.poll_icmp() {
            self.out.push_back(Output::Deliver(error));
        }
    }

    /// Ends the session; what waits is dropped and counted. What was acknowledged and waits for its order is passed
    /// before: nobody else has it.
    pub(super) fn close(&mut self, violation: Violation) {
        if self.state == State::Closing {
            return;
        }
        if self.is_up() {
            self.path.release_holds();
            self.drain_received();
        }
        self.state = State::Closing;
        self.path.close();
        let end = self.path.poll_messages_end().map(Output::MessagesEnded);
        self.out.extend(end);
        self.out.push_back(Output::Close(violation));
    }

    pub(super) fn poll_output(&mut self, now: Instant) -> Option<Output> {
        self.now = now;
        if let Some(output) = self.out.pop_front() {
            return Some(output);
        }
        if !self.is_up() {
            return None;
        }
        let datagram = self.path.poll_datagram(now);
        if let Some(end) = self.path.poll_messages_end() {
            self.out.push_back(Output::MessagesEnded(end));
        }
        self.drain_icmp();
        datagram
            .map(Output::Datagram)
            .or_else(|| self.out.pop_front())
    }

    pub(super) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if !self.out.is_empty() || !self.passed.is_empty() {
            return Some((self.now, "output"));
        }
        match self.state {
            State::Greeting { deadline } => Some((deadline, "hello timeout")),
            State::Up { .. } => {
                let billing = self
                    .billing
                    .as_ref()
                    .and_then(|billing| billing.poll_timeout());
                let due = [self.path.poll_timeout(), billing];
                due.into_iter().flatten().min_by_key(|(at, _)| *at)
            }
            State::Suspended { .. } => self.path.poll_timeout(),
            State::Asking | State::Closing => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        match self.state {
            State::Greeting { deadline } if now >= deadline => self.close(Violation {
                code: ErrorCode::HelloTimeout,
                words: "no HELLO in time".to_owned(),
            }),
            State::Up { .. } | State::Suspended { .. } => {
                let result = self.path.handle_timeout(now);
                self.drain_received();
                self.drain_icmp();
                let unpaid = self.billing.as_ref().filter(|_| self.is_up());
                let unpaid = unpaid.and_then(|billing| billing.overdue(now));
                if let Some(violation) = result.err().or(unpaid) {
                    self.close(violation);
                }
            }
            State::Greeting { .. } | State::Asking | State::Closing => {}
        }
    }

    pub(super) fn status(&self) -> SessionStatus {
        let (state, addresses) = match self.state {
            State::Greeting { .. } | State::Asking => ("greeting", None),
            State::Up { addresses } => ("up", Some(addresses)),
            State::Suspended { addresses } => ("suspended", Some(addresses)),
            State::Closing => ("closing", None),
        };
        SessionStatus {
            client: self.client.clone(),
            state,
            addresses,
            path: PathStatus::of(&self.path),
            received_drops: self.received_drops,
            delivered: self.delivered,
            delivered_bytes: self.delivered_bytes,
            closed: self.closed.counters(),
            egress: self.guard.counters(),
            usage: self.limits.status(),
            outward: ShareStatus::default(),
            inward: ShareStatus::default(),
            billed: self.is_billed(),
            pause: self.pause().map(Into::into),
        }
    }
}
