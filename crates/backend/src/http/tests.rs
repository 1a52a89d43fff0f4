//! The client beside servers that answer by hand: each answer that a network may bring, and what it means.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::*;
use crate::api::{ContractWant, Refusal};

const TIMEOUT: Duration = Duration::from_secs(5);

/// One request after the other gets one of these answers and the end of its connection. What was asked comes out.
fn serve(answers: Vec<Vec<u8>>) -> (HttpBackend, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, questions) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            asked.send(question(&mut stream)).unwrap();
            // Who asked may have read enough.
            _ = stream.write_all(&answer);
        }
    });
    (client(port, TIMEOUT), questions)
}

fn client(port: u16, timeout: Duration) -> HttpBackend {
    let base = format!("http://127.0.0.1:{port}").parse().unwrap();
    HttpBackend::new(base, SecretKey::from_bytes([3; 32]), timeout).unwrap()
}

/// A request's head and body.
fn question(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).unwrap().to_lowercase();
    let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

fn field<'t>(head: &'t str, name: &str) -> Option<&'t str> {
    let of = |line: &'t str| line.strip_prefix(name)?.strip_prefix(": ");
    head.lines().find_map(of)
}

fn answer(status: &str, fields: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\n{fields}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn date(seconds_ahead: i64) -> String {
    let at = wall_s().saturating_add_signed(seconds_ahead);
    let at = std::time::UNIX_EPOCH + Duration::from_secs(at);
    format!("date: {}\r\n", httpdate::fmt_http_date(at))
}

fn clock(seconds_ahead: i64) -> Vec<u8> {
    let body = r#"{"code":"clock","words":"another time"}"#;
    answer("401 Unauthorized", &date(seconds_ahead), body)
}

fn catalog() -> Vec<u8> {
    answer("200 OK", "", r#"{"version":"a.1","issued_s":1,"exits":[]}"#)
}

async fn catalog_of(client: &HttpBackend) -> Result<Option<CatalogAnswer>, AskError> {
    client.catalog(None, Duration::ZERO).await
}

fn code(error: AskError) -> RefusalCode {
    let AskError::Refused(Refusal { code, .. }) = error else {
        panic!("{error:?}");
    };
    code
}

fn garbled<T: fmt::Debug>(answer: Result<T, AskError>) -> String {
    let AskError::Garbled(words) = answer.unwrap_err() else {
        panic!("it could be read");
    };
    words
}

#[tokio::test]
async fn nothing_within_the_time_is_a_timeout_and_nobody_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let timeout = Duration::from_millis(300);
    let begun = Instant::now();
    let error = catalog_of(&client(port, timeout)).await.unwrap_err();
    assert_eq!(error, AskError::Timeout(timeout));
    assert!((timeout..timeout * 5).contains(&begun.elapsed()));
    // Of the catalog, the wait that was asked for is not the server's silence.
    let wait = Duration::from_millis(500);
    let error = client(port, timeout).catalog(None, wait).await;
    assert_eq!(error.unwrap_err(), AskError::Timeout(timeout + wait));
    drop(listener);
    let error = catalog_of(&client(port, TIMEOUT)).await.unwrap_err();
    assert!(matches!(error, AskError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn a_body_that_stops_half_way_is_a_timeout_and_one_that_is_cut_is_unreachable() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"version\"".to_vec();
    let (client, _questions) = serve(vec![half.clone()]);
    let error = catalog_of(&client).await.unwrap_err();
    assert!(matches!(error, AskError::Unreachable(_)), "{error:?}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (done, held) = mpsc::channel::<()>();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        question(&mut stream);
        stream.write_all(&half).unwrap();
        _ = held.recv();
    });
    let timeout = Duration::from_millis(300);
    let client = self::client(port, timeout);
    assert_eq!(
        catalog_of(&client).await.unwrap_err(),
        AskError::Timeout(timeout)
    );
    drop(done);
}

#[tokio::test]
async fn a_body_is_as_long_as_it_may_be_and_no_longer() {
    let good = r#"{"trusted_keys":["k"],"in_service":true,"reason":"r","next_s":9}"#;
    let request = HeartbeatRequest {
        addresses: Vec::new(),
        sessions: 0,
        draining: false,
    };
    for (len, fits) in [(ANSWER_BYTES_MAX, true), (ANSWER_BYTES_MAX + 1, false)] {
        let body = good.to_owned() + &" ".repeat(len - good.len());
        let chunk = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{len:x}\r\n{body}\r\n0\r\n\r\n"
        );
        for answer in [answer("200 OK", "", &body), chunk.into_bytes()] {
            let (client, _questions) = serve(vec![answer]);
            let answer = client.heartbeat(&request).await;
            assert_eq!(answer.is_ok(), fits, "{len}");
            if !fits {
                assert!(garbled(answer).contains("more than"));
            }
        }
    }
    // Nothing is allocated by a peer's word.
    let endless = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\n{}".to_vec();
    let (client, _questions) = serve(vec![endless]);
    client.heartbeat(&request).await.unwrap_err();
}

#[tokio::test]
async fn a_portal_is_not_believed_and_a_redirect_not_followed() {
    let html = "<html>Welcome to our hotel</html>";
    let (client, _questions) = serve(vec![answer("200 OK", "", html)]);
    garbled(catalog_of(&client).await);
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let to = format!("location: http://{}/\r\n", elsewhere.local_addr().unwrap());
    for status in [
        "301 Moved",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let (client, _questions) = serve(vec![answer(status, &to, "")]);
        assert!(garbled(catalog_of(&client).await).contains(&status[..3]));
    }
    let error = elsewhere.accept().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_clock_that_is_an_hour_off_is_corrected_once_and_stays_so() {
    for ahead_s in [3_600, -3_600, CORRECTION_MAX_S - 5] {
        let (client, questions) = serve(vec![clock(ahead_s), catalog(), catalog()]);
        catalog_of(&client).await.unwrap().unwrap();
        catalog_of(&client).await.unwrap().unwrap();
        let times = questions.iter().map(|question| {
            let time: u64 = field(&question, TIME_HEADER).unwrap().parse().unwrap();
            i64::try_from(time).unwrap() - i64::try_from(wall_s()).unwrap()
        });
        let times: Vec<_> = times.collect();
        let near = |a: i64, b: i64| a.abs_diff(b) <= 3;
        assert!(near(times[0], 0), "{times:?}");
        assert!(
            near(times[1], ahead_s) && near(times[2], ahead_s),
            "{times:?}"
        );
    }
    // A server that is never satisfied is asked twice and no more.
    let (client, questions) = serve(vec![clock(3_600), clock(7_200), catalog()]);
    let error = catalog_of(&client).await.unwrap_err();
    assert_eq!(code(error), RefusalCode::Clock);
    assert_eq!(questions.try_iter().count(), 2);
}

#[tokio::test]
async fn a_clock_that_is_more_than_a_day_off_is_not_believed() {
    let without_date = answer("401 No", "", r#"{"code":"clock","words":"w"}"#);
    let apart_s = CORRECTION_MAX_S + 5;
    for refusal in [clock(apart_s), clock(-apart_s), without_date] {
        let (client, questions) = serve(vec![refusal, catalog()]);
        assert_eq!(
            code(catalog_of(&client).await.unwrap_err()),
            RefusalCode::Clock
        );
        assert_eq!(client.clock_correction_s(), 0);
        assert_eq!(questions.try_iter().count(), 1);
    }
}

#[tokio::test]
async fn a_wait_comes_in_seconds_and_as_a_date() {
    let date_of = |ahead_s| date(ahead_s).trim_end().replacen("date: ", "", 1);
    let both = format!("{}retry-after: {}\r\n", date(600), date_of(690));
    let cases = [
        ("503 No", "retry-after: 90\r\n".to_owned(), 90),
        ("429 No", both, 90),
    ];
    for (status, fields, seconds) in cases {
        let (client, questions) = serve(vec![answer(status, &fields, "")]);
        let error = catalog_of(&client).await.unwrap_err();
        let AskError::Unavailable { retry_after, .. } = error else {
            panic!("{error:?}");
        };
        assert!(
            retry_after.unwrap().as_secs().abs_diff(seconds) <= 1,
            "{retry_after:?}"
        );
        assert_eq!(questions.try_iter().count(), 1, "nothing is retried");
    }
}

#[tokio::test]
async fn an_answer_to_another_question_is_none() {
    let request = ContractsRequest {
        request_id: "00".repeat(16),
        wants: vec![ContractWant {
            binding: String::new(),
            bytes: 1,
        }],
    };
    let outcomes = |count: usize| {
        let outcome = r#"{"refused":{"code":"quota","words":"no"}}"#;
        format!(
            r#"{{"outcomes":[{}]}}"#,
            vec![outcome; count].as_slice().join(",")
        )
    };
    for count in [0, 1, 2] {
        let (client, _questions) = serve(vec![answer("200 OK", "", &outcomes(count))]);
        let answer = client.contracts(&request).await;
        assert_eq!(answer.is_ok(), count == 1, "{answer:?}");
    }
    let (client, _questions) = serve(vec![answer("304 Not Modified", "", "")]);
    assert!(garbled(client.contracts(&request).await).contains("304"));
    let (client, _questions) = serve(vec![b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()]);
    catalog_of(&client).await.unwrap_err();
    let flood = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(100));
    let (client, _questions) = serve(vec![flood.into_bytes()]);
    catalog_of(&client).await.unwrap_err();
}
