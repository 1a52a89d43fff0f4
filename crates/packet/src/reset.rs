//! TCP resets that a tunnel end sends in place of one end of a connection.
//!
//! A connection whose way is gone is best ended at once: what waits in vain for an answer waits for minutes. Two cases:
//!
//! - [`tcp_reset`] speaks unasked, so it must know the numbers. A reset is believed where its sequence is what its
//!   receiver expects next; anywhere else in the window it draws an acknowledgement that names the right one (RFC 5961
//!   §3.2), which is a segment to be answered. A receiver that has only sent its SYN believes the acknowledgement of
//!   that SYN instead (RFC 9293 §3.10.7.3), so a reset towards one that may be in either state carries both.
//! - [`tcp_reset_for`] answers a segment of a connection that is not there, as a host does (RFC 9293 §3.10.7.1), with
//!   numbers out of that segment.
//!
//! A reset is never answered, and none is sent to or from what is no single host: such an answer would be one that an
//! attacker has many send.

use crate::build::{self, Segment};
use crate::tcp::flags;
use crate::{FlowKey, IpPacket, TcpView, addr, protocol};

/// The reset of a connection, as a whole IP packet from `flow.source` to `flow.destination`: with RST alone, or with an
/// acknowledgement too.
///
/// `None` where the flow is no TCP, or an end of it is no single host's address or of the other family.
#[must_use]
pub fn tcp_reset(flow: &FlowKey, sequence: u32, acknowledgement: Option<u32>) -> Option<Vec<u8>> {
    let is_sent = flow.protocol == protocol::TCP
        && flow.source.is_ipv4() == flow.destination.is_ipv4()
        && addr::is_host(flow.source)
        && addr::is_host(flow.destination);
    if !is_sent {
        return None;
    }
    let segment = Segment {
        sequence,
        acknowledgement: acknowledgement.unwrap_or(0),
        flags: match acknowledgement {
            Some(_) => flags::RST | flags::ACK,
            None => flags::RST,
        },
        ..Segment::default()
    };
    let source = (flow.source, flow.source_port).into();
    let destination = (flow.destination, flow.destination_port).into();
    Some(build::tcp(source, destination, &segment, &[]))
}

/// The reset that a host without such a connection answers a segment with (RFC 9293 §3.10.7.1): its sequence is what the
/// segment acknowledges; where it acknowledges nothing, the sequence is 0 and the whole segment is acknowledged.
///
/// `None` where the packet is no TCP, a fragment (its end is elsewhere), a reset itself, or not to be answered.
#[must_use]
pub fn tcp_reset_for(ip: &IpPacket<'_>) -> Option<Vec<u8>> {
    if ip.protocol() != protocol::TCP || ip.is_fragment() {
        return None;
    }
    let tcp = TcpView::parse(ip.payload()).ok()?;
    if tcp.is_rst() {
        return None;
    }
    let (sequence, acknowledgement) = if tcp.is_ack() {
        (tcp.acknowledgement(), None)
    } else {
        (0, Some(tcp.sequence_end()))
    };
    tcp_reset(&FlowKey::of(ip).reversed(), sequence, acknowledgement)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::IpAddr;

    use super::*;
    use crate::build::Header;
    use crate::{Ipv4View, checksum};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn flow(source: &str, destination: &str) -> FlowKey {
        FlowKey {
            source: ip(source),
            destination: ip(destination),
            protocol: protocol::TCP,
            source_port: 4_000,
            destination_port: 443,
        }
    }

    fn flows() -> [FlowKey; 2] {
        [
            flow("10.0.0.1", "192.0.2.9"),
            flow("fd00::1", "2001:db8::9"),
        ]
    }

    #[track_caller]
    fn is_reset(packet: &[u8], of: &FlowKey, sequence: u32, acknowledgement: Option<u32>) {
        let ip = IpPacket::parse(packet).unwrap();
        assert_eq!(FlowKey::of(&ip), *of);
        assert_eq!(checksum::upper_layer_valid(&ip), Some(true));
        if let Ok(view) = Ipv4View::parse(packet) {
            assert!(view.header_checksum_valid());
        }
        let tcp = TcpView::parse(ip.payload()).unwrap();
        let said = tcp.is_ack().then_some(tcp.acknowledgement());
        assert!(tcp.is_rst() && tcp.payload().is_empty());
        assert_eq!((tcp.sequence(), said), (sequence, acknowledgement));
    }

    #[test]
    fn a_reset_carries_the_numbers_it_is_given() {
        for flow in flows() {
            is_reset(&tcp_reset(&flow, 7, None).unwrap(), &flow, 7, None);
            let both = tcp_reset(&flow, 7, Some(9)).unwrap();
            is_reset(&both, &flow, 7, Some(9));
            let back = flow.reversed();
            is_reset(&tcp_reset(&back, 1, None).unwrap(), &back, 1, None);
        }
    }

    #[test]
    fn only_two_hosts_of_one_family_have_a_tcp_to_reset() {
        let [v4, v6] = flows();
        let udp = FlowKey {
            protocol: protocol::UDP,
            ..v4
        };
        let mixed = FlowKey {
            destination: v6.destination,
            ..v4
        };
        for flow in [
            udp,
            mixed,
            flow("10.0.0.1", "224.0.0.1"),
            flow("0.0.0.0", "192.0.2.9"),
            flow("fd00::1", "ff02::1"),
        ] {
            assert_eq!(tcp_reset(&flow, 1, None), None, "{flow:?}");
        }
    }

    /// RFC 9293 §3.10.7.1, both halves.
    #[test]
    fn the_answer_takes_its_numbers_from_the_segment() {
        const SYN: u8 = flags::SYN;
        const ACK: u8 = flags::ACK;
        const FIN: u8 = flags::FIN;
        for flow in flows() {
            let header = Header::new(flow.source, flow.destination);
            let answer = |bits, data: &[u8]| {
                let segment = Segment {
                    sequence: u32::MAX - 1,
                    acknowledgement: 77,
                    flags: bits,
                    ..Segment::default()
                };
                let packet = header.tcp(4_000, 443, &segment, data);
                tcp_reset_for(&IpPacket::parse(&packet).unwrap())
            };
            let back = flow.reversed();
            for bits in [ACK, ACK | FIN, SYN | ACK, ACK | flags::PSH] {
                is_reset(&answer(bits, b"data").unwrap(), &back, 77, None);
            }
            for (bits, data, end) in [
                (SYN, &b""[..], u32::MAX),
                (0, b"", u32::MAX - 1),
                (FIN, b"data", 3),
                (SYN | FIN, b"data", 4),
            ] {
                is_reset(&answer(bits, data).unwrap(), &back, 0, Some(end));
            }
            // A reset is never answered, so that two ends do not go on for ever.
            assert_eq!(answer(flags::RST, b""), None);
            assert_eq!(answer(flags::RST | ACK, b""), None);
        }
    }

    #[test]
    fn what_is_no_whole_segment_of_two_hosts_draws_no_answer() {
        let [v4, _] = flows();
        let header = Header::new(v4.source, v4.destination);
        let segment = Segment::default();
        for packet in [
            header.udp(4_000, 443, b"data"),
            header.packet(protocol::TCP, &[0; 19]),
            Header {
                more_fragments: true,
                ..header
            }
            .tcp(4_000, 443, &segment, b"data"),
            Header {
                fragment_offset: 8,
                ..header
            }
            .tcp(4_000, 443, &segment, b"data"),
            Header::new(ip("255.255.255.255"), v4.destination).tcp(4_000, 443, &segment, b""),
        ] {
            assert_eq!(tcp_reset_for(&IpPacket::parse(&packet).unwrap()), None);
        }
    }
}
