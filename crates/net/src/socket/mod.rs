//! Our own UDP socket under QUIC: it counts, and it forgives.
//!
//! The engines drive their connections themselves and send by a [`WayOut`] each; probes are quinn's, and get the socket as
//! quinn wants it. The rules are the same.
//!
//! *Counts*: every byte of UDP payload that leaves or arrives passes here, so
//! what a status says about traffic is exact (DESIGN §4); see [`books`].
//!
//! *Forgives*: quinn ends a connection on any error of its socket but
//! `WouldBlock`. A network that is away for a moment (ENETUNREACH), a full queue
//! (ENOBUFS), a packet larger than the interface takes (EMSGSIZE), a device that
//! cannot segment (EIO) end none of ours; see [`sending`], and the rules in
//! [`quell_core::health::refusal`]. An EIO for the ECN mark itself, which Android is
//! known for (case B51), is an error that lasts: only for EINVAL does quinn leave the
//! mark away. Datagrams are lost, the connection stays, and the dial ends in its time.
//!
//! *Tells*: the engine waits for departures, because little may stand in quinn's
//! queue at a time and quinn says nothing when it empties.

mod books;
mod sending;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::time::{Instant, Sleep, sleep};

pub use books::{Protect, SocketCounters, SocketWatch, UdpReport};
use sending::Outgoing;

use quell_underlay::Underlay;

use crate::error::NetError;

/// Errors in a row after which a socket that cannot receive is given up.
const RECEIVE_ERRORS_MAX: u32 = 64;

/// A UDP socket as quinn wants it.
pub(crate) struct CountingSocket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    watch: SocketWatch,
    /// Of the connection that found the socket writable last and sends next.
    turn: Mutex<Option<Arc<Mutex<Outgoing>>>>,
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
    /// What crosses it is written into the books of `watch`, and `underlay` decides its way.
    pub(crate) fn bind(
        address: SocketAddr,
        buffer_bytes: usize,
        watch: SocketWatch,
        underlay: &Underlay,
    ) -> Result<Arc<Self>, NetError> {
        let open = || -> io::Result<(tokio::net::UdpSocket, UdpSocketState)> {
            let socket = Socket::new(
                Domain::for_address(address),
                Type::DGRAM,
                Some(Protocol::UDP),
            )?;
            watch.show(socket.as_fd())?;
            underlay.prepare(&socket)?;
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
        Ok(Arc::new(Self {
            io,
            state,
            watch,
            turn: Mutex::new(None),
        }))
    }

    /// One system call.
    fn send_part(&self, part: &Transmit<'_>) -> io::Result<()> {
        #[cfg(test)]
        self.watch.faults.next(part)?;
        self.io.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.io).into(), part)
        })
    }
}

impl AsyncUdpSocket for CountingSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(WritePoller {
            socket: self,
            outgoing: Arc::default(),
            rest: Rest::default(),
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let now = Instant::now().into_std();
        let turn = self.turn.lock().take();
        let system = |part: &Transmit<'_>| self.send_part(part);
        match turn {
            Some(outgoing) => outgoing.lock().send(transmit, now, &self.watch, system)?,
            None => {
                let sent = Outgoing::default().send(transmit, now, &self.watch, system);
                if sent.is_err() {
                    self.watch.count_lost(transmit);
                }
            }
        }
        self.watch.tell_departed();
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut errors = 0;
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
                // Mostly an ICMP error for an earlier datagram, which is gone with
                // this report. An error handed to quinn would end all connections.
                Err(error) => {
                    self.watch.count_receive_error();
                    errors += 1;
                    if errors > RECEIVE_ERRORS_MAX {
                        return Poll::Ready(Err(error));
                    }
                }
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

/// Says when a connection may send: the socket is writable, and what was refused
/// has waited.
#[derive(Debug)]
struct WritePoller {
    socket: Arc<CountingSocket>,
    outgoing: Arc<Mutex<Outgoing>>,
    rest: Rest,
}

impl UdpPoller for WritePoller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poller = self.get_mut();
        ready!(poller.rest.poll(&mut poller.outgoing.lock(), cx));
        ready!(poller.socket.io.poll_send_ready(cx))?;
        *poller.socket.turn.lock() = Some(Arc::clone(&poller.outgoing));
        Poll::Ready(Ok(()))
    }
}

/// The wait that a refusal asked for.
#[derive(Debug, Default)]
struct Rest(Option<Pin<Box<Sleep>>>);

impl Rest {
    fn poll(&mut self, outgoing: &mut Outgoing, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = outgoing.take_wait() {
            self.0 = Some(Box::pin(sleep(wait)));
        }
        if let Some(rest) = &mut self.0 {
            ready!(rest.as_mut().poll(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

/// A connection's way out of a socket, for who drives the connection itself.
#[derive(Debug)]
pub(crate) struct WayOut {
    socket: Arc<CountingSocket>,
    outgoing: Outgoing,
    rest: Rest,
}

impl WayOut {
    pub(crate) fn new(socket: Arc<CountingSocket>) -> Self {
        Self {
            socket,
            outgoing: Outgoing::default(),
            rest: Rest::default(),
        }
    }

    /// Sends a batch, or the rest of the one that was not taken.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] alone: the same batch is to be tried again, when
    /// [`poll_writable`](Self::poll_writable) says so.
    pub(crate) fn send(&mut self, batch: &Transmit<'_>, now: std::time::Instant) -> io::Result<()> {
        if self.rest.0.is_some() || self.outgoing.waits() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Self {
            socket, outgoing, ..
        } = self;
        outgoing.send(batch, now, &socket.watch, |part| socket.send_part(part))?;
        socket.watch.tell_departed();
        Ok(())
    }

    /// Resolves when the next try is due.
    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.rest.poll(&mut self.outgoing, cx));
        // A socket that fails to say so says more when it is used.
        let _ = ready!(self.socket.io.poll_send_ready(cx));
        Poll::Ready(())
    }
}
