//! Other settings for a client or a provider that runs: which of them can change, and the order to look.
//!
//! ```text
//! SIGHUP ──────────┐
//! quell reload ────┴→ file read again ──→ Changes ──→ one that cannot change? ──yes→ refused by name, nothing applied
//!                                                                            └─no──→ applied, all of it
//! ```
//!
//! The file is the program's that started the engine: a library does not know where its settings came from. So the control
//! socket hands the order on ([`Orders`]), and whoever took it answers in words.
//!
//! What is not in the lists below is part of what a session was made of, or of what the process began with: it takes a
//! restart. A wrong guess here would be silent, so the lists say what can change, and all the rest cannot.

use std::sync::Arc;

use quell_core::provider::Reloaded;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::config::Change;
use crate::control::{Answer, Command, Handler, Request};

/// What a provider takes on while it runs. One that ends in `[` is of an array of tables.
const OF_PROVIDER: [&str; 12] = [
    "clients[",
    "egress.allow",
    "egress.deny",
    "limits.sessions_max",
    "limits.handshakes_max",
    "limits.handshakes_free",
    "limits.source_handshakes_per_s",
    "limits.source_handshake_burst",
    "limits.client_flows_max",
    "limits.client_new_destinations_per_s",
    "limits.client_new_destination_burst",
    "log.level",
];
/// What a provider takes on where it was set before and is set after: what stands behind it is opened at the start.
const OF_PROVIDER_WHERE_SET: [&str; 1] = ["limits.month_bytes_max"];
/// What begins with the next connection or stop.
const OF_PROVIDER_LATER: [&str; 2] = ["transport.drain", "transport.handshake_timeout"];
/// What a client takes on while it runs.
const OF_CLIENT: [&str; 1] = ["log.level"];

/// Whose settings they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that has the user's packets.
    Client,
    /// The exit.
    Provider,
}

/// Settings that cannot change while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "cannot change while it runs: {}; nothing was applied: restart it, or put them back",
    keys.join(", ")
)]
pub struct Fixed {
    /// The keys.
    pub keys: Vec<String>,
}

/// Whether all of `changes` can be taken on by what runs.
///
/// # Errors
/// Those that cannot, by name.
pub fn check(role: Role, changes: &[Change]) -> Result<(), Fixed> {
    let is_fixed = |change: &&Change| !may_change(role, change);
    let fixed = changes.iter().filter(is_fixed);
    let keys: Vec<_> = fixed.map(|change| change.key.clone()).collect();
    match keys.is_empty() {
        true => Ok(()),
        false => Err(Fixed { keys }),
    }
}

fn may_change(role: Role, change: &Change) -> bool {
    let key = change.key.as_str();
    let is_in = |list: &[&str]| {
        list.iter().any(|known| match known.ends_with('[') {
            true => key.starts_with(*known),
            false => key == *known,
        })
    };
    match role {
        Role::Client => is_in(&OF_CLIENT),
        Role::Provider => {
            let is_kept = change.before.is_some() && change.after.is_some();
            is_in(&OF_PROVIDER)
                || is_in(&OF_PROVIDER_LATER)
                || is_kept && is_in(&OF_PROVIDER_WHERE_SET)
        }
    }
}

/// What became of a reload, in words for people: a line a change.
#[must_use]
pub fn words(changes: &[Change], done: Reloaded) -> Vec<String> {
    if changes.is_empty() {
        return vec!["nothing changed".to_owned()];
    }
    let mut lines: Vec<_> = changes.iter().map(ToString::to_string).collect();
    match done.sessions_ended {
        0 => {}
        1 => lines.push("1 session ended: its client is not listed any more".to_owned()),
        more => lines.push(format!(
            "{more} sessions ended: their clients are not listed any more"
        )),
    }
    lines
}

/// An order to read the file again.
#[derive(Debug)]
pub struct Order(oneshot::Sender<Answer>);

impl Order {
    /// Says what became of it.
    pub fn answer(self, answer: Result<Value, String>) {
        // Whoever asked may have gone.
        let _ = self.0.send(answer);
    }
}

/// The orders that come over the control socket.
#[derive(Debug)]
pub struct Orders(mpsc::Receiver<Order>);

impl Orders {
    /// The next one; `None` once the engine is gone. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Order> {
        self.0.recv().await
    }
}

/// Hands orders on, and has `others` answer everything else.
pub(crate) fn ordering(others: Handler) -> (Handler, Orders) {
    // One at a time: the next waits for its answer.
    let (give, orders) = mpsc::channel(1);
    let handler: Handler = Arc::new(move |request: Request| match request.command {
        Command::Reload => {
            let give: mpsc::Sender<Order> = give.clone();
            Box::pin(async move {
                let (answer, answered) = oneshot::channel();
                let nobody = || "the program that runs it reads no file again".to_owned();
                give.send(Order(answer)).await.map_err(|_| nobody())?;
                answered.await.map_err(|_| nobody())?
            })
        }
        Command::Status | Command::Drain | Command::Stop | Command::Judge(_) => others(request),
    });
    (handler, Orders(orders))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, before: Option<&str>, after: Option<&str>) -> Change {
        Change {
            key: key.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        }
    }

    #[test]
    fn what_cannot_change_is_refused_by_name_with_all_the_rest() {
        let changes = [
            change("log.level", None, Some("debug")),
            change("listen", Some("a"), Some("b")),
            change("egress.kind", None, Some("tun")),
            change("clients[\"a\"]", None, Some("k")),
        ];
        let words = check(Role::Provider, &changes).map_err(|fixed| fixed.to_string());
        let expected = "cannot change while it runs: listen, egress.kind; nothing was applied: restart it, or put them back";
        assert_eq!(words, Err(expected.to_owned()));
        assert_eq!(check(Role::Provider, &changes[..1]), Ok(()));
        assert_eq!(check(Role::Provider, &changes[3..]), Ok(()));
    }

    #[test]
    fn a_client_takes_on_its_log_level_and_nothing_else() {
        let level = change("log.level", Some("info"), Some("debug"));
        assert_eq!(check(Role::Client, &[level]), Ok(()));
        let clients = change("clients[\"a\"]", None, Some("k"));
        assert!(check(Role::Client, &[clients]).is_err());
    }

    #[test]
    fn a_ceiling_of_the_month_may_be_another_and_not_a_new_one() {
        let of = |before, after| {
            let change = change("limits.month_bytes_max", before, after);
            check(Role::Provider, &[change]).is_ok()
        };
        assert!(of(Some("1TiB"), Some("2TiB")));
        assert!(!of(None, Some("2TiB")) && !of(Some("1TiB"), None));
    }

    #[test]
    fn what_became_of_it_is_said() {
        let done = Reloaded { sessions_ended: 2 };
        let said = words(&[change("a", None, Some("1"))], done);
        assert_eq!(said[0], "a: not set → 1");
        assert!(said[1].starts_with("2 sessions ended"));
        assert_eq!(words(&[], Reloaded::default()), ["nothing changed"]);
    }
}
