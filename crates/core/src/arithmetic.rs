//! What a configuration means in an outage, worked out before there is one.
//!
//! *Intuition.* Each setting is modest on its own; what they cost together nobody sees by reading them. So the figures
//! are computed, and where something moves in time (resends into a silence, questions about a stalled path, dials,
//! requests to a backend) the very state machine that would do it is driven in virtual time and its acts are counted.
//! Nothing here is a second implementation of a rule.
//!
//! ```text
//!   configuration, round trip ──┬─→ silence    one pack and one path that nobody answers
//!                               ├─→ quiet      bytes of a minute: the ceiling, dials, questions
//!                               ├─→ backend    requests in an hour without an answer
//!                               ├─→ recovery   how long after the heal, by which timer
//!                               ├─→ memory     everything full; ceiling: the settings that stay below so much
//!                               └─→ warnings   a bound that cannot bind, a time that cuts another short
//! ```
//!
//! All figures are bounds or exact; where chance has a part, both its ends are given. What is not in them is what QUIC
//! beneath adds of its own accord (acknowledgements, probes: some hundred bytes a minute and path) and what it holds.
//! The first moment is the caller's, as everywhere in the core: it decides nothing.

mod backend;
pub mod ceiling;
mod memory;
mod quiet;
mod recovery;
mod silence;
mod warnings;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::config::{BackendHealthConfig, ClientConfig, ExitPolicy, ProviderConfig, Raced};

pub use backend::BackendFigures;
pub use memory::{ClientMemory, ProviderMemory};
pub use quiet::QuietFigures;
pub use recovery::Recovery;
pub use silence::{SilentLane, SilentPath};
pub use warnings::Warning;

/// The control plane, as far as the figures depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendQuestion {
    /// How many are asked.
    pub urls: usize,
    /// When, and what it takes to be degraded.
    pub health: BackendHealthConfig,
}

/// What is asked about a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientQuestion {
    /// Its settings, valid.
    pub config: ClientConfig,
    /// Exits that it knows, one at least.
    pub exits: usize,
    /// Its backends, if it has any.
    pub backend: Option<BackendQuestion>,
    /// The largest UDP payload that a path carries, in bytes.
    pub mtu_bytes: u16,
    /// The round trip of its paths.
    pub rtt: Duration,
}

/// What is asked about a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderQuestion {
    /// Its settings, valid.
    pub config: ProviderConfig,
    /// Clients that it knows.
    pub clients: usize,
    /// Addresses that it has for them.
    pub addresses: usize,
    /// Its backends, if it has any.
    pub backend: Option<BackendQuestion>,
    /// The round trip of its paths.
    pub rtt: Duration,
}

/// What one pack or one connection may cost in copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Copies {
    /// Most hand-overs of one pack, by evidence and silence together (R-10).
    pub of_a_pack_max: u32,
    /// Copies of one SYN that wait for an answer at the same time, at most.
    pub of_a_syn_at_once: usize,
    /// The same while the control plane is degraded (R-12).
    pub of_a_syn_at_once_degraded: usize,
    /// Copies over all exits of a connection whose user sends [`USER_SYNS`] SYNs and is answered by nobody.
    pub of_a_connection_max: u32,
    /// Hand-overs of all of those, each as often as a pack may be.
    pub hand_overs_of_a_connection_max: u32,
}

/// SYNs of a connection that nobody answers: the first and six more, as common systems send them within 127 s.
pub const USER_SYNS: u32 = 7;

/// What a client's configuration comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientFigures {
    /// The round trip that it was computed for, in milliseconds.
    pub rtt_ms: u64,
    /// Exits that are kept at the same time, at most.
    pub exits_kept: usize,
    /// Copies.
    pub copies: Copies,
    /// A path that nobody answers.
    pub silent_path: SilentPath,
    /// Bytes of an outage.
    pub quiet: QuietFigures,
    /// How long after the heal.
    pub recovery: Vec<Recovery>,
    /// Requests to the control plane.
    pub backend: Option<BackendFigures>,
    /// With everything full.
    pub memory: ClientMemory,
    /// What does not fit together.
    pub warnings: Vec<Warning>,
}

/// What a provider's configuration comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderFigures {
    /// The round trip that it was computed for, in milliseconds.
    pub rtt_ms: u64,
    /// Most hand-overs of one pack.
    pub copies_of_a_pack_max: u32,
    /// A path that nobody answers.
    pub silent_path: SilentPath,
    /// UDP payload bytes that one session's questions cost in the first minute of a silence.
    pub pings_of_a_session_bytes: u64,
    /// How long a session that nobody answers is kept, in milliseconds.
    pub session_kept_ms: u64,
    /// How long after the heal.
    pub recovery: Vec<Recovery>,
    /// Requests to the control plane.
    pub backend: Option<BackendFigures>,
    /// With everything full.
    pub memory: ProviderMemory,
    /// What does not fit together.
    pub warnings: Vec<Warning>,
}

/// Exits that a client keeps at the same time, at most.
fn exits_kept(question: &ClientQuestion) -> usize {
    let window = &question.config.window;
    let wanted = match window.exit_policy {
        ExitPolicy::Sticky => window.window_min,
        ExitPolicy::Spread => window.window_max,
    };
    wanted.min(question.exits).max(1)
}

fn copies(question: &ClientQuestion) -> Copies {
    let of_a_pack_max = hand_overs_max(question.config.path.lanes.send.max_resend_count);
    let racer = &question.config.racer;
    let races = question.exits > 1 && racer.race != Raced::Off;
    let at_once = if races { racer.race_client_count } else { 1 };
    // One for each SYN of the user's TCP, and one: see `multi::race`.
    let of_a_connection_max = USER_SYNS + u32::from(races && at_once > 1);
    Copies {
        of_a_pack_max,
        of_a_syn_at_once: at_once.min(question.exits.max(1)),
        of_a_syn_at_once_degraded: 1,
        of_a_connection_max,
        hand_overs_of_a_connection_max: of_a_connection_max * of_a_pack_max,
    }
}

fn hand_overs_max(resends: u8) -> u32 {
    u32::from(resends) + 1
}

/// Whole milliseconds, rounded up: a bound stays one.
fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// Works out what a client's configuration comes to. `origin` is any moment.
#[must_use]
pub fn client(question: &ClientQuestion, origin: Instant) -> ClientFigures {
    let silent_path = silence::of_client(&question.config.path, question.rtt, origin);
    ClientFigures {
        rtt_ms: ms(question.rtt),
        exits_kept: exits_kept(question),
        copies: copies(question),
        quiet: quiet::of(question, &silent_path, origin),
        recovery: recovery::of_client(question, &silent_path),
        backend: question
            .backend
            .as_ref()
            .map(|asked| backend::of(asked, origin)),
        memory: memory::of_client(question, origin),
        warnings: warnings::of_client(question, &silent_path, origin),
        silent_path,
    }
}

/// Works out what a provider's configuration comes to. `origin` is any moment.
#[must_use]
pub fn provider(question: &ProviderQuestion, origin: Instant) -> ProviderFigures {
    let path = &question.config.path;
    let silent_path = silence::of_provider(path, question.rtt, origin);
    ProviderFigures {
        rtt_ms: ms(question.rtt),
        copies_of_a_pack_max: hand_overs_max(path.lanes.send.max_resend_count),
        pings_of_a_session_bytes: silent_path.pings_first_minute * quiet::ping_bytes(),
        session_kept_ms: silent_path.gone_at_ms,
        recovery: recovery::of_provider(question),
        backend: question
            .backend
            .as_ref()
            .map(|asked| backend::of(asked, origin)),
        memory: memory::of_provider(question, origin),
        warnings: warnings::of_provider(question, &silent_path, origin),
        silent_path,
    }
}
