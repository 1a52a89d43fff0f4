//! Against a proxy of a few lines that says what it is told to, and through one that relays.

#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use super::*;

const LONG: Duration = Duration::from_secs(20);

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn destination() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 7], 443))
}

/// What a proxy read, and its connection.
type Served = (Vec<Vec<u8>>, TcpStream);

/// A proxy for one connection, which reads `reads[i]` bytes before it says `says[i]`; what it read.
fn proxy(reads: Vec<usize>, says: Vec<Vec<u8>>) -> (SocketAddr, JoinHandle<Served>) {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = Vec::new();
        for (bytes, say) in reads.into_iter().zip(says) {
            let mut read = vec![0; bytes];
            stream.read_exact(&mut read).unwrap();
            heard.push(read);
            // Byte by byte: nobody may rely on what comes together.
            for byte in say {
                stream.write_all(&[byte]).unwrap();
            }
        }
        (heard, stream)
    };
    (address, thread::spawn(serve))
}

fn granted() -> Vec<u8> {
    vec![5, 0, 0, 1, 127, 0, 0, 1, 0x12, 0x34]
}

#[test]
fn a_stream_is_asked_for_as_the_rfc_says_and_then_is_the_destinations() {
    let hello = [granted(), b"hello".to_vec()].concat();
    let (address, served) = proxy(vec![3, 10], vec![vec![5, 0], hello]);
    let mut stream = connect(address, destination(), LONG).unwrap();
    let mut said = [0; 5];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"hello", "no byte of the destination is lost");
    let (heard, _) = served.join().unwrap();
    assert_eq!(heard[0], [5, 1, 0]);
    assert_eq!(heard[1], [5, 1, 0, 1, 192, 0, 2, 7, 1, 187]);
}

#[test]
fn an_address_of_sixteen_bytes_is_asked_for_and_understood() {
    let bound = [vec![5, 0, 0, 4], vec![0; 15], vec![1, 0, 80]].concat();
    let (address, served) = proxy(vec![3, 22], vec![vec![5, 0], bound]);
    let to = "[2001:db8::1]:80".parse().unwrap();
    drop(connect(address, to, LONG).unwrap());
    let (heard, _) = served.join().unwrap();
    assert_eq!(heard[1][..6], [5, 1, 0, 4, 0x20, 0x01]);
    assert_eq!(address_of(&heard[1][4..]), Some(to));
}

#[test]
fn a_refusal_has_the_kind_that_a_socket_would_have_given() {
    use io::ErrorKind as Kind;
    let cases = [
        (2, Kind::PermissionDenied),
        (3, Kind::NetworkUnreachable),
        (4, Kind::HostUnreachable),
        (5, Kind::ConnectionRefused),
        (6, Kind::TimedOut),
        (7, Kind::Unsupported),
        (8, Kind::Unsupported),
        (1, Kind::Other),
        (200, Kind::Other),
    ];
    for (status, kind) in cases {
        let refusal = check_reply([5, status, 0, 1]).unwrap_err();
        assert_eq!(refusal.kind(), kind, "{status}");
    }
    assert_eq!(check_reply([5, 0, 0, 1]).unwrap(), 6);
    assert_eq!(check_reply([5, 0, 0, 4]).unwrap(), 18);
}

#[test]
fn what_is_no_socks5_is_told_from_a_refusal() {
    let invalid = |reply: [u8; 4]| check_reply(reply).unwrap_err().kind();
    assert_eq!(invalid([4, 0, 0, 1]), io::ErrorKind::InvalidData);
    assert_eq!(invalid([5, 0, 0, 3]), io::ErrorKind::InvalidData);
    let method = |said| check_method(said).unwrap_err().kind();
    assert_eq!(method([4, 0]), io::ErrorKind::InvalidData);
    assert_eq!(method([5, 255]), io::ErrorKind::PermissionDenied);
    assert!(check_method([5, 0]).is_ok());
    assert_eq!(address_of(&[1, 2, 3, 4, 5]), None);
}

#[test]
fn a_proxy_that_is_silent_is_not_waited_for() {
    let (address, served) = proxy(vec![3, 1], vec![vec![5], Vec::new()]);
    let began = Instant::now();
    let patience = Duration::from_millis(200);
    let error = connect(address, destination(), patience).unwrap_err();
    assert!(error.to_string().contains("192.0.2.7:443"), "{error}");
    assert!(began.elapsed() >= patience && began.elapsed() < LONG);
    // Its peer is gone: what it still waits for never comes.
    assert!(served.join().is_err());
}

#[tokio::test]
async fn a_task_is_served_as_a_thread_is() {
    let (address, served) = proxy(vec![3, 10], vec![vec![5, 0], granted()]);
    connect_async(address, destination()).await.unwrap();
    let (heard, _) = served.join().unwrap();
    assert_eq!(heard[1], request(CONNECT, destination()));
    let (address, _served) = proxy(vec![3, 10], vec![vec![5, 0], vec![5, 5, 0, 1]]);
    let error = connect_async(address, destination()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn datagrams_carry_their_destination_and_strangers_are_told_apart() {
    let relay = UdpSocket::bind(any()).unwrap();
    let port = relay.local_addr().unwrap().port().to_be_bytes();
    // Its address left out, as some do.
    let bound = [vec![5, 0, 0, 1, 0, 0, 0, 0], port.to_vec()].concat();
    let (address, served) = proxy(vec![3, 10], vec![vec![5, 0], bound]);
    let mut way = Association::open(address, destination(), LONG).unwrap();
    let (heard, _control) = served.join().unwrap();
    assert_eq!(
        heard[1][..8],
        [5, 3, 0, 1, 127, 0, 0, 1],
        "where we send from"
    );

    for body in [&b"first, the longer"[..], b"second"] {
        way.send(body).unwrap();
        let mut message = [0; 64];
        let (len, from) = relay.recv_from(&mut message).unwrap();
        assert_eq!(from.port().to_be_bytes(), heard[1][8..]);
        let header = [0, 0, 0, 1, 192, 0, 2, 7, 1, 187];
        assert_eq!(message[..len], [&header[..], body].concat());
        relay.send_to(&message[..len], from).unwrap();
        assert_eq!(heard_of(&mut way), Some(body.to_vec()));
        // Another source, and a fragment.
        for (at, byte) in [(9, 188), (2, 1)] {
            let mut strange = message;
            strange[at] = byte;
            relay.send_to(&strange[..len], from).unwrap();
            assert_eq!(heard_of(&mut way), None);
        }
        relay.send_to(&message[..9], from).unwrap();
        assert_eq!(heard_of(&mut way), None, "shorter than a header");
    }
}

fn heard_of(way: &mut Association) -> Option<Vec<u8>> {
    crate::stop::wait_readable(&[way.fd()], Some(LONG)).unwrap();
    way.receive().unwrap().map(<[u8]>::to_vec)
}
