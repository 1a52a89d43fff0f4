//! Which addresses a client has inside the tunnel.
//!
//! A client gets the same host number in every pool, and the same after each
//! reconnect and restart of the provider: its number is derived from its key,
//! and only a collision moves it to the next free one. Nothing has to be stored
//! for that. The first host of each pool is the provider itself; the network
//! and, in IPv4, the broadcast address are never given out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use quell_packet::addr::Prefix;
use quell_wire::key::PublicKey;

use crate::config::ConfigError;
use crate::status::TunnelAddresses;

/// Most hosts that are ever numbered: as many as the largest IPv4 pool, a /8.
const HOSTS_MAX: u32 = 1 << 24;
/// Host number of the provider.
const GATEWAY: u32 = 1;
/// Host number of the first client.
const FIRST_CLIENT: u32 = 2;

/// The address pools and who holds which host number.
#[derive(Debug)]
pub struct AddressPool {
    ipv4: Option<(Ipv4Addr, u8)>,
    ipv6: Option<(Ipv6Addr, u8)>,
    /// One past the last host number that may be given out.
    end: u32,
    by_host: HashMap<u32, PublicKey>,
    by_key: HashMap<PublicKey, u32>,
}

impl AddressPool {
    /// Pools of IPv4, IPv6 or both.
    ///
    /// # Errors
    /// No pool, a pool of the wrong family, or one too small for a single client.
    pub fn try_new(ipv4: Option<Prefix>, ipv6: Option<Prefix>) -> Result<Self, ConfigError> {
        let ipv4 = ipv4.map(ipv4_pool).transpose()?;
        let ipv6 = ipv6.map(ipv6_pool).transpose()?;
        let ends = [
            ipv4.map(|(_, len)| hosts(32 - len) - 1),
            ipv6.map(|(_, len)| hosts(128 - len)),
        ];
        let Some(end) = ends.into_iter().flatten().min() else {
            let allowed = "at least one of ipv4_pool and ipv6_pool";
            return Err(ConfigError::new("addresses", "no pool", allowed));
        };
        Ok(Self {
            ipv4,
            ipv6,
            end,
            by_host: HashMap::new(),
            by_key: HashMap::new(),
        })
    }

    /// Clients that the pools can hold.
    pub fn capacity(&self) -> usize {
        (self.end - FIRST_CLIENT) as usize
    }

    /// The host number of `key`, given out now if it had none; `None` when all are taken.
    pub fn assign(&mut self, key: &PublicKey) -> Option<u32> {
        if let Some(host) = self.by_key.get(key) {
            return Some(*host);
        }
        if self.by_key.len() >= self.capacity() {
            return None;
        }
        let mut host = self.preferred(key);
        while self.by_host.contains_key(&host) {
            host = if host + 1 < self.end {
                host + 1
            } else {
                FIRST_CLIENT
            };
        }
        self.by_host.insert(host, *key);
        self.by_key.insert(*key, host);
        Some(host)
    }

    /// Frees the host number of `key`; which one it was.
    pub fn release(&mut self, key: &PublicKey) -> Option<u32> {
        let host = self.by_key.remove(key)?;
        self.by_host.remove(&host);
        Some(host)
    }

    /// Public keys are uniformly distributed: their bytes are a hash already.
    fn preferred(&self, key: &PublicKey) -> u32 {
        let PublicKey(bytes) = key;
        let seed = bytes
            .iter()
            .take(8)
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let offset = seed % u64::from(self.end - FIRST_CLIENT);
        FIRST_CLIENT + u32::try_from(offset).unwrap_or(0)
    }

    /// The addresses of host number `host`.
    pub fn addresses(&self, host: u32) -> TunnelAddresses {
        TunnelAddresses {
            ipv4: self.ipv4.map(|(net, len)| (ipv4_host(net, host), len)),
            ipv6: self.ipv6.map(|(net, len)| (ipv6_host(net, host), len)),
            gateway_ipv4: self.ipv4.map(|(net, _)| ipv4_host(net, GATEWAY)),
            gateway_ipv6: self.ipv6.map(|(net, _)| ipv6_host(net, GATEWAY)),
        }
    }

    /// The provider's own addresses, with prefix lengths.
    pub fn gateway(&self) -> TunnelAddresses {
        self.addresses(GATEWAY)
    }

    /// The host number that `address` belongs to, when it is inside a pool.
    pub fn host_of(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => {
                let (net, len) = self.ipv4?;
                let host = u32::from(address) ^ u32::from(net);
                (host < hosts(32 - len)).then_some(host)
            }
            IpAddr::V6(address) => {
                let (net, _) = self.ipv6?;
                let host = u128::from(address) ^ u128::from(net);
                u32::try_from(host).ok().filter(|host| *host < self.end)
            }
        }
    }
}

fn hosts(bits: u8) -> u32 {
    1_u32
        .checked_shl(u32::from(bits))
        .unwrap_or(HOSTS_MAX)
        .min(HOSTS_MAX)
}

fn ipv4_host(net: Ipv4Addr, host: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(net) | host)
}

fn ipv6_host(net: Ipv6Addr, host: u32) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(net) | u128::from(host))
}

fn ipv4_pool(prefix: Prefix) -> Result<(Ipv4Addr, u8), ConfigError> {
    let refused = || {
        ConfigError::new(
            "addresses.ipv4_pool",
            prefix,
            "an IPv4 prefix from /8 to /30",
        )
    };
    let IpAddr::V4(net) = prefix.addr() else {
        return Err(refused());
    };
    if !(8..=30).contains(&prefix.len()) {
        return Err(refused());
    }
    Ok((net, prefix.len()))
}

fn ipv6_pool(prefix: Prefix) -> Result<(Ipv6Addr, u8), ConfigError> {
    let allowed = "a unique local IPv6 prefix (fc00::/7) from /32 to /112";
    let refused = || ConfigError::new("addresses.ipv6_pool", prefix, allowed);
    let IpAddr::V6(net) = prefix.addr() else {
        return Err(refused());
    };
    let unique_local = net.octets()[0] & 0xfe == 0xfc;
    if !unique_local || !(32..=112).contains(&prefix.len()) {
        return Err(refused());
    }
    Ok((net, prefix.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pool(ipv4: &str, ipv6: &str) -> AddressPool {
        let parse = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        AddressPool::try_new(parse(ipv4), parse(ipv6)).unwrap()
    }

    fn key(tag: u8) -> PublicKey {
        PublicKey([tag; 32])
    }

    #[test]
    fn a_client_has_one_host_number_in_both_families_and_keeps_it() {
        let mut pool = pool("10.85.0.0/16", "fd71::/64");
        let host = pool.assign(&key(9)).unwrap();
        let addresses = pool.addresses(host);
        let (ipv4, ipv6) = (addresses.ipv4.unwrap().0, addresses.ipv6.unwrap().0);
        assert_eq!(pool.host_of(ipv4.into()), Some(host));
        assert_eq!(pool.host_of(ipv6.into()), Some(host));
        pool.release(&key(9));
        assert_eq!(pool.assign(&key(9)), Some(host));
        assert_eq!(pool.assign(&key(9)), Some(host));
    }

    #[test]
    fn the_smallest_pool_holds_one_client_and_no_second() {
        let mut pool = pool("192.168.7.4/30", "");
        assert_eq!(pool.capacity(), 1);
        let host = pool.assign(&key(1)).unwrap();
        let addresses = pool.addresses(host);
        assert_eq!(addresses.ipv4, Some(("192.168.7.6".parse().unwrap(), 30)));
        assert_eq!(addresses.gateway_ipv4, Some("192.168.7.5".parse().unwrap()));
        assert_eq!(pool.assign(&key(2)), None);
        pool.release(&key(1));
        assert_eq!(pool.assign(&key(2)), Some(host));
    }

    #[test]
    fn a_full_pool_gives_every_host_once_and_neither_network_nor_broadcast() {
        let mut pool = pool("10.0.0.0/24", "");
        let mut hosts: Vec<_> = (0..=252)
            .map(|tag| pool.assign(&key(tag)).unwrap())
            .collect();
        hosts.sort_unstable();
        assert_eq!(hosts, (2..=254).collect::<Vec<_>>());
        assert_eq!(pool.assign(&key(253)), None);
    }

    #[test]
    fn addresses_outside_the_pools_belong_to_nobody() {
        let pool = pool("10.85.0.0/16", "fd71::/64");
        for address in [
            "10.84.255.255",
            "10.86.0.0",
            "fd71:0:0:1::2",
            "fd72::2",
            "fd71::1:0:0",
        ] {
            assert_eq!(pool.host_of(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn pools_outside_their_range_are_refused_by_name() {
        for (ipv4, ok) in [
            ("10.0.0.0/8", true),
            ("10.0.0.0/7", false),
            ("10.0.0.0/30", true),
            ("10.0.0.0/31", false),
        ] {
            assert_eq!(
                AddressPool::try_new(ipv4.parse().ok(), None).is_ok(),
                ok,
                "{ipv4}"
            );
        }
        for (ipv6, ok) in [
            ("fd00::/32", true),
            ("fd00::/31", false),
            ("fd00::/112", true),
            ("fd00::/113", false),
            ("2001:db8::/64", false),
        ] {
            assert_eq!(
                AddressPool::try_new(None, ipv6.parse().ok()).is_ok(),
                ok,
                "{ipv6}"
            );
        }
        assert_eq!(
            AddressPool::try_new(None, None).unwrap_err().key,
            "addresses"
        );
    }
}
