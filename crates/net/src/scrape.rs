//! The listener that a collector asks: HTTP on the loopback, one answer a connection.
//!
//! *Intuition.* A collector comes every 15 s and asks for one path. A web server with all its settings would be more code to
//! trust than the rest of this page, in a process that holds keys; so what is understood here is `GET /metrics`, and each
//! other request has its refusal. The listener has a thread and a runtime of its own, like the control socket: a collector
//! that hangs costs the tunnel nothing, and a busy engine makes the answer late and not the listener mute.
//!
//! **Who may ask.** The page names servers and counts sessions; it holds no key, no inner address and no destination. Whoever
//! can open a connection to the loopback may have it, so the address has to be one: a collector elsewhere goes through a
//! proxy that asks who it is, or reads what `quell metrics` wrote. A page of the web that had its own name resolved to the
//! loopback would be a stranger behind the browser of this machine: its `Host` gives it away, and is refused.
//!
//! **Bounds.** [`CONNECTIONS_MAX`] at once, the next is closed; [`HEAD_BYTES_MAX`] of a request; [`STEP_TIME`] each for
//! reading, finding the answer and writing.

use std::future::Future;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::error::NetError;

/// The media type of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most conversations at once: a collector and its spare, and some people with curl.
pub const CONNECTIONS_MAX: usize = 8;
/// Most bytes of a request's head: collectors send some 300.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Longest time for each step of a conversation. A collector gives up after 10 s.
pub const STEP_TIME: Duration = Duration::from_secs(5);
/// Pause after a failed `accept`: it is out of files, and a loop would burn a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a dropped listener waits for its thread.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// A page in the making, or words why there is none.
pub type PageFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// Makes a page. Called on the listener's thread: it must not block.
pub type MakePage = Arc<dyn Fn() -> PageFuture + Send + Sync>;

/// A listener that serves. Dropping it ends it.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    stopped: mpsc::Receiver<()>,
}

impl Serving {
    /// Where it listens; the port is the one that was given when 0 was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Never sends: the thread's end shows as a disconnect.
        let _ = self.stopped.recv_timeout(STOP_WAIT);
    }
}

/// Serves what `make` gives at `http://ADDRESS/metrics`.
///
/// # Errors
/// [`NetError::Metrics`]: the address is not to be had, or no thread.
pub fn serve(address: SocketAddr, make: MakePage) -> Result<Serving, NetError> {
    let refused = |source| NetError::Metrics { address, source };
    let listener = StdListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(refused)?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(listener).map_err(refused)?
    };
    let (stop, stopping) = oneshot::channel();
    let (alive, stopped) = mpsc::channel();
    thread::Builder::new()
        .name("quell-metrics".into())
        .spawn(move || {
            runtime.block_on(accept(listener, make, stopping));
            drop(runtime);
            drop(alive);
        })
        .map_err(refused)?;
    Ok(Serving {
        address: bound,
        stop: Some(stop),
        stopped,
    })
}

async fn accept(listener: TcpListener, make: MakePage, mut stopping: oneshot::Receiver<()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            _ = &mut stopping => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    continue;
                };
                let make = Arc::clone(&make);
                tokio::spawn(async move {
                    converse(stream, make).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "metrics: accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(mut stream: TcpStream, make: MakePage) {
    let head = timeout(STEP_TIME, read_head(&mut stream)).await;
    let answer = match head {
        Ok(Ok(head)) => match asks(&head) {
            Ok(()) => page(make).await,
            Err(refusal) => refusal,
        },
        Ok(Err(Broken::TooLong)) => Answer::refusal("431 Request Header Fields Too Large", ""),
        // Nobody is there to be told.
        Ok(Err(Broken::Gone)) | Err(_) => return,
    };
    let written = timeout(STEP_TIME, async {
        stream.write_all(answer.bytes().as_slice()).await?;
        stream.shutdown().await
    });
    if !matches!(written.await, Ok(Ok(()))) {
        tracing::debug!("metrics: the collector left before its answer");
    }
}

/// Why there is no head.
enum Broken {
    TooLong,
    Gone,
}

async fn read_head(stream: &mut TcpStream) -> Result<Vec<u8>, Broken> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return Err(Broken::Gone),
            Ok(count) => head.extend_from_slice(&chunk[..count]),
        }
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(head);
        }
        if head.len() > HEAD_BYTES_MAX {
            return Err(Broken::TooLong);
        }
    }
}

/// What is sent back.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn refusal(status: &'static str, words: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{words}\n"),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let Self {
            status,
            content_type,
            body,
        } = self;
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// Whether the head asks for the page, from this machine.
fn asks(head: &[u8]) -> Result<(), Answer> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    if words
        .next()
        .is_none_or(|version| !version.starts_with("HTTP/1."))
    {
        return Err(Answer::refusal("400 Bad Request", "this is no HTTP/1.1"));
    }
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    if host.is_some_and(|host| !is_own(host)) {
        let words = "this is asked by an address of the loopback, or as localhost";
        return Err(Answer::refusal("421 Misdirected Request", words));
    }
    if method != Some("GET") {
        return Err(Answer::refusal("405 Method Not Allowed", "GET /metrics"));
    }
    match target.split('?').next() {
        Some("/metrics") => Ok(()),
        Some(_) | None => Err(Answer::refusal("404 Not Found", "GET /metrics")),
    }
}

/// Whether a `Host` is a name of the loopback.
fn is_own(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let name = host.split(':').next().unwrap_or_default();
    name.eq_ignore_ascii_case("localhost")
}

async fn page(make: MakePage) -> Answer {
    match timeout(STEP_TIME, make()).await {
        Ok(Ok(body)) => Answer {
            status: "200 OK",
            content_type: CONTENT_TYPE,
            body,
        },
        Ok(Err(words)) => Answer::refusal("503 Service Unavailable", &words),
        Err(_) => Answer::refusal("503 Service Unavailable", "there is no page in time"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read as _, Write as _};

    use super::*;

    fn serving() -> Serving {
        let make: MakePage =
            Arc::new(|| Box::pin(async { Ok("quell_dials_total 7\n".to_owned()) }));
        serve("127.0.0.1:0".parse().unwrap(), make).unwrap()
    }

    fn said(serving: &Serving, head: &str) -> String {
        let mut stream = std::net::TcpStream::connect(serving.address()).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_collector_gets_the_page() {
        let serving = serving();
        let answer = said(
            &serving,
            "GET /metrics HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
        );
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(CONTENT_TYPE), "{answer}");
        assert!(answer.contains("\r\n\r\nquell_dials_total 7\n"), "{answer}");
        let address = serving.address();
        drop(serving);
        std::net::TcpStream::connect(address).unwrap_err();
    }

    #[test]
    fn everything_else_has_its_refusal() {
        let serving = serving();
        let host = "Host: 127.0.0.1\r\n\r\n";
        for (head, status) in [
            (format!("GET / HTTP/1.1\r\n{host}"), "404"),
            (format!("POST /metrics HTTP/1.1\r\n{host}"), "405"),
            (format!("GET /metrics\r\n{host}"), "400"),
            ("\r\n\r\n".to_owned(), "400"),
            (
                "GET /metrics HTTP/1.1\r\nhost: evil.example\r\n\r\n".to_owned(),
                "421",
            ),
            (
                format!(
                    "GET /metrics HTTP/1.1\r\nA: {}",
                    "a".repeat(2 * HEAD_BYTES_MAX)
                ),
                "431",
            ),
        ] {
            let answer = said(&serving, &head);
            let expected = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&expected), "{head}: {answer}");
        }
    }

    #[test]
    fn a_name_of_the_loopback_is_own_and_no_other() {
        for own in [
            "127.0.0.1",
            "127.0.0.1:9",
            "[::1]:9",
            "[::1]",
            "LocalHost:9",
        ] {
            assert!(is_own(own), "{own}");
        }
        for strange in ["evil.example", "localhost.evil.example", "10.0.0.1:9", ""] {
            assert!(!is_own(strange), "{strange}");
        }
    }

    #[test]
    fn an_engine_that_cannot_say_is_an_answer() {
        let make: MakePage = Arc::new(|| Box::pin(async { Err("it has stopped".to_owned()) }));
        let serving = serve("127.0.0.1:0".parse().unwrap(), make).unwrap();
        let answer = said(&serving, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.ends_with("it has stopped\n"), "{answer}");
    }

    #[test]
    fn an_address_that_is_taken_is_said_with_its_key() {
        let serving = serving();
        let make: MakePage = Arc::new(|| Box::pin(async { Err(String::new()) }));
        let words = serve(serving.address(), make).unwrap_err().to_string();
        assert!(
            words.starts_with("metrics.listen: cannot listen on 127.0.0.1:"),
            "{words}"
        );
    }
}
