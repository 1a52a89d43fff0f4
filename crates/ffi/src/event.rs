//! Events as values that any language can hold: [`quell::Event`], with times in milliseconds.

use std::time::{Duration, Instant};

use quell::{Event, ExitName};

/// What happened to a tunnel: see [`quell::Event`].
#[derive(Debug, Clone, PartialEq, Eq, uniffi::Enum)]
pub enum TunnelEvent {
    /// What the device is to be given.
    Parameters {
        /// The IPv4 address inside and its prefix length, such as `10.86.0.2/24`.
        ipv4: Option<String>,
        /// The IPv6 address inside and its prefix length.
        ipv6: Option<String>,
        /// Largest packet that crosses whole, in bytes.
        mtu: u16,
    },
    /// Packets are carried.
    Up {
        /// Over whose session.
        exit: String,
        /// How long they were not, in milliseconds.
        after_ms: u64,
    },
    /// Packets are not carried, or not yet.
    Stalled {
        /// Since when, in milliseconds before this was read.
        for_ms: u64,
        /// When something is tried next, in milliseconds from then on; none: it is being tried.
        next_attempt_in_ms: Option<u64>,
        /// Why.
        reason: String,
    },
    /// The control plane is degraded, or is no longer. Packets go on.
    Outage {
        /// It is.
        degraded: bool,
        /// How long contracts last, in milliseconds; none: for ever, as nothing is paid.
        contracts_last_ms: Option<u64>,
    },
    /// New flows go elsewhere.
    Moved {
        /// The exit before; none: the same, over another connection.
        before: Option<String>,
        /// The exit they go to.
        to: String,
    },
    /// UDP payload on the network since the start.
    Usage {
        /// Bytes sent.
        bytes_out: u64,
        /// Bytes received.
        bytes_in: u64,
    },
    /// The person's pause began.
    Held,
    /// It ended, for good.
    Down {
        /// Why.
        reason: String,
        /// It was told to.
        asked: bool,
    },
    /// Something that this version of the bindings has no name for.
    Other {
        /// In words.
        words: String,
    },
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn address<T: std::fmt::Display>(address: Option<(T, u8)>) -> Option<String> {
    address.map(|(address, len)| format!("{address}/{len}"))
}

impl TunnelEvent {
    /// As read at `now`.
    pub(crate) fn of(event: Event, now: Instant) -> Self {
        let name = |exit: ExitName| exit.name;
        match event {
            Event::Tunnel { addresses, mtu } => Self::Parameters {
                ipv4: address(addresses.ipv4),
                ipv6: address(addresses.ipv6),
                mtu,
            },
            Event::Up { exit, after } => Self::Up {
                exit: exit.name,
                after_ms: ms(after),
            },
            Event::Stalled {
                since,
                next_attempt,
                reason,
            } => Self::Stalled {
                for_ms: ms(now.saturating_duration_since(since)),
                next_attempt_in_ms: next_attempt.map(|at| ms(at.saturating_duration_since(now))),
                reason,
            },
            Event::Outage {
                degraded,
                contracts_last,
            } => Self::Outage {
                degraded,
                contracts_last_ms: contracts_last.map(ms),
            },
            Event::Moved { from, to } => Self::Moved {
                before: from.map(name),
                to: to.name,
            },
            Event::Usage {
                bytes_out,
                bytes_in,
            } => Self::Usage {
                bytes_out,
                bytes_in,
            },
            Event::Held => Self::Held,
            Event::Down { reason, asked } => Self::Down { reason, asked },
            other => Self::Other {
                words: format!("{other:?}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_when_they_are_read() {
        let now = Instant::now();
        let s = Duration::from_secs;
        let event = Event::Stalled {
            since: now,
            next_attempt: Some(now + s(7)),
            reason: "why".to_owned(),
        };
        let read = TunnelEvent::of(event, now + s(5));
        let expected = TunnelEvent::Stalled {
            for_ms: 5_000,
            next_attempt_in_ms: Some(2_000),
            reason: "why".to_owned(),
        };
        assert_eq!(read, expected);
    }
}
