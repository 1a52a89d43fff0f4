//! What the tunnel means to the rest of the machine: `[vpn]`.
//!
//! Read and checked here with the rest of the file, carried out by `quell up`: the library itself changes neither names'
//! servers nor the firewall. All of it needs a TUN.

use std::net::IpAddr;
use std::path::PathBuf;

use quell_core::config::ConfigError;
use quell_packet::addr::Prefix;
use serde::Deserialize;

use super::client::TunSection;
use super::text::{self, Text};

/// Most servers of names: what a resolver reads (resolv.conf(5)).
const DNS_MAX: usize = 3;

/// `[vpn]`: names, firewall, and the mark of the tunnel's own packets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VpnSection {
    /// Who is asked for names while the tunnel is up.
    ///
    /// None: the host's resolver is left as it is. 1 to 3 addresses.
    #[serde(deserialize_with = "text::list")]
    pub dns: Vec<IpAddr>,
    /// Whether nothing leaves but through the tunnel, until `quell down`.
    ///
    /// `false`: who loses the tunnel by a crash is not cut off without having asked for it.
    pub fail_closed: bool,
    /// Whether hosts on the local network are reached all the same.
    ///
    /// `false`: a network that calls itself local may be anybody's. Names are never asked there.
    pub allow_lan: bool,
    /// The firewall mark of the tunnel's own packets, and the number of its routing table.
    ///
    /// 6,610: the port's number, which no distribution uses for a table. Range 256 to 2,147,483,647.
    #[serde(deserialize_with = "text::number")]
    pub mark: u32,
    /// The file of names' servers, where no systemd-resolved runs.
    ///
    /// `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
}

impl Default for VpnSection {
    fn default() -> Self {
        Self {
            dns: Vec::new(),
            fail_closed: false,
            allow_lan: false,
            mark: 6_610,
            resolv_conf: "/etc/resolv.conf".into(),
        }
    }
}

impl Text for IpAddr {
    const FORM: &'static str = r#"an IP address such as "9.9.9.9" or "2620:fe::fe""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: std::net::AddrParseError| error.to_string())
    }
}

impl VpnSection {
    pub(super) fn check(&self, tun: &TunSection, has_proxy: bool) -> Result<(), ConfigError> {
        quell_core::config::number("vpn.mark", self.mark, 256..=2_147_483_647)?;
        if self.dns.len() > DNS_MAX {
            let allowed = format!("at most {DNS_MAX}");
            let count = format!("{} servers", self.dns.len());
            return Err(ConfigError::new("vpn.dns", count, allowed));
        }
        if !self.resolv_conf.is_absolute() {
            let (value, allowed) = (self.resolv_conf.display(), "an absolute path");
            return Err(ConfigError::new("vpn.resolv_conf", value, allowed));
        }
        if has_proxy {
            let none = "none beside [proxy]: it makes no interface, and leaves the machine alone";
            if self.fail_closed {
                return Err(ConfigError::new("vpn.fail_closed", true, none));
            }
            if let Some(server) = self.dns.first() {
                return Err(ConfigError::new("vpn.dns", server, none));
            }
            if let Some(prefix) = tun.exclude.first() {
                return Err(ConfigError::new("tun.exclude", prefix, none));
            }
        }
        if self.fail_closed && !tun.routes.iter().any(is_default) {
            let allowed = "false, or tun.routes = [\"0.0.0.0/0\", \"::/0\"]: what may leave \
                           through no tunnel could not leave at all";
            return Err(ConfigError::new("vpn.fail_closed", true, allowed));
        }
        Ok(())
    }
}

/// Whether a route is all of a family.
fn is_default(route: &Prefix) -> bool {
    route.len() == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn whole() -> TunSection {
        TunSection {
            routes: vec!["0.0.0.0/0".parse().unwrap()],
            ..TunSection::default()
        }
    }

    #[test]
    fn each_rule_has_its_limit() {
        let good = VpnSection::default();
        good.check(&TunSection::default(), true).unwrap();
        for mark in [256, 2_147_483_647] {
            let vpn = VpnSection {
                mark,
                ..good.clone()
            };
            vpn.check(&whole(), false).unwrap();
        }
        for mark in [255, 2_147_483_648] {
            let vpn = VpnSection {
                mark,
                ..good.clone()
            };
            assert_eq!(vpn.check(&whole(), false).unwrap_err().key, "vpn.mark");
        }
        let dns = |count| VpnSection {
            dns: vec!["9.9.9.9".parse().unwrap(); count],
            ..good.clone()
        };
        dns(3).check(&whole(), false).unwrap();
        assert_eq!(dns(4).check(&whole(), false).unwrap_err().key, "vpn.dns");
        assert_eq!(dns(1).check(&whole(), true).unwrap_err().key, "vpn.dns");
        let relative = VpnSection {
            resolv_conf: "resolv.conf".into(),
            ..good
        };
        let error = relative.check(&whole(), false).unwrap_err();
        assert_eq!(error.key, "vpn.resolv_conf");
    }

    #[test]
    fn who_fails_closed_has_a_default_route_and_a_tun() {
        let closed = VpnSection {
            fail_closed: true,
            ..VpnSection::default()
        };
        closed.check(&whole(), false).unwrap();
        for (tun, has_proxy) in [(TunSection::default(), false), (whole(), true)] {
            let error = closed.check(&tun, has_proxy).unwrap_err();
            assert_eq!(error.key, "vpn.fail_closed");
        }
    }
}
