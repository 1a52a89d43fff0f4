//! A client without a TUN: `[proxy]`.
//!
//! Where `socks5` or `http` is set, no interface is made and no privilege is needed: applications are told to use the
//! proxy, and nothing else goes through the tunnel. Both a TUN and a proxy at once are two clients, each with a file and a
//! key of its own.
//!
//! The password stands in a file of its own, as the private key does, so that the configuration can be shown.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use quell_core::config::ConfigError;
use quell_packet::addr::Prefix;
use quell_proxy::{Credentials, DNS_PORT, DNS_SERVERS, ProxyConfig, ProxyError, ProxyLimits};
use serde::Deserialize;

use super::error::LoadError;
use super::key_file::read_password;
use super::text::{self, Text};

/// `[proxy]`: listeners for applications, in the place of a TUN.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProxySection {
    /// Where SOCKS5 (RFC 1928) is spoken; port 0 lets the system choose.
    ///
    /// None. An address that is not the loopback's needs a password.
    #[serde(deserialize_with = "text::option")]
    pub socks5: Option<SocketAddr>,
    /// Where HTTP is spoken; port 0 lets the system choose.
    ///
    /// None. An address that is not the loopback's needs a password.
    #[serde(deserialize_with = "text::option")]
    pub http: Option<SocketAddr>,
    /// Who may use it.
    ///
    /// None: whoever reaches it. 1 to 255 bytes without a colon.
    pub username: Option<String>,
    /// Path of the password's file: one line, readable by its owner alone.
    ///
    /// None. Relative to the configuration file's folder. Needs `username`.
    pub password_file: Option<PathBuf>,
    /// Who is asked for names, through the tunnel, in this order.
    ///
    /// [`DNS_SERVERS`]. 1 to 8 addresses, each with a port unless it is 53.
    #[serde(deserialize_with = "text::list")]
    pub dns: Vec<DnsServer>,
}

impl Default for ProxySection {
    fn default() -> Self {
        Self {
            socks5: None,
            http: None,
            username: None,
            password_file: None,
            dns: DNS_SERVERS.into_iter().map(DnsServer).collect(),
        }
    }
}

/// A DNS server's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DnsServer(pub SocketAddr);

impl Text for DnsServer {
    const FORM: &'static str =
        r#"an IP address such as "9.9.9.9" or "2620:fe::fe", or with a port as "192.0.2.1:5353""#;

    fn read(text: &str) -> Result<Self, String> {
        let address = text.parse::<IpAddr>();
        let with_port = address.map(|address| SocketAddr::new(address, DNS_PORT));
        let server = with_port.or_else(|_| text.parse());
        server
            .map(Self)
            .map_err(|error: std::net::AddrParseError| error.to_string())
    }
}

impl ProxySection {
    /// Whether there is a proxy, and therefore no TUN.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.socks5.is_some() || self.http.is_some()
    }

    pub(super) fn check(&self, routes: &[Prefix]) -> Result<(), ConfigError> {
        for (key, value, other) in [
            ("proxy.username", self.username.is_some(), "password_file"),
            (
                "proxy.password_file",
                self.password_file.is_some(),
                "username",
            ),
        ] {
            let is_alone = self.username.is_some() != self.password_file.is_some();
            if value && is_alone {
                let allowed = format!("together with proxy.{other}");
                return Err(ConfigError::new(key, "set alone", allowed));
            }
        }
        if !self.is_on() {
            return Ok(());
        }
        if let Some(route) = routes.first() {
            let allowed = "none beside [proxy]: no TUN is made that could have routes";
            return Err(ConfigError::new("tun.routes", route, allowed));
        }
        // The password itself is judged when its file is read.
        let credentials = self.username.clone().map(|username| Credentials {
            username,
            password: String::from("of the file").into(),
        });
        self.with(credentials).map(drop)
    }

    /// What the proxy is started with: reads the password. `None` when there is no proxy.
    ///
    /// # Errors
    /// Those of the password's file; the first setting that is not allowed.
    pub fn proxy(&self) -> Result<Option<ProxyConfig>, LoadError> {
        if !self.is_on() {
            return Ok(None);
        }
        let credentials = match (&self.username, &self.password_file) {
            (Some(username), Some(file)) => Some(Credentials {
                username: username.clone(),
                password: read_password(file)?,
            }),
            (Some(_), None) | (None, Some(_)) | (None, None) => None,
        };
        let config = self
            .with(credentials)
            .map_err(|error| LoadError::Password {
                words: error.to_string(),
            })?;
        Ok(Some(config))
    }

    fn with(&self, credentials: Option<Credentials>) -> Result<ProxyConfig, ConfigError> {
        let config = ProxyConfig {
            socks5: self.socks5,
            http: self.http,
            credentials,
            dns_servers: self.dns.iter().map(|server| server.0).collect(),
            limits: ProxyLimits::default(),
        };
        config.try_new().map_err(named)
    }
}

/// The proxy's own complaint.
fn named(error: ProxyError) -> ConfigError {
    let ProxyError::InvalidSetting {
        key,
        value,
        allowed,
    } = error
    else {
        return ConfigError::new("proxy", error, "a table that the proxy takes");
    };
    ConfigError::new(key, value, allowed)
}
