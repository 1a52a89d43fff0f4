//! What an operator is given belongs together: metrics, alerts, dashboard, runbook.
//!
//! - A rule or a panel over a name that no page has never fires and shows nothing, and nobody notices.
//! - An alert wakes somebody who has to know what to do: each has an entry in the runbook under its own name, and each entry
//!   is of an alert.
//! - Every metric is described in the code that writes it, so a name in the rules is found there by a plain search.

use std::collections::BTreeSet;

use serde_json::Value;

use super::source::{read, tree};

const RULES: &str = "packaging/prometheus/quell.rules.yml";
const DASHBOARD: &str = "packaging/grafana/quell.json";
const RUNBOOK: &str = "docs/runbook.md";

/// Words of a text that begin as metrics do.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("quell_") && !word.ends_with('_'));
    metrics.map(str::to_owned).collect()
}

/// Names that the code writes: whole literals in the files that render.
fn written() -> BTreeSet<String> {
    let renders = |path: &str| {
        path.starts_with("crates/quell/src/metrics/") && !path.ends_with("tests.rs")
            || path == "crates/backend/src/server/metrics.rs"
    };
    let sources = tree().into_iter().filter(|source| renders(&source.path));
    let names = sources.flat_map(|source| {
        let literals = source.text.split('"').map(str::to_owned);
        literals.collect::<Vec<_>>()
    });
    let is_name = |text: &String| metrics_in(text).contains(text);
    names.filter(is_name).collect()
}

fn alerts(rules: &str) -> Vec<String> {
    let lines = rules.lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// What is wrong between alerts and runbook.
fn complaints(rules: &str, runbook: &str) -> Vec<String> {
    let alerts = alerts(rules);
    let mut found = Vec::new();
    let entries = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## Quell"));
    let entries: Vec<_> = entries.map(|name| format!("Quell{name}")).collect();
    for alert in &alerts {
        let anchor = format!("runbook: {RUNBOOK}#{}", alert.to_lowercase());
        if !entries.contains(alert) {
            found.push(format!("{alert} has no entry in the runbook"));
        }
        if !rules.lines().any(|line| line.trim() == anchor) {
            found.push(format!("{alert} does not say `{anchor}`"));
        }
    }
    let strange = entries.iter().filter(|entry| !alerts.contains(entry));
    found.extend(strange.map(|entry| format!("{entry} is the entry of no alert")));
    found
}

#[test]
fn rules_and_dashboard_speak_of_metrics_that_there_are() {
    let written = written();
    assert!(written.len() > 60, "{} metrics", written.len());
    for file in [RULES, DASHBOARD] {
        let unknown: Vec<_> = metrics_in(&read(file))
            .difference(&written)
            .cloned()
            .collect();
        assert_eq!(unknown, [""; 0], "{file}");
    }
}

#[test]
fn the_dashboard_is_one() {
    let board: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let mut places = BTreeSet::new();
    for panel in panels {
        let (x, y) = (&panel["gridPos"]["x"], &panel["gridPos"]["y"]);
        assert!(places.insert(format!("{x},{y}")), "two panels at {x},{y}");
        let targets = panel["targets"].as_array().map_or(0, Vec::len);
        assert_eq!(targets > 0, panel["type"] != "row", "{}", panel["title"]);
    }
    assert!(panels.len() > 15);
}

#[test]
fn each_alert_has_its_entry_in_the_runbook() {
    assert!(alerts(&read(RULES)).len() > 10);
    assert_eq!(complaints(&read(RULES), &read(RUNBOOK)), [""; 0]);
}

#[test]
fn an_alert_without_an_entry_and_an_entry_without_an_alert_are_found() {
    let rules = "- alert: QuellA\n  runbook: docs/runbook.md#quella\n- alert: QuellB\n";
    let found = complaints(rules, "## QuellA\n## QuellC\n");
    let expected = [
        "QuellB has no entry in the runbook",
        "QuellB does not say `runbook: docs/runbook.md#quellb`",
        "QuellC is the entry of no alert",
    ];
    assert_eq!(found, expected);
}
