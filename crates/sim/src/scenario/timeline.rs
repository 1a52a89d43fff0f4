//! When what is broken, and who is befallen.
//!
//! ```text
//!        at                         until
//! steady ├──────── broken ────────────┤ healed
//! flap   ├████░░░░████░░░░████░░░░████┤            █ acts, ░ does not
//! ```
//!
//! A fault that comes and goes *acts* in the first half of each period. The *outage* is all of it: between two of its
//! strokes nothing has healed, and what is spent there is spent on its account. Spans are half open: at `until` a fault
//! does not act.

use std::time::Duration;

use super::{Fault, FaultKind, Fleet, Scenario, Whom};

impl Scenario {
    /// When the last fault is over; zero where nothing breaks.
    #[must_use]
    pub fn healed_at(&self) -> Duration {
        let healed = self.outages().map(Fault::healed_at);
        healed.max().unwrap_or_default()
    }

    /// When the first fault begins; `None`: nothing breaks.
    #[must_use]
    pub fn breaks_at(&self) -> Option<Duration> {
        self.outages().map(|fault| fault.at).min()
    }

    /// Whether anything is broken at `t`, the calm halves of what flaps included.
    #[must_use]
    pub fn broken_at(&self, t: Duration) -> bool {
        let mut outages = self.outages();
        outages.any(|fault| (fault.at..fault.healed_at()).contains(&t))
    }

    /// Faults that are one: sharing an address is a circumstance, in which nothing is broken.
    pub fn outages(&self) -> impl Iterator<Item = &Fault> {
        let faults = self.fault.iter();
        faults.filter(|fault| !matches!(fault.kind, FaultKind::SharedNat))
    }

    /// The next moment after `t` at which a fault begins or ceases to act, or is over.
    #[must_use]
    pub fn next_change_after(&self, t: Duration) -> Option<Duration> {
        let changes = self
            .fault
            .iter()
            .filter_map(|fault| fault.next_change_after(t));
        changes.min()
    }

    /// Each fault's name, and from when until when it is, in milliseconds.
    #[must_use]
    pub fn faults_ms(&self) -> Vec<(String, u64, u64)> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let faults = self.fault.iter();
        faults
            .map(|fault| (fault.in_words(), ms(fault.at), ms(fault.healed_at())))
            .collect()
    }
}

impl Fault {
    /// When it is over: what restarts last is away for a while after `until`.
    #[must_use]
    pub fn healed_at(&self) -> Duration {
        match self.kind {
            FaultKind::RollingRestart { away } => self.until.saturating_add(away),
            FaultKind::Blackhole { .. }
            | FaultKind::AcksLost
            | FaultKind::DialsRefused
            | FaultKind::ProviderDeath
            | FaultKind::UplinkLoss
            | FaultKind::Suspend
            | FaultKind::SharedNat
            | FaultKind::BackendRefuses
            | FaultKind::BackendSilent
            | FaultKind::BackendSlow { .. }
            | FaultKind::BackendUnavailable { .. }
            | FaultKind::BackendFails { .. }
            | FaultKind::BackendFailsOne { .. }
            | FaultKind::ClockOff { .. } => self.until,
        }
    }

    /// Whether it acts at `t`.
    #[must_use]
    pub fn acts_at(&self, t: Duration) -> bool {
        if !(self.at..self.until).contains(&t) {
            return false;
        }
        match self.flap {
            None => true,
            Some(period) => (t - self.at).as_nanos() % period.as_nanos().max(1) < half(period),
        }
    }

    /// The next moment after `t` at which it begins or ceases to act, or is over.
    #[must_use]
    pub fn next_change_after(&self, t: Duration) -> Option<Duration> {
        if t < self.at {
            return Some(self.at);
        }
        if t >= self.until {
            return Some(self.healed_at()).filter(|healed| *healed > t);
        }
        let Some(period) = self.flap else {
            return Some(self.until);
        };
        let since = (t - self.at).as_nanos() % period.as_nanos().max(1);
        let next = match since < half(period) {
            true => half(period) - since,
            false => period.as_nanos().max(1) - since,
        };
        let next = Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX));
        Some(t.saturating_add(next).min(self.until))
    }

    /// What it is and whom it befalls.
    #[must_use]
    pub fn in_words(&self) -> String {
        let whom = match &self.whom {
            Whom::Part(part) if part == "all" => String::new(),
            Whom::Part(part) => format!(" of {part}"),
            Whom::These(these) => match these.as_slice() {
                [one] => format!(" of {one}"),
                many => format!(" of {} by number", many.len()),
            },
        };
        let flap = self
            .flap
            .map_or(String::new(), |period| format!(", each {period:?}"));
        format!("{}{whom}{flap}", self.kind.name())
    }
}

/// In nanoseconds, rounded up: a period has a beginning.
fn half(period: Duration) -> u128 {
    period.as_nanos().div_ceil(2)
}

impl FaultKind {
    /// Its word in TOML.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Blackhole { .. } => "blackhole",
            Self::AcksLost => "acks-lost",
            Self::DialsRefused => "dials-refused",
            Self::ProviderDeath => "provider-death",
            Self::RollingRestart { .. } => "rolling-restart",
            Self::UplinkLoss => "uplink-loss",
            Self::Suspend => "suspend",
            Self::SharedNat => "shared-nat",
            Self::BackendRefuses => "backend-refuses",
            Self::BackendSilent => "backend-silent",
            Self::BackendSlow { .. } => "backend-slow",
            Self::BackendUnavailable { .. } => "backend-unavailable",
            Self::BackendFails { .. } => "backend-fails",
            Self::BackendFailsOne { .. } => "backend-fails-one",
            Self::ClockOff { .. } => "clock-off",
        }
    }

    /// How many there are of what it is about.
    #[must_use]
    pub fn count(&self, fleet: &Fleet) -> u32 {
        match self {
            Self::Blackhole { .. }
            | Self::AcksLost
            | Self::DialsRefused
            | Self::ProviderDeath
            | Self::RollingRestart { .. } => fleet.providers.into(),
            Self::UplinkLoss | Self::Suspend | Self::SharedNat | Self::ClockOff { .. } => {
                fleet.clients
            }
            Self::BackendRefuses
            | Self::BackendSilent
            | Self::BackendSlow { .. }
            | Self::BackendUnavailable { .. }
            | Self::BackendFails { .. }
            | Self::BackendFailsOne { .. } => fleet.backends.into(),
        }
    }
}

/// Whom a fault befalls, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// Those below this number.
    First(u32),
    /// These, in order.
    These(Vec<u32>),
}

impl Members {
    /// Of `of` that there are, those that the text says: `all`, or `1%` to `100%`, rounded up.
    pub(super) fn part(text: &str, of: u32) -> Option<Self> {
        if text == "all" {
            return Some(Self::First(of));
        }
        let digits = text.strip_suffix('%')?;
        // `parse` would take a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let percent: u64 = digits.parse().ok().filter(|n| (1..=100).contains(n))?;
        let count = (u64::from(of) * percent).div_ceil(100);
        Some(Self::First(u32::try_from(count).unwrap_or(of)))
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        match self {
            Self::First(count) => number < *count,
            Self::These(numbers) => numbers.binary_search(&number).is_ok(),
        }
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (first, these) = match self {
            Self::First(count) => (*count, [].as_slice()),
            Self::These(numbers) => (0, numbers.as_slice()),
        };
        (0..first).chain(these.iter().copied())
    }
}

impl Whom {
    /// Whom it means, of `of` that there are. A text that says nothing means nobody; a checked scenario has none.
    #[must_use]
    pub fn members(&self, of: u32) -> Members {
        match self {
            Self::Part(text) => Members::part(text, of).unwrap_or(Members::First(0)),
            Self::These(numbers) => {
                let mut numbers = numbers.clone();
                numbers.sort_unstable();
                numbers.dedup();
                numbers.retain(|number| *number < of);
                Members::These(numbers)
            }
        }
    }
}
