//! `quell why SERVER`: what stands between a running client and a server; and `quell why DESTINATION`, what stands between
//! the clients of a running provider and the world.
//!
//! Every client of this machine is asked, unless `--socket` names one, and the one that
//! dials SERVER answers: by the address as its file has it, with or without the default
//! port, by the address that was found for it, or by its key. The first line says what
//! stands in the way, the rest what decides about it: the state of the dial and when the
//! next one is, the gate before it, the path, the backend. All of it is what the client
//! itself says; nothing is sent to the server.
//!
//! Where no client dials it, the providers of this machine are asked whether their clients may speak to it.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use quell::config::ServerAddress;
use quell::control::{ControlError, Question};
use serde_json::Value;

use crate::socket::{self, Sockets};
use crate::table::Table;
use crate::{Failure, Streams};

/// Say what stands between a running client and a server, or a provider's clients and a destination
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The server: host and port as the client's file has them, or its public key; of a provider a destination: 10.1.2.3, 10.1.2.3:443, "10.1.2.3 udp/53" or tcp/25
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    sockets: Sockets,
}

impl Why {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let mut known = Vec::new();
        let mut providers = Vec::new();
        for socket in self.sockets.all()? {
            let status = match socket::status(&socket) {
                Ok(status) => status,
                // What a killed quell left behind dials nobody.
                Err(ControlError::NotRunning { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            if text(&status, "/role") == Some("provider") {
                providers.push(socket);
                continue;
            }
            for server in servers(&status) {
                if dials(&server, &self.server) {
                    write!(streams.out, "{}", explain(&server))?;
                    return Ok(());
                }
                known.extend(text(&server, "/server/remote").map(str::to_owned));
            }
        }
        match (self.server.parse::<Question>(), providers.is_empty()) {
            (Ok(question), false) => return judged(question, &providers, streams),
            (Err(error), false) if known.is_empty() => {
                return Err(Failure::Failed(anyhow!(
                    "no client runs here that could dial {}, and to a provider it is {error}",
                    self.server
                )));
            }
            (Ok(_) | Err(_), _) => {}
        }
        Err(Failure::Failed(match known.as_slice() {
            [] => anyhow!("no client runs here that could dial {}", self.server),
            known => anyhow!(
                "no client here dials {}: those that run dial {}",
                self.server,
                known.join(", ")
            ),
        }))
    }
}

/// What each provider says of the destination.
fn judged(
    question: Question,
    providers: &[PathBuf],
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    for provider in providers {
        let answer = socket::judge(provider, question)?;
        if providers.len() > 1 {
            writeln!(streams.out, "{}:", provider.display())?;
        }
        let reason = text(&answer, "/reason").unwrap_or("no reason is known");
        let mut table = Table::default();
        if text(&answer, "/class").is_some() {
            let denied = answer.pointer("/denied_packets").and_then(Value::as_u64);
            table.row(
                "so far",
                format!("{} packets denied for it", denied.unwrap_or(0)),
            );
        }
        let partial = answer.pointer("/partial_rules").and_then(Value::as_array);
        for rule in partial.into_iter().flatten().filter_map(Value::as_str) {
            table.row("see also", format!("egress: {rule}"));
        }
        let table = table.to_string();
        let gap = if table.is_empty() { "" } else { "\n" };
        write!(streams.out, "{question}: {reason}\n{gap}{table}")?;
    }
    Ok(())
}

/// What a client's status says of each of its servers: the exit, and with it the
/// server and what concerns all exits.
fn servers(status: &Value) -> Vec<Value> {
    let list = |name| {
        status
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let both = list("exits").zip(list("servers")).enumerate();
    both.map(|(index, (exit, server))| {
        let mut exit = exit.clone();
        let first = status.get("main_exit").and_then(Value::as_u64) == Some(index as u64);
        exit["is_first_choice"] = first.into();
        exit["server"] = server.clone();
        for name in ["backend", "uplink"] {
            exit[name] = status.get(name).cloned().unwrap_or_default();
        }
        exit
    })
    .collect()
}

/// Whether `server` is meant.
fn dials(exit: &Value, server: &str) -> bool {
    let remote = text(exit, "/server/remote");
    // "host" means "host:6610".
    let whole = server.parse::<ServerAddress>().ok();
    let whole = whole.map(|address| address.to_string());
    let names = [
        remote,
        text(exit, "/server/address"),
        text(exit, "/server/public_key"),
    ];
    remote.is_some()
        && names.into_iter().flatten().any(|name| {
            name.eq_ignore_ascii_case(server)
                || whole
                    .as_deref()
                    .is_some_and(|whole| name.eq_ignore_ascii_case(whole))
        })
}

fn explain(exit: &Value) -> String {
    let mut table = Table::default();
    let dash = |pointer| text(exit, pointer).unwrap_or("-");
    table.row("key", dash("/server/public_key"));
    table.row("found at", dash("/server/address"));
    table.row("dial", dash("/state"));
    table.row("reason", dash("/reason"));
    if let Some(wait) = exit.pointer("/next_dial_in_ms").and_then(Value::as_u64) {
        table.row("next dial", format!("in {}", seconds(wait)));
    }
    let count = |pointer| exit.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    table.row(
        "so far",
        format!("{} dials, {} sessions", count("/dials"), count("/sessions")),
    );
    if let Some(gate) = exit.get("dial_gate").filter(|gate| gate.is_object()) {
        table.row("dial gate", gate_in_words(gate));
    }
    if let Some(stalled) = exit.pointer("/path/stalled").and_then(Value::as_bool) {
        let words = if stalled {
            "does not answer"
        } else {
            "answers"
        };
        table.row("path", words);
    }
    table.row("window", dash("/window"));
    table.row("new flows", new_flows(exit));
    table.row("probe", dash("/probe/reason"));
    table.row("uplink", dash("/uplink/reason"));
    table.row("backend", dash("/backend/reason"));
    format!("{}\n\n{table}", in_the_way(exit))
}

fn new_flows(exit: &Value) -> &'static str {
    let is = |name| exit.get(name).and_then(Value::as_bool) == Some(true);
    match (is("is_usable"), is("is_first_choice")) {
        (true, true) => "come here first",
        (true, false) => "may come here",
        (false, true) => "wait for it: nothing better is there",
        (false, false) => "go elsewhere",
    }
}

/// The answer in one sentence.
fn in_the_way(exit: &Value) -> String {
    let server = text(exit, "/server/remote").unwrap_or("the server");
    let reason = text(exit, "/reason").unwrap_or("no reason is known");
    let stalled = exit.pointer("/path/stalled").and_then(Value::as_bool);
    match (text(exit, "/state"), stalled) {
        (Some("up"), Some(true)) => {
            format!("{server} is connected, but the path to it does not answer")
        }
        (Some("up"), _) => format!("nothing stands in the way of {server}: the tunnel is up"),
        (Some("dialing"), _) => format!("{server} is being dialed: {reason}"),
        (Some("greeting"), _) => format!("{server} is connected and has not welcomed us yet"),
        (Some("waiting"), _) => match text(exit, "/window") {
            Some(window) if !window.starts_with("a member") => {
                format!("{server} is not wanted at the moment: {window}")
            }
            Some(_) | None => format!("{server} is not connected: {reason}"),
        },
        (Some(other), _) => format!("{server}: {other}: {reason}"),
        (None, _) => format!("{server}: {reason}"),
    }
}

/// The gate's own words where it has some, else what is in it, name by name.
fn gate_in_words(gate: &Value) -> String {
    if let Some(reason) = gate.get("reason").and_then(Value::as_str) {
        return reason.to_owned();
    }
    let members = gate.as_object().into_iter().flatten();
    let words = members.map(|(name, value)| match value {
        Value::String(text) => format!("{name} {text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("{name} {value}")
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

fn text<'a>(status: &'a Value, pointer: &str) -> Option<&'a str> {
    status.pointer(pointer).and_then(Value::as_str)
}

/// Rounded up: a dial "in 0 s" would be under way.
fn seconds(ms: u64) -> String {
    format!("{} s", ms.div_ceil(1_000))
}
