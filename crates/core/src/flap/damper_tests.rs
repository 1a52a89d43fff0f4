//! One rule a test, then hosts and catalog against a naive model.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn config() -> FlapConfig {
    FlapConfig {
        host_interval: 60 * S,
        host_burst: 2,
        catalog_interval: S,
        catalog_burst: 10,
        hosts_max: 100,
    }
}

fn soft(damper: &mut FlapDamper<u32>, host: u32, now: Instant) -> Decision {
    damper.decide(&host, Evidence::Soft, now)
}

#[test]
fn by_default_all_passes_and_is_counted() {
    //
    let now = Instant::now();
    let mut damper = FlapDamper::new(FlapConfig::default(), 1);
    for _ in 0..10_000 {
        assert_eq!(soft(&mut damper, 1, now), Decision::Allowed);
    }
    assert_eq!(damper.counters().allowed, 10_000);
}

#[test]
fn each_limiter_passes_its_burst_and_denies_the_next() {
    //
    let now = Instant::now();
    let mut damper = FlapDamper::new(config(), 1);
    assert_eq!(soft(&mut damper, 0, now), Decision::Allowed);
    assert_eq!(soft(&mut damper, 0, now), Decision::Allowed);
    assert_eq!(soft(&mut damper, 0, now), Decision::DeniedByHost);
    for host in 1..9 {
        assert_eq!(soft(&mut damper, host, now), Decision::Allowed);
    }
    assert_eq!(soft(&mut damper, 9, now), Decision::DeniedByCatalog);
}

#[test]
fn what_the_host_is_denied_costs_the_catalog_nothing_and_the_other_way_round() {
    //
    let now = Instant::now();
    let mut damper = FlapDamper::new(config(), 1);
    for _ in 0..1_000 {
        soft(&mut damper, 0, now);
    }
    assert_eq!(damper.host(&0).unwrap().counters.denied_host, 998);
    let passed = (1..100).filter(|h| soft(&mut damper, *h, now).is_allowed());
    assert_eq!(passed.count(), 8);
    // Host 50 was denied by the catalog: its burst of two is whole.
    let later = now + 2 * S;
    assert_eq!(soft(&mut damper, 50, later), Decision::Allowed);
    assert_eq!(soft(&mut damper, 50, later), Decision::Allowed);
}

#[test]
fn hosts_that_failed_together_are_not_released_together() {
    //
    let now = Instant::now();
    let mut damper = FlapDamper::new(
        FlapConfig {
            host_burst: 1,
            catalog_interval: Duration::ZERO,
            ..config()
        },
        7,
    );
    let released = |damper: &mut FlapDamper<u32>, host| {
        assert!(soft(damper, host, now).is_allowed());
        // Rates of 0.8 to 1.2 are intervals of 75 to 50 s, and drawn once.
        let at = (0..).find(|s| {
            let bucket = &damper.hosts.peek(&host).unwrap().bucket;
            bucket.is_ready(now + *s * 100 * MS)
        });
        at.unwrap()
    };
    let all: Vec<u32> = (0..100).map(|host| released(&mut damper, host)).collect();
    assert!(all.iter().all(|at| (500..=750).contains(at)), "{all:?}");
    let moments: std::collections::BTreeSet<_> = all.iter().collect();
    assert!(moments.len() > 50, "{} moments", moments.len());
    // Each host's own interval stays what it is.
    let (first, at) = (0, now + all[0] * 100 * MS);
    assert!(soft(&mut damper, first, at).is_allowed());
    assert!(!soft(&mut damper, first, at + (all[0] - 1) * 100 * MS).is_allowed());
    assert!(soft(&mut damper, first, at + all[0] * 100 * MS).is_allowed());
}

#[test]
fn hard_evidence_passes_and_spends_nothing_and_a_denied_host_is_held() {
    //
    let now = Instant::now();
    let mut damper = FlapDamper::new(config(), 1);
    for _ in 0..1_000 {
        assert!(damper.decide(&0, Evidence::Hard, now).is_allowed());
    }
    assert!(soft(&mut damper, 0, now).is_allowed() && soft(&mut damper, 0, now).is_allowed());
    assert!(!damper.host(&0).unwrap().is_held);
    assert!(!soft(&mut damper, 0, now).is_allowed());
    assert!(damper.host(&0).unwrap().is_held);
    assert!(damper.decide(&0, Evidence::Hard, now).is_allowed());
    assert!(!damper.host(&0).unwrap().is_held);
}

#[test]
fn the_way_back_is_free_when_all_limiters_are_empty() {
    //
    let now = Instant::now();
    let mut damper = FlapDamper::new(config(), 1);
    for host in 0..100 {
        soft(&mut damper, host, now);
    }
    assert!(damper.host(&99).unwrap().is_held);
    let before = damper.counters();
    for _ in 0..1_000 {
        damper.on_healthy(&99);
    }
    assert!(!damper.host(&99).unwrap().is_held);
    assert_eq!(damper.counters(), before);
    // And it gave nothing: the way down is as closed as before.
    assert_eq!(soft(&mut damper, 99, now), Decision::DeniedByCatalog);
}

#[test]
fn the_cache_is_bounded_and_forgets_who_was_asked_for_longest_ago() {
    //
    let now = Instant::now();
    let mut damper = FlapDamper::new(
        FlapConfig {
            hosts_max: 3,
            ..config()
        },
        1,
    );
    for host in [1, 2, 3, 1, 4] {
        soft(&mut damper, host, now);
    }
    let known: Vec<u32> = damper.hosts().map(|(host, _)| *host).collect();
    assert_eq!(known, [4, 1, 3]);
    assert_eq!((damper.host_count(), damper.host(&2)), (3, None));
    // A host that is only looked at, or heals, is not asked for.
    damper.on_healthy(&3);
    assert!(damper.host(&3).is_some());
    soft(&mut damper, 5, now);
    assert_eq!(damper.host(&3), None);
    assert_eq!(damper.counters().allowed, 6, "the sum forgets nobody");
}

// case B24
#[test]
fn one_host_of_five_hundred_flaps_and_the_others_still_go_down() {
    //
    let start = Instant::now();
    let config = FlapConfig {
        hosts_max: 500,
        ..config()
    };
    let mut damper = FlapDamper::new(config, 3);
    let mut healthy = vec![true; 500];
    let mut shown_downs = 0;
    for round in 0..600_u32 {
        let now = start + round * 100 * MS;
        let is_down = soft(&mut damper, 0, now).is_allowed();
        shown_downs += u32::from(is_down);
        healthy[0] = !is_down;
        damper.on_healthy(&0);
        if round % 20 == 0 {
            let other = 1 + round / 20;
            assert!(soft(&mut damper, other, now).is_allowed(), "host {other}");
            healthy[other as usize] = false;
        }
    }
    assert!(
        (2..=4).contains(&shown_downs),
        "{shown_downs} of 600 were seen"
    );
    assert!(healthy[0], "held healthy");
    let mut sum = FlapCounters::default();
    damper
        .hosts()
        .for_each(|(_, status)| sum += status.counters);
    assert_eq!(sum, damper.counters());
    let all = sum.allowed + sum.denied_host + sum.denied_catalog;
    assert_eq!((all, sum.denied_host), (630, 600 - u64::from(shown_downs)));
}

/// A bucket that counts tokens in nanoseconds of its interval.
struct NaiveBucket {
    interval: Duration,
    level: u128,
    full: u128,
    at: Duration,
}

impl NaiveBucket {
    fn new(interval: Duration, burst: u32) -> Self {
        let full = interval.as_nanos() * u128::from(burst);
        let (level, at) = (full, Duration::ZERO);
        Self {
            interval,
            level,
            full,
            at,
        }
    }

    fn look(&mut self, now: Duration) -> bool {
        let gained = now.saturating_sub(self.at).as_nanos();
        self.at = self.at.max(now);
        self.level = self.full.min(self.level + gained);
        self.level >= self.interval.as_nanos()
    }

    fn spend(&mut self) {
        self.level -= self.interval.as_nanos();
    }
}

proptest! {
    //
    #[test]
    fn it_agrees_with_buckets_of_tokens(ops in proptest::collection::vec((0_u32..6, 0_u8..8, 0_u64..30_000), 1..300)) {
        let start = Instant::now();
        let mut damper = FlapDamper::new(config(), 11);
        let mut catalog = NaiveBucket::new(S, 10);
        let mut hosts: BTreeMap<u32, NaiveBucket> = BTreeMap::new();
        let mut now = Duration::ZERO;
        for (host, op, ms) in ops {
            // Mostly soon, at times a jump of hours.
            now += if op == 7 { S * ms as u32 } else { MS * (ms / 50) as u32 };
            let evidence = if op == 0 { Evidence::Hard } else { Evidence::Soft };
            let decision = damper.decide(&host, evidence, start + now);
            let interval = damper.hosts.peek(&host).unwrap().bucket.interval();
            let bucket = hosts.entry(host).or_insert_with(|| NaiveBucket::new(interval, 2));
            let expected = if evidence == Evidence::Hard {
                Decision::Allowed
            } else if !bucket.look(now) {
                Decision::DeniedByHost
            } else if !catalog.look(now) {
                Decision::DeniedByCatalog
            } else {
                bucket.spend();
                catalog.spend();
                Decision::Allowed
            };
            prop_assert_eq!(decision, expected);
        }
    }
}
