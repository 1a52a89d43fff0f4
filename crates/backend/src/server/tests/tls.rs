//! A server over TLS, and who is let through it. The certificate is that of `quell-net`'s tests, for `localhost`.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use super::*;
use crate::ask::AskError;
use crate::config::TlsFiles;

const CERTIFICATE: &[u8] =
    include_bytes!("../../../../net/src/backend/ask/fixture/localhost.crt.der");
const KEY: &[u8] = include_bytes!("../../../../net/src/backend/ask/fixture/localhost.key.der");

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
}

fn files(folder: &TempDir) -> TlsFiles {
    let files = TlsFiles {
        cert_file: folder.path().join("tls.crt"),
        key_file: folder.path().join("tls.key"),
    };
    std::fs::write(&files.cert_file, pem("CERTIFICATE", CERTIFICATE)).unwrap();
    std::fs::write(&files.key_file, pem("PRIVATE KEY", KEY)).unwrap();
    set_mode(&files, 0o600);
    files
}

fn set_mode(files: &TlsFiles, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&files.key_file, permissions).unwrap();
}

fn trusting() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

async fn over_tls(limits: LimitsConfig) -> (Running, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let tls = Some(files(&folder));
    let server = Running::of(ServerConfig {
        tls,
        ..config(limits)
    });
    (server.await, folder)
}

fn client(server: &Running, config: ClientConfig) -> HttpBackend {
    let base = format!("https://localhost:{}", server.address.port());
    let secret = SecretKey::from_bytes([3; 32]);
    HttpBackend::with_tls(base.parse().unwrap(), secret, TIMEOUT, config)
}

#[tokio::test]
async fn who_trusts_it_is_served_and_who_does_not_goes() {
    let (server, _folder) = over_tls(limits()).await;
    let good = client(&server, trusting());
    let request = EnrolRequest {
        invitation: server.invitation(Role::Client).await,
        name: "somebody".to_owned(),
        addresses: Vec::new(),
    };
    good.enrol(&request).await.unwrap();
    good.catalog(None, 5 * S).await.unwrap().unwrap();
    let empty = ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_root_certificates(RootCertStore::empty())
    .with_no_client_auth();
    let error = client(&server, empty).catalog(None, S).await.unwrap_err();
    assert!(matches!(error, AskError::Unreachable(_)), "{error:?}");
    // Nor is its name another's.
    let base = format!("https://127.0.0.1:{}", server.address.port());
    let secret = SecretKey::from_bytes([3; 32]);
    let config = trusting();
    let elsewhere = HttpBackend::with_tls(base.parse().unwrap(), secret, TIMEOUT, config);
    elsewhere.catalog(None, S).await.unwrap_err();
    server.stopped().await;
}

#[tokio::test]
async fn plain_words_and_silence_are_no_handshake() {
    let (server, _folder) = over_tls(LimitsConfig {
        header_timeout: S,
        ..limits()
    })
    .await;
    let answer = server
        .raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    let begun = Instant::now();
    assert_eq!(server.raw(b"").await, "");
    assert!((S..3 * S).contains(&begun.elapsed()));
    assert_eq!(server.app.counters.counted().connections_refused_tls, 2);
    server.stopped().await;
}

#[tokio::test]
async fn files_that_are_none_are_refused_before_anybody_is_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let good = files(&folder);
    let none = folder.path().join("none");
    let start = async |tls: TlsFiles| {
        let config = ServerConfig {
            tls: Some(tls),
            store: StoreConfig::Redb(folder.path().join("backend.redb")),
            ..config(limits())
        };
        Server::start(config)
            .await
            .err()
            .map(|error| error.to_string())
    };
    let missing = TlsFiles {
        cert_file: none.clone(),
        ..good.clone()
    };
    assert!(start(missing).await.unwrap().contains("none"));
    let swapped = TlsFiles {
        cert_file: good.key_file.clone(),
        key_file: good.cert_file.clone(),
    };
    assert!(start(swapped).await.is_some());
    // A key that others may read is none any longer.
    set_mode(&good, 0o640);
    assert!(start(good.clone()).await.unwrap().contains("0640"));
    set_mode(&good, 0o600);
    assert_eq!(start(good).await, None);
}
