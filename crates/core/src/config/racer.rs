//! Constants of the racer: what is sent over two exits so that one answers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{ConfigError, RaceConfig, duration, number};

/// What may be raced (DESIGN §6 "Racer").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Raced {
    /// The SYN of a TCP connection.
    #[default]
    Tcp,
    /// And questions to DNS servers (UDP port 53).
    TcpDns,
    /// Nothing: each flow goes where it goes.
    Off,
}

impl fmt::Display for Raced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::TcpDns => "tcp+dns",
            Self::Off => "off",
        })
    }
}

impl FromStr for Raced {
    /// What is allowed.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "tcp+dns" => Ok(Self::TcpDns),
            "off" => Ok(Self::Off),
            _ => Err("tcp, tcp+dns or off"),
        }
    }
}

/// Races of a client (DESIGN §6 "Racer").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RacerConfig {
    /// What may be raced.
    ///
    /// `tcp`: a SYN is small, and a connection that two exits opened is one that the
    /// loser can close. `tcp`, `tcp+dns` or `off`.
    pub race: Raced,
    /// Most copies of one SYN that wait for an answer at the same time.
    ///
    /// 2, and 1 while the control plane is degraded. Range 1 to 3.
    pub race_client_count: usize,
    /// How long the first copy is alone, as long as its exit does not say that it came.
    ///
    /// 250 ms (DESIGN §6; RFC 8305 has the same for two address families). Range
    /// 50 ms to 5 s.
    pub hedge_delay: Duration,
    /// Most races at the same time; a connection beyond is opened over one exit.
    ///
    /// 1,024: some 100 KiB of SYNs. Range 16 to 65,536.
    pub races_max: usize,
    /// What extra copies may cost.
    pub budget: RaceConfig,
}

impl Default for RacerConfig {
    fn default() -> Self {
        Self {
            race: Raced::default(),
            race_client_count: 2,
            hedge_delay: Duration::from_millis(250),
            races_max: 1_024,
            budget: RaceConfig::default(),
        }
    }
}

impl RacerConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        number("race.race_client_count", self.race_client_count, 1..=3)?;
        let delays = Duration::from_millis(50)..=Duration::from_secs(5);
        duration("race.hedge_delay", self.hedge_delay, delays)?;
        number("race.races_max", self.races_max, 16..=65_536)?;
        let budget = self.budget.try_new()?;
        Ok(Self { budget, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranges::each_ends_where_it_says;
    use super::*;

    #[test]
    fn each_range_ends_where_it_says() {
        each_ends_where_it_says::<RacerConfig>(
            RacerConfig::try_new,
            &[
                (
                    "race.race_client_count",
                    |c| c.race_client_count = 3,
                    |c| c.race_client_count = 4,
                ),
                (
                    "race.hedge_delay",
                    |c| c.hedge_delay = Duration::from_millis(50),
                    |c| c.hedge_delay = Duration::from_millis(49),
                ),
                (
                    "race.race_client_count",
                    |c| c.race_client_count = 1,
                    |c| c.race_client_count = 0,
                ),
                (
                    "race.hedge_delay",
                    |c| c.hedge_delay = Duration::from_secs(5),
                    |c| c.hedge_delay = Duration::new(5, 1),
                ),
                (
                    "race.races_max",
                    |c| c.races_max = 65_536,
                    |c| c.races_max = 65_537,
                ),
                ("race.races_max", |c| c.races_max = 16, |c| c.races_max = 15),
            ],
        );
    }
}
