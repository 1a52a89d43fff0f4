//! One probe: a handshake, or a GET.
//!
//! What is no answer at all is told from an answer that is none to this question by who sent it: a QUIC close, a TLS
//! alert, a reset by a key that is not the provider's or an HTTP status all came from somebody (`Rejected`); a time
//! that ran out, or a word of the network in between, did not (`Failed`).

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use quell_core::health::probe_latch::ProbeOutcome;
use quell_net::SocketWatch;
use quell_net::endpoint;
use quell_net::identity::Identity;
use quell_net::transport::TransportSettings;
use quell_wire::key::PublicKey;
use quinn::{ConnectionError, VarInt};
use tokio::net::TcpStream;

use super::config::ProbeConfig;

/// Bytes of each of the socket's buffers: a handshake's, not a tunnel's.
const SOCKET_BUFFER_BYTES: usize = 64 * 1_024;
/// Most addresses that one name is tried at.
const RESOLVED_MAX: usize = 2;
/// Most bytes of an HTTP answer's head.
const HEAD_BYTES_MAX: usize = 16 * 1_024;
const AGENT: &str = concat!("quell-backend/", env!("CARGO_PKG_VERSION"));

/// Asks providers.
#[derive(Debug)]
pub struct Asker {
    identity: Identity,
    config: ProbeConfig,
    transport: TransportSettings,
}

impl Asker {
    /// Asks as `identity`, which no provider need know.
    #[must_use]
    pub fn new(identity: Identity, config: ProbeConfig) -> Self {
        let transport = TransportSettings {
            socket_buffer_bytes: SOCKET_BUFFER_BYTES,
            ..TransportSettings::default()
        };
        Self {
            identity,
            config,
            transport,
        }
    }

    /// Asks the provider of `key` at its addresses, `host:port` each, until one passes; what the last one that said
    /// anything said.
    pub async fn ask(&self, key: PublicKey, addresses: &[String]) -> ProbeOutcome {
        let mut told = ProbeOutcome::Failed;
        let asked = async {
            for address in addresses {
                match self.ask_at(key, address).await {
                    ProbeOutcome::Passing => return ProbeOutcome::Passing,
                    ProbeOutcome::Failed => {}
                    other @ (ProbeOutcome::Rejected | ProbeOutcome::Critical) => told = other,
                }
            }
            told
        };
        let answer = tokio::time::timeout(self.config.timeout, asked).await;
        answer.unwrap_or(ProbeOutcome::Failed)
    }

    async fn ask_at(&self, key: PublicKey, address: &str) -> ProbeOutcome {
        match &self.config.http_path {
            Some(path) => {
                let Some((host, _)) = address.rsplit_once(':') else {
                    return ProbeOutcome::Failed;
                };
                http(host, self.config.http_port, path).await
            }
            None => self.handshake(key, address).await,
        }
    }

    async fn handshake(&self, key: PublicKey, address: &str) -> ProbeOutcome {
        let Ok(resolved) = tokio::net::lookup_host(address).await else {
            return ProbeOutcome::Failed;
        };
        let mut told = ProbeOutcome::Failed;
        for remote in resolved.take(RESOLVED_MAX) {
            told = self.handshake_with(key, remote).await;
            if told == ProbeOutcome::Passing {
                break;
            }
        }
        told
    }

    async fn handshake_with(&self, key: PublicKey, remote: SocketAddr) -> ProbeOutcome {
        let watch = SocketWatch::default();
        let begun = endpoint::connect(&self.identity, remote, key, &self.transport, watch);
        let Ok((endpoint, connecting)) = begun else {
            return ProbeOutcome::Failed;
        };
        let outcome = match connecting.await {
            Ok(connection) => {
                connection.close(VarInt::from_u32(0), b"");
                ProbeOutcome::Passing
            }
            Err(error) => meaning(&error),
        };
        // The close has to leave before the socket goes, or the provider keeps a connection until it is idle.
        endpoint.wait_idle().await;
        outcome
    }
}

fn meaning(error: &ConnectionError) -> ProbeOutcome {
    match error {
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::ApplicationClosed(_)
        | ConnectionError::Reset => ProbeOutcome::Rejected,
        ConnectionError::TimedOut
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => ProbeOutcome::Failed,
    }
}

async fn http(host: &str, port: u16, path: &str) -> ProbeOutcome {
    let authority = format!("{host}:{port}");
    let Ok(stream) = TcpStream::connect(&authority).await else {
        return ProbeOutcome::Failed;
    };
    let greeted = hyper::client::conn::http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
        .await;
    let Ok((mut sender, connection)) = greeted else {
        return ProbeOutcome::Failed;
    };
    let request = Request::get(path)
        .header(HOST, authority)
        .header(USER_AGENT, AGENT)
        .header(CONNECTION, "close")
        .body(Empty::new());
    let Ok(request) = request else {
        return ProbeOutcome::Failed;
    };
    // The connection is driven beside the question, and dropped with it: who answers a head has answered, the body is
    // left unread. It may end first with the answer in hand.
    let mut driven = std::pin::pin!(connection);
    let mut asked = std::pin::pin!(sender.send_request(request));
    let answer = tokio::select! {
        biased;
        answer = asked.as_mut() => answer,
        _ended = driven.as_mut() => asked.await,
    };
    match answer {
        Ok(answer) if answer.status().is_success() => ProbeOutcome::Passing,
        Ok(_) => ProbeOutcome::Rejected,
        // Bytes came, and were no HTTP.
        Err(error) if error.is_parse() => ProbeOutcome::Rejected,
        Err(_) => ProbeOutcome::Failed,
    }
}
