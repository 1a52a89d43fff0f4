//! TCP flows that work.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use quell_egress::userspace::Event;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;

use crate::alone::{alone, egress_seconds, figure};
use crate::client::Client;
use crate::server::{echo, hash, pattern, serve};

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

pub(crate) fn is_over(client: &mut Client, flow: SocketHandle) -> bool {
    matches!(client.tcp(flow).state(), State::TimeWait | State::Closed)
}

/// Reads what there is.
pub(crate) fn read_some(client: &mut Client, flow: SocketHandle, into: &mut Vec<u8>) {
    let socket = client.tcp(flow);
    while socket.can_recv() {
        socket
            .recv(|data| {
                into.extend_from_slice(data);
                (data.len(), ())
            })
            .unwrap();
    }
}

#[test]
fn what_a_client_says_comes_back() {
    echo_over("127.0.0.1:0");
}

#[test]
fn and_over_ipv6() {
    echo_over("[::1]:0");
}

const BULK_BYTES: usize = 20 << 20;

/// What a gigabyte costs: alone, so that nobody else's time is counted, and long enough for a clock of 10 ms.
#[test]
fn a_download_costs_what_it_costs() {
    alone("tcp::a_download_costs_what_it_costs", 256, || {
        const BYTES: usize = 400 << 20;
        let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
            let chunk = vec![7; 1 << 18];
            for _ in 0..BYTES / chunk.len() {
                stream.write_all(&chunk).unwrap();
            }
        });
        let mut client = Client::new();
        let start = Instant::now();
        let flow = client.connect(server, 1 << 20);
        let mut heard = 0;
        client.until("the download", |client| {
            let socket = client.tcp(flow);
            while socket.can_recv() {
                heard += socket.recv(|data| (data.len(), data.len())).unwrap();
            }
            heard == BYTES
        });
        let (seconds, cost) = (start.elapsed().as_secs_f64(), egress_seconds());
        let (rate, each) = (
            BYTES as f64 * 8.0 / seconds / 1e6,
            cost * 1e9 / BYTES as f64,
        );
        figure(&format!(
            "{rate:.0} Mbit/s for one TCP, {each:.2} s of processor time a GB"
        ));
        client.tcp(flow).close();
        thread.join().unwrap();
        client.until_quiet();
    });
}

#[test]
fn a_download_arrives_whole() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.write_all(&pattern(BULK_BYTES)).unwrap();
    });
    let mut client = Client::new();
    let flow = client.connect(server, 1 << 20);
    let mut heard = Vec::new();
    client.until("the download", |client| {
        read_some(client, flow, &mut heard);
        !client.tcp(flow).may_recv() && client.tcp(flow).state() != State::SynSent
    });
    assert_eq!(heard.len(), BULK_BYTES);
    assert!(hash(&heard) == hash(&pattern(BULK_BYTES)));
    client.tcp(flow).close();
    thread.join().unwrap();
    client.until_quiet();
    assert_eq!(client.status().count(Event::TcpClosed), 1);
    // The books of 20 MiB of acknowledgements: `until_quiet` has compared them.
    assert!(client.status().offered > 100);
}

#[test]
fn an_upload_arrives_whole() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        hash(&heard)
    });
    let mut client = Client::new();
    let bytes = pattern(BULK_BYTES);
    let flow = client.connect(server, 1 << 20);
    let mut said = 0;
    client.until("the upload", |client| {
        let socket = client.tcp(flow);
        if socket.can_send() {
            said += socket.send_slice(&bytes[said..]).unwrap();
        }
        said == bytes.len()
    });
    client.tcp(flow).close();
    client.until("the end", |client| is_over(client, flow));
    assert!(thread.join().unwrap() == [hash(&bytes)]);
    client.until_quiet();
}

#[test]
fn two_hundred_flows_at_once_keep_apart() {
    const FLOWS: usize = 200;
    const BYTES: usize = 20_000;
    let (server, thread) = serve("127.0.0.1:0", FLOWS, echo);
    let mut client = Client::new();
    let mut flows: Vec<_> = (0..FLOWS)
        .map(|number| {
            let bytes: Vec<u8> = pattern(BYTES)
                .iter()
                .map(|byte| byte ^ number as u8)
                .collect();
            (client.connect(server, 4_096), bytes, 0, Vec::new())
        })
        .collect();
    client.until("all echoes", |client| {
        for (flow, bytes, said, heard) in &mut flows {
            let socket = client.tcp(*flow);
            if socket.can_send() && *said < BYTES {
                *said += socket.send_slice(&bytes[*said..]).unwrap();
                if *said == BYTES {
                    socket.close();
                }
            }
            read_some(client, *flow, heard);
        }
        flows.iter().all(|(.., heard)| heard.len() >= BYTES)
    });
    for (_, bytes, _, heard) in &flows {
        assert!(bytes == heard);
    }
    thread.join().unwrap();
    client.until_quiet();
    let status = client.status();
    assert_eq!(status.count(Event::TcpClosed), FLOWS as u64);
    assert_eq!(client.resets, 0);
}

#[test]
fn a_client_that_has_ended_still_hears() {
    const ANSWER: usize = 1 << 20;
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        stream.write_all(&pattern(ANSWER)).unwrap();
        question
    });
    let mut client = Client::new();
    let flow = client.connect(server, 65_536);
    client.until("the handshake", |client| client.tcp(flow).may_send());
    client.tcp(flow).send_slice(b"question").unwrap();
    client.tcp(flow).close();
    let mut heard = Vec::new();
    client.until("the answer", |client| {
        read_some(client, flow, &mut heard);
        is_over(client, flow)
    });
    assert!(heard == pattern(ANSWER));
    assert_eq!(thread.join().unwrap(), [b"question"]);
    client.until_quiet();
    assert_eq!(client.status().count(Event::TcpClosed), 1);
}

#[test]
fn a_server_that_has_ended_still_hears() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.write_all(b"greeting").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        heard.len()
    });
    let mut client = Client::new();
    let flow = client.connect(server, 65_536);
    let mut heard = Vec::new();
    client.until("the server's end", |client| {
        read_some(client, flow, &mut heard);
        client.tcp(flow).state() == State::CloseWait
    });
    assert_eq!(heard, b"greeting");
    client.for_a_while(Duration::from_millis(100));
    let bytes = pattern(100_000);
    let mut said = 0;
    client.until("the upload", |client| {
        if client.tcp(flow).can_send() {
            said += client.tcp(flow).send_slice(&bytes[said..]).unwrap();
        }
        said == bytes.len()
    });
    client.tcp(flow).close();
    client.until("the end", |client| is_over(client, flow));
    assert_eq!(thread.join().unwrap(), [bytes.len()]);
    client.until_quiet();
    assert_eq!(client.status().count(Event::TcpClosed), 1);
}
