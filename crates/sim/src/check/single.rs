//! One at a time: dials of a server, and requests of a kind while they fail.
//!
//! A kind of work is taken for degraded here one failure after the client takes it for that: failures are those that the
//! world saw, a request that nobody answered within `attempt_timeout` among them, each in a half second of its own. From
//! then on one request of that kind may be under way, and the next comes no sooner than the smallest wait of a probe.

use std::collections::BTreeMap;

use quell_core::health::backend::Work;

use super::{Checker, Complaints, Fact, Terms, ns, seconds};
use crate::fleet::node::{Answer, BackendId, ClientId, ServerId};

/// Failures of one such time count as one.
const SLOT_NS: u64 = 500_000_000;
/// The smallest factor of a probe's wait.
const JITTER_MIN_PERCENT: u64 = 75;

#[derive(Debug, Default)]
struct Kind {
    /// `(call, since)` of what is under way.
    asked: Vec<(u64, u64)>,
    failures: u32,
    failed_slot: Option<u64>,
    last_ns: Option<u64>,
}

impl Kind {
    fn fail(&mut self, at_ns: u64) {
        let slot = Some(at_ns / SLOT_NS);
        self.failures += u32::from(self.failed_slot != slot);
        self.failed_slot = slot;
    }
}

#[derive(Debug)]
pub(super) struct Single {
    dialling: BTreeMap<(ClientId, ServerId), u64>,
    /// What each client asks for: one or two kinds, in the order in which it began to.
    kinds: Vec<Vec<(BackendId, Work, Kind)>>,
    degraded_at: u32,
    in_flight_max: usize,
    timeout_ns: u64,
    gap_ns: u64,
}

impl Single {
    pub(super) fn new(terms: &Terms) -> Self {
        let backend = &terms.backend;
        Self {
            dialling: BTreeMap::new(),
            kinds: (0..terms.clients()).map(|_| Vec::new()).collect(),
            degraded_at: u32::from(backend.failures_to_degrade) + 1,
            in_flight_max: backend.in_flight_max,
            timeout_ns: ns(backend.attempt_timeout),
            gap_ns: ns(backend.probe_interval_min) / 100 * JITTER_MIN_PERCENT,
        }
    }

    fn ask(
        &mut self,
        (client, backend, work): (ClientId, BackendId, Work),
        call: u64,
        now_ns: u64,
        complaints: &mut Complaints,
    ) {
        let kinds = &mut self.kinds[client as usize];
        let is_it = |(of, what, _): &(BackendId, Work, Kind)| (*of, *what) == (backend, work);
        let place = kinds.iter().position(is_it).unwrap_or_else(|| {
            kinds.push((backend, work, Kind::default()));
            kinds.len() - 1
        });
        let (.., kind) = &mut kinds[place];
        while let Some((_, since)) = kind.asked.first().copied()
            && since + self.timeout_ns <= now_ns
        {
            kind.asked.remove(0);
            kind.fail(since + self.timeout_ns);
        }
        if kind.failures >= self.degraded_at {
            if kind.asked.len() >= self.in_flight_max {
                complaints.say(now_ns, format_args!(
                    "client {client} asks backend {backend} for {work} while such a request is under way and it fails"
                ));
            }
            let since_ns = kind.last_ns.map_or(u64::MAX, |last| now_ns - last);
            if since_ns < self.gap_ns {
                let (since, least) = (seconds(since_ns), seconds(self.gap_ns));
                complaints.say(now_ns, format_args!(
                    "client {client} asks backend {backend} for {work} again after {since:.3} s, while it fails; {least:.3} s at least"
                ));
            }
        }
        kind.last_ns = Some(now_ns);
        kind.asked.push((call, now_ns));
    }

    fn answer(&mut self, client: ClientId, call: u64, answer: Answer, now_ns: u64) {
        for (.., kind) in &mut self.kinds[client as usize] {
            let Some(place) = kind.asked.iter().position(|(of, _)| *of == call) else {
                continue;
            };
            let (_, since) = kind.asked.remove(place);
            match answer {
                Answer::Yes if now_ns <= since + self.timeout_ns => kind.failures = 0,
                Answer::Yes | Answer::Unavailable(_) | Answer::Failed => kind.fail(now_ns),
            }
        }
    }
}

impl Checker for Single {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Dialled { client, server } = *fact
            && let Some(since) = self.dialling.insert((client, server), now_ns)
        {
            let since = seconds(since);
            complaints.say(now_ns, format_args!(
                "client {client} dials provider {server} while its dial from {since:.3} s is under way"
            ));
        }
        if let Fact::Connected { client, server } | Fact::Closed { client, server } = *fact {
            self.dialling.remove(&(client, server));
        }
        if let Fact::Asked {
            client,
            backend,
            work,
            call,
        } = *fact
        {
            self.ask((client, backend, work), call, now_ns, complaints);
        }
        if let Fact::Answered {
            client,
            call,
            answer,
        } = *fact
        {
            self.answer(client, call, answer, now_ns);
        }
    }
}
