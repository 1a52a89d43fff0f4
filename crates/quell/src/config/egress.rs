//! The provider's way to the world: `[egress]`.
//!
//! Two kinds. `userspace` needs no privileges: clients' flows end in the provider, and ordinary sockets of the host speak
//! for them; it is the default, so that a provider runs for whoever may run a program. `tun` hands packets to the kernel,
//! which forwards and translates them: less work for each packet, every protocol, and CAP_NET_ADMIN.
//!
//! `mtu` and `tun_name` are of both: the first is what packets towards clients are at most, the second names the control
//! socket also where no interface is made.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use quell_core::config::{self, ConfigError};
use quell_core::provider::rules::Rule;
use quell_egress::EgressError;
use quell_egress::userspace::UserspaceConfig;
use serde::Deserialize;

use super::common::{Offload, interface_name};
use super::limits::BitRate;
use super::text;

/// `[egress]`: how packets reach the world.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EgressSection {
    /// Which way.
    pub kind: EgressKind,
    /// Whether clients' packets leave with the host's own address; for `tun` alone.
    ///
    /// True: pool addresses are private, so answers would not find back. False
    /// where another machine translates, or routes the pools to this one.
    pub masquerade: bool,
    /// Name of the interface, and of the control socket.
    ///
    /// `quell-exit`. 1 to 15 letters, digits, `-`, `_` or `.`.
    pub tun_name: String,
    /// Largest packet, in bytes: the MTU of the interface.
    ///
    /// 1,500: what the world behind it sends; packets that a client's path cannot
    /// carry draw a packet-too-big. Range 1,280 to 9,000.
    #[serde(deserialize_with = "text::number")]
    pub mtu: u16,
    /// Whether the interface uses the kernel's offloads; for `tun` alone.
    ///
    /// `auto`, as in the client's `[tun]`: what a kernel does not know is done
    /// without. `off` is for a kernel whose offloads are broken.
    pub offload: Offload,
    /// What clients may speak to although it is denied by default: see [`quell_core::config::EgressRulesConfig::allow`].
    #[serde(deserialize_with = "text::list")]
    pub allow: Vec<Rule>,
    /// What clients may not speak to, also where `allow` names it: see [`quell_core::config::EgressRulesConfig::deny`].
    #[serde(deserialize_with = "text::list")]
    pub deny: Vec<Rule>,
    /// See [`quell_core::config::ShareConfig::egress_rate_bits_per_s`].
    #[serde(deserialize_with = "text::option")]
    pub rate: Option<BitRate>,
    /// What `userspace` may hold.
    pub userspace: UserspaceSection,
}

impl Default for EgressSection {
    fn default() -> Self {
        Self {
            kind: EgressKind::Userspace,
            masquerade: true,
            tun_name: "quell-exit".into(),
            mtu: 1500,
            offload: Offload::Auto,
            allow: Vec::new(),
            deny: Vec::new(),
            rate: None,
            userspace: UserspaceSection::default(),
        }
    }
}

/// The ways out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EgressKind {
    /// Sockets of the host, without privileges: TCP, UDP and, where the host allows it, echo.
    #[default]
    Userspace,
    /// An own TUN, forwarding by the kernel. Needs CAP_NET_ADMIN.
    Tun,
}

impl EgressKind {
    /// Its name, as files have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Userspace => "userspace",
            Self::Tun => "tun",
        }
    }
}

/// `[egress.userspace]`: what an egress of sockets may hold, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserspaceSection {
    /// See [`UserspaceConfig::tcp_flows_max`].
    #[serde(deserialize_with = "text::number")]
    pub tcp_flows_max: usize,
    /// See [`UserspaceConfig::tcp_connecting_max`].
    #[serde(deserialize_with = "text::number")]
    pub tcp_connecting_max: usize,
    /// See [`UserspaceConfig::tcp_buffer_bytes`]. `tcp_buffer` in the file.
    #[serde(rename = "tcp_buffer", deserialize_with = "text::size")]
    pub tcp_buffer_bytes: usize,
    /// See [`UserspaceConfig::tcp_connect_timeout`].
    #[serde(deserialize_with = "text::one")]
    pub tcp_connect_timeout: Duration,
    /// See [`UserspaceConfig::tcp_idle`].
    #[serde(deserialize_with = "text::one")]
    pub tcp_idle: Duration,
    /// See [`UserspaceConfig::tcp_idle_transitory`].
    #[serde(deserialize_with = "text::one")]
    pub tcp_idle_transitory: Duration,
    /// See [`UserspaceConfig::associations_max`].
    #[serde(deserialize_with = "text::number")]
    pub associations_max: u32,
    /// See [`UserspaceConfig::remotes_max`].
    #[serde(deserialize_with = "text::number")]
    pub remotes_max: usize,
    /// See [`UserspaceConfig::udp_idle`].
    #[serde(deserialize_with = "text::one")]
    pub udp_idle: Duration,
    /// See [`UserspaceConfig::source_ipv4`].
    #[serde(deserialize_with = "text::option")]
    pub source_ipv4: Option<Ipv4Addr>,
    /// See [`UserspaceConfig::source_ipv6`].
    #[serde(deserialize_with = "text::option")]
    pub source_ipv6: Option<Ipv6Addr>,
}

impl Default for UserspaceSection {
    fn default() -> Self {
        let UserspaceConfig {
            tcp_flows_max,
            tcp_connecting_max,
            tcp_buffer_bytes,
            tcp_connect_timeout,
            tcp_idle,
            tcp_idle_transitory,
            associations_max,
            remotes_max,
            udp_idle,
            source_ipv4,
            source_ipv6,
            mtu: _,
        } = UserspaceConfig::default();
        Self {
            tcp_flows_max,
            tcp_connecting_max,
            tcp_buffer_bytes,
            tcp_connect_timeout,
            tcp_idle,
            tcp_idle_transitory,
            associations_max,
            remotes_max,
            udp_idle,
            source_ipv4,
            source_ipv6,
        }
    }
}

impl EgressSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        interface_name("egress.tun_name", &self.tun_name)?;
        config::number("egress.mtu", self.mtu, 1280..=9000)?;
        self.userspace().map(drop)
    }

    /// What a userspace egress is started with.
    ///
    /// # Errors
    /// The first setting outside of its range.
    pub fn userspace(&self) -> Result<UserspaceConfig, ConfigError> {
        let section = self.userspace.clone();
        let config = UserspaceConfig {
            tcp_flows_max: section.tcp_flows_max,
            tcp_connecting_max: section.tcp_connecting_max,
            tcp_buffer_bytes: section.tcp_buffer_bytes,
            tcp_connect_timeout: section.tcp_connect_timeout,
            tcp_idle: section.tcp_idle,
            tcp_idle_transitory: section.tcp_idle_transitory,
            associations_max: section.associations_max,
            remotes_max: section.remotes_max,
            udp_idle: section.udp_idle,
            source_ipv4: section.source_ipv4,
            source_ipv6: section.source_ipv6,
            mtu: self.mtu,
        };
        config.try_new().map_err(named)
    }
}

/// The egress's own complaint, with the key as the file has it.
fn named(error: EgressError) -> ConfigError {
    let EgressError::InvalidSetting {
        key,
        value,
        allowed,
    } = error
    else {
        return ConfigError::new("egress.userspace", error, "a table that the egress takes");
    };
    // Sizes are named without their unit in files.
    let key = key.strip_suffix("_bytes").unwrap_or(key);
    ConfigError::new(format!("egress.userspace.{key}"), value, allowed)
}
