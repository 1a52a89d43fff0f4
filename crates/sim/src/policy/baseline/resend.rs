//! When is a pack sent again? The whole rule of each baseline, as arithmetic that needs no world.
//!
//! ```text
//! flat      interval = clamp(mean × scale, min, max)
//! doubling  interval = min(base · 2^min(sends − 1, 16), max),   base = clamp(mean × scale, min, max)
//! ```
//!
//! `mean` is that of the round trips of the last minute; without one, the base is a constant. A pack's life is bounded by
//! time alone, the *ack timeout* of its sequence: what is due at that very instant is not sent. So a life of 60 s at 2 s
//! makes 30 sends of one pack, and nothing in these rules knows how many other packs are waiting: the rate on the wire is
//! the queue's length over the interval. That is the storm.
//!
//! [`sends`] gives the times of all sends of a pack that is never acknowledged, and is what the counts of the reference
//! are tested by.

use std::time::Duration;

/// Largest exponent of a doubling interval. With intervals of 300 ms and a cap of 8 s it is never reached.
const EXPONENT_MAX: u32 = 16;

/// Whether intervals grow from send to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Never.
    Flat,
    /// Twice as long each time.
    Doubling,
    /// Twice as long each time while the backend is degraded, else flat.
    DoublingWhileDegraded,
}

/// When a pack that is not acknowledged is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResendRule {
    /// The mean round trip is multiplied by this many percent.
    pub scale_percent: u32,
    /// The shortest first interval.
    pub interval_min: Duration,
    /// The longest interval of all.
    pub interval_max: Duration,
    /// The first interval while no round trip is known.
    pub interval_unknown: Duration,
    /// Whether they grow.
    pub growth: Growth,
    /// Most resends of one pack. `None`: time alone bounds them.
    pub resends_max: Option<u32>,
}

impl ResendRule {
    /// From the send that made `sends` of them to the next one; `None`: there is none. `sends` counts from 1.
    #[must_use]
    pub fn interval(
        &self,
        sends: u32,
        rtt_mean: Option<Duration>,
        degraded: bool,
    ) -> Option<Duration> {
        if self.resends_max.is_some_and(|most| sends > most) {
            return None;
        }
        let base = rtt_mean
            .map_or(self.interval_unknown, |mean| {
                mean.saturating_mul(self.scale_percent) / 100
            })
            .clamp(self.interval_min, self.interval_max);
        let grows = match self.growth {
            Growth::Flat => false,
            Growth::Doubling => true,
            Growth::DoublingWhileDegraded => degraded,
        };
        let exponent = if grows {
            sends.saturating_sub(1).min(EXPONENT_MAX)
        } else {
            0
        };
        Some(base.saturating_mul(1 << exponent).min(self.interval_max))
    }
}

/// Times of all sends of a pack that nobody acknowledges, from its first, by `rule` with a mean round trip of `rtt_mean`,
/// until it is given up at `life`. `degraded` holds all the while.
#[must_use]
pub fn sends(
    rule: &ResendRule,
    rtt_mean: Option<Duration>,
    life: Duration,
    degraded: bool,
) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut at = Duration::ZERO;
    while at < life {
        times.push(at);
        let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
        match rule.interval(count, rtt_mean, degraded) {
            // An interval of nothing would have no end.
            Some(wait) if !wait.is_zero() => at += wait,
            Some(_) | None => break,
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{report_claim, report_fix, upstream_2026_05, upstream_2026_08};

    const RTT: Option<Duration> = Some(Duration::from_millis(50));

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn count(rule: &ResendRule, rtt: Option<Duration>, life_s: u64) -> usize {
        sends(rule, rtt, seconds(life_s), false).len()
    }

    // R-21: the reference's table of counts.
    #[test]
    fn a_pack_that_nobody_acknowledges_is_sent_as_often_as_the_reference_counts() {
        let (may, august) = (&upstream_2026_05::RULES, &upstream_2026_08::RULES);
        let unreliable = &upstream_2026_08::UNRELIABLE_RULES;
        assert_eq!(
            (may.ack_timeout, may.race_ack_timeout),
            (seconds(60), seconds(30))
        );
        assert_eq!(
            (august.ack_timeout, august.race_ack_timeout),
            (seconds(60), seconds(30))
        );
        assert_eq!(count(&may.resend, RTT, 60), 30);
        assert_eq!(count(&may.resend, RTT, 30), 15);
        assert_eq!(count(&august.resend, RTT, 60), 12);
        assert_eq!(count(&august.resend, RTT, 30), 8);
        assert_eq!(count(&august.resend, None, 60), 9);
        assert_eq!(count(&august.resend, None, 30), 5);
        assert_eq!(unreliable.ack_timeout, seconds(90));
        assert_eq!(count(&unreliable.resend, RTT, 90), 47);
        assert_eq!(report_claim::RULES.race_ack_timeout, seconds(60));
        assert_eq!(count(&report_claim::RULES.resend, RTT, 60), 600);
        let fix = &report_fix::RULES.resend;
        assert_eq!(count(fix, RTT, 60), 17);
        assert_eq!(count(fix, RTT, 3_600), 17, "time does not add to them");
        assert!(sends(fix, RTT, seconds(60), true).len() <= 17);
    }

    // R-21
    #[test]
    fn the_newest_rule_sends_at_exactly_these_times() {
        let at_ms: Vec<u128> = sends(&upstream_2026_08::RULES.resend, RTT, seconds(60), false)
            .iter()
            .map(Duration::as_millis)
            .collect();
        let expected = [
            0, 300, 900, 2_100, 4_500, 9_300, 17_300, 25_300, 33_300, 41_300, 49_300, 57_300,
        ];
        assert_eq!(at_ms, expected);
    }

    #[test]
    fn what_is_due_when_the_life_ends_is_not_sent() {
        let rule = &upstream_2026_05::RULES.resend;
        assert_eq!(sends(rule, RTT, seconds(58), false).len(), 29);
        let more = seconds(58) + Duration::from_nanos(1);
        assert_eq!(sends(rule, RTT, more, false).len(), 30);
        assert!(sends(rule, RTT, Duration::ZERO, false).is_empty());
    }

    #[test]
    fn the_round_trip_moves_the_interval_between_its_bounds() {
        let may = &upstream_2026_05::RULES.resend;
        let interval = |ms| may.interval(1, Some(Duration::from_millis(ms)), false);
        assert_eq!(interval(1_666), Some(seconds(2)));
        assert_eq!(interval(2_000), Some(Duration::from_millis(2_400)));
        assert_eq!(interval(60_000), Some(seconds(8)));
        let august = &upstream_2026_08::RULES.resend;
        let interval = |ms| august.interval(1, Some(Duration::from_millis(ms)), false);
        assert_eq!(interval(150), Some(Duration::from_millis(300)));
        assert_eq!(interval(151), Some(Duration::from_millis(302)));
    }

    #[test]
    fn the_fix_of_the_report_doubles_while_degraded_alone() {
        let fix = &report_fix::RULES.resend;
        assert_eq!(fix.interval(2, RTT, false), Some(seconds(2)));
        assert_eq!(fix.interval(2, RTT, true), Some(seconds(4)));
        assert_eq!(fix.interval(16, RTT, true), Some(seconds(8)));
        assert_eq!(fix.interval(17, RTT, true), None);
    }
}
