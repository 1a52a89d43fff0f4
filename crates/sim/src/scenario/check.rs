//! Ranges, and what depends on each other.
//!
//! A scenario is checked when it is read, and again when somebody changed it: other counts of clients, a draw of the
//! swarm, a step of the shrinking. So the ranges stand here once, and the reader takes those of whole numbers from here.
//!
//! They are as wide as a run could bear on a large machine. What they keep out is what cannot be meant: a fault that
//! never heals inside of the run, a provider that does not exist, a message each microsecond.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use quell_core::config::{ConfigError, duration, number};

use super::keys::short;
use super::{
    BackendModel, Bounds, Fault, FaultKind, Fleet, Members, PathModel, Scenario, Whom, Work,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

pub(super) const CLIENTS: RangeInclusive<u32> = 1..=1_000_000;
pub(super) const PROVIDERS: RangeInclusive<u16> = 1..=10_000;
pub(super) const CATALOG: RangeInclusive<u16> = 1..=32;
pub(super) const BACKENDS: RangeInclusive<u8> = 0..=4;
pub(super) const PER_S: RangeInclusive<u32> = 1..=10_000_000;
pub(super) const SESSIONS: RangeInclusive<u32> = 1..=1_000_000;
pub(super) const RATE: RangeInclusive<u64> = 1_000..=100_000_000_000;
/// An IPv4 and a TCP header; what crosses any path whole.
pub(super) const LEN: RangeInclusive<u16> = 40..=1_400;
pub(super) const ANSWER: RangeInclusive<u16> = 0..=1_400;
pub(super) const PACKETS: RangeInclusive<u32> = 1..=100_000;
pub(super) const CLOCK_S: RangeInclusive<i64> = -86_400..=86_400;
pub(super) const SENDS: RangeInclusive<u32> = 1..=u32::MAX;
/// The part of another's that a bar speaks of.
pub(super) const PART: RangeInclusive<u64> = 1..=1_000_000_000;
pub(super) const BARS_MAX: usize = 16;
/// What TOML can write.
pub(super) const ANY: RangeInclusive<u64> = 0..=i64::MAX as u64;

const DURATION: RangeInclusive<Duration> = SECOND..=Duration::from_secs(7 * 86_400);
const RTT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(10);
const QUEUE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(10);
const RESTART: RangeInclusive<Duration> = MS..=DAY;
const ANSWER_TIME: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);
const RETRY_AFTER: RangeInclusive<Duration> = Duration::ZERO..=DAY;
const DEMAND: RangeInclusive<Duration> = SECOND..=DAY;
const EVERY: RangeInclusive<Duration> = MS..=DAY;
/// Shorter is not told from half of the packets being lost.
const FLAP_MIN: Duration = Duration::from_millis(100);

const NAME_CHARS_MAX: usize = 64;
const SUMMARY_CHARS_MAX: usize = 200;
const WORKS_MAX: usize = 16;
const FAULTS_MAX: usize = 256;
/// Of one client: the world numbers them with 32 bits.
const ITEMS_MAX: u64 = 100_000_000;

pub(super) const NAME_FORM: &str = "1 to 64 lower case letters, digits and dashes";
pub(super) const BARS_FORM: &str =
    "at most 16 policies with a number of 1 to 1000000000 each, such as { report-claim = 500 }";

/// Whether a policy could be called so.
pub(super) fn is_policy_name(name: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name
            .chars()
            .all(|char| is_allowed(char) || "-+".contains(char))
}

pub(super) const WHOM_FORM: &str =
    "\"all\", a part of them such as \"50%\", or numbers such as [0, 3]";

/// The words of kinds.
pub(super) mod kinds {
    pub(in super::super) const WORK: &[&str] = &["messages", "burst", "stream"];
    pub(in super::super) const FAULT: &[&str] = &[
        "blackhole",
        "acks-lost",
        "dials-refused",
        "provider-death",
        "rolling-restart",
        "uplink-loss",
        "suspend",
        "shared-nat",
        "backend-refuses",
        "backend-silent",
        "backend-slow",
        "backend-unavailable",
        "backend-fails",
        "backend-fails-one",
        "clock-off",
    ];
    /// Calls that can fail alone.
    pub(in super::super) const CALLS: &[&str] = &["auth", "catalog", "contract"];
}

impl Scenario {
    /// Holds each value to its range, and to the others that it depends on.
    ///
    /// # Errors
    /// The first that is not allowed.
    pub fn check(&self) -> Result<(), ConfigError> {
        let is_name =
            |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
        let chars = self.name.chars().count();
        if !(1..=NAME_CHARS_MAX).contains(&chars) || !self.name.chars().all(is_name) {
            return Err(ConfigError::new("name", short(&self.name), NAME_FORM));
        }
        let chars = self.summary.chars().count();
        if !(1..=SUMMARY_CHARS_MAX).contains(&chars) || self.summary.chars().any(char::is_control) {
            let allowed = format!("a line of 1 to {SUMMARY_CHARS_MAX} characters");
            return Err(ConfigError::new("summary", short(&self.summary), allowed));
        }
        duration("duration", self.duration, DURATION)?;
        self.fleet.check(self.duration)?;
        self.path.check()?;
        self.backend.check()?;
        at_most("work", self.work.len(), WORKS_MAX)?;
        let mut items = 0_u64;
        for (index, work) in self.work.iter().enumerate() {
            work.check(&format!("work[{index}]"), self.duration)?;
            items = items.saturating_add(work.items(self.duration));
        }
        if items > ITEMS_MAX {
            let value = format!("{items} packets of each client");
            return Err(ConfigError::new(
                "work",
                value,
                format!("at most {ITEMS_MAX}"),
            ));
        }
        at_most("fault", self.fault.len(), FAULTS_MAX)?;
        for (index, fault) in self.fault.iter().enumerate() {
            fault.check(&format!("fault[{index}]"), self)?;
        }
        self.bounds.check("bounds.")
    }
}

impl Fleet {
    fn check(&self, run: Duration) -> Result<(), ConfigError> {
        number("fleet.clients", self.clients, CLIENTS)?;
        number("fleet.providers", self.providers, PROVIDERS)?;
        number("fleet.catalog", self.catalog, CATALOG)?;
        number("fleet.backends", self.backends, BACKENDS)?;
        within(
            "fleet.start_over",
            self.start_over,
            Duration::ZERO..=run,
            "duration",
        )?;
        if let Some(rate) = self.provider_handshakes_per_s {
            number("fleet.provider_handshakes_per_s", rate, PER_S)?;
        }
        if let Some(most) = self.provider_dials_per_s_max {
            number("fleet.provider_dials_per_s_max", most, PER_S)?;
        }
        if let Some(most) = self.provider_sessions_max {
            number("fleet.provider_sessions_max", most, SESSIONS)?;
        }
        duration("fleet.provider_restart", self.provider_restart, RESTART)
    }
}

impl PathModel {
    fn check(&self) -> Result<(), ConfigError> {
        duration("path.rtt", self.rtt, RTT)?;
        within(
            "path.jitter",
            self.jitter,
            Duration::ZERO..=self.rtt / 2,
            "half of path.rtt",
        )?;
        part("path.loss", self.loss)?;
        if let Some(rate) = self.rate_bits_per_s {
            number("path.rate_bits_per_s", rate, RATE)?;
        }
        duration("path.queue", self.queue, QUEUE)
    }
}

impl BackendModel {
    fn check(&self) -> Result<(), ConfigError> {
        duration("backend.answer_time", self.answer_time, ANSWER_TIME)?;
        if let Some(rate) = self.requests_per_s_max {
            number("backend.requests_per_s_max", rate, PER_S)?;
        }
        duration("backend.demand_interval", self.demand_interval, DEMAND)
    }
}

impl Work {
    fn check(&self, path: &str, run: Duration) -> Result<(), ConfigError> {
        let key = |name: &str| format!("{path}.{name}");
        match *self {
            Self::Messages {
                every,
                len_bytes,
                answer_bytes,
            } => {
                duration(key("every"), every, EVERY)?;
                number(key("len_bytes"), len_bytes, LEN)?;
                if answer_bytes != 0 && !LEN.contains(&answer_bytes) {
                    let allowed = format!("0, or {} to {}", LEN.start(), LEN.end());
                    return Err(ConfigError::new(key("answer_bytes"), answer_bytes, allowed));
                }
                Ok(())
            }
            Self::Burst {
                at,
                packets,
                len_bytes,
            } => {
                within(key("at"), at, Duration::ZERO..=run, "duration")?;
                number(key("packets"), packets, PACKETS)?;
                number(key("len_bytes"), len_bytes, LEN)
            }
            Self::Stream {
                at,
                until,
                bits_per_s,
                len_bytes,
            } => {
                span(path, at, until, until, run)?;
                number(key("bits_per_s"), bits_per_s, RATE)?;
                number(key("len_bytes"), len_bytes, LEN)
            }
        }
    }

    /// How many packets it makes one client send in a run of this length, at most.
    fn items(&self, run: Duration) -> u64 {
        let items = match *self {
            Self::Messages { every, .. } => run.as_nanos() / every.as_nanos().max(1) + 1,
            Self::Burst { packets, .. } => u128::from(packets),
            Self::Stream {
                at,
                until,
                bits_per_s,
                len_bytes,
            } => {
                let bits =
                    until.saturating_sub(at).as_nanos() * u128::from(bits_per_s) / 1_000_000_000;
                bits / (u128::from(len_bytes).max(1) * 8) + 1
            }
        };
        u64::try_from(items).unwrap_or(u64::MAX)
    }
}

impl Fault {
    fn check(&self, path: &str, scenario: &Scenario) -> Result<(), ConfigError> {
        let key = |name: &str| format!("{path}.{name}");
        self.check_kind(path)?;
        span(
            path,
            self.at,
            self.until,
            self.healed_at(),
            scenario.duration,
        )?;
        if let Some(flap) = self.flap {
            if matches!(self.kind, FaultKind::RollingRestart { .. }) {
                let allowed =
                    "not there: what restarts one after the other has a course of its own";
                return Err(ConfigError::new(key("flap"), format!("{flap:?}"), allowed));
            }
            let most = self.until - self.at;
            within(key("flap"), flap, FLAP_MIN..=most, "until less at")?;
        }
        let of = self.kind.count(&scenario.fleet);
        if of == 0 {
            let allowed = "a kind that is not about backends: fleet.backends is 0";
            return Err(ConfigError::new(key("kind"), self.kind.name(), allowed));
        }
        self.whom.check(&key("whom"), of)
    }

    fn check_kind(&self, path: &str) -> Result<(), ConfigError> {
        let key = |name: &str| format!("{path}.{name}");
        match &self.kind {
            FaultKind::Blackhole { .. }
            | FaultKind::AcksLost
            | FaultKind::DialsRefused
            | FaultKind::ProviderDeath
            | FaultKind::UplinkLoss
            | FaultKind::Suspend
            | FaultKind::SharedNat
            | FaultKind::BackendRefuses
            | FaultKind::BackendSilent => Ok(()),
            FaultKind::RollingRestart { away } => duration(key("away"), *away, RESTART),
            FaultKind::BackendSlow { answer_time } => {
                duration(key("answer_time"), *answer_time, ANSWER_TIME)
            }
            FaultKind::BackendUnavailable { retry_after } => match retry_after {
                Some(after) => duration(key("retry_after"), *after, RETRY_AFTER),
                None => Ok(()),
            },
            FaultKind::BackendFails { part: some } => part(key("part"), *some),
            FaultKind::BackendFailsOne { work } => match kinds::CALLS.contains(&work.as_str()) {
                true => Ok(()),
                false => {
                    let allowed = kinds::CALLS.join(", ");
                    Err(ConfigError::new(key("work"), short(work), allowed))
                }
            },
            FaultKind::ClockOff { seconds } => number(key("seconds"), *seconds, CLOCK_S),
        }
    }
}

impl Whom {
    fn check(&self, key: &str, of: u32) -> Result<(), ConfigError> {
        match self {
            Self::Part(text) => match Members::part(text, of) {
                Some(_) => Ok(()),
                None => Err(ConfigError::new(key, short(text), WHOM_FORM)),
            },
            Self::These(numbers) if numbers.is_empty() => {
                Err(ConfigError::new(key, "[]", WHOM_FORM))
            }
            Self::These(numbers) => {
                let mut numbers = numbers.iter();
                numbers.try_for_each(|one| number(key, *one, 0..=of - 1))
            }
        }
    }
}

impl Bounds {
    /// `prefix` stands before each key.
    pub(super) fn check(&self, prefix: &str) -> Result<(), ConfigError> {
        if let Some(most) = self.max_sends_of_one_pack {
            number(format!("{prefix}max_sends_of_one_pack"), most, SENDS)?;
        }
        match self.backend_peak_over_steady_max {
            Some(most) if !(0.0..=1e9).contains(&most) => Err(ConfigError::new(
                format!("{prefix}backend_peak_over_steady_max"),
                most,
                "0 to 1000000000",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// NaN is in no range.
fn part(key: impl Display, value: f64) -> Result<(), ConfigError> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::new(key, value, "0 to 1")),
    }
}

fn at_most(key: &str, count: usize, most: usize) -> Result<(), ConfigError> {
    match count <= most {
        true => Ok(()),
        false => Err(ConfigError::new(
            key,
            format!("{count} of them"),
            format!("at most {most}"),
        )),
    }
}

/// A range that another key decides.
fn within(
    key: impl Display,
    value: Duration,
    range: RangeInclusive<Duration>,
    why: &str,
) -> Result<(), ConfigError> {
    match range.contains(&value) {
        true => Ok(()),
        false => {
            let allowed = format!("{:?} to {:?} ({why})", range.start(), range.end());
            Err(ConfigError::new(key, format!("{value:?}"), allowed))
        }
    }
}

/// Begins before it ends, and what comes of it has ended when the run does.
fn span(
    path: &str,
    at: Duration,
    until: Duration,
    ends: Duration,
    run: Duration,
) -> Result<(), ConfigError> {
    if at >= until {
        let allowed = format!("after {path}.at ({at:?})");
        return Err(ConfigError::new(
            format!("{path}.until"),
            format!("{until:?}"),
            allowed,
        ));
    }
    match ends <= run {
        true => Ok(()),
        false => Err(ConfigError::new(
            format!("{path}.until"),
            format!("{until:?}, over at {ends:?}"),
            format!("over by the end of the run (duration = {run:?})"),
        )),
    }
}
