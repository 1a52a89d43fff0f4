//! Routes of a namespace, and silent drops on its way through.
//!
//! A [`Route`] says where packets to a prefix go: via a gateway, out of an interface, or nowhere. Its MTU, if it has one, is
//! *locked*: the kernel neither raises nor learns it, and a router answers packets that are too large for it with the ICMP
//! error of their family. So the middle of a path can shrink without either end's interface changing.
//!
//! A [`SilentDrop`] loses all that would be forwarded from one interface, by a policy rule before the routing tables. No ICMP
//! error is sent, no carrier goes, no route changes: to both ends it looks like a path that died. It is a guard; dropping it
//! heals.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rtnetlink::packet_route::route::{
    RouteAttribute, RouteMessage, RouteMetric, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleMessage};
use rtnetlink::{Handle, RouteMessageBuilder};

use super::{Entry, Iface, Namespace};
use crate::error::{LabError, Result};

/// `RTAX_MTU` of `linux/rtnetlink.h`, as a bit of `RTAX_LOCK`.
const MTU_LOCK: u32 = 1 << 2;

/// After the rule for local addresses (0), before the main table (32,766).
const SILENT_DROP_PRIORITY: u32 = 100;

/// A prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// Its address; bits beyond the length must be 0.
    pub address: IpAddr,
    /// Its length in bits.
    pub prefix_len: u8,
}

impl Destination {
    /// All of IPv4.
    pub const ALL_V4: Self = Self {
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        prefix_len: 0,
    };
    /// All of IPv6.
    pub const ALL_V6: Self = Self {
        address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        prefix_len: 0,
    };

    /// One address alone.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self {
            address,
            prefix_len: if address.is_ipv4() { 32 } else { 128 },
        }
    }
}

/// Where a route leads.
#[derive(Debug, Clone)]
pub enum RouteTarget {
    /// To a gateway that is on-link.
    Via(IpAddr),
    /// Out of an interface, to neighbours there or into a TUN.
    Dev(Iface),
    /// Nowhere, silently.
    Blackhole,
}

/// One entry of the main routing table.
#[derive(Debug, Clone)]
pub struct Route {
    /// Which packets it is for.
    pub destination: Destination,
    /// Where it leads.
    pub target: RouteTarget,
    /// The locked MTU of packets that take it, in bytes; `None`: the interface's.
    pub mtu: Option<u32>,
}

impl Route {
    fn message(&self) -> Result<RouteMessage> {
        let invalid = |error| LabError::Invalid(format!("route {self:?}: {error}"));
        let Destination {
            address,
            prefix_len,
        } = self.destination;
        let builder = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(address, prefix_len)
            .map_err(invalid)?;
        let builder = match &self.target {
            RouteTarget::Via(gateway) => builder.gateway(*gateway).map_err(invalid)?,
            RouteTarget::Dev(iface) => builder
                .output_interface(iface.index())
                .scope(RouteScope::Link),
            RouteTarget::Blackhole => builder.kind(RouteType::BlackHole),
        };
        let mut message = builder.build();
        if let Some(mtu) = self.mtu {
            let metrics = vec![RouteMetric::Lock(MTU_LOCK), RouteMetric::Mtu(mtu)];
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        Ok(message)
    }
}

impl Namespace {
    /// Adds a route, or replaces the one to the same destination.
    ///
    /// # Errors
    /// Families do not match, or the kernel refused.
    pub fn add_route(&self, route: &Route) -> Result<()> {
        let message = route.message()?;
        self.entry.netlink(
            || format!("route {route:?}"),
            |handle| async move { handle.route().add(message).replace().execute().await },
        )
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// There is none like it, or the kernel refused.
    pub fn delete_route(&self, route: &Route) -> Result<()> {
        let message = route.message()?;
        self.entry.netlink(
            || format!("delete route {route:?}"),
            |handle| async move { handle.route().del(message).execute().await },
        )
    }

    /// Sends all of the gateway's address family to it.
    ///
    /// # Errors
    /// As [`Namespace::add_route`].
    pub fn default_route(&self, gateway: IpAddr) -> Result<()> {
        let destination = if gateway.is_ipv4() {
            Destination::ALL_V4
        } else {
            Destination::ALL_V6
        };
        self.add_route(&Route {
            destination,
            target: RouteTarget::Via(gateway),
            mtu: None,
        })
    }

    /// Loses silently, until the guard is dropped, what comes in on `iface` to be forwarded.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn silent_drop(&self, iface: &Iface) -> Result<SilentDrop> {
        let mut guard = SilentDrop {
            entry: Arc::clone(&self.entry),
            rules: Vec::new(),
        };
        for v6 in [false, true] {
            let name = iface.name().to_owned();
            let rule = self.entry.netlink(
                || format!("silent drop on {}", iface.name()),
                |handle| async move { add_drop_rule(&handle, &name, v6).await },
            )?;
            guard.rules.push(rule);
        }
        Ok(guard)
    }
}

async fn add_drop_rule(
    handle: &Handle,
    iface: &str,
    v6: bool,
) -> Result<RuleMessage, rtnetlink::Error> {
    let rule = handle
        .rule()
        .add()
        .input_interface(iface)
        .action(RuleAction::Blackhole)
        .priority(SILENT_DROP_PRIORITY);
    if v6 {
        let mut request = rule.v6();
        let message = request.message_mut().clone();
        request.execute().await.map(|()| message)
    } else {
        let mut request = rule.v4();
        let message = request.message_mut().clone();
        request.execute().await.map(|()| message)
    }
}

/// A silent cut of one direction through a router; see [`Namespace::silent_drop`].
#[derive(Debug)]
pub struct SilentDrop {
    entry: Arc<Entry>,
    rules: Vec<RuleMessage>,
}

impl Drop for SilentDrop {
    fn drop(&mut self) {
        for rule in self.rules.drain(..) {
            let healed = self.entry.netlink(
                || "end of a silent drop".into(),
                |handle| async move { handle.rule().del(rule).execute().await },
            );
            if let Err(error) = healed {
                tracing::warn!(%error, "a silent drop stays");
            }
        }
    }
}
