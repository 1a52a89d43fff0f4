//! The client's engine.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::future::FutureExt as _;
use quell_core::config::ClientConfig;
use quell_core::health::sleep::SleepWatch;
use quell_core::multi::{CatalogExit, Client, ExitId, ExitSettings, Loss, Output};
use quell_core::path::Violation;
use quell_core::send::Backpressure;
use quell_core::status::ClientStatus;
use quell_underlay::Underlay;
use quell_wire::key::PublicKey;
use quell_wire::registry::ErrorCode;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

pub use super::device::{Device, DeviceState};
use super::event::{ExitName, Teller, Telling, event_of};
use super::link::{Link, LinkEvent, Settling};
use super::messages::{self, Mailbox, Messages, Outgoing};
use super::notes::{self, Kind, Notes};
use super::paying::{ContractsEnded, ContractsReport, PaySettings, Paying, Payments};
use super::sleep;
use super::steer::{self, Steer, Steered};
use super::ways::{self, Caller, Connection, Dialled, Way, WayEvent};
use super::{HANDOVERS_MAX, Handle, Request, now, sleep_until};
use crate::backend::{BackendHandle, BackendReport, BackendSettings, Prober};
use crate::carrier::QuicReport;
use crate::error::NetError;
use crate::identity::Identity;
use crate::pump::{self, DeviceCounters, Inlet, Outlet, Pump};
use crate::socket::{Protect, SocketWatch, UdpReport};
use crate::transport::TransportSettings;

/// How long the end of a connection may take to leave the machine.
const FAREWELL_TIME: Duration = Duration::from_millis(300);

/// A provider that a client may use.
#[derive(Debug, Clone)]
pub struct Server {
    /// What people call it.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// Where it is: `host:port`.
    pub remote: String,
    /// What it is preferred by: see [`ExitSettings::weight`].
    pub weight: u32,
    /// Who we are to it, where that is another than to the rest: a key of its own for each
    /// provider keeps providers from telling that they serve the same client.
    pub identity: Option<Identity>,
    /// It carries for contracts: the engine chooses the identity, by what is in hand.
    pub is_paid: bool,
}

/// What a client needs to know.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Who we are.
    pub identity: Identity,
    /// The providers that do not come from a catalog.
    pub servers: Vec<Server>,
    /// The core's settings, validated.
    pub core: ClientConfig,
    /// QUIC's settings.
    pub transport: TransportSettings,
    /// Largest packet of the device, in bytes.
    pub mtu_max: u16,
    /// The control plane.
    pub backend: BackendSettings,
    /// What we call ourselves.
    pub agent: String,
    /// The way of our own packets.
    pub underlay: Underlay,
}

/// What the driver knows of a provider.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ServerReport {
    /// Where it is, as configured.
    pub remote: String,
    /// Its key.
    pub public_key: String,
    /// Where it was found last.
    pub address: Option<SocketAddr>,
    /// QUIC beneath, while connected.
    pub quic: Option<QuicReport>,
}

/// What a client's engine is doing.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ClientReport {
    /// The core.
    #[serde(flatten)]
    pub client: ClientStatus,
    /// Where the exits are, in the same order.
    pub servers: Vec<ServerReport>,
    /// The control plane.
    pub backend: BackendReport,
    /// What exits are paid with; `None`: they are not.
    pub contracts: Option<ContractsReport>,
    /// UDP, over all connections so far.
    pub udp: UdpReport,
    /// The TUN's side.
    pub device: DeviceCounters,
}

enum Event {
    Way(ExitId, WayEvent),
    Tun(Option<Vec<BytesMut>>),
    Request(Option<Request<ClientReport>>),
    Message(Outgoing<()>),
    Catalog,
    Contracts(ContractsEnded),
    /// The embedder wants something, or the control plane stands otherwise.
    Steered,
    /// The embedder takes messages again, or the device packets.
    Room,
    Timeout,
}

/// The client's engine. Runs on a current-thread runtime within a `LocalSet`.
pub struct ClientEngine {
    settings: ClientSettings,
    core: Client,
    ways: Vec<Way>,
    /// Turns of the loop so far.
    turn: usize,
    watch: SocketWatch,
    prober: Prober,
    notes: Notes<Kind>,
    pump: Pump,
    inlet: Inlet,
    outlet: Outlet,
    device: watch::Sender<DeviceState>,
    requests: mpsc::Receiver<Request<ClientReport>>,
    mailbox: Mailbox<()>,
    /// A message that waits for room in its lane.
    outgoing: Option<Outgoing<()>>,
    catalog: watch::Receiver<Vec<Server>>,
    settling: Settling,
    sleep: SleepWatch,
    payments: Option<Payments>,
    steered: Steered,
    telling: Option<Telling>,
    /// The device is to look otherwise than was told.
    device_is_new: bool,
}

impl ClientEngine {
    /// An engine over `device`, the handle on it, and what the device is to look
    /// like. `seed` feeds all random draws of the core.
    ///
    /// # Errors
    /// A thread of the device could not be started, or a backend not be trusted.
    pub fn new(
        settings: ClientSettings,
        device: Device,
        seed: u64,
    ) -> Result<(Self, Handle<ClientReport>, watch::Receiver<DeviceState>), NetError> {
        let prober = Prober::new(&settings.backend, &settings.underlay, seed)?;
        let (pump, inlet, outlet) = pump::start(device.reader, device.writer, device.stop)?;
        let (handle, requests) = Handle::new();
        let (device, wanted) = watch::channel(DeviceState::default());
        let exits = settings.servers.iter().map(|server| ExitSettings {
            name: server.name.clone(),
            weight: server.weight,
        });
        let core = Client::with_exits(
            settings.core.clone(),
            exits.collect(),
            settings.agent.clone(),
            settings.mtu_max,
            seed,
            now(),
        )
        .with_signal(prober.handle().signal());
        let ids = (0..).map(ExitId).take(settings.servers.len());
        let engine = Self {
            ways: ids.map(Way::new).collect(),
            turn: 0,
            settings,
            core,
            watch: SocketWatch::default(),
            prober,
            notes: Notes::default(),
            pump,
            inlet,
            outlet,
            device,
            requests,
            mailbox: messages::pair().1,
            outgoing: None,
            catalog: watch::channel(Vec::new()).1,
            settling: Settling::default(),
            sleep: SleepWatch::default(),
            payments: None,
            steered: steer::pair().1,
            telling: None,
            device_is_new: false,
        };
        Ok((engine, handle, wanted))
    }

    /// The way to send messages to the provider and to take its own; the last call
    /// counts.
    pub fn messages(&mut self) -> Messages<()> {
        let (messages, mailbox) = messages::pair();
        self.mailbox = mailbox;
        messages
    }

    /// The way to tell which exits there are, beside those of the settings: see
    /// [`Client::on_catalog`]. The last call counts.
    pub fn catalog(&mut self) -> watch::Sender<Vec<Server>> {
        let (tell, catalog) = watch::channel(Vec::new());
        self.catalog = catalog;
        tell
    }

    /// Pays for exits with contracts, those of the settings excepted. To be called before it
    /// runs.
    pub fn pay(&mut self, settings: PaySettings, seed: u64) -> Paying {
        self.core.offer_contracts();
        let own = self.settings.identity.clone();
        let (payments, paying) = Payments::new(own, settings, seed);
        self.payments = Some(payments);
        paying
    }

    /// The way to steer it; the last call counts.
    pub fn steer(&mut self) -> Steer {
        let (steer, steered) = steer::pair();
        self.steered = steered;
        steer
    }

    /// Lets `teller` hear what happens. It is called on the engine's thread and must not wait.
    pub fn tell(&mut self, teller: Teller) {
        self.telling = Some(Telling::new(teller));
    }

    /// Shows each socket to `protect` before its first byte. To be called before it runs.
    pub fn protect(&mut self, protect: Protect) {
        self.watch.protect = Some(protect);
    }

    /// The control plane: what is known of it, and the way to tell more.
    pub fn backend(&self) -> BackendHandle {
        self.prober.handle()
    }

    /// Runs until it is told to stop, or until the TUN is gone.
    ///
    /// # Errors
    /// The TUN failed for good.
    pub async fn run(mut self) -> Result<(), NetError> {
        // A client wants a session for as long as it runs, but for pauses.
        let (wanted, is_wanted) = watch::channel(true);
        let mut wants = true;
        let _questions = self.prober.start(&is_wanted);
        loop {
            self.drain();
            let paused = self.core.is_held() || self.core.is_suspended();
            if std::mem::replace(&mut wants, !paused) == paused {
                wanted.send_replace(!paused);
            }
            match self.wait().await {
                Event::Request(Some(Request::Status(answer))) => {
                    // Whoever asked may have gone.
                    let _ = answer.send(self.report());
                }
                Event::Request(Some(Request::Stop) | None) | Event::Tun(None) => break,
                Event::Tun(Some(batch)) => self.handle_tun(batch),
                Event::Way(exit, WayEvent::Dialled(dialled)) => self.handle_dialled(exit, dialled),
                Event::Way(exit, WayEvent::Link(event)) => self.handle_link(exit, event),
                Event::Message(outgoing) => self.outgoing = Some(outgoing),
                Event::Catalog => self.take_catalog(),
                Event::Contracts(ended) => self.on_contracts(ended),
                Event::Room | Event::Steered => {}
                Event::Timeout => self.core.handle_timeout(now()),
            }
        }
        self.end().await
    }

    async fn wait(&mut self) -> Event {
        let deadline = self.deadline();
        self.turn = self.turn.wrapping_add(1);
        let inbox = self.mailbox.sender();
        let device = self.outlet.room();
        let outages = self.prober.handle().turns();
        tokio::select! {
            (exit, event) = ways::next_event(&mut self.ways, &self.core, self.turn) => {
                Event::Way(exit, event)
            }
            batch = self.inlet.receive(), if self.core.wants_packets(1) => Event::Tun(batch),
            request = self.requests.recv() => Event::Request(request),
            outgoing = self.mailbox.next(), if self.outgoing.is_none() => Event::Message(outgoing),
            () = told(&mut self.catalog) => Event::Catalog,
            ended = ended(&mut self.payments) => Event::Contracts(ended),
            () = self.steered.changed() => Event::Steered,
            () = outages.notified() => Event::Steered,
            () = messages::room(&inbox), if self.core.has_message() => Event::Room,
            () = device.notified(), if self.outlet.is_waiting() => Event::Room,
            () = sleep_until(deadline) => Event::Timeout,
        }
    }

    fn on_contracts(&mut self, ended: ContractsEnded) {
        let health = self.prober.handle().first();
        if let Some(payments) = &mut self.payments {
            payments.on_ended(&mut self.core, ended, &health, now());
        }
    }

    /// Looks after what is paid; whether there was anything to do with it.
    fn pay_what_is_due(&mut self, now: Instant) {
        let health = self.prober.handle().first();
        if let Some(payments) = &mut self.payments {
            payments.drain(&mut self.core, &self.settings.servers, &health, now);
        }
    }

    fn take_catalog(&mut self) {
        self.steered.look_again();
        let servers = self.catalog.borrow_and_update().clone();
        let listed = servers.iter().map(|server| CatalogExit {
            key: server.key,
            settings: ExitSettings {
                name: server.name.clone(),
                weight: server.weight,
            },
        });
        let listed: Vec<_> = listed.collect();
        let mut placed = self.core.on_catalog(&listed, now());
        // Ascending, so that a new place is always the next one.
        placed.sort_unstable_by_key(|(exit, _)| *exit);
        self.look_at_contracts();
        for (exit, index) in placed {
            let Some(server) = servers.get(index) else {
                continue;
            };
            match self.settings.servers.get_mut(exit.index()) {
                Some(place) if place.key == server.key => place.clone_from(server),
                Some(place) => {
                    place.clone_from(server);
                    if let Some(way) = self.ways.get_mut(exit.index()) {
                        way.address = None;
                    }
                }
                None => {
                    self.settings.servers.push(server.clone());
                    self.ways.push(Way::new(exit));
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let core = self.core.poll_timeout().map(|(at, _)| at);
        let settle = self.settling.next_look(now());
        let pay = self
            .payments
            .as_ref()
            .and_then(|payments| payments.deadline(now()));
        [core, settle, pay].into_iter().flatten().min()
    }

    fn handle_tun(&mut self, mut batch: Vec<BytesMut>) {
        let now = now();
        let all_fit = self.core.wants_packets(batch.len());
        let mut packets = batch.drain(..);
        while let Some(packet) = packets.next() {
            self.core.handle_packet(packet.freeze(), now);
            if !all_fit && !self.core.wants_packets(1) {
                self.inlet.put_back(&mut packets);
                break;
            }
        }
        drop(packets);
        self.inlet.recycle(batch);
    }

    fn handle_dialled(&mut self, exit: ExitId, dialled: Dialled) {
        let Some(way) = self.ways.get_mut(exit.index()) else {
            return;
        };
        match dialled {
            Ok(connected) => {
                let underlay = connected.remote.ip();
                way.address = Some(connected.remote);
                way.connection = Connection::Up(connected);
                self.core.on_underlay(exit, &[underlay]);
                let found = self.ways.iter().filter_map(|way| way.address);
                let found = found.map(|address| address.ip()).collect();
                self.device.send_modify(|state| state.underlay = found);
                let attempt = self.attempt(exit);
                self.core.on_connected(exit, attempt, now());
            }
            Err(loss) => {
                way.connection = Connection::Idle;
                let attempt = way.attempt;
                self.core.on_closed(exit, attempt, loss, now());
            }
        }
    }

    /// The number of the exit's current dial.
    fn attempt(&self, exit: ExitId) -> u64 {
        self.ways.get(exit.index()).map_or(0, |way| way.attempt)
    }

    fn handle_link(&mut self, exit: ExitId, event: LinkEvent) {
        let now = now();
        let Some(way) = self.ways.get_mut(exit.index()) else {
            return;
        };
        let attempt = way.attempt;
        match event {
            LinkEvent::Datagrams => {
                for datagram in way.datagrams.drain(..) {
                    self.core.handle_datagram(exit, attempt, &datagram, now);
                }
            }
            LinkEvent::Control(bytes) => self.core.handle_control(exit, attempt, &bytes, now),
            LinkEvent::ControlEnded => self.close(
                exit,
                &Violation {
                    code: ErrorCode::WrongState,
                    words: "the control stream ended".to_owned(),
                },
            ),
            LinkEvent::Departed => {}
            LinkEvent::Closed(loss) => {
                way.connection = Connection::Idle;
                self.core.on_closed(exit, attempt, loss, now);
            }
        }
    }

    fn close(&mut self, exit: ExitId, violation: &Violation) {
        let Some(way) = self.ways.get_mut(exit.index()) else {
            return;
        };
        if let Some(link) = way.link() {
            link.close(violation);
        }
        way.connection = Connection::Idle;
        let attempt = way.attempt;
        let loss = Loss::said(violation);
        self.core.on_closed(exit, attempt, loss, now());
    }

    fn drain(&mut self) {
        let now = now();
        if let Some(slept) = sleep::look(&mut self.sleep) {
            info!(slept_s = slept.as_secs(), "the machine slept");
            self.core.on_wake(now);
        }
        self.core.on_wire(self.watch.bytes_out(), now);
        self.be_steered(now);
        self.carry_messages(now);
        self.pay_what_is_due(now);
        for _ in 0..HANDOVERS_MAX {
            for index in 0..self.ways.len() {
                self.tell_of(index, now);
            }
            while let Some(output) = self.core.poll_output(now) {
                self.perform(output);
            }
            if !self.flush_links() {
                break;
            }
        }
        self.outlet.flush();
        self.tell_what_happened(now);
    }

    fn be_steered(&mut self, now: Instant) {
        let servers = &self.settings.servers;
        let place = |key: &PublicKey| {
            let index = servers.iter().position(|server| server.key == *key)?;
            Some(ExitId(u16::try_from(index).ok()?))
        };
        self.steered.apply(&mut self.core, place, now);
    }

    fn tell_what_happened(&mut self, now: Instant) {
        let Some(mut telling) = self.telling.take() else {
            return;
        };
        if std::mem::take(&mut self.device_is_new) {
            telling.look_at_device(&self.device.borrow());
        }
        while let Some(told) = self.core.poll_told(now) {
            let reason = || self.core.status(now).reason;
            let last = || {
                let payments = self.payments.as_ref()?;
                Some(Duration::from_secs(payments.report(now).survives_s))
            };
            telling.tell(event_of(told, reason, last, |exit| self.name(exit)));
        }
        let counters = self.watch.counters();
        telling.look_at_usage(counters.bytes_out, counters.bytes_in, now);
        self.telling = Some(telling);
    }

    fn name(&self, exit: ExitId) -> ExitName {
        let server = self.settings.servers.get(exit.index());
        ExitName {
            name: server.map(|server| server.name.clone()).unwrap_or_default(),
            public_key: server
                .map(|server| server.key.to_string())
                .unwrap_or_default(),
        }
    }

    /// Lets what was handed to QUIC leave; whether there was anything.
    fn flush_links(&mut self) -> bool {
        let mut has_sent = false;
        for way in &mut self.ways {
            if std::mem::take(&mut way.has_sent) {
                has_sent = true;
                if let Some(link) = way.link() {
                    link.flush();
                }
            }
        }
        has_sent
    }

    /// Tells the core what a connection can take, and lets that leave.
    fn tell_of(&mut self, index: usize, now: Instant) {
        let Some((way, link)) = self
            .ways
            .get(index)
            .and_then(|way| Some((way, way.link()?)))
        else {
            return;
        };
        let (exit, attempt) = (way.exit, way.attempt);
        match link.facts() {
            Some(facts) => {
                self.core.on_carrier(exit, attempt, facts, now);
                link.grant(self.core.is_hushed(exit, now), now);
            }
            None => self.close(
                exit,
                &Violation {
                    code: ErrorCode::WrongState,
                    words: "the provider takes no QUIC datagrams".to_owned(),
                },
            ),
        }
    }

    fn carry_messages(&mut self, now: Instant) {
        if let Some(outgoing) = self.outgoing.take() {
            match self.core.send_message(&outgoing.message, now) {
                Err(Backpressure::Count | Backpressure::Bytes | Backpressure::Credit) => {
                    self.outgoing = Some(outgoing);
                }
                taken @ (Ok(()) | Err(Backpressure::Ended | Backpressure::TooLong)) => {
                    // Whoever sent it may have gone.
                    let _ = outgoing.taken.send(taken);
                }
            }
        }
        let core = &mut self.core;
        messages::deliver(&self.mailbox.sender(), || {
            let (_, message) = core.poll_message()?;
            Some(((), message))
        });
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Dial { exit, attempt } => self.dial(exit, attempt),
            Output::Control { exit, bytes } => {
                if let Some(link) = self.link(exit) {
                    link.send_control(bytes);
                }
            }
            Output::Datagram { exit, bytes } => {
                self.settling.on_sent(now());
                self.send_datagram(exit, bytes);
            }
            Output::Deliver(packet) => self.outlet.push(packet),
            Output::MessagesEnded { exit, end } => {
                warn!("no more messages to {}: {end}", self.remote(exit));
            }
            Output::Configure(addresses) => {
                self.device_is_new = true;
                self.device
                    .send_modify(|state| state.addresses = Some(addresses));
            }
            Output::Mtu(mtu) => {
                self.device_is_new = true;
                self.device.send_modify(|state| state.mtu = mtu);
            }
            Output::Close { exit, violation } => {
                if let Some(link) = self.link(exit) {
                    link.close(&violation);
                }
                if let Some(way) = self.ways.get_mut(exit.index()) {
                    way.connection = Connection::Idle;
                }
            }
            Output::Notice { exit, notice } => {
                if let Some(suppressed) = self.notes.admit(Kind::of(&notice), now()) {
                    notes::log(&notice, self.remote(exit), suppressed);
                }
            }
        }
    }

    fn send_datagram(&mut self, exit: ExitId, datagram: Bytes) {
        let Some(way) = self.ways.get_mut(exit.index()) else {
            return;
        };
        way.has_sent = true;
        let Some(link) = way.link() else {
            return;
        };
        if !link.send_datagram(datagram) {
            self.core.on_refused(exit, way.attempt, now());
            if let Some(facts) = link.facts() {
                self.core.on_carrier(exit, way.attempt, facts, now());
            }
        }
    }

    fn link(&self, exit: ExitId) -> Option<&Link> {
        self.ways.get(exit.index())?.link()
    }

    fn remote(&self, exit: ExitId) -> &str {
        let server = self.settings.servers.get(exit.index());
        server.map_or("", |server| &server.remote)
    }

    /// An exit came or went: contracts may be wanted for others.
    fn look_at_contracts(&mut self) {
        if let Some(payments) = &mut self.payments {
            payments.look_soon();
        }
    }

    fn dial(&mut self, exit: ExitId, attempt: u64) {
        self.look_at_contracts();
        let server = self.settings.servers.get(exit.index());
        let (Some(way), Some(server)) = (self.ways.get_mut(exit.index()), server) else {
            return;
        };
        way.attempt = attempt;
        let goes_on = self.core.has_session(exit);
        let of_the_day = match &mut self.payments {
            Some(payments) if server.is_paid => payments.identity(exit, server.key, goes_on),
            Some(_) | None => None,
        };
        let identity = of_the_day.or_else(|| server.identity.clone());
        let caller = Caller {
            identity: identity.unwrap_or_else(|| self.settings.identity.clone()),
            transport: self.settings.transport,
            watch: self.watch.clone(),
            underlay: self.settings.underlay.clone(),
        };
        let dial = ways::dial(caller, server.clone(), attempt);
        way.connection = Connection::Dialling(dial.boxed_local());
    }

    fn report(&self) -> ClientReport {
        let client = self.core.status(now());
        let udp = UdpReport::of(self.watch.counters(), client.books().frame_bytes);
        let servers = self.settings.servers.iter().zip(&self.ways);
        let servers = servers.map(|(server, way)| ServerReport {
            remote: server.remote.clone(),
            public_key: server.key.to_string(),
            address: way.address,
            quic: way.link().map(Link::report),
        });
        ClientReport {
            client,
            servers: servers.collect(),
            backend: self.prober.handle().report(),
            contracts: self
                .payments
                .as_ref()
                .map(|payments| payments.report(now())),
            udp,
            device: self.pump.counters(),
        }
    }

    async fn end(mut self) -> Result<(), NetError> {
        if let Some(payments) = &mut self.payments {
            payments.end(&mut self.core, now());
        }
        let farewell = Violation {
            code: ErrorCode::NoError,
            words: "the client stops".to_owned(),
        };
        let mut leaving = Vec::new();
        for way in self.ways {
            if let Connection::Up(connected) = way.connection {
                connected.link.close(&farewell);
                leaving.push(connected.endpoint);
            }
        }
        let gone = async {
            for endpoint in &leaving {
                endpoint.wait_idle().await;
            }
        };
        // A provider that misses this farewell notices by itself.
        let _ = tokio::time::timeout(FAREWELL_TIME, gone).await;
        self.pump.stop_reading();
        drop((self.inlet, self.outlet));
        Ok(self.pump.stop()?)
    }
}

/// Waits until the catalog is another; for ever when nobody tells.
async fn told(catalog: &mut watch::Receiver<Vec<Server>>) {
    if catalog.changed().await.is_err() {
        std::future::pending().await
    }
}

/// How a request for contracts ended; for ever where nobody pays.
async fn ended(payments: &mut Option<Payments>) -> ContractsEnded {
    match payments {
        Some(payments) => payments.next().await,
        None => std::future::pending().await,
    }
}
