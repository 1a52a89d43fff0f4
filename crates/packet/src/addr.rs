//! Which addresses are what.
//!
//! These predicates are asked by guards (may a client reach this destination through the exit? may an ICMP error go
//! there?), and a guard that compares spellings is passed by another spelling. `::ffff:10.0.0.1`, `64:ff9b::a00:1` and
//! `2002:a00:1::` all end at `10.0.0.1` on a host that maps, translates or tunnels. So every predicate here judges the
//! address at which a packet would end, [`effective`], and only [`is_v4_mapped`] and [`nat64_embedded`] speak of the
//! spelling.
//!
//! The ranges are those of the IANA special-purpose registries (RFC 6890 and its updates). [`is_public`] is the
//! complement a policy starts from: what is in none of them.

mod prefix;

pub use prefix::Prefix;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 address at which packets to this IPv6 address would end: IPv4-mapped (RFC 4291 §2.5.5.2), IPv4-compatible
/// (§2.5.5.1, deprecated), NAT64 (RFC 6052, RFC 8215) and 6to4 (RFC 3056).
#[must_use]
pub const fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    match s {
        // `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => nat64_embedded(address),
    }
}

/// The address that a packet to `address` would end at: the embedded IPv4 address where there is one.
#[must_use]
pub const fn effective(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => IpAddr::V4(v4),
            None => address,
        },
    }
}

/// The IPv4 address in a NAT64 address: `64:ff9b::/96` (RFC 6052), and the last 32 bits under the local-use
/// `64:ff9b:1::/48` (RFC 8215), whose operators may place it elsewhere.
#[must_use]
pub const fn nat64_embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, _, _, _, high, low] => {
            Some(v4(high, low))
        }
        _ => None,
    }
}

/// Whether the address is spelt as IPv4-mapped IPv6, `::ffff:0:0/96`.
#[must_use]
pub const fn is_v4_mapped(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
    }
}

/// Private networks: RFC 1918, the shared space of carrier NAT (`100.64.0.0/10`, RFC 6598), unique local IPv6
/// (RFC 4193) and the deprecated site-local `fec0::/10`.
#[must_use]
pub const fn is_private(address: IpAddr) -> bool {
    match effective(address) {
        IpAddr::V4(v4) => v4.is_private() || matches!(v4.octets(), [100, 64..=127, ..]),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.segments()[0] & 0xffc0 == 0xfec0,
    }
}

/// `127.0.0.0/8` and `::1`.
#[must_use]
pub const fn is_loopback(address: IpAddr) -> bool {
    match effective(address) {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback(),
    }
}

/// `169.254.0.0/16` (where clouds put their metadata services) and `fe80::/10`.
#[must_use]
pub const fn is_link_local(address: IpAddr) -> bool {
    match effective(address) {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// `224.0.0.0/4` and `ff00::/8`.
#[must_use]
pub const fn is_multicast(address: IpAddr) -> bool {
    match effective(address) {
        IpAddr::V4(v4) => v4.is_multicast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// `0.0.0.0/8` ("this network", RFC 1122 §3.2.1.3) and `::`.
#[must_use]
pub const fn is_unspecified(address: IpAddr) -> bool {
    match effective(address) {
        IpAddr::V4(v4) => v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_unspecified(),
    }
}

/// `240.0.0.0/4`, reserved (RFC 1112 §4), with the limited broadcast address in it. A subnet's own broadcast address
/// cannot be told without its prefix.
#[must_use]
pub const fn is_reserved_or_broadcast(address: IpAddr) -> bool {
    match effective(address) {
        IpAddr::V4(v4) => v4.octets()[0] >= 240,
        IpAddr::V6(_) => false,
    }
}

/// Ranges for examples: RFC 5737, RFC 3849 and RFC 9637.
#[must_use]
pub const fn is_documentation(address: IpAddr) -> bool {
    match effective(address) {
        IpAddr::V4(v4) => v4.is_documentation(),
        IpAddr::V6(v6) => matches!(
            v6.segments(),
            [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..]
        ),
    }
}

/// Whether the address can be a single host's: not multicast, broadcast, reserved or unspecified.
#[must_use]
pub const fn is_host(address: IpAddr) -> bool {
    !is_multicast(address) && !is_unspecified(address) && !is_reserved_or_broadcast(address)
}

/// Whether the address is a host's on the public Internet: in no special-purpose range.
#[must_use]
pub const fn is_public(address: IpAddr) -> bool {
    let special = match effective(address) {
        // Protocol assignments (RFC 6890), 6to4 relays (RFC 7526) and benchmarking (RFC 2544).
        IpAddr::V4(v4) => matches!(
            v4.octets(),
            [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..]
        ),
        // Only 2000::/3 is given out as global unicast; 2001::/23 in it holds protocol assignments (RFC 2928).
        IpAddr::V6(v6) => {
            v6.segments()[0] & 0xe000 != 0x2000 || matches!(v6.segments(), [0x2001, 0..=0x01ff, ..])
        }
    };
    !special
        && is_host(address)
        && !is_private(address)
        && !is_loopback(address)
        && !is_link_local(address)
        && !is_documentation(address)
}

const fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits((high as u32) << 16 | low as u32)
}

#[cfg(test)]
mod tests;
