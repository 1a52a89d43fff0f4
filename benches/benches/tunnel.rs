//! What a packet of a TCP costs the core of both ends, from TUN to egress and back, its share of the ACKs included.
//!
//! One session in turns of 10 packets, which is a segmentation batch of QUIC's: all that a driver asks of the core in such
//! a turn is in it, the empty rounds and the timers too. At 1 Gbit/s of 1,368-byte packets, about 91,000 a second, 100 ns a
//! packet are 0.9 % of a core.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quell_benches::tunnel::{FULL_BYTES, Tunnel, Way};

/// Packets of a turn.
const TURN: usize = 10;
/// Bytes of an acknowledgement of the user's TCP.
const SMALL_BYTES: usize = 52;

fn pack(c: &mut Criterion) {
    let mut group = c.benchmark_group("tunnel/pack");
    group.throughput(Throughput::Elements(TURN as u64));
    for (name, bytes) in [("full", FULL_BYTES), ("small", SMALL_BYTES)] {
        for (way_name, way) in [("outward", Way::Outward), ("inward", Way::Inward)] {
            let mut tunnel = Tunnel::new(1, bytes);
            group.bench_function(BenchmarkId::new(way_name, name), |b| {
                b.iter(|| assert_eq!(tunnel.turn(0, way, TURN), TURN as u64));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, pack);
criterion_main!(benches);
