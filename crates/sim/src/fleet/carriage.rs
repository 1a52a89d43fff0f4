//! The QUIC connection beneath a session: what it adds to the bytes, how it paces them, when it gives up.
//!
//! What an outage costs is partly QUIC's doing: probes with a backoff of its own, handshakes that repeat, an idle time.
//! One value is one connection, both ends of it, so that a fleet holds a hundred thousand of them. The world moves UDP
//! datagrams between the ends, through whatever the way does to them.
//!
//! There are two: `model`, cheap, and a real QUIC under the same virtual time, for truth. A test holds them within a
//! stated tolerance of each other. `open` is the model without a congestion window, beneath what quell is compared with.

pub mod model;
pub mod open;
#[cfg(feature = "quic")]
pub mod quic;

use std::time::Instant;

use quell_core::path::CarrierFacts;

use super::node::Ended;

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Who dialled.
    Client,
    /// Who was dialled.
    Server,
}

impl Side {
    /// The other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What a connection tells the end that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CarriageEvent<U> {
    /// The handshake is done.
    Connected,
    /// A datagram came.
    Datagram(U),
    /// A control message came, in order.
    Control(U),
    /// It is over.
    Closed(Ended),
}

/// What leaves a socket: one UDP datagram.
pub trait UdpDatagram {
    /// Its payload, in bytes.
    fn len_bytes(&self) -> u32;
    /// Whether it belongs to a handshake (a long header).
    fn is_dial(&self) -> bool;
}

/// One connection, both ends.
pub trait Carriage<U> {
    /// What it puts on the wire.
    type Udp: UdpDatagram + Clone;

    /// Hands a datagram of `len_bytes` over; whether it was taken.
    fn send_datagram(&mut self, side: Side, unit: U, len_bytes: u32, now: Instant) -> bool;
    /// Writes a control message of `len_bytes`.
    fn send_control(&mut self, side: Side, unit: U, len_bytes: u32, now: Instant);
    /// What this end can take; `None` while it does not stand.
    fn facts(&self, side: Side) -> Option<CarrierFacts>;
    /// Lets what is handed over leave whatever the congestion window says, or not.
    fn grant(&mut self, side: Side, granted: bool, now: Instant);
    /// Ends it with a word to the peer, at the end that says so.
    fn close(&mut self, side: Side, now: Instant);
    /// This end is gone without a word: its process died.
    fn kill(&mut self, side: Side);
    /// The peer's host said that it knows nothing of this connection.
    fn on_reset(&mut self, side: Side, now: Instant);
    /// A datagram arrived at this end.
    fn handle(&mut self, side: Side, udp: Self::Udp, now: Instant);
    /// The next datagram that leaves this end's socket.
    fn poll_udp(&mut self, side: Side, now: Instant) -> Option<Self::Udp>;
    /// The next thing that this end is told.
    fn poll_event(&mut self, side: Side) -> Option<CarriageEvent<U>>;
    /// When to come back for this end.
    fn poll_timeout(&self, side: Side) -> Option<Instant>;
    /// Does what is due at this end.
    fn handle_timeout(&mut self, side: Side, now: Instant);
    /// The client's first flight once more, as it is sent with the proof that a Retry asked for.
    fn repeat_first(&mut self, now: Instant, flight: &mut Vec<Self::Udp>) {
        let _ = (now, flight);
    }
    /// Whether neither end has anything left to do.
    fn is_over(&self) -> bool;
}

/// What makes connections.
pub trait Carriages<U> {
    /// One of its connections.
    type Carriage: Carriage<U>;

    /// A dial that begins now. `number` is unique in the world.
    fn dial(&mut self, number: u64, now: Instant) -> Self::Carriage;
}
