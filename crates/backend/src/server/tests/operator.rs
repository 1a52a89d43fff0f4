//! The operator's API, and that nothing anywhere names a client's address.

use std::io::Write;
use std::sync::Mutex;

use serde_json::Value;

use super::*;

async fn json(server: &Running, method: &str, path: &str, body: &str) -> Value {
    let (status, body) = server.by_hand(method, path, Some(TOKEN), body).await;
    assert_eq!(status, 200, "{method} {path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn without_the_token_nothing_is_done_and_nothing_is_told() {
    let server = Running::new(limits()).await;
    for (method, path, _) in super::super::routes::routes() {
        let Some(_) = path.strip_prefix("/v1/admin") else {
            continue;
        };
        let (method, path) = (method.to_uppercase(), path.replace("{key}", &key_text(3)));
        for token in [None, Some(""), Some("wrong"), Some(&TOKEN[1..])] {
            let (status, _) = server.by_hand(&method, &path, token, "").await;
            assert_eq!(status, 401, "{method} {path} {token:?}");
        }
    }
    server.stopped().await;
    let server = Running::of(ServerConfig {
        admin_token: None,
        ..config(limits())
    })
    .await;
    let answer = server
        .by_hand("GET", "/v1/admin/server", Some(TOKEN), "")
        .await;
    assert_eq!(answer.0, 404);
    server.stopped().await;
}

#[tokio::test]
async fn invites_bans_and_allowances() {
    let server = Running::new(limits()).await;
    let body = r#"{"role":"client","uses":2,"quota_bytes":5000}"#;
    let answer = json(&server, "POST", "/v1/admin/invitations", body).await;
    let client = server.client(3);
    let request = EnrolRequest {
        invitation: answer["invitation"].as_str().unwrap().to_owned(),
        name: "somebody".to_owned(),
        addresses: Vec::new(),
    };
    client.enrol(&request).await.unwrap();
    let accounts = json(&server, "GET", "/v1/admin/accounts", "").await;
    assert_eq!(accounts["accounts"][0]["public_key"], key_text(3));
    assert_eq!(accounts["accounts"][0]["quota_bytes"], 5_000);
    let path = format!("/v1/admin/accounts/{}", key_text(3));
    json(
        &server,
        "PUT",
        &format!("{path}/quota"),
        r#"{"quota_bytes":null}"#,
    )
    .await;
    json(&server, "POST", &format!("{path}/ban"), "").await;
    let accounts = json(&server, "GET", "/v1/admin/accounts", "").await;
    assert_eq!(accounts["accounts"][0]["banned"], true);
    assert_eq!(accounts["accounts"][0]["quota_bytes"], Value::Null);
    client.catalog(None, S).await.unwrap_err();
    json(&server, "POST", &format!("{path}/unban"), "").await;
    client.catalog(None, S).await.unwrap();
    // Pages.
    server.enrolled(4, Role::Client).await;
    let page = json(&server, "GET", "/v1/admin/accounts?max=1", "").await;
    let next = page["next"].as_str().unwrap();
    let path = format!("/v1/admin/accounts?max=1&after={next}");
    let other = json(&server, "GET", &path, "").await;
    assert_ne!(page["accounts"], other["accounts"]);
    for (path, body) in [
        ("/v1/admin/invitations", r#"{"role":"king"}"#),
        ("/v1/admin/invitations", r#"{"role":"client","use":2}"#),
        ("/v1/admin/accounts/nobody/ban", ""),
    ] {
        let (status, _) = server.by_hand("POST", path, Some(TOKEN), body).await;
        assert_eq!(status, 400, "{path} {body}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn a_providers_state_is_seen_and_its_latch_is_reset() {
    // R-43, R-44, R-54
    let server = Running::new(limits()).await;
    server.enrolled(2, Role::Provider).await;
    let client = server.enrolled(3, Role::Client).await;
    let key = seal::public_key(&SecretKey::from_bytes([2; 32]));
    let epoch = server.app.catalog.look(|m| m.epoch(&key)).unwrap();
    use quell_core::health::probe_latch::ProbeOutcome::{Failed, Passing};
    for outcome in [Passing, Failed, Failed, Failed] {
        server.app.catalog.on_probed(&key, epoch, outcome);
    }
    let state = json(&server, "GET", "/v1/admin/providers", "").await;
    let provider = &state["providers"][0];
    assert_eq!(provider["public_key"], key_text(2));
    assert_eq!(provider["in_service"], false);
    assert_eq!(provider["probe"]["state"], "critical");
    let reason = provider["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("critical: 3 probes in a row failed"),
        "{reason}"
    );
    assert_eq!(provider["flap"]["counters"]["allowed"], 1);
    assert_eq!(state["flap"]["allowed"], 1);
    let path = format!("/v1/admin/providers/{}/reset", key_text(2));
    json(&server, "POST", &path, "").await;
    let state = json(&server, "GET", "/v1/admin/providers", "").await;
    assert_eq!(state["providers"][0]["probe"]["state"], "probe_unsupported");
    assert_eq!(state["providers"][0]["in_service"], true);
    // A ban takes it out at once.
    let seen = client.catalog(None, 5 * S).await.unwrap().unwrap();
    let path = format!("/v1/admin/accounts/{}/ban", key_text(2));
    json(&server, "POST", &path, "").await;
    let state = json(&server, "GET", "/v1/admin/providers", "").await;
    assert_eq!(state["providers"], Value::Array(Vec::new()));
    let next = match seen.exits.is_empty() {
        true => seen,
        false => client
            .catalog(Some(&seen.version), 5 * S)
            .await
            .unwrap()
            .unwrap(),
    };
    assert_eq!(next.exits, []);
    server.stopped().await;
}

/// What was logged.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_answer_or_record_holds_a_clients_address() {
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _logs = tracing::subscriber::set_default(subscriber);
    // Clients come from an address that nothing else has: as a proxy names it, and as their own.
    let canary = "198.51.100.77";
    let server = Running::new(LimitsConfig {
        proxies: vec!["127.0.0.1".parse().unwrap()],
        source_requests_per_s: 1,
        source_request_burst: 5,
        ..limits()
    })
    .await;
    let own = "127.77.66.55";
    let mut answers = String::new();
    for path in [
        "/healthz",
        "/v1/catalog",
        "/nothing",
        "/v1/enrol",
        "/v1/admin/server",
    ] {
        for _ in 0..3 {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(format!("{own}:0").parse().unwrap()).unwrap();
            let mut stream = socket.connect(server.address).await.unwrap();
            let port = stream.local_addr().unwrap().port();
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\n{{x}}"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.read_to_string(&mut answers).await.unwrap();
            assert!(!answers.contains(&format!("{own}:{port}")));
            let request =
                request.replace("host: x", &format!("host: x\r\nx-forwarded-for: {canary}"));
            answers.push_str(&server.raw(request.as_bytes()).await);
        }
    }
    server
        .enrolled(3, Role::Client)
        .await
        .catalog(None, S)
        .await
        .unwrap();
    for path in [
        "/v1/admin/server",
        "/v1/admin/accounts",
        "/v1/admin/providers",
    ] {
        answers.push_str(&server.by_hand("GET", path, Some(TOKEN), "").await.1);
    }
    let folder = server.stopped().await;
    searched(&folder, &captured, &answers, &[canary, own]);
}

/// Logs, answers and the store's file hold none of these.
fn searched(folder: &TempDir, captured: &Captured, answers: &str, addresses: &[&str]) {
    let logs = String::from_utf8_lossy(&captured.0.lock().unwrap()).into_owned();
    assert!(logs.contains("the backend serves"), "{logs}");
    let file = std::fs::read(folder.path().join("backend.redb")).unwrap();
    let file = String::from_utf8_lossy(&file).into_owned();
    assert!(
        file.contains("Client 3"),
        "the file is not what was searched"
    );
    for address in addresses {
        assert!(!logs.contains(address), "{logs}");
        assert!(!answers.contains(address) && !file.contains(address));
    }
}
