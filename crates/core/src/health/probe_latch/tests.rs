//! The latch as rows of outcomes, and against a model that reads the whole row anew.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use ProbeOutcome::{Critical, Failed, Passing, Rejected};

fn latch() -> ProbeLatch {
    ProbeLatch::new(ProbeLatchConfig::default())
}

/// Tells the latch a row of outcomes of its present epoch.
fn tell(latch: &mut ProbeLatch, row: impl IntoIterator<Item = ProbeOutcome>) -> ProbeState {
    for outcome in row {
        latch.on_outcome(latch.epoch(), outcome);
    }
    latch.state()
}

#[test]
fn without_a_readable_answer_a_provider_stays_in_service() {
    // R-40, case B23
    let mut latch = latch();
    assert!(latch.is_in_service());
    for at in 0..1_000 {
        // Rejections, and one failure among them.
        let outcome = if at == 500 { Failed } else { Rejected };
        assert!(!latch.on_outcome(latch.epoch(), outcome));
        assert!(latch.is_in_service());
    }
    assert_eq!(latch.state(), ProbeState::ProbeUnsupported);
    tell(&mut latch, [Failed; 1_000]);
    assert!(latch.is_in_service());
}

#[test]
fn the_first_readable_answer_latches_and_what_came_before_does_not_count() {
    //
    for (first, further) in [(Passing, 3), (Critical, 2)] {
        let mut latch = latch();
        tell(&mut latch, [Failed; 100]);
        assert!(latch.on_outcome(latch.epoch(), first));
        assert_eq!(latch.state(), ProbeState::Passing);
        tell(&mut latch, vec![Rejected; further - 1]);
        assert_eq!(latch.state(), ProbeState::Passing, "{first:?}");
        assert!(latch.on_outcome(latch.epoch(), Rejected));
        assert_eq!(latch.state(), ProbeState::Critical, "{first:?}");
    }
}

#[test]
fn each_threshold_is_reached_at_its_number_and_not_before() {
    //
    for bad in [Critical, Rejected, Failed] {
        let mut latch = latch();
        tell(&mut latch, [Passing]);
        assert_eq!(tell(&mut latch, [bad, bad]), ProbeState::Passing);
        assert_eq!(tell(&mut latch, [Passing, bad, bad]), ProbeState::Passing);
        assert_eq!(tell(&mut latch, [bad]), ProbeState::Critical);
        assert_eq!(tell(&mut latch, [Passing]), ProbeState::Critical);
        assert_eq!(tell(&mut latch, [bad, Passing]), ProbeState::Critical);
        assert_eq!(tell(&mut latch, [Passing]), ProbeState::Passing);
    }
}

#[test]
fn a_threshold_of_one_is_one() {
    //
    let mut latch = ProbeLatch::new(ProbeLatchConfig {
        success_before_passing: 1,
        failures_before_critical: 1,
    });
    assert_eq!(tell(&mut latch, [Critical]), ProbeState::Critical);
    assert_eq!(tell(&mut latch, [Passing]), ProbeState::Passing);
    assert_eq!(tell(&mut latch, [Failed]), ProbeState::Critical);
}

#[test]
fn no_pattern_of_failures_and_rejections_readmits_the_dead() {
    // R-42, case B23
    for rejections in 0..=100 {
        for rounds in [3, 50] {
            let mut latch = latch();
            tell(&mut latch, [Passing, Failed, Failed, Failed]);
            let round = || std::iter::once(Failed).chain(vec![Rejected; rejections]);
            for outcome in (0..rounds).flat_map(|_| round()) {
                assert!(!latch.on_outcome(latch.epoch(), outcome));
                assert!(!latch.is_in_service(), "F, R x {rejections}");
            }
        }
    }
}

#[test]
fn no_pattern_excludes_a_good_one_for_good() {
    //
    for rejections in 0..=100 {
        let mut latch = latch();
        tell(&mut latch, [Passing]);
        tell(&mut latch, vec![Rejected; rejections]);
        tell(&mut latch, [Failed; 10]);
        assert_eq!(tell(&mut latch, [Passing, Passing]), ProbeState::Passing);
    }
}

#[test]
fn another_configuration_starts_anew_and_old_probes_do_not_count() {
    // R-43, case B23
    let mut latch = latch();
    let old = latch.epoch();
    tell(&mut latch, [Passing, Failed, Failed, Failed]);
    assert!(!latch.is_in_service());
    latch.on_reconfigured(ProbeLatchConfig::default());
    assert_eq!(latch.state(), ProbeState::ProbeUnsupported);
    for outcome in [Passing, Failed, Failed, Failed, Critical] {
        assert!(!latch.on_outcome(old, outcome));
    }
    assert_eq!(latch.state(), ProbeState::ProbeUnsupported);
    assert_eq!(
        tell(&mut latch, [Rejected; 10]),
        ProbeState::ProbeUnsupported
    );
}

#[test]
fn an_operator_sees_and_resets_it() {
    //
    let mut latch = latch();
    let words = |latch: &ProbeLatch| latch.status().to_string();
    assert_eq!(
        words(&latch),
        "probe_unsupported: in service, because the probe was never answered readably \
         (it has not been asked)"
    );
    tell(&mut latch, [Rejected]);
    assert!(words(&latch).ends_with("(it did not understand the probe)"));
    tell(&mut latch, [Passing]);
    assert_eq!(words(&latch), "passing: it said that it is well");
    tell(&mut latch, [Failed]);
    let said = "passing: 1 of 3 probes in a row failed (it did not answer)";
    assert_eq!(words(&latch), said);
    tell(&mut latch, [Failed, Critical]);
    let said = "critical: 3 probes in a row failed (it said that it is not well)";
    assert_eq!(words(&latch), said);
    assert!(!latch.status().in_service);
    tell(&mut latch, [Passing]);
    assert_eq!(words(&latch), "critical: 1 of 2 good answers in a row");
    let old = latch.epoch();
    latch.reset();
    assert!(latch.is_in_service());
    latch.on_outcome(old, Passing);
    assert_eq!(latch.state(), ProbeState::ProbeUnsupported);
}

#[test]
fn counts_saturate() {
    let mut latch = latch();
    latch.failures = u32::MAX;
    tell(&mut latch, [Failed]);
    assert_eq!(latch.status().failures, u32::MAX);
    tell(&mut latch, [Passing]);
    latch.successes = u32::MAX;
    tell(&mut latch, [Passing]);
    assert_eq!(latch.status().successes, u32::MAX);
}

/// Where a row leads, read from its first readable answer on.
fn model(row: &[ProbeOutcome], good_max: usize, bad_max: usize) -> ProbeState {
    let Some(first) = row.iter().position(|o| o.is_readable()) else {
        return ProbeState::ProbeUnsupported;
    };
    let row = &row[first..];
    let mut state = ProbeState::Passing;
    for end in 1..=row.len() {
        let ends_in = |count: usize, good: bool| {
            end >= count
                && row[end - count..end]
                    .iter()
                    .all(|o| (*o == Passing) == good)
        };
        if ends_in(bad_max, false) {
            state = ProbeState::Critical;
        } else if ends_in(good_max, true) {
            state = ProbeState::Passing;
        }
    }
    state
}

proptest! {
    //
    #[test]
    fn any_row_leads_where_the_model_says(
        rows in prop::collection::vec(prop::collection::vec(0..4_usize, 0..60), 1..4),
        good_max in 1..4_u32,
        bad_max in 1..4_u32,
    ) {
        let config = ProbeLatchConfig {
            success_before_passing: good_max,
            failures_before_critical: bad_max,
        };
        let mut latch = ProbeLatch::new(config.clone());
        let mut stale = latch.epoch();
        for row in rows {
            let mut told = Vec::new();
            for outcome in row {
                let outcome = [Passing, Critical, Rejected, Failed][outcome];
                if stale != latch.epoch() {
                    prop_assert!(!latch.on_outcome(stale, outcome));
                }
                let before = latch.state();
                told.push(outcome);
                let changed = latch.on_outcome(latch.epoch(), outcome);
                prop_assert_eq!(latch.state(), model(&told, good_max as usize, bad_max as usize));
                prop_assert_eq!(changed, latch.state() != before);
            }
            stale = latch.epoch();
            latch.on_reconfigured(config.clone());
        }
    }
}
