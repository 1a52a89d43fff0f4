//! A proxy, an egress, and two threads that carry packets between them: the tunnel, without the tunnel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use crossbeam_channel::{Sender, bounded};
use quell_egress::userspace::{
    AllowAll, PacketSink, PacketSource, Policy, Taken, Userspace, UserspaceConfig,
};
use quell_proxy::{Proxy, ProxyConfig, ProxyCounts, Tunnel};
use tokio::sync::watch;

pub(crate) const V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub(crate) const V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a test does to the packets from the world: it may look, change, drop, and add.
pub(crate) type Meddle = Box<dyn FnMut(BytesMut) -> Vec<Bytes> + Send>;

pub(crate) struct Rig {
    pub(crate) proxy: Proxy,
    pub(crate) egress: Userspace,
    pub(crate) tunnel: watch::Sender<Tunnel>,
    meddle: Arc<Mutex<Option<Meddle>>>,
    _stops: [Sender<()>; 2],
}

/// The session of most tests.
pub(crate) fn session() -> Tunnel {
    Tunnel {
        ipv4: Some(V4),
        ipv6: Some(V6),
        mtu: 1_280,
    }
}

/// Both listeners, and times that a test can wait for.
pub(crate) fn config() -> ProxyConfig {
    let any = Some("127.0.0.1:0".parse().unwrap());
    let mut config = ProxyConfig {
        socks5: any,
        http: any,
        ..ProxyConfig::default()
    };
    config.limits.handshake_timeout = Duration::from_secs(1);
    config.limits.session_wait = Duration::from_millis(500);
    config.limits.connect_timeout = Duration::from_secs(2);
    config.limits.dns_timeout = Duration::from_millis(500);
    config
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(config(), Box::new(AllowAll), session())
    }

    pub(crate) fn with(config: ProxyConfig, policy: Box<dyn Policy>, session: Tunnel) -> Self {
        let (tunnel, told) = watch::channel(session);
        let (stop, stopped) = bounded(1);
        let (proxy, sink, source) = Proxy::start(config, told, stopped).unwrap();
        let (stop_egress, stopped) = bounded(1);
        let (egress, egress_sink, egress_source) =
            Userspace::start(UserspaceConfig::default(), policy, stopped).unwrap();
        let meddle = Arc::new(Mutex::new(None));
        carry(source, egress_sink, Arc::default());
        carry(egress_source, sink, Arc::clone(&meddle));
        Self {
            proxy,
            egress,
            tunnel,
            meddle,
            _stops: [stop, stop_egress],
        }
    }

    pub(crate) fn meddle(&self, meddle: Meddle) {
        *self.meddle.lock().unwrap() = Some(meddle);
    }

    pub(crate) fn counts(&self) -> ProxyCounts {
        let counts = self.proxy.status().counts;
        assert!(counts.adds_up(), "{counts:?}");
        counts
    }

    pub(crate) fn socks5(&self) -> TcpStream {
        connect(self.proxy.observer().listening().socks5.unwrap())
    }

    pub(crate) fn http(&self) -> TcpStream {
        connect(self.proxy.observer().listening().http.unwrap())
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, done: impl Fn(&ProxyCounts) -> bool) {
        let start = Instant::now();
        while !done(&self.counts()) {
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}", self.counts());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until neither side holds anything, and nothing is pending.
    #[track_caller]
    pub(crate) fn until_quiet(&self) {
        self.until("quiet", |counts| {
            counts.connections + counts.flows + counts.associations == 0
                && counts.pending + counts.waiting == 0
                && self.egress.status().tcp_flows == 0
        });
    }
}

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn carry(mut from: PacketSource, mut to: PacketSink, meddle: Arc<Mutex<Option<Meddle>>>) {
    std::thread::spawn(move || {
        let (mut batch, mut packets) = (Vec::new(), Vec::new());
        while let Ok(Taken::Packets) = from.read_batch(&mut batch) {
            match meddle.lock().unwrap().as_mut() {
                Some(meddle) => packets.extend(batch.drain(..).flat_map(meddle)),
                None => packets.extend(batch.drain(..).map(BytesMut::freeze)),
            }
            // A full queue is back-pressure for longer than its patience where a machine is busy.
            let mut rest = &packets[..];
            while !rest.is_empty() {
                match to.send_batch(rest) {
                    Ok(report) => rest = &rest[report.taken..],
                    Err(_) => return,
                }
            }
            packets.clear();
        }
    });
}

/// The own address of a family.
pub(crate) fn own(of: IpAddr) -> IpAddr {
    match of {
        IpAddr::V4(_) => V4.into(),
        IpAddr::V6(_) => V6.into(),
    }
}
