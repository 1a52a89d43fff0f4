//! Each bound at its figure and one step past it; what the object and the table say of both.

use std::time::Duration;

use super::super::bounds;
use super::*;

/// A run in which every figure is exactly at its bound.
fn at_the_bounds() -> Figures {
    let status = json!({"unaccounted": 0});
    Figures {
        download_mbit_s: 1_234.567,
        downloads_damaged: 0,
        pings_lost: 0,
        outage: Outage {
            time: Duration::from_millis(30_004),
            bytes_out: 49_152,
            bytes_out_after_first_second: 8_192,
            bytes_out_by_cause: [1, 2, 3, 4, 5, 6, -7],
            bytes_offered: 7_500_000,
            dials: 0,
            first_packet: Some(Duration::from_millis(1_000)),
            tcp_resumed: Some(Duration::from_millis(1_200)),
            tcp_bytes_sent: 5_000,
            tcp_bytes_arrived: 5_000,
            seconds: Vec::new(),
        },
        max_sends_of_one_pack: Some(17),
        client: Books::of_client(&status),
        provider: Books::of_provider(&status),
    }
}

/// Changes one figure of a run that is within its bounds.
type Change = fn(&mut Figures);

/// One step past each bound, in the order of the bounds.
const STEPS: [(&str, Change); 9] = [
    ("downloads_damaged", |run| run.downloads_damaged = 1),
    ("pings_lost", |run| run.pings_lost = 1),
    ("udp_bytes_out_in_outage", |run| run.outage.bytes_out += 1),
    ("udp_bytes_out_after_first_second", |run| {
        run.outage.bytes_out_after_first_second += 1;
    }),
    ("first_packet_after_heal_ms", |run| {
        run.outage.first_packet = Some(Duration::from_nanos(1_000_000_001));
    }),
    ("tcp_resumed_after_heal_ms", |run| {
        run.outage.tcp_resumed = Some(Duration::from_nanos(1_200_000_001));
    }),
    ("tcp_bytes_missing", |run| run.outage.tcp_bytes_arrived -= 1),
    ("max_sends_of_one_pack", |run| {
        run.max_sends_of_one_pack = Some(18)
    }),
    ("unaccounted", |run| {
        run.provider = Books::of_provider(&json!({"unaccounted": -1}));
    }),
];

fn broken(run: &Figures) -> Vec<&'static str> {
    bounds::broken(&run.bounds())
}

#[test]
fn at_its_bounds_a_run_is_right() {
    let run = at_the_bounds();
    assert_eq!(broken(&run), [""; 0]);
    assert!(!run.to_string().contains("BROKEN"), "{run}");
}

#[test]
fn one_step_past_a_bound_breaks_it_and_no_other() {
    let names = at_the_bounds().bounds().map(|bound| bound.name);
    assert_eq!(names, STEPS.map(|(name, _)| name), "each bound has a step");
    for (name, step) in STEPS {
        let mut run = at_the_bounds();
        step(&mut run);
        assert_eq!(broken(&run), [name]);
        for bound in run.bounds() {
            assert_eq!(bound.json()["ok"], bound.name != name, "{bound:?}");
        }
        assert_eq!(run.to_string().matches("BROKEN").count(), 1, "{run}");
    }
}

#[test]
fn what_never_came_is_out_of_bounds() {
    let mut run = at_the_bounds();
    run.outage.first_packet = None;
    run.outage.tcp_resumed = None;
    run.max_sends_of_one_pack = None;
    let expected = [
        "first_packet_after_heal_ms",
        "tcp_resumed_after_heal_ms",
        "max_sends_of_one_pack",
    ];
    assert_eq!(broken(&run), expected);
    assert_eq!(run.json()["first_packet_after_heal_ms"], Value::Null);
    assert_eq!(run.to_string().matches("none").count(), 3, "{run}");
}

#[test]
fn what_both_ends_miss_is_added_up_whatever_its_sign() {
    let mut run = at_the_bounds();
    run.client = Books::of_client(&json!({"unaccounted": 2}));
    run.provider = Books::of_provider(&json!({"unaccounted": -2}));
    assert_eq!(run.json()["unaccounted"], 4);
}

//
#[test]
fn the_object_says_what_the_outage_cost() {
    let object = at_the_bounds().json();
    let bytes = json!({
        "total": 49_152, "after_first_second": 8_192,
        "first_send": 1, "resend": 2, "race": 3, "ack": 4, "ping": 5, "dial": 6, "quic": -7,
    });
    assert_eq!(object["udp_bytes_out_in_outage"], bytes);
    assert_eq!(object["bytes_offered_in_outage"], 7_500_000);
    assert_eq!(object["dials_in_outage"], 0);
    assert_eq!(object["outage_s"], 30.0);
    assert_eq!(object["download_mbit_s"], 1_234.6);
    assert_eq!(object["first_packet_after_heal_ms"], 1_000);
    assert_eq!(object["tcp_resumed_after_heal_ms"], 1_200);
    assert_eq!(object["max_sends_of_one_pack"], 17);
    assert_eq!(object["conservation"]["client"]["unaccounted"], 0);
    let first = json!({"name": "downloads_damaged", "figure": 0, "limit": 0, "ok": true});
    assert_eq!(at_the_bounds().bounds()[0].json(), first);
}

#[test]
fn the_verdict_is_readable_on_any_terminal() {
    let mut run = at_the_bounds();
    run.outage.bytes_out_by_cause = [-123_456_789; CAUSES.len()];
    let text = run.to_string();
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(text.contains("49,152    49,152  ok\n"), "{text}");
}
