//! A provider: the QUIC server, and behind it a way to the world.
//!
//! With `egress.kind = "userspace"` each TCP flow and each UDP port of a client is a file descriptor of this process, less
//! the last 32 that its limit (`RLIMIT_NOFILE`) allows, which are left to everything else. The limit is the embedding
//! program's to raise: a library does not change it. The command `quell provide` does.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use quell_backend::ask::Backend;
use quell_core::config::ContractsConfig;
use quell_core::contract::{Stored, Trusted};
use quell_core::provider::{Reloaded, Roster};
use quell_egress::userspace::UserspaceStatus;
use quell_net::Protect;
use quell_net::backend::BackendHandle;
use quell_net::engine::client::Device;
use quell_net::engine::provider::{
    BillSettings, Judge, ProviderEngine, ProviderReport, ProviderSettings, Reloader,
};
use quell_net::engine::{Handle, Messages};
use quell_net::identity::Identity;
use quell_underlay::Underlay;
use quell_wire::key::PublicKey;
use serde::Serialize;
use tracing::info;

use crate::config::{ProviderFile, read_private_key};
use crate::control::{Explanation, Question, judging};
use crate::doors::Doors;
use crate::drain::draining;
use crate::egress::{self, Egress};
use crate::embed::provider::ProviderBuilder;
use crate::error::Error;
use crate::month_file::MonthFile;
use crate::plane;
use crate::plane::provider::{ProviderPlane, TrustedFile};
use crate::plane::receipts::Receipts;
use crate::reload::Orders;
use crate::running::{Running, answers};

/// A running provider, with its control socket.
pub struct Provider {
    // Declared first, dropped first.
    doors: Doors,
    running: Running<ProviderReport>,
    messages: Mutex<Option<Messages<PublicKey>>>,
    backend: BackendHandle,
    judge: Judge,
    reloader: Reloader,
    local_addr: SocketAddr,
}

/// What a provider is started with, beside its settings.
pub(crate) struct Parts {
    pub(crate) identity: Identity,
    pub(crate) plane: Option<Arc<dyn Backend>>,
    /// In the place of the egress that the settings name.
    pub(crate) device: Option<Device>,
    pub(crate) protect: Option<Protect>,
    /// It answers on a control socket.
    pub(crate) is_controlled: bool,
}

impl Provider {
    /// Starts the provider that `file` describes, in the calling thread's network
    /// namespace. Needs CAP_NET_ADMIN for `egress.kind = "tun"`, nothing for `userspace`.
    ///
    /// # Errors
    /// The key, the way to the world, the UDP port, the control socket or the month's
    /// count is not to be had.
    pub fn start(file: &ProviderFile) -> Result<Self, Error> {
        let secret = read_private_key(&file.private_key_file)?;
        let backend = match &file.backend.url {
            Some(url) => {
                let timeout = file.backend.attempt_timeout;
                Some(plane::over_http(url, secret, timeout, Underlay::default())?)
            }
            None => None,
        };
        Self::start_with(file, backend)
    }

    /// As [`Provider::start`], with a control plane of one's own: keys that the file does
    /// not list are carried for its contracts.
    ///
    /// # Errors
    /// As those of [`Provider::start`]; also what is kept of receipts cannot be read or
    /// written.
    pub fn start_with(file: &ProviderFile, plane: Option<Arc<dyn Backend>>) -> Result<Self, Error> {
        let secret = read_private_key(&file.private_key_file)?;
        let parts = Parts {
            identity: Identity::from_secret(&secret)?,
            plane,
            device: None,
            protect: None,
            is_controlled: true,
        };
        Self::launch(file, parts)
    }

    /// A provider from its configuration and whatever else an embedder has for it: see [`ProviderBuilder`].
    pub fn builder() -> ProviderBuilder {
        ProviderBuilder::default()
    }

    pub(crate) fn launch(file: &ProviderFile, parts: Parts) -> Result<Self, Error> {
        let settings = settings(file, parts.identity)?;
        let plane = match parts.plane {
            Some(backend) => Some(Books::open(file, backend)?),
            None => None,
        };
        let month = match settings.core.month_bytes_max {
            Some(_) => Some(MonthFile::open(&file.state_dir, &file.egress.tun_name)?),
            None => None,
        };
        let gateway = settings.pool.gateway();
        let (device, protect) = (parts.device, parts.protect);
        let file_of_egress = file.clone();
        let seed = rand::random();
        let (give, given) = mpsc::channel();
        let running = Running::start("quell-provider", move |tell| async move {
            let (device, egress) = match device {
                Some(device) => (device, Egress::Given),
                None => egress::open(&file_of_egress, &gateway).await?,
            };
            let (mut engine, handle) =
                ProviderEngine::with_protect(settings, device, protect, seed)?;
            // The host's own addresses count, not those of a TUN of ours.
            engine.watch_host(egress.tun())?;
            if let Some((store, used)) = month {
                engine.keep_month(used, Box::new(store))?;
            }
            let (listen, kind) = (engine.local_addr()?, egress.view().kind());
            info!(%listen, egress = kind, "provider is ready");
            let plane = match plane {
                Some(books) => Some(books.begin(&mut engine, handle.clone())?),
                None => None,
            };
            // The starter may have gone; the engine then ends by its handle.
            let asked = (engine.judge(), engine.reloader());
            let given = (engine.messages(), engine.backend(), asked);
            let _ = give.send((given, egress.view(), listen));
            let _ = tell.send(Ok(handle));
            if let Some(plane) = plane {
                tokio::task::spawn_local(plane.run());
            }
            let ended = engine.run().await;
            // Why it ended says more than what could not be taken away afterwards.
            let removed = egress.remove();
            ended?;
            removed
        })?;
        let ((messages, backend, (judge, reloader)), view, local_addr) =
            given.try_recv().map_err(|_| Error::EngineLost)?;
        let status = move |report: ProviderReport| Described {
            report,
            egress_kind: view.kind(),
            userspace: view.status(),
            offload: view.offload(),
        };
        let answers = answers(running.handle(), "provider", status);
        let all = draining(running.handle(), judging(judge.clone(), answers.clone()));
        let socket = parts.is_controlled.then(|| file.control_socket());
        Ok(Self {
            doors: Doors::open(&file.metrics, &answers, socket.as_deref(), all)?,
            running,
            messages: Mutex::new(Some(messages)),
            backend,
            judge,
            reloader,
            local_addr,
        })
    }

    /// Where it listens: the port that the system chose, where the configuration says 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// As [`Provider::stop`], with this thread and for `limit` at most, the drain included. Needs no runtime.
    ///
    /// # Errors
    /// Why it had ended before; [`Error::Overdue`]: it did not end in time and is left to itself.
    pub fn shutdown(&self, limit: Duration) -> Result<(), Error> {
        self.running.stop_within(limit)
    }

    /// The way to send messages to clients' programs, by their keys, and to take
    /// theirs; `None` after the first call.
    pub fn messages(&self) -> Option<Messages<PublicKey>> {
        self.messages.lock().take()
    }

    /// The orders to read the configuration again that come over the control socket; `None` after the first call. Until
    /// they are taken, whoever gives one waits in vain.
    pub fn orders(&self) -> Option<Orders> {
        self.doors.orders()
    }

    /// Takes on what of `file` may change while it runs: clients, rules, limits. The rest of it is not looked at;
    /// [`crate::reload::check`] says what that is.
    ///
    /// # Errors
    /// It has stopped, or a setting is not allowed; then nothing was changed.
    pub async fn reload(&self, file: &ProviderFile) -> Result<Reloaded, Error> {
        let done = self.reloader.reload(file.core(), roster(file)?).await?;
        Ok(done?)
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
    pub async fn status(&self) -> Result<ProviderReport, Error> {
        self.running.status().await
    }

    /// As [`Provider::status`], with this thread and for `limit` at most. Needs no runtime.
    ///
    /// # Errors
    /// It has stopped, or did not answer in time.
    pub fn status_within(&self, limit: Duration) -> Result<ProviderReport, Error> {
        self.running.status_within(limit)
    }

    /// Whether its clients may speak to a destination, and why: what `quell why` says.
    ///
    /// # Errors
    /// It has stopped.
    pub async fn explain(&self, question: Question) -> Result<Explanation, Error> {
        Ok(self.judge.explain(question.asked()).await?)
    }

    /// Resolves when it has ended by itself; [`Provider::stop`] tells why.
    pub async fn ended(&self) {
        self.running.ended().await;
    }

    /// Tells all clients to go, carries on for the drain time while any is there,
    /// removes the TUN and the rules, and waits for the end. A second call, while
    /// the first waits, ends the drain at once.
    ///
    /// # Errors
    /// Why it had ended before.
    pub async fn stop(&self) -> Result<(), Error> {
        self.running.stop().await
    }
}

/// What a provider that carries for contracts begins with.
struct Books {
    backend: Arc<dyn Backend>,
    receipts: Receipts,
    stored: Stored,
    keys: TrustedFile,
    trusted: Trusted,
    addresses: Vec<String>,
}

impl Books {
    fn open(file: &ProviderFile, backend: Arc<dyn Backend>) -> Result<Self, Error> {
        let (folder, name) = (&file.state_dir, file.egress.tun_name.as_str());
        let (receipts, stored) = Receipts::open(folder, name)?;
        let (keys, known) = TrustedFile::open(folder, name)?;
        let trusted = match known {
            Some(keys) => Trusted::try_new(&keys)?,
            None => Trusted::nobody(),
        };
        let addresses = file.backend.advertise.iter().map(ToString::to_string);
        Ok(Self {
            backend,
            receipts,
            stored,
            keys,
            trusted,
            addresses: addresses.collect(),
        })
    }

    fn begin(
        self,
        engine: &mut ProviderEngine,
        handle: Handle<ProviderReport>,
    ) -> Result<ProviderPlane, Error> {
        let bill = BillSettings {
            contracts: ContractsConfig::default(),
            trusted: self.trusted,
            stored: self.stored,
        };
        let billing = engine.bill(bill, rand::random());
        // It ends with the engine, and is not waited for: what gave credit is durable.
        self.receipts.serve(billing.batches, billing.written)?;
        Ok(ProviderPlane {
            backend: self.backend,
            health: engine.backend().first(),
            addresses: self.addresses,
            keys: self.keys,
            engine: handle,
            filings: billing.filings,
            filed: billing.filed,
            trusted: billing.trusted,
        })
    }
}

/// What the control socket says of a provider.
#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    report: ProviderReport,
    /// Which way to the world it has.
    egress_kind: &'static str,
    /// What the userspace one does, where it is that.
    userspace: Option<UserspaceStatus>,
    /// What the kernel takes off the TUN's hands, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    offload: Option<quell_tun::OffloadStats>,
}

fn roster(file: &ProviderFile) -> Result<Roster, Error> {
    let clients = file.clients.iter();
    let clients = clients.map(|client| (client.name.clone(), client.public_key));
    Ok(Roster::try_new(clients)?)
}

fn settings(file: &ProviderFile, identity: Identity) -> Result<ProviderSettings, Error> {
    Ok(ProviderSettings {
        identity,
        listen: file.listen,
        core: file.core().try_new()?,
        roster: roster(file)?,
        pool: file.addresses.pool()?,
        transport: file.transport.quic().try_new()?,
        backend: file.backend.settings().try_new()?,
        mtu_max: file.egress.mtu,
    })
}
