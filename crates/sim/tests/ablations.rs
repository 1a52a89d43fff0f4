//! What each mechanism of quell's is worth: a scenario of the library, with it and without it.
//!
//! The figures stand in `docs/simulator.md`; what is held here is the direction and an order of magnitude, over several
//! seeds where chance has a say. A mechanism that stands behind another shows only where that other is left out, too.

#![allow(clippy::unwrap_used)]

use quell_sim::fleet::{self, Options};
use quell_sim::outcome::PolicyOutcome;
use quell_sim::scenario::{Scenario, named};

fn scenario(name: &str) -> Scenario {
    Scenario::from_toml(named(name).unwrap().text).unwrap()
}

fn run(scenario: &Scenario, policy: &str, seed: u64) -> PolicyOutcome {
    let options = Options {
        seed,
        ..Options::default()
    };
    fleet::run(scenario, policy, &options, &mut |_| ()).unwrap()
}

/// Runs with and without, in a scenario of this name with at most so many clients.
fn both(name: &str, clients: u32, without: &str, seed: u64) -> [PolicyOutcome; 2] {
    let mut scenario = scenario(name);
    scenario.fleet.clients = scenario.fleet.clients.min(clients);
    ["quell", without].map(|policy| run(&scenario, policy, seed))
}

#[test]
fn the_quiet_ceiling_keeps_a_long_outage_at_a_quarter() {
    for seed in 1..=3 {
        let [with, without] = both("long-blackout", 20, "quell-no-quiet", seed);
        let (with_bytes, without_bytes) =
            (with.outage_bytes_out.total, without.outage_bytes_out.total);
        assert!(
            with_bytes * 3 < without_bytes,
            "{with_bytes} {without_bytes}"
        );
        assert!(with.dials.total * 2 < without.dials.total);
        // And it is paid for: a dial may wait for room.
        assert!(with.recovery_ms.max > without.recovery_ms.max);
    }
}

#[test]
fn backoff_keeps_who_is_refused_from_dialling_at_once() {
    let [with, without] = both("cold-start", 50, "quell-no-backoff", 1);
    assert!(
        with.dials.total * 20 < without.dials.total,
        "{:?} {:?}",
        with.dials,
        without.dials
    );
    assert!(with.outage_bytes_out.total * 20 < without.outage_bytes_out.total);
}

#[test]
fn the_probe_gate_keeps_requests_from_a_backend_that_fails() {
    let [with, without] = both("backend-503", 50, "quell-no-probe-gate", 1);
    let (with, without) = (with.backend_requests, without.backend_requests);
    assert!(with.total * 8 < without.total, "{with:?} {without:?}");
    assert!(with.heal_peak_per_s * 4 < without.heal_peak_per_s);
}

#[test]
fn a_stall_ends_resends_into_silence() {
    for seed in 1..=3 {
        let [with, without] = both("asymmetric-down", 20, "quell-no-stall", seed);
        assert!(with.udp_bytes_out.resend * 2 < without.udp_bytes_out.resend);
        assert!(with.max_sends_of_one_pack * 2 < without.max_sends_of_one_pack);
    }
}

#[test]
fn the_cap_and_the_signal_hold_resends_where_a_path_half_lives() {
    for without in ["quell-no-cap", "quell-no-widening"] {
        for seed in 1..=3 {
            let [with, without] = both("lossy-degraded", 20, without, seed);
            let resends = [&with, &without].map(|outcome| outcome.udp_bytes_out.resend);
            assert!(
                resends[0] * 10 < resends[1] * 9,
                "{}: {resends:?}",
                without.policy
            );
        }
    }
}

#[test]
fn the_racer_keeps_copies_of_syns_from_paths_that_are_well() {
    let [with, without] = both("backend-503", 50, "quell-race-all", 1);
    assert_eq!(with.udp_bytes_out.race, 0);
    // Each client opens one connection, of which one copy more leaves at once.
    assert!(
        without.udp_bytes_out.race >= 50 * 47,
        "{:?}",
        without.udp_bytes_out
    );
}

// R-21: a full queue, over a carrier that holds nothing back: 60 MiB in May, about 24 MiB in August; and what a congestion
// window leaves of it.
#[test]
fn a_full_queue_is_sent_whole_again_and_again_in_a_world() {
    let text = r#"
        name = "full-queue"
        summary = "2 MiB at once, and nothing that acknowledges them for a minute"
        duration = "100s"

        [fleet]
        providers = 1

        # A round trip is known when it begins.
        [[work]]
        kind = "burst"
        at = "18s"
        packets = 1
        len_bytes = 100

        [[work]]
        kind = "burst"
        at = "20s"
        packets = 1730
        len_bytes = 1200

        [[fault]]
        kind = "acks-lost"
        at = "19s"
        until = "90s"
    "#;
    let scenario = Scenario::from_toml(text).unwrap();
    for (policy, mib) in [("upstream-2026-05", 60.0), ("upstream-2026-08", 24.0)] {
        let outcome = run(&scenario, policy, 1);
        let bytes = &outcome.udp_bytes_out;
        let found = (bytes.first_send + bytes.resend) as f64 / f64::from(1 << 20);
        // A queue that is not quite full, and packs' own headers.
        assert!((found / mib - 1.0).abs() < 0.03, "{policy}: {found} MiB");
        let overhead = bytes.total - bytes.first_send - bytes.resend;
        assert!(overhead * 20 < bytes.total, "{bytes:?}");
    }
}

#[test]
fn full_blackout_meets_its_bars_of_bytes() {
    let scenario = scenario("full-blackout");
    let policies = ["quell", "upstream-2026-08", "report-claim"];
    let policies = policies.map(|policy| run(&scenario, policy, 1)).to_vec();
    let outcome = quell_sim::report::outcome(&scenario, 1, policies);
    assert_eq!(outcome.bars.len(), 3);
    assert!(
        outcome.bars[0].ok && outcome.bars[1].ok,
        "{:?}",
        outcome.bars
    );
    // Who sends each 100 ms hears of the heal by its flood: quell is second to it, and the bar says so.
    assert!(!outcome.bars[2].ok && outcome.bars[2].other.contains("report-claim"));
    let [quell, upstream, _] = &outcome.policies[..] else {
        panic!("three");
    };
    assert!(quell.recovery_ms.max < upstream.recovery_ms.max);
    assert!(quell.caught_up_ms.max < upstream.caught_up_ms.max);
}

#[test]
fn clients_of_fallen_providers_topple_the_rest_unless_they_are_quells() {
    let cascade = scenario("cascade");
    let mut calm = cascade.clone();
    calm.fault.clear();
    for policy in ["upstream-2026-05", "upstream-2026-08"] {
        for seed in 1..=5 {
            // It is the fault that does it.
            assert_eq!(
                run(&calm, policy, seed).providers_fallen,
                0,
                "{policy}, seed {seed}"
            );
            assert!(
                run(&cascade, policy, seed).providers_fallen >= 2,
                "{policy}, seed {seed}"
            );
        }
    }
    for seed in 1..=5 {
        assert_eq!(
            run(&cascade, "quell", seed).providers_fallen,
            0,
            "seed {seed}"
        );
    }
    // What spares them is the window's gate: without it a client fills up from what is left.
    for policy in ["quell-no-window-gate", "quell-no-gates"] {
        assert_eq!(run(&calm, policy, 1).providers_fallen, 0, "{policy}");
        for seed in 1..=3 {
            let fallen = run(&cascade, policy, seed).providers_fallen;
            assert!(fallen >= 2, "{policy}, seed {seed}: {fallen}");
        }
    }
}
