//! Who may be spoken to through the exit (DESIGN §8).
//!
//! A client's packets leave with the provider's own address, so whatever trusts that address (its own network, its cloud's
//! metadata service, the services on its loopback) would trust every client. Each packet is therefore judged before it goes
//! to the egress, whichever egress that is:
//!
//! ```text
//! egress.deny ──matches──→ denied           [`Class::Operator`]
//!      │
//! egress.allow ─matches──→ allowed          a rule without a prefix opens a port, not an address: see `rule`
//!      │
//! a class ─────is true───→ denied           `special`, the host's addresses and links, the pools, TCP 25
//!      │
//!   allowed
//! ```
//!
//! An IPv6 destination with IPv4 addresses inside (`embedded`) is judged in all of its places, and is allowed when each of
//! them is. `egress.allow` of the IPv4 address inside opens the IPv6 forms of it, too; an allowance of the form opens
//! nothing that is inside: `::/0` does not mean the host's private network.
//!
//! Every packet is judged by itself and by the rules of the moment, so a changed rule holds at once for connections that
//! stand, too. That is a binary search or three among some dozen ranges; nothing is looked up, allocated or remembered.
//!
//! What cannot be known here: an address of the host that another machine translates to it (a cloud's public address), and
//! networks that the host reaches by a route. The operator names those in `egress.deny`.

mod class;
mod embedded;
mod explain;
mod guard;
mod host;
mod provider;
mod ranges;
mod rule;
mod special;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use quell_packet::{Prefix, protocol};

pub use class::{Class, Denials};
pub use explain::Explanation;
pub use guard::EgressCounters;
pub(super) use guard::{EgressGuard, Fate};
pub use host::HostAddresses;
pub use rule::{Asked, Port, Ports, Rule, RuleError, Service};

use crate::config::EgressRulesConfig;
use crate::status::TunnelAddresses;
use embedded::embedded;
use ranges::{Cell, Mark, Ranges, Span};
use special::SPECIAL;

/// The port of mail between servers.
const SMTP_PORT: u16 = 25;

/// Everything that decides who may be spoken to, compiled.
#[derive(Debug)]
pub(super) struct RuleSet {
    ipv4: Ranges<u32>,
    ipv6: Ranges<u128>,
    /// Denied by the operator, wherever.
    deny_anywhere: Vec<Service>,
    /// Ports that the operator opens where nothing else is denied.
    allow_anywhere: Vec<Service>,
}

/// Spans of both families.
#[derive(Default)]
struct Spans {
    ipv4: Vec<Span<u32>>,
    ipv6: Vec<Span<u128>>,
}

impl Spans {
    fn add(&mut self, prefix: Prefix, mark: Mark) {
        match prefix.addr() {
            IpAddr::V4(addr) => {
                let first = addr.to_bits();
                let last = first | u32::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
                self.ipv4.push(Span { first, last, mark });
            }
            IpAddr::V6(addr) => {
                let first = addr.to_bits();
                let last = first | u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
                self.ipv6.push(Span { first, last, mark });
            }
        }
    }
}

impl RuleSet {
    /// Compiles the operator's rules, the host's addresses, and the pools with the provider's own addresses in them.
    pub(super) fn new(
        config: &EgressRulesConfig,
        host: &HostAddresses,
        gateway: &TunnelAddresses,
    ) -> Self {
        let mut spans = Spans::default();
        for (prefix, class) in SPECIAL {
            // The table is held by its tests.
            if let Ok(prefix) = prefix.parse() {
                spans.add(prefix, Mark::Class(*class));
            }
        }
        for (prefix, class) in host.ranges().chain(pools(gateway)) {
            spans.add(prefix, Mark::Class(class));
        }
        let mut anywhere = [Vec::new(), Vec::new()];
        let lists = [
            (&config.deny, Mark::Deny as fn(Service) -> Mark),
            (&config.allow, Mark::Allow),
        ];
        for ((rules, mark), anywhere) in lists.into_iter().zip(&mut anywhere) {
            for rule in rules {
                match rule.prefix {
                    Some(prefix) => spans.add(prefix, mark(rule.service)),
                    None => anywhere.push(rule.service),
                }
            }
        }
        let [deny_anywhere, allow_anywhere] = anywhere;
        Self {
            ipv4: Ranges::new(spans.ipv4),
            ipv6: Ranges::new(spans.ipv6),
            deny_anywhere,
            allow_anywhere,
        }
    }

    /// Whether what is asked may be sent.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn judge(&self, asked: &Asked) -> Result<(), Class> {
        let [outer, first, second] = self.places(asked.destination);
        let all = || [outer, first, second].into_iter().flatten();
        let is = |services: &[Service], hidden| {
            services.iter().any(|service| service.covers(asked, hidden))
        };
        if is(&self.deny_anywhere, true) || all().any(|cell| is(&cell.deny, true)) {
            return Err(Class::Operator);
        }
        let allows = |cell: &Cell| !cell.allow.is_empty() && is(&cell.allow, false);
        let denies = |cell: &Cell| {
            cell.class
                .filter(|class| !class.is_opened_by_allow() || !allows(cell))
        };
        let mut inside = [first, second].into_iter().flatten().peekable();
        // Without an address inside, the destination is the place that counts.
        let is_allowed = match inside.peek() {
            None => outer.is_some_and(allows),
            Some(_) => inside.all(allows),
        };
        let denied = match outer.and_then(denies) {
            Some(class) if class.is_opened_by_allow() && is_allowed => None,
            other => other,
        };
        let inside = [first, second].into_iter().flatten().filter_map(denies);
        if let Some(class) = denied.into_iter().chain(inside).min() {
            return Err(class);
        }
        let is_smtp = asked.protocol == Some(protocol::TCP)
            && matches!(asked.port, Port::Known(SMTP_PORT) | Port::Hidden);
        if is_smtp && !is_allowed && !is(&self.allow_anywhere, false) {
            return Err(Class::Smtp);
        }
        Ok(())
    }

    /// What holds at the destination, and at the addresses inside of it.
    fn places(&self, destination: Option<IpAddr>) -> [Option<&Cell>; 3] {
        match destination {
            None => [None; 3],
            Some(IpAddr::V4(address)) => [Some(self.ipv4.at(address.to_bits())), None, None],
            Some(IpAddr::V6(address)) => {
                let [first, second] = embedded(address)
                    .map(|inside| inside.map(|inside| self.ipv4.at(inside.to_bits())));
                [Some(self.ipv6.at(address.to_bits())), first, second]
            }
        }
    }
}

/// The provider's own addresses in the tunnel, and those of its clients.
fn pools(gateway: &TunnelAddresses) -> impl Iterator<Item = (Prefix, Class)> {
    let both = [
        gateway.ipv4.map(|(addr, len)| (IpAddr::from(addr), len)),
        gateway.ipv6.map(|(addr, len)| (IpAddr::from(addr), len)),
    ];
    both.into_iter().flatten().flat_map(|(addr, len)| {
        let own = (Prefix::host(addr), Class::OwnAddress);
        let pool = Prefix::new(addr, len).ok();
        pool.map(|pool| (pool, Class::Clients))
            .into_iter()
            .chain([own])
    })
}
