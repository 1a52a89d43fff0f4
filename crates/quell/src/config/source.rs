//! Where in the file a mistake stands.
//!
//! serde hands out positions without keys, range checks hand out keys without
//! positions. Both are completed from the same parse tree with spans: a position
//! is looked up for its key path (`clients[2].public_key`), a key path for its
//! line and for the value as it was written.
//!
//! Values are shown verbatim, the first 60 characters of their first line, and
//! never when a secret key, or a URL with what may be credentials, stands in them. Of what stands in a `public_key` only
//! the first 12 characters are shown: a secret key with a damaged beginning is not
//! recognised as one, and could otherwise be put together again from a log.

use std::ops::Range;
use std::path::{Path, PathBuf};

use quell_core::config::ConfigError;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::text::{HIDDEN, HIDDEN_URL, holds_secret, may_hold_credentials};
use super::{LoadError, Place};

const VALUE_CHARS_MAX: usize = 60;
const KEY_CHARS_MAX: usize = 12;

/// Sizes whose unit the core has in the name, and the file in the value.
const SIZE_NAMES: [(&str, &str); 1] =
    [("transport.dgram_queue_bytes_max", "transport.dgram_queue")];

/// A file that is TOML.
pub(super) struct Source<'a> {
    path: &'a Path,
    text: &'a str,
    tree: Spanned<DeTable<'a>>,
}

impl<'a> Source<'a> {
    pub(super) fn parse(path: &'a Path, text: &'a str) -> Result<Self, LoadError> {
        let tree = DeTable::parse(text).map_err(|error| LoadError::Syntax {
            place: place(path, text, error.span().as_ref()),
            words: error.message().to_owned(),
        })?;
        Ok(Self { path, text, tree })
    }

    /// Where it was read from.
    pub(super) fn path(&self) -> PathBuf {
        self.path.to_owned()
    }

    /// The top level lacks `key`: in the words of a parser that misses it.
    pub(super) fn lacks(&self, key: &str) -> LoadError {
        LoadError::Form {
            place: place(self.path, self.text, None),
            key: String::new(),
            value: None,
            words: format!("missing field `{key}`"),
        }
    }

    /// Whether the top level has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.tree.get_ref().contains_key(key)
    }

    /// Reads the whole file as an `F`.
    pub(super) fn read<F: DeserializeOwned>(&self) -> Result<F, LoadError> {
        toml::from_str(self.text).map_err(|error| self.form(&error))
    }

    /// Completes an error of form by the key and value it is about.
    fn form(&self, error: &toml::de::Error) -> LoadError {
        let found = error
            .span()
            .and_then(|span| key_at(self.tree.get_ref(), &span, ""));
        let line_known = found.is_some();
        let (key, value) = found.unwrap_or_default();
        // serde repeats a text of the wrong type, and a key that it does not know.
        let public = |text: &str| match holds_secret(text) {
            true => HIDDEN.to_owned(),
            false if may_hold_credentials(&key, text) => HIDDEN_URL.to_owned(),
            false => text.trim_end().to_owned(),
        };
        LoadError::Form {
            place: place(
                self.path,
                self.text,
                error.span().filter(|_| line_known).as_ref(),
            ),
            value: value.and_then(|span| self.shown(&key, span)),
            key: public(&key),
            words: public(error.message()),
        }
    }

    /// Completes an error of range by its line and by the value as it was written.
    pub(super) fn setting(&self, error: ConfigError) -> LoadError {
        let ConfigError {
            key,
            value,
            allowed,
        } = error;
        let (key, allowed) = match SIZE_NAMES.iter().find(|(core, _)| *core == key) {
            Some((_, file)) => ((*file).to_owned(), format!("{allowed} bytes")),
            None => (key, allowed),
        };
        let found = span_of(self.tree.get_ref(), &key);
        let written = found.clone().and_then(|found| found.value);
        let value = written
            .and_then(|span| self.shown(&key, span))
            .unwrap_or(value);
        LoadError::Setting {
            place: place(self.path, self.text, found.map(|found| found.key).as_ref()),
            error: ConfigError {
                key,
                value,
                allowed,
            },
        }
    }

    /// The value's text, short, on one line and without secrets.
    fn shown(&self, key: &str, span: Range<usize>) -> Option<String> {
        let text = self.text.get(span)?;
        if holds_secret(text) {
            return Some(HIDDEN.to_owned());
        }
        if may_hold_credentials(key, text) {
            return Some(HIDDEN_URL.to_owned());
        }
        let chars_max = match key.ends_with("public_key") {
            true => KEY_CHARS_MAX,
            false => VALUE_CHARS_MAX,
        };
        let line = text.lines().next()?;
        let mut shown: String = line.chars().take(chars_max).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Some(shown)
    }
}

fn place(path: &Path, text: &str, span: Option<&Range<usize>>) -> Place {
    let line = span.map(|span| {
        let before = text.as_bytes().iter().take(span.start);
        1 + before.filter(|byte| **byte == b'\n').count()
    });
    Place::File {
        path: path.to_owned(),
        line,
    }
}

/// A setting's path and the span of its value.
type Setting = (String, Option<Range<usize>>);

/// Where a setting stands.
#[derive(Clone)]
struct Found {
    /// Its name, or that of the nearest table around it.
    key: Range<usize>,
    /// Its value; none for a table, or when only the table around it is there.
    value: Option<Range<usize>>,
}

/// Finds `clients[2].name` or as much of it as is there.
fn span_of(tree: &DeTable<'_>, path: &str) -> Option<Found> {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    let (name, index) = match head.split_once('[') {
        Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
        None => (head, None),
    };
    let (key, mut value) = tree.get_key_value(name)?;
    let mut key_span = key.span();
    if let (Some(index), DeValue::Array(items)) = (index, value.get_ref()) {
        value = items.get(index)?;
        key_span = value.span();
    }
    let Some(rest) = rest else {
        return Some(Found {
            key: key_span,
            value: leaf(value),
        });
    };
    let around = Found {
        key: key_span,
        value: None,
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Some(around);
    };
    Some(span_of(table, rest).unwrap_or(around))
}

/// The innermost setting that holds all of `span`: its path, and its value unless that is a table.
///
/// A mistake of the whole file, such as a key that is missing at the top level,
/// is in no setting. A table's span is its header alone, so everything is looked
/// through; depth is bounded by the parser, the rest by the file's size.
fn key_at(tree: &DeTable<'_>, span: &Range<usize>, path: &str) -> Option<Setting> {
    for (key, value) in tree {
        let own = match path {
            "" => key.get_ref().to_string(),
            path => format!("{path}.{}", key.get_ref()),
        };
        if let Some(inner) = value_at(value, span, &own) {
            return Some(inner);
        }
        if holds(&key.span(), span) {
            return Some((own, leaf(value)));
        }
    }
    None
}

fn value_at(value: &Spanned<DeValue<'_>>, span: &Range<usize>, path: &str) -> Option<Setting> {
    let inner = match value.get_ref() {
        DeValue::Table(table) => key_at(table, span, path),
        DeValue::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| value_at(item, span, &format!("{path}[{index}]"))),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => None,
    };
    inner.or_else(|| holds(&value.span(), span).then(|| (path.to_owned(), leaf(value))))
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn leaf(value: &Spanned<DeValue<'_>>) -> Option<Range<usize>> {
    let is_table = matches!(value.get_ref(), DeValue::Table(_));
    (!is_table).then(|| value.span())
}
