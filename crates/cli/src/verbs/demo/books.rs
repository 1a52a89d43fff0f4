//! What both ends say became of their packets, in few enough numbers to be checked by eye.
//!
//! ```text
//! packets   accepted + copies = sent + laned + dropped + in_flight   from the TUN
//! packs     accepted = acked + given_up + dropped + in_flight        of the acked lanes
//! arrived   received = delivered + dropped                           to the TUN
//! ```
//!
//! The numbers are those of `status --json`, over all sessions since the start:
//! those that live and what was kept of those that ended. Reasons of drops are
//! added up; who wants to know them asks `status`. `unaccounted` is what an end
//! itself finds missing in the first two rows and in its receiving lanes.

use serde_json::{Value, json};

/// The books of one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Books {
    packets: Packets,
    packs: Packs,
    arrived: Arrived,
    unaccounted: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Packets {
    accepted: u64,
    /// Of them, those that were sent over one more exit: once for each.
    copies: u64,
    sent: u64,
    laned: u64,
    dropped: u64,
    in_flight: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Packs {
    accepted: u64,
    acked: u64,
    given_up: u64,
    dropped: u64,
    in_flight: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Arrived {
    received: u64,
    delivered: u64,
    dropped: u64,
}

impl Books {
    /// Those of a client's status.
    pub(super) fn of_client(status: &Value) -> Self {
        let mut books = Self::of_end(status);
        for exit in status["exits"].as_array().into_iter().flatten() {
            books.add_path(&exit["path"]);
        }
        books.arrived.delivered = count(&status["delivered"]);
        books.arrived.dropped = sum(&status["received_drops"]);
        books
    }

    /// Those of a provider's status.
    pub(super) fn of_provider(status: &Value) -> Self {
        let mut books = Self::of_end(status);
        books.arrived.delivered = count(&status["ended_delivered"]);
        books.arrived.dropped = sum(&status["ended_received_drops"]);
        for session in status["sessions"].as_array().into_iter().flatten() {
            books.add_path(&session["path"]);
            books.arrived.delivered += count(&session["delivered"]);
            books.arrived.dropped += sum(&session["received_drops"]);
        }
        books
    }

    /// What both kinds of status have.
    fn of_end(status: &Value) -> Self {
        let mut books = Self {
            unaccounted: status["unaccounted"].as_i64().unwrap_or(i64::MAX),
            ..Self::default()
        };
        books.packets.accepted = count(&status["tun_packets"]);
        books.packets.copies = count(&status["extra_copies"]);
        books.packets.dropped = sum(&status["tun_drops"]);
        books.add_path(&status["ended"]);
        books
    }

    fn add_path(&mut self, path: &Value) {
        let counters = &path["counters"];
        self.packets.sent += count(&counters["sent"]);
        self.packets.laned += count(&counters["laned"]);
        self.packets.in_flight += count(&counters["in_flight"]);
        self.packets.dropped += sum(&path["drops"]);
        self.arrived.received += count(&counters["received"]);
        for lane in ["message", "flow"] {
            let send = &path[lane]["send"];
            let given_up = ["expired", "too_large", "with_message", "cut_anew"];
            self.packs.accepted += count(&send["accepted"]);
            self.packs.acked += count(&send["acked"]);
            self.packs.given_up += given_up
                .map(|cause| count(&send[cause]))
                .iter()
                .sum::<u64>();
            self.packs.dropped += sum(&send["dropped"]);
            self.packs.in_flight += count(&send["in_flight"]);
        }
    }

    /// How many packets and packs the end cannot account for, either way.
    pub(super) fn unaccounted(&self) -> u64 {
        self.unaccounted.unsigned_abs()
    }

    /// Packets from the TUN: accepted, and of those dropped.
    pub(super) fn accepted_and_dropped(&self) -> (u64, u64) {
        (self.packets.accepted, self.packets.dropped)
    }

    pub(super) fn json(&self) -> Value {
        let Self {
            packets,
            packs,
            arrived,
            unaccounted,
        } = self;
        json!({
            "packets": {
                "accepted": packets.accepted,
                "copies": packets.copies,
                "sent": packets.sent,
                "laned": packets.laned,
                "dropped": packets.dropped,
                "in_flight": packets.in_flight,
            },
            "packs": {
                "accepted": packs.accepted,
                "acked": packs.acked,
                "given_up": packs.given_up,
                "dropped": packs.dropped,
                "in_flight": packs.in_flight,
            },
            "arrived": {
                "received": arrived.received,
                "delivered": arrived.delivered,
                "dropped": arrived.dropped,
            },
            "unaccounted": unaccounted,
        })
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// All of a table of drops.
fn sum(drops: &Value) -> u64 {
    let drops = drops.as_object().into_iter().flatten();
    drops.map(|(_, packets)| count(packets)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(n: u64) -> Value {
        json!({
            "counters": {"sent": n, "laned": 10 * n, "in_flight": 2, "received": 20 * n},
            "drops": {"queue_full": n, "path_stalled": 1},
            "flow": {"send": {
                "accepted": 10 * n, "acked": 7 * n, "expired": n, "too_large": 1, "with_message": 2,
                "dropped": {"path_closed": n - 3}, "in_flight": n,
            }},
            "message": {"send": {"accepted": 1, "acked": 1}},
        })
    }

    fn closes(books: &Books) -> bool {
        let (packets, packs) = (books.packets, books.packs);
        packets.accepted + packets.copies
            == packets.sent + packets.laned + packets.dropped + packets.in_flight
            && packs.accepted == packs.acked + packs.given_up + packs.dropped + packs.in_flight
            && books.arrived.received == books.arrived.delivered + books.arrived.dropped
    }

    #[test]
    fn a_clients_books_hold_its_ended_sessions_too() {
        let status = json!({
            "exits": [{"path": path(5)}, {"path": null}],
            "ended": path(3), "unaccounted": -4,
            "tun_packets": 101, "extra_copies": 4, "tun_drops": {"malformed": 3, "not_unicast": 0, "no_tunnel": 0},
            "delivered": 158, "received_drops": {"device_full": 2},
        });
        let books = Books::of_client(&status);
        assert_eq!(books.accepted_and_dropped(), (101, 13));
        assert_eq!(books.unaccounted(), 4);
        assert!(closes(&books), "{books:?}");
    }

    #[test]
    fn a_providers_books_hold_all_its_sessions() {
        let session = |n| json!({"path": path(n), "delivered": 20 * n, "received_drops": {}});
        let status = json!({
            "sessions": [session(5), session(4)], "ended": path(3), "unaccounted": 0,
            "tun_packets": 153, "tun_drops": {},
            "ended_delivered": 59, "ended_received_drops": {"malformed": 1},
        });
        let books = Books::of_provider(&status);
        assert!(closes(&books), "{books:?}");
        assert_eq!(books.unaccounted(), 0);
    }

    #[test]
    fn an_end_that_does_not_say_is_not_taken_for_one_that_says_zero() {
        assert_ne!(Books::of_client(&json!({})).unaccounted(), 0);
    }
}
