//! How long an answer takes: RFC 9002 §5, which is RFC 6298 with the peer's delay taken out.
//!
//! A sample is the time from the departure of the largest `tx` that an ACK names
//! to that ACK, at most one an ACK and only when that `tx` is new. A `tx` is sent
//! once, so no sample is ambiguous and resends need no exception (Karn).
//!
//! *Late news is no sample.* An ACK may name a `tx` that came long ago: the ACK that
//! was drawn by it was lost, nothing passed since, and what draws this one (a SKIP,
//! credit) has no `tx`. Only 10 ms of the peer's delay are ever taken out, so an
//! outage of an hour would be learnt as a round trip of an hour and set the next
//! silence hours ahead. Where the peer says that it held its answer for longer than
//! a round trip and those 10 ms, it is not an answer to that `tx`, and nothing is
//! learnt. A peer that lies about it keeps us at what we measured before.
//!
//! The probe timeout is srtt + max(4·rttvar, 1 ms) + the longest delay of an ACK,
//! at least `min_resend_interval`. On a path of constant 50 ms the variance dies
//! out and it is 50 + 1 + 10 = 61 ms.

use std::time::Duration;

use crate::config::LaneConfig;

/// Timer granularity (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
struct Measured {
    smoothed: Duration,
    variance: Duration,
    min: Duration,
    latest: Duration,
}

/// Round-trip time of a lane.
#[derive(Debug, Clone)]
pub(crate) struct Rtt {
    measured: Option<Measured>,
    ack_delay_max: Duration,
    pto_min: Duration,
    pto_first: Duration,
}

impl Rtt {
    pub(crate) fn new(config: &LaneConfig) -> Self {
        Self {
            measured: None,
            ack_delay_max: config.ack_delay_max,
            pto_min: config.min_resend_interval,
            pto_first: config.first_pto,
        }
    }

    /// Takes a sample in, of which the peer says that it spent `ack_delay` itself;
    /// whether it is one.
    pub(crate) fn sample(&mut self, latest: Duration, ack_delay: Duration) -> bool {
        let answer = self.smoothed().unwrap_or(self.pto_first);
        if ack_delay > answer.saturating_add(self.ack_delay_max) {
            return false;
        }
        let Some(m) = &mut self.measured else {
            self.measured = Some(Measured {
                smoothed: latest,
                variance: latest / 2,
                min: latest,
                latest,
            });
            return true;
        };
        m.min = m.min.min(latest);
        m.latest = latest;
        // Never more than the bound is believed, and never below the smallest seen.
        let delay = ack_delay.min(self.ack_delay_max);
        let adjusted = latest.saturating_sub(delay).max(m.min);
        m.variance = (m.variance * 3 + m.smoothed.abs_diff(adjusted)) / 4;
        m.smoothed = (m.smoothed * 7 + adjusted) / 8;
        true
    }

    /// The smoothed round trip, once there is a sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.measured.as_ref().map(|m| m.smoothed)
    }

    /// The larger of the smoothed and the latest round trip: what an answer may
    /// take that is merely late.
    pub(crate) fn patient(&self) -> Option<Duration> {
        self.measured.as_ref().map(|m| m.smoothed.max(m.latest))
    }

    /// The probe timeout.
    pub(crate) fn pto(&self) -> Duration {
        let Some(m) = &self.measured else {
            return self.pto_first;
        };
        let answer = m.smoothed + (m.variance * 4).max(GRANULARITY) + self.ack_delay_max;
        answer.max(self.pto_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn after(samples: &[(u32, u32)]) -> Rtt {
        let mut rtt = Rtt::new(&LaneConfig::default());
        for (latest, delay) in samples {
            rtt.sample(MS * *latest, MS * *delay);
        }
        rtt
    }

    #[test]
    fn a_steady_path_of_50_ms_has_a_probe_timeout_of_61_ms_after_18_samples() {
        // 4 · 25 ms · 0.75ⁿ ≤ 1 ms from n = 17 on
        assert_eq!(after(&[]).pto(), 1_000 * MS);
        assert_eq!(after(&[(50, 0)]).pto(), (50 + 100 + 10) * MS);
        assert!(after(&[(50, 0); 17]).pto() > 61 * MS);
        assert_eq!(after(&[(50, 0); 18]).pto(), 61 * MS);
    }

    #[test]
    fn the_timeout_has_a_floor() {
        assert_eq!(after(&[(1, 0); 40]).pto(), 50 * MS);
    }

    #[test]
    fn the_peers_delay_is_taken_out_up_to_its_bound_and_the_smallest_sample() {
        assert_eq!(after(&[(50, 0), (58, 8)]).smoothed(), Some(50 * MS));
        // 20 ms claimed, 10 believed
        assert_eq!(after(&[(50, 0), (68, 20)]).smoothed(), Some(51 * MS));
        // never below what was really seen
        assert_eq!(after(&[(50, 0), (50, 10)]).smoothed(), Some(50 * MS));
    }

    #[test]
    fn an_answer_that_was_held_for_more_than_a_round_trip_is_none() {
        let mut rtt = after(&[(50, 0); 40]);
        let pto = rtt.pto();
        assert!(!rtt.sample(3_600_000 * MS, 3_599_950 * MS));
        assert!(!rtt.sample(111 * MS, 60 * MS + Duration::from_nanos(1)));
        assert_eq!((rtt.pto(), rtt.smoothed()), (pto, Some(50 * MS)));
        assert!(rtt.sample(110 * MS, 60 * MS));
        assert!(rtt.pto() > pto);
        // Before anything was measured it is a second and those 10 ms.
        let mut rtt = after(&[]);
        assert!(!rtt.sample(2_000 * MS, 1_011 * MS));
        assert!(rtt.sample(2_000 * MS, 1_010 * MS));
    }

    #[test]
    fn it_follows_a_step_up_and_down_again() {
        let mut samples = vec![(50, 0); 20];
        samples.extend([(10_000, 0); 40]);
        let up = after(&samples);
        assert!(up.smoothed() > Some(9_900 * MS));
        samples.extend([(50, 0); 100]);
        assert_eq!(after(&samples).pto().as_millis(), 61);
    }
}
