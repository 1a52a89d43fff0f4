//! Settings that both files have, and the checks that both need.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use quell_core::config::ConfigError;
use quell_tun::OffloadMode;
use serde::Deserialize;

use super::text;
use crate::control;

/// Longest name of an interface: `IFNAMSIZ` less the terminating zero (netdevice(7)).
const INTERFACE_NAME_BYTES_MAX: usize = 15;

/// `[control]`: the local control socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControlSection {
    /// Path of the socket.
    ///
    /// None: `<run folder>/<name of the TUN>.sock`, where `quell status` finds it by itself.
    pub socket: Option<PathBuf>,
}

impl ControlSection {
    pub(super) fn socket_or(&self, run_dir: &Path, tun_name: &str) -> PathBuf {
        match &self.socket {
            Some(socket) => socket.clone(),
            None => run_dir.join(format!("{tun_name}.sock")),
        }
    }
}

/// `[metrics]`: what a collector asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSection {
    /// Address and TCP port of the loopback that serve `/metrics` over HTTP. Port 0 lets the system choose, and the log
    /// then tells which.
    ///
    /// None: nobody who does not collect metrics needs a listener, and `quell metrics` says the same without one.
    #[serde(deserialize_with = "text::option")]
    pub listen: Option<SocketAddr>,
}

impl MetricsSection {
    /// The page says who the servers are and nothing proves who asks: beyond the loopback it is nobody's.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.listen {
            Some(listen) if !listen.ip().is_loopback() => Err(ConfigError::new(
                "metrics.listen",
                listen,
                "an address of the loopback, such as \"127.0.0.1:9620\"; a collector elsewhere needs a proxy that asks who it is",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// Whether an interface uses the kernel's offloads: the kernel then hands over up to 64 KiB of a flow at once, and takes as
/// much back, and quell cuts and joins the packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Offload {
    /// What the kernel has.
    #[default]
    Auto,
    /// None: each packet by itself.
    Off,
}

impl From<Offload> for OffloadMode {
    fn from(offload: Offload) -> Self {
        match offload {
            Offload::Auto => Self::Auto,
            Offload::Off => Self::Off,
        }
    }
}

/// Where what outlives the host's restart is kept, unless a file says otherwise.
pub(super) fn default_state_dir() -> PathBuf {
    PathBuf::from("/var/lib/quell")
}

pub(super) fn default_run_dir() -> PathBuf {
    control::run_dir()
}

/// `[log]`: what is written to standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSection {
    /// The least important kind of event that is logged.
    ///
    /// `info`: what an operator wants to have read afterwards, at most one line
    /// a minute and kind in an outage (DESIGN §11).
    pub level: LogLevel,
}

/// How much is logged. Each level has all of those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What needs a person.
    Error,
    /// What may soon.
    Warn,
    /// What changed: sessions, outages, recoveries.
    #[default]
    Info,
    /// What a developer needs. Never a packet's content or a flow's address.
    Debug,
}

impl LogLevel {
    /// All levels, quietest first.
    pub const ALL: [Self; 5] = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Its name, as files and `QUELL_LOG` have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LogLevel {
    /// What is allowed.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|level| level.as_str() == text)
            .ok_or("off, error, warn, info or debug")
    }
}

/// Checks the name of a network interface.
///
/// Stricter than the kernel, which only bars `/`, `:` and white space: the name
/// also goes into firewall rules, file names and the output of tools.
pub(super) fn interface_name(key: &str, name: &str) -> Result<(), ConfigError> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let fits = (1..=INTERFACE_NAME_BYTES_MAX).contains(&name.len());
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if fits && begins && name.bytes().all(inner) {
        return Ok(());
    }
    let allowed = "1 to 15 letters, digits, '-', '_' or '.', beginning with a letter or digit";
    Err(ConfigError::new(key, format!("{name:?}"), allowed))
}
