//! What takes which lane, and how much of it may wait.
//!
//! Which lane is right for TCP is a question of the path, so it can be set. On
//! `flow` quell repairs losses below the user's TCP, which then never sees them:
//! the gain is large where packets get lost and the TCP takes that for congestion.
//! On `dgram` the user's TCP repairs its own losses, as through any other tunnel.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::receive::ReceiveConfig;
use super::{ConfigError, LaneConfig, duration};

/// The lane that carries TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TcpLane {
    /// Acknowledged, resent, in the order of each flow.
    #[default]
    Flow,
    /// Never acknowledged nor resent.
    Dgram,
}

impl fmt::Display for TcpLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flow => "flow",
            Self::Dgram => "dgram",
        })
    }
}

impl FromStr for TcpLane {
    /// What is allowed.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "flow" => Ok(Self::Flow),
            "dgram" => Ok(Self::Dgram),
            _ => Err("flow or dgram"),
        }
    }
}

/// The lanes of a path (DESIGN §4).
#[derive(Debug, Clone, PartialEq)]
pub struct LanesConfig {
    /// Which lane carries TCP.
    ///
    /// `flow`: justified by the goodput under loss that README shows. `flow` or `dgram`.
    pub tcp: TcpLane,
    /// How long a packet of the flow lane may wait for its first send, by the
    /// path's rate; what comes later is dropped.
    ///
    /// 50 ms: a bottleneck's queue of about one round trip, which is what a
    /// loss-based TCP needs to fill it, and what a person does not notice. Range
    /// 5 ms to 1 s.
    pub flow_wait_max: Duration,
    /// The sending ends.
    pub send: LaneConfig,
    /// The receiving ends.
    pub receive: ReceiveConfig,
}

impl Default for LanesConfig {
    fn default() -> Self {
        Self {
            tcp: TcpLane::default(),
            flow_wait_max: Duration::from_millis(50),
            send: LaneConfig::default(),
            receive: ReceiveConfig::default(),
        }
    }
}

impl LanesConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        duration(
            "lanes.flow_wait_max",
            self.flow_wait_max,
            Duration::from_millis(5)..=Duration::from_secs(1),
        )?;
        Ok(Self {
            send: self.send.try_new()?,
            receive: self.receive.try_new()?,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_wait_ends_where_it_says() {
        let with = |flow_wait_max| LanesConfig {
            flow_wait_max,
            ..LanesConfig::default()
        };
        let (low, high) = (Duration::from_millis(5), Duration::from_secs(1));
        let ns = Duration::from_nanos(1);
        with(low).try_new().unwrap();
        with(high).try_new().unwrap();
        let error = with(low - ns).try_new().unwrap_err();
        assert_eq!(error.key, "lanes.flow_wait_max");
        with(high + ns).try_new().unwrap_err();
    }
}
