//! Names and values for people: two aligned columns, nesting by indentation.
//!
//! ```text
//! state          up
//! path
//!   inner_mtu    1420
//!   drops        none
//! sessions
//!   1
//!     client     laptop
//! ```
//!
//! [`Table::of`] renders any JSON value, so `status` shows what the engine tells
//! without knowing it. The order is that of the JSON object (sorted by name),
//! plain values before nested ones, so two runs can be compared line by line. All
//! values stand in one column unless a name is so long that it would push the
//! others away. Control characters, which could come from a name in a
//! configuration file, are shown escaped: a terminal obeys them otherwise.

use std::fmt;

use serde_json::Value;

/// Widest first column that the others are aligned to.
const NAME_CHARS_MAX: usize = 40;

#[derive(Debug)]
struct Row {
    name: String,
    /// None: a heading.
    value: Option<String>,
}

/// Rows of names and values.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Everything in `value`.
    pub(crate) fn of(value: &Value) -> Self {
        let mut table = Self::default();
        match value {
            Value::Object(_) | Value::Array(_) => table.nest(0, value),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                table.row("answer", plain(value).unwrap_or_default());
            }
        }
        table
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, name: &str, value: impl fmt::Display) {
        self.inner(0, name, value);
    }

    /// Adds a row, indented by `depth` steps.
    pub(crate) fn inner(&mut self, depth: usize, name: &str, value: impl fmt::Display) {
        self.rows.push(Row {
            name: indented(depth, name),
            value: Some(harmless(&value.to_string())),
        });
    }

    /// Adds a name without a value, above those that are indented under it.
    pub(crate) fn heading(&mut self, name: &str) {
        self.rows.push(Row {
            name: harmless(name),
            value: None,
        });
    }

    /// Depth is bounded by the JSON parser (128).
    fn nest(&mut self, depth: usize, value: &Value) {
        let members: Vec<(String, &Value)> = match value {
            Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), v)).collect(),
            Value::Array(items) => (1..).map(|n: u32| n.to_string()).zip(items).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        };
        let is_plain = |value: &Value| plain(value).is_some();
        let (first, last): (Vec<_>, Vec<_>) = members.iter().partition(|(_, v)| is_plain(v));
        for (name, value) in first {
            self.inner(depth, name, plain(value).unwrap_or_default());
        }
        for (name, value) in last {
            self.rows.push(Row {
                name: indented(depth, name),
                value: None,
            });
            self.nest(depth + 1, value);
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.rows.iter().map(|row| row.name.chars().count());
        let width = widths.filter(|chars| *chars <= NAME_CHARS_MAX).max();
        for Row { name, value } in &self.rows {
            match value {
                Some(value) => writeln!(f, "{name:<0$}  {value}", width.unwrap_or(0))?,
                None => writeln!(f, "{name}")?,
            }
        }
        Ok(())
    }
}

fn indented(depth: usize, name: &str) -> String {
    format!("{}{}", "  ".repeat(depth), harmless(name))
}

/// What fits on one line: a value that holds no others, or a list of such.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("-".into()),
        Value::Bool(true) => Some("yes".into()),
        Value::Bool(false) => Some("no".into()),
        Value::Number(number) => Some(match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => short(float),
            None => number.to_string(),
        }),
        Value::String(text) => Some(text.clone()),
        Value::Array(items) if items.is_empty() => Some("none".into()),
        Value::Array(items) => {
            let nested = |item: &Value| item.is_object() || item.is_array();
            let words: Option<Vec<_>> = items
                .iter()
                .map(|item| plain(item).filter(|_| !nested(item)))
                .collect();
            words.map(|words| words.join(", "))
        }
        Value::Object(members) if members.is_empty() => Some("none".into()),
        Value::Object(_) => None,
    }
}

/// Three decimals at most: a microsecond, where the unit is a millisecond.
fn short(float: f64) -> String {
    let text = format!("{float:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => harmless.extend(character.escape_default()),
            false => harmless.push(character),
        }
    }
    harmless
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn values_stand_in_one_column_and_nesting_is_indented() {
        let status = json!({
            "state": "up",
            "rtt_ms": 12.345_678,
            "path": {"inner_mtu": 1420, "drops": {}, "counters": {"sent": 7}},
            "next_dial_in_ms": null,
            "ipv4": ["10.85.0.2", 16],
            "degraded": false,
            "sessions": [{"client": "laptop"}, {"client": "phone"}],
        });
        let table = "\
degraded         no
ipv4             10.85.0.2, 16
next_dial_in_ms  -
rtt_ms           12.346
state            up
path
  drops          none
  inner_mtu      1420
  counters
    sent         7
sessions
  1
    client       laptop
  2
    client       phone
";
        assert_eq!(Table::of(&status).to_string(), table);
    }

    #[test]
    fn numbers_are_short_and_exact() {
        let number = |value: Value| plain(&value).unwrap();
        assert_eq!(number(json!(u64::MAX)), "18446744073709551615");
        assert_eq!(number(json!(-3)), "-3");
        assert_eq!(number(json!(100.0)), "100");
        assert_eq!(number(json!(0.0004)), "0");
        assert_eq!(number(json!(1.5)), "1.5");
    }

    #[test]
    fn a_terminal_is_not_given_orders() {
        let status = json!({"client": "a\u{1b}[2Jb\nstate  up", "\u{7}": 1});
        let table = Table::of(&status).to_string();
        assert!(!table.chars().any(|c| c.is_control() && c != '\n'));
        assert_eq!(table.lines().count(), 2, "{table}");
    }

    #[test]
    fn one_long_name_does_not_push_the_others_away() {
        let long = "x".repeat(41);
        let table = Table::of(&json!({"a": 1, long.clone(): 2})).to_string();
        assert_eq!(table, format!("a  1\n{long}  2\n"));
    }

    #[test]
    fn any_value_is_shown() {
        assert_eq!(Table::of(&json!("hello")).to_string(), "answer  hello\n");
        assert_eq!(Table::of(&json!([{"a": 1}])).to_string(), "1\n  a  1\n");
        assert_eq!(Table::of(&json!({})).to_string(), "");
        assert_eq!(
            Table::of(&json!({"a": [{"b": 1}, 2]})).to_string(),
            "a\n  2    2\n  1\n    b  1\n"
        );
    }
}
