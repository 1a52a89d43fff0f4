//! Why something may not be done at the moment: what `status` and `why` show.
//!
//! Who may dial, grow, evict, race: one function each (`may`), which asks its
//! questions in a documented order and hands the first answer that is no on to
//! whoever wants to know.

use std::fmt;
use std::time::{Duration, Instant};

use crate::flap::Decision;

/// The first reason that was found against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum No {
    /// The control plane is degraded.
    Degraded,
    /// Bytes on the network beneath cost.
    Metered,
    /// It was selected.
    Selected,
    /// The own uplink is in doubt.
    UplinkInDoubt,
    /// The window has as many exits as it may.
    WindowFull,
    /// What there is carries what there is to carry.
    Sufficient,
    /// There is no exit left that could take part.
    Alone,
    /// The window would be smaller than it may.
    AtMinimum,
    /// As many left of late as may.
    EvictedEnough {
        /// When one more may leave.
        until: Instant,
    },
    /// It has not been a member for long enough.
    TooYoung {
        /// When it has.
        until: Instant,
    },
    /// Flows are open on it.
    CarriesFlows,
    /// It is well.
    Well,
    /// It left too often of late: it is held in.
    Held(Decision),
    /// Races are switched off.
    RacesOff,
    /// As many copies are under way as may be.
    RaceFull,
    /// Extra copies are out of budget.
    RaceBudget,
    /// It is not wanted in the window.
    NotWanted,
    /// Its own wait is not over, or a dial is under way.
    NotDue,
    /// There is no room under the quiet ceiling.
    Quiet {
        /// When there may be.
        until: Instant,
    },
    /// Its gate lets no dial through.
    Gate {
        /// When it may.
        until: Instant,
    },
    /// One dial finds out about the uplink, and it has been sent.
    CanarySent {
        /// When the next may go.
        until: Instant,
    },
    /// The process has dialled enough of late.
    DialBudget {
        /// When one more may start.
        until: Instant,
    },
}

impl No {
    /// When asking again may bring something else; `None`: when something happens.
    pub(super) fn until(self) -> Option<Instant> {
        match self {
            Self::EvictedEnough { until }
            | Self::TooYoung { until }
            | Self::Quiet { until }
            | Self::Gate { until }
            | Self::CanarySent { until }
            | Self::DialBudget { until } => Some(until),
            Self::Degraded
            | Self::Metered
            | Self::Selected
            | Self::UplinkInDoubt
            | Self::WindowFull
            | Self::Sufficient
            | Self::Alone
            | Self::AtMinimum
            | Self::CarriesFlows
            | Self::Well
            | Self::Held(_)
            | Self::RacesOff
            | Self::RaceFull
            | Self::RaceBudget
            | Self::NotWanted
            | Self::NotDue => None,
        }
    }

    /// In words, with the time that is left.
    pub(super) fn words(self, now: Instant) -> String {
        let left = self.until().map(|at| at.saturating_duration_since(now));
        match left.filter(|left| *left > Duration::ZERO) {
            Some(left) => format!("{self}, for {:.1} s", left.as_secs_f64()),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for No {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Degraded => "the backend is degraded",
            Self::Metered => "the network is metered",
            Self::Selected => "it was selected",
            Self::UplinkInDoubt => "the own uplink is in doubt",
            Self::WindowFull => "the window is full",
            Self::Sufficient => "the exits there are suffice",
            Self::Alone => "there is no other exit",
            Self::AtMinimum => "the window would be too small",
            Self::EvictedEnough { .. } => "enough exits left of late",
            Self::TooYoung { .. } => "it joined not long ago",
            Self::CarriesFlows => "flows are open on it",
            Self::Well => "it is well",
            Self::Held(Decision::DeniedByHost) => "it left too often of late and is held",
            Self::Held(Decision::DeniedByCatalog | Decision::Allowed) => {
                "too many exits left of late, and it is held"
            }
            Self::RacesOff => "races are off",
            Self::RaceFull => "as many copies are under way as may be",
            Self::RaceBudget => "the budget of copies is spent",
            Self::NotWanted => "it is not in the window",
            Self::NotDue => "its wait is not over",
            Self::Quiet { .. } => "room under the quiet ceiling",
            Self::Gate { .. } => "the provider's gate",
            Self::CanarySent { .. } => "the canary that finds out about the uplink",
            Self::DialBudget { .. } => "the budget of dials",
        })
    }
}
