//! What a test does to a world: packets, lies, weather, accidents.
//!
//! Each call is one input at the present moment; everything that it causes at once has happened when it returns.

use std::time::Duration;

use bytes::Bytes;
use quell_core::config::EgressRulesConfig;
use quell_core::provider::SessionId;
use quell_core::provider::rules::{Asked, Explanation, HostAddresses};
use quell_core::send::Backpressure;
use quell_wire::registry::ErrorCode;

use super::books::Seen;
use super::parcel::Cargo;
use super::perform::EXIT;
use super::{CarrierConfig, Connection, End, Reach, Way, World, new_provider};

impl World {
    /// A packet from the device of `end`.
    pub fn inject(&mut self, end: End, packet: impl Into<Bytes>) {
        match end {
            End::Client(client) => {
                let node = &mut self.clients[client];
                node.seen.packets += 1;
                node.core.handle_packet(packet.into(), self.now);
                self.touched.insert(end);
            }
            End::Provider => {
                self.provider_seen.packets += 1;
                self.provider.handle_packet(packet.into(), self.now);
            }
        }
        self.settle();
    }

    /// The provider's host has these addresses.
    pub fn set_host(&mut self, host: HostAddresses) {
        self.provider.on_host_addresses(host);
        self.settle();
    }

    /// The provider's operator changes the rules of its way out.
    pub fn set_egress_rules(&mut self, rules: EgressRulesConfig) {
        if let Err(error) = self.provider.on_egress_rules(rules) {
            self.fail(&error.to_string());
        }
        self.settle();
    }

    /// What the provider says of a destination.
    pub fn explain(&self, asked: &Asked) -> Explanation {
        self.provider.explain(asked)
    }

    /// A lie: `datagram` comes out of the client's connection at `at`, as though its peer had sent it. Whether there was an
    /// end to take it.
    pub fn inject_datagram(&mut self, client: usize, at: End, datagram: impl Into<Bytes>) -> bool {
        self.lied_to = true;
        let datagram = datagram.into();
        let now = self.now;
        let Some((number, attempt, session)) = self.current(client) else {
            return false;
        };
        match (at, session) {
            (End::Client(_), _) => {
                let node = &mut self.clients[client];
                node.seen.came += Cargo::of(&datagram);
                node.core.handle_datagram(EXIT, attempt, &datagram, now);
                self.touched.insert(End::Client(client));
            }
            (End::Provider, Some(id)) => {
                self.provider_seen.came += Cargo::of(&datagram);
                self.provider.handle_datagram(id, &datagram, now);
                self.touched_sessions.insert(number);
            }
            (End::Provider, None) => return false,
        }
        self.settle();
        true
    }

    /// A lie on the control stream, likewise.
    pub fn inject_control(&mut self, client: usize, at: End, bytes: &[u8]) -> bool {
        self.lied_to = true;
        let now = self.now;
        let Some((number, attempt, session)) = self.current(client) else {
            return false;
        };
        match (at, session) {
            (End::Client(_), _) => {
                self.clients[client]
                    .core
                    .handle_control(EXIT, attempt, bytes, now);
                self.touched.insert(End::Client(client));
            }
            (End::Provider, Some(id)) => {
                self.provider.handle_control(id, bytes, now);
                self.touched_sessions.insert(number);
            }
            (End::Provider, None) => return false,
        }
        self.settle();
        true
    }

    /// A message of the client, or of the provider to it.
    ///
    /// # Errors
    /// The bound that is in the way; `Ended` also without a session.
    pub fn send_message(
        &mut self,
        client: usize,
        from: End,
        message: &[u8],
    ) -> Result<(), Backpressure> {
        let now = self.now;
        let taken = match from {
            End::Client(client) => {
                self.touched.insert(from);
                self.clients[client].core.send_message(message, now)
            }
            End::Provider => {
                let Some((number, _, Some(id))) = self.current(client) else {
                    return Err(Backpressure::Ended);
                };
                self.touched_sessions.insert(number);
                self.provider.send_message(id, message, now)
            }
        };
        self.settle();
        taken
    }

    /// The messages that wait at the client, or at the provider from it.
    pub fn take_messages(&mut self, client: usize, at: End) -> Vec<Bytes> {
        let mut messages = Vec::new();
        match (at, self.current(client)) {
            (End::Client(client), _) => {
                self.touched.insert(at);
                let core = &mut self.clients[client].core;
                messages.extend(std::iter::from_fn(|| Some(core.poll_message()?.1)));
            }
            (End::Provider, Some((number, _, Some(id)))) => {
                self.touched_sessions.insert(number);
                let provider = &mut self.provider;
                messages.extend(std::iter::from_fn(|| provider.poll_message(id)));
            }
            (End::Provider, _) => {}
        }
        self.settle();
        messages
    }

    /// The client's connection, its dial, and its session where the provider still has it.
    fn current(&self, client: usize) -> Option<(u64, u64, Option<SessionId>)> {
        let number = self.clients[client].connection?;
        let connection = self.connections.get(&number)?;
        Some((number, connection.attempt, connection.live_session()))
    }

    /// A spurious wake-up of every end: nothing that is not due may come of it.
    pub fn nudge(&mut self) {
        let now = self.now;
        for (number, node) in self.clients.iter_mut().enumerate() {
            node.core.handle_timeout(now);
            self.touched.insert(End::Client(number));
        }
        for (number, connection) in &self.connections {
            if let Some(id) = connection.live_session() {
                self.provider.handle_timeout(id, now);
                self.touched_sessions.insert(*number);
            }
        }
        self.settle();
    }

    /// Changes the carrier of all connections, those to come included; the ends are told at once.
    pub fn set_carrier(&mut self, way: Way, change: impl Fn(&mut CarrierConfig)) {
        let (to_provider, to_client) = (way != Way::ToClient, way != Way::ToProvider);
        if to_provider {
            change(&mut self.config.to_provider);
        }
        if to_client {
            change(&mut self.config.to_client);
        }
        let (now, rtt) = (self.now, self.rtt());
        for (number, connection) in &mut self.connections {
            // An end that is gone stays cut off.
            if connection.at_provider {
                connection
                    .to_provider
                    .set_config(self.config.to_provider, rtt, now);
                self.touched_sessions.insert(*number);
            }
            if connection.at_client {
                connection
                    .to_client
                    .set_config(self.config.to_client, rtt, now);
                self.touched.insert(End::Client(connection.client));
            }
        }
        self.settle();
    }

    /// The largest datagram of both ways, in bytes.
    pub fn set_datagram_len_max(&mut self, len: usize) {
        self.set_carrier(Way::Both, |carrier| carrier.datagram_len_max = len);
    }

    /// Cuts a way silently, or heals it.
    pub fn set_blackhole(&mut self, way: Way, blackhole: bool) {
        self.set_carrier(way, |carrier| carrier.link.blackhole = blackhole);
    }

    /// The round trip of a path that is the same both ways.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.set_carrier(Way::Both, |carrier| carrier.link.delay = rtt / 2);
    }

    /// What dials meet from here on.
    pub fn set_reach(&mut self, reach: Reach) {
        self.reach = reach;
    }

    /// The provider says farewell to all and begins anew.
    pub fn restart_provider(&mut self) {
        self.provider.close_all(ErrorCode::ShuttingDown);
        self.settle();
        self.crash_provider();
    }

    /// The provider loses all it knew, without a word, and begins anew.
    pub fn crash_provider(&mut self) {
        for connection in self.connections.values_mut().filter(|c| c.at_provider) {
            connection.forgotten = true;
            connection.to_client.forget();
        }
        self.incarnation += 1;
        self.provider = new_provider(&self.config, self.incarnation);
        self.provider_seen = Seen::default();
        self.settle();
    }

    /// The client's connection breaks: its end is told, the other one is not.
    pub fn break_connection(&mut self, client: usize) {
        let Some((number, attempt, _)) = self.current(client) else {
            return;
        };
        self.leave_client(number);
        self.clients[client]
            .core
            .on_closed(EXIT, attempt, "the network is gone", self.now);
        self.touched.insert(End::Client(client));
        self.settle();
    }

    /// A fact that belongs to no current dial: a client must not act on it.
    pub fn tell_stale(&mut self, client: usize, attempt: u64, datagram: &Bytes) {
        let core = &mut self.clients[client].core;
        core.on_connected(EXIT, attempt, self.now);
        core.handle_control(EXIT, attempt, b"\x01\x02\x03", self.now);
        core.handle_datagram(EXIT, attempt, datagram, self.now);
        core.on_closed(EXIT, attempt, "late", self.now);
        self.touched.insert(End::Client(client));
        self.settle();
    }

    /// Connections that at least one end has.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections
            .values()
            .filter(|c: &&Connection| c.at_client || c.at_provider)
            .count()
    }
}
