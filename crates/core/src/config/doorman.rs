//! Constants of the doorman: who may start a handshake with a provider.
//!
//! A handshake costs about a millisecond of a core (an Ed25519 signature, an
//! X25519MLKEM768 exchange) and 24 KiB while it lasts; a Retry costs some
//! microseconds and nothing afterwards. The constants say from when on the one is
//! traded for the other, and how much one proven source may ask for.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// When a source must prove its address, and how often one that did may knock
/// (DESIGN §8, RFC 9000 §8.1.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoormanConfig {
    /// Handshakes under way, or begun within a second, from which on a source must
    /// prove its address.
    ///
    /// 64: at a millisecond each some 6 % of a core in the long run; fewer clients
    /// than that at once are spared the round trip of a Retry. Range 1 to
    /// `handshakes_max`.
    pub handshakes_free: usize,
    /// Most handshakes under way, proven sources included; more are refused.
    ///
    /// 1,024: 24 MiB, and what a core signs in the second that a client waits
    /// before it asks again. Range 1 to 65,536.
    pub handshakes_max: usize,
    /// Longest time of a handshake, from its first packet to its end.
    ///
    /// 15 s: the client's `dial_timeout`, after which nobody waits for it. Range
    /// 1 s to 60 s.
    pub handshake_timeout: Duration,
    /// Handshakes that the proven addresses of one prefix gain each second; of IPv4
    /// the prefix is an address, of IPv6 a /64.
    ///
    /// 8: under 1 % of a core, and 500 clients behind one address are back within a
    /// minute of a restart under attack. Range 1 to 10,000.
    pub source_handshakes_per_s: u32,
    /// Handshakes that the proven addresses of one prefix may start at once.
    ///
    /// 64: an office behind one address. Range 1 to 100,000.
    pub source_handshake_burst: u32,
    /// Prefixes that are remembered; beyond, the one heard of longest ago is forgotten.
    ///
    /// 4,096: as many as `sessions_max`, in under 1 MiB. Range 1 to 1,048,576.
    pub sources_max: u32,
}

impl Default for DoormanConfig {
    fn default() -> Self {
        Self {
            handshakes_free: 64,
            handshakes_max: 1_024,
            handshake_timeout: Duration::from_secs(15),
            source_handshakes_per_s: 8,
            source_handshake_burst: 64,
            sources_max: 4_096,
        }
    }
}

impl DoormanConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let l = |name| format!("limits.{name}");
        number(l("handshakes_max"), self.handshakes_max, 1..=65_536)?;
        number(
            l("handshakes_free"),
            self.handshakes_free,
            1..=self.handshakes_max,
        )?;
        duration(
            "transport.handshake_timeout",
            self.handshake_timeout,
            Duration::from_secs(1)..=Duration::from_secs(60),
        )?;
        let rate = self.source_handshakes_per_s;
        number(l("source_handshakes_per_s"), rate, 1..=10_000)?;
        let burst = self.source_handshake_burst;
        number(l("source_handshake_burst"), burst, 1..=100_000)?;
        number(l("sources_max"), self.sources_max, 1..=1_048_576)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ranges::{Change, each_ends_where_it_says};
    use super::*;

    #[test]
    fn each_range_ends_where_it_says() {
        let cases: [(&str, Change<DoormanConfig>, Change<DoormanConfig>); 6] = [
            (
                "limits.handshakes_max",
                |c| c.handshakes_max = 65_536,
                |c| c.handshakes_max = 65_537,
            ),
            (
                "limits.handshakes_free",
                |c| c.handshakes_free = 1_024,
                |c| c.handshakes_free = 1_025,
            ),
            (
                "transport.handshake_timeout",
                |c| c.handshake_timeout = Duration::from_secs(60),
                |c| c.handshake_timeout = Duration::new(60, 1),
            ),
            (
                "limits.source_handshakes_per_s",
                |c| c.source_handshakes_per_s = 1,
                |c| c.source_handshakes_per_s = 0,
            ),
            (
                "limits.source_handshake_burst",
                |c| c.source_handshake_burst = 1,
                |c| c.source_handshake_burst = 0,
            ),
            (
                "limits.sources_max",
                |c| c.sources_max = 1,
                |c| c.sources_max = 0,
            ),
        ];
        each_ends_where_it_says(DoormanConfig::try_new, &cases);
    }
}
