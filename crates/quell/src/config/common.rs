//! Settings that both files have, and the checks that both need.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use quell_core::config::{self, ConfigError};
use serde::Deserialize;

use crate::control::RUN_DIR;

/// Shortest `transport.idle_timeout`: packs may be acknowledged for 60 s
/// (`ack_timeout`), and QUIC must outlive that by 15 s, or an outage that a lane
/// survives would end the connection under it (DESIGN §4, "The QUIC beneath").
pub(super) const IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(75);

/// Longest `transport.idle_timeout`: a dead peer's state is not kept for longer.
pub(super) const IDLE_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Longest name of an interface: `IFNAMSIZ` less the terminating zero (netdevice(7)).
const INTERFACE_NAME_BYTES_MAX: usize = 15;

/// The QUIC transport beneath a path, as either file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicSettings {
    /// Silence after which QUIC gives a connection up; the lower of both ends' counts.
    ///
    /// 75 s: `ack_timeout` (60 s) and 15 s (DESIGN §4). Range 75 s to 10 min.
    pub idle_timeout: Duration,
    /// Bytes asked of the system for each of the UDP socket's two buffers.
    ///
    /// 4 MiB: 33 ms at 1 Gbit/s, more than a descheduled engine sleeps. The
    /// system may give less. Range 64 KiB to 64 MiB.
    pub socket_buffer_bytes: usize,
    /// Bytes of UDP payload that every path is assumed to carry.
    ///
    /// 1,200: what RFC 9000 §14 demands of any QUIC path. Range 1,200 to 1,452.
    pub mtu_initial: u16,
    /// Largest UDP payload that discovery tries, in bytes.
    ///
    /// 1,452: an Ethernet frame's 1,500 less the headers of IPv6 and UDP. Over
    /// IPv4 alone 1,472 fit. Range `mtu_initial` to 1,472.
    pub mtu_upper: u16,
}

impl Default for QuicSettings {
    fn default() -> Self {
        Self {
            idle_timeout: IDLE_TIMEOUT_MIN,
            socket_buffer_bytes: 4 * 1024 * 1024,
            mtu_initial: 1200,
            mtu_upper: 1452,
        }
    }
}

impl QuicSettings {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        config::duration(
            "transport.idle_timeout",
            self.idle_timeout,
            IDLE_TIMEOUT_MIN..=IDLE_TIMEOUT_MAX,
        )?;
        size(
            "transport.socket_buffer",
            self.socket_buffer_bytes,
            64 * 1024,
            64 * 1024 * 1024,
        )?;
        config::number("transport.mtu_initial", self.mtu_initial, 1200..=1452)?;
        config::number(
            "transport.mtu_upper",
            self.mtu_upper,
            self.mtu_initial..=1472,
        )?;
        Ok(self)
    }
}

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

pub(super) fn default_run_dir() -> PathBuf {
    PathBuf::from(RUN_DIR)
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

/// Checks a size against its range, which the error names in the units people write.
pub(super) fn size(
    key: &str,
    bytes: usize,
    bytes_min: usize,
    bytes_max: usize,
) -> Result<(), ConfigError> {
    if (bytes_min..=bytes_max).contains(&bytes) {
        return Ok(());
    }
    let words = |bytes| bytesize::ByteSize(bytes as u64).display().iec();
    let allowed = format!("{} to {}", words(bytes_min), words(bytes_max));
    Err(ConfigError::new(key, bytes, allowed))
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
