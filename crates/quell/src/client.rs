//! A client: a TUN or a proxy, and the tunnel behind it.
//!
//! With a proxy each connection of an application is a file descriptor of this process, less the last 32 that its limit
//! (`RLIMIT_NOFILE`) allows, which are left to everything else. The limit is the embedding program's to raise: a library
//! does not change it. The command `quell up` does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use quell_backend::ask::Backend;
use quell_core::config::WalletConfig;
use quell_core::multi::Network;
use quell_net::Protect;
use quell_net::backend::BackendHandle;
use quell_net::engine::client::{
    ClientEngine, ClientReport, ClientSettings, Device, DeviceState, Server,
};
use quell_net::engine::paying::PaySettings;
use quell_net::engine::{Event, Messages, Steer};
use quell_net::identity::Identity;
use quell_proxy::{Observer, Proxy, ProxyStatus, Tunnel};
use quell_tun::os::{TunConfig, TunDevice};
use quell_tun::{Offload, OffloadStats};
use quell_underlay::Underlay;
use quell_wire::key::PublicKey;
use serde::Serialize;
use tokio::sync::watch;

use crate::config::{ClientFile, ProviderPeer, TunSection, read_private_key};
use crate::device;
use crate::doors::Doors;
use crate::embed::client::ClientBuilder;
use crate::embed::events::{Events, Hub};
use crate::error::Error;
use crate::plane;
use crate::plane::client::ClientPlane;
use crate::plane::kept::{Kept, KeptFile};
use crate::proxy;
use crate::reload::Orders;
use crate::running::{Running, answers};

/// A running client, with its control socket.
pub struct Client {
    // Declared first, dropped first.
    doors: Doors,
    running: Running<ClientReport>,
    messages: Mutex<Option<Messages<()>>>,
    backend: BackendHandle,
    proxy: Option<Observer>,
    interface: watch::Receiver<bool>,
    /// Whether the host leads its traffic here.
    is_led: Arc<AtomicBool>,
    steer: Steer,
    hub: Hub,
}

/// What a client is started with, beside its settings.
pub(crate) struct Parts {
    pub(crate) identity: Identity,
    pub(crate) plane: Option<Arc<dyn Backend>>,
    /// In the place of what the settings name.
    pub(crate) device: Option<Device>,
    pub(crate) protect: Option<Protect>,
    /// It answers on a control socket.
    pub(crate) is_controlled: bool,
    /// How its own packets stay outside.
    pub(crate) underlay: Underlay,
    /// The host leads its traffic here, or somebody else sees to it: nobody will say so.
    pub(crate) is_led: bool,
}

/// The near end of the tunnel, before it is opened.
enum Near {
    /// An interface.
    Tun(TunSection),
    /// It listens already, so that a port in use is said to the caller.
    Proxy(proxy::Opened),
    /// The embedder's own.
    Given(Device),
}

/// The same, once the engine has its device.
enum Opened {
    Tun(String),
    Proxy {
        /// Dropped, and thereby ended, when the engine has.
        _held: Proxy,
        tunnel: watch::Sender<Tunnel>,
    },
    /// Nothing of it is ours to change.
    Given,
}

impl Near {
    /// The device that was given, else what the file has: applications by a proxy, or a TUN.
    fn of(file: &ClientFile, device: Option<Device>) -> Result<Self, Error> {
        Ok(match (device, file.proxy.proxy()?) {
            (Some(device), _) => Self::Given(device),
            (None, Some(config)) => Self::Proxy(proxy::open(config)?),
            (None, None) => Self::Tun(file.tun.clone()),
        })
    }

    fn observer(&self) -> Option<Observer> {
        match self {
            Self::Tun(..) | Self::Given(_) => None,
            Self::Proxy(opened) => Some(opened.proxy.observer()),
        }
    }

    /// The offload is that of a TUN.
    fn open(self) -> Result<(Device, Opened, Option<Offload>), Error> {
        match self {
            Self::Tun(TunSection {
                name,
                offload,
                mtu_max: _,
                routes: _,
                exclude: _,
            }) => {
                let tun = TunDevice::create(TunConfig {
                    name: Some(name.clone()),
                    offload: offload.into(),
                    ..TunConfig::default()
                })?;
                let offload = tun.offload();
                Ok((split(tun), Opened::Tun(name), Some(offload)))
            }
            Self::Proxy(opened) => {
                let near = Opened::Proxy {
                    _held: opened.proxy,
                    tunnel: opened.tunnel,
                };
                Ok((opened.device, near, None))
            }
            Self::Given(device) => Ok((device, Opened::Given, None)),
        }
    }
}

impl Opened {
    async fn follow(
        &self,
        wanted: watch::Receiver<DeviceState>,
        ready: &watch::Sender<bool>,
    ) -> Result<(), Error> {
        match self {
            Self::Tun(name) => device::follow(name, wanted, ready).await,
            Self::Proxy { tunnel, .. } => {
                proxy::follow(tunnel, wanted, ready).await;
                Ok(())
            }
            Self::Given => {
                device::watch_given(wanted, ready).await;
                Ok(())
            }
        }
    }
}

impl Client {
    /// Starts the client that `file` describes, and dials: creates the TUN in the
    /// calling thread's network namespace, which needs CAP_NET_ADMIN, or listens
    /// for applications where the file has a proxy, which needs nothing.
    ///
    /// # Errors
    /// The key, the TUN, a listener or the control socket is not to be had.
    pub fn start(file: &ClientFile) -> Result<Self, Error> {
        // Nobody will say that the host leads its traffic here.
        Self::start_by(file, Underlay::default(), true)
    }

    /// As [`Client::start`], by the way of `underlay`: its own packets, dials and questions to
    /// the control plane stay outside of a tunnel that takes everything else. Who installs the
    /// host's rules and routes is the caller, who tells when by [`Client::routes_ready`]; `quell up`
    /// does.
    ///
    /// # Errors
    /// As those of [`Client::start`].
    pub fn start_over(file: &ClientFile, underlay: Underlay) -> Result<Self, Error> {
        Self::start_by(file, underlay, false)
    }

    fn start_by(file: &ClientFile, underlay: Underlay, is_led: bool) -> Result<Self, Error> {
        let secret = read_private_key(&file.private_key_file)?;
        let timeout = file.backend.attempt_timeout;
        let backend = match &file.backend.url {
            Some(url) => Some(plane::over_http(url, secret, timeout, underlay.clone())?),
            None => None,
        };
        Self::begin(file, backend, underlay, is_led)
    }

    /// As [`Client::start`], with a control plane of one's own: exits come from its catalog
    /// beside those of the file, and are paid with its contracts.
    ///
    /// # Errors
    /// As those of [`Client::start`]; also what is kept for a start without the control
    /// plane cannot be read or written.
    pub fn start_with(file: &ClientFile, plane: Option<Arc<dyn Backend>>) -> Result<Self, Error> {
        Self::begin(file, plane, Underlay::default(), true)
    }

    fn begin(
        file: &ClientFile,
        plane: Option<Arc<dyn Backend>>,
        underlay: Underlay,
        is_led: bool,
    ) -> Result<Self, Error> {
        let secret = read_private_key(&file.private_key_file)?;
        let parts = Parts {
            identity: Identity::from_secret(&secret)?,
            plane,
            device: None,
            protect: None,
            is_controlled: true,
            underlay,
            is_led,
        };
        Self::launch(file, parts)
    }

    /// A client from its configuration and whatever else an embedder has for it: see [`ClientBuilder`].
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn launch(file: &ClientFile, parts: Parts) -> Result<Self, Error> {
        let settings = settings(file, parts.identity, parts.underlay)?;
        let plane = match parts.plane {
            Some(backend) => {
                let account = settings.identity.public_key();
                let kept = KeptFile::open(&file.state_dir, &file.tun.name, &account)?;
                Some((backend, kept))
            }
            None => None,
        };
        let near = Near::of(file, parts.device)?;
        let applications = near.observer();
        let seed = rand::random();
        let (ready, is_ready) = watch::channel(false);
        let (give, given) = mpsc::channel();
        let hub = Hub::default();
        let (told, protect) = (hub.clone(), parts.protect);
        let running = Running::start("quell-client", move |tell| async move {
            let mut farewell = Farewell::new(told.clone());
            let (device, near, offload) = near.open()?;
            let (mut engine, handle, wanted) = ClientEngine::new(settings, device, seed)?;
            engine.tell(Box::new(move |event| told.tell(event)));
            if let Some(protect) = protect {
                engine.protect(protect);
            }
            let plane = plane.map(|(backend, kept)| join(&mut engine, backend, kept));
            // The starter may have gone; the engine then ends by its handle.
            let _ = give.send((engine.messages(), engine.backend(), engine.steer(), offload));
            let _ = tell.send(Ok(handle));
            let plane = tokio::task::spawn_local(async move {
                if let Some(plane) = plane {
                    plane.run().await;
                }
            });
            let ended = tokio::select! {
                ended = engine.run() => ended.map_err(Error::from),
                failed = near.follow(wanted, &ready) => failed,
            };
            // The engine is gone: what it left is written.
            let _ = plane.await;
            farewell.because(&ended);
            ended
        })?;
        let (messages, backend, steer, offload) =
            given.try_recv().map_err(|_| Error::EngineLost)?;
        let interface = is_ready.clone();
        let is_led = Arc::new(AtomicBool::new(parts.is_led));
        let led = Arc::clone(&is_led);
        let seen = applications.clone();
        let status = move |report: ClientReport| Described {
            report,
            interface_ready: *is_ready.borrow() && led.load(Ordering::Relaxed),
            proxy: seen.as_ref().map(Observer::status),
            offload: offload.as_ref().map(|offload| offload.stats()),
        };
        let answers = answers(running.handle(), "client", status);
        let socket = parts.is_controlled.then(|| file.control_socket());
        Ok(Self {
            doors: Doors::open(&file.metrics, &answers, socket.as_deref(), answers.clone())?,
            running,
            messages: Mutex::new(Some(messages)),
            backend,
            proxy: applications,
            interface,
            is_led,
            steer,
            hub,
        })
    }

    /// One more stream of what happens. It begins with what holds: the tunnel's parameters, and whether packets are
    /// carried.
    pub fn events(&self) -> Events {
        self.hub.subscribe()
    }

    /// The network beneath is another, or what the system knows of it is: `validated`, it has seen that it leads to the
    /// world; `metered`, bytes on it cost. Each session asks at once whether it goes on, once a second at most, and a dial
    /// that waits is due; on a network that costs one exit is kept while it is well, and no copy is sent that no
    /// application asked for. Never waits.
    pub fn network_changed(&self, network: Network) {
        self.steer.network_changed(network);
    }

    /// The system may stop this process at any moment, as under a closed lid: nothing is begun, no datagram, no dial, no
    /// timer, and the device is not read, until [`Client::resumed`]. Sessions stay. Never waits.
    pub fn suspended(&self) {
        self.steer.suspended();
    }

    /// Ends [`Client::suspended`], and asks every exit at once. Never waits.
    pub fn resumed(&self) {
        self.steer.resumed();
    }

    /// The person's pause: `true` ends all sessions and begins none, the device stays and what comes from it is dropped,
    /// so that nothing leaves in the clear; `false` ends it. Never waits.
    pub fn hold(&self, held: bool) {
        self.steer.hold(held);
    }

    /// Lets the exit of this key carry new flows whenever it can; the others stand in for it. `None`: whichever is best.
    /// A key that is not known counts from when a catalog names it. Never waits.
    pub fn select(&self, exit: Option<PublicKey>) {
        self.steer.select(exit);
    }

    /// As [`Client::stop`], with this thread and for `limit` at most; 1 s is ample where the device does not wait. Needs no
    /// runtime.
    ///
    /// # Errors
    /// Why it had ended before; [`Error::Overdue`]: it did not end in time and is left to itself, as a device of one's own
    /// can cause.
    pub fn shutdown(&self, limit: Duration) -> Result<(), Error> {
        self.running.stop_within(limit)
    }

    /// Sees into the proxy, where the file has one: where it listens, what it does.
    pub fn proxy(&self) -> Option<&Observer> {
        self.proxy.as_ref()
    }

    /// Whether the interface is up with a session's addresses, which [`Client::status`] tells.
    /// Changes each time that it gets others. Routes into it are the caller's.
    pub fn interface(&self) -> watch::Receiver<bool> {
        self.interface.clone()
    }

    /// The host's routes lead into the interface: from now on its status is that it is ready.
    pub fn routes_ready(&self) {
        self.is_led.store(true, Ordering::Relaxed);
    }

    /// The way to send messages to the provider's program and to take its own;
    /// `None` after the first call.
    pub fn messages(&self) -> Option<Messages<()>> {
        self.messages.lock().take()
    }

    /// The orders to read the configuration again that come over the control socket; `None` after the first call. Until
    /// they are taken, whoever gives one waits in vain.
    pub fn orders(&self) -> Option<Orders> {
        self.doors.orders()
    }

    /// Tells that a call of your own to the control plane failed. Three in a row, each in
    /// another 500 ms (`backend.failures_to_degrade`), degrade the backend: what is
    /// acknowledged is resent ever more rarely on paths that do not answer, and nothing
    /// else changes, until a success. A call that was cancelled is neither a failure nor
    /// a success, one that was refused (4xx) is a success: somebody answered.
    ///
    /// For programs that talk to their control plane themselves. With `backend.urls` set,
    /// notes and quell's own questions are one account: either's success ends it.
    pub fn note_backend_failure(&self) {
        self.backend.note_failure();
    }

    /// Tells that a call of your own to the control plane was answered: ends what
    /// [`Self::note_backend_failure`] began.
    pub fn note_backend_success(&self) {
        self.backend.note_success();
    }

    /// What it is doing.
    ///
    /// # Errors
    /// It has stopped.
    pub async fn status(&self) -> Result<ClientReport, Error> {
        self.running.status().await
    }

    /// As [`Client::status`], with this thread and for `limit` at most. Needs no runtime.
    ///
    /// # Errors
    /// It has stopped, or did not answer in time.
    pub fn status_within(&self, limit: Duration) -> Result<ClientReport, Error> {
        self.running.status_within(limit)
    }

    /// Resolves when it has ended by itself; [`Client::stop`] tells why.
    pub async fn ended(&self) {
        self.running.ended().await;
    }

    /// Closes the session, removes the TUN or ends the proxy, and waits for the end.
    ///
    /// # Errors
    /// Why it had ended before.
    pub async fn stop(&self) -> Result<(), Error> {
        self.running.stop().await
    }
}

/// What the control socket says of a client.
#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    report: ClientReport,
    /// Whether addresses and routes are in place, or the proxy has a session.
    interface_ready: bool,
    /// What the proxy does, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<ProxyStatus>,
    /// What the kernel takes off the TUN's hands, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    offload: Option<OffloadStats>,
}

/// Tells of the end, whichever way the thread takes to it.
struct Farewell {
    hub: Hub,
    reason: Option<String>,
    asked: bool,
}

impl Farewell {
    fn new(hub: Hub) -> Self {
        Self {
            hub,
            reason: None,
            asked: false,
        }
    }

    fn because(&mut self, ended: &Result<(), Error>) {
        self.reason = Some(match ended {
            Ok(()) => "it was told to stop".to_owned(),
            Err(error) => error.to_string(),
        });
        self.asked = ended.is_ok();
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let reason = self.reason.take();
        self.hub.tell(Event::Down {
            asked: self.asked,
            reason: reason.unwrap_or_else(|| Error::EngineLost.to_string()),
        });
    }
}

fn settings(
    file: &ClientFile,
    identity: Identity,
    underlay: Underlay,
) -> Result<ClientSettings, Error> {
    Ok(ClientSettings {
        identity,
        servers: file.providers.iter().map(server).collect(),
        core: file.core().try_new()?,
        transport: file.transport.quic().try_new()?,
        backend: file.backend.settings().try_new()?,
        mtu_max: file.tun.mtu_max,
        agent: agent(),
        underlay,
    })
}

/// Lets the engine live by a control plane, from what was kept of it on.
fn join(
    engine: &mut ClientEngine,
    backend: Arc<dyn Backend>,
    (file, kept): (KeptFile, Kept),
) -> ClientPlane {
    let pay = PaySettings {
        wallet: WalletConfig::default(),
        stored: kept.contracts.clone(),
        clean: kept.clean,
    };
    ClientPlane {
        backend,
        health: engine.backend().first(),
        file,
        kept,
        exits: engine.catalog(),
        paying: engine.pay(pay, rand::random()),
    }
}

/// A provider as the engine knows it. People call it by its address, and by its place
/// where one is given.
fn server(peer: &ProviderPeer) -> Server {
    let remote = peer.address.to_string();
    let name = match peer.place.as_str() {
        "" => remote.clone(),
        place => format!("{remote} ({place})"),
    };
    Server {
        name,
        key: peer.public_key,
        remote,
        weight: peer.weight,
        identity: None,
        is_paid: false,
    }
}

/// What we call ourselves.
fn agent() -> String {
    format!("quell/{}", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn split(tun: TunDevice) -> Device {
    let (reader, writer, stop) = tun.split();
    Device {
        reader: Box::new(reader),
        writer: Box::new(writer),
        stop,
    }
}
