//! Each way to break quell makes its checker complain, and quell as it is makes none complain in the same scenario.
//!
//! Rows that are served: R-3 and R-10 (cap, budget, memory), R-4 and R-11 (widen), R-17, R-31 and R-32 (paced, herd, single),
//! R-18 (single), R-20 (quiet, silence, converge), R-21 (once, conservation).

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use quell_sim::mutant::MUTANTS;

/// Of wall time, for one mutant.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn each_mutant_is_noticed_by_its_checker() {
    //
    let mut alive = Vec::new();
    for mutant in MUTANTS {
        let scenario = mutant.scenario().unwrap();
        let began = Instant::now();
        let complaints = mutant.complaints(&scenario, true).unwrap();
        assert!(began.elapsed() < NOTICED_WITHIN, "{}", mutant.name);
        let words = format!("{}:", mutant.checker);
        if !complaints
            .iter()
            .any(|complaint| complaint.starts_with(&words))
        {
            alive.push(format!(
                "{} ({}): {complaints:?}",
                mutant.name, mutant.checker
            ));
        }
    }
    assert!(alive.is_empty(), "{}", alive.join("\n"));
}

#[test]
fn quell_as_it_is_makes_no_checker_complain_where_its_mutants_do() {
    for mutant in MUTANTS {
        let scenario = mutant.scenario().unwrap();
        let complaints = mutant.complaints(&scenario, false).unwrap();
        assert!(complaints.is_empty(), "{}: {complaints:#?}", mutant.name);
    }
}

#[test]
fn every_checker_has_a_mutant() {
    let checkers = [
        "budget",
        "cap",
        "conservation",
        "converge",
        "herd",
        "memory",
        "once",
        "paced",
        "quiet",
        "silence",
        "single",
        "widen",
    ];
    for checker in checkers {
        assert!(
            MUTANTS.iter().any(|mutant| mutant.checker == checker),
            "{checker}"
        );
    }
}
