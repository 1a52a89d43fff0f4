//! The flights of a handshake: who sends which, when it is sent again, and when an end stands.
//!
//! A flight is a few datagrams; it has come when all its parts have. Whoever waits for the next flight sends its own again
//! by RFC 9002's timer, doubling. A server whose client's address is not proven sends no more than three times what it
//! received (RFC 9000 §8.1), which here is its flight once for each first flight that came.

use super::{Flight, INITIAL_RTT_NS};

/// Datagrams of a flight, and the length of each.
pub(super) fn parts(flight: Flight) -> (u8, u32) {
    match flight {
        Flight::C1 => (2, 1_200),
        Flight::S1 => (3, 1_200),
        Flight::C2 => (1, 1_200),
        Flight::S2 => (1, 1_400),
    }
}

/// The handshake of one end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handshake {
    /// The flight that is sent until it is answered.
    own: Option<Flight>,
    /// Parts of it that are still to leave, this time.
    to_send: u8,
    /// Parts of the other end's flight that came, as bits.
    got: u8,
    sent_at_ns: u64,
    /// Timeouts so far.
    timeouts: u8,
    /// Times that a server may still send its flight.
    allowed: u8,
}

/// What came of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing that matters.
    None,
    /// The end stands; the round trip where one was seen.
    Stands(Option<u64>),
}

impl Handshake {
    pub(super) fn client() -> Self {
        let mut client = Self::server();
        client.begin(Flight::C1);
        client
    }

    pub(super) fn server() -> Self {
        Self {
            own: None,
            to_send: 0,
            got: 0,
            sent_at_ns: 0,
            timeouts: 0,
            allowed: 0,
        }
    }

    fn begin(&mut self, flight: Flight) {
        self.own = Some(flight);
        self.to_send = parts(flight).0;
        self.timeouts = 0;
        self.got = 0;
    }

    /// A part came at an end that does not stand yet.
    pub(super) fn on_part(&mut self, flight: Flight, part: u8, now_ns: u64) -> Step {
        match (self.own, flight) {
            (None, Flight::C1) => {
                if self.is_whole(flight, part) {
                    self.begin(Flight::S1);
                    self.allowed = 1;
                }
                Step::None
            }
            (Some(Flight::S1), Flight::C1) => {
                // It repeats itself: ours was lost, or is late.
                if part == 0 {
                    self.allowed = self.allowed.saturating_add(1);
                }
                Step::None
            }
            (Some(Flight::C1), Flight::S1) if self.is_whole(flight, part) => self.stands(now_ns),
            (Some(Flight::S1), Flight::C2) if self.is_whole(flight, part) => self.stands(now_ns),
            (_, Flight::C1 | Flight::S1 | Flight::C2 | Flight::S2) => Step::None,
        }
    }

    fn is_whole(&mut self, flight: Flight, part: u8) -> bool {
        self.got |= 1 << part;
        let (parts, _) = parts(flight);
        self.got == (1 << parts) - 1
    }

    fn stands(&self, now_ns: u64) -> Step {
        let rtt = (self.timeouts == 0).then(|| now_ns.saturating_sub(self.sent_at_ns));
        Step::Stands(rtt)
    }

    /// The next part to send.
    pub(super) fn poll(&mut self, now_ns: u64) -> Option<(Flight, u8)> {
        let flight = self.own?;
        if self.to_send == 0 || flight == Flight::S1 && self.allowed == 0 {
            return None;
        }
        self.to_send -= 1;
        if self.to_send == 0 && flight == Flight::S1 {
            self.allowed -= 1;
        }
        self.sent_at_ns = now_ns;
        Some((flight, self.to_send))
    }

    /// When the flight is sent again.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let flight = self.own?;
        if self.to_send > 0 || flight == Flight::S1 && self.allowed == 0 {
            return None;
        }
        let pto = 3 * INITIAL_RTT_NS;
        let wait = pto.saturating_mul(1 << u32::from(self.timeouts).min(20));
        Some(self.sent_at_ns.saturating_add(wait))
    }

    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        if self.poll_timeout().is_some_and(|at| at <= now_ns) {
            self.timeouts = self.timeouts.saturating_add(1);
            self.to_send = self.own.map_or(0, |flight| parts(flight).0);
        }
    }
}
