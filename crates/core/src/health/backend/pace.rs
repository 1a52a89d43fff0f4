//! When one kind of work may ask the backend.
//!
//! | backend | this kind | who may ask |
//! |---|---|---|
//! | well | no failure since its last success | everyone, `in_flight_max` at once |
//! | well | failed once or twice | `retry_interval` after the failure |
//! | degraded | any | one probe at a time, after 5, 10, 20, 30, 30 … s |
//!
//! Each kind of work is paced for itself, because only its own success ends what it
//! failed at: with one pace for all, a kind that fails could take every probe from one
//! that would succeed. A kind that is well while another is not is asked every
//! `probe_interval_min`, for as long as it keeps answering.
//!
//! There is no timer. Who is turned away is told when to come again, and who comes
//! after that probes at once; a kind that nobody asked for meanwhile (`IDLE_AFTER`)
//! starts its waits anew, so that a person who returns does not inherit last night's.
//! A probe that was granted moves the next one away at once, whatever becomes of it: a
//! row of cancelled probes is no faster than a row of failed ones.
//!
//! An attempt holds its place until it is reported or dropped, `attempt_timeout` at
//! most: a call that hangs is not in anybody's way after that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;

use super::super::backoff::{Backoff, after};
use super::super::sync::{AtomicBool, Ordering};
use super::{Wait, WaitReason};
use crate::config::BackendHealthConfig;

/// A kind of work that nobody asked for this long past its next probe begins anew.
const IDLE_AFTER: Duration = Duration::from_secs(30);

/// The place of an attempt among those in flight; dropping it, it ends.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicBool>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[derive(Debug)]
struct InFlight {
    ended: Arc<AtomicBool>,
    until: Instant,
    probe: bool,
}

/// How a kind of work and its backend stand when somebody asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// The backend is degraded, by this kind or another.
    pub(super) degraded: bool,
    /// This kind failed since its last success.
    pub(super) failed: bool,
}

#[derive(Debug)]
pub(super) struct Pace {
    backoff: Backoff,
    /// When the next request may go, if something failed.
    next: Option<Instant>,
    /// The backend asked to be left alone until then.
    hold: Option<Instant>,
    /// At most `in_flight_max`.
    in_flight: Vec<InFlight>,
    rng: SmallRng,
}

impl Pace {
    pub(super) fn new(config: &BackendHealthConfig, rng: SmallRng) -> Self {
        let (min, max) = (config.probe_interval_min, config.probe_interval_max);
        Self {
            backoff: Backoff::new(min, max, 0.75, 1.25),
            next: None,
            hold: None,
            in_flight: Vec::new(),
            rng,
        }
    }

    /// A place in flight, and whether it is a probe's; or when to ask again.
    pub(super) fn admit(
        &mut self,
        config: &BackendHealthConfig,
        standing: Standing,
        now: Instant,
    ) -> Result<(Place, bool), Wait> {
        let wait = |until, reason| Err(Wait { until, reason });
        self.settle(now);
        if let Some(until) = self.hold.filter(|until| now < *until) {
            return wait(until, WaitReason::RetryAfter);
        }
        let Standing { degraded, failed } = standing;
        if degraded {
            self.forget_when_idle(now);
            if let Some(probe) = self.in_flight.iter().find(|other| other.probe) {
                return wait(probe.until, WaitReason::ProbeInFlight);
            }
        }
        if let Some(until) = self.next_at(standing).filter(|until| now < *until) {
            let reason = match (degraded, failed) {
                (true, _) => WaitReason::Degraded,
                (false, _) => WaitReason::Failed,
            };
            return wait(until, reason);
        }
        if self.in_flight.len() >= config.in_flight_max.max(1) {
            let oldest = self.in_flight.iter().map(|other| other.until).min();
            return wait(oldest.unwrap_or(now), WaitReason::Busy);
        }
        if degraded {
            self.next = Some(after(now, self.backoff.draw(&mut self.rng)));
        }
        let ended = Arc::new(AtomicBool::new(false));
        self.in_flight.push(InFlight {
            ended: Arc::clone(&ended),
            until: after(now, config.attempt_timeout),
            probe: degraded,
        });
        Ok((Place(ended), degraded))
    }

    /// When the next request may go at the earliest; `None`: at any time.
    pub(super) fn next_at(&self, standing: Standing) -> Option<Instant> {
        let paced = standing.degraded || standing.failed;
        let next = self.next.filter(|_| paced);
        next.max(self.hold)
    }

    /// Who holds a place.
    pub(super) fn in_flight(&self, now: Instant) -> usize {
        let holds = |other: &&InFlight| now < other.until && !other.ended.load(Ordering::Acquire);
        self.in_flight.iter().filter(holds).count()
    }

    /// An attempt failed. `degraded`: this kind is, since or before that.
    pub(super) fn on_failed(
        &mut self,
        place: Option<Place>,
        config: &BackendHealthConfig,
        degraded: bool,
        now: Instant,
    ) {
        let was_probe = self.leave(place);
        // Stragglers from before the first probe do not lengthen the wait for it.
        if was_probe || degraded && self.backoff.failures() == 0 {
            self.next = Some(after(now, self.backoff.failed(&mut self.rng)));
        } else if !degraded {
            self.next = self.next.max(Some(after(now, config.retry_interval)));
        }
    }

    /// An attempt was answered. `elsewhere`: another kind of work is degraded yet.
    pub(super) fn on_answered(&mut self, place: Option<Place>, elsewhere: bool) {
        self.leave(place);
        self.backoff.succeeded();
        if !elsewhere {
            self.next = None;
        }
    }

    /// The answer of an attempt counted no more: only its place is free again.
    pub(super) fn on_outdated(&mut self, place: Option<Place>) {
        self.leave(place);
    }

    /// The backend asked for `wait`.
    pub(super) fn hold(&mut self, wait: Duration, config: &BackendHealthConfig, now: Instant) {
        let until = after(now, wait.min(config.retry_after_max));
        self.hold = self.hold.max(Some(until));
    }

    /// Whether the place was that of the present probe.
    fn leave(&mut self, place: Option<Place>) -> bool {
        let Some(place) = place else {
            return false;
        };
        let mine = |other: &InFlight| Arc::ptr_eq(&other.ended, &place.0);
        match self.in_flight.iter().position(mine) {
            Some(at) => self.in_flight.swap_remove(at).probe,
            None => false,
        }
    }

    /// Drops who was dropped, and who has been under way for too long.
    fn settle(&mut self, now: Instant) {
        let mut hung = false;
        self.in_flight.retain(|other| {
            let ended = other.ended.load(Ordering::Acquire);
            let overdue = now >= other.until;
            hung |= overdue && !ended && other.probe;
            !ended && !overdue
        });
        if hung {
            self.next = Some(after(now, self.backoff.failed(&mut self.rng)));
        }
        self.hold = self.hold.filter(|until| now < *until);
    }

    fn forget_when_idle(&mut self, now: Instant) {
        let idle = |next: Instant| now.saturating_duration_since(next) >= IDLE_AFTER;
        if self.next.is_some_and(idle) {
            self.backoff.succeeded();
        }
    }
}
