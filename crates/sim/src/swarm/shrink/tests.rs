//! Shrinking by made-up predicates: what fails still fails, and what does not matter is gone.
#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;
use crate::scenario::Direction;
use crate::swarm::draw;

fn has(scenario: &Scenario, name: &str) -> bool {
    scenario.fault.iter().any(|fault| fault.kind.name() == name)
}

#[test]
fn what_a_failure_does_not_need_is_gone() {
    let (seed, drawn) = (0..)
        .map(|seed| (seed, draw::scenario(seed)))
        .find(|(_, s)| s.fault.len() == 4 && s.fleet.clients == 8 && has(s, "suspend"))
        .unwrap();
    let shrunk = shrink(&drawn, RUNS_MAX, &mut |s| has(s, "suspend"));
    let small = &shrunk.scenario;
    assert_eq!(small.fault.len(), 1, "seed {seed}: {small:#?}");
    assert_eq!((small.fleet.clients, small.fleet.providers), (1, 1));
    assert_eq!((small.work.len(), small.fleet.backends), (0, 0));
    assert!(small.path.loss == 0.0 && small.path.jitter.is_zero());
    assert!(small.duration < drawn.duration / 4, "{:?}", small.duration);
    let text = small.to_toml().unwrap();
    assert_eq!(&Scenario::from_toml(&text).unwrap(), small);
    assert!(text.lines().count() < 60, "{text}");
}

#[test]
fn what_a_failure_needs_stays() {
    let needs = |s: &Scenario| {
        let is_long = |fault: &Fault| fault.until - fault.at >= Duration::from_secs(7);
        let up = |fault: &&Fault| {
            matches!(
                fault.kind,
                FaultKind::Blackhole {
                    direction: Direction::Both
                }
            )
        };
        s.fleet.clients >= 3 && s.fault.iter().filter(up).any(is_long)
    };
    let drawn = (0..).map(draw::scenario).find(|s| needs(s)).unwrap();
    let shrunk = shrink(&drawn, RUNS_MAX, &mut |s| needs(s)).scenario;
    assert_eq!(shrunk.fleet.clients, 3);
    let fault = &shrunk.fault[0];
    let last = fault.until - fault.at;
    assert!((7..=9).contains(&last.as_secs()), "{last:?}");
}

#[test]
fn runs_are_bounded_and_the_smallest_is_left_alone() {
    let drawn = draw::scenario(3);
    let mut runs = 0;
    let shrunk = shrink(&drawn, 10, &mut |_| {
        runs += 1;
        false
    });
    assert_eq!((shrunk.runs, runs), (10, 10));
    assert_eq!(shrunk.scenario, drawn);
    let small = shrink(&drawn, RUNS_MAX, &mut |_| true);
    let again = shrink(&small.scenario, RUNS_MAX, &mut |_| true);
    assert_eq!(again.scenario, small.scenario);
}

proptest! {
    /// Whatever the failure is, what comes out fails, can be run, and is not larger.
    #[test]
    fn the_result_fails_still(seed in 0..10_000_u64, ask in any::<u64>()) {
        let drawn = draw::scenario(seed);
        let mut fails = |s: &Scenario| {
            let text = format!("{:?}{:?}{}", s.fault, s.work.len(), s.fleet.clients);
            let hash = text.bytes().fold(ask, |hash, byte| crate::fleet::node::mixed(hash ^ u64::from(byte)));
            *s == drawn || hash.is_multiple_of(3)
        };
        let shrunk = shrink(&drawn, 100, &mut fails);
        prop_assert!(fails(&shrunk.scenario));
        prop_assert!(shrunk.scenario.check().is_ok());
        prop_assert!(weight(&shrunk.scenario) <= weight(&drawn));
        prop_assert!(shrunk.runs <= 100);
    }
}
