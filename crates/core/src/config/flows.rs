//! Constants of the client's flow table.
//!
//! A flow is remembered so that all its packets take the same exit: its address in the world cannot move. The idle
//! times are the point at which remembering costs more than it saves. A TCP that speaks after it was forgotten may
//! find itself behind another address and is reset by its peer; a datagram just goes another way. The exit's own
//! translation, and each home router on the way, forget by themselves, most of them sooner than RFC 5382 and RFC 4787
//! ask, so longer times here would keep flows that are gone already.

use std::time::Duration;

use super::{ConfigError, duration, number};

/// How many flows are remembered, and for how long (DESIGN §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowsConfig {
    /// Most flows at once; one more forgets the one that was used longest ago.
    ///
    /// 32,768: half of the ports that one host has, under 3 MiB. Range 16 to 1,048,576.
    pub flows_max: u32,
    /// How long a TCP connection is remembered that carries nothing.
    ///
    /// 600 s (DESIGN §6): above the keepalives of what stays open on purpose. Range 10 s to 24 h.
    pub tcp_idle: Duration,
    /// How long a flow of any other protocol is remembered that carries nothing.
    ///
    /// 120 s (DESIGN §6, RFC 4787 REQ-5). Range 10 s to 1 h.
    pub other_idle: Duration,
    /// How long a TCP connection is remembered after a reset, or after both ends finished.
    ///
    /// 10 s: what is still under way comes within a few round trips; a lost last acknowledgement is asked for again by
    /// then. Range 1 s to 10 min.
    pub closing_idle: Duration,
    /// How long a TCP connection whose exit is gone is answered by resets, after its last packet.
    ///
    /// 60 s: an idle connection hears nothing of the first reset where that one does not fit its state, and asks again
    /// within a retransmission timeout (RFC 6298 §2.5: 60 s at most). Range 1 s to 10 min.
    pub lost_idle: Duration,
}

impl Default for FlowsConfig {
    fn default() -> Self {
        Self {
            flows_max: 32_768,
            tcp_idle: Duration::from_secs(600),
            other_idle: Duration::from_secs(120),
            closing_idle: Duration::from_secs(10),
            lost_idle: Duration::from_secs(60),
        }
    }
}

impl FlowsConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let s = Duration::from_secs;
        number("flows.flows_max", self.flows_max, 16..=1_048_576)?;
        duration("flows.tcp_idle", self.tcp_idle, s(10)..=s(86_400))?;
        duration("flows.other_idle", self.other_idle, s(10)..=s(3_600))?;
        duration("flows.closing_idle", self.closing_idle, s(1)..=s(600))?;
        duration("flows.lost_idle", self.lost_idle, s(1)..=s(600))?;
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
        FlowsConfig::default().try_new().unwrap();
        let cases: [(&str, Change<FlowsConfig>, Change<FlowsConfig>); 10] = [
            (
                "flows.flows_max",
                |c| c.flows_max = 16,
                |c| c.flows_max = 15,
            ),
            (
                "flows.flows_max",
                |c| c.flows_max = 1_048_576,
                |c| c.flows_max = 1_048_577,
            ),
            (
                "flows.tcp_idle",
                |c| c.tcp_idle = Duration::from_secs(10),
                |c| c.tcp_idle = Duration::new(9, 999_999_999),
            ),
            (
                "flows.tcp_idle",
                |c| c.tcp_idle = Duration::from_secs(86_400),
                |c| c.tcp_idle = Duration::new(86_400, 1),
            ),
            (
                "flows.other_idle",
                |c| c.other_idle = Duration::from_secs(10),
                |c| c.other_idle = Duration::new(9, 999_999_999),
            ),
            (
                "flows.other_idle",
                |c| c.other_idle = Duration::from_secs(3_600),
                |c| c.other_idle = Duration::new(3_600, 1),
            ),
            (
                "flows.closing_idle",
                |c| c.closing_idle = Duration::from_secs(1),
                |c| c.closing_idle = Duration::from_millis(999),
            ),
            (
                "flows.closing_idle",
                |c| c.closing_idle = Duration::from_secs(600),
                |c| c.closing_idle = Duration::new(600, 1),
            ),
            (
                "flows.lost_idle",
                |c| c.lost_idle = Duration::from_secs(1),
                |c| c.lost_idle = Duration::from_millis(999),
            ),
            (
                "flows.lost_idle",
                |c| c.lost_idle = Duration::from_secs(600),
                |c| c.lost_idle = Duration::new(600, 1),
            ),
        ];
        each_ends_where_it_says(FlowsConfig::try_new, &cases);
    }
}
