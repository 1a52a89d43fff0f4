//! The client's file: its providers, one TUN or a proxy, one private key.
//!
//! `private_key_file`, `provider.address` and `provider.public_key` have no
//! default, everything else does. [`ClientFile::try_new`] checks a file that was
//! built in code just as [`super::load`] checks one that was read.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quell_core::arithmetic::ceiling;
use quell_core::config::{
    self, ClientConfig, ConfigError, DialGateConfig, PathConfig, QuietConfig,
};
use quell_net::transport::TransportSettings;
use quell_packet::addr::Prefix;
use quell_wire::key::PublicKey;
use serde::Deserialize;

use super::address::Host;
use super::backend::BackendSection;
use super::common::{
    ControlSection, LogSection, MetricsSection, Offload, default_run_dir, default_state_dir,
    interface_name,
};
use super::error::LoadError;
use super::exits::{self, FlapSection, ProviderPeer, RaceSection, WindowSection};
use super::lanes::LanesSection;
use super::proxy::ProxySection;
use super::vpn::VpnSection;
use super::{RoleFile, text};

/// Most routes of one TUN: far above split-tunnel lists that people write, and
/// each is a call to the kernel at every start.
const ROUTES_MAX: usize = 1024;

/// A client's configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientFile {
    /// Path of the client's private key.
    ///
    /// Relative to the configuration file's folder. See [`super::read_private_key`]. Empty where the key is handed over in
    /// code ([`ClientBuilder::key`](crate::ClientBuilder::key)); a file that is loaded must name one.
    #[serde(default)]
    pub private_key_file: PathBuf,
    /// The exits; one at least without `backend.url`, which brings them otherwise.
    #[serde(rename = "provider", default, deserialize_with = "exits::one_or_many")]
    pub providers: Vec<ProviderPeer>,
    /// Which exits are kept, and which of them carries what.
    #[serde(default)]
    pub window: WindowSection,
    /// What is sent over two exits so that one answers.
    #[serde(default)]
    pub race: RaceSection,
    /// How often exits may leave the window for a soft reason.
    #[serde(default)]
    pub flap: FlapSection,
    /// The TUN.
    #[serde(default)]
    pub tun: TunSection,
    /// What the tunnel means to the rest of the machine.
    #[serde(default)]
    pub vpn: VpnSection,
    /// Listeners for applications, in the place of the TUN.
    #[serde(default)]
    pub proxy: ProxySection,
    /// How packets are carried.
    #[serde(default)]
    pub transport: ClientTransport,
    /// How what is acknowledged is carried.
    #[serde(default)]
    pub lanes: LanesSection,
    /// The control plane.
    #[serde(default)]
    pub backend: BackendSection,
    /// What may be spent in vain.
    #[serde(default)]
    pub budget: BudgetSection,
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
    /// Folder of what outlives the process and the host's restart: with `backend.url` the
    /// catalog and the contracts, so that it starts while the control plane is down. Not
    /// touched without.
    ///
    /// `/var/lib/quell`.
    #[serde(default = "default_state_dir")]
    pub state_dir: PathBuf,
}

/// `[tun]`: the client's network interface.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TunSection {
    /// Name of the interface.
    ///
    /// `quell0`. 1 to 15 letters, digits, `-`, `_` or `.`.
    pub name: String,
    /// Largest MTU the interface gets, in bytes.
    ///
    /// 1,420: what most Ethernet paths can carry whole under QUIC; the actual MTU
    /// follows what the path turns out to carry. Range 1,280 (the least of IPv6,
    /// RFC 8200 §5) to 9,000.
    #[serde(deserialize_with = "text::number")]
    pub mtu_max: u16,
    /// Whether the interface uses the kernel's offloads.
    ///
    /// `auto`: TCP costs half the system calls or less, and what a kernel does not know
    /// is done without. `off` is for a kernel whose offloads are broken.
    pub offload: Offload,
    /// Destinations that go through the tunnel, besides the provider's own pools.
    ///
    /// None: a tunnel that redirects traffic nobody named would surprise. A default
    /// route (`0.0.0.0/0` or `::/0`) takes the whole machine. At most 1,024, no
    /// duplicates. Installed by `quell up`, not by the library.
    #[serde(deserialize_with = "text::list")]
    pub routes: Vec<Prefix>,
    /// Destinations that never go through the tunnel, whatever the routes say.
    ///
    /// None. At most 1,024, no duplicates, each inside or outside of the routes.
    #[serde(deserialize_with = "text::list")]
    pub exclude: Vec<Prefix>,
}

impl Default for TunSection {
    fn default() -> Self {
        Self {
            name: "quell0".into(),
            mtu_max: 1420,
            offload: Offload::Auto,
            routes: Vec::new(),
            exclude: Vec::new(),
        }
    }
}

/// `[transport]` of a client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientTransport {
    /// See [`PathConfig::keepalive_interval`]. At most half of `idle_timeout`, so
    /// that one lost keepalive does not end the connection.
    #[serde(deserialize_with = "text::one")]
    pub keepalive_interval: Duration,
    /// See [`PathConfig::dgram_age_max`].
    #[serde(deserialize_with = "text::one")]
    pub dgram_age_max: Duration,
    /// See [`PathConfig::dgram_queue_bytes_max`]. `dgram_queue` in the file.
    #[serde(rename = "dgram_queue", deserialize_with = "text::size")]
    pub dgram_queue_bytes_max: usize,
    /// See [`ClientConfig::dial_timeout`].
    #[serde(deserialize_with = "text::one")]
    pub dial_timeout: Duration,
    /// See [`ClientConfig::reconnect_base`].
    #[serde(deserialize_with = "text::one")]
    pub reconnect_base: Duration,
    /// See [`ClientConfig::reconnect_max`].
    #[serde(deserialize_with = "text::one")]
    pub reconnect_max: Duration,
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

impl Default for ClientTransport {
    fn default() -> Self {
        let ClientConfig {
            path,
            dial_timeout,
            reconnect_base,
            reconnect_max,
            ..
        } = ClientConfig::default();
        let quic = TransportSettings::default();
        Self {
            keepalive_interval: path.keepalive_interval,
            dgram_age_max: path.dgram_age_max,
            dgram_queue_bytes_max: path.dgram_queue_bytes_max,
            dial_timeout,
            reconnect_base,
            reconnect_max,
            idle_timeout: quic.idle_timeout,
            socket_buffer_bytes: quic.socket_buffer_bytes,
            mtu_initial: quic.mtu_initial,
            mtu_upper: quic.mtu_upper,
        }
    }
}

/// `[budget]` of a client: what it may spend in vain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetSection {
    /// See [`QuietConfig::quiet_bytes`].
    #[serde(deserialize_with = "text::size")]
    pub quiet_bytes: usize,
    /// Memory that the whole process is to live with, in bytes. `memory` in the file.
    ///
    /// None: windows and tables have the sizes of [`docs/defaults.md`]; with it they are halved until all of them full fit,
    /// beside 11 MiB for everything else ([`quell_core::arithmetic::ceiling`]). Range 16 MiB to 1 GiB.
    ///
    /// [`docs/defaults.md`]: ClientConfig
    #[serde(rename = "memory", deserialize_with = "text::some_size")]
    pub memory_bytes_max: Option<usize>,
}

/// See [`BudgetSection::memory_bytes_max`].
const MEMORY_BYTES: std::ops::RangeInclusive<usize> = 16 << 20..=1 << 30;

impl Default for BudgetSection {
    fn default() -> Self {
        let quiet = QuietConfig::default();
        Self {
            quiet_bytes: usize::try_from(quiet.quiet_bytes).unwrap_or(usize::MAX),
            memory_bytes_max: None,
        }
    }
}

impl ClientTransport {
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

impl ClientFile {
    /// A client of these exits, with all defaults and without a key.
    pub fn of(providers: Vec<ProviderPeer>) -> Self {
        Self {
            private_key_file: PathBuf::new(),
            providers,
            window: WindowSection::default(),
            race: RaceSection::default(),
            flap: FlapSection::default(),
            tun: TunSection::default(),
            proxy: ProxySection::default(),
            transport: ClientTransport::default(),
            lanes: LanesSection::default(),
            backend: BackendSection::default(),
            budget: BudgetSection::default(),
            control: ControlSection::default(),
            metrics: MetricsSection::default(),
            vpn: VpnSection::default(),
            log: LogSection::default(),
            run_dir: default_run_dir(),
            state_dir: default_state_dir(),
        }
    }

    /// Checks every value against its range, and those that depend on each other.
    ///
    /// # Errors
    /// The first setting that is not allowed.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        interface_name("tun.name", &self.tun.name)?;
        config::number("tun.mtu_max", self.tun.mtu_max, 1280..=9000)?;
        check_routes("tun.routes", &self.tun.routes)?;
        check_routes("tun.exclude", &self.tun.exclude)?;
        self.proxy.check(&self.tun.routes)?;
        self.vpn.check(&self.tun, self.proxy.is_on())?;
        exits::check(&self.providers, self.backend.url.is_some())?;
        self.fitted()?.try_new()?;
        self.backend.check(false)?;
        self.metrics.check()?;
        let quic = self.transport.quic().try_new()?;
        self.lanes.fits(quic.idle_timeout)?;
        if self.transport.keepalive_interval > quic.idle_timeout / 2 {
            return Err(ConfigError::new(
                "transport.keepalive_interval",
                format!("{:?}", self.transport.keepalive_interval),
                format!(
                    "at most half of transport.idle_timeout ({:?})",
                    quic.idle_timeout
                ),
            ));
        }
        Ok(self)
    }

    /// The providers' addresses that are written out; `None` when one is a name, or comes from
    /// a catalog, and is known when it is dialled.
    #[must_use]
    pub fn provider_addresses(&self) -> Option<Vec<IpAddr>> {
        let address = |peer: &ProviderPeer| match &peer.address.host {
            Host::Ip(address) => Some(*address),
            Host::Name(_) => None,
        };
        match self.backend.url {
            Some(_) => None,
            None => self.providers.iter().map(address).collect(),
        }
    }

    /// The core's settings; within the budget of memory, if there is one that they fit into.
    pub fn core(&self) -> ClientConfig {
        self.fitted().unwrap_or_else(|_| self.full())
    }

    /// Exits that there may be: as many as the window takes where a catalog brings them.
    pub(crate) fn exits(&self) -> usize {
        match self.backend.url {
            Some(_) => self.providers.len().max(self.window.window_max),
            None => self.providers.len(),
        }
    }

    fn fitted(&self) -> Result<ClientConfig, ConfigError> {
        let Some(bytes) = self.budget.memory_bytes_max else {
            return Ok(self.full());
        };
        config::number("budget.memory", bytes, MEMORY_BYTES)?;
        ceiling::within(self.full(), self.exits(), bytes, Instant::now())
    }

    fn full(&self) -> ClientConfig {
        let transport = &self.transport;
        ClientConfig {
            path: PathConfig {
                lanes: self.lanes.core(),
                keepalive_interval: transport.keepalive_interval,
                dgram_age_max: transport.dgram_age_max,
                dgram_queue_bytes_max: transport.dgram_queue_bytes_max,
                ..PathConfig::default()
            },
            dial_timeout: transport.dial_timeout,
            reconnect_base: transport.reconnect_base,
            reconnect_max: transport.reconnect_max,
            quiet: QuietConfig {
                quiet_bytes: self.budget.quiet_bytes as u64,
                ..QuietConfig::default()
            },
            dial_gate: DialGateConfig::default(),
            window: self.window.core(),
            racer: self.race.core(),
            flap: self.flap.core(),
            ..ClientConfig::default()
        }
    }

    /// Where the control socket is: as configured, or `<run_dir>/<tun.name>.sock`.
    pub fn control_socket(&self) -> PathBuf {
        self.control.socket_or(&self.run_dir, &self.tun.name)
    }
}

impl RoleFile for ClientFile {
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

    fn password_file(&mut self) -> Option<&mut PathBuf> {
        self.proxy.password_file.as_mut()
    }

    fn check_secrets(&self) -> Result<(), LoadError> {
        self.proxy.proxy().map(drop)
    }

    fn peers(&self) -> Vec<(String, PublicKey)> {
        let count = self.providers.len();
        let key = |index| exits::key_of(index, count, "public_key");
        let peers = self.providers.iter().enumerate();
        peers
            .map(|(index, peer)| (key(index), peer.public_key))
            .collect()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        self.try_new()
    }
}

fn check_routes(key: &'static str, routes: &[Prefix]) -> Result<(), ConfigError> {
    if routes.len() > ROUTES_MAX {
        let count = format!("{} prefixes", routes.len());
        let allowed = format!("at most {ROUTES_MAX}");
        return Err(ConfigError::new(key, count, allowed));
    }
    let mut seen = std::collections::HashSet::new();
    match routes
        .iter()
        .enumerate()
        .find(|(_, route)| !seen.insert(*route))
    {
        None => Ok(()),
        Some((index, route)) => Err(ConfigError::new(
            format!("{key}[{index}]"),
            route,
            "each prefix once",
        )),
    }
}
