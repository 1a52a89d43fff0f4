//! No pack is handed over more often than it may be.
//!
//! A pack is known by its client, its server and its number on the way there. A session that begins anew numbers from the
//! start again: a number that carries another item is another pack. What carries no item of a user's (a SYN) has nothing
//! that tells it from the one before, and is left out.

use std::collections::HashMap;

use super::{Checker, Complaints, Fact, SECOND_NS, Terms, ns};
use crate::fleet::NO_ITEM;
use crate::fleet::node::{ClientId, ServerId};

/// Packs that are remembered before the old ones are looked for.
const PACKS_MIN: usize = 4_096;

#[derive(Debug, Clone, Copy)]
struct Sends {
    item: u32,
    count: u32,
    last_ns: u64,
}

#[derive(Debug)]
pub(super) struct Cap {
    sends_max: u32,
    memory_ns: u64,
    prune_at: usize,
    /// Looked up and pruned; nothing follows from its order.
    packs: HashMap<(ClientId, ServerId, u64), Sends>,
}

impl Cap {
    pub(super) fn new(terms: &Terms) -> Self {
        let lane = &terms.client.path.lanes.send;
        Self {
            sends_max: u32::from(lane.sends_max()),
            // A pack lives for `ack_timeout` from its first send; a path that is suspended keeps it as long again.
            memory_ns: 2 * ns(lane.ack_timeout) + 10 * SECOND_NS,
            prune_at: PACKS_MIN,
            packs: HashMap::new(),
        }
    }
}

impl Checker for Cap {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        let Fact::Handed {
            client,
            server,
            packs,
            ..
        } = *fact
        else {
            return;
        };
        for (number, item) in packs.iter().copied().filter(|(_, item)| *item != NO_ITEM) {
            let sends = self.packs.entry((client, server, number)).or_insert(Sends {
                item,
                count: 0,
                last_ns: now_ns,
            });
            if sends.item != item {
                (sends.item, sends.count) = (item, 0);
            }
            sends.count += 1;
            sends.last_ns = now_ns;
            if sends.count == self.sends_max + 1 {
                let most = self.sends_max;
                complaints.say(now_ns, format_args!(
                    "client {client}, provider {server}: item {item} was handed over more than {most} times"
                ));
            }
        }
        if self.packs.len() >= self.prune_at {
            let memory_ns = self.memory_ns;
            self.packs
                .retain(|_, sends| sends.last_ns + memory_ns > now_ns);
            self.prune_at = (self.packs.len() * 2).max(PACKS_MIN);
        }
    }
}
