//! Destinations that cannot be had, in the words of both protocols.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quell_egress::userspace::{Asked, Denied};
use quell_packet::icmp::{self, Unreachable};
use quell_packet::{IpPacket, protocol};
use quell_proxy::{Event, Refusal};

use crate::http::exchange;
use crate::rig::{Rig, config, session};
use crate::socks::{CONNECT, ask, request};
use crate::world::silent;

/// Asks for `to` over both protocols: SOCKS's code and HTTP's status.
fn both(rig: &Rig, to: SocketAddr) -> (u8, u16) {
    let code = ask(&mut rig.socks5(), &request(CONNECT, to)).0;
    let head = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    let (status, ..) = exchange(&mut rig.http(), &head);
    (code, status)
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn a_refusal_is_a_refusal() {
    let rig = Rig::new();
    assert_eq!(both(&rig, nobody()), (5, 502));
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::Refused), 2);
    assert_eq!(rig.counts().count(Event::TcpNotEstablished), 2);
}

#[test]
fn silence_is_said_when_the_time_is_over() {
    let silent = silent();
    let rig = Rig::new();
    let start = Instant::now();
    assert_eq!(both(&rig, silent.at), (6, 504));
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(4), "two seconds each: {took:?}");
    assert_eq!(rig.counts().refused(Refusal::TimedOut), 2);
    rig.until_quiet();
}

/// Answers each SYN with an ICMP error instead.
fn erring(why: Unreachable) -> Rig {
    let rig = Rig::new();
    rig.meddle(Box::new(move |packet| {
        let ip = IpPacket::parse(&packet).unwrap();
        if ip.protocol() != protocol::TCP {
            return vec![packet.freeze()];
        }
        // What the world answers, quoted the other way round: the packet that drew it.
        let key = quell_packet::FlowKey::of(&ip);
        let own = SocketAddr::new(key.destination, key.destination_port);
        let remote = SocketAddr::new(key.source, key.source_port);
        let syn = quell_packet::build::tcp_syn(own, remote, 1_240);
        let error = icmp::unreachable(&syn, why, remote.ip()).unwrap();
        vec![error.into(), packet.freeze()]
    }));
    rig
}

#[test]
fn an_error_from_the_way_says_more_than_the_reset_behind_it() {
    let targets = [nobody(), "[::1]:1".parse().unwrap()];
    for (why, expected, refusal) in [
        (Unreachable::Host, (4, 502), Refusal::Unreachable),
        (Unreachable::AdminProhibited, (2, 403), Refusal::Prohibited),
        (Unreachable::Port, (5, 502), Refusal::Refused),
    ] {
        let rig = erring(why);
        for target in targets {
            assert_eq!(both(&rig, target), expected, "{why:?}");
        }
        assert_eq!(rig.counts().refused(refusal), 4);
        rig.until_quiet();
    }
}

#[test]
fn an_error_does_not_end_a_connection_that_stands() {
    use std::io::{Read, Write};
    let (server, thread) = crate::world::serve("127.0.0.1:0", 1, crate::world::echo);
    let rig = Rig::new();
    let mut stream = crate::socks::through(&rig, server);
    rig.meddle(Box::new(|packet| {
        let ip = IpPacket::parse(&packet).unwrap();
        let key = quell_packet::FlowKey::of(&ip).reversed();
        let ends = [
            (key.source, key.source_port),
            (key.destination, key.destination_port),
        ];
        let [own, remote] = ends.map(SocketAddr::from);
        let quoted = quell_packet::build::tcp_syn(own, remote, 1_240);
        let error = icmp::unreachable(&quoted, Unreachable::Host, remote.ip()).unwrap();
        vec![error.into(), packet.freeze()]
    }));
    for _ in 0..3 {
        stream.write_all(b"hello").unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
    }
    drop(stream);
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn what_the_provider_denies_is_refused() {
    let denying = Box::new(|_: &Asked| Err(Denied));
    let rig = Rig::with(config(), denying, session());
    assert_eq!(both(&rig, nobody()), (5, 502));
    rig.until_quiet();
}

#[test]
fn a_destination_that_is_none_is_not_tried() {
    let rig = Rig::new();
    for to in ["224.0.0.1:80", "0.0.0.0:80", "[ff02::1]:80"] {
        assert_eq!(both(&rig, to.parse().unwrap()), (2, 403), "{to}");
    }
    let zero = ask(
        &mut rig.socks5(),
        &request(CONNECT, "192.0.2.1:0".parse().unwrap()),
    );
    assert_eq!(zero.0, 2);
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::BadDestination), 7);
    assert_eq!(rig.counts().count(Event::TcpOpened), 0);
}
