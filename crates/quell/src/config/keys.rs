//! What a file says, key by key, and how two files differ.
//!
//! *Intuition.* Whoever has a running quell read its file again wants to see what that changed, in the words of the file. So
//! it is the text's own tree that is compared, and not the settings that were made of it: a key that was taken out is
//! `not set`, whatever its default is.
//!
//! Tables are walked (`limits.sessions_max`); of an array of tables each entry is a key of its own by its `name` or `address`
//! (`clients["laptop"]`), so that a client more is one line and not all clients again. Everything else is a value.
//!
//! Values are shown short, and never where a secret key or credentials may stand in them; they are compared as they are.

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

use super::text::{HIDDEN, HIDDEN_URL, holds_secret, may_hold_credentials};

/// Most characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 60;

/// What a file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keys(BTreeMap<String, Value>);

/// One key that two files differ in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path.
    pub key: String,
    /// What it was, for people; none where it was not set.
    pub before: Option<String>,
    /// What it is.
    pub after: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unset = "not set";
        let before = self.before.as_deref().unwrap_or(unset);
        let after = self.after.as_deref().unwrap_or(unset);
        write!(f, "{}: {before} → {after}", self.key)
    }
}

impl Keys {
    /// Of a text that is TOML; of another there are none.
    pub(super) fn of(text: &str) -> Self {
        let mut keys = Self::default();
        if let Ok(table) = text.parse::<Table>() {
            keys.take("", table);
        }
        keys
    }

    fn take(&mut self, path: &str, table: Table) {
        for (name, value) in table {
            let own = match path {
                "" => name,
                path => format!("{path}.{name}"),
            };
            match value {
                Value::Table(inner) => self.take(&own, inner),
                Value::Array(entries) if entries.iter().any(Value::is_table) => {
                    for (index, entry) in entries.into_iter().enumerate() {
                        let key = format!("{own}[{}]", label(&entry, index));
                        self.0.insert(key, entry);
                    }
                }
                plain @ (Value::String(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Boolean(_)
                | Value::Datetime(_)
                | Value::Array(_)) => {
                    self.0.insert(own, plain);
                }
            }
        }
    }

    /// All of them for people, a line each, in order of the keys.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lines = self.0.iter();
        lines
            .map(|(key, value)| format!("{key} = {}", shown(key, value)))
            .collect()
    }

    /// What `next` says otherwise, by key.
    #[must_use]
    pub fn changes(&self, next: &Self) -> Vec<Change> {
        let mut keys: Vec<_> = self.0.keys().chain(next.0.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let differs = keys.into_iter().filter_map(|key| {
            let (before, after) = (self.0.get(key), next.0.get(key));
            (before != after).then(|| Change {
                key: key.clone(),
                before: before.map(|value| shown(key, value)),
                after: after.map(|value| shown(key, value)),
            })
        });
        differs.collect()
    }
}

/// What an entry of an array of tables is called.
fn label(entry: &Value, index: usize) -> String {
    let names = ["name", "address"].into_iter();
    let mut named = names.filter_map(|field| entry.get(field).and_then(Value::as_str));
    match named.next() {
        Some(name) => format!("{name:?}"),
        None => index.to_string(),
    }
}

fn shown(key: &str, value: &Value) -> String {
    let text = match value.as_table() {
        Some(table) => {
            let fields = table
                .iter()
                .map(|(name, value)| format!("{name} = {value}"));
            fields.collect::<Vec<_>>().join(", ")
        }
        None => value.to_string(),
    };
    if holds_secret(&text) {
        return HIDDEN.to_owned();
    }
    if may_hold_credentials(key, &text) {
        return HIDDEN_URL.to_owned();
    }
    let mut short: String = text.lines().next().unwrap_or_default().to_owned();
    if short.chars().count() > VALUE_CHARS_MAX || short.len() < text.trim_end().len() {
        short = short.chars().take(VALUE_CHARS_MAX).collect();
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(before: &str, after: &str) -> Vec<String> {
        let changes = Keys::of(before).changes(&Keys::of(after));
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_changed_is_said_key_by_key() {
        let before =
            "listen = \"a\"\n[limits]\nsessions_max = 10\n[egress]\nallow = [\"10.0.0.0/8\"]\n";
        let after = "listen = \"a\"\n[limits]\nsessions_max = 20\n[log]\nlevel = \"debug\"\n";
        let expected = [
            "egress.allow: [\"10.0.0.0/8\"] → not set",
            "limits.sessions_max: 10 → 20",
            "log.level: not set → \"debug\"",
        ];
        assert_eq!(changes(before, after), expected);
        assert_eq!(changes(before, before), [""; 0]);
    }

    #[test]
    fn a_client_more_is_one_line() {
        let client = |name: &str, key: &str| {
            format!("[[clients]]\nname = \"{name}\"\npublic_key = \"{key}\"\n")
        };
        let before = client("a", "k1") + &client("b", "k2");
        let after = client("b", "k2") + &client("a", "k3") + &client("c", "k4");
        let expected = [
            "clients[\"a\"]: name = \"a\", public_key = \"k1\" → name = \"a\", public_key = \"k3\"",
            "clients[\"c\"]: not set → name = \"c\", public_key = \"k4\"",
        ];
        assert_eq!(changes(&before, &after), expected);
    }

    #[test]
    fn no_secret_is_shown() {
        let key = "quellsec1qqqq";
        let said = changes(
            "private_key_file = \"a\"\n[backend]\nurls = [\"https://a/?token=old\"]\n",
            &format!(
                "private_key_file = \"{key}\"\n[backend]\nurls = [\"https://a/?token=new\"]\n"
            ),
        );
        assert_eq!(said.len(), 2);
        let all = said.join("\n");
        assert!(!all.contains(key) && !all.contains("token"), "{all}");
    }

    #[test]
    fn a_long_value_is_cut() {
        let long = "x".repeat(200);
        let said = changes("", &format!("a = \"{long}\""));
        assert!(
            said.iter().all(|line| line.chars().count() < 100),
            "{said:?}"
        );
    }
}
