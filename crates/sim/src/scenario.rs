//! What happens in a simulated world: how many there are, what users do, what breaks, and when.
//!
//! A scenario is data: a TOML file, or one of the named ones that ship in the binary. All times are virtual and count from
//! the start. Faults come first and heal: after the last one ends, a scenario runs on, so that what recovers is seen to.
//!
//! ```toml
//! name = "ack-blackout"
//! summary = "Packets arrive, nothing that answers them does"
//! duration = "150s"
//!
//! [fleet]
//! clients = 1
//! providers = 6
//!
//! [path]
//! rtt = "50ms"
//!
//! [[work]]
//! kind = "burst"
//! at = "10s"
//! packets = 50
//! len_bytes = 1200
//!
//! [[fault]]
//! kind = "acks-lost"
//! at = "5s"
//! until = "65s"
//! ```
//!
//! [`Scenario::from_toml`] reads one and says of the first mistake which key it is, what was written, and what is allowed.
//! What a key is for, its default and its range stand here, at the field; the ranges themselves in `check`.

mod check;
mod keys;
mod library;
mod read;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

pub use library::{Named, about, library, named};
pub use read::{ScenarioError, TEXT_BYTES_MAX};
pub use timeline::Members;

/// A whole scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// Its name: 1 to 64 lower case letters, digits and dashes.
    pub name: String,
    /// What it is about, in a line of 1 to 200 characters.
    pub summary: String,
    /// How long it runs. 1 s to 7 days.
    #[serde(with = "humantime_serde")]
    pub duration: Duration,
    /// How many there are.
    pub fleet: Fleet,
    /// The ways between clients and providers.
    pub path: PathModel,
    /// The control plane.
    pub backend: BackendModel,
    /// What each client's user does. At most 16, and 100,000,000 packets of one client in all.
    pub work: Vec<Work>,
    /// What breaks. At most 256.
    pub fault: Vec<Fault>,
    /// What must hold; beyond what the checkers hold always.
    pub bounds: Bounds,
    /// What is claimed of quell beside what it is compared with.
    #[serde(skip_serializing_if = "Bars::is_empty")]
    pub bars: Bars,
}

/// How many there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fleet {
    /// Clients, 1 to 1,000,000.
    pub clients: u32,
    /// Providers, 1 to 10,000.
    pub providers: u16,
    /// Providers in a client's catalog, 1 to 32; all, where there are fewer.
    pub catalog: u16,
    /// Backends, 0 to 4.
    pub backends: u8,
    /// Over what time clients start, evenly: 0 is all at once. At most `duration`.
    #[serde(with = "humantime_serde")]
    pub start_over: Duration,
    /// New connections that one provider takes each second; beyond, first packets are lost. 1 to
    /// 10,000,000. `None`: any number.
    pub provider_handshakes_per_s: Option<u32>,
    /// First packets of dials that one provider bears in a second; with more it falls over, as with too many sessions.
    /// `None`: any number.
    pub provider_dials_per_s_max: Option<u32>,
    /// Sessions that one provider bears; with more it falls over, until `provider_restart` later. 1 to 1,000,000.
    /// `None`: any number.
    pub provider_sessions_max: Option<u32>,
    /// How long a provider that fell over is away. 1 ms to 1 day.
    #[serde(with = "humantime_serde")]
    pub provider_restart: Duration,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            clients: 1,
            providers: 1,
            catalog: 6,
            backends: 1,
            start_over: Duration::ZERO,
            provider_handshakes_per_s: None,
            provider_dials_per_s_max: None,
            provider_sessions_max: None,
            provider_restart: Duration::from_secs(30),
        }
    }
}

/// The ways between clients and providers, each the same and each its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathModel {
    /// Round trip without queues. 0 to 10 s.
    #[serde(with = "humantime_serde")]
    pub rtt: Duration,
    /// Uniform in ± around each direction's delay; at most half of `rtt`.
    #[serde(with = "humantime_serde")]
    pub jitter: Duration,
    /// Probability of loss, each direction: 0 to 1.
    pub loss: f64,
    /// A client's access, each direction, in bits/s: 1,000 to 100,000,000,000. `None`: no limit.
    pub rate_bits_per_s: Option<u64>,
    /// Drop-tail queue of that access, as time. 0 to 10 s.
    #[serde(with = "humantime_serde")]
    pub queue: Duration,
}

impl Default for PathModel {
    fn default() -> Self {
        Self {
            rtt: Duration::from_millis(50),
            jitter: Duration::ZERO,
            loss: 0.0,
            rate_bits_per_s: None,
            queue: Duration::from_millis(50),
        }
    }
}

/// The control plane.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendModel {
    /// How long it takes to answer when it is well, the way there and back included. 0 to 10 min.
    #[serde(with = "humantime_serde")]
    pub answer_time: Duration,
    /// Requests that it answers each second; beyond, 503. 1 to 10,000,000. `None`: any number.
    pub requests_per_s_max: Option<u32>,
    /// How often each client has a question of its own when all is well: a contract to renew, a catalog to look at. 1 s to 1
    /// day.
    #[serde(with = "humantime_serde")]
    pub demand_interval: Duration,
}

impl Default for BackendModel {
    fn default() -> Self {
        Self {
            answer_time: Duration::from_millis(80),
            requests_per_s_max: None,
            demand_interval: Duration::from_secs(60),
        }
    }
}

/// What a user does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Work {
    /// One packet of a TCP connection each `every`, first after a part of it that each client draws.
    Messages {
        /// Between two of them. 1 ms to 1 day.
        #[serde(with = "humantime_serde")]
        every: Duration,
        /// Length of each as an IP packet, 40 to 1,400.
        len_bytes: u16,
        /// Length of the world's answer to each: 40 to 1,400, or 0: none.
        answer_bytes: u16,
    },
    /// So many packets of one TCP connection at once.
    Burst {
        /// When; within the run.
        #[serde(with = "humantime_serde")]
        at: Duration,
        /// How many, 1 to 100,000.
        packets: u32,
        /// Length of each as an IP packet, 40 to 1,400.
        len_bytes: u16,
    },
    /// A TCP connection that sends at this rate from `at` until `until`.
    Stream {
        /// From when.
        #[serde(with = "humantime_serde")]
        at: Duration,
        /// Until when; within the run.
        #[serde(with = "humantime_serde")]
        until: Duration,
        /// At which rate, in bits/s: 1,000 to 100,000,000,000.
        bits_per_s: u64,
        /// Length of each packet as an IP packet, 40 to 1,400.
        len_bytes: u16,
    },
}

/// Whom a fault befalls.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Whom {
    /// `"all"`, or `"1%"` to `"100%"`: that part of them, the first ones, rounded up.
    Part(String),
    /// These, by number, counted from 0. One at least.
    These(Vec<u32>),
}

impl Default for Whom {
    fn default() -> Self {
        Self::Part("all".to_owned())
    }
}

/// Something that breaks, and heals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    /// What breaks.
    #[serde(flatten)]
    pub kind: FaultKind,
    /// When.
    #[serde(with = "humantime_serde")]
    pub at: Duration,
    /// Until when; within the run. For what happens at one moment: when it is undone, where that means anything.
    #[serde(with = "humantime_serde")]
    pub until: Duration,
    /// Providers, backends or clients that it befalls, whichever the kind is about.
    pub whom: Whom,
    /// It comes and goes with this period, half of it broken, the first half first. 100 ms to all of its time.
    /// `None`: it stays.
    #[serde(with = "humantime_serde::option")]
    pub flap: Option<Duration>,
}

/// What breaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum FaultKind {
    /// Ways to these providers swallow everything, in one direction or both.
    Blackhole {
        /// `both` (default), `up`, `down`.
        direction: Direction,
    },
    /// Packets arrive and QUIC is well, but whatever acknowledges or answers them is lost.
    AcksLost,
    /// Dials to these providers are refused at once; connections live on.
    DialsRefused,
    /// These providers die without a word, and come back at `until` without a memory.
    ProviderDeath,
    /// These providers are told to stop one after the other, evenly over the time, and come back after `away`.
    RollingRestart {
        /// How long each is away. 1 ms to 1 day; the last is back within the run.
        #[serde(with = "humantime_serde")]
        away: Duration,
    },
    /// These clients' own network is gone: nothing leaves, nothing comes.
    UplinkLoss,
    /// These clients' machines sleep: no timer fires, and what comes meets nobody.
    Suspend,
    /// These clients leave through one address: one provider's view of them is one source. A circumstance, no outage.
    SharedNat,
    /// Backends refuse connections.
    BackendRefuses,
    /// Backends say nothing.
    BackendSilent,
    /// Backends answer this late.
    BackendSlow {
        /// How late. 0 to 10 min.
        #[serde(with = "humantime_serde")]
        answer_time: Duration,
    },
    /// Backends answer 503.
    BackendUnavailable {
        /// What Retry-After says, if it is there. 0 to 1 day.
        #[serde(with = "humantime_serde::option")]
        retry_after: Option<Duration>,
    },
    /// This part of all calls fails.
    BackendFails {
        /// 0 to 1.
        part: f64,
    },
    /// Calls of one kind fail: `auth`, `catalog`, `contract`.
    BackendFailsOne {
        /// Which.
        work: String,
    },
    /// The wall clock of these clients is off by this many seconds. What only knows monotonic time must
    /// not notice.
    ClockOff {
        /// How much: −86,400 to 86,400.
        seconds: i64,
    },
}

/// In which direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Both.
    #[default]
    Both,
    /// From clients to providers.
    Up,
    /// From providers to clients.
    Down,
}

/// What must hold for the outcome of quell; a broken one ends a run with 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// Most hand-overs of one pack. 1 or more.
    pub max_sends_of_one_pack: Option<u32>,
    /// Slowest recovery of any client, in milliseconds.
    pub recovery_max_ms: Option<u64>,
    /// Most UDP bytes that all clients put out while anything was broken.
    pub outage_bytes_max: Option<u64>,
    /// Most requests at the backends in any second after the heal, over the mean of before. 0 to 10^9.
    pub backend_peak_over_steady_max: Option<f64>,
    /// Most dials at one provider in any second after the heal.
    pub provider_dials_per_s_max: Option<u64>,
    /// Items that were accepted and never came.
    pub lost_items_max: Option<u64>,
    /// Most providers that fell over.
    pub providers_fallen_max: Option<u64>,
}

/// What is claimed of quell beside others. One that does not hold is shown and fails nothing: it is partly another's figure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Bars {
    /// That quell's UDP bytes while anything is broken are at most 1/n of those of a policy of this name. n is 1 to 10^9; at
    /// most 16 policies.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outage_bytes_part: BTreeMap<String, u64>,
    /// That quell recovers soonest of all that are no ablation of it.
    pub recovers_first: bool,
}

impl Bars {
    /// Whether nothing is claimed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
