//! A provider's sessions, handshakes, rules, shares, month and receipts.
//!
//! Clients are counted, never named: see the module above.

use quell_core::exposition::Kind::{Counter, Gauge};
use quell_core::provider::rules::Class;

use super::common::{Books, sockets};
use super::{Metrics, Status, add_counts};

/// All states of a session.
const STATES: [&str; 4] = ["greeting", "up", "suspended", "closing"];
/// All states of the month.
const MONTH_STATES: [&str; 3] = ["open", "leaving", "shut"];
/// What became of a handshake.
const OUTCOMES: [&str; 8] = [
    "completed",
    "failed",
    "timed_out",
    "retried",
    "refused_full",
    "refused_source",
    "refused_stopping",
    "ignored",
];

pub(super) fn books(of: Status<'_>) -> Books<'_> {
    let live = of.list("sessions").map(|session| session.at("path"));
    let received = of
        .list("sessions")
        .map(|session| session.at("received_drops"));
    Books {
        paths: std::iter::once(of.at("ended")).chain(live).collect(),
        drops: std::iter::once(of.at("ended_received_drops"))
            .chain(received)
            .collect(),
    }
}

pub(super) fn write(out: &mut Metrics, of: Status<'_>) {
    sessions(out, of);
    handshakes(out, of);
    egress(out, of);
    shares(out, of);
    if of.is_there("month") {
        month(out, of);
    }
    if of.is_there("contracts") {
        receipts(out, of.at("contracts"));
    }
    if of.is_there("userspace") {
        sockets(out, of.at("userspace"));
    }
}

fn sessions(out: &mut Metrics, of: Status<'_>) {
    let help = "Sessions, by state.";
    let family = out.page.family("quell_sessions", Gauge, help);
    for state in STATES {
        family.add(&[("state", state)], 0.0);
    }
    for session in of.list("sessions") {
        family.add(&[("state", session.text("state"))], 1.0);
    }
    let sum = |test: &dyn Fn(Status<'_>) -> bool| {
        of.list("sessions").filter(|session| test(*session)).count() as f64
    };
    let stalled = sum(&|session| session.flag("path.stalled") > 0.0);
    let help = "Sessions whose path does not answer.";
    out.page.gauge("quell_sessions_stalled", help, stalled);
    let paused = sum(&|session| session.is_there("pause"));
    let help = "Sessions for which nothing is carried, for want of a contract or a signature.";
    out.page.gauge("quell_sessions_paused", help, paused);
    let help = "Sessions that were established so far.";
    let value = of.number("sessions_total");
    out.page.counter("quell_sessions_total", help, value);
    let help = "How often a session went on over another connection.";
    out.page
        .counter("quell_resumes_total", help, of.number("resumes"));
    let help = "Whether it was told to stop and carries on for a while.";
    out.page
        .gauge("quell_draining", help, of.flag("is_draining"));
}

fn handshakes(out: &mut Metrics, of: Status<'_>) {
    let help = "Handshakes, by what became of them.";
    let family = out.page.family("quell_handshakes_total", Counter, help);
    for outcome in OUTCOMES {
        let value = of.number(&format!("handshakes.{outcome}"));
        family.add(&[("outcome", outcome)], value);
    }
    let help = "Handshakes at the moment.";
    let value = of.number("handshakes.under_way");
    out.page.gauge("quell_handshakes", help, value);
    let help = "Connections refused after their handshake, by the error's name.";
    let family = out
        .page
        .family("quell_refused_connections_total", Counter, help);
    add_counts(family, "reason", of, "refused");
}

fn egress(out: &mut Metrics, of: Status<'_>) {
    let help = "Packets of clients that the rules denied, by class.";
    let family = out.page.family("quell_egress_denied_total", Counter, help);
    for class in Class::ALL {
        family.add(&[("class", class.name())], 0.0);
    }
    add_counts(family, "class", of, "egress.denied");
    let live: f64 = of.list("sessions").map(|s| s.number("delivered")).sum();
    let help = "Packets of clients that were handed to the egress.";
    let value = of.number("ended_delivered") + live;
    out.page
        .counter("quell_delivered_packets_total", help, value);
    let held: f64 = of.list("sessions").map(|s| s.number("usage.flows")).sum();
    let help = "Flows that clients hold.";
    out.page.gauge("quell_client_flows", help, held);
}

fn shares(out: &mut Metrics, of: Status<'_>) {
    let outward = of
        .list("sessions")
        .map(|s| s.number("outward.waiting_bytes"));
    let help = "Bytes that wait for their client's share, by direction.";
    out.page
        .family("quell_share_waiting_bytes", Gauge, help)
        .add(&[("direction", "out")], outward.sum())
        .add(&[("direction", "in")], of.number("inward.waiting_bytes"));
}

fn month(out: &mut Metrics, of: Status<'_>) {
    let help = "Bytes that passed the egress in this month.";
    let value = of.number("month.used_bytes");
    out.page.gauge("quell_month_used_bytes", help, value);
    if let Some(most) = of.known("month.bytes_max") {
        let help = "Bytes that a month may have.";
        out.page.gauge("quell_month_max_bytes", help, most);
    }
    let help = "1 for the state that the month is in.";
    let family = out.page.family("quell_month_state", Gauge, help);
    for state in MONTH_STATES {
        let is = f64::from(u8::from(of.text("month.state") == state));
        family.add(&[("state", state)], is);
    }
    if of.is_there("month_kept") {
        let help = "Attempts to write the month's count that failed.";
        let value = of.number("month_kept.failures");
        out.page
            .counter("quell_month_write_failures_total", help, value);
    }
}

fn receipts(out: &mut Metrics, of: Status<'_>) {
    for (name, help, path) in [
        ("quell_accounts", "Keys with contracts.", "accounts"),
        (
            "quell_contracts",
            "Contracts that are remembered.",
            "contracts",
        ),
        (
            "quell_receipts_to_persist",
            "Receipts on the way to the disk.",
            "to_persist",
        ),
        (
            "quell_receipts_to_file",
            "Contracts whose last receipt the control plane does not have.",
            "to_file",
        ),
        (
            "quell_grace_bytes",
            "Bytes of grace given in this outage of the control plane, or the last.",
            "grace_bytes",
        ),
    ] {
        out.page.gauge(name, help, of.number(path));
    }
    let help = "Batches of receipts that could not be written.";
    let value = of.number("persist_failures");
    out.page
        .counter("quell_persist_failures_total", help, value);
    let help = "Receipts that the control plane settled.";
    let value = of.number("settled");
    out.page
        .counter("quell_receipts_settled_total", help, value);
    let help = "Contracts and receipts that were refused, by whom and why.";
    let family = out
        .page
        .family("quell_receipts_refused_total", Counter, help);
    for (by, path) in [("provider", "refused"), ("backend", "refused_by_backend")] {
        for (reason, count) in of.counts(path) {
            family.add(&[("by", by), ("reason", reason)], count);
        }
    }
}
