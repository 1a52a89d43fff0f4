//! Servers in the world outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use sha2::{Digest, Sha256};
use socket2::{Domain, Socket, Type};

/// A server that handles each of `count` connections on a thread of its own.
pub(crate) fn serve<T: Send + 'static>(
    address: &str,
    count: usize,
    handle: impl Fn(TcpStream) -> T + Send + Clone + 'static,
) -> (SocketAddr, JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind(address).unwrap();
    let at = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let (stream, _) = listener.accept().unwrap();
                let handle = handle.clone();
                std::thread::spawn(move || handle(stream))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    (at, server)
}

/// Says everything back, and ends when the other does.
pub(crate) fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => stream.write_all(&buffer[..read]).unwrap(),
        }
    }
}

/// A listener that answers no SYN: its queue is full. Connections to it hang until `Silent` is dropped.
pub(crate) struct Silent {
    pub(crate) at: SocketAddr,
    _listener: Socket,
    _filling: Vec<Socket>,
}

pub(crate) fn silent() -> Silent {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let at = listener.local_addr().unwrap();
    let filling = (0..4)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&at);
            socket
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(50));
    Silent {
        at: at.as_socket().unwrap(),
        _listener: listener,
        _filling: filling,
    }
}

/// `count` bytes that do not repeat soon.
pub(crate) fn pattern(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

pub(crate) fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
