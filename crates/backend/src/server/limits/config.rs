//! Constants of the server's limits: unit, default, allowed range, reason.

use std::net::IpAddr;
use std::time::Duration;

use quell_core::config::{ConfigError, duration, number};

/// What a server takes of whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Most connections at a time.
    ///
    /// 4,096: each client that waits for the catalog holds one, at some 20 KiB. Range 1 to 65,536.
    pub connections_max: usize,
    /// Most connections of one source at a time; `proxies` are not counted.
    ///
    /// 64: an office behind one address. Range 1 to `connections_max`.
    pub connections_per_source: usize,
    /// Longest time from the start of a connection, or from the last answer on it, until the next request's head is
    /// there.
    ///
    /// 30 s: longer than our client keeps an idle one. Range 1 s to 2 min.
    pub header_timeout: Duration,
    /// Longest time for a body.
    ///
    /// 10 s: 128 KiB at 100 kbit/s. Range 1 s to 1 min.
    pub body_timeout: Duration,
    /// Longest life of a connection: then it ends with the answer that is under way.
    ///
    /// 10 min: who reads his answers slowly holds a place no longer. Range 1 min to 1 day.
    pub connection_age_max: Duration,
    /// Requests that a source gains each second.
    ///
    /// 20. Range 1 to 100,000.
    pub source_requests_per_s: u32,
    /// Requests that a source may make at once.
    ///
    /// 100: an office's clients, back at the same time. Range 1 to 1,000,000.
    pub source_request_burst: u32,
    /// Sources that are remembered.
    ///
    /// 16,384: under 2 MiB. Range 1 to 1,048,576.
    pub sources_max: u32,
    /// Requests that an account gains each second.
    ///
    /// 5: a busy provider files a batch of receipts each second. Range 1 to 10,000.
    pub account_requests_per_s: u32,
    /// Requests that an account may make at once.
    ///
    /// 50: a provider that files what an outage held up: 12,800 receipts. Range 1 to 100,000.
    pub account_request_burst: u32,
    /// Accounts that are remembered.
    ///
    /// 16,384: under 2 MiB. Range 1 to 1,048,576.
    pub accounts_max: u32,
    /// How long after a start the rate of requests that are let in rises; 0 for no such bound.
    ///
    /// 30 s: a fleet's waits of 5 to 30 s have all ended once by then. Range 0 to 10 min.
    pub ramp: Duration,
    /// Requests a second that are let in at the start of the ramp.
    ///
    /// 50: what a single core and a disk that syncs do with ease. Range 1 to 100,000.
    pub ramp_from_per_s: u32,
    /// Requests a second that are let in at its end.
    ///
    /// 1,000. Range `ramp_from_per_s` to 1,000,000.
    pub ramp_to_per_s: u32,
    /// Longest time that a stop waits for the answers that are under way.
    ///
    /// 10 s. Range 0 to 5 min.
    pub shutdown_timeout: Duration,
    /// Who stands before this server and says in `X-Forwarded-For` who asks. Of everyone else that header is ignored.
    ///
    /// None. At most 16.
    pub proxies: Vec<IpAddr>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            connections_max: 4_096,
            connections_per_source: 64,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(10),
            connection_age_max: Duration::from_secs(600),
            source_requests_per_s: 20,
            source_request_burst: 100,
            sources_max: 16_384,
            account_requests_per_s: 5,
            account_request_burst: 50,
            accounts_max: 16_384,
            ramp: Duration::from_secs(30),
            ramp_from_per_s: 50,
            ramp_to_per_s: 1_000,
            shutdown_timeout: Duration::from_secs(10),
            proxies: Vec::new(),
        }
    }
}

/// Most proxies.
const PROXIES_MAX: usize = 16;

impl LimitsConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let s = Duration::from_secs;
        let l = |name| format!("limits.{name}");
        let connections = self.connections_max;
        number(l("connections_max"), connections, 1..=65_536)?;
        let per_source = self.connections_per_source;
        number(l("connections_per_source"), per_source, 1..=connections)?;
        duration(l("header_timeout"), self.header_timeout, s(1)..=s(120))?;
        duration(l("body_timeout"), self.body_timeout, s(1)..=s(60))?;
        let age = self.connection_age_max;
        duration(l("connection_age_max"), age, s(60)..=s(86_400))?;
        let rate = self.source_requests_per_s;
        number(l("source_requests_per_s"), rate, 1..=100_000)?;
        let burst = self.source_request_burst;
        number(l("source_request_burst"), burst, 1..=1_000_000)?;
        number(l("sources_max"), self.sources_max, 1..=1_048_576)?;
        let rate = self.account_requests_per_s;
        number(l("account_requests_per_s"), rate, 1..=10_000)?;
        let burst = self.account_request_burst;
        number(l("account_request_burst"), burst, 1..=100_000)?;
        number(l("accounts_max"), self.accounts_max, 1..=1_048_576)?;
        duration(l("ramp"), self.ramp, s(0)..=s(600))?;
        let from = self.ramp_from_per_s;
        number(l("ramp_from_per_s"), from, 1..=100_000)?;
        number(l("ramp_to_per_s"), self.ramp_to_per_s, from..=1_000_000)?;
        duration(l("shutdown_timeout"), self.shutdown_timeout, s(0)..=s(300))?;
        number(l("proxies"), self.proxies.len(), 0..=PROXIES_MAX)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    type Change = fn(&mut LimitsConfig);

    #[test]
    fn each_range_ends_where_it_says() {
        LimitsConfig::default().try_new().unwrap();
        let cases: [(&str, Change, Change); 8] = [
            (
                "limits.connections_max",
                |c| c.connections_max = 65_536,
                |c| c.connections_max = 65_537,
            ),
            (
                "limits.connections_per_source",
                |c| c.connections_per_source = 4_096,
                |c| c.connections_per_source = 4_097,
            ),
            (
                "limits.header_timeout",
                |c| c.header_timeout = Duration::from_secs(120),
                |c| c.header_timeout = Duration::new(120, 1),
            ),
            (
                "limits.source_requests_per_s",
                |c| c.source_requests_per_s = 1,
                |c| c.source_requests_per_s = 0,
            ),
            (
                "limits.account_request_burst",
                |c| c.account_request_burst = 100_000,
                |c| c.account_request_burst = 100_001,
            ),
            (
                "limits.ramp",
                |c| c.ramp = Duration::from_secs(600),
                |c| c.ramp = Duration::new(600, 1),
            ),
            (
                "limits.ramp_to_per_s",
                |c| c.ramp_to_per_s = 50,
                |c| c.ramp_to_per_s = 49,
            ),
            (
                "limits.proxies",
                |c| c.proxies = vec![IpAddr::from([127, 0, 0, 1]); 16],
                |c| c.proxies = vec![IpAddr::from([127, 0, 0, 1]); 17],
            ),
        ];
        for (key, inside, outside) in cases {
            let changed = |change: Change| {
                let mut config = LimitsConfig::default();
                change(&mut config);
                config.try_new()
            };
            assert_eq!(changed(inside).err(), None, "{key}");
            assert_eq!(changed(outside).unwrap_err().key, key);
        }
    }
}
