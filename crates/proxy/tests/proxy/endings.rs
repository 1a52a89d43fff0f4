//! How connections end that do not end in order.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use quell_egress::userspace as egress;
use quell_proxy::{Event, Refusal};
use socket2::SockRef;

use crate::rig::Rig;
use crate::socks::{CONNECT, request, through};
use crate::world::{serve, silent};

fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

#[test]
fn a_reset_of_the_destination_is_the_applications() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.read_exact(&mut [0; 2]).unwrap();
        reset(stream);
    });
    let rig = Rig::new();
    let mut stream = through(&rig, server);
    stream.write_all(b"go").unwrap();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    thread.join().unwrap();
    rig.until_quiet();
    assert_eq!(rig.counts().count(Event::TcpResetByPeer), 1);
}

#[test]
fn a_reset_of_the_application_is_the_destinations() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap_err().kind()
    });
    let rig = Rig::new();
    let mut stream = through(&rig, server);
    stream.write_all(b"hello").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    reset(stream);
    assert_eq!(thread.join().unwrap(), [ErrorKind::ConnectionReset]);
    rig.until_quiet();
    assert_eq!(rig.counts().count(Event::TcpResetByApplication), 1);
}

#[test]
fn an_application_that_vanishes_under_a_download_ends_it() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let chunk = [7; 1 << 16];
        while stream.write_all(&chunk).is_ok() {}
    });
    let rig = Rig::new();
    let mut stream = through(&rig, server);
    stream.read_exact(&mut [0; 100_000]).unwrap();
    drop(stream);
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn an_application_that_gives_up_while_it_connects_leaves_nothing() {
    let silent = silent();
    let rig = Rig::new();
    let mut stream = rig.socks5();
    stream.write_all(&[5, 1, 0]).unwrap();
    stream.read_exact(&mut [0; 2]).unwrap();
    stream.write_all(&request(CONNECT, silent.at)).unwrap();
    rig.until("a SYN", |counts| counts.flows == 1);
    std::thread::sleep(Duration::from_millis(50));
    drop(stream);
    rig.until("the end", |counts| {
        counts.flows == 0 && counts.connections == 0
    });
    assert_eq!(rig.counts().refused(Refusal::ApplicationGone), 1);
    rig.until_quiet();
    // The far end was told, too.
    let abandoned = rig.egress.status().count(egress::Event::TcpAbandoned);
    assert_eq!(abandoned, 1);
}

#[test]
fn a_proxy_that_stops_resets_what_there_was() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap_err().kind()
    });
    let rig = Rig::new();
    let mut stream = through(&rig, server);
    stream.write_all(b"hello").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let Rig { proxy, egress, .. } = rig;
    proxy.stop();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    egress.stop();
    assert_eq!(thread.join().unwrap(), [ErrorKind::ConnectionReset]);
}
