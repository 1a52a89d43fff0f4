//! One end of a connection: an endpoint of quinn-proto, and the connection that it has, with time handed in.
//!
//! ```text
//! none ─ connect / first packet accepted ─▶ handshake ─▶ stands ─▶ closing ─▶ drained
//!   └──────────────────────────── gone: its process died ◀───────────┘
//! ```
//!
//! After every input all events of quinn-proto are taken at once, as quinn's own driver does, and with them what the
//! next caller may ask for: the time to come back, and the facts. Both are kept here because quinn-proto gives them
//! only to who may change it.
//!
//! The control stream carries zeros: it is reliable and in order, so the other half of the carriage knows what they
//! stand for by their number, and no framing adds to their length.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quell_core::path::CarrierFacts;
use quinn_proto::{
    ClientConfig, ConnectError, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir,
    EcnCodepoint, Endpoint, EndpointConfig, Event, Incoming, ServerConfig, StreamEvent, StreamId,
    Transmit, TransportErrorCode, VarInt, congestion::Controller,
};

use super::super::{Side, UdpDatagram};
use crate::fleet::node::Ended;

/// Datagrams of a first flight that are kept: a ClientHello with a post-quantum key share takes two.
const FIRST_MAX: usize = 2;
/// Part of QUIC's API; whether it is sent is up to the settings.
const SERVER_NAME: &str = "quell";
/// What the control stream carries, a piece at a time.
const ZEROS: [u8; 4_096] = [0; 4_096];

/// Opens the window of a connection's controller, or leaves it to the controller again.
pub type Grant = fn(Box<dyn Controller>, bool, Instant);

/// One UDP datagram, as it would be on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuicUdp {
    payload: Bytes,
    /// What its IP header says of congestion; a way may carry it or not.
    ecn: Option<EcnCodepoint>,
}

impl QuicUdp {
    /// What leaves for `transmit` out of `buffer`.
    fn all_of(transmit: &Transmit, buffer: Vec<u8>) -> impl Iterator<Item = Self> + use<> {
        let ecn = transmit.ecn;
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        let mut rest = Bytes::from(buffer);
        rest.truncate(transmit.size);
        std::iter::from_fn(move || {
            let len = segment.min(rest.len());
            let payload = rest.split_to(len);
            (len > 0).then_some(Self { payload, ecn })
        })
    }
}

impl UdpDatagram for QuicUdp {
    fn len_bytes(&self) -> u32 {
        u32::try_from(self.payload.len()).unwrap_or(u32::MAX)
    }

    /// RFC 9000 §17.2: long headers begin with a set bit.
    fn is_dial(&self) -> bool {
        self.payload.first().is_some_and(|byte| byte & 0x80 != 0)
    }
}

/// What an end is told.
pub(super) enum Told {
    Connected,
    Datagram(Bytes),
    /// So many bytes of the control stream were read.
    Control(u64),
    Closed(Ended),
}

pub(super) struct End {
    side: Side,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    /// Bytes of control messages that QUIC has not taken yet.
    unwritten: u64,
    segments_max: usize,
    grant: Grant,
    out: VecDeque<QuicUdp>,
    told: VecDeque<Told>,
    /// The client's first flight, while the dial lasts.
    first: Vec<QuicUdp>,
    /// The last that left under a short header: what a host that knows nothing of us would see.
    last_short: Option<QuicUdp>,
    /// The window before it was opened, in bytes; `None` while it is the controller's own.
    cwnd_before: Option<u64>,
    /// Room for datagrams while none wait, in bytes.
    space_empty_bytes: usize,
    stands: bool,
    gone: bool,
    facts: Option<CarrierFacts>,
    timeout: Option<Instant>,
}

/// Where an end of this side is reached. Documentation's addresses (RFC 5737): nothing is sent to them.
pub(super) fn address(side: Side) -> SocketAddr {
    match side {
        Side::Client => (Ipv4Addr::new(192, 0, 2, 1), 50_000).into(),
        Side::Server => (Ipv4Addr::new(198, 51, 100, 1), 443).into(),
    }
}

impl End {
    pub(super) fn new(
        side: Side,
        config: &Arc<EndpointConfig>,
        server: Option<&Arc<ServerConfig>>,
        seed: [u8; 32],
        (segments_max, grant): (usize, Grant),
    ) -> Self {
        Self {
            side,
            endpoint: Endpoint::new(Arc::clone(config), server.cloned(), true, Some(seed)),
            connection: None,
            stream: None,
            unwritten: 0,
            segments_max,
            grant,
            out: VecDeque::new(),
            told: VecDeque::new(),
            first: Vec::new(),
            last_short: None,
            cwnd_before: None,
            space_empty_bytes: 0,
            stands: false,
            gone: false,
            facts: None,
            timeout: None,
        }
    }

    pub(super) fn dial(&mut self, config: ClientConfig, now: Instant) -> Result<(), ConnectError> {
        let remote = address(self.side.other());
        let dialled = self.endpoint.connect(now, config, remote, SERVER_NAME)?;
        self.connection = Some(dialled);
        self.settle();
        Ok(())
    }

    pub(super) fn facts(&self) -> Option<CarrierFacts> {
        self.facts
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.timeout
    }

    pub(super) fn last_short(&self) -> Option<&QuicUdp> {
        self.last_short.as_ref()
    }

    /// Nothing is left to do here, and nothing to be told.
    pub(super) fn is_over(&self) -> bool {
        self.connection.is_none() && self.out.is_empty() && self.told.is_empty()
    }

    /// A server's end that nobody has dialled yet may still be.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    pub(super) fn send_datagram(&mut self, datagram: Bytes) -> bool {
        let Some((_, connection)) = &mut self.connection else {
            return false;
        };
        if !self.stands {
            return false;
        }
        // The oldest give way when there is no room, as with quinn's `send_datagram`.
        let taken = connection.datagrams().send(datagram, true).is_ok();
        self.settle();
        taken
    }

    pub(super) fn send_control(&mut self, len_bytes: u32) {
        self.unwritten += u64::from(len_bytes);
        self.settle();
    }

    pub(super) fn grant(&mut self, granted: bool, now: Instant) {
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        if granted == self.cwnd_before.is_some() {
            return;
        }
        let cwnd = connection.stats().path.cwnd;
        self.cwnd_before = granted.then_some(cwnd);
        (self.grant)(connection.congestion_state().clone_box(), granted, now);
        self.settle();
    }

    pub(super) fn close(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.close(now, VarInt::from_u32(0), Bytes::new());
            self.stands = false;
            self.told.clear();
            self.settle();
        }
    }

    /// A process that died says nothing, hears nothing and has no timers.
    pub(super) fn kill(&mut self) {
        self.connection = None;
        self.out.clear();
        self.told.clear();
        (self.stands, self.gone) = (false, true);
        (self.facts, self.timeout) = (None, None);
    }

    /// The first flight once more.
    pub(super) fn first(&self) -> &[QuicUdp] {
        &self.first
    }

    pub(super) fn handle(&mut self, udp: QuicUdp, now: Instant) {
        if self.gone {
            return;
        }
        let mut answer = Vec::new();
        let data = BytesMut::from(udp.payload);
        let remote = address(self.side.other());
        let event = self
            .endpoint
            .handle(now, remote, None, udp.ecn, data, &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((own, connection)) = &mut self.connection
                    && *own == handle
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming, now),
            Some(DatagramEvent::Response(transmit)) => {
                self.out.extend(QuicUdp::all_of(&transmit, answer));
            }
            None => {}
        }
        self.settle();
    }

    /// One value is one connection: what comes late of a dial that is over is left alone.
    fn accept(&mut self, incoming: Incoming, now: Instant) {
        if self.connection.is_some() || self.stream.is_some() {
            self.endpoint.ignore(incoming);
            return;
        }
        let mut answer = Vec::new();
        match self.endpoint.accept(incoming, now, &mut answer, None) {
            Ok(accepted) => self.connection = Some(accepted),
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.out.extend(QuicUdp::all_of(&transmit, answer));
                }
            }
        }
    }

    /// What an endpoint of these settings that never heard of the connection says to `udp`.
    pub(super) fn reset_for(mut self, udp: QuicUdp, now: Instant) -> Option<QuicUdp> {
        self.handle(udp, now);
        self.out.pop_front()
    }

    pub(super) fn poll_udp(&mut self, now: Instant) -> Option<QuicUdp> {
        if self.out.is_empty()
            && let Some((_, connection)) = &mut self.connection
        {
            let mut sent = Vec::new();
            if let Some(transmit) = connection.poll_transmit(now, self.segments_max, &mut sent) {
                self.out.extend(QuicUdp::all_of(&transmit, sent));
            }
            self.settle();
        }
        let udp = self.out.pop_front()?;
        if !udp.is_dial() {
            self.last_short = Some(udp.clone());
        } else if self.side == Side::Client && self.first.len() < FIRST_MAX {
            self.first.push(udp.clone());
        }
        Some(udp)
    }

    pub(super) fn poll_told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection
            && self.timeout.is_some_and(|at| at <= now)
        {
            connection.handle_timeout(now);
            self.settle();
        }
    }

    /// Takes everything that quinn-proto has to say, and what may be asked for until the next input.
    fn settle(&mut self) {
        let Some((handle, mut connection)) = self.connection.take() else {
            (self.facts, self.timeout) = (None, None);
            return;
        };
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    connection.handle_event(event);
                }
            }
            match connection.poll() {
                Some(event) => self.on_event(&mut connection, event),
                None => break,
            }
        }
        self.write(&mut connection);
        self.timeout = connection.poll_timeout();
        self.facts = self.facts_of(&mut connection);
        if !connection.is_drained() {
            self.connection = Some((handle, connection));
        }
    }

    fn on_event(&mut self, connection: &mut Connection, event: Event) {
        match event {
            Event::Connected => {
                self.stands = true;
                self.first = Vec::new();
                self.space_empty_bytes = connection.datagrams().send_buffer_space();
                if self.side == Side::Client {
                    self.stream = connection.streams().open(Dir::Bi);
                }
                self.told.push_back(Told::Connected);
            }
            Event::ConnectionLost { reason } => {
                self.stands = false;
                self.told.push_back(Told::Closed(ended(&reason)));
            }
            Event::DatagramReceived => {
                while let Some(datagram) = connection.datagrams().recv() {
                    self.told.push_back(Told::Datagram(datagram));
                }
            }
            Event::Stream(StreamEvent::Opened { .. }) => {
                if let Some(id) = connection.streams().accept(Dir::Bi) {
                    self.stream = Some(id);
                    self.read(connection, id);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(connection, id),
            Event::HandshakeDataReady
            | Event::DatagramsUnblocked
            | Event::Stream(
                StreamEvent::Writable { .. }
                | StreamEvent::Finished { .. }
                | StreamEvent::Stopped { .. }
                | StreamEvent::Available { .. },
            ) => {}
        }
    }

    fn read(&mut self, connection: &mut Connection, id: StreamId) {
        let mut len_bytes = 0;
        let mut stream = connection.recv_stream(id);
        if let Ok(mut chunks) = stream.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                len_bytes += chunk.bytes.len() as u64;
            }
            // Whoever polls for datagrams next sends what this asks for.
            let _ = chunks.finalize();
        }
        if len_bytes > 0 {
            self.told.push_back(Told::Control(len_bytes));
        }
    }

    fn write(&mut self, connection: &mut Connection) {
        let Some(id) = self.stream.filter(|_| self.stands) else {
            return;
        };
        while self.unwritten > 0 {
            let len = usize::try_from(self.unwritten).map_or(ZEROS.len(), |n| n.min(ZEROS.len()));
            match connection.send_stream(id).write(&ZEROS[..len]) {
                Ok(written) => self.unwritten -= written as u64,
                Err(_) => return,
            }
        }
    }

    fn facts_of(&self, connection: &mut Connection) -> Option<CarrierFacts> {
        if !self.stands {
            return None;
        }
        let space = connection.datagrams().send_buffer_space();
        let datagram_len_max = connection.datagrams().max_size()?;
        let path = connection.stats().path;
        Some(CarrierFacts {
            datagram_len_max,
            backlog_bytes: self.space_empty_bytes.saturating_sub(space),
            cwnd_bytes: self.cwnd_before.unwrap_or(path.cwnd),
            rtt: path.rtt,
        })
    }
}

fn ended(reason: &ConnectionError) -> Ended {
    match reason {
        ConnectionError::VersionMismatch => Ended::Refused,
        ConnectionError::ConnectionClosed(close)
            if close.error_code == TransportErrorCode::CONNECTION_REFUSED =>
        {
            Ended::Refused
        }
        ConnectionError::ConnectionClosed(_)
        | ConnectionError::ApplicationClosed(_)
        | ConnectionError::LocallyClosed => Ended::Closed,
        ConnectionError::Reset => Ended::Reset,
        ConnectionError::TimedOut => Ended::TimedOut,
        ConnectionError::TransportError(_) | ConnectionError::CidsExhausted => Ended::Broken,
    }
}
