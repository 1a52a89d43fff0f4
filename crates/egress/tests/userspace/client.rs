//! A client at the other end of the tunnel: a smoltcp of its own whose link is the egress, and raw packets beside it.
//!
//! One thread reads what the egress gives, as an engine's pump does, and hands it on over a bounded channel: a client that
//! does not look is back-pressure.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use crossbeam_channel::{Receiver, Sender, bounded};
use quell_egress::userspace::{
    AllowAll, PacketSink, Policy, Taken, Userspace, UserspaceConfig, UserspaceStatus,
};
use quell_packet::{IpPacket, TcpView, protocol};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as SmolInstant;
use smoltcp::wire::{HardwareAddress, IpCidr};

pub(crate) const V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub(crate) const V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The client, its TCPs, and the egress.
pub(crate) struct Client {
    pub(crate) egress: Userspace,
    sink: PacketSink,
    from: Receiver<Vec<BytesMut>>,
    _stop: Sender<()>,
    interface: Interface,
    sockets: SocketSet<'static>,
    link: Link,
    epoch: Instant,
    next_port: u16,
    /// Packets that are for no TCP socket: ICMP, UDP.
    pub(crate) others: VecDeque<BytesMut>,
    /// Resets that came.
    pub(crate) resets: usize,
    /// The test speaks TCP itself: segments go to `others`.
    pub(crate) is_raw: bool,
    /// The last segment of each own port.
    said: HashMap<u16, Bytes>,
}

#[derive(Default)]
struct Link {
    rx: VecDeque<BytesMut>,
    tx: Vec<Bytes>,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::with(UserspaceConfig::default(), Box::new(AllowAll))
    }

    pub(crate) fn with(config: UserspaceConfig, policy: Box<dyn Policy>) -> Self {
        let (stop, stopped) = bounded(1);
        let (egress, sink, mut source) = Userspace::start(config, policy, stopped).unwrap();
        let (to, from) = bounded(4);
        std::thread::spawn(move || {
            loop {
                let mut batch = Vec::new();
                match source.read_batch(&mut batch) {
                    Ok(Taken::Packets) if to.send(batch).is_ok() => {}
                    _ => return,
                }
            }
        });
        let mut link = Link::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = 7;
        let mut interface = Interface::new(config, &mut link, SmolInstant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(V4.into(), 0)).unwrap();
            addresses.push(IpCidr::new(V6.into(), 0)).unwrap();
        });
        Self {
            egress,
            sink,
            from,
            _stop: stop,
            interface,
            sockets: SocketSet::new(Vec::new()),
            link,
            epoch: Instant::now(),
            next_port: 20_000,
            others: VecDeque::new(),
            resets: 0,
            is_raw: false,
            said: HashMap::new(),
        }
    }

    pub(crate) fn status(&self) -> UserspaceStatus {
        self.egress.status()
    }

    /// A TCP on its way to `destination`, with buffers of `bytes`.
    pub(crate) fn connect(&mut self, destination: SocketAddr, bytes: usize) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; bytes]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        self.next_port += 1;
        let own: IpAddr = match destination {
            SocketAddr::V4(_) => V4.into(),
            SocketAddr::V6(_) => V6.into(),
        };
        let remote = (destination.ip(), destination.port());
        socket
            .connect(self.interface.context(), remote, (own, self.next_port))
            .unwrap();
        self.sockets.add(socket)
    }

    pub(crate) fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub(crate) fn forget(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }

    /// Sends a packet past the TCPs.
    pub(crate) fn send_raw(&mut self, packet: Vec<u8>) {
        assert_eq!(self.send_many(&[packet.into()]), 1);
    }

    /// Sends up to 64, as one batch; those taken. A busy machine may need more than the 20 ms of one try.
    pub(crate) fn send_many(&mut self, packets: &[Bytes]) -> usize {
        let start = Instant::now();
        loop {
            match self.sink.send_batch(packets).unwrap().taken {
                0 if start.elapsed() < PATIENCE => {}
                taken => return taken,
            }
        }
    }

    /// Takes what came, waiting at most `limit` for something, and lets the TCPs work.
    pub(crate) fn turn(&mut self, limit: Duration) {
        let now = SmolInstant::from_micros(self.epoch.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.link, &mut self.sockets);
        self.flush();
        let due = self.interface.poll_delay(now, &self.sockets);
        let due = due.map_or(limit, |due| limit.min(due.into()));
        if let Ok(batch) = self.from.recv_timeout(due) {
            self.sort(batch);
            while let Ok(batch) = self.from.try_recv() {
                self.sort(batch);
            }
        }
        let now = SmolInstant::from_micros(self.epoch.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.link, &mut self.sockets);
        self.flush();
    }

    fn flush(&mut self) {
        if !self.link.tx.is_empty() {
            let _ = self.sink.send_batch(&self.link.tx).unwrap();
            for packet in self.link.tx.drain(..) {
                let ip = IpPacket::parse(&packet).unwrap();
                let port = TcpView::parse(ip.payload()).unwrap().source_port();
                self.said.insert(port, packet);
            }
        }
    }

    /// Says again, so many times, what each TCP said last: an acknowledgement, when all it does is listen.
    pub(crate) fn say_again(&mut self, times: usize) {
        let said: Vec<_> = self.said.values().cloned().collect();
        for packet in said {
            let again = vec![packet; times];
            assert_eq!(self.send_many(&again), times);
        }
    }

    /// Loses all that comes, until nothing has for `silence`.
    pub(crate) fn lose_all(&mut self, silence: Duration) {
        while self.from.recv_timeout(silence).is_ok() {}
    }

    fn sort(&mut self, batch: Vec<BytesMut>) {
        for packet in batch {
            let ip = IpPacket::parse(&packet).unwrap();
            assert_ne!(quell_packet::checksum::upper_layer_valid(&ip), Some(false));
            if ip.protocol() == protocol::TCP && !self.is_raw {
                let tcp = TcpView::parse(ip.payload()).unwrap();
                self.resets += usize::from(tcp.is_rst());
                self.link.rx.push_back(packet);
            } else {
                self.others.push_back(packet);
            }
        }
    }

    /// Works until `done` says so.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(
                start.elapsed() < PATIENCE,
                "{what} did not happen: {:?}",
                self.status()
            );
            self.turn(Duration::from_millis(5));
        }
    }

    /// Works for a while, whatever happens.
    pub(crate) fn for_a_while(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.turn(Duration::from_millis(5));
        }
    }

    /// Waits until the egress holds no flow and nothing waits, and checks its books.
    #[track_caller]
    pub(crate) fn until_quiet(&mut self) {
        self.until("quiet", |client| {
            let status = client.status();
            status.tcp_flows == 0 && status.waiting == 0
        });
        let status = self.status();
        assert_eq!(status.offered, status.consumed + status.dropped_total());
    }
}

pub(crate) struct In(BytesMut);
pub(crate) struct Out<'a>(&'a mut Vec<Bytes>);

impl Device for Link {
    type RxToken<'a> = In;
    type TxToken<'a> = Out<'a>;

    fn receive(&mut self, _: SmolInstant) -> Option<(In, Out<'_>)> {
        let packet = self.rx.pop_front()?;
        Some((In(packet), Out(&mut self.tx)))
    }

    fn transmit(&mut self, _: SmolInstant) -> Option<Out<'_>> {
        Some(Out(&mut self.tx))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1_280;
        capabilities
    }
}

impl RxToken for In {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, handle: F) -> R {
        handle(&self.0)
    }
}

impl TxToken for Out<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        self.0.push(packet.into());
        result
    }
}
