//! UDP associations.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quell_egress::userspace::{AllowAll, Asked, Denied, DropReason, Event, UserspaceConfig};
use quell_packet::{FlowKey, IcmpView, IpPacket, UdpView, build, icmp};

use crate::client::{Client, PATIENCE, V4, V6};
use crate::server::pattern;

fn server(address: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

fn own(remote: SocketAddr, port: u16) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => (V4, port).into(),
        SocketAddr::V6(_) => (V6, port).into(),
    }
}

fn say(client: &mut Client, port: u16, to: SocketAddr, bytes: &[u8]) {
    client.send_raw(build::udp(own(to, port), to, bytes));
}

fn hear(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 65_535];
    let (len, from) = socket.recv_from(&mut buffer).unwrap();
    buffer.truncate(len);
    (buffer, from)
}

/// The next packet for the client.
fn next(client: &mut Client) -> Vec<u8> {
    client.until("a packet", |client| !client.others.is_empty());
    client.others.pop_front().unwrap().to_vec()
}

#[track_caller]
fn is_datagram(packet: &[u8], from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
    let ip = IpPacket::parse(packet).unwrap();
    let key = FlowKey::of(&ip);
    assert_eq!((key.source, key.source_port), (from.ip(), from.port()));
    assert_eq!(
        (key.destination, key.destination_port),
        (to.ip(), to.port())
    );
    assert_eq!(UdpView::parse(ip.payload()).unwrap().payload(), bytes);
}

#[test]
fn a_datagram_is_answered_over_both_families() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (server, at) = server(address);
        let mut client = Client::new();
        say(&mut client, 5_353, at, b"question");
        let (heard, from) = hear(&server);
        assert_eq!(heard, b"question");
        server.send_to(b"answer", from).unwrap();
        let packet = next(&mut client);
        is_datagram(&packet, at, own(at, 5_353), b"answer");
        let status = client.status();
        assert_eq!(
            (status.associations, status.consumed, status.waiting),
            (1, 1, 0)
        );
    }
}

#[test]
fn a_port_is_one_port_for_all_its_remotes() {
    let servers: Vec<_> = (0..20).map(|_| server("127.0.0.1:0")).collect();
    let mut client = Client::new();
    for (_, at) in &servers {
        say(&mut client, 5_000, *at, b"hello");
    }
    let mut seen = Vec::new();
    for (socket, _) in &servers {
        let (_, from) = hear(socket);
        seen.push(from);
        socket.send_to(b"back", from).unwrap();
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "endpoint-independent mapping");
    client.until("all answers", |client| client.others.len() == servers.len());
    // Another port of the client's is another port of the host.
    say(&mut client, 5_001, servers[0].1, b"hello");
    assert_ne!(hear(&servers[0].0).1, seen[0]);
    assert_eq!(client.status().associations, 2);
}

#[test]
fn who_was_not_spoken_to_gets_nothing_in() {
    let (friend, at) = server("127.0.0.1:0");
    let (stranger, _) = server("127.0.0.1:0");
    let mut client = Client::new();
    say(&mut client, 5_000, at, b"hello");
    let (_, from) = hear(&friend);
    stranger.send_to(b"spam", from).unwrap();
    client.until("the filter", |client| {
        client.status().count(Event::ReplyFiltered) == 1
    });
    friend.send_to(b"answer", from).unwrap();
    is_datagram(&next(&mut client), at, own(at, 5_000), b"answer");
    assert!(client.others.is_empty());
}

#[test]
fn a_port_where_nobody_listens_is_said_to_be_closed() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (socket, closed) = server(address);
        drop(socket);
        let mut client = Client::new();
        say(&mut client, 5_000, closed, b"hello");
        let packet = next(&mut client);
        let ip = IpPacket::parse(&packet).unwrap();
        let message = IcmpView::parse(ip.payload()).unwrap();
        let expected = if closed.is_ipv4() { (3, 3) } else { (1, 4) };
        assert_eq!((message.kind(), message.code()), expected);
        let quoted = icmp::quoted_flow(&ip).unwrap();
        assert_eq!(
            (quoted.source_port, quoted.destination_port),
            (5_000, closed.port())
        );
        assert_eq!(client.status().count(Event::ErrorPassedOn), 1);
        // The report of the first does not take the second's place, though it comes before it.
        let (open, at) = server(address);
        let datagram = |to| build::udp(own(to, 5_000), to, b"hello").into();
        assert_eq!(client.send_many(&[datagram(closed), datagram(at)]), 2);
        assert_eq!(hear(&open).0, b"hello");
        assert_eq!(client.status().dropped_total(), 0);
    }
}

#[test]
fn what_the_policy_denies_is_prohibited_and_asked_again_for_each_remote() {
    let (socket, at) = server("127.0.0.1:0");
    let (other, other_at) = server("[::1]:0");
    let policy = move |asked: &Asked| {
        if asked.destination == at {
            Ok(())
        } else {
            Err(Denied)
        }
    };
    let mut client = Client::with(UserspaceConfig::default(), Box::new(policy));
    say(&mut client, 5_000, at, b"hello");
    hear(&socket);
    let denied = SocketAddr::new(at.ip(), 9);
    for (to, expected) in [(denied, (3, 13)), (other_at, (1, 1))] {
        say(&mut client, 5_000, to, b"hello");
        let packet = next(&mut client);
        let ip = IpPacket::parse(&packet).unwrap();
        let message = IcmpView::parse(ip.payload()).unwrap();
        assert_eq!((message.kind(), message.code()), expected);
    }
    let status = client.status();
    assert_eq!(
        (status.dropped(DropReason::Denied), status.associations),
        (2, 1)
    );
    drop(other);
}

#[test]
fn a_long_answer_comes_in_pieces_that_fit() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (server, at) = server(address);
        let mut client = Client::new();
        say(&mut client, 5_353, at, b"question");
        let (_, from) = hear(&server);
        let answer = pattern(5_000);
        server.send_to(&answer, from).unwrap();
        // 1,256 bytes in each over IPv4, 1,232 over IPv6.
        let pieces = if at.is_ipv4() { 4 } else { 5 };
        client.until("all pieces", |client| client.others.len() == pieces);
        let mut whole = vec![0; 5_008];
        let mut seen = 0;
        for packet in client.others.drain(..) {
            assert!(packet.len() <= 1_280);
            let ip = IpPacket::parse(&packet).unwrap();
            let at = usize::from(ip.fragment_offset());
            let end = at + ip.payload().len();
            whole[at..end].copy_from_slice(ip.payload());
            assert_eq!(ip.more_fragments(), end < whole.len());
            seen += ip.payload().len();
        }
        assert_eq!(seen, 5_008);
        // The checksum spans all pieces.
        let (client_at, length) = (own(at, 5_353), 5_008);
        let sum = quell_packet::checksum::pseudo(at.ip(), client_at.ip(), 17, length);
        assert_eq!(sum.bytes(&whole).finish(), 0);
        assert!(UdpView::parse(&whole).unwrap().payload() == answer);
    }
}

#[test]
fn the_association_used_longest_ago_makes_room() {
    let (server, at) = server("127.0.0.1:0");
    let config = UserspaceConfig {
        associations_max: 2,
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    let mut seen = Vec::new();
    for port in [1, 2, 1, 3, 1] {
        say(&mut client, port, at, b"hello");
        seen.push(hear(&server).1);
    }
    assert_eq!(
        [seen[0], seen[0]],
        [seen[2], seen[4]],
        "the one in use stays"
    );
    client.until("the eviction", |client| {
        client.status().count(Event::AssociationEvicted) == 1
    });
    assert_eq!(client.status().associations, 2);
    server.send_to(b"late", seen[1]).unwrap();
    server.send_to(b"answer", seen[3]).unwrap();
    is_datagram(&next(&mut client), at, own(at, 3), b"answer");
    assert!(client.others.is_empty());
}

#[test]
fn an_association_that_carries_nothing_ends() {
    let (server, at) = server("127.0.0.1:0");
    let config = UserspaceConfig {
        udp_idle: Duration::from_secs(10),
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    say(&mut client, 5_000, at, b"hello");
    let (_, from) = hear(&server);
    client.for_a_while(Duration::from_secs(5));
    // What comes in counts, too.
    let start = Instant::now();
    server.send_to(b"answer", from).unwrap();
    client.until("the end", |client| client.status().associations == 0);
    assert!(start.elapsed() > Duration::from_millis(9_900));
    assert_eq!(client.status().count(Event::AssociationIdle), 1);
}

#[test]
fn a_remote_beyond_the_bound_makes_an_older_one_forgotten() {
    let servers: Vec<_> = (0..3).map(|_| server("127.0.0.1:0")).collect();
    let config = UserspaceConfig {
        remotes_max: 2,
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    for (socket, at) in &servers {
        say(&mut client, 5_000, *at, b"hello");
        let (_, from) = hear(socket);
        if socket.local_addr().unwrap() == servers[2].1 {
            for (socket, _) in &servers {
                socket.send_to(b"answer", from).unwrap();
            }
        }
    }
    client.until("two answers", |client| client.others.len() == 2);
    client.until("a filtered one", |client| {
        client.status().count(Event::ReplyFiltered) == 1
    });
}

#[test]
fn a_client_with_many_ports_ends_its_own_and_nobody_elses() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let at = server.local_addr().unwrap();
    let config = UserspaceConfig {
        associations_max: 4,
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    // The port outside that a datagram of a client's port leaves by.
    let speak = |client: &mut Client, own: SocketAddr| {
        client.send_raw(build::udp(own, at, b"hello"));
        server.recv_from(&mut [0; 16]).unwrap().1
    };
    let quiet = SocketAddr::from((V4, 5_000));
    let greedy = |port| SocketAddr::from(([10, 77, 0, 3], port));
    let before = speak(&mut client, quiet);
    for port in 1..20 {
        speak(&mut client, greedy(port));
    }
    client.until("the evictions", |client| {
        client.status().count(Event::AssociationEvicted) == 16
    });
    assert_eq!(client.status().associations, 4);
    assert_eq!(speak(&mut client, quiet), before);
    assert_eq!(client.status().count(Event::AssociationOpened), 20);
}
