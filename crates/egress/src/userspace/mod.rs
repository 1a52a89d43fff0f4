//! An egress without privileges: clients' packets end here, and ordinary host sockets speak for them (DESIGN §8).
//!
//! ```text
//!              ┌ SYN ─────> tcp: policy, host socket, connect ── stands ──> smoltcp <─> TcpStream    (a task a flow)
//! PacketSink ──┤ segment ─> tcp: the flow's queue
//!   router     ├ UDP ─────> datagram: association by (client, port)   <─> UdpSocket               (a task each)
//!              └ echo ────> datagram: association by (client, identifier) <─> ping socket
//! PacketSource <── outbox <── all of them
//! ```
//!
//! The TCPs, the queues and the way to the engine are `quell_stack`'s. All tasks share one thread with a current-thread runtime, so what they share is borrowed, never locked, and never
//! across an await. No task, and at a steady rate no buffer, is made for a packet.
//!
//! What a client can rely on:
//!
//! - its TCP handshake succeeds when the outside's did: a destination that refuses is a reset, one that cannot be reached
//!   an ICMP error too, one that is silent is silent, until the host is said to be unreachable;
//! - back-pressure goes through: a slow reader on either side stops the sender on the other, with two bounded buffers a
//!   flow in between;
//! - a UDP port is one host port for all its remotes (endpoint-independent mapping, RFC 4787 REQ-1), and whoever was
//!   spoken to may answer from the address and port it was spoken to at, as with the kernel's masquerade.
//!
//! What it cannot do, and counts: protocols other than TCP, UDP and echo go nowhere, and echo needs a host that allows it.
//! Fragments are put together within bounds (`quell_packet::reassembly`). TTL, TOS and IP options do not pass, TCP's urgent data neither.
//!
//! Every refusal is counted by reason, and every flow's end ([`UserspaceStatus`]). No address is ever logged.

mod books;
mod config;
mod datagram;
mod errno;
mod paths;
mod policy;
mod router;
mod tcp;

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;
use quell_stack::Ledger;
use tokio::sync::Notify;
use tokio::task::LocalSet;

pub use books::{DropReason, EchoState, Event, UserspaceStatus};
pub use config::UserspaceConfig;
pub use policy::{AllowAll, Asked, Denied, Policy, Protocol};
pub use quell_stack::{BATCH_PACKETS_MAX, Gone, PacketSink, PacketSource, SinkReport, Taken};

use crate::error::EgressError;
use books::Books;
use router::Router;

/// A running userspace egress. It ends when this is dropped, and by itself when its [`PacketSink`] is.
#[derive(Debug)]
pub struct Userspace {
    books: Arc<Books>,
    shutdown: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Userspace {
    /// Starts the egress on a thread of its own. `stopped` ends a blocked [`PacketSource::read_batch`], for good, by a
    /// message or by being closed.
    ///
    /// # Errors
    /// [`EgressError::InvalidSetting`]; [`EgressError::Thread`] when the host gives no thread or runtime.
    pub fn start(
        config: UserspaceConfig,
        policy: Box<dyn Policy>,
        stopped: Receiver<()>,
    ) -> Result<(Self, PacketSink, PacketSource), EgressError> {
        let config = config.try_new()?;
        let books = Arc::new(Books::default());
        let shutdown = Arc::new(Notify::new());
        let ledger: Arc<dyn Ledger> = Arc::<Books>::clone(&books);
        let (sink, inlet, source, outlet) = quell_stack::pair(&ledger, stopped);
        // Made here, so that a host without a file descriptor to spare says so to the caller.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|source| EgressError::Thread { source })?;
        let (told, thread_books) = (Arc::clone(&shutdown), Arc::clone(&books));
        let thread = std::thread::Builder::new()
            .name("quell-egress".to_owned())
            .spawn(move || {
                let local = LocalSet::new();
                local.block_on(&runtime, async move {
                    let router = Router::new(config, policy, outlet, thread_books);
                    tokio::select! {
                        () = router.run(&inlet) => {}
                        () = told.notified() => {}
                    }
                });
            })
            .map_err(|source| EgressError::Thread { source })?;
        let egress = Self {
            books,
            shutdown,
            thread: Some(thread),
        };
        Ok((egress, sink, source))
    }

    /// What it holds, and what became of its packets.
    #[must_use]
    pub fn status(&self) -> UserspaceStatus {
        self.books.status()
    }

    /// Sees into it from any thread, also when it has ended.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer {
            books: Arc::clone(&self.books),
        }
    }

    /// Ends it, and waits until every socket is closed. Outside connections that stand are reset.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shutdown.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there ended the egress already, and was reported by the hook.
            let _ = thread.join();
        }
    }
}

/// Sees what a [`Userspace`] does.
#[derive(Debug, Clone)]
pub struct Observer {
    books: Arc<Books>,
}

impl Observer {
    /// What it holds, and what became of its packets.
    #[must_use]
    pub fn status(&self) -> UserspaceStatus {
        self.books.status()
    }
}

impl Drop for Userspace {
    fn drop(&mut self) {
        self.end();
    }
}
