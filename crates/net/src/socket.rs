//! Our own UDP socket under quinn: it counts, and it forgives.
//!
//! *Counts*: every byte of UDP payload that leaves or arrives passes here, so
//! what a status says about traffic is exact (DESIGN §4). Handshakes are known
//! by the long header bit (RFC 9000 §17.2).
//!
//! *Forgives*: quinn ends a connection on any error of its socket but
//! `WouldBlock`. A network that is away for a moment (ENETUNREACH), a full queue
//! (ENOBUFS), a packet larger than the interface takes (EMSGSIZE) are what QUIC
//! itself repairs, as loss. Each kind is counted and looks to quinn like a packet
//! that was lost on the way.
//!
//! *Tells*: the engine waits for departures, because little may stand in quinn's
//! queue at a time and quinn says nothing when it empties.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::sync::Notify;

use crate::error::NetError;

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
    /// Datagrams that the system refused as too large.
    pub refused_too_large: u64,
    /// Datagrams that the system refused because no way leads there.
    pub refused_unreachable: u64,
    /// Datagrams that the system refused for any other reason.
    pub refused_other: u64,
}

#[derive(Debug, Default)]
struct Counts {
    datagrams_out: AtomicU64,
    bytes_out: AtomicU64,
    handshake_bytes_out: AtomicU64,
    datagrams_in: AtomicU64,
    bytes_in: AtomicU64,
    refused_too_large: AtomicU64,
    refused_unreachable: AtomicU64,
    refused_other: AtomicU64,
}

/// Books and departures of an engine's sockets: one set, however many sockets it
/// opens over time.
#[derive(Debug, Clone, Default)]
pub struct SocketWatch {
    counts: Arc<Counts>,
    departed: Arc<Notify>,
}

impl SocketWatch {
    /// Resolves when something leaves the socket. Whoever waits must have looked
    /// at the carrier in the same turn of the runtime: earlier departures are not
    /// remembered.
    pub(crate) async fn departed(&self) {
        self.departed.notified().await;
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
            refused_too_large: read(&counts.refused_too_large),
            refused_unreachable: read(&counts.refused_unreachable),
            refused_other: read(&counts.refused_other),
        }
    }

    fn count_sent(&self, transmit: &Transmit<'_>) {
        let add = |counter: &AtomicU64, n: usize| counter.fetch_add(n as u64, Ordering::Relaxed);
        let segment = transmit
            .segment_size
            .unwrap_or(transmit.contents.len())
            .max(1);
        add(
            &self.counts.datagrams_out,
            transmit.contents.len().div_ceil(segment),
        );
        add(&self.counts.bytes_out, transmit.contents.len());
        if is_long_header(transmit.contents) {
            add(&self.counts.handshake_bytes_out, transmit.contents.len());
        }
    }

    fn count_received(&self, meta: &RecvMeta) {
        let add = |counter: &AtomicU64, n: usize| counter.fetch_add(n as u64, Ordering::Relaxed);
        add(
            &self.counts.datagrams_in,
            meta.len.div_ceil(meta.stride.max(1)),
        );
        add(&self.counts.bytes_in, meta.len);
    }

    fn count_refused(&self, error: &io::Error) {
        let counter = match refusal(error) {
            Refusal::TooLarge => &self.counts.refused_too_large,
            Refusal::Unreachable => &self.counts.refused_unreachable,
            Refusal::Other => &self.counts.refused_other,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    TooLarge,
    Unreachable,
    Other,
}

/// The system's answer to a send, sorted by what it means for the path.
fn refusal(error: &io::Error) -> Refusal {
    /// "Message too long", the same number on every Linux architecture.
    const EMSGSIZE: i32 = 90;
    let unreachable = matches!(
        error.kind(),
        io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable
    );
    if unreachable {
        Refusal::Unreachable
    } else if error.raw_os_error() == Some(EMSGSIZE) {
        Refusal::TooLarge
    } else {
        Refusal::Other
    }
}

fn is_long_header(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|byte| byte & 0x80 != 0)
}

/// A UDP socket as quinn wants it.
pub(crate) struct CountingSocket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    watch: SocketWatch,
}

impl fmt::Debug for CountingSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountingSocket")
            .field("io", &self.io)
            .finish_non_exhaustive()
    }
}

impl CountingSocket {
    /// Opens a socket on `address` with buffers of `buffer_bytes`, or as near to
    /// it as the system allows.
    /// What crosses it is written into the books of `watch`.
    pub(crate) fn bind(
        address: SocketAddr,
        buffer_bytes: usize,
        watch: SocketWatch,
    ) -> Result<Arc<Self>, NetError> {
        let open = || -> io::Result<(tokio::net::UdpSocket, UdpSocketState)> {
            let socket = Socket::new(
                Domain::for_address(address),
                Type::DGRAM,
                Some(Protocol::UDP),
            )?;
            if address.is_ipv6() {
                // `[::]` serves both families; any other address its own.
                socket.set_only_v6(!address.ip().is_unspecified())?;
            }
            // The system caps these; a smaller buffer is slower, not wrong.
            let _ = socket.set_recv_buffer_size(buffer_bytes);
            let _ = socket.set_send_buffer_size(buffer_bytes);
            socket.set_nonblocking(true)?;
            socket.bind(&address.into())?;
            let socket = std::net::UdpSocket::from(socket);
            let state = UdpSocketState::new((&socket).into())?;
            Ok((tokio::net::UdpSocket::from_std(socket)?, state))
        };
        let (io, state) = open().map_err(|source| NetError::Socket { address, source })?;
        Ok(Arc::new(Self { io, state, watch }))
    }
}

impl AsyncUdpSocket for CountingSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(WritePoller { socket: self })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sent = self.io.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.io).into(), transmit)
        });
        match sent {
            Ok(()) => self.watch.count_sent(transmit),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(error) => self.watch.count_refused(&error),
        }
        self.watch.departed.notify_waiters();
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let received = self.io.try_io(Interest::READABLE, || {
                self.state.recv((&self.io).into(), bufs, meta)
            });
            match received {
                Ok(count) => {
                    meta.iter()
                        .take(count)
                        .for_each(|meta| self.watch.count_received(meta));
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An ICMP error for an earlier datagram; it was reported, read on.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

#[derive(Debug)]
struct WritePoller {
    socket: Arc<CountingSocket>,
}

impl UdpPoller for WritePoller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.io.poll_send_ready(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_sorted_by_meaning() {
        let kinds = [
            (
                io::Error::from(io::ErrorKind::NetworkUnreachable),
                Refusal::Unreachable,
            ),
            (
                io::Error::from(io::ErrorKind::HostUnreachable),
                Refusal::Unreachable,
            ),
            (io::Error::from_raw_os_error(90), Refusal::TooLarge),
            (io::Error::from_raw_os_error(105), Refusal::Other),
        ];
        for (error, expected) in kinds {
            assert_eq!(refusal(&error), expected, "{error}");
        }
    }

    #[test]
    fn handshakes_are_known_by_their_first_bit() {
        assert!(is_long_header(&[0xc0, 0]));
        assert!(!is_long_header(&[0x40, 0]));
        assert!(!is_long_header(&[]));
    }
}
