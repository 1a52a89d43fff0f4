//! From text to a [`Scenario`] that was looked through.
//!
//! ```text
//! text ─ toml ─▶ Table ─ Keys ─▶ Scenario ─ check ─▶ Scenario
//!        │               │                  │
//!        └ line, why     └ type, kind       └ ranges, and what depends on each other
//! ```
//!
//! The kind of a work or a fault decides which keys it may have: a key of another kind is refused like one that nobody
//! knows, since it would do nothing, and who wrote it believes that it does.

use quell_core::config::ConfigError;
use thiserror::Error;
use toml::{Table, Value};

use super::check::{self, kinds};
use super::keys::{Keys, shown};
use super::{
    BackendModel, Bars, Bounds, Direction, Fault, FaultKind, Fleet, PathModel, Scenario, Whom, Work,
};

/// Longest text of a scenario, in bytes: some thousand faults.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Why a text is no scenario.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// It is longer than [`TEXT_BYTES_MAX`].
    #[error("{bytes} bytes: a scenario has at most {TEXT_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is not TOML.
    #[error("line {line}: {why}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// In the parser's words.
        why: String,
    },
    /// A key has a value that it may not have, or may not be there, or has to.
    #[error(transparent)]
    Setting(#[from] ConfigError),
}

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// The first mistake, with the key, what was written and what is allowed.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ScenarioError::TooLong { bytes: text.len() });
        }
        let table: Table = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = text.as_bytes().get(..at).unwrap_or_default();
            ScenarioError::Syntax {
                line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
                why: super::keys::short(error.message()),
            }
        })?;
        let scenario = scenario(Keys::new("", table))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The scenario as text that [`Scenario::from_toml`] reads again.
    ///
    /// # Errors
    /// A number is beyond what TOML can write (2^63).
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

impl Bounds {
    /// Sets the bound `key` to what `value` says, as TOML writes it.
    ///
    /// # Errors
    /// There is no such bound, or the value is not allowed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let text = ConfigError::new(key, value, "a number");
        let value: Value = value.parse().map_err(|_| text)?;
        let mut table = Table::new();
        table.insert(key.to_owned(), value);
        let one = bounds(Keys::new("", table))?;
        one.check("")?;
        *self = one.or(self);
        Ok(())
    }

    /// These bounds, and of those that are not set, the ones of `other`.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            max_sends_of_one_pack: self.max_sends_of_one_pack.or(other.max_sends_of_one_pack),
            recovery_max_ms: self.recovery_max_ms.or(other.recovery_max_ms),
            outage_bytes_max: self.outage_bytes_max.or(other.outage_bytes_max),
            backend_peak_over_steady_max: self
                .backend_peak_over_steady_max
                .or(other.backend_peak_over_steady_max),
            provider_dials_per_s_max: self
                .provider_dials_per_s_max
                .or(other.provider_dials_per_s_max),
            lost_items_max: self.lost_items_max.or(other.lost_items_max),
            providers_fallen_max: self.providers_fallen_max.or(other.providers_fallen_max),
        }
    }
}

fn scenario(mut keys: Keys) -> Result<Scenario, ConfigError> {
    let name = keys.text("name")?;
    let summary = keys.text("summary")?;
    let duration = keys.time("duration")?;
    let scenario = Scenario {
        name: keys.need("name", name, check::NAME_FORM)?,
        summary: keys.need("summary", summary, "a line of text")?,
        duration: keys.need("duration", duration, "a time such as \"150s\"")?,
        fleet: fleet(keys.table("fleet")?)?,
        path: path(keys.table("path")?)?,
        backend: backend(keys.table("backend")?)?,
        work: keys
            .tables("work")?
            .into_iter()
            .map(work)
            .collect::<Result<_, _>>()?,
        fault: keys
            .tables("fault")?
            .into_iter()
            .map(fault)
            .collect::<Result<_, _>>()?,
        bounds: bounds(keys.table("bounds")?)?,
        bars: bars(keys.table("bars")?)?,
    };
    keys.finish()?;
    Ok(scenario)
}

fn fleet(mut keys: Keys) -> Result<Fleet, ConfigError> {
    let default = Fleet::default();
    let fleet = Fleet {
        clients: keys
            .number("clients", check::CLIENTS)?
            .unwrap_or(default.clients),
        providers: keys
            .number("providers", check::PROVIDERS)?
            .unwrap_or(default.providers),
        catalog: keys
            .number("catalog", check::CATALOG)?
            .unwrap_or(default.catalog),
        backends: keys
            .number("backends", check::BACKENDS)?
            .unwrap_or(default.backends),
        start_over: keys.time("start_over")?.unwrap_or(default.start_over),
        provider_handshakes_per_s: keys.number("provider_handshakes_per_s", check::PER_S)?,
        provider_dials_per_s_max: keys.number("provider_dials_per_s_max", check::PER_S)?,
        provider_sessions_max: keys.number("provider_sessions_max", check::SESSIONS)?,
        provider_restart: keys
            .time("provider_restart")?
            .unwrap_or(default.provider_restart),
    };
    keys.finish()?;
    Ok(fleet)
}

fn path(mut keys: Keys) -> Result<PathModel, ConfigError> {
    let default = PathModel::default();
    let path = PathModel {
        rtt: keys.time("rtt")?.unwrap_or(default.rtt),
        jitter: keys.time("jitter")?.unwrap_or(default.jitter),
        loss: keys.fraction("loss")?.unwrap_or(default.loss),
        rate_bits_per_s: keys.number("rate_bits_per_s", check::RATE)?,
        queue: keys.time("queue")?.unwrap_or(default.queue),
    };
    keys.finish()?;
    Ok(path)
}

fn backend(mut keys: Keys) -> Result<BackendModel, ConfigError> {
    let default = BackendModel::default();
    let backend = BackendModel {
        answer_time: keys.time("answer_time")?.unwrap_or(default.answer_time),
        requests_per_s_max: keys.number("requests_per_s_max", check::PER_S)?,
        demand_interval: keys
            .time("demand_interval")?
            .unwrap_or(default.demand_interval),
    };
    keys.finish()?;
    Ok(backend)
}

fn work(mut keys: Keys) -> Result<Work, ConfigError> {
    let kind = kind_of(&mut keys, kinds::WORK)?;
    let work = match kind.as_str() {
        "messages" => Work::Messages {
            every: needed_time(&mut keys, "every")?,
            len_bytes: len(&mut keys)?,
            answer_bytes: keys.number("answer_bytes", check::ANSWER)?.unwrap_or(0),
        },
        "burst" => Work::Burst {
            at: needed_time(&mut keys, "at")?,
            packets: needed_number(&mut keys, "packets", check::PACKETS)?,
            len_bytes: len(&mut keys)?,
        },
        // The list that `kind_of` held it against has no other.
        _ => Work::Stream {
            at: needed_time(&mut keys, "at")?,
            until: needed_time(&mut keys, "until")?,
            bits_per_s: needed_number(&mut keys, "bits_per_s", check::RATE)?,
            len_bytes: len(&mut keys)?,
        },
    };
    keys.finish()?;
    Ok(work)
}

fn fault(mut keys: Keys) -> Result<Fault, ConfigError> {
    let kind = kind_of(&mut keys, kinds::FAULT)?;
    let kind = match kind.as_str() {
        "blackhole" => FaultKind::Blackhole {
            direction: direction(&mut keys)?,
        },
        "acks-lost" => FaultKind::AcksLost,
        "dials-refused" => FaultKind::DialsRefused,
        "provider-death" => FaultKind::ProviderDeath,
        "rolling-restart" => FaultKind::RollingRestart {
            away: needed_time(&mut keys, "away")?,
        },
        "uplink-loss" => FaultKind::UplinkLoss,
        "suspend" => FaultKind::Suspend,
        "shared-nat" => FaultKind::SharedNat,
        "backend-refuses" => FaultKind::BackendRefuses,
        "backend-silent" => FaultKind::BackendSilent,
        "backend-slow" => FaultKind::BackendSlow {
            answer_time: needed_time(&mut keys, "answer_time")?,
        },
        "backend-unavailable" => FaultKind::BackendUnavailable {
            retry_after: keys.time("retry_after")?,
        },
        "backend-fails" => {
            let part = keys.fraction("part")?;
            FaultKind::BackendFails {
                part: keys.need("part", part, "0 to 1")?,
            }
        }
        "backend-fails-one" => {
            let work = keys.text("work")?;
            FaultKind::BackendFailsOne {
                work: keys.need("work", work, kinds::CALLS.join(", "))?,
            }
        }
        // The list that `kind_of` held it against has no other.
        _ => FaultKind::ClockOff {
            seconds: needed_number(&mut keys, "seconds", check::CLOCK_S)?,
        },
    };
    let fault = Fault {
        kind,
        at: needed_time(&mut keys, "at")?,
        until: needed_time(&mut keys, "until")?,
        whom: whom(&mut keys)?,
        flap: keys.time("flap")?,
    };
    keys.finish()?;
    Ok(fault)
}

fn bounds(mut keys: Keys) -> Result<Bounds, ConfigError> {
    let bounds = Bounds {
        max_sends_of_one_pack: keys.number("max_sends_of_one_pack", check::SENDS)?,
        recovery_max_ms: keys.number("recovery_max_ms", check::ANY)?,
        outage_bytes_max: keys.number("outage_bytes_max", check::ANY)?,
        backend_peak_over_steady_max: keys.fraction("backend_peak_over_steady_max")?,
        provider_dials_per_s_max: keys.number("provider_dials_per_s_max", check::ANY)?,
        lost_items_max: keys.number("lost_items_max", check::ANY)?,
        providers_fallen_max: keys.number("providers_fallen_max", check::ANY)?,
    };
    keys.finish()?;
    Ok(bounds)
}

fn bars(mut keys: Keys) -> Result<Bars, ConfigError> {
    let mut bars = Bars {
        recovers_first: keys.flag("recovers_first")?.unwrap_or(false),
        ..Bars::default()
    };
    if let Some(value) = keys.value("outage_bytes_part") {
        let parts = value.as_table().filter(|t| t.len() <= check::BARS_MAX);
        let part = |(name, value): (&String, &Value)| {
            let part = u64::try_from(value.as_integer()?).ok()?;
            let is_allowed = check::PART.contains(&part) && check::is_policy_name(name);
            is_allowed.then(|| (name.clone(), part))
        };
        let parts = parts.and_then(|parts| parts.iter().map(part).collect());
        bars.outage_bytes_part = parts.ok_or_else(|| {
            let name = keys.name("outage_bytes_part");
            ConfigError::new(name, shown(&value), check::BARS_FORM)
        })?;
    }
    keys.finish()?;
    Ok(bars)
}

/// The key `kind`, one of these.
fn kind_of(keys: &mut Keys, kinds: &[&str]) -> Result<String, ConfigError> {
    let kind = keys.text("kind")?;
    let allowed = kinds.join(", ");
    let kind = keys.need("kind", kind, &allowed)?;
    match kinds.contains(&kind.as_str()) {
        true => Ok(kind),
        false => {
            let shown = super::keys::short(&kind);
            Err(ConfigError::new(keys.name("kind"), shown, allowed))
        }
    }
}

fn direction(keys: &mut Keys) -> Result<Direction, ConfigError> {
    match keys.text("direction")?.as_deref() {
        None | Some("both") => Ok(Direction::Both),
        Some("up") => Ok(Direction::Up),
        Some("down") => Ok(Direction::Down),
        Some(other) => Err(ConfigError::new(
            keys.name("direction"),
            super::keys::short(other),
            "both, up, down",
        )),
    }
}

fn whom(keys: &mut Keys) -> Result<Whom, ConfigError> {
    let Some(value) = keys.value("whom") else {
        return Ok(Whom::default());
    };
    let number = |item: &Value| u32::try_from(item.as_integer()?).ok();
    let whom = match &value {
        Value::String(part) => Some(Whom::Part(part.clone())),
        Value::Array(items) => items
            .iter()
            .map(number)
            .collect::<Option<_>>()
            .map(Whom::These),
        Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Table(_) => None,
    };
    whom.ok_or_else(|| ConfigError::new(keys.name("whom"), shown(&value), check::WHOM_FORM))
}

fn needed_time(keys: &mut Keys, key: &'static str) -> Result<std::time::Duration, ConfigError> {
    let found = keys.time(key)?;
    keys.need(key, found, "a time such as \"30s\"")
}

fn needed_number<T>(
    keys: &mut Keys,
    key: &'static str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, ConfigError>
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display + Copy,
{
    let allowed = format!("{} to {}", range.start(), range.end());
    let found = keys.number(key, range)?;
    keys.need(key, found, allowed)
}

fn len(keys: &mut Keys) -> Result<u16, ConfigError> {
    needed_number(keys, "len_bytes", check::LEN)
}
