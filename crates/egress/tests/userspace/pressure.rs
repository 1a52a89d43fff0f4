//! An engine that does not take what it is given.

use std::io::Write;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use quell_egress::userspace::{AllowAll, Event, UserspaceConfig};
use quell_packet::build;

use crate::client::{Client, PATIENCE, V4};
use crate::server::{pattern, serve};
use crate::tcp::read_some;

/// Packets that the way to a client holds at most: the channel, the batch before it, and the test's own four batches.
const HELD_MAX: u64 = (8 + 1 + 4 + 2) * 64;

#[test]
fn flows_wait_and_lose_nothing() {
    const FLOWS: usize = 64;
    const BYTES: usize = 1_000_000;
    let (server, thread) = serve("127.0.0.1:0", FLOWS, |mut stream| {
        stream.write_all(&pattern(BYTES)).unwrap();
    });
    let mut client = Client::new();
    let mut flows: Vec<_> = (0..FLOWS)
        .map(|_| (client.connect(server, 65_536), Vec::new()))
        .collect();
    // Until what each has in flight is bounded by its window alone.
    client.until("a good start", |client| {
        for (flow, heard) in &mut flows {
            read_some(client, *flow, heard);
        }
        flows.iter().all(|(_, heard)| heard.len() > 300_000)
    });
    // Windows of 64 · 53 packets are open, which is four times what the way to the client holds; and nobody reads.
    std::thread::sleep(Duration::from_millis(300));
    let before = client.status().count(Event::PacketOut);
    std::thread::sleep(Duration::from_millis(300));
    let held = client.status().count(Event::PacketOut);
    assert_eq!(held, before, "a standstill");
    assert_eq!(client.status().count(Event::AnswerDropped), 0);
    client.until("all downloads", |client| {
        for (flow, heard) in &mut flows {
            read_some(client, *flow, heard);
        }
        flows.iter().all(|(_, heard)| heard.len() == BYTES)
    });
    assert!(flows.iter().all(|(_, heard)| *heard == pattern(BYTES)));
    thread.join().unwrap();
    assert_eq!(client.status().count(Event::AnswerDropped), 0);
    assert_eq!(client.resets, 0);
}

#[test]
fn what_is_lost_while_there_is_no_room_is_sent_again() {
    const FLOWS: usize = 64;
    const BYTES: usize = 600_000;
    let (server, thread) = serve("127.0.0.1:0", FLOWS, |mut stream| {
        stream.write_all(&pattern(BYTES)).unwrap();
    });
    let mut client = Client::new();
    let mut flows: Vec<_> = (0..FLOWS)
        .map(|_| (client.connect(server, 65_536), Vec::new()))
        .collect();
    client.until("a good start", |client| {
        for (flow, heard) in &mut flows {
            read_some(client, *flow, heard);
        }
        flows.iter().all(|(_, heard)| heard.len() > 200_000)
    });
    // Nobody reads; then each flow is told three times that something was lost, and has no room to send it again.
    std::thread::sleep(Duration::from_millis(300));
    client.say_again(4);
    std::thread::sleep(Duration::from_millis(200));
    // And it is true.
    client.lose_all(Duration::from_millis(200));
    client.until("all downloads", |client| {
        for (flow, heard) in &mut flows {
            read_some(client, *flow, heard);
        }
        flows.iter().all(|(_, heard)| heard.len() == BYTES)
    });
    assert!(flows.iter().all(|(_, heard)| *heard == pattern(BYTES)));
    thread.join().unwrap();
}

#[test]
fn datagrams_wait_in_the_kernel() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let mut client = Client::new();
    client.send_raw(build::udp((V4, 5_000).into(), at, b"hello"));
    let mut buffer = [0; 16];
    let (_, from) = server.recv_from(&mut buffer).unwrap();
    for _ in 0..20 {
        for _ in 0..100 {
            server.send_to(&[7; 1_000], from).unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let held = client.status().count(Event::PacketOut);
    assert!((64..=HELD_MAX).contains(&held), "{held}");
    client.until("what was held", |client| client.others.len() as u64 >= held);
    client.for_a_while(Duration::from_millis(50));
    let status = client.status();
    assert!(
        status.count(Event::PacketOut) > held,
        "the kernel's come next"
    );
    assert_eq!(status.count(Event::ReplyDropped), 0);
}

#[test]
fn an_association_that_waits_for_room_ends_when_its_place_is_given_away() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let config = UserspaceConfig {
        associations_max: 1,
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    client.send_raw(build::udp((V4, 5_000).into(), at, b"hello"));
    let (_, from) = server.recv_from(&mut [0; 16]).unwrap();
    // More than the way holds, so that the association waits with the rest in its socket.
    let mut held = 0;
    while client.status().count(Event::PacketOut) > held || held < 64 {
        held = client.status().count(Event::PacketOut);
        for _ in 0..100 {
            server.send_to(&[7; 1_000], from).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    client.send_raw(build::udp((V4, 5_001).into(), at, b"hello"));
    let start = Instant::now();
    while client.status().count(Event::AssociationEvicted) == 0 {
        assert!(start.elapsed() < PATIENCE, "{:?}", client.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.status().associations, 1);
}
