//! What a driver carries out: all outputs of the ends that something happened to.
//!
//! The order is that of the real driver: facts first, then outputs until there are none. An end that nothing happened to is
//! not looked at, so that a wake-up that is missing shows. A datagram that the carrier refuses as too large fails the run: the core was told the limit in
//! the same breath (case B48).

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use quell_core::multi::{self, ExitId, Loss};
use quell_core::path::Violation;
use quell_core::provider::{self, SessionId};
use quell_wire::registry::ErrorCode;

use super::carrier::{Direction, Item};
use super::parcel::Cargo;
use super::{Connection, End, Event, Reach, World};

/// What QUIC adds to a datagram: header, seal, and a share of its own acknowledgements.
pub(super) const QUIC_OVERHEAD_BYTES: u64 = 38;
/// A handshake that is answered: three datagrams. One that is not is repeated.
const DIAL_BYTES: u64 = 3_600;

/// The only exit of a client here.
pub(super) const EXIT: ExitId = ExitId(0);

/// Most outputs of one end in one go.
const OUTPUTS_MAX: u32 = 200_000;

impl World {
    /// Drains all ends that were touched, and those that this touches.
    pub(super) fn drain(&mut self) {
        let mut rounds = 0;
        loop {
            let clients = std::mem::take(&mut self.touched);
            let mut sessions = std::mem::take(&mut self.touched_sessions);
            self.add_ready(&mut sessions);
            if clients.is_empty() && sessions.is_empty() {
                return;
            }
            rounds += 1;
            if rounds > OUTPUTS_MAX {
                self.fail("the ends keep each other busy");
            }
            for end in clients {
                if let End::Client(client) = end {
                    self.drain_client(client);
                }
            }
            for number in sessions {
                self.drain_session(number);
            }
        }
    }

    /// Sessions that another one's input gave something to do; those without a connection are drained here.
    fn add_ready(&mut self, sessions: &mut BTreeSet<u64>) {
        while let Some(id) = self.provider.poll_ready() {
            let of_id = |connection: &Connection| {
                connection.session == Some(id) && connection.at_provider && !connection.forgotten
            };
            let connection = self.connections.iter().find(|(_, c)| of_id(c));
            match connection.map(|(number, _)| *number) {
                Some(number) => {
                    sessions.insert(number);
                }
                None => self.drain_suspended(id),
            }
        }
    }

    fn drain_suspended(&mut self, id: SessionId) {
        while let Some(output) = self.provider.poll_output(id, self.now) {
            match output {
                provider::Output::Deliver(packet) => {
                    self.provider_seen.delivered += 1;
                    self.record(Event::Deliver(End::Provider, packet));
                }
                provider::Output::MessagesEnded(end) => {
                    self.record(Event::MessagesEnded(End::Provider, end));
                }
                provider::Output::Close(violation) => {
                    self.provider.on_closed(id, Some(violation.code), self.now);
                    self.record(Event::Close(End::Provider, violation));
                }
                provider::Output::Control(_) | provider::Output::Datagram(_) => {
                    self.fail("a session without a connection sends");
                }
            }
        }
    }

    fn drain_client(&mut self, client: usize) {
        for _ in 0..OUTPUTS_MAX {
            self.tell_client(client);
            let before = self.clients[client].seen.handed.datagrams;
            self.drain_outputs(client);
            // What left at once is looked at before anything else happens.
            if self.clients[client].seen.handed.datagrams == before {
                return;
            }
        }
        self.fail("a client sends without end");
    }

    fn tell_client(&mut self, client: usize) {
        let now = self.now;
        let node = &mut self.clients[client];
        let bytes_out = node.wire_bytes();
        node.core.on_wire(bytes_out, now);
        let connection = node.connection.and_then(|n| self.connections.get(&n));
        if let Some(connection) = connection {
            let facts = connection.to_provider.facts();
            node.core.on_carrier(EXIT, connection.attempt, facts, now);
        }
    }

    fn drain_outputs(&mut self, client: usize) {
        let now = self.now;
        for _ in 0..OUTPUTS_MAX {
            let Some(output) = self.clients[client].core.poll_output(now) else {
                return;
            };
            self.perform_client(client, output);
        }
        self.fail("a client has outputs without end");
    }

    fn perform_client(&mut self, client: usize, output: multi::Output) {
        let now = self.now;
        match output {
            multi::Output::Dial { attempt, .. } => {
                self.clients[client].dial_bytes += match self.reach {
                    Reach::Up | Reach::Refusing => DIAL_BYTES,
                    Reach::Silent => 3 * DIAL_BYTES,
                };
                self.dial(client, attempt);
            }
            multi::Output::Control { bytes, .. } => match self.sending_direction(client) {
                Some(direction) => direction.send(Item::Control(bytes), now),
                None => self.fail("control bytes without a connection"),
            },
            multi::Output::Datagram {
                bytes: datagram, ..
            } => {
                self.clients[client].seen.handed += Cargo::of(&datagram);
                let taken = self
                    .sending_direction(client)
                    .map(|to| to.hand_over(datagram, now));
                self.expect_taken(taken);
            }
            multi::Output::Deliver(packet) => {
                self.clients[client].seen.delivered += 1;
                self.record(Event::Deliver(End::Client(client), packet));
            }
            multi::Output::MessagesEnded { end, .. } => {
                self.record(Event::MessagesEnded(End::Client(client), end));
            }
            multi::Output::Configure(addresses) => self.record(Event::Configure(client, addresses)),
            multi::Output::Mtu(mtu) => self.record(Event::Mtu(client, mtu)),
            multi::Output::Notice { notice, .. } => self.record(Event::Notice(client, notice)),
            multi::Output::Close { violation, .. } => {
                self.expect_no_breach(&violation);
                let number = self.clients[client].connection;
                if let Some(direction) = self.sending_direction(client) {
                    direction.close(Loss::said(&violation), now);
                }
                if let Some(number) = number {
                    self.leave_client(number);
                }
                self.record(Event::Close(End::Client(client), violation));
            }
        }
    }

    fn expect_taken(&self, taken: Option<Result<(), Bytes>>) {
        match taken {
            Some(Ok(())) => {}
            Some(Err(datagram)) => self.fail(&format!(
                "a datagram of {} bytes is too large",
                datagram.len()
            )),
            None => self.fail("a datagram without a connection"),
        }
    }

    /// Nobody lied, so nobody may accuse the other, nor himself.
    fn expect_no_breach(&self, violation: &Violation) {
        let breach =
            (0x10..0x20).contains(&violation.code.code()) || violation.code == ErrorCode::Internal;
        if breach && !self.lied_to {
            self.fail(&format!("an end speaks of a breach: {violation:?}"));
        }
    }

    fn sending_direction(&mut self, client: usize) -> Option<&mut Direction> {
        let number = self.clients[client].connection?;
        Some(&mut self.connections.get_mut(&number)?.to_provider)
    }

    fn dial(&mut self, client: usize, attempt: u64) {
        let now = self.now;
        if self.clients[client].connection.is_some() {
            self.fail("a dial while the connection of an earlier one stands");
        }
        let number = self.next_connection;
        self.next_connection += 1;
        let seed = self.config.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut connection = Connection {
            client,
            attempt,
            session: None,
            at_client: true,
            at_provider: true,
            forgotten: false,
            to_provider: Direction::new(self.config.to_provider, seed, now),
            to_client: Direction::new(self.config.to_client, !seed, now),
            heard_by_client: now,
            heard_by_provider: now,
        };
        let rtt = self.rtt();
        connection
            .to_provider
            .set_config(self.config.to_provider, rtt, now);
        connection
            .to_client
            .set_config(self.config.to_client, rtt, now);
        connection.to_provider.send(Item::Initial, now);
        self.connections.insert(number, connection);
        self.clients[client].connection = Some(number);
        self.record(Event::Dial { client, attempt });
    }

    pub(super) fn rtt(&self) -> Duration {
        self.config.to_provider.link.delay + self.config.to_client.link.delay
    }

    fn drain_session(&mut self, number: u64) {
        for _ in 0..OUTPUTS_MAX {
            let before = self.provider_seen.handed.datagrams;
            self.drain_session_outputs(number);
            if self.provider_seen.handed.datagrams == before {
                return;
            }
        }
        self.fail("a session sends without end");
    }

    fn drain_session_outputs(&mut self, number: u64) {
        let now = self.now;
        for turn in 0..OUTPUTS_MAX {
            let Some(connection) = self
                .connections
                .get_mut(&number)
                .filter(|c| c.at_provider && !c.forgotten)
            else {
                return;
            };
            let Some(id) = connection.session else {
                return;
            };
            if turn == 0 {
                self.provider
                    .on_carrier(id, connection.to_client.facts(), now);
            }
            let Some(output) = self.provider.poll_output(id, now) else {
                return;
            };
            match output {
                provider::Output::Control(bytes) => {
                    connection.to_client.send(Item::Control(bytes), now)
                }
                provider::Output::Datagram(datagram) => {
                    self.provider_seen.handed += Cargo::of(&datagram);
                    let taken = connection.to_client.hand_over(datagram, now);
                    self.expect_taken(Some(taken));
                }
                provider::Output::Deliver(packet) => {
                    self.provider_seen.delivered += 1;
                    self.record(Event::Deliver(End::Provider, packet));
                }
                provider::Output::MessagesEnded(end) => {
                    self.record(Event::MessagesEnded(End::Provider, end));
                }
                provider::Output::Close(violation) => {
                    connection.to_client.close(Loss::said(&violation), now);
                    self.expect_no_breach(&violation);
                    self.leave_provider(number, Some(violation.code));
                    self.record(Event::Close(End::Provider, violation));
                    return;
                }
            }
        }
        self.fail("a session has outputs without end");
    }

    pub(super) fn record(&mut self, event: Event) {
        self.events.push((self.elapsed(), event));
    }
}
