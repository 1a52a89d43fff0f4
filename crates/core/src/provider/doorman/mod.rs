//! The doorman: who may start a handshake.
//!
//! A first packet (Initial) costs its sender nothing and may bear anyone's address.
//! A limit over all of them would let a flood of a few kilobytes a second shut
//! everyone out (case B76). So the cheap question comes first:
//!
//! ```text
//! Initial --cannot be answered---------------------> Ignore
//!    |-----stopping-------------------------------> Refuse(Stopping)
//!    |-----quiet----------------------------------> Accept
//!    |-----address not proven---------------------> Retry (stateless)
//!    |-----handshakes_max under way---------------> Refuse(Full)
//!    |-----its prefix has used up its budget------> Refuse(SourceBudget)
//!    '--------------------------------------------> Accept
//! ```
//!
//! It is quiet while fewer than `handshakes_free` are under way and fewer than as many
//! began within a second: first packets whose handshake breaks off at once hold no
//! place, and still cost.
//!
//! A Retry (RFC 9000 §8.1.2) leaves no state here: its token is the proof when it
//! comes back from the address that it was sent to. Therefore:
//! - The first `handshakes_free` places are anyone's; those up to `handshakes_max` are
//!   left to sources with proof, whatever is spoofed. Proof never makes things worse:
//!   budgets count where it is asked for.
//! - Only proven sources are remembered, and only `sources_max` of them.
//! - A place is held for `handshake_timeout` at most (case B67): the permit bears the
//!   deadline, and whoever drives the handshake gives it back.
//!
//! The answer to who is not accepted is always shorter than what was received.

mod sources;

use std::net::SocketAddr;
use std::time::Instant;

use quell_packet::addr::is_host;
use serde::Serialize;

pub use self::sources::SourcePrefix;
use self::sources::Sources;
use crate::bucket::TokenBucket;
use crate::config::DoormanConfig;

/// What to do with a first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Begin the handshake. It ends with [`Doorman::on_ended`], at `deadline` at the
    /// latest.
    Accept {
        /// When it is given up.
        deadline: Instant,
    },
    /// Have the source prove its address.
    Retry,
    /// Say no.
    Refuse(Refused),
    /// Say nothing.
    Ignore,
}

/// Why a handshake was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// As many as may be are under way.
    Full,
    /// The source's prefix has used up its budget.
    SourceBudget,
    /// The provider stops.
    Stopping,
}

/// How a handshake ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The connection stands.
    Completed,
    /// One end broke it off.
    Failed,
    /// It came to its deadline.
    TimedOut,
}

/// Handshakes so far. `accepted` = `under_way` + `completed` + `failed` + `timed_out`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HandshakeCounters {
    /// Handshakes at the moment.
    pub under_way: u64,
    /// Handshakes begun.
    pub accepted: u64,
    /// Sources told to prove their address.
    pub retried: u64,
    /// Refused because as many as may be were under way.
    pub refused_full: u64,
    /// Refused because the source's prefix had used up its budget.
    pub refused_source: u64,
    /// Refused because the provider stops.
    pub refused_stopping: u64,
    /// First packets that cannot be answered.
    pub ignored: u64,
    /// Handshakes after which the connection stood.
    pub completed: u64,
    /// Handshakes that one end broke off.
    pub failed: u64,
    /// Handshakes that did not end in time.
    pub timed_out: u64,
    /// Prefixes of proven addresses that are remembered.
    pub sources: u64,
}

/// Who may start a handshake.
#[derive(Debug)]
pub struct Doorman {
    config: DoormanConfig,
    /// Handshakes that may begin while it is quiet.
    quiet: TokenBucket,
    sources: Sources,
    counters: HandshakeCounters,
    is_stopping: bool,
}

impl Doorman {
    /// A doorman at an empty house.
    pub fn new(config: DoormanConfig) -> Self {
        // Beyond 4 billion a second there is no limit to speak of.
        let free = u32::try_from(config.handshakes_free).unwrap_or(u32::MAX);
        Self {
            quiet: TokenBucket::new(free, free),
            sources: Sources::new(&config),
            config,
            counters: HandshakeCounters::default(),
            is_stopping: false,
        }
    }

    /// A first packet came from `source`, which proved its address or did not.
    pub fn on_initial(&mut self, source: SocketAddr, is_proven: bool, now: Instant) -> Answer {
        let answer = self.judge(source, is_proven, now);
        let count = match answer {
            Answer::Accept { .. } => {
                self.counters.under_way += 1;
                &mut self.counters.accepted
            }
            Answer::Retry => &mut self.counters.retried,
            Answer::Refuse(Refused::Full) => &mut self.counters.refused_full,
            Answer::Refuse(Refused::SourceBudget) => &mut self.counters.refused_source,
            Answer::Refuse(Refused::Stopping) => &mut self.counters.refused_stopping,
            Answer::Ignore => &mut self.counters.ignored,
        };
        *count += 1;
        answer
    }

    fn judge(&mut self, source: SocketAddr, is_proven: bool, now: Instant) -> Answer {
        // RFC 768: port 0 is no port to answer to; a group's address is no source.
        if source.port() == 0 || !is_host(source.ip()) {
            return Answer::Ignore;
        }
        if self.is_stopping {
            return Answer::Refuse(Refused::Stopping);
        }
        let under_way = self.counters.under_way;
        let is_quiet = under_way < self.config.handshakes_free as u64 && self.quiet.take(now);
        if !is_quiet {
            if !is_proven {
                return Answer::Retry;
            }
            if under_way >= self.config.handshakes_max as u64 {
                return Answer::Refuse(Refused::Full);
            }
            if !self.sources.take(SourcePrefix::of(source.ip()), now) {
                return Answer::Refuse(Refused::SourceBudget);
            }
        }
        // A clock at its end gives no time at all.
        let deadline = now.checked_add(self.config.handshake_timeout);
        Answer::Accept {
            deadline: deadline.unwrap_or(now),
        }
    }

    /// A handshake that was accepted is over. To be called once for each.
    pub fn on_ended(&mut self, how: Ended) {
        self.counters.under_way = self.counters.under_way.saturating_sub(1);
        let count = match how {
            Ended::Completed => &mut self.counters.completed,
            Ended::Failed => &mut self.counters.failed,
            Ended::TimedOut => &mut self.counters.timed_out,
        };
        *count += 1;
    }

    /// Other limits from the next first packet on. Sources begin with fresh budgets; what is under way goes on.
    pub fn on_config(&mut self, config: DoormanConfig) {
        if self.config == config {
            return;
        }
        let fresh = Self::new(config);
        (self.quiet, self.sources) = (fresh.quiet, fresh.sources);
        self.config = fresh.config;
    }

    /// Accepts nobody from here on.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// What it answered so far.
    pub fn counters(&self) -> HandshakeCounters {
        HandshakeCounters {
            sources: self.sources.len() as u64,
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests;
