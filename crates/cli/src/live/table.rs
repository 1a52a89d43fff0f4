//! The tables of a frame: a client's exits, a provider's sessions.

use serde_json::Value;

use super::bits;
use super::rates::{Rates, count, text};

/// Most characters of a name; the rest of the line has its place.
const NAME_CHARS: usize = 28;

/// A client's exits, in the order of its file; `*` is the first choice.
pub(super) fn exits(status: &Value) -> Vec<String> {
    let mut lines = vec![format!(
        "  {:<NAME_CHARS$}  {:<7}  {:<8}  {:>5}  {:>5}  {:<7}  WHY",
        "EXIT", "STATE", "RTT", "FLOWS", "DIALS", "GATE"
    )];
    let main = count(status, "/main_exit");
    let exits = status["exits"].as_array().into_iter().flatten();
    for (place, exit) in exits.enumerate() {
        let mark = if place as u64 == main { '*' } else { ' ' };
        let gate = text(exit, "/dial_gate/state");
        lines.push(format!(
            "{mark} {:<NAME_CHARS$}  {:<7}  {:<8}  {:>5}  {:>5}  {gate:<7}  {}",
            short(text(exit, "/name")),
            text(exit, "/state"),
            rtt(exit),
            count(exit, "/flows"),
            count(exit, "/dials"),
            why(exit),
        ));
    }
    lines
}

/// Why nothing goes there; empty where all is well.
fn why(exit: &Value) -> String {
    if exit.pointer("/path/stalled") == Some(&Value::Bool(true)) {
        return "it does not answer".to_owned();
    }
    if exit["is_usable"] == true {
        return String::new();
    }
    let reason = text(exit, "/reason");
    match exit["next_dial_in_ms"].as_u64() {
        Some(ms) => format!("{reason}; next in {} s", ms.div_ceil(1_000)),
        None => reason.to_owned(),
    }
}

/// A provider's sessions, the busiest first.
pub(super) fn sessions(rates: &Rates<'_>, status: &Value) -> Vec<String> {
    let before = rates
        .before()
        .and_then(|before| before["sessions"].as_array());
    let mut rows: Vec<_> = Vec::new();
    for session in status["sessions"].as_array().into_iter().flatten() {
        let client = text(session, "/client");
        let known = before.into_iter().flatten();
        let known = known.filter(|known| text(known, "/client") == client);
        // Several of one name, such as `by contract`, cannot be told apart.
        let mut known = known.filter(|known| known["addresses"] == session["addresses"]);
        let rates = rates.part(known.next(), session);
        let inward = rates.of_path("/path/counters/received_bytes");
        let outward = rates.of_path("/path/counters/sent_bytes")
            + rates.of_path("/path/counters/laned_bytes");
        rows.push((inward + outward, line(session, inward, outward)));
    }
    // Stable: who is as busy stays in its place.
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let head = format!(
        "{:<NAME_CHARS$}  {:<9}  {:>12}  {:>12}  {:<8}  {:>5}  WHY",
        "CLIENT", "STATE", "FROM IT", "TO IT", "RTT", "FLOWS"
    );
    std::iter::once(head)
        .chain(rows.into_iter().map(|(_, line)| line))
        .collect()
}

fn line(session: &Value, inward: f64, outward: f64) -> String {
    let why = match session.pointer("/path/stalled") {
        Some(Value::Bool(true)) => "it does not answer",
        Some(_) | None => text(session, "/pause/words"),
    };
    format!(
        "{:<NAME_CHARS$}  {:<9}  {:>12}  {:>12}  {:<8}  {:>5}  {why}",
        short(text(session, "/client")),
        text(session, "/state"),
        bits(inward),
        bits(outward),
        rtt(session),
        count(session, "/usage/flows"),
    )
}

fn rtt(of: &Value) -> String {
    match of.pointer("/path/rtt_ms").and_then(Value::as_f64) {
        Some(ms) => format!("{ms:.1} ms"),
        None => "-".to_owned(),
    }
}

/// A name in its column, without what a terminal obeys.
fn short(name: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    name.chars().take(NAME_CHARS).map(plain).collect()
}
