//! Which rules, which routes, which firewall: text for `ip -batch` and `nft -f`, without I/O.
//!
//! A route of `tun.routes` is *marked* when it needs the mark: it is all of a family, or it covers a provider's address, or
//! a provider's address is not known beforehand. Marked routes stand in the tunnel's own table, behind the rules that are
//! drawn in the crate's doc. The others stand in the main table, where the longest prefix wins as everywhere.
//!
//! With `fail_closed` the own table ends in "unreachable" from the start, so that an application hears at once that there
//! is no way. Without, it has an end only while a session lives, for the family that the session does not carry: a route
//! into the TUN, where the firewall rejects it ([`Barrier`]). After a crash the TUN is gone, its routes with it, and the host
//! is as open as it was asked to be.
//!
//! Names and prefixes are parsed values, never a user's text: nothing can be injected.

use std::fmt::Write as _;
use std::net::IpAddr;

use quell_host::TunName;
use quell_packet::Prefix;

use crate::host::Family;

/// Where the rules stand, in the order in which the kernel asks: captive portal, excluded, links of the host, tunnel.
const PORTAL: u32 = 6_606;
const EXCLUDED: u32 = 6_608;
const LINKS: u32 = 6_609;
const TUNNEL: u32 = 6_610;
/// Metric of "unreachable" in the own table: behind every route into the TUN.
const LAST: u32 = 4_000;
/// What a captive portal takes: names, and the web.
const PORTAL_PORTS: [(&str, u16); 4] = [("udp", 53), ("tcp", 53), ("tcp", 80), ("tcp", 443)];
/// What is on a local network, and nowhere else: private, link-local, multicast, broadcast.
const LAN_V4: &str =
    "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 169.254.0.0/16, 224.0.0.0/4, 255.255.255.255";
const LAN_V6: &str = "fc00::/7, fe80::/10, ff02::/16";
/// What goes into the TUN and is not carried: see [`Plan::inside`].
const UNCARRIED_CHAINS: &str = "\x20 chain uncarried { }
\x20 chain output {
\x20   type filter hook output priority 0; policy accept;
\x20   jump uncarried
\x20 }
\x20 chain forward {
\x20   type filter hook forward priority 0; policy accept;
\x20   jump uncarried
\x20 }
";

/// Which families a session carries, and under which of the TUN's addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// The address inside, if IPv4 is carried.
    pub ipv4: Option<std::net::Ipv4Addr>,
    /// The address inside, if IPv6 is carried.
    pub ipv6: Option<std::net::Ipv6Addr>,
}

impl Carried {
    const fn has(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.ipv4.is_some(),
            Family::V6 => self.ipv6.is_some(),
        }
    }
}

/// What takes a family that a session does not carry, so that none of it goes around the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Barrier {
    /// A route into the TUN, where the firewall rejects what comes: it goes with the TUN, however the process ends.
    Tun,
    /// "unreachable": it stays until somebody takes it away.
    Unreachable,
}

/// What is to be on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) tun: TunName,
    pub(crate) mark: u32,
    pub(crate) marked: Vec<Prefix>,
    pub(crate) plain: Vec<Prefix>,
    pub(crate) exclude: Vec<Prefix>,
    pub(crate) fail_closed: bool,
    pub(crate) allow_lan: bool,
}

impl Plan {
    /// Sorts `routes`; `providers` are their addresses, `None` when one of them is not known beforehand.
    pub(crate) fn sort(
        routes: &[Prefix],
        providers: Option<&[IpAddr]>,
    ) -> (Vec<Prefix>, Vec<Prefix>) {
        let needs_mark = |route: &Prefix| {
            let covers = |addresses: &[IpAddr]| addresses.iter().any(|ip| route.contains(*ip));
            route.len() == 0 || providers.is_none_or(covers)
        };
        routes.iter().partition(|route| needs_mark(route))
    }

    /// Whether there is anything beyond routes in the main table.
    pub(crate) fn is_marked(&self) -> bool {
        !self.marked.is_empty() || !self.exclude.is_empty()
    }

    /// Whether the whole machine's traffic is taken: then that of both families.
    pub(crate) fn is_whole(&self) -> bool {
        self.marked.iter().any(|route| route.len() == 0)
    }

    fn takes(&self, family: Family) -> bool {
        self.is_whole() || self.marked.iter().any(|route| family.is_of(route))
    }

    /// The rules of a family, as arguments of `ip rule add` and `ip rule del`.
    fn rule_list(&self, family: Family) -> Vec<String> {
        let excluded = self.exclude.iter().filter(|prefix| family.is_of(prefix));
        let mut rules: Vec<_> = excluded
            .map(|prefix| format!("pref {EXCLUDED} to {prefix} lookup main"))
            .collect();
        if self.takes(family) {
            let mark = self.mark;
            rules.push(format!("pref {LINKS} lookup main suppress_prefixlength 0"));
            rules.push(format!("not fwmark {mark} pref {TUNNEL} lookup {mark}"));
        }
        rules
    }

    pub(crate) fn add_rules(&self, family: Family) -> String {
        lines("rule add", &self.rule_list(family))
    }

    /// Rules and the own table go.
    pub(crate) fn remove_rules(&self, family: Family) -> String {
        let mut batch = lines("rule del", &self.rule_list(family));
        // Writing to a string cannot fail.
        let _ = writeln!(batch, "route flush table {}", self.mark);
        batch + &lines("rule del", &portal_rules())
    }

    /// What the own table ends in while there is no session.
    pub(crate) fn closed_routes(&self, family: Family) -> String {
        match self.fail_closed && self.takes(family) {
            true => self.unreachable(),
            false => String::new(),
        }
    }

    fn unreachable(&self) -> String {
        let mark = self.mark;
        format!("route replace unreachable default metric {LAST} table {mark}\n")
    }

    /// The own table while a session is up. A family that is carried in part ends in "unreachable", whatever the barrier.
    pub(crate) fn open_routes(&self, family: Family, carried: Carried, barrier: Barrier) -> String {
        let (tun, mark) = (self.tun.as_str(), self.mark);
        let mut batch = String::new();
        let mut has_default = false;
        if carried.has(family) {
            for route in self.marked.iter().filter(|route| family.is_of(route)) {
                has_default |= route.len() == 0;
                let _ = writeln!(batch, "route replace {route} dev {tun} table {mark}");
            }
        }
        if self.is_whole() && !has_default {
            match barrier {
                Barrier::Tun if !carried.has(family) => {
                    let _ = writeln!(
                        batch,
                        "route replace default dev {tun} metric {LAST} table {mark}"
                    );
                }
                Barrier::Tun | Barrier::Unreachable => batch += &self.unreachable(),
            }
        }
        batch
    }

    /// The routes of the main table. Added and never replaced: one to the same destination may be another interface's.
    pub(crate) fn plain_routes(&self, family: Family, carried: Carried) -> String {
        let tun = self.tun.as_str();
        let mine = |route: &&Prefix| family.is_of(route) && carried.has(family);
        let routes = self.plain.iter().filter(mine);
        let routes: Vec<_> = routes.map(|route| format!("{route} dev {tun}")).collect();
        lines("route add", &routes)
    }

    /// The same of an earlier session.
    pub(crate) fn remove_plain_routes(&self, family: Family) -> String {
        let tun = self.tun.as_str();
        let mine = self.plain.iter().filter(|route| family.is_of(route));
        let routes: Vec<_> = mine.map(|route| format!("{route} dev {tun}")).collect();
        lines("route del", &routes)
    }

    /// The table's name.
    pub(crate) fn table(&self) -> String {
        self.tun.table("quellvpn")
    }

    /// The whole firewall, in the place of what was there, in one transaction.
    pub(crate) fn firewall(&self) -> String {
        let (table, tun, mark) = (self.table(), self.tun.as_str(), self.mark);
        let closed = match self.fail_closed {
            true => self.closed_chains(),
            false => UNCARRIED_CHAINS.to_owned(),
        };
        format!(
            "add table inet {table}\n\
             delete table inet {table}\n\
             table inet {table} {{\n\
             \x20 set inside4 {{ type ipv4_addr; }}\n\
             \x20 set inside6 {{ type ipv6_addr; }}\n\
             \x20 set portal {{ type inet_proto . inet_service; flags timeout; }}\n\
             \x20 chain foreign {{\n\
             \x20   type filter hook prerouting priority -300; policy accept;\n\
             \x20   iifname != {{ \"lo\", \"{tun}\" }} ip daddr @inside4 counter drop\n\
             \x20   iifname != {{ \"lo\", \"{tun}\" }} ip6 daddr @inside6 counter drop\n\
             \x20 }}\n\
             \x20 chain recall {{\n\
             \x20   type filter hook prerouting priority -150; policy accept;\n\
             \x20   ct mark {mark} meta mark set {mark}\n\
             \x20 }}\n\
             \x20 chain remember {{\n\
             \x20   type filter hook postrouting priority -150; policy accept;\n\
             \x20   meta mark {mark} ct mark set {mark}\n\
             \x20 }}\n\
             {closed}\
             }}\n"
        )
    }

    /// Nothing leaves but through the TUN, with the mark, or by name of an exception.
    fn closed_chains(&self) -> String {
        let (tun, mark) = (self.tun.as_str(), self.mark);
        let mut excluded = String::new();
        for (family, word) in [(Family::V4, "ip"), (Family::V6, "ip6")] {
            let mine = self.exclude.iter().filter(|prefix| family.is_of(prefix));
            let list: Vec<_> = mine.map(ToString::to_string).collect();
            if !list.is_empty() {
                let list = list.join(", ");
                let _ = writeln!(excluded, "    {word} daddr {{ {list} }} accept");
            }
        }
        // Names are not asked of the local network: they would say where the user goes (case B75).
        let lan = match self.allow_lan {
            true => format!(
                "    meta l4proto {{ tcp, udp }} th dport {{ 53, 853 }} counter reject with icmpx admin-prohibited\n\
                 \x20   ip daddr {{ {LAN_V4} }} accept\n\
                 \x20   ip6 daddr {{ {LAN_V6} }} accept\n"
            ),
            false => String::new(),
        };
        format!(
            "\x20 chain output {{\n\
             \x20   type filter hook output priority 0; policy drop;\n\
             \x20   jump leave\n\
             \x20 }}\n\
             \x20 chain forward {{\n\
             \x20   type filter hook forward priority 0; policy drop;\n\
             \x20   iifname \"{tun}\" accept\n\
             \x20   jump leave\n\
             \x20 }}\n\
             \x20 chain leave {{\n\
             \x20   oifname {{ \"lo\", \"{tun}\" }} accept\n\
             \x20   meta mark {mark} accept\n\
             \x20   udp sport 68 udp dport 67 accept\n\
             \x20   ip6 daddr {{ fe80::/10, ff02::1:2 }} udp sport 546 udp dport 547 accept\n\
             \x20   ip6 hoplimit 255 icmpv6 type {{ nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert }} accept\n\
             \x20   ip6 daddr ff02::/16 icmpv6 type {{ mld-listener-report, mld-listener-done, mld2-listener-report }} accept\n\
             {excluded}\
             \x20   meta l4proto . th dport @portal accept\n\
             {lan}\
             \x20   counter reject with icmpx admin-prohibited\n\
             \x20 }}\n"
        )
    }

    pub(crate) fn remove_firewall(&self) -> String {
        let table = self.table();
        format!("add table inet {table}\ndelete table inet {table}\n")
    }

    /// The addresses inside, for what comes from outside and pretends; and what of the way into the TUN leads nowhere.
    pub(crate) fn inside(&self, carried: Carried) -> String {
        let table = self.table();
        let mut script =
            format!("flush set inet {table} inside4\nflush set inet {table} inside6\n");
        if let Some(address) = carried.ipv4 {
            let _ = writeln!(script, "add element inet {table} inside4 {{ {address} }}");
        }
        if let Some(address) = carried.ipv6 {
            let _ = writeln!(script, "add element inet {table} inside6 {{ {address} }}");
        }
        if !self.fail_closed {
            script += &self.reject_uncarried(carried);
        }
        script
    }

    fn reject_uncarried(&self, carried: Carried) -> String {
        let (table, tun) = (self.table(), self.tun.as_str());
        let mut script = format!("flush chain inet {table} uncarried\n");
        for (family, word) in [(Family::V4, "ipv4"), (Family::V6, "ipv6")] {
            if self.is_whole() && !carried.has(family) {
                // A connect hears a reset at once, and an ICMP error not before its second SYN.
                for reject in [
                    "meta l4proto tcp counter reject with tcp reset",
                    "counter reject with icmpx admin-prohibited",
                ] {
                    let _ = writeln!(
                        script,
                        "add rule inet {table} uncarried oifname \"{tun}\" meta nfproto {word} {reject}"
                    );
                }
            }
        }
        script
    }

    /// Opens the firewall for a captive portal; the kernel closes it after so long, whoever lives then.
    pub(crate) fn portal(&self, seconds: u64) -> String {
        let table = self.table();
        let element = |(protocol, port)| format!("{protocol} . {port} timeout {seconds}s");
        let elements = PORTAL_PORTS.map(element).join(", ");
        format!("flush set inet {table} portal\nadd element inet {table} portal {{ {elements} }}\n")
    }

    pub(crate) fn close_portal(&self) -> String {
        format!("flush set inet {} portal\n", self.table())
    }
}

/// The rules that lead a portal's traffic around the tunnel.
fn portal_rules() -> Vec<String> {
    let rule =
        |(protocol, port)| format!("pref {PORTAL} ipproto {protocol} dport {port} lookup main");
    PORTAL_PORTS.map(rule).to_vec()
}

pub(crate) fn add_portal_rules() -> String {
    lines("rule add", &portal_rules())
}

pub(crate) fn remove_portal_rules() -> String {
    lines("rule del", &portal_rules())
}

fn lines(verb: &str, items: &[String]) -> String {
    items
        .iter()
        .map(|item| format!("{verb} {item}\n"))
        .collect()
}

#[cfg(test)]
mod tests;
