//! When which host is asked next, as a state machine without I/O.
//!
//! A host that is new is due at a random moment within one interval, and after each probe an interval ± 20 % later. A
//! host whose probe is under way is not due, so that none is asked twice at a time. Whoever is due longest goes first:
//! when there is no room for all, everybody waits the same and nobody is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use quell_wire::key::PublicKey;
use rand::{Rng, RngExt as _};

/// The smallest and the largest factor of an interval.
const JITTER: (f64, f64) = (0.8, 1.2);

#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    /// When each host is due; `None` while its probe is under way.
    hosts: BTreeMap<PublicKey, Option<Instant>>,
}

impl Schedule {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            hosts: BTreeMap::new(),
        }
    }

    /// These are all hosts there are.
    pub(super) fn on_hosts(&mut self, hosts: &[PublicKey], now: Instant, rng: &mut impl Rng) {
        let all: BTreeSet<&PublicKey> = hosts.iter().collect();
        self.hosts.retain(|key, _| all.contains(key));
        for key in hosts {
            let interval = self.interval;
            self.hosts
                .entry(*key)
                .or_insert_with(|| Some(now + interval.mul_f64(rng.random::<f64>())));
        }
    }

    /// At most `max` hosts that are due, the one that is due longest first. Their probes start.
    pub(super) fn due(&mut self, now: Instant, max: usize) -> Vec<PublicKey> {
        let mut due: Vec<(Instant, PublicKey)> = self
            .hosts
            .iter()
            .filter_map(|(key, at)| Some((at.filter(|at| *at <= now)?, *key)))
            .collect();
        due.sort_unstable();
        due.truncate(max);
        let due: Vec<PublicKey> = due.into_iter().map(|(_, key)| key).collect();
        for key in &due {
            self.hosts.insert(*key, None);
        }
        due
    }

    /// A probe ended.
    pub(super) fn on_ended(&mut self, key: &PublicKey, now: Instant, rng: &mut impl Rng) {
        if let Some(at) = self.hosts.get_mut(key) {
            let (low, high) = JITTER;
            let factor = low + (high - low) * rng.random::<f64>();
            *at = Some(now + self.interval.mul_f64(factor));
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::SmallRng;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn key(index: u8) -> PublicKey {
        PublicKey([index; 32])
    }

    #[test]
    fn first_probes_are_spread_over_an_interval_and_none_overlaps() {
        let (start, mut rng) = (Instant::now(), SmallRng::seed_from_u64(1));
        let mut schedule = Schedule::new(10 * S);
        let hosts: Vec<_> = (0..100).map(key).collect();
        schedule.on_hosts(&hosts, start, &mut rng);
        let counts: Vec<usize> = (1..=10)
            .map(|second| schedule.due(start + second * S, 1_000).len())
            .collect();
        assert_eq!(counts.iter().sum::<usize>(), 100);
        assert!(
            counts.iter().all(|count| (2..=20).contains(count)),
            "{counts:?}"
        );
        // All are under way.
        schedule.on_hosts(&hosts, start + 11 * S, &mut rng);
        assert!(schedule.due(start + 3_600 * S, 1_000).is_empty());
    }

    #[test]
    fn the_next_is_an_interval_later_give_or_take_a_fifth() {
        let (start, mut rng) = (Instant::now(), SmallRng::seed_from_u64(2));
        let mut schedule = Schedule::new(10 * S);
        let hosts: Vec<_> = (0..100).map(key).collect();
        schedule.on_hosts(&hosts, start, &mut rng);
        let now = start + 10 * S;
        for key in schedule.due(now, 1_000) {
            schedule.on_ended(&key, now, &mut rng);
        }
        assert!(
            schedule
                .due(now + 8 * S - Duration::from_nanos(1), 1_000)
                .is_empty()
        );
        assert_eq!(schedule.due(now + 12 * S, 1_000).len(), 100);
    }

    #[test]
    fn who_waits_longest_goes_first_and_the_gone_are_forgotten() {
        let (start, mut rng) = (Instant::now(), SmallRng::seed_from_u64(3));
        let mut schedule = Schedule::new(10 * S);
        schedule.on_hosts(&[key(1), key(2), key(3)], start, &mut rng);
        let now = start + 10 * S;
        let mut order = Vec::new();
        for _ in 0..3 {
            order.extend(schedule.due(now, 1));
        }
        order.sort_unstable();
        assert_eq!(order, [key(1), key(2), key(3)]);
        schedule.on_hosts(&[key(2)], now, &mut rng);
        schedule.on_ended(&key(1), now, &mut rng);
        assert_eq!(schedule.hosts.len(), 1);
    }
}
