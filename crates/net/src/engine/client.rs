//! The client's engine.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::future::{FutureExt as _, LocalBoxFuture};
use quell_core::config::ClientConfig;
use quell_core::health::sleep::SleepWatch;
use quell_core::multi::{Client, Loss, Output};
use quell_core::path::Violation;
use quell_core::send::Backpressure;
use quell_core::status::{ClientStatus, TunnelAddresses};
use quell_tun::{StopHandle, TunReader, TunWriter};
use quell_wire::key::PublicKey;
use quell_wire::registry::ErrorCode;
use quinn::Endpoint;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

use super::link::{Link, LinkEvent, Settling};
use super::messages::{self, Mailbox, Messages, Outgoing};
use super::notes::{self, Kind, Notes};
use super::sleep;
use super::{Handle, Request, now, sleep_until};
use crate::backend::{BackendHandle, BackendReport, BackendSettings, Prober};
use crate::carrier::QuicReport;
use crate::error::NetError;
use crate::identity::Identity;
use crate::pump::{self, DeviceCounters, Inlet, Outlet, Pump};
use crate::socket::{SocketWatch, UdpReport};
use crate::transport::TransportSettings;
use crate::{endpoint, words};

/// How long the end of a connection may take to leave the machine.
const FAREWELL_TIME: Duration = Duration::from_millis(300);

/// What a client needs to know.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Who we are.
    pub identity: Identity,
    /// The provider's key.
    pub provider: PublicKey,
    /// Where it is: `host:port`.
    pub remote: String,
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
}

/// The packets' device: a TUN, or a channel.
pub struct Device {
    /// The reading half.
    pub reader: Box<dyn TunReader>,
    /// The writing half.
    pub writer: Box<dyn TunWriter>,
    /// Wakes the reading half when all ends.
    pub stop: StopHandle,
}

/// What the device should look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// Addresses of the current session; `None` before the first.
    pub addresses: Option<TunnelAddresses>,
    /// The MTU, in bytes; 0 before the first session.
    pub mtu: u16,
    /// Where the tunnel's own datagrams go.
    pub underlay: Option<IpAddr>,
}

/// What a client's engine is doing.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ClientReport {
    /// The core.
    #[serde(flatten)]
    pub client: ClientStatus,
    /// Where the provider was found last.
    pub provider_address: Option<SocketAddr>,
    /// The control plane.
    pub backend: BackendReport,
    /// UDP, over all connections so far.
    pub udp: UdpReport,
    /// The TUN's side.
    pub device: DeviceCounters,
    /// QUIC beneath, while connected.
    pub quic: Option<QuicReport>,
}

type Dialled = Result<Connected, Loss>;

struct Connected {
    link: Link,
    endpoint: Endpoint,
    remote: SocketAddr,
}

enum Connection {
    Idle,
    Dialling(LocalBoxFuture<'static, Dialled>),
    Up(Connected),
}

impl Connection {
    async fn event(&mut self, datagrams: &mut Vec<Bytes>, blocked: bool) -> Event {
        match self {
            Self::Idle => std::future::pending().await,
            Self::Dialling(dial) => Event::Dialled(dial.await),
            Self::Up(connected) => Event::Link(connected.link.event(datagrams, blocked).await),
        }
    }
}

enum Event {
    Dialled(Dialled),
    Link(LinkEvent),
    Tun(Option<Vec<BytesMut>>),
    Request(Option<Request<ClientReport>>),
    Message(Outgoing<()>),
    /// The embedder takes messages again, or the device packets.
    Room,
    Timeout,
}

/// The client's engine. Runs on a current-thread runtime within a `LocalSet`.
pub struct ClientEngine {
    settings: ClientSettings,
    core: Client,
    attempt: u64,
    connection: Connection,
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
    datagrams: Vec<Bytes>,
    settling: Settling,
    sleep: SleepWatch,
    provider_address: Option<SocketAddr>,
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
        let prober = Prober::new(&settings.backend, seed)?;
        let (pump, inlet, outlet) = pump::start(device.reader, device.writer, device.stop)?;
        let (handle, requests) = Handle::new();
        let (device, wanted) = watch::channel(DeviceState::default());
        let core = Client::new(
            settings.core.clone(),
            settings.agent.clone(),
            settings.mtu_max,
            seed,
            now(),
        )
        .with_signal(prober.handle().signal());
        let engine = Self {
            settings,
            core,
            attempt: 0,
            connection: Connection::Idle,
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
            datagrams: Vec::new(),
            settling: Settling::default(),
            sleep: SleepWatch::default(),
            provider_address: None,
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

    /// The control plane: what is known of it, and the way to tell more.
    pub fn backend(&self) -> BackendHandle {
        self.prober.handle()
    }

    /// Runs until it is told to stop, or until the TUN is gone.
    ///
    /// # Errors
    /// The TUN failed for good.
    pub async fn run(mut self) -> Result<(), NetError> {
        // A client wants a session for as long as it runs.
        let (_wanted, is_wanted) = watch::channel(true);
        let _questions = self.prober.start(&is_wanted);
        loop {
            self.drain();
            match self.wait().await {
                Event::Request(Some(Request::Status(answer))) => {
                    // Whoever asked may have gone.
                    let _ = answer.send(self.report());
                }
                Event::Request(Some(Request::Stop) | None) | Event::Tun(None) => break,
                Event::Tun(Some(batch)) => self.handle_tun(batch),
                Event::Dialled(dialled) => self.handle_dialled(dialled),
                Event::Link(event) => self.handle_link(event),
                Event::Message(outgoing) => self.outgoing = Some(outgoing),
                Event::Room => {}
                Event::Timeout => self.core.handle_timeout(now()),
            }
        }
        self.end().await
    }

    async fn wait(&mut self) -> Event {
        let deadline = self.deadline();
        let departures = self.core.awaits_departure();
        let inbox = self.mailbox.sender();
        let device = self.outlet.room();
        tokio::select! {
            event = self.connection.event(&mut self.datagrams, departures) => event,
            batch = self.inlet.receive(), if self.core.wants_packets() => Event::Tun(batch),
            request = self.requests.recv() => Event::Request(request),
            outgoing = self.mailbox.next(), if self.outgoing.is_none() => Event::Message(outgoing),
            () = messages::room(&inbox), if self.core.has_message() => Event::Room,
            () = device.notified(), if self.outlet.is_waiting() => Event::Room,
            () = sleep_until(deadline) => Event::Timeout,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let core = self.core.poll_timeout().map(|(at, _)| at);
        let settle = self.settling.next_look(now());
        [core, settle].into_iter().flatten().min()
    }

    fn handle_tun(&mut self, mut batch: Vec<BytesMut>) {
        let now = now();
        for packet in batch.drain(..) {
            self.core.handle_packet(packet.freeze(), now);
        }
        self.inlet.recycle(batch);
    }

    fn handle_dialled(&mut self, dialled: Dialled) {
        match dialled {
            Ok(connected) => {
                self.provider_address = Some(connected.remote);
                let underlay = connected.remote.ip();
                self.core.on_underlay(vec![underlay]);
                self.device
                    .send_modify(|state| state.underlay = Some(underlay));
                self.connection = Connection::Up(connected);
                self.core.on_connected(self.attempt, now());
            }
            Err(loss) => {
                self.connection = Connection::Idle;
                self.core.on_closed(self.attempt, loss, now());
            }
        }
    }

    fn handle_link(&mut self, event: LinkEvent) {
        let now = now();
        match event {
            LinkEvent::Datagrams => {
                let mut datagrams = std::mem::take(&mut self.datagrams);
                for datagram in datagrams.drain(..) {
                    self.core.handle_datagram(self.attempt, &datagram, now);
                }
                self.datagrams = datagrams;
            }
            LinkEvent::Control(bytes) => self.core.handle_control(self.attempt, &bytes, now),
            LinkEvent::ControlEnded => self.close(&Violation {
                code: ErrorCode::WrongState,
                words: "the control stream ended".to_owned(),
            }),
            LinkEvent::Departed => {}
            LinkEvent::Closed(loss) => {
                self.connection = Connection::Idle;
                self.core.on_closed(self.attempt, loss, now);
            }
        }
    }

    fn close(&mut self, violation: &Violation) {
        if let Connection::Up(connected) = &self.connection {
            connected.link.close(violation);
        }
        self.connection = Connection::Idle;
        self.core
            .on_closed(self.attempt, Loss::said(violation), now());
    }

    fn drain(&mut self) {
        let now = now();
        if let Some(slept) = sleep::look(&mut self.sleep) {
            info!(slept_s = slept.as_secs(), "the machine slept");
            self.core.on_wake(now);
        }
        self.core.on_wire(self.watch.bytes_out(), now);
        self.carry_messages(now);
        if let Connection::Up(connected) = &self.connection {
            match connected.link.facts() {
                Some(facts) => self.core.on_carrier(self.attempt, facts, now),
                None => self.close(&Violation {
                    code: ErrorCode::WrongState,
                    words: "the provider takes no QUIC datagrams".to_owned(),
                }),
            }
        }
        let hushed = self.core.is_hushed(now);
        self.with_link(|link| link.grant(hushed, now));
        while let Some(output) = self.core.poll_output(now) {
            self.perform(output);
        }
        self.outlet.flush();
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
        messages::deliver(&self.mailbox.sender(), || Some(((), core.poll_message()?)));
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Dial { attempt } => self.dial(attempt),
            Output::Control(bytes) => self.with_link(|link| link.send_control(bytes)),
            Output::Datagram(bytes) => {
                self.settling.on_sent(now());
                self.send_datagram(bytes);
            }
            Output::Deliver(packet) => self.outlet.push(packet),
            Output::MessagesEnded(end) => warn!("no more messages to the provider: {end}"),
            Output::Configure(addresses) => self
                .device
                .send_modify(|state| state.addresses = Some(addresses)),
            Output::Mtu(mtu) => self.device.send_modify(|state| state.mtu = mtu),
            Output::Close(violation) => {
                self.with_link(|link| link.close(&violation));
                self.connection = Connection::Idle;
            }
            Output::Notice(notice) => {
                if let Some(suppressed) = self.notes.admit(Kind::of(&notice), now()) {
                    notes::log(&notice, &self.settings.remote, suppressed);
                }
            }
        }
    }

    fn send_datagram(&mut self, datagram: Bytes) {
        let Connection::Up(connected) = &self.connection else {
            return;
        };
        if !connected.link.send_datagram(datagram) {
            self.core.on_refused(self.attempt, now());
            if let Some(facts) = connected.link.facts() {
                self.core.on_carrier(self.attempt, facts, now());
            }
        }
    }

    fn with_link(&self, act: impl FnOnce(&Link)) {
        if let Connection::Up(connected) = &self.connection {
            act(&connected.link);
        }
    }

    fn dial(&mut self, attempt: u64) {
        self.attempt = attempt;
        let dial = dial(self.settings.clone(), attempt, self.watch.clone());
        self.connection = Connection::Dialling(dial.boxed_local());
    }

    fn report(&self) -> ClientReport {
        let quic = match &self.connection {
            Connection::Up(connected) => Some(connected.link.report()),
            Connection::Idle | Connection::Dialling(_) => None,
        };
        let client = self.core.status(now());
        let udp = UdpReport::of(self.watch.counters(), client.books().frame_bytes);
        ClientReport {
            quic,
            client,
            provider_address: self.provider_address,
            backend: self.prober.handle().report(),
            udp,
            device: self.pump.counters(),
        }
    }

    async fn end(self) -> Result<(), NetError> {
        if let Connection::Up(connected) = self.connection {
            connected.link.close(&Violation {
                code: ErrorCode::NoError,
                words: "the client stops".to_owned(),
            });
            // A provider that misses this farewell notices by itself.
            let _ = tokio::time::timeout(FAREWELL_TIME, connected.endpoint.wait_idle()).await;
        }
        drop((self.inlet, self.outlet));
        Ok(self.pump.stop()?)
    }
}

/// Finds the provider, connects, and opens the control stream.
async fn dial(settings: ClientSettings, attempt: u64, watch: SocketWatch) -> Dialled {
    let remote = resolve(&settings.remote, attempt, system_resolver).await?;
    let connecting = endpoint::connect(
        &settings.identity,
        remote,
        settings.provider,
        &settings.transport,
        watch.clone(),
    );
    let (endpoint, connecting) = connecting.map_err(|error| error.to_string())?;
    let connection = connecting.await.map_err(|error| words::failure(&error))?;
    let control = connection
        .open_bi()
        .await
        .map_err(|error| words::failure(&error))?;
    debug!(%remote, "connected");
    Ok(Connected {
        link: Link::new(connection, control, watch),
        endpoint,
        remote,
    })
}

/// The address to dial. Names are resolved anew for each dial by `look_up`, and one
/// with several addresses is tried address by address (case B72).
async fn resolve<F>(
    remote: &str,
    attempt: u64,
    look_up: impl FnOnce(String) -> F,
) -> Result<SocketAddr, String>
where
    F: Future<Output = io::Result<Vec<SocketAddr>>>,
{
    let found = look_up(remote.to_owned()).await;
    let found = found.map_err(|error| format!("cannot find {remote}: {error}"))?;
    turn(found, attempt).ok_or_else(|| format!("{remote} has no address"))
}

async fn system_resolver(remote: String) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host(remote).await?.collect())
}

/// The address whose turn it is. A resolver may turn its answer by one for each
/// question, which would undo our own turning: so the order is ours, after the
/// family that the system prefers.
fn turn(mut found: Vec<SocketAddr>, attempt: u64) -> Option<SocketAddr> {
    let preferred = found.first()?.is_ipv4();
    found.sort_unstable_by_key(|address| (address.is_ipv4() != preferred, *address));
    found.dedup();
    let turn = attempt.saturating_sub(1) % found.len() as u64;
    found.get(usize::try_from(turn).ok()?).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Whom dials meet, by what the resolver answers each.
    async fn dialled(answers: &[&[&str]]) -> Vec<String> {
        let mut dialled = Vec::new();
        for (attempt, answer) in (1..).zip(answers) {
            let look_up = async |name| {
                assert_eq!(name, "provider.test:1");
                Ok(addresses(answer))
            };
            let address = resolve("provider.test:1", attempt, look_up).await;
            dialled.push(address.map_or_else(|words| words, |address| address.to_string()));
        }
        dialled
    }

    #[tokio::test]
    async fn each_dial_asks_anew_and_goes_to_the_next_address() {
        // case B72
        const ONE: &str = "192.0.2.1:1";
        const TWO: &str = "192.0.2.2:1";
        const SIX: &str = "[2001:db8::1]:1";
        assert_eq!(dialled(&[&[ONE], &[TWO]]).await, [ONE, TWO]);
        assert_eq!(dialled(&[&[ONE, TWO], &[ONE, TWO]]).await, [ONE, TWO]);
        // The resolver turns its answer as we turn ours.
        assert_eq!(dialled(&[&[ONE, TWO], &[TWO, ONE]]).await, [ONE, TWO]);
        // The family that the system prefers has the first turn.
        let both: &[_] = &[SIX, ONE, SIX];
        assert_eq!(dialled(&[both, both, both]).await, [SIX, ONE, SIX]);
        let none = "provider.test:1 has no address";
        assert_eq!(dialled(&[&[ONE], &[], &[TWO]]).await, [ONE, none, TWO]);
    }
}
