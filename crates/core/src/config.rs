//! Every constant of the core, once: unit, default, allowed range, reason, source.
//!
//! The structs are plain and have a `Default`; a value from a person goes
//! through `try_new`, once, where a mistake becomes a [`ConfigError`] that names
//! the key, the value and what is allowed. After that no code checks a setting
//! again: holding a validated config is the proof.
//!
//! Ranges are deliberately tighter than what the arithmetic would bear. A
//! keepalive of a millisecond is not a preference, it is the traffic storm that
//! quell exists to prevent.

pub mod receive;

mod backend_health;
mod budget;
mod carriage;
mod client_limits;
mod closed_flows;
mod contracts;
mod dial_gate;
mod doorman;
mod egress_rules;
mod flap;
mod flows;
mod lanes;
mod path_health;
mod probe_latch;
mod racer;
#[cfg(test)]
mod ranges;
mod uplink_doubt;
mod window;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use thiserror::Error;

pub use backend_health::BackendHealthConfig;
pub use budget::{DialBudgetConfig, QuietConfig, RaceConfig, SilenceConfig};
pub use carriage::{LanesConfig, TcpLane};
pub use client_limits::{ClientLimitsConfig, ShareConfig};
pub use closed_flows::ClosedFlowsConfig;
pub use contracts::{ContractsConfig, WalletConfig};
pub use dial_gate::DialGateConfig;
pub use doorman::DoormanConfig;
pub use egress_rules::EgressRulesConfig;
pub use flap::{FlapConfig, UptimeConfig};
pub use flows::FlowsConfig;
pub use lanes::LaneConfig;
pub use path_health::PathHealthConfig;
pub use probe_latch::ProbeLatchConfig;
pub use racer::{Raced, RacerConfig};
pub use uplink_doubt::UplinkDoubtConfig;
pub use window::{ExitPolicy, WindowConfig};

/// A setting that cannot be used: which, what was given, what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key} = {value}: allowed is {allowed}")]
pub struct ConfigError {
    /// The setting's full name as people write it, such as `transport.keepalive_interval`.
    pub key: String,
    /// The value that was given, as text.
    pub value: String,
    /// The allowed range or form, in words.
    pub allowed: String,
}

impl ConfigError {
    /// An error about `key`, which had `value` where `allowed` was expected.
    pub fn new(key: impl Display, value: impl Display, allowed: impl Display) -> Self {
        Self {
            key: key.to_string(),
            value: value.to_string(),
            allowed: allowed.to_string(),
        }
    }
}

/// How a path carries packets. Used alike by client and provider.
#[derive(Debug, Clone, PartialEq)]
pub struct PathConfig {
    /// What takes which lane, and the lanes themselves.
    pub lanes: LanesConfig,
    /// When a path is quiet, stalled, or dead.
    pub health: PathHealthConfig,
    /// How long a path may be silent before the client sends a PING.
    ///
    /// 20 s: below the 30 s after which common home routers forget a UDP
    /// mapping (RFC 4787 REQ-5 asks for 120 s and is often not met). Clients
    /// only. Range 5 s to 10 min.
    pub keepalive_interval: Duration,
    /// Longest time an unacknowledged packet waits in our queue before it is dropped.
    ///
    /// 100 ms (DESIGN §4): a datagram later than that is better lost than late.
    /// Range 5 ms to 2 s.
    pub dgram_age_max: Duration,
    /// Most bytes waiting in our own queue of unacknowledged packets.
    ///
    /// 512 KiB: 100 ms (the age limit) at 40 Mbit/s, beyond which age rules
    /// anyway. Range 64 KiB to 8 MiB.
    pub dgram_queue_bytes_max: usize,
    /// PINGs a peer may send each second in the long run; more is a protocol error.
    ///
    /// 50 (DESIGN §3). Range 5 to 1,000.
    pub pings_per_s_max: u32,
    /// PINGs a peer may send at once.
    ///
    /// 100 (DESIGN §3). Range 10 to 10,000.
    pub ping_burst_max: u32,
}

impl Default for PathConfig {
    fn default() -> Self {
        Self {
            lanes: LanesConfig::default(),
            health: PathHealthConfig::default(),
            keepalive_interval: Duration::from_secs(20),
            dgram_age_max: Duration::from_millis(100),
            dgram_queue_bytes_max: 512 * 1024,
            pings_per_s_max: 50,
            ping_burst_max: 100,
        }
    }
}

impl PathConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let t = |name| format!("transport.{name}");
        let (lanes, health) = (self.lanes.try_new()?, self.health.try_new()?);
        duration(
            t("keepalive_interval"),
            self.keepalive_interval,
            Duration::from_secs(5)..=Duration::from_secs(600),
        )?;
        duration(
            t("dgram_age_max"),
            self.dgram_age_max,
            Duration::from_millis(5)..=Duration::from_secs(2),
        )?;
        number(
            t("dgram_queue_bytes_max"),
            self.dgram_queue_bytes_max,
            64 * 1024..=8 * 1024 * 1024,
        )?;
        number(t("pings_per_s_max"), self.pings_per_s_max, 5..=1_000)?;
        number(t("ping_burst_max"), self.ping_burst_max, 10..=10_000)?;
        Ok(Self {
            lanes,
            health,
            ..self
        })
    }
}

/// How a client dials and when it gives up on a handshake.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientConfig {
    /// Settings of its path.
    pub path: PathConfig,
    /// Longest time from the start of a dial to WELCOME.
    ///
    /// 15 s (DESIGN §5): three round trips over a 4 s path fit (case B37).
    /// Range 1 s to 60 s.
    pub dial_timeout: Duration,
    /// Wait before the second of a row of failed dials; doubles from there.
    ///
    /// 5 s. Range 100 ms to 60 s.
    pub reconnect_base: Duration,
    /// Longest wait between two dials.
    ///
    /// 60 s. Range `reconnect_base` to 10 min.
    pub reconnect_max: Duration,
    /// What may be sent while nothing makes progress.
    pub quiet: QuietConfig,
    /// When dials of a provider are held back. Its `dial_timeout` and `lease` follow
    /// the one above.
    pub dial_gate: DialGateConfig,
    /// How often dials start, whichever provider they are for.
    pub dials: DialBudgetConfig,
    /// Which exits are kept, and which of them carries what.
    pub window: WindowConfig,
    /// What is sent over two exits so that one answers.
    pub racer: RacerConfig,
    /// When the own uplink is in doubt, and not the exits.
    pub uplink: UplinkDoubtConfig,
    /// When an exit's answers to PINGs count.
    pub probe: ProbeLatchConfig,
    /// How often exits may leave the window for a soft reason.
    pub flap: FlapConfig,
    /// The flow table.
    pub flows: FlowsConfig,
}

/// How much longer than a dial its lease is: 5 s, as in [`DialGateConfig::lease`].
const DIAL_LEASE_MARGIN: Duration = Duration::from_secs(5);

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            path: PathConfig::default(),
            dial_timeout: Duration::from_secs(15),
            reconnect_base: Duration::from_secs(5),
            reconnect_max: Duration::from_secs(60),
            quiet: QuietConfig::default(),
            dial_gate: DialGateConfig::default(),
            dials: DialBudgetConfig::default(),
            window: WindowConfig::default(),
            racer: RacerConfig::default(),
            uplink: UplinkDoubtConfig::default(),
            probe: ProbeLatchConfig::default(),
            flap: FlapConfig::default(),
            flows: FlowsConfig::default(),
        }
    }
}

impl ClientConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let gate = self.gate();
        let path = self.path.try_new()?;
        let quiet = self.quiet.try_new()?;
        duration(
            "transport.dial_timeout",
            self.dial_timeout,
            Duration::from_secs(1)..=Duration::from_secs(60),
        )?;
        duration(
            "transport.reconnect_base",
            self.reconnect_base,
            Duration::from_millis(100)..=Duration::from_secs(60),
        )?;
        duration(
            "transport.reconnect_max",
            self.reconnect_max,
            self.reconnect_base..=Duration::from_secs(600),
        )?;
        gate.try_new()?;
        Ok(Self {
            path,
            quiet,
            dials: self.dials.try_new()?,
            window: self.window.try_new()?,
            racer: self.racer.try_new()?,
            uplink: self.uplink.try_new()?,
            probe: self.probe.try_new()?,
            flap: self.flap.try_new()?,
            flows: self.flows.try_new()?,
            ..self
        })
    }

    /// The gate's settings, which hold a dial's time and a margin for its end to be told.
    pub(crate) fn gate(&self) -> DialGateConfig {
        DialGateConfig {
            dial_timeout: self.dial_timeout,
            lease: self.dial_timeout + DIAL_LEASE_MARGIN,
            ..self.dial_gate.clone()
        }
    }
}

/// What a provider allows.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    /// Settings of each client's path.
    pub path: PathConfig,
    /// Most sessions at once.
    ///
    /// 4,096: about 8 GiB in the worst case of full queues and tables; more needs more
    /// processes. Range 1 to 65,536.
    pub sessions_max: usize,
    /// Longest time from the end of the QUIC handshake to HELLO.
    ///
    /// 10 s: one flight on a path of 4 s, with a loss. Range 1 s to 60 s.
    pub hello_timeout: Duration,
    /// Who may start a handshake.
    pub doorman: DoormanConfig,
    /// What is remembered of flows that a client gave up.
    pub closed_flows: ClosedFlowsConfig,
    /// Whom clients may speak to.
    pub egress_rules: EgressRulesConfig,
    /// What one client may take.
    pub client: ClientLimitsConfig,
    /// How clients wait for their share of the egress.
    pub share: ShareConfig,
    /// Most bytes through the egress in a month of UTC, both directions and all clients together, as IP packets.
    ///
    /// None: no ceiling. Beyond it clients are told to go, and nobody is accepted until the next month. Range 1 MiB to
    /// 2^60.
    pub month_bytes_max: Option<u64>,
    /// How long a provider that is told to stop goes on carrying its sessions.
    ///
    /// 5 s: a client that has another exit dials it meanwhile, a short download
    /// ends, and whoever waits for a restart does not wait long. 0: it stops at
    /// once. Range 0 to 10 min.
    pub drain: Duration,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            path: PathConfig::default(),
            sessions_max: 4_096,
            hello_timeout: Duration::from_secs(10),
            doorman: DoormanConfig::default(),
            closed_flows: ClosedFlowsConfig::default(),
            egress_rules: EgressRulesConfig::default(),
            client: ClientLimitsConfig::default(),
            share: ShareConfig::default(),
            month_bytes_max: None,
            drain: Duration::from_secs(5),
        }
    }
}

impl ProviderConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let path = self.path.try_new()?;
        number("limits.sessions_max", self.sessions_max, 1..=65_536)?;
        duration(
            "transport.hello_timeout",
            self.hello_timeout,
            Duration::from_secs(1)..=Duration::from_secs(60),
        )?;
        let doorman = self.doorman.try_new()?;
        let closed_flows = self.closed_flows.try_new()?;
        let egress_rules = self.egress_rules.try_new()?;
        let client = self.client.try_new()?;
        let share = self.share.try_new()?;
        if let Some(bytes) = self.month_bytes_max {
            number("limits.month_bytes_max", bytes, 1 << 20..=1 << 60)?;
        }
        duration(
            "transport.drain",
            self.drain,
            Duration::ZERO..=Duration::from_secs(600),
        )?;
        Ok(Self {
            path,
            doorman,
            closed_flows,
            egress_rules,
            client,
            share,
            ..self
        })
    }
}

/// Checks that a whole number lies in its range.
///
/// # Errors
/// Names the key, the value and the range.
pub fn number<T: PartialOrd + Display>(
    key: impl Display,
    value: T,
    allowed: RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let range = format!("{} to {}", allowed.start(), allowed.end());
    Err(ConfigError::new(key, value, range))
}

/// Checks that a duration lies in its range.
///
/// # Errors
/// Names the key, the value and the range.
pub fn duration(
    key: impl Display,
    value: Duration,
    allowed: RangeInclusive<Duration>,
) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let range = format!("{:?} to {:?}", allowed.start(), allowed.end());
    Err(ConfigError::new(key, format!("{value:?}"), range))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn defaults_are_valid() {
        ClientConfig::default().try_new().unwrap();
        ProviderConfig::default().try_new().unwrap();
    }

    #[test]
    fn each_end_of_a_range_passes_and_the_next_value_does_not() {
        let with = |keepalive_interval| PathConfig {
            keepalive_interval,
            ..PathConfig::default()
        };
        let ns = Duration::from_nanos(1);
        let (low, high) = (Duration::from_secs(5), Duration::from_secs(600));
        with(low).try_new().unwrap();
        with(high).try_new().unwrap();
        with(low - ns).try_new().unwrap_err();
        with(high + ns).try_new().unwrap_err();
    }

    #[test]
    fn a_drain_ends_where_its_range_does() {
        let with = |drain| ProviderConfig {
            drain,
            ..ProviderConfig::default()
        };
        with(Duration::ZERO).try_new().unwrap();
        with(Duration::from_secs(600)).try_new().unwrap();
        let error = with(Duration::new(600, 1)).try_new().unwrap_err();
        assert_eq!(error.key, "transport.drain");
    }

    #[test]
    fn a_months_ceiling_ends_where_its_range_does() {
        let with = |bytes| ProviderConfig {
            month_bytes_max: Some(bytes),
            ..ProviderConfig::default()
        };
        with(1 << 20).try_new().unwrap();
        with(1 << 60).try_new().unwrap();
        for bytes in [(1 << 20) - 1, (1 << 60) + 1] {
            let error = with(bytes).try_new().unwrap_err();
            assert_eq!(error.key, "limits.month_bytes_max");
        }
    }

    #[test]
    fn an_error_names_key_value_and_range() {
        let config = ProviderConfig {
            sessions_max: 0,
            ..ProviderConfig::default()
        };
        let error = config.try_new().unwrap_err();
        assert_eq!(
            error.to_string(),
            "limits.sessions_max = 0: allowed is 1 to 65536"
        );
    }

    #[test]
    fn a_reconnect_maximum_below_its_base_is_refused() {
        let config = ClientConfig {
            reconnect_max: Duration::from_secs(4),
            ..ClientConfig::default()
        };
        assert_eq!(config.try_new().unwrap_err().key, "transport.reconnect_max");
    }
}
