//! Both bits in both families, and that nothing beside them changes.
//!
//! In IPv6 the field lies across two bytes, between the class and the flow label; in IPv4 the header's checksum follows.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::build::Header;

const ALL: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];

fn packets(class: u8) -> [Vec<u8>; 2] {
    [("10.0.0.1", "192.0.2.9"), ("fd00::1", "2001:db8::9")].map(|(a, b)| {
        Header {
            traffic_class: class,
            ..Header::new(a.parse().unwrap(), b.parse().unwrap())
        }
        .udp(1, 2, b"x")
    })
}

#[test]
fn values_are_those_of_rfc_3168() {
    assert_eq!(ALL.map(Ecn::bits), [0, 1, 2, 3]);
    for class in 0..=u8::MAX {
        assert_eq!(Ecn::from_traffic_class(class).bits(), class & 3);
    }
}

#[test]
fn the_field_is_set_and_nothing_else() {
    for class in [0, 0xff, 0xb8, 0x47] {
        for before in packets(class) {
            for ecn in ALL {
                let mut after = before.clone();
                assert!(set(&mut after, ecn));
                let ip = IpPacket::parse(&after).unwrap();
                assert_eq!((ip.ecn(), ip.dscp()), (ecn, class >> 2));
                assert!(matches!(ip, IpPacket::V6(_)) || checksum::internet(&after[..20]) == 0);
                let back = IpPacket::parse(&before).unwrap().ecn();
                assert!(set(&mut after, back));
                assert_eq!(after, before);
            }
        }
    }
}

#[test]
fn the_flow_label_is_left_alone() {
    let [_, mut v6] = packets(0);
    v6[1..4].copy_from_slice(&[0x0a, 0xbc, 0xde]);
    assert!(set(&mut v6, Ecn::Ce));
    let IpPacket::V6(view) = IpPacket::parse(&v6).unwrap() else {
        panic!("IPv6")
    };
    assert_eq!((view.flow_label(), view.ecn()), (0xa_bcde, Ecn::Ce));
}

#[test]
fn only_who_takes_part_is_marked() {
    for (class, marked) in [(0, false), (1, true), (2, true), (3, true)] {
        for before in packets(class) {
            let mut after = before.clone();
            assert_eq!(mark_ce(&mut after), marked);
            let left = if marked { Ecn::Ce } else { Ecn::NotEct };
            assert_eq!(IpPacket::parse(&after).unwrap().ecn(), left);
        }
    }
    assert!(!set(&mut [], Ecn::Ce) && !mark_ce(&mut [0x45, 0]));
}
