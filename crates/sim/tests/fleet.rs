//! Fleets, end to end: what a scenario says happens, and what is counted of it adds up.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use quell_sim::fleet::{self, Options, SimError};
use quell_sim::outcome::PolicyOutcome;
use quell_sim::scenario::{Direction, Fault, FaultKind, Fleet, Scenario, Whom, Work};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn messages(every: Duration) -> Work {
    Work::Messages {
        every,
        len_bytes: 200,
        answer_bytes: 0,
    }
}

/// Some clients of three providers, each of which says something each second, for two minutes.
fn quiet() -> Scenario {
    Scenario {
        name: "test".to_owned(),
        summary: "a test".to_owned(),
        duration: s(180),
        fleet: Fleet {
            clients: 8,
            providers: 3,
            ..Fleet::default()
        },
        path: Default::default(),
        backend: Default::default(),
        work: vec![messages(s(1))],
        fault: Vec::new(),
        bounds: Default::default(),
        bars: Default::default(),
    }
}

fn broken(kind: FaultKind, at: u64, until: u64) -> Fault {
    Fault {
        kind,
        at: s(at),
        until: s(until),
        whom: Whom::default(),
        flap: None,
    }
}

fn with(fault: Fault) -> Scenario {
    Scenario {
        fault: vec![fault],
        ..quiet()
    }
}

fn run_as(scenario: &Scenario, policy: &str, seed: u64) -> PolicyOutcome {
    let options = Options {
        seed,
        ..Options::default()
    };
    let outcome = fleet::run(scenario, policy, &options, &mut |_| ()).unwrap();
    conserves(&outcome);
    outcome
}

fn run(scenario: &Scenario) -> PolicyOutcome {
    run_as(scenario, "quell", 1)
}

/// What holds of any outcome.
fn conserves(outcome: &PolicyOutcome) {
    assert_eq!(outcome.complaints, Vec::<String>::new());
    assert_eq!(outcome.doubled_items, 0);
    let came_or_lost = outcome.delivered_items + outcome.lost_items;
    assert_eq!(
        outcome.offered_items,
        came_or_lost + outcome.under_way_items
    );
    for by in [
        outcome.udp_bytes_out,
        outcome.outage_bytes_out,
        outcome.udp_bytes_back,
    ] {
        let units = by.first_send + by.resend + by.race + by.ack + by.ping + by.control;
        assert_eq!(by.total, units + by.dial + by.quic);
    }
    let series = &outcome.series;
    let bytes: u64 = series.bytes_out.iter().map(|by| by.total).sum();
    assert_eq!(bytes, outcome.udp_bytes_out.total);
    assert_eq!(
        series.delivered.iter().sum::<u64>(),
        outcome.delivered_items
    );
    assert_eq!(series.dials.iter().sum::<u64>(), outcome.dials.total);
    let requests: u64 = series.backend_requests.iter().sum();
    assert_eq!(requests, outcome.backend_requests.total);
}

/// Nothing was lost in silence. Of 8 clients, each of which says something each second, three seconds may be under way.
fn came(outcome: &PolicyOutcome) -> bool {
    outcome.lost_items == 0 && outcome.under_way_items <= 8 * 3
}

#[test]
fn in_a_quiet_world_everything_comes_once() {
    let outcome = run(&quiet());
    assert!(outcome.offered_items > 8 * 170, "{outcome:?}");
    assert!(came(&outcome), "{outcome:?}");
    assert_eq!(outcome.sessions_lost, 0);
    assert_eq!(outcome.udp_bytes_out.resend, 0);
    assert_eq!(outcome.never_recovered, 0);
    assert_eq!(outcome.recovery_ms.count, 0);
}

#[test]
fn a_lossy_world_delivers_once_too() {
    let mut scenario = quiet();
    scenario.path.loss = 0.05;
    scenario.path.jitter = Duration::from_millis(10);
    let outcome = run(&scenario);
    assert!(came(&outcome), "{outcome:?}");
    assert!(outcome.udp_bytes_out.resend > 0);
    assert!(outcome.copies_per_pack > 1.0 && outcome.copies_per_pack < 1.3);
}

#[test]
fn a_blackout_is_quiet_and_everybody_comes_back() {
    let blackout = broken(
        FaultKind::Blackhole {
            direction: Direction::Both,
        },
        60,
        120,
    );
    let outcome = run(&with(blackout));
    assert_eq!(outcome.never_recovered, 0, "{outcome:?}");
    assert_eq!(outcome.recovery_ms.count, 8);
    // A fraction of what a minute without an outage takes.
    let minute = run(&quiet()).udp_bytes_out.total / 3;
    assert!(outcome.outage_bytes_out.total < 2 * minute, "{outcome:?}");
    assert!(outcome.max_sends_of_one_pack <= 17);
}

#[test]
fn one_seed_is_one_outcome_and_another_another() {
    let mut scenario = with(broken(FaultKind::ProviderDeath, 60, 90));
    scenario.path.loss = 0.02;
    let (one, same) = (run_as(&scenario, "quell", 7), run_as(&scenario, "quell", 7));
    assert_eq!(
        serde_json::to_string(&one).unwrap(),
        serde_json::to_string(&same).unwrap()
    );
    assert_ne!(one, run_as(&scenario, "quell", 8));
}

#[test]
fn a_clock_that_is_off_changes_nothing() {
    let off = run(&with(broken(
        FaultKind::ClockOff { seconds: 3_600 },
        60,
        120,
    )));
    let mut on = run(&quiet());
    // The same course; only what counts as an outage differs.
    assert_eq!(off.udp_bytes_out, on.udp_bytes_out);
    assert_eq!(off.series, on.series);
    on.outage_bytes_out = off.outage_bytes_out;
    assert_eq!(off.delivered_items, on.delivered_items);
}

/// What each fault does, seen from outside.
#[test]
fn each_fault_does_what_it_says() {
    // How many came while it was broken: the steps are of 300 ms, so a minute has 200.
    let during = |outcome: &PolicyOutcome, from: usize, until: usize| -> u64 {
        let step = usize::try_from(outcome.series.step_ms).unwrap();
        let of = |second: usize| second * 1_000 / step;
        outcome.series.delivered[of(from)..of(until)].iter().sum()
    };
    let silent = |outcome: &PolicyOutcome| during(outcome, 62, 118) == 0;
    let carries = |outcome: &PolicyOutcome| during(outcome, 62, 118) > 8 * 50;
    let both = Direction::Both;
    assert!(silent(&run(&with(broken(
        FaultKind::Blackhole { direction: both },
        60,
        120
    )))));
    let up = FaultKind::Blackhole {
        direction: Direction::Up,
    };
    assert!(silent(&run(&with(broken(up, 60, 120)))));
    assert!(silent(&run(&with(broken(FaultKind::UplinkLoss, 60, 120)))));
    assert!(silent(&run(&with(broken(FaultKind::Suspend, 60, 120)))));
    assert!(silent(&run(&with(broken(
        FaultKind::ProviderDeath,
        60,
        120
    )))));
    assert!(carries(&run(&with(broken(
        FaultKind::DialsRefused,
        60,
        120
    )))));
    assert!(carries(&run(&with(broken(FaultKind::SharedNat, 60, 120)))));
}

/// How often the backend is asked in the minute in which it is broken, 8 clients of two kinds of questions each.
fn asked_while(kind: Option<FaultKind>) -> u64 {
    let name = format!("{kind:?}");
    let mut scenario = kind.map_or_else(quiet, |kind| with(broken(kind, 60, 120)));
    scenario.backend.demand_interval = s(10);
    let outcome = run(&scenario);
    // The data does not notice.
    assert!(came(&outcome), "{name}: {outcome:?}");
    assert_eq!(outcome.udp_bytes_out.resend, 0, "{name}");
    let step = usize::try_from(outcome.series.step_ms).unwrap();
    let minute = 60_000 / step..120_000 / step;
    outcome.series.backend_requests[minute].iter().sum()
}

#[test]
fn each_fault_of_a_backend_is_asked_into_as_its_answer_says() {
    let one = |work: &str| FaultKind::BackendFailsOne {
        work: work.to_owned(),
    };
    let well = asked_while(None);
    let refuses = asked_while(Some(FaultKind::BackendRefuses));
    let silent = asked_while(Some(FaultKind::BackendSilent));
    let slow = asked_while(Some(FaultKind::BackendSlow { answer_time: s(14) }));
    let retry_after = Some(s(30));
    let told = asked_while(Some(FaultKind::BackendUnavailable { retry_after }));
    let untold = asked_while(Some(FaultKind::BackendUnavailable { retry_after: None }));
    let half = asked_while(Some(FaultKind::BackendFails { part: 0.5 }));
    let contract = asked_while(Some(one("contract")));
    let all = format!("{well} {refuses} {silent} {slow} {told} {untold} {half} {contract}");
    // One question in 10 s and client, give or take the jitter.
    assert!((40..=56).contains(&well), "{all}");
    // Three in 2 s, then after 5, 10, 20, 30 s ± 25 %: five to seven of each kind.
    assert!((16 * 5..=16 * 7).contains(&refuses), "{all}");
    // Whoever waits 5 s for nothing asks less often than who hears no at once.
    assert!(silent < refuses, "{all}");
    // An answer that comes too late is none.
    assert_eq!(slow, silent, "{all}");
    // Who was told to come back in 30 s does: twice or three times in the minute.
    assert!((16..=16 * 3).contains(&told), "{all}");
    // A 503 that says nothing of it is any failure.
    assert_eq!(untold, refuses, "{all}");
    // One success ends a row of failures.
    assert!(half > told && half != refuses && half != well, "{all}");
    // The kind that fails is probed, and the other one asked as always.
    assert!(contract > well && contract < refuses, "{all}");
    // What nobody asks for cannot fail.
    assert_eq!(asked_while(Some(one("auth"))), well, "{all}");
}

#[test]
fn acknowledgements_that_are_lost_cost_resends_and_no_item() {
    let outcome = run(&with(broken(FaultKind::AcksLost, 60, 90)));
    assert!(outcome.udp_bytes_out.resend > 0, "{outcome:?}");
    assert!(outcome.max_sends_of_one_pack > 1 && outcome.max_sends_of_one_pack <= 17);
    assert_eq!(outcome.never_recovered, 0);
}

#[test]
fn a_part_of_the_providers_is_the_first_ones() {
    let mut fault = broken(FaultKind::ProviderDeath, 60, 120);
    fault.whom = Whom::Part("34%".to_owned());
    let outcome = run(&with(fault));
    // The others carry on.
    let step = usize::try_from(outcome.series.step_ms).unwrap();
    let late: u64 = outcome.series.delivered[100_000 / step..118_000 / step]
        .iter()
        .sum();
    assert!(late > 8 * 15, "{late}");
    assert!(outcome.sessions_lost > 0);
}

#[test]
fn what_flaps_is_broken_half_of_the_time() {
    let mut fault = broken(
        FaultKind::Blackhole {
            direction: Direction::Both,
        },
        60,
        120,
    );
    fault.flap = Some(s(20));
    let outcome = run(&with(fault));
    let step = usize::try_from(outcome.series.step_ms).unwrap();
    let of = |from: usize, until: usize| -> u64 {
        outcome.series.delivered[from * 1_000 / step..until * 1_000 / step]
            .iter()
            .sum()
    };
    assert_eq!(of(61, 69), 0);
    assert!(of(75, 80) > 0);
    assert_eq!(of(81, 89), 0);
    assert_eq!(outcome.never_recovered, 0);
}

#[test]
fn a_rolling_restart_loses_nothing_and_a_suspend_loses_nothing() {
    let mut scenario = with(broken(FaultKind::RollingRestart { away: s(5) }, 40, 130));
    scenario.fleet.providers = 6;
    let outcome = run(&scenario);
    assert!(came(&outcome), "{outcome:?}");
    assert_eq!(outcome.never_recovered, 0);
    let outcome = run(&with(broken(FaultKind::Suspend, 60, 90)));
    assert!(came(&outcome), "{outcome:?}");
}

#[test]
fn a_provider_that_bears_few_sessions_falls_over() {
    let mut scenario = quiet();
    scenario.fleet.provider_sessions_max = Some(2);
    let outcome = run(&scenario);
    assert!(outcome.providers_fallen > 0);
    scenario.fleet.provider_sessions_max = Some(8);
    assert_eq!(run(&scenario).providers_fallen, 0);
}

#[test]
fn a_provider_takes_so_many_handshakes_a_second() {
    let mut scenario = quiet();
    scenario.fleet.provider_handshakes_per_s = Some(1);
    let outcome = run(&scenario);
    // First packets are lost and repeated.
    let free = run(&quiet());
    assert!(outcome.udp_bytes_out.dial > free.udp_bytes_out.dial);
    // Everybody comes in, and what waited meanwhile comes too.
    assert!(came(&outcome), "{outcome:?}");
    assert!(outcome.delivered_items > 8 * 170);
    // As many as there are clients is no limit.
    scenario.fleet.provider_handshakes_per_s = Some(8 * 3);
    assert_eq!(run(&scenario).udp_bytes_out, free.udp_bytes_out);
}

#[test]
fn an_unknown_policy_names_the_known_ones() {
    let error = fleet::run(&quiet(), "no-such", &Options::default(), &mut |_| ()).unwrap_err();
    let SimError::UnknownPolicy { known, .. } = error else {
        panic!("{error}");
    };
    assert!(known.contains("quell-no-cap"));
}

#[test]
fn each_ablation_runs_and_delivers_in_a_quiet_world() {
    // The baselines are held against their own counts, and some of them deliver twice.
    let all = quell_sim::policy::policies();
    for policy in all.filter(|policy| policy.name.starts_with("quell")) {
        let outcome = run_as(&quiet(), policy.name, 1);
        assert!(came(&outcome), "{}: {outcome:?}", policy.name);
    }
}
