//! What the world calls on a client: each input goes to the child that it concerns, then everything is settled.
//!
//! Three inputs are heard and mean nothing here. Bytes on the wire bound nothing. A machine that woke is not told apart from
//! one that was slow: timers that are overdue fire, sequences that are too old end. The answer to a session's first words
//! is not waited for.

use std::time::Instant;

use quell_core::path::CarrierFacts;

use super::{Client, is_counted};
use crate::fleet::node::{Answer, ClientFacts, ClientNode, ClientOutput, Ended, Item, ServerId};
use crate::policy::baseline::backend::Purpose;
use crate::policy::baseline::unit::{Body, HELLO_BYTES, Unit};
use crate::policy::baseline::window::Window;

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
            waiting_items: self.held.len() as u64,
            held_bytes: bytes + self.held_bytes,
            dropped: self.books.dropped,
            sent_again: 0,
            degraded: self.rules.contract.gated && self.calls.is_degraded(now),
            unaccounted: self.books.accepted.cast_signed() - accounted.cast_signed(),
        }
    }
}
