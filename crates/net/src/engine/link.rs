//! One QUIC connection as an engine sees it: events in, orders out.
//!
//! The control stream is written by a small task of its own, so that a peer that
//! does not read its control stream never blocks the packets beside it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::multi::Loss;
use quell_core::path::{CarrierFacts, Violation};
use quell_wire::registry::ErrorCode;
use quinn_proto::VarInt;
use tokio::sync::mpsc;
use tracing::debug;

use crate::carrier::{Carrier, QuicReport};
use crate::quic::{Connection, Over, RecvStream, SendStream};
use crate::socket::SocketWatch;
use crate::words;

/// Control messages that may wait for the stream. A peer that lets this fill
/// reads nothing; the session then ends.
const CONTROL_MESSAGES_MAX: usize = 64;
/// Bytes of the control stream taken at a time.
const CONTROL_CHUNK_MAX: usize = 16 * 1024;

/// How long after the last datagram the connection is looked at, and how often.
///
/// Path MTU discovery and the detection of a path that shrank take some round
/// trips after traffic stopped, and tell nobody. An idle connection costs
/// nothing: the looks end.
const SETTLE_TIME: Duration = Duration::from_secs(3);
const SETTLE_STEP: Duration = Duration::from_millis(50);

/// When to look at what the connection can take, though nothing happened.
#[derive(Debug, Default)]
pub(super) struct Settling {
    until: Option<Instant>,
}

impl Settling {
    pub(super) fn on_sent(&mut self, now: Instant) {
        self.until = now.checked_add(SETTLE_TIME);
    }

    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)?;
        now.checked_add(SETTLE_STEP)
    }
}

/// What happened on a connection.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// Datagrams lie in the buffer that was handed in.
    Datagrams,
    /// Bytes of the control stream.
    Control(Bytes),
    /// The peer ended its control stream.
    ControlEnded,
    /// Something left the socket: there may be room, and what left has its time.
    Departed,
    /// The connection is over, with the reason in words.
    Closed(Loss),
}

pub(super) struct Link {
    carrier: Carrier,
    control_in: RecvStream,
    control_out: mpsc::Sender<Bytes>,
    watch: SocketWatch,
}

impl Link {
    /// A link over `connection`, whose control stream is open. Must be called
    /// within a `LocalSet`.
    pub(super) fn new(
        connection: Connection,
        control: (SendStream, RecvStream),
        watch: SocketWatch,
    ) -> Self {
        let (send, control_in) = control;
        let (control_out, messages) = mpsc::channel(CONTROL_MESSAGES_MAX);
        tokio::task::spawn_local(write_control(send, messages));
        Self {
            carrier: Carrier::new(connection),
            control_in,
            control_out,
            watch,
        }
    }

    /// Waits for the next event; departures only where they are `awaited`. Datagrams are
    /// appended to `datagrams`. Cancelling it loses nothing.
    pub(super) async fn event(&mut self, datagrams: &mut Vec<Bytes>, awaited: bool) -> LinkEvent {
        tokio::select! {
            received = self.carrier.receive(datagrams) => match received {
                Ok(()) => LinkEvent::Datagrams,
                Err(error) => LinkEvent::Closed(words::loss(&error)),
            },
            chunk = self.control_in.read_chunk(CONTROL_CHUNK_MAX) => match chunk {
                Ok(Some(bytes)) => LinkEvent::Control(bytes),
                Ok(None) => LinkEvent::ControlEnded,
                Err(Over) => match self.carrier.connection().close_reason() {
                    Some(reason) => LinkEvent::Closed(words::loss(&reason)),
                    None => LinkEvent::ControlEnded,
                },
            },
            () = self.watch.departed(), if awaited => LinkEvent::Departed,
        }
    }

    /// What the connection can take.
    pub(super) fn facts(&self) -> Option<CarrierFacts> {
        self.carrier.facts()
    }

    /// Lets what is handed over leave whatever the congestion window says, or not.
    pub(super) fn grant(&self, granted: bool, now: Instant) {
        self.carrier.grant(granted, now);
    }

    /// What QUIC says of its path.
    pub(super) fn report(&self) -> QuicReport {
        self.carrier.report()
    }

    /// Hands a datagram over; whether QUIC took it.
    pub(super) fn send_datagram(&self, datagram: Bytes) -> bool {
        let taken = self.carrier.send(datagram);
        if !taken {
            debug!("QUIC refused a datagram: the path shrank or the connection is over");
        }
        taken
    }

    /// Lets what was handed over leave.
    pub(super) fn flush(&self) {
        self.carrier.flush();
    }

    /// Writes a control message, or ends a connection whose peer reads none.
    pub(super) fn send_control(&self, message: Bytes) {
        if self.control_out.try_send(message).is_err() {
            self.close(&Violation {
                code: ErrorCode::Internal,
                words: "the control stream is not read".to_owned(),
            });
        }
    }

    pub(super) fn close(&self, violation: &Violation) {
        close(self.carrier.connection(), violation);
    }
}

/// Closes `connection` by name.
pub(super) fn close(connection: &Connection, violation: &Violation) {
    let code = VarInt::from_u64(violation.code.code()).unwrap_or_default();
    connection.close(code, violation.words.as_bytes());
}

async fn write_control(mut stream: SendStream, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        if stream.write_chunk(message).await.is_err() {
            return;
        }
    }
}
