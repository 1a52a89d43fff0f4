//! What is beyond a limit is refused, and what is within still works.

use std::io::Read;
use std::net::TcpStream;

use quell_egress::userspace::AllowAll;
use quell_proxy::{Event, Refusal};

use crate::alone::alone;
use crate::rig::{Rig, config, session};
use crate::socks::{CONNECT, ask, is_over, request, through};
use crate::world::{echo, serve};

fn limited(change: impl FnOnce(&mut quell_proxy::ProxyLimits)) -> Rig {
    let mut config = config();
    change(&mut config.limits);
    Rig::with(config, Box::new(AllowAll), session())
}

#[test]
fn one_connection_too_many_is_reset() {
    let (server, thread) = serve("127.0.0.1:0", 2, echo);
    let rig = limited(|limits| limits.connections_max = 2);
    let streams: Vec<TcpStream> = (0..2).map(|_| through(&rig, server)).collect();
    assert!(is_over(&mut rig.socks5()));
    assert_eq!(rig.counts().refused(Refusal::ConnectionsFull), 1);
    drop(streams);
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn one_flow_too_many_is_refused() {
    let (server, thread) = serve("127.0.0.1:0", 2, echo);
    let rig = limited(|limits| limits.flows_max = 2);
    let streams: Vec<TcpStream> = (0..2).map(|_| through(&rig, server)).collect();
    assert_eq!(ask(&mut rig.socks5(), &request(CONNECT, server)).0, 1);
    let head = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n");
    assert_eq!(crate::http::exchange(&mut rig.http(), &head).0, 503);
    assert_eq!(rig.counts().refused(Refusal::FlowsFull), 2);
    drop(streams);
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn one_association_too_many_is_refused() {
    let rig = limited(|limits| limits.associations_max = 1);
    let any = "0.0.0.0:0".parse().unwrap();
    let mut first = rig.socks5();
    assert_eq!(ask(&mut first, &request(3, any)).0, 0);
    assert_eq!(ask(&mut rig.socks5(), &request(3, any)).0, 1);
    drop(first);
    rig.until_quiet();
    assert_eq!(ask(&mut rig.socks5(), &request(3, any)).0, 0);
    assert_eq!(rig.counts().refused(Refusal::AssociationsFull), 1);
}

#[test]
fn a_host_without_file_descriptors_makes_connections_wait() {
    alone(
        "limits::a_host_without_file_descriptors_makes_connections_wait",
        64,
        || {
            let (server, _thread) = serve("127.0.0.1:0", 1, echo);
            // Its next descriptor is reserved while it waits.
            std::thread::sleep(std::time::Duration::from_millis(200));
            let rig = Rig::new();
            let mut association = rig.socks5();
            let mut streams = Vec::new();
            let defers = |rig: &Rig| rig.counts().count(Event::AcceptDeferred) > 0;
            while !defers(&rig) {
                streams.push(rig.socks5());
                let all = streams.len() as u64 + 1;
                rig.until("a word", |counts| counts.connections == all || defers(&rig));
            }
            assert!(streams.len() > 3);
            let files = || std::iter::from_fn(|| std::fs::File::open("/dev/null").ok());
            // All but the one that waits, and its application's.
            assert!(files().collect::<Vec<_>>().len() >= 30);
            let any = "0.0.0.0:0".parse().unwrap();
            assert_eq!(ask(&mut association, &request(3, any)).0, 1);
            assert_eq!(rig.counts().refused(Refusal::HostExhausted), 1);
            drop((streams, association));
            rig.until("room", |counts| counts.connections == 0);
            let mut stream = through(&rig, server);
            std::io::Write::write_all(&mut stream, b"hello").unwrap();
            stream.read_exact(&mut [0; 5]).unwrap();
        },
    );
}
