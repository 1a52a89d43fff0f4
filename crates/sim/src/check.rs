//! What must hold in every run of quell, whatever breaks.
//!
//! A checker is a small observer. The world tells it facts as they come to pass, it keeps what it needs and complains in
//! words; it changes nothing, and believes no policy about what it can see for itself. What is allowed it reckons from the
//! configuration (`Terms`), so that a setting that is changed moves its bound and not a number in here.
//!
//! | checker | holds | serves |
//! |---|---|---|
//! | `cap` | no pack is handed over more than 1 + `max_resend_count` times over one path | R-3, R-10 |
//! | `once` | no item comes out twice; what was taken and not dropped has come out by the end | R-21 |
//! | `conservation` | the books of a client are even | R-21 |
//! | `memory` | what is held and unacknowledged is within the windows | R-3 |
//! | `single` | one dial at a time of one server; one request of a kind at a time, paced, while it fails | R-18, R-32 |
//! | `quiet` | without progress a minute's bytes are under the ceiling | R-20 |
//! | `budget` | resends into silence are within the budget | R-3 |
//! | `silence` | a path that does not answer is asked, and carries nothing | R-20 |
//! | `widen` | while degraded the resends that are left are spread | R-4, R-11 |
//! | `converge` | who had an outage delivers again within a bound of the heal | R-20 |
//! | `paced` | a failed dial is not repeated before its wait | R-17, R-31 |
//! | `herd` | the clients of a provider do not come back in the same tenth of a second | R-31 |
//!
//! They are on in each run of `quell`. In a fleet of more than `ALL_CLIENTS_MAX` clients only the cheap ones are, whose
//! cost is a few words a client and nothing per packet: conservation, single, paced, herd, converge.

mod budget;
mod cap;
mod conservation;
pub mod converge;
mod herd;
mod memory;
mod once;
mod paced;
mod quiet;
mod silence;
mod single;
#[cfg(test)]
mod tests;
mod widen;
mod window;

use std::fmt;
use std::time::Duration;

use quell_core::config::{BackendHealthConfig, ClientConfig, SilenceConfig};
use quell_core::health::backend::Work;

use crate::fleet::Options;
use crate::fleet::node::{Answer, BackendId, Causes, ClientFacts, ClientId, ServerId};
use crate::scenario::{Fault, Scenario};

/// Most clients with which all checkers are on.
pub const ALL_CLIENTS_MAX: u32 = 1_000;
/// Complaints of one checker that are kept.
const COMPLAINTS_MAX: usize = 3;
/// How often a client is asked how it stands.
const LOOK_NS: u64 = 2 * SECOND_NS;

const SECOND_NS: u64 = 1_000_000_000;

/// Something that came to pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fact<'a> {
    /// A user offered an item.
    Offered { client: ClientId, number: u32 },
    /// An item came out at the far end.
    Delivered { client: ClientId, number: u32 },
    /// A client handed a unit to a connection, which took it. Packs are `(path-wide number, item)`.
    Handed {
        client: ClientId,
        server: ServerId,
        causes: &'a Causes,
        packs: &'a [(u64, u32)],
    },
    /// A client's half was given something that the provider's half said.
    Heard { client: ClientId, server: ServerId },
    /// UDP payload left a client's socket.
    Left { client: ClientId, bytes: u32 },
    /// A client dials.
    Dialled { client: ClientId, server: ServerId },
    /// The dial led to a connection.
    Connected { client: ClientId, server: ServerId },
    /// The dial failed, or the connection is gone, by whosever doing.
    Closed { client: ClientId, server: ServerId },
    /// A client asks a backend.
    Asked {
        client: ClientId,
        backend: BackendId,
        work: Work,
        call: u64,
    },
    /// A backend's answer reached a client.
    Answered {
        client: ClientId,
        call: u64,
        answer: Answer,
    },
    /// A client's machine woke.
    Woke { client: ClientId },
    /// How a client stands; told now and then, and at the end of each.
    Stands {
        client: ClientId,
        facts: &'a ClientFacts,
    },
    /// The run is over.
    Ended,
}

/// What is allowed follows from this.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) client: ClientConfig,
    pub(crate) backend: BackendHealthConfig,
    pub(crate) budget: SilenceConfig,
    pub(crate) scenario: Scenario,
    /// When everything is well for good; `None`: nothing breaks.
    pub(crate) healed_ns: Option<u64>,
    pub(crate) duration_ns: u64,
}

impl Terms {
    pub(crate) fn of(scenario: &Scenario, client: ClientConfig) -> Self {
        let healed = scenario.fault.iter().map(Fault::healed_at).max();
        Self {
            client,
            backend: BackendHealthConfig::default(),
            budget: SilenceConfig::default(),
            scenario: scenario.clone(),
            healed_ns: healed.map(ns),
            duration_ns: ns(scenario.duration),
        }
    }

    pub(crate) fn clients(&self) -> usize {
        self.scenario.fleet.clients as usize
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Words of one checker, the first few.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    words: Vec<String>,
}

impl Complaints {
    fn say(&mut self, now_ns: u64, words: impl fmt::Display) {
        if self.words.len() < COMPLAINTS_MAX {
            let at = seconds(now_ns);
            self.words.push(format!("at {at:.3} s: {words}"));
        }
    }
}

/// An observer.
trait Checker: fmt::Debug {
    /// Takes what came to pass at `now_ns`.
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints);
}

#[derive(Debug)]
struct Named {
    name: &'static str,
    checker: Box<dyn Checker>,
    complaints: Complaints,
}

/// All checkers of a run.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    checkers: Vec<Named>,
    /// When each client is asked next how it stands.
    look_ns: Vec<u64>,
    is_full: bool,
}

impl Checks {
    /// Those of a policy of this name: of quell's all, of others none.
    pub(crate) fn new(policy: &str, scenario: &Scenario, options: &Options) -> Self {
        if policy != "quell" {
            return Self::default();
        }
        let client = options.quell.as_ref().map(|(client, _)| client.clone());
        Self::with(&Terms::of(scenario, client.unwrap_or_default()))
    }

    fn with(terms: &Terms) -> Self {
        let mut checks = Self {
            is_full: terms.scenario.fleet.clients <= ALL_CLIENTS_MAX,
            ..Self::default()
        };
        checks.add("conservation", conservation::Conservation);
        checks.add("single", single::Single::new(terms));
        checks.add("paced", paced::Paced::new(terms));
        checks.add("herd", herd::Herd::new(terms));
        checks.add("converge", converge::Converge::new(terms));
        if checks.is_full {
            checks.look_ns = vec![0; terms.clients()];
            checks.add("cap", cap::Cap::new(terms));
            checks.add("once", once::Once::new(terms));
            checks.add("memory", memory::Memory::new(terms));
            checks.add("quiet", quiet::Quiet::new(terms));
            checks.add("budget", budget::Budget::new(terms));
            checks.add("silence", silence::Silence::new(terms));
            checks.add("widen", widen::Widen::new(terms));
        }
        checks
    }

    fn add(&mut self, name: &'static str, checker: impl Checker + 'static) {
        self.checkers.push(Named {
            name,
            checker: Box::new(checker),
            complaints: Complaints::default(),
        });
    }

    /// Something came to pass.
    pub(crate) fn saw(&mut self, fact: Fact<'_>, now_ns: u64) {
        let is_of_a_packet = matches!(
            fact,
            Fact::Handed { .. } | Fact::Heard { .. } | Fact::Left { .. }
        );
        if !self.is_full && is_of_a_packet {
            return;
        }
        for named in &mut self.checkers {
            named.checker.saw(&fact, now_ns, &mut named.complaints);
        }
    }

    /// Whether this client is to be asked how it stands.
    pub(crate) fn wants_facts(&mut self, client: ClientId, now_ns: u64) -> bool {
        let Some(next) = self.look_ns.get_mut(client as usize) else {
            return false;
        };
        let is_due = *next <= now_ns;
        if is_due {
            *next = now_ns + LOOK_NS;
        }
        is_due
    }

    /// What was complained of, each with the name of the checker in front.
    pub(crate) fn finish(mut self, now_ns: u64) -> Vec<String> {
        self.saw(Fact::Ended, now_ns);
        let words = self.checkers.into_iter().flat_map(|named| {
            let words = named.complaints.words.into_iter();
            words.map(move |words| format!("{}: {words}", named.name))
        });
        words.collect()
    }
}
