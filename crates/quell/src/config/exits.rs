//! The exits of a client: `[provider]` or `[[provider]]`, `[window]`, `[race]`, `[flap]`.
//!
//! One provider is written as a table, several as an array of tables under the same
//! key:
//!
//! ```toml
//! [[provider]]
//! address = "fra.example.net"
//! public_key = "…"
//! place = "Frankfurt"
//! weight = 200
//! ```

use std::fmt;
use std::time::Duration;

use quell_core::config::{
    ConfigError, ExitPolicy, FlapConfig, Raced, RacerConfig, WindowConfig, number,
};
use quell_core::multi::EXITS_MAX;
use quell_wire::key::PublicKey;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::address::ServerAddress;
use super::text;

/// Most characters of a place.
const PLACE_CHARS_MAX: usize = 64;

/// `[provider]`, or one of `[[provider]]`: an exit that a client may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderPeer {
    /// Where it listens. A name is resolved at each dial.
    #[serde(deserialize_with = "text::one")]
    pub address: ServerAddress,
    /// Who it is: a server with another key is not talked to.
    #[serde(deserialize_with = "text::one")]
    pub public_key: PublicKey,
    /// How often it is taken, beside the others' weights.
    ///
    /// 100. Range 1 to 10,000.
    #[serde(default = "default_weight", deserialize_with = "text::number")]
    pub weight: u32,
    /// Where it is, for people: shown in `status`.
    ///
    /// Empty. At most 64 characters.
    #[serde(default)]
    pub place: String,
}

fn default_weight() -> u32 {
    100
}

impl ProviderPeer {
    /// A provider that is preferred by nothing.
    pub fn new(address: ServerAddress, public_key: PublicKey) -> Self {
        Self {
            address,
            public_key,
            weight: default_weight(),
            place: String::new(),
        }
    }
}

/// Reads one table, or an array of them.
pub(super) fn one_or_many<'de, D>(from: D) -> Result<Vec<ProviderPeer>, D::Error>
where
    D: Deserializer<'de>,
{
    from.deserialize_any(OneOrMany)
}

struct OneOrMany;

impl<'de> Visitor<'de> for OneOrMany {
    type Value = Vec<ProviderPeer>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a [provider] table, or [[provider]] tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        ProviderPeer::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut many = Vec::new();
        while let Some(one) = seq.next_element()? {
            many.push(one);
        }
        Ok(many)
    }
}

/// The setting's name of one provider among `count`.
pub(super) fn key_of(index: usize, count: usize, field: &str) -> String {
    match count {
        1 => format!("provider.{field}"),
        _ => format!("provider[{index}].{field}"),
    }
}

/// Checks the list as a whole, and each of it.
pub(super) fn check(providers: &[ProviderPeer], by_catalog: bool) -> Result<(), ConfigError> {
    let count = providers.len();
    let least = usize::from(!by_catalog);
    if count < least || count > EXITS_MAX {
        let allowed = format!("{least} to {EXITS_MAX} providers");
        return Err(ConfigError::new("provider", count, allowed));
    }
    for (index, provider) in providers.iter().enumerate() {
        number(key_of(index, count, "weight"), provider.weight, 1..=10_000)?;
        if provider.place.chars().count() > PLACE_CHARS_MAX
            || provider.place.chars().any(char::is_control)
        {
            return Err(ConfigError::new(
                key_of(index, count, "place"),
                format!("{} characters", provider.place.chars().count()),
                format!("at most {PLACE_CHARS_MAX} characters that can be shown"),
            ));
        }
        let same = |other: &ProviderPeer| other.public_key == provider.public_key;
        if providers.iter().take(index).any(same) {
            return Err(ConfigError::new(
                key_of(index, count, "public_key"),
                provider.public_key,
                "each provider once",
            ));
        }
    }
    Ok(())
}

/// `[window]`: which exits are kept, and which of them carries what.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowSection {
    /// See [`WindowConfig::exit_policy`].
    #[serde(deserialize_with = "text::one")]
    pub exit_policy: ExitPolicy,
    /// See [`WindowConfig::window_min`].
    #[serde(deserialize_with = "text::number")]
    pub window_min: usize,
    /// See [`WindowConfig::window_max`].
    #[serde(deserialize_with = "text::number")]
    pub window_max: usize,
    /// See [`WindowConfig::window_resize_interval`].
    #[serde(deserialize_with = "text::one")]
    pub window_resize_interval: Duration,
}

impl Default for WindowSection {
    fn default() -> Self {
        let window = WindowConfig::default();
        Self {
            exit_policy: window.exit_policy,
            window_min: window.window_min,
            window_max: window.window_max,
            window_resize_interval: window.window_resize_interval,
        }
    }
}

impl WindowSection {
    /// The core's settings.
    pub fn core(&self) -> WindowConfig {
        WindowConfig {
            exit_policy: self.exit_policy,
            window_min: self.window_min,
            window_max: self.window_max,
            window_resize_interval: self.window_resize_interval,
            ..WindowConfig::default()
        }
    }
}

/// `[race]`: what is sent over two exits so that one answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RaceSection {
    /// See [`RacerConfig::race`].
    #[serde(deserialize_with = "text::one")]
    pub race: Raced,
    /// See [`RacerConfig::race_client_count`].
    #[serde(deserialize_with = "text::number")]
    pub race_client_count: usize,
    /// See [`RacerConfig::hedge_delay`].
    #[serde(deserialize_with = "text::one")]
    pub hedge_delay: Duration,
}

impl Default for RaceSection {
    fn default() -> Self {
        let racer = RacerConfig::default();
        Self {
            race: racer.race,
            race_client_count: racer.race_client_count,
            hedge_delay: racer.hedge_delay,
        }
    }
}

impl RaceSection {
    /// The core's settings.
    pub fn core(&self) -> RacerConfig {
        RacerConfig {
            race: self.race,
            race_client_count: self.race_client_count,
            hedge_delay: self.hedge_delay,
            ..RacerConfig::default()
        }
    }
}

/// `[flap]`: how often exits may leave the window for a soft reason.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlapSection {
    /// See [`FlapConfig::host_interval`].
    #[serde(deserialize_with = "text::one")]
    pub host_interval: Duration,
    /// See [`FlapConfig::host_burst`].
    #[serde(deserialize_with = "text::number")]
    pub host_burst: u32,
    /// See [`FlapConfig::catalog_interval`].
    #[serde(deserialize_with = "text::one")]
    pub catalog_interval: Duration,
    /// See [`FlapConfig::catalog_burst`].
    #[serde(deserialize_with = "text::number")]
    pub catalog_burst: u32,
}

impl Default for FlapSection {
    fn default() -> Self {
        let flap = FlapConfig::default();
        Self {
            host_interval: flap.host_interval,
            host_burst: flap.host_burst,
            catalog_interval: flap.catalog_interval,
            catalog_burst: flap.catalog_burst,
        }
    }
}

impl FlapSection {
    /// The core's settings.
    pub fn core(&self) -> FlapConfig {
        FlapConfig {
            host_interval: self.host_interval,
            host_burst: self.host_burst,
            catalog_interval: self.catalog_interval,
            catalog_burst: self.catalog_burst,
            ..FlapConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_setting_reaches_the_core() {
        let window: WindowSection = toml::from_str(
            r#"
            exit_policy = "spread"
            window_min = 3
            window_max = 4
            window_resize_interval = "20s"
            "#,
        )
        .unwrap();
        let core = window.core().try_new().unwrap();
        assert_eq!(core.exit_policy, ExitPolicy::Spread);
        assert_eq!((core.window_min, core.window_max), (3, 4));
        assert_eq!(core.window_resize_interval, Duration::from_secs(20));
        let race: RaceSection = toml::from_str(
            r#"
            race = "tcp+dns"
            race_client_count = 3
            hedge_delay = "100ms"
            "#,
        )
        .unwrap();
        let core = race.core().try_new().unwrap();
        assert_eq!((core.race, core.race_client_count), (Raced::TcpDns, 3));
        assert_eq!(core.hedge_delay, Duration::from_millis(100));
        let flap: FlapSection = toml::from_str(
            r#"
            host_interval = "60s"
            host_burst = 2
            catalog_interval = "10s"
            catalog_burst = 5
            "#,
        )
        .unwrap();
        let core = flap.core().try_new().unwrap();
        assert_eq!((core.host_burst, core.catalog_burst), (2, 5));
        assert_eq!(core.host_interval, Duration::from_secs(60));
        assert_eq!(core.catalog_interval, Duration::from_secs(10));
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        let window: WindowSection = toml::from_str("").unwrap();
        assert_eq!(window.core(), WindowConfig::default());
        let race: RaceSection = toml::from_str("").unwrap();
        assert_eq!(race.core(), RacerConfig::default());
        let flap: FlapSection = toml::from_str("").unwrap();
        assert_eq!(flap.core(), FlapConfig::default());
    }
}
