//! What somebody sends who means harm, or a program that is broken, and that it costs what it should.

use super::*;
use crate::api::{Refusal, RefusalCode};
use crate::signed;

/// A `POST` that is signed by a key at a time.
fn signed_by(seed: u8, time_s: u64, path: &str, body: &[u8]) -> Vec<u8> {
    let secret = SecretKey::from_bytes([seed; 32]);
    let head = signed::sign(&secret, "POST", path, time_s, body);
    let mut bytes = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\
         quell-key: {}\r\nquell-time: {}\r\nquell-signature: {}\r\n\r\n",
        body.len(),
        head.key,
        head.time,
        head.signature
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// The statuses of all answers in what came over a connection.
fn statuses(text: &str) -> Vec<&str> {
    let heads = text.match_indices("HTTP/1.1 ");
    heads
        .filter_map(|(at, _)| text.get(at + 9..at + 12))
        .collect()
}

fn code(answer: &str) -> RefusalCode {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let refusal: Refusal =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    refusal.code
}

#[tokio::test]
async fn a_head_that_comes_a_byte_at_a_time_ends_and_others_are_served_meanwhile() {
    let server = Running::new(LimitsConfig {
        header_timeout: S,
        connections_per_source: 64,
        ..limits()
    })
    .await;
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        slow.spawn(async move {
            let begun = Instant::now();
            for byte in b"GET /healthz HTTP/1.1\r\nx: "
                .iter()
                .chain(std::iter::repeat(&b'a'))
            {
                let sent = stream.write_all(std::slice::from_ref(byte)).await;
                let mut answer = [0];
                let read = tokio::time::timeout(S / 10, stream.read(&mut answer)).await;
                if sent.is_err() || read.is_ok() || begun.elapsed() > 5 * S {
                    break;
                }
            }
            begun.elapsed()
        });
    }
    for _ in 0..5 {
        assert_eq!(server.by_hand("GET", "/healthz", None, "").await.0, 200);
    }
    while let Some(took) = slow.join_next().await {
        let took = took.unwrap();
        assert!((S * 9 / 10..S * 3).contains(&took), "{took:?}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn ten_megabytes_are_refused_by_their_length_and_by_their_first_bytes() {
    let server = Running::new(limits()).await;
    let now_s = wall_s();
    let large = signed_by(3, now_s, "/v1/receipts", &vec![b' '; 10 << 20]);
    let head = large
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    let begun = Instant::now();
    let answer = server.raw(&large[..head]).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // Without a length: whoever goes on sending finds the connection closed.
    let text = String::from_utf8_lossy(&large[..head]).into_owned();
    let length = format!("content-length: {}", 10 << 20);
    let chunked = text.replace(&length, "transfer-encoding: chunked");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(chunked.as_bytes()).await.unwrap();
    let mut sent = 0;
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, " ".repeat(1 << 16));
    while sent < 10 << 20 && stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += 1 << 16;
    }
    assert!(begun.elapsed() < 3 * S, "{:?}", begun.elapsed());
    assert_eq!(server.app.counters.counted().requests_malformed, 2);
    server.stopped().await;
}

#[tokio::test]
async fn a_head_has_its_bytes_and_its_fields_and_no_more() {
    let server = Running::new(limits()).await;
    let fields = |count: usize, len: usize| {
        let field = format!("a: {}\r\n", "b".repeat(len));
        let fields = field.repeat(count);
        format!("GET /healthz HTTP/1.1\r\nconnection: close\r\n{fields}\r\n").into_bytes()
    };
    for (count, len, is_good) in [
        (63, 1, true),
        (64, 1, false),
        (10_000, 1, false),
        (1, 15 * 1_024, true),
        (1, 17 * 1_024, false),
        (1, 1 << 20, false),
    ] {
        let answer = server.raw(&fields(count, len)).await;
        let status = answer.get(9..12).unwrap_or("431");
        assert_eq!(
            status,
            if is_good { "200" } else { "431" },
            "{count} of {len}"
        );
    }
    assert_eq!(server.by_hand("GET", "/healthz", None, "").await.0, 200);
    server.stopped().await;
}

#[tokio::test]
async fn old_and_pipelined_requests_are_answered_one_after_the_other() {
    let server = Running::new(limits()).await;
    let old = server.raw(b"GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200"), "{old}");
    let one = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let last = "GET /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let before = server.app.counters.counted().requests;
    let many = format!("{}{last}", one.repeat(20));
    let answer = server.raw(many.as_bytes()).await;
    let mut expected = vec!["200"; 20];
    expected.push("404");
    assert_eq!(statuses(&answer), expected);
    // Each of them is one request to every limit.
    assert_eq!(server.app.counters.counted().requests - before, 21);
    server.stopped().await;
}

#[tokio::test]
async fn two_lengths_or_a_length_and_chunks_do_not_smuggle_a_request() {
    let server = Running::new(limits()).await;
    let hidden = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    for fields in [
        format!("content-length: 0\r\ncontent-length: {}", hidden.len()),
        format!("content-length: +{}", hidden.len()),
        format!(
            "content-length: {}\r\ntransfer-encoding: xchunked",
            hidden.len()
        ),
    ] {
        let request = format!("POST /v1/enrol HTTP/1.1\r\nhost: x\r\n{fields}\r\n\r\n{hidden}");
        let answer = server.raw(request.as_bytes()).await;
        assert!(!statuses(&answer).contains(&"200"), "{fields}: {answer}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn no_path_leads_past_the_token() {
    let server = Running::new(limits()).await;
    for path in [
        "/v1/../v1/admin/server",
        "/v1/admin/../admin/server",
        "/v1/%61dmin/server",
        "//v1/admin/server",
        "/v1/admin/server/",
        "/v1/admin/server%00",
        "/v1/admin/./server",
        "/V1/ADMIN/SERVER",
        "/healthz/../v1/admin/server",
        "/v1/admin/accounts/..%2f..%2fserver",
        "/../../../etc/passwd",
    ] {
        let (status, body) = server.by_hand("GET", path, None, "").await;
        assert!(
            matches!(status, 400 | 401 | 404 | 405),
            "{path}: {status} {body}"
        );
    }
    for key in ["%00", "..", "%ff%fe", "quell1", &"a".repeat(4_000)] {
        let path = format!("/v1/admin/accounts/{key}/ban");
        let (status, body) = server.by_hand("POST", &path, Some(TOKEN), "").await;
        assert_eq!(status, 400, "{key}: {body}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn json_of_any_kind_is_refused_and_nothing_else() {
    let server = Running::new(limits()).await;
    server.enrolled(2, Role::Provider).await;
    server.enrolled(3, Role::Client).await;
    let id = "00".repeat(16);
    let number = |bytes: &str| {
        format!(r#"{{"request_id":"{id}","wants":[{{"binding":"","bytes":{bytes}}}]}}"#)
    };
    let mut bodies: Vec<Vec<u8>> = [
        "-1",
        "1.5",
        "18446744073709551616",
        "1e400",
        "NaN",
        "null",
        "\"1\"",
    ]
    .iter()
    .map(|bytes| number(bytes).into_bytes())
    .collect();
    bodies.extend([
        b"[".repeat(7_000),
        b"{\"a\":".repeat(1_000),
        b"\xff\xfe{}".to_vec(),
        b"{\"request_id\":\"\xc3\x28\",\"wants\":[]}".to_vec(),
        b"{\"request_id\":\"\\ud800\",\"wants\":[]}".to_vec(),
        format!(r#"{{"request_id":"{id}","request_id":"{id}","wants":[]}}"#).into_bytes(),
        Vec::new(),
    ]);
    for body in &bodies {
        for (seed, path) in [
            (4, "/v1/enrol"),
            (3, "/v1/contracts"),
            (2, "/v1/receipts"),
            (2, "/v1/heartbeat"),
        ] {
            let answer = server.raw(&signed_by(seed, wall_s(), path, body)).await;
            let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
            assert!(
                answer.starts_with("HTTP/1.1 400"),
                "{path} {shown}: {answer}"
            );
            assert_eq!(code(&answer), RefusalCode::Malformed, "{path} {shown}");
        }
    }
    server.stopped().await;
}

#[tokio::test]
async fn a_wait_is_a_number_and_has_its_bound() {
    let server = Running::of(ServerConfig {
        catalog: CatalogConfig {
            wait_max: S,
            ..catalog()
        },
        ..config(limits())
    })
    .await;
    let client = server.enrolled(3, Role::Client).await;
    let seen = client.catalog(None, 5 * S).await.unwrap().unwrap();
    let begun = Instant::now();
    let longest = Duration::from_secs(u64::MAX / 2);
    let same = client.catalog(Some(&seen.version), longest).await.unwrap();
    assert!(same.is_none() && (S..3 * S).contains(&begun.elapsed()));
    let secret = SecretKey::from_bytes([3; 32]);
    for wait in ["-1", "1.5", "18446744073709551616", "", "x", "1&wait_s=2"] {
        let path = format!("/v1/catalog?wait_s={wait}");
        let head = signed::sign(&secret, "GET", &path, wall_s(), b"");
        let request = format!(
            "GET {path} HTTP/1.1\r\nconnection: close\r\nquell-key: {}\r\nquell-time: {}\r\n\
             quell-signature: {}\r\n\r\n",
            head.key, head.time, head.signature
        );
        let answer = server.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{wait}: {answer}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn a_request_from_before_a_ban_is_refused_after_it() {
    let server = Running::new(limits()).await;
    server.enrolled(2, Role::Provider).await;
    let body = br#"{"addresses":["127.0.0.1:20002"],"sessions":0,"draining":false}"#;
    let overheard = signed_by(2, wall_s(), "/v1/heartbeat", body);
    assert!(server.raw(&overheard).await.starts_with("HTTP/1.1 200"));
    let key = seal::public_key(&SecretKey::from_bytes([2; 32]));
    let path = format!("/v1/admin/accounts/{}/ban", key.to_text());
    assert_eq!(server.by_hand("POST", &path, Some(TOKEN), "").await.0, 200);
    let answer = server.raw(&overheard).await;
    assert_eq!(code(&answer), RefusalCode::Banned);
    assert_eq!(server.app.catalog.look(|m| m.hosts().count()), 0);
    server.stopped().await;
}

#[tokio::test]
async fn a_providers_older_word_does_not_bring_back_what_it_said() {
    let server = Running::new(limits()).await;
    let provider = server.enrolled(2, Role::Provider).await;
    let key = seal::public_key(&SecretKey::from_bytes([2; 32]));
    let before = br#"{"addresses":["192.0.2.9:1"],"sessions":0,"draining":true}"#;
    let overheard = signed_by(2, wall_s() - 20, "/v1/heartbeat", before);
    let answer = server.raw(&overheard).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert_eq!(code(&answer), RefusalCode::Clock);
    let account = server.app.service.usage(key).await.unwrap();
    assert_eq!(account.addresses, ["127.0.0.1:20002"]);
    let standing = |m: &crate::catalog::Membership| m.standing(&key, Instant::now());
    let (in_service, reason) = server.app.catalog.look(standing).unwrap();
    assert!(in_service, "{reason}");
    // A clock that was ahead holds nobody up: the next word by a good one is heard.
    let ahead = signed_by(2, wall_s() + 200, "/v1/heartbeat", before);
    assert!(server.raw(&ahead).await.starts_with("HTTP/1.1 200"));
    let now = heartbeat(vec!["127.0.0.1:20002".to_owned()], false);
    assert!(provider.heartbeat(&now).await.unwrap().in_service);
    server.stopped().await;
}

#[tokio::test]
async fn requests_of_other_times_are_refused_with_the_servers_own() {
    let server = Running::new(limits()).await;
    server.enrolled(2, Role::Provider).await;
    let now_s = wall_s();
    for time_s in [
        0,
        now_s - 3_600,
        now_s - 302,
        now_s + 302,
        now_s + 3_600,
        4_102_444_800,
        u64::MAX,
    ] {
        let answer = server
            .raw(&signed_by(2, time_s, "/v1/heartbeat", b"{}"))
            .await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{time_s}: {answer}");
        assert_eq!(code(&answer), RefusalCode::Clock);
        assert!(answer.to_lowercase().contains("\r\ndate: "), "{answer}");
    }
    server.stopped().await;
}
