//! `[backend]`: the control plane, and how it is asked for its health. The same in both
//! files.
//!
//! `url` is where quell's own control plane is: exits, contracts and receipts go through
//! it, and its health is asked there too. `urls` are for a control plane that is somebody
//! else's, of which quell knows nothing but whether it lives.
//!
//! Each URL is asked by an HTTP GET. Any answer but a 5xx is a sign of life; one that
//! says when to come again (Retry-After) is obeyed. Without a URL nobody is asked, and
//! unless the program that embeds quell says otherwise, nothing is ever degraded.

use std::time::Duration;

use quell_backend::api::ADDRESSES_MAX;
use quell_backend::http::BaseUrl;
use quell_core::config::{BackendHealthConfig, ConfigError};
use quell_net::backend::{BackendSettings, BackendUrl};
use serde::Deserialize;

use super::address::ServerAddress;
use super::text;

/// `[backend]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackendSection {
    /// The control plane of quell's own kind: `http` or `https`, with the path before
    /// `/v1` if there is one.
    ///
    /// None: a client uses the providers that its file lists, a provider serves the
    /// clients that its file lists. With it a client gets its exits from the catalog and
    /// pays with contracts, and a provider serves whoever has one; the key in
    /// `private_key_file` must be enrolled.
    #[serde(deserialize_with = "text::option")]
    pub url: Option<BaseUrl>,
    /// Of a provider: where clients reach it, as the catalog is to say it.
    ///
    /// None. 1 to 4 with `url`, `host:port` each; more than one where it has several
    /// addresses, which are tried in turn. Must be left out without `url`, and by clients.
    #[serde(deserialize_with = "text::list")]
    pub advertise: Vec<ServerAddress>,
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
            url: None,
            advertise: Vec::new(),
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
    /// Where to ask for health: the control plane of our own kind first.
    fn health_urls(&self) -> Vec<BackendUrl> {
        // What was a base URL is a whole one with a path after it.
        let own = self.url.as_ref().map(BaseUrl::health);
        let own = own.and_then(|url| url.parse().ok());
        own.into_iter().chain(self.urls.iter().cloned()).collect()
    }

    /// Checks what only makes sense together. `is_provider`: whose file it is.
    ///
    /// # Errors
    /// Addresses that are missing, or that nobody would be told.
    pub(super) fn check(&self, is_provider: bool) -> Result<(), ConfigError> {
        let wanted = match (is_provider, &self.url) {
            (true, Some(_)) => 1..=ADDRESSES_MAX,
            (true, None) | (false, _) => 0..=0,
        };
        if !wanted.contains(&self.advertise.len()) {
            let allowed = match wanted.end() {
                0 => "none: it is for a provider that has backend.url".to_owned(),
                most => format!("1 to {most} addresses"),
            };
            let found = format!("{} addresses", self.advertise.len());
            return Err(ConfigError::new("backend.advertise", found, allowed));
        }
        self.settings().try_new().map(drop)
    }

    /// The driver's settings.
    pub fn settings(&self) -> BackendSettings {
        BackendSettings {
            urls: self.health_urls(),
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

    #[test]
    fn the_control_plane_is_asked_for_its_health_where_it_is() {
        let text = "url = \"http://127.0.0.1:6620/quell/\"\nurls = [\"http://h/\"]";
        let section = read(text).unwrap();
        let urls: Vec<_> = section
            .settings()
            .urls
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(urls, ["http://127.0.0.1:6620/quell/healthz", "http://h/"]);
        let error = read("url = \"http://h/?key=s3cret\"")
            .unwrap_err()
            .to_string();
        assert!(error.contains("a query after the path"), "{error}");
    }

    #[test]
    fn a_provider_with_a_control_plane_says_where_it_is_reached_and_nobody_else_does() {
        let words = |text: &str, is_provider| {
            read(text)
                .unwrap()
                .check(is_provider)
                .map_err(|error| error.to_string())
        };
        let url = "url = \"http://h/\"\n";
        let advertise = |count: usize| {
            let addresses: Vec<_> = (0..count).map(|n| format!("\"h:{}\"", n + 1)).collect();
            format!("advertise = [{}]\n", addresses.join(", "))
        };
        let both = |count| format!("{url}{}", advertise(count));
        assert_eq!(words(&both(1), true), Ok(()));
        assert_eq!(words(&both(4), true), Ok(()));
        for count in [0, 5] {
            let words = words(&both(count), true).unwrap_err();
            let expected =
                format!("backend.advertise = {count} addresses: allowed is 1 to 4 addresses");
            assert_eq!(words, expected);
        }
        assert_eq!(words(url, false), Ok(()));
        words(&both(1), false).unwrap_err();
        words(&advertise(1), true).unwrap_err();
    }
}
