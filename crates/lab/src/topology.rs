//! Ready-made arrangements of namespaces.
//!
//! ```text
//! two_hosts:  client ─────────────── provider
//!           10.77.0.1             10.77.0.2
//!           fd77::1               fd77::2
//!
//! routed:     client ────── router ────── provider ────── world
//!           10.77.0.1   .0.254  .1.254   10.77.1.2
//!           fd77::1    fd77::fe fd77:1::fe  fd77:1::2
//!                                        198.51.100.2   198.51.100.1
//!                                        2001:db8:100::2  ::1     on its loopback: 203.0.113.1, 2001:db8:113::1
//! ```
//!
//! The world stands for the Internet behind a provider. It has a route to the provider's link and no other: a packet with a
//! tunnel's inner source draws no answer, so an answer proves that the provider translated addresses. Its services stand on
//! addresses of documentation prefixes (RFC 5737, RFC 3849), beyond its link: neither private nor on-link, which a provider
//! refuses by default. The provider does not forward until its egress says so.
//!
//! [`fan`] has several providers side by side; see [`Fan`].
//!
//! The router's links can be cut silently and healed, each way by itself, and the path's MTU can shrink under a running
//! transfer in the two ways that the Internet knows: with the ICMP error that tells ([`Routed::set_path_mtu`]), and without
//! ([`Routed::set_silent_mtu`]). Client and provider send no segmentation-offloaded packets there, which evade the latter.

mod fan;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::Result;
use crate::netns::{Destination, Iface, Namespace, Route, RouteTarget, SilentDrop, sysctl, veth};

pub use fan::{Fan, SITES_MAX, Site, fan, pool};

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(head: [u16; 3], tail: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(head[0], head[1], head[2], 0, 0, 0, 0, tail))
}

/// The client, in both arrangements.
pub const CLIENT_V4: IpAddr = v4(10, 77, 0, 1);
/// The client, in both arrangements.
pub const CLIENT_V6: IpAddr = v6([0xfd77, 0, 0], 1);
/// The provider of [`two_hosts`].
pub const NEAR_PROVIDER_V4: IpAddr = v4(10, 77, 0, 2);
/// The provider of [`two_hosts`].
pub const NEAR_PROVIDER_V6: IpAddr = v6([0xfd77, 0, 0], 2);
/// The provider of [`routed`], behind the router.
pub const FAR_PROVIDER_V4: IpAddr = v4(10, 77, 1, 2);
/// The provider of [`routed`], behind the router.
pub const FAR_PROVIDER_V6: IpAddr = v6([0xfd77, 1, 0], 2);
/// The provider's address on the world's side: the source that masqueraded packets have.
pub const PROVIDER_WORLD_V4: IpAddr = v4(198, 51, 100, 2);
/// The provider's address on the world's side: the source that masqueraded packets have.
pub const PROVIDER_WORLD_V6: IpAddr = v6([0x2001, 0xdb8, 0x100], 2);
/// The world's services.
pub const WORLD_V4: IpAddr = v4(203, 0, 113, 1);
/// The world's services.
pub const WORLD_V6: IpAddr = v6([0x2001, 0xdb8, 0x113], 1);

const ROUTER_LEFT: [IpAddr; 2] = [v4(10, 77, 0, 254), v6([0xfd77, 0, 0], 0xfe)];
const ROUTER_RIGHT: [IpAddr; 2] = [v4(10, 77, 1, 254), v6([0xfd77, 1, 0], 0xfe)];
const WORLD_LINK: [IpAddr; 2] = [v4(198, 51, 100, 1), v6([0x2001, 0xdb8, 0x100], 1)];

const VLAN_TAG_BYTES: u32 = 4;

/// Client and provider, joined by one veth pair.
#[derive(Debug)]
pub struct TwoHosts {
    /// The client's namespace.
    pub client: Namespace,
    /// The provider's namespace.
    pub provider: Namespace,
    /// The client's end of the pair.
    pub client_iface: Iface,
    /// The provider's end of the pair.
    pub provider_iface: Iface,
}

/// Builds client and provider on one link with the given MTU in bytes.
///
/// # Errors
/// Namespaces cannot be made here; see [`crate::netns::unavailable`].
pub fn two_hosts(mtu: u32) -> Result<TwoHosts> {
    let (client, provider) = (Namespace::new("client")?, Namespace::new("provider")?);
    let (client_iface, provider_iface) = veth(&client, "lab0", &provider, "lab0")?;
    address(&client_iface, [CLIENT_V4, CLIENT_V6], mtu)?;
    address(&provider_iface, [NEAR_PROVIDER_V4, NEAR_PROVIDER_V6], mtu)?;
    Ok(TwoHosts {
        client,
        provider,
        client_iface,
        provider_iface,
    })
}

/// Which way through the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the provider.
    Up,
    /// From the provider to the client.
    Down,
}

/// Client – router – provider – world.
#[derive(Debug)]
pub struct Routed {
    // Cuts go first when this is dropped: their rules live in the router.
    cut_up: Option<SilentDrop>,
    cut_down: Option<SilentDrop>,
    /// The client's namespace.
    pub client: Namespace,
    /// The router's namespace; it forwards and does nothing else.
    pub router: Namespace,
    /// The provider's namespace.
    pub provider: Namespace,
    /// The world's namespace.
    pub world: Namespace,
    /// The client's end of its link to the router.
    pub client_iface: Iface,
    /// The router's end of the client's link.
    pub router_left: Iface,
    /// The router's end of the provider's link.
    pub router_right: Iface,
    /// The provider's end of its link to the router.
    pub provider_iface: Iface,
    /// The provider's end of its link to the world.
    pub provider_world: Iface,
    /// The world's end of that link.
    pub world_iface: Iface,
}

/// Builds client – router – provider – world, all links with the given MTU in bytes.
///
/// # Errors
/// Namespaces cannot be made here; see [`crate::netns::unavailable`].
pub fn routed(mtu: u32) -> Result<Routed> {
    let (client, router) = (Namespace::new("client")?, Namespace::new("router")?);
    let (provider, world) = (Namespace::new("provider")?, Namespace::new("world")?);
    let (client_iface, router_left) = veth(&client, "lab0", &router, "left")?;
    let (provider_iface, router_right) = veth(&provider, "lab0", &router, "right")?;
    let (provider_world, world_iface) = veth(&provider, "world0", &world, "lab0")?;

    address(&client_iface, [CLIENT_V4, CLIENT_V6], mtu)?;
    address(&router_left, ROUTER_LEFT, mtu)?;
    address(&router_right, ROUTER_RIGHT, mtu)?;
    address(&provider_iface, [FAR_PROVIDER_V4, FAR_PROVIDER_V6], mtu)?;
    address(&provider_world, [PROVIDER_WORLD_V4, PROVIDER_WORLD_V6], mtu)?;
    address(&world_iface, WORLD_LINK, mtu)?;
    let world_loopback = world.iface("lo")?;
    for service in [WORLD_V4, WORLD_V6] {
        world_loopback.add_address(service, Destination::host(service).prefix_len)?;
    }

    sysctl(&router, "net.ipv4.ip_forward", "1")?;
    sysctl(&router, "net.ipv6.conf.all.forwarding", "1")?;
    for family in 0..2 {
        client.default_route(ROUTER_LEFT[family])?;
        provider.default_route(WORLD_LINK[family])?;
        provider.add_route(&Route {
            destination: client_network(family),
            target: RouteTarget::Via(ROUTER_RIGHT[family]),
            mtu: None,
        })?;
    }
    client_iface.set_gso_segments_max(1)?;
    provider_iface.set_gso_segments_max(1)?;
    Ok(Routed {
        cut_up: None,
        cut_down: None,
        client,
        router,
        provider,
        world,
        client_iface,
        router_left,
        router_right,
        provider_iface,
        provider_world,
        world_iface,
    })
}

impl Routed {
    /// Cuts one way through the router silently; what is cut stays cut.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn cut(&mut self, way: Way) -> Result<()> {
        let (slot, iface) = match way {
            Way::Up => (&mut self.cut_up, &self.router_left),
            Way::Down => (&mut self.cut_down, &self.router_right),
        };
        if slot.is_none() {
            *slot = Some(self.router.silent_drop(iface)?);
        }
        Ok(())
    }

    /// Heals both ways.
    pub fn heal(&mut self) {
        self.cut_up = None;
        self.cut_down = None;
    }

    /// Lets the router forward nothing above `mtu` bytes either way, and say so by ICMP. At least 1,280, or else IPv6 breaks.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_path_mtu(&self, mtu: u32) -> Result<()> {
        let ways = [
            (&self.router_left, [CLIENT_V4, CLIENT_V6]),
            (&self.router_right, [FAR_PROVIDER_V4, FAR_PROVIDER_V6]),
        ];
        for (iface, hosts) in ways {
            for host in hosts {
                let target = RouteTarget::Dev(iface.clone());
                self.router.add_route(&Route {
                    destination: Destination::host(host),
                    target,
                    mtu: Some(mtu),
                })?;
            }
        }
        Ok(())
    }

    /// Lets what arrives at the router above `mtu` bytes vanish, either way: a black hole for path MTU discovery. At least
    /// 1,284, or else the router loses its IPv6 addresses.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_silent_mtu(&self, mtu: u32) -> Result<()> {
        // An interface takes in what exceeds its MTU by less than a VLAN tag, and would then be too narrow to send it on,
        // which draws an ICMP error. So it is made narrower by the tag, and the routes keep the full width.
        self.set_path_mtu(mtu)?;
        for iface in [&self.router_left, &self.router_right] {
            iface.set_mtu(mtu.saturating_sub(VLAN_TAG_BYTES))?;
        }
        Ok(())
    }
}

fn client_network(family: usize) -> Destination {
    if family == 0 {
        Destination {
            address: v4(10, 77, 0, 0),
            prefix_len: 24,
        }
    } else {
        Destination {
            address: v6([0xfd77, 0, 0], 0),
            prefix_len: 64,
        }
    }
}

/// Gives an interface one address of each family, as /24 and /64, and its MTU.
fn address(iface: &Iface, addresses: [IpAddr; 2], mtu: u32) -> Result<()> {
    iface.set_mtu(mtu)?;
    iface.add_address(addresses[0], 24)?;
    iface.add_address(addresses[1], 64)
}

#[cfg(test)]
mod tests;
