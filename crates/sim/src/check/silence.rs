//! A path that does not answer carries nothing (R-20; DESIGN §4 "Hush", "Stalled path").
//!
//! The silence of a path begins with the first pack that is handed over after something was heard of it. After
//! `stall_ptos` probe timeouts, `stall_time_min` and twice the round trip the path is stalled, whatever comes first: no pack
//! is handed over to it until something is heard. A probe timeout is taken here for what it is at most on this path: queues
//! full in both directions, jitter at its largest, four times over. The round trip is the largest of late, and an
//! acknowledgement that a cut of one direction held back is as late as that cut was long.

use std::collections::BTreeMap;

use super::{Checker, Complaints, Fact, SECOND_NS, Terms, ns, seconds};
use crate::fleet::node::{ClientId, ServerId};
use crate::scenario::{Direction, FaultKind};

#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// First pack since something was heard.
    silent_ns: Option<u64>,
    complained: bool,
}

#[derive(Debug)]
pub(super) struct Silence {
    ways: BTreeMap<(ClientId, ServerId), Way>,
    stalled_after_ns: u64,
}

impl Silence {
    pub(super) fn new(terms: &Terms) -> Self {
        let path = &terms.scenario.path;
        let (health, lane) = (&terms.client.path.health, &terms.client.path.lanes.send);
        let round_ns = ns(path.rtt + 2 * path.jitter + 2 * path.queue);
        let pto_ns = ns(lane.first_pto.max(lane.min_resend_interval)).max(4 * round_ns);
        let held_back = terms
            .scenario
            .fault
            .iter()
            .filter(|fault| holds_back(&fault.kind));
        let held_back = held_back
            .map(|fault| fault.until.saturating_sub(fault.at))
            .max();
        let latest_ns = round_ns + ns(held_back.unwrap_or_default());
        let stall_ns = ns(health.stall_time_min).max(2 * latest_ns);
        Self {
            ways: BTreeMap::new(),
            stalled_after_ns: (u64::from(health.stall_ptos) + 1) * pto_ns + stall_ns + SECOND_NS,
        }
    }
}

/// Whether packs may arrive while what acknowledges them does not.
fn holds_back(kind: &FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::AcksLost
            | FaultKind::Blackhole {
                direction: Direction::Down
            }
    )
}

impl Checker for Silence {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Heard { client, server }
        | Fact::Connected { client, server }
        | Fact::Dialled { client, server } = *fact
        {
            self.ways.insert((client, server), Way::default());
        }
        // Who slept has not been silent meanwhile.
        if let Fact::Woke { client } = *fact {
            let ways = self.ways.range_mut((client, 0)..);
            let ways = ways.take_while(|((of, _), _)| *of == client);
            ways.for_each(|(_, way)| *way = Way::default());
        }
        let Fact::Handed {
            client,
            server,
            packs,
            ..
        } = *fact
        else {
            return;
        };
        if packs.is_empty() {
            return;
        }
        let way = self.ways.entry((client, server)).or_default();
        let silent_ns = now_ns - *way.silent_ns.get_or_insert(now_ns);
        if silent_ns > self.stalled_after_ns && !way.complained {
            way.complained = true;
            let (silent, most) = (seconds(silent_ns), seconds(self.stalled_after_ns));
            complaints.say(now_ns, format_args!(
                "client {client} sends packs to provider {server} after {silent:.1} s of silence, {most:.1} s at most"
            ));
        }
    }
}
