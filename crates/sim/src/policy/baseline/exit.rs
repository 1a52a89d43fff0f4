//! One exit of a client's window: its connection, its sequences, and whether it is of use.

use std::time::Instant;

use super::peer::Peer;
use super::reconnect::Link;
use super::rules::Rules;
use super::window::{EVALUATION_TIME, Health};
use crate::fleet::node::ServerId;

/// Whether packets go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Dialled and pinged; given up then.
    Evaluated { until: Instant },
    /// Packets go there.
    Admitted,
}

/// One exit.
#[derive(Debug, Clone)]
pub(crate) struct Exit {
    pub(crate) server: ServerId,
    pub(crate) link: Link,
    pub(crate) peer: Peer,
    pub(crate) standing: Standing,
    pub(crate) health: Health,
    /// A ping was put into its sequence.
    pub(crate) is_pinged: bool,
}

impl Exit {
    /// A client's only one: packets go there from the start.
    pub(crate) fn only(
        server: ServerId,
        rules: &Rules,
        needs_contract: bool,
        now: Instant,
    ) -> Self {
        Self {
            server,
            link: Link::new(now),
            peer: Peer::new(rules.ack_timeout, needs_contract),
            standing: Standing::Admitted,
            health: Health::default(),
            is_pinged: true,
        }
    }

    /// One of a window, to be admitted.
    pub(crate) fn evaluated(
        server: ServerId,
        rules: &Rules,
        needs_contract: bool,
        now: Instant,
    ) -> Self {
        Self {
            peer: Peer::new(rules.race_ack_timeout, needs_contract),
            standing: Standing::Evaluated {
                until: now + EVALUATION_TIME,
            },
            is_pinged: false,
            ..Self::only(server, rules, needs_contract, now)
        }
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.standing == Standing::Admitted
    }

    pub(crate) fn poll_timeout(&self, rules: &Rules) -> Option<Instant> {
        let until = match self.standing {
            Standing::Evaluated { until } => Some(until),
            Standing::Admitted => None,
        };
        [
            until,
            self.link.poll_timeout(),
            self.peer.poll_timeout(rules),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
