//! A client's exits, their gates, its window, races and contracts.
//!
//! A server's series are told apart by its name, the first ones of a page; what is said of `other` is a sum, and what cannot
//! be summed (a round trip) is not said of it.

use quell_core::exposition::Kind::{Counter, Gauge};
use quell_core::exposition::OTHER;

use super::common::{Books, sockets};
use super::{Metrics, Status};

/// All states of an exit, and of a client.
const STATES: [&str; 4] = ["dialing", "greeting", "up", "waiting"];
/// All states of a gate.
const GATE_STATES: [&str; 3] = ["ready", "backoff", "probing"];

pub(super) fn books(of: Status<'_>) -> Books<'_> {
    let live = of.list("exits").map(|exit| exit.at("path"));
    Books {
        paths: std::iter::once(of.at("ended")).chain(live).collect(),
        drops: vec![of.at("received_drops")],
    }
}

pub(super) fn write(out: &mut Metrics, of: Status<'_>) {
    state(out, of);
    for exit in of.list("exits") {
        server(out, exit);
    }
    dials(out, of);
    window(out, of);
    budget(out, of);
    flows(out, of);
    if of.is_there("contracts") {
        contracts(out, of.at("contracts"));
    }
    if of.is_there("proxy") {
        sockets(out, of.at("proxy"));
    }
}

fn state(out: &mut Metrics, of: Status<'_>) {
    let help = "1 for the state that the client is in.";
    let family = out.page.family("quell_client_state", Gauge, help);
    for state in STATES {
        let is = f64::from(u8::from(of.text("state") == state));
        family.add(&[("state", state)], is);
    }
    let help = "Whether addresses and routes are in place, or the proxy has a session.";
    let value = of.flag("interface_ready");
    out.page.gauge("quell_interface_ready", help, value);
    let help = "Whether the own uplink is in doubt.";
    let value = of.flag("uplink.in_doubt");
    out.page.gauge("quell_uplink_in_doubt", help, value);
    let help = "Exits that are known.";
    let known = of.list("exits").count();
    out.page.gauge("quell_exits", help, known as f64);
}

fn server(out: &mut Metrics, exit: Status<'_>) {
    let name = out.names.of(exit.text("name"));
    let server = [("server", name.as_str())];
    let page = &mut out.page;
    let is_up = f64::from(u8::from(exit.text("state") == "up"));
    let help = "Sessions that are up with a server.";
    page.family("quell_exit_up", Gauge, help)
        .add(&server, is_up);
    let help = "Whether new flows are well at a server.";
    page.family("quell_exit_usable", Gauge, help)
        .add(&server, exit.flag("is_usable"));
    let help = "Whether a server's path does not answer.";
    page.family("quell_exit_stalled", Gauge, help)
        .add(&server, exit.flag("path.stalled"));
    let help = "Flows that are open on a server.";
    page.family("quell_exit_flows", Gauge, help)
        .add(&server, exit.number("flows"));
    let help = "Dials of a server.";
    page.family("quell_exit_dials_total", Counter, help)
        .add(&server, exit.number("dials"));
    if let Some(rtt_ms) = exit.known("path.rtt_ms").filter(|_| name != OTHER) {
        let help = "The last measured round trip to a server.";
        page.family("quell_exit_rtt_seconds", Gauge, help)
            .add(&server, rtt_ms / 1e3);
    }
    if exit.is_there("dial_gate") {
        let help = "1 for the state that a server's dial gate is in.";
        let family = page.family("quell_dial_gate_state", Gauge, help);
        for state in GATE_STATES {
            let is = f64::from(u8::from(exit.text("dial_gate.state") == state));
            family.add(&[("server", &name), ("state", state)], is);
        }
        let help = "Dials of a server that failed in a row.";
        page.family("quell_dial_failures", Gauge, help)
            .add(&server, exit.number("dial_gate.failures"));
    }
}

fn dials(out: &mut Metrics, of: Status<'_>) {
    let help = "Dials so far.";
    out.page
        .counter("quell_dials_total", help, of.number("dials"));
    let help = "Times that a dial was told to wait, by what told it.";
    let family = out.page.family("quell_dials_deferred_total", Counter, help);
    family
        .add(&[("by", "budget")], of.number("dial_budget.deferred"))
        .add(&[("by", "quiet")], of.number("quiet.dials_deferred"));
    let help = "Sessions that were established so far.";
    out.page
        .counter("quell_sessions_total", help, of.number("sessions"));
    let help = "How often a session went on over another connection.";
    out.page
        .counter("quell_resumes_total", help, of.number("resumes"));
}

fn window(out: &mut Metrics, of: Status<'_>) {
    let help = "How often another exit became the first choice.";
    let value = of.number("exit_changes");
    out.page.counter("quell_exit_changes_total", help, value);
    let help = "Exits that are kept.";
    let value = of.number("window.members");
    out.page.gauge("quell_window_members", help, value);
    let help = "Exits that joined or left the kept ones, by how.";
    out.page
        .family("quell_window_changes_total", Counter, help)
        .add(&[("change", "join")], of.number("window.joins"))
        .add(&[("change", "eviction")], of.number("window.evictions"))
        .add(&[("change", "departure")], of.number("window.departures"));
    flap(out, of.at("flap"));
}

/// What the damper decided; the reference backend has one too.
fn flap(out: &mut Metrics, of: Status<'_>) {
    let help = "Hosts that were to go down in the eyes of others, by what was decided.";
    let family = out
        .page
        .family("quell_flap_transitions_total", Counter, help);
    for decision in ["allowed", "denied_host", "denied_catalog"] {
        family.add(&[("decision", decision)], of.number(decision));
    }
}

fn budget(out: &mut Metrics, of: Status<'_>) {
    let help = "Whether the ceiling on what is sent while nothing makes progress is in force.";
    let value = of.flag("quiet.in_force");
    out.page.gauge("quell_quiet_in_force", help, value);
    let help = "Bytes of the current minute under that ceiling.";
    let value = of.number("quiet.minute_bytes");
    out.page.gauge("quell_quiet_minute_bytes", help, value);
    let help = "Bytes that left although the minute had no room for them.";
    let value = of.number("quiet.over_bytes");
    out.page
        .counter("quell_quiet_over_bytes_total", help, value);
}

fn flows(out: &mut Metrics, of: Status<'_>) {
    let help = "Flows in the table.";
    out.page
        .gauge("quell_flows", help, of.number("flows.flows"));
    let help = "What became of flows.";
    let family = out.page.family("quell_flows_total", Counter, help);
    for what in ["opened", "evicted", "expired", "removed", "lost"] {
        let value = of.number(&format!("flows.counters.{what}"));
        family.add(&[("event", what)], value);
    }
    let help = "Races over several exits, by what happened in them.";
    let family = out.page.family("quell_races_total", Counter, help);
    super::add_counts(family, "event", of, "races");
}

fn contracts(out: &mut Metrics, of: Status<'_>) {
    let help = "Contracts in hand that are good.";
    out.page
        .gauge("quell_contracts", help, of.number("contracts"));
    let help = "Bytes left in the contracts in hand.";
    let value = of.number("bytes_left");
    out.page.gauge("quell_contract_left_bytes", help, value);
    let help = "How long they last without the control plane at the recent rate.";
    let value = of.number("survives_s");
    out.page
        .gauge("quell_contract_survival_seconds", help, value);
    let help = "What became of wants for contracts.";
    out.page
        .family("quell_contract_wants_total", Counter, help)
        .add(&[("outcome", "granted")], of.number("granted"))
        .add(&[("outcome", "refused")], of.number("refused"));
}
