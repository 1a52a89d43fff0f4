//! Before the first session, and when another comes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use quell_egress::userspace::AllowAll;
use quell_proxy::{DropReason, Event, Refusal, Tunnel};

use crate::http::exchange;
use crate::rig::{PATIENCE, Rig, config, session};
use crate::socks::{CONNECT, ask, is_over, request, through};
use crate::udp::{associate, datagram};
use crate::world::{echo, serve};

#[test]
fn requests_wait_for_the_first_session() {
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    let rig = Rig::with(config(), Box::new(AllowAll), Tunnel::default());
    let start = Instant::now();
    assert_eq!(ask(&mut rig.socks5(), &request(CONNECT, server)).0, 3);
    assert!(start.elapsed() >= Duration::from_millis(500));
    let head = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n");
    assert_eq!(exchange(&mut rig.http(), &head).0, 503);
    assert_eq!(rig.counts().refused(Refusal::NoSession), 2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(150));
            rig.tunnel.send_replace(session());
        });
        drop(through(&rig, server));
    });
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn a_family_that_the_session_has_not_is_no_route() {
    let rig = Rig::with(
        config(),
        Box::new(AllowAll),
        Tunnel {
            ipv6: None,
            ..session()
        },
    );
    let target = "[::1]:9".parse().unwrap();
    assert_eq!(ask(&mut rig.socks5(), &request(CONNECT, target)).0, 3);
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::NoRoute), 1);
}

#[test]
fn flows_of_an_address_that_is_gone_end_and_the_others_live_on() {
    let (v4, thread) = serve("127.0.0.1:0", 1, echo);
    let (v6, other) = serve("[::1]:0", 1, echo);
    let rig = Rig::new();
    let mut old = through(&rig, v4);
    let mut kept = through(&rig, v6);
    let mut association = rig.socks5();
    let any = "0.0.0.0:0".parse().unwrap();
    assert_eq!(ask(&mut association, &request(3, any)).0, 0);
    rig.tunnel.send_replace(Tunnel {
        ipv4: Some(Ipv4Addr::new(10, 77, 0, 3)),
        ..session()
    });
    let error = old.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    rig.until("the end", |counts| counts.flows == 1);
    assert_eq!(rig.counts().count(Event::TcpCutOff), 1);
    kept.write_all(b"hello").unwrap();
    kept.read_exact(&mut [0; 5]).unwrap();
    drop((old, kept, association));
    // The far end hears of it, too: the reset still went out.
    thread.join().unwrap();
    other.join().unwrap();
    rig.until_quiet();
}

#[test]
fn packets_for_an_address_that_is_not_ours_are_dropped() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let rig = Rig::new();
    let (mut stream, socket, at) = associate(&rig);
    let hello = datagram(0, server.local_addr().unwrap(), b"hello");
    socket.send_to(&hello, at).unwrap();
    let (_, outside) = server.recv_from(&mut [0; 8]).unwrap();
    rig.tunnel.send_replace(Tunnel {
        ipv4: Some(Ipv4Addr::new(10, 77, 0, 3)),
        ..session()
    });
    assert!(is_over(&mut stream));
    // The provider's socket lives on, and what comes to it goes to the address from before.
    server.send_to(b"late", outside).unwrap();
    rig.until("the drop", |counts| {
        counts.dropped(DropReason::NotOurs) == 1
    });
    rig.until_quiet();
}
