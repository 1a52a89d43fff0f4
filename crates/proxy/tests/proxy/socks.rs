//! SOCKS5 as a client speaks it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use quell_egress::userspace::AllowAll;
use quell_proxy::{Credentials, Event, Refusal};

use crate::rig::{Rig, config, own, session};
use crate::world::{echo, serve};

pub(crate) const CONNECT: u8 = 1;

/// A request for an address.
pub(crate) fn request(command: u8, to: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![5, command, 0];
    match to.ip() {
        IpAddr::V4(v4) => {
            bytes.push(1);
            bytes.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes.push(4);
            bytes.extend_from_slice(&v6.octets());
        }
    }
    bytes.extend_from_slice(&to.port().to_be_bytes());
    bytes
}

/// A request for a name.
pub(crate) fn named(command: u8, name: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, command, 0, 3, name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes
}

/// Reads a reply: its code, and the address.
pub(crate) fn reply(stream: &mut TcpStream) -> (u8, SocketAddr) {
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    assert_eq!((head[0], head[2]), (5, 0));
    let ip: IpAddr = if head[3] == 1 {
        let mut v4 = [0; 4];
        stream.read_exact(&mut v4).unwrap();
        v4.into()
    } else {
        let mut v6 = [0; 16];
        stream.read_exact(&mut v6).unwrap();
        v6.into()
    };
    let mut port = [0; 2];
    stream.read_exact(&mut port).unwrap();
    (head[1], SocketAddr::new(ip, u16::from_be_bytes(port)))
}

/// Greets, and asks; the code and the address of the answer.
pub(crate) fn ask(stream: &mut TcpStream, request: &[u8]) -> (u8, SocketAddr) {
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    stream.write_all(request).unwrap();
    reply(stream)
}

/// A connection through the proxy.
#[track_caller]
pub(crate) fn through(rig: &Rig, to: SocketAddr) -> TcpStream {
    let mut stream = rig.socks5();
    let (code, bound) = ask(&mut stream, &request(CONNECT, to));
    assert_eq!(code, 0);
    assert_eq!(bound.ip(), own(to.ip()));
    stream
}

/// Whether the other end reset or closed.
pub(crate) fn is_over(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_))
}

#[test]
fn an_echo_over_both_families_ends_in_order() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (server, thread) = serve(address, 1, echo);
        let rig = Rig::new();
        let mut stream = through(&rig, server);
        stream.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        assert_eq!(rig.counts().flows, 1);
        drop(stream);
        thread.join().unwrap();
        rig.until_quiet();
        let counts = rig.counts();
        assert_eq!((counts.asked, counts.granted), (1, 1));
        assert_eq!(counts.count(Event::TcpClosed), 1);
    }
}

#[test]
fn bytes_may_come_one_by_one_or_all_at_once() {
    let (server, thread) = serve("127.0.0.1:0", 2, echo);
    let rig = Rig::new();
    let all = [&[5, 1, 0][..], &request(CONNECT, server), b"early"].concat();
    for chunk in [1, all.len()] {
        let mut stream = rig.socks5();
        stream.set_nodelay(true).unwrap();
        for piece in all.chunks(chunk) {
            stream.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut method = [0; 2];
        stream.read_exact(&mut method).unwrap();
        assert_eq!(reply(&mut stream).0, 0);
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"early", "in chunks of {chunk}");
    }
    thread.join().unwrap();
    rig.until_quiet();
}

fn with_password() -> Rig {
    let mut config = config();
    config.credentials = Some(Credentials {
        username: "ada".into(),
        password: String::from("secret").into(),
    });
    Rig::with(config, Box::new(AllowAll), session())
}

#[test]
fn a_password_is_asked_for_and_checked() {
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    let rig = with_password();
    // One that does not offer it.
    let mut stream = rig.socks5();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0xff]);
    assert!(is_over(&mut stream));
    for (password, accepted) in [
        (&b"\x01\x03ada\x06secreT"[..], false),
        (b"\x01\x03ada\x06secret", true),
    ] {
        let mut stream = rig.socks5();
        stream.write_all(&[5, 2, 0, 2]).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [5, 2]);
        stream.write_all(password).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!((answer[0], answer[1] == 0), (1, accepted));
        if accepted {
            stream.write_all(&request(CONNECT, server)).unwrap();
            assert_eq!(reply(&mut stream).0, 0);
        } else {
            assert!(is_over(&mut stream));
        }
    }
    thread.join().unwrap();
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::Unauthorized), 2);
}

#[test]
fn what_is_no_socks_is_hung_up_on() {
    let rig = Rig::new();
    for noise in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x04\x01\x00\x50",
        b"\x05\x01\x00\x04",
    ] {
        let mut stream = rig.socks5();
        stream.write_all(noise).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() <= 2);
    }
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::Malformed), 3);
}

#[test]
fn commands_and_addresses_that_are_not_offered_are_refused() {
    let rig = Rig::new();
    let somewhere = "127.0.0.1:9".parse().unwrap();
    for command in [2, 9] {
        let mut stream = rig.socks5();
        assert_eq!(ask(&mut stream, &request(command, somewhere)).0, 7);
        assert!(is_over(&mut stream));
    }
    let mut stream = rig.socks5();
    assert_eq!(ask(&mut stream, &[5, 1, 0, 2, 0, 0]).0, 8);
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::UnsupportedCommand), 2);
    assert_eq!(rig.counts().refused(Refusal::UnsupportedAddress), 1);
}

#[test]
fn who_says_nothing_in_time_is_hung_up_on() {
    let rig = Rig::new();
    let mut mute = rig.socks5();
    let mut half = rig.socks5();
    half.write_all(&[5, 1, 0, 5, 1, 0, 3]).unwrap();
    assert!(is_over(&mut mute));
    half.read_exact(&mut [0; 2]).unwrap();
    assert!(is_over(&mut half));
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::HandshakeTimedOut), 2);
}
