//! The mean of the last round trips: a ring of 128 samples, each good for 60 s.
//!
//! A sample is the time from a pack's last send to whatever acknowledges it first. Packs that were sent more than once
//! are not left out (RFC 6298 §3 would), so after an outage the ack of an early copy passes for a very quick answer to
//! the last one. Samples are kept as small numbers: a fleet holds millions of rings, nearly all of them nearly empty.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Samples in the ring.
const SAMPLES_MAX: usize = 128;
/// How long a sample counts.
const SAMPLE_LIFE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    rtt_us: u32,
}

/// The ring.
#[derive(Debug, Clone, Default)]
pub(crate) struct RttRing {
    samples: VecDeque<Sample>,
    sum_us: u64,
}

impl RttRing {
    pub(crate) fn add(&mut self, rtt: Duration, now: Instant) {
        self.expire(now);
        if self.samples.len() == SAMPLES_MAX {
            self.forget_oldest();
        }
        let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        self.samples.push_back(Sample { at: now, rtt_us });
        self.sum_us += u64::from(rtt_us);
    }

    /// Of the samples that count; `None`: there is none.
    pub(crate) fn mean(&mut self, now: Instant) -> Option<Duration> {
        self.expire(now);
        let count = u64::try_from(self.samples.len()).unwrap_or(u64::MAX);
        let mean_us = self.sum_us.checked_div(count)?;
        Some(Duration::from_micros(mean_us))
    }

    fn expire(&mut self, now: Instant) {
        while let Some(oldest) = self.samples.front()
            && now.saturating_duration_since(oldest.at) >= SAMPLE_LIFE
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.samples.pop_front() {
            self.sum_us -= u64::from(oldest.rtt_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn samples_count_for_a_minute() {
        let start = Instant::now();
        let mut ring = RttRing::default();
        assert_eq!(ring.mean(start), None);
        ring.add(ms(40), start);
        ring.add(ms(80), start + ms(1));
        assert_eq!(ring.mean(start + ms(59_999)), Some(ms(60)));
        assert_eq!(ring.mean(start + ms(60_000)), Some(ms(80)));
        assert_eq!(ring.mean(start + ms(60_001)), None);
    }

    #[test]
    fn the_129th_sample_takes_the_place_of_the_first() {
        let start = Instant::now();
        let mut ring = RttRing::default();
        ring.add(ms(1_000), start);
        for _ in 0..127 {
            ring.add(ms(50), start);
        }
        assert!(ring.mean(start) > Some(ms(50)));
        ring.add(ms(50), start);
        assert_eq!(ring.mean(start), Some(ms(50)));
    }
}
