//! What the segments towards a client look like.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use quell_egress::userspace::DropReason;
use quell_packet::build::{self, Segment};
use quell_packet::tcp::flags;
use quell_packet::{IpPacket, TcpView, icmp};

use crate::client::{Client, V4, V6};
use crate::server::serve;

const WINDOW_SCALE: u8 = 3;

fn syn(own: SocketAddr, server: SocketAddr, options: &[u8]) -> Vec<u8> {
    let segment = Segment {
        flags: flags::SYN,
        window: 65_535,
        options,
        ..Segment::default()
    };
    build::tcp(own, server, &segment, &[])
}

/// The next segment: sequence, largest segment it allows, window scale, data.
fn next(client: &mut Client) -> (u32, Option<u16>, Option<u8>, Vec<u8>) {
    client.until("a segment", |client| !client.others.is_empty());
    let packet = client.others.pop_front().unwrap();
    let ip = IpPacket::parse(&packet).unwrap();
    let tcp = TcpView::parse(ip.payload()).unwrap();
    let scale = tcp
        .options()
        .flatten()
        .find(|option| option.kind == WINDOW_SCALE)
        .map(|option| option.bytes[2]);
    let mss = tcp.mss_options().next().map(|(mss, _)| mss);
    let data = ip.payload()[tcp.header_len()..].to_vec();
    (tcp.sequence(), mss, scale, data)
}

#[test]
fn the_handshake_offers_the_tunnels_mss_and_a_scaled_window() {
    for (address, own, mss) in [
        ("127.0.0.1:0", SocketAddr::from((V4, 7_000)), 1_240),
        ("[::1]:0", SocketAddr::from((V6, 7_000)), 1_220),
    ] {
        let (server, _thread) = serve(address, 2, |mut stream| stream.read(&mut [0; 8]).is_ok());
        let mut client = Client::new();
        client.is_raw = true;
        client.send_raw(syn(own, server, &[2, 4, 5, 0, 1, 3, 3, 7]));
        // 256 KiB need three bits beside the field's sixteen.
        let (_, offered, scale, _) = next(&mut client);
        assert_eq!((offered, scale), (Some(mss), Some(3)));
        // Who does not know of scaling is not offered any.
        let other = SocketAddr::new(own.ip(), 7_001);
        client.send_raw(syn(other, server, &[2, 4, 5, 0]));
        let (_, offered, scale, _) = next(&mut client);
        assert_eq!((offered, scale), (Some(mss), None));
    }
}

#[test]
fn segments_keep_to_the_clients_mss_and_wait_for_nothing() {
    let (go, gone) = crossbeam_channel::bounded::<&'static [u8]>(1);
    let (server, _thread) = serve("127.0.0.1:0", 1, move |mut stream| {
        stream.set_nodelay(true).unwrap();
        while let Ok(bytes) = gone.recv() {
            stream.write_all(bytes).unwrap();
        }
    });
    let own = (V4, 7_000).into();
    let mut client = Client::new();
    client.is_raw = true;
    client.send_raw(syn(own, server, &[2, 4, 2, 24]));
    let first = next(&mut client).0.wrapping_add(1);
    let acknowledgement = Segment {
        sequence: 1,
        acknowledgement: first,
        flags: flags::ACK,
        window: 65_535,
        options: &[],
    };
    client.send_raw(build::tcp(own, server, &acknowledgement, &[]));
    // No acknowledgement of "a" is needed before "b" comes (RFC 9293 §3.7.4 is switched off).
    for (at, bytes) in [(0, &b"a"[..]), (1, b"b")] {
        go.send(bytes).unwrap();
        let (sequence, .., data) = next(&mut client);
        assert_eq!((sequence, &data[..]), (first.wrapping_add(at), bytes));
    }
    go.send(&[7; 2_000]).unwrap();
    let mut lengths = Vec::new();
    while lengths.iter().sum::<usize>() < 2_000 {
        lengths.push(next(&mut client).3.len());
    }
    assert_eq!(lengths.iter().max(), Some(&536));
    client.for_a_while(Duration::from_millis(20));
    assert!(client.others.is_empty());
}

#[test]
fn a_packet_too_big_is_heard_from_the_flows_own_client_alone() {
    let (server, _thread) = serve("127.0.0.1:0", 1, |mut stream| {
        for _ in 0..2 {
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(&[7; 1_200]).unwrap();
        }
    });
    let mut client = Client::new();
    client.is_raw = true;
    let own = SocketAddr::from((V4, 7_200));
    client.send_raw(syn(own, server, &[2, 4, 4, 216]));
    let (theirs, ..) = next(&mut client);
    let say = |sequence: u32, acknowledged: u32| {
        let segment = Segment {
            sequence,
            acknowledgement: theirs.wrapping_add(acknowledged),
            flags: flags::ACK | flags::PSH,
            window: 65_535,
            options: &[],
        };
        build::tcp(own, server, &segment, b"x")
    };
    // Nobody writes an error about a packet of the loopback, so it is one of an address with the same sum.
    let twin = SocketAddr::from(([10, 0, 117, 1], server.port()));
    let long = build::tcp(twin, own, &Segment::default(), &[0; 1_200]);
    let other = [10, 77, 0, 3].into();
    for (from, sequence, acknowledged, len) in [(other, 1, 1, 1_200), (own.ip(), 2, 1_201, 536)] {
        let mut error = icmp::too_big(&long, 576, from).unwrap();
        error[40..44].copy_from_slice(&[127, 0, 0, 1]);
        client.send_raw(error);
        client.send_raw(say(sequence, acknowledged));
        client.others.clear();
        let data = loop {
            let (.., data) = next(&mut client);
            if !data.is_empty() {
                break data;
            }
        };
        assert_eq!(data.len(), len, "{from}");
    }
    let status = client.status();
    assert_eq!(status.dropped(DropReason::UnsupportedIcmp), 1);
}
