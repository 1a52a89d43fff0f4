//! The rules against a naive model of them, and as tables. What a session makes of them is tested beside sessions
//! (`tests/session/policy.rs`).

#![allow(clippy::unwrap_used)]

mod guard;
mod model;

use std::net::{IpAddr, Ipv4Addr};

use quell_packet::protocol::{ICMP, ICMPV6, TCP, UDP};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn config(allow: &[&str], deny: &[&str]) -> EgressRulesConfig {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    EgressRulesConfig {
        allow: rules(allow),
        deny: rules(deny),
        ..EgressRulesConfig::default()
    }
}

fn gateway() -> TunnelAddresses {
    TunnelAddresses {
        ipv4: Some(("10.85.0.1".parse().unwrap(), 16)),
        ipv6: Some(("fd71:7175:656c::1".parse().unwrap(), 64)),
        gateway_ipv4: Some("10.85.0.1".parse().unwrap()),
        gateway_ipv6: Some("fd71:7175:656c::1".parse().unwrap()),
    }
}

fn host() -> HostAddresses {
    HostAddresses {
        own: vec![ip("198.51.100.2"), ip("2001:db8:100::2"), ip("192.168.7.2")],
        on_link: vec![
            "198.51.100.0/28".parse().unwrap(),
            "2001:db8:100::/64".parse().unwrap(),
            "192.168.7.0/24".parse().unwrap(),
        ],
    }
}

fn rules(allow: &[&str], deny: &[&str]) -> RuleSet {
    RuleSet::new(&config(allow, deny), &host(), &gateway())
}

fn asked(destination: IpAddr, protocol: u8, port: u16) -> Asked {
    Asked {
        destination: Some(destination),
        protocol: Some(protocol),
        port: match protocol {
            TCP | UDP => Port::Known(port),
            _ => Port::None,
        },
    }
}

/// What is said of TCP 443 at the address.
fn class_in(rules: &RuleSet, destination: IpAddr) -> Option<Class> {
    rules.judge(&asked(destination, TCP, 443)).err()
}

fn class(destination: &str) -> Option<Class> {
    class_in(&rules(&[], &[]), ip(destination))
}

/// Every spelling of an IPv4 destination in IPv6 that the rules look into.
fn embedded_forms(inside: Ipv4Addr) -> Vec<IpAddr> {
    let bits = u128::from(inside.to_bits());
    let in_last = |prefix: &str| {
        let prefix: std::net::Ipv6Addr = prefix.parse().unwrap();
        std::net::Ipv6Addr::from_bits(prefix.to_bits() | bits)
    };
    let teredo =
        |server: u128, client: u128| 0x2001_0000 << 96 | server << 64 | (client ^ 0xffff_ffff);
    // A server or client that is allowed, so that the other one decides.
    let public = u128::from(Ipv4Addr::new(192, 0, 2, 9).to_bits());
    let numbers = [
        0x2002 << 112 | bits << 80 | 1,
        teredo(bits, public),
        teredo(public, bits),
    ];
    let mut forms: Vec<_> = [
        "::ffff:0:0",
        "::ffff:0:0:0",
        "64:ff9b::",
        "2001:db8:1:2:0:5efe::",
        "2001:db8:1:2:200:5efe::",
    ]
    .map(in_last)
    .into();
    // `::0.0.0.0` and `::0.0.0.1` are addresses of their own.
    if bits > 1 {
        forms.push(in_last("::"));
    }
    forms.extend(numbers.map(std::net::Ipv6Addr::from_bits));
    forms.into_iter().map(IpAddr::from).collect()
}

#[test]
fn every_special_range_is_a_prefix() {
    for (prefix, _) in SPECIAL {
        assert_eq!(prefix.parse::<Prefix>().unwrap().to_string(), *prefix);
    }
}

// DESIGN §8
#[test]
fn each_class_begins_and_ends_where_it_should() {
    use Class::*;
    for (first, last, expected) in [
        ("0.0.0.0", "0.255.255.255", NotUnicast),
        ("10.0.0.0", "10.84.255.255", Private),
        ("10.85.0.2", "10.85.255.255", Clients),
        ("10.85.0.1", "10.85.0.1", OwnAddress),
        ("10.86.0.0", "10.255.255.255", Private),
        ("100.64.0.0", "100.100.100.199", Private),
        ("100.100.100.200", "100.100.100.200", Metadata),
        ("100.100.100.201", "100.127.255.255", Private),
        ("127.0.0.0", "127.255.255.255", Loopback),
        ("168.63.129.16", "168.63.129.16", Metadata),
        ("169.254.0.0", "169.254.0.22", LinkLocal),
        ("169.254.0.23", "169.254.0.23", Metadata),
        ("169.254.42.42", "169.254.42.42", Metadata),
        ("169.254.169.254", "169.254.169.254", Metadata),
        ("169.254.170.2", "169.254.170.2", Metadata),
        ("169.254.170.23", "169.254.170.23", Metadata),
        ("169.254.170.24", "169.254.255.255", LinkLocal),
        ("172.16.0.0", "172.31.255.255", Private),
        ("192.0.0.0", "192.0.0.191", Reserved),
        ("192.0.0.192", "192.0.0.192", Metadata),
        ("192.0.0.193", "192.0.0.255", Reserved),
        ("192.168.0.0", "192.168.6.255", Private),
        ("192.168.7.3", "192.168.7.255", OnLink),
        ("192.168.7.2", "192.168.7.2", OwnAddress),
        ("192.168.8.0", "192.168.255.255", Private),
        ("198.18.0.0", "198.19.255.255", Reserved),
        ("198.51.100.0", "198.51.100.1", OnLink),
        ("198.51.100.2", "198.51.100.2", OwnAddress),
        ("198.51.100.3", "198.51.100.15", OnLink),
        ("224.0.0.0", "239.255.255.255", NotUnicast),
        ("240.0.0.0", "255.255.255.255", NotUnicast),
        ("::", "::", NotUnicast),
        ("::1", "::1", Loopback),
        (
            "64:ff9b:1::808:808",
            "64:ff9b:1:ffff:ffff:ffff:808:808",
            Private,
        ),
        ("100::", "100::ffff:ffff:ffff:ffff", Reserved),
        ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", Reserved),
        (
            "2001:10::",
            "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff",
            Reserved,
        ),
        (
            "2001:20::",
            "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff",
            Reserved,
        ),
        ("2001:db8:100::", "2001:db8:100::1", OnLink),
        ("2001:db8:100::2", "2001:db8:100::2", OwnAddress),
        (
            "2001:db8:100::3",
            "2001:db8:100::ffff:ffff:ffff:ffff",
            OnLink,
        ),
        (
            "5f00::",
            "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            Reserved,
        ),
        ("fc00::", "fcff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Private),
        ("fd00:42::42", "fd00:42::42", Metadata),
        ("fd00:c1::a9fe:a9fe", "fd00:c1::a9fe:a9fe", Metadata),
        ("fd00:100::100:200", "fd00:100::100:200", Metadata),
        ("fd00:a9fe:a9fe::1", "fd00:a9fe:a9fe::1", Metadata),
        (
            "fd00:ec2::",
            "fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff",
            Metadata,
        ),
        ("fd20:ce::254", "fd20:ce::254", Metadata),
        ("fd71:7175:656c::1", "fd71:7175:656c::1", OwnAddress),
        (
            "fd71:7175:656c::2",
            "fd71:7175:656c:0:ffff:ffff:ffff:ffff",
            Clients,
        ),
        (
            "fd71:7175:656c:1::",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            Private,
        ),
        ("fe80::", "fe80::a9fe:a9fd", LinkLocal),
        ("fe80::a9fe:a9fe", "fe80::a9fe:a9fe", Metadata),
        (
            "fe80::a9fe:a9ff",
            "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            LinkLocal,
        ),
        ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Private),
        (
            "ff00::",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            NotUnicast,
        ),
    ] {
        assert_eq!(class(first), Some(expected), "{first}");
        assert_eq!(class(last), Some(expected), "{last}");
    }
}

#[test]
fn the_neighbours_of_what_is_denied_are_allowed() {
    for free in [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "168.63.129.17",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.2.1",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.100.16",
        "203.0.113.1",
        "223.255.255.255",
        "::2:0:0:0:1",
        "64:ff9b::808:808",
        "64:ff9b:2::1",
        "100:0:0:1::",
        "2001:2:1::",
        "2001:f:ffff:ffff:ffff:ffff:ffff:ffff",
        "2001:30::",
        "2001:db8:ff:ffff:ffff:ffff:ffff:ffff",
        "2001:db8:100:1::",
        "2606:4700::1111",
        "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "5f01::",
        "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "fe00::",
    ] {
        assert_eq!(class(free), None, "{free}");
    }
}

// DESIGN §8
#[test]
fn every_spelling_of_a_denied_address_is_denied_for_the_same_reason() {
    let rules = rules(&[], &[]);
    for inside in [
        "0.0.0.0",
        "10.1.2.3",
        "10.85.0.1",
        "10.85.7.7",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "168.63.129.16",
        "169.254.1.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.192",
        "192.168.0.1",
        "198.18.0.1",
        "198.51.100.2",
        "198.51.100.9",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "8.8.8.8",
    ] {
        let inside: Ipv4Addr = inside.parse().unwrap();
        let plain = class_in(&rules, inside.into());
        for form in embedded_forms(inside) {
            assert_eq!(class_in(&rules, form), plain, "{form} holds {inside}");
        }
    }
}

#[test]
fn an_address_inside_and_the_one_around_it_must_both_be_allowed() {
    // The form's own range is denied for what it is, whatever is inside.
    assert_eq!(class("fe80::5efe:808:808"), Some(Class::LinkLocal));
    assert_eq!(class("64:ff9b:1::808:808"), Some(Class::Private));
    // A /64 of the local prefix that its operator opened: the address is where a /64 has it.
    let local = rules(&["64:ff9b:1::/48"], &[]);
    assert_eq!(class_in(&local, ip("64:ff9b:1::808:808")), None);
    assert_eq!(
        class_in(&local, ip("64:ff9b:1::a00:1")),
        Some(Class::Private)
    );
    // 10.0.0.9, whose last octet alone stands in the last 32 bits.
    assert_eq!(
        class_in(&local, ip("64:ff9b:1:7:a:0:900:0")),
        Some(Class::Private)
    );
    assert_eq!(class_in(&local, ip("64:ff9b:1:7:808:808:900:0")), None);
}

#[test]
fn a_denial_beats_an_allowance_which_beats_the_defaults() {
    let address = ip("10.1.2.3");
    let allowed = rules(&["10.0.0.0/8"], &[]);
    assert_eq!(class_in(&allowed, address), None);
    assert_eq!(class_in(&allowed, ip("172.16.0.1")), Some(Class::Private));
    let both = rules(&["10.0.0.0/8"], &["10.1.0.0/16"]);
    assert_eq!(class_in(&both, address), Some(Class::Operator));
    assert_eq!(class_in(&both, ip("10.2.0.0")), None);
    // The narrower rule does not win: a denial does.
    let narrow = rules(&["10.1.2.3"], &["10.0.0.0/8"]);
    assert_eq!(class_in(&narrow, address), Some(Class::Operator));
    let public = rules(&[], &["203.0.113.0/24", "2001:db8:5::/48"]);
    assert_eq!(
        class_in(&public, ip("203.0.113.255")),
        Some(Class::Operator)
    );
    assert_eq!(class_in(&public, ip("203.0.114.0")), None);
    assert_eq!(
        class_in(&public, ip("2001:db8:5::1")),
        Some(Class::Operator)
    );
    // Also by its other spellings.
    for form in embedded_forms("203.0.113.7".parse().unwrap()) {
        assert_eq!(class_in(&public, form), Some(Class::Operator), "{form}");
    }
}

#[test]
fn what_no_host_has_is_opened_by_nothing() {
    let all = rules(&["0.0.0.0/0", "::/0"], &[]);
    for address in ["0.0.0.1", "224.0.0.1", "255.255.255.255", "::", "ff02::1"] {
        assert_eq!(
            class_in(&all, ip(address)),
            Some(Class::NotUnicast),
            "{address}"
        );
    }
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "10.85.0.1",
        "fe80::1",
        "8.8.8.8",
    ] {
        assert_eq!(class_in(&all, ip(address)), None, "{address}");
    }
}

#[test]
fn an_allowance_of_the_address_inside_opens_its_forms_and_not_the_reverse() {
    let inside = rules(&["10.0.0.0/8 tcp/443"], &[]);
    for form in embedded_forms("10.1.2.3".parse().unwrap()) {
        assert_eq!(class_in(&inside, form), None, "{form}");
        assert_eq!(
            inside.judge(&asked(form, TCP, 444)),
            Err(Class::Private),
            "{form}"
        );
    }
    assert_eq!(class_in(&inside, ip("64:ff9b:1::10.1.2.3")), None);
    let around = rules(&["::/0"], &[]);
    for form in embedded_forms("10.1.2.3".parse().unwrap()) {
        assert_eq!(class_in(&around, form), Some(Class::Private), "{form}");
    }
    // Of the two addresses in a Teredo address both must be allowed.
    let server = rules(&["10.1.2.3"], &[]);
    assert_eq!(
        class_in(&server, ip("2001:0:a01:203::f5fe:fdfb")),
        Some(Class::Private)
    );
}

#[test]
fn mail_is_denied_by_port_alone() {
    let rules = rules(&[], &[]);
    for address in ["203.0.113.1", "2606:4700::1", "64:ff9b::808:808"].map(ip) {
        for (port, expected) in [(24, Ok(())), (25, Err(Class::Smtp)), (26, Ok(()))] {
            assert_eq!(rules.judge(&asked(address, TCP, port)), expected, "{port}");
        }
        assert_eq!(rules.judge(&asked(address, UDP, 25)), Ok(()));
    }
    // What is said of the address says more.
    assert_eq!(
        rules.judge(&asked(ip("10.0.0.1"), TCP, 25)),
        Err(Class::Private)
    );
    let hidden = Asked {
        port: Port::Hidden,
        ..asked(ip("203.0.113.1"), TCP, 0)
    };
    assert_eq!(rules.judge(&hidden), Err(Class::Smtp));
}

#[test]
fn a_port_that_is_opened_everywhere_opens_no_address() {
    let mail = rules(&["tcp/25"], &[]);
    let judge = |address, port| mail.judge(&asked(ip(address), TCP, port));
    assert_eq!(judge("203.0.113.1", 25), Ok(()));
    for denied in ["10.0.0.1", "127.0.0.1", "::ffff:127.0.0.1"] {
        judge(denied, 25).unwrap_err();
    }
    let relay = rules(&["203.0.113.5 tcp/25"], &[]);
    let judge = |address| relay.judge(&asked(ip(address), TCP, 25));
    assert_eq!(judge("203.0.113.5"), Ok(()));
    assert_eq!(judge("203.0.113.6"), Err(Class::Smtp));
    assert_eq!(judge("64:ff9b::203.0.113.5"), Ok(()));
    // Whoever allows everything at an address allows mail there.
    let all = rules(&["10.1.0.0/16"], &[]);
    assert_eq!(all.judge(&asked(ip("10.1.0.1"), TCP, 25)), Ok(()));
}

#[test]
fn a_rule_of_a_service_speaks_of_no_other() {
    let some = rules(
        &["10.0.0.1 tcp/80-81", "10.0.0.2 icmp", "10.0.0.3 udp"],
        &["udp/53", "203.0.113.1 icmp"],
    );
    for (address, protocol, port, expected) in [
        ("10.0.0.1", TCP, 79, Err(Class::Private)),
        ("10.0.0.1", TCP, 80, Ok(())),
        ("10.0.0.1", TCP, 81, Ok(())),
        ("10.0.0.1", TCP, 82, Err(Class::Private)),
        ("10.0.0.1", UDP, 80, Err(Class::Private)),
        ("10.0.0.1", ICMP, 0, Err(Class::Private)),
        ("10.0.0.2", ICMP, 0, Ok(())),
        ("10.0.0.2", TCP, 80, Err(Class::Private)),
        ("10.0.0.3", UDP, 52, Ok(())),
        ("10.0.0.3", UDP, 53, Err(Class::Operator)),
        ("203.0.113.9", UDP, 53, Err(Class::Operator)),
        ("2606:4700::1", UDP, 53, Err(Class::Operator)),
        ("203.0.113.9", TCP, 53, Ok(())),
        ("203.0.113.1", ICMP, 0, Err(Class::Operator)),
        ("64:ff9b::203.0.113.1", ICMPV6, 0, Err(Class::Operator)),
        ("203.0.113.1", TCP, 53, Ok(())),
        // ESP, of which no rule speaks.
        ("203.0.113.1", 50, 0, Ok(())),
        ("10.0.0.1", 50, 0, Err(Class::Private)),
    ] {
        let answer = some.judge(&asked(ip(address), protocol, port));
        assert_eq!(answer, expected, "{address} {protocol} {port}");
    }
}

#[test]
fn a_prefix_of_one_address_has_no_neighbours_and_one_of_all_is_no_link() {
    let host = HostAddresses {
        own: vec![ip("203.0.113.7"), ip("2001:db8:7::7")],
        on_link: ["203.0.113.7/32", "2001:db8:7::7/128", "0.0.0.0/0", "::/0"]
            .map(|prefix| prefix.parse().unwrap())
            .into(),
    };
    let rules = RuleSet::new(&config(&[], &[]), &host, &gateway());
    for (address, expected) in [
        ("203.0.113.6", None),
        ("203.0.113.7", Some(Class::OwnAddress)),
        ("203.0.113.8", None),
        ("2001:db8:7::6", None),
        ("2001:db8:7::7", Some(Class::OwnAddress)),
        ("2001:db8:7::8", None),
    ] {
        assert_eq!(class_in(&rules, ip(address)), expected, "{address}");
    }
}

#[test]
fn an_explanation_names_the_class_what_opens_it_and_its_count() {
    let config = config(&["10.1.2.3 tcp/443", "tcp/25"], &["203.0.113.0/24 udp/1-9"]);
    let rules = RuleSet::new(&config, &host(), &gateway());
    let mut denied = Denials::default();
    denied.add(Class::Private, 7);
    let explain = |destination: Option<&str>, protocol, port| {
        let asked = Asked {
            destination: destination.map(ip),
            protocol,
            port,
        };
        Explanation::of(&asked, &rules, &config, &denied)
    };
    let private = explain(Some("10.1.2.3"), None, Port::None);
    assert_eq!(
        private.reason,
        "denied: private address (RFC 1918, RFC 6598, RFC 4193); `egress.allow` opens it"
    );
    assert_eq!((private.allowed, private.class), (false, Some("private")));
    assert_eq!(private.denied_packets, 7);
    assert_eq!(
        private.partial_rules,
        ["allow 10.1.2.3/32 tcp/443", "allow tcp/25"]
    );
    assert!(explain(Some("::ffff:10.1.2.3"), Some(TCP), Port::Known(443)).allowed);
    let multicast = explain(Some("224.0.0.1"), None, Port::None);
    assert!(
        multicast.reason.ends_with("no rule opens it"),
        "{}",
        multicast.reason
    );
    assert!(explain(None, Some(TCP), Port::Known(25)).allowed);
    let public = explain(Some("203.0.113.4"), Some(UDP), Port::Known(10));
    assert_eq!((public.allowed, public.denied_packets), (true, 0));
    assert_eq!(public.partial_rules[0], "deny 203.0.113.0/24 udp/1-9");
}

#[test]
fn of_two_addresses_inside_both_must_be_opened() {
    // 8.8.8.9 where a /64 of the local NAT64 prefix has it, and 9.0.0.0 where a /96 would.
    let both = ip("64:ff9b:1:7:8:808:900:0");
    for (allow, expected) in [
        (&["8.8.8.9"][..], Some(Class::Private)),
        (&["9.0.0.0"], Some(Class::Private)),
        (&["8.8.8.9", "9.0.0.0"], None),
    ] {
        assert_eq!(class_in(&rules(allow, &[]), both), expected, "{allow:?}");
    }
}
