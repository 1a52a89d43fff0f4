//! Packets from the TUN reach the world translated, answers come back, and foreign sources do not leave.
//!
//! "The world" is a second TUN of the same namespace, whose reader sees what the host sends out:
//!
//! ```text
//! client's packet ─> quell0 ─> forwarding, masquerade ─> world0 ─> read by the test, which answers
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quell_egress::{EgressConfig, KernelEgress};
use quell_packet::build;
use quell_tun::link::Link;
use quell_tun::os::{OsReader, OsWriter, TunConfig, TunDevice};
use quell_tun::{ReadOutcome, StopHandle, TunReader, TunWriter};

use crate::namespace::{RunDir, config, in_namespace, ruleset, run};

struct Tun {
    reader: OsReader,
    writer: OsWriter,
    stop: StopHandle,
}

impl Tun {
    async fn new(name: &str, addresses: &[(&str, u8)]) -> Self {
        let config = TunConfig {
            name: Some(name.to_owned()),
            mtu: 1_500,
            ..TunConfig::default()
        };
        let device = TunDevice::create(config).unwrap();
        let link = Link::open(name).await.unwrap();
        link.up().await.unwrap();
        for (address, prefix_length) in addresses {
            link.add_address(address.parse().unwrap(), *prefix_length)
                .await
                .unwrap();
        }
        let (reader, writer, stop) = device.split();
        Self {
            reader,
            writer,
            stop,
        }
    }

    fn write(&mut self, packet: Vec<u8>) {
        assert_eq!(
            self.writer
                .write_batch(&[Bytes::from(packet)])
                .unwrap()
                .written,
            1
        );
    }

    /// The next UDP packet; packets of the kernel's own are passed over.
    fn read_udp(&mut self) -> Datagram {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut batch: Vec<BytesMut> = Vec::new();
        while Instant::now() < deadline {
            assert_eq!(
                self.reader.read_batch(&mut batch).unwrap(),
                ReadOutcome::Packets
            );
            if let Some(datagram) = batch.drain(..).find_map(|packet| Datagram::parse(&packet)) {
                return datagram;
            }
        }
        panic!("no UDP packet came");
    }

    /// All UDP packets that come within a time.
    fn read_all_udp_within(mut self, limit: Duration) -> Vec<Datagram> {
        let stop = self.stop.clone();
        let timer = std::thread::spawn(move || {
            std::thread::sleep(limit);
            stop.stop();
        });
        let mut batch = Vec::new();
        while self.reader.read_batch(&mut batch).unwrap() == ReadOutcome::Packets {}
        timer.join().unwrap();
        batch
            .iter()
            .filter_map(|packet| Datagram::parse(packet))
            .collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    payload: Vec<u8>,
}

impl Datagram {
    /// Of a packet without options or extension headers.
    fn parse(packet: &[u8]) -> Option<Self> {
        let (protocol, from, to, udp): (u8, IpAddr, IpAddr, &[u8]) = match packet[0] >> 4 {
            4 => {
                let address = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap().into();
                (packet[9], address(12), address(16), &packet[20..])
            }
            6 => {
                let address =
                    |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap().into();
                (packet[6], address(8), address(24), &packet[40..])
            }
            _ => return None,
        };
        let port = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
        (protocol == 17).then(|| Self {
            from: SocketAddr::new(from, port(0)),
            to: SocketAddr::new(to, port(2)),
            payload: udp[8..].to_vec(),
        })
    }
}

/// The provider's TUN and the world, with the host's addresses on each.
async fn two_tuns() -> (Tun, Tun) {
    let inside = Tun::new("quell0", &[("10.7.0.1", 16), ("fd00:7::1", 64)]).await;
    let world = Tun::new("world0", &[("198.51.100.1", 24), ("2001:db8:1::1", 64)]).await;
    (inside, world)
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn a_clients_packet_leaves_translated_and_its_answer_comes_back() {
    in_namespace(|| async {
        let run_dir = RunDir::new();
        let (mut inside, mut world) = two_tuns().await;
        let _egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        for (client, server, host) in [
            ("10.7.0.9:1000", "198.51.100.9:53", "198.51.100.1:0"),
            (
                "[fd00:7::9]:1000",
                "[2001:db8:1::9]:53",
                "[2001:db8:1::1]:0",
            ),
        ] {
            let (client, server, host) = (at(client), at(server), at(host));
            inside.write(build::udp(client, server, b"question"));
            let left = world.read_udp();
            assert_eq!((left.from.ip(), left.to), (host.ip(), server));
            assert_eq!(left.payload, b"question");

            world.write(build::udp(server, left.from, b"answer"));
            let answer = inside.read_udp();
            let expected = Datagram {
                from: server,
                to: client,
                payload: b"answer".to_vec(),
            };
            assert_eq!(answer, expected);

            // What comes from outside of the pools is not translated, whichever way it goes.
            let stranger = SocketAddr::new(server.ip(), 54);
            world.write(build::udp(stranger, client, b"unasked"));
            assert_eq!(inside.read_udp().from, stranger);
        }
    });
}

#[test]
fn a_source_outside_of_the_pools_does_not_leave() {
    in_namespace(|| async {
        let run_dir = RunDir::new();
        let (mut inside, world) = two_tuns().await;
        let _egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        let (server4, server6) = (at("198.51.100.9:53"), at("[2001:db8:1::9]:53"));
        for (source, server) in [
            // The addresses on both sides of each pool's edges.
            ("10.6.255.255:1", server4),
            ("10.8.0.0:1", server4),
            ("[fd00:6:ffff:ffff:ffff:ffff:ffff:ffff]:1", server6),
            ("[fd00:7:0:1::]:1", server6),
            ("10.7.0.2:2", server4),
            ("10.7.255.254:2", server4),
            ("[fd00:7::2]:2", server6),
            ("[fd00:7::ffff:ffff:ffff:ffff]:2", server6),
        ] {
            inside.write(build::udp(at(source), server, b"x"));
        }
        let left = world.read_all_udp_within(Duration::from_millis(300));
        assert_eq!(left.len(), 4, "{left:?}");
        assert_eq!(
            ruleset().matches("counter packets 2 ").count(),
            2,
            "{}",
            ruleset()
        );
    });
}

// case B88
#[test]
fn a_family_without_a_pool_does_not_leave() {
    in_namespace(|| async {
        let run_dir = RunDir::new();
        let (mut inside, world) = two_tuns().await;
        let only_ipv4 = EgressConfig {
            ipv6_pool: None,
            ..config(run_dir.path(), "quell0")
        };
        let _egress = KernelEgress::install(only_ipv4).unwrap();
        // Even on a host that forwards IPv6 for reasons of its own.
        crate::namespace::set_sysctl("net/ipv6/conf/all/forwarding", "1");
        inside.write(build::udp(
            at("[fd00:7::9]:1"),
            at("[2001:db8:1::9]:53"),
            b"x",
        ));
        inside.write(build::udp(at("10.7.0.9:1"), at("198.51.100.9:53"), b"x"));
        let left = world.read_all_udp_within(Duration::from_millis(300));
        assert_eq!(
            left.iter().map(|d| d.to).collect::<Vec<_>>(),
            [at("198.51.100.9:53")]
        );
    });
}

#[test]
fn without_masquerade_packets_leave_as_they_are_and_no_rule_is_made() {
    in_namespace(|| async {
        let run_dir = RunDir::new();
        let (mut inside, mut world) = two_tuns().await;
        let plain = EgressConfig {
            masquerade: false,
            ..config(run_dir.path(), "quell0")
        };
        let _egress = KernelEgress::install(plain).unwrap();
        assert_eq!(ruleset(), "");
        inside.write(build::udp(at("10.7.0.9:1"), at("198.51.100.9:53"), b"x"));
        assert_eq!(world.read_udp().from, at("10.7.0.9:1"));
    });
}

#[test]
fn after_the_removal_nothing_is_forwarded() {
    in_namespace(|| async {
        let run_dir = RunDir::new();
        let (mut inside, world) = two_tuns().await;
        KernelEgress::install(config(run_dir.path(), "quell0"))
            .unwrap()
            .remove()
            .unwrap();
        inside.write(build::udp(at("10.7.0.9:1"), at("198.51.100.9:53"), b"x"));
        inside.write(build::udp(
            at("[fd00:7::9]:1"),
            at("[2001:db8:1::9]:53"),
            b"x",
        ));
        assert_eq!(world.read_all_udp_within(Duration::from_millis(300)), []);
    });
}

/// A host that learnt its IPv6 default route from a router advertisement keeps it, and goes on learning.
#[test]
fn an_ipv6_default_route_that_was_advertised_survives() {
    in_namespace(|| async {
        let run_dir = RunDir::new();
        // An advertisement has to come from a link-local address, which a TUN makes up for itself too.
        let (_inside, mut world) = two_tuns().await;
        let default_routes = || run("ip -6 route show default dev world0");
        world.write(router_advertisement());
        wait_until("the advertisement is taken", || {
            default_routes().contains("fe80::99")
        });

        let egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        assert!(
            default_routes().contains("fe80::99"),
            "{}",
            default_routes()
        );
        run("ip -6 route del default via fe80::99 dev world0");
        world.write(router_advertisement());
        wait_until("it is learnt again", || {
            default_routes().contains("fe80::99")
        });
        egress.remove().unwrap();
        assert!(
            default_routes().contains("fe80::99"),
            "{}",
            default_routes()
        );
    });
}

/// ICMPv6 type 134 with a router lifetime of half an hour, from fe80::99 to all nodes.
fn router_advertisement() -> Vec<u8> {
    let mut header = build::Header::new("fe80::99".parse().unwrap(), "ff02::1".parse().unwrap());
    header.ttl = 255;
    let lifetime = 1_800_u16.to_be_bytes();
    header.icmp(134, 0, [64, 0, lifetime[0], lifetime[1]], &[0; 8])
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
