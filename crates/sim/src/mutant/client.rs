//! A client of quell's with a vice: what it is told is true, what comes out of it is not.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::path::CarrierFacts;

use super::Vice;
use crate::fleet::node::{Answer, ClientFacts, ClientNode, ClientOutput, Ended, Item, ServerId};
use crate::policy::quell::QuellClient;

/// Copies of a datagram, beside itself: more than the default cap.
const REPEATS: usize = 19;
/// Whoever is in step dials at whole such times.
const STEP: Duration = Duration::from_secs(2);
/// What is held more with each look.
const HOARD: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct BrokenClient {
    node: QuellClient,
    vice: Vice,
    origin: Instant,
    more: VecDeque<ClientOutput<Bytes>>,
    /// Dials that wait for the step.
    waiting: VecDeque<ClientOutput<Bytes>>,
    step_at: Option<Instant>,
    stood: bool,
    looks: Cell<u64>,
}

impl BrokenClient {
    pub(super) fn new(node: QuellClient, vice: Vice, now: Instant) -> Self {
        Self {
            node,
            vice,
            origin: now,
            more: VecDeque::new(),
            waiting: VecDeque::new(),
            step_at: None,
            stood: false,
            looks: Cell::new(0),
        }
    }

    fn next_step(&self, now: Instant) -> Instant {
        let since = now.saturating_duration_since(self.origin);
        let steps = u32::try_from(since.as_millis() / STEP.as_millis()).unwrap_or(0);
        self.origin + STEP * (steps + 1)
    }

    /// What becomes of an output; `None`: it is kept back.
    fn spoil(&mut self, output: ClientOutput<Bytes>, now: Instant) -> Option<ClientOutput<Bytes>> {
        let is_dial = matches!(output, ClientOutput::Dial { .. });
        let is_resendable =
            matches!(&output, ClientOutput::Datagram { causes, .. } if causes.first_send > 0);
        match self.vice {
            Vice::Repeats if is_resendable => {
                self.more
                    .extend(std::iter::repeat_n(output.clone(), REPEATS));
            }
            Vice::DialsTwice if is_dial => self.more.push_back(output.clone()),
            Vice::GivesUp if is_dial && self.stood => return None,
            Vice::InStep if is_dial && self.stood => {
                self.step_at.get_or_insert(self.next_step(now));
                self.waiting.push_back(output);
                return None;
            }
            Vice::None
            | Vice::Twice
            | Vice::Swallows
            | Vice::Repeats
            | Vice::Hoards
            | Vice::Loses
            | Vice::DialsTwice
            | Vice::InStep
            | Vice::GivesUp => {}
        }
        Some(output)
    }
}

impl ClientNode<Bytes> for BrokenClient {
    fn offer(&mut self, item: Item, now: Instant) {
        self.node.offer(item, now);
    }

    fn on_far_has(&mut self, item: &Item) {
        self.node.on_far_has(item);
    }

    fn on_connected(&mut self, server: ServerId, attempt: u64, now: Instant) {
        self.stood = true;
        self.node.on_connected(server, attempt, now);
    }

    fn on_closed(&mut self, server: ServerId, attempt: u64, ended: Ended, now: Instant) {
        self.node.on_closed(server, attempt, ended, now);
    }

    fn on_carrier(&mut self, server: ServerId, attempt: u64, facts: CarrierFacts, now: Instant) {
        self.node.on_carrier(server, attempt, facts, now);
    }

    fn on_wire(&mut self, bytes_out: u64, now: Instant) {
        self.node.on_wire(bytes_out, now);
    }

    fn on_wake(&mut self, now: Instant) {
        self.node.on_wake(now);
    }

    fn handle_datagram(&mut self, server: ServerId, attempt: u64, unit: &Bytes, now: Instant) {
        self.node.handle_datagram(server, attempt, unit, now);
    }

    fn handle_control(&mut self, server: ServerId, attempt: u64, unit: &Bytes, now: Instant) {
        self.node.handle_control(server, attempt, unit, now);
    }

    fn on_answer(&mut self, call: u64, answer: Answer, now: Instant) {
        self.node.on_answer(call, answer, now);
    }

    fn poll_output(&mut self, now: Instant) -> Option<ClientOutput<Bytes>> {
        if let Some(output) = self.more.pop_front() {
            return Some(output);
        }
        if self.step_at.is_some_and(|at| at <= now) {
            self.step_at = None;
            self.more.append(&mut self.waiting);
            if let Some(output) = self.more.pop_front() {
                return Some(output);
            }
        }
        while let Some(output) = self.node.poll_output(now) {
            if let Some(output) = self.spoil(output, now) {
                return Some(output);
            }
        }
        None
    }

    fn is_hushed(&self, server: ServerId, now: Instant) -> bool {
        self.node.is_hushed(server, now)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let node = self.node.poll_timeout();
        node.into_iter().chain(self.step_at).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.node.poll_timeout().is_some_and(|at| at <= now) {
            self.node.handle_timeout(now);
        }
    }

    fn facts(&self, now: Instant) -> ClientFacts {
        let facts = self.node.facts(now);
        self.looks.set(self.looks.get() + 1);
        match self.vice {
            Vice::Hoards => ClientFacts {
                held_bytes: facts.held_bytes + HOARD * self.looks.get(),
                ..facts
            },
            Vice::Loses => ClientFacts {
                unaccounted: facts.unaccounted + 1,
                ..facts
            },
            Vice::None
            | Vice::Twice
            | Vice::Swallows
            | Vice::Repeats
            | Vice::DialsTwice
            | Vice::InStep
            | Vice::GivesUp => facts,
        }
    }
}
