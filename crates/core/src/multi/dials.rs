//! Which exit is dialled, and when.
//!
//! [`Client::may_dial`] asks, in this order:
//!
//! 1. Is it wanted: a member of the window?
//! 2. Is it due: has its own wait (R-17, see `dial`) passed, is no dial under way?
//! 3. Is there room under the quiet ceiling? A dial that waited for room comes a random
//!    while after there is some, so that a provider's clients do not come together.
//! 4. Does the provider's own gate let one through?
//! 5. Is the uplink trusted, or is this the canary that finds out?
//! 6. Has the process dialled little enough of late, over all providers?
//!
//! What a later question denies gives back what an earlier one took: the room, and the
//! permit, whose dial then never happened.

use std::time::{Duration, Instant};

use rand::RngExt as _;

use super::client::Client;
use super::exit::Exit;
use super::exit_id::ExitId;
use super::verdict::No;
use crate::health::uplink_doubt::DialAdvice;

/// How much later than there is room a dial that waited for it comes, at most.
///
/// 30 s: clients that lost the same provider at the same moment spent the same bytes
/// at the same moments, and so have room again together. Half a minute's draw each
/// time has them spread over a minute after a handful of dials.
const ROOM_SPREAD: Duration = Duration::from_secs(30);

impl Client {
    /// Starts the dials that may start.
    pub(super) fn start_dials(&mut self, now: Instant) {
        for index in 0..self.exits.len() {
            // A member of the window is always live.
            if !self.exits.is_live(index) {
                continue;
            }
            let exit = self.exits[index].id;
            match self.may_dial(exit, now) {
                Ok(()) => self.exits.get_mut(index).map_or((), Exit::on_dialling),
                Err(no) => self.dial_waits(exit, no),
            }
            self.absorb(exit, now);
        }
    }

    /// Whether an exit may be dialled at `now`; if so, the dial has begun.
    fn may_dial(&mut self, exit: ExitId, now: Instant) -> Result<(), No> {
        if !self.window.is_member(exit) {
            return Err(No::NotWanted);
        }
        let Some(of) = self.exits.get_mut(exit.index()) else {
            return Err(No::NotWanted);
        };
        if !of.dial.is_due(now) {
            return Err(No::NotDue);
        }
        if let Err(until) = self.quiet.reserve_dial(exit, now) {
            let until = until + ROOM_SPREAD.mul_f64(self.rng.random());
            return Err(No::Quiet { until });
        }
        let result = Self::pass_gates(of, &mut self.doubt, &mut self.dial_budget, now);
        if result.is_err() {
            self.quiet.on_dial_ended(exit);
        }
        result
    }

    fn pass_gates(
        exit: &mut Exit,
        doubt: &mut crate::health::uplink_doubt::UplinkDoubt,
        budget: &mut crate::budget::DialBudget,
        now: Instant,
    ) -> Result<(), No> {
        exit.dial
            .start(now)
            .map_err(|retry| No::Gate { until: retry.at })?;
        let denied = match doubt.admit_dial(now) {
            DialAdvice::Wait(until) => Err(No::CanarySent { until }),
            DialAdvice::Go | DialAdvice::Canary => {
                let spent = budget.take(now);
                spent.map_err(|until| No::DialBudget { until })
            }
        };
        if denied.is_err() {
            exit.dial.cancel(now);
        }
        denied
    }

    /// A dial that is due waits for something. Why there is one to dial stays said.
    fn dial_waits(&mut self, exit: ExitId, no: No) {
        const WAITS: &str = "; the next dial waits for ";
        let Some(exit) = self.exits.get_mut(exit.index()) else {
            return;
        };
        let Some(until) = no.until() else { return };
        let end = exit.reason.find(WAITS).unwrap_or(exit.reason.len());
        exit.reason.truncate(end);
        exit.reason.push_str(WAITS);
        exit.reason.push_str(&no.to_string());
        exit.dial.postpone(until);
    }
}
