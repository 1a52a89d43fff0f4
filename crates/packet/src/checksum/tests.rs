//! The sum against the RFC's words, a naive sum over bytes, and itself in pieces.
//!
//! The fast sum folds late and skips to the right parity; each of those is a place to be off by one carry or one byte,
//! so the examples are the largest sums and odd lengths, and the rest is drawn at random.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::build::{self, Header};

/// RFC 1071 §1, word by word.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn examples_of_the_rfcs() {
    // RFC 1071 §3: the sum is ddf2.
    assert_eq!(
        internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
        !0xddf2
    );
    // RFC 1624 §4: equation 3 gives 0000 where that of RFC 1141 gave ffff.
    assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    // An IPv4 header, with its checksum field first 0, then right.
    let header =
        *b"\x45\x00\x00\x73\x00\x00\x40\x00\x40\x11\x00\x00\xc0\xa8\x00\x01\xc0\xa8\x00\xc7";
    assert_eq!(internet(&header), 0xb861);
    let mut right = header;
    right[10..12].copy_from_slice(&[0xb8, 0x61]);
    assert_eq!(internet(&right), 0);
    assert_eq!(internet(&[]), 0xffff);
}

#[test]
fn carries_survive_the_largest_sums() {
    for length in [1, 2, 31, 32, 33, 64, 1_400, 65_535, 1 << 20] {
        let bytes = vec![0xff; length];
        assert_eq!(internet(&bytes), naive(&bytes), "{length}");
    }
    assert_eq!(fold(u64::MAX), 0xffff);
    assert_eq!(fold(0xffff_ffff), 0xffff);
    assert_eq!(fold(0x1_ffff), 1);
}

#[test]
fn the_upper_layers_checksum_is_judged_where_there_is_one() {
    let v4 = |port| format!("192.0.2.1:{port}").parse().unwrap();
    let v6 = |port| format!("[2001:db8::1]:{port}").parse().unwrap();
    let (a4, a6) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
    let valid = |packet: &[u8]| upper_layer_valid(&IpPacket::parse(packet).unwrap());
    for packet in [
        build::udp(v4(1), v4(2), b"abc"),
        build::udp(v6(1), v6(2), b"abc"),
        build::tcp_syn(v4(1), v4(2), 1460),
        build::tcp_syn(v6(1), v6(2), 1440),
        build::icmp_echo(a4, a4, 1, 2, b"x"),
        build::icmp_echo(a6, a6, 1, 2, b"x"),
    ] {
        assert_eq!(valid(&packet), Some(true));
        let mut damaged = packet.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(valid(&damaged), Some(false));
    }
    // No checksum: allowed over IPv4 only (RFC 8200 §8.1).
    for (mut packet, at, expected) in [
        (build::udp(v4(1), v4(2), b""), 26, None),
        (build::udp(v6(1), v6(2), b""), 46, Some(false)),
    ] {
        packet[at..at + 2].fill(0);
        assert_eq!(valid(&packet), expected);
    }
    // A length field beyond the packet.
    let mut long = build::udp(v4(1), v4(2), b"");
    long[25] = 9;
    assert_eq!(valid(&long), Some(false));
    // Fragments, other protocols, the other family's ICMP, and a destination that stands elsewhere.
    let fragment = Header {
        more_fragments: true,
        ..Header::new(a4, a4)
    };
    assert_eq!(valid(&fragment.udp(1, 2, b"abc")), None);
    assert_eq!(valid(&Header::new(a4, a4).packet(47, &[0; 8])), None);
    assert_eq!(
        valid(&Header::new(a4, a4).packet(protocol::ICMPV6, &[0; 8])),
        None
    );
    assert_eq!(
        valid(&Header::new(a6, a6).packet(protocol::ICMP, &[0; 8])),
        None
    );
    let routed = Header {
        extensions: &[(protocol::ROUTING, &[0; 6])],
        ..Header::new(a6, a6)
    };
    assert_eq!(valid(&routed.udp(1, 2, b"abc")), None);
}

#[test]
fn bytes_behind_the_datagram_are_not_summed() {
    let a4 = "192.0.2.1".parse().unwrap();
    let whole = Header::new(a4, a4).udp(1, 2, b"abc");
    let mut datagram = whole[20..].to_vec();
    datagram.extend_from_slice(&[0xaa; 3]);
    let padded = Header::new(a4, a4).packet(protocol::UDP, &datagram);
    assert_eq!(
        upper_layer_valid(&IpPacket::parse(&padded).unwrap()),
        Some(true)
    );
}

proptest! {
    #[test]
    fn any_bytes_sum_as_the_naive_sum_does(bytes in prop::collection::vec(any::<u8>(), 0..300), skip in 0_usize..9) {
        let bytes = bytes.get(skip..).unwrap_or_default();
        prop_assert_eq!(internet(bytes), naive(bytes));
    }

    #[test]
    fn pieces_of_even_length_sum_as_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0_usize..150) {
        let (head, tail) = bytes.split_at((at * 2).min(bytes.len() / 2 * 2));
        prop_assert_eq!(Sum::new().bytes(head).bytes(tail).finish(), internet(&bytes));
    }

    #[test]
    fn an_update_gives_what_a_new_sum_gives(
        mut bytes in prop::collection::vec(any::<u8>(), 8..64),
        at in 2_usize..62,
        new in any::<u16>(),
    ) {
        // A first word that is never 0 keeps the sum off the one value with two forms.
        bytes[0] = 1;
        let at = at.min(bytes.len() - 2);
        let before = internet(&bytes);
        let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        let (old, new) = if at % 2 == 1 { (old.swap_bytes(), new.swap_bytes()) } else { (old, new) };
        prop_assert_eq!(update(before, old, new), internet(&bytes));
    }

    #[test]
    fn pseudo_headers_sum_as_their_bytes(s in any::<[u8; 16]>(), d in any::<[u8; 16]>(), protocol: u8, length: u16) {
        let mut bytes = s.to_vec();
        bytes.extend_from_slice(&d);
        bytes.extend_from_slice(&u32::from(length).to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, protocol]);
        prop_assert_eq!(pseudo_v6(s.into(), d.into(), protocol, u32::from(length)).finish(), naive(&bytes));
        let (s, d) = ([s[0], s[1], s[2], s[3]], [d[0], d[1], d[2], d[3]]);
        let mut bytes = s.to_vec();
        bytes.extend_from_slice(&d);
        bytes.extend_from_slice(&[0, protocol]);
        bytes.extend_from_slice(&length.to_be_bytes());
        prop_assert_eq!(pseudo_v4(s.into(), d.into(), protocol, length).finish(), naive(&bytes));
    }
}
