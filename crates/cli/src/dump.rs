//! A status as lines for scripts: one thing a line, fields separated by tabs, in an order that stays.
//!
//! ```text
//! client    VERSION STATE USABLE_EXITS DIALS SESSIONS UDP_IN UDP_OUT DROPS
//! exit      NAME KEY REMOTE STATE USABLE STALLED RTT_MS FLOWS DIALS GATE NEXT_DIAL_MS
//! provider  VERSION STATE SESSIONS SESSIONS_TOTAL - UDP_IN UDP_OUT DROPS
//! session   CLIENT STATE IPV4 IPV6 STALLED RTT_MS FLOWS BYTES_IN BYTES_OUT PAUSE
//! backend   URL STATE NEXT_ATTEMPT_S
//! ```
//!
//! `-` is what is not known. New fields are added at a line's end, new things as new first words: a script that takes the
//! lines it knows, and of them the fields it knows, goes on working. A tab or a line's end within a name is shown as a blank.

use serde_json::Value;

/// All lines of a status.
pub(crate) fn of(status: &Value) -> String {
    let mut lines = Lines(String::new());
    let udp = [at(status, "/udp/bytes_in"), at(status, "/udp/bytes_out")];
    let drops = total(status.get("tun_drops"));
    match status.get("role").and_then(Value::as_str) {
        Some("client") => {
            let exits = list(status, "exits");
            let usable = exits
                .iter()
                .filter(|exit| exit["is_usable"] == true)
                .count();
            let own = ["/version", "/state"].map(|path| at(status, path));
            let counts = ["/dials", "/sessions"].map(|path| at(status, path));
            lines.add(
                "client",
                [&own[..], &[usable.to_string()], &counts, &udp, &[drops]].concat(),
            );
            let servers = list(status, "servers");
            for (place, exit) in exits.iter().enumerate() {
                lines.exit(exit, servers.get(place).unwrap_or(&Value::Null));
            }
        }
        Some("provider") => {
            let state = match status["is_draining"] == true {
                true => "draining",
                false => "serving",
            };
            let sessions = list(status, "sessions");
            let own = [
                at(status, "/version"),
                state.to_owned(),
                sessions.len().to_string(),
            ];
            let counts = [at(status, "/sessions_total"), "-".to_owned()];
            lines.add("provider", [&own[..], &counts, &udp, &[drops]].concat());
            sessions.iter().for_each(|session| lines.session(session));
        }
        Some(_) | None => {}
    }
    let backends = status
        .pointer("/backend/backends")
        .and_then(Value::as_array);
    for backend in backends.into_iter().flatten() {
        let fields = ["/url", "/state", "/next_attempt_in_s"];
        lines.add("backend", fields.map(|path| at(backend, path)).to_vec());
    }
    lines.0
}

struct Lines(String);

impl Lines {
    fn add(&mut self, what: &str, fields: Vec<String>) {
        self.0.push_str(what);
        for field in fields {
            self.0.push('\t');
            let plain = |c: char| if c.is_control() { ' ' } else { c };
            self.0.extend(field.chars().map(plain));
        }
        self.0.push('\n');
    }

    fn exit(&mut self, exit: &Value, server: &Value) {
        let paths = [
            "/state",
            "/is_usable",
            "/path/stalled",
            "/path/rtt_ms",
            "/flows",
            "/dials",
            "/dial_gate/state",
            "/next_dial_in_ms",
        ];
        let who = [
            at(exit, "/name"),
            at(server, "/public_key"),
            at(server, "/remote"),
        ];
        self.add(
            "exit",
            [&who[..], &paths.map(|path| at(exit, path))].concat(),
        );
    }

    fn session(&mut self, session: &Value) {
        let paths = [
            "/client",
            "/state",
            "/addresses/ipv4/0",
            "/addresses/ipv6/0",
            "/path/stalled",
            "/path/rtt_ms",
            "/usage/flows",
            "/path/counters/received_bytes",
        ];
        let sent = ["sent_bytes", "laned_bytes"].map(|name| {
            let path = format!("/path/counters/{name}");
            session.pointer(&path).and_then(Value::as_u64).unwrap_or(0)
        });
        let rest = [
            sent.iter().sum::<u64>().to_string(),
            at(session, "/pause/name"),
        ];
        self.add(
            "session",
            [&paths.map(|path| at(session, path))[..], &rest].concat(),
        );
    }
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    let list = of.get(name).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The plain value at a JSON pointer, or `-`.
fn at(of: &Value, path: &str) -> String {
    match of.pointer(path) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::String(_) | Value::Null | Value::Array(_) | Value::Object(_)) | None => {
            "-".to_owned()
        }
    }
}

fn total(counts: Option<&Value>) -> String {
    let counts = counts.and_then(Value::as_object).into_iter().flatten();
    let sum: u64 = counts.filter_map(|(_, count)| count.as_u64()).sum();
    sum.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_thing_is_a_line_of_fields() {
        let text = of(&json!({
            "role": "client", "version": "1", "state": "up", "dials": 3, "sessions": 2,
            "udp": {"bytes_in": 10, "bytes_out": 20}, "tun_drops": {"aged": 4, "too_big": 1},
            "exits": [{"name": "fra\t1\n", "state": "up", "is_usable": true, "flows": 7, "dials": 1,
                "path": {"rtt_ms": 20.5, "stalled": false}, "dial_gate": {"state": "ready"}}],
            "servers": [{"public_key": "quellpub1x", "remote": "fra:6610"}],
            "backend": {"backends": [{"url": "https://a/", "state": "well"}]},
        }));
        let expected = "client\t1\tup\t1\t3\t2\t10\t20\t5\n\
                        exit\tfra 1 \tquellpub1x\tfra:6610\tup\ttrue\tfalse\t20.5\t7\t1\tready\t-\n\
                        backend\thttps://a/\twell\t-\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_provider_has_a_line_a_session() {
        let text = of(&json!({
            "role": "provider", "version": "1", "is_draining": false, "sessions_total": 9, "udp": {},
            "sessions": [{"client": "laptop", "state": "up", "addresses": {"ipv4": ["10.85.0.2", 16]},
                "usage": {"flows": 3}, "path": {"counters": {"received_bytes": 5, "sent_bytes": 1, "laned_bytes": 2}}}],
        }));
        let expected = "provider\t1\tserving\t1\t9\t-\t-\t-\t0\n\
                        session\tlaptop\tup\t10.85.0.2\t-\t-\t-\t3\t5\t3\t-\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_no_status_has_no_line() {
        assert_eq!(of(&json!({})), "");
    }
}
