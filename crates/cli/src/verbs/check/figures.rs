//! The arithmetic as a table for people.
//!
//! Times are in seconds where a person would say seconds, bytes in digits by threes; what is a bound says "at most".

use quell::arithmetic::{
    BackendFigures, ClientFigures, ProviderFigures, Recovery, SilentLane, SilentPath, USER_SYNS,
};
use quell_sim::report::grouped;

use crate::table::Table;

/// Most times that are shown one by one.
const TIMES_MAX: usize = 8;

pub(super) fn client(figures: &ClientFigures) -> Table {
    let mut table = Table::default();
    let copies = &figures.copies;
    table.row(
        "one packet",
        format!(
            "{} hand-overs at most, whatever happens",
            copies.of_a_pack_max
        ),
    );
    silence(&mut table, &figures.silent_path);
    table.row(
        "one connection",
        format!(
            "copies of a SYN that wait at once: {}; while the backend is degraded: {}",
            copies.of_a_syn_at_once, copies.of_a_syn_at_once_degraded
        ),
    );
    table.inner(
        1,
        "nobody answers",
        format!(
            "{} copies over all exits ({USER_SYNS} SYNs of the user's), {} hand-overs at most",
            copies.of_a_connection_max, copies.hand_overs_of_a_connection_max
        ),
    );
    outage(&mut table, figures);
    recovery(&mut table, &figures.recovery);
    backend(&mut table, figures.backend.as_ref());
    let memory = &figures.memory;
    table.row(
        "memory",
        format!(
            "{} at most: {} of {}, tables {}",
            size(memory.total_bytes),
            counted(memory.paths, "path"),
            size(memory.of_a_path.total_bytes),
            size(memory.tables_bytes)
        ),
    );
    table
}

pub(super) fn provider(figures: &ProviderFigures) -> Table {
    let mut table = Table::default();
    table.row(
        "one packet",
        format!(
            "{} hand-overs at most, whatever happens",
            figures.copies_of_a_pack_max
        ),
    );
    silence(&mut table, &figures.silent_path);
    table.row(
        "a silent client",
        format!(
            "{} bytes of PINGs in the first minute; its session is kept for {}",
            grouped(figures.pings_of_a_session_bytes),
            seconds(figures.session_kept_ms)
        ),
    );
    recovery(&mut table, &figures.recovery);
    backend(&mut table, figures.backend.as_ref());
    let memory = &figures.memory;
    table.row(
        "memory",
        format!(
            "{} at most: {} of {}, waiting {}, handshakes {}",
            size(memory.total_bytes),
            counted(memory.sessions, "session"),
            size(memory.of_a_session_bytes),
            size(memory.waiting_bytes),
            size(memory.handshakes_bytes)
        ),
    );
    table
}

fn silence(table: &mut Table, path: &SilentPath) {
    table.inner(
        1,
        "the path is silent",
        format!(
            "no first sends after {}; {} resends of a lane until {}, then PINGs alone",
            seconds(path.hushed_at_ms),
            path.resends_before_stall,
            seconds(path.stalled_at_ms)
        ),
    );
    lane(table, "did it not stall", &path.healthy);
    lane(table, "and degraded", &path.degraded);
    table.inner(
        1,
        "given up",
        format!("after {}", seconds(path.given_up_at_ms)),
    );
}

fn lane(table: &mut Table, name: &str, lane: &SilentLane) {
    let times = &lane.resends_at_ms;
    let mut words: Vec<_> = times.iter().take(TIMES_MAX).map(|at| short(*at)).collect();
    if let (true, Some(last)) = (times.len() > TIMES_MAX, times.last()) {
        words.push(format!("… {}", short(*last)));
    }
    let spent = match times.is_empty() {
        true => "no resends".to_owned(),
        false => format!(
            "{} resends after {} s; spent after {} to {}",
            times.len(),
            words.join(", "),
            seconds(lane.spent_at_min_ms),
            seconds(lane.spent_at_max_ms)
        ),
    };
    table.inner(1, name, spent);
}

fn outage(table: &mut Table, figures: &ClientFigures) {
    let quiet = &figures.quiet;
    table.heading("an outage, bytes of UDP payload at most");
    table.inner(
        1,
        "first minute",
        format!(
            "{} where {} silent with packets under way",
            grouped(quiet.first_minute_cut_bytes),
            match figures.exits_kept {
                1 => "the exit falls".to_owned(),
                exits => format!("{exits} exits fall"),
            }
        ),
    );
    table.inner(
        1,
        "at a start",
        format!(
            "{} in {} dials that nobody answers",
            grouped(quiet.first_minute_start_bytes),
            quiet.first_minute_start_dials
        ),
    );
    table.inner(
        1,
        "each minute after",
        format!(
            "{}: {} a dial, {} PINGs of stalled paths",
            grouped(quiet.minute_bytes_max),
            grouped(quiet.dial_bytes),
            grouped(quiet.stalled_pings_a_minute_bytes)
        ),
    );
    table.inner(1, "a day", grouped(quiet.day_bytes_max));
}

fn recovery(table: &mut Table, all: &[Recovery]) {
    table.heading("after the heal, at most");
    for of in all {
        let within = format!(
            "{} when {} ({})",
            seconds(of.within_ms),
            of.when,
            of.setting
        );
        table.inner(1, of.what, within);
    }
}

fn backend(table: &mut Table, figures: Option<&BackendFigures>) {
    let Some(of) = figures else {
        return;
    };
    table.row(
        "requests an hour",
        format!(
            "{} while backends answer, {} while they refuse, {} while they are silent",
            grouped(of.requests_an_hour_well),
            grouped(of.requests_an_hour_refusing),
            grouped(of.requests_an_hour_silent)
        ),
    );
    table.inner(
        1,
        "known to be down",
        format!(
            "after {} where it refuses, {} where it is silent, at most",
            seconds(of.known_within_refusing_ms),
            seconds(of.known_within_silent_ms)
        ),
    );
}

/// Seconds without the unit: three decimals at most.
fn short(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1_000, ms % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn seconds(ms: u64) -> String {
    format!("{} s", short(ms))
}

/// A number and what is counted.
fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.into_iter().find(|(_, bits)| bytes >> bits >= 10);
    match unit {
        Some((name, bits)) => format!("{} {name}", grouped(bytes.div_ceil(1 << bits))),
        None => format!("{} B", grouped(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_without_needless_digits() {
        let words = [0, 61, 850, 1_000, 52_747, 600_000].map(seconds);
        let expected = ["0 s", "0.061 s", "0.85 s", "1 s", "52.747 s", "600 s"];
        assert_eq!(words, expected);
    }

    #[test]
    fn sizes_are_rounded_up_to_two_digits_at_least() {
        let words = [9, 10_239, 10_240, 10_241, 10 << 20, 11 << 30].map(size);
        assert_eq!(
            words,
            ["9 B", "10,239 B", "10 KiB", "11 KiB", "10 MiB", "11 GiB"]
        );
    }
}
