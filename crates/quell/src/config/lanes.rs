//! `[lanes]`: how what is acknowledged is carried. The same in both files; each
//! end's settings concern what that end sends.

use std::time::Duration;

use quell_core::config::{ConfigError, LaneConfig, LanesConfig, TcpLane};
use serde::Deserialize;

use super::text;

/// QUIC's idle timeout is at least `ack_timeout` and this (DESIGN §4): the
/// connection must not end under packs that may still be acknowledged.
const IDLE_MARGIN: Duration = Duration::from_secs(15);

/// `[lanes]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LanesSection {
    /// See [`LanesConfig::tcp`].
    #[serde(deserialize_with = "text::one")]
    pub tcp: TcpLane,
    /// See [`LaneConfig::max_resend_count`].
    #[serde(deserialize_with = "text::number")]
    pub max_resend_count: u16,
    /// See [`LaneConfig::ack_timeout`]. At most `transport.idle_timeout` less 15 s.
    #[serde(deserialize_with = "text::one")]
    pub ack_timeout: Duration,
    /// See [`LaneConfig::max_resend_interval`].
    #[serde(deserialize_with = "text::one")]
    pub max_resend_interval: Duration,
    /// See [`LanesConfig::flow_wait_max`].
    #[serde(deserialize_with = "text::one")]
    pub flow_wait_max: Duration,
}

impl Default for LanesSection {
    fn default() -> Self {
        let LanesConfig {
            tcp,
            flow_wait_max,
            send,
            receive: _,
        } = LanesConfig::default();
        Self {
            tcp,
            max_resend_count: send.max_resend_count.into(),
            ack_timeout: send.ack_timeout,
            max_resend_interval: send.max_resend_interval,
            flow_wait_max,
        }
    }
}

impl LanesSection {
    /// The core's settings.
    pub fn core(&self) -> LanesConfig {
        LanesConfig {
            tcp: self.tcp,
            flow_wait_max: self.flow_wait_max,
            send: LaneConfig {
                // What does not fit is refused by the range, which ends far below.
                max_resend_count: u8::try_from(self.max_resend_count).unwrap_or(u8::MAX),
                ack_timeout: self.ack_timeout,
                max_resend_interval: self.max_resend_interval,
                ..LaneConfig::default()
            },
            ..LanesConfig::default()
        }
    }

    /// Checks it against the idle timeout of the connection beneath.
    pub(super) fn fits(&self, idle_timeout: Duration) -> Result<(), ConfigError> {
        let most = idle_timeout.saturating_sub(IDLE_MARGIN);
        if self.ack_timeout <= most {
            return Ok(());
        }
        Err(ConfigError::new(
            "lanes.ack_timeout",
            format!("{:?}", self.ack_timeout),
            format!("at most transport.idle_timeout less 15 s ({most:?})"),
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<LanesSection, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn every_setting_reaches_the_core() {
        let text = r#"
            tcp = "dgram"
            max_resend_count = 7
            ack_timeout = "30s"
            max_resend_interval = "4s"
            flow_wait_max = "60ms"
        "#;
        let core = read(text).unwrap().core().try_new().unwrap();
        assert_eq!(core.tcp, TcpLane::Dgram);
        assert_eq!(core.send.max_resend_count, 7);
        assert_eq!(core.send.ack_timeout, Duration::from_secs(30));
        assert_eq!(core.send.max_resend_interval, Duration::from_secs(4));
        assert_eq!(core.flow_wait_max, Duration::from_millis(60));
        assert_eq!(read("").unwrap().core(), LanesConfig::default());
    }

    #[test]
    fn a_mistake_is_named_with_what_is_allowed() {
        let error = read("tcp = \"fast\"").unwrap_err().to_string();
        assert!(error.contains(r#""flow" or "dgram""#), "{error}");
        let section = read("max_resend_count = 65").unwrap();
        let error = section.core().try_new().unwrap_err().to_string();
        assert_eq!(error, "lanes.max_resend_count = 65: allowed is 0 to 64");
        read("max_resend_counts = 1").unwrap_err();
    }

    #[test]
    fn the_connection_beneath_outlives_what_may_be_acknowledged() {
        let section = LanesSection::default();
        section.fits(Duration::from_secs(75)).unwrap();
        let short = Duration::from_secs(75) - Duration::from_nanos(1);
        let error = section.fits(short).unwrap_err();
        assert_eq!(error.key, "lanes.ack_timeout");
    }
}
