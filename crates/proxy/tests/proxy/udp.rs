//! UDP ASSOCIATE.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use quell_egress::userspace::AllowAll;
use quell_proxy::{Event, Refusal};

use crate::names::{Zone, config_with};
use crate::rig::{PATIENCE, Rig, session};
use crate::socks::{ask, named, request};
use crate::world::pattern;

/// An echo server for datagrams.
fn echo(address: &str) -> SocketAddr {
    let socket = UdpSocket::bind(address).unwrap();
    let at = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 65_535];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            if socket.send_to(&buffer[..len], from).is_err() {
                return;
            }
        }
    });
    at
}

/// An association: its connection, a socket, and where the proxy listens.
pub(crate) fn associate(rig: &Rig) -> (TcpStream, UdpSocket, SocketAddr) {
    let mut stream = rig.socks5();
    let (code, at) = ask(&mut stream, &request(3, "0.0.0.0:0".parse().unwrap()));
    assert_eq!(code, 0);
    assert!(at.ip().is_loopback());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    (stream, socket, at)
}

/// A datagram with its header: a request without its first byte has the same form.
pub(crate) fn datagram(fragment: u8, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = request(0, to);
    bytes[..3].copy_from_slice(&[0, 0, fragment]);
    bytes.extend_from_slice(payload);
    bytes
}

#[track_caller]
fn comes_back(socket: &UdpSocket, at: SocketAddr, to: SocketAddr, payload: &[u8]) {
    let sent = datagram(0, to, payload);
    socket.send_to(&sent, at).unwrap();
    let mut buffer = [0; 65_535];
    let (len, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(from, at);
    assert!(buffer[..len] == sent[..]);
}

#[test]
fn datagrams_come_back_over_both_families() {
    let rig = Rig::new();
    let (stream, socket, at) = associate(&rig);
    for server in [echo("127.0.0.1:0"), echo("[::1]:0")] {
        for len in [0, 1, 1_200] {
            comes_back(&socket, at, server, &pattern(len));
        }
    }
    // Above the tunnel's MTU: cut up on the way out, put together on the way in.
    comes_back(&socket, at, echo("127.0.0.1:0"), &pattern(5_000));
    assert_eq!(rig.counts().associations, 1);
    drop(stream);
    rig.until_quiet();
    let counts = rig.counts();
    assert_eq!(
        (
            counts.count(Event::DatagramOut),
            counts.count(Event::DatagramIn)
        ),
        (7, 7)
    );
    assert_eq!(counts.count(Event::AssociationEnded), 1);
}

#[test]
fn an_association_ends_with_its_connection() {
    let rig = Rig::new();
    let (stream, socket, at) = associate(&rig);
    let server = echo("127.0.0.1:0");
    comes_back(&socket, at, server, b"hello");
    drop(stream);
    rig.until_quiet();
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let _ = socket.send_to(&datagram(0, server, b"hello"), at);
    assert!(socket.recv_from(&mut [0; 64]).is_err());
}

#[test]
fn strangers_fragments_and_noise_are_counted_and_dropped() {
    let rig = Rig::new();
    let (_stream, socket, at) = associate(&rig);
    let server = echo("127.0.0.1:0");
    comes_back(&socket, at, server, b"hello");
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger
        .send_to(&datagram(0, server, b"hello"), at)
        .unwrap();
    rig.until("the stranger", |c| c.count(Event::DatagramStranger) == 1);
    socket.send_to(&datagram(1, server, b"hello"), at).unwrap();
    rig.until("the fragment", |c| c.count(Event::DatagramFragment) == 1);
    for noise in [
        &[0, 0, 0, 9][..],
        &[0],
        &[],
        &datagram(0, "224.0.0.1:9".parse().unwrap(), b""),
    ] {
        socket.send_to(noise, at).unwrap();
    }
    let too_long = datagram(0, "[::1]:9".parse().unwrap(), &[0; 1_233]);
    socket.send_to(&too_long, at).unwrap();
    rig.until("the noise", |c| c.count(Event::DatagramRefused) == 5);
    comes_back(&socket, at, server, b"still there");
}

#[test]
fn the_port_that_an_application_names_is_its_own() {
    let rig = Rig::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = rig.socks5();
    let own = socket.local_addr().unwrap();
    let (code, at) = ask(&mut stream, &request(3, own));
    assert_eq!(code, 0);
    let server = echo("127.0.0.1:0");
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger
        .send_to(&datagram(0, server, b"first"), at)
        .unwrap();
    rig.until("the stranger", |c| c.count(Event::DatagramStranger) == 1);
    comes_back(&socket, at, server, b"hello");
}

#[test]
fn a_datagram_may_go_to_a_name() {
    let zone = Zone::start(1);
    let rig = Rig::with(config_with(&zone), Box::new(AllowAll), session());
    let (_stream, socket, at) = associate(&rig);
    let server = echo("127.0.0.1:0");
    let mut sent = named(0, "v4.test", server.port());
    sent[..3].fill(0);
    sent.extend_from_slice(b"hello");
    socket.send_to(&sent, at).unwrap();
    let mut buffer = [0; 64];
    let (len, _) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], &datagram(0, server, b"hello")[..]);
    let mut nowhere = named(0, "none.test", 9);
    nowhere[..3].fill(0);
    socket.send_to(&nowhere, at).unwrap();
    rig.until("a refusal", |c| c.count(Event::DatagramRefused) == 1);
    assert_eq!(rig.counts().refused(Refusal::NameNotFound), 0);
}

#[test]
fn what_an_association_looks_up_ends_with_it() {
    let zone = Zone::start(1);
    let mut config = config_with(&zone);
    // The silent server is asked once more when its time is over.
    config.limits.dns_timeout = Duration::from_millis(300);
    let rig = Rig::with(config, Box::new(AllowAll), session());
    let (stream, socket, at) = associate(&rig);
    let mut sent = named(0, "mute.test", 9);
    sent[..3].fill(0);
    socket.send_to(&sent, at).unwrap();
    rig.until("both families", |c| c.count(Event::NameAsked) == 2);
    drop(stream);
    rig.until_quiet();
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(rig.counts().count(Event::NameAsked), 2);
}
