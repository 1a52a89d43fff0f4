//! While the backend is degraded, the resends that are left of a pack are spread over its life.
//!
//! A wait is then `ack_timeout` shared among all that a pack may be sent, times the smallest jitter; the first is a plain
//! probe timeout. So a pack that was handed over while the client took its backend for degraded is handed over in its first
//! [`LOOK_S`] seconds a few times at most, where a healthy schedule has doubled its way through half a dozen. Anything heard
//! of the path meanwhile may be evidence, and ends the look.

use std::collections::BTreeMap;

use super::{Checker, Complaints, Fact, SECOND_NS, Terms, ns};
use crate::fleet::NO_ITEM;
use crate::fleet::node::{ClientId, ServerId};

const LOOK_S: u64 = 10;
/// Packs that one path is watched for.
const PACKS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Look {
    item: u32,
    since_ns: u64,
    count: u32,
}

#[derive(Debug)]
pub(super) struct Widen {
    /// Degraded at the last two looks.
    degraded: Vec<(bool, bool)>,
    looks: BTreeMap<(ClientId, ServerId), Vec<Look>>,
    sends_max: u32,
}

impl Widen {
    pub(super) fn new(terms: &Terms) -> Self {
        let lane = &terms.client.path.lanes.send;
        let share_ns = ns(lane.ack_timeout) / (u64::from(lane.max_resend_count) + 1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "seconds within a pack's life"
        )]
        let wait_ns = (share_ns as f64 * lane.jitter_min) as u64;
        let spread = (LOOK_S * SECOND_NS).div_ceil(wait_ns.max(1));
        Self {
            degraded: vec![(false, false); terms.clients()],
            looks: BTreeMap::new(),
            sends_max: 2 + u32::try_from(spread).unwrap_or(u32::MAX - 2),
        }
    }
}

impl Checker for Widen {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Stands { client, facts } = *fact {
            let degraded = &mut self.degraded[client as usize];
            *degraded = (facts.degraded, degraded.0);
            if *degraded == (false, true) {
                self.looks.retain(|(of, _), _| *of != client);
            }
        }
        if let Fact::Heard { client, server } | Fact::Connected { client, server } = *fact {
            self.looks.remove(&(client, server));
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
        if self.degraded[client as usize] != (true, true) {
            return;
        }
        let looks = self.looks.entry((client, server)).or_default();
        looks.retain(|look| look.since_ns + LOOK_S * SECOND_NS > now_ns);
        for (_, item) in packs.iter().copied().filter(|(_, item)| *item != NO_ITEM) {
            if let Some(look) = looks.iter_mut().find(|look| look.item == item) {
                look.count += 1;
                if look.count == self.sends_max + 1 {
                    let (count, most) = (look.count, self.sends_max);
                    complaints.say(now_ns, format_args!(
                        "client {client}, provider {server}: item {item} was sent {count} times within 10 s while degraded, {most} at most"
                    ));
                }
            } else if looks.len() < PACKS_MAX {
                looks.push(Look {
                    item,
                    since_ns: now_ns,
                    count: 1,
                });
            }
        }
    }
}
