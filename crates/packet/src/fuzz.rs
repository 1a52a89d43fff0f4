//! The body of the fuzz target `packets`: what must hold for any bytes at all.
//!
//! It is a library function, so that the same assertions run under the fuzzer (`fuzz/fuzz_targets/packets.rs`), over
//! the kept corpus in every test run (`tests/corpus.rs`), and over generated packets. A broken invariant panics here,
//! which is the one place in the crate where that is meant.
//!
//! Random bytes rarely have a length field that is right, so each input is looked at twice: as it is, and with its
//! length fields and checksums repaired, which lets everything behind the first check be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::icmp::{self, Unreachable};
use crate::{
    Ecn, FlowKey, IcmpView, IpPacket, Ipv4View, Ipv6View, PACKET_BYTES_MAX, PacketError, Prefix,
    TcpView, UdpView, addr, checksum, ecn, fragment, ipv4, ipv6, mss, protocol, translate,
};

/// An address of which no packet knows.
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));

/// Another one of either family.
fn stranger(v4: bool) -> IpAddr {
    if v4 {
        IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77))
    } else {
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 77))
    }
}

/// Asserts the invariants of every parser and writer of the crate over `data`.
///
/// # Panics
/// When an invariant is broken.
pub fn packets(data: &[u8]) {
    prefix(data);
    let data = data
        .get(..PACKET_BYTES_MAX + ipv6::HEADER_BYTES)
        .unwrap_or(data);
    let mtu = data
        .last_chunk()
        .map_or(ipv6::MTU_MIN, |tail| u16::from_be_bytes(*tail));
    packet(data, mtu);
    packet(&repaired(data), mtu);
}

/// One packet, or what is none.
fn packet(data: &[u8], mtu: u16) {
    quoted(data);
    match IpPacket::parse(data) {
        Ok(ip) => {
            views(&ip, data);
            upper_layers(&ip);
            clamped(&ip, mtu);
            marked(&ip);
            translated(&ip);
            answered(&ip, mtu);
            fragmented(&ip, mtu);
        }
        Err(error) => refused(data, mtu, error),
    }
}

/// Bytes that are no packet are left alone and answered by nothing.
fn refused(data: &[u8], mtu: u16, error: PacketError) {
    assert!(!error.reason().is_empty());
    let mut copy = data.to_vec();
    assert!(!mss::wants_clamp(data, mtu) && !mss::clamp(&mut copy, mtu));
    assert!(!ecn::set(&mut copy, Ecn::Ce) && !ecn::mark_ce(&mut copy));
    for rewrite in [translate::rewrite_source, translate::rewrite_destination] {
        assert_eq!(rewrite(&mut copy, PEER, stranger(true)), Err(error));
    }
    assert_eq!(copy, data);
    assert_eq!(fragment::ipv4(data, mtu).err(), Some(error));
    for from in [
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::from_bits(0xfd << 120 | 1)),
    ] {
        assert_eq!(icmp::too_big(data, mtu, from), None);
        assert_eq!(icmp::unreachable(data, Unreachable::Host, from), None);
    }
}

fn views(ip: &IpPacket<'_>, data: &[u8]) {
    assert_eq!(ip.bytes(), data);
    assert_eq!(ip.len(), data.len());
    assert_eq!(ip.header_len() + ip.payload().len(), ip.len());
    assert!(ip.dscp() < 64 && ip.ecn().bits() < 4);
    assert_eq!(ip.fragment_offset() % 8, 0);
    assert_eq!(
        ip.is_fragment(),
        ip.more_fragments() || ip.fragment_offset() > 0
    );
    let key = FlowKey::of(ip);
    assert_eq!(key.reversed().reversed(), key);
    if ip.fragment_offset() > 0 {
        assert_eq!(key, key.without_ports());
        assert!(!icmp::is_error(ip));
    }
    let quoted = icmp::quoted_flow(ip);
    assert!(quoted.is_none() || icmp::is_error(ip));
    let again = match ip {
        IpPacket::V4(view) => {
            assert!((ipv4::HEADER_BYTES_MIN..=ipv4::HEADER_BYTES_MAX).contains(&view.header_len()));
            assert_eq!(view.header().len(), view.header_len());
            assert!(view.options().count() <= ipv4::HEADER_BYTES_MAX - ipv4::HEADER_BYTES_MIN);
            Ipv4View::parse(data).map(IpPacket::V4)
        }
        IpPacket::V6(view) => {
            assert_eq!(
                view.extensions().len() + ipv6::HEADER_BYTES,
                view.header_len()
            );
            Ipv6View::parse(data).map(IpPacket::V6)
        }
    };
    assert_eq!(again, Ok(*ip));
}

/// A quotation cut short is a part of what a whole one says.
fn quoted(data: &[u8]) {
    let Ok(ip) = IpPacket::parse_quoted(data) else {
        assert!(IpPacket::parse(data).is_err());
        return;
    };
    assert!(ip.len() <= data.len() && ip.header_len() <= ip.len());
    if let Ok(whole) = IpPacket::parse(data) {
        assert_eq!(whole, ip);
    }
}

fn upper_layers(ip: &IpPacket<'_>) {
    let bytes = ip.payload();
    if let Ok(tcp) = TcpView::parse(bytes) {
        assert_eq!(tcp.header_len() + tcp.payload().len(), bytes.len());
        assert!(tcp.options().count() <= 40);
        assert!(tcp.mss_options().all(|(_, at)| at + 2 <= tcp.header_len()));
    }
    if let Ok(udp) = UdpView::parse(bytes) {
        assert_eq!(usize::from(udp.length()), 8 + udp.payload().len());
    }
    if let Ok(message) = IcmpView::parse(bytes) {
        assert_eq!(message.payload().len() + icmp::HEADER_BYTES, bytes.len());
    }
    assert_eq!(
        checksum::internet(bytes),
        checksum::Sum::new().bytes(bytes).finish()
    );
}

/// Clamping lowers, keeps a right checksum right, and is done after once.
fn clamped(ip: &IpPacket<'_>, mtu: u16) {
    let mut copy = ip.bytes().to_vec();
    let wanted = mss::wants_clamp(&copy, mtu);
    assert_eq!(mss::clamp(&mut copy, mtu), wanted);
    assert_eq!(copy != ip.bytes(), wanted);
    assert!(!mss::wants_clamp(&copy, mtu));
    if !wanted {
        return;
    }
    let Ok(after) = IpPacket::parse(&copy) else {
        panic!("clamping broke the packet")
    };
    assert_eq!(
        checksum::upper_layer_valid(&after),
        checksum::upper_layer_valid(ip)
    );
    let (Ok(before), Ok(after)) = (
        TcpView::parse(ip.payload()),
        TcpView::parse(after.payload()),
    ) else {
        panic!("only TCP is clamped");
    };
    assert!(
        before
            .mss_options()
            .zip(after.mss_options())
            .all(|(old, new)| new.0 <= old.0 && new.1 == old.1)
    );
    assert_eq!(
        (before.sequence(), before.flags()),
        (after.sequence(), after.flags())
    );
}

fn marked(ip: &IpPacket<'_>) {
    for mark in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
        let mut copy = ip.bytes().to_vec();
        assert!(ecn::set(&mut copy, mark));
        let Ok(after) = IpPacket::parse(&copy) else {
            panic!("marking broke the packet")
        };
        assert_eq!(
            (after.ecn(), after.dscp(), FlowKey::of(&after)),
            (mark, ip.dscp(), FlowKey::of(ip))
        );
        if let (IpPacket::V4(before), IpPacket::V4(after)) = (ip, after) {
            assert_eq!(
                before.header_checksum_valid(),
                after.header_checksum_valid()
            );
        }
    }
}

/// Another address on either side, the same validity, and a way back.
fn translated(ip: &IpPacket<'_>) {
    let (key, to) = (FlowKey::of(ip), stranger(ip.source().is_ipv4()));
    let renamed = FlowKey { source: to, ..key };
    renamed_to(ip, translate::rewrite_source, (key.source, to), renamed);
    let renamed = FlowKey {
        destination: to,
        ..key
    };
    let rewrite = translate::rewrite_destination;
    renamed_to(ip, rewrite, (key.destination, to), renamed);
}

fn renamed_to(
    ip: &IpPacket<'_>,
    rewrite: fn(&mut [u8], IpAddr, IpAddr) -> Result<bool, PacketError>,
    (own, to): (IpAddr, IpAddr),
    expected: FlowKey,
) {
    let mut there = ip.bytes().to_vec();
    assert_eq!(rewrite(&mut there, own, to), Ok(own != to));
    let Ok(after) = IpPacket::parse(&there) else {
        panic!("translating broke the packet")
    };
    assert_eq!(FlowKey::of(&after), expected);
    let valid = checksum::upper_layer_valid;
    assert_eq!(valid(&after), valid(ip));
    if let (IpPacket::V4(before), IpPacket::V4(after)) = (ip, after) {
        assert_eq!(
            before.header_checksum_valid(),
            after.header_checksum_valid()
        );
    }
    // Once translated, every checksum has the one form that its sender would have given it.
    let mut again = there.clone();
    assert_eq!(rewrite(&mut again, to, own), Ok(own != to));
    assert_eq!(rewrite(&mut again, own, to), Ok(own != to));
    assert_eq!(again, there);
}

/// What we answer is small, valid, goes to the sender, quotes the packet, and is never answered itself.
fn answered(ip: &IpPacket<'_>, mtu: u16) {
    let from = match ip {
        IpPacket::V4(_) => IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        IpPacket::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(0xfd << 120 | 1)),
    };
    let too_big = icmp::too_big(ip.bytes(), mtu, from);
    assert!(too_big.is_none() || ip.len() > usize::from(mtu));
    let others = [
        Unreachable::AdminProhibited,
        Unreachable::Host,
        Unreachable::Port,
    ];
    let others = others.map(|why| icmp::unreachable(ip.bytes(), why, from));
    for answer in others.iter().chain([&too_big]).flatten() {
        let Ok(error) = IpPacket::parse(answer) else {
            panic!("an answer that is no packet")
        };
        assert!(
            answer.len()
                <= if from.is_ipv4() {
                    576
                } else {
                    usize::from(ipv6::MTU_MIN)
                }
        );
        assert_eq!((error.source(), error.destination()), (from, ip.source()));
        assert!(addr::is_host(error.destination()) && !icmp::is_error(ip));
        assert_eq!(checksum::upper_layer_valid(&error), Some(true));
        if let IpPacket::V4(view) = error {
            assert!(view.header_checksum_valid());
        }
        let quotation = error
            .payload()
            .get(icmp::HEADER_BYTES..)
            .unwrap_or_default();
        assert!(ip.bytes().starts_with(quotation));
        assert!(icmp::is_error(&error));
        assert_eq!(
            icmp::unreachable(answer, Unreachable::Host, ip.source()),
            None
        );
    }
}

/// The pieces of a packet are packets, fit, and make up its payload.
fn fragmented(ip: &IpPacket<'_>, mtu: u16) {
    let Ok(pieces) = fragment::ipv4(ip.bytes(), mtu) else {
        return;
    };
    let mut offset = usize::from(ip.fragment_offset());
    let mut payload = Vec::new();
    let mut more = true;
    for piece in pieces {
        assert!(more || ip.more_fragments(), "a piece behind the last");
        assert!(piece.len() <= usize::from(mtu));
        let Ok(view) = Ipv4View::parse(&piece) else {
            panic!("a piece that is no packet")
        };
        assert_eq!(usize::from(view.fragment_offset()), offset);
        assert_eq!(
            (IpAddr::V4(view.source()), view.protocol(), view.ttl()),
            (ip.source(), ip.protocol(), ip.ttl())
        );
        assert!(piece.len() == ip.len() || view.header_checksum_valid());
        offset += view.payload().len();
        payload.extend_from_slice(view.payload());
        more = view.more_fragments();
    }
    assert_eq!(more, ip.more_fragments());
    assert_eq!(payload, ip.payload());
}

/// A prefix that is understood is written as it was understood.
fn prefix(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data.get(..64).unwrap_or(data)) else {
        return;
    };
    if let Ok(prefix) = text.parse::<Prefix>() {
        assert_eq!(prefix.to_string().parse(), Ok(prefix));
        assert!(prefix.contains(prefix.addr()) && prefix.nth(0) == Some(prefix.addr()));
        assert_eq!(
            prefix
                .nth(prefix.size() - 1)
                .map(|last| prefix.contains(last)),
            Some(true)
        );
    }
}

/// The same bytes with length fields and checksums that are right, as far as there are any.
fn repaired(data: &[u8]) -> Vec<u8> {
    let mut packet = data.to_vec();
    let length = packet.len();
    match packet.first().map(|first| first >> 4) {
        Some(4) => {
            packet.truncate(PACKET_BYTES_MAX);
            put(&mut packet, 2, length.min(PACKET_BYTES_MAX) as u16);
            put(&mut packet, 10, 0);
            let sum = Ipv4View::parse(&packet).map_or(0, |view| checksum::internet(view.header()));
            put(&mut packet, 10, sum);
        }
        Some(6) => put(
            &mut packet,
            4,
            length.saturating_sub(ipv6::HEADER_BYTES) as u16,
        ),
        Some(_) | None => {}
    }
    let Some((at, number)) = IpPacket::parse(&packet)
        .ok()
        .map(|ip| (ip.header_len(), ip.protocol()))
    else {
        return packet;
    };
    let field = match number {
        protocol::TCP => at + 16,
        protocol::UDP => {
            put(&mut packet, at + 4, (length - at) as u16);
            at + 6
        }
        _ => return packet,
    };
    put(&mut packet, field, 0);
    if let Ok(ip) = IpPacket::parse(&packet) {
        let covered = ip.payload();
        let pseudo = checksum::pseudo(ip.source(), ip.destination(), number, covered.len() as u16);
        let sum = pseudo.bytes(covered).finish();
        put(&mut packet, field, sum);
    }
    packet
}

/// Writes a field where there is room for it.
fn put(packet: &mut [u8], at: usize, value: u16) {
    if let Some(field) = packet.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = value.to_be_bytes();
    }
}
