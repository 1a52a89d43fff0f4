//! What the engines' logs say of connections: one line a minute and class at most.
//!
//! A class is a kind of event. The log of an outage tells that the connection was lost,
//! and then each minute how the dials fare, with the number of events that a line stands
//! for beside itself (case B84); that of a provider whom a thousand clients leave at once
//! tells it once. Whether a line is written depends on nothing but the lines before it,
//! and nothing else depends on that.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use quell_core::multi::Notice;
use quell_tun::LogGate;
use tracing::{info, warn};

/// A gate for each class that has had an event; `C` has a handful of values.
#[derive(Debug)]
pub(super) struct Notes<C>(BTreeMap<C, LogGate>);

impl<C> Default for Notes<C> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<C: Ord> Notes<C> {
    /// `Some(n)`: write a line, `n` events of its class were held back before it.
    pub(super) fn admit(&mut self, class: C, now: Instant) -> Option<u64> {
        let gate = self.0.entry(class).or_default();
        gate.admit(now).map(|stands_for| stands_for - 1)
    }
}

/// The class of a client's notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Up,
    Resumed,
    Suspended,
    Down,
    DialFailed,
}

impl Kind {
    pub(super) fn of(notice: &Notice) -> Self {
        match notice {
            Notice::Up { .. } => Self::Up,
            Notice::Resumed => Self::Resumed,
            Notice::Suspended { .. } => Self::Suspended,
            Notice::Down { .. } => Self::Down,
            Notice::DialFailed { .. } => Self::DialFailed,
        }
    }
}

/// What a provider has to tell of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    Refused,
    Closed,
    SuspendedEnded,
    MessagesEnded,
    HostUnread,
    MonthAhead,
}

impl News {
    pub(super) fn write(self, suppressed: u64, words: &dyn fmt::Display) {
        match self {
            Self::Refused => info!(suppressed, "client refused: {words}"),
            Self::Closed => info!(suppressed, "session closed: {words}"),
            Self::SuspendedEnded => info!(suppressed, "suspended session ended: {words}"),
            Self::MessagesEnded => warn!(suppressed, "no more messages to a client: {words}"),
            Self::HostUnread => warn!(suppressed, "the host's addresses cannot be read: {words}"),
            Self::MonthAhead => warn!(
                suppressed,
                "the month's count is of a month that the clock has not reached, and stays so until then: {words}"
            ),
        }
    }
}

/// Writes the line of a client's notice.
pub(super) fn log(notice: &Notice, remote: &str, suppressed: u64) {
    match notice {
        Notice::Up { failures_before } => info!(
            provider = remote,
            failures_before, suppressed, "tunnel is up"
        ),
        Notice::Resumed => info!(provider = remote, suppressed, "the session goes on"),
        Notice::Suspended {
            words,
            next_dial_in,
        } => warn!(
            provider = remote,
            next_dial_in_s = next_dial_in.as_secs_f32(),
            suppressed,
            "connection lost, the session waits for another: {words}"
        ),
        Notice::Down {
            words,
            next_dial_in,
        } => warn!(
            provider = remote,
            next_dial_in_s = next_dial_in.as_secs_f32(),
            suppressed,
            "tunnel is down: {words}"
        ),
        Notice::DialFailed {
            words,
            failures,
            next_dial_in,
        } => warn!(
            provider = remote,
            failures,
            next_dial_in_s = next_dial_in.as_secs_f32(),
            suppressed,
            "cannot connect: {words}"
        ),
    }
}

#[cfg(test)]
mod tests;
