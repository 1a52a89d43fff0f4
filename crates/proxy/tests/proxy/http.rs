//! HTTP as `curl -x` and browsers speak it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use quell_egress::userspace::AllowAll;
use quell_proxy::{Credentials, Event, Refusal};

use crate::rig::{Rig, config, session};
use crate::world::{echo, hash, pattern, serve};

/// Sends a head, and reads the answer's: its status, its head, and what follows.
pub(crate) fn exchange(stream: &mut TcpStream, head: &str) -> (u16, String, Vec<u8>) {
    stream.write_all(head.as_bytes()).unwrap();
    read_head(stream)
}

fn read_head(stream: &mut TcpStream) -> (u16, String, Vec<u8>) {
    let (head, rest) = read_until_head_ends(stream);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), rest)
}

fn read_until_head_ends(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut heard = Vec::new();
    loop {
        if let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = heard.split_off(end + 4);
            return (String::from_utf8(heard).unwrap(), rest);
        }
        let mut buffer = [0; 1_024];
        match stream.read(&mut buffer).unwrap() {
            0 => panic!("no whole head: {:?}", String::from_utf8_lossy(&heard)),
            read => heard.extend_from_slice(&buffer[..read]),
        }
    }
}

#[test]
fn connect_gives_the_socket_to_the_flow() {
    let (server, thread) = serve("127.0.0.1:0", 2, echo);
    let rig = Rig::new();
    for early in ["", "early"] {
        let mut stream = rig.http();
        let head = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n{early}");
        let (status, head, mut heard) = exchange(&mut stream, &head);
        assert_eq!(status, 200);
        assert!(!head.contains("content-length") && !head.contains("transfer-encoding"));
        let said = pattern(1_000_000);
        let mut writer = stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&said).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            stream.read_to_end(&mut heard).unwrap();
        });
        assert_eq!(&heard[..early.len()], early.as_bytes());
        assert_eq!(hash(&heard[early.len()..]), hash(&said));
    }
    thread.join().unwrap();
    rig.until_quiet();
    assert_eq!(rig.counts().granted, 2);
    assert_eq!(rig.counts().count(Event::TcpClosed), 2);
}

#[test]
fn a_request_in_absolute_form_is_forwarded_hop_by_hop() {
    let (server, thread) = serve("127.0.0.1:0", 2, |mut stream| {
        let (head, mut body) = read_until_head_ends(&mut stream);
        while !body.ends_with(b"end") {
            let mut buffer = [0; 4_096];
            let read = stream.read(&mut buffer).unwrap();
            body.extend_from_slice(&buffer[..read]);
        }
        let answer = "HTTP/1.1 203 Fine\r\nContent-Length: 5\r\nX-Own: 1\r\nProxy-Authenticate: no\r\nKeep-Alive: 9\r\n\r\nhello";
        stream.write_all(answer.as_bytes()).unwrap();
        (head, body)
    });
    let rig = Rig::new();
    let mut stream = rig.http();
    let body = [&pattern(100_000)[..], b"end"].concat();
    for _ in 0..2 {
        let head = format!(
            "POST http://me:secret@{server}/a/b?c=d HTTP/1.1\r\nHost: elsewhere.test\r\nProxy-Connection: keep-alive\r\n\
             Connection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 1\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        let (status, head, mut rest) = read_head(&mut stream);
        assert_eq!(status, 203);
        assert!(
            head.contains("x-own: 1") && !head.contains("proxy-authenticate"),
            "{head}"
        );
        assert!(!head.contains("keep-alive: 9"), "{head}");
        while rest.len() < 5 {
            let mut buffer = [0; 16];
            let read = stream.read(&mut buffer).unwrap();
            rest.extend_from_slice(&buffer[..read]);
        }
        assert_eq!(rest, b"hello");
    }
    for (head, heard) in thread.join().unwrap() {
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("post /a/b?c=d http/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("host: {server}\r\n")), "{head}");
        assert!(head.contains("x-kept: 1"), "{head}");
        for not in ["x-hop", "proxy-", "secret", "elsewhere", "via"] {
            assert!(!head.contains(not), "{not} in {head}");
        }
        assert!(heard == body);
    }
    drop(stream);
    rig.until_quiet();
    assert_eq!(rig.counts().granted, 2);
}

#[test]
fn an_answer_that_breaks_off_is_not_passed_off_as_whole() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        socket2::SockRef::from(&stream)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
    });
    let rig = Rig::new();
    let mut stream = rig.http();
    let head = format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\n\r\n");
    let (status, head, mut rest) = exchange(&mut stream, &head);
    assert_eq!(status, 200);
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "an end in order");
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn what_does_not_speak_http_is_a_bad_gateway() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"SSH-2.0-hello\r\n").unwrap();
    });
    let rig = Rig::new();
    let head = format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\n\r\n");
    let (status, ..) = exchange(&mut rig.http(), &head);
    assert_eq!(status, 502);
    thread.join().unwrap();
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::BadAnswer), 1);
}

#[test]
fn a_password_is_asked_for() {
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    let mut config = config();
    config.credentials = Some(Credentials {
        username: "Aladdin".into(),
        password: String::from("open sesame").into(),
    });
    let rig = Rig::with(config, Box::new(AllowAll), session());
    let head = |field: &str| format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n{field}\r\n");
    for wrong in ["", "Proxy-Authorization: Basic QWxhZGRpbjpvcGVu\r\n"] {
        let (status, answer, _) = exchange(&mut rig.http(), &head(wrong));
        assert_eq!(status, 407);
        assert!(
            answer.contains("proxy-authenticate: basic realm="),
            "{answer}"
        );
    }
    let right = "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
    let mut stream = rig.http();
    assert_eq!(exchange(&mut stream, &head(right)).0, 200);
    drop(stream);
    thread.join().unwrap();
    rig.until_quiet();
    assert_eq!(rig.counts().refused(Refusal::Unauthorized), 2);
}

#[test]
fn what_is_no_request_for_a_proxy_is_said_so() {
    let rig = Rig::new();
    for (head, status) in [
        ("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 501),
        ("GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 501),
        (
            "GET http://[::1]:65536/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
            400,
        ),
        ("GET http://[::1]:0/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 403),
        ("CONNECT [::1]:65536 HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("CONNECT [::1]:0 HTTP/1.1\r\nHost: a.test\r\n\r\n", 403),
        (
            "CONNECT [fe80::1%251]:80 HTTP/1.1\r\nHost: a.test\r\n\r\n",
            502,
        ),
        (
            "GET http://[fe80::1%251]/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
            502,
        ),
    ] {
        assert_eq!(exchange(&mut rig.http(), head).0, status, "{head}");
    }
    // Not HTTP at all, and more of a head than anybody needs.
    assert_eq!(exchange(&mut rig.http(), "\x05\x01\x00\r\n\r\n").0, 400);
    let long = format!(
        "GET http://a.test/ HTTP/1.1\r\nX: {}\r\n\r\n",
        "a".repeat(100_000)
    );
    assert_eq!(exchange(&mut rig.http(), &long).0, 431);
    rig.until_quiet();
}

#[test]
fn a_head_that_does_not_come_in_time_is_hung_up_on() {
    let rig = Rig::new();
    let mut stream = rig.http();
    stream
        .write_all(b"GET http://a.test/ HTTP/1.1\r\nX:")
        .unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let mut mute = rig.http();
    let _ = mute.read_to_end(&mut rest);
    rig.until_quiet();
}

#[test]
fn a_length_beside_chunks_is_not_believed() {
    // RFC 9112 §6.3: who passes such a message on removes the length.
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let _ = read_until_head_ends(&mut stream);
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let rig = Rig::new();
    let mut stream = rig.http();
    let head =
        format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    let (status, head, mut rest) = exchange(&mut stream, &head);
    assert_eq!(status, 200);
    stream.read_to_end(&mut rest).unwrap();
    assert!(!head.contains("content-length"), "{head}");
    assert_eq!(rest, b"5\r\nhello\r\n0\r\n\r\n");
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn a_connect_with_a_body_is_refused() {
    let (server, _thread) = serve("127.0.0.1:0", 1, echo);
    let rig = Rig::new();
    for field in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let mut stream = rig.http();
        let head = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n{field}\r\n\r\n");
        assert_eq!(exchange(&mut stream, &head).0, 400, "{field}");
        drop(stream);
        rig.until_quiet();
    }
}
