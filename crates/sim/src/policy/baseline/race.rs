//! Which exits a packet goes to: the one that won its flow's race, or all that race.
//!
//! ```text
//! none ──packet──▶ Racing (every packet to every candidate) ──first response──▶ Won (one exit)
//!   ▲                   │ 2 s without a response                                   │ the exit failed
//!   └───────────────────┴──────────────────────────────────────────────────────────┘
//! ```
//!
//! With at most 7 candidates the first response ends a race, with more it ends after 2 s. In an outage nobody responds,
//! each race is cleared after its 2 s, and the next packet begins a new one of all: six copies of everything, each of them
//! repeated by a sequence of its own.
//!
//! A response is the first answer *or ack* by an exit. The real system waits for an answer; a simulated user who sends
//! without being answered would race for ever there, so the ack counts as well.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;

use crate::fleet::node::ServerId;

/// The longest race.
const RACE_TIME: Duration = Duration::from_secs(2);
/// Candidates with which the first response ends it.
const FIRST_WINS_MAX: usize = 7;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Flow {
    Racing {
        since: Instant,
        /// Empty: all exits.
        picks: Vec<ServerId>,
        answered: Option<ServerId>,
    },
    Won(ServerId),
}

/// All flows of a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flows {
    flows: BTreeMap<u16, Flow>,
}

impl Flows {
    /// Appends where a packet of `flow` goes, out of `exits`, to `to`. A race that begins takes `fan_out` of them.
    pub(crate) fn route(
        &mut self,
        flow: u16,
        exits: &[ServerId],
        (fan_out, rng): (Option<usize>, &mut SmallRng),
        now: Instant,
        to: &mut Vec<ServerId>,
    ) {
        match self.flows.get(&flow) {
            Some(Flow::Won(server)) if exits.contains(server) => return to.push(*server),
            Some(Flow::Racing { since, picks, .. }) if is_on(*since, now) => {
                to.extend(exits.iter().filter(|server| takes_part(picks, **server)));
                if !to.is_empty() {
                    return;
                }
            }
            Some(Flow::Racing {
                answered: Some(server),
                ..
            }) if exits.contains(server) => {
                to.push(*server);
                self.flows.insert(flow, Flow::Won(*server));
                return;
            }
            Some(Flow::Won(_) | Flow::Racing { .. }) | None => {}
        }
        to.extend_from_slice(exits);
        let mut picks = Vec::new();
        if let Some(fan_out) = fan_out
            && fan_out < to.len()
        {
            to.shuffle(rng);
            to.truncate(fan_out);
            picks.clone_from(to);
        }
        let race = Flow::Racing {
            since: now,
            picks,
            answered: None,
        };
        self.flows.insert(flow, race);
    }

    /// `server` responded to `flow`; `exits` are in the window.
    pub(crate) fn on_response(&mut self, flow: u16, server: ServerId, exits: usize, now: Instant) {
        let Some(state) = self.flows.get_mut(&flow) else {
            return;
        };
        match state {
            Flow::Racing {
                since,
                picks,
                answered,
            } if is_on(*since, now) && takes_part(picks, server) => {
                let candidates = if picks.is_empty() { exits } else { picks.len() };
                if candidates <= FIRST_WINS_MAX {
                    *state = Flow::Won(server);
                } else {
                    answered.get_or_insert(server);
                }
            }
            Flow::Racing { .. } | Flow::Won(_) => {}
        }
    }

    /// `server` failed: its flows have no exit.
    pub(crate) fn forget(&mut self, server: ServerId) {
        self.flows.retain(|_, flow| *flow != Flow::Won(server));
    }
}

fn is_on(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < RACE_TIME
}

fn takes_part(picks: &[ServerId], server: ServerId) -> bool {
    picks.is_empty() || picks.contains(&server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::node::rng_of;

    const SIX: [ServerId; 6] = [0, 1, 2, 3, 4, 5];

    fn route(
        flows: &mut Flows,
        exits: &[ServerId],
        fan_out: Option<usize>,
        at: Instant,
    ) -> Vec<ServerId> {
        let mut to = Vec::new();
        flows.route(7, exits, (fan_out, &mut rng_of(1, 1)), at, &mut to);
        to
    }

    // R-21: the race of all six.
    #[test]
    fn every_packet_goes_to_all_six_until_one_responds() {
        let start = Instant::now();
        let mut flows = Flows::default();
        assert_eq!(route(&mut flows, &SIX, None, start), SIX);
        assert_eq!(route(&mut flows, &SIX, None, start), SIX);
        flows.on_response(7, 4, 6, start);
        flows.on_response(7, 5, 6, start);
        assert_eq!(route(&mut flows, &SIX, None, start), [4]);
        flows.forget(4);
        assert_eq!(route(&mut flows, &SIX, None, start), SIX);
    }

    #[test]
    fn a_race_without_a_response_is_followed_by_another_one() {
        let start = Instant::now();
        let mut flows = Flows::default();
        route(&mut flows, &SIX, None, start);
        let late = start + RACE_TIME;
        flows.on_response(7, 4, 6, late);
        assert_eq!(route(&mut flows, &SIX, None, late), SIX);
        flows.on_response(7, 4, 6, late + RACE_TIME - Duration::from_nanos(1));
        assert_eq!(route(&mut flows, &SIX, None, late + RACE_TIME), [4]);
    }

    #[test]
    fn with_eight_candidates_a_race_takes_its_2_s() {
        let start = Instant::now();
        let eight: Vec<ServerId> = (0..8).collect();
        for (exits, wins_at_once) in [(&eight[..7], true), (&eight[..], false)] {
            let mut flows = Flows::default();
            route(&mut flows, exits, None, start);
            flows.on_response(7, 3, exits.len(), start);
            let to = route(&mut flows, exits, None, start);
            assert_eq!(to == [3], wins_at_once);
            assert_eq!(route(&mut flows, exits, None, start + RACE_TIME), [3]);
        }
    }

    #[test]
    fn a_fan_out_of_two_keeps_its_two_for_the_race() {
        let start = Instant::now();
        let mut flows = Flows::default();
        let two = route(&mut flows, &SIX, Some(2), start);
        assert_eq!(two.len(), 2);
        let mut again = route(&mut flows, &SIX, Some(2), start);
        let mut sorted = two.clone();
        sorted.sort_unstable();
        again.sort_unstable();
        assert_eq!(again, sorted);
        let outsider = SIX.into_iter().find(|s| !two.contains(s)).unwrap_or(0);
        flows.on_response(7, outsider, 6, start);
        flows.on_response(7, two[1], 6, start);
        assert_eq!(route(&mut flows, &SIX, Some(2), start), [two[1]]);
    }
}
