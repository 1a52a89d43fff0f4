//! Constants of the flows that a client gave up.
//!
//! A client that races a connection over two exits tells the loser so. What the destination still sends to the loser
//! is then nobody's; the loser remembers that for a while, and says so to the destination. Both are work that a
//! client makes others do, so both have a rate.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// How many closed flows a session remembers, and how often it says so (DESIGN §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedFlowsConfig {
    /// Most closed flows that are remembered of one client; one more forgets the one that was closed first.
    ///
    /// 256: what a client may close within two seconds, under 32 KiB. Range 16 to 4,096.
    pub closed_flows_max: u32,
    /// How long a closed flow is remembered.
    ///
    /// 30 s: a server sends its SYN-ACK five times within 31 s, as Linux does by default. Range 1 s to 5 min.
    pub closed_flow_term: Duration,
    /// Flows that a client may close each second in the long run; more is a protocol error.
    ///
    /// 100: a browser opens some dozens of connections at once, and each race has one loser. Range 5 to 10,000.
    pub flow_closes_per_s_max: u32,
    /// Flows that a client may close at once.
    ///
    /// 200: all races of two seconds, when their exit comes back. Range 10 to 100,000.
    pub flow_close_burst_max: u32,
    /// Shortest time between two resets that one closed flow draws.
    ///
    /// 100 ms: one for each flight of a destination that goes on sending; none is as good as it, should it get lost,
    /// since what comes next draws another. Range 10 ms to 10 s.
    pub reset_interval: Duration,
}

impl Default for ClosedFlowsConfig {
    fn default() -> Self {
        Self {
            closed_flows_max: 256,
            closed_flow_term: Duration::from_secs(30),
            flow_closes_per_s_max: 100,
            flow_close_burst_max: 200,
            reset_interval: Duration::from_millis(100),
        }
    }
}

impl ClosedFlowsConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let l = |name| format!("limits.{name}");
        number(l("closed_flows_max"), self.closed_flows_max, 16..=4_096)?;
        duration(
            l("closed_flow_term"),
            self.closed_flow_term,
            Duration::from_secs(1)..=Duration::from_secs(300),
        )?;
        let rate = self.flow_closes_per_s_max;
        number(l("flow_closes_per_s_max"), rate, 5..=10_000)?;
        let burst = self.flow_close_burst_max;
        number(l("flow_close_burst_max"), burst, 10..=100_000)?;
        duration(
            l("reset_interval"),
            self.reset_interval,
            Duration::from_millis(10)..=Duration::from_secs(10),
        )?;
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
        ClosedFlowsConfig::default().try_new().unwrap();
        type Case = (
            &'static str,
            Change<ClosedFlowsConfig>,
            Change<ClosedFlowsConfig>,
        );
        let cases: [Case; 10] = [
            (
                "limits.closed_flows_max",
                |c| c.closed_flows_max = 16,
                |c| c.closed_flows_max = 15,
            ),
            (
                "limits.closed_flows_max",
                |c| c.closed_flows_max = 4_096,
                |c| c.closed_flows_max = 4_097,
            ),
            (
                "limits.closed_flow_term",
                |c| c.closed_flow_term = Duration::from_secs(1),
                |c| c.closed_flow_term = Duration::from_millis(999),
            ),
            (
                "limits.closed_flow_term",
                |c| c.closed_flow_term = Duration::from_secs(300),
                |c| c.closed_flow_term = Duration::new(300, 1),
            ),
            (
                "limits.flow_closes_per_s_max",
                |c| c.flow_closes_per_s_max = 5,
                |c| c.flow_closes_per_s_max = 4,
            ),
            (
                "limits.flow_closes_per_s_max",
                |c| c.flow_closes_per_s_max = 10_000,
                |c| c.flow_closes_per_s_max = 10_001,
            ),
            (
                "limits.flow_close_burst_max",
                |c| c.flow_close_burst_max = 10,
                |c| c.flow_close_burst_max = 9,
            ),
            (
                "limits.flow_close_burst_max",
                |c| c.flow_close_burst_max = 100_000,
                |c| c.flow_close_burst_max = 100_001,
            ),
            (
                "limits.reset_interval",
                |c| c.reset_interval = Duration::from_millis(10),
                |c| c.reset_interval = Duration::from_millis(9),
            ),
            (
                "limits.reset_interval",
                |c| c.reset_interval = Duration::from_secs(10),
                |c| c.reset_interval = Duration::new(10, 1),
            ),
        ];
        each_ends_where_it_says(ClosedFlowsConfig::try_new, &cases);
    }
}
