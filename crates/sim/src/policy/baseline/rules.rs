//! The numbers that make one baseline differ from another.
//!
//! What all share is a constant beside the code that uses it; what differs is a field here. Every make is one `static`
//! [`Rules`] in a file of its own, with its source.

use std::time::Duration;

use super::resend::ResendRule;

/// One make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Its name in reports and on the command line.
    pub name: &'static str,
    /// When a pack is sent again.
    pub resend: ResendRule,
    /// Life of a pack, and so of its sequence, for a client of one provider.
    pub ack_timeout: Duration,
    /// The same where there is a window of exits.
    pub race_ack_timeout: Duration,
    /// How long an ack waits for others to go with it.
    pub ack_delay: Duration,
    /// What becomes of a send that the connection does not take.
    pub failed_write: FailedWrite,
    /// How contracts are asked for.
    pub contract: ContractRules,
    /// How many exits a race takes. `None`: all of the window.
    pub fan_out: Option<usize>,
    /// How the window is kept.
    pub window: WindowRules,
    /// How connections come back.
    pub reconnect: Reconnect,
}

/// What becomes of a send that the connection does not take: it is down, or its buffer is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedWrite {
    /// It counts as sent; the next one is due by the rule.
    CountsAsSent,
    /// It waits for the connection.
    Waits,
}

/// How contracts are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContractRules {
    /// From a sequence's first request to its second.
    pub wait_min: Duration,
    /// It doubles up to this.
    pub wait_max: Duration,
    /// While degraded only a new sequence's first request goes out.
    pub gated: bool,
}

/// How the window is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRules {
    /// Exits that it is to have.
    pub exits: usize,
    /// Exits that stay whatever is wrong with them.
    pub exits_min: usize,
    /// Exits, those under evaluation included, that it never has more of.
    pub exits_hard_max: usize,
    /// No pass while degraded.
    pub paused_while_degraded: bool,
    /// What holds removals back.
    pub removals: Removals,
}

/// What holds removals of exits back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removals {
    /// Nothing.
    Free,
    /// At most `count_max` in each `within`; none while `shared` exits fail within `shared_within`: that is the client's
    /// own network.
    Limited {
        /// Removals.
        count_max: usize,
        /// In this time.
        within: Duration,
        /// Exits that share a fate.
        shared: usize,
        /// When they fail within this time.
        shared_within: Duration,
    },
}

/// How connections come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconnect {
    /// After a wait that is drawn uniformly from nothing to `within` less the time that the attempt took.
    Uniform {
        /// From one attempt to the next at most, unless the attempt took longer.
        within: Duration,
    },
    /// After a wait that doubles.
    Doubling {
        /// The first one.
        wait_min: Duration,
        /// The longest one.
        wait_max: Duration,
    },
}
