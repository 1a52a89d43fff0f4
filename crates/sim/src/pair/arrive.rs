//! What a driver hands in: flights of the handshake, control bytes, datagrams, ends of connections.
//!
//! ```text
//! client  dial ──Initial──▶ ──Answer──▶ on_connected ──Finished, HELLO──▶ on_connection, handle_control  provider
//! ```
//!
//! An end leaves a connection when it closes it, when it hears that the other one did, or when it hears nothing for the
//! idle timeout. What reaches an end that is gone is lost; what reaches a provider that forgot the connection is answered
//! with a reset.

use std::time::{Duration, Instant};

use quell_core::multi::Loss;
use quell_core::provider::SessionId;
use quell_wire::registry::ErrorCode;

use super::carrier::{Arrival, Item};
use super::parcel::Cargo;
use super::perform::EXIT;
use super::{Connection, End, Event, Reach, World};

impl Connection {
    /// The session, while the provider has it.
    pub(super) fn live_session(&self) -> Option<SessionId> {
        self.session.filter(|_| self.at_provider && !self.forgotten)
    }

    /// The next thing that its carrier does by itself.
    pub(super) fn poll_timeout(&self, idle_timeout: Duration) -> Option<Instant> {
        let idle_client =
            (self.at_client && self.session.is_some()).then(|| self.heard_by_client + idle_timeout);
        let idle_provider = (self.at_provider && self.session.is_some())
            .then(|| self.heard_by_provider + idle_timeout);
        [
            self.to_provider.poll_timeout(),
            self.to_client.poll_timeout(),
            idle_client,
            idle_provider,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl World {
    /// Everything that arrives at this moment, and idle timeouts. What one arrival causes is done before the next: a session
    /// that a farewell ends has handed over what came just before it.
    pub(super) fn arrive(&mut self) {
        let numbers: Vec<_> = self.connections.keys().copied().collect();
        for number in numbers {
            while let Some(arrival) = self.poll_direction(number, true) {
                self.arrive_at_provider(number, arrival);
                self.drain();
            }
            while let Some(arrival) = self.poll_direction(number, false) {
                self.arrive_at_client(number, arrival);
                self.drain();
            }
            self.expire(number);
        }
    }

    /// The next arrival. A sender that waited for room is looked at when its backlog has shrunk.
    fn poll_direction(&mut self, number: u64, to_provider: bool) -> Option<Arrival> {
        let now = self.now;
        let connection = self.connections.get_mut(&number)?;
        let direction = if to_provider {
            &mut connection.to_provider
        } else {
            &mut connection.to_client
        };
        let before = direction.facts().backlog_bytes;
        let arrival = direction.poll(now);
        if direction.facts().backlog_bytes < before {
            let client = connection.client;
            let session = connection.live_session();
            if to_provider && self.clients[client].core.awaits_departure(EXIT) {
                self.touched.insert(End::Client(client));
            }
            if !to_provider && session.is_some_and(|id| self.provider.awaits_departure(id)) {
                self.touched_sessions.insert(number);
            }
        }
        arrival
    }

    fn arrive_at_provider(&mut self, number: u64, arrival: Arrival) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&number).filter(|c| c.at_provider) else {
            return;
        };
        connection.heard_by_provider = now;
        if connection.forgotten {
            return self.reset(number);
        }
        self.touched_sessions.insert(number);
        match (arrival, connection.session) {
            (Arrival::Item(Item::Initial), _) => self.answer(number),
            (Arrival::Item(Item::Finished), _) => self.accept(number),
            (Arrival::Item(Item::Control(bytes)), Some(id)) => {
                self.provider.handle_control(id, &bytes, now)
            }
            (Arrival::Datagram(datagram), Some(id)) => {
                self.provider_seen.came += Cargo::of(&datagram);
                self.provider.handle_datagram(id, &datagram, now);
            }
            (Arrival::Closed(loss), _) => self.leave_provider(number, loss.code),
            (Arrival::Item(Item::Answer), _)
            | (Arrival::Item(Item::Control(_)) | Arrival::Datagram(_), None) => {
                self.fail("something arrived that cannot have been sent");
            }
        }
    }

    /// The first flight of a dial.
    fn answer(&mut self, number: u64) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        match self.reach {
            Reach::Up => connection.to_client.send(Item::Answer, now),
            Reach::Refusing => {
                connection.to_client.close("connection refused".into(), now);
                connection.at_provider = false;
            }
            Reach::Silent => connection.at_provider = false,
        }
    }

    fn accept(&mut self, number: u64) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let client = connection.client;
        match self.provider.on_connection(self.clients[client].key, now) {
            Ok(id) => connection.session = Some(id),
            Err(refusal) => {
                connection.to_client.close(Loss::said(&refusal), now);
                connection.to_provider.abandon();
                connection.at_provider = false;
                self.record(Event::Refuse(client, refusal));
            }
        }
    }

    fn arrive_at_client(&mut self, number: u64, arrival: Arrival) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&number).filter(|c| c.at_client) else {
            return;
        };
        let (client, attempt) = (connection.client, connection.attempt);
        connection.heard_by_client = now;
        let node = &mut self.clients[client];
        self.touched.insert(End::Client(client));
        match arrival {
            Arrival::Item(Item::Answer) => {
                connection.to_provider.send(Item::Finished, now);
                node.core.on_connected(EXIT, attempt, now);
            }
            Arrival::Item(Item::Control(bytes)) => {
                node.core.handle_control(EXIT, attempt, &bytes, now)
            }
            Arrival::Datagram(datagram) => {
                node.seen.came += Cargo::of(&datagram);
                node.core.handle_datagram(EXIT, attempt, &datagram, now);
            }
            Arrival::Closed(loss) => {
                self.leave_client(number);
                self.clients[client]
                    .core
                    .on_closed(EXIT, attempt, loss, now);
            }
            Arrival::Item(Item::Initial | Item::Finished) => {
                self.fail("something arrived that cannot have been sent");
            }
        }
    }

    /// Ends that heard nothing for too long.
    fn expire(&mut self, number: u64) {
        let (now, idle_timeout) = (self.now, self.config.idle_timeout);
        let Some(connection) = self
            .connections
            .get(&number)
            .filter(|c| c.session.is_some())
        else {
            return;
        };
        let (client, attempt) = (connection.client, connection.attempt);
        let provider_idle =
            connection.at_provider && connection.heard_by_provider + idle_timeout <= now;
        if connection.at_client && connection.heard_by_client + idle_timeout <= now {
            self.leave_client(number);
            self.clients[client].core.on_closed(
                EXIT,
                attempt,
                Loss {
                    words: "timed out".to_owned(),
                    code: Some(ErrorCode::Idle),
                },
                now,
            );
            self.touched.insert(End::Client(client));
        }
        if provider_idle {
            self.leave_provider(number, Some(ErrorCode::Idle));
        }
    }

    /// The client's end is no more.
    pub(super) fn leave_client(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.at_client = false;
            connection.to_client.abandon();
            let node = &mut self.clients[connection.client];
            node.connection = node.connection.filter(|current| *current != number);
        }
    }

    /// The provider's end is no more.
    pub(super) fn leave_provider(&mut self, number: u64, code: Option<ErrorCode>) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.at_provider = false;
            connection.to_provider.abandon();
            if let Some(id) = connection.session.filter(|_| !connection.forgotten) {
                self.provider.on_closed(id, code, self.now);
            }
        }
    }

    /// A stateless reset (RFC 9000 §10.3): the provider does not know the connection.
    fn reset(&mut self, number: u64) {
        let now = self.now;
        if let Some(connection) = self.connections.get_mut(&number) {
            connection
                .to_client
                .close("reset by the provider".into(), now);
        }
        self.leave_provider(number, None);
    }
}
