//! Which packets of a batch may travel to the kernel as one.
//!
//! A *run* is packets of one flow that differ in nothing but what a split would write again (see [`super::split`]), so
//! the kernel can tell the super-packet from the packets only by its speed:
//!
//! - the same addresses, ports, TTL, traffic class (so ECN codepoints never mix, case B56), DF, flow label; in TCP the same
//!   acknowledgement, window, options (timestamps too), and flags: ACK, or ACK and ECE;
//! - payloads in sequence and of one size; a shorter one, and in TCP one with PSH, is the last;
//! - without DF, IPv4 identifications in sequence; with DF they mean nothing (RFC 6864 §4.1);
//! - checksums that are right, the IPv4 header's too: a merged packet gets new ones, and damage must stay visible.
//!
//! Packets with IPv4 options, IPv6 extension headers or in fragments are never merged, nor is what opens or closes a
//! connection: they are rare.
//!
//! # Order
//!
//! Runs come out in the order of their first packets. A packet that cannot join the open run of its flow closes it and
//! begins the next, so within a flow nothing overtakes. A packet whose flow cannot be told (ICMP, fragments) closes
//! every run. Up to [`OPEN_RUNS_MAX`] flows may interleave; a ninth closes the run that was opened first.
//!
//! # Cost
//!
//! Checksums are verified when a second packet would join, not before: a packet that travels alone costs a look at its
//! header. Nothing is allocated after the first batch, and no payload is copied.

use crate::checksum::{self, Sum};
use crate::ipv4::HEADER_BYTES_MIN as V4_BYTES;
use crate::ipv6::HEADER_BYTES as V6_BYTES;
use crate::offload::{TCP_CHECKSUM_AT, TCP_FLAGS_AT, TCP_SEQUENCE_AT, word};
use crate::tcp::flags;
use crate::{PACKET_BYTES_MAX, protocol, tcp, udp};

/// Packets that are looked at together, and so the most that one run holds: a full super-packet of TCP is 45 packets of
/// 1,448 bytes, and the kernel splits UDP into at most 64 (`UDP_MAX_SEGMENTS` before Linux 6.9).
pub const PACKETS_MAX: usize = 64;
/// Flows that may interleave.
pub const OPEN_RUNS_MAX: usize = 8;

/// Which super-packets the kernel takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// TCP over either family.
    pub tcp: bool,
    /// UDP over either family.
    pub udp: bool,
}

/// Packets that travel as one: by their places in the batch, in order.
#[derive(Debug, Clone)]
pub struct Run {
    places: [u8; PACKETS_MAX],
    count: u8,
    shape: Shape,
    /// Payload bytes so far.
    payload_len: usize,
    is_open: bool,
    is_verified: bool,
}

impl Run {
    /// The places of its packets in the batch, at least one.
    pub fn places(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        let count = usize::from(self.count);
        self.places
            .iter()
            .take(count)
            .map(|place| usize::from(*place))
    }

    /// The number of its packets.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// TCP segments, else UDP datagrams; of a run of at least two.
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        self.shape.is_tcp
    }

    /// Bytes of the headers before each payload.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.shape.header_len()
    }

    pub(crate) const fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) const fn payload_len(&self) -> usize {
        self.payload_len
    }
}

/// What a packet is, as far as merging is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) is_v4: bool,
    pub(crate) is_tcp: bool,
    pub(crate) upper_len: usize,
    /// Payload bytes of the packet; of a run, those of its first.
    pub(crate) size: usize,
    /// It could be merged with its like.
    is_mergeable: bool,
    /// The packet whose flow is unknown: it is nobody's like.
    is_foreign: bool,
}

impl Shape {
    const FOREIGN: Self = Self {
        is_v4: false,
        is_tcp: false,
        upper_len: 0,
        size: 0,
        is_mergeable: false,
        is_foreign: true,
    };

    pub(crate) const fn ip_len(&self) -> usize {
        if self.is_v4 { V4_BYTES } else { V6_BYTES }
    }

    pub(crate) const fn header_len(&self) -> usize {
        self.ip_len() + self.upper_len
    }

    /// Looks at the headers alone.
    fn of(packet: &[u8], allowed: Allowed) -> Self {
        let Some((is_v4, number)) = network(packet) else {
            return Self::FOREIGN;
        };
        let ip_len = if is_v4 { V4_BYTES } else { V6_BYTES };
        let upper = packet.get(ip_len..).unwrap_or_default();
        let is_tcp = number == protocol::TCP;
        let upper_len = match upper.get(12) {
            _ if !is_tcp => udp::HEADER_BYTES,
            Some(offset) => usize::from(offset >> 4) * 4,
            None => 0,
        };
        let fixed_len = if is_tcp {
            tcp::HEADER_BYTES_MIN
        } else {
            udp::HEADER_BYTES
        };
        let Some(size) = upper.len().checked_sub(upper_len.max(fixed_len)) else {
            return Self::FOREIGN;
        };
        let is_mergeable = if is_tcp {
            let flags = upper.get(TCP_FLAGS_AT).copied().unwrap_or_default();
            allowed.tcp
                && upper_len >= fixed_len
                && flags & !(flags::PSH | flags::ECE) == flags::ACK
        } else {
            allowed.udp && usize::from(word(upper, 4)) == upper.len() && word(upper, 6) != 0
        };
        Self {
            is_v4,
            is_tcp,
            upper_len,
            size,
            is_mergeable: is_mergeable && size > 0,
            is_foreign: false,
        }
    }

    /// The bytes that name the flow: addresses and ports.
    fn flow<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        let range = if self.is_v4 { 12..24 } else { 8..44 };
        packet.get(range).unwrap_or_default()
    }
}

/// Finds the runs of a batch. Keeps its memory from batch to batch.
#[derive(Debug, Default)]
pub struct Coalescer {
    runs: Vec<Run>,
}

impl Coalescer {
    /// Without memory yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// Sorts at most [`PACKETS_MAX`] packets into runs; those beyond are not looked at. Each packet is in exactly one run.
    pub fn plan<P: AsRef<[u8]>>(&mut self, packets: &[P], allowed: Allowed) -> &[Run] {
        self.runs.clear();
        for place in 0..packets.len().min(PACKETS_MAX) {
            self.add(packets, place, allowed);
        }
        &self.runs
    }

    fn add<P: AsRef<[u8]>>(&mut self, packets: &[P], place: usize, allowed: Allowed) {
        let packet = at(packets, place);
        let shape = Shape::of(packet, allowed);
        if shape.is_foreign {
            self.open_runs().for_each(|run| run.is_open = false);
        } else if let Some(run) = self
            .open_runs()
            .find(|run| run.is_of(packets, packet, &shape))
        {
            if shape.is_mergeable && run.takes(packets, packet, &shape) {
                return run.push(place, packet, &shape);
            }
            run.is_open = false;
        }
        if shape.is_mergeable && self.open_runs().count() >= OPEN_RUNS_MAX {
            self.open_runs().take(1).for_each(|run| run.is_open = false);
        }
        self.runs.push(Run::new(place, packet, shape));
    }

    fn open_runs(&mut self) -> impl Iterator<Item = &mut Run> {
        self.runs.iter_mut().filter(|run| run.is_open)
    }
}

impl Run {
    fn new(place: usize, packet: &[u8], shape: Shape) -> Self {
        let mut places = [0; PACKETS_MAX];
        if let Some(first) = places.first_mut() {
            *first = place as u8;
        }
        Self {
            places,
            count: 1,
            shape,
            payload_len: shape.size,
            is_open: shape.is_mergeable && !pushes(packet, &shape),
            is_verified: false,
        }
    }

    fn first<'p, P: AsRef<[u8]>>(&self, packets: &'p [P]) -> &'p [u8] {
        self.places().next().map_or(&[], |place| at(packets, place))
    }

    /// Whether the packet is of the same flow.
    fn is_of<P: AsRef<[u8]>>(&self, packets: &[P], packet: &[u8], shape: &Shape) -> bool {
        (self.shape.is_v4, self.shape.is_tcp) == (shape.is_v4, shape.is_tcp)
            && shape.flow(self.first(packets)) == shape.flow(packet)
    }

    /// Whether the packet is the next of the run. Asked with one of the same flow.
    fn takes<P: AsRef<[u8]>>(&mut self, packets: &[P], packet: &[u8], shape: &Shape) -> bool {
        let first = self.first(packets);
        let total = self.header_len() + self.payload_len + shape.size;
        let fits = self.count() < PACKETS_MAX
            && total <= PACKET_BYTES_MAX
            && shape.size <= self.shape.size
            && shape.upper_len == self.shape.upper_len;
        if !fits || !self.continues(first, packet) || !is_alike(first, packet, shape) {
            return false;
        }
        if !self.is_verified && !is_right(first, &self.shape) {
            return false;
        }
        self.is_verified = true;
        is_right(packet, shape)
    }

    /// Whether the numbers go on where the run ends.
    fn continues(&self, first: &[u8], packet: &[u8]) -> bool {
        let ip_len = self.shape.ip_len();
        let has_id = self.shape.is_v4 && first.get(6).is_some_and(|byte| byte & 0x40 == 0);
        let id = word(first, 4).wrapping_add(u16::from(self.count));
        if has_id && id != word(packet, 4) {
            return false;
        }
        let sequence = |packet: &[u8]| {
            let field = packet.get(ip_len + TCP_SEQUENCE_AT..)?.first_chunk()?;
            Some(u32::from_be_bytes(*field))
        };
        let next = sequence(first).map(|first| first.wrapping_add(self.payload_len as u32));
        !self.shape.is_tcp || next == sequence(packet)
    }

    fn push(&mut self, place: usize, packet: &[u8], shape: &Shape) {
        if let Some(next) = self.places.get_mut(usize::from(self.count)) {
            *next = place as u8;
            self.count += 1;
            self.payload_len += shape.size;
        }
        self.is_open = shape.size == self.shape.size && !pushes(packet, shape);
    }
}

fn at<P: AsRef<[u8]>>(packets: &[P], place: usize) -> &[u8] {
    packets.get(place).map_or(&[], AsRef::as_ref)
}

/// The family and the upper layer of a whole packet with bare headers, when the upper layer has ports.
fn network(packet: &[u8]) -> Option<(bool, u8)> {
    let length = usize::from(word(packet, if packet.first()? >> 4 == 4 { 2 } else { 4 }));
    let (is_v4, number) = match packet.first()? {
        // The reserved bit, MF and the offset.
        0x45 if length == packet.len() && word(packet, 6) & 0xbfff == 0 => (true, packet.get(9)?),
        0x60..=0x6f if length + V6_BYTES == packet.len() => (false, packet.get(6)?),
        _ => return None,
    };
    matches!(*number, protocol::TCP | protocol::UDP).then_some((is_v4, *number))
}

fn pushes(packet: &[u8], shape: &Shape) -> bool {
    let at = shape.ip_len() + TCP_FLAGS_AT;
    shape.is_tcp && packet.get(at).is_some_and(|byte| byte & flags::PSH != 0)
}

/// Whether two packets of one flow and shape agree in every byte that a split copies.
fn is_alike(one: &[u8], other: &[u8], shape: &Shape) -> bool {
    let same = |from: usize, to: usize| matches!((one.get(from..to), other.get(from..to)), (Some(one), Some(other)) if one == other);
    let at = shape.ip_len();
    let network = if shape.is_v4 {
        // All but total length, identification and checksum; the addresses are the flow's.
        same(0, 2) && same(6, 10)
    } else {
        same(0, 4) && same(6, 8)
    };
    let flags = |packet: &[u8]| packet.get(at + TCP_FLAGS_AT).map(|byte| byte & !flags::PSH);
    let upper = !shape.is_tcp
        || same(at + 8, at + TCP_FLAGS_AT)
            && flags(one) == flags(other)
            && same(at + 14, at + TCP_CHECKSUM_AT)
            && same(at + 18, at + shape.upper_len);
    network && upper
}

/// Whether every checksum is right, and written as its sender would write it: a split computes it anew. The one number
/// with two forms is 0; only UDP writes it as ffff.
fn is_right(packet: &[u8], shape: &Shape) -> bool {
    let header = packet.get(..V4_BYTES).unwrap_or_default();
    if shape.is_v4 && (checksum::internet(header) != 0 || word(header, 10) == 0xffff) {
        return false;
    }
    if shape.is_tcp && word(packet, shape.ip_len() + TCP_CHECKSUM_AT) == 0xffff {
        return false;
    }
    let addresses = if shape.is_v4 {
        12..V4_BYTES
    } else {
        8..V6_BYTES
    };
    let number = if shape.is_tcp {
        protocol::TCP
    } else {
        protocol::UDP
    };
    // Both pseudo headers are addresses, protocol and length; zeros between them add nothing.
    let upper = packet.get(shape.ip_len()..).unwrap_or_default();
    let sum = Sum::new()
        .bytes(packet.get(addresses).unwrap_or_default())
        .word(u16::from(number))
        .word(upper.len() as u16)
        .bytes(upper);
    sum.finish() == 0
}
