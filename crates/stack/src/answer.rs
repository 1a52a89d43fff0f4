//! What the sender of a packet that goes nowhere is told: a reset, or an ICMP error.
//!
//! One answer for one packet, none longer than the packet's quotation allows, and none to what must not be answered
//! (`quell_packet` decides that); so nothing is amplified, and all of it goes back over the tunnel it came
//! from. An ICMP error comes in the destination's name: an egress has no address of its own inside the tunnel.

use quell_packet::icmp::{self, Unreachable};
use quell_packet::{IpPacket, reset};

use crate::outbox::Outbox;

/// Answers a segment with a reset, as a host without that connection does (RFC 9293 §3.10.7.1).
pub fn reset(ip: &IpPacket<'_>, outbox: &Outbox) {
    if let Some(answer) = reset::tcp_reset_for(ip) {
        send(&answer, outbox);
    }
}

/// Says why a packet goes nowhere.
pub fn unreachable(ip: &IpPacket<'_>, why: Unreachable, outbox: &Outbox) {
    if let Some(answer) = icmp::unreachable(ip.bytes(), why, ip.destination()) {
        send(&answer, outbox);
    }
}

fn send(answer: &[u8], outbox: &Outbox) {
    outbox.ledger().answered(outbox.push(answer));
}
