//! `[limits]` of a provider: how much is allowed, of whom.
//!
//! What a person sets; the constants behind the limits that nobody should need to know are the core's alone.

use std::num::NonZeroU64;

use bytesize::ByteSize;
use quell_core::config::{ClientLimitsConfig, DoormanConfig, ProviderConfig};
use serde::Deserialize;

use super::text::{self, Text};

/// Bits a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitRate(pub NonZeroU64);

impl Text for BitRate {
    const FORM: &'static str = r#"a rate such as "100Mbit/s", "1.5Gbit/s" or "512kbit/s""#;

    fn read(text: &str) -> Result<Self, String> {
        let wrong = || "not a rate".to_owned();
        let unit_at = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, unit) = text.split_at(unit_at);
        let digits = match unit.trim_start() {
            "bit/s" => 0,
            "kbit/s" => 3,
            "Mbit/s" => 6,
            "Gbit/s" => 9,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // Decimal places beyond a bit mean nothing.
        if fraction.len() > digits || number.ends_with('.') {
            return Err(wrong());
        }
        let zeros = digits - fraction.len();
        let bits = format!("{whole}{fraction}{:0<zeros$}", "");
        let bits: u64 = bits.parse().map_err(|_| wrong())?;
        NonZeroU64::new(bits).map(Self).ok_or_else(wrong)
    }
}

/// Bytes that a month may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonthBytes(pub u64);

impl Text for MonthBytes {
    const FORM: &'static str = r#"a size such as "5TiB" or "500GB""#;

    fn read(text: &str) -> Result<Self, String> {
        let size: Result<ByteSize, _> = text.parse();
        size.map(|ByteSize(bytes)| Self(bytes))
            .map_err(|_| "not a size".to_owned())
    }
}

/// `[limits]`: how much is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// See [`ProviderConfig::sessions_max`].
    #[serde(deserialize_with = "text::number")]
    pub sessions_max: usize,
    /// See [`DoormanConfig::handshakes_max`].
    #[serde(deserialize_with = "text::number")]
    pub handshakes_max: usize,
    /// See [`DoormanConfig::handshakes_free`].
    #[serde(deserialize_with = "text::number")]
    pub handshakes_free: usize,
    /// See [`DoormanConfig::source_handshakes_per_s`].
    #[serde(deserialize_with = "text::number")]
    pub source_handshakes_per_s: u32,
    /// See [`DoormanConfig::source_handshake_burst`].
    #[serde(deserialize_with = "text::number")]
    pub source_handshake_burst: u32,
    /// See [`ClientLimitsConfig::client_flows_max`].
    #[serde(deserialize_with = "text::number")]
    pub client_flows_max: u32,
    /// See [`ClientLimitsConfig::client_new_destinations_per_s`].
    #[serde(deserialize_with = "text::number")]
    pub client_new_destinations_per_s: u32,
    /// See [`ClientLimitsConfig::client_new_destination_burst`].
    #[serde(deserialize_with = "text::number")]
    pub client_new_destination_burst: u32,
    /// See [`ClientLimitsConfig::client_rate_bits_per_s`]. `client_rate` in the file.
    #[serde(deserialize_with = "text::option")]
    pub client_rate: Option<BitRate>,
    /// See [`ProviderConfig::month_bytes_max`].
    #[serde(deserialize_with = "text::option")]
    pub month_bytes_max: Option<MonthBytes>,
}

impl Default for Limits {
    fn default() -> Self {
        let ProviderConfig {
            sessions_max,
            doorman,
            client,
            ..
        } = ProviderConfig::default();
        Self {
            sessions_max,
            handshakes_max: doorman.handshakes_max,
            handshakes_free: doorman.handshakes_free,
            source_handshakes_per_s: doorman.source_handshakes_per_s,
            source_handshake_burst: doorman.source_handshake_burst,
            client_flows_max: client.client_flows_max,
            client_new_destinations_per_s: client.client_new_destinations_per_s,
            client_new_destination_burst: client.client_new_destination_burst,
            client_rate: None,
            month_bytes_max: None,
        }
    }
}

impl Limits {
    /// What one client may take.
    pub(super) fn client(&self) -> ClientLimitsConfig {
        ClientLimitsConfig {
            client_flows_max: self.client_flows_max,
            client_new_destinations_per_s: self.client_new_destinations_per_s,
            client_new_destination_burst: self.client_new_destination_burst,
            client_rate_bits_per_s: self.client_rate.map(|rate| rate.0.get()),
            ..ClientLimitsConfig::default()
        }
    }

    /// Who may start a handshake; the rest of it is `[transport]`'s.
    pub(super) fn doorman(&self) -> DoormanConfig {
        DoormanConfig {
            handshakes_free: self.handshakes_free,
            handshakes_max: self.handshakes_max,
            source_handshakes_per_s: self.source_handshakes_per_s,
            source_handshake_burst: self.source_handshake_burst,
            ..DoormanConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_rate_is_read_to_the_bit() {
        for (text, bits) in [
            ("1bit/s", 1),
            ("512kbit/s", 512_000),
            ("100 Mbit/s", 100_000_000),
            ("1.5Gbit/s", 1_500_000_000),
            ("0.000001Mbit/s", 1),
        ] {
            assert_eq!(BitRate::read(text).unwrap().0.get(), bits, "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in [
            "",
            "1",
            "Mbit/s",
            "1 MB/s",
            "0Mbit/s",
            "-1Mbit/s",
            "1.Mbit/s",
            "1.5bit/s",
            "1..5Mbit/s",
            "1Mbit",
            "1e6bit/s",
            "0.0000001Mbit/s",
            "99999999999999999999bit/s",
            "١Mbit/s",
        ] {
            assert!(BitRate::read(text).is_err(), "{text}");
        }
    }
}
