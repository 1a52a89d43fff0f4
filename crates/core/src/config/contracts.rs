//! Constants of contracts: how far a provider trusts what is not signed yet, and how early a client asks for more.
//!
//! The provider's side bounds what a client can have without paying for it; the client's side keeps an honest client
//! from ever meeting that bound, and from asking a backend more often than once in a minute of its traffic.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// What a provider does with contracts and receipts (DESIGN §7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractsConfig {
    /// How far a client's, a backend's and the own clock may differ.
    ///
    /// 5 min (DESIGN §7): what a machine without network time drifts in months. Range 0 to 1 h.
    pub clock_skew: Duration,
    /// Bytes that a client may have had without a receipt that is durable, however slow it is.
    ///
    /// 1 MiB (DESIGN §7): a client signs every quarter of it. Range 64 KiB to 64 MiB.
    pub exposure_bytes: u64,
    /// The same for a fast client, as time at the rate at which it signs.
    ///
    /// 2 s (DESIGN §7): a round trip, a batch on a disk and a receipt that waits its turn. Range 100 ms to 30 s.
    pub exposure_time: Duration,
    /// Bytes that all clients together may have in grace in one outage of the backend.
    ///
    /// 4,096 MiB: an hour of 10 Mbit/s, which is what an outage may cost. 0: no grace. Range 0 to 2^50.
    pub grace_bytes_max: u64,
    /// How long a session may be paused before it is ended.
    ///
    /// 60 s (DESIGN §4): a TCP that heard nothing for that long has given up. Range 1 s to 10 min.
    pub pause_max: Duration,
    /// Shortest time between two filings of receipts.
    ///
    /// 10 s: a thousand providers are a hundred requests a second. Range 1 s to 10 min.
    pub filing_interval: Duration,
    /// Most contracts that are remembered, those that are used up included.
    ///
    /// 65,536: some 40 MiB. Range 16 to 1,048,576.
    pub contracts_max: usize,
}

impl Default for ContractsConfig {
    fn default() -> Self {
        Self {
            clock_skew: Duration::from_secs(300),
            exposure_bytes: 1024 * 1024,
            exposure_time: Duration::from_secs(2),
            grace_bytes_max: 4 * 1024 * 1024 * 1024,
            pause_max: Duration::from_secs(60),
            filing_interval: Duration::from_secs(10),
            contracts_max: 65_536,
        }
    }
}

impl ContractsConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let c = |name| format!("contracts.{name}");
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        duration(c("clock_skew"), self.clock_skew, s(0)..=s(3_600))?;
        let bytes = self.exposure_bytes;
        number(c("exposure_bytes"), bytes, 64 << 10..=64 << 20)?;
        duration(c("exposure_time"), self.exposure_time, ms(100)..=s(30))?;
        number(c("grace_bytes_max"), self.grace_bytes_max, 0..=1 << 50)?;
        duration(c("pause_max"), self.pause_max, s(1)..=s(600))?;
        duration(c("filing_interval"), self.filing_interval, s(1)..=s(600))?;
        number(c("contracts_max"), self.contracts_max, 16..=1_048_576)?;
        Ok(self)
    }
}

/// When a client asks for contracts, and when it signs (DESIGN §7).
#[derive(Debug, Clone, PartialEq)]
pub struct WalletConfig {
    /// The share of a contract's bytes or time after which the next one is asked for.
    ///
    /// 0.5 (DESIGN §7): half a contract is what an outage finds at least. Range 0.1 to 0.9.
    pub prefetch: f64,
    /// Bytes that a contract is asked for at least.
    ///
    /// 256 MiB: an hour of reading, a minute of 35 Mbit/s. Range 1 MiB to `contract_bytes_max`.
    pub contract_bytes: u64,
    /// How long a contract should last at the recent rate, where that is more.
    ///
    /// 2 min: half of it, after which the next is asked for, is a minute. Range 10 s to 1 h.
    pub contract_time: Duration,
    /// Bytes that a contract is asked for at most.
    ///
    /// 16,384 MiB: 2 min of 1 Gbit/s. Range 1 MiB to 2^50.
    pub contract_bytes_max: u64,
    /// Bytes after which a receipt is signed at once.
    ///
    /// 256 KiB (DESIGN §7): a quarter of what a provider bears; an eighth of a second's bytes where that is more. Range
    /// 16 KiB to 256 KiB.
    pub receipt_bytes: u64,
    /// How long bytes go unsigned where they are fewer.
    ///
    /// 1 s: what a crash of either end makes doubtful. Range 100 ms to 10 s.
    pub receipt_interval: Duration,
    /// Wait before an exit is asked for again whose contract was refused; doubles from there.
    ///
    /// 30 s: a refusal is an answer, and the same a second later. Range 5 s to 1 h.
    pub refused_wait: Duration,
    /// Longest such wait.
    ///
    /// 15 min: an allowance that was raised is found within it. Range `refused_wait` to 24 h.
    pub refused_wait_max: Duration,
}

impl Default for WalletConfig {
    fn default() -> Self {
        Self {
            prefetch: 0.5,
            contract_bytes: 256 * 1024 * 1024,
            contract_time: Duration::from_secs(120),
            contract_bytes_max: 16 * 1024 * 1024 * 1024,
            receipt_bytes: 256 * 1024,
            receipt_interval: Duration::from_secs(1),
            refused_wait: Duration::from_secs(30),
            refused_wait_max: Duration::from_secs(900),
        }
    }
}

impl WalletConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let c = |name| format!("contracts.{name}");
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        number(c("prefetch"), self.prefetch, 0.1..=0.9)?;
        let most = self.contract_bytes_max;
        number(c("contract_bytes_max"), most, 1 << 20..=1 << 50)?;
        number(c("contract_bytes"), self.contract_bytes, 1 << 20..=most)?;
        duration(c("contract_time"), self.contract_time, s(10)..=s(3_600))?;
        number(c("receipt_bytes"), self.receipt_bytes, 16 << 10..=256 << 10)?;
        let interval = self.receipt_interval;
        duration(c("receipt_interval"), interval, ms(100)..=s(10))?;
        duration(c("refused_wait"), self.refused_wait, s(5)..=s(3_600))?;
        let longest = self.refused_wait_max;
        duration(
            c("refused_wait_max"),
            longest,
            self.refused_wait..=s(86_400),
        )?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ranges::{Change, each_ends_where_it_says};
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const NS: Duration = Duration::from_nanos(1);

    #[test]
    fn each_range_of_a_provider_ends_where_it_says() {
        type Row = (
            &'static str,
            Change<ContractsConfig>,
            Change<ContractsConfig>,
        );
        let cases: [Row; 7] = [
            (
                "contracts.clock_skew",
                |c| c.clock_skew = 3_600 * S,
                |c| c.clock_skew = 3_600 * S + NS,
            ),
            (
                "contracts.exposure_bytes",
                |c| c.exposure_bytes = 65_536,
                |c| c.exposure_bytes = 65_535,
            ),
            (
                "contracts.exposure_time",
                |c| c.exposure_time = 30 * S,
                |c| c.exposure_time = 30 * S + NS,
            ),
            (
                "contracts.grace_bytes_max",
                |c| c.grace_bytes_max = 1 << 50,
                |c| c.grace_bytes_max = (1 << 50) + 1,
            ),
            (
                "contracts.pause_max",
                |c| c.pause_max = S,
                |c| c.pause_max = S - NS,
            ),
            (
                "contracts.filing_interval",
                |c| c.filing_interval = S,
                |c| c.filing_interval = S - NS,
            ),
            (
                "contracts.contracts_max",
                |c| c.contracts_max = 16,
                |c| c.contracts_max = 15,
            ),
        ];
        each_ends_where_it_says(ContractsConfig::try_new, &cases);
    }

    #[test]
    fn each_range_of_a_client_ends_where_it_says() {
        let cases: [(&str, Change<WalletConfig>, Change<WalletConfig>); 8] = [
            (
                "contracts.prefetch",
                |c| c.prefetch = 0.9,
                |c| c.prefetch = 0.91,
            ),
            (
                "contracts.contract_bytes",
                |c| c.contract_bytes = c.contract_bytes_max,
                |c| c.contract_bytes = c.contract_bytes_max + 1,
            ),
            (
                "contracts.contract_time",
                |c| c.contract_time = 10 * S,
                |c| c.contract_time = 10 * S - NS,
            ),
            (
                "contracts.contract_bytes_max",
                |c| c.contract_bytes_max = 1 << 50,
                |c| c.contract_bytes_max = (1 << 50) + 1,
            ),
            (
                "contracts.receipt_bytes",
                |c| c.receipt_bytes = 256 << 10,
                |c| c.receipt_bytes = (256 << 10) + 1,
            ),
            (
                "contracts.receipt_interval",
                |c| c.receipt_interval = 10 * S,
                |c| c.receipt_interval = 10 * S + NS,
            ),
            (
                "contracts.refused_wait",
                |c| c.refused_wait = 5 * S,
                |c| c.refused_wait = 5 * S - NS,
            ),
            (
                "contracts.refused_wait_max",
                |c| c.refused_wait_max = c.refused_wait,
                |c| c.refused_wait_max = c.refused_wait - NS,
            ),
        ];
        each_ends_where_it_says(WalletConfig::try_new, &cases);
    }
}
