//! Carries what waits for its turn at the device, in either direction.
//!
//! The core decides whose packet is next; this says how much the device takes, hands over what the core then gives, and
//! sees to it that the engine's own task wakes for the rest: at the core's time, or when the writer has taken a batch.
//! One task alone sleeps for that, whichever session's packets wait: whose they are is not known before they go.

use std::cell::Cell;
use std::time::Instant;

use quell_core::provider::Provider;
use tokio::sync::Notify;

use super::super::now;
use super::Shared;
use crate::pump::Outlet;

/// What the engine's task sleeps for, and the way to wake it when that is too late.
#[derive(Default)]
pub(super) struct Turns {
    changed: Notify,
    due: Cell<Option<Instant>>,
    /// Whether it wakes when the device has room.
    room: Cell<bool>,
}

impl Turns {
    /// Resolves when the engine's task sleeps for too long.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn note(&self, core: &Provider, outlet: &Outlet) {
        let due = core.poll_egress().map(|(at, _)| at);
        let is_sooner = due.is_some_and(|at| self.due.get().is_none_or(|told| at < told));
        let room = awaits_room(core, outlet);
        if is_sooner || room && !self.room.get() {
            self.changed.notify_one();
        }
    }
}

fn awaits_room(core: &Provider, outlet: &Outlet) -> bool {
    outlet.is_waiting() || core.awaits_egress_room()
}

impl Shared {
    /// When the engine's task has to look after turns, and whether also when the device has room.
    pub(super) fn next_turn(&self) -> (Option<Instant>, bool) {
        let (core, outlet) = (self.core.borrow(), self.outlet.borrow());
        let due = core.poll_egress().map(|(at, _)| at);
        let room = awaits_room(&core, &outlet);
        self.turns.due.set(due);
        self.turns.room.set(room);
        (due, room)
    }

    /// Does what is due in either direction.
    pub(super) fn handle_turns(&self) {
        let now = now();
        {
            let mut core = self.core.borrow_mut();
            core.handle_egress(now);
            self.pour(&mut core, &mut self.outlet.borrow_mut(), now);
        }
        self.wake_ready();
    }

    /// Hands the device what it takes of what waits.
    pub(super) fn pour(&self, core: &mut Provider, outlet: &mut Outlet, now: Instant) {
        outlet.flush();
        core.on_egress_room(outlet.free());
        while let Some(packet) = core.poll_delivery(now) {
            outlet.push(packet);
        }
        outlet.flush();
        self.turns.note(core, outlet);
    }
}
