//! The server: one thread that accepts, one for each connection, all gone when the guard is dropped.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | a short page |
//! | `GET /address` | the address that the request comes from, as the server sees it |
//! | `GET /bytes/N` | the content's first N bytes |
//! | `GET /gallery/N`, `GET /picture/K` | a page of N pictures, and one of them (`gallery`) |
//! | `PUT` or `POST /upload` | `SHA-256-in-hex count`, of the body |
//!
//! A connection beyond the bound is answered 503 at once and counted. A peer that moves nothing for `idle_timeout` is
//! dropped. Stopping shuts every connection down, so that no thread is waited for longer than it takes to see that.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::gallery;
use super::head::{Head, read_head};
use crate::content;
use crate::error::{Context, Result};
use crate::stop::{Stop, wait_readable};

const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Settings of a [`Server`].
#[derive(Debug, Clone, Copy)]
pub struct ServerConfig {
    /// Bound of the connections served at a time. Default 256.
    pub connections_max: usize,
    /// A connection on which nothing moves for so long is dropped. Default 60 s: longer than the outages that tests make.
    pub idle_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            connections_max: 256,
            idle_timeout: Duration::from_secs(60),
        }
    }
}

/// What a [`Server`] has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Connections accepted and served.
    pub connections: u64,
    /// Connections refused because of the bound.
    pub refused: u64,
    /// Requests answered in full.
    pub answered: u64,
    /// Connections that ended in an error: malformed, too slow, or gone.
    pub failed: u64,
}

#[derive(Debug)]
struct Shared {
    config: ServerConfig,
    stop: Stop,
    /// Streams being served, for shutting them down.
    open: Mutex<HashMap<u64, TcpStream>>,
    connections: AtomicU64,
    refused: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `address` (port 0: any), in the calling thread's network namespace.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(address: SocketAddr) -> Result<Self> {
        Self::with_config(address, ServerConfig::default())
    }

    /// As [`Server::start`], with settings.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn with_config(address: SocketAddr, config: ServerConfig) -> Result<Self> {
        let listener = TcpListener::bind(address).context(|| format!("listening on {address}"))?;
        listener
            .set_nonblocking(true)
            .context(|| "listener".into())?;
        let address = listener.local_addr().context(|| "listener".into())?;
        let shared = Arc::new(Shared {
            config,
            stop: Stop::new()?,
            open: Mutex::default(),
            connections: AtomicU64::default(),
            refused: AtomicU64::default(),
            answered: AtomicU64::default(),
            failed: AtomicU64::default(),
        });
        let work = {
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        };
        let thread = thread::Builder::new()
            .name("lab-http".into())
            .spawn(work)
            .context(|| "http thread".into())?;
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        ServerStats {
            connections: self.shared.connections.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            answered: self.shared.answered.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Accepts until asked to stop, then ends all connections and waits for their threads.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut next_id = 0;
    while !shared.stop.is_asked() {
        if let Err(error) = wait_readable(&[listener.as_fd(), shared.stop.fd()], None) {
            tracing::warn!(%error, "http server ends");
            break;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, the listener stays readable: without a pause this would spin until one is free.
                if error.kind() != io::ErrorKind::WouldBlock {
                    thread::sleep(ACCEPT_PAUSE);
                }
                continue;
            }
        };
        threads.retain(|thread| !thread.is_finished());
        next_id += 1;
        threads.extend(admit(stream, next_id, shared));
    }
    for stream in shared.open.lock().values() {
        let _gone = stream.shutdown(Shutdown::Both);
    }
    for thread in threads {
        let _panicked = thread.join();
    }
}

/// Starts a thread for the connection, or refuses it.
fn admit(stream: TcpStream, id: u64, shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let started = register(&stream, id, shared).and_then(|()| {
        let shared = Arc::clone(shared);
        let served = stream.try_clone()?;
        thread::Builder::new()
            .name("lab-http-conn".into())
            .spawn(move || {
                let result = serve(&served, shared.config.idle_timeout);
                let counter = if matches!(result, Ok(true)) {
                    &shared.answered
                } else {
                    &shared.failed
                };
                counter.fetch_add(1, Ordering::Relaxed);
                shared.open.lock().remove(&id);
            })
    });
    match started {
        Ok(thread) => {
            shared.connections.fetch_add(1, Ordering::Relaxed);
            Some(thread)
        }
        Err(_) => {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            shared.open.lock().remove(&id);
            // Nothing may hold up the accepting thread, so what does not fit the socket's buffer is not sent.
            let _full = stream
                .set_nonblocking(true)
                .and_then(|()| answer(&stream, "503 Service Unavailable", "full\n"));
            None
        }
    }
}

fn register(stream: &TcpStream, id: u64, shared: &Shared) -> io::Result<()> {
    let mut open = shared.open.lock();
    if open.len() >= shared.config.connections_max {
        return Err(io::ErrorKind::QuotaExceeded.into());
    }
    open.insert(id, stream.try_clone()?);
    Ok(())
}

/// Serves one request. True: answered in full, with success.
fn serve(stream: &TcpStream, idle_timeout: Duration) -> io::Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(idle_timeout))?;
    stream.set_write_timeout(Some(idle_timeout))?;
    let mut reader = BufReader::new(stream);
    let head = match read_head(&mut reader) {
        Ok(Some(head)) => head,
        Ok(None) => return Ok(false),
        Err(error) => {
            answer(stream, "400 Bad Request", "malformed head\n")?;
            return Err(error);
        }
    };
    let success = respond(stream, &mut reader, &head)?;
    stream.shutdown(Shutdown::Write)?;
    Ok(success)
}

fn respond(stream: &TcpStream, body: &mut impl BufRead, head: &Head) -> io::Result<bool> {
    let mut words = head.first_line.split_ascii_whitespace();
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    match (method, path) {
        ("GET", "/") => {
            answer(stream, "200 OK", "quell lab: GET /bytes/N, PUT /upload\n").map(|()| true)
        }
        ("GET", "/address") => {
            let peer = stream.peer_addr()?.ip().to_canonical();
            answer(stream, "200 OK", &format!("{peer}\n")).map(|()| true)
        }
        ("PUT" | "POST", "/upload") => receive(stream, body, head),
        ("GET", path) => show(stream, path),
        _ => answer(stream, "405 Method Not Allowed", "GET, PUT or POST\n").map(|()| false),
    }
}

fn show(stream: &TcpStream, path: &str) -> io::Result<bool> {
    let is_there = if let Some(count) = path.strip_prefix("/gallery/") {
        let page = gallery::page(count);
        page.map(|page| answer_as(stream, "200 OK", "text/html; charset=utf-8", &page))
    } else if let Some(number) = path.strip_prefix("/picture/") {
        let picture = gallery::picture(number);
        picture.map(|picture| answer_as(stream, "200 OK", "image/svg+xml", &picture))
    } else {
        let len = path.strip_prefix("/bytes/").and_then(|n| n.parse().ok());
        len.map(|len| send_content(stream, len))
    };
    match is_there {
        Some(sent) => sent.map(|()| true),
        None => answer(stream, "404 Not Found", "no such page\n").map(|()| false),
    }
}

fn send_content(mut stream: &TcpStream, len: u64) -> io::Result<()> {
    stream.write_all(answer_head("200 OK", "application/octet-stream", len).as_bytes())?;
    content::blocks(len, |block| stream.write_all(block))
}

fn receive(mut stream: &TcpStream, body: &mut impl BufRead, head: &Head) -> io::Result<bool> {
    let Some(len) = head.content_length.filter(|_| !head.has_transfer_encoding) else {
        return answer(
            stream,
            "411 Length Required",
            "the body needs a Content-Length\n",
        )
        .map(|()| false);
    };
    if head.expects_continue {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut hash = Sha256::new();
    let mut body = body.take(len);
    loop {
        let block = body.fill_buf()?;
        if block.is_empty() {
            break;
        }
        hash.update(block);
        let used = block.len();
        body.consume(used);
    }
    if body.limit() > 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    answer(stream, "200 OK", &format!("{} {len}\n", content::hex(hash))).map(|()| true)
}

fn answer(stream: &TcpStream, status: &str, text: &str) -> io::Result<()> {
    answer_as(stream, status, "text/plain", text)
}

fn answer_as(mut stream: &TcpStream, status: &str, kind: &str, text: &str) -> io::Result<()> {
    let head = answer_head(status, kind, text.len() as u64);
    stream.write_all(format!("{head}{text}").as_bytes())
}

fn answer_head(status: &str, content_type: &str, len: u64) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    )
}
