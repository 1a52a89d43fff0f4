//! What breaks, as a sorted list of changes.
//!
//! A scenario says from when until when; a world wants to know what changes next. Faults of one kind may lie over each
//! other: each change adds or takes one reason, and something is broken while it has any. What flaps is broken in the
//! first half of each period. A fault that is never undone (a provider's death, a restart) has one change alone, and
//! what follows of it the world does by itself.

use std::time::Duration;

use crate::scenario::{Direction, Fault, FaultKind, Scenario, Whom};

/// Whom a change befalls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Set {
    /// The first so many.
    First(u32),
    /// These.
    These(Vec<u32>),
}

impl Set {
    /// Of `whom` out of `all`. What no scenario may say is nobody.
    pub(crate) fn of(whom: &Whom, all: u32) -> Self {
        match whom {
            Whom::These(numbers) => {
                let mut these: Vec<_> = numbers.iter().copied().filter(|n| *n < all).collect();
                these.sort_unstable();
                these.dedup();
                Self::These(these)
            }
            Whom::Part(text) if text.trim() == "all" => Self::First(all),
            Whom::Part(text) => {
                let percent = text.trim().trim_end_matches('%').parse::<f64>();
                let part = percent.unwrap_or(0.0).clamp(0.0, 100.0) / 100.0;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a part of a u32 fits it"
                )]
                Self::First((f64::from(all) * part).round() as u32)
            }
        }
    }

    /// Each of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (first, these): (_, &[u32]) = match self {
            Self::First(count) => (*count, &[]),
            Self::These(these) => (0, these),
        };
        (0..first).chain(these.iter().copied())
    }
}

/// What changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Ways to these providers lose what goes up, down or both.
    Cut { up: bool, down: bool },
    /// What acknowledges is lost on the way from these providers.
    AcksLost,
    /// Dials to these providers are refused.
    Refusing,
    /// These providers are dead.
    Dead,
    /// These providers are told to stop, and are away for so long.
    Restart { away_ns: u64 },
    /// These clients have no network.
    NoUplink,
    /// These clients sleep.
    Asleep,
    /// These clients have one address.
    SharedNat,
    /// The backend answers as the fault of this place in the scenario says.
    Backend { fault: usize },
}

/// One change at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moment {
    /// When, since the beginning.
    pub(crate) at_ns: u64,
    /// Whether it begins, or ends.
    pub(crate) begins: bool,
    /// What.
    pub(crate) change: Change,
    /// To whom.
    pub(crate) whom: Set,
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// All changes of a scenario, in their order.
pub(crate) fn moments(scenario: &Scenario) -> Vec<Moment> {
    let mut moments = Vec::new();
    for (index, fault) in scenario.fault.iter().enumerate() {
        add(&mut moments, scenario, index, fault);
    }
    // Stable: faults of one moment stay in the order of the scenario.
    moments.sort_by_key(|moment| moment.at_ns);
    moments
}

fn add(moments: &mut Vec<Moment>, scenario: &Scenario, index: usize, fault: &Fault) {
    let servers = u32::from(scenario.fleet.providers);
    let clients = scenario.fleet.clients;
    let (change, all) = match &fault.kind {
        FaultKind::Blackhole { direction } => (cut(*direction), servers),
        FaultKind::AcksLost => (Change::AcksLost, servers),
        FaultKind::DialsRefused => (Change::Refusing, servers),
        FaultKind::ProviderDeath => (Change::Dead, servers),
        FaultKind::RollingRestart { away } => {
            let set = Set::of(&fault.whom, servers);
            return add_rolling(moments, fault, ns(*away), &set);
        }
        FaultKind::UplinkLoss => (Change::NoUplink, clients),
        FaultKind::Suspend => (Change::Asleep, clients),
        FaultKind::SharedNat => (Change::SharedNat, clients),
        FaultKind::BackendRefuses
        | FaultKind::BackendSilent
        | FaultKind::BackendSlow { .. }
        | FaultKind::BackendUnavailable { .. }
        | FaultKind::BackendFails { .. }
        | FaultKind::BackendFailsOne { .. } => (
            Change::Backend { fault: index },
            u32::from(scenario.fleet.backends),
        ),
        // Nothing here knows a wall clock: that is what the fault is to show.
        FaultKind::ClockOff { .. } => return,
    };
    let whom = Set::of(&fault.whom, all);
    for (from, until) in spans(fault) {
        for (at_ns, begins) in [(from, true), (until, false)] {
            moments.push(Moment {
                at_ns,
                begins,
                change: change.clone(),
                whom: whom.clone(),
            });
        }
    }
}

fn cut(direction: Direction) -> Change {
    Change::Cut {
        up: direction != Direction::Down,
        down: direction != Direction::Up,
    }
}

fn add_rolling(moments: &mut Vec<Moment>, fault: &Fault, away_ns: u64, whom: &Set) {
    let all: Vec<_> = whom.iter().collect();
    let time = ns(fault.until.saturating_sub(fault.at));
    for (index, server) in all.iter().enumerate() {
        let part = u128::from(time) * index as u128 / (all.len() as u128).max(1);
        moments.push(Moment {
            at_ns: ns(fault.at) + u64::try_from(part).unwrap_or(0),
            begins: true,
            change: Change::Restart { away_ns },
            whom: Set::These(vec![*server]),
        });
    }
}

/// From when until when it is broken.
fn spans(fault: &Fault) -> Vec<(u64, u64)> {
    let (at, until) = (ns(fault.at), ns(fault.until));
    let Some(period) = fault.flap.map(ns).filter(|period| *period >= 2) else {
        return vec![(at, until)];
    };
    let begins = (0..).map_while(|n| at.checked_add(period.checked_mul(n)?));
    let begins = begins.take_while(|from| *from < until);
    begins
        .map(|from| (from, (from + period / 2).min(until)))
        .collect()
}

/// When anything is broken: from and until, joined where they touch.
pub(crate) fn broken(scenario: &Scenario) -> Vec<(u64, u64)> {
    let faults = scenario.outages();
    let mut all: Vec<_> = faults.map(|f| (ns(f.at), ns(f.healed_at()))).collect();
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, until) in all {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            Some(_) | None => joined.push((from, until)),
        }
    }
    joined
}
