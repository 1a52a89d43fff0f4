//! Datagrams from outside, as the packets that a client gets.
//!
//! One that is longer than the tunnel's MTU is cut up: over IPv4 as a router would, over IPv6 as its sender would have
//! (RFC 8200 §4.5). The tunnel would do the one too, but not the other.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};

use quell_packet::build::{self, Header};
use quell_packet::{IcmpView, fragment, protocol};
use quell_stack::Outbox;

thread_local! {
    /// What tells the pieces of one datagram from another's; all of them come from the egress's one thread.
    static IDENTIFICATION: Cell<u32> = const { Cell::new(1) };
}

fn next_identification() -> u32 {
    IDENTIFICATION.with(|last| {
        let next = last.get().wrapping_add(1);
        last.set(next);
        next
    })
}

/// The way to one client.
pub(super) struct Way<'a> {
    pub(super) outbox: &'a Outbox,
    /// The longest packet that it takes, in bytes.
    pub(super) mtu: u16,
}

impl Way<'_> {
    /// Passes a UDP datagram on; whether all of it found room.
    pub(super) fn udp(&self, remote: SocketAddr, client: SocketAddr, bytes: &[u8]) -> bool {
        let header = header(remote.ip(), client.ip());
        self.send(&header, protocol::UDP, |header| {
            header.udp(remote.port(), client.port(), bytes)
        })
    }

    /// Passes an echo reply on, with the identifier that the client chose; whether all of it found room.
    pub(super) fn echo(&self, remote: IpAddr, client: SocketAddr, bytes: &[u8]) -> bool {
        let Ok(message) = IcmpView::parse(bytes) else {
            return false;
        };
        let header = header(remote, client.ip());
        let number = if remote.is_ipv4() {
            protocol::ICMP
        } else {
            protocol::ICMPV6
        };
        let (identifier, sequence) = (
            client.port().to_be_bytes(),
            message.sequence().to_be_bytes(),
        );
        let rest = [identifier[0], identifier[1], sequence[0], sequence[1]];
        self.send(&header, number, |header| {
            header.icmp(message.kind(), message.code(), rest, message.payload())
        })
    }

    fn send(
        &self,
        header: &Header<'_>,
        number: u8,
        build: impl FnOnce(&Header<'_>) -> Vec<u8>,
    ) -> bool {
        let packet = build(header);
        let mtu = self.mtu;
        if packet.len() <= usize::from(mtu) {
            return self.outbox.push(&packet);
        }
        if header.source.is_ipv4() {
            return match fragment::ipv4(&packet, mtu) {
                Ok(mut pieces) => pieces.all(|piece| self.outbox.push(&piece)),
                Err(_) => false,
            };
        }
        v6_pieces(header, number, &packet, mtu).all(|piece| self.outbox.push(&piece))
    }
}

fn header(source: IpAddr, destination: IpAddr) -> Header<'static> {
    Header {
        dont_fragment: false,
        identification: next_identification() as u16,
        ..Header::new(source, destination)
    }
}

/// The fragments of an IPv6 packet without extension headers.
fn v6_pieces(
    header: &Header<'_>,
    number: u8,
    packet: &[u8],
    mtu: u16,
) -> impl Iterator<Item = Vec<u8>> {
    const HEADERS: usize = 40 + 8;
    let (source, destination) = (header.source, header.destination);
    let identification = next_identification().to_be_bytes();
    let room = (usize::from(mtu) - HEADERS) / 8 * 8;
    let upper = packet.get(40..).unwrap_or_default();
    let count = upper.len().div_ceil(room);
    upper.chunks(room).enumerate().map(move |(index, data)| {
        let more = u16::from(index + 1 < count);
        let offset = ((index * room) as u16 | more).to_be_bytes();
        let [i3, i2, i1, i0] = identification;
        let body = [offset[0], offset[1], i3, i2, i1, i0];
        let extensions = [(protocol::FRAGMENT, &body[..])];
        let header = Header {
            extensions: &extensions,
            ..build::Header::new(source, destination)
        };
        header.packet(number, data)
    })
}
