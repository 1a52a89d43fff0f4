//! Whether the wall clock can be believed to have come as far as it says.
//!
//! What is forgotten does not come back, and what is past its retention is told by the wall clock. One that jumps to 2100
//! would have all contracts forgotten, and every receipt that is still to come refused for good. So the wall clock is held
//! against the monotonic one: after they went apart, nothing is forgotten for [`STEADY_AFTER`], in which everybody
//! is refused for his clock and somebody will set it right. The same holds after a start, when there is nothing to
//! compare with.
//!
//! ```text
//!  start, jump ──→ unsteady ──(STEADY_AFTER without a jump)──→ steady ──(jump)──→ unsteady
//! ```

use std::time::{Duration, Instant};

/// How far the two clocks may go apart between two looks: more than slewing does in five minutes, less than anything that
/// matters beside a retention of days.
const JUMP: Duration = Duration::from_secs(60);
/// How long there must be no jump. 1 h: an outage that long is noticed, and forgetting later costs room on a disk.
const STEADY_AFTER: Duration = Duration::from_secs(3_600);

/// The two clocks at the last look, and since when they go together.
#[derive(Debug)]
pub(super) struct Steady {
    since: Instant,
    last: (Instant, u64),
}

impl Steady {
    pub(super) fn new(now: Instant, wall_s: u64) -> Self {
        Self {
            since: now,
            last: (now, wall_s),
        }
    }

    /// Looks at both clocks: whether the wall clock is to be believed.
    pub(super) fn look(&mut self, now: Instant, wall_s: u64) -> bool {
        let (last, last_s) = self.last;
        let passed_s = now.saturating_duration_since(last).as_secs();
        if wall_s.abs_diff(last_s.saturating_add(passed_s)) > JUMP.as_secs() {
            self.since = now;
        }
        self.last = (now, wall_s);
        now.saturating_duration_since(self.since) >= STEADY_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S_2026: u64 = 1_790_000_000;
    const S_2100: u64 = 4_102_444_800;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn it_is_believed_after_an_hour_and_not_before() {
        let start = Instant::now();
        let mut steady = Steady::new(start, S_2026);
        assert!(!steady.look(at(start, 3_599), S_2026 + 3_599));
        assert!(steady.look(at(start, 3_600), S_2026 + 3_600));
    }

    #[test]
    fn a_jump_either_way_ends_it_for_an_hour() {
        for jumped_s in [S_2026 - 3_600, S_2026 + 3_600, 0, S_2100, u64::MAX] {
            let start = Instant::now();
            let mut steady = Steady::new(start, S_2026);
            assert!(steady.look(at(start, 3_600), S_2026 + 3_600));
            assert!(!steady.look(at(start, 3_900), jumped_s), "{jumped_s}");
            let later_s = jumped_s.saturating_add(3_599);
            assert!(!steady.look(at(start, 7_499), later_s), "{jumped_s}");
            let later_s = jumped_s.saturating_add(3_600);
            assert!(steady.look(at(start, 7_500), later_s), "{jumped_s}");
        }
    }

    #[test]
    fn a_minute_is_slewing_and_a_second_more_is_a_jump() {
        for (apart_s, is_steady) in [(60, true), (61, false)] {
            let start = Instant::now();
            let mut steady = Steady::new(start, S_2026);
            let now = at(start, 3_600);
            assert_eq!(steady.look(now, S_2026 + 3_600 + apart_s), is_steady);
        }
    }
}
