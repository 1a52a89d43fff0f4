//! Clients that do not keep to TCP.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_egress::userspace::{DropReason, Event};
use quell_packet::build::{self, Header, Segment};
use quell_packet::tcp::flags;
use quell_packet::{IpPacket, TcpView};

use crate::client::{Client, V4, V6};
use crate::server::{echo, serve, silent};

fn own(port: u16) -> SocketAddr {
    (V4, port).into()
}

/// The next segment that came, and whether it is a reset.
fn next(client: &mut Client) -> (u32, u32, u8, Vec<u8>) {
    client.until("a segment", |client| !client.others.is_empty());
    let packet = client.others.pop_front().unwrap();
    let ip = IpPacket::parse(&packet).unwrap();
    let tcp = TcpView::parse(ip.payload()).unwrap();
    let data = ip.payload()[tcp.header_len()..].to_vec();
    (tcp.sequence(), tcp.acknowledgement(), tcp.flags(), data)
}

#[test]
fn segments_that_do_not_belong_change_nothing() {
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    let mut client = Client::new();
    client.is_raw = true;
    client.send_raw(build::tcp_syn(own(6_000), server, 1_240));
    let (theirs, acknowledged, bits, _) = next(&mut client);
    assert_eq!((acknowledged, bits), (1, flags::SYN | flags::ACK));
    let say = |sequence: u32, acknowledgement: u32, bits: u8, data: &[u8]| {
        let segment = Segment {
            sequence,
            acknowledgement,
            flags: bits,
            window: 65_535,
            options: &[],
        };
        build::tcp(own(6_000), server, &segment, data)
    };
    let first = theirs.wrapping_add(1);
    client.send_raw(say(1, first, flags::ACK, b""));
    // Data before, behind and across the window, acknowledgements of what was never sent, and resets out of it.
    let long = vec![b'x'; 1_200];
    for (sequence, acknowledgement, bits) in [
        (0x8000_0000, first, flags::ACK),
        (500_000_000, first, flags::ACK | flags::PSH),
        (u32::MAX - 600, first, flags::ACK),
        (1, first.wrapping_add(1 << 20), flags::ACK),
        (1, first.wrapping_sub(1 << 20), flags::ACK),
        (0x7fff_ffff, first, flags::ACK | flags::FIN),
        (0x4000_0000, 0, flags::RST),
        (1, 0, 0),
        (1, first, flags::SYN),
        (
            0x7000_0000,
            first,
            flags::SYN | flags::ACK | flags::FIN | flags::URG,
        ),
    ] {
        client.send_raw(say(sequence, acknowledgement, bits, &long));
    }
    client.for_a_while(Duration::from_millis(100));
    assert_eq!(client.status().tcp_flows, 1, "the flow lives");
    client.others.clear();
    // What overlaps the window from before it brought its bytes from 1 on.
    let (_, next_wanted, ..) = {
        client.send_raw(say(0, first, flags::ACK, b""));
        next(&mut client)
    };
    client.others.clear();
    client.send_raw(say(next_wanted, first, flags::ACK | flags::PSH, b"hello"));
    let mut heard = Vec::new();
    while !heard.ends_with(b"hello") {
        heard.extend(next(&mut client).3);
    }
    client.send_raw(say(next_wanted.wrapping_add(5), first, flags::RST, b""));
    client.until_quiet();
    assert_eq!(client.status().count(Event::TcpResetByClient), 1);
    drop(thread);
}

#[test]
fn damaged_and_pointless_packets_are_counted_by_reason() {
    // case B79
    let (server, _thread) = serve("127.0.0.1:0", 1, echo);
    let mut client = Client::new();
    client.is_raw = true;
    let syn = build::tcp_syn(own(6_000), server, 1_240);
    let mut damaged = syn.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut header_damaged = syn.clone();
    header_damaged[8] ^= 1;
    let header = |to: &str| Header::new(V4.into(), to.parse().unwrap());
    let routed = Header {
        extensions: &[(quell_packet::protocol::ROUTING, &[0, 1, 0, 0, 0, 0])],
        ..Header::new(V6.into(), "::1".parse().unwrap())
    };
    let syn_with = |bits, options: &[u8]| {
        let segment = Segment {
            flags: bits,
            options,
            ..Segment::default()
        };
        build::tcp(own(6_001), server, &segment, b"")
    };
    let fragment = Header {
        more_fragments: true,
        ..header("127.0.0.1")
    };
    let cases = [
        (DropReason::Malformed, syn[..30].to_vec()),
        // No port, and what a TCP would not read as the beginning of a connection.
        (DropReason::Malformed, build::tcp_syn(own(0), server, 1_240)),
        (DropReason::Malformed, header("127.0.0.1").udp(1, 0, b"")),
        (DropReason::Malformed, syn_with(flags::SYN, &[2, 60])),
        (
            DropReason::Malformed,
            syn_with(flags::SYN | flags::FIN, &[]),
        ),
        (DropReason::BadChecksum, damaged),
        (DropReason::BadChecksum, header_damaged),
        (DropReason::BadAddress, header("224.0.0.1").udp(1, 2, b"")),
        (
            DropReason::BadAddress,
            header("::ffff:127.0.0.1").udp(1, 2, b""),
        ),
        (DropReason::BadAddress, routed.udp(1, 2, b"")),
        (
            DropReason::UnsupportedProtocol,
            header("127.0.0.1").packet(132, b"sctp"),
        ),
        (
            DropReason::UnsupportedIcmp,
            header("127.0.0.1").icmp(13, 0, [0; 4], b""),
        ),
        (DropReason::Fragment, fragment.udp(1, 2, b"123456789")),
        (
            DropReason::NoFlow,
            build::tcp(
                own(1),
                server,
                &Segment {
                    flags: flags::ACK,
                    ..Segment::default()
                },
                b"",
            ),
        ),
    ];
    for (reason, packet) in cases {
        let before = client.status();
        client.send_raw(packet);
        client.until(reason.label(), |client| {
            client.status().dropped(reason) == before.dropped(reason) + 1
        });
    }
    client.until("the only answer", |client| client.others.len() == 1);
    assert_ne!(next(&mut client).2 & flags::RST, 0);
    for length in 0..64.min(syn.len()) {
        let _ = client.send_many(&[Bytes::copy_from_slice(&syn[..length])]);
    }
    client.until_quiet();
    assert_eq!(client.status().count(Event::TcpOpened), 0);
}

#[test]
fn a_flood_of_syns_is_bounded() {
    let silent = silent();
    let mut client = Client::new();
    client.is_raw = true;
    let syns: Vec<Bytes> = (0..10_000)
        .map(|number| build::tcp_syn(own(10_000 + number), silent.at, 1_240).into())
        .collect();
    for batch in syns.chunks(64) {
        assert_eq!(client.send_many(batch), batch.len());
        client.turn(Duration::ZERO);
    }
    client.until("the flood's end", |client| client.status().waiting == 0);
    let status = client.status();
    assert_eq!(status.tcp_connecting, 2_048);
    assert_eq!(status.tcp_flows, 2_048);
    assert_eq!(status.dropped(DropReason::ConnectingFull), 10_000 - 2_048);
    assert_eq!(status.offered, status.consumed + status.dropped_total());
    // And it is still of use to others, and ends at once.
    let answered = status.count(Event::AnswerSent) + status.count(Event::AnswerDropped);
    assert_eq!(answered, 10_000 - 2_048);
    let start = Instant::now();
    drop(client);
    assert!(start.elapsed() < Duration::from_secs(2));
}
