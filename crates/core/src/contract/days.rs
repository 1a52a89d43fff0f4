//! For how long a fresh key is one: the rule of both who makes keys and who takes them.
//!
//! A client is another key to each provider and on each day. A session keeps the key that it began with, past midnight and
//! over connections, so older days count too: [`KEY_DAYS_BACK`] of them, a week, which no session of a device that is
//! carried about outlives. A day ahead counts as well: clocks differ, and midnight is somewhere.

use std::ops::RangeInclusive;

/// Seconds of a day.
const DAY_S: u64 = 86_400;
/// How many days ago a key may have become one.
pub const KEY_DAYS_BACK: u32 = 7;
/// How many days ahead it may be one already.
pub const KEY_DAYS_AHEAD: u32 = 1;

/// The day of a wall clock, in days since 1970 UTC.
#[must_use]
pub fn day_of(wall_s: u64) -> u32 {
    u32::try_from(wall_s / DAY_S).unwrap_or(u32::MAX)
}

/// The days whose keys a backend takes.
#[must_use]
pub fn taken_days(wall_s: u64) -> RangeInclusive<u32> {
    let today = day_of(wall_s);
    today.saturating_sub(KEY_DAYS_BACK)..=today.saturating_add(KEY_DAYS_AHEAD)
}

/// The days whose keys a client may still be known by, the latest first.
pub fn own_days(wall_s: u64) -> impl Iterator<Item = u32> {
    let today = day_of(wall_s);
    (today.saturating_sub(KEY_DAYS_BACK)..=today).rev()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_takes_every_key_that_a_client_uses_and_one_day_more_ahead() {
        let wall_s = 20_000 * DAY_S + 5;
        assert_eq!(taken_days(wall_s), 19_993..=20_001);
        let own: Vec<_> = own_days(wall_s).collect();
        assert_eq!(
            (own.len(), own.first(), own.last()),
            (8, Some(&20_000), Some(&19_993))
        );
        assert!(own.iter().all(|day| taken_days(wall_s).contains(day)));
    }

    #[test]
    fn clocks_at_either_end_of_time_have_days_too() {
        assert_eq!(taken_days(0), 0..=1);
        assert_eq!(own_days(0).collect::<Vec<_>>(), [0]);
        assert_eq!(*taken_days(u64::MAX).end(), u32::MAX);
    }
}
