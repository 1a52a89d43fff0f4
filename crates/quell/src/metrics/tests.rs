//! Pages of what engines report: every family there, labels bounded, sums right.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use quell_core::exposition::{NAMES_MAX, OTHER};
use quell_core::status::{ExitStatus, PathStatus, SessionStatus};
use quell_net::engine::client::ClientReport;
use quell_net::engine::provider::ProviderReport;
use serde_json::json;

use super::*;

fn status(role: &str, report: impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(report).unwrap();
    value["role"] = json!(role);
    value["version"] = json!("0.1.0");
    value
}

fn exit(name: &str) -> ExitStatus {
    ExitStatus {
        name: name.to_owned(),
        state: "up",
        path: Some(PathStatus {
            rtt_ms: Some(20.0),
            ..PathStatus::default()
        }),
        ..ExitStatus::default()
    }
}

/// What stands before the value in each line that is a sample.
fn series(page: &str) -> Vec<&str> {
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect()
}

fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("no {series} in\n{page}"));
    value.trim().parse().unwrap()
}

#[test]
fn a_client_at_rest_has_every_family_that_rules_are_written_over() {
    let mut report = ClientReport::default();
    report.client.exits.push(exit("fra"));
    let page = render(&status("client", report));
    for name in [
        "quell_info{role=\"client\",version=\"0.1.0\"}",
        "quell_udp_bytes_total{cause=\"first_send\"}",
        "quell_udp_bytes_total{cause=\"quic\"}",
        "quell_drops_total{reason=\"queue_full\"}",
        "quell_resends_total{kind=\"evidence\"}",
        "quell_resends_total{kind=\"silence\"}",
        "quell_flap_transitions_total{decision=\"allowed\"}",
        "quell_flap_transitions_total{decision=\"denied_host\"}",
        "quell_flap_transitions_total{decision=\"denied_catalog\"}",
        "quell_client_state{state=\"up\"}",
        "quell_exit_up{server=\"fra\"}",
        "quell_exit_rtt_seconds{server=\"fra\"}",
        "quell_backends_all_degraded",
        "quell_pack_sends_max",
    ] {
        assert!(series(&page).contains(&name), "no {name} in\n{page}");
    }
}

#[test]
fn a_provider_counts_clients_and_names_none() {
    let mut report = ProviderReport::default();
    for number in 0..3 {
        report.provider.sessions.push(SessionStatus {
            client: format!("client {number}"),
            state: "up",
            ..SessionStatus::default()
        });
    }
    report.provider.refused.insert("unknown_client", 4);
    let page = render(&status("provider", report));
    assert_eq!(value(&page, "quell_sessions{state=\"up\"}"), 3.0);
    let refused = "quell_refused_connections_total{reason=\"unknown_client\"}";
    assert_eq!(value(&page, refused), 4.0);
    assert!(!page.contains("client 1"), "{page}");
}

// What ended and what lives is one sum, so that a counter does not go back when a session ends.
#[test]
fn counters_are_sums_over_what_ended_and_what_lives() {
    let page = render(&json!({
        "role": "client", "version": "1",
        "tun_drops": {"no_tunnel": 1},
        "received_drops": {"malformed": 2},
        "device": {"drops": {"device_full": 4}},
        "ended": {"drops": {"queue_full": 8}, "flow": {"send": {"silence_resends": 1}}},
        "exits": [
            {"name": "a", "path": {"drops": {"queue_full": 16}, "flow": {"send": {"silence_resends": 2}}}},
            {"name": "b", "path": {"message": {"send": {"silence_resends": 4}}}},
        ],
    }));
    for (reason, drops) in [
        ("no_tunnel", 1.0),
        ("malformed", 2.0),
        ("device_full", 4.0),
        ("queue_full", 24.0),
        ("aged", 0.0),
    ] {
        let series = format!("quell_drops_total{{reason=\"{reason}\"}}");
        assert_eq!(value(&page, &series), drops, "{reason}");
    }
    assert_eq!(value(&page, "quell_resends_total{kind=\"silence\"}"), 7.0);
}

// Labels are bounded, whatever a catalog says.
#[test]
fn ten_thousand_hostile_names_are_as_many_series_as_the_bound_allows() {
    let hostile =
        |number: usize| format!("{number}\"}} 1\nquell_evil{{x=\"\\{}", "x".repeat(9_000));
    let mut report = ClientReport::default();
    report.client.exits = (0..10_000).map(|number| exit(&hostile(number))).collect();
    let page = render(&status("client", report));
    let all = series(&page);
    let unique: BTreeSet<_> = all.iter().collect();
    assert_eq!(unique.len(), all.len(), "a series stands twice");
    let up: Vec<_> = all
        .iter()
        .filter(|s| s.starts_with("quell_exit_up{"))
        .collect();
    assert_eq!(up.len(), NAMES_MAX + 1);
    assert!(page.len() < 128 * 1024, "{} bytes", page.len());
    assert!(!page.lines().any(|line| line.starts_with("quell_evil")));
    let others = format!("quell_exit_up{{server=\"{OTHER}\"}}");
    assert_eq!(value(&page, &others), (10_000 - NAMES_MAX) as f64);
}

#[test]
fn a_remainder_below_zero_is_no_counter() {
    let page = render(&json!({
        "role": "client", "version": "1", "udp": {"by_cause": {"quic": -20, "dial": 5}},
    }));
    assert_eq!(value(&page, "quell_udp_bytes_total{cause=\"quic\"}"), 0.0);
    assert_eq!(value(&page, "quell_udp_bytes_total{cause=\"dial\"}"), 5.0);
}

#[test]
fn each_kind_of_work_of_each_backend_is_a_series() {
    let work = |degraded: bool| json!({"work": "x", "degraded": degraded});
    let all = [work(false), work(false), work(true), work(false)];
    let page = render(&json!({
        "role": "client", "version": "1",
        "backend": {"degraded": false, "backends": [{"url": "https://a/", "work": all}, {"url": null, "work": all}]},
    }));
    let series = |backend: &str, work: &str| {
        format!("quell_backend_degraded{{backend=\"{backend}\",work=\"{work}\"}}")
    };
    assert_eq!(value(&page, &series("https://a/", "contract")), 1.0);
    assert_eq!(value(&page, &series("https://a/", "auth")), 0.0);
    assert_eq!(value(&page, &series("noted", "contract")), 1.0);
}

#[test]
fn what_is_no_status_is_a_small_page() {
    for odd in [json!(null), json!([]), json!({"role": "prophet"})] {
        let page = render(&odd);
        assert_eq!(series(&page).len(), 1, "{page}");
    }
}
