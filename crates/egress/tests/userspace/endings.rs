//! TCP flows that do not come to be, or end otherwise than in order; and readers that are slow.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quell_egress::userspace::{AllowAll, Asked, Denied, DropReason, Event, UserspaceConfig};
use quell_packet::{FlowKey, IcmpView, IpPacket, icmp};
use smoltcp::socket::tcp::State;

use crate::client::Client;
use crate::namespace::in_namespace;
use crate::server::{echo, pattern, serve, silent};
use crate::tcp::read_some;

#[test]
fn a_destination_that_refuses_is_a_reset() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut client = Client::new();
    let flow = client.connect(closed, 4_096);
    client.until("the refusal", |client| {
        client.tcp(flow).state() == State::Closed
    });
    assert_eq!(client.resets, 1);
    client.until_quiet();
    let status = client.status();
    assert_eq!(status.count(Event::TcpRefused), 1);
    assert_eq!(status.count(Event::TcpEstablished), 0);
}

#[test]
fn a_destination_that_is_silent_is_silent_until_the_time_is_up() {
    let silent = silent();
    let config = UserspaceConfig {
        tcp_connect_timeout: Duration::from_secs(1),
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    let flow = client.connect(silent.at, 4_096);
    client.for_a_while(Duration::from_millis(700));
    assert_eq!(client.tcp(flow).state(), State::SynSent, "no SYN-ACK");
    assert_eq!(client.status().tcp_connecting, 1);
    assert!(client.others.is_empty() && client.resets == 0);
    client.until("the end of patience", |client| {
        client.status().tcp_flows == 0
    });
    assert_eq!(client.status().count(Event::TcpConnectTimedOut), 1);
    client.until("the ICMP error", |client| !client.others.is_empty());
    let error = client.others.pop_front().unwrap();
    let ip = IpPacket::parse(&error).unwrap();
    let message = IcmpView::parse(ip.payload()).unwrap();
    assert_eq!((message.kind(), message.code()), (3, 1), "host unreachable");
    let quoted = icmp::quoted_flow(&ip).unwrap();
    assert_eq!(quoted.destination_port, silent.at.port());
}

#[test]
fn a_destination_without_a_way_is_an_error_and_a_reset() {
    // Loopback is all there is.
    in_namespace("1 0", || {
        for (to, expected) in [("192.0.2.1:80", (3, 1)), ("[2001:db8::1]:80", (1, 3))] {
            let to: SocketAddr = to.parse().unwrap();
            let mut client = Client::new();
            let flow = client.connect(to, 4_096);
            client.until("the reset", |client| {
                client.tcp(flow).state() == State::Closed
            });
            assert_eq!(client.status().count(Event::TcpUnreachable), 1);
            let own: SocketAddr = match to {
                SocketAddr::V4(_) => (crate::client::V4, 5_000).into(),
                SocketAddr::V6(_) => (crate::client::V6, 5_000).into(),
            };
            client.send_raw(quell_packet::build::udp(own, to, b"hello"));
            client.until("both errors", |client| client.others.len() == 2);
            for packet in &client.others {
                let ip = IpPacket::parse(packet).unwrap();
                let message = IcmpView::parse(ip.payload()).unwrap();
                assert_eq!((message.kind(), message.code()), expected);
            }
            assert_eq!(client.status().dropped(DropReason::Unreachable), 1);
        }
    });
}

#[test]
fn a_client_that_gives_up_frees_the_place() {
    let silent = silent();
    let mut client = Client::new();
    client.is_raw = true;
    let own = (crate::client::V4, 5_000).into();
    client.send_raw(quell_packet::build::tcp_syn(own, silent.at, 1_240));
    client.until("the flow", |client| client.status().tcp_connecting == 1);
    // A reset that does not belong to this SYN changes nothing.
    for (sequence, left) in [(7, 1), (1, 0)] {
        let key = FlowKey {
            source: crate::client::V4.into(),
            destination: silent.at.ip(),
            protocol: quell_packet::protocol::TCP,
            source_port: 5_000,
            destination_port: silent.at.port(),
        };
        client.send_raw(quell_packet::reset::tcp_reset(&key, sequence, None).unwrap());
        client.for_a_while(Duration::from_millis(100));
        assert_eq!(client.status().tcp_flows, left, "after {sequence}");
    }
    assert_eq!(client.status().count(Event::TcpAbandoned), 1);
    client.until_quiet();
}

#[test]
fn what_the_policy_denies_is_a_reset_and_no_socket() {
    let (server, _thread) = serve("127.0.0.1:0", 1, echo);
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let policy = move |asked: &Asked| {
        counter.fetch_add(1, Ordering::Relaxed);
        assert_eq!(asked.destination, server);
        assert_eq!(asked.client, crate::client::V4);
        Err(Denied)
    };
    let mut client = Client::with(UserspaceConfig::default(), Box::new(policy));
    let flow = client.connect(server, 4_096);
    client.until("the denial", |client| {
        client.tcp(flow).state() == State::Closed
    });
    assert_eq!((client.resets, asked.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(client.status().dropped(DropReason::Denied), 1);
    assert_eq!(client.status().count(Event::TcpOpened), 0);
}

#[test]
fn a_reset_by_the_client_is_a_reset_outside() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let mut buffer = [0; 16];
        assert_eq!(stream.read(&mut buffer).unwrap(), 5);
        stream.read(&mut buffer).unwrap_err().kind()
    });
    let mut client = Client::new();
    let flow = client.connect(server, 4_096);
    client.until("the handshake", |client| client.tcp(flow).may_send());
    client.tcp(flow).send_slice(b"hello").unwrap();
    client.for_a_while(Duration::from_millis(50));
    client.tcp(flow).abort();
    client.until_quiet();
    assert_eq!(thread.join().unwrap(), [ErrorKind::ConnectionReset]);
    assert_eq!(client.status().count(Event::TcpResetByClient), 1);
}

#[test]
fn a_reset_from_outside_is_a_reset_for_the_client() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let mut buffer = [0; 16];
        assert_eq!(stream.read(&mut buffer).unwrap(), 5);
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    });
    let mut client = Client::new();
    let flow = client.connect(server, 4_096);
    client.until("the handshake", |client| client.tcp(flow).may_send());
    client.tcp(flow).send_slice(b"hello").unwrap();
    client.until("the reset", |client| {
        client.tcp(flow).state() == State::Closed
    });
    assert_eq!(client.resets, 1);
    thread.join().unwrap();
    client.until_quiet();
    assert_eq!(client.status().count(Event::TcpResetOutside), 1);
}

#[test]
fn the_end_of_the_egress_is_a_reset_outside() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.read(&mut [0; 16]).unwrap_err().kind()
    });
    let mut client = Client::new();
    let flow = client.connect(server, 4_096);
    client.until("the handshake", |client| client.tcp(flow).may_send());
    drop(client);
    assert_eq!(thread.join().unwrap(), [ErrorKind::ConnectionReset]);
}

#[test]
fn a_flow_that_carries_nothing_ends_on_both_sides() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.read(&mut [0; 16]).unwrap_err().kind()
    });
    let config = UserspaceConfig {
        tcp_idle_transitory: Duration::from_secs(10),
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    let start = Instant::now();
    let flow = client.connect(server, 4_096);
    client.until("the reset", |client| {
        client.tcp(flow).state() == State::Closed
    });
    assert!(start.elapsed() >= Duration::from_secs(10));
    assert_eq!(thread.join().unwrap(), [ErrorKind::ConnectionReset]);
    client.until_quiet();
    assert_eq!(client.status().count(Event::TcpIdle), 1);
}

#[test]
fn a_client_that_does_not_read_stops_the_sender_outside() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    const BYTES: usize = 64 << 20;
    let (server, thread) = serve("127.0.0.1:0", 1, move |mut stream| {
        for chunk in pattern(BYTES).chunks(65_536) {
            stream.write_all(chunk).unwrap();
            counter.fetch_add(chunk.len(), Ordering::Relaxed);
        }
    });
    let mut client = Client::new();
    let flow = client.connect(server, 65_536);
    let mut last = usize::MAX;
    let mut checked = Instant::now();
    client.until("a standstill", |_| {
        if checked.elapsed() < Duration::from_millis(500) {
            return false;
        }
        checked = Instant::now();
        let now = sent.load(Ordering::Relaxed);
        now > 0 && std::mem::replace(&mut last, now) == now
    });
    // The kernel's buffers on both sides, and ours.
    assert!(last < 32 << 20, "{last} bytes are on their way");
    assert_eq!(client.status().waiting, 0);
    let mut heard = Vec::new();
    client.until("the rest", |client| {
        read_some(client, flow, &mut heard);
        heard.len() == BYTES
    });
    assert!(heard == pattern(BYTES));
    thread.join().unwrap();
}

#[test]
fn a_server_that_does_not_read_stops_the_client() {
    let (go, gone) = crossbeam_channel::bounded::<()>(1);
    let (server, thread) = serve("127.0.0.1:0", 1, move |mut stream| {
        gone.recv().unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        heard.len()
    });
    let mut client = Client::new();
    let flow = client.connect(server, 65_536);
    let bytes = pattern(65_536);
    let (mut said, mut at) = (0, Instant::now());
    client.until("a standstill", |client| {
        while client.tcp(flow).can_send() {
            said += client.tcp(flow).send_slice(&bytes).unwrap();
            at = Instant::now();
        }
        said > 0 && at.elapsed() > Duration::from_secs(1)
    });
    assert!(said < 32 << 20, "{said} bytes are on their way");
    go.send(()).unwrap();
    client.tcp(flow).close();
    client.until_quiet();
    assert_eq!(thread.join().unwrap(), [said]);
}
