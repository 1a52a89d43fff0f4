//! `[backend]`: the control plane, and how it is asked for its health. The same in both
//! files.
//!
//! Each URL is asked by an HTTP GET. Any answer but a 5xx is a sign of life; one that
//! says when to come again (Retry-After) is obeyed. Without a URL nobody is asked, and
//! unless the program that embeds quell says otherwise, nothing is ever degraded.

use std::time::Duration;

use quell_core::config::BackendHealthConfig;
use quell_net::backend::{BackendSettings, BackendUrl};
use serde::Deserialize;

use super::text;

/// `[backend]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackendSection {
    /// Where to ask: `http` or `https`.
    ///
    /// None. At most 4, each once. Requests take the way that the system's routes say; a
    /// backend behind the tunnel itself would seem down whenever the tunnel is. TLS is
    /// 1.3 and trusts the system's authorities.
    #[serde(deserialize_with = "text::list")]
    pub urls: Vec<BackendUrl>,
    /// See [`BackendHealthConfig::failures_to_degrade`].
    #[serde(deserialize_with = "text::number")]
    pub failures_to_degrade: u16,
    /// See [`BackendHealthConfig::attempt_timeout`].
    #[serde(deserialize_with = "text::one")]
    pub attempt_timeout: Duration,
    /// See [`BackendHealthConfig::check_interval`].
    #[serde(deserialize_with = "text::one")]
    pub check_interval: Duration,
    /// See [`BackendHealthConfig::retry_interval`].
    #[serde(deserialize_with = "text::one")]
    pub retry_interval: Duration,
    /// See [`BackendHealthConfig::probe_interval_min`].
    #[serde(deserialize_with = "text::one")]
    pub probe_interval_min: Duration,
    /// See [`BackendHealthConfig::probe_interval_max`].
    #[serde(deserialize_with = "text::one")]
    pub probe_interval_max: Duration,
    /// See [`BackendHealthConfig::retry_after_max`].
    #[serde(deserialize_with = "text::one")]
    pub retry_after_max: Duration,
}

impl Default for BackendSection {
    fn default() -> Self {
        let BackendHealthConfig {
            failures_to_degrade,
            attempt_timeout,
            check_interval,
            retry_interval,
            probe_interval_min,
            probe_interval_max,
            in_flight_max: _,
            retry_after_max,
        } = BackendHealthConfig::default();
        Self {
            urls: Vec::new(),
            failures_to_degrade: failures_to_degrade.into(),
            attempt_timeout,
            check_interval,
            retry_interval,
            probe_interval_min,
            probe_interval_max,
            retry_after_max,
        }
    }
}

impl BackendSection {
    /// The driver's settings.
    pub fn settings(&self) -> BackendSettings {
        BackendSettings {
            urls: self.urls.clone(),
            health: BackendHealthConfig {
                // What does not fit is refused by the range, which ends far below.
                failures_to_degrade: u8::try_from(self.failures_to_degrade).unwrap_or(u8::MAX),
                attempt_timeout: self.attempt_timeout,
                check_interval: self.check_interval,
                retry_interval: self.retry_interval,
                probe_interval_min: self.probe_interval_min,
                probe_interval_max: self.probe_interval_max,
                retry_after_max: self.retry_after_max,
                ..BackendHealthConfig::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<BackendSection, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn every_setting_reaches_the_driver() {
        let text = r#"
            urls = ["https://api.example.net/health?key=k", "http://127.0.0.1:8080/health"]
            failures_to_degrade = 4
            attempt_timeout = "6s"
            check_interval = "40s"
            retry_interval = "2s"
            probe_interval_min = "7s"
            probe_interval_max = "50s"
            retry_after_max = "1m"
        "#;
        let settings = read(text).unwrap().settings().try_new().unwrap();
        let shown: Vec<_> = settings.urls.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "https://api.example.net/health",
                "http://127.0.0.1:8080/health"
            ]
        );
        let s = Duration::from_secs;
        let expected = BackendHealthConfig {
            failures_to_degrade: 4,
            attempt_timeout: s(6),
            check_interval: s(40),
            retry_interval: s(2),
            probe_interval_min: s(7),
            probe_interval_max: s(50),
            retry_after_max: s(60),
            ..BackendHealthConfig::default()
        };
        assert_eq!(settings.health, expected);
        assert_eq!(read("").unwrap().settings(), BackendSettings::default());
    }

    #[test]
    fn a_mistake_is_named_with_what_is_allowed() {
        let words = |text: &str| {
            read(text)
                .unwrap()
                .settings()
                .try_new()
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            words("failures_to_degrade = 300"),
            "backend.failures_to_degrade = 255: allowed is 1 to 100"
        );
        assert!(
            words(r#"check_interval = "4s""#)
                .starts_with("backend.check_interval = 4s: allowed is 5s")
        );
        let urls = |count: usize| {
            let urls: Vec<_> = (0..count).map(|n| format!("\"http://h/{n}\"")).collect();
            format!("urls = [{}]", urls.join(", "))
        };
        read(&urls(4)).unwrap().settings().try_new().unwrap();
        assert_eq!(
            words(&urls(5)),
            "backend.urls = 5 URLs: allowed is 0 to 4 of them"
        );
        let twice = r#"urls = ["http://h/", "http://h"]"#;
        assert_eq!(
            words(twice),
            "backend.urls[1] = http://h/: allowed is each URL once"
        );
        let error = read(r#"urls = ["ftp://h/"]"#).unwrap_err().to_string();
        assert!(error.contains("neither http nor https"), "{error}");
        read("url = []").unwrap_err();
    }
}
