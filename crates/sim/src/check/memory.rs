//! What a client holds is within its windows.
//!
//! Each exit of its catalog may have a path, standing or suspended, with two acknowledged lanes of `window_bytes` and
//! `window_numbers` each, and a queue of what is never acknowledged.

use super::{Checker, Complaints, Fact, Terms};

/// Acknowledged lanes of a path: the messages' and the flows'.
const LANES: u64 = 2;

#[derive(Debug)]
pub(super) struct Memory {
    bytes_max: u64,
    packs_max: u64,
}

impl Memory {
    pub(super) fn new(terms: &Terms) -> Self {
        let fleet = &terms.scenario.fleet;
        let exits = u64::from(fleet.catalog.min(fleet.providers));
        let path = &terms.client.path;
        let lane = &path.lanes.send;
        let lanes = LANES * lane.window_bytes as u64;
        Self {
            bytes_max: exits * (lanes + path.dgram_queue_bytes_max as u64),
            packs_max: exits * LANES * lane.window_numbers as u64,
        }
    }
}

impl Checker for Memory {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        let Fact::Stands { client, facts } = *fact else {
            return;
        };
        if facts.held_bytes > self.bytes_max {
            let (held, most) = (facts.held_bytes, self.bytes_max);
            complaints.say(
                now_ns,
                format_args!("client {client} holds {held} bytes, {most} at most"),
            );
        }
        if u64::from(facts.unacked) > self.packs_max {
            let (unacked, most) = (facts.unacked, self.packs_max);
            complaints.say(
                now_ns,
                format_args!("client {client}: {unacked} packs are unacknowledged, {most} at most"),
            );
        }
    }
}
