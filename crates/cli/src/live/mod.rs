//! The live view: two looks at a status, and the frame that they make.
//!
//! [`frame`] is a function of values: two statuses, the time between them, and the size of the screen. So what is drawn can be
//! tested as text, and a capture (`--once`) is the same frame.
//!
//! *A frame* is a head (who, state, why), a line of rates, and a table of exits or sessions, the busiest first. It is cut to
//! the screen: lines that do not fit are counted in the last one. Every name is shown without control characters, which a
//! terminal would obey.
//!
//! There is no library of windows under it: a screen that is cleared and written anew each second needs none, and there is
//! nothing to restore when it is killed.

mod rates;
mod table;

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use crate::counted;
use rates::{Rates, count, text};
use table::{exits, sessions};

/// The least screen: below it lines are cut all the same.
const COLUMNS_MIN: usize = 40;
const ROWS_MIN: usize = 6;

/// What was seen, and how long after the one before.
pub(crate) struct Look<'a> {
    /// The status before, or nothing in the first frame.
    pub(crate) before: Option<&'a Value>,
    /// The status.
    pub(crate) after: &'a Value,
    /// The time between them.
    pub(crate) apart: Duration,
}

/// The lines of a screen of so many columns and rows.
pub(crate) fn frame(look: &Look<'_>, (columns, rows): (usize, usize)) -> String {
    let (columns, rows) = (columns.max(COLUMNS_MIN), rows.max(ROWS_MIN));
    let rates = Rates::of(look);
    let status = look.after;
    let mut lines = head(status);
    lines.push(traffic(&rates));
    lines.push(trouble(&rates, status));
    lines.push(String::new());
    lines.extend(match text(status, "/role") {
        "provider" => sessions(&rates, status),
        _ => exits(status),
    });
    let hidden = lines.len().saturating_sub(rows);
    if hidden > 0 {
        lines.truncate(rows - 1);
        lines.push(format!("… {} more", hidden + 1));
    }
    let mut frame = String::new();
    for line in lines {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let line: String = line.chars().take(columns).map(plain).collect();
        // Writing to a text cannot fail.
        let _ = writeln!(frame, "{}", line.trim_end());
    }
    frame
}

fn head(status: &Value) -> Vec<String> {
    let (role, version) = (text(status, "/role"), text(status, "/version"));
    let state = match role {
        "provider" => {
            let up = status["sessions"].as_array().map_or(0, Vec::len);
            let how = match status["is_draining"] == true {
                true => "draining",
                false => "serving",
            };
            format!("{how}, {}", counted(up, "session"))
        }
        _ => match (text(status, "/state"), text(status, "/reason")) {
            (state, reason) if state == reason => state.to_owned(),
            (state, reason) => format!("{state}: {reason}"),
        },
    };
    let backend = text(status, "/backend/reason");
    vec![
        format!("quell {role} {version}   {state}"),
        format!("control plane   {backend}"),
    ]
}

fn traffic(rates: &Rates<'_>) -> String {
    let (received, sent) = (
        rates.of_path("/udp/bytes_in"),
        rates.of_path("/udp/bytes_out"),
    );
    let [datagrams_in, datagrams_out] =
        ["/udp/datagrams_in", "/udp/datagrams_out"].map(|path| rates.of_path(path));
    format!(
        "UDP  in {:>12}  {:>9} /s   out {:>12}  {:>9} /s",
        bits(received),
        whole(datagrams_in),
        bits(sent),
        whole(datagrams_out)
    )
}

fn trouble(rates: &Rates<'_>, status: &Value) -> String {
    let drops = rates.sum("/tun_drops") + rates.sum("/received_drops");
    let resent = rates.of_path("/udp/by_cause/resend");
    let dials = count(status, "/dials");
    match text(status, "/role") {
        "provider" => format!("drops {} /s   resent {}", whole(drops), bits(resent)),
        _ => format!(
            "drops {} /s   resent {}   dials {dials}",
            whole(drops),
            bits(resent)
        ),
    }
}

/// A rate of bytes as people name lines.
pub(super) fn bits(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    for (least, unit) in [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")] {
        if bits >= least {
            return format!("{:.1} {unit}", bits / least);
        }
    }
    format!("{bits:.0} bit/s")
}

fn whole(rate: f64) -> String {
    format!("{rate:.0}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn client(bytes: u64, drops: u64) -> Value {
        json!({
            "role": "client", "version": "0.1.0", "state": "up", "reason": "1 of 2 exits carries", "dials": 3,
            "backend": {"reason": "well: it answers"},
            "udp": {"bytes_in": bytes * 2, "bytes_out": bytes, "datagrams_in": 20, "datagrams_out": 10,
                "by_cause": {"resend": 0}},
            "tun_drops": {"aged": drops},
            "main_exit": 0,
            "exits": [
                {"name": "fra", "state": "up", "is_usable": true, "flows": 12, "dials": 1,
                    "path": {"rtt_ms": 20.3, "stalled": false}, "dial_gate": {"state": "ready"}, "window": "member"},
                {"name": "lon\u{1b}[31m", "state": "waiting", "is_usable": false, "flows": 0, "dials": 2,
                    "dial_gate": {"state": "backoff"}, "reason": "the last dial failed", "next_dial_in_ms": 4_000},
            ],
        })
    }

    fn look<'a>(before: Option<&'a Value>, after: &'a Value) -> Look<'a> {
        Look {
            before,
            after,
            apart: Duration::from_secs(2),
        }
    }

    #[test]
    fn a_client_is_shown_with_its_rates_and_exits() {
        let (before, after) = (client(0, 0), client(250_000, 10));
        let frame = frame(&look(Some(&before), &after), (120, 24));
        let expected = "\
quell client 0.1.0   up: 1 of 2 exits carries
control plane   well: it answers
UDP  in   2.0 Mbit/s          0 /s   out   1.0 Mbit/s          0 /s
drops 5 /s   resent 0 bit/s   dials 3

  EXIT                          STATE    RTT       FLOWS  DIALS  GATE     WHY
* fra                           up       20.3 ms      12      1  ready
  lon [31m                      waiting  -             0      2  backoff  the last dial failed; next in 4 s
";
        assert_eq!(frame, expected, "{frame}");
    }

    #[test]
    fn a_first_look_has_no_rates() {
        let after = client(250_000, 10);
        let frame = frame(&look(None, &after), (100, 24));
        assert!(frame.contains("in      0 bit/s"), "{frame}");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let sessions: Vec<_> = (0..100)
            .map(|n| json!({"client": format!("client {n}"), "state": "up"}))
            .collect();
        let provider = json!({"role": "provider", "version": "1", "sessions": sessions});
        let frame = frame(&look(None, &provider), (60, 10));
        let lines: Vec<_> = frame.lines().collect();
        assert_eq!(lines.len(), 10);
        // Four lines of head, the table's own, 100 sessions: nine lines are shown.
        assert_eq!(lines[9], "… 97 more");
        assert!(lines.iter().all(|line| line.chars().count() <= 60));
    }

    #[test]
    fn the_busiest_session_is_first() {
        let session = |name: &str, bytes: u64| json!({"client": name, "state": "up", "path": {"counters": {"received_bytes": bytes}}});
        let of = |bytes: [u64; 2]| {
            let sessions = [session("idle", bytes[0]), session("busy", bytes[1])];
            json!({"role": "provider", "version": "1", "sessions": sessions})
        };
        let (before, after) = (of([9_000_000, 0]), of([9_000_000, 500_000]));
        let frame = frame(&look(Some(&before), &after), (100, 24));
        let place = |name: &str| frame.find(name);
        assert!(place("busy") < place("idle"), "{frame}");
        assert!(frame.contains("2.0 Mbit/s"), "{frame}");
    }

    #[test]
    fn rates_have_the_unit_that_fits() {
        let shown = [0.0, 124.0, 125.0, 125_000.0, 125_000_000.0].map(bits);
        let expected = [
            "0 bit/s",
            "992 bit/s",
            "1.0 kbit/s",
            "1.0 Mbit/s",
            "1.0 Gbit/s",
        ];
        assert_eq!(shown, expected);
    }
}
