//! One connection: what engines ask of it, and what its events mean.
//!
//! A turn of a connection ([`Shared::settle`]) follows whatever changed its state: events go to the endpoint and come
//! from it, the application's events wake who waits, and what may leave is sent. What the socket does not take is kept
//! and goes first; the driver task tries again when the socket has room.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use quinn::congestion::Controller;
use quinn::udp;
use quinn_proto::{
    ConnectionError, ConnectionHandle, ConnectionStats, Dir, Event, SendDatagramError, StreamEvent,
    StreamId, Transmit, VarInt,
};
use tokio::task::spawn_local;

use super::endpoint::Shared as EndpointShared;
use super::streams::{RecvStream, SendStream};
use super::waiting::{For, Waiting};
use crate::engine::now;
use crate::socket::{CountingSocket, WayOut};

/// Datagrams that leave in one call: 44 of 1,452 bytes are 64 KB, the most that a kernel segments at once.
const SEGMENTS_MAX: usize = 44;
/// Datagrams that leave before other tasks of the thread have their turn: some 0.1 ms of work.
const TRANSMIT_DATAGRAMS_MAX: usize = 128;

/// A handle on a connection. The connection is closed when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Connection {
    shared: Rc<Shared>,
    _last: Rc<Last>,
}

/// Closes the connection when it is dropped.
struct Last(Rc<Shared>);

/// What the endpoint, the driver task and the handles share.
pub(super) struct Shared {
    pub(super) state: RefCell<State>,
}

/// The state of a connection.
pub(super) struct State {
    pub(super) proto: quinn_proto::Connection,
    handle: ConnectionHandle,
    endpoint: Weak<EndpointShared>,
    is_connected: bool,
    error: Option<ConnectionError>,
    pub(super) waiting: Waiting,
    way_out: WayOut,
    segments_max: usize,
    buffer: Vec<u8>,
    /// What the socket did not take.
    held: Option<Transmit>,
    /// The driver task's.
    pub(super) driver: Option<Waker>,
    /// When the driver task looks at the timers.
    pub(super) armed: Option<Instant>,
    /// It stands in the endpoint's list of connections that something arrived for.
    pub(super) is_touched: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        // A borrow that lasts means that the whole thread is unwinding.
        if let Ok(mut state) = self.0.state.try_borrow_mut() {
            state.close(VarInt::from_u32(0), Bytes::new());
            state.wake_driver();
        }
    }
}

impl Connection {
    /// A connection that has just begun, its driver task started. To be called within a `LocalSet`.
    pub(super) fn start(
        handle: ConnectionHandle,
        proto: quinn_proto::Connection,
        endpoint: &Rc<EndpointShared>,
        socket: &Arc<CountingSocket>,
    ) -> Self {
        let segments_max = udp_segments_max(socket);
        let state = State {
            proto,
            handle,
            endpoint: Rc::downgrade(endpoint),
            is_connected: false,
            error: None,
            waiting: Waiting::default(),
            way_out: WayOut::new(Arc::clone(socket)),
            segments_max,
            buffer: Vec::new(),
            held: None,
            driver: None,
            armed: None,
            is_touched: false,
        };
        let shared = Rc::new(Shared {
            state: RefCell::new(state),
        });
        spawn_local(super::driver::drive(Rc::clone(&shared)));
        let last = Rc::new(Last(Rc::clone(&shared)));
        Self {
            shared,
            _last: last,
        }
    }

    pub(super) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    /// Waits until the handshake is through.
    ///
    /// # Errors
    /// Why it is not.
    pub(crate) async fn connected(&self) -> Result<(), ConnectionError> {
        std::future::poll_fn(|cx| {
            let mut state = self.shared.state.borrow_mut();
            if let Some(error) = &state.error {
                return Poll::Ready(Err(error.clone()));
            }
            if state.is_connected {
                return Poll::Ready(Ok(()));
            }
            state.waiting.ask(For::State, cx);
            Poll::Pending
        })
        .await
    }

    /// Opens a stream of both directions.
    ///
    /// # Errors
    /// Why the connection is over.
    pub(crate) async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        self.stream(|proto| proto.streams().open(Dir::Bi)).await
    }

    /// Waits for a stream of both directions that the peer opens.
    ///
    /// # Errors
    /// Why the connection is over.
    pub(crate) async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        self.stream(|proto| proto.streams().accept(Dir::Bi)).await
    }

    async fn stream(
        &self,
        take: impl Fn(&mut quinn_proto::Connection) -> Option<StreamId>,
    ) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = std::future::poll_fn(|cx| {
            let mut state = self.shared.state.borrow_mut();
            if let Some(error) = &state.error {
                return Poll::Ready(Err(error.clone()));
            }
            if let Some(id) = take(&mut state.proto) {
                return Poll::Ready(Ok(id));
            }
            state.waiting.ask(For::State, cx);
            Poll::Pending
        })
        .await?;
        let (send, recv) = (SendStream::new(self, id), RecvStream::new(self, id));
        Ok((send, recv))
    }

    /// The peer's identity as TLS has it.
    pub(crate) fn peer_identity(&self) -> Option<Box<dyn std::any::Any>> {
        self.shared
            .state
            .borrow()
            .proto
            .crypto_session()
            .peer_identity()
    }

    /// Largest datagram that can be sent, in bytes; `None` when the peer takes none.
    pub(crate) fn max_datagram_size(&self) -> Option<usize> {
        self.shared.state.borrow_mut().proto.datagrams().max_size()
    }

    /// Room in the queue of datagrams, in bytes.
    pub(crate) fn datagram_send_buffer_space(&self) -> usize {
        self.shared
            .state
            .borrow_mut()
            .proto
            .datagrams()
            .send_buffer_space()
    }

    /// What QUIC counts.
    pub(crate) fn stats(&self) -> ConnectionStats {
        self.shared.state.borrow().proto.stats()
    }

    /// The congestion controller, a clone that shares what clones of it share.
    pub(crate) fn congestion_state(&self) -> Box<dyn Controller> {
        self.shared
            .state
            .borrow()
            .proto
            .congestion_state()
            .clone_box()
    }

    /// Why the connection is over, if it is.
    pub(crate) fn close_reason(&self) -> Option<ConnectionError> {
        self.shared.state.borrow().error.clone()
    }

    /// Queues a datagram; it leaves with the next [`flush`](Self::flush) or turn of the connection. A full queue lets go
    /// of its oldest.
    ///
    /// # Errors
    /// It is too large, the peer takes none, or the connection is over.
    pub(crate) fn send_datagram(&self, datagram: Bytes) -> Result<(), SendDatagramError> {
        self.shared
            .state
            .borrow_mut()
            .proto
            .datagrams()
            .send(datagram, true)
    }

    /// Whether the connection is over.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.state.borrow().error.is_some()
    }

    /// Takes up to `max` datagrams, or has `cx` told when there are some.
    pub(crate) fn poll_datagrams(
        &self,
        cx: &Context<'_>,
        batch: &mut Vec<Bytes>,
        max: usize,
    ) -> Poll<Result<(), ConnectionError>> {
        let mut state = self.shared.state.borrow_mut();
        let before = batch.len();
        let mut datagrams = state.proto.datagrams();
        while batch.len() - before < max {
            match datagrams.recv() {
                Some(datagram) => batch.push(datagram),
                None => break,
            }
        }
        if batch.len() > before {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &state.error {
            return Poll::Ready(Err(error.clone()));
        }
        state.waiting.ask(For::Datagrams, cx);
        Poll::Pending
    }

    /// Lets what was handed over leave, as far as QUIC and the socket allow it.
    pub(crate) fn flush(&self) {
        self.shared.settle(now());
    }

    /// Ends the connection, with a code and words for the peer.
    pub(crate) fn close(&self, code: VarInt, reason: &[u8]) {
        self.shared.close(code, Bytes::copy_from_slice(reason));
    }
}

impl Shared {
    /// Passes on what happened, and sends what may leave.
    pub(super) fn settle(&self, now: Instant) {
        let mut state = self.state.borrow_mut();
        state.exchange();
        state.transmit(now);
        state.exchange();
        state.tell();
        let due = state.proto.poll_timeout();
        let is_earlier = match (due, state.armed) {
            (Some(due), Some(armed)) => due < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_earlier || state.proto.is_drained() {
            state.wake_driver();
        }
    }

    /// Ends the connection, and tells the peer.
    pub(super) fn close(&self, code: VarInt, reason: Bytes) {
        self.state.borrow_mut().close(code, reason);
        self.settle(now());
    }

    /// Has the driver task try again what the socket did not take; whether it waits for the socket.
    pub(super) fn poll_way_out(&self, cx: &mut Context<'_>) -> bool {
        let mut state = self.state.borrow_mut();
        state.held.is_some() && state.way_out.poll_writable(cx).is_pending()
    }
}

impl State {
    fn close(&mut self, code: VarInt, reason: Bytes) {
        if self.error.is_some() {
            return;
        }
        self.proto.close(now(), code, reason);
        self.end(ConnectionError::LocallyClosed);
    }

    fn end(&mut self, error: ConnectionError) {
        self.error.get_or_insert(error);
        self.waiting.tell_all();
    }

    pub(super) fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Lets QUIC do what is due.
    pub(super) fn pass_time(&mut self, now: Instant) {
        if self.proto.poll_timeout().is_some_and(|due| due <= now) {
            self.proto.handle_timeout(now);
        }
    }

    /// Events of the endpoint, both ways.
    fn exchange(&mut self) {
        while let Some(event) = self.proto.poll_endpoint_events() {
            let Some(endpoint) = self.endpoint.upgrade() else {
                return;
            };
            if let Some(answer) = endpoint.handle_event(self.handle, event) {
                self.proto.handle_event(answer);
            }
        }
    }

    /// Events for whoever waits.
    fn tell(&mut self) {
        while let Some(event) = self.proto.poll() {
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    self.waiting.tell(For::State);
                }
                Event::ConnectionLost { reason } => self.end(reason),
                Event::DatagramReceived => self.waiting.tell(For::Datagrams),
                Event::Stream(StreamEvent::Opened { .. } | StreamEvent::Available { .. }) => {
                    self.waiting.tell(For::State);
                }
                Event::Stream(StreamEvent::Readable { .. }) => self.waiting.tell(For::Readable),
                Event::Stream(
                    StreamEvent::Writable { .. }
                    | StreamEvent::Finished { .. }
                    | StreamEvent::Stopped { .. },
                ) => self.waiting.tell(For::Writable),
                Event::HandshakeDataReady | Event::DatagramsUnblocked => {}
            }
        }
    }

    /// Sends until QUIC has nothing that may leave, or the socket is full.
    fn transmit(&mut self, now: Instant) {
        let mut sent = 0;
        while sent < TRANSMIT_DATAGRAMS_MAX {
            let Some(transmit) = self.held.take().or_else(|| self.next_transmit(now)) else {
                return;
            };
            let contents = &self.buffer[..transmit.size];
            match self.way_out.send(&udp_transmit(&transmit, contents), now) {
                Ok(()) => {
                    sent += transmit
                        .segment_size
                        .map_or(1, |len| transmit.size.div_ceil(len))
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.held = Some(transmit);
                    return self.wake_driver();
                }
                // The socket's own rules have dealt with it.
                Err(_) => {}
            }
        }
        self.wake_driver();
    }

    fn next_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.buffer.clear();
        self.proto
            .poll_transmit(now, self.segments_max, &mut self.buffer)
    }
}

fn udp_segments_max(socket: &CountingSocket) -> usize {
    quinn::AsyncUdpSocket::max_transmit_segments(socket).min(SEGMENTS_MAX)
}

/// What quinn-proto wants sent, in the words of quinn-udp.
pub(super) fn udp_transmit<'a>(transmit: &Transmit, contents: &'a [u8]) -> udp::Transmit<'a> {
    udp::Transmit {
        destination: transmit.destination,
        ecn: transmit.ecn.map(|ecn| match ecn {
            quinn_proto::EcnCodepoint::Ect0 => udp::EcnCodepoint::Ect0,
            quinn_proto::EcnCodepoint::Ect1 => udp::EcnCodepoint::Ect1,
            quinn_proto::EcnCodepoint::Ce => udp::EcnCodepoint::Ce,
        }),
        contents,
        segment_size: transmit.segment_size,
        src_ip: transmit.src_ip,
    }
}
