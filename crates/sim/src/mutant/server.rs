//! A provider of quell's with a vice in what it hands to the world.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use quell_core::path::CarrierFacts;
use quell_core::provider::doorman;

use super::Vice;
use crate::fleet::node::{ClientId, Ended, Item, ServerNode, ServerOutput};
use crate::policy::quell::QuellServer;

/// Of so many items one meets the vice.
const ONE_OF: u32 = 7;

#[derive(Debug)]
pub(super) struct BrokenServer {
    node: QuellServer,
    vice: Vice,
    /// What comes out once more, and of which session.
    again: Option<(u64, Item)>,
}

impl BrokenServer {
    pub(super) fn new(node: QuellServer, vice: Vice) -> Self {
        Self {
            node,
            vice,
            again: None,
        }
    }
}

impl ServerNode<Bytes> for BrokenServer {
    fn on_initial(&mut self, source: SocketAddr, is_proven: bool, now: Instant) -> doorman::Answer {
        self.node.on_initial(source, is_proven, now)
    }

    fn on_handshake_ended(&mut self, how: doorman::Ended) {
        self.node.on_handshake_ended(how);
    }

    fn on_connection(&mut self, client: ClientId, now: Instant) -> Result<u64, Ended> {
        self.node.on_connection(client, now)
    }

    fn on_closed(&mut self, session: u64, ended: Ended, now: Instant) {
        self.node.on_closed(session, ended, now);
    }

    fn on_carrier(&mut self, session: u64, facts: CarrierFacts, now: Instant) {
        self.node.on_carrier(session, facts, now);
    }

    fn handle_datagram(&mut self, session: u64, unit: &Bytes, now: Instant) {
        self.node.handle_datagram(session, unit, now);
    }

    fn handle_control(&mut self, session: u64, unit: &Bytes, now: Instant) {
        self.node.handle_control(session, unit, now);
    }

    fn answer(&mut self, session: u64, item: Item, now: Instant) {
        self.node.answer(session, item, now);
    }

    fn is_hushed(&self, session: u64, now: Instant) -> bool {
        self.node.is_hushed(session, now)
    }

    fn poll_output(&mut self, session: u64, now: Instant) -> Option<ServerOutput<Bytes>> {
        if let Some((_, item)) = self.again.take_if(|(of, _)| *of == session) {
            return Some(ServerOutput::Deliver(item));
        }
        loop {
            let output = self.node.poll_output(session, now)?;
            let ServerOutput::Deliver(item) = &output else {
                return Some(output);
            };
            let is_one = item.number % ONE_OF == ONE_OF - 1;
            match self.vice {
                Vice::Swallows if is_one => continue,
                Vice::Twice if is_one => self.again = Some((session, *item)),
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
            return Some(output);
        }
    }

    fn poll_ready(&mut self) -> Option<u64> {
        self.node.poll_ready()
    }

    fn poll_timeout(&self, session: u64) -> Option<Instant> {
        self.node.poll_timeout(session)
    }

    fn handle_timeout(&mut self, session: u64, now: Instant) {
        self.node.handle_timeout(session, now);
    }

    fn drain(&mut self, now: Instant) {
        self.node.drain(now);
    }

    fn drained_at(&self) -> Option<Instant> {
        self.node.drained_at()
    }

    fn poll_idle(&self) -> Option<Instant> {
        self.node.poll_idle()
    }

    fn handle_idle(&mut self, now: Instant) {
        self.node.handle_idle(now);
    }
}
