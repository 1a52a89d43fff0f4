//! TCP flows that work.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use quell_egress::userspace::Event;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;

use crate::client::Client;

/// A server that handles each of `count` connections on a thread of its own.
fn serve<T: Send + 'static>(
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

fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return,
            read => stream.write_all(&buffer[..read]).unwrap(),
        }
    }
}

fn echo_over(address: &str) {
    let (server, thread) = serve(address, 1, echo);
    let mut client = Client::new();
    let flow = client.connect(server, 65_536);
    client.until("the handshake", |client| client.tcp(flow).may_send());
    assert_eq!(client.status().tcp_flows, 1);
    client.tcp(flow).send_slice(b"hello").unwrap();
    client.until("the echo", |client| client.tcp(flow).recv_queue() == 5);
    let mut heard = [0; 5];
    client.tcp(flow).recv_slice(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    client.tcp(flow).close();
    client.until("the end", |client| is_over(client, flow));
    thread.join().unwrap();
    client.until_quiet();
    let status = client.status();
    assert_eq!(status.count(Event::TcpEstablished), 1);
    assert_eq!(status.count(Event::TcpClosed), 1);
    assert_eq!(client.resets, 0);
}

fn is_over(client: &mut Client, flow: SocketHandle) -> bool {
    matches!(client.tcp(flow).state(), State::TimeWait | State::Closed)
}

#[test]
fn what_a_client_says_comes_back() {
    echo_over("127.0.0.1:0");
}

#[test]
fn and_over_ipv6() {
    echo_over("[::1]:0");
}
