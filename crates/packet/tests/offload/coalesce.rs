//! Runs of a batch merged, and taken apart again: nothing may be lost, changed, doubled, or overtaken in its flow.

use std::net::IpAddr;

use proptest::prelude::*;
use quell_packet::Ecn;
use quell_packet::build::{Header, Segment};
use quell_packet::offload::coalesce::{OPEN_RUNS_MAX, PACKETS_MAX};
use quell_packet::offload::{Allowed, Coalescer, MergedHeader, fuzz};
use quell_packet::tcp::flags;

const BOTH: Allowed = Allowed {
    tcp: true,
    udp: true,
};
const TIMESTAMPS: &[u8] = &[1, 1, 8, 10, 0, 1, 2, 3, 0, 4, 5, 6];

fn header(is_v4: bool) -> Header<'static> {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    if is_v4 {
        Header::new(ip("10.0.0.1"), ip("192.0.2.9"))
    } else {
        Header::new(ip("fd00::1"), ip("2001:db8::9"))
    }
}

/// One packet of a flow of segments of 1,000 bytes.
#[derive(Clone, Copy)]
struct Make {
    header: Header<'static>,
    tcp: Segment<'static>,
    port: u16,
    len: usize,
}

impl Make {
    fn new(is_v4: bool, n: u16) -> Self {
        Self {
            header: Header {
                identification: n,
                ..header(is_v4)
            },
            tcp: Segment {
                sequence: u32::from(n).wrapping_mul(1_000).wrapping_sub(1_500),
                acknowledgement: 9,
                flags: flags::ACK,
                window: 100,
                options: TIMESTAMPS,
            },
            port: 4_000,
            len: 1_000,
        }
    }

    fn tcp(self) -> Vec<u8> {
        let payload = vec![self.len as u8; self.len];
        self.header.tcp(self.port, 443, &self.tcp, &payload)
    }

    fn udp(self) -> Vec<u8> {
        let payload = vec![self.len as u8; self.len];
        self.header.udp(self.port, 443, &payload)
    }
}

/// The sizes of the runs, after everything that must hold was asserted.
fn runs(packets: &[Vec<u8>]) -> Vec<usize> {
    fuzz::merged(packets, BOTH);
    let mut coalescer = Coalescer::new();
    let runs = coalescer.plan(packets, BOTH);
    runs.iter().map(|run| run.count()).collect()
}

fn flow(is_v4: bool, count: u16) -> Vec<Make> {
    (0..count).map(|n| Make::new(is_v4, n)).collect()
}

fn tcp(makes: &[Make]) -> Vec<Vec<u8>> {
    makes.iter().map(|make| make.tcp()).collect()
}

#[test]
fn a_row_of_one_flow_is_one_run_up_to_64_kib() {
    for is_v4 in [true, false] {
        assert_eq!(runs(&tcp(&flow(is_v4, 45))), [45]);
        let mut long = flow(is_v4, 47);
        for (make, n) in long.iter_mut().zip(0_u32..) {
            make.len = 1_448;
            make.tcp.sequence = n * 1_448;
        }
        // 45 · 1,448 and 52 or 72 of headers fit into 65,535; one more does not.
        assert_eq!(runs(&tcp(&long)), [45, 2]);
        let small: Vec<_> = (0..64)
            .map(|n| {
                Make {
                    len: 64,
                    ..Make::new(is_v4, n)
                }
                .udp()
            })
            .collect();
        assert_eq!(runs(&small), [64]);
    }
}

#[test]
fn a_super_packet_is_full_to_the_byte() {
    for (last, expected) in [(535, vec![6]), (536, vec![5, 1])] {
        let mut makes = flow(true, 6);
        for (make, n) in makes.iter_mut().zip(0_u32..) {
            make.tcp.options = &[];
            make.header.identification = n as u16;
            make.len = 12_992;
            make.tcp.sequence = n * 12_992;
        }
        makes[5].len = last;
        assert_eq!(40 + 5 * 12_992 + 535, 65_535);
        assert_eq!(runs(&tcp(&makes)), expected);
    }
}

/// Changes the third of five packets: with `Some` the run breaks there into these sizes.
fn broken_by(is_v4: bool, change: impl Fn(&mut Make)) -> Vec<usize> {
    let mut makes = flow(is_v4, 5);
    change(&mut makes[2]);
    runs(&tcp(&makes))
}

#[test]
fn what_differs_never_merges() {
    let alone = [2, 1, 2];
    for is_v4 in [true, false] {
        assert_eq!(broken_by(is_v4, |_| {}), [5]);
        assert_eq!(broken_by(is_v4, |it| it.header.ttl = 63), alone);
        assert_eq!(broken_by(is_v4, |it| it.tcp.acknowledgement = 10), alone);
        assert_eq!(broken_by(is_v4, |it| it.tcp.window = 101), alone);
        assert_eq!(broken_by(is_v4, |it| it.tcp.sequence += 1), alone);
        assert_eq!(broken_by(is_v4, |it| it.tcp.flags |= flags::ECE), alone);
        assert_eq!(
            broken_by(is_v4, |it| it.tcp.options =
                &[1, 1, 8, 10, 0, 1, 2, 4, 0, 4, 5, 6]),
            alone
        );
        assert_eq!(broken_by(is_v4, |it| it.tcp.options = &[]), alone);
        // What opens, closes or resets, and what has urgent data, is never merged.
        for flag in [flags::SYN, flags::FIN, flags::RST, flags::URG, flags::CWR] {
            assert_eq!(
                broken_by(is_v4, |it| it.tcp.flags |= flag),
                alone,
                "{flag:#x}"
            );
        }
        // Shorter, or with PSH: the last of its run. Longer: the first of the next.
        assert_eq!(broken_by(is_v4, |it| it.len = 999), [3, 2]);
        assert_eq!(broken_by(is_v4, |it| it.tcp.flags |= flags::PSH), [3, 2]);
        assert_eq!(broken_by(is_v4, |it| it.len = 1_001), alone);
        assert_eq!(broken_by(is_v4, |it| it.len = 0), alone);
    }
    assert_eq!(broken_by(true, |it| it.header.dont_fragment = false), alone);
    assert_eq!(
        broken_by(true, |it| it.header.options = &[1, 1, 1, 1]),
        alone
    );
    assert_eq!(broken_by(true, |it| it.header.more_fragments = true), alone);
    let extension: &[(u8, &[u8])] = &[(0, &[1, 4, 0, 0, 0, 0])];
    assert_eq!(
        broken_by(false, |it| it.header.extensions = extension),
        alone
    );
}

// case B56
#[test]
fn ecn_codepoints_never_mix() {
    let all = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].map(Ecn::bits);
    for is_v4 in [true, false] {
        for (one, other) in all.iter().flat_map(|one| all.map(|other| (*one, other))) {
            let mut makes = flow(is_v4, 4);
            for (make, class) in makes.iter_mut().zip([one, one, other, other]) {
                make.header.traffic_class = 0b1010_0000 | class;
            }
            let expected: &[usize] = if one == other { &[4] } else { &[2, 2] };
            assert_eq!(runs(&tcp(&makes)), expected, "{one} {other}");
            let udp: Vec<_> = makes.iter().map(|make| make.udp()).collect();
            assert_eq!(runs(&udp), expected, "{one} {other}");
        }
    }
}

#[test]
fn an_identification_counts_without_df_alone() {
    for (dont_fragment, jump, expected) in [
        (true, 1_000, vec![4]),
        (false, 0, vec![4]),
        (false, 1, vec![2, 2]),
    ] {
        let mut makes = flow(true, 4);
        for (make, n) in makes.iter_mut().zip(0..) {
            make.header.dont_fragment = dont_fragment;
            make.header.identification = (u16::MAX - 1).wrapping_add(n);
            if n >= 2 {
                make.header.identification = make.header.identification.wrapping_add(jump);
            }
        }
        assert_eq!(runs(&tcp(&makes)), expected);
    }
}

// A tunnel must not turn a damaged packet into a good one.
#[test]
fn a_packet_with_a_wrong_checksum_travels_alone_as_it_is() {
    for is_v4 in [true, false] {
        for damaged in 0..5 {
            let (mut tcp, mut udp) = (Vec::new(), Vec::new());
            for make in flow(is_v4, 5) {
                tcp.push(make.tcp());
                udp.push(make.udp());
            }
            for packets in [&mut tcp, &mut udp] {
                *packets[damaged].last_mut().unwrap() ^= 1;
            }
            let mut expected = vec![damaged, 1, 4 - damaged];
            expected.retain(|count| *count > 0);
            assert_eq!(runs(&tcp), expected);
            assert_eq!(runs(&udp), expected);
        }
    }
    // The IPv4 header's checksum, which is written anew, too.
    let mut packets = tcp(&flow(true, 3));
    packets[1][10] ^= 1;
    assert_eq!(runs(&packets), [1, 1, 1]);
    // UDP without a checksum (IPv4) has none to get.
    let mut packets: Vec<_> = flow(true, 3).iter().map(|make| make.udp()).collect();
    packets[1][26..28].fill(0);
    assert_eq!(runs(&packets), [1, 1, 1]);
}

#[test]
fn flows_interleave_up_to_the_bound() {
    for (flows, expected) in [
        (OPEN_RUNS_MAX, vec![4; OPEN_RUNS_MAX]),
        (OPEN_RUNS_MAX + 1, vec![1; 4 * (OPEN_RUNS_MAX + 1)]),
    ] {
        let packets: Vec<_> = (0..4)
            .flat_map(|n| {
                (0..flows as u16).map(move |port| {
                    Make {
                        port,
                        ..Make::new(true, n)
                    }
                    .tcp()
                })
            })
            .collect();
        assert_eq!(runs(&packets), expected);
    }
}

#[test]
fn a_packet_of_no_flow_lets_nothing_overtake_it() {
    let mut packets = tcp(&flow(true, 4));
    packets.insert(2, header(true).icmp(8, 0, [0; 4], b"ping"));
    assert_eq!(runs(&packets), [2, 1, 2]);
    packets[2] = vec![0x45];
    assert_eq!(runs(&packets), [2, 1, 2]);
}

#[test]
fn only_what_the_kernel_takes_is_merged_and_only_runs_have_a_header() {
    let mut packets = tcp(&flow(true, 3));
    packets.extend(flow(true, 3).iter().map(|make| make.udp()));
    let mut coalescer = Coalescer::new();
    for (tcp, udp, expected) in [
        (true, true, vec![3, 3]),
        (true, false, vec![3, 1, 1, 1]),
        (false, true, vec![1, 1, 1, 3]),
        (false, false, vec![1; 6]),
    ] {
        let runs = coalescer.plan(&packets, Allowed { tcp, udp });
        assert_eq!(
            runs.iter().map(|run| run.count()).collect::<Vec<_>>(),
            expected
        );
        for run in runs {
            assert_eq!(MergedHeader::of(run, &packets).is_some(), run.count() > 1);
        }
    }
    let many = vec![packets[0].clone(); PACKETS_MAX + 1];
    assert_eq!(coalescer.plan(&many, BOTH).len(), PACKETS_MAX);
}

/// A batch of a few flows, mostly in order, with all that can come between.
fn batches() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let packet = (0_u16..4, any::<bool>(), any::<bool>(), 0_u8..40);
    prop::collection::vec(packet, 1..80).prop_map(|picks| {
        let mut next = [0_u16; 16];
        let pick = |(port, is_v4, is_tcp, event): (u16, bool, bool, u8)| {
            let flow = usize::from(port) * 4 + usize::from(is_v4) * 2 + usize::from(is_tcp);
            let mut make = Make {
                port,
                ..Make::new(is_v4, next[flow])
            };
            next[flow] += 1;
            match event {
                0 => make.len = 400,
                1 => make.tcp.flags |= flags::PSH,
                2 => make.header.traffic_class = 3,
                3 => make.header.dont_fragment = false,
                4 => make.tcp.flags |= flags::FIN,
                5 => make.tcp.acknowledgement += 1,
                6 => make.header.identification = 9,
                7 => next[flow] += 1,
                _ => {}
            }
            let mut packet = if is_tcp { make.tcp() } else { make.udp() };
            match event {
                8 => *packet.last_mut().unwrap() ^= 0x40,
                9 => packet = header(is_v4).icmp(8, 0, [0; 4], b"x"),
                10 => packet.truncate(packet.len() - 1),
                _ => {}
            }
            packet
        };
        picks.into_iter().map(pick).collect()
    })
}

proptest! {
    #[test]
    fn any_batch_comes_apart_as_it_was(packets in batches()) {
        fuzz::merged(&packets, BOTH);
    }
}
