//! What is remembered of a TCP connection: as much as a reset has to say.
//!
//! No window, no state machine of RFC 9293: the two ends have those. A reset towards the user is believed where its
//! sequence is what the user expects next (RFC 5961 §3.2), and the user says that number in each of its own
//! acknowledgements; one towards the destination, where its sequence is what the user sends next. Both are a few
//! segments old at worst: who gets a reset beside the mark answers with an acknowledgement that names it.
//!
//! ```text
//! opening SYN ──→ opening ──either end acknowledges──→ established ──FIN both ways, or RST──→ closing
//!                                                           ↑            a segment of the user's │
//!                                                           └────── after an RST that was not believed ─┘
//! ```

use quell_packet::TcpView;

const ESTABLISHED: u8 = 1;
const FIN_OUT: u8 = 2;
const FIN_IN: u8 = 4;
const RST: u8 = 8;
/// `send_next` was heard.
const SENT: u8 = 16;
/// `first_next` was heard.
const OPENED: u8 = 32;
/// `receive_next` was heard.
const ACKED: u8 = 64;

/// The track of one TCP connection; of another protocol it stays empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpTrack {
    receive_next: u32,
    send_next: u32,
    first_next: u32,
    bits: u8,
}

impl TcpTrack {
    /// The track of a connection of whose opening only the number after the SYN's own is known.
    pub(super) fn opened(first_next: Option<u32>) -> Self {
        let bits = if first_next.is_some() {
            OPENED | SENT
        } else {
            0
        };
        let next = first_next.unwrap_or_default();
        Self {
            receive_next: 0,
            send_next: next,
            first_next: next,
            bits,
        }
    }

    /// A segment of the user's.
    pub(super) fn on_outward(&mut self, tcp: &TcpView<'_>) {
        let next = tcp.sequence_end();
        if tcp.is_opening() {
            self.bits |= OPENED;
            self.first_next = tcp.sequence().wrapping_add(1);
        }
        if !self.has(SENT) || is_after(next, self.send_next) {
            self.send_next = next;
            self.bits |= SENT;
        }
        if tcp.is_ack() {
            self.receive_next = tcp.acknowledgement();
            self.bits |= ACKED | ESTABLISHED;
        }
        if tcp.is_fin() {
            self.bits |= FIN_OUT;
        }
        if tcp.is_rst() {
            self.bits |= RST;
        } else {
            // Its TCP goes on, so the reset that came was beside the mark.
            self.bits &= !RST;
        }
    }

    /// A segment for the user.
    pub(super) fn on_inward(&mut self, tcp: &TcpView<'_>) {
        if tcp.is_rst() {
            self.bits |= RST;
            return;
        }
        if tcp.is_ack() {
            self.bits |= ESTABLISHED;
        }
        if tcp.is_fin() {
            self.bits |= FIN_IN;
        }
        // Until the user acknowledges, the number that it will acknowledge.
        if tcp.is_syn() && !self.has(ACKED) {
            self.receive_next = tcp.sequence().wrapping_add(1);
        }
    }

    const fn has(self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    /// Either end acknowledged something: both know of the connection.
    #[must_use]
    pub const fn is_established(self) -> bool {
        self.has(ESTABLISHED)
    }

    /// The user has finished sending.
    #[must_use]
    pub const fn is_fin_out(self) -> bool {
        self.has(FIN_OUT)
    }

    /// The destination has finished sending.
    #[must_use]
    pub const fn is_fin_in(self) -> bool {
        self.has(FIN_IN)
    }

    /// One end was reset, as far as was seen since.
    #[must_use]
    pub const fn is_rst(self) -> bool {
        self.has(RST)
    }

    /// Nothing is to come but what is under way.
    #[must_use]
    pub const fn is_closing(self) -> bool {
        self.has(RST) || self.has(FIN_OUT) && self.has(FIN_IN)
    }

    /// What the user expects next: the sequence of a reset towards it (RFC 5961 §3.2). 0 while nothing was heard.
    #[must_use]
    pub const fn receive_next(self) -> u32 {
        self.receive_next
    }

    /// The end of what the user sent: the sequence of a reset towards the destination. `None` while it sent nothing.
    #[must_use]
    pub fn send_next(self) -> Option<u32> {
        self.has(SENT).then_some(self.send_next)
    }

    /// The number after that of the user's last opening SYN: the sequence of a reset towards a destination that has had
    /// nothing but that SYN. `None` where the opening was not seen.
    #[must_use]
    pub fn first_sequence(self) -> Option<u32> {
        self.has(OPENED).then_some(self.first_next)
    }
}

/// Serial number arithmetic (RFC 1982): whether `one` is ahead of `other` by less than half of all numbers.
const fn is_after(one: u32, other: u32) -> bool {
    let ahead = one.wrapping_sub(other);
    ahead != 0 && ahead < 1 << 31
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use quell_packet::IpPacket;
    use quell_packet::build::{Segment, tcp};
    use quell_packet::tcp::flags;

    use super::*;

    fn segment(flags: u8, sequence: u32, acknowledgement: u32, data: &[u8]) -> Vec<u8> {
        let segment = Segment {
            flags,
            sequence,
            acknowledgement,
            ..Segment::default()
        };
        let (user, world) = ("10.0.0.2:4000".parse(), "192.0.2.1:443".parse());
        tcp(user.unwrap(), world.unwrap(), &segment, data)
    }

    /// Segments as (outward, flags, sequence, acknowledgement, payload bytes).
    fn tracked(segments: &[(bool, u8, u32, u32, usize)]) -> TcpTrack {
        let mut track = TcpTrack::default();
        for &(outward, flags, sequence, acknowledgement, bytes) in segments {
            let packet = segment(flags, sequence, acknowledgement, &vec![0; bytes]);
            let ip = IpPacket::parse(&packet).unwrap();
            let tcp = TcpView::parse(ip.payload()).unwrap();
            if outward {
                track.on_outward(&tcp);
            } else {
                track.on_inward(&tcp);
            }
        }
        track
    }

    const SYN: u8 = flags::SYN;
    const ACK: u8 = flags::ACK;
    const FIN: u8 = flags::FIN;

    #[test]
    fn a_connection_from_syn_to_last_acknowledgement() {
        let whole = [
            (true, SYN, 100, 0, 0),
            (false, SYN | ACK, 900, 101, 0),
            (true, ACK, 101, 901, 0),
            (true, ACK, 101, 901, 50),
            (false, ACK, 901, 151, 30),
            (true, FIN | ACK, 151, 931, 0),
            (false, FIN | ACK, 931, 152, 0),
            (true, ACK, 152, 932, 0),
        ];
        // established, closing, receive_next, send_next
        let expected = [
            (false, false, 0, 101),
            (true, false, 901, 101),
            (true, false, 901, 101),
            (true, false, 901, 151),
            (true, false, 901, 151),
            (true, false, 931, 152),
            (true, true, 931, 152),
            (true, true, 932, 152),
        ];
        for (count, expected) in (1..).zip(expected) {
            let track = tracked(&whole[..count]);
            let (receive, send) = (track.receive_next(), track.send_next().unwrap());
            let states = (track.is_established(), track.is_closing());
            assert_eq!((states.0, states.1, receive, send), expected, "{count}");
            assert_eq!(track.first_sequence(), Some(101));
        }
    }

    #[test]
    fn a_resent_segment_takes_nothing_back_and_numbers_wrap() {
        let first = (true, ACK, u32::MAX - 9, 1, 30);
        let track = tracked(&[first, (true, ACK, u32::MAX - 9, 1, 10)]);
        assert_eq!(track.send_next(), Some(20));
        assert_eq!(track.first_sequence(), None);
        assert!(!is_after(5, 5) && is_after(5 + (1 << 31) - 1, 5) && !is_after(5 + (1 << 31), 5));
    }

    #[test]
    fn a_reset_after_which_the_user_goes_on_was_none() {
        let rst = (false, flags::RST, 5, 0, 0);
        let track = tracked(&[(true, ACK, 1, 1, 0), rst]);
        assert!(track.is_rst() && track.is_closing());
        let track = tracked(&[(true, ACK, 1, 1, 0), rst, (true, ACK, 1, 1, 5)]);
        assert!(!track.is_rst() && !track.is_closing());
        let track = tracked(&[(true, ACK, 1, 1, 0), rst, (true, flags::RST, 1, 1, 0)]);
        assert!(track.is_closing());
    }

    #[test]
    fn one_side_that_finished_does_not_close() {
        assert!(!tracked(&[(true, FIN | ACK, 1, 1, 0)]).is_closing());
        assert!(!tracked(&[(false, FIN | ACK, 1, 1, 0)]).is_closing());
    }

    #[test]
    fn a_refusal_does_not_establish() {
        let refused = [(true, SYN, 1, 0, 0), (false, flags::RST | ACK, 0, 2, 0)];
        assert!(!tracked(&refused).is_established());
    }
}
