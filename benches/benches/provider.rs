//! What a packet costs a provider, from datagram to egress and from egress to datagram, while nobody waits for anybody.
//!
//! Every packet of every client takes this way, so whatever a provider checks of it, destination, flow, share, month, is
//! here or it is nothing: at 1 Gbit/s of 1,200-byte packets, about 104,000 a second, 100 ns a packet are 1 % of a core.
//! `one` is a download, a run of packets of one flow; `flows` takes another of 64 flows with each packet, which no memory
//! of the packet before helps.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quell_core::config::ProviderConfig;
use quell_core::path::CarrierFacts;
use quell_core::provider::{AddressPool, Provider, Roster, SessionId};
use quell_packet::build::Header;
use quell_wire::control::{Control, Hello};
use quell_wire::frame::{self, Credit};
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
        let mut hello = BytesMut::new();
        let greeting = Control::Hello(Hello {
            version: registry::VERSION,
            features: 0,
            agent: "bench".to_owned(),
            limits: Credit::FIRST,
        });
        greeting.encode(&mut hello).expect("a HELLO");
        provider.handle_control(id, &hello, now);
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

criterion_group!(benches, provider);
criterion_main!(benches);
