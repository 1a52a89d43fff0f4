//! Routes through an interface.
//!
//! The kernel's own "replace" takes the first route to the same destination with the same metric, *whatever interface it
//! goes through*, so it could cut a host off from its network. Here a route is added exclusively; only when one is there
//! already, and it goes through this interface, is it replaced. Between the look and the replacement another program may
//! act; then the later one wins, as always with routes.
//!
//! Only the main table is touched. The destination's host bits are cleared first, as the kernel demands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt;
use nix::libc::{EEXIST, ESRCH};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteScope,
};

use super::address::check_prefix;
use super::{Link, errno};
use crate::error::TunError;

/// The metric that the kernel gives an IPv6 route without one (`IP6_RT_PRIO_USER`).
const IPV6_METRIC_DEFAULT: u32 = 1_024;

impl Link {
    /// Routes a destination through this interface, in the main table. `metric`: lower wins; `None` is 0 for IPv4 and
    /// 1,024 for IPv6, the kernel's defaults. The interface has to be up.
    ///
    /// # Errors
    ///
    /// [`TunError::RouteTaken`] when another interface has the same destination and metric,
    /// [`TunError::InvalidPrefix`], [`TunError::Ipv6Disabled`], [`TunError::NotPermitted`], else [`TunError::Link`].
    pub async fn replace_route(
        &self,
        destination: (IpAddr, u8),
        metric: Option<u32>,
    ) -> Result<(), TunError> {
        let route = self.message(destination, metric, false)?;
        let routes = self.netlink.handle.route();
        let added = match routes.add(route.clone()).execute().await {
            Err(error) if errno(&error) == Some(EEXIST) => {
                if !self.owns(destination, metric).await? {
                    let (destination, prefix_length) = destination;
                    return Err(TunError::RouteTaken {
                        destination,
                        prefix_length,
                    });
                }
                routes.add(route).replace().execute().await
            }
            result => result,
        };
        added.map_err(|error| self.explain_route(destination, "add a route", error))
    }

    /// Removes the route through this interface; `metric` as it was given, `None`: whichever is first. One that is not
    /// there is fine.
    ///
    /// # Errors
    ///
    /// [`TunError::InvalidPrefix`], [`TunError::NotPermitted`], else [`TunError::Link`].
    pub async fn remove_route(
        &self,
        destination: (IpAddr, u8),
        metric: Option<u32>,
    ) -> Result<(), TunError> {
        let route = self.message(destination, metric, true)?;
        match self.netlink.handle.route().del(route).execute().await {
            Err(error) if errno(&error) == Some(ESRCH) => Ok(()),
            result => {
                result.map_err(|error| self.explain_route(destination, "remove a route", error))
            }
        }
    }

    fn message(
        &self,
        destination: (IpAddr, u8),
        metric: Option<u32>,
        any_scope: bool,
    ) -> Result<RouteMessage, TunError> {
        let (address, prefix_length) = destination;
        check_prefix(address, prefix_length)?;
        let network = network(address, prefix_length);
        let mut builder = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(network, prefix_length)
            .map_err(|_| TunError::InvalidPrefix {
                address,
                prefix_length,
            })?
            .output_interface(self.index)
            // A device without gateways: IPv4 routes through it have link scope. IPv6 knows no scopes.
            .scope(if any_scope {
                RouteScope::NoWhere
            } else {
                RouteScope::Link
            });
        if let Some(metric) = metric {
            builder = builder.priority(metric);
        }
        Ok(builder.build())
    }

    /// Whether a route to the destination with the metric goes through this interface.
    async fn owns(&self, destination: (IpAddr, u8), metric: Option<u32>) -> Result<bool, TunError> {
        let mut query = RouteMessage::default();
        query.header.address_family = self.message(destination, None, true)?.header.address_family;
        let routes: Vec<_> = self
            .netlink
            .handle
            .route()
            .get(query)
            .execute()
            .try_collect()
            .await
            .map_err(|error| self.explain("read the routes", error))?;
        let wanted = Key::wanted(destination, metric);
        Ok(routes.iter().any(|route| {
            Key::of(route).is_some_and(|(key, interface)| key == wanted && interface == self.index)
        }))
    }

    fn explain_route(
        &self,
        destination: (IpAddr, u8),
        operation: &'static str,
        error: rtnetlink::Error,
    ) -> TunError {
        if destination.0.is_ipv6() {
            self.explain_ipv6(operation, error)
        } else {
            self.explain(operation, error)
        }
    }
}

/// What makes two routes of the main table the same to the kernel.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    network: IpAddr,
    prefix_length: u8,
    metric: u32,
}

impl Key {
    fn wanted((address, prefix_length): (IpAddr, u8), metric: Option<u32>) -> Self {
        let default = if address.is_ipv6() {
            IPV6_METRIC_DEFAULT
        } else {
            0
        };
        let metric = match metric {
            None => default,
            // The kernel takes IPv6's 0 for "none given".
            Some(0) => default,
            Some(metric) => metric,
        };
        Self {
            network: network(address, prefix_length),
            prefix_length,
            metric,
        }
    }

    /// The key and the interface of a route that was read; `None` for other tables and for routes without an interface.
    fn of(route: &RouteMessage) -> Option<(Self, u32)> {
        use rtnetlink::packet_route::AddressFamily;

        if route.header.table != RouteHeader::RT_TABLE_MAIN {
            return None;
        }
        let mut network = if route.header.address_family == AddressFamily::Inet6 {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        };
        let mut metric = 0;
        let mut interface = None;
        for attribute in &route.attributes {
            if let RouteAttribute::Destination(RouteAddress::Inet(ip)) = attribute {
                network = IpAddr::V4(*ip);
            } else if let RouteAttribute::Destination(RouteAddress::Inet6(ip)) = attribute {
                network = IpAddr::V6(*ip);
            } else if let RouteAttribute::Priority(value) = attribute {
                metric = *value;
            } else if let RouteAttribute::Oif(index) = attribute {
                interface = Some(*index);
            }
        }
        let prefix_length = route.header.destination_prefix_length;
        Some((
            Self {
                network,
                prefix_length,
                metric,
            },
            interface?,
        ))
    }
}

/// The address with its host bits cleared. `prefix_length` is within the family.
fn network(address: IpAddr, prefix_length: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(prefix_length))
                .unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(prefix_length))
                .unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn host_bits_are_cleared() {
        for (address, length, expected) in [
            ("10.1.2.3", 0, "0.0.0.0"),
            ("255.1.2.3", 1, "128.0.0.0"),
            ("10.1.2.3", 31, "10.1.2.2"),
            ("10.1.2.3", 32, "10.1.2.3"),
            ("fd00::ff", 0, "::"),
            ("fd00::ff", 8, "fd00::"),
            ("fd00::ff", 127, "fd00::fe"),
            ("fd00::ff", 128, "fd00::ff"),
        ] {
            assert_eq!(
                network(ip(address), length),
                ip(expected),
                "{address}/{length}"
            );
        }
    }

    #[test]
    fn the_kernels_default_metrics_are_known() {
        assert_eq!(Key::wanted((ip("10.0.0.0"), 8), None).metric, 0);
        assert_eq!(Key::wanted((ip("fd00::"), 8), None).metric, 1_024);
        assert_eq!(Key::wanted((ip("fd00::"), 8), Some(0)).metric, 1_024);
        assert_eq!(Key::wanted((ip("fd00::"), 8), Some(5)).metric, 5);
    }
}
