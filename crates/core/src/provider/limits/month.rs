//! The month's ceiling: how many bytes may pass the egress until the calendar turns.
//!
//! ```text
//! Open ──bytes used up──→ Leaving{until} ──time over──→ Shut ──a later month──→ Open, nothing used
//!   ↑                          │ GOAWAY, nobody new        nobody is carried          │
//!   └──────────────────────────┴──────────a later month───────────────────────────────┘
//! ```
//!
//! The core knows no calendar; whoever drives it says what second it is ([`Ceiling::on_wall_clock`]), and keeps the count
//! where a restart finds it ([`MonthUse`]). Months are those of UTC, as bills of hosts are near enough.
//!
//! A clock may be wrong, and most are right later. So time only goes forward here: a month that was reached stays the
//! month until a later one comes, and with it its count. A clock that jumps a month ahead and back therefore costs the
//! owner at worst what was carried meanwhile, counted in the month ahead, and never begins a month twice.

use std::fmt;
use std::str::FromStr;
use std::time::Instant;

use serde::Serialize;

const DAY_S: u64 = 86_400;
/// The last year that can be told: four digits.
const YEAR_MAX: u32 = 9_999;

/// A calendar month of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: u16,
    /// 1 to 12.
    month: u8,
}

impl Month {
    /// The first there is: what a count belongs to before anybody said what time it is.
    pub const FIRST: Self = Self {
        year: 1970,
        month: 1,
    };

    /// The month of a moment, in seconds since 1970 (POSIX); the year 9999 has no end.
    pub fn of_unix(seconds: u64) -> Self {
        // Days since 0000-03-01, in eras of 400 years, each 146,097 days long: a leap day ends its year.
        let days = seconds / DAY_S + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let since_march = (5 * day_of_year + 2) / 153;
        let (month, carry) = match since_march {
            0..=9 => (since_march + 3, 0),
            _ => (since_march - 9, 1),
        };
        let year = (era * 400 + year + carry).min(u64::from(YEAR_MAX));
        Self {
            year: u16::try_from(year).unwrap_or(u16::MAX),
            month: u8::try_from(month).unwrap_or(12),
        }
    }

    /// The month after it.
    #[must_use]
    pub fn next(self) -> Self {
        match self.month {
            12 => Self {
                year: self.year.saturating_add(1),
                month: 1,
            },
            month => Self {
                year: self.year,
                month: month + 1,
            },
        }
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl Serialize for Month {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Month {
    type Err = NoMonth;

    fn from_str(text: &str) -> Result<Self, NoMonth> {
        let (year, month) = text.split_once('-').ok_or(NoMonth)?;
        let digits =
            |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(year, 4) || !digits(month, 2) {
            return Err(NoMonth);
        }
        let (year, month) = year.parse().ok().zip(month.parse().ok()).ok_or(NoMonth)?;
        let month = Self { year, month };
        let is_month = month >= Self::FIRST && (1..=12).contains(&month.month);
        is_month.then_some(month).ok_or(NoMonth)
    }
}

/// A text that names no month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no month such as \"2026-11\"")]
pub struct NoMonth;

/// How much was carried in which month: what a restart must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonthUse {
    /// The latest month that was heard of.
    pub month: Month,
    /// Bytes that passed the egress in it, both directions.
    pub bytes: u64,
}

impl Default for MonthUse {
    fn default() -> Self {
        Self {
            month: Month::FIRST,
            bytes: 0,
        }
    }
}

/// The month, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MonthStatus {
    /// Which.
    pub month: Month,
    /// Bytes that passed the egress in it, both directions.
    pub used_bytes: u64,
    /// The ceiling.
    pub bytes_max: Option<u64>,
    /// `open`, `leaving` (clients were told to go), or `shut`.
    pub state: &'static str,
}

/// What is to be done now that it was not before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider) enum Step {
    /// Tell everybody to go: the month is used up.
    Leave,
    /// Carry nobody any more.
    Shut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// `None`: nobody was told yet.
    Leaving(Option<Instant>),
    Shut,
}

/// The ceiling of a provider.
#[derive(Debug)]
pub(in crate::provider) struct Ceiling {
    bytes_max: Option<u64>,
    used: MonthUse,
    state: State,
    latest: Option<Instant>,
}

impl Ceiling {
    pub(in crate::provider) fn new(bytes_max: Option<u64>, used: MonthUse) -> Self {
        let is_over = bytes_max.is_some_and(|max| used.bytes >= max);
        Self {
            bytes_max,
            used,
            // Nobody is there yet who could be told.
            state: if is_over { State::Shut } else { State::Open },
            latest: None,
        }
    }

    /// It is `unix_s` seconds after 1970. Only a later month than any before changes anything.
    pub(in crate::provider) fn on_wall_clock(&mut self, unix_s: u64) {
        let month = Month::of_unix(unix_s);
        if month > self.used.month {
            self.used = MonthUse { month, bytes: 0 };
            self.state = State::Open;
        }
    }

    /// Another ceiling: below a higher one the month is open again, above a lower one it is used up.
    pub(in crate::provider) fn on_bytes_max(&mut self, bytes_max: Option<u64>, now: Instant) {
        self.bytes_max = bytes_max;
        let is_over = bytes_max.is_some_and(|max| self.used.bytes >= max);
        match (is_over, self.state) {
            (false, _) => self.state = State::Open,
            (true, State::Open) => {
                self.state = State::Leaving(None);
                self.latest = Some(now);
            }
            (true, State::Leaving(_) | State::Shut) => {}
        }
    }

    /// Bytes passed the egress.
    pub(in crate::provider) fn count(&mut self, bytes: usize, now: Instant) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.used.bytes = self.used.bytes.saturating_add(bytes);
        if self.state == State::Open && self.bytes_max.is_some_and(|max| self.used.bytes >= max) {
            self.state = State::Leaving(None);
            self.latest = Some(now);
        }
    }

    /// Whether nobody new may come.
    pub(in crate::provider) fn is_used_up(&self) -> bool {
        self.state != State::Open
    }

    /// When to call [`Ceiling::step`].
    pub(in crate::provider) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Leaving(until) => until.or(self.latest),
            State::Open | State::Shut => None,
        }
    }

    /// What is due at `now`, once; those who are told to go have `drain` for it.
    pub(in crate::provider) fn step(
        &mut self,
        drain: std::time::Duration,
        now: Instant,
    ) -> Option<Step> {
        match self.state {
            State::Leaving(None) => {
                self.state = State::Leaving(Some(now.checked_add(drain).unwrap_or(now)));
                Some(Step::Leave)
            }
            State::Leaving(Some(until)) if now >= until => {
                self.state = State::Shut;
                Some(Step::Shut)
            }
            State::Open | State::Leaving(Some(_)) | State::Shut => None,
        }
    }

    pub(in crate::provider) fn used(&self) -> MonthUse {
        self.used
    }

    /// The ceiling in words, for who is refused.
    pub(in crate::provider) fn words(&self) -> String {
        let MonthUse { month, bytes } = self.used;
        let next = month.next();
        format!(
            "{bytes} bytes were carried in {month}, as many as may be; it opens again with {next} (UTC)"
        )
    }

    pub(in crate::provider) fn status(&self) -> MonthStatus {
        MonthStatus {
            month: self.used.month,
            used_bytes: self.used.bytes,
            bytes_max: self.bytes_max,
            state: match self.state {
                State::Open => "open",
                State::Leaving(_) => "leaving",
                State::Shut => "shut",
            },
        }
    }
}
