//! Resends into silence stay within the budget of the path and of the process (R-3; DESIGN §6 "Resend budget").
//!
//! What tells a guess from evidence is whether anything was heard: a resend to a provider of which the client heard nothing
//! for [`GUESS_NS`] is a guess. In any ten seconds guesses take at most the share of what was first sent in them, and the
//! floor in packs. First sends count here when they are handed over, which is a little before the client counts them: a
//! second of them more makes up for it.

use super::window::Window;
use super::{Checker, Complaints, Fact, SECOND_NS, Terms};
use crate::fleet::node::{ClientId, ServerId};

/// Later than any resend that an acknowledgement prompted.
const GUESS_NS: u64 = 3 * SECOND_NS;
const WINDOW_S: u64 = 10;

#[derive(Debug, Clone, Default)]
struct Spent {
    first: Window<16>,
    guesses: Window<16>,
    /// The longest guess of all: what a pack of the floor may take.
    longest: u64,
    heard_ns: u64,
    complained: bool,
}

impl Spent {
    /// By how much the guesses of ten seconds are beyond what is allowed: `(spent, allowed)`.
    fn beyond(&self, (percent, per_s): (u32, u32), now_ns: u64) -> Option<(u64, u64)> {
        let spent = self.guesses.sum(WINDOW_S, now_ns);
        let share = self.first.sum(WINDOW_S + 2, now_ns) * u64::from(percent) / 100;
        let floor = u64::from(per_s) * WINDOW_S * self.longest;
        (spent > share + floor).then_some((spent, share + floor))
    }
}

#[derive(Debug)]
pub(super) struct Budget {
    /// Of each client, in the order of first use: some, seldom more than a window of exits.
    paths: Vec<Vec<(ServerId, Spent)>>,
    clients: Vec<Spent>,
    path: (u32, u32),
    process: (u32, u32),
}

impl Budget {
    pub(super) fn new(terms: &Terms) -> Self {
        let budget = &terms.budget;
        Self {
            paths: (0..terms.clients()).map(|_| Vec::new()).collect(),
            clients: vec![Spent::default(); terms.clients()],
            path: (budget.path_share_percent, budget.path_packs_per_s),
            process: (budget.process_share_percent, budget.process_packs_per_s),
        }
    }
}

fn path_of(paths: &mut [Vec<(ServerId, Spent)>], client: ClientId, server: ServerId) -> &mut Spent {
    let paths = &mut paths[client as usize];
    let place = paths.iter().position(|(of, _)| *of == server);
    let place = place.unwrap_or_else(|| {
        paths.push((server, Spent::default()));
        paths.len() - 1
    });
    &mut paths[place].1
}

impl Checker for Budget {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Heard { client, server } | Fact::Connected { client, server } = *fact {
            path_of(&mut self.paths, client, server).heard_ns = now_ns;
        }
        let Fact::Handed {
            client,
            server,
            causes,
            ..
        } = *fact
        else {
            return;
        };
        let path = path_of(&mut self.paths, client, server);
        let is_guess = path.heard_ns + GUESS_NS <= now_ns;
        let process = &mut self.clients[client as usize];
        for (spent, terms, whose) in [
            (path, self.path, "path"),
            (process, self.process, "process"),
        ] {
            spent.first.add(u64::from(causes.first_send), now_ns);
            if causes.resend == 0 || !is_guess {
                continue;
            }
            spent.guesses.add(u64::from(causes.resend), now_ns);
            spent.longest = spent.longest.max(u64::from(causes.resend));
            if let Some((bytes, most)) = spent.beyond(terms, now_ns).filter(|_| !spent.complained) {
                spent.complained = true;
                complaints.say(now_ns, format_args!(
                    "client {client}, provider {server}: a {whose} resent {bytes} bytes into silence within 10 s, {most} at most"
                ));
            }
        }
    }
}
