//! The constants of the userspace egress: unit, default, range, reason.
//!
//! Two kinds. The bounds (`*_max`, buffers) say what a provider of a home's size may be made to hold by its clients; a
//! host with less room lowers them, and one that runs out of file descriptors first is told so by counters. The times
//! follow the RFCs for address translators (RFC 4787 for UDP, RFC 5382 for TCP), since to a client and to the far end
//! that is what this egress is.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ops::RangeInclusive;
use std::time::Duration;

use quell_packet::addr;
use quell_stack::BUFFER_BYTES_MIN;

use crate::error::EgressError;

/// What a userspace egress may hold, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserspaceConfig {
    /// Most TCP flows at once; a SYN beyond is answered with a reset.
    ///
    /// 20,000: forty each for 500 clients. A flow is one file descriptor: the process's limit (`RLIMIT_NOFILE`), less
    /// 32 for everything else, comes first where it is lower. Range 1 to 1,000,000.
    pub tcp_flows_max: usize,
    /// Most TCP flows whose outside connection does not stand yet; a SYN beyond is answered with a reset.
    ///
    /// 2,048: at the 1,000 connections a second of a busy provider, two seconds of them. It bounds what a flood of SYNs
    /// to silent destinations takes from the flows that work. Range 1 to 1,000,000.
    pub tcp_connecting_max: usize,
    /// Bytes of each of a flow's two buffers, while flows are few: the window a client's TCP is offered, and what is
    /// taken from the outside before the client acknowledges it. See [`buffer_bytes`](Self::buffer_bytes) for many.
    ///
    /// 256 KiB: 40 Mbit/s at 50 ms of round trip for one flow. Pages of it are used as data comes. Range 16 KiB to
    /// 16 MiB.
    pub tcp_buffer_bytes: usize,
    /// How long an outside connection may take to stand; then the client is told that the host is unreachable.
    ///
    /// 30 s: five SYNs of ours (RFC 6298: after 1, 3, 7 and 15 s), and before a client's own TCP gives up. Range 1 s to
    /// 240 s.
    pub tcp_connect_timeout: Duration,
    /// How long an established TCP flow may carry nothing before both ends are reset.
    ///
    /// 7,440 s, the 2 h 4 min of RFC 5382 REQ-5: longer than the keepalives of most systems. Range 60 s to 7 days.
    pub tcp_idle: Duration,
    /// The same for a flow of which one direction has ended, and for one whose client is silent while data waits for it.
    ///
    /// 240 s, the 4 min of RFC 5382 REQ-5: above the 75 s for which a session waits for its client. Range 10 s to 1 h.
    pub tcp_idle_transitory: Duration,
    /// Most UDP and echo associations at once, a host socket each; beyond, one of the client that has most ends, the one
    /// used longest ago.
    ///
    /// 8,192. Range 1 to 65,536.
    pub associations_max: u32,
    /// Remote addresses and ports that an association remembers: these may answer. Beyond, the one spoken to longest
    /// ago is forgotten.
    ///
    /// 256: 10 KiB an association at worst; more than the peers a browser's port ever speaks to. Range 1 to 4,096.
    pub remotes_max: usize,
    /// How long an association may carry nothing before it ends.
    ///
    /// 120 s: the least that RFC 4787 REQ-5 allows, and the idle time of the core's flow table (DESIGN §6). Range 10 s
    /// to 1 h.
    pub udp_idle: Duration,
    /// The host's address that what clients send over IPv4 leaves from.
    ///
    /// None: the one that the host's routes choose. For a host with several, of which one is to be the clients'. An
    /// address of the loopback keeps everything on the loopback: nothing leaves the host from there.
    pub source_ipv4: Option<Ipv4Addr>,
    /// The same over IPv6.
    ///
    /// None: likewise.
    pub source_ipv6: Option<Ipv6Addr>,
    /// Largest packet towards a client, in bytes.
    ///
    /// 1,280: what every path carries in one piece of its own (DESIGN §4). Range 1,280 to 9,000.
    pub mtu: u16,
}

impl Default for UserspaceConfig {
    fn default() -> Self {
        Self {
            tcp_flows_max: 20_000,
            tcp_connecting_max: 2_048,
            tcp_buffer_bytes: 256 * 1024,
            tcp_connect_timeout: Duration::from_secs(30),
            tcp_idle: Duration::from_secs(7_440),
            tcp_idle_transitory: Duration::from_secs(240),
            associations_max: 8_192,
            remotes_max: 256,
            udp_idle: Duration::from_secs(120),
            source_ipv4: None,
            source_ipv6: None,
            mtu: 1_280,
        }
    }
}

impl UserspaceConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// [`EgressError::InvalidSetting`]: the first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, EgressError> {
        let s = Duration::from_secs;
        within("tcp_flows_max", self.tcp_flows_max, 1..=1_000_000)?;
        within("tcp_connecting_max", self.tcp_connecting_max, 1..=1_000_000)?;
        within(
            "tcp_buffer_bytes",
            self.tcp_buffer_bytes,
            BUFFER_BYTES_MIN..=16 << 20,
        )?;
        lasting(
            "tcp_connect_timeout",
            self.tcp_connect_timeout,
            s(1)..=s(240),
        )?;
        lasting("tcp_idle", self.tcp_idle, s(60)..=s(7 * 86_400))?;
        lasting(
            "tcp_idle_transitory",
            self.tcp_idle_transitory,
            s(10)..=s(3_600),
        )?;
        within("associations_max", self.associations_max, 1..=65_536)?;
        within("remotes_max", self.remotes_max, 1..=4_096)?;
        lasting("udp_idle", self.udp_idle, s(10)..=s(3_600))?;
        own("source_ipv4", self.source_ipv4.map(IpAddr::V4))?;
        own("source_ipv6", self.source_ipv6.map(IpAddr::V6))?;
        within("mtu", self.mtu, 1_280..=9_000)?;
        Ok(self)
    }

    /// The address that sockets towards hosts of `peer`'s family are bound to.
    pub(super) fn source(&self, peer: IpAddr) -> Option<IpAddr> {
        match peer {
            IpAddr::V4(_) => self.source_ipv4.map(IpAddr::V4),
            IpAddr::V6(_) => self.source_ipv6.map(IpAddr::V6),
        }
    }

    /// Bytes of each buffer of the flow that comes when `live` flows are there ([`quell_stack::buffer_bytes`]).
    ///
    /// 20,000 of them take 1.6 GB at worst and not the 10 GB of full buffers.
    #[must_use]
    pub fn buffer_bytes(&self, live: usize) -> usize {
        quell_stack::buffer_bytes(self.tcp_buffer_bytes, live, self.tcp_flows_max)
    }
}

/// Whether sockets can be bound to `source`: asked once at the start, so that a typing mistake does not show as a destination
/// that nobody can reach.
fn own(key: &'static str, source: Option<IpAddr>) -> Result<(), EgressError> {
    let Some(source) = source else {
        return Ok(());
    };
    let is_own = addr::is_host(source) && UdpSocket::bind((source, 0)).is_ok();
    is_own
        .then_some(())
        .ok_or_else(|| EgressError::InvalidSetting {
            key,
            value: source.to_string(),
            allowed: "an address of this host".to_owned(),
        })
}

fn within<T: PartialOrd + Display>(
    key: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), EgressError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(EgressError::InvalidSetting {
        key,
        value: value.to_string(),
        allowed: format!("{} to {}", range.start(), range.end()),
    })
}

fn lasting(
    key: &'static str,
    value: Duration,
    range: RangeInclusive<Duration>,
) -> Result<(), EgressError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(EgressError::InvalidSetting {
        key,
        value: format!("{value:?}"),
        allowed: format!("{:?} to {:?}", range.start(), range.end()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    type Change = fn(&mut UserspaceConfig);

    #[test]
    fn each_range_ends_where_it_says() {
        let s = Duration::from_secs;
        assert_eq!(s(120), UserspaceConfig::default().udp_idle);
        let cases: [(&str, Change, Change); 11] = [
            (
                "tcp_flows_max",
                |c| c.tcp_flows_max = 1,
                |c| c.tcp_flows_max = 0,
            ),
            (
                "tcp_connecting_max",
                |c| c.tcp_connecting_max = 1_000_000,
                |c| c.tcp_connecting_max = 1_000_001,
            ),
            (
                "tcp_buffer_bytes",
                |c| c.tcp_buffer_bytes = 16_384,
                |c| c.tcp_buffer_bytes = 16_383,
            ),
            (
                "tcp_connect_timeout",
                |c| c.tcp_connect_timeout = Duration::from_secs(240),
                |c| c.tcp_connect_timeout = Duration::new(240, 1),
            ),
            (
                "tcp_idle",
                |c| c.tcp_idle = Duration::from_secs(60),
                |c| c.tcp_idle = Duration::from_secs(59),
            ),
            (
                "tcp_idle_transitory",
                |c| c.tcp_idle_transitory = Duration::from_secs(3_600),
                |c| c.tcp_idle_transitory = Duration::from_secs(3_601),
            ),
            (
                "associations_max",
                |c| c.associations_max = 65_536,
                |c| c.associations_max = 65_537,
            ),
            (
                "remotes_max",
                |c| c.remotes_max = 4_096,
                |c| c.remotes_max = 4_097,
            ),
            (
                "udp_idle",
                |c| c.udp_idle = Duration::from_secs(10),
                |c| c.udp_idle = Duration::from_secs(9),
            ),
            // 192.0.2.0/24 is nobody's (RFC 5737).
            (
                "source_ipv4",
                |c| c.source_ipv4 = Some(Ipv4Addr::new(127, 3, 2, 1)),
                |c| c.source_ipv4 = Some(Ipv4Addr::new(192, 0, 2, 1)),
            ),
            ("mtu", |c| c.mtu = 1_280, |c| c.mtu = 1_279),
        ];
        for (name, inside, outside) in cases {
            let changed = |change: Change| {
                let mut config = UserspaceConfig::default();
                change(&mut config);
                config.try_new()
            };
            assert!(changed(inside).is_ok(), "{name}");
            match changed(outside) {
                Err(EgressError::InvalidSetting { key, .. }) => assert_eq!(key, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn buffers_shrink_as_the_table_fills() {
        let config = UserspaceConfig::default();
        let kib = |live| config.buffer_bytes(live) / 1024;
        assert_eq!([kib(0), kib(1_249), kib(1_250)], [256, 256, 64]);
        assert_eq!([kib(4_999), kib(5_000), kib(19_999)], [64, 16, 16]);
        let total: usize = (0..20_000).map(|live| 2 * config.buffer_bytes(live)).sum();
        assert!(total < 1_650_000_000, "{total}");
    }
}
