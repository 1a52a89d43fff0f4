//! Connections of the engines' QUIC over loopback: how they begin and end, and what holds between.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use quell_underlay::Underlay;
use quell_wire::key::PublicKey;
use quinn_proto::{ConnectionError, SendDatagramError, VarInt};
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use super::{Connection, Endpoint, Over, connect, listen};
use crate::identity::Identity;
use crate::socket::SocketWatch;
use crate::tls::peer_key;
use crate::transport::TransportSettings;

const PATIENCE: Duration = Duration::from_secs(10);

struct Pair {
    client: Connection,
    server: Connection,
    dialler: Endpoint,
    listener: Endpoint,
    key: PublicKey,
    client_watch: SocketWatch,
}

fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let body = async { timeout(Duration::from_secs(60), body).await.unwrap() };
    LocalSet::new().block_on(&runtime, body);
}

async fn pair() -> Pair {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let transport = TransportSettings::default();
    let listener = listen(&server, any(), &transport, SocketWatch::default()).unwrap();
    let remote = listener.local_addr().unwrap();
    let client_watch = SocketWatch::default();
    let (dialler, dialled) = connect(
        &client,
        remote,
        server.public_key(),
        &transport,
        client_watch.clone(),
        &Underlay::default(),
    )
    .unwrap();
    let accepted = listener.accept().await.unwrap().accept().unwrap();
    dialled.connected().await.unwrap();
    accepted.connected().await.unwrap();
    assert_eq!(peer_key(&accepted), Some(client.public_key()));
    assert_eq!(peer_key(&dialled), Some(server.public_key()));
    Pair {
        client: dialled,
        server: accepted,
        dialler,
        listener,
        key: server.public_key(),
        client_watch,
    }
}

async fn received(connection: &Connection, count: usize) -> Vec<Bytes> {
    let mut all = Vec::new();
    let more = async {
        while all.len() < count {
            let batch = &mut all;
            std::future::poll_fn(|cx| connection.poll_datagrams(cx, batch, 16))
                .await
                .unwrap();
        }
    };
    timeout(PATIENCE, more).await.unwrap();
    all
}

async fn ended(connection: &Connection) -> ConnectionError {
    let end = async {
        while !connection.is_over() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, end).await.unwrap();
    connection.close_reason().unwrap()
}

#[test]
fn what_is_flushed_leaves_in_the_same_turn_and_in_one_batch() {
    run(async {
        let pair = pair().await;
        // Discovery of the path's size ends first.
        sleep(Duration::from_millis(300)).await;
        let before = pair.client_watch.counters();
        for n in 0..8 {
            pair.client
                .send_datagram(Bytes::from(vec![n; 1_000]))
                .unwrap();
        }
        assert_eq!(
            pair.client_watch.counters(),
            before,
            "it waits for the flush"
        );
        pair.client.flush();
        let sent = pair.client_watch.counters().datagrams_out - before.datagrams_out;
        assert_eq!(sent, 8, "no task had a turn");
        let all = received(&pair.server, 8).await;
        for (n, datagram) in (0..8).zip(all) {
            assert_eq!(datagram, vec![n; 1_000]);
        }
    });
}

#[test]
fn a_queue_that_is_full_lets_go_of_its_oldest() {
    run(async {
        let pair = pair().await;
        let many = 2 * pair.client.datagram_send_buffer_space() / 1_000;
        for n in 0..many {
            let mut datagram = vec![0; 1_000];
            datagram[..8].copy_from_slice(&n.to_be_bytes());
            pair.client.send_datagram(Bytes::from(datagram)).unwrap();
        }
        pair.client.flush();
        let number = |datagram: &Bytes| usize::from_be_bytes(datagram[..8].try_into().unwrap());
        let mut all = received(&pair.server, 1).await;
        while all.last().map(number) != Some(many - 1) {
            all.extend(received(&pair.server, 1).await);
        }
        let first = number(&all[0]);
        assert!(first > many / 3, "{first} of {many}: the older are gone");
        assert_eq!(all.len(), many - first, "the younger came");
    });
}

#[test]
fn a_datagram_too_large_is_refused_and_the_next_goes() {
    run(async {
        let pair = pair().await;
        let most = pair.client.max_datagram_size().unwrap();
        let too_large = pair.client.send_datagram(Bytes::from(vec![0; most + 1]));
        assert_eq!(too_large, Err(SendDatagramError::TooLarge));
        pair.client
            .send_datagram(Bytes::from(vec![0; most]))
            .unwrap();
        pair.client.flush();
        assert_eq!(received(&pair.server, 1).await[0].len(), most);
    });
}

#[test]
fn a_stream_carries_more_than_its_window_and_ends_when_its_writer_goes() {
    run(async {
        const LEN: usize = 700_000;
        let pair = pair().await;
        let (mut send, _recv) = pair.client.open_bi().await.unwrap();
        let server = pair.server.clone();
        let reading = tokio::task::spawn_local(async move {
            let (_send, mut recv) = server.accept_bi().await.unwrap();
            let mut all = Vec::new();
            while let Some(chunk) = recv.read_chunk(16 * 1024).await.unwrap() {
                assert!(chunk.len() <= 16 * 1024);
                all.extend_from_slice(&chunk);
            }
            all
        });
        let content: Vec<u8> = (0..LEN).map(|n| n as u8).collect();
        send.write_chunk(Bytes::from(content.clone()))
            .await
            .unwrap();
        drop(send);
        assert!(timeout(PATIENCE, reading).await.unwrap().unwrap() == content);
    });
}

#[test]
fn a_close_is_heard_with_its_code_and_words_and_wakes_whoever_waits() {
    run(async {
        let pair = pair().await;
        let (mut send, mut recv) = pair.client.open_bi().await.unwrap();
        send.write_chunk(Bytes::from_static(b"x")).await.unwrap();
        let reading = tokio::task::spawn_local(async move { recv.read_chunk(1).await });
        let client = pair.client.clone();
        let waiting = tokio::task::spawn_local(async move {
            let mut none = Vec::new();
            std::future::poll_fn(|cx| client.poll_datagrams(cx, &mut none, 1)).await
        });
        sleep(Duration::from_millis(20)).await;
        pair.server.close(VarInt::from_u32(7), b"so it is");
        let ConnectionError::ApplicationClosed(close) = ended(&pair.client).await else {
            panic!("{:?}", pair.client.close_reason());
        };
        assert_eq!(
            (close.error_code, &close.reason[..]),
            (VarInt::from_u32(7), &b"so it is"[..])
        );
        assert_eq!(
            timeout(PATIENCE, reading).await.unwrap().unwrap(),
            Err(Over)
        );
        assert!(timeout(PATIENCE, waiting).await.unwrap().unwrap().is_err());
        assert_eq!(send.write_chunk(Bytes::from_static(b"y")).await, Err(Over));
        assert_eq!(
            pair.server.close_reason(),
            Some(ConnectionError::LocallyClosed)
        );
    });
}

#[test]
fn a_connection_nobody_holds_is_closed_and_its_endpoint_becomes_idle() {
    run(async {
        let pair = pair().await;
        drop(pair.client);
        assert!(matches!(
            ended(&pair.server).await,
            ConnectionError::ApplicationClosed(_)
        ));
        timeout(PATIENCE, pair.dialler.wait_idle()).await.unwrap();
        timeout(PATIENCE, pair.listener.wait_idle()).await.unwrap();
    });
}

#[test]
fn the_socket_goes_with_the_last_of_handle_and_connections() {
    run(async {
        let Pair {
            client,
            server,
            dialler,
            listener,
            ..
        } = pair().await;
        let address = listener.local_addr().unwrap();
        let is_free = || std::net::UdpSocket::bind(address).is_ok();
        drop(listener);
        sleep(Duration::from_millis(50)).await;
        assert!(!is_free(), "a connection still uses it");
        client.send_datagram(Bytes::from_static(b"still")).unwrap();
        client.flush();
        assert_eq!(received(&server, 1).await[0], b"still"[..]);
        drop((client, server, dialler));
        let freed = async {
            while !is_free() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, freed).await.unwrap();
    });
}

#[test]
fn the_socket_goes_with_the_threads_tasks() {
    let address = std::cell::Cell::new(None);
    run(async {
        let pair = pair().await;
        address.set(Some(pair.listener.local_addr().unwrap()));
        // Handles that are never dropped in order.
        std::mem::forget((pair.client, pair.dialler));
    });
    std::net::UdpSocket::bind(address.get().unwrap()).unwrap();
}

#[test]
fn an_endpoint_that_takes_no_more_keeps_what_it_has() {
    run(async {
        let pair = pair().await;
        pair.listener.refuse_new();
        let remote = pair.listener.local_addr().unwrap();
        let known = Identity::generate().unwrap();
        let transport = TransportSettings::default();
        let watch = SocketWatch::default();
        let (_dialler, dialled) = connect(
            &known,
            remote,
            pair.key,
            &transport,
            watch,
            &Underlay::default(),
        )
        .unwrap();
        let patience = Duration::from_millis(200);
        let answer = timeout(patience, dialled.connected()).await;
        assert!(answer.is_err(), "none is expected");
        pair.client
            .send_datagram(Bytes::from_static(b"still"))
            .unwrap();
        pair.client.flush();
        assert_eq!(received(&pair.server, 1).await[0], b"still"[..]);
        pair.listener.close();
        assert!(matches!(
            ended(&pair.client).await,
            ConnectionError::ApplicationClosed(_)
        ));
        assert!(
            timeout(PATIENCE, pair.listener.accept())
                .await
                .unwrap()
                .is_none()
        );
    });
}

#[test]
fn a_first_packet_may_be_asked_for_proof_refused_or_ignored() {
    run(async {
        let server = Identity::generate().unwrap();
        let client = Identity::generate().unwrap();
        let transport = TransportSettings::default();
        let listener = listen(&server, any(), &transport, SocketWatch::default()).unwrap();
        let remote = listener.local_addr().unwrap();
        let dial = || {
            connect(
                &client,
                remote,
                server.public_key(),
                &transport,
                SocketWatch::default(),
                &Underlay::default(),
            )
            .unwrap()
        };

        let (_dialler, dialled) = dial();
        let first = listener.accept().await.unwrap();
        assert!(!first.remote_address_validated());
        first.retry();
        let again = listener.accept().await.unwrap();
        assert!(again.remote_address_validated());
        let _accepted = again.accept().unwrap();
        dialled.connected().await.unwrap();

        let (_dialler, dialled) = dial();
        listener.accept().await.unwrap().refuse();
        assert!(matches!(
            dialled.connected().await,
            Err(ConnectionError::ConnectionClosed(_))
        ));

        let (_dialler, dialled) = dial();
        drop(listener.accept().await.unwrap());
        assert!(
            timeout(Duration::from_millis(200), dialled.connected())
                .await
                .is_err(),
            "no answer"
        );
        assert_eq!(
            listener.accept().await.unwrap().remote_address().ip(),
            Ipv4Addr::LOCALHOST
        );
    });
}

#[test]
fn idle_connections_end_in_their_time() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let pair = pair().await;
        // Everything that QUIC does by itself at first.
        sleep(Duration::from_millis(500)).await;
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        let error = loop {
            sleep(Duration::from_millis(100)).await;
            if let Some(error) = pair.client.close_reason() {
                break error;
            }
            assert!(begun.elapsed() < Duration::from_secs(80), "it never ends");
        };
        assert_eq!(error, ConnectionError::TimedOut);
        assert!(
            begun.elapsed() > Duration::from_secs(70),
            "{:?}",
            begun.elapsed()
        );
    });
}
