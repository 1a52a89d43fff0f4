//! How often hosts may go down in the eyes of others, and which connections only flap.
//!
//! *Intuition.* Whoever watches a catalog acts on each change: moves flows, dials,
//! tells others. A host that goes up and down ten times a second makes all of them
//! act ten times a second (case B24). What protects them is not to believe the bad
//! news so often. Good news may always be believed: it moves nobody away.
//!
//! | file | question |
//! |---|---|
//! | `damper` | may this host become unhealthy at this moment ([`FlapDamper`]) |
//! | `hosts` | what is remembered of each host, and of how many |
//! | `uptime` | which host accepts connections that then do not live ([`FlapCounter`]) |
//!
//! Both are usable alone, for any catalog: the example `flap_damper` of `quell-sim` is a
//! small one.

mod damper;
mod hosts;
mod uptime;

pub use damper::{Decision, Evidence, FlapDamper};
pub use hosts::{FlapCounters, HostStatus};
pub use uptime::FlapCounter;
