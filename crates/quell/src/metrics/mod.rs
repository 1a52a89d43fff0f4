//! Metrics for Prometheus: what `status` holds, as families of numbers.
//!
//! ```text
//! engine ──status──→ JSON object ──render──→ text ──┬─ http://127.0.0.1:…/metrics   
//!                                                   └─ quell metrics                 (for node_exporter's textfile)
//! ```
//!
//! [`render`] is pure and makes its page of the very object that `status --json` prints: both ways show the same, a snapshot
//! that somebody kept can be rendered later, and a name in the page is the name in the object. What is not in the object is
//! left out, so that the page of another version is smaller and not wrong.
//!
//! **Bounds.** Servers and backends have names that others chose; of them, [`quell_core::exposition`] keeps the first ones
//! apart and calls the rest `other`. A provider's clients have no series of their own: with thousands of them a collector
//! would hold thousands of series of people, and `status` says of each what it does. All other labels are words of this code.
//!
//! **Units.** Bytes and seconds; a `_total` only grows while the process lives. Every reason of a drop is there from the
//! start, with 0, because a rate cannot be made of a series that begins with its first event.
//!
//! | file | families of |
//! |---|---|
//! | `common` | both roles: UDP, drops, lanes, device, control planes |
//! | `client` | exits, their gates, window, races, contracts in hand |
//! | `provider` | sessions, handshakes, rules, shares, the month, receipts |

mod client;
mod common;
mod provider;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use quell_core::exposition::{Family, Names, Page};
use quell_net::NetError;
use quell_net::scrape::{self, Serving};
use serde_json::Value;

use crate::config::MetricsSection;
use crate::control::{Command, Handler, Request};

/// The page of metrics of a status, as the control socket gives it.
#[must_use]
pub fn render(status: &Value) -> String {
    let mut out = Metrics {
        page: Page::default(),
        names: Names::default(),
    };
    let of = Status(status);
    match of.text("role") {
        "client" => {
            common::write(&mut out, of, &client::books(of));
            client::write(&mut out, of);
        }
        "provider" => {
            common::write(&mut out, of, &provider::books(of));
            provider::write(&mut out, of);
        }
        // A role of another version: what it is, and nothing of it.
        _ => common::identity(&mut out, of),
    }
    out.page.to_string()
}

/// Serves what a configuration asks for, if it does, of what `handler` says of its status.
pub(crate) fn serve(
    section: &MetricsSection,
    handler: &Handler,
) -> Result<Option<Serving>, NetError> {
    let Some(address) = section.listen else {
        return Ok(None);
    };
    let handler = Arc::clone(handler);
    let make = move || -> scrape::PageFuture {
        let answer = handler(Request {
            command: Command::Status,
        });
        Box::pin(async move { Ok(render(&answer.await?)) })
    };
    let serving = scrape::serve(address, Arc::new(make))?;
    tracing::info!(address = %serving.address(), "metrics are served");
    Ok(Some(serving))
}

/// What is being written.
struct Metrics {
    page: Page,
    names: Names,
}

/// A part of a status. What is not there is 0, empty or false.
#[derive(Debug, Clone, Copy)]
struct Status<'a>(&'a Value);

static NOTHING: Value = Value::Null;

impl<'a> Status<'a> {
    /// The part under `path`, names separated by dots; all of it under the empty one.
    fn at(self, path: &str) -> Self {
        if path.is_empty() {
            return self;
        }
        let step = |value: &'a Value, name: &str| value.get(name).unwrap_or(&NOTHING);
        Self(path.split('.').fold(self.0, step))
    }

    /// The number under `path`, where there is one.
    fn known(self, path: &str) -> Option<f64> {
        self.at(path).0.as_f64()
    }

    fn number(self, path: &str) -> f64 {
        self.known(path).unwrap_or(0.0)
    }

    fn flag(self, path: &str) -> f64 {
        f64::from(u8::from(self.at(path).0.as_bool().unwrap_or(false)))
    }

    fn text(self, path: &str) -> &'a str {
        self.at(path).0.as_str().unwrap_or_default()
    }

    fn is_there(self, path: &str) -> bool {
        !self.at(path).0.is_null()
    }

    fn list(self, path: &str) -> impl Iterator<Item = Self> + use<'a> {
        self.at(path).0.as_array().into_iter().flatten().map(Self)
    }

    /// The numbers of an object, by their names.
    fn counts(self, path: &str) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
        let entries = self.at(path).0.as_object().into_iter().flatten();
        entries.filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)))
    }
}

/// Adds the numbers of `of` under `label`; none at all adds nothing.
fn add_counts(family: &mut Family, label: &'static str, of: Status<'_>, path: &str) {
    for (name, count) in of.counts(path) {
        family.add(&[(label, name)], count);
    }
}
