//! Real answers over real sockets, and no answers.
//!
//! The certificate is for `localhost`, good for a hundred years, and trusted by nobody
//! but these tests: `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes
//! -days 36500 -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext
//! basicConstraints=critical,CA:FALSE -outform DER`.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

const CERTIFICATE: &[u8] = include_bytes!("fixture/localhost.crt.der");
const KEY: &[u8] = include_bytes!("fixture/localhost.key.der");

/// A server of one connection that answers `bytes` to a whole request head, over TLS
/// where it has a configuration; and the head it was sent.
fn serve(bytes: Vec<u8>, tls: Option<Arc<ServerConfig>>) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        match tls {
            None => converse(&mut stream, &bytes),
            Some(config) => {
                let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                let head = converse(&mut tls, &bytes);
                tls.conn.send_close_notify();
                let _gone = tls.flush();
                head
            }
        }
    });
    (port, thread)
}

fn converse(stream: &mut (impl std::io::Read + std::io::Write), bytes: &[u8]) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    // Whoever asked has read enough, perhaps.
    let _gone = stream.write_all(bytes).and_then(|()| stream.flush());
    String::from_utf8(head).unwrap()
}

async fn asked(bytes: impl Into<Vec<u8>>) -> Answer {
    let (port, server) = serve(bytes.into(), None);
    let url = format!("http://127.0.0.1:{port}/health?key=k")
        .parse()
        .unwrap();
    let answer = Asker::new(&[], &Underlay::default())
        .unwrap()
        .ask(&url)
        .await;
    let head = server.join().unwrap();
    assert!(head.starts_with("GET /health?key=k HTTP/1.1\r\n"), "{head}");
    assert!(
        head.to_lowercase().contains("\r\nconnection: close\r\n"),
        "{head}"
    );
    answer
}

fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn each_answer_means_what_it_says() {
    let failed = |code: u16| Answer::Failed(format!("it answered with status {code}"));
    let cases = [
        ("200 OK", Answer::Good),
        ("204 No Content", Answer::Good),
        (
            "302 Found\r\nLocation: http://127.0.0.1:1/",
            Answer::Refused,
        ),
        ("401 Unauthorized", Answer::Refused),
        ("404 Not Found", Answer::Refused),
        (
            "429 Too Many\r\nRetry-After: 7",
            Answer::Throttled(Duration::from_secs(7)),
        ),
        ("429 Too Many", Answer::Throttled(Duration::ZERO)),
        ("500 Internal", failed(500)),
        ("502 Bad Gateway", failed(502)),
        (
            "503 Unavailable\r\nRetry-After: 20",
            Answer::Unavailable(Some(Duration::from_secs(20))),
        ),
        (
            "503 Unavailable\r\nRetry-After: soon",
            Answer::Unavailable(None),
        ),
        ("599 Own", failed(599)),
    ];
    for (line, answer) in cases {
        assert_eq!(asked(status(line)).await, answer, "{line}");
    }
}

#[test]
fn a_date_to_come_again_is_read_and_a_past_one_means_at_once() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
    let wait = |text: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        retry_after(&headers, now)
    };
    assert_eq!(
        wait("Sun, 06 Nov 1994 08:50:07 GMT"),
        Some(Duration::from_secs(30))
    );
    assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
    assert_eq!(
        wait("18446744073709551615"),
        Some(Duration::MAX - Duration::from_nanos(999_999_999))
    );
    assert_eq!(wait("18446744073709551616"), None);
    assert_eq!(wait("-1"), None);
}

fn is_failure(answer: &Answer) -> bool {
    matches!(answer, Answer::Failed(_))
}

#[tokio::test]
async fn what_is_no_answer_is_a_failure_in_words() {
    for bytes in [
        &b""[..],
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
    ] {
        let answer = asked(bytes).await;
        assert!(is_failure(&answer), "{bytes:?}: {answer:?}");
    }
    // Nobody listens there any more.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}/?key=s3cret")
        .parse()
        .unwrap();
    let answer = Asker::new(&[], &Underlay::default())
        .unwrap()
        .ask(&url)
        .await;
    let Answer::Failed(words) = answer else {
        panic!("{answer:?}");
    };
    assert!(words.contains("Connection refused"), "{words}");
    assert!(!words.contains("s3cret"), "{words}");
}

#[tokio::test]
async fn an_endless_answer_is_read_to_its_bound() {
    // More is promised than comes: to read on would be a failure, or take for ever.
    let body = |bytes: usize| {
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n".to_vec();
        answer.resize(answer.len() + bytes, b'x');
        answer
    };
    assert_eq!(asked(body(BODY_BYTES_MAX + 1)).await, Answer::Good);
    assert!(is_failure(&asked(body(BODY_BYTES_MAX)).await));
    let head = |bytes: usize| {
        format!(
            "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n",
            "x".repeat(bytes)
        )
    };
    assert_eq!(asked(head(HEAD_BYTES_MAX / 2)).await, Answer::Good);
    assert!(is_failure(&asked(head(4 * HEAD_BYTES_MAX)).await));
    let fields = |count: usize| format!("HTTP/1.1 204 No\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert_eq!(asked(fields(HEADERS_MAX)).await, Answer::Good);
    assert!(is_failure(&asked(fields(HEADERS_MAX + 1)).await));
}

fn tls_server() -> Arc<ServerConfig> {
    let certificate = CertificateDer::from(CERTIFICATE);
    let key = PrivateKeyDer::try_from(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.unwrap())
}

fn trusting(roots: RootCertStore) -> Asker {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Asker::with_tls(config, &Underlay::default())
}

#[tokio::test]
async fn over_tls_only_who_is_trusted_by_that_name_answers() {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
    let cases = [
        (trusting(roots.clone()), "localhost", true),
        (trusting(roots), "127.0.0.1", false),
        (trusting(RootCertStore::empty()), "localhost", false),
    ];
    for (asker, host, is_good) in cases {
        let (port, server) = serve(status("200 OK").into(), Some(tls_server()));
        let url = format!("https://{host}:{port}/").parse().unwrap();
        let answer = asker.ask(&url).await;
        assert_eq!(answer == Answer::Good, is_good, "{host}: {answer:?}");
        server.join().unwrap();
    }
}
