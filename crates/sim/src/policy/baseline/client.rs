//! The client's half: a window of exits, a race for each flow, and a sequence to each exit.
//!
//! What decides is in the children; this is who tells whom, and [`inputs`] is what the world calls. Each input ends in [`Client::settle`], which removes exits that
//! failed and asks the backend for what sequences wait for.
//!
//! Books: of an item's copies the first one that a sequence took is the one counted. `accepted = acked + dropped + held +
//! in sequences`; the world's own count of what came out is not taken from here.

use std::collections::VecDeque;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;

use super::backend::{Calls, Purpose};
use super::exit::{Exit, Standing};
use super::peer::Arrived;
use super::race::Flows;
use super::reconnect::LinkOutput;
use super::rules::Rules;
use super::send::{Pack, QUEUE_BYTES_MAX};
use super::unit::{Body, Unit};
use super::window::{Sign, Window};
use crate::fleet::node::{ClientOutput, Item, ServerId};

mod inputs;

/// Items, each by its first copy.
#[derive(Debug, Clone, Copy, Default)]
struct Books {
    accepted: u64,
    acked: u64,
    dropped: u64,
}

impl Books {
    fn drop_pack(&mut self, pack: &Pack) {
        self.dropped += u64::from(is_counted(pack));
    }
}

fn is_counted(pack: &Pack) -> bool {
    pack.is_first && matches!(pack.body, Body::Item(_))
}

/// The client's half.
#[derive(Debug)]
pub struct Client {
    rules: &'static Rules,
    catalog: Vec<ServerId>,
    exits: Vec<Exit>,
    /// `None`: it has one provider, which is its exit.
    window: Option<Window>,
    flows: Flows,
    calls: Calls,
    /// Items that wait for an exit.
    held: VecDeque<(Instant, Item)>,
    held_bytes: u64,
    books: Books,
    failed: Vec<ServerId>,
    out: VecDeque<ClientOutput<Unit>>,
    next_attempt: u64,
    rng: SmallRng,
    since: Instant,
}

impl Client {
    pub(crate) fn new(
        rules: &'static Rules,
        catalog: Vec<ServerId>,
        backends: u8,
        rng: SmallRng,
        now: Instant,
    ) -> Self {
        let only = catalog.first().filter(|_| catalog.len() == 1);
        let exits = only.map(|server| Exit::only(*server, rules, backends > 0, now));
        Self {
            rules,
            window: only.is_none().then(|| Window::new(rules.window, now)),
            exits: exits.into_iter().collect(),
            catalog,
            flows: Flows::default(),
            calls: Calls::new(backends),
            held: VecDeque::new(),
            held_bytes: 0,
            books: Books::default(),
            failed: Vec::new(),
            out: VecDeque::new(),
            next_attempt: 0,
            rng,
            since: now,
        }
    }

    fn exit_at(&mut self, server: ServerId, attempt: u64) -> Option<&mut Exit> {
        self.exits
            .iter_mut()
            .find(|exit| exit.server == server && exit.link.is_current(attempt))
    }

    fn index_of(&self, server: ServerId) -> Option<usize> {
        self.exits.iter().position(|exit| exit.server == server)
    }

    fn admitted(&self) -> impl Iterator<Item = ServerId> {
        let exits = self.exits.iter().filter(|exit| exit.is_admitted());
        exits.map(|exit| exit.server)
    }

    /// Sends an item to wherever its flow goes.
    fn send(&mut self, item: Item, now: Instant) {
        let admitted: Vec<ServerId> = self.admitted().collect();
        let mut to = Vec::new();
        if self.window.is_some() {
            let how = (self.rules.fan_out, &mut self.rng);
            self.flows.route(item.flow, &admitted, how, now, &mut to);
        } else {
            to = admitted;
        }
        let how = (self.rules, self.calls.is_degraded(now));
        let mut is_first = true;
        for exit in self
            .exits
            .iter_mut()
            .filter(|exit| to.contains(&exit.server))
        {
            if exit.peer.push(Body::Item(item), is_first, how, now) {
                is_first = false;
            }
        }
        self.books.dropped += u64::from(is_first);
    }

    /// Keeps an item until there is an exit.
    fn hold(&mut self, item: Item, now: Instant) {
        let len = u64::from(item.len_bytes);
        if self.held_bytes + len > QUEUE_BYTES_MAX {
            self.books.dropped += 1;
            return;
        }
        self.held_bytes += len;
        self.held.push_back((now, item));
    }

    fn take_held(&mut self) -> Option<Item> {
        let (_, item) = self.held.pop_front()?;
        self.held_bytes -= u64::from(item.len_bytes);
        Some(item)
    }

    fn held_until(&self) -> Option<Instant> {
        Some(self.held.front()?.0 + self.rules.race_ack_timeout)
    }

    fn on_arrived(&mut self, server: ServerId, arrived: Arrived, now: Instant) {
        let admitted = self.admitted().count();
        let age = now.saturating_duration_since(self.since);
        let Some(index) = self.index_of(server) else {
            return;
        };
        let mut failed = false;
        if !arrived.acked.is_empty() || arrived.parked.is_some() {
            failed |= self.exits[index].health.note(Sign::Acked, age);
        }
        if !arrived.items.is_empty() {
            failed |= self.exits[index].health.note(Sign::Delivered, age);
        }
        for pack in &arrived.acked {
            self.books.acked += u64::from(is_counted(pack));
        }
        let acked = arrived.acked.iter().map(|pack| pack.body);
        for body in acked.chain(arrived.parked) {
            match body {
                Body::Item(item) => self.flows.on_response(item.flow, server, admitted, now),
                Body::Ping => self.admit(index, now),
            }
        }
        for item in arrived.items {
            self.flows.on_response(item.flow, server, admitted, now);
            self.out.push_back(ClientOutput::Deliver(item));
        }
        if failed && self.window.is_some() && self.exits[index].is_admitted() {
            self.failed.push(server);
        }
    }

    fn admit(&mut self, index: usize, now: Instant) {
        if self.exits[index].is_admitted() {
            return;
        }
        self.exits[index].standing = Standing::Admitted;
        let evaluated = self.exits.len() - self.admitted().count();
        if let Some(window) = &mut self.window {
            window.on_evaluated(true, evaluated, now);
        }
        while let Some(item) = self.take_held() {
            self.send(item, now);
        }
    }

    /// Ends all that is of an exit.
    fn remove(&mut self, server: ServerId) {
        let Some(index) = self.index_of(server) else {
            return;
        };
        let mut exit = self.exits.remove(index);
        if exit.link.is_open() {
            self.out.push_back(ClientOutput::Close { server });
        }
        exit.peer.send.end(|pack| self.books.drop_pack(&pack));
        self.flows.forget(server);
    }

    /// Removes what failed, and asks for what is waited for.
    fn settle(&mut self, now: Instant) {
        let mut failed = std::mem::take(&mut self.failed);
        failed.sort_unstable();
        failed.dedup();
        if !failed.is_empty() {
            failed.iter().for_each(|server| self.flows.forget(*server));
            let admitted = self.admitted().count();
            let gone = self
                .window
                .as_mut()
                .map(|window| window.on_failed(&failed, admitted, now));
            gone.iter()
                .flatten()
                .for_each(|server| self.remove(*server));
        }
        self.await_pass(now);
        self.ask_contracts(now);
    }

    fn await_pass(&mut self, now: Instant) {
        let exits = self.exits.len();
        let spare = self.catalog.len() - exits;
        if let Some(window) = &mut self.window {
            window.await_pass(exits, spare, now);
        }
    }

    fn ask_contracts(&mut self, now: Instant) {
        let degraded = self.calls.is_degraded(now);
        let rules = self.rules;
        for exit in &mut self.exits {
            let send = &mut exit.peer.send;
            if send.grant.poll_ask(&rules.contract, degraded, now) {
                let purpose = Purpose::Contract {
                    server: exit.server,
                    sequence: send.sequence(),
                };
                ask(&mut self.calls, purpose, &mut self.out, now);
            }
        }
    }

    fn pass_if_due(&mut self, now: Instant) {
        let (exits, degraded) = (self.exits.len(), self.calls.is_degraded(now));
        let spare = self.catalog.len() - exits;
        let Some(window) = &mut self.window else {
            return;
        };
        if window.poll_pass(exits, spare, degraded, now)
            && !ask(&mut self.calls, Purpose::Catalog, &mut self.out, now)
        {
            self.evaluate(now);
        }
    }

    /// Takes exits under evaluation.
    fn evaluate(&mut self, now: Instant) {
        let Some(window) = &self.window else {
            return;
        };
        let room = window.room(self.exits.len());
        let mut spare: Vec<ServerId> = self
            .catalog
            .iter()
            .copied()
            .filter(|server| self.exits.iter().all(|exit| exit.server != *server))
            .collect();
        spare.shuffle(&mut self.rng);
        for server in spare.into_iter().take(room) {
            let exit = Exit::evaluated(server, self.rules, self.calls.has_backends(), now);
            self.exits.push(exit);
        }
        self.drive_links(now);
    }

    fn drive_links(&mut self, now: Instant) {
        let (rule, rng) = (&self.rules.reconnect, &mut self.rng);
        for exit in &mut self.exits {
            let server = exit.server;
            match exit
                .link
                .handle_timeout(rule, rng, &mut self.next_attempt, now)
            {
                Some(LinkOutput::Dial(attempt)) => {
                    self.out.push_back(ClientOutput::Dial { server, attempt });
                }
                Some(LinkOutput::Close) => self.out.push_back(ClientOutput::Close { server }),
                None => {}
            }
        }
    }

    fn drive_sequences(&mut self, now: Instant) {
        let degraded = self.calls.is_degraded(now);
        for exit in &mut self.exits {
            let books = &mut self.books;
            let lost = |pack: Pack| books.drop_pack(&pack);
            let ended = exit.peer.handle_timeout(self.rules, degraded, now, lost);
            if ended && exit.is_admitted() && self.window.is_some() {
                self.failed.push(exit.server);
            }
        }
    }

    fn end_evaluations(&mut self, now: Instant) {
        let over: Vec<ServerId> = self
            .exits
            .iter()
            .filter(|exit| matches!(exit.standing, Standing::Evaluated { until } if until <= now))
            .map(|exit| exit.server)
            .collect();
        for server in over {
            self.remove(server);
            let evaluated = self.exits.len() - self.admitted().count();
            if let Some(window) = &mut self.window {
                window.on_evaluated(false, evaluated, now);
            }
        }
    }
}

/// Asks the backend; whether there is one.
fn ask(
    calls: &mut Calls,
    purpose: Purpose,
    out: &mut VecDeque<ClientOutput<Unit>>,
    now: Instant,
) -> bool {
    let Some((backend, call)) = calls.ask(purpose, now) else {
        return false;
    };
    out.push_back(ClientOutput::Ask {
        backend,
        work: purpose.work(),
        call,
    });
    true
}
