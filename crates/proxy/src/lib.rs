//! A client without a TUN: applications speak SOCKS5 or HTTP to a listener, and a TCP in userspace speaks packets to the
//! tunnel. No privileges are needed, and nothing of the host's network is changed.
//!
//! ```text
//! application ─ TcpStream ─> socks ┐                       ┌─> flows: a Tcp and a Relay each ──┐
//! application ─ TcpStream ─> http  ┴─> dial ─> dns ─> ─────┤                                   ├─> Outbox ─> PacketSource
//! application ─ UdpSocket ─> socks::associate ────────────>└─> ports: datagrams ───────────────┘
//!                                          flows, ports <── router <── Inlet <── PacketSink
//! ```
//!
//! To its engine the proxy is a device, as a TUN is: two halves of a seam ([`quell_stack`]). The addresses and the MTU
//! inside the tunnel come with the session ([`Tunnel`]): before the first, requests wait, a bounded time; when they
//! change, what used the old ones ends.
//!
//! All tasks share one thread with a current-thread runtime, so what they share is borrowed, never locked, and never across
//! an await.
//!
//! What an application can rely on:
//!
//! - a connection is granted when the destination answered; else it is told why, with SOCKS's codes or HTTP's, in words;
//! - names are asked for through the tunnel, never of the host's resolver: where an application goes is not to be seen
//!   beside the tunnel;
//! - ends and resets go through both ways, half-closed connections work, and a slow reader stops the sender at the other
//!   end, with two bounded buffers a flow in between;
//! - an application that goes away ends its flow.
//!
//! What it cannot do, and says: SOCKS BIND, fragments of UDP, `https://` requests without CONNECT. Every refusal is
//! counted by reason ([`ProxyCounts`]). No address and no name is ever logged.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod auth;
mod books;
mod common;
mod config;
mod dial;
mod dns;
mod error;
mod flows;
mod http;
mod inner;
mod listen;
mod ports;
mod router;
mod socks;
mod tunnel;

pub use books::{DropReason, Event, ProxyCounts, Refusal};
pub use config::{
    CREDENTIAL_BYTES_MAX, Credentials, DNS_PORT, DNS_SERVERS, DNS_SERVERS_MAX, ProxyConfig,
    ProxyLimits, check_listener,
};
pub use error::ProxyError;
pub use quell_stack::{Gone, PacketSink, PacketSource, SinkReport, Taken};
pub use socks::fuzz;
pub use tunnel::Tunnel;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;
use quell_stack::{Inlet, Ledger, Outlet};
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio::task::LocalSet;

use books::Books;
use common::Common;
use listen::Listener;

/// A running proxy. It ends when this is dropped, and by itself when its [`PacketSink`] is.
#[derive(Debug)]
pub struct Proxy {
    observer: Observer,
    shutdown: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// Where a proxy listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Listening {
    /// For SOCKS5.
    pub socks5: Option<SocketAddr>,
    /// For HTTP.
    pub http: Option<SocketAddr>,
}

/// Sees into a proxy from any thread.
#[derive(Debug, Clone)]
pub struct Observer {
    books: Arc<Books>,
    listening: Listening,
}

/// What a proxy is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProxyStatus {
    /// Where it listens.
    pub listening: Listening,
    /// What it holds, and what became of its requests and packets.
    #[serde(flatten)]
    pub counts: ProxyCounts,
}

impl Observer {
    /// Where it listens.
    #[must_use]
    pub const fn listening(&self) -> Listening {
        self.listening
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> ProxyStatus {
        ProxyStatus {
            listening: self.listening,
            counts: self.books.status(),
        }
    }
}

impl Proxy {
    /// Listens, and starts the proxy on a thread of its own. `tunnel` says which addresses the session has. `stopped` ends
    /// a blocked [`PacketSource::read_batch`], for good, by a message or by being closed.
    ///
    /// # Errors
    /// [`ProxyError::InvalidSetting`]; [`ProxyError::Bind`]; [`ProxyError::Thread`] when the host gives no thread or
    /// runtime.
    pub fn start(
        config: ProxyConfig,
        tunnel: watch::Receiver<Tunnel>,
        stopped: Receiver<()>,
    ) -> Result<(Self, PacketSink, PacketSource), ProxyError> {
        let config = config.try_new()?;
        let books = Arc::new(Books::default());
        let shutdown = Arc::new(Notify::new());
        let ledger: Arc<dyn Ledger> = Arc::<Books>::clone(&books);
        let (sink, inlet, source, outlet) = quell_stack::pair(&ledger, stopped);
        let socks5 = config.socks5.map(Listener::bind).transpose()?;
        let http = config.http.map(Listener::bind).transpose()?;
        let listening = Listening {
            socks5: socks5.as_ref().map(Listener::address),
            http: http.as_ref().map(Listener::address),
        };
        // Made here, so that a host without a file descriptor to spare says so to the caller.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|source| ProxyError::Thread { source })?;
        let (told, thread_books) = (Arc::clone(&shutdown), Arc::clone(&books));
        let thread = std::thread::Builder::new()
            .name("quell-proxy".to_owned())
            .spawn(move || {
                let local = LocalSet::new();
                local.block_on(&runtime, async move {
                    let running = run(
                        config,
                        tunnel,
                        (inlet, outlet),
                        thread_books,
                        (socks5, http),
                    );
                    tokio::select! {
                        () = running => {}
                        () = told.notified() => {}
                    }
                });
            })
            .map_err(|source| ProxyError::Thread { source })?;
        let proxy = Self {
            observer: Observer { books, listening },
            shutdown,
            thread: Some(thread),
        };
        Ok((proxy, sink, source))
    }

    /// Sees into it.
    #[must_use]
    pub fn observer(&self) -> Observer {
        self.observer.clone()
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> ProxyStatus {
        self.observer.status()
    }

    /// Ends it, and waits until every socket is closed. Connections of applications are reset.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shutdown.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there ended the proxy already, and was reported by the hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs until the engine gives no more packets.
async fn run(
    config: ProxyConfig,
    tunnel: watch::Receiver<Tunnel>,
    (inlet, outlet): (Inlet, Outlet),
    books: Arc<Books>,
    (socks5, http): (Option<Listener>, Option<Listener>),
) {
    let common = Rc::new(Common::new(config, tunnel, outlet, books));
    let flusher = Rc::clone(&common);
    tokio::task::spawn_local(async move { flusher.outbox.flush_for_ever().await });
    tokio::task::spawn_local(tunnel::follow(Rc::clone(&common)));
    if let Some(listener) = socks5 {
        tokio::task::spawn_local(listener.accept_for_ever(Rc::clone(&common), socks::serve));
    }
    if let Some(listener) = http {
        tokio::task::spawn_local(listener.accept_for_ever(Rc::clone(&common), http::serve));
    }
    router::run(&common, &inlet).await;
}
