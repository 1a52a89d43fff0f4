//! A translated packet is the packet that a host of the other address would have built.
//!
//! The oracle is [`Header`]: it sums every checksum anew. So a test builds a packet twice, with `from` and with `to`,
//! and holds the translation of the first against the second, byte by byte; translated back it is the first again.

#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::build::{Header, Segment};
use crate::{checksum, fuzz};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The host's two names and its peer's, of each family.
fn names() -> [[IpAddr; 3]; 2] {
    [
        [ip("100.64.0.2"), ip("10.85.200.17"), ip("192.0.2.9")],
        [ip("fd00::2"), ip("fd71:ffff::c811"), ip("2001:db8::9")],
    ]
}

/// What stands behind the network header.
#[derive(Debug, Clone)]
enum Upper {
    Tcp(Vec<u8>),
    Udp(Vec<u8>),
    Echo(Vec<u8>),
    /// Of a protocol that is not looked into, or of one that is and cut, or the data of a later fragment.
    Raw(u8, Vec<u8>),
    /// An ICMP error about a packet that came the other way, cut after so many bytes.
    Error(Box<Shape>, usize),
}

/// A packet without its addresses.
#[derive(Debug, Clone)]
struct Shape {
    upper: Upper,
    options: Vec<u8>,
    extensions: Vec<(u8, Vec<u8>)>,
    more_fragments: bool,
    later: bool,
}

impl Shape {
    fn plain(upper: Upper) -> Self {
        Self {
            upper,
            options: vec![],
            extensions: vec![],
            more_fragments: false,
            later: false,
        }
    }

    fn build(&self, source: IpAddr, destination: IpAddr) -> Vec<u8> {
        let fragment = [0, 1 + 8 * u8::from(self.later), 0, 0, 0, 9];
        let mut extensions: Vec<(u8, &[u8])> = (self.extensions.iter())
            .map(|(number, body)| (*number, body.as_slice()))
            .collect();
        if self.more_fragments || self.later {
            extensions.push((protocol::FRAGMENT, &fragment));
        }
        let header = Header {
            options: &self.options,
            extensions: &extensions,
            dont_fragment: false,
            more_fragments: self.more_fragments,
            fragment_offset: 8 * u16::from(self.later),
            ..Header::new(source, destination)
        };
        let echo = if source.is_ipv4() { 8 } else { 128 };
        let exceeded = if source.is_ipv4() { 11 } else { 3 };
        match &self.upper {
            // What a later fragment holds is the middle of some datagram, whatever it looks like.
            Upper::Tcp(data) | Upper::Udp(data) | Upper::Echo(data) if self.later => {
                header.packet(protocol::TCP, data)
            }
            Upper::Tcp(data) => header.tcp(4_000, 443, &Segment::default(), data),
            Upper::Udp(data) => header.udp(4_000, 443, data),
            Upper::Echo(data) => header.icmp(echo, 0, [0, 7, 0, 1], data),
            Upper::Raw(number, data) => header.packet(*number, data),
            Upper::Error(..) if self.later => header.packet(protocol::ICMP, &[11; 64]),
            Upper::Error(about, end) => {
                let quoted = about.build(destination, source);
                let quoted = quoted.get(..*end).unwrap_or(&quoted);
                header.icmp(exceeded, 0, [0; 4], quoted)
            }
        }
    }
}

/// Both directions and families: as built with the other address, and back. What was translated, first.
#[track_caller]
fn holds_for_names(shape: &Shape, [from, to, peer]: [IpAddr; 3]) {
    let mut packet = shape.build(from, peer);
    assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
    assert_eq!(packet, shape.build(to, peer), "outward: {shape:?}");
    assert_eq!(rewrite_source(&mut packet, to, from), Ok(true));
    assert_eq!(packet, shape.build(from, peer));

    let mut packet = shape.build(peer, to);
    assert_eq!(rewrite_destination(&mut packet, to, from), Ok(true));
    assert_eq!(packet, shape.build(peer, from), "inward: {shape:?}");
    assert_eq!(rewrite_destination(&mut packet, from, to), Ok(true));
    assert_eq!(packet, shape.build(peer, to));
    fuzz::packets(&packet);
}

#[track_caller]
fn holds(shape: &Shape) {
    for names in names() {
        holds_for_names(shape, names);
    }
}

fn uppers() -> Vec<Upper> {
    vec![
        Upper::Tcp(b"some data".to_vec()),
        Upper::Udp(b"some data".to_vec()),
        Upper::Echo(b"data".to_vec()),
        Upper::Raw(47, b"an inner packet of a tunnel".to_vec()),
    ]
}

#[test]
fn every_upper_layer_is_as_the_other_host_would_have_sent_it() {
    for upper in uppers() {
        holds(&Shape::plain(upper));
    }
}

#[test]
fn options_and_extension_headers_stay_and_the_checksum_behind_them_follows() {
    let atomic = (protocol::FRAGMENT, vec![0, 0, 0, 0, 0, 9]);
    for upper in uppers() {
        holds(&Shape {
            options: vec![7, 7, 4, 1, 2, 3, 4, 0],
            extensions: vec![
                (protocol::HOP_BY_HOP, vec![1, 4, 0, 0, 0, 0]),
                (protocol::DESTINATION_OPTIONS, vec![0; 14]),
                atomic.clone(),
            ],
            ..Shape::plain(upper)
        });
    }
}

#[test]
fn first_fragments_have_the_checksum_and_later_ones_have_data() {
    for upper in uppers() {
        for later in [false, true] {
            holds(&Shape {
                more_fragments: true,
                later,
                ..Shape::plain(upper.clone())
            });
        }
    }
}

/// Cut anywhere, if not through the middle of a checksum, half of which says nothing; without the whole fixed header
/// nobody can say whom the quotation names.
#[test]
fn an_error_names_the_host_in_what_it_quotes() {
    for upper in uppers() {
        let about = Shape {
            options: vec![7, 7, 4, 1, 2, 3, 4, 0],
            extensions: vec![(protocol::HOP_BY_HOP, vec![1, 4, 0, 0, 0, 0])],
            ..Shape::plain(upper)
        };
        for (names, fixed) in names().into_iter().zip([20, 40]) {
            for end in (fixed..=120).step_by(2) {
                holds_for_names(
                    &Shape::plain(Upper::Error(Box::new(about.clone()), end)),
                    names,
                );
            }
            for end in 0..fixed {
                let [from, to, peer] = names;
                let mut packet =
                    Shape::plain(Upper::Error(Box::new(about.clone()), end)).build(from, peer);
                let behind = packet.len() - end;
                let quotation = packet[behind..].to_vec();
                assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
                assert_eq!(packet[behind..], quotation);
                let parsed = IpPacket::parse(&packet).unwrap();
                assert_eq!(checksum::upper_layer_valid(&parsed), Some(true));
            }
        }
    }
}

#[test]
fn an_error_stays_valid_wherever_its_quotation_is_cut() {
    for [from, to, peer] in names() {
        let about = Box::new(Shape::plain(Upper::Tcp(b"data".to_vec())));
        for end in 0..100 {
            let error = Shape::plain(Upper::Error(about.clone(), end));
            let mut packet = error.build(from, peer);
            assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
            let parsed = IpPacket::parse(&packet).unwrap();
            assert_eq!(checksum::upper_layer_valid(&parsed), Some(true));
            let quoted = icmp::quoted_flow(&parsed).map(|flow| flow.destination);
            let whole = if from.is_ipv4() { 20 } else { 40 };
            assert_eq!(quoted, (end >= whole).then_some(to), "{end}");
        }
    }
}

#[test]
fn an_error_about_a_fragment_quotes_a_checksum_where_there_is_one() {
    for later in [false, true] {
        let about = Shape {
            more_fragments: true,
            later,
            ..Shape::plain(Upper::Udp(b"a long datagram's part".to_vec()))
        };
        holds(&Shape::plain(Upper::Error(Box::new(about), 100)));
    }
}

#[test]
fn an_error_about_another_hosts_packet_keeps_its_quotation() {
    for [from, to, peer] in names() {
        let about = Header::new(peer, peer).udp(1, 2, b"x");
        let exceeded = if from.is_ipv4() { 11 } else { 3 };
        let error = |source| Header::new(source, peer).icmp(exceeded, 0, [0; 4], &about);
        let mut packet = error(from);
        assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
        assert_eq!(packet, error(to));
    }
}

/// RFC 4861 §8.1: a redirect has a hop limit of 255, so it never crossed a router, a tunnel included.
#[test]
fn redirects_follow_their_family() {
    for ([from, to, peer], kind) in names()
        .into_iter()
        .zip([icmp::V4_REDIRECT, icmp::V6_REDIRECT])
    {
        let build = |host: IpAddr, quoted: IpAddr| {
            let about = Header::new(quoted, peer).udp(1, 2, b"x");
            Header::new(peer, host).icmp(kind, 0, [192, 0, 2, 1], &about)
        };
        let mut packet = build(to, to);
        assert_eq!(rewrite_destination(&mut packet, to, from), Ok(true));
        let quoted = if from.is_ipv4() { from } else { to };
        assert_eq!(packet, build(from, quoted));
    }
}

#[test]
fn an_echos_data_is_no_quotation() {
    for [from, to, peer] in names() {
        let about = Header::new(peer, from).udp(1, 2, b"x");
        holds_for_names(&Shape::plain(Upper::Echo(about)), [from, to, peer]);
    }
}

#[test]
fn a_udp_checksum_of_none_stays_none() {
    for ([from, to, peer], at) in names().into_iter().zip([26, 46]) {
        let mut packet = Header::new(from, peer).udp(1, 2, b"abc");
        packet[at..at + 2].fill(0);
        assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
        assert_eq!(packet[at..at + 2], [0, 0]);
    }
}

/// Over all values of two bytes of data every checksum comes up, 0xffff for 0 included.
#[test]
fn every_udp_checksum_is_the_one_that_is_computed() {
    let [[from, to, peer], _] = names();
    let mut all_ones = 0;
    for word in 0..=u16::MAX {
        let build = |source| Header::new(source, peer).udp(1, 2, &word.to_be_bytes());
        let mut packet = build(from);
        assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
        assert_eq!(packet, build(to));
        all_ones += u32::from(packet[26..28] == [0xff, 0xff]);
    }
    assert_eq!(all_ones, 1);
}

#[test]
fn udp_lite_and_dccp_have_a_pseudo_header_too() {
    for number in [protocol::UDP_LITE, protocol::DCCP] {
        for [from, to, peer] in names() {
            let build = |source| {
                let mut upper = [0, 1, 0, 2, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
                let sum = checksum::pseudo(source, peer, number, 16)
                    .bytes(&upper)
                    .finish();
                upper[6..8].copy_from_slice(&sum.to_be_bytes());
                Header::new(source, peer).packet(number, &upper)
            };
            let mut packet = build(from);
            assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
            assert_eq!(packet, build(to));
        }
    }
}

/// With segments left the pseudo header holds the address in the routing header (RFC 8200 §8.1).
#[test]
fn a_packet_en_route_keeps_the_checksum_of_its_last_stop() {
    let [_, [from, to, peer]] = names();
    for segments_left in [0, 1] {
        let mut body = [0; 22];
        body[1] = segments_left;
        let build = |source, destination| {
            Header {
                extensions: &[(protocol::ROUTING, &body)],
                ..Header::new(source, destination)
            }
            .udp(1, 2, b"abc")
        };
        let mut packet = build(peer, from);
        assert_eq!(rewrite_destination(&mut packet, from, to), Ok(true));
        assert_eq!(packet == build(peer, to), segments_left == 0);
        packet[24..40].copy_from_slice(&Ipv6Addr::from_bits(0xfd << 120 | 2).octets());
        assert_eq!(packet == build(peer, from), segments_left == 1);
        // The source has no other place.
        let mut packet = build(from, peer);
        assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
        assert_eq!(packet, build(to, peer));
    }
}

#[test]
fn what_does_not_carry_the_address_is_untouched() {
    let [[v4, v4_to, v4_peer], [v6, v6_to, v6_peer]] = names();
    let mapped = IpAddr::V6(Ipv4Addr::new(100, 64, 0, 2).to_ipv6_mapped());
    for packet in [
        Header::new(v4, v4_peer).udp(1, 2, b"abc"),
        Header::new(v6, v6_peer).udp(1, 2, b"abc"),
    ] {
        for (from, to) in [
            (v4_peer, v4_to),
            (v6_peer, v6_to),
            (mapped, v6_to),
            (v4, v6_to),
            (v6, v4_to),
            (v4, v4),
            (v6, v6),
        ] {
            let mut same = packet.clone();
            assert_eq!(rewrite_source(&mut same, from, to), Ok(false));
            assert_eq!(same, packet);
        }
        for (from, to) in [(v4, v4_to), (v6, v6_to)] {
            let mut same = packet.clone();
            assert_eq!(rewrite_destination(&mut same, from, to), Ok(false));
            assert_eq!(same, packet);
        }
    }
}

/// The bytes at the place where the other family would have its address are somebody else's.
#[test]
fn an_address_of_the_other_family_is_none() {
    let [[_, v4_to, _], [v6, _, v6_peer]] = names();
    let packet = Header::new(v6, v6_peer).udp(1, 2, b"abc");
    let alike: [u8; 4] = packet[12..16].try_into().unwrap();
    let mut same = packet.clone();
    assert_eq!(rewrite_source(&mut same, alike.into(), v4_to), Ok(false));
    assert_eq!(same, packet);
}

/// RFC 4884 §4.1 fills a quotation up; what is filled in is not the packet's.
#[test]
fn what_stands_behind_a_quoted_packet_is_untouched() {
    for [from, to, peer] in names() {
        let about = Header::new(peer, from).packet(protocol::TCP, &[0x5a; 17]);
        let exceeded = if from.is_ipv4() { 11 } else { 3 };
        let error = [&about[..], &[0; 60]].concat();
        let mut packet = Header::new(from, peer).icmp(exceeded, 0, [0; 4], &error);
        assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
        assert!(packet.ends_with(&[&[0x5a; 17][..], &[0; 60]].concat()));
    }
}

#[test]
fn a_damaged_packet_stays_damaged() {
    for [from, to, peer] in names() {
        let mut packet = Header::new(from, peer).udp(1, 2, b"abc");
        *packet.last_mut().unwrap() ^= 1;
        assert_eq!(rewrite_source(&mut packet, from, to), Ok(true));
        let parsed = IpPacket::parse(&packet).unwrap();
        assert_eq!(checksum::upper_layer_valid(&parsed), Some(false));
    }
}

/// Case B79.
#[test]
fn every_cut_is_refused_and_unchanged() {
    for names @ [from, to, peer] in names() {
        let about = Box::new(Shape::plain(Upper::Tcp(b"data".to_vec())));
        for upper in uppers().into_iter().chain([Upper::Error(about, 100)]) {
            let whole = Shape::plain(upper).build(from, peer);
            for end in 0..whole.len().min(64) {
                let mut cut = whole[..end].to_vec();
                let error = IpPacket::parse(&cut).unwrap_err();
                assert_eq!(rewrite_source(&mut cut, from, to), Err(error), "{names:?}");
                assert_eq!(rewrite_destination(&mut cut, peer, to), Err(error));
                assert_eq!(cut, whole[..end]);
                fuzz::packets(&cut);
            }
        }
    }
}

fn shapes() -> BoxedStrategy<Shape> {
    let data = || prop::collection::vec(any::<u8>(), 0..60);
    let upper = prop_oneof![
        data().prop_map(Upper::Tcp),
        data().prop_map(Upper::Udp),
        data().prop_map(Upper::Echo),
        (47_u8..=50, data()).prop_map(|(number, data)| Upper::Raw(number, data)),
    ];
    let extension = prop_oneof![
        Just((protocol::DESTINATION_OPTIONS, vec![0; 14])),
        Just((protocol::ROUTING, vec![0; 22])),
        Just((protocol::AUTHENTICATION, vec![9; 22])),
    ];
    let place = prop_oneof![4 => Just((false, false)), 1 => any::<(bool, bool)>()];
    let options = prop_oneof![Just(vec![]), prop::collection::vec(any::<u8>(), 0..40)];
    (
        upper,
        options,
        prop::collection::vec(extension, 0..4),
        place,
    )
        .prop_map(
            |(upper, options, extensions, (more_fragments, later))| Shape {
                upper,
                options,
                extensions,
                more_fragments,
                later,
            },
        )
        .boxed()
}

fn addresses() -> impl Strategy<Value = [IpAddr; 3]> {
    prop_oneof![
        any::<[u32; 3]>().prop_map(|bits| bits.map(|it| Ipv4Addr::from_bits(it).into())),
        any::<[u128; 3]>().prop_map(|bits| bits.map(|it| Ipv6Addr::from_bits(it).into())),
    ]
    .prop_filter("three hosts", |[a, b, c]| a != b && b != c && a != c)
}

proptest! {
    #[test]
    fn any_packet_is_as_the_other_host_would_have_sent_it(
        shape in shapes(),
        names in addresses(),
    ) {
        holds_for_names(&shape, names);
    }

    #[test]
    fn any_error_is_as_the_other_host_would_have_sent_it(
        about in shapes(),
        half_end in 20_usize..100,
        own in shapes(),
        names in addresses(),
    ) {
        let shape = Shape { upper: Upper::Error(Box::new(about), 2 * half_end), ..own };
        holds_for_names(&shape, names);
    }

    #[test]
    fn no_bytes_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        version in prop_oneof![Just(0x45_u8), Just(0x60), any::<u8>()],
        names in addresses(),
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = version;
        }
        let [from, to, _] = names;
        let before = bytes.clone();
        if rewrite_source(&mut bytes, from, to).is_err() {
            prop_assert_eq!(bytes, before);
        }
    }
}
