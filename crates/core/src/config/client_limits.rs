//! Constants of what one client of a provider may take, and of the queue in which clients wait for each other.
//!
//! An exit is shared. What one client takes of it, others lack: places in the tables of the host behind it, the good name
//! of its address in the world, its line. So each of the three has a bound of its own. The defaults are above what
//! people do and below what a program does that means harm; the line is shared in equal parts without any setting, as
//! soon as there is less of it than is asked for.

use std::fmt::Display;
use std::time::Duration;

use super::{ConfigError, duration, number};

/// What one client may take (DESIGN §8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimitsConfig {
    /// Most flows that a client holds at once.
    ///
    /// 4,096: four times what a browser and a busy file sharing client hold together, a sixteenth of the ports that a
    /// masquerading address has. 400 KB a client at most. Range 16 to 65,536.
    pub client_flows_max: u32,
    /// New destination addresses that a client may speak to each second in the long run.
    ///
    /// 50: a file sharing client tries 30 peers a second and asks some nodes beside; a scan of the IPv4 Internet would take
    /// it three years. Range 1 to 100,000.
    pub client_new_destinations_per_s: u32,
    /// New destination addresses that a client may speak to at once.
    ///
    /// 1,000: a browser that opens twenty pages of fifty hosts each. Range 1 to 1,000,000.
    pub client_new_destination_burst: u32,
    /// Destination addresses of a client that are remembered, and therefore not new; the one used longest ago goes first.
    ///
    /// 4,096: one for each flow that it may hold. 500 KB a client at most. Range 16 to 65,536.
    pub client_destinations_max: u32,
    /// Most bits a second of one client, in each direction, as IP packets.
    ///
    /// None: who is alone has the whole line. Range 64 kbit/s to 1 Tbit/s.
    pub client_rate_bits_per_s: Option<u64>,
    /// Refusals that a client is told of each second in the long run; more are dropped in silence.
    ///
    /// 50: each retries a few times before its user notices. Range 1 to 10,000.
    pub refusals_per_s: u32,
    /// Refusals that a client is told of at once.
    ///
    /// 100: two seconds of them. Range 1 to 10,000.
    pub refusal_burst: u32,
}

impl Default for ClientLimitsConfig {
    fn default() -> Self {
        Self {
            client_flows_max: 4_096,
            client_new_destinations_per_s: 50,
            client_new_destination_burst: 1_000,
            client_destinations_max: 4_096,
            client_rate_bits_per_s: None,
            refusals_per_s: 50,
            refusal_burst: 100,
        }
    }
}

/// Least and most of a rate, in bits a second.
const RATES: std::ops::RangeInclusive<u64> = 64_000..=1_000_000_000_000;

fn in_rates(key: impl Display, bits_per_s: u64) -> Result<(), ConfigError> {
    if RATES.contains(&bits_per_s) {
        return Ok(());
    }
    let value = format!("{bits_per_s}bit/s");
    Err(ConfigError::new(key, value, "64kbit/s to 1000Gbit/s"))
}

impl ClientLimitsConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let l = |name| format!("limits.{name}");
        number(l("client_flows_max"), self.client_flows_max, 16..=65_536)?;
        let rate = self.client_new_destinations_per_s;
        number(l("client_new_destinations_per_s"), rate, 1..=100_000)?;
        let burst = self.client_new_destination_burst;
        number(l("client_new_destination_burst"), burst, 1..=1_000_000)?;
        let destinations = self.client_destinations_max;
        number(l("client_destinations_max"), destinations, 16..=65_536)?;
        if let Some(rate) = self.client_rate_bits_per_s {
            in_rates(l("client_rate"), rate)?;
        }
        number(l("refusals_per_s"), self.refusals_per_s, 1..=10_000)?;
        number(l("refusal_burst"), self.refusal_burst, 1..=10_000)?;
        Ok(self)
    }
}

/// How clients wait for their share of the egress (DESIGN §8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareConfig {
    /// Most bits a second through the egress, in each direction, as IP packets.
    ///
    /// None: as fast as the host takes them. Set a little below what the line carries, it makes the queue this one, in
    /// which clients share, and not the line's, in which who sends most has most. Range 64 kbit/s to 1 Tbit/s.
    pub egress_rate_bits_per_s: Option<u64>,
    /// Most bytes that wait in each direction, all clients together.
    ///
    /// 16 MiB: one client alone may fill half of it, which is 50 ms at 1.3 Gbit/s. Range 256 KiB to 1 GiB.
    pub waiting_bytes_max: usize,
    /// Longest time that a packet waits for its client's share.
    ///
    /// 50 ms: `flow_wait_max`, for the same reason: a queue that TCP fills is a delay for whoever shares it. Range 5 ms to
    /// 1 s.
    pub wait_max: Duration,
    /// How long a client's or the egress's rate may have been unused and still be made up for.
    ///
    /// 5 ms: a timer of 1 ms that comes late, and not a burst that fills the queue of the line behind. Range 1 ms to 100 ms.
    pub burst_time: Duration,
}

impl Default for ShareConfig {
    fn default() -> Self {
        Self {
            egress_rate_bits_per_s: None,
            waiting_bytes_max: 16 * 1024 * 1024,
            wait_max: Duration::from_millis(50),
            burst_time: Duration::from_millis(5),
        }
    }
}

impl ShareConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let ms = Duration::from_millis;
        if let Some(rate) = self.egress_rate_bits_per_s {
            in_rates("egress.rate", rate)?;
        }
        let bytes = self.waiting_bytes_max;
        number("limits.waiting", bytes, 256 << 10..=1 << 30)?;
        duration("limits.wait_max", self.wait_max, ms(5)..=ms(1_000))?;
        duration("limits.burst_time", self.burst_time, ms(1)..=ms(100))?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ranges::{Change, each_ends_where_it_says};
    use super::*;

    #[test]
    fn each_range_of_a_client_ends_where_it_says() {
        ClientLimitsConfig::default().try_new().unwrap();
        type Case = (
            &'static str,
            Change<ClientLimitsConfig>,
            Change<ClientLimitsConfig>,
        );
        let cases: [Case; 14] = [
            (
                "limits.client_flows_max",
                |c| c.client_flows_max = 16,
                |c| c.client_flows_max = 15,
            ),
            (
                "limits.client_flows_max",
                |c| c.client_flows_max = 65_536,
                |c| c.client_flows_max = 65_537,
            ),
            (
                "limits.client_new_destinations_per_s",
                |c| c.client_new_destinations_per_s = 1,
                |c| c.client_new_destinations_per_s = 0,
            ),
            (
                "limits.client_new_destinations_per_s",
                |c| c.client_new_destinations_per_s = 100_000,
                |c| c.client_new_destinations_per_s = 100_001,
            ),
            (
                "limits.client_new_destination_burst",
                |c| c.client_new_destination_burst = 1,
                |c| c.client_new_destination_burst = 0,
            ),
            (
                "limits.client_new_destination_burst",
                |c| c.client_new_destination_burst = 1_000_000,
                |c| c.client_new_destination_burst = 1_000_001,
            ),
            (
                "limits.client_destinations_max",
                |c| c.client_destinations_max = 16,
                |c| c.client_destinations_max = 15,
            ),
            (
                "limits.client_destinations_max",
                |c| c.client_destinations_max = 65_536,
                |c| c.client_destinations_max = 65_537,
            ),
            (
                "limits.client_rate",
                |c| c.client_rate_bits_per_s = Some(64_000),
                |c| c.client_rate_bits_per_s = Some(63_999),
            ),
            (
                "limits.client_rate",
                |c| c.client_rate_bits_per_s = Some(1_000_000_000_000),
                |c| c.client_rate_bits_per_s = Some(1_000_000_000_001),
            ),
            (
                "limits.refusals_per_s",
                |c| c.refusals_per_s = 1,
                |c| c.refusals_per_s = 0,
            ),
            (
                "limits.refusals_per_s",
                |c| c.refusals_per_s = 10_000,
                |c| c.refusals_per_s = 10_001,
            ),
            (
                "limits.refusal_burst",
                |c| c.refusal_burst = 1,
                |c| c.refusal_burst = 0,
            ),
            (
                "limits.refusal_burst",
                |c| c.refusal_burst = 10_000,
                |c| c.refusal_burst = 10_001,
            ),
        ];
        each_ends_where_it_says(ClientLimitsConfig::try_new, &cases);
    }

    #[test]
    fn each_range_of_the_shares_ends_where_it_says() {
        ShareConfig::default().try_new().unwrap();
        let cases: [(&str, Change<ShareConfig>, Change<ShareConfig>); 8] = [
            (
                "egress.rate",
                |c| c.egress_rate_bits_per_s = Some(64_000),
                |c| c.egress_rate_bits_per_s = Some(63_999),
            ),
            (
                "egress.rate",
                |c| c.egress_rate_bits_per_s = Some(1_000_000_000_000),
                |c| c.egress_rate_bits_per_s = Some(1_000_000_000_001),
            ),
            (
                "limits.waiting",
                |c| c.waiting_bytes_max = 256 << 10,
                |c| c.waiting_bytes_max = (256 << 10) - 1,
            ),
            (
                "limits.waiting",
                |c| c.waiting_bytes_max = 1 << 30,
                |c| c.waiting_bytes_max = (1 << 30) + 1,
            ),
            (
                "limits.wait_max",
                |c| c.wait_max = Duration::from_millis(5),
                |c| c.wait_max = Duration::from_micros(4_999),
            ),
            (
                "limits.wait_max",
                |c| c.wait_max = Duration::from_secs(1),
                |c| c.wait_max = Duration::new(1, 1),
            ),
            (
                "limits.burst_time",
                |c| c.burst_time = Duration::from_millis(1),
                |c| c.burst_time = Duration::from_micros(999),
            ),
            (
                "limits.burst_time",
                |c| c.burst_time = Duration::from_millis(100),
                |c| c.burst_time = Duration::from_micros(100_001),
            ),
        ];
        each_ends_where_it_says(ShareConfig::try_new, &cases);
    }
}
