//! The body of the fuzz target `offload`: what must hold for any virtio header, any super-packet and any batch.
//!
//! An input is read twice. As a super-packet: ten bytes of virtio header, and the packet. As a batch: packets, each
//! behind two bytes of length; since random packets are never alike, each is followed by as many heirs as the top bits of
//! its length say, which go on where it ends, with right checksums.
//!
//! A broken invariant panics here, which is meant.

use super::coalesce::PACKETS_MAX;
use super::{
    Allowed, Coalescer, Gso, MergedHeader, Split, TCP_CHECKSUM_AT, TCP_SEQUENCE_AT,
    UDP_CHECKSUM_AT, VirtioHeader, put, split, virtio, word,
};
use crate::{IpPacket, Ipv4View, PacketError, TcpView, checksum, ipv4, protocol};

/// Segments of one input that are looked at.
const SEGMENTS_MAX: usize = 256;

/// Asserts the invariants of both directions over `data`.
///
/// # Panics
/// When an invariant is broken.
pub fn offload(data: &[u8]) {
    if let Some((header, packet)) = data.split_first_chunk::<{ virtio::HEADER_BYTES }>() {
        taken_apart(header, packet);
    }
    let allowed = Allowed {
        tcp: true,
        udp: true,
    };
    let packets = batch(data);
    merged(&packets, allowed);
    merged(&packets, Allowed::default());
}

fn taken_apart(header: &[u8; virtio::HEADER_BYTES], packet: &[u8]) {
    let Ok(header) = VirtioHeader::decode(header) else {
        return;
    };
    assert_eq!(VirtioHeader::decode(&header.encode()), Ok(header));
    let mut copy = packet.to_vec();
    let completed = split::complete(&header, &mut copy);
    assert_eq!(copy.len(), packet.len());
    assert!(completed.is_ok() || copy == packet);
    segments(&header, packet, SEGMENTS_MAX, |_| {});
    // The same with fields that agree with the packet, so that what is behind their checks is reached.
    if let Some(header) = agreed(&header, packet) {
        segments(&header, packet, SEGMENTS_MAX, |_| {});
    }
}

/// A header that speaks of the packet that is there.
fn agreed(header: &VirtioHeader, packet: &[u8]) -> Option<VirtioHeader> {
    let ip = IpPacket::parse(packet).ok()?;
    let (gso, checksum_at) = match (ip.protocol(), &ip) {
        (protocol::TCP, IpPacket::V4(_)) => (Gso::TcpV4, TCP_CHECKSUM_AT),
        (protocol::TCP, IpPacket::V6(_)) => (Gso::TcpV6, TCP_CHECKSUM_AT),
        (protocol::UDP, _) => (Gso::Udp, UDP_CHECKSUM_AT),
        _ => return None,
    };
    Some(VirtioHeader {
        gso,
        checksum_start: ip.header_len() as u16,
        checksum_offset: checksum_at as u16,
        ..*header
    })
}

/// Splits, and holds each segment to what a segment is.
///
/// # Panics
/// When an invariant is broken.
pub fn segments(
    header: &VirtioHeader,
    packet: &[u8],
    segments_max: usize,
    mut seen: impl FnMut(&[u8]),
) {
    let mut copy = packet.to_vec();
    let mut split = match Split::new(header, packet) {
        Ok(split) => split,
        Err(error) => return assert!(!error.reason().is_empty()),
    };
    let (count, mut payload) = (split.segments(), Vec::new());
    let mut taken = 0;
    while taken < segments_max
        && let Some((head, body)) = split.next(&mut copy)
    {
        taken += 1;
        let segment = [head, body].concat();
        payload.extend_from_slice(body);
        assert!(body.len() <= usize::from(header.gso_size) && segment.len() <= packet.len());
        let ip = IpPacket::parse(&segment).unwrap_or_else(|error| panic!("a segment: {error}"));
        if !header.needs_checksum {
            assert_ne!(checksum::upper_layer_valid(&ip), Some(false));
        }
        if let IpPacket::V4(view) = ip {
            assert!(view.header_checksum_valid());
        }
        seen(&segment);
    }
    assert!(packet.ends_with(&payload) || taken == segments_max);
    assert_eq!(taken, count.min(segments_max));
}

/// Merges a batch and takes it apart again.
///
/// # Panics
/// When a packet is lost, doubled or changed, or overtakes one of its flow.
pub fn merged(packets: &[Vec<u8>], allowed: Allowed) {
    let mut coalescer = Coalescer::new();
    let mut places = Vec::new();
    for run in coalescer.plan(packets, allowed) {
        places.extend(run.places());
        let Some(header) = MergedHeader::of(run, packets) else {
            assert_eq!(run.count(), 1);
            continue;
        };
        let mut whole = header.bytes().to_vec();
        let mut expected = Vec::new();
        for place in run.places() {
            let packet = packets.get(place).map_or(&[][..], |packet| packet);
            whole.extend_from_slice(packet.get(run.header_len()..).unwrap_or_default());
            expected.push(packet.to_vec());
        }
        assert_eq!(taken_back(&whole), Ok(renumbered(expected)));
    }
    let ordered = |flow: &[u8]| {
        let of_flow = places
            .iter()
            .filter(|place| flow_of(packets, **place) == flow);
        of_flow.is_sorted()
    };
    assert!((0..packets.len()).all(|place| ordered(&flow_of(packets, place))));
    places.sort_unstable();
    assert!(places.into_iter().eq(0..packets.len().min(PACKETS_MAX)));
}

/// The packets that a virtio header and a super-packet make.
fn taken_back(whole: &[u8]) -> Result<Vec<Vec<u8>>, PacketError> {
    let (header, packet) = whole.split_first_chunk().ok_or(PacketError::Truncated)?;
    let header = VirtioHeader::decode(header)?;
    let mut packet = packet.to_vec();
    let mut split = Split::new(&header, &packet)?;
    let mut packets = Vec::new();
    while let Some((head, body)) = split.next(&mut packet) {
        packets.push([head, body].concat());
    }
    Ok(packets)
}

/// The packets with the identifications that a split gives those with DF: one more each.
fn renumbered(mut packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let first = packets.first().map_or(0, |packet| word(packet, 4));
    for (packet, n) in packets.iter_mut().zip(0_u16..) {
        let atomic = Ipv4View::parse(packet).is_ok_and(|view| view.dont_fragment());
        if atomic {
            let (old, new) = (word(packet, 4), first.wrapping_add(n));
            let sum = checksum::update(word(packet, 10), old, new);
            put(packet, 4, new.to_be_bytes());
            put(packet, 10, sum.to_be_bytes());
        }
    }
    packets
}

/// What names a flow, as far as it can be told from bare headers.
fn flow_of(packets: &[Vec<u8>], place: usize) -> Vec<u8> {
    let packet = packets.get(place).map_or(&[][..], |packet| packet);
    IpPacket::parse(packet).map_or_else(
        |_| Vec::new(),
        |ip| format!("{:?}", crate::FlowKey::of(&ip)).into_bytes(),
    )
}

fn batch(mut data: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while packets.len() < PACKETS_MAX + 2
        && let Some((length, rest)) = data.split_first_chunk()
    {
        let length = u16::from_be_bytes(*length);
        let (packet, rest) = rest
            .split_at_checked(usize::from(length & 0x07ff))
            .unwrap_or((rest, &[]));
        packets.push(packet.to_vec());
        for n in 1..=length >> 11 {
            packets.push(heir(packet, n));
        }
        data = rest;
    }
    packets
}

/// The packet that follows `n` places behind this one, if this is TCP or UDP; else the same again.
fn heir(packet: &[u8], n: u16) -> Vec<u8> {
    let mut heir = packet.to_vec();
    let Ok(ip) = IpPacket::parse(packet) else {
        return heir;
    };
    let (at, number) = (ip.header_len(), ip.protocol());
    if matches!(ip, IpPacket::V4(_)) {
        put(&mut heir, 4, word(packet, 4).wrapping_add(n).to_be_bytes());
        put(&mut heir, 10, [0, 0]);
        let sum = checksum::internet(
            heir.get(..at.min(ipv4::HEADER_BYTES_MAX))
                .unwrap_or_default(),
        );
        put(&mut heir, 10, sum.to_be_bytes());
    }
    let field = match number {
        protocol::TCP => TCP_CHECKSUM_AT,
        protocol::UDP => UDP_CHECKSUM_AT,
        _ => return heir,
    };
    if let (protocol::TCP, Ok(tcp)) = (number, TcpView::parse(ip.payload())) {
        let further = u32::from(n).wrapping_mul(tcp.payload().len() as u32);
        let sequence = tcp.sequence().wrapping_add(further);
        put(&mut heir, at + TCP_SEQUENCE_AT, sequence.to_be_bytes());
    }
    put(&mut heir, at + field, [0, 0]);
    let covered = heir.get(at..).unwrap_or_default();
    let pseudo = checksum::pseudo(ip.source(), ip.destination(), number, covered.len() as u16);
    let sum = pseudo.bytes(covered).finish();
    put(&mut heir, at + field, sum.to_be_bytes());
    heir
}
