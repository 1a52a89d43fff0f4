//! What finding a packet's flow costs, with few flows and with very many.
//!
//! Every packet of the user's and every one for it is looked up once, and the flow put behind all others of its class. At
//! 1 Gbit/s of 1,400-byte packets, about 89,000 a second, 100 ns a packet are 0.9 % of a core. The work of a lookup is the same
//! with any number of flows; what differs is where the processor finds them, so packets come in an order that no prefetcher
//! guesses (`random`), and in runs of 16 of one flow (`runs`), which is nearer to what a TUN hands over in a batch. `scan`
//! opens a flow in a table that is full, which forgets another.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quell_core::config::FlowsConfig;
use quell_core::multi::ExitId;
use quell_core::multi::flows::FlowTable;
use quell_packet::build::{self, Segment};
use quell_packet::{FlowKey, IpPacket, TcpView, protocol, tcp::flags};

const FLOWS: [u32; 3] = [100, 10_000, 100_000];
const RUN: usize = 16;

/// Each has its own destination.
fn key(n: u32) -> FlowKey {
    FlowKey {
        source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        destination: IpAddr::V4(Ipv4Addr::from_bits(0x0b00_0000 + n)),
        protocol: protocol::TCP,
        source_port: 40_000 + (n % 20_000) as u16,
        destination_port: 443,
    }
}

fn table(flows: u32, now: Instant) -> FlowTable {
    let config = FlowsConfig {
        flows_max: flows,
        ..FlowsConfig::default()
    };
    let mut table = FlowTable::new(config, 1);
    for n in 0..flows {
        table.insert(key(n), ExitId(0), None, now);
    }
    table
}

/// The keys in an order without a pattern: the steps of a full-period congruential generator.
fn shuffled(flows: u32) -> Vec<FlowKey> {
    let modulus = u64::from(flows.next_power_of_two());
    let mut at = 1;
    let steps = std::iter::repeat_with(|| {
        at = (at * 1_664_525 + 1_013_904_223) % modulus;
        at as u32
    });
    let keys = steps.filter(|n| *n < flows).take(flows as usize);
    keys.map(key).collect()
}

fn flows(c: &mut Criterion) {
    let now = Instant::now();
    let segment = Segment {
        flags: flags::ACK,
        ..Segment::default()
    };
    let ends = [([10, 0, 0, 2], 40_000), ([192, 0, 2, 9], 443)].map(Into::into);
    let packet = build::tcp(ends[0], ends[1], &segment, &[0; 1_000]);
    let tcp = IpPacket::parse(&packet)
        .ok()
        .and_then(|ip| TcpView::parse(ip.payload()).ok());
    let mut group = c.benchmark_group("flows");
    group.throughput(Throughput::Elements(1));
    for flows in FLOWS {
        let keys = shuffled(flows);
        let mut table = table(flows, now);
        let mut at = 0;
        group.bench_function(BenchmarkId::new("random", flows), |b| {
            b.iter(|| {
                at = (at + 1) % keys.len();
                black_box(table.touch_outward(&keys[at], tcp.as_ref(), now).is_some())
            });
        });
        group.bench_function(BenchmarkId::new("runs", flows), |b| {
            b.iter(|| {
                at = (at + 1) % (keys.len() * RUN);
                black_box(
                    table
                        .touch_outward(&keys[at / RUN], tcp.as_ref(), now)
                        .is_some(),
                )
            });
        });
        let (mut n, mut later) = (flows, now);
        group.bench_function(BenchmarkId::new("scan", flows), |b| {
            b.iter(|| {
                n = n.wrapping_add(1);
                later += Duration::from_nanos(100);
                black_box(table.insert(key(n), ExitId(1), None, later).is_some())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, flows);
criterion_main!(benches);
