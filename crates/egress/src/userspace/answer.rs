//! What a client is told when its packet goes nowhere: a reset, or an ICMP error.
//!
//! One answer for one packet, none longer than the packet's quotation allows, and none to what must not be answered
//! (`quell_packet` decides that); so nothing is amplified, and all of it goes back over the tunnel to the client that
//! asked for it. An ICMP error comes in the destination's name: the egress has no address of its own inside the tunnel.

use quell_packet::icmp::{self, Unreachable};
use quell_packet::{IpPacket, reset};

use super::books::{Books, Event};
use super::outbox::Outbox;

/// Answers a segment with a reset, as a host without that connection does (RFC 9293 §3.10.7.1).
pub(super) fn reset(ip: &IpPacket<'_>, outbox: &Outbox, books: &Books) {
    if let Some(answer) = reset::tcp_reset_for(ip) {
        send(&answer, outbox, books);
    }
}

/// Says why a packet goes nowhere.
pub(super) fn unreachable(ip: &IpPacket<'_>, why: Unreachable, outbox: &Outbox, books: &Books) {
    if let Some(answer) = icmp::unreachable(ip.bytes(), why, ip.destination()) {
        send(&answer, outbox, books);
    }
}

fn send(answer: &[u8], outbox: &Outbox, books: &Books) {
    books.note(if outbox.push(answer) {
        Event::AnswerSent
    } else {
        Event::AnswerDropped
    });
}
