//! Exactly once: nothing twice, and nothing lost that was taken and not dropped with a reason.
//!
//! What a client still holds back before it takes it (its user waits) is not taken. A provider that dies takes what it had
//! acknowledged and not yet released with it: where one dies or falls over, only the first half is held. What was offered
//! within [`LATE_NS`] of the end may be under way.

use super::{Checker, Complaints, Fact, SECOND_NS, Terms, ns};
use crate::scenario::FaultKind;

/// The longest that something takes on paths that are well: a few probe timeouts of a slow one, a loss repaired twice.
const LATE_NS: u64 = 20 * SECOND_NS;

#[derive(Debug, Clone, Default)]
struct Items {
    offered: u32,
    /// Of these, those that are not excused by the end of the run.
    due: u32,
    came: Vec<u64>,
    dropped: u64,
    held: u64,
}

impl Items {
    fn has(&self, number: u32) -> bool {
        let word = self.came.get((number / 64) as usize);
        word.is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    fn mark(&mut self, number: u32) {
        let place = (number / 64) as usize;
        if self.came.len() <= place {
            self.came.resize(place + 1, 0);
        }
        self.came[place] |= 1 << (number % 64);
    }

    fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.due).filter(|number| !self.has(*number))
    }
}

#[derive(Debug)]
pub(super) struct Once {
    clients: Vec<Items>,
    due_until_ns: u64,
    /// Whether everything must have come by the end.
    all_must_come: bool,
}

impl Once {
    pub(super) fn new(terms: &Terms) -> Self {
        let scenario = &terms.scenario;
        let dies = |kind: &FaultKind| matches!(kind, FaultKind::ProviderDeath);
        let none_dies = !scenario.fault.iter().any(|fault| dies(&fault.kind))
            && scenario.fleet.provider_dials_per_s_max.is_none()
            && scenario.fleet.provider_sessions_max.is_none();
        let healed_ns = terms.healed_ns.unwrap_or(0);
        let bound_ns = ns(super::converge::bound(&terms.client, scenario));
        Self {
            clients: vec![Items::default(); terms.clients()],
            due_until_ns: terms.duration_ns.saturating_sub(LATE_NS),
            all_must_come: none_dies && healed_ns + bound_ns <= terms.duration_ns,
        }
    }

    fn look_at_the_end(&self, now_ns: u64, complaints: &mut Complaints) {
        for (client, items) in self.clients.iter().enumerate() {
            let missing = items.missing().count() as u64;
            if missing > items.dropped + items.held {
                let first: Vec<_> = items.missing().take(5).collect();
                let Items { dropped, held, .. } = items;
                complaints.say(now_ns, format_args!(
                    "client {client}: {missing} items never came, {dropped} were dropped and {held} wait; missing: {first:?} …"
                ));
            }
        }
    }
}

impl Checker for Once {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Offered { client, number } = *fact {
            let items = &mut self.clients[client as usize];
            items.offered = items.offered.max(number + 1);
            if now_ns < self.due_until_ns {
                items.due = items.offered;
            }
        }
        if let Fact::Delivered { client, number } = *fact {
            let items = &mut self.clients[client as usize];
            if number >= items.offered {
                complaints.say(
                    now_ns,
                    format_args!("client {client}: item {number} came and was never offered"),
                );
            } else if items.has(number) {
                complaints.say(
                    now_ns,
                    format_args!("client {client}: item {number} came twice"),
                );
            } else {
                items.mark(number);
            }
        }
        if let Fact::Stands { client, facts } = *fact {
            let items = &mut self.clients[client as usize];
            (items.dropped, items.held) = (facts.dropped, facts.waiting_items);
        }
        if matches!(fact, Fact::Ended) && self.all_must_come {
            self.look_at_the_end(now_ns, complaints);
        }
    }
}
