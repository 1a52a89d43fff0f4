//! The link between one flow's TCP and the tunnel: smoltcp's view of a queue of packets and of the outbox.
//!
//! Checksums are not smoltcp's work. Those of incoming packets were verified by the router, and those of outgoing ones are
//! summed here, by `quell_packet`'s vectorised sum.
//!
//! smoltcp's segments are as long as the flow's MTU at its start. When a path shrinks later, the tunnel says so with a
//! "packet too big", and longer segments are cut in two or more on their way out: the sequence numbers go on, and FIN
//! and PSH move to the last piece. The far TCP cannot tell.

use std::collections::VecDeque;

use bytes::Bytes;
use quell_packet::{IpPacket, TcpView, checksum, protocol};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use super::super::books::{Books, Event};
use super::super::outbox::Outbox;

/// A flow's queue and the way out, for one turn.
pub(super) struct Link<'a> {
    /// Packets from the client, in order.
    pub(super) inbox: &'a mut VecDeque<Bytes>,
    pub(super) outbox: &'a Outbox,
    pub(super) books: &'a Books,
    /// The longest packet smoltcp may make, in bytes; the same for the flow's whole life.
    pub(super) mtu: usize,
    /// The longest packet that the path takes, in bytes.
    pub(super) path_mtu: usize,
}

pub(super) struct In(Bytes);

pub(super) struct Out<'a> {
    outbox: &'a Outbox,
    books: &'a Books,
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
        self.outbox.has_room().then(|| self.out())
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
            books: self.books,
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
        let mut write = Some(write);
        let fits = len <= self.path_mtu;
        let written = if fits {
            self.outbox.write(len, |packet| {
                let result = write.take().map(|write| write(packet));
                seal(packet);
                result
            })
        } else {
            None
        };
        if let Some(Some(result)) = written {
            return result;
        }
        // Too long for the path, or no room for an answer: smoltcp has to write it all the same.
        let mut packet = vec![0; len];
        let Some(write) = write else {
            unreachable!("the outbox calls back when it says so");
        };
        let result = write(&mut packet);
        if fits || !self.send_in_pieces(&packet) {
            self.books.note(Event::AnswerDropped);
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
            let sent = self.outbox.write(headers + piece.len(), |buffer| {
                let (head, body) = buffer.split_at_mut(headers);
                head.copy_from_slice(packet.get(..headers).unwrap_or_default());
                body.copy_from_slice(piece);
                let sequence = tcp.sequence().wrapping_add((index * room) as u32);
                set_piece(head, ip.header_len(), sequence, index + 1 == pieces);
                set_length(buffer);
                seal(buffer);
            });
            if sent.is_none() {
                return false;
            }
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
