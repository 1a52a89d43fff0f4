//! Real providers, real listeners, and nobody.
#![allow(clippy::unwrap_used)]

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use quell_core::health::probe_latch::ProbeOutcome;
use quell_net::SocketWatch;
use quell_net::endpoint;
use quell_net::transport::TransportSettings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

fn asker(config: ProbeConfig) -> Asker {
    Asker::new(Identity::generate().unwrap(), config)
}

fn quick() -> ProbeConfig {
    ProbeConfig {
        timeout: Duration::from_secs(2),
        ..ProbeConfig::default()
    }
}

/// A QUIC server of a provider's settings that finishes handshakes.
fn provider(identity: &Identity) -> (quinn::Endpoint, String) {
    let transport = TransportSettings::default();
    let any = "127.0.0.1:0".parse().unwrap();
    let endpoint = endpoint::listen(identity, any, &transport, SocketWatch::default()).unwrap();
    let address = endpoint.local_addr().unwrap().to_string();
    let server = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                let connection = incoming.await.unwrap();
                connection.closed().await
            });
        }
    });
    (endpoint, address)
}

#[tokio::test]
async fn a_provider_that_finishes_the_handshake_passes_and_is_left_without_a_connection() {
    let identity = Identity::generate().unwrap();
    let (endpoint, address) = provider(&identity);
    let outcome = asker(quick()).ask(identity.public_key(), &[address]).await;
    assert_eq!(outcome, ProbeOutcome::Passing);
    tokio::time::timeout(Duration::from_secs(3), endpoint.wait_idle())
        .await
        .unwrap();
}

#[tokio::test]
async fn another_key_is_an_answer_to_another_question() {
    let (_endpoint, address) = provider(&Identity::generate().unwrap());
    let expected = Identity::generate().unwrap().public_key();
    let outcome = asker(quick()).ask(expected, &[address]).await;
    assert_eq!(outcome, ProbeOutcome::Rejected);
}

#[tokio::test]
async fn nobody_does_not_answer_and_the_next_address_is_asked() {
    let identity = Identity::generate().unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nowhere = silent.local_addr().unwrap().to_string();
    let config = ProbeConfig {
        timeout: Duration::from_millis(300),
        ..ProbeConfig::default()
    };
    let outcome = asker(config).ask(identity.public_key(), &[nowhere]).await;
    assert_eq!(outcome, ProbeOutcome::Failed);
    let (_endpoint, address) = provider(&identity);
    let addresses = ["no such host:1".to_owned(), address];
    let outcome = asker(quick()).ask(identity.public_key(), &addresses).await;
    assert_eq!(outcome, ProbeOutcome::Passing);
}

/// Answers each connection with these bytes; its port.
async fn serve(bytes: &'static [u8]) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1_024];
            let read = stream.read(&mut head).await.unwrap();
            assert!(head[..read].starts_with(b"GET /health HTTP/1.1\r\n"));
            stream.write_all(bytes).await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn over_http_a_status_of_success_passes_and_any_other_answer_does_not_latch() {
    //
    let key = Identity::generate().unwrap().public_key();
    let of = async |http_port| {
        let config = ProbeConfig {
            http_path: Some("/health".to_owned()),
            http_port,
            ..quick()
        };
        asker(config).ask(key, &["127.0.0.1:6610".to_owned()]).await
    };
    let cases: [(&[u8], ProbeOutcome); 6] = [
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            ProbeOutcome::Passing,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", ProbeOutcome::Passing),
        (
            b"HTTP/1.1 301 Moved\r\nlocation: /\r\n\r\n",
            ProbeOutcome::Rejected,
        ),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", ProbeOutcome::Rejected),
        (b"HTTP/1.1 503 No\r\n\r\n", ProbeOutcome::Rejected),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", ProbeOutcome::Rejected),
    ];
    for (bytes, outcome) in cases {
        assert_eq!(of(serve(bytes).await).await, outcome);
    }
    assert_eq!(of(serve(b"").await).await, ProbeOutcome::Failed);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    assert_eq!(of(port).await, ProbeOutcome::Failed);
}
