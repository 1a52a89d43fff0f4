//! An embedder's hooks, each against a real exit on the loopback.
#![cfg(feature = "provider")]
#![allow(clippy::unwrap_used)]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use quell::packet::build;
use quell::{
    ChannelHandle, Client, ClientBuilder, Config, Device, Error, Event, Events, Identity, Provider,
    PublicKey, ReadOutcome, Signer, StopHandle, TunError, TunReader, TunWriter, WriteReport,
};

const PATIENCE: Duration = Duration::from_secs(10);

/// An exit that knows `user`, with a channel in the place of the world.
struct Exit {
    provider: Provider,
    world: ChannelHandle,
    key: PublicKey,
}

impl Exit {
    fn of(user: PublicKey) -> Self {
        let identity = Identity::generate().unwrap();
        let (device, world) = Device::channel(256);
        let text = format!(
            "listen = \"127.0.0.1:0\"\naddresses.ipv4_pool = \"10.86.0.0/24\"\n\
             egress.allow = [\"192.0.2.0/24\"]\ntransport.drain = \"0s\"\n\
             clients = [{{ name = \"user\", public_key = \"{user}\" }}]"
        );
        let provider = Provider::builder()
            .config(Config::from_text(&text).unwrap())
            .key(identity.secret_key().clone())
            .device(device)
            .start()
            .unwrap();
        Self {
            provider,
            world,
            key: identity.public_key(),
        }
    }

    fn config(&self) -> Config {
        let text = format!(
            "transport.reconnect_base = \"100ms\"\n\
             [provider]\naddress = \"{}\"\npublic_key = \"{}\"",
            self.provider.local_addr(),
            self.key
        );
        Config::from_text(&text).unwrap()
    }

    /// A client with all but a device.
    fn builder(&self, user: &Identity) -> ClientBuilder {
        let key = user.secret_key().clone();
        Client::builder().config(self.config()).key(key)
    }
}

fn until(events: &mut Events, is_it: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = events.next_within(PATIENCE).expect("it never happened");
        if is_it(&event) {
            return event;
        }
    }
}

fn own_address(events: &mut Events) -> Ipv4Addr {
    let event = until(events, |event| matches!(event, Event::Tunnel { .. }));
    let Event::Tunnel { addresses, .. } = event else {
        unreachable!("it was looked for");
    };
    until(events, |event| matches!(event, Event::Up { .. }));
    addresses.ipv4.unwrap().0
}

fn hello(own: Ipv4Addr) -> Vec<u8> {
    let far: SocketAddr = "192.0.2.1:53".parse().unwrap();
    build::udp((own, 4_000).into(), far, b"hello")
}

#[test]
fn both_ends_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Client>();
    shared::<Provider>();
    shared::<Events>();
}

#[test]
fn a_socket_that_is_not_protected_sends_nothing_and_the_next_dial_asks_again() {
    let user = Identity::generate().unwrap();
    let exit = Exit::of(user.public_key());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let (device, _packets) = Device::channel(16);
    let client = exit
        .builder(&user)
        .device(device)
        .protect(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Err(io::Error::other("the service is not bound")),
            _ => Ok(()),
        })
        .start()
        .unwrap();
    let mut events = client.events();
    let stalled = until(&mut events, |event| matches!(event, Event::Stalled { .. }));
    let words = format!("{stalled:?}");
    assert!(words.contains("the service is not bound"), "{words}");
    until(&mut events, |event| matches!(event, Event::Up { .. }));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn a_tun_that_somebody_else_opened_carries_packets() {
    let user = Identity::generate().unwrap();
    let exit = Exit::of(user.public_key());
    // A socket that keeps datagrams apart reads and writes as a TUN's file does.
    let (near, far) = UnixDatagram::pair().unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    let device = Device::from_fd(OwnedFd::from(near)).unwrap();
    let client = exit.builder(&user).device(device).start().unwrap();
    let own = own_address(&mut client.events());
    let out = hello(own);
    far.send(&out).unwrap();
    assert_eq!(exit.world.take_within(PATIENCE).unwrap(), out);
    let back = build::udp(
        "192.0.2.1:53".parse().unwrap(),
        (own, 4_000).into(),
        b"back",
    );
    exit.world.inject_copy(&back).unwrap();
    let mut buffer = [0; 2_048];
    let len = far.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..len], back);
    client.shutdown(PATIENCE).unwrap();
    assert!(far.send(&out).is_err(), "the file is closed at the end");
}

/// A key that only signs.
struct Keystore(Identity);

impl Signer for Keystore {
    fn public_key(&self) -> PublicKey {
        self.0.public_key()
    }

    fn sign(&self, message: &[u8]) -> io::Result<[u8; 64]> {
        let signature = self.0.sign(message).map_err(io::Error::other)?;
        Ok(signature.0)
    }
}

#[test]
fn a_key_that_is_held_elsewhere_connects_and_does_without_http() {
    let user = Identity::generate().unwrap();
    let exit = Exit::of(user.public_key());
    let signer = Arc::new(Keystore(user));
    let (device, packets) = Device::channel(16);
    let client = Client::builder()
        .config(exit.config())
        .signer(signer.clone())
        .device(device)
        .start()
        .unwrap();
    let own = own_address(&mut client.events());
    packets.inject_copy(&hello(own)).unwrap();
    assert_eq!(exit.world.take_within(PATIENCE).unwrap(), hello(own));
    let text = "backend.url = \"http://127.0.0.1:1\"";
    let over_http = Client::builder()
        .config(Config::from_text(text).unwrap())
        .signer(signer)
        .device(Device::channel(16).0)
        .start();
    assert!(matches!(over_http, Err(Error::SignerOverHttp)));
}

/// A device whose writing half never comes back, once it was called.
struct Stuck {
    _forever: mpsc::Sender<()>,
    wait: mpsc::Receiver<()>,
    called: mpsc::Sender<()>,
}

impl TunWriter for Stuck {
    fn write_batch(&mut self, _: &[bytes::Bytes]) -> Result<WriteReport, TunError> {
        let _ = self.called.send(());
        let _ = self.wait.recv();
        Ok(WriteReport::default())
    }
}

/// One that gives nothing, and ends by the signal.
struct Silent(crossbeam_channel::Receiver<()>);

impl TunReader for Silent {
    fn read_batch(&mut self, _: &mut Vec<bytes::BytesMut>) -> Result<ReadOutcome, TunError> {
        let _ = self.0.recv();
        Ok(ReadOutcome::Stopped)
    }
}

#[test]
fn a_device_that_never_comes_back_does_not_hold_up_the_shutdown() {
    let user = Identity::generate().unwrap();
    let exit = Exit::of(user.public_key());
    let (stop, stopped) = StopHandle::with_channel();
    let (forever, wait) = mpsc::channel();
    let (called, was_called) = mpsc::channel();
    let stuck = Stuck {
        _forever: forever,
        wait,
        called,
    };
    let device = Device::own(Silent(stopped), stuck, stop);
    let client = exit.builder(&user).device(device).start().unwrap();
    let own = own_address(&mut client.events());
    let back = build::udp(
        "192.0.2.1:53".parse().unwrap(),
        (own, 4_000).into(),
        b"back",
    );
    exit.world.inject_copy(&back).unwrap();
    was_called.recv_timeout(PATIENCE).unwrap();
    let began = Instant::now();
    let limit = Duration::from_millis(800);
    let error = client.shutdown(limit).unwrap_err();
    assert!(matches!(error, Error::Overdue { .. }), "{error}");
    drop(client);
    assert!(began.elapsed() < 2 * limit, "{:?}", began.elapsed());
}

#[test]
fn a_client_may_be_dropped_and_shut_down_within_a_runtime_of_the_embedders() {
    let user = Identity::generate().unwrap();
    let exit = Exit::of(user.public_key());
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let (device, _packets) = Device::channel(16);
        let client = exit.builder(&user).device(device).start().unwrap();
        let mut events = client.events();
        while !matches!(events.next().await, Some(Event::Up { .. })) {}
        assert_eq!(client.status().await.unwrap().client.state, "up");
        client.shutdown(PATIENCE).unwrap();
        let down = async { while events.next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, down).await.unwrap();
        let (device, _packets) = Device::channel(16);
        drop(exit.builder(&user).device(device).start().unwrap());
    });
}

#[test]
fn what_is_missing_or_does_not_fit_is_said() {
    let user = Identity::generate().unwrap();
    let exit = Exit::of(user.public_key());
    let error = |builder: ClientBuilder| {
        let device = Device::channel(16).0;
        builder.device(device).start().err().unwrap().to_string()
    };
    let words = error(Client::builder());
    assert!(words.contains("no configuration"), "{words}");
    let words = error(Client::builder().config(exit.config()));
    assert!(words.contains("no private key"), "{words}");
    let words = error(exit.builder(&user).memory_max(1 << 20));
    assert!(
        words.starts_with("budget.memory = 1048576: allowed is"),
        "{words}"
    );
    let of_the_exit = Identity::generate().unwrap();
    let text = format!(
        "[provider]\naddress = \"127.0.0.1:1\"\npublic_key = \"{}\"",
        of_the_exit.public_key()
    );
    let own = Client::builder()
        .config(Config::from_text(&text).unwrap())
        .key(of_the_exit.secret_key().clone());
    let words = error(own);
    assert!(words.contains("provider.public_key"), "{words}");
    let other =
        Config::from_text("listen = \"127.0.0.1:0\"\naddresses.ipv4_pool = \"10.0.0.0/24\"");
    let words = error(Client::builder().config(other.unwrap()));
    assert!(words.contains("a client's is needed"), "{words}");
}

#[test]
fn an_outage_of_the_programs_own_control_plane_is_told_and_its_end_too() {
    let user = Identity::generate().unwrap();
    let exit = Exit::of(user.public_key());
    let (device, _packets) = Device::channel(16);
    let client = exit.builder(&user).device(device).start().unwrap();
    let mut events = client.events();
    until(&mut events, |event| matches!(event, Event::Up { .. }));
    // Three failures, each in another half second.
    for _ in 0..3 {
        client.note_backend_failure();
        std::thread::sleep(Duration::from_millis(600));
    }
    let outage = |degraded| Event::Outage {
        degraded,
        contracts_last: None,
    };
    until(&mut events, |event| *event == outage(true));
    client.note_backend_success();
    until(&mut events, |event| *event == outage(false));
}
