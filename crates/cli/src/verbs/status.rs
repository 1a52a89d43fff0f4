//! `quell status`: how a running quell is doing.
//!
//! For people everything is a table, and the control plane, the contracts and a session's
//! pause one line of it each; programs get all of it as one object.

use clap::Args;
use serde_json::Value;

use crate::socket::{self, Sockets};
use crate::table::Table;
use crate::{Failure, Streams};

/// Show how a running quell is doing
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    sockets: Sockets,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let status = socket::status(&self.sockets.one()?)?;
        match self.json {
            true => writeln!(streams.out, "{status}")?,
            false => write!(streams.out, "{}", Table::of(&for_people(status)))?,
        }
        Ok(())
    }
}

/// What has words for people in one line: the backend, contracts, why a session is paused.
fn for_people(mut status: Value) -> Value {
    if let Some(backend) = status.get_mut("backend")
        && let Some(reason) = backend.get_mut("reason").map(Value::take)
    {
        *backend = reason;
    }
    if let Some(contracts) = status.get_mut("contracts")
        && let Some(words) = wallet_words(contracts).or_else(|| books_words(contracts))
    {
        *contracts = Value::String(words);
    }
    let sessions = status.get_mut("sessions").and_then(Value::as_array_mut);
    for session in sessions.into_iter().flatten() {
        if let Some(pause) = session.get_mut("pause")
            && let Some(words) = pause.get_mut("words").map(Value::take)
        {
            *pause = words;
        }
    }
    status
}

/// What a client has in hand: "3 good, 512 MiB left; survives 5 h 40 min without the backend".
fn wallet_words(contracts: &Value) -> Option<String> {
    let survives = contracts.get("survives")?.as_str()?;
    let (good, left) = (
        count(contracts, "contracts"),
        count(contracts, "bytes_left"),
    );
    Some(format!("{good} good, {} left; {survives}", size(left)))
}

/// What a provider's books come to. What is at rest and zero in a well one is left out.
fn books_words(books: &Value) -> Option<String> {
    books.get("accounts")?.as_u64()?;
    let of = |name| count(books, name);
    let mut words = format!(
        "{} of {} clients; {} receipts settled, {} to file",
        of("contracts"),
        of("accounts"),
        of("settled"),
        of("to_file")
    );
    let refused = total(books, "refused");
    let by_backend = total(books, "refused_by_backend");
    let rest = [
        (of("to_persist"), "to store".to_owned()),
        (of("persist_failures"), "failures of the disk".to_owned()),
        (refused, "refused here".to_owned()),
        (by_backend, "refused by the backend".to_owned()),
        (
            of("outages"),
            format!("outages, {} of grace", size(of("grace_bytes"))),
        ),
    ];
    for (number, what) in rest {
        if number > 0 {
            words.push_str(&format!(", {number} {what}"));
        }
    }
    Some(words)
}

fn count(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// The sum of counts by reason.
fn total(of: &Value, name: &str) -> u64 {
    let counts = of.get(name).and_then(Value::as_object);
    let each = counts.into_iter().flatten();
    let each = each.filter_map(|(_, count)| count.as_u64());
    each.fold(0, u64::saturating_add)
}

/// Bytes in the largest unit of which there is one, rounded down.
fn size(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = UNITS.into_iter().find(|(shift, _)| bytes >> shift > 0);
    match unit {
        Some((shift, name)) => format!("{} {name}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_clients_contracts_are_one_line() {
        let contracts = json!({
            "contracts": 3, "bytes_left": 536_870_912_u64, "survives_s": 20_400,
            "survives": "survives 5 h 40 min without the backend", "requests": 1,
        });
        let shown = for_people(json!({ "contracts": contracts, "state": "up" }));
        let line = "3 good, 512 MiB left; survives 5 h 40 min without the backend";
        assert_eq!(shown, json!({ "contracts": line, "state": "up" }));
        let unpaid = json!({ "contracts": null });
        assert_eq!(for_people(unpaid.clone()), unpaid);
    }

    #[test]
    fn a_providers_books_are_one_line_and_a_pause_is_said_in_words() {
        let books = json!({
            "accounts": 2, "contracts": 5, "to_persist": 0, "persist_failures": 0, "to_file": 1,
            "settled": 40, "refused": {}, "refused_by_backend": {}, "outages": 0, "grace_bytes": 0,
        });
        let pause = json!({ "name": "used_up", "words": "the contract's bytes are used up" });
        let sessions = json!([{ "billed": true, "pause": pause }, { "pause": null }]);
        let shown = for_people(json!({ "contracts": books, "sessions": sessions }));
        let line = "5 of 2 clients; 40 receipts settled, 1 to file";
        assert_eq!(shown["contracts"], line);
        assert_eq!(
            shown["sessions"],
            json!([
                { "billed": true, "pause": "the contract's bytes are used up" },
                { "pause": null }
            ])
        );
        let ill = json!({
            "accounts": 1, "contracts": 1, "to_persist": 3, "persist_failures": 4, "to_file": 0,
            "settled": 0, "refused": { "expired": 2, "other_client": 1 },
            "refused_by_backend": { "quota": 7 }, "outages": 2, "grace_bytes": 1_048_576,
        });
        let shown = for_people(json!({ "contracts": ill }));
        let line = "1 of 1 clients; 0 receipts settled, 0 to file, 3 to store, 4 failures of the disk, \
            3 refused here, 7 refused by the backend, 2 outages, 1 MiB of grace";
        assert_eq!(shown["contracts"], line);
    }

    #[test]
    fn bytes_are_shown_in_the_unit_of_which_there_is_one() {
        let shown = [0, 1_023, 1_024, (1 << 20) - 1, 1 << 20, 1 << 30, u64::MAX].map(size);
        let expected = [
            "0 bytes",
            "1023 bytes",
            "1 KiB",
            "1023 KiB",
            "1 MiB",
            "1 GiB",
            "16777215 TiB",
        ];
        assert_eq!(shown, expected);
    }
}
