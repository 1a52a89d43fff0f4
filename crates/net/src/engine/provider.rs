//! The provider's engine.
//!
//! ```text
//! accept loop ── one task a connection ──┐
//!                                        ├─ Rc<Shared>: core::provider::Provider, Outlet
//! TUN task (routes packets, wakes) ──────┘
//! ```
//!
//! All tasks share one thread, so the shared state is borrowed, never locked, and
//! never across an await.
//!
//! Who may start a handshake is the core's doorman's answer; the task of a handshake
//! holds its place until it stands, fails, or comes to the deadline it was given.
//! Told to stop, the engine accepts nobody and goes on for the drain time; told again,
//! it ends at once.
//!
//! Whose packet is next at the device is the core's answer too; see `turns`. What was carried in a month is kept by a
//! thread of its own; see `month`.

mod billing;
mod month;
mod policy;
mod reload;
mod turns;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quell_core::config::ProviderConfig;
use quell_core::multi::Loss;
use quell_core::path::Violation;
use quell_core::provider::doorman::{Answer, Ended};
use quell_core::provider::limits::{Month, MonthUse};
use quell_core::provider::{AddressPool, Output, Provider, Roster, SessionId};
use quell_core::send::Backpressure;
use quell_core::status::ProviderStatus;
use quell_underlay::Underlay;
use quell_wire::key::PublicKey;
use quell_wire::registry::ErrorCode;
use quinn_proto::ConnectionError;
use serde::Serialize;
use tokio::sync::{Notify, mpsc, watch};
use tracing::{debug, info};

use self::month::{KEEP_INTERVAL, Keeper, unix_now};
pub use self::month::{MonthKept, MonthStore};
use self::turns::Turns;
pub use billing::{BillSettings, Billing, FilingEnded};
pub use policy::Judge;
pub use reload::Reloader;

use super::client::Device;
use super::link::{self, Link, LinkEvent, Settling};
use super::messages::{self, Mailbox, Messages, Outgoing};
use super::notes::{News, Notes};
use super::{HANDOVERS_MAX, Handle, Request, now, sleep_until};
use crate::backend::{BackendHandle, BackendReport, BackendSettings, Prober};
use crate::error::NetError;
use crate::identity::Identity;
use crate::pump::{self, DeviceCounters, Inlet, Outlet, Pump};
use crate::quic::{self, Connection, Endpoint, Incoming, RecvStream, SendStream};
use crate::socket::{Protect, SocketWatch, UdpReport};
use crate::transport::TransportSettings;
use crate::{tls, words};

/// First packets that are judged in a turn of the engine. 64 take some 0.5 ms; a flood of
/// them must neither keep the engine from its sessions nor wait until QUIC forgets them.
const INITIALS_MAX: usize = 64;
/// How long the ends of all connections may take to leave the machine.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

/// What a provider needs to know.
#[derive(Debug)]
pub struct ProviderSettings {
    /// Who we are.
    pub identity: Identity,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The core's settings, validated.
    pub core: ProviderConfig,
    /// Who may connect.
    pub roster: Roster,
    /// Their addresses.
    pub pool: AddressPool,
    /// The control plane.
    pub backend: BackendSettings,
    /// QUIC's settings.
    pub transport: TransportSettings,
    /// Largest packet of the device, in bytes.
    pub mtu_max: u16,
}

/// What a provider's engine is doing.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProviderReport {
    /// The core.
    #[serde(flatten)]
    pub provider: ProviderStatus,
    /// The control plane.
    pub backend: BackendReport,
    /// UDP, over all connections.
    pub udp: UdpReport,
    /// The TUN's side.
    pub device: DeviceCounters,
    /// How the month's count is kept; `None`: it is not.
    pub month_kept: Option<MonthKept>,
}

struct Shared {
    core: RefCell<Provider>,
    outlet: RefCell<Outlet>,
    turns: Turns,
    wakers: RefCell<HashMap<SessionId, Rc<Notify>>>,
    watch: SocketWatch,
    inbox: RefCell<mpsc::Sender<(PublicKey, Bytes)>>,
    /// A connection ended: there may be a session without one, with a time of its own.
    ended: Notify,
    /// Whether there is a session whose lanes could be told anything.
    wanted: watch::Sender<bool>,
    notes: RefCell<Notes<News>>,
    /// A client said something on its control stream.
    control_heard: Notify,
}

/// The provider's engine. Runs on a current-thread runtime within a `LocalSet`.
pub struct ProviderEngine {
    endpoint: Endpoint,
    shared: Rc<Shared>,
    prober: Prober,
    policy: policy::Policy,
    pump: Pump,
    inlet: Inlet,
    requests: mpsc::Receiver<Request<ProviderReport>>,
    mailbox: Mailbox<PublicKey>,
    keeper: Option<Keeper>,
    public_key: PublicKey,
    bills: Option<billing::Bills>,
}

impl ProviderEngine {
    /// An engine that listens, over `device`, and the handle on it. Must be
    /// called within a runtime. `seed` feeds all random draws of the core.
    ///
    /// # Errors
    /// The socket cannot be opened, a thread of the device not be started, or a backend
    /// not be trusted.
    pub fn new(
        settings: ProviderSettings,
        device: Device,
        seed: u64,
    ) -> Result<(Self, Handle<ProviderReport>), NetError> {
        Self::with_protect(settings, device, None, seed)
    }

    /// As [`ProviderEngine::new`]; `protect` sees the socket before its first byte.
    ///
    /// # Errors
    /// As those, and what `protect` says.
    pub fn with_protect(
        settings: ProviderSettings,
        device: Device,
        protect: Option<Protect>,
        seed: u64,
    ) -> Result<(Self, Handle<ProviderReport>), NetError> {
        let prober = Prober::new(&settings.backend, &Underlay::default(), seed)?;
        let mut watch = SocketWatch::default();
        watch.protect = protect;
        let endpoint = quic::listen(
            &settings.identity,
            settings.listen,
            &settings.transport,
            watch.clone(),
        )?;
        let (pump, inlet, outlet) = pump::start(device.reader, device.writer, device.stop)?;
        let (handle, requests) = Handle::new();
        let mut core = Provider::new(
            settings.core,
            settings.roster,
            settings.pool,
            settings.mtu_max,
            seed,
        )
        .with_signal(prober.handle().signal());
        core.on_wall_clock(unix_now());
        let (_, mailbox) = messages::pair();
        let shared = Rc::new(Shared {
            core: RefCell::new(core),
            outlet: RefCell::new(outlet),
            turns: Turns::default(),
            wakers: RefCell::default(),
            watch,
            inbox: RefCell::new(mailbox.sender()),
            ended: Notify::new(),
            wanted: watch::Sender::new(false),
            notes: RefCell::default(),
            control_heard: Notify::new(),
        });
        let engine = Self {
            endpoint,
            shared,
            prober,
            policy: policy::Policy::default(),
            pump,
            inlet,
            requests,
            mailbox,
            keeper: None,
            public_key: settings.identity.public_key(),
            bills: None,
        };
        Ok((engine, handle))
    }

    /// The way to send messages to clients and to take theirs; the last call counts.
    pub fn messages(&mut self) -> Messages<PublicKey> {
        let (messages, mailbox) = messages::pair();
        self.shared.inbox.replace(mailbox.sender());
        self.mailbox = mailbox;
        messages
    }

    /// Goes on with what was carried in the month before a restart, and has `store` keep it.
    ///
    /// # Errors
    /// The thread that writes cannot be started.
    pub fn keep_month(
        &mut self,
        used: MonthUse,
        store: Box<dyn MonthStore>,
    ) -> Result<(), NetError> {
        let mut core = self.shared.core.borrow_mut();
        core.restore_month(used);
        core.on_wall_clock(unix_now());
        self.keeper = Some(Keeper::start(store, used)?);
        Ok(())
    }

    /// The control plane: what is known of it, and the way to tell more.
    pub fn backend(&self) -> BackendHandle {
        self.prober.handle()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addr(&self) -> Result<SocketAddr, NetError> {
        let unknown = |source| NetError::Socket {
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            source,
        };
        self.endpoint.local_addr().map_err(unknown)
    }

    /// Runs until it is told to stop and has drained, or until the TUN is gone.
    ///
    /// # Errors
    /// The TUN failed for good.
    pub async fn run(mut self) -> Result<(), NetError> {
        let _questions = self.prober.start(&self.shared.wanted.subscribe());
        let _policy = self.policy.start(&self.shared);
        let _bills = self.start_bills();
        let room = self.shared.outlet.borrow().room();
        let mut clock_at = now();
        while !self.shared.core.borrow().is_drained(now()) {
            // Before packets, which are always there when it matters to be asked.
            if let Ok(request) = self.requests.try_recv() {
                if self.serve(Some(request)) {
                    continue;
                }
                break;
            }
            self.shared.note_demand();
            let (suspended, drain) = {
                let core = self.shared.core.borrow();
                (core.poll_suspended(), core.poll_drain())
            };
            let (turn, awaits_room) = self.shared.next_turn();
            tokio::select! {
                () = sleep_until(suspended.map(|(at, _)| at)) => self.shared.handle_suspended(),
                () = sleep_until(drain.map(|(at, _)| at)) => {}
                () = self.shared.ended.notified() => {}
                () = sleep_until(turn) => self.shared.handle_turns(),
                () = room.notified(), if awaits_room => self.shared.handle_turns(),
                () = self.shared.turns.changed() => {}
                () = sleep_until(Some(clock_at)) => {
                    clock_at = now() + KEEP_INTERVAL;
                    self.note_clock();
                }
                incoming = self.endpoint.accept() => match incoming {
                    Some(incoming) => self.shared.accept_all(incoming, &self.endpoint),
                    None => break,
                },
                batch = self.inlet.receive() => match batch {
                    Some(batch) => self.shared.handle_tun(batch, &mut self.inlet),
                    None => break,
                },
                outgoing = self.mailbox.next() => self.shared.send_message(outgoing),
                request = self.requests.recv() => if !self.serve(request) {
                    break;
                },
            }
        }
        self.end().await
    }

    /// Answers a question, or begins to stop; whether it goes on.
    fn serve(&mut self, request: Option<Request<ProviderReport>>) -> bool {
        match request {
            Some(Request::Status(answer)) => {
                // Whoever asked may have gone.
                let _ = answer.send(self.report());
                true
            }
            Some(Request::Stop) if !self.shared.core.borrow().is_draining() => {
                self.shared.drain();
                true
            }
            Some(Request::Stop) | None => false,
        }
    }

    /// Tells the core what time it is, and has the month's count kept.
    fn note_clock(&mut self) {
        let unix_s = unix_now();
        let used = {
            let mut core = self.shared.core.borrow_mut();
            core.on_wall_clock(unix_s);
            core.on_contract_clock(unix_s, now());
            core.month_use()
        };
        if let Some(keeper) = &mut self.keeper {
            keeper.note(used);
            let clock = Month::of_unix(unix_s);
            if used.month > clock {
                let words = format_args!("{}, while it is {clock}", used.month);
                self.shared.note(News::MonthAhead, &words);
            }
        }
    }

    fn report(&self) -> ProviderReport {
        let provider = self.shared.core.borrow().status();
        let frames = provider.books().frame_bytes;
        ProviderReport {
            provider,
            backend: self.prober.handle().report(),
            udp: UdpReport::of(self.shared.watch.counters(), frames),
            device: self.pump.counters(),
            month_kept: self.keeper.as_ref().map(Keeper::report),
        }
    }

    async fn end(self) -> Result<(), NetError> {
        self.endpoint.refuse_new();
        self.shared
            .core
            .borrow_mut()
            .close_all(ErrorCode::ShuttingDown);
        self.shared.wake_ready();
        // Clients that miss this farewell notice by themselves.
        let _ = tokio::time::timeout(FAREWELL_TIME, self.endpoint.wait_idle()).await;
        self.endpoint.close();
        self.pump.stop_reading();
        drop(self.inlet);
        self.shared.outlet.borrow_mut().close();
        let used = self.shared.core.borrow().month_use();
        let kept = self.keeper.map_or(Ok(()), |keeper| keeper.finish(used));
        // Why the TUN failed says more.
        self.pump.stop()?;
        kept
    }
}

impl Shared {
    fn note(&self, news: News, words: &dyn fmt::Display) {
        if let Some(suppressed) = self.notes.borrow_mut().admit(news, now()) {
            news.write(suppressed, words);
        }
    }

    /// Backends are asked only while there is a session.
    fn note_demand(&self) {
        let wants = self.core.borrow().has_sessions();
        self.wanted
            .send_if_modified(|wanted| std::mem::replace(wanted, wants) != wants);
    }

    /// Has `first` judged, and what came with it.
    fn accept_all(self: &Rc<Self>, first: Incoming, endpoint: &Endpoint) {
        self.accept(first);
        for _ in 1..INITIALS_MAX {
            match endpoint.try_accept() {
                Some(incoming) => self.accept(incoming),
                None => return,
            }
        }
    }

    fn accept(self: &Rc<Self>, incoming: Incoming) {
        let (source, is_proven) = (
            incoming.remote_address(),
            incoming.remote_address_validated(),
        );
        let mut core = self.core.borrow_mut();
        match core.doorman().on_initial(source, is_proven, now()) {
            Answer::Accept { deadline } => {
                let shared = Rc::clone(self);
                tokio::task::spawn_local(async move { shared.handshake(incoming, deadline).await });
            }
            // Cannot fail: only who proved nothing is asked, and may be (RFC 9000 §17.2.5.1).
            Answer::Retry => incoming.retry(),
            Answer::Refuse(_) => incoming.refuse(),
            Answer::Ignore => drop(incoming),
        }
    }

    async fn handshake(self: Rc<Self>, incoming: Incoming, deadline: Instant) {
        let connecting = async {
            let connection = incoming.accept()?;
            connection.connected().await?;
            Ok::<_, ConnectionError>(connection)
        };
        let outcome = tokio::time::timeout_at(deadline.into(), connecting).await;
        let how = match &outcome {
            Ok(Ok(_)) => Ended::Completed,
            Ok(Err(_)) => Ended::Failed,
            Err(_) => Ended::TimedOut,
        };
        self.core.borrow_mut().doorman().on_ended(how);
        let connection = match outcome {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                debug!("handshake failed: {}", words::of_connection_error(&error));
                return;
            }
            Err(_) => {
                debug!("handshake given up: it took too long");
                return;
            }
        };
        let Some(key) = tls::peer_key(&connection) else {
            let words = "the client showed no Ed25519 key".to_owned();
            link::close(
                &connection,
                &Violation {
                    code: ErrorCode::UnknownClient,
                    words,
                },
            );
            return;
        };
        let admitted = self.core.borrow_mut().on_connection(key, now());
        match admitted {
            Ok(id) => {
                self.note_demand();
                SessionTask::run(self, id, connection).await;
            }
            Err(refusal) => {
                self.note(
                    News::Refused,
                    &format_args!("{}: {}", refusal.code.name(), refusal.words),
                );
                link::close(&connection, &refusal);
            }
        }
    }

    fn handle_tun(&self, mut batch: Vec<BytesMut>, inlet: &mut Inlet) {
        {
            let now = now();
            let mut core = self.core.borrow_mut();
            for packet in batch.drain(..) {
                core.handle_packet(packet.freeze(), now);
            }
        }
        inlet.recycle(batch);
        self.wake_ready();
    }

    /// Gives a message to its client's lane, or says at once why not: to wait for
    /// one client would make all others wait.
    fn send_message(&self, outgoing: Outgoing<PublicKey>) {
        let mut core = self.core.borrow_mut();
        let taken = match core.session_of(&outgoing.to) {
            Some(id) => {
                if let Some(waker) = self.wakers.borrow().get(&id) {
                    waker.notify_one();
                }
                core.send_message(id, &outgoing.message, now())
            }
            None => Err(Backpressure::Ended),
        };
        // Whoever sent it may have gone.
        let _ = outgoing.taken.send(taken);
    }

    /// Begins to stop: tells the clients, and carries on for a while.
    fn drain(&self) {
        let mut core = self.core.borrow_mut();
        core.drain(now());
        if let Some((until, _)) = core.poll_drain() {
            let left = until.saturating_duration_since(now());
            info!("told to stop: carrying on for {left:?} at most");
        }
        drop(core);
        self.wake_ready();
    }

    fn wake_ready(&self) {
        let mut core = self.core.borrow_mut();
        let wakers = self.wakers.borrow();
        while let Some(id) = core.poll_ready() {
            match wakers.get(&id) {
                Some(waker) => waker.notify_one(),
                None => self.drain_driverless(&mut core, id),
            }
        }
    }

    /// Does what is due for sessions without a connection.
    fn handle_suspended(&self) {
        self.core.borrow_mut().handle_suspended(now());
        self.wake_ready();
    }

    /// Performs what a session without a connection puts out.
    fn drain_driverless(&self, core: &mut Provider, id: SessionId) {
        let mut outlet = self.outlet.borrow_mut();
        core.on_egress_room(outlet.free());
        while let Some(output) = core.poll_output(id, now()) {
            match output {
                Output::Deliver(packet) => outlet.push(packet),
                Output::MessagesEnded(end) => self.note(News::MessagesEnded, &end),
                Output::Close(violation) => {
                    self.note(News::SuspendedEnded, &violation.words);
                    core.on_closed(id, Some(violation.code), now());
                }
                Output::Control(_) | Output::Datagram(_) => {
                    debug!("output of a session without a connection");
                }
            }
        }
        self.pour(core, &mut outlet, now());
    }
}

/// One connection's task.
struct SessionTask {
    shared: Rc<Shared>,
    id: SessionId,
    connection: Connection,
    waker: Rc<Notify>,
    link: Option<Link>,
    datagrams: Vec<Bytes>,
    settling: RefCell<Settling>,
}

enum Event {
    Opened(Result<(SendStream, RecvStream), ConnectionError>),
    Link(LinkEvent),
    Woken,
    Timeout,
}

impl SessionTask {
    async fn run(shared: Rc<Shared>, id: SessionId, connection: Connection) {
        let waker = Rc::new(Notify::new());
        shared.wakers.borrow_mut().insert(id, Rc::clone(&waker));
        let task = Self {
            shared,
            id,
            connection,
            waker,
            link: None,
            datagrams: Vec::new(),
            settling: RefCell::default(),
        };
        let shared = Rc::clone(&task.shared);
        let loss = task.serve().await;
        debug!("connection ended: {}", loss.words);
        shared.wakers.borrow_mut().remove(&id);
        shared.core.borrow_mut().on_closed(id, loss.code, now());
        shared.wake_ready();
        shared.ended.notify_one();
    }

    /// Serves the connection until it is over; why it ended.
    async fn serve(mut self) -> Loss {
        loop {
            if let Some(violation) = self.drain() {
                link::close(&self.connection, &violation);
                let loss = Loss::said(&violation);
                self.shared.note(News::Closed, &loss.words);
                return loss;
            }
            match self.wait().await {
                Event::Opened(Ok(control)) => {
                    let watch = self.shared.watch.clone();
                    self.link = Some(Link::new(self.connection.clone(), control, watch));
                }
                Event::Opened(Err(error)) => return words::loss(&error),
                Event::Link(LinkEvent::Closed(loss)) => return loss,
                Event::Link(event) => self.handle_link(event),
                Event::Woken => {}
                Event::Timeout => self.shared.core.borrow_mut().handle_timeout(self.id, now()),
            }
        }
    }

    async fn wait(&mut self) -> Event {
        let inbox = self.shared.inbox.borrow().clone();
        let (deadline, departures, has_message) = {
            let core = self.shared.core.borrow();
            let core_due = core.poll_timeout(self.id).map(|(at, _)| at);
            let look = self.settling.borrow().next_look(now());
            let due = [core_due, look].into_iter().flatten().min();
            let departures = core.awaits_departure(self.id);
            (due, departures, core.has_message(self.id))
        };
        let connection = &self.connection;
        let link = &mut self.link;
        let datagrams = &mut self.datagrams;
        let link_event = async {
            match link {
                Some(link) => Event::Link(link.event(datagrams, departures).await),
                None => Event::Opened(connection.accept_bi().await),
            }
        };
        tokio::select! {
            event = link_event => event,
            () = self.waker.notified() => Event::Woken,
            () = messages::room(&inbox), if has_message => Event::Woken,
            () = sleep_until(deadline) => Event::Timeout,
        }
    }

    fn handle_link(&mut self, event: LinkEvent) {
        let mut core = self.shared.core.borrow_mut();
        match event {
            LinkEvent::Datagrams => {
                let now = now();
                for datagram in self.datagrams.drain(..) {
                    core.handle_datagram(self.id, &datagram, now);
                }
            }
            LinkEvent::Control(bytes) => {
                core.handle_control(self.id, &bytes, now());
                self.shared.control_heard.notify_one();
            }
            LinkEvent::ControlEnded => {
                let words = "the control stream ended".to_owned();
                core.on_control_broken(
                    self.id,
                    Violation {
                        code: ErrorCode::WrongState,
                        words,
                    },
                );
            }
            LinkEvent::Departed | LinkEvent::Closed(_) => {}
        }
        drop(core);
        self.shared.wake_ready();
    }

    /// Performs the core's output, until QUIC has as much as it may hold.
    fn hand_over(&self, core: &mut Provider, outlet: &mut Outlet, now: Instant) -> HandOver {
        let mut done = HandOver::Nothing;
        while let Some(output) = core.poll_output(self.id, now) {
            match (output, &self.link) {
                (Output::Close(violation), _) => return HandOver::Close(violation),
                (Output::Deliver(packet), _) => outlet.push(packet),
                (Output::Control(bytes), Some(link)) => link.send_control(bytes),
                (Output::Datagram(bytes), Some(link)) => {
                    done = HandOver::Sent;
                    self.settling.borrow_mut().on_sent(now);
                    if !link.send_datagram(bytes) {
                        core.on_refused(self.id, now);
                        if let Some(facts) = link.facts() {
                            core.on_carrier(self.id, facts, now);
                        }
                    }
                }
                (Output::MessagesEnded(end), _) => self.shared.note(News::MessagesEnded, &end),
                (Output::Control(_) | Output::Datagram(_), None) => {
                    debug!("output before the control stream is open");
                }
            }
        }
        done
    }

    /// Performs what the core says; the order to close, if there is one.
    fn drain(&self) -> Option<Violation> {
        let now = now();
        let mut core = self.shared.core.borrow_mut();
        let mut outlet = self.shared.outlet.borrow_mut();
        core.on_egress_room(outlet.free());
        for _ in 0..HANDOVERS_MAX {
            if let Some(link) = &self.link {
                match link.facts() {
                    Some(facts) => core.on_carrier(self.id, facts, now),
                    None => return Some(no_datagrams()),
                }
                link.grant(core.is_hushed(self.id, now), now);
            }
            match self.hand_over(&mut core, &mut outlet, now) {
                HandOver::Close(violation) => {
                    outlet.flush();
                    return Some(violation);
                }
                HandOver::Nothing => break,
                HandOver::Sent => {
                    if let Some(link) = &self.link {
                        link.flush();
                    }
                }
            }
        }
        self.shared.pour(&mut core, &mut outlet, now);
        if let Some(key) = core.key_of(self.id) {
            let inbox = self.shared.inbox.borrow();
            messages::deliver(&inbox, || Some((key, core.poll_message(self.id)?)));
        }
        None
    }
}

/// What became of the core's output.
enum HandOver {
    /// Nothing went to QUIC.
    Nothing,
    /// Datagrams wait to leave.
    Sent,
    /// The connection is to be closed.
    Close(Violation),
}

fn no_datagrams() -> Violation {
    Violation {
        code: ErrorCode::WrongState,
        words: "the client takes no QUIC datagrams".to_owned(),
    }
}
