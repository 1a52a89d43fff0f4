//! Ranges at their first and last address and at the neighbours outside; prefixes against the comparison of their bits.
//!
//! A range that is one address too wide lets a packet out that must stay, one too narrow drops a user's: so each end is
//! tested on both sides. Prefixes are also drawn at random and held against a naive model.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::PacketError;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Each range by its first and last address, and the neighbours outside.
#[test]
fn ranges_end_where_the_registries_say() {
    type Row = (
        &'static str,
        fn(IpAddr) -> bool,
        &'static [(&'static str, bool)],
    );
    let table: [Row; 8] = [
        (
            "private",
            is_private,
            &[
                ("9.255.255.255", false),
                ("10.0.0.0", true),
                ("10.255.255.255", true),
                ("11.0.0.0", false),
                ("172.15.255.255", false),
                ("172.16.0.0", true),
                ("172.31.255.255", true),
                ("172.32.0.0", false),
                ("192.167.255.255", false),
                ("192.168.0.0", true),
                ("192.168.255.255", true),
                ("192.169.0.0", false),
                ("100.63.255.255", false),
                ("100.64.0.0", true),
                ("100.127.255.255", true),
                ("100.128.0.0", false),
                ("fbff::", false),
                ("fc00::", true),
                ("fdff:ffff::", true),
                ("fe00::", false),
                ("febf::", false),
                ("fec0::", true),
                ("feff::", true),
                ("ff00::", false),
            ],
        ),
        (
            "loopback",
            is_loopback,
            &[
                ("126.255.255.255", false),
                ("127.0.0.0", true),
                ("127.255.255.255", true),
                ("128.0.0.0", false),
                ("::", false),
                ("::1", true),
                ("::2", false),
            ],
        ),
        (
            "link-local",
            is_link_local,
            &[
                ("169.253.255.255", false),
                ("169.254.0.0", true),
                ("169.254.169.254", true),
                ("169.255.0.0", false),
                ("fe7f::", false),
                ("fe80::", true),
                ("febf::", true),
                ("fec0::", false),
            ],
        ),
        (
            "multicast",
            is_multicast,
            &[
                ("223.255.255.255", false),
                ("224.0.0.0", true),
                ("239.255.255.255", true),
                ("240.0.0.0", false),
                ("feff::", false),
                ("ff00::", true),
                ("ffff::", true),
            ],
        ),
        (
            "unspecified",
            is_unspecified,
            &[
                ("0.0.0.0", true),
                ("0.255.255.255", true),
                ("1.0.0.0", false),
                ("::", true),
                ("::1", false),
            ],
        ),
        (
            "reserved",
            is_reserved_or_broadcast,
            &[
                ("239.255.255.255", false),
                ("240.0.0.0", true),
                ("255.255.255.255", true),
                ("fd00::", false),
            ],
        ),
        (
            "documentation",
            is_documentation,
            &[
                ("192.0.2.0", true),
                ("192.0.3.0", false),
                ("198.51.100.255", true),
                ("203.0.113.1", true),
                ("2001:db7:ffff::", false),
                ("2001:db8::", true),
                ("2001:db8:ffff::", true),
                ("2001:db9::", false),
                ("3ffe::", false),
                ("3fff::", true),
                ("3fff:fff::", true),
                ("3fff:1000::", false),
            ],
        ),
        (
            "public",
            is_public,
            &[
                ("1.1.1.1", true),
                ("10.0.0.1", false),
                ("127.0.0.1", false),
                ("169.254.169.254", false),
                ("0.1.2.3", false),
                ("224.0.0.1", false),
                ("255.255.255.255", false),
                ("192.0.2.1", false),
                ("192.0.0.9", false),
                ("192.0.1.0", true),
                ("192.88.99.1", false),
                ("198.17.255.255", true),
                ("198.18.0.0", false),
                ("198.19.255.255", false),
                ("198.20.0.0", true),
                ("2606:4700::1111", true),
                ("2001:4860::8888", true),
                ("2001:1ff::", false),
                ("2001:200::", true),
                ("1fff::", false),
                ("2000::", true),
                ("3ffe::", true),
                ("4000::", false),
                ("100::1", false),
                ("fd00::1", false),
                ("fe80::1", false),
                ("ff02::1", false),
                ("::1", false),
                ("2001:db8::1", false),
            ],
        ),
    ];
    for (name, predicate, cases) in table {
        for &(address, expected) in cases {
            assert_eq!(predicate(ip(address)), expected, "{address} is {name}");
        }
    }
}

/// A guard is not passed by another spelling of the same destination.
#[test]
fn guards_see_through_embedded_addresses() {
    for spelling in ["::ffff:{}", "::{}", "64:ff9b::{}", "64:ff9b:1::{}"] {
        let embed = |v4: &str| ip(&spelling.replace("{}", v4));
        assert!(is_private(embed("10.0.0.1")), "{spelling}");
        assert!(is_private(embed("100.64.0.1")), "{spelling}");
        assert!(is_loopback(embed("127.0.0.1")), "{spelling}");
        assert!(is_link_local(embed("169.254.169.254")), "{spelling}");
        assert!(is_multicast(embed("224.0.0.1")), "{spelling}");
        assert!(is_documentation(embed("192.0.2.1")), "{spelling}");
        assert!(
            is_reserved_or_broadcast(embed("255.255.255.255")),
            "{spelling}"
        );
        assert!(
            !is_public(embed("10.0.0.1")) && !is_host(embed("224.0.0.1")),
            "{spelling}"
        );
        assert!(is_public(embed("1.1.1.1")), "{spelling}");
        assert_eq!(effective(embed("1.1.1.1")), ip("1.1.1.1"), "{spelling}");
    }
    assert!(is_private(ip("2002:a00:1::1")) && is_public(ip("2002:101:101::1")));
    assert!(is_unspecified(ip("::ffff:0.0.0.0")));
    assert_eq!(effective(ip("2001:db8::a00:1")), ip("2001:db8::a00:1"));
}

#[test]
fn spellings_are_told_apart() {
    assert!(is_v4_mapped(ip("::ffff:10.0.0.1")));
    for other in [
        "10.0.0.1",
        "::10.0.0.1",
        "64:ff9b::10.0.0.1",
        "::fffe:10.0.0.1",
    ] {
        assert!(!is_v4_mapped(ip(other)), "{other}");
    }
    let nat64 = |text: &str| nat64_embedded(text.parse().unwrap());
    assert_eq!(
        nat64("64:ff9b::192.0.2.1"),
        Some(Ipv4Addr::new(192, 0, 2, 1))
    );
    assert_eq!(
        nat64("64:ff9b:1:5::192.0.2.1"),
        Some(Ipv4Addr::new(192, 0, 2, 1))
    );
    for other in [
        "64:ff9b:0:0:0:1:c000:201",
        "64:ff9b:2::c000:201",
        "64:ff9a::c000:201",
        "::ffff:192.0.2.1",
    ] {
        assert_eq!(nat64(other), None, "{other}");
    }
}

fn prefix(text: &str) -> Result<Prefix, PacketError> {
    text.parse()
}

#[test]
fn a_prefix_is_written_as_it_is_read() {
    for text in [
        "10.0.0.0/8",
        "0.0.0.0/0",
        "192.0.2.1/32",
        "fd00::/8",
        "::/0",
        "2001:db8::1/128",
    ] {
        assert_eq!(prefix(text).unwrap().to_string(), text);
    }
    assert_eq!(prefix("192.0.2.1").unwrap().to_string(), "192.0.2.1/32");
    assert_eq!(prefix("fd00::1"), Ok(Prefix::host(ip("fd00::1"))));
}

#[test]
fn what_is_no_prefix_is_refused_in_words() {
    for text in [
        "",
        "/",
        "10.0.0.0/",
        "/8",
        "10.0.0.0/+8",
        "10.0.0.0/ 8",
        "10.0.0/8",
        "10.0.0.0/8/8",
        "10.0.0.0/x",
        "a",
    ] {
        assert_eq!(prefix(text), Err(PacketError::PrefixSyntax), "{text:?}");
    }
    assert!(prefix("0.0.0.0/32").is_ok() && prefix("::/128").is_ok());
    assert_eq!(
        prefix("0.0.0.0/33"),
        Err(PacketError::PrefixLength { max: 32 })
    );
    assert_eq!(
        prefix("::/129"),
        Err(PacketError::PrefixLength { max: 128 })
    );
    assert_eq!(
        prefix("::/999"),
        Err(PacketError::PrefixLength { max: 128 })
    );
    let error = prefix("10.1.2.3/8").unwrap_err();
    assert_eq!(
        error.to_string(),
        "bits are set behind the prefix length: the network is 10.0.0.0/8"
    );
    assert_eq!(
        prefix("fd00::1/64").unwrap_err().reason(),
        "prefix_host_bits"
    );
    assert_eq!(Prefix::new(ip("10.1.2.3"), 8), prefix("10.0.0.0/8"));
    assert_eq!(
        Prefix::new(ip("10.1.2.3"), 33),
        Err(PacketError::PrefixLength { max: 32 })
    );
}

#[test]
fn a_prefix_holds_its_own_family_from_first_to_last() {
    let v4 = prefix("10.64.0.0/10").unwrap();
    for (address, inside) in [
        ("10.63.255.255", false),
        ("10.64.0.0", true),
        ("10.127.255.255", true),
        ("10.128.0.0", false),
        ("::ffff:10.64.0.0", false),
    ] {
        assert_eq!(v4.contains(ip(address)), inside, "{address}");
    }
    let v6 = prefix("fd00:1::/32").unwrap();
    for (address, inside) in [
        ("fd00:0:ffff::", false),
        ("fd00:1::", true),
        ("fd00:1:ffff::", true),
        ("fd00:2::", false),
    ] {
        assert_eq!(v6.contains(ip(address)), inside, "{address}");
    }
    assert!(prefix("0.0.0.0/0").unwrap().contains(ip("255.255.255.255")));
    assert!(prefix("::/0").unwrap().contains(ip("ffff::")));
    assert!(!prefix("::/0").unwrap().contains(ip("1.2.3.4")));
    assert!(
        v4.overlaps(&prefix("10.0.0.0/8").unwrap()) && prefix("10.0.0.0/8").unwrap().overlaps(&v4)
    );
    assert!(
        !v4.overlaps(&prefix("10.0.0.0/10").unwrap()) && !v4.overlaps(&prefix("::/0").unwrap())
    );
}

#[test]
fn a_prefix_counts_its_addresses() {
    let small = prefix("192.0.2.8/30").unwrap();
    assert_eq!(small.size(), 4);
    assert_eq!(small.nth(3), Some(ip("192.0.2.11")));
    assert_eq!(small.nth(4), None);
    assert_eq!(prefix("192.0.2.8/32").unwrap().size(), 1);
    assert_eq!(
        prefix("0.0.0.0/0").unwrap().nth((1 << 32) - 1),
        Some(ip("255.255.255.255"))
    );
    assert_eq!(
        prefix("fd00::/64").unwrap().nth(u128::from(u64::MAX)),
        Some(ip("fd00::ffff:ffff:ffff:ffff"))
    );
    assert_eq!(prefix("fd00::/64").unwrap().nth(1 << 64), None);
    assert_eq!(prefix("::/0").unwrap().size(), u128::MAX);
    assert_eq!(prefix("::/1").unwrap().size(), 1 << 127);
}

proptest! {
    #[test]
    fn contains_agrees_with_comparing_bits(a: u128, b: u128, len in 0_u8..=128, flip in 0_u32..128) {
        let network = Prefix::new(Ipv6Addr::from_bits(a).into(), len).unwrap();
        let near = a ^ 1 << flip;
        for other in [a, b, near] {
            let same = (0..u32::from(len)).all(|bit| (a ^ other) >> (127 - bit) & 1 == 0);
            prop_assert_eq!(network.contains(Ipv6Addr::from_bits(other).into()), same);
        }
        prop_assert_eq!(network.to_string().parse(), Ok(network));
    }
}
