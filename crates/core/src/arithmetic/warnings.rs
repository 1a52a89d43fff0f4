//! Settings that are allowed, each for itself, and do not fit together.
//!
//! Two kinds of mistake are looked for. A *bound that cannot bind*: something else ends first, always, so that whoever
//! relies on it relies on nothing. And a *time that cuts another short*: what should happen within it has no chance to.
//! What is plainly wrong is refused where the file is read and never comes here.
//!
//! Each rule is a function of its own that returns a warning or none. The defaults draw no warning, and every rule has
//! a test of the last value that draws none and the first that does.

mod backend;
mod client;
mod lane;
mod provider;
#[cfg(test)]
pub(super) mod tests;

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::silence::SilentPath;
use super::{ClientQuestion, ProviderQuestion};

/// A setting that does not do what it seems to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The setting's full name as people write it.
    pub setting: &'static str,
    /// Its value, as text.
    pub value: String,
    /// What is the matter with it, in words.
    pub why: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            setting,
            value,
            why,
        } = self;
        write!(f, "{setting} = {value}: {why}")
    }
}

/// A warning if `wrong`.
fn warn(
    wrong: bool,
    setting: &'static str,
    value: impl fmt::Display,
    why: impl FnOnce() -> String,
) -> Option<Warning> {
    wrong.then(|| Warning {
        setting,
        value: value.to_string(),
        why: why(),
    })
}

/// A duration as files have it.
fn time(duration: Duration) -> String {
    format!("{duration:?}")
}

pub(super) fn of_client(
    question: &ClientQuestion,
    path: &SilentPath,
    origin: Instant,
) -> Vec<Warning> {
    let mut all = lane::warnings(&question.config.path.lanes.send, path, question.rtt);
    all.extend(client::warnings(question, path));
    let ack_timeout = question.config.path.lanes.send.ack_timeout;
    all.extend(backend::warnings(
        question.backend.as_ref(),
        ack_timeout,
        origin,
    ));
    all
}

pub(super) fn of_provider(
    question: &ProviderQuestion,
    path: &SilentPath,
    origin: Instant,
) -> Vec<Warning> {
    let mut all = lane::warnings(&question.config.path.lanes.send, path, question.rtt);
    all.extend(provider::warnings(question));
    let ack_timeout = question.config.path.lanes.send.ack_timeout;
    all.extend(backend::warnings(
        question.backend.as_ref(),
        ack_timeout,
        origin,
    ));
    all
}
