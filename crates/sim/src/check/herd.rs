//! Clients do not come back together (R-31; DESIGN §5 "redial_spread").
//!
//! Of a fleet of [`CLIENTS_MIN`] or more, at most [`PART_PERCENT`] of the clients redial within one [`SLOT_NS`]. A spread of a
//! second puts a tenth of them into each; three tenths are what chance, and two providers at once, leave room for. What
//! really happens at one moment is no herd of ours: the first dials of a fleet, and machines that wake together.

use super::{Checker, Complaints, Fact, SECOND_NS, Terms};

/// Fewer are no herd.
const CLIENTS_MIN: usize = 50;
const PART_PERCENT: usize = 30;
const SLOT_NS: u64 = SECOND_NS / 10;
/// How long after it woke a client is excused.
const WOKE_NS: u64 = 2 * SECOND_NS;

#[derive(Debug)]
pub(super) struct Herd {
    /// Whether it was connected once, and when it woke.
    clients: Vec<(bool, Option<u64>)>,
    slot: u64,
    in_slot: usize,
}

impl Herd {
    pub(super) fn new(terms: &Terms) -> Self {
        Self {
            clients: vec![(false, None); terms.clients()],
            slot: 0,
            in_slot: 0,
        }
    }
}

impl Checker for Herd {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Connected { client, .. } = *fact {
            self.clients[client as usize].0 = true;
        }
        if let Fact::Woke { client } = *fact {
            self.clients[client as usize].1 = Some(now_ns);
        }
        let Fact::Dialled { client, .. } = *fact else {
            return;
        };
        let (stood, woke_ns) = self.clients[client as usize];
        let excused = woke_ns.is_some_and(|woke_ns| woke_ns + WOKE_NS > now_ns);
        if !stood || excused || self.clients.len() < CLIENTS_MIN {
            return;
        }
        let slot = now_ns / SLOT_NS;
        if self.slot != slot {
            (self.slot, self.in_slot) = (slot, 0);
        }
        self.in_slot += 1;
        let most = self.clients.len() * PART_PERCENT / 100;
        if self.in_slot == most + 1 {
            let of = self.clients.len();
            complaints.say(
                now_ns,
                format_args!(
                    "more than {most} of {of} clients redial within the same tenth of a second"
                ),
            );
        }
    }
}
