//! What a packet costs before anything is decided about it.
//!
//! Every packet of a tunnel is parsed once, keyed once, asked whether it is an oversized SYN, and given another address;
//! these four are the budget. At 1 Gbit/s of 1,400-byte packets, about 89,000 a second, 100 ns a packet are 0.9 % of a core. The checksum
//! is paid where offload left it undone; answers and fragments are off the common path, and are here so that they stay
//! cheap enough to be no lever for a flood.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use quell_packet::build::{self, Header};
use quell_packet::{FlowKey, IpPacket, checksum, fragment, icmp, mss, protocol, translate};

/// An inner packet of a full-sized segment.
const PACKET_BYTES: usize = 1_400;
/// The MTU of a tunnel over the smallest QUIC path.
const MTU: u16 = 1_280;

const V4: (IpAddr, IpAddr) = (
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)),
);
const V6: (IpAddr, IpAddr) = (
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9)),
);

/// A UDP packet of `PACKET_BYTES`, whatever the header takes.
fn sized(header: Header<'_>) -> Vec<u8> {
    let empty = header.udp(4_000, 443, &[]).len();
    header.udp(4_000, 443, &vec![0xa5; PACKET_BYTES - empty])
}

fn views(c: &mut Criterion) {
    let extensions: [(u8, &[u8]); 2] = [
        (protocol::HOP_BY_HOP, &[0; 6]),
        (protocol::DESTINATION_OPTIONS, &[0; 6]),
    ];
    let v6 = Header::new(V6.0, V6.1);
    let packets = [
        ("v4", sized(Header::new(V4.0, V4.1))),
        ("v6", sized(v6)),
        (
            "v6_two_extensions",
            sized(Header {
                extensions: &extensions,
                ..v6
            }),
        ),
    ];
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(1));
    for (name, packet) in &packets {
        group.bench_function(format!("parse/{name}"), |b| {
            b.iter(|| IpPacket::parse(black_box(packet)))
        });
        group.bench_function(format!("flow_key/{name}"), |b| {
            b.iter(|| IpPacket::parse(black_box(packet)).map(|ip| FlowKey::of(&ip)));
        });
        group.bench_function(format!("wants_clamp/{name}"), |b| {
            b.iter(|| mss::wants_clamp(black_box(packet), MTU))
        });
    }
    group.finish();
}

fn checksums(c: &mut Criterion) {
    let packet = sized(Header::new(V4.0, V4.1));
    let mut group = c.benchmark_group("packet/checksum");
    for length in [20, PACKET_BYTES] {
        group.throughput(Throughput::Bytes(length as u64));
        let bytes = packet.get(..length).unwrap_or_default();
        group.bench_function(format!("{length}"), |b| {
            b.iter(|| checksum::internet(black_box(bytes)))
        });
    }
    group.finish();
}

fn changes(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    for (name, (source, destination)) in [("v4", V4), ("v6", V6)] {
        let syn = build::tcp_syn((source, 4_000).into(), (destination, 443).into(), 9_000);
        group.bench_function(format!("clamp_syn/{name}"), |b| {
            b.iter_batched_ref(
                || syn.clone(),
                |packet| mss::clamp(packet, MTU),
                BatchSize::SmallInput,
            );
        });
        let mut packet = sized(Header::new(source, destination));
        group.bench_function(format!("too_big/{name}"), |b| {
            b.iter(|| icmp::too_big(black_box(&packet), MTU, destination));
        });
        // Each is the other's way back, so that every round changes the packet.
        let mut names = [source, destination];
        group.bench_function(format!("translate/{name}"), |b| {
            b.iter(|| {
                let [from, to] = black_box(names);
                names.swap(0, 1);
                translate::rewrite_source(black_box(&mut packet), from, to)
            });
        });
    }
    let packet = sized(Header {
        dont_fragment: false,
        ..Header::new(V4.0, V4.1)
    });
    group.bench_function("fragment/v4", |b| {
        b.iter(|| fragment::ipv4(black_box(&packet), MTU).map(Iterator::count));
    });
    group.finish();
}

criterion_group!(benches, views, checksums, changes);
criterion_main!(benches);
