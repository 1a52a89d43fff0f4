//! Numbers and tables for people, 80 columns wide at most.
//!
//! The timeline is written line by line while the demo runs, so its columns are
//! wide enough from the start for what they can come to hold: a second of either
//! load is 125,000 bytes, what was held back during the cut may come at once, and
//! a wire without a limit may carry some megabytes.

use quell_sim::report::grouped;
use serde_json::Value;

use super::outage::{Phase, STEADY_S, Sample};

/// Width of a terminal.
const COLUMNS: usize = 80;

/// The timeline's head.
pub(super) const HEAD: &str = "\
second  wire      UDP bytes out  ping answers  UDP answers  TCP bytes arrived\n";

/// The timeline's line of the second that ends at `second`.
pub(super) fn line(second: u64, phase: Phase, sample: Sample) -> String {
    let phase = match phase {
        Phase::Steady => "steady",
        Phase::Cut => "cut",
        Phase::Healed => "healed",
    };
    let [bytes_out, pings, echoes, tcp_bytes] = [
        sample.bytes_out,
        sample.pings,
        sample.echoes,
        sample.tcp_bytes,
    ]
    .map(grouped);
    format!("{second:>6}  {phase:<8}{bytes_out:>15}{pings:>14}{echoes:>13}{tcp_bytes:>19}\n")
}

/// What comes next, before it comes; `wire` is what is going to drop everything.
pub(super) fn announcement(wire: &str, outage_s: u64) -> String {
    let heal_s = STEADY_S + outage_s;
    format!(
        "1 Mbit/s of UDP and its echo, 1 Mbit/s in one TCP stream, 10 pings a second;\n\
         the {wire} drops everything from second {STEADY_S} to second {heal_s}\n\n"
    )
}

/// The tunnel that a client's status shows.
pub(super) fn tunnel(status: &Value) -> String {
    let addresses = ["ipv4", "ipv6"].map(|family| {
        let address = &status["addresses"][family];
        let (address, len) = (address[0].as_str()?, address[1].as_u64()?);
        Some(format!("{address}/{len}"))
    });
    let addresses: Vec<_> = addresses.into_iter().flatten().collect();
    format!(
        "tunnel    {};\n          packets of up to {} bytes cross whole\n",
        addresses.join(", "),
        status["exits"][0]["path"]["inner_mtu"]
    )
}

/// A list on indented lines, as many items on each as fit.
pub(super) fn wrapped(items: &[String]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.len() + 2 + item.len() < COLUMNS => *line += &format!(", {item}"),
            Some(line) => {
                line.push(',');
                lines.push(format!("  {item}"));
            }
            None => lines.push(format!("  {item}")),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_broken_where_a_terminal_ends() {
        let items = |chars: usize| wrapped(&["a".repeat(36), "b".repeat(chars), "c".into()]);
        // Two of indentation, two between the items, one for the comma at the end.
        let fits = format!("  {}, {},\n  c\n", "a".repeat(36), "b".repeat(39));
        assert_eq!(items(39), fits);
        assert_eq!(fits.lines().next().map(str::len), Some(COLUMNS));
        let breaks = format!("  {},\n  {}, c\n", "a".repeat(36), "b".repeat(40));
        assert_eq!(items(40), breaks);
        assert_eq!(wrapped(&[]), "");
    }

    #[test]
    fn lines_stand_under_their_head_on_any_terminal() {
        let sample = Sample {
            bytes_out: 329_120,
            pings: 10,
            echoes: 125,
            tcp_bytes: 125_000,
            ..Sample::default()
        };
        let line = line(7, Phase::Cut, sample);
        assert_eq!(
            line,
            "     7  cut             329,120            10          125            125,000\n"
        );
        assert_eq!(line.len(), HEAD.len());
        assert!(line.len() <= 80);
    }

    #[test]
    fn the_phase_is_that_of_the_second_that_has_passed() {
        let phases = [1, 5, 6, 35, 36].map(|second| Phase::of(second, 5, 35));
        let expected = [
            Phase::Steady,
            Phase::Steady,
            Phase::Cut,
            Phase::Cut,
            Phase::Healed,
        ];
        assert_eq!(phases, expected);
    }
}
