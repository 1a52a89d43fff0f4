//! The flights of a handshake: who sends which, when it is sent again, and when an end stands.
//!
//! A flight is a few datagrams; it has come when all its parts have. A client sends its first again by RFC 9002's timer,
//! doubling. A server probes by two such timers with one backoff, for what its flight said under either kind of keys: the
//! first kind's is the flight again, the second's (two datagrams of 400 bytes) tells nothing to a client that lacks the
//! first. To a first flight that it had before it says so and no more. A server whose client's address is not proven sends
//! no more than three times what it received (RFC 9000 §8.1).

use super::{Flight, INITIAL_RTT_NS};

/// A probe timeout before a round trip was measured (RFC 9002 §6.2.2): the variance counts four times, and is half of it.
const PTO_NS: u64 = 3 * INITIAL_RTT_NS;
/// Bytes that a server may send for each that it received (RFC 9000 §8.1).
const AMPLIFICATION: u32 = 3;
/// A server's word that it had a datagram before.
const AGAIN_LEN: u16 = 48;
/// Its probe under the second kind of keys.
const PROBE_LEN: u16 = 400;

/// Datagrams of a flight.
pub(super) fn parts(flight: Flight) -> u8 {
    match flight {
        Flight::S1 => 3,
        Flight::C1 | Flight::C2 => 2,
        Flight::S2 | Flight::Again => 1,
    }
}

/// The length of a part of a flight.
pub(super) fn len_bytes(flight: Flight, part: u8) -> u16 {
    match (flight, part) {
        (Flight::S1, 2) => AGAIN_LEN,
        (Flight::C1 | Flight::S1 | Flight::C2, _) => 1_200,
        (Flight::S2, _) => 34,
        (Flight::Again, 0) => AGAIN_LEN,
        (Flight::Again, _) => PROBE_LEN,
    }
}

/// The handshake of one end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handshake {
    /// The flight that is sent until it is answered.
    own: Option<Flight>,
    /// Parts of it that are still to leave, this time.
    to_send: u8,
    /// Probes and answers of a server that are still to leave.
    probes: u8,
    answers: u8,
    /// Parts of the other end's flight that came, as bits.
    got: u8,
    /// When the flight was sent last.
    sent_at_ns: u64,
    /// When a server last sent what it says under the second kind of keys.
    probed_at_ns: u64,
    /// Timeouts so far.
    timeouts: u8,
    /// Bytes that a server may still send.
    allowed: u32,
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
            probes: 0,
            answers: 0,
            got: 0,
            sent_at_ns: 0,
            probed_at_ns: 0,
            timeouts: 0,
            allowed: 0,
        }
    }

    fn begin(&mut self, flight: Flight) {
        self.own = Some(flight);
        self.to_send = parts(flight);
        self.timeouts = 0;
        self.got = 0;
    }

    /// A part came at an end that does not stand yet.
    pub(super) fn on_part(&mut self, flight: Flight, part: u8, now_ns: u64) -> Step {
        if flight == Flight::C1 {
            self.allowed += AMPLIFICATION * u32::from(len_bytes(flight, part));
        }
        match (self.own, flight) {
            (None, Flight::C1) => {
                if self.is_whole(flight, part) {
                    self.begin(Flight::S1);
                    self.probed_at_ns = now_ns;
                }
                Step::None
            }
            (Some(Flight::S1), Flight::C1) => {
                self.answers = self.answers.saturating_add(1);
                Step::None
            }
            (Some(Flight::C1), Flight::S1) if self.is_whole(flight, part) => self.stands(now_ns),
            (Some(Flight::S1), Flight::C2) if self.is_whole(flight, part) => self.stands(now_ns),
            (_, Flight::C1 | Flight::S1 | Flight::C2 | Flight::S2 | Flight::Again) => Step::None,
        }
    }

    /// Whether all parts are there; the word that a server had the first of two datagrams is not waited for.
    fn is_whole(&mut self, flight: Flight, part: u8) -> bool {
        self.got |= 1 << part;
        let needed = parts(flight).min(2);
        let all = (1 << needed) - 1;
        self.got & all == all
    }

    fn stands(&self, now_ns: u64) -> Step {
        let rtt = (self.timeouts == 0).then(|| now_ns.saturating_sub(self.sent_at_ns));
        Step::Stands(rtt)
    }

    fn is_server(&self) -> bool {
        self.own != Some(Flight::C1)
    }

    /// The next part to send.
    pub(super) fn poll(&mut self, now_ns: u64) -> Option<(Flight, u8)> {
        let flight = self.own?;
        let (flight, part) = if self.to_send > 0 {
            (flight, self.to_send - 1)
        } else if self.probes > 0 {
            (Flight::Again, 1)
        } else if self.answers > 0 {
            (Flight::Again, 0)
        } else {
            return None;
        };
        if self.is_server() {
            if self.allowed == 0 {
                return None;
            }
            // What is begun is finished: the last datagram may exceed what is allowed.
            self.allowed = self.allowed.saturating_sub(len_bytes(flight, part).into());
        }
        match (flight, part) {
            (Flight::Again, 0) => self.answers -= 1,
            (Flight::Again, _) => self.probes -= 1,
            (Flight::C1 | Flight::S1 | Flight::C2 | Flight::S2, _) => {
                self.to_send -= 1;
                self.sent_at_ns = now_ns;
            }
        }
        Some((flight, part))
    }

    /// When the flight is sent again, and when a server's probe is.
    fn timers(&self) -> Option<(u64, u64)> {
        self.own?;
        if self.to_send > 0 || self.is_server() && self.allowed == 0 {
            return None;
        }
        let wait = PTO_NS.saturating_mul(1 << u32::from(self.timeouts).min(20));
        let probe = match self.is_server() {
            true => self.probed_at_ns.saturating_add(wait),
            false => u64::MAX,
        };
        Some((self.sent_at_ns.saturating_add(wait), probe))
    }

    /// When to come back.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.timers().map(|(flight, probe)| flight.min(probe))
    }

    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        let Some((flight, probe)) = self.timers() else {
            return;
        };
        if flight.min(probe) > now_ns {
            return;
        }
        self.timeouts = self.timeouts.saturating_add(1);
        if flight <= probe {
            // The last part of a server's says that it had the client's first datagram, once.
            self.to_send = self.own.map_or(0, |flight| parts(flight).min(2));
        } else {
            self.probes = 2;
            self.probed_at_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sent(handshake: &mut Handshake, now_ns: u64) -> Vec<u16> {
        let parts = std::iter::from_fn(|| handshake.poll(now_ns));
        parts
            .map(|(flight, part)| len_bytes(flight, part))
            .collect()
    }

    /// Times in milliseconds and what left then, through the first so many timeouts.
    fn timeouts(handshake: &mut Handshake, count: usize) -> Vec<(u64, Vec<u16>)> {
        let mut out = Vec::new();
        while out.len() < count
            && let Some(at) = handshake.poll_timeout()
        {
            handshake.handle_timeout(at);
            out.push((at / MS, sent(handshake, at)));
        }
        out
    }

    fn greeted() -> Handshake {
        let mut server = Handshake::server();
        assert_eq!(server.on_part(Flight::C1, 1, 0), Step::None);
        assert!(sent(&mut server, 0).is_empty(), "half a greeting");
        assert_eq!(server.on_part(Flight::C1, 0, 0), Step::None);
        server
    }

    #[test]
    fn a_dial_repeats_at_1_3_7_and_15_probe_timeouts() {
        let mut client = Handshake::client();
        assert_eq!(sent(&mut client, 0), [1_200, 1_200]);
        let again = vec![1_200, 1_200];
        let expected = [900, 2_700, 6_300, 13_500].map(|at| (at, again.clone()));
        assert_eq!(timeouts(&mut client, 4), expected);
    }

    #[test]
    fn a_server_probes_by_two_timers_within_three_times_what_it_heard() {
        let mut server = greeted();
        assert_eq!(sent(&mut server, 0), [AGAIN_LEN, 1_200, 1_200]);
        let expected = [
            (900, vec![1_200, 1_200]),
            (1_800, vec![400, 400]),
            // 7,200 are allowed, and the datagram that passes them is whole.
            (4_500, vec![1_200, 1_200]),
        ];
        assert_eq!(timeouts(&mut server, 4), expected);
        assert_eq!(server.poll_timeout(), None, "nothing more is allowed");
        server.on_part(Flight::C1, 1, 5_000 * MS);
        assert_eq!(sent(&mut server, 5_000 * MS), [AGAIN_LEN]);
        assert_eq!(server.poll_timeout(), Some(9_000 * MS));
    }

    #[test]
    fn an_end_stands_with_the_whole_flight_and_a_repeated_one_gives_no_round_trip() {
        let mut client = Handshake::client();
        sent(&mut client, 0);
        assert_eq!(client.on_part(Flight::Again, 0, MS), Step::None);
        assert_eq!(client.on_part(Flight::S1, 0, 50 * MS), Step::None);
        let stands = client.on_part(Flight::S1, 1, 50 * MS);
        assert_eq!(stands, Step::Stands(Some(50 * MS)));
        let mut client = Handshake::client();
        sent(&mut client, 0);
        timeouts(&mut client, 1);
        client.on_part(Flight::S1, 0, 950 * MS);
        let stands = client.on_part(Flight::S1, 1, 950 * MS);
        assert_eq!(stands, Step::Stands(None));
        let mut server = greeted();
        sent(&mut server, 0);
        server.on_part(Flight::C2, 1, 50 * MS);
        let stands = server.on_part(Flight::C2, 0, 50 * MS);
        assert_eq!(stands, Step::Stands(Some(50 * MS)));
    }
}
