//! What the TUN's offloads cost: a super-packet of 64 KiB taken apart, and 45 packets made one.
//!
//! The split includes its copy into a fresh buffer, as a reader makes it; the merge verifies every checksum, and copies
//! nothing. Both are to be compared with what they save: a system call and a walk through the kernel a packet.

use std::hint::black_box;
use std::net::SocketAddr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quell_packet::build::{self, Segment};
use quell_packet::offload::{Allowed, Coalescer, Gso, MergedHeader, Split, VirtioHeader};
use quell_packet::tcp::flags;
use quell_packet::{PACKET_BYTES_MAX, checksum};

const PAYLOAD_BYTES: usize = 1_448;
const TIMESTAMPS: &[u8] = &[1, 1, 8, 10, 0, 1, 2, 3, 0, 4, 5, 6];

fn packet(n: usize, payload: &[u8]) -> Vec<u8> {
    let source = SocketAddr::from(([10, 0, 0, 1], 4_000));
    let destination = SocketAddr::from(([192, 0, 2, 9], 443));
    let segment = Segment {
        sequence: (n * PAYLOAD_BYTES) as u32,
        flags: flags::ACK,
        options: TIMESTAMPS,
        ..Segment::default()
    };
    build::tcp(source, destination, &segment, payload)
}

fn split(criterion: &mut Criterion) {
    let super_packet = packet(0, &vec![0xa5; PACKET_BYTES_MAX - 52]);
    let header = VirtioHeader {
        gso: Gso::TcpV4,
        gso_size: PAYLOAD_BYTES as u16,
        ..VirtioHeader::default()
    };
    let mut group = criterion.benchmark_group("offload");
    group.throughput(Throughput::Bytes(super_packet.len() as u64));
    let mut buffer = super_packet.clone();
    let mut slab = Vec::with_capacity(2 * PACKET_BYTES_MAX);
    group.bench_function("split 64 KiB", |bencher| {
        bencher.iter(|| {
            // The length fields of the last round's last segment are undone.
            if let (Some(to), Some(from)) = (buffer.get_mut(..52), super_packet.get(..52)) {
                to.copy_from_slice(from);
            }
            let Ok(mut split) = Split::new(&header, &buffer) else {
                return;
            };
            slab.clear();
            while let Some((head, body)) = split.next(&mut buffer) {
                slab.extend_from_slice(head);
                slab.extend_from_slice(body);
            }
            black_box(&slab);
        });
    });
    group.bench_function("sum 64 KiB", |bencher| {
        bencher.iter(|| checksum::internet(black_box(&super_packet)));
    });
    group.finish();
}

fn merge(criterion: &mut Criterion) {
    let packets: Vec<_> = (0..45).map(|n| packet(n, &[0xa5; PAYLOAD_BYTES])).collect();
    let allowed = Allowed {
        tcp: true,
        udp: true,
    };
    let mut coalescer = Coalescer::new();
    let mut group = criterion.benchmark_group("offload");
    group.throughput(Throughput::Bytes((45 * PAYLOAD_BYTES) as u64));
    group.bench_function("merge 45 packets", |bencher| {
        bencher.iter(|| {
            for run in coalescer.plan(black_box(&packets), allowed) {
                black_box(MergedHeader::of(run, &packets));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, split, merge);
criterion_main!(benches);
