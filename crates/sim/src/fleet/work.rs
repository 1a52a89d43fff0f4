//! What users do, and when: fixed by the scenario, the seed and a client's number alone.
//!
//! Each entry of a scenario's work is one flow of each client, of the number of the entry. A client's phase in a period is
//! drawn from its number, so that a policy can change nothing about what it is asked to carry.

use std::time::Duration;

use super::node::{ClientId, Kind, mixed};
use crate::scenario::{Scenario, Work};

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What a user offers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// How many.
    pub(crate) items: u32,
    /// Of which kind.
    pub(crate) kind: Kind,
    /// How long each.
    pub(crate) len_bytes: u16,
    /// When the next one is; `None`: this was the last.
    pub(crate) next_ns: Option<u64>,
}

/// When a client that began at `from_ns` does an entry of its work first.
pub(crate) fn first_ns(
    work: &Work,
    flow: u16,
    client: ClientId,
    seed: u64,
    from_ns: u64,
) -> Option<u64> {
    match work {
        Work::Messages { every, .. } => {
            let draw = mixed(seed ^ u64::from(client) << 16 ^ u64::from(flow));
            Some(from_ns + draw % ns(*every).max(1))
        }
        Work::Burst { at, .. } => Some(ns(*at)).filter(|at| *at >= from_ns),
        Work::Stream { at, until, .. } => Some(ns(*at).max(from_ns)).filter(|at| *at < ns(*until)),
    }
}

/// What is offered at `now_ns`.
pub(crate) fn offer(work: &Work, now_ns: u64) -> Offer {
    match work {
        Work::Messages {
            every, len_bytes, ..
        } => Offer {
            items: 1,
            kind: Kind::Tcp,
            len_bytes: *len_bytes,
            next_ns: Some(now_ns + ns(*every).max(1)),
        },
        Work::Burst {
            packets, len_bytes, ..
        } => Offer {
            items: *packets,
            kind: Kind::Tcp,
            len_bytes: *len_bytes,
            next_ns: None,
        },
        Work::Stream {
            until,
            bits_per_s,
            len_bytes,
            ..
        } => {
            let gap = u64::from(*len_bytes) * 8 * 1_000_000_000 / (*bits_per_s).max(1);
            Offer {
                items: 1,
                kind: Kind::Tcp,
                len_bytes: *len_bytes,
                next_ns: Some(now_ns + gap.max(1)).filter(|at| *at < ns(*until)),
            }
        }
    }
}

/// How long the world's answer to an item of this flow is; 0: none.
pub(crate) fn answer_bytes(scenario: &Scenario, flow: u16) -> u16 {
    match scenario.work.get(usize::from(flow)) {
        Some(Work::Messages { answer_bytes, .. }) => *answer_bytes,
        Some(Work::Burst { .. } | Work::Stream { .. }) | None => 0,
    }
}
