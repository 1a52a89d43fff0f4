//! Server and client against each other over loopback, and each against a badly behaved peer.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{LabError, content};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// What the server answers to raw bytes.
fn exchange(server: &Server, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A peer that sends `text` to whoever connects, then keeps the connection open for `hold`.
fn peer(text: &'static [u8], hold: Duration) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let work = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(text);
        thread::sleep(hold);
    };
    (address, thread::spawn(work))
}

/// Waits until the connection's thread has made its entry.
fn settled(server: &Server, ended: u64) -> ServerStats {
    let began = Instant::now();
    loop {
        let stats = server.stats();
        if stats.answered + stats.failed >= ended || began.elapsed() > LONG {
            return stats;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn downloads_and_uploads_carry_the_content() {
    let server = Server::start(any()).unwrap();
    for n in [0, 1, 65_536, 3_000_001] {
        let download = download(server.address(), n, LONG).unwrap();
        assert_eq!((download.bytes, &download.sha256), (n, &content::sha256(n)));
        let upload = upload(server.address(), n, LONG).unwrap();
        assert_eq!((upload.bytes, &upload.sha256), (n, &content::sha256(n)));
        assert!(download.longest_gap <= download.elapsed && upload.longest_gap <= upload.elapsed);
    }
    let stats = settled(&server, 8);
    assert_eq!(
        stats,
        ServerStats {
            connections: 8,
            answered: 8,
            ..ServerStats::default()
        }
    );
}

#[test]
fn more_than_128_downloads_run_at_once() {
    let server = Server::start(any()).unwrap();
    let expected = content::sha256(100_000);
    thread::scope(|scope| {
        for _ in 0..150 {
            scope.spawn(|| {
                assert_eq!(
                    download(server.address(), 100_000, LONG).unwrap().sha256,
                    expected
                )
            });
        }
    });
    assert_eq!(settled(&server, 150).answered, 150);
}

#[test]
fn a_connection_beyond_the_bound_is_refused_and_counted() {
    let config = ServerConfig {
        connections_max: 2,
        ..ServerConfig::default()
    };
    let server = Server::with_config(any(), config).unwrap();
    let held: Vec<_> = (0..2)
        .map(|_| TcpStream::connect(server.address()).unwrap())
        .collect();
    let mut third = TcpStream::connect(server.address()).unwrap();
    let mut answer = String::new();
    third.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!((server.stats().connections, server.stats().refused), (2, 1));
    drop(held);
    settled(&server, 2);
    assert!(
        download(server.address(), 10, LONG).is_ok(),
        "there is room again"
    );
}

#[test]
fn answers_have_the_right_status() {
    let server = Server::start(any()).unwrap();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "200"),
        ("GET /nothing HTTP/1.1\r\n\r\n", "404"),
        ("GET /bytes/-1 HTTP/1.1\r\n\r\n", "404"),
        ("GET /bytes/99999999999999999999 HTTP/1.1\r\n\r\n", "404"),
        ("DELETE / HTTP/1.1\r\n\r\n", "405"),
        ("PUT /upload HTTP/1.1\r\n\r\n", "411"),
        (
            "PUT /upload HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "411",
        ),
        ("PUT /upload HTTP/1.1\r\ncontent-length: x\r\n\r\n", "400"),
        ("\r\n\r\n", "405"),
    ] {
        let answer = exchange(&server, request.as_bytes());
        assert_eq!(
            answer.split(' ').nth(1),
            Some(status),
            "{request:?}: {answer}"
        );
    }
    let answer = exchange(
        &server,
        b"POST /upload HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 0\r\n\r\n",
    );
    assert!(
        answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with(&format!("{} 0\n", content::sha256(0))));
    assert_eq!(settled(&server, 10).failed, 8);
}

#[test]
fn a_body_cut_short_and_an_idle_peer_are_failures() {
    let config = ServerConfig {
        idle_timeout: Duration::from_millis(50),
        ..ServerConfig::default()
    };
    let server = Server::with_config(any(), config).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .write_all(b"PUT /upload HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf")
        .unwrap();
    // Half closed: the peer would hear an answer, and there must be none.
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "");
    assert_eq!(settled(&server, 1).failed, 1);
    let idle = TcpStream::connect(server.address()).unwrap();
    assert_eq!(settled(&server, 2).failed, 2);
    drop(idle);
}

#[test]
fn dropping_the_server_ends_what_is_under_way() {
    let server = Server::start(any()).unwrap();
    let address = server.address();
    // Nobody reads: the server's thread is stuck in a write.
    let mut stalled = TcpStream::connect(address).unwrap();
    stalled
        .write_all(b"GET /bytes/1000000000 HTTP/1.1\r\n\r\n")
        .unwrap();
    let idle = TcpStream::connect(address).unwrap();
    thread::sleep(Duration::from_millis(50));
    let began = Instant::now();
    drop(server);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    drop((stalled, idle));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn the_longest_gap_is_the_stall_and_not_the_mean() {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let pause = Duration::from_millis(300);
    let work = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234")
            .unwrap();
        thread::sleep(pause);
        stream.write_all(b"56789").unwrap();
        thread::sleep(pause / 4);
    };
    let server = thread::spawn(work);
    let download = download(address, 10, LONG).unwrap();
    server.join().unwrap();
    assert!(
        download.longest_gap >= pause - Duration::from_millis(5),
        "{download:?}"
    );
    assert!(download.longest_gap < pause * 3, "{download:?}");
    assert!(download.elapsed >= download.longest_gap);
}

#[test]
fn a_deadline_ends_a_transfer_that_hangs() {
    let (silent, server) = peer(b"", Duration::from_millis(300));
    let error = download(silent, 10, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, LabError::TimedOut { .. }), "{error}");
    server.join().unwrap();

    let (half, server) = peer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        Duration::from_millis(300),
    );
    let error = download(half, 10, Duration::from_millis(100)).unwrap_err();
    assert!(
        matches!(
            error,
            LabError::Incomplete {
                received: 4,
                wanted: 10,
                ..
            }
        ),
        "{error}"
    );
    server.join().unwrap();

    // A listener that nobody accepts from takes what its buffers hold and no more.
    let deaf = TcpListener::bind(any()).unwrap();
    let error = upload(
        deaf.local_addr().unwrap(),
        100_000_000,
        Duration::from_millis(100),
    )
    .unwrap_err();
    assert!(
        matches!(
            error,
            LabError::Incomplete {
                wanted: 100_000_000,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn wrong_answers_are_errors() {
    for text in [
        &b"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\n0123456789"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n012345678",
        b"HTTP/1.1 200 OK\r\n\r\n0123456789",
    ] {
        let (address, server) = peer(text, Duration::ZERO);
        assert!(matches!(
            download(address, 10, LONG),
            Err(LabError::Protocol { .. })
        ));
        server.join().unwrap();
    }
    let (address, server) = peer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n0 10",
        Duration::ZERO,
    );
    assert!(matches!(
        upload(address, 10, LONG),
        Err(LabError::Protocol { .. })
    ));
    server.join().unwrap();
    let (address, server) = peer(b"", Duration::ZERO);
    assert!(download(address, 10, LONG).is_err());
    server.join().unwrap();
    let closed = TcpListener::bind(any()).unwrap().local_addr().unwrap();
    assert!(matches!(
        download(closed, 10, LONG),
        Err(LabError::Io { .. })
    ));
}
