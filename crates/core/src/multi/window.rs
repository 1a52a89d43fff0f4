//! Which exits a client keeps.
//!
//! ```text
//!            join                     evict                      its rest is over
//!  outside ────────→ member ────────────────────→ in quarantine ──────────────────→ outside
//!     ↑                │ leaves: one too many, and idle
//!     └────────────────┘
//! ```
//!
//! A member is dialled, redialled and kept warm; all others cost nothing. Membership is
//! slow, and it is not usability: whether a *flow* goes to a member is decided for each
//! flow (`choose`), so a member that does not answer loses its new flows at once and its
//! place only later, or never.
//!
//! A review, at least every `window_resize_interval` and whenever something happened
//! to an exit, goes through four questions, in this order:
//!
//! 1. *Fill*: fewer than `window_min` that mean to stay? Join. Nothing stops this but
//!    the end of the list: exits are needed most when the control plane is away.
//! 2. *Evict*: see [`may::may_evict`]. Who is evicted is replaced at once, and rests:
//!    60 s, then twice as long each time, 30 min at most.
//! 3. *Grow*: see [`may::may_grow`].
//! 4. *Shrink*: who is one too many and carries nothing leaves, without a rest.
//!
//! A *change* of membership is an eviction with its replacement, or a step of growth.
//!
//! An exit that a person *selected* is a member from the next review on, whatever is said against it; while it is not well
//! the window has one more.
//!
//! Between reviews a member is *avoided* whose score fell below half of the window's
//! median, until it is above four fifths of it: it gets no new flow while there is
//! another, so that it empties, and can be evicted without breaking anything.
//!
//! While all is well nothing is due: an idle client is not woken to look at itself.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;

use super::exit_id::ExitId;
use super::may::{self, Look, Surroundings};
use super::verdict::No;
use crate::config::WindowConfig;
use crate::flap::FlapDamper;
use crate::health::Backoff;

/// Below this part of the median score an exit is avoided (DESIGN §6).
const AVOID_BELOW: f64 = 0.5;
/// Above this part of it an exit is avoided no longer (DESIGN §6).
const ACCEPT_ABOVE: f64 = 0.8;
/// The random factor of a rest, inside its cap.
const REST_JITTER: (f64, f64) = (0.75, 1.25);

/// What a review decided about an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// It is a member now: it may be dialled.
    Join(ExitId),
    /// It is none any more: what is open on it ends.
    Leave(ExitId, String),
}

/// Numbers of a window, for people and programs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WindowStatus {
    /// Exits that are kept.
    pub members: usize,
    /// Exits that joined so far.
    pub joins: u64,
    /// Exits that were sent away so far.
    pub evictions: u64,
    /// Exits that left so far because they were one too many.
    pub departures: u64,
    /// Why the window does not grow, in words; empty when it just did.
    pub growth: String,
}

#[derive(Debug)]
struct Slot {
    member_since: Option<Instant>,
    rests_until: Option<Instant>,
    rest: Backoff,
    avoided: bool,
    /// Why it is not evicted, as of the last review.
    kept: Option<No>,
    /// Why it left last.
    left: String,
}

impl Slot {
    fn new(config: &WindowConfig) -> Self {
        let (low, high) = REST_JITTER;
        Self {
            member_since: None,
            rests_until: None,
            rest: Backoff::new(config.quarantine_base, config.quarantine_max, low, high),
            avoided: false,
            kept: None,
            left: "not needed so far".to_owned(),
        }
    }

    fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }
}

/// The window of one client.
#[derive(Debug)]
pub(super) struct Window {
    config: WindowConfig,
    slots: Vec<Slot>,
    evicted_at: VecDeque<Instant>,
    rng: SmallRng,
    reviewed_at: Instant,
    /// Something is not as it should be: the next review comes by itself.
    restless: bool,
    selected: Option<ExitId>,
    growth: Result<(), No>,
    status: WindowStatus,
}

impl Window {
    /// A window over `exits` providers that has no member yet.
    pub(super) fn new(config: WindowConfig, exits: usize, seed: u64, now: Instant) -> Self {
        let slot = || Slot::new(&config);
        Self {
            slots: std::iter::repeat_with(slot).take(exits).collect(),
            config,
            evicted_at: VecDeque::new(),
            rng: SmallRng::seed_from_u64(seed),
            reviewed_at: now,
            restless: true,
            selected: None,
            growth: Err(No::Sufficient),
            status: WindowStatus::default(),
        }
    }

    /// A place more.
    pub(super) fn add(&mut self) {
        self.slots.push(Slot::new(&self.config));
    }

    /// Another provider has this place.
    pub(super) fn renew(&mut self, exit: ExitId) {
        if let Some(slot) = self.slots.get_mut(exit.index()) {
            *slot = Slot::new(&self.config);
        }
    }

    /// Keeps this exit, whatever is said against it.
    pub(super) fn select(&mut self, exit: Option<ExitId>) {
        self.selected = exit;
    }

    /// Lets all members go, without a rest: whose they were.
    pub(super) fn dismiss(&mut self, why: &str) -> Vec<ExitId> {
        let ids = (0..).map(ExitId).zip(&self.slots);
        let members = ids.filter(|(_, slot)| slot.member_since.is_some());
        let members: Vec<_> = members.map(|(exit, _)| exit).collect();
        for exit in &members {
            self.leave(*exit, why, &mut Vec::new());
        }
        self.status.members = 0;
        members
    }

    // --- answers ---------------------------------------------------------

    pub(super) fn is_member(&self, exit: ExitId) -> bool {
        self.slot(exit)
            .is_some_and(|slot| slot.member_since.is_some())
    }

    pub(super) fn member_since(&self, exit: ExitId) -> Option<Instant> {
        self.slot(exit)?.member_since
    }

    /// Whether new flows go elsewhere if they can.
    pub(super) fn is_avoided(&self, exit: ExitId) -> bool {
        self.slot(exit).is_some_and(|slot| slot.avoided)
    }

    pub(super) fn members(&self) -> usize {
        self.status.members
    }

    fn slot(&self, exit: ExitId) -> Option<&Slot> {
        self.slots.get(exit.index())
    }

    /// Whether a review is due, whoever asks.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.reviewed_at) >= self.config.window_resize_interval
    }

    /// When the next review comes by itself.
    pub(super) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let next = self
            .reviewed_at
            .checked_add(self.config.window_resize_interval);
        next.filter(|_| self.restless).map(|at| (at, "window"))
    }

    pub(super) fn status(&self, now: Instant) -> WindowStatus {
        let growth = match self.growth {
            Ok(()) => String::new(),
            Err(no) => no.words(now),
        };
        WindowStatus {
            growth,
            ..self.status.clone()
        }
    }

    /// What an exit is to the window, in words.
    pub(super) fn words(&self, exit: ExitId, now: Instant) -> String {
        let Some(slot) = self.slot(exit) else {
            return "unknown".to_owned();
        };
        let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64());
        match (slot.member_since, slot.rests_until) {
            (Some(since), _) => {
                let age = seconds(now.saturating_duration_since(since));
                let avoided = if slot.avoided { ", avoided" } else { "" };
                match slot.kept {
                    None | Some(No::Well) => format!("a member for {age}{avoided}"),
                    Some(no) => format!("a member for {age}{avoided}; kept: {}", no.words(now)),
                }
            }
            (None, Some(until)) if now < until => {
                let left = seconds(until.saturating_duration_since(now));
                format!("in quarantine for {left}: {}", slot.left)
            }
            (None, _) => format!("outside: {}", slot.left),
        }
    }

    // --- the review ------------------------------------------------------

    /// Looks at all exits, one [`Look`] each in the order of the list, and decides.
    pub(super) fn review(
        &mut self,
        looks: &[Look],
        around: &Surroundings,
        damper: &mut FlapDamper<ExitId>,
        now: Instant,
    ) -> Vec<Step> {
        self.reviewed_at = now;
        self.forget(now);
        self.compare(looks);
        let mut steps = Vec::new();
        self.fill(looks, around, now, &mut steps);
        self.evict(looks, around, damper, now, &mut steps);
        self.grow(looks, around, now, &mut steps);
        self.shrink(looks, around, now, &mut steps);
        self.status.members = self.count();
        self.restless = self.is_restless(looks, around);
        steps
    }

    fn count(&self) -> usize {
        let member = |slot: &&Slot| slot.member_since.is_some();
        self.slots.iter().filter(member).count()
    }

    /// What is over: evictions of a while ago, and rests of those that did well since.
    fn forget(&mut self, now: Instant) {
        let old = |at: &Instant| now.saturating_duration_since(*at) >= self.config.eviction_period;
        while self.evicted_at.front().is_some_and(old) {
            self.evicted_at.pop_front();
        }
        let forgotten = self.config.quarantine_forgotten_after;
        for slot in &mut self.slots {
            let long = |since| now.saturating_duration_since(since) >= forgotten;
            if slot.member_since.is_some_and(long) {
                slot.rest.succeeded();
            }
        }
    }

    /// Marks members that do worse than the others.
    fn compare(&mut self, looks: &[Look]) {
        let mut scores: Vec<_> = looks
            .iter()
            .filter(|look| look.is_usable && self.is_member(look.exit))
            .map(|look| look.score)
            .collect();
        scores.sort_by(f64::total_cmp);
        let median = scores.get(scores.len() / 2).copied().unwrap_or(0.0);
        for (slot, look) in self.slots.iter_mut().zip(looks) {
            let below = |part: f64| look.score < part * median;
            slot.avoided = if slot.avoided {
                look.score <= ACCEPT_ABOVE * median
            } else {
                below(AVOID_BELOW)
            };
            slot.avoided &= slot.member_since.is_some() && look.is_usable && scores.len() > 1;
        }
    }

    /// Members that mean to stay; one that was selected, and is not well, is kept beside them.
    fn staying(&self, looks: &[Look]) -> usize {
        let fails = |look: &Look| self.selected == Some(look.exit) && !look.is_usable;
        let stays = |look: &&Look| self.is_member(look.exit) && !look.is_draining && !fails(look);
        looks.iter().filter(stays).count()
    }

    fn fill(&mut self, looks: &[Look], around: &Surroundings, now: Instant, steps: &mut Vec<Step>) {
        let selected = self.selected.filter(|exit| !self.is_member(*exit));
        if let Some(selected) = selected {
            self.join(selected, now, steps);
        }
        while self.staying(looks) < may::exits_least(around, &self.config) {
            // Better one that should rest than none.
            let next = self
                .draw(looks, false, now)
                .or_else(|| self.draw(looks, true, now));
            let Some(next) = next else { return };
            self.join(next, now, steps);
        }
    }

    /// An exit outside that could join, one that is ready if there is: drawn, the more
    /// often the higher its weight, so that many clients with one list do not all take the
    /// first of it.
    fn draw(&mut self, looks: &[Look], even_resting: bool, now: Instant) -> Option<ExitId> {
        let mut outside: Vec<_> = self.outside(looks, even_resting, now).collect();
        if outside.iter().any(|(_, _, is_ready)| *is_ready) {
            outside.retain(|(_, _, is_ready)| *is_ready);
        }
        let key = |(exit, weight, _): (ExitId, u32, bool)| {
            let unit: f64 = self.rng.random::<f64>().max(f64::MIN_POSITIVE);
            (exit, -unit.ln() / f64::from(weight.max(1)))
        };
        let least = outside
            .into_iter()
            .map(key)
            .min_by(|a, b| a.1.total_cmp(&b.1));
        least.map(|(exit, _)| exit)
    }

    fn outside(
        &self,
        looks: &[Look],
        even_resting: bool,
        now: Instant,
    ) -> impl Iterator<Item = (ExitId, u32, bool)> {
        let free =
            move |slot: &Slot| slot.member_since.is_none() && (even_resting || !slot.rests(now));
        let both = self.slots.iter().zip(looks);
        both.filter(move |(slot, look)| free(slot) && !look.is_draining)
            .map(|(_, look)| (look.exit, look.weight, look.is_ready))
    }

    fn join(&mut self, exit: ExitId, now: Instant, steps: &mut Vec<Step>) {
        if let Some(slot) = self.slots.get_mut(exit.index()) {
            slot.member_since = Some(now);
            (slot.rests_until, slot.kept, slot.avoided) = (None, None, false);
            self.status.joins += 1;
            steps.push(Step::Join(exit));
        }
    }

    fn leave(&mut self, exit: ExitId, why: &str, steps: &mut Vec<Step>) {
        if let Some(slot) = self.slots.get_mut(exit.index()) {
            slot.member_since = None;
            (slot.kept, slot.avoided) = (None, false);
            why.clone_into(&mut slot.left);
            steps.push(Step::Leave(exit, why.to_owned()));
        }
    }

    fn evict(
        &mut self,
        looks: &[Look],
        around: &Surroundings,
        damper: &mut FlapDamper<ExitId>,
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        let members: Vec<_> = looks.iter().filter(|l| self.is_member(l.exit)).collect();
        for look in members {
            if self.selected == Some(look.exit) {
                if let Some(slot) = self.slots.get_mut(look.exit.index()) {
                    slot.kept = Some(No::Selected);
                }
                continue;
            }
            let room = self.eviction_room(look, looks, now);
            match may::may_evict(look, around, &room, &self.config, damper, now) {
                Ok((_, why)) => self.send_away((look.exit, why), looks, around, now, steps),
                Err(no) => {
                    if let Some(slot) = self.slots.get_mut(look.exit.index()) {
                        slot.kept = Some(no);
                    }
                }
            }
        }
    }

    /// What the window leaves room for when `look` is to go.
    fn eviction_room(&self, look: &Look, looks: &[Look], now: Instant) -> may::EvictionRoom {
        let members = self.count();
        let half = (members / 2).max(1);
        let most = self.config.evictions_max.min(half);
        let frees_at = self
            .evicted_at
            .len()
            .checked_sub(most)
            .and_then(|index| self.evicted_at.get(index))
            .map(|at| *at + self.config.eviction_period);
        may::EvictionRoom {
            frees_at,
            is_replaced: self.outside(looks, false, now).next().is_some(),
            is_spare: self.staying(looks)
                >= self.config.window_min + usize::from(!look.is_draining),
        }
    }

    fn send_away(
        &mut self,
        (exit, why): (ExitId, &str),
        looks: &[Look],
        around: &Surroundings,
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        self.leave(exit, why, steps);
        let rest = self
            .slots
            .get_mut(exit.index())
            .map(|slot| slot.rest.failed(&mut self.rng));
        if let (Some(slot), Some(rest)) = (self.slots.get_mut(exit.index()), rest) {
            slot.rests_until = now.checked_add(rest);
        }
        self.status.evictions += 1;
        self.evicted_at.push_back(now);
        self.fill(looks, around, now, steps);
    }

    fn grow(&mut self, looks: &[Look], around: &Surroundings, now: Instant, steps: &mut Vec<Step>) {
        let next = self.draw(looks, false, now);
        let room = may::GrowthRoom {
            members: self.count(),
            has_candidate: next.is_some(),
        };
        self.growth = may::may_grow(around, &room, &self.config);
        if let (Ok(()), Some(next)) = (self.growth, next) {
            self.join(next, now, steps);
        }
    }

    /// Members that are too many and carry nothing, the worst first: one a review.
    fn shrink(
        &mut self,
        looks: &[Look],
        around: &Surroundings,
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        let wanted = may::exits_wanted(around, &self.config);
        if around.in_doubt || self.staying(looks) <= wanted {
            return;
        }
        let settled = |look: &&Look| {
            let since = self.slot(look.exit).and_then(|slot| slot.member_since);
            let age = since.map(|since| now.saturating_duration_since(since));
            let old = age.is_some_and(|age| age >= self.config.membership_min);
            let is_free = !look.is_primary && self.selected != Some(look.exit);
            old && look.flows == 0 && is_free && !look.is_draining
        };
        let worst = looks
            .iter()
            .filter(settled)
            .min_by(|a, b| (a.is_usable.cmp(&b.is_usable)).then(a.score.total_cmp(&b.score)));
        if let Some(exit) = worst.map(|look| look.exit) {
            self.status.departures += 1;
            self.leave(exit, "one exit too many", steps);
        }
    }

    /// Whether time alone may change something that matters: a member is not well, or
    /// there are too few or too many of them, and others to choose from.
    fn is_restless(&self, looks: &[Look], around: &Surroundings) -> bool {
        let member = |look: &&Look| self.is_member(look.exit);
        let unwell = looks.iter().filter(member).any(|look| !look.is_usable);
        let staying = self.staying(looks);
        let surplus = staying > may::exits_wanted(around, &self.config);
        let others = looks.len() > self.count();
        surplus || others && (unwell || staying < may::exits_least(around, &self.config))
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
