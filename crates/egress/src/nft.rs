//! The egress's one table of nftables, installed and removed by the program `nft`.
//!
//! The rules go to `nft -f -` as one transaction that adds the table, deletes it and adds it again with its content: the
//! first makes the second succeed, so the result is the same whatever was there, and the kernel takes all or nothing.
//!
//! ```text
//! postrouting   from a pool, and leaving by another interface than the TUN: masquerade
//! forward       from the TUN, and from no pool: drop
//! ```
//!
//! The second is a second line: the provider's core drops foreign sources before they reach the TUN. A family without a
//! pool has no source that could be right, so all of it is dropped. Nothing is accepted that the host's other tables
//! drop, connection tracking is not asked, and the MSS is clamped elsewhere (in the provider).
//!
//! Names and prefixes are parsed values, never text from a user: nothing can be injected.

use std::fmt::Write as _;

use quell_host::TunName;
use quell_packet::Prefix;

/// The arguments with which `nft` takes a script.
pub(crate) const NFT_ARGS: [&str; 2] = ["-f", "-"];

/// The rules for a TUN and its pools, of which at least one is given.
pub(crate) fn install_script(
    tun: &TunName,
    ipv4_pool: Option<Prefix>,
    ipv6_pool: Option<Prefix>,
) -> String {
    let table = tun.table("quell");
    let tun = tun.as_str();
    let mut masquerade = String::new();
    let mut forward = String::new();
    for (protocol, pool) in [("ip", ipv4_pool), ("ip6", ipv6_pool)] {
        let family = if protocol == "ip" { "ipv4" } else { "ipv6" };
        // Writing to a string cannot fail.
        let _ = match pool {
            Some(pool) => writeln!(
                masquerade,
                "    {protocol} saddr {pool} oifname != \"{tun}\" masquerade"
            )
            .and_then(|()| {
                writeln!(
                    forward,
                    "    iifname \"{tun}\" {protocol} saddr != {pool} counter drop"
                )
            }),
            None => writeln!(
                forward,
                "    iifname \"{tun}\" meta nfproto {family} counter drop"
            ),
        };
    }
    format!(
        "add table inet {table}\n\
         delete table inet {table}\n\
         table inet {table} {{\n\
         \x20 chain postrouting {{\n\
         \x20   type nat hook postrouting priority 100; policy accept;\n\
         {masquerade}\
         \x20 }}\n\
         \x20 chain forward {{\n\
         \x20   type filter hook forward priority 0; policy accept;\n\
         {forward}\
         \x20 }}\n\
         }}\n"
    )
}

/// Removes the table, whether it is there or not.
pub(crate) fn remove_script(tun: &TunName) -> String {
    let table = tun.table("quell");
    format!("add table inet {table}\ndelete table inet {table}\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn quell0() -> TunName {
        TunName::new("quell0").unwrap()
    }

    #[test]
    fn the_rules_are_these() {
        let script = install_script(
            &quell0(),
            Some("10.7.0.0/16".parse().unwrap()),
            Some("fd00:7::/64".parse().unwrap()),
        );
        let expected = r#"add table inet quell_quell0
delete table inet quell_quell0
table inet quell_quell0 {
  chain postrouting {
    type nat hook postrouting priority 100; policy accept;
    ip saddr 10.7.0.0/16 oifname != "quell0" masquerade
    ip6 saddr fd00:7::/64 oifname != "quell0" masquerade
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    iifname "quell0" ip saddr != 10.7.0.0/16 counter drop
    iifname "quell0" ip6 saddr != fd00:7::/64 counter drop
  }
}
"#;
        assert_eq!(script, expected);
    }

    // case B88
    #[test]
    fn a_family_without_a_pool_is_not_masqueraded_and_dropped_from_the_tun() {
        let v4 = install_script(&quell0(), Some("10.7.0.0/16".parse().unwrap()), None);
        assert!(!v4.contains("ip6 saddr"), "{v4}");
        assert!(
            v4.contains("iifname \"quell0\" meta nfproto ipv6 counter drop"),
            "{v4}"
        );
        let v6 = install_script(&quell0(), None, Some("fd00:7::/64".parse().unwrap()));
        assert!(!v6.contains("ip saddr"), "{v6}");
        assert!(
            v6.contains("iifname \"quell0\" meta nfproto ipv4 counter drop"),
            "{v6}"
        );
    }
}
