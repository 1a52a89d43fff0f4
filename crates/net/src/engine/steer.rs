//! The way from whoever embeds a client to its engine: network, sleep, hold, selection.
//!
//! What is said is a state, not a queue: calls come from any thread, in any number, never wait, and the engine sees the
//! last of each. What happened once and leaves no state, a network that changed or a wake-up, is counted, so that it is
//! not lost between two looks. What it means is the core's, [`quell_core::multi`].

use std::sync::Arc;
use std::time::Instant;

use quell_core::multi::{Client, ExitId, Network};
use quell_wire::key::PublicKey;
use tokio::sync::watch;

/// What is wanted of a client.
#[derive(Debug, Clone, Copy, Default)]
struct Wishes {
    network: Network,
    /// Changes of network so far.
    networks: u64,
    suspended: bool,
    /// Ends of suspensions so far.
    wakes: u64,
    held: bool,
    selected: Option<PublicKey>,
}

/// Steers a client, from any thread, without waiting. Clones steer the same one.
#[derive(Debug, Clone)]
pub struct Steer(Arc<watch::Sender<Wishes>>);

impl Steer {
    /// The network beneath is another, or what the system knows of it is: see [`Client::on_network_changed`].
    pub fn network_changed(&self, network: Network) {
        self.0.send_modify(|wishes| {
            wishes.network = network;
            wishes.networks += 1;
        });
    }

    /// The system may stop the process at any moment: see [`Client::on_suspended`].
    pub fn suspended(&self) {
        self.0.send_modify(|wishes| wishes.suspended = true);
    }

    /// It will not: see [`Client::on_resumed`].
    pub fn resumed(&self) {
        self.0.send_modify(|wishes| {
            wishes.suspended = false;
            wishes.wakes += 1;
        });
    }

    /// Begins or ends the person's pause: see [`Client::hold`].
    pub fn hold(&self, held: bool) {
        self.0.send_modify(|wishes| wishes.held = held);
    }

    /// Lets the exit of this key carry new flows whenever it can; `None`: whichever is best. One that is not known
    /// counts from when a catalog names it: see [`Client::select`].
    pub fn select(&self, exit: Option<PublicKey>) {
        self.0.send_modify(|wishes| wishes.selected = exit);
    }
}

/// The engine's end.
#[derive(Debug)]
pub(super) struct Steered {
    told: watch::Receiver<Wishes>,
    done: Wishes,
    /// What the selected key stands for.
    selected: Option<ExitId>,
    /// There is something to look at.
    is_due: bool,
}

pub(super) fn pair() -> (Steer, Steered) {
    let (tell, told) = watch::channel(Wishes::default());
    let steered = Steered {
        told,
        done: Wishes::default(),
        selected: None,
        is_due: true,
    };
    (Steer(Arc::new(tell)), steered)
}

impl Steered {
    /// Resolves when something is wanted; never where nobody can say anything any more.
    pub(super) async fn changed(&mut self) {
        if self.told.changed().await.is_err() {
            std::future::pending().await
        }
        self.is_due = true;
    }

    /// Other exits may be known: what was selected may be among them.
    pub(super) fn look_again(&mut self) {
        self.is_due = true;
    }

    /// Hands on what is new. `place` says where the exit of a key is.
    pub(super) fn apply(
        &mut self,
        core: &mut Client,
        place: impl Fn(&PublicKey) -> Option<ExitId>,
        now: Instant,
    ) {
        // A look at two words: it is taken in each turn of the engine.
        if !std::mem::take(&mut self.is_due) && !self.told.has_changed().unwrap_or(false) {
            return;
        }
        let wishes = *self.told.borrow_and_update();
        let done = std::mem::replace(&mut self.done, wishes);
        // A sleep that began and ended between two looks is a sleep, too.
        if wishes.wakes != done.wakes && !done.suspended {
            core.on_suspended(now);
        }
        match wishes.suspended {
            true => core.on_suspended(now),
            false => core.on_resumed(now),
        }
        if wishes.networks != done.networks {
            core.on_network_changed(wishes.network, now);
        }
        match wishes.held {
            true => core.hold(now),
            false => core.release(now),
        }
        let selected = wishes.selected.as_ref().and_then(place);
        if std::mem::replace(&mut self.selected, selected) != selected {
            core.select(selected, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use quell_core::config::ClientConfig;

    use super::*;

    #[test]
    fn the_last_word_counts_and_what_happened_once_is_not_lost() {
        let now = Instant::now();
        let mut core = Client::new(ClientConfig::default(), "test", 1_400, 1, now);
        let (steer, mut steered) = pair();
        let key = PublicKey([7; 32]);
        let place = |asked: &PublicKey| (*asked == key).then_some(ExitId(0));
        steer.hold(true);
        steer.suspended();
        steer.select(Some(key));
        steered.apply(&mut core, place, now);
        let state = |core: &Client| (core.is_held(), core.is_suspended(), core.selected());
        assert_eq!(state(&core), (true, true, Some(ExitId(0))));
        steer.hold(false);
        steer.hold(true);
        steer.resumed();
        steer.select(Some(PublicKey([8; 32])));
        steered.apply(&mut core, place, now);
        assert_eq!(state(&core), (true, false, None));
        steer.hold(false);
        steered.apply(&mut core, place, now);
        assert_eq!(state(&core), (false, false, None));
    }
}
