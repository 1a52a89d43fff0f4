//! A real server on loopback, asked by the real client and by hand.
#![allow(clippy::unwrap_used)]

mod attacks;
mod clients;
mod flood;
mod operator;
mod requests;
mod stop;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quell_core::contract::seal;
use quell_wire::key::SecretKey;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::api::{EnrolRequest, HeartbeatRequest, Role};
use crate::ask::Backend as _;
use crate::catalog::CatalogConfig;
use crate::http::HttpBackend;
use crate::probe::ProbeConfig;
use crate::service::admin::InvitationPlan;
use crate::service::{InvitationText, ServiceConfig, SigningKeys};
use crate::wall_s;

const TOKEN: &str = "an-operators-token-of-some-length";
const TIMEOUT: Duration = Duration::from_secs(5);
const S: Duration = Duration::from_secs(1);

/// A server that runs, and its store's file.
struct Running {
    address: SocketAddr,
    app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    folder: TempDir,
}

fn limits() -> LimitsConfig {
    LimitsConfig {
        ramp: Duration::ZERO,
        source_requests_per_s: 100_000,
        source_request_burst: 1_000_000,
        account_requests_per_s: 10_000,
        account_request_burst: 100_000,
        shutdown_timeout: 3 * S,
        ..LimitsConfig::default()
    }
}

fn catalog() -> CatalogConfig {
    CatalogConfig {
        min_interval: Duration::from_millis(100),
        refresh_interval: S,
        ..CatalogConfig::default()
    }
}

fn config(limits: LimitsConfig) -> ServerConfig {
    ServerConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        store: StoreConfig::Redb("unused".into()),
        keys: SigningKeys::try_new(SecretKey::from_bytes([1; 32]), None, Vec::new()).unwrap(),
        admin_token: Some(AdminToken::new(TOKEN)),
        service: ServiceConfig::default(),
        catalog: catalog(),
        probe: ProbeConfig {
            timeout: Duration::from_millis(300),
            ..ProbeConfig::default()
        },
        limits: limits.try_new().unwrap(),
        tls: None,
        metrics: None,
    }
}

impl Running {
    async fn new(limits: LimitsConfig) -> Self {
        Self::of(config(limits)).await
    }

    async fn of(mut config: ServerConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        config.store = StoreConfig::Redb(folder.path().join("backend.redb"));
        let server = Server::start(config).await.unwrap();
        let (address, app) = (server.local_addr(), Arc::clone(&server.app));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.serve(async { _ = stopped.await }));
        Self {
            address,
            app,
            stop: Some(stop),
            task,
            folder,
        }
    }

    async fn stopped(mut self) -> TempDir {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap();
        self.folder
    }

    fn client(&self, seed: u8) -> HttpBackend {
        let base = format!("http://{}", self.address).parse().unwrap();
        HttpBackend::new(base, SecretKey::from_bytes([seed; 32]), TIMEOUT).unwrap()
    }

    async fn invitation(&self, role: Role) -> String {
        let text = InvitationText::draw(&mut rand::rng());
        let plan = InvitationPlan {
            role,
            uses: 100,
            lasts_s: 60,
            quota_bytes: None,
        };
        self.app
            .service
            .invite(&text, plan, wall_s())
            .await
            .unwrap();
        text.to_text().to_string()
    }

    /// An enrolled client, or a provider that has said that it lives.
    async fn enrolled(&self, seed: u8, role: Role) -> HttpBackend {
        let client = self.client(seed);
        let addresses = match role {
            Role::Client => Vec::new(),
            Role::Provider => vec![format!("127.0.0.1:{}", 20_000 + u16::from(seed))],
        };
        let request = EnrolRequest {
            invitation: self.invitation(role).await,
            name: format!("{role:?} {seed}"),
            addresses: addresses.clone(),
        };
        client.enrol(&request).await.unwrap();
        if role == Role::Provider {
            client
                .heartbeat(&heartbeat(addresses, false))
                .await
                .unwrap();
        }
        client
    }

    /// Sends these bytes and reads what comes until the connection ends.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answer));
        // A reset after the answer is an end as well.
        _ = read.await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// One request by hand, with the operator's token where `token` is given; status and body.
    async fn by_hand(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> (u16, String) {
        let token = token.map_or(String::new(), |token| {
            format!("authorization: Bearer {token}\r\n")
        });
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{token}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = self.raw(request.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        (status.unwrap_or(0), body.to_owned())
    }
}

fn heartbeat(addresses: Vec<String>, draining: bool) -> HeartbeatRequest {
    HeartbeatRequest {
        addresses,
        sessions: 3,
        draining,
    }
}

fn key_text(seed: u8) -> String {
    seal::public_key(&SecretKey::from_bytes([seed; 32])).to_text()
}
