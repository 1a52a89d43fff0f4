//! The provider's file: who may connect, which addresses they get, how they reach the world.
//!
//! `listen`, `private_key_file` and one pool in `[addresses]` have no default. A
//! provider without clients is allowed: it is how one begins. More clients than a
//! pool has addresses are not: which of them would be refused would depend on
//! who came first.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use quell_core::config::{
    ClosedFlowsConfig, ConfigError, DoormanConfig, EgressRulesConfig, PathConfig, ProviderConfig,
    ShareConfig,
};
use quell_core::provider::AddressPool;
use quell_net::transport::TransportSettings;
use quell_packet::addr::Prefix;
use quell_wire::key::PublicKey;
use serde::Deserialize;

use super::backend::BackendSection;
use super::common::{
    ControlSection, LogSection, MetricsSection, default_run_dir, default_state_dir,
};
use super::egress::EgressSection;
use super::lanes::LanesSection;
use super::limits::Limits;
use super::{RoleFile, text};

/// Longest name of a client, in characters: a line of a table stays one line.
const NAME_CHARS_MAX: usize = 64;

/// A provider's configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderFile {
    /// Address and UDP port to listen on.
    ///
    /// `[::]:6610` serves both families where the system allows it. Port 0 lets
    /// the system choose; `quell status` then tells which.
    #[serde(deserialize_with = "text::one")]
    pub listen: SocketAddr,
    /// Path of the provider's private key.
    ///
    /// Relative to the configuration file's folder. See [`super::read_private_key`]. Empty where the key is handed over in
    /// code ([`ProviderBuilder::key`](crate::ProviderBuilder::key)); a file that is loaded must name one.
    #[serde(default)]
    pub private_key_file: PathBuf,
    /// Who may connect. Names and keys are unique.
    #[serde(default)]
    pub clients: Vec<ClientEntry>,
    /// What addresses clients get.
    #[serde(default)]
    pub addresses: Addresses,
    /// How packets reach the world.
    #[serde(default)]
    pub egress: EgressSection,
    /// How much is allowed.
    #[serde(default)]
    pub limits: Limits,
    /// How packets are carried.
    #[serde(default)]
    pub transport: ProviderTransport,
    /// How what is acknowledged is carried.
    #[serde(default)]
    pub lanes: LanesSection,
    /// The control plane.
    #[serde(default)]
    pub backend: BackendSection,
    /// The control socket.
    #[serde(default)]
    pub control: ControlSection,
    /// What a collector asks.
    #[serde(default)]
    pub metrics: MetricsSection,
    /// The log.
    #[serde(default)]
    pub log: LogSection,
    /// Folder of what lives as long as the process: the control socket's default place.
    ///
    /// `/run/quell`, or a folder of the user's own for who may not write there: see
    /// [`crate::control::run_dir`]. `quell status` looks in the same place.
    #[serde(default = "default_run_dir")]
    pub run_dir: PathBuf,
    /// Folder of what outlives the process and the host's restart: the month's count, and with
    /// `backend.url` the receipts. Not touched without either.
    ///
    /// `/var/lib/quell`.
    #[serde(default = "default_state_dir")]
    pub state_dir: PathBuf,
}

/// One of `[[clients]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientEntry {
    /// What people call it, in `status` and the log.
    ///
    /// 1 to 64 characters, none of them a control character.
    pub name: String,
    /// Who it is.
    #[serde(deserialize_with = "text::one")]
    pub public_key: PublicKey,
}

/// `[addresses]`: the pools that clients get one address of each from.
///
/// The first host of each pool is the provider itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Addresses {
    /// IPv4 addresses, /8 to /30. None: clients get no IPv4.
    #[serde(deserialize_with = "text::option")]
    pub ipv4_pool: Option<Prefix>,
    /// IPv6 addresses, unique local (fc00::/7, RFC 4193), /32 to /112. None:
    /// clients get no IPv6.
    #[serde(deserialize_with = "text::option")]
    pub ipv6_pool: Option<Prefix>,
}

impl Addresses {
    /// The pools, empty.
    ///
    /// # Errors
    /// No pool, or one that is not of its allowed form.
    pub fn pool(&self) -> Result<AddressPool, ConfigError> {
        AddressPool::try_new(self.ipv4_pool, self.ipv6_pool)
    }
}

/// `[transport]` of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderTransport {
    /// See [`PathConfig::dgram_age_max`].
    #[serde(deserialize_with = "text::one")]
    pub dgram_age_max: Duration,
    /// See [`PathConfig::dgram_queue_bytes_max`]; for each client. `dgram_queue` in the file.
    #[serde(rename = "dgram_queue", deserialize_with = "text::size")]
    pub dgram_queue_bytes_max: usize,
    /// See [`ProviderConfig::hello_timeout`].
    #[serde(deserialize_with = "text::one")]
    pub hello_timeout: Duration,
    /// See [`DoormanConfig::handshake_timeout`].
    #[serde(deserialize_with = "text::one")]
    pub handshake_timeout: Duration,
    /// See [`ProviderConfig::drain`].
    #[serde(deserialize_with = "text::one")]
    pub drain: Duration,
    /// See [`TransportSettings::idle_timeout`].
    #[serde(deserialize_with = "text::one")]
    pub idle_timeout: Duration,
    /// See [`TransportSettings::socket_buffer_bytes`]. `socket_buffer` in the file.
    #[serde(rename = "socket_buffer", deserialize_with = "text::size")]
    pub socket_buffer_bytes: usize,
    /// See [`TransportSettings::mtu_initial`].
    #[serde(deserialize_with = "text::number")]
    pub mtu_initial: u16,
    /// See [`TransportSettings::mtu_upper`].
    #[serde(deserialize_with = "text::number")]
    pub mtu_upper: u16,
}

impl Default for ProviderTransport {
    fn default() -> Self {
        let ProviderConfig {
            path,
            hello_timeout,
            doorman,
            drain,
            ..
        } = ProviderConfig::default();
        let quic = TransportSettings::default();
        Self {
            dgram_age_max: path.dgram_age_max,
            dgram_queue_bytes_max: path.dgram_queue_bytes_max,
            hello_timeout,
            handshake_timeout: doorman.handshake_timeout,
            drain,
            idle_timeout: quic.idle_timeout,
            socket_buffer_bytes: quic.socket_buffer_bytes,
            mtu_initial: quic.mtu_initial,
            mtu_upper: quic.mtu_upper,
        }
    }
}

impl ProviderTransport {
    /// The settings of QUIC beneath.
    pub fn quic(&self) -> TransportSettings {
        TransportSettings {
            idle_timeout: self.idle_timeout,
            socket_buffer_bytes: self.socket_buffer_bytes,
            mtu_initial: self.mtu_initial,
            mtu_upper: self.mtu_upper,
        }
    }
}

impl ProviderFile {
    /// Checks every value against its range, and those that depend on each other.
    ///
    /// # Errors
    /// The first setting that is not allowed.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        check_clients(&self.clients)?;
        self.check_pools()?;
        self.egress.check()?;
        self.core().try_new()?;
        self.backend.check(true)?;
        self.metrics.check()?;
        let quic = self.transport.quic().try_new()?;
        self.lanes.fits(quic.idle_timeout)?;
        Ok(self)
    }

    /// The core's settings.
    pub fn core(&self) -> ProviderConfig {
        ProviderConfig {
            path: PathConfig {
                lanes: self.lanes.core(),
                dgram_age_max: self.transport.dgram_age_max,
                dgram_queue_bytes_max: self.transport.dgram_queue_bytes_max,
                ..PathConfig::default()
            },
            sessions_max: self.limits.sessions_max,
            hello_timeout: self.transport.hello_timeout,
            doorman: DoormanConfig {
                handshake_timeout: self.transport.handshake_timeout,
                ..self.limits.doorman()
            },
            closed_flows: ClosedFlowsConfig::default(),
            egress_rules: EgressRulesConfig {
                allow: self.egress.allow.clone(),
                deny: self.egress.deny.clone(),
                ..EgressRulesConfig::default()
            },
            client: self.limits.client(),
            share: ShareConfig {
                egress_rate_bits_per_s: self.egress.rate.map(|rate| rate.0.get()),
                ..ShareConfig::default()
            },
            month_bytes_max: self.limits.month_bytes_max.map(|bytes| bytes.0),
            drain: self.transport.drain,
        }
    }

    /// Where the control socket is: as configured, or `<run_dir>/<egress.tun_name>.sock`.
    pub fn control_socket(&self) -> PathBuf {
        self.control.socket_or(&self.run_dir, &self.egress.tun_name)
    }

    fn check_pools(&self) -> Result<(), ConfigError> {
        self.addresses.pool()?;
        let pools = [
            ("addresses.ipv4_pool", self.addresses.ipv4_pool, true),
            ("addresses.ipv6_pool", self.addresses.ipv6_pool, false),
        ];
        for (key, pool, is_ipv4) in pools {
            let Some(prefix) = pool else { continue };
            let alone = match is_ipv4 {
                true => AddressPool::try_new(Some(prefix), None)?,
                false => AddressPool::try_new(None, Some(prefix))?,
            };
            if self.clients.len() > alone.capacity() {
                let clients = self.clients.len();
                let allowed = format!(
                    "a prefix with an address for each of the {clients} clients; this one has {}",
                    alone.capacity()
                );
                return Err(ConfigError::new(key, prefix, allowed));
            }
        }
        Ok(())
    }
}

impl RoleFile for ProviderFile {
    fn private_key_file(&mut self) -> &mut PathBuf {
        &mut self.private_key_file
    }

    fn run_dir(&mut self) -> &mut PathBuf {
        &mut self.run_dir
    }

    fn state_dir(&mut self) -> Option<&mut PathBuf> {
        Some(&mut self.state_dir)
    }

    fn control(&mut self) -> &mut ControlSection {
        &mut self.control
    }

    fn backend(&mut self) -> &mut BackendSection {
        &mut self.backend
    }

    fn log(&mut self) -> &mut LogSection {
        &mut self.log
    }

    fn peers(&self) -> Vec<(String, PublicKey)> {
        let entries = self.clients.iter().enumerate();
        entries
            .map(|(index, client)| (format!("clients[{index}].public_key"), client.public_key))
            .collect()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        self.try_new()
    }
}

fn check_clients(clients: &[ClientEntry]) -> Result<(), ConfigError> {
    let mut names = HashMap::new();
    let mut keys = HashMap::new();
    for (index, client) in clients.iter().enumerate() {
        let key = |field: &str| format!("clients[{index}].{field}");
        let name = client.name.as_str();
        let shown = format!("{name:?}");
        let chars = name.chars().count();
        if !(1..=NAME_CHARS_MAX).contains(&chars) || name.chars().any(char::is_control) {
            let allowed = format!("1 to {NAME_CHARS_MAX} characters without control characters");
            return Err(ConfigError::new(key("name"), shown, allowed));
        }
        if let Some(other) = names.insert(name, index) {
            let allowed = format!("a name of its own; clients[{other}] has this one too");
            return Err(ConfigError::new(key("name"), shown, allowed));
        }
        if let Some(other) = keys.insert(client.public_key, index) {
            let allowed = format!("a key of its own; clients[{other}] has this one too");
            return Err(ConfigError::new(
                key("public_key"),
                client.public_key,
                allowed,
            ));
        }
    }
    Ok(())
}
