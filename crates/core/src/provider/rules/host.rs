//! The addresses of the provider's host, as its driver reads them.
//!
//! They are an input: the core asks no system. The driver hands in all of them whenever they changed, and those that are no
//! longer among them are denied no more.
//!
//! A prefix that the host is *on* holds its neighbours: machines that are reached without a router, and so past whatever
//! guards the network. They are denied whether their addresses are private or public. A prefix of one address (`/32`,
//! `/128`) has no neighbours. One of length 0 would make the whole world a neighbour; nobody who sets it up means that.

use std::net::IpAddr;

use quell_packet::Prefix;

use super::class::Class;

/// What the host is, and what it is on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostAddresses {
    /// Its own addresses, on all interfaces.
    pub own: Vec<IpAddr>,
    /// The prefixes of its links: of all interfaces but loopback and quell's own TUN.
    pub on_link: Vec<Prefix>,
}

impl HostAddresses {
    /// What is denied for it.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (Prefix, Class)> + '_ {
        let own = self.own.iter().map(|address| Prefix::host(*address));
        let link = self
            .on_link
            .iter()
            .copied()
            .filter(|prefix| prefix.len() > 0);
        own.map(|prefix| (prefix, Class::OwnAddress))
            .chain(link.map(|prefix| (prefix, Class::OnLink)))
    }
}
