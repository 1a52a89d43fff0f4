//! One exit provider of a client.
//!
//! A composition: `dial` says when to connect, [`crate::path`] carries packets. What
//! this file adds is the greeting (HELLO, WELCOME) and the books of its sessions. A
//! session outlives its connection: see `session`. Which packets it gets, and whether
//! it is to be dialled at all, is the client's.
//!
//! The driver tells each fact with the number of the dial it belongs to; what
//! comes late from an earlier dial is ignored.
//!
//! What the owner has to see to after each call lies in [`Exit::take_news`]; packets
//! and datagrams are polled.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quell_wire::control::{Control, ControlDecoder, Hello, Welcome};
use quell_wire::key::PublicKey;
use quell_wire::registry::{self, ErrorCode};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::contracts::Billed;
use super::dial::{Dial, State};
use super::exit_id::ExitId;
use super::output::{Loss, Notice, Output};
use super::session::Held;
use crate::budget::ProcessBudget;
use crate::config::ClientConfig;
use crate::greeting::encode;
use crate::health::Signal;
use crate::path::{CarrierFacts, Path, PathBooks, PathTerms, Role, Violation};
use crate::status::{ExitStatus, PathStatus, TunnelAddresses};

/// What all exits of a client have in common.
#[derive(Debug, Clone)]
pub(super) struct ExitTerms {
    pub(super) config: Arc<ClientConfig>,
    pub(super) agent: String,
    pub(super) mtu_max: u16,
    pub(super) signal: Signal,
    pub(super) budget: ProcessBudget,
    /// Contracts are sent to who wants them.
    pub(super) offers_contracts: bool,
}

/// What happened to an exit that concerns the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct News {
    /// A session is up or goes on.
    pub(super) up: bool,
    /// A dial is over, whatever became of it.
    pub(super) dial_ended: bool,
    /// The session ended: nothing that it carried goes on.
    pub(super) gone: bool,
    /// The connection, or the dial, failed; a session may wait for another.
    pub(super) failed: bool,
    /// It will stop soon.
    pub(super) drains: bool,
}

/// One provider, and what this client has with it.
#[derive(Debug)]
pub(super) struct Exit {
    pub(super) id: ExitId,
    /// What the catalog knows it by; none for one that the client was made with.
    pub(super) key: Option<PublicKey>,
    /// The catalog names it no longer.
    pub(super) unlisted: bool,
    /// Nothing is in hand for it that would let it be used.
    pub(super) unready: bool,
    terms: ExitTerms,
    pub(super) rng: SmallRng,
    pub(super) dial: Dial,
    decoder: ControlDecoder,
    /// Boxed: most exits of a catalog have none.
    pub(super) path: Option<Box<Path>>,
    /// What names the session of the path.
    pub(super) held: Option<Held>,
    carrier: Option<CarrierFacts>,
    /// What the provider knows this client by.
    addresses: TunnelAddresses,
    pub(super) out: VecDeque<Output>,
    pub(super) billed: Billed,
    news: News,
    pub(super) reason: String,
    /// The provider said that it stops.
    pub(super) draining: bool,
    /// The path's progress when the session came up: more proves that it answers.
    pub(super) progress_before: u64,
    /// Of paths that ended.
    pub(super) progress_ended: u64,
    sessions: u64,
    pub(super) resumes: u64,
    early_datagrams: u64,
    /// `None`: none ended. Most exits of a catalog are never dialled.
    ended: Option<Box<PathBooks>>,
}

impl Exit {
    pub(super) fn new(id: ExitId, terms: ExitTerms, seed: u64, now: Instant) -> Self {
        Self {
            id,
            key: None,
            unlisted: false,
            unready: false,
            dial: Dial::new(&terms.config, seed, now),
            terms,
            rng: SmallRng::seed_from_u64(seed),
            decoder: ControlDecoder::new(),
            path: None,
            held: None,
            carrier: None,
            addresses: TunnelAddresses::default(),
            out: VecDeque::new(),
            billed: Billed::default(),
            news: News::default(),
            reason: "starting".to_owned(),
            draining: false,
            progress_before: 0,
            progress_ended: 0,
            sessions: 0,
            resumes: 0,
            early_datagrams: 0,
            ended: None,
        }
    }

    /// Nothing is left of it: no session, no connection, no dial.
    pub(super) fn is_at_rest(&self) -> bool {
        self.path.is_none() && matches!(self.dial.state(), State::Waiting { .. })
    }

    /// Nothing is left of it, and all that came of it was taken.
    pub(super) fn is_dormant(&self) -> bool {
        self.is_at_rest()
            && self.out.is_empty()
            && self.news == News::default()
            && !self.billed.has_news()
    }

    /// Another provider takes this place; what was counted in it stays.
    pub(super) fn succeed(&mut self, key: PublicKey, seed: u64, now: Instant) {
        let mut dial = Dial::new(&self.terms.config, seed, now);
        dial.continue_from(self.dial.attempt());
        self.dial = dial;
        self.rng = SmallRng::seed_from_u64(seed);
        (self.key, self.unlisted, self.draining) = (Some(key), false, false);
        self.unready = false;
        self.held = None;
        self.addresses = TunnelAddresses::default();
        "new in the catalog".clone_into(&mut self.reason);
    }

    pub(super) fn terms_mut(&mut self) -> &mut ExitTerms {
        &mut self.terms
    }

    /// What happened since the last call.
    pub(super) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// The machine slept: what is there may be another network, and the other end may
    /// have given us up. One question finds out at once, and a dial that waits is due.
    pub(super) fn on_wake(&mut self, now: Instant) {
        match &mut self.path {
            Some(path) if !path.is_suspended() => path.want_ping(),
            Some(_) | None => self.dial.postpone(now),
        }
    }

    /// The QUIC connection of this dial stands, the provider's key was right.
    pub(super) fn on_connected(&mut self, attempt: u64, now: Instant) {
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
            features: Billed::features(self.terms.offers_contracts),
            agent: self.terms.agent.clone(),
            limits: self.terms.config.path.lanes.receive.first_credit(),
        });
        self.say(&hello, now);
    }

    pub(super) fn say(&mut self, message: &Control, now: Instant) {
        let exit = self.id;
        match encode(message) {
            Ok(bytes) => self.out.push_back(Output::Control { exit, bytes }),
            Err(violation) => self.close(violation, now),
        }
    }

    /// The dial failed, or its connection is gone.
    pub(super) fn on_closed(&mut self, attempt: u64, loss: Loss, now: Instant) {
        if self.is_current(attempt) {
            self.lose(loss, now);
        }
    }

    fn is_current(&self, attempt: u64) -> bool {
        attempt == self.dial.attempt() && !matches!(self.dial.state(), State::Waiting { .. })
    }

    /// What is left of the session: nothing. Its books are kept.
    pub(super) fn end_path(&mut self) {
        self.held = None;
        if let Some(mut path) = self.path.take() {
            self.billed.on_path_end(&path);
            path.close();
            let (exit, end) = (self.id, path.poll_messages_end());
            self.out
                .extend(end.map(|end| Output::MessagesEnded { exit, end }));
            self.progress_ended += path.progress();
            **self.ended.get_or_insert_default() += PathBooks::of(&path);
            self.news.gone = true;
        }
    }

    /// The dial or its connection is over; the session only where it ended.
    pub(super) fn redial(&mut self, words: String, fenced: bool, now: Instant) {
        let was_up = matches!(self.dial.state(), State::Up { .. });
        (self.news.dial_ended, self.news.failed) = (true, true);
        (self.carrier, self.draining) = (None, false);
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
        self.notify(notice);
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        let exit = self.id;
        self.out.push_back(Output::Notice { exit, notice });
    }

    /// Bytes of the control stream.
    pub(super) fn handle_control(&mut self, attempt: u64, bytes: &[u8], now: Instant) {
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
                (self.draining, self.news.drains) = (true, true);
                self.on_goaway(&goaway);
                Ok(())
            }
            (message, _) => self.handle_contract_message(message),
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
        self.addresses = TunnelAddresses {
            ipv4: welcome.ipv4,
            ipv6: welcome.ipv6,
            gateway_ipv4: welcome.gateway_ipv4,
            gateway_ipv6: welcome.gateway_ipv6,
        };
        self.sessions += 1;
        let offers = self.terms.offers_contracts;
        self.billed.on_welcome(offers, welcome.features);
        self.held = Some(Held::new(welcome.session_id));
        self.path = Some(Box::new(self.open_path(welcome, now)));
        self.progress_before = 0;
        self.on_up(now);
        Ok(())
    }

    /// The provider carries the session from here on.
    pub(super) fn on_up(&mut self, now: Instant) {
        let failures_before = self.dial.failures();
        self.dial.on_welcome(now);
        (self.news.dial_ended, self.news.up) = (true, true);
        self.reason = "up".to_owned();
        self.billed.on_up();
        self.notify(Notice::Up { failures_before });
    }

    fn open_path(&mut self, welcome: &Welcome, now: Instant) -> Path {
        // A provider that names an MTU below IPv6's minimum cannot be meant.
        let mtu_max = self.terms.mtu_max.min(welcome.mtu.max(1_280));
        let terms = PathTerms {
            config: self.terms.config.path.clone(),
            role: Role::Client,
            mtu_max,
            signal: self.terms.signal.clone(),
            budget: self.terms.budget.clone(),
            seed: self.rng.random(),
        };
        let mut path = Path::new(terms, now);
        path.on_first_credit(welcome.limits);
        let gateways = [
            self.addresses.gateway_ipv4.map(IpAddr::from),
            self.addresses.gateway_ipv6.map(IpAddr::from),
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
        let exit = self.id;
        self.out.push_back(Output::Close { exit, violation });
        self.end_path();
        self.redial(words, false, now);
    }

    /// The client has no use for this provider any more: the connection or the dial is
    /// closed, the session ends, and nothing more comes of itself.
    pub(super) fn leave(&mut self, why: &str, now: Instant) {
        let waits = matches!(self.dial.state(), State::Waiting { .. });
        let violation = Violation {
            code: ErrorCode::NoError,
            words: why.to_owned(),
        };
        if waits {
            self.end_path();
            why.clone_into(&mut self.reason);
            return;
        }
        self.close(violation, now);
    }

    /// Ends the connection or the dial alone.
    fn give_up_dial(&mut self, violation: Violation, now: Instant) {
        let words = violation.words.clone();
        let exit = self.id;
        self.out.push_back(Output::Close { exit, violation });
        self.lose(words.into(), now);
    }

    pub(super) fn carrier(&self) -> Option<CarrierFacts> {
        self.carrier
    }

    /// What the QUIC connection of this dial can take, and what it has let go.
    pub(super) fn on_carrier(&mut self, attempt: u64, facts: CarrierFacts, now: Instant) {
        if !self.is_current(attempt) {
            return;
        }
        self.carrier = Some(facts);
        if let Some(path) = self.live_path() {
            path.on_carrier(facts, now);
        }
    }

    /// The path, while a connection carries it.
    fn live_path(&mut self) -> Option<&mut Path> {
        self.path.as_deref_mut().filter(|path| !path.is_suspended())
    }

    /// QUIC refused the datagram that was handed to it last.
    pub(super) fn on_refused(&mut self, attempt: u64, now: Instant) {
        let current = attempt == self.dial.attempt();
        if let Some(path) = self.path.as_deref_mut().filter(|_| current) {
            path.on_refused(now);
        }
    }

    /// A QUIC datagram of this dial's connection.
    ///
    /// # Errors
    /// The session is over. What came before the breach was in order: it is taken
    /// first, then [`Exit::close`] is called.
    pub(super) fn handle_datagram(
        &mut self,
        attempt: u64,
        datagram: &Bytes,
        now: Instant,
    ) -> Result<(), Violation> {
        if !self.is_current(attempt) {
            return Ok(());
        }
        // Before the WELCOME or RESUMED is read, datagrams that overtook it find no path.
        match self.live_path() {
            Some(path) => path.handle_datagram(datagram, now),
            None => {
                self.early_datagrams += 1;
                Ok(())
            }
        }
    }

    /// Whether [`Exit::poll_datagram`] would yield nothing, and nothing waits to be taken.
    pub(super) fn is_resting(&self, now: Instant) -> bool {
        let rests = |path: &Path| path.is_resting(now);
        self.out.is_empty() && self.path.as_deref().is_none_or(rests)
    }

    /// The next datagram for the connection.
    pub(super) fn poll_datagram(&mut self, now: Instant) -> Option<Bytes> {
        let path = self.path.as_deref_mut()?;
        let datagram = path.poll_datagram(now);
        if let Some(end) = path.poll_messages_end() {
            let exit = self.id;
            self.out.push_back(Output::MessagesEnded { exit, end });
        }
        datagram
    }

    /// When to call [`Exit::handle_timeout`], and why. `is_wanted`: a dial that is due
    /// is to be started.
    pub(super) fn poll_timeout(&self, is_wanted: bool) -> Option<(Instant, &'static str)> {
        let waits = matches!(self.dial.state(), State::Waiting { .. });
        let dial = self.dial.poll_timeout().filter(|_| is_wanted || !waits);
        let path = self.path.as_deref().and_then(Path::poll_timeout);
        [dial, path].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Does what is due at `now`, but for dialling.
    ///
    /// # Errors
    /// The session is over: what was received is taken first, then [`Exit::on_gone`]
    /// is called.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Result<(), Violation> {
        if self.dial.is_overdue(now) {
            let words = format!("no answer within {:?}", self.terms.config.dial_timeout);
            let violation = Violation {
                code: ErrorCode::Idle,
                words,
            };
            self.give_up_dial(violation, now);
        }
        match &mut self.path {
            Some(path) => path.handle_timeout(now),
            None => Ok(()),
        }
    }

    /// A dial was started.
    pub(super) fn on_dialling(&mut self) {
        self.reason = "dialling".to_owned();
        let (exit, attempt) = (self.id, self.dial.attempt());
        self.out.push_back(Output::Dial { exit, attempt });
    }

    // --- what the client asks ---------------------------------------------

    /// What the provider knows this client by.
    pub(super) fn addresses(&self) -> &TunnelAddresses {
        &self.addresses
    }

    /// Whether a connection carries the session, and the provider means to go on.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.dial.state(), State::Up { .. }) && self.path.is_some()
    }

    /// Whether the session that is up has proved that it carries: an answer came.
    pub(super) fn is_proved(&self) -> bool {
        let progress = self.path.as_deref().map_or(0, Path::progress);
        self.is_up() && progress > self.progress_before
    }

    /// Whether new flows are well here: up, proved, answering, listed, and not about to
    /// stop.
    pub(super) fn is_usable(&self) -> bool {
        let stalled = self.path.as_deref().is_some_and(Path::is_stalled);
        self.is_proved() && !stalled && !self.draining && !self.unlisted
    }

    /// Progress made so far over all of its paths, in no unit.
    pub(super) fn progress(&self) -> u64 {
        self.progress_ended + self.path.as_deref().map_or(0, Path::progress)
    }

    /// Whether the carrier is to be looked at when something has left it.
    pub(super) fn awaits_departure(&self) -> bool {
        self.path.as_deref().is_some_and(Path::awaits_departure)
    }

    /// Whether what is handed over must leave whatever the congestion window says:
    /// see [`Path::is_hushed`].
    pub(super) fn is_hushed(&self, now: Instant) -> bool {
        self.path.as_deref().is_some_and(|path| path.is_hushed(now))
    }

    /// A snapshot.
    pub(super) fn status(&self, now: Instant) -> ExitStatus {
        let (state, next) = match self.dial.state() {
            State::Waiting { until } => ("waiting", Some(until.saturating_duration_since(now))),
            State::Dialing { .. } => ("dialing", None),
            State::Greeting { .. } => ("greeting", None),
            State::Up { .. } => ("up", None),
        };
        ExitStatus {
            state,
            reason: self.reason.clone(),
            next_dial_in_ms: next.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            dials: self.dial.attempt(),
            sessions: self.sessions,
            resumes: self.resumes,
            addresses: self.path.is_some().then_some(self.addresses),
            path: self.path.as_deref().map(PathStatus::of),
            early_datagrams: self.early_datagrams,
            ended: self.ended.as_deref().copied().unwrap_or_default(),
            dial_gate: Some(self.dial.gate_status(now)),
            ..ExitStatus::default()
        }
    }
}
