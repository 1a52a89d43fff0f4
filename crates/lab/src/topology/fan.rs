//! One client, a router, and several providers with the same world behind them.
//!
//! ```text
//!                          ┌── right0 ── 10.77.1.2  provider 0  198.51.100.2  ── 198.51.100.1 ──┐
//! client ────── router ────┼── right1 ── 10.77.2.2  provider 1  198.51.100.18 ── .17 ───────────┼─ world
//! 10.77.0.1   10.77.0.254  └── right2 ── 10.77.3.2  provider 2  198.51.100.34 ── .33 ───────────┘ 203.0.113.1
//! ```
//!
//! Each provider has a link of its own to the router and one to the world, a /28 of its own, so a service of the world sees
//! by a connection's source which exit it came through. A provider that translates shows its address there; the pool of one
//! that does not is made known to the world by [`Fan::route_back`]. IPv4 alone: which exit carries a flow does not depend on
//! the family.
//!
//! A site is cut and healed by itself, both ways and silently: what comes from it is lost by a policy rule, what goes to it
//! by a blackhole route, for which the kernel sends no ICMP error.

use std::net::{IpAddr, Ipv4Addr};

use super::{CLIENT_V4, ROUTER_LEFT, WORLD_V4, client_network, v4};
use crate::error::{LabError, Result};
use crate::netns::{Destination, Iface, Namespace, Route, RouteTarget, SilentDrop, sysctl, veth};

/// Most providers: so many /28 are in the world's /24, and so many /24 follow the client's.
pub const SITES_MAX: u8 = 16;

/// Addresses of one /28.
const BLOCK: u8 = 16;

/// A provider's place.
#[derive(Debug)]
pub struct Site {
    /// The provider's namespace.
    pub provider: Namespace,
    /// Where it listens.
    pub address: IpAddr,
    /// The source that the world sees of what it translates.
    pub world_address: IpAddr,
    router_iface: Iface,
    cut: Option<SilentDrop>,
}

/// Client – router – providers – world.
#[derive(Debug)]
pub struct Fan {
    /// The providers' places, in order.
    // Dropped first: the rules of cuts live in the router.
    pub sites: Vec<Site>,
    /// The client's namespace.
    pub client: Namespace,
    /// The router's namespace; it forwards and does nothing else.
    pub router: Namespace,
    /// The world's namespace.
    pub world: Namespace,
    /// The client's end of its link to the router.
    pub client_iface: Iface,
    /// The router's address on that link: the client's default route.
    pub gateway: IpAddr,
}

/// Builds client – router – `sites` providers – world, all links with the given MTU in bytes.
///
/// # Errors
/// [`LabError::Invalid`] for no site or more than [`SITES_MAX`]; namespaces cannot be made here, see
/// [`crate::netns::unavailable`].
pub fn fan(sites: u8, mtu: u32) -> Result<Fan> {
    if !(1..=SITES_MAX).contains(&sites) {
        return Err(LabError::Invalid(format!("{sites} sites")));
    }
    let (client, router) = (Namespace::new("client")?, Namespace::new("router")?);
    let world = Namespace::new("world")?;
    let (client_iface, router_left) = veth(&client, "lab0", &router, "left")?;
    address(&client_iface, CLIENT_V4, 24, mtu)?;
    address(&router_left, ROUTER_LEFT[0], 24, mtu)?;
    world.iface("lo")?.add_address(WORLD_V4, 32)?;
    sysctl(&router, "net.ipv4.ip_forward", "1")?;
    client.default_route(ROUTER_LEFT[0])?;
    client_iface.set_gso_segments_max(1)?;
    let sites = (0..sites).map(|number| site(number, &router, &world, mtu));
    Ok(Fan {
        sites: sites.collect::<Result<_>>()?,
        client,
        router,
        world,
        client_iface,
        gateway: ROUTER_LEFT[0],
    })
}

fn site(number: u8, router: &Namespace, world: &Namespace, mtu: u32) -> Result<Site> {
    let provider = Namespace::new(&format!("provider{number}"))?;
    let (near, router_iface) = veth(&provider, "lab0", router, &format!("right{number}"))?;
    let (far, world_iface) = veth(&provider, "world0", world, &format!("exit{number}"))?;
    let (host, gateway) = (v4(10, 77, number + 1, 2), v4(10, 77, number + 1, 254));
    let block = number * BLOCK;
    let (world_address, beyond) = (v4(198, 51, 100, block + 2), v4(198, 51, 100, block + 1));
    address(&near, host, 24, mtu)?;
    address(&router_iface, gateway, 24, mtu)?;
    address(&far, world_address, 28, mtu)?;
    address(&world_iface, beyond, 28, mtu)?;
    near.set_gso_segments_max(1)?;
    provider.default_route(beyond)?;
    provider.add_route(&Route {
        destination: client_network(0),
        target: RouteTarget::Via(gateway),
        mtu: None,
    })?;
    Ok(Site {
        provider,
        address: host,
        world_address,
        router_iface,
        cut: None,
    })
}

impl Fan {
    /// Cuts a site from the router silently, both ways; what is cut stays cut.
    ///
    /// # Errors
    /// [`LabError::Invalid`] for no such site; the kernel refused.
    pub fn cut(&mut self, site: usize) -> Result<()> {
        let router = &self.router;
        let of = self.sites.get_mut(site).ok_or_else(|| no_site(site))?;
        if of.cut.is_none() {
            router.add_route(&of.blackhole())?;
            of.cut = Some(router.silent_drop(&of.router_iface)?);
        }
        Ok(())
    }

    /// Heals a site's way, both ways.
    ///
    /// # Errors
    /// As [`Fan::cut`].
    pub fn heal(&mut self, site: usize) -> Result<()> {
        let of = self.sites.get_mut(site).ok_or_else(|| no_site(site))?;
        if of.cut.take().is_some() {
            self.router.delete_route(&of.blackhole())?;
        }
        Ok(())
    }

    /// Tells the world that `pool` is behind a site, whose provider does not translate.
    ///
    /// # Errors
    /// [`LabError::Invalid`] for no such site; the kernel refused.
    pub fn route_back(&self, site: usize, pool: Destination) -> Result<()> {
        let of = self.sites.get(site).ok_or_else(|| no_site(site))?;
        self.world.add_route(&Route {
            destination: pool,
            target: RouteTarget::Via(of.world_address),
            mtu: None,
        })
    }
}

impl Site {
    fn blackhole(&self) -> Route {
        Route {
            destination: Destination::host(self.address),
            target: RouteTarget::Blackhole,
            mtu: None,
        }
    }
}

/// The network of addresses with the first two bytes `a.b`, as a pool of a provider is written.
#[must_use]
pub fn pool(a: u8, b: u8) -> Destination {
    Destination {
        address: IpAddr::V4(Ipv4Addr::new(a, b, 0, 0)),
        prefix_len: 16,
    }
}

fn no_site(site: usize) -> LabError {
    LabError::Invalid(format!("no site {site}"))
}

fn address(iface: &Iface, address: IpAddr, prefix_len: u8, mtu: u32) -> Result<()> {
    iface.set_mtu(mtu)?;
    iface.add_address(address, prefix_len)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stderr)]

    use std::time::Duration;

    use super::*;
    use crate::netns::unavailable;
    use crate::probe::ping;

    #[test]
    fn a_site_is_cut_by_itself_and_heals() {
        if let Some(reason) = unavailable() {
            eprintln!("skipped: {reason}");
            return;
        }
        let mut fan = fan(2, 1_500).unwrap();
        let answers = |fan: &Fan| {
            let (ms, short) = (Duration::from_millis(1), Duration::from_millis(250));
            [0, 1].map(|site: usize| {
                let to = fan.sites[site].address;
                let report = fan
                    .client
                    .run(|| ping(to, 56, 1, ms, short))
                    .unwrap()
                    .unwrap();
                // An ICMP error would tell of the cut.
                assert_eq!(report.errors, 0);
                report.received
            })
        };
        assert_eq!(answers(&fan), [1, 1]);
        fan.cut(1).unwrap();
        fan.cut(1).unwrap();
        assert_eq!(answers(&fan), [1, 0]);
        fan.heal(1).unwrap();
        fan.heal(1).unwrap();
        assert_eq!(answers(&fan), [1, 1]);
        assert!(fan.cut(2).is_err());
    }

    #[test]
    fn no_site_and_one_too_many_are_refused() {
        for sites in [0, SITES_MAX + 1] {
            assert!(matches!(fan(sites, 1_500), Err(LabError::Invalid(_))));
        }
    }
}
