//! The link between one flow's TCP and the tunnel: smoltcp's view of a queue of packets and of the outbox.
//!
//! Checksums are not smoltcp's work. Those of incoming packets were verified ([`judge_upper`](crate::judge_upper)), and those of
//! outgoing ones are summed here, by `quell_packet`'s vectorised sum.
//!
//! smoltcp's segments are as long as the flow's MTU at its start. When a path shrinks later, the tunnel says so with a
//! "packet too big", and longer segments are cut in two or more on their way out: the sequence numbers go on, and FIN
//! and PSH move to the last piece. The far TCP cannot tell.

use std::collections::VecDeque;

use bytes::Bytes;
use quell_packet::{IpPacket, TcpView, checksum, protocol};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::outbox::Outbox;

/// A flow's queue and the way out, for one turn.
pub(crate) struct Link<'a> {
    /// Packets from the tunnel, in order.
    pub(crate) inbox: &'a mut VecDeque<Bytes>,
    pub(crate) outbox: &'a Outbox,
    /// The longest packet smoltcp may make, in bytes; the same for the flow's whole life.
    pub(crate) mtu: usize,
    /// The longest packet that the path takes, in bytes.
    pub(crate) path_mtu: usize,
    /// What is said may take from the reserve.
    pub(crate) is_urgent: bool,
}

pub(crate) struct In(Bytes);

pub(crate) struct Out<'a> {
    outbox: &'a Outbox,
    path_mtu: usize,
}

impl Device for Link<'_> {
    type RxToken<'t>
        = In
    where
        Self: 't;
    type TxToken<'t>
        = Out<'t>
    where
        Self: 't;

    fn receive(&mut self, _: Instant) -> Option<(In, Out<'_>)> {
        let packet = self.inbox.pop_front()?;
        Some((In(packet), self.out()))
    }

    fn transmit(&mut self, _: Instant) -> Option<Out<'_>> {
        (self.is_urgent || self.outbox.has_room()).then(|| self.out())
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum.ipv4 = Checksum::None;
        capabilities.checksum.tcp = Checksum::None;
        capabilities
    }
}

impl Link<'_> {
    fn out(&self) -> Out<'_> {
        Out {
            outbox: self.outbox,
            path_mtu: self.path_mtu,
        }
    }
}

impl RxToken for In {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, handle: F) -> R {
        handle(&self.0)
    }
}

impl TxToken for Out<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let fits = len <= self.path_mtu;
        if let Some(place) = self.outbox.place().filter(|_| fits) {
            return place.write(len, |packet| {
                let result = write(packet);
                seal(packet);
                result
            });
        }
        // Too long for the path, or no room for an answer: smoltcp has to write it all the same.
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        if fits || !self.send_in_pieces(&packet) {
            self.outbox.ledger().answered(false);
        }
        result
    }
}

impl Out<'_> {
    /// Sends a segment that is too long for the path as several; whether all of them found room.
    fn send_in_pieces(&self, packet: &[u8]) -> bool {
        let Ok(ip) = IpPacket::parse(packet) else {
            return false;
        };
        let Ok(tcp) = TcpView::parse(ip.payload()) else {
            return false;
        };
        let headers = ip.header_len() + tcp.header_len();
        let room = self.path_mtu.saturating_sub(headers).max(1);
        let data = packet.get(headers..).unwrap_or_default();
        let pieces = data.len().div_ceil(room);
        for (index, piece) in data.chunks(room).enumerate() {
            let Some(place) = self.outbox.place() else {
                return false;
            };
            place.write(headers + piece.len(), |buffer| {
                let (head, body) = buffer.split_at_mut(headers);
                head.copy_from_slice(packet.get(..headers).unwrap_or_default());
                body.copy_from_slice(piece);
                let sequence = tcp.sequence().wrapping_add((index * room) as u32);
                set_piece(head, ip.header_len(), sequence, index + 1 == pieces);
                set_length(buffer);
                seal(buffer);
            });
        }
        true
    }
}

/// The TCP header of one piece.
fn set_piece(head: &mut [u8], tcp_at: usize, sequence: u32, is_last: bool) {
    const ENDING: u8 = quell_packet::tcp::flags::FIN | quell_packet::tcp::flags::PSH;
    if let Some(field) = head.get_mut(tcp_at + 4..tcp_at + 8) {
        field.copy_from_slice(&sequence.to_be_bytes());
    }
    if let Some(bits) = head.get_mut(tcp_at + 13)
        && !is_last
    {
        *bits &= !ENDING;
    }
}

/// The IP header's length field, for a packet without extension headers.
fn set_length(packet: &mut [u8]) {
    let (at, uncounted) = match packet.first().map(|first| first >> 4) {
        Some(4) => (2, 0),
        _ => (4, 40),
    };
    let length = (packet.len().saturating_sub(uncounted)) as u16;
    if let Some(field) = packet.get_mut(at..at + 2) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}

/// Sums the checksums of a whole packet that smoltcp wrote: no IP options, no extension headers.
fn seal(packet: &mut [u8]) {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let tcp_at = if is_v4 { 20 } else { 40 };
    if is_v4 && let Some(header) = packet.get_mut(..20) {
        write_sum(header, 10, checksum::Sum::new());
    }
    let Ok(ip) = IpPacket::parse(packet) else {
        return;
    };
    let (source, destination) = (ip.source(), ip.destination());
    if let Some(segment) = packet.get_mut(tcp_at..) {
        let length = segment.len() as u16;
        let pseudo = checksum::pseudo(source, destination, protocol::TCP, length);
        write_sum(segment, 16, pseudo);
    }
}

fn write_sum(bytes: &mut [u8], at: usize, start: checksum::Sum) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.fill(0);
    }
    let sum = start.bytes(bytes).finish();
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use quell_packet::build::{self, Segment};
    use quell_packet::tcp::flags;

    use super::*;
    use crate::ledger::Ledger;
    use crate::ledger::testing::Counts;
    use crate::seam;

    /// Sends a segment with 3,000 bytes and FIN over a path of 1,280 bytes.
    fn pieces(addresses: [&str; 2]) -> Vec<Vec<u8>> {
        let ledger: Arc<dyn Ledger> = Arc::new(Counts::default());
        let (_sink, _inlet, mut source, outlet) = seam::pair(&ledger, crossbeam_channel::never());
        let outbox = Outbox::new(outlet, ledger);
        let [from, to] = addresses.map(|address| address.parse().unwrap());
        let segment = Segment {
            sequence: u32::MAX - 1_000,
            acknowledgement: 7,
            flags: flags::ACK | flags::FIN | flags::PSH,
            window: 9,
            options: &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        };
        let data: Vec<u8> = (0..3_000_u32).map(|at| at as u8).collect();
        let packet = build::tcp(from, to, &segment, &data);
        let out = Out {
            outbox: &outbox,
            path_mtu: 1_280,
        };
        out.consume(packet.len(), |buffer| buffer.copy_from_slice(&packet));
        for _ in 0..64 {
            assert!(outbox.push(&[0x45; 20]));
        }
        let mut batch = Vec::new();
        source.read_batch(&mut batch).unwrap();
        batch
            .into_iter()
            .map(|packet| packet.to_vec())
            .filter(|packet| packet.len() > 20)
            .collect()
    }

    #[test]
    fn a_segment_too_long_for_the_path_goes_in_pieces() {
        for addresses in [
            ["192.0.2.1:80", "10.0.0.1:9"],
            ["[fd00::1]:80", "[fd00::2]:9"],
        ] {
            let mut expected = u32::MAX - 1_000;
            let mut data = Vec::new();
            let pieces = pieces(addresses);
            assert_eq!(pieces.len(), 3);
            for (index, piece) in pieces.iter().enumerate() {
                assert!(piece.len() <= 1_280);
                let ip = IpPacket::parse(piece).unwrap();
                assert_eq!(checksum::upper_layer_valid(&ip), Some(true));
                if let IpPacket::V4(view) = ip {
                    assert!(view.header_checksum_valid());
                }
                let tcp = TcpView::parse(ip.payload()).unwrap();
                assert_eq!((tcp.sequence(), tcp.acknowledgement()), (expected, 7));
                assert_eq!(tcp.is_fin(), index == 2);
                assert_eq!(tcp.header_len(), 32, "each has the options");
                let bytes = &ip.payload()[32..];
                data.extend_from_slice(bytes);
                expected = expected.wrapping_add(bytes.len() as u32);
            }
            assert!(data == (0..3_000_u32).map(|at| at as u8).collect::<Vec<_>>());
        }
    }
}
