//! The client's half: a window of exits, a race for each flow, and a sequence to each exit.
//!
//! What decides is in the children; this is who tells whom. Each input ends in [`Client::settle`], which removes exits that
//! failed and asks the backend for what sequences wait for.
//!
//! Books: of an item's copies the first one that a sequence took is the one counted. `accepted = acked + dropped + held +
//! in sequences`; the world's own count of what came out is not taken from here.

use std::collections::VecDeque;
use std::time::Instant;

use quell_core::path::CarrierFacts;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;

use super::backend::{Calls, Purpose};
use super::exit::{Exit, Standing};
use super::peer::Arrived;
use super::race::Flows;
use super::reconnect::LinkOutput;
use super::rules::Rules;
use super::send::{Pack, QUEUE_BYTES_MAX};
use super::unit::{Body, HELLO_BYTES, Unit};
use super::window::{Sign, Window};
use crate::fleet::node::{Answer, ClientFacts, ClientNode, ClientOutput, Ended, Item, ServerId};

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

impl ClientNode<Unit> for Client {
    fn offer(&mut self, item: Item, now: Instant) {
        self.books.accepted += 1;
        if self.admitted().next().is_some() {
            self.send(item, now);
        } else {
            self.hold(item, now);
        }
        self.settle(now);
    }

    fn on_connected(&mut self, server: ServerId, attempt: u64, now: Instant) {
        let how = (self.rules, self.calls.is_degraded(now));
        let Some(exit) = self.exits.iter_mut().find(|exit| exit.server == server) else {
            return;
        };
        if !exit.link.on_connected(attempt) {
            return;
        }
        exit.peer.on_up();
        self.out.push_back(ClientOutput::Control {
            server,
            unit: Unit::Hello,
            len_bytes: HELLO_BYTES,
        });
        if exit.is_pinged {
            exit.peer.flush(how.0, how.1, now);
        } else {
            exit.is_pinged = true;
            exit.peer.push(Body::Ping, true, how, now);
        }
        self.settle(now);
    }

    fn on_closed(&mut self, server: ServerId, attempt: u64, _ended: Ended, now: Instant) {
        let (rule, rng) = (&self.rules.reconnect, &mut self.rng);
        if let Some(exit) = self.exits.iter_mut().find(|exit| exit.server == server)
            && exit.link.on_closed(attempt, rule, rng, now)
        {
            exit.peer.on_down();
        }
    }

    fn on_carrier(&mut self, server: ServerId, attempt: u64, facts: CarrierFacts, now: Instant) {
        let how = (self.rules, self.calls.is_degraded(now));
        if let Some(exit) = self.exit_at(server, attempt) {
            exit.peer.on_carrier(&facts);
            exit.peer.flush(how.0, how.1, now);
        }
    }

    fn on_wire(&mut self, _bytes_out: u64, _now: Instant) {}

    fn on_wake(&mut self, _now: Instant) {}

    fn handle_datagram(&mut self, server: ServerId, attempt: u64, unit: &Unit, now: Instant) {
        let rules = self.rules;
        let Some(exit) = self.exit_at(server, attempt) else {
            return;
        };
        let arrived = exit.peer.handle(unit, rules, now);
        self.on_arrived(server, arrived, now);
        self.settle(now);
    }

    fn handle_control(&mut self, _server: ServerId, _attempt: u64, _unit: &Unit, _now: Instant) {}

    fn on_answer(&mut self, call: u64, answer: Answer, now: Instant) {
        let purpose = self.calls.on_answer(call, answer, now);
        let how = (self.rules, self.calls.is_degraded(now));
        match purpose.filter(|_| answer == Answer::Yes) {
            Some(Purpose::Catalog) => self.evaluate(now),
            Some(Purpose::Contract { server, sequence }) => {
                let mut exits = self.exits.iter_mut();
                if let Some(exit) = exits.find(|exit| exit.server == server)
                    && exit.peer.send.on_contract(sequence)
                {
                    exit.peer.flush(how.0, how.1, now);
                }
            }
            None => {}
        }
        self.settle(now);
    }

    fn poll_output(&mut self, _now: Instant) -> Option<ClientOutput<Unit>> {
        if let Some(output) = self.out.pop_front() {
            return Some(output);
        }
        let exit = self.exits.iter_mut().find(|exit| exit.peer.has_output())?;
        let parcel = exit.peer.poll_output()?;
        Some(ClientOutput::Datagram {
            server: exit.server,
            unit: parcel.unit,
            causes: parcel.causes,
        })
    }

    fn is_hushed(&self, _server: ServerId, _now: Instant) -> bool {
        false
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let window = self.window.as_ref().and_then(Window::poll_timeout);
        let own = [self.calls.poll_timeout(), window, self.held_until()];
        let exits = self.exits.iter().map(|exit| exit.poll_timeout(self.rules));
        own.into_iter().chain(exits).flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.calls.handle_timeout(now);
        self.end_evaluations(now);
        self.pass_if_due(now);
        self.drive_links(now);
        self.drive_sequences(now);
        while self.held_until().is_some_and(|at| at <= now) {
            self.take_held();
            self.books.dropped += 1;
        }
        self.settle(now);
    }

    fn facts(&self, now: Instant) -> ClientFacts {
        let packs = || self.exits.iter().flat_map(|exit| exit.peer.send.packs());
        let here = packs().filter(|pack| is_counted(pack)).count() + self.held.len();
        let here = u64::try_from(here).unwrap_or(u64::MAX);
        let accounted = self.books.acked + self.books.dropped + here;
        let sessions = self.exits.iter().filter(|exit| exit.link.is_up()).count();
        let bytes: u64 = self.exits.iter().map(|exit| exit.peer.send.bytes()).sum();
        ClientFacts {
            sessions: u16::try_from(sessions).unwrap_or(u16::MAX),
            unacked: u32::try_from(packs().count()).unwrap_or(u32::MAX),
            held_bytes: bytes + self.held_bytes,
            dropped: self.books.dropped,
            degraded: self.rules.contract.gated && self.calls.is_degraded(now),
            unaccounted: self.books.accepted.cast_signed() - accounted.cast_signed(),
        }
    }
}
