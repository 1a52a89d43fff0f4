//! What a packet costs a provider, from datagram to egress and from egress to datagram, while nobody waits for anybody.
//!
//! Every packet of every client takes this way, so whatever a provider checks of it, destination, flow, share, month, is
//! here or it is nothing: at 1 Gbit/s of 1,200-byte packets, about 104,000 a second, 100 ns a packet are 1 % of a core.
//! `one` is a download, a run of packets of one flow; `flows` takes another of 64 flows with each packet, which no memory
//! of the packet before helps.
//!
//! `sessions` asks whether the thousandth session costs as the first: downloads of TCP in turns of a segmentation batch,
//! each acknowledged, that go round among all sessions, so that each turn finds its session where all others have pushed
//! it. Only the provider is timed; its clients are the few bytes of their ACKs.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quell_core::config::ProviderConfig;
use quell_core::path::CarrierFacts;
use quell_core::provider::{AddressPool, Output, Provider, Roster, SessionId};
use quell_packet::build::{self, Header, Segment};
use quell_packet::tcp::flags;
use quell_wire::control::{Control, Hello};
use quell_wire::frame::{self, Ack, AckRanges, Credit, Frame, Frames, Lane};
use quell_wire::key::PublicKey;
use quell_wire::registry;

const LEN: usize = 1_200;

struct Bench {
    provider: Provider,
    id: SessionId,
    own: IpAddr,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        let key = PublicKey([1; 32]);
        let roster = Roster::try_new([("one".to_owned(), key)]).expect("one client");
        let prefix = "10.85.0.0/16".parse().expect("a prefix");
        let pool = AddressPool::try_new(Some(prefix), None).expect("a pool");
        let mut provider = Provider::new(ProviderConfig::default(), roster, pool, 1_500, 7);
        let id = provider.on_connection(key, now).expect("a session");
        provider.handle_control(id, &hello(), now);
        let addresses = provider.status().sessions[0].addresses.expect("addresses");
        let own = addresses.ipv4.expect("IPv4").0.into();
        let mut bench = Self {
            provider,
            id,
            own,
            now,
        };
        bench.drain();
        bench
    }

    fn drain(&mut self) -> usize {
        let facts = CarrierFacts {
            datagram_len_max: 1_414,
            backlog_bytes: 0,
            cwnd_bytes: 1 << 20,
            rtt: Duration::from_millis(50),
        };
        self.provider.on_carrier(self.id, facts, self.now);
        let outputs = std::iter::from_fn(|| self.provider.poll_output(self.id, self.now));
        let outputs = outputs.map(black_box).count();
        while self.provider.poll_ready().is_some() {}
        self.now += Duration::from_micros(10);
        outputs
    }
}

fn hello() -> Bytes {
    let mut hello = BytesMut::new();
    let greeting = Control::Hello(Hello {
        version: registry::VERSION,
        features: 0,
        agent: "bench".to_owned(),
        limits: Credit::FIRST,
    });
    greeting.encode(&mut hello).expect("a HELLO");
    hello.freeze()
}

fn udp(source: IpAddr, destination: IpAddr, ports: (u16, u16)) -> Vec<u8> {
    Header::new(source, destination).udp(ports.0, ports.1, &[0; LEN - 28])
}

fn provider(c: &mut Criterion) {
    let world: IpAddr = "198.51.100.7".parse().expect("an address");
    let mut group = c.benchmark_group("provider");
    group.throughput(Throughput::Elements(1));
    for (name, flows) in [("one", 1_u16), ("flows", 64)] {
        let mut bench = Bench::new();
        let out: Vec<Bytes> = (0..flows)
            .map(|port| {
                let mut datagram = BytesMut::new();
                frame::write_dgram(&mut datagram, &udp(bench.own, world, (4_000 + port, 443)));
                datagram.freeze()
            })
            .collect();
        let back: Vec<Bytes> = (0..flows)
            .map(|port| udp(world, bench.own, (443, 4_000 + port)).into())
            .collect();
        let mut at = 0;
        group.bench_function(BenchmarkId::new("outward", name), |b| {
            b.iter(|| {
                at = (at + 1) % out.len();
                bench
                    .provider
                    .handle_datagram(bench.id, &out[at], bench.now);
                bench.drain()
            });
        });
        group.bench_function(BenchmarkId::new("inward", name), |b| {
            b.iter(|| {
                at = (at + 1) % back.len();
                bench.provider.handle_packet(back[at].clone(), bench.now);
                bench.drain()
            });
        });
    }
    group.finish();
}

/// Packets of a turn.
const TURN: usize = 10;
/// Bytes of a packet that fills a datagram.
const FULL: usize = 1_368;

/// What a client of `sessions` knows.
struct Downloader {
    id: SessionId,
    packet: Bytes,
    packs: u64,
}

/// A provider with sessions that download.
struct Downloads {
    provider: Provider,
    clients: Vec<Downloader>,
    datagrams: Vec<Bytes>,
    now: Instant,
}

impl Downloads {
    fn new(sessions: u32) -> Self {
        let now = Instant::now();
        let key = |n: u32| {
            let mut key = [1; 32];
            key[..4].copy_from_slice(&n.to_le_bytes());
            PublicKey(key)
        };
        let names = (0..sessions).map(|n| (n.to_string(), key(n)));
        let roster = Roster::try_new(names).expect("clients");
        let prefix = "10.85.0.0/16".parse().expect("a prefix");
        let pool = AddressPool::try_new(Some(prefix), None).expect("a pool");
        let config = ProviderConfig {
            sessions_max: sessions as usize,
            ..ProviderConfig::default()
        };
        let mut provider = Provider::new(config, roster, pool, 1_500, 7);
        let hello = hello();
        let ids: Vec<_> = (0..sessions)
            .map(|n| {
                let id = provider.on_connection(key(n), now).expect("a session");
                provider.handle_control(id, &hello, now);
                look(&mut provider, id, &mut Vec::new(), now);
                id
            })
            .collect();
        let segment = Segment {
            flags: flags::ACK,
            ..Segment::default()
        };
        let world = ([198, 51, 100, 7], 443).into();
        let clients = ids.into_iter().zip(provider.status().sessions);
        let clients = clients.map(|(id, status)| {
            let (own, _) = status.addresses.and_then(|all| all.ipv4).expect("IPv4");
            let packet = build::tcp(world, (own, 40_000).into(), &segment, &[7; FULL - 40]);
            Downloader {
                id,
                packet: packet.into(),
                packs: 0,
            }
        });
        Self {
            clients: clients.collect(),
            provider,
            datagrams: Vec::new(),
            now,
        }
    }

    /// A turn of the session `index`, and its ACK; the time that the provider took.
    fn turn(&mut self, index: usize) -> Duration {
        self.now += Duration::from_micros(100);
        let (now, client) = (self.now, &mut self.clients[index]);
        let begun = Instant::now();
        for _ in 0..TURN {
            self.provider.handle_packet(client.packet.clone(), now);
        }
        while self.provider.poll_ready().is_some() {}
        look(&mut self.provider, client.id, &mut self.datagrams, now);
        let mut took = begun.elapsed();
        let before = client.packs;
        for datagram in self.datagrams.drain(..) {
            let is_pack = |frame: &Result<Frame<'_>, _>| matches!(frame, Ok(Frame::Pack(_)));
            client.packs += Frames::new(&datagram).filter(is_pack).count() as u64;
        }
        assert_eq!(client.packs - before, TURN as u64);
        let ack = Ack {
            lane: Lane::FLOW,
            cumulative: client.packs,
            ranges: AckRanges::EMPTY,
            largest_tx: client.packs,
            delay_us: 0,
            dup_tx: None,
            credit: Credit {
                max_bytes: u64::MAX >> 2,
                max_number: u64::MAX >> 2,
            },
        };
        let mut datagram = BytesMut::new();
        ack.write(&mut datagram);
        let datagram = datagram.freeze();
        // A round trip takes time: without one nothing is measured or judged.
        self.now += Duration::from_micros(50);
        let now = self.now;
        let begun = Instant::now();
        self.provider.handle_datagram(client.id, &datagram, now);
        look(&mut self.provider, client.id, &mut self.datagrams, now);
        took += begun.elapsed();
        took
    }
}

/// A driver's turn: the carrier, outputs, the carrier again, the next time.
fn look(provider: &mut Provider, id: SessionId, datagrams: &mut Vec<Bytes>, now: Instant) {
    let facts = CarrierFacts {
        datagram_len_max: 1_414,
        backlog_bytes: 0,
        cwnd_bytes: 10_000_000,
        rtt: Duration::from_millis(1),
    };
    provider.on_carrier(id, facts, now);
    while let Some(output) = provider.poll_output(id, now) {
        if let Output::Datagram(datagram) = output {
            datagrams.push(datagram);
        }
    }
    // All has left before an answer comes.
    provider.on_carrier(id, facts, now);
    black_box(provider.poll_timeout(id));
}

fn sessions(c: &mut Criterion) {
    let mut group = c.benchmark_group("provider/sessions");
    group.throughput(Throughput::Bytes((TURN * FULL) as u64));
    for sessions in [1, 1_000] {
        let mut downloads = Downloads::new(sessions);
        let mut at = 0;
        group.bench_function(BenchmarkId::from_parameter(sessions), |b| {
            b.iter_custom(|turns| {
                let next = |at: usize| (at + 1) % sessions as usize;
                let turn = |_| {
                    at = next(at);
                    downloads.turn(at)
                };
                (0..turns).map(turn).sum()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, provider, sessions);
criterion_main!(benches);
