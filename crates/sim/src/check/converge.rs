//! After the heal everybody delivers again, within a bound.
//!
//! ## The bound
//!
//! What may lie between the heal and a client's next delivery, each after the other at worst:
//!
//! | what | how long | default |
//! |---|---|---|
//! | a dial begun before the heal, deep in QUIC's own backoff, runs out | `dial_timeout` | 15 s |
//! | its server's wait, or its own: they run at once | the larger of `max_backoff`, `reconnect_max` | 60 s |
//! | the minute under the quiet ceiling holds a dial again, and the draw after it | 61 s + 30 s | 91 s |
//! | dials of the other providers of the catalog go first | `dial_interval` · catalog | 30 s |
//! | the uplink is in doubt and one canary flies | `doubt_max` | 15 s |
//! | the window looks, and lets the provider in | `window_resize_interval` | 15 s |
//! | the dial itself | `dial_timeout` | 15 s |
//! | the user's own TCP opens its connection again: its longest wait | 64 s | 64 s |
//! | where packets are lost: one more dial, and its wait | | 75 s |
//!
//! The bound is reckoned from when there is something to deliver: an item that is offered later has as long from then.

use std::time::Duration;

use quell_core::config::ClientConfig;

use super::{Checker, Complaints, Fact, Terms, ns, seconds};
use crate::scenario::Scenario;

/// A minute by whole seconds.
const QUIET_MINUTE: Duration = Duration::from_secs(61);
/// `ROOM_SPREAD` of the core: the draw of a dial that waited for room.
const ROOM_SPREAD: Duration = Duration::from_secs(30);
/// The longest wait between two SYNs of a user.
const SYN_WAIT_MAX: Duration = Duration::from_secs(64);

/// Within what time of the heal each client delivers again.
#[must_use]
pub fn bound(client: &ClientConfig, scenario: &Scenario) -> Duration {
    let wait = client.dial_gate.max_backoff.max(client.reconnect_max);
    let catalog = scenario.fleet.catalog.min(scenario.fleet.providers);
    let lossy = scenario.path.loss > 0.0 || scenario.path.rate_bits_per_s.is_some();
    let again = if lossy {
        wait + client.dial_timeout
    } else {
        Duration::ZERO
    };
    client.dial_timeout
        + wait
        + QUIET_MINUTE
        + ROOM_SPREAD
        + client.dials.dial_interval * u32::from(catalog)
        + client.uplink.doubt_max
        + client.window.window_resize_interval
        + client.dial_timeout
        + SYN_WAIT_MAX
        + again
}

#[derive(Debug, Clone, Copy, Default)]
struct Recovery {
    /// Since when there is something to deliver after the heal.
    since_ns: Option<u64>,
    came_ns: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Converge {
    clients: Vec<Recovery>,
    healed_ns: u64,
    bound_ns: u64,
    duration_ns: u64,
}

impl Converge {
    pub(super) fn new(terms: &Terms) -> Self {
        Self {
            clients: vec![Recovery::default(); terms.clients()],
            healed_ns: terms.healed_ns.unwrap_or(0),
            bound_ns: ns(bound(&terms.client, &terms.scenario)),
            duration_ns: terms.duration_ns,
        }
    }
}

impl Checker for Converge {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Offered { client, .. } = *fact
            && now_ns >= self.healed_ns
        {
            let of = &mut self.clients[client as usize];
            of.since_ns.get_or_insert(now_ns);
        }
        if let Fact::Delivered { client, .. } = *fact
            && now_ns >= self.healed_ns
        {
            let of = &mut self.clients[client as usize];
            if of.came_ns.is_none() {
                of.came_ns = Some(now_ns);
                let since_ns = of.since_ns.unwrap_or(now_ns);
                if now_ns - since_ns > self.bound_ns {
                    let (took, most) = (seconds(now_ns - since_ns), seconds(self.bound_ns));
                    complaints.say(now_ns, format_args!(
                        "client {client} delivered again {took:.1} s after the heal, {most:.1} s at most"
                    ));
                }
            }
        }
        if !matches!(fact, Fact::Ended) {
            return;
        }
        for (client, of) in self.clients.iter().enumerate() {
            let Some(since_ns) = of.since_ns.filter(|_| of.came_ns.is_none()) else {
                continue;
            };
            if since_ns + self.bound_ns <= self.duration_ns {
                let since = seconds(since_ns);
                complaints.say(
                    now_ns,
                    format_args!(
                        "client {client} never delivered again: something waits since {since:.1} s"
                    ),
                );
            }
        }
    }
}
