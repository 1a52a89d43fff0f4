//! How well an exit does.
//!
//! ```text
//! score = arrived share × (1 − resent share) × 20 ms ÷ (20 ms + RTT) × ½ ^ failures
//! ```
//!
//! - *Arrived share*: of what was sent in the last one to two minutes, what was
//!   acknowledged. It is counted when sent, so an exit that hangs looks bad while it
//!   hangs and not when it is over (case B15).
//! - *RTT*: 20 ms more or less are what people do not feel, so exits nearer than that
//!   are alike. Without a measurement it is taken for [`RTT_UNKNOWN`].
//! - *Failures* halve the score, each forgotten by half within a minute. They never
//!   improve it, however fast they come (case B14).
//!
//! A score has no unit: scores are compared with each other, never with a constant.

use std::time::{Duration, Instant};

/// Distances below this do not matter.
const RTT_NEAR: Duration = Duration::from_millis(20);
/// What an exit is taken for that was not measured: a far one.
const RTT_UNKNOWN: Duration = Duration::from_millis(300);
/// Time after which half of a failure is forgotten.
const FAILURE_HALF_LIFE: Duration = Duration::from_secs(60);
/// How long what was sent counts at least; twice that at most.
const MEMORY: Duration = Duration::from_secs(60);

/// Totals of a path's acknowledged packets since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Packs sent for the first time.
    pub(crate) sent: u64,
    /// Packs acknowledged.
    pub(crate) acked: u64,
    /// Packs sent again because they were lost.
    pub(crate) resent: u64,
}

impl Carried {
    fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            acked: self.acked.saturating_sub(earlier.acked),
            resent: self.resent.saturating_sub(earlier.resent),
        }
    }
}

/// The score of one exit.
#[derive(Debug, Clone, Default)]
pub(super) struct Score {
    /// Totals when the older and when the newer half of the memory began.
    marks: [Carried; 2],
    marked_at: Option<Instant>,
    last: Carried,
    rtt: Option<Duration>,
    failures: f64,
    failed_at: Option<Instant>,
}

impl Score {
    /// The exit failed: a dial, a stall, a session that is gone.
    pub(super) fn on_failure(&mut self, now: Instant) {
        self.failures = self.failures(now) + 1.0;
        self.failed_at = Some(now);
    }

    /// What the path did so far, and its round trip.
    pub(super) fn look(&mut self, carried: Carried, rtt: Option<Duration>, now: Instant) {
        let began_anew = carried.sent < self.last.sent;
        if began_anew {
            (self.marks, self.marked_at) = ([Carried::default(); 2], None);
        }
        (self.last, self.rtt) = (carried, rtt.or(self.rtt));
        let since = *self.marked_at.get_or_insert(now);
        if now.saturating_duration_since(since) >= MEMORY {
            self.marks = [self.marks[1], carried];
            self.marked_at = Some(now);
        }
    }

    /// The score, in (0, 1].
    pub(super) fn value(&self, now: Instant) -> f64 {
        let recent = self.last.since(self.marks[0]);
        let near = RTT_NEAR.as_secs_f64();
        let rtt = self.rtt.unwrap_or(RTT_UNKNOWN).as_secs_f64();
        let distance = near / (near + rtt);
        let failures = 0.5_f64.powf(self.failures(now).min(64.0));
        // Some packs are always under way: a few of them are no sign of anything.
        let arrived = share(
            recent.acked.saturating_add(16),
            recent.sent.saturating_add(16),
        );
        let whole = 1.0 - share(recent.resent, recent.sent.saturating_add(16));
        (arrived * whole.max(0.05) * distance * failures).clamp(f64::MIN_POSITIVE, 1.0)
    }

    fn failures(&self, now: Instant) -> f64 {
        let age = self
            .failed_at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.failures * 0.5_f64.powf(age.as_secs_f64() / FAILURE_HALF_LIFE.as_secs_f64())
    }
}

/// `part` of `whole`, as a number in [0, 1].
#[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    (part as f64 / whole as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const S: Duration = Duration::from_secs(1);

    fn of(sent: u64, acked: u64, resent: u64) -> Carried {
        Carried {
            sent,
            acked,
            resent,
        }
    }

    fn looked(carried: Carried, rtt: Duration, now: Instant) -> Score {
        let mut score = Score::default();
        score.look(carried, Some(rtt), now);
        score
    }

    #[test]
    fn failing_at_once_is_worse_than_answering_late() {
        // case B14
        let t0 = Instant::now();
        let mut fast = looked(of(0, 0, 0), MS, t0);
        let slow = looked(of(100, 100, 0), 100 * MS, t0);
        assert!(
            fast.value(t0) > slow.value(t0),
            "before it fails it is the nearer one"
        );
        (0..4).for_each(|_| fast.on_failure(t0));
        assert!(fast.value(t0) < slow.value(t0));
    }

    #[test]
    fn an_exit_that_hangs_looks_bad_before_the_first_result() {
        // case B15
        let t0 = Instant::now();
        let hung = looked(of(1_000, 0, 0), 10 * MS, t0);
        let well = looked(of(1_000, 990, 0), 10 * MS, t0);
        assert!(hung.value(t0) < 0.1 * well.value(t0));
    }

    #[test]
    fn what_is_two_minutes_old_is_forgotten_and_what_is_a_minute_old_is_not() {
        let t0 = Instant::now();
        let mut score = looked(of(1_000, 0, 0), 10 * MS, t0);
        let bad = score.value(t0);
        score.look(of(1_000, 1_000, 0), None, t0 + 60 * S);
        assert!(score.value(t0 + 60 * S) > 10.0 * bad);
        let mut score = looked(of(1_000, 0, 0), 10 * MS, t0);
        score.look(of(1_000, 0, 0), None, t0 + 60 * S);
        assert!(score.value(t0 + 60 * S) < 0.1, "its memory is not over");
        score.look(of(2_000, 1_000, 0), None, t0 + 120 * S);
        score.look(of(3_000, 2_000, 0), None, t0 + 180 * S);
        assert!(score.value(t0 + 180 * S) > 0.3, "the bad minute is over");
    }

    #[test]
    fn loss_distance_and_failures_each_lower_it_and_failures_fade() {
        let t0 = Instant::now();
        let well = looked(of(1_000, 1_000, 0), 20 * MS, t0).value(t0);
        assert!(looked(of(1_000, 1_000, 200), 20 * MS, t0).value(t0) < well);
        assert!(looked(of(1_000, 1_000, 0), 200 * MS, t0).value(t0) < well);
        let mut failed = looked(of(1_000, 1_000, 0), 20 * MS, t0);
        failed.on_failure(t0);
        assert!((failed.value(t0) - well / 2.0).abs() < 1e-9);
        assert!((failed.value(t0 + 60 * S) - well * 0.5_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn any_figures_give_a_number_above_zero_and_at_most_one() {
        let t0 = Instant::now();
        let mut score = looked(of(u64::MAX, 0, u64::MAX), Duration::MAX, t0);
        (0..10_000).for_each(|_| score.on_failure(t0));
        assert!(score.value(t0) > 0.0);
        let best = looked(of(0, 0, 0), Duration::ZERO, t0).value(t0);
        assert!(best <= 1.0 && best > 0.9);
    }

    #[test]
    fn a_new_path_counts_from_nothing() {
        let t0 = Instant::now();
        let mut score = looked(of(1_000, 10, 0), 10 * MS, t0);
        score.look(of(5, 5, 0), None, t0 + S);
        assert!(score.value(t0 + S) > 0.5);
    }
}
