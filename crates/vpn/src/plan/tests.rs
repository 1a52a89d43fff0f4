//! The texts that a host is changed by, letter by letter.

#![allow(clippy::unwrap_used)]

use super::*;

fn prefixes(texts: &[&str]) -> Vec<Prefix> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn plan(routes: &[&str]) -> Plan {
    let (marked, plain) = Plan::sort(&prefixes(routes), Some(&["192.0.2.1".parse().unwrap()]));
    Plan {
        tun: TunName::new("quell0").unwrap(),
        mark: 6_610,
        marked,
        plain,
        exclude: Vec::new(),
        fail_closed: false,
        allow_lan: false,
    }
}

fn both() -> Carried {
    Carried {
        ipv4: Some("10.85.0.2".parse().unwrap()),
        ipv6: Some("fd71::2".parse().unwrap()),
    }
}

fn only_v4() -> Carried {
    Carried {
        ipv6: None,
        ..both()
    }
}

#[test]
fn a_route_needs_the_mark_when_it_may_cover_a_provider() {
    let routes = prefixes(&["192.0.2.0/24", "198.51.100.0/24", "0.0.0.0/0"]);
    let sorted = |provider: &str| Plan::sort(&routes, Some(&[provider.parse().unwrap()]));
    let known = sorted("192.0.2.1");
    assert_eq!(known.0, prefixes(&["192.0.2.0/24", "0.0.0.0/0"]));
    assert_eq!(known.1, prefixes(&["198.51.100.0/24"]));
    let elsewhere = sorted("203.0.113.1");
    assert_eq!(elsewhere.0, prefixes(&["0.0.0.0/0"]));
    // A name is found when it is dialled: it may be anywhere.
    assert_eq!(Plan::sort(&routes, None).0, routes);
}

#[test]
fn routes_beside_the_provider_stand_in_the_main_table_and_nothing_else_is_done() {
    let plan = plan(&["198.51.100.0/24", "2001:db8::/32"]);
    assert!(!plan.is_marked() && !plan.is_whole());
    assert_eq!(plan.add_rules(Family::V4), "");
    assert_eq!(
        plan.open_routes(Family::V6, both(), Barrier::Unreachable),
        ""
    );
    assert_eq!(
        plan.plain_routes(Family::V4, both()),
        "route add 198.51.100.0/24 dev quell0\n"
    );
    assert_eq!(plan.plain_routes(Family::V6, only_v4()), "");
}

#[test]
fn a_whole_machine_has_these_rules_and_routes() {
    let mut plan = plan(&["0.0.0.0/0", "::/0"]);
    plan.exclude = prefixes(&["198.51.100.0/24"]);
    assert!(plan.is_whole());
    assert_eq!(
        plan.add_rules(Family::V4),
        "rule add pref 6608 to 198.51.100.0/24 lookup main\n\
         rule add pref 6609 lookup main suppress_prefixlength 0\n\
         rule add not fwmark 6610 pref 6610 lookup 6610\n"
    );
    assert_eq!(
        plan.add_rules(Family::V6),
        "rule add pref 6609 lookup main suppress_prefixlength 0\n\
         rule add not fwmark 6610 pref 6610 lookup 6610\n"
    );
    assert_eq!(
        plan.open_routes(Family::V4, both(), Barrier::Unreachable),
        "route replace 0.0.0.0/0 dev quell0 table 6610\n"
    );
    // Without `fail_closed` nothing stands in the way while there is no session.
    assert_eq!(plan.closed_routes(Family::V4), "");
    assert_eq!(
        plan.remove_rules(Family::V6),
        "rule del pref 6609 lookup main suppress_prefixlength 0\n\
         rule del not fwmark 6610 pref 6610 lookup 6610\n\
         route flush table 6610\n\
         rule del pref 6606 ipproto udp dport 53 lookup main\n\
         rule del pref 6606 ipproto tcp dport 53 lookup main\n\
         rule del pref 6606 ipproto tcp dport 80 lookup main\n\
         rule del pref 6606 ipproto tcp dport 443 lookup main\n"
    );
}

#[test]
fn a_family_that_is_not_carried_or_not_named_is_barred_and_not_around() {
    const UNREACHABLE: &str = "route replace unreachable default metric 4000 table 6610\n";
    const INTO_THE_TUN: &str = "route replace default dev quell0 metric 4000 table 6610\n";
    let whole = plan(&["0.0.0.0/0", "::/0"]);
    let of = |plan: &Plan, carried, barrier| plan.open_routes(Family::V6, carried, barrier);
    assert_eq!(of(&whole, only_v4(), Barrier::Unreachable), UNREACHABLE);
    assert_eq!(of(&whole, only_v4(), Barrier::Tun), INTO_THE_TUN);
    let named_v4 = plan(&["0.0.0.0/0"]);
    assert!(named_v4.add_rules(Family::V6).contains("lookup 6610"));
    // The TUN has an address of the family: something of it may be meant for it.
    assert_eq!(of(&named_v4, both(), Barrier::Tun), UNREACHABLE);
    let closed = Plan {
        fail_closed: true,
        ..named_v4
    };
    for family in Family::ALL {
        assert_eq!(closed.closed_routes(family), UNREACHABLE);
    }
}

const OPEN: &str = r#"add table inet quellvpn_quell0
delete table inet quellvpn_quell0
table inet quellvpn_quell0 {
  set inside4 { type ipv4_addr; }
  set inside6 { type ipv6_addr; }
  set portal { type inet_proto . inet_service; flags timeout; }
  chain foreign {
    type filter hook prerouting priority -300; policy accept;
    iifname != { "lo", "quell0" } ip daddr @inside4 counter drop
    iifname != { "lo", "quell0" } ip6 daddr @inside6 counter drop
  }
  chain recall {
    type filter hook prerouting priority -150; policy accept;
    ct mark 6610 meta mark set 6610
  }
  chain remember {
    type filter hook postrouting priority -150; policy accept;
    meta mark 6610 ct mark set 6610
  }
}
"#;

const UNCARRIED: &str = r#"  chain uncarried { }
  chain output {
    type filter hook output priority 0; policy accept;
    jump uncarried
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    jump uncarried
  }
}
"#;

const CLOSED: &str = r#"  chain output {
    type filter hook output priority 0; policy drop;
    jump leave
  }
  chain forward {
    type filter hook forward priority 0; policy drop;
    iifname "quell0" accept
    jump leave
  }
  chain leave {
    oifname { "lo", "quell0" } accept
    meta mark 6610 accept
    udp sport 68 udp dport 67 accept
    ip6 daddr { fe80::/10, ff02::1:2 } udp sport 546 udp dport 547 accept
    ip6 hoplimit 255 icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept
    ip6 daddr ff02::/16 icmpv6 type { mld-listener-report, mld-listener-done, mld2-listener-report } accept
    meta l4proto . th dport @portal accept
    counter reject with icmpx admin-prohibited
  }
}
"#;

#[test]
fn the_firewall_is_this() {
    let open = plan(&["0.0.0.0/0", "::/0"]);
    let with = |rest: &str| OPEN.strip_suffix("}\n").unwrap().to_owned() + rest;
    assert_eq!(open.firewall(), with(UNCARRIED));
    let closed = Plan {
        fail_closed: true,
        ..open
    };
    assert_eq!(closed.firewall(), with(CLOSED));
}

#[test]
fn exceptions_stand_before_the_end_and_names_are_never_asked_on_the_lan() {
    let mut closed = plan(&["0.0.0.0/0"]);
    closed.fail_closed = true;
    closed.allow_lan = true;
    closed.exclude = prefixes(&["198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"]);
    let text = closed.firewall();
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} in {text}"))
    };
    let order = [
        at("ip daddr { 198.51.100.0/24, 203.0.113.0/24 } accept"),
        at("ip6 daddr { 2001:db8::/32 } accept"),
        at("@portal accept"),
        at("th dport { 53, 853 } counter reject"),
        at("ip daddr { 10.0.0.0/8, "),
        at("ip6 daddr { fc00::/7, "),
        at("    counter reject with icmpx admin-prohibited\n  }"),
    ];
    assert!(order.is_sorted(), "{text}");
}

#[test]
fn a_portal_is_open_for_so_long_by_the_kernels_clock() {
    assert_eq!(
        plan(&["0.0.0.0/0"]).portal(300),
        "flush set inet quellvpn_quell0 portal\n\
         add element inet quellvpn_quell0 portal { udp . 53 timeout 300s, tcp . 53 timeout 300s, \
         tcp . 80 timeout 300s, tcp . 443 timeout 300s }\n"
    );
}

#[test]
fn the_addresses_inside_are_those_of_the_session_and_what_is_not_carried_is_rejected() {
    const ADDRESSES: &str = "flush set inet quellvpn_quell0 inside4\n\
         flush set inet quellvpn_quell0 inside6\n\
         add element inet quellvpn_quell0 inside4 { 10.85.0.2 }\n";
    const FLUSH: &str = "flush chain inet quellvpn_quell0 uncarried\n";
    const REJECT: &str = "add rule inet quellvpn_quell0 uncarried oifname \"quell0\" \
         meta nfproto ipv6 meta l4proto tcp counter reject with tcp reset\n\
         add rule inet quellvpn_quell0 uncarried oifname \"quell0\" \
         meta nfproto ipv6 counter reject with icmpx admin-prohibited\n";
    let whole = plan(&["0.0.0.0/0"]);
    assert_eq!(
        whole.inside(only_v4()),
        format!("{ADDRESSES}{FLUSH}{REJECT}")
    );
    assert!(whole.inside(both()).ends_with(FLUSH));
    let closed = Plan {
        fail_closed: true,
        ..whole
    };
    assert_eq!(closed.inside(only_v4()), ADDRESSES);
    // A tunnel for some prefixes leaves all else alone.
    assert!(plan(&["192.0.2.0/24"]).inside(only_v4()).ends_with(FLUSH));
}
