//! What the person and the system say to a client: hold, sleep, another network, that exit.
//!
//! ```text
//! held:       no session, no dial; packets of the TUN are dropped, counted
//! suspended:  sessions stay, nothing is begun: no datagram, no dial, no timer; the TUN is not read
//! network:    another one: each session asks at once, and a dial that waits is due
//! metered:    one exit while it is well, no copy that the user's own TCP did not ask for
//! selected:   this exit carries new flows whenever it can
//! ```
//!
//! *Hold* is the person's pause: providers hear a farewell, and the device stays, so that nothing leaves in the clear.
//! *Suspension* is the system's: the process may be stopped at any moment, as under a closed lid, and a radio is not to be
//! woken. A client that was suspended is one whose timers come late, which each of them bears.
//!
//! *A network that changes* is told by who watches it. The systems tell it in bursts, an address at a time, so what is
//! done at once is done once a second, and the last change is never lost. A network that the system has not *validated*
//! (a captive portal, a router without uplink) draws no question at once; what waits goes on by its own pace, since the
//! system's word may be late or wrong.
//!
//! *Metered*: a warm exit costs a PING every keepalive, a copy of a SYN costs a SYN. Both buy time in an outage, so in
//! one, when no exit is usable, the window fills as it does elsewhere.
//!
//! *Selected* is a preference and no fence: where that exit does not answer, the others carry on, and new flows return
//! to it when it does: a person's word comes before "no fail-back". It keeps its place in the window whatever is said
//! against it.

use std::time::{Duration, Instant};

use super::client::Client;
use super::exit_id::ExitId;

/// What is done at once for a change of network is done once in this time: 1 s, as for all questions out of turn
/// (DESIGN §4).
pub const NETWORK_WAKE_INTERVAL: Duration = Duration::from_secs(1);

/// Why an exit is left while the client is held.
const HELD: &str = "held by the user";

/// The network beneath, as the system tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The system has seen that it leads to the world.
    pub validated: bool,
    /// Bytes on it cost.
    pub metered: bool,
}

impl Default for Network {
    /// One that leads somewhere, at no cost: what a client takes for given until it is told.
    fn default() -> Self {
        Self {
            validated: true,
            metered: false,
        }
    }
}

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Steering {
    pub(super) held: bool,
    pub(super) suspended: bool,
    pub(super) network: Network,
    /// When all exits were asked last because of the network.
    woken_at: Option<Instant>,
    /// When they are to be asked again for it.
    wake_due: Option<Instant>,
}

impl Steering {
    /// Whether exits are to be asked now that the network is another.
    fn on_network(&mut self, now: Instant) -> bool {
        let free_at = self.woken_at.map(|at| at + NETWORK_WAKE_INTERVAL);
        match free_at.filter(|at| now < *at) {
            Some(at) => {
                self.wake_due = Some(at);
                false
            }
            None => {
                (self.woken_at, self.wake_due) = (Some(now), None);
                true
            }
        }
    }

    fn take_due(&mut self, now: Instant) -> bool {
        let due = self.wake_due.is_some_and(|at| now >= at);
        if due {
            (self.woken_at, self.wake_due) = (Some(now), None);
        }
        due
    }

    pub(super) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.wake_due.map(|at| (at, "network"))
    }
}

impl Client {
    /// The network beneath is another, or what is known of it is. What was not known
    /// before, such as its price, counts from here on; see the module for what is done at once.
    pub fn on_network_changed(&mut self, network: Network, now: Instant) {
        self.now = now;
        let metered_before = std::mem::replace(&mut self.steering.network, network).metered;
        if metered_before != network.metered {
            self.review_wanted = true;
        }
        if network.validated && self.steering.on_network(now) {
            self.on_wake(now);
        }
    }

    /// Asks the exits that a change of network left unasked.
    pub(super) fn wake_if_due(&mut self, now: Instant) {
        if self.steering.take_due(now) {
            self.on_wake(now);
        }
    }

    /// The process may be stopped, or the device sleep: nothing is begun until [`Client::on_resumed`]. Facts are taken as
    /// ever.
    pub fn on_suspended(&mut self, now: Instant) {
        self.now = now;
        self.steering.suspended = true;
    }

    /// Ends [`Client::on_suspended`]: what is there may be another network, so every exit is asked at once, and what became
    /// due meanwhile is done.
    pub fn on_resumed(&mut self, now: Instant) {
        if std::mem::take(&mut self.steering.suspended) {
            self.on_wake(now);
            self.handle_timeout(now);
        }
    }

    /// Whether nothing is begun at the moment.
    pub fn is_suspended(&self) -> bool {
        self.steering.suspended
    }

    /// Ends all sessions and dials, and begins none until [`Client::release`].
    pub fn hold(&mut self, now: Instant) {
        self.now = now;
        if std::mem::replace(&mut self.steering.held, true) {
            return;
        }
        for exit in self.window.dismiss(HELD) {
            if let Some(of) = self.exits.get_mut(exit.index()) {
                of.leave(HELD, now);
                self.absorb(exit, now);
            }
        }
        self.review_wanted = false;
    }

    /// Ends [`Client::hold`]: the window fills and dials begin, each exit's own wait kept.
    pub fn release(&mut self, now: Instant) {
        self.now = now;
        if std::mem::take(&mut self.steering.held) {
            self.review_wanted = true;
            self.handle_timeout(now);
        }
    }

    /// Whether it is held.
    pub fn is_held(&self) -> bool {
        self.steering.held
    }

    /// Lets `exit` carry new flows whenever it is usable; `None`: whichever is best. Flows
    /// that are open stay where they are. An exit that there is not is none.
    pub fn select(&mut self, exit: Option<ExitId>, now: Instant) {
        self.now = now;
        let exit = exit.filter(|exit| exit.index() < self.exits.len());
        self.chooser.select(exit);
        self.window.select(exit);
        self.review(now);
        self.handle_timeout(now);
    }

    /// The exit that was selected.
    pub fn selected(&self) -> Option<ExitId> {
        self.chooser.selected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_of_changes_asks_at_once_and_once_more_at_its_end() {
        // case B33
        let t0 = Instant::now();
        let mut steering = Steering::default();
        assert!(steering.on_network(t0));
        assert_eq!(steering.poll_timeout(), None);
        for ms in 1..1_000 {
            assert!(!steering.on_network(t0 + Duration::from_millis(ms)));
        }
        assert_eq!(steering.poll_timeout(), Some((t0 + S, "network")));
        assert!(!steering.take_due(t0 + S - Duration::from_nanos(1)));
        assert!(steering.take_due(t0 + S));
        assert!(!steering.take_due(t0 + S));
        assert!(!steering.on_network(t0 + 2 * S - Duration::from_nanos(1)));
        assert!(steering.take_due(t0 + 2 * S));
        assert!(steering.on_network(t0 + 3 * S));
    }
}
