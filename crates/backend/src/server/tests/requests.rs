//! Requests by hand: malformed ones, slow ones, and limits at their number and one beyond.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::api::{Refusal, RefusalCode};
use crate::signed;

fn refusal(body: &str) -> Refusal {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[tokio::test]
async fn what_is_nowhere_or_asked_otherwise_is_a_refusal() {
    let server = Running::new(limits()).await;
    let cases = [
        ("GET", "/", 404),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/enrol", 405),
        ("POST", "/v1/catalog", 405),
        ("POST", "/v1/enrol", 401),
        ("GET", "/v1/catalog", 401),
    ];
    for (method, path, status) in cases {
        let (got, body) = server.by_hand(method, path, None, "").await;
        assert_eq!(got, status, "{method} {path}");
        assert!(!refusal(&body).words.is_empty());
    }
    let (status, body) = server.by_hand("GET", "/healthz", None, "").await;
    assert_eq!((status, body.as_str()), (200, "{\"status\":\"ok\"}"));
    server.stopped().await;
}

fn signed_request(path: &str, body: &[u8], length: usize) -> Vec<u8> {
    let head = signed::sign(
        &SecretKey::from_bytes([3; 32]),
        "POST",
        path,
        wall_s(),
        body,
    );
    let mut bytes = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\
         quell-key: {}\r\nquell-time: {}\r\nquell-signature: {}\r\n\r\n",
        head.key, head.time, head.signature
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

#[tokio::test]
async fn a_body_is_as_long_as_it_may_be_and_no_longer() {
    let server = Running::new(limits()).await;
    for (path, max) in [
        ("/v1/enrol", 8 * 1_024),
        ("/v1/heartbeat", 8 * 1_024),
        ("/v1/contracts", 16 * 1_024),
        ("/v1/receipts", 192 * 1_024),
    ] {
        let fits = signed_request(path, &vec![b' '; max], max);
        assert!(
            server.raw(&fits).await.starts_with("HTTP/1.1 400"),
            "{path}"
        );
        let more = signed_request(path, &vec![b' '; max + 1], max + 1);
        assert!(
            server.raw(&more).await.starts_with("HTTP/1.1 413"),
            "{path}"
        );
    }
    // Without a length in front, too.
    let mut chunked =
        b"POST /v1/enrol HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n".to_vec();
    let head = signed::sign(
        &SecretKey::from_bytes([3; 32]),
        "POST",
        "/v1/enrol",
        wall_s(),
        b"",
    );
    let names = format!(
        "quell-key: {}\r\nquell-time: {}\r\nquell-signature: {}\r\n\r\n2001\r\n",
        head.key, head.time, head.signature
    );
    chunked.extend_from_slice(names.as_bytes());
    chunked.extend_from_slice(&vec![b' '; 0x2001]);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    assert!(server.raw(&chunked).await.starts_with("HTTP/1.1 413"));
    server.stopped().await;
}

#[tokio::test]
async fn slow_heads_and_bodies_end_with_their_time() {
    let server = Running::new(LimitsConfig {
        header_timeout: S,
        body_timeout: S,
        ..limits()
    })
    .await;
    let begun = Instant::now();
    let half_a_body = signed_request("/v1/enrol", b"{", 100);
    // Nothing at all, half a head, and a connection kept after its answer.
    let (nothing, half, body) = tokio::join!(
        server.raw(b""),
        server.raw(b"GET /healthz HTTP/1.1\r\nhost:"),
        server.raw(&half_a_body),
    );
    assert!(
        nothing.is_empty() || nothing.starts_with("HTTP/1.1 408"),
        "{nothing}"
    );
    assert!(
        half.is_empty() || half.starts_with("HTTP/1.1 408"),
        "{half}"
    );
    assert!(body.starts_with("HTTP/1.1 408"), "{body}");
    let kept = server
        .raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert!(kept.starts_with("HTTP/1.1 200"));
    assert!(begun.elapsed() < 4 * S, "{:?}", begun.elapsed());
    server.stopped().await;
}

#[tokio::test]
async fn a_sources_connections_end_at_their_number() {
    let server = Running::new(LimitsConfig {
        connections_per_source: 3,
        ..limits()
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpStream::connect(server.address).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.raw(b"").await, "");
    let counted = server.app.counters.counted();
    assert_eq!(
        (counted.connections, counted.connections_refused_source),
        (3, 1)
    );
    held.pop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (status, _) = server.by_hand("GET", "/healthz", None, "").await;
    assert_eq!(status, 200);
    server.stopped().await;
}

#[tokio::test]
async fn all_connections_together_end_at_their_number() {
    let server = Running::new(LimitsConfig {
        connections_max: 2,
        connections_per_source: 2,
        ..limits()
    })
    .await;
    let _one = TcpStream::connect(server.address).await.unwrap();
    let _two = TcpStream::connect(server.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.raw(b"").await, "");
    assert_eq!(server.app.counters.counted().connections_refused_total, 1);
    server.stopped().await;
}

#[tokio::test]
async fn a_sources_requests_end_at_their_burst_and_say_when_to_come_again() {
    let server = Running::new(LimitsConfig {
        source_requests_per_s: 1,
        source_request_burst: 3,
        ..limits()
    })
    .await;
    for _ in 0..3 {
        assert_eq!(server.by_hand("GET", "/healthz", None, "").await.0, 200);
    }
    let answer = server
        .raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    let seconds: u64 = line.unwrap().parse().unwrap();
    assert!((1..=3).contains(&seconds), "{seconds}");
    server.stopped().await;
}

#[tokio::test]
async fn an_accounts_requests_end_at_their_burst_and_only_its_own() {
    let server = Running::new(LimitsConfig {
        account_requests_per_s: 1,
        account_request_burst: 3,
        ..limits()
    })
    .await;
    let (one, other) = (server.client(3), server.client(4));
    // Who writes another's key and cannot sign takes nothing of it.
    for _ in 0..20 {
        let mut forged = signed_request("/v1/enrol", b"{}", 2);
        let len = forged.len();
        forged[len - 1] = b' ';
        assert!(server.raw(&forged).await.starts_with("HTTP/1.1 401"));
    }
    for _ in 0..3 {
        let refused = one.catalog(None, Duration::ZERO).await.unwrap_err();
        assert!(
            matches!(refused, crate::ask::AskError::Refused(_)),
            "{refused:?}"
        );
    }
    let refused = one.catalog(None, Duration::ZERO).await.unwrap_err();
    let crate::ask::AskError::Unavailable { retry_after, .. } = refused else {
        panic!("{refused:?}");
    };
    assert!(retry_after.unwrap() >= S);
    let refused = other.catalog(None, Duration::ZERO).await.unwrap_err();
    assert!(matches!(refused, crate::ask::AskError::Refused(_)));
    server.stopped().await;
}

#[tokio::test]
async fn after_a_start_requests_are_let_in_by_and_by_and_health_is_answered() {
    let server = Running::new(LimitsConfig {
        ramp: 600 * S,
        ramp_from_per_s: 2,
        ramp_to_per_s: 2,
        ..limits()
    })
    .await;
    for _ in 0..2 {
        assert_eq!(server.by_hand("GET", "/v1/catalog", None, "").await.0, 401);
    }
    let (status, body) = server.by_hand("GET", "/v1/catalog", None, "").await;
    assert_eq!(status, 503);
    assert!(refusal(&body).words.contains("just started"));
    for _ in 0..5 {
        assert_eq!(server.by_hand("GET", "/healthz", None, "").await.0, 200);
    }
    server.stopped().await;
}

#[tokio::test]
async fn a_proxys_word_is_taken_and_nobody_elses() {
    let once = LimitsConfig {
        source_requests_per_s: 1,
        source_request_burst: 1,
        ..limits()
    };
    let asked = async |server: &Running, from: &str| {
        let request = format!(
            "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-forwarded-for: {from}\r\n\r\n"
        );
        let answer = server.raw(request.as_bytes()).await;
        answer.get(9..12).map(str::to_owned).unwrap_or_default()
    };
    let direct = Running::new(once.clone()).await;
    assert_eq!(asked(&direct, "192.0.2.1").await, "200");
    assert_eq!(asked(&direct, "192.0.2.2").await, "429");
    direct.stopped().await;
    let behind = Running::new(LimitsConfig {
        proxies: vec!["127.0.0.1".parse().unwrap()],
        ..once
    })
    .await;
    assert_eq!(asked(&behind, "192.0.2.1").await, "200");
    assert_eq!(asked(&behind, "192.0.2.2").await, "200");
    // What a client writes itself stands before what the proxy adds.
    assert_eq!(asked(&behind, "192.0.2.7, 192.0.2.2").await, "429");
    behind.stopped().await;
}

#[tokio::test]
async fn ten_thousand_malformed_requests_are_refused_and_nothing_else() {
    let server = Running::new(LimitsConfig {
        header_timeout: S,
        ..limits()
    })
    .await;
    let mut rng = SmallRng::seed_from_u64(7);
    let good = signed_request("/v1/contracts", br#"{"request_id":"","wants":[]}"#, 28);
    let mut statuses = std::collections::BTreeMap::new();
    let mut stream: Option<TcpStream> = None;
    for _ in 0..10_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + rng.next_u32() % 4 {
            let at = rng.next_u32() as usize % bytes.len();
            bytes[at] = rng.next_u32() as u8;
        }
        // A request that is cut where the rest would be waited for is told to end.
        let mut one = match stream.take() {
            Some(one) => one,
            None => TcpStream::connect(server.address).await.unwrap(),
        };
        _ = one.write_all(&bytes).await;
        _ = one.shutdown().await;
        let mut answer = Vec::new();
        _ = tokio::time::timeout(TIMEOUT, one.read_to_end(&mut answer))
            .await
            .unwrap();
        let status = answer
            .get(9..12)
            .map(|status| String::from_utf8_lossy(status).into_owned());
        *statuses.entry(status.unwrap_or_default()).or_insert(0_u32) += 1;
    }
    let is_refusal = |status: &String| status.is_empty() || status.starts_with('4');
    assert!(statuses.keys().all(is_refusal), "{statuses:?}");
    assert!(
        statuses.get("401").is_some_and(|count| *count > 1_000),
        "{statuses:?}"
    );
    let (status, _) = server.by_hand("GET", "/healthz", None, "").await;
    assert_eq!(status, 200);
    server.stopped().await;
}

#[tokio::test]
async fn a_header_that_comes_twice_is_none() {
    let server = Running::new(limits()).await;
    let request = String::from_utf8(signed_request("/v1/enrol", b"{}", 2)).unwrap();
    // Word for word the same: the first alone would do.
    let line = request.lines().find(|line| line.starts_with("quell-time:"));
    let line = line.unwrap();
    let twice = request.replace(line, &format!("{line}\r\n{line}"));
    let answer = server.raw(twice.as_bytes()).await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(refusal(body).code, RefusalCode::Unsigned);
    server.stopped().await;
}
