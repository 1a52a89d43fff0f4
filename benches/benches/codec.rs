//! What the wire format and one path cost a packet.
//!
//! `path` is a packet's whole way through the core at one end: into the queue,
//! into a datagram, and at the other end out of it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quell_core::budget::ProcessBudget;
use quell_core::config::PathConfig;
use quell_core::health::Signal;
use quell_core::path::{CarrierFacts, Path, PathTerms, Role};
use quell_wire::frame::{self, Ack, AckRange, AckRanges, Credit, Frames, Lane, Pack, PackFlags};

const FACTS: CarrierFacts = CarrierFacts {
    datagram_len_max: 1_414,
    backlog_bytes: 0,
    cwnd_bytes: 10_000_000,
    rtt: Duration::from_millis(1),
};

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec");
    let data = [7; 1_200];
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    group.bench_function("dgram write 1200", |b| {
        b.iter(|| {
            buffer.clear();
            frame::write_dgram(&mut buffer, black_box(&data));
        });
    });
    let pack = Pack {
        lane: Lane::FLOW,
        number: 100_000,
        tx: 100_100,
        flags: PackFlags::WHOLE,
        dep: 3,
        data: &data,
    };
    group.bench_function("pack write 1200", |b| {
        b.iter(|| {
            buffer.clear();
            black_box(&pack).write(&mut buffer);
        });
    });
    let ranges: Vec<AckRange> = (0..8)
        .map(|i| AckRange {
            first: 1_000 + i * 10,
            last: 1_004 + i * 10,
        })
        .collect();
    let ack = Ack {
        lane: Lane::FLOW,
        cumulative: 990,
        ranges: AckRanges::new(&ranges),
        largest_tx: 1_100,
        delay_us: 5_000,
        dup_tx: None,
        credit: Credit::FIRST,
    };
    let mut datagram = BytesMut::new();
    ack.write(&mut datagram);
    pack.write(&mut datagram);
    group.bench_function("parse ack of 8 ranges and pack", |b| {
        b.iter(|| {
            Frames::new(black_box(&datagram))
                .filter(Result::is_ok)
                .count()
        });
    });
    group.finish();
}

fn path(c: &mut Criterion) {
    let mut group = c.benchmark_group("path");
    for len in [64_usize, 1_200, 1_400] {
        let packet = Bytes::from(vec![0x45; len]);
        let now = Instant::now();
        let path = |role| {
            let terms = PathTerms {
                config: PathConfig::default(),
                role,
                mtu_max: 1_500,
                signal: Signal::default(),
                budget: ProcessBudget::default(),
                seed: 1,
            };
            Path::new(terms, now)
        };
        let (mut from, mut to) = (path(Role::Provider), path(Role::Provider));
        to.on_carrier(FACTS, now);
        group.throughput(Throughput::Elements(32));
        group.bench_function(format!("32 packets of {len}, one end to the other"), |b| {
            b.iter(|| {
                from.on_carrier(FACTS, now);
                for _ in 0..32 {
                    from.handle_packet(packet.clone(), now);
                }
                while let Some(datagram) = from.poll_datagram(now) {
                    let _ = black_box(to.handle_datagram(&datagram, now));
                    while to.poll_received().is_some() {}
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, frames, path);
criterion_main!(benches);
