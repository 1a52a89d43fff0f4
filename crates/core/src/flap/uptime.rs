//! Hosts that accept connections which then do not live.
//!
//! ```text
//!   connection ended, uptime < flap_time  → flaps + 1
//!   connection ended, uptime ≥ flap_time  → flaps = 0
//!   flaps ≥ flaps_to_mark                 → flapping: each further flap waits longer
//! ```
//!
//! A count of failures in a row never sees such a host: it connects, which is a
//! success, and success sets that count to zero (case B26). Here only a life of
//! `flap_time` is a success. The waits are a ramp of their own, so that what a host
//! earned by flapping is not forgiven when a dial of it happens to stand.

use std::time::Duration;

use rand::Rng;

use crate::config::UptimeConfig;
use crate::health::backoff::Backoff;

/// The smallest and the largest factor of a wait, as of dials (R-17).
const JITTER: (f64, f64) = (0.75, 1.25);

/// Counts one host's short-lived connections.
#[derive(Debug, Clone)]
pub struct FlapCounter {
    flap_time: Duration,
    flaps_to_mark: u32,
    flaps: u32,
    backoff: Backoff,
}

impl FlapCounter {
    /// A host that has not flapped.
    pub fn new(config: &UptimeConfig) -> Self {
        let (low, high) = JITTER;
        let (base, max) = (config.flap_backoff_base, config.flap_backoff_max);
        Self {
            flap_time: config.flap_time,
            flaps_to_mark: config.flaps_to_mark,
            flaps: 0,
            backoff: Backoff::new(base, max, low, high),
        }
    }

    /// A connection that stood and was checked has ended after `uptime`. How long
    /// the host is to be left alone, if it is flapping.
    ///
    /// A dial that failed is none of these: it neither flaps nor makes up for one.
    pub fn on_ended(&mut self, uptime: Duration, rng: &mut impl Rng) -> Option<Duration> {
        if uptime >= self.flap_time {
            self.flaps = 0;
            self.backoff.succeeded();
            return None;
        }
        self.flaps = self.flaps.saturating_add(1);
        self.is_flapping().then(|| self.backoff.failed(rng))
    }

    /// Short-lived connections in a row.
    pub fn flaps(&self) -> u32 {
        self.flaps
    }

    /// Whether that is so many that the host is not to be taken for working.
    pub fn is_flapping(&self) -> bool {
        self.flaps >= self.flaps_to_mark
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::SmallRng;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn twenty_connections_that_break_at_once_mark_the_host_and_each_waits_longer() {
        // case B26
        let mut rng = SmallRng::seed_from_u64(5);
        let mut counter = FlapCounter::new(&UptimeConfig::default());
        let waits: Vec<_> = (0..20).map(|_| counter.on_ended(S, &mut rng)).collect();
        assert!(waits[..2].iter().all(Option::is_none));
        assert!(counter.is_flapping() && counter.flaps() == 20);
        let waits: Vec<_> = waits.into_iter().flatten().collect();
        assert_eq!(waits.len(), 18);
        assert!(waits[0] < 7 * S && waits[17] >= 225 * S, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= 300 * S));
    }

    #[test]
    fn a_life_of_flap_time_is_none_and_a_nanosecond_less_is_one() {
        // case B26
        let mut rng = SmallRng::seed_from_u64(5);
        let mut counter = FlapCounter::new(&UptimeConfig::default());
        for _ in 0..5 {
            counter.on_ended(Duration::ZERO, &mut rng);
        }
        counter.on_ended(5 * S - Duration::from_nanos(1), &mut rng);
        assert_eq!(counter.flaps(), 6);
        assert_eq!(counter.on_ended(5 * S, &mut rng), None);
        assert!(!counter.is_flapping());
        // The ramp begins anew as well.
        for _ in 0..2 {
            counter.on_ended(S, &mut rng);
        }
        let wait = counter.on_ended(S, &mut rng);
        assert!(wait.is_some_and(|wait| wait < 7 * S), "{wait:?}");
    }
}
