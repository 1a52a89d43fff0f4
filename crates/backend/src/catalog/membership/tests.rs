//! The catalog in virtual time: one rule a test, then storms.
#![allow(clippy::unwrap_used)]

use quell_core::config::{FlapConfig, ProbeLatchConfig};
use quell_core::health::probe_latch::ProbeState;

use super::*;
use ProbeOutcome::{Critical, Failed, Passing, Rejected};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn key(index: u16) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&index.to_be_bytes());
    PublicKey(bytes)
}

fn heard(draining: bool) -> Heard {
    Heard {
        name: "exit".to_owned(),
        addresses: vec!["192.0.2.1:6610".to_owned()],
        age: Some(Duration::ZERO),
        draining: Some(draining),
    }
}

/// A catalog under its own clock; heartbeats are kept fresh by [`Rig::pass`].
struct Rig {
    membership: Membership,
    now: Instant,
    versions: Vec<(Instant, Vec<String>)>,
}

impl Rig {
    fn new(config: CatalogConfig, hosts: u16) -> Self {
        let mut rig = Self {
            membership: Membership::new(config.try_new().unwrap(), 5),
            now: Instant::now(),
            versions: Vec::new(),
        };
        (0..hosts).for_each(|host| rig.hear(host));
        rig.settle();
        rig
    }

    fn hear(&mut self, host: u16) {
        assert!(self.membership.on_heard(key(host), heard(false), self.now));
    }

    fn settle(&mut self) {
        if let Some(exits) = self.membership.handle_timeout(self.now) {
            let keys = exits.iter().map(|exit| exit.public_key.clone()).collect();
            self.versions.push((self.now, keys));
        }
    }

    /// Lets time pass in steps to each wake-up.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..10_000 {
            let next = self.membership.poll_timeout().filter(|at| *at <= end);
            let Some(at) = next else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            self.settle();
        }
        panic!("it never comes to rest");
    }

    fn probe(&mut self, host: u16, outcomes: impl IntoIterator<Item = ProbeOutcome>) {
        for outcome in outcomes {
            let epoch = self.membership.epoch(&key(host)).unwrap();
            self.membership
                .on_probed(&key(host), epoch, outcome, self.now);
        }
    }

    fn is_in(&self, host: u16) -> bool {
        self.membership.standing(&key(host), self.now).unwrap().0
    }

    fn words(&self, host: u16) -> String {
        self.membership.standing(&key(host), self.now).unwrap().1
    }

    fn shown(&self) -> usize {
        self.versions.last().unwrap().1.len()
    }
}

fn config() -> CatalogConfig {
    CatalogConfig::default()
}

fn damped() -> CatalogConfig {
    CatalogConfig {
        flap: FlapConfig {
            host_interval: 60 * S,
            host_burst: 2,
            catalog_interval: S,
            catalog_burst: 10,
            hosts_max: 1_000,
        },
        probe: ProbeLatchConfig {
            success_before_passing: 1,
            failures_before_critical: 1,
        },
        heartbeat_max_age: 3_600 * S,
        ..CatalogConfig::default()
    }
}

#[test]
fn without_a_readable_answer_a_provider_stays_in_the_catalog() {
    //
    let mut rig = Rig::new(config(), 4);
    rig.probe(0, [Failed; 100]);
    rig.probe(1, [Rejected; 100]);
    rig.pass(2 * S);
    assert_eq!((rig.shown(), rig.versions.len()), (4, 1));
    assert!(rig.words(0).starts_with("probe_unsupported: in service"));
}

#[test]
fn once_latched_a_rejection_counts_and_thresholds_hold() {
    //
    let mut rig = Rig::new(config(), 4);
    rig.probe(0, [Passing, Rejected, Rejected]);
    assert!(rig.is_in(0));
    rig.probe(0, [Rejected]);
    assert!(!rig.is_in(0));
    assert!(
        rig.words(0)
            .starts_with("critical: 3 probes in a row failed")
    );
    rig.probe(0, [Passing]);
    assert!(!rig.is_in(0));
    rig.probe(0, [Passing]);
    assert!(rig.is_in(0));
}

#[test]
fn no_pattern_of_failures_and_rejections_readmits_a_dead_provider() {
    // R-42, case B23
    for rejections in 0..50 {
        let mut rig = Rig::new(config(), 4);
        rig.probe(0, [Passing, Failed, Failed, Failed]);
        for _ in 0..20 {
            rig.probe(0, [Failed]);
            rig.probe(0, vec![Rejected; rejections]);
            assert!(!rig.is_in(0), "F, R x {rejections}");
        }
        // And it excludes nobody for good.
        rig.probe(0, [Passing, Passing]);
        assert!(rig.is_in(0));
    }
}

#[test]
fn an_operator_resets_a_latch_and_probes_under_way_do_not_count() {
    //
    let mut rig = Rig::new(config(), 4);
    let old = rig.membership.epoch(&key(0)).unwrap();
    rig.probe(0, [Passing, Failed, Failed, Failed]);
    assert!(!rig.is_in(0));
    assert!(rig.membership.reset(&key(0), rig.now));
    assert!(rig.is_in(0));
    for _ in 0..10 {
        rig.membership.on_probed(&key(0), old, Critical, rig.now);
    }
    assert!(rig.is_in(0));
    let state = rig.membership.report(rig.now)[0].probe.state;
    assert_eq!(state, ProbeState::ProbeUnsupported);
    assert!(!rig.membership.reset(&key(9), rig.now));
}

#[test]
fn a_provider_that_never_spoke_is_not_in_yet() {
    let mut rig = Rig::new(config(), 1);
    let silent = Heard {
        age: None,
        draining: None,
        ..heard(false)
    };
    rig.membership.on_heard(key(1), silent, rig.now);
    rig.probe(1, [Passing]);
    assert!(!rig.is_in(1));
    assert!(rig.words(1).contains("has not said that it lives"));
    rig.hear(1);
    assert!(rig.is_in(1));
}

#[test]
fn silence_speaks_against_a_provider_at_its_age_and_not_before() {
    //
    let mut rig = Rig::new(config(), 4);
    rig.pass(40 * S);
    (1..4).for_each(|host| rig.hear(host));
    rig.pass(4 * S);
    assert!(rig.is_in(0));
    // Looked at every five seconds.
    rig.pass(6 * S);
    assert!(!rig.is_in(0) && rig.is_in(1));
    assert!(rig.words(0).starts_with("silent: it has not said for"));
    rig.hear(0);
    assert!(rig.is_in(0));
}

#[test]
fn draining_and_bans_pass_at_once_whatever_the_limiters_say() {
    //
    let mut rig = Rig::new(damped(), 20);
    for host in 0..19 {
        rig.membership.on_heard(key(host), heard(true), rig.now);
        assert!(!rig.is_in(host));
    }
    assert_eq!(rig.words(0), "draining: it said that it is about to stop");
    let counters = rig.membership.flap_counters();
    assert_eq!((counters.allowed, counters.hard), (19, 19));
    rig.membership.on_gone(&key(19));
    assert_eq!(rig.membership.standing(&key(19), rig.now), None);
    rig.pass(2 * S);
    assert_eq!(rig.shown(), 0);
}

#[test]
fn a_held_host_is_asked_about_anew_and_leaves_when_the_limiter_lets_it() {
    //
    let mut rig = Rig::new(damped(), 20);
    for _ in 0..2 {
        rig.probe(0, [Passing, Failed]);
        assert!(!rig.is_in(0));
    }
    rig.probe(0, [Passing, Failed]);
    assert!(rig.is_in(0), "held");
    assert!(
        rig.words(0)
            .starts_with("held in service (it changed too often), though critical")
    );
    let report = rig.membership.report(rig.now)[0].flap.unwrap();
    assert!(report.is_held && report.counters.denied_host == 1);
    rig.pass(76 * S);
    rig.probe(0, [Failed]);
    assert!(!rig.is_in(0));
}

#[test]
fn the_hosts_limiter_is_asked_first_and_the_way_back_is_free() {
    //
    let mut rig = Rig::new(damped(), 40);
    for _ in 0..100 {
        rig.probe(0, [Passing, Failed]);
    }
    // The flapping host spent two tokens of the catalog's ten.
    let down = (1..20).filter(|host| {
        rig.probe(*host, [Passing, Failed]);
        !rig.is_in(*host)
    });
    assert_eq!(down.count(), 8);
    for host in 1..20 {
        rig.probe(host, [Passing]);
        assert!(rig.is_in(host));
    }
    let counters = rig.membership.flap_counters();
    assert_eq!((counters.allowed, counters.denied_host), (10, 98));
    assert_eq!(counters.denied_catalog, 11);
}

#[test]
fn by_default_no_limiter_denies() {
    //
    let mut rig = Rig::new(config(), 4);
    for _ in 0..100 {
        rig.probe(0, [Passing, Failed, Failed, Failed]);
        assert!(!rig.is_in(0));
        rig.probe(0, [Passing, Passing]);
    }
    let counters = rig.membership.flap_counters();
    assert_eq!((counters.allowed, counters.denied_host), (100, 0));
}

#[test]
fn hosts_that_are_held_together_do_not_leave_together() {
    //
    let mut rig = Rig::new(
        CatalogConfig {
            flap: FlapConfig {
                host_burst: 1,
                catalog_interval: Duration::ZERO,
                ..damped().flap
            },
            soft_keeps_percent: 0,
            ..damped()
        },
        100,
    );
    (0..100).for_each(|host| rig.probe(host, [Passing, Failed, Passing, Failed]));
    assert!((0..100).all(|host| rig.is_in(host)), "held");
    let mut left = std::collections::BTreeMap::new();
    for second in 0..80 {
        rig.pass(S);
        (0..100).for_each(|host| rig.probe(host, [Failed]));
        let out = (0..100).filter(|host| !rig.is_in(*host));
        out.for_each(|host| _ = left.entry(host).or_insert(second));
    }
    let moments: std::collections::BTreeSet<_> = left.values().collect();
    assert!(left.len() == 100 && moments.len() > 15, "{moments:?}");
}

#[test]
fn changes_go_into_one_version_and_what_comes_back_makes_none() {
    let mut rig = Rig::new(config(), 10);
    let start = rig.now;
    rig.pass(100 * MS);
    for host in 0..3 {
        rig.membership.on_heard(key(host), heard(true), rig.now);
    }
    rig.pass(899 * MS);
    assert_eq!(rig.versions.len(), 1);
    rig.pass(2 * MS);
    assert_eq!(rig.versions.len(), 2);
    assert_eq!((rig.versions[1].0, rig.shown()), (start + S, 7));
    // Out and in again within the second.
    rig.membership.on_heard(key(5), heard(true), rig.now);
    rig.hear(5);
    rig.pass(5 * S);
    assert_eq!(rig.versions.len(), 2);
}

#[test]
fn a_version_is_no_other_servers() {
    let one = Rig::new(config(), 1);
    let mut other = Membership::new(config(), 6);
    other.on_heard(key(0), heard(false), one.now);
    other.handle_timeout(one.now).unwrap();
    assert_ne!(one.membership.version(), other.version());
}

#[test]
fn a_changed_address_is_a_new_version() {
    let mut rig = Rig::new(config(), 2);
    let moved = Heard {
        addresses: vec!["192.0.2.9:6610".to_owned()],
        ..heard(false)
    };
    rig.membership.on_heard(key(0), moved, rig.now);
    rig.pass(2 * S);
    assert_eq!(rig.versions.len(), 2);
}

#[test]
fn the_catalog_holds_its_number_of_hosts_and_no_more() {
    let mut rig = Rig::new(config(), u16::try_from(EXITS_MAX).unwrap());
    let one_more = key(u16::try_from(EXITS_MAX).unwrap());
    assert!(!rig.membership.on_heard(one_more, heard(false), rig.now));
    assert_eq!(rig.membership.counters().refused_full, 1);
    assert_eq!(rig.shown(), EXITS_MAX);
}

// case B25
#[test]
fn when_most_hosts_look_dead_it_is_the_observer() {
    let mut rig = Rig::new(config(), 20);
    for host in 0..20 {
        rig.probe(host, [Passing, Failed, Failed, Failed]);
    }
    let out = (0..20).filter(|host| !rig.is_in(*host)).count();
    assert_eq!(out, 10, "half may leave, and no more");
    assert!(
        rig.words(19)
            .contains("speaks against this server's own view")
    );
    assert_eq!(rig.membership.counters().doubted, 10);
    // A drain is no opinion.
    rig.membership.on_heard(key(19), heard(true), rig.now);
    assert!(!rig.is_in(19));
}

// case B24
#[test]
fn one_host_of_five_hundred_flaps_and_the_others_are_unaffected() {
    //
    let mut rig = Rig::new(damped(), 500);
    rig.pass(10 * S);
    let before = rig.versions.len();
    let mut downs = 0;
    for round in 0..600 {
        let was_in = rig.is_in(0);
        rig.probe(0, [if round % 2 == 0 { Passing } else { Failed }]);
        downs += usize::from(was_in && !rig.is_in(0));
        rig.pass(100 * MS);
        assert!((1..500).all(|host| rig.is_in(host)));
    }
    // Its burst of two, and one a minute (drawn from 50 to 75 s).
    assert!((2..=4).contains(&downs), "{downs}");
    let versions = rig.versions.len() - before;
    assert!(versions <= 2 * downs, "{versions}");
    let others = rig.membership.report(rig.now);
    assert!(others[1..].iter().all(|host| host.flap.is_none()));
    assert!(others[0].flap.unwrap().counters.denied_host > 290);
    // And one of the others that truly dies leaves at its threshold.
    rig.probe(77, [Passing, Failed]);
    assert!(!rig.is_in(77));
}

// case B24
#[test]
fn all_five_hundred_flap_at_once_and_the_catalog_keeps_serving() {
    //
    let mut rig = Rig::new(damped(), 500);
    rig.pass(10 * S);
    let (before, start) = (rig.versions.len(), rig.now);
    let mut least = 500;
    for round in 0..600 {
        let outcome = if round % 2 == 0 { Passing } else { Failed };
        (0..500).for_each(|host| rig.probe(host, [outcome]));
        rig.pass(100 * MS);
        least = least.min(rig.versions.last().unwrap().1.len());
    }
    let counters = rig.membership.flap_counters();
    let soft = counters.allowed - counters.hard;
    assert!(soft <= 10 + 61, "the catalog's limiter: {soft}");
    assert!(least >= 480, "{least} of 500 are served at the least");
    let took = (rig.now - start).as_secs() as usize;
    let versions = rig.versions.len() - before;
    assert!(versions <= took + 1, "{versions} versions in {took} s");
}
