//! Both engines in one process, each on a thread of its own, with channel devices.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use quell_core::config::{ClientConfig, ProviderConfig};
use quell_core::provider::{AddressPool, Roster};
use quell_net::backend::BackendSettings;
use quell_net::engine::client::{ClientEngine, ClientReport, ClientSettings, Device, Server};
use quell_net::engine::provider::{ProviderEngine, ProviderReport, ProviderSettings};
use quell_net::engine::{Handle, Messages};
use quell_net::identity::Identity;
use quell_net::transport::TransportSettings;
use quell_tun::channel::{self, ChannelHandle};
use quell_wire::key::PublicKey;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// An engine on a thread of its own, as in the product.
pub(crate) struct Running<R, A> {
    handle: Handle<R>,
    pub(crate) messages: Messages<A>,
    pub(crate) device: ChannelHandle,
    thread: Option<thread::JoinHandle<()>>,
}

impl<R, A> Running<R, A> {
    pub(crate) fn status(&self) -> R {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.handle.status()).unwrap()
    }

    pub(crate) fn tell_to_stop(&self) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.handle.stop());
    }

    pub(crate) fn stop(&mut self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub(crate) fn until<T>(&self, what: &str, mut probe: impl FnMut(&R) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = probe(&self.status()) {
                return found;
            }
            assert!(start.elapsed() < PATIENCE, "never: {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl<R, A> Drop for Running<R, A> {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.tell_to_stop();
        }
    }
}

fn channel_device() -> (Device, ChannelHandle) {
    let (device, handle) = channel::pair(4_096);
    let (reader, writer, stop) = device.split();
    let device = Device {
        reader: Box::new(reader),
        writer: Box::new(writer),
        stop,
    };
    (device, handle)
}

pub(crate) fn provider(
    identity: &Identity,
    clients: Vec<(String, PublicKey)>,
    config: ProviderConfig,
) -> (Running<ProviderReport, PublicKey>, SocketAddr) {
    provider_of(identity, clients, config, BackendSettings::default())
}

pub(crate) fn provider_of(
    identity: &Identity,
    clients: Vec<(String, PublicKey)>,
    config: ProviderConfig,
    backend: BackendSettings,
) -> (Running<ProviderReport, PublicKey>, SocketAddr) {
    provider_prepared(identity, clients, (config, backend), |_| {})
}

/// A provider whose engine is changed before it runs.
pub(crate) fn provider_prepared(
    identity: &Identity,
    clients: Vec<(String, PublicKey)>,
    (config, backend): (ProviderConfig, BackendSettings),
    prepare: impl FnOnce(&mut ProviderEngine) + Send + 'static,
) -> (Running<ProviderReport, PublicKey>, SocketAddr) {
    let (device, device_handle) = channel_device();
    let settings = ProviderSettings {
        identity: identity.clone(),
        listen: "127.0.0.1:0".parse().unwrap(),
        core: config,
        roster: Roster::try_new(clients).unwrap(),
        pool: AddressPool::try_new("10.85.0.0/24".parse().ok(), "fd71::/64".parse().ok()).unwrap(),
        transport: TransportSettings::default(),
        mtu_max: 1_500,
        backend,
    };
    let (tell, told) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async move {
            let (mut engine, handle) = ProviderEngine::new(settings, device, 1).unwrap();
            prepare(&mut engine);
            let told = (handle, engine.messages(), engine.local_addr().unwrap());
            assert!(tell.send(told).is_ok());
            engine.run().await.unwrap();
        });
    });
    let (handle, messages, address) = told.recv().unwrap();
    let running = Running {
        handle,
        messages,
        device: device_handle,
        thread: Some(thread),
    };
    (running, address)
}

pub(crate) fn client(
    identity: &Identity,
    provider: PublicKey,
    remote: SocketAddr,
) -> Running<ClientReport, ()> {
    client_of(identity, provider, remote, BackendSettings::default())
}

pub(crate) fn client_of(
    identity: &Identity,
    provider: PublicKey,
    remote: SocketAddr,
    backend: BackendSettings,
) -> Running<ClientReport, ()> {
    let servers = vec![server(provider, remote, None)];
    client_prepared(identity, servers, backend, |_| {})
}

pub(crate) fn server(key: PublicKey, remote: SocketAddr, identity: Option<Identity>) -> Server {
    Server {
        name: remote.to_string(),
        key,
        remote: remote.to_string(),
        weight: 100,
        identity,
        is_paid: false,
    }
}

/// A client whose engine is changed before it runs.
pub(crate) fn client_prepared(
    identity: &Identity,
    servers: Vec<Server>,
    backend: BackendSettings,
    prepare: impl FnOnce(&mut ClientEngine) + Send + 'static,
) -> Running<ClientReport, ()> {
    let (device, device_handle) = channel_device();
    let settings = ClientSettings {
        identity: identity.clone(),
        servers,
        core: ClientConfig {
            reconnect_base: Duration::from_millis(100),
            ..ClientConfig::default()
        },
        transport: TransportSettings::default(),
        mtu_max: 1_500,
        agent: "test".to_owned(),
        backend,
        underlay: quell_underlay::Underlay::default(),
    };
    let (tell, told) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async move {
            let (mut engine, handle, _wanted) = ClientEngine::new(settings, device, 2).unwrap();
            prepare(&mut engine);
            assert!(tell.send((handle, engine.messages())).is_ok());
            engine.run().await.unwrap();
        });
    });
    let (handle, messages) = told.recv().unwrap();
    Running {
        handle,
        messages,
        device: device_handle,
        thread: Some(thread),
    }
}

pub(crate) fn named(identity: &Identity) -> Vec<(String, PublicKey)> {
    vec![("laptop".to_owned(), identity.public_key())]
}
