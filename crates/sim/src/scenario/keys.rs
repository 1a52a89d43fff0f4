//! A TOML table, read key by key.
//!
//! Serde could fill the types, but not say what an engineer has to know: of a fault with a key too many it would say that
//! the data matched no variant. So each key is taken by its name and with its range, and what is left when all that the
//! table may hold was taken is a mistake. Nothing is coerced but one thing: a whole number may stand where a fraction is
//! asked for.
//!
//! An error shows the value as it was written, cut where a line ends.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use quell_core::config::ConfigError;
use toml::{Table, Value};

/// Most characters of a value that an error repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// What is left to be read of a table, and where it stands.
pub(super) struct Keys {
    table: Table,
    /// Of the table itself, such as `fault[2]`; empty at the top.
    path: String,
    asked: Vec<&'static str>,
}

impl Keys {
    pub(super) fn new(path: impl Into<String>, table: Table) -> Self {
        Self {
            table,
            path: path.into(),
            asked: Vec::new(),
        }
    }

    /// The key's whole name.
    pub(super) fn name(&self, key: &str) -> String {
        match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        }
    }

    /// That `key` has to be there.
    pub(super) fn need<T>(
        &self,
        key: &str,
        found: Option<T>,
        allowed: impl Display,
    ) -> Result<T, ConfigError> {
        found.ok_or_else(|| ConfigError::new(self.name(key), "(not there)", allowed))
    }

    /// Text.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, ConfigError> {
        self.read(key, "text in quotes", |value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_)
            | Value::Table(_) => None,
        })
    }

    /// A whole number of this range.
    pub(super) fn number<T>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
    ) -> Result<Option<T>, ConfigError>
    where
        T: TryFrom<i64> + PartialOrd + Display + Copy,
    {
        let allowed = format!("{} to {}", range.start(), range.end());
        self.read(key, allowed, |value| {
            let number = T::try_from(value.as_integer()?).ok()?;
            range.contains(&number).then_some(number)
        })
    }

    /// A number that need not be whole; its range is looked at by whoever knows it.
    pub(super) fn fraction(&mut self, key: &'static str) -> Result<Option<f64>, ConfigError> {
        self.read(key, "a number", |value| match value {
            Value::Integer(whole) => Some(*whole as f64),
            Value::Float(number) => Some(*number),
            Value::String(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_)
            | Value::Table(_) => None,
        })
    }

    /// A time, such as `"30s"`; its range is looked at by whoever knows it.
    pub(super) fn time(&mut self, key: &'static str) -> Result<Option<Duration>, ConfigError> {
        self.read(key, "a time such as \"30s\" or \"1h 20m\"", |value| {
            humantime_serde::re::humantime::parse_duration(value.as_str()?).ok()
        })
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// A value of whatever type.
    pub(super) fn value(&mut self, key: &'static str) -> Option<Value> {
        self.asked.push(key);
        self.table.remove(key)
    }

    /// A table of its own; an empty one where there is none.
    pub(super) fn table(&mut self, key: &'static str) -> Result<Self, ConfigError> {
        let table = self.read(key, "a table", |value| value.as_table().cloned())?;
        Ok(Self::new(self.name(key), table.unwrap_or_default()))
    }

    /// A list of tables.
    pub(super) fn tables(&mut self, key: &'static str) -> Result<Vec<Self>, ConfigError> {
        let allowed = format!("tables, each begun by [[{key}]]");
        let tables = self.read(key, allowed, |value| {
            let items = value.as_array()?.iter();
            items
                .map(|item| item.as_table().cloned())
                .collect::<Option<Vec<_>>>()
        })?;
        let named = tables.unwrap_or_default().into_iter().enumerate();
        let name = self.name(key);
        Ok(named
            .map(|(index, table)| Self::new(format!("{name}[{index}]"), table))
            .collect())
    }

    /// That nothing is left.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        match self.table.iter().next() {
            None => Ok(()),
            Some((key, value)) => Err(ConfigError::new(
                self.name(&short(key)),
                shown(value),
                format!("no such key here, but {}", self.asked.join(", ")),
            )),
        }
    }

    fn read<T>(
        &mut self,
        key: &'static str,
        allowed: impl Display,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match read(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(ConfigError::new(self.name(key), shown(&value), allowed)),
        }
    }
}

/// A value for an error's line.
pub(super) fn shown(value: &Value) -> String {
    short(&value.to_string())
}

/// The beginning of a text, on one line and without orders to a terminal.
pub(super) fn short(text: &str) -> String {
    let mut short = String::new();
    for char in text.chars().take(SHOWN_CHARS_MAX) {
        short.push(if char.is_control() { ' ' } else { char });
    }
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}
