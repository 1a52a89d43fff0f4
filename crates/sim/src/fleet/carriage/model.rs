//! A QUIC connection that a fleet can afford: a few hundred bytes, no cryptography, the same habits.
//!
//! ```text
//! client: C1 (2 × 1,200) ─▶                    repeated after 1, 3, 7, 15 × PTO, until the dial is given up
//! server:       ◀─ S1 (2 × 1,200, 48)          ClientHello and ServerHello with shares of X25519MLKEM768
//! client: C2 (2 × 1,200) ─▶                    Finished: the client's end stands
//! server:                 ◀─ S2 (34)           HANDSHAKE_DONE: the server's end stands
//! ```
//!
//! Then, at each end: a first-in first-out queue of datagrams, a congestion window (slow start, growth by a datagram a round
//! trip, cut to seven tenths once a round trip with losses, to two datagrams after a persistent one), acknowledgements of
//! more than 10 packets that ask for one or after 25 ms, with whatever leaves, or at once for a gap or a probe; losses by the
//! third packet behind or an eighth more than a round trip, probes by RFC 9002's timer, which doubles without a ceiling; a
//! search for the path's size, one probe a round trip from the handshake on; control messages in order and repeated until
//! they are acknowledged; an idle timer of RFC 9000 §10.1.
//!
//! A real QUIC is held beside it by a test of the driver's crate (`tests/carriages`), within the tolerances stated there.
//!
//! Not modelled: pacing, a path that carries less than 1,452 bytes, the floor under the window, a change of keys, and the
//! closing period: an end that closed says nothing more, and what the other end still sends draws a reset from its host.
//!
//! Invariants: a datagram is delivered once or lost; control messages come once, in order; what an end holds is bounded by
//! what it was handed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quell_core::path::CarrierFacts;

use super::{Carriage, CarriageEvent, Carriages, Side, UdpDatagram};
use crate::fleet::node::Ended;

mod end;
mod handshake;
#[cfg(test)]
mod tests;

use end::End;

/// What a UDP payload has besides the largest datagram in it: header, connection ID, packet number, frame and seal.
const DATAGRAM_OVERHEAD: u16 = 38;
/// UDP payloads that every path carries, and those that are tried one after the other: halves of what remains below
/// 1,452, then that itself (the product's transport settings).
const SIZES: [u16; 5] = [1_200, 1_326, 1_389, 1_420, 1_452];
/// Losses of one of them after which the search is over.
const SIZE_LOSSES_MAX: u8 = 3;
/// A round trip before one was measured (the product's transport settings).
const INITIAL_RTT_NS: u64 = 300_000_000;
/// RFC 9002 §7.2: ten datagrams.
const INITIAL_CWND: u32 = 12_000;
/// RFC 9002 §7.2: two datagrams.
const CWND_MIN: u32 = 2_904;
/// Silence after which an end gives up (the product's transport settings).
const IDLE_NS: u64 = 75_000_000_000;
/// Longest delay of an acknowledgement, and packets that may wait for one (the product's transport settings).
const ACK_DELAY_NS: u64 = 25_000_000;
const ACK_AFTER: u8 = 10;
/// First byte, connection ID of 8, packet number of 1, seal of 16.
const HEADER_LEN: u32 = 26;
/// Type and length of a DATAGRAM frame; of a STREAM frame; a PING; an ACK frame that counts ECN, and what one
/// has more whose delay needs four bytes instead of two.
const DATAGRAM_FRAME_LEN: u32 = 3;
const STREAM_FRAME_LEN: u32 = 6;
const PING_LEN: u32 = 1;
const ACK_LEN: u32 = 10;
const LATE_LEN: u32 = 2;
/// Longest delay of two bytes: 14 bits of 8 µs.
const ACK_DELAY_SHORT_US: u32 = 131_071;
/// Header protection takes a sample of so many bytes: what is less is padded.
const PACKET_LEN_MIN: u32 = 30;
const CLOSE_LEN: u32 = 40;

/// An acknowledgement: the largest packet that came, and which of the 64 before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ack {
    largest: u32,
    /// Bit n: `largest − 1 − n` came.
    before: u64,
    delay_us: u32,
}

#[derive(Debug, Clone)]
enum Body<U> {
    /// An acknowledgement alone.
    None,
    Ping,
    Datagram(U),
    /// Several that waited and went together.
    Datagrams(Vec<U>),
    /// The number in the stream, the message, its length.
    Control(u32, Box<U>),
    Handshake {
        flight: Flight,
        part: u8,
    },
    Close,
}

/// A flight of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flight {
    /// ClientHello.
    C1,
    /// ServerHello to Finished.
    S1,
    /// The client's Finished.
    C2,
    /// HANDSHAKE_DONE.
    S2,
    /// What a server says to a first flight that it had before, and what it probes with: no help to a client.
    Again,
}

/// One UDP datagram of the model.
#[derive(Debug, Clone)]
pub struct Udp<U> {
    len_bytes: u32,
    number: u32,
    ack: Option<Ack>,
    /// It asks for an acknowledgement at once.
    urgent: bool,
    body: Body<U>,
}

impl<U> UdpDatagram for Udp<U> {
    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    fn is_dial(&self) -> bool {
        matches!(self.body, Body::Handshake { .. })
    }
}

/// One connection.
#[derive(Debug)]
pub struct Model<U> {
    origin: Instant,
    client: End<U>,
    server: End<U>,
}

/// Makes connections of the model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Models;

impl<U: Clone> Carriages<U> for Models {
    type Carriage = Model<U>;

    fn dial(&mut self, _number: u64, now: Instant) -> Model<U> {
        Model {
            origin: now,
            client: End::client(),
            server: End::server(),
        }
    }
}

impl<U> Model<U> {
    /// One that never holds a datagram back, nor watches over one that left: see [`super::open`].
    pub(super) fn unheld(now: Instant) -> Self {
        let mut model = Self {
            origin: now,
            client: End::client(),
            server: End::server(),
        };
        (model.client.unheld, model.server.unheld) = (true, true);
        model
    }

    fn end(&mut self, side: Side) -> &mut End<U> {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn end_ref(&self, side: Side) -> &End<U> {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    fn ns(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.origin);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl<U: Clone> Carriage<U> for Model<U> {
    type Udp = Udp<U>;

    fn send_datagram(&mut self, side: Side, unit: U, len_bytes: u32, _now: Instant) -> bool {
        let end = self.end(side);
        if !end.stands() || len_bytes as usize > end.datagram_len_max() {
            return false;
        }
        end.queue_datagram(unit, len_bytes);
        true
    }

    fn send_control(&mut self, side: Side, unit: U, len_bytes: u32, _now: Instant) {
        self.end(side).queue_control(unit, len_bytes);
    }

    fn facts(&self, side: Side) -> Option<CarrierFacts> {
        let end = self.end_ref(side);
        end.stands().then(|| CarrierFacts {
            datagram_len_max: end.datagram_len_max(),
            backlog_bytes: end.backlog_bytes() as usize,
            cwnd_bytes: u64::from(end.cwnd()),
            rtt: Duration::from_nanos(end.rtt_ns()),
        })
    }

    fn grant(&mut self, side: Side, granted: bool, _now: Instant) {
        self.end(side).granted = granted;
    }

    fn close(&mut self, side: Side, _now: Instant) {
        self.end(side).close();
    }

    fn kill(&mut self, side: Side) {
        self.end(side).kill();
    }

    fn on_reset(&mut self, side: Side, _now: Instant) {
        self.end(side).over(Ended::Reset);
    }

    fn handle(&mut self, side: Side, udp: Udp<U>, now: Instant) {
        let now_ns = self.ns(now);
        self.end(side).handle(udp, now_ns);
    }

    fn poll_udp(&mut self, side: Side, now: Instant) -> Option<Udp<U>> {
        let now_ns = self.ns(now);
        self.end(side).poll_udp(now_ns)
    }

    fn poll_event(&mut self, side: Side) -> Option<CarriageEvent<U>> {
        self.end(side).events.pop_front()
    }

    fn poll_timeout(&self, side: Side) -> Option<Instant> {
        let at_ns = self.end_ref(side).poll_timeout()?;
        self.origin.checked_add(Duration::from_nanos(at_ns))
    }

    fn handle_timeout(&mut self, side: Side, now: Instant) {
        let now_ns = self.ns(now);
        self.end(side).handle_timeout(now_ns);
    }

    fn repeat_first(&mut self, _now: Instant, flight: &mut Vec<Udp<U>>) {
        flight.extend(end::first_flight());
    }

    fn is_over(&self) -> bool {
        self.client.is_over() && self.server.is_over()
    }
}

fn event_queue<U>() -> VecDeque<CarriageEvent<U>> {
    VecDeque::new()
}
