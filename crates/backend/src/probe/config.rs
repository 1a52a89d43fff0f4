//! Constants of the prober.

use std::time::Duration;

use quell_core::config::{ConfigError, duration, number};

/// Longest path of a probe, in bytes.
const PATH_BYTES_MAX: usize = 256;

/// How providers are asked whether they are well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeConfig {
    /// Time between two probes of one provider; each is earlier or later by up to a fifth.
    ///
    /// 10 s: with `failures_before_critical` 3 a dead provider leaves within about 40 s. A handshake costs it a
    /// millisecond. Range 100 ms to 10 min.
    pub interval: Duration,
    /// How long an answer may take, all addresses of a provider together.
    ///
    /// 5 s: a handshake over a path of a second with one loss. Range 100 ms to 1 min.
    pub timeout: Duration,
    /// Most probes at a time.
    ///
    /// 64: 500 hosts that all hang are still asked within their interval four times over. Range 1 to 1,024.
    pub concurrency_max: usize,
    /// The path that is asked over HTTP in place of the handshake, if any.
    pub http_path: Option<String>,
    /// The TCP port of that, at the host of the provider's addresses.
    ///
    /// 80. Range 1 to 65,535.
    pub http_port: u16,
}

impl Default for ProbeConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            concurrency_max: 64,
            http_path: None,
            http_port: 80,
        }
    }
}

impl ProbeConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let (ms, s) = (Duration::from_millis(100), Duration::from_secs);
        duration("probe.interval", self.interval, ms..=s(600))?;
        duration("probe.timeout", self.timeout, ms..=s(60))?;
        number("probe.concurrency_max", self.concurrency_max, 1..=1_024)?;
        number("probe.http_port", self.http_port, 1..=65_535)?;
        if let Some(path) = &self.http_path {
            let is_path = path.starts_with('/')
                && path.len() <= PATH_BYTES_MAX
                && path.parse::<hyper::Uri>().is_ok();
            if !is_path {
                let allowed =
                    format!("a path such as \"/health\", of {PATH_BYTES_MAX} bytes at most");
                return Err(ConfigError::new("probe.http_path", path, allowed));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    type Change = fn(&mut ProbeConfig);

    #[test]
    fn each_range_ends_where_it_says() {
        let cases: [(&str, Change, Change); 5] = [
            (
                "probe.interval",
                |c| c.interval = Duration::from_secs(600),
                |c| c.interval = Duration::new(600, 1),
            ),
            (
                "probe.timeout",
                |c| c.timeout = Duration::from_millis(100),
                |c| c.timeout = Duration::from_millis(99),
            ),
            (
                "probe.concurrency_max",
                |c| c.concurrency_max = 1_024,
                |c| c.concurrency_max = 1_025,
            ),
            ("probe.http_port", |c| c.http_port = 1, |c| c.http_port = 0),
            (
                "probe.http_path",
                |c| c.http_path = Some(format!("/{}", "x".repeat(255))),
                |c| c.http_path = Some(format!("/{}", "x".repeat(256))),
            ),
        ];
        for (key, inside, outside) in cases {
            let changed = |change: Change| {
                let mut config = ProbeConfig::default();
                change(&mut config);
                config.try_new()
            };
            assert_eq!(changed(inside).err(), None, "{key}");
            assert_eq!(changed(outside).unwrap_err().key, key);
        }
        for path in ["", "health", "http://a/", "/a b"] {
            let config = ProbeConfig {
                http_path: Some(path.to_owned()),
                ..ProbeConfig::default()
            };
            assert_eq!(config.try_new().unwrap_err().key, "probe.http_path");
        }
    }
}
