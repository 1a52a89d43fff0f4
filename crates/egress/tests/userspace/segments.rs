//! What the segments towards a client look like.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use quell_packet::build::{self, Segment};
use quell_packet::tcp::flags;
use quell_packet::{IpPacket, TcpView};

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
