//! What crossed the sockets of an engine, and news of departures.
//!
//! One set of books for all sockets that an engine opens over time, so that a
//! total never goes back because a dial replaced a socket. Every datagram that
//! QUIC wanted to send ends as sent or as lost; a refusal that waited and then
//! passed is both a refusal and, once, a datagram sent.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_core::health::refusal::Refusal;
use quell_core::path::{FrameBytes, UdpCauses};
use quinn::udp::{RecvMeta, Transmit};
use serde::Serialize;
use tokio::sync::Notify;

/// What crossed a socket. Sizes are UDP payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SocketCounters {
    /// UDP datagrams sent.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Of these, bytes of handshakes (long header packets).
    pub handshake_bytes_out: u64,
    /// UDP datagrams received.
    pub datagrams_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Errors of the socket while receiving.
    pub errors_in: u64,
    /// Datagrams that the system refused until they were given up.
    pub lost_out: u64,
    /// Refusals for want of room in a queue of this machine.
    pub refused_full: u64,
    /// Refusals because no way leads there.
    pub refused_unreachable: u64,
    /// Refusals of datagrams as too large.
    pub refused_too_large: u64,
    /// Refusals for any other reason.
    pub refused_other: u64,
    /// Batches that the device could not segment and that left one by one.
    pub gso_fallbacks: u64,
}

/// A socket's counters, and what its bytes were for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UdpReport {
    /// What crossed.
    #[serde(flatten)]
    pub counters: SocketCounters,
    /// What was sent, by cause.
    pub by_cause: UdpCauses,
}

impl UdpReport {
    /// Sorts what was sent, where `frames` left the core's paths.
    pub(crate) fn of(counters: SocketCounters, frames: FrameBytes) -> Self {
        let by_cause = UdpCauses::of(counters.bytes_out, counters.handshake_bytes_out, frames);
        Self { counters, by_cause }
    }
}

/// An embedder's hook that sees each socket before its first byte: Android's `VpnService.protect`, a mark, a binding to an
/// interface. An error keeps the socket from being used, and the dial fails with it.
#[derive(Clone)]
pub struct Protect(Arc<dyn Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync>);

impl Protect {
    /// A hook. It is called on the engine's thread, once a socket.
    pub fn new(hook: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

impl fmt::Debug for Protect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protect").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Counts {
    datagrams_out: AtomicU64,
    bytes_out: AtomicU64,
    handshake_bytes_out: AtomicU64,
    datagrams_in: AtomicU64,
    bytes_in: AtomicU64,
    errors_in: AtomicU64,
    lost_out: AtomicU64,
    refused_full: AtomicU64,
    refused_unreachable: AtomicU64,
    refused_too_large: AtomicU64,
    refused_other: AtomicU64,
    gso_fallbacks: AtomicU64,
}

/// Books and departures of an engine's sockets: one set, however many sockets it
/// opens over time.
#[derive(Debug, Clone, Default)]
pub struct SocketWatch {
    /// Whom each socket is shown before its first byte.
    pub(crate) protect: Option<Protect>,
    counts: Arc<Counts>,
    departed: Arc<Notify>,
    #[cfg(test)]
    pub(super) faults: super::tests::Faults,
}

impl SocketWatch {
    /// Shows a new socket to the embedder.
    ///
    /// # Errors
    /// It is not to be used.
    pub(super) fn show(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        match &self.protect {
            Some(Protect(hook)) => hook(socket),
            None => Ok(()),
        }
    }

    /// Resolves when something leaves the socket. Whoever waits must have looked
    /// at the carrier in the same turn of the runtime: earlier departures are not
    /// remembered.
    pub(crate) async fn departed(&self) {
        self.departed.notified().await;
    }

    pub(super) fn tell_departed(&self) {
        self.departed.notify_waiters();
    }

    /// Bytes sent so far.
    pub(crate) fn bytes_out(&self) -> u64 {
        self.counts.bytes_out.load(Ordering::Relaxed)
    }

    /// What crossed the sockets so far.
    pub fn counters(&self) -> SocketCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        SocketCounters {
            datagrams_out: read(&counts.datagrams_out),
            bytes_out: read(&counts.bytes_out),
            handshake_bytes_out: read(&counts.handshake_bytes_out),
            datagrams_in: read(&counts.datagrams_in),
            bytes_in: read(&counts.bytes_in),
            errors_in: read(&counts.errors_in),
            lost_out: read(&counts.lost_out),
            refused_full: read(&counts.refused_full),
            refused_unreachable: read(&counts.refused_unreachable),
            refused_too_large: read(&counts.refused_too_large),
            refused_other: read(&counts.refused_other),
            gso_fallbacks: read(&counts.gso_fallbacks),
        }
    }

    pub(super) fn count_sent(&self, transmit: &Transmit<'_>) {
        add(&self.counts.datagrams_out, datagrams(transmit));
        add(&self.counts.bytes_out, transmit.contents.len());
        if is_long_header(transmit.contents) {
            add(&self.counts.handshake_bytes_out, transmit.contents.len());
        }
    }

    pub(super) fn count_lost(&self, transmit: &Transmit<'_>) {
        add(&self.counts.lost_out, datagrams(transmit));
    }

    pub(super) fn count_refused(&self, why: Refusal) {
        let counter = match why {
            Refusal::Full => &self.counts.refused_full,
            Refusal::Unreachable => &self.counts.refused_unreachable,
            Refusal::TooLarge => &self.counts.refused_too_large,
            Refusal::Offload => &self.counts.gso_fallbacks,
            Refusal::Other => &self.counts.refused_other,
        };
        add(counter, 1);
    }

    pub(super) fn count_receive_error(&self) {
        add(&self.counts.errors_in, 1);
    }

    pub(super) fn count_received(&self, meta: &RecvMeta) {
        let datagrams = meta.len.div_ceil(meta.stride.max(1));
        add(&self.counts.datagrams_in, datagrams);
        add(&self.counts.bytes_in, meta.len);
    }
}

fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

fn datagrams(transmit: &Transmit<'_>) -> usize {
    let len = transmit.contents.len();
    len.div_ceil(transmit.segment_size.unwrap_or(len).max(1))
}

/// RFC 9000 §17.2: packets of a handshake have the long header.
fn is_long_header(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|byte| byte & 0x80 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_known_by_their_first_bit() {
        assert!(is_long_header(&[0xc0, 0]));
        assert!(!is_long_header(&[0x40, 0]));
        assert!(!is_long_header(&[]));
    }
}
