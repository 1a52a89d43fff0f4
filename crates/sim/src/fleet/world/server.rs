//! What meets a dial, what comes to a provider, and what it wants done.

use std::net::{Ipv4Addr, SocketAddr};

use quell_core::path::CarrierFacts;
use quell_core::provider::doorman;

use super::{Event, NEVER, ROUNDS_MAX, Wire, World};
use crate::check::Fact;
use crate::fleet::carriage::{Carriage as _, CarriageEvent, Carriages, Side, UdpDatagram as _};
use crate::fleet::connection::{ConnectionId, Far, changes_nothing};
use crate::fleet::node::{
    ClientId, ClientNode as _, Ended, Policy, ServerId, ServerNode as _, ServerOutput,
};
use crate::fleet::work;

/// What a host says to who speaks of a connection that it does not know (RFC 9000 §10.3), in bytes.
const RESET_LEN: u32 = 40;
/// A Retry, and what else is said to who is not let in.
const RETRY_LEN: u32 = 120;

impl<P: Policy, C: Carriages<P::Unit>> World<'_, P, C> {
    pub(super) fn arrive_at_server(&mut self, id: ConnectionId, udp: Wire<P, C>) {
        let now = self.now;
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (client, server, far) = (connection.client, connection.server, connection.far);
        let at = &self.servers[usize::from(server)];
        if at.cut_up > 0 || self.clients[client as usize].no_uplink > 0 || at.node.is_none() {
            return;
        }
        match far {
            Far::Fresh if udp.is_dial() => {
                if !self.meet(id, false) {
                    return;
                }
            }
            // Its address is being proved; what comes meanwhile says nothing new.
            Far::Fresh | Far::Retried => return,
            Far::Gone if udp.is_dial() => return,
            Far::Gone => return self.say(id, Ended::Reset, RESET_LEN),
            Far::Greeting | Far::Session(_) => {}
        }
        let Some(connection) = self.connection(id) else {
            return;
        };
        let before = connection.carriage.facts(Side::Server);
        connection.carriage.handle(Side::Server, udp, now);
        self.settle_far_wire(id, before);
    }

    /// A connection did something at the provider. Where it changed nothing for the node, what it has to send leaves and no
    /// more is done.
    fn settle_far_wire(&mut self, id: ConnectionId, before: Option<CarrierFacts>) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        if let Some(event) = connection.carriage.poll_event(Side::Server) {
            self.take_far_event(id, event);
            return self.settle_far(id);
        }
        while let Some(udp) = self.next_far_datagram(id) {
            self.send(id, Side::Server, udp);
        }
        let now_ns = self.now_ns;
        let Some(connection) = self.connection(id) else {
            return;
        };
        let after = connection.carriage.facts(Side::Server);
        if connection.node_due_ns <= now_ns || !changes_nothing(before, after) {
            return self.settle_far(id);
        }
        self.wait_far(id);
    }

    /// A host tells the client's end something; it crosses as any datagram does.
    fn say(&mut self, id: ConnectionId, ended: Ended, len_bytes: u32) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let server = connection.server;
        self.books
            .leaves_server(len_bytes, false, &Default::default());
        if self.servers[usize::from(server)].cut_down == 0 {
            let at_ns = self.now_ns + self.one_way_ns();
            self.queue.push(at_ns, Event::Told(id, Side::Client, ended));
        }
    }

    /// A first packet came: whether the handshake goes on.
    fn meet(&mut self, id: ConnectionId, is_proven: bool) -> bool {
        let (now, now_ns) = (self.now, self.now_ns);
        let Some(connection) = self.connection(id) else {
            return false;
        };
        let (client, server) = (connection.client, connection.server);
        let source = self.source(client);
        let at = &mut self.servers[usize::from(server)];
        if at.refusing > 0 {
            self.refuse(id);
            return false;
        }
        if at.node.is_none() {
            return false;
        }
        let second = now_ns / 1_000_000_000;
        if at.handshakes.0 != second {
            at.handshakes = (second, 0);
        }
        at.handshakes.1 += 1;
        let (count, fleet) = (at.handshakes.1, &self.scenario.fleet);
        if fleet
            .provider_dials_per_s_max
            .is_some_and(|max| count > max)
        {
            self.fall_over(server);
            return false;
        }
        if fleet
            .provider_handshakes_per_s
            .is_some_and(|max| count > max)
        {
            return false;
        }
        let Some(node) = &mut self.servers[usize::from(server)].node else {
            return false;
        };
        match node.on_initial(source, is_proven, now) {
            doorman::Answer::Accept { deadline } => {
                let at_ns = self.since(deadline);
                self.queue.push(at_ns, Event::Deadline(id));
                if let Some(connection) = self.connection(id) {
                    connection.far = Far::Greeting;
                }
                true
            }
            doorman::Answer::Retry => {
                self.retry(id);
                false
            }
            doorman::Answer::Refuse(_) => {
                self.refuse(id);
                false
            }
            doorman::Answer::Ignore => false,
        }
    }

    fn refuse(&mut self, id: ConnectionId) {
        self.say(id, Ended::Refused, RETRY_LEN);
        if let Some(connection) = self.connection(id) {
            connection.far = Far::Gone;
        }
    }

    /// The client's first flight is sent once more, with the proof.
    fn retry(&mut self, id: ConnectionId) {
        self.books
            .leaves_server(RETRY_LEN, false, &Default::default());
        let Some(connection) = self.connection(id) else {
            return;
        };
        connection.far = Far::Retried;
        let at_ns = self.now_ns + 2 * self.one_way_ns();
        self.queue.push(at_ns, Event::Proven(id));
    }

    pub(super) fn prove(&mut self, id: ConnectionId) {
        let now = self.now;
        let Some(connection) = self.connection(id).filter(|c| c.far == Far::Retried) else {
            return;
        };
        connection.far = Far::Fresh;
        let (client, server) = (connection.client, connection.server);
        let at = &self.servers[usize::from(server)];
        let is_cut = at.cut_up > 0 || at.cut_down > 0 || at.node.is_none();
        if is_cut || self.clients[client as usize].no_uplink > 0 || !self.meet(id, true) {
            return;
        }
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (carriage, mut first) = (&mut connection.carriage, Vec::new());
        carriage.repeat_first(now, &mut first);
        self.touch(client, id);
        for udp in first {
            let len_bytes = udp.len_bytes();
            let of = &mut self.clients[client as usize];
            of.bytes_out += u64::from(len_bytes);
            let left = Fact::Left {
                client,
                bytes: len_bytes,
            };
            self.checks.saw(left, self.now_ns);
            self.books
                .leaves_client(len_bytes, true, &Default::default(), self.now_ns);
            if let Some(connection) = self.connection(id) {
                connection.carriage.handle(Side::Server, udp, now);
            }
        }
        self.settle_far(id);
    }

    /// Where a client's packets seem to come from.
    fn source(&self, client: ClientId) -> SocketAddr {
        let [_, high, middle, low] = client.to_be_bytes();
        let port = 1_024 + u16::try_from(client % 60_000).unwrap_or(0);
        if self.clients[client as usize].shared_nat > 0 {
            return SocketAddr::new(Ipv4Addr::new(198, 18, 0, 1).into(), port);
        }
        SocketAddr::new(Ipv4Addr::new(100, high, middle, low).into(), port)
    }

    pub(super) fn end_handshake(&mut self, id: ConnectionId) {
        let Some(connection) = self.connection(id).filter(|c| c.far == Far::Greeting) else {
            return;
        };
        connection.carriage.kill(Side::Server);
        connection.far = Far::Gone;
        let server = connection.server;
        self.handshake_over(server, doorman::Ended::TimedOut);
        self.tidy(id);
    }

    fn handshake_over(&mut self, server: ServerId, how: doorman::Ended) {
        if let Some(node) = &mut self.servers[usize::from(server)].node {
            node.on_handshake_ended(how);
        }
    }

    pub(super) fn wake_far(&mut self, id: ConnectionId) {
        let (now, now_ns) = (self.now, self.now_ns);
        let Some(connection) = self.connection(id).filter(|c| c.wake_ns == now_ns) else {
            return;
        };
        connection.wake_ns = NEVER;
        let is_due = |at: std::time::Instant| at <= now;
        if connection.node_due_ns > now_ns
            && !connection
                .carriage
                .poll_timeout(Side::Server)
                .is_some_and(is_due)
        {
            // What it was to wake for came to pass.
            return self.wait_far(id);
        }
        let before = connection.carriage.facts(Side::Server);
        connection.carriage.handle_timeout(Side::Server, now);
        if connection.node_due_ns > now_ns {
            return self.settle_far_wire(id, before);
        }
        let (server, far) = (connection.server, connection.far);
        if let (Far::Session(session), Some(node)) =
            (far, &mut self.servers[usize::from(server)].node)
            && node.poll_timeout(session).is_some_and(|at| at <= now)
        {
            node.handle_timeout(session, now);
        }
        self.settle_far(id);
    }

    /// Lets a provider do what it has to do for this connection, and for whom it caused something.
    pub(super) fn settle_far(&mut self, id: ConnectionId) {
        let Some(server) = self.connection(id).map(|connection| connection.server) else {
            return;
        };
        let mut next = Some(id);
        for _ in 0..ROUNDS_MAX {
            let Some(id) = next.take().or_else(|| self.next_ready(server)) else {
                return;
            };
            self.settle_session(id);
        }
        let words = || format!("provider {server}");
        self.books.complain("never comes to rest", words);
    }

    fn next_ready(&mut self, server: ServerId) -> Option<ConnectionId> {
        let at = &mut self.servers[usize::from(server)];
        let node = at.node.as_mut()?;
        while let Some(session) = node.poll_ready() {
            if let Some(id) = at.of_session.get(&session) {
                return Some(*id);
            }
        }
        None
    }

    fn settle_session(&mut self, id: ConnectionId) {
        for _ in 0..ROUNDS_MAX {
            let mut idle = true;
            while let Some(event) = self
                .connection(id)
                .and_then(|c| c.carriage.poll_event(Side::Server))
            {
                idle = false;
                self.take_far_event(id, event);
            }
            idle &= !self.take_far_outputs(id);
            while let Some(udp) = self.next_far_datagram(id) {
                idle = false;
                self.send(id, Side::Server, udp);
            }
            if idle {
                break;
            }
        }
        self.note_far_due(id);
        self.wait_far(id);
        self.tidy(id);
    }

    fn next_far_datagram(&mut self, id: ConnectionId) -> Option<Wire<P, C>> {
        let now = self.now;
        self.connection(id)?.carriage.poll_udp(Side::Server, now)
    }

    fn note_far_due(&mut self, id: ConnectionId) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (server, far) = (connection.server, connection.far);
        let due = match (far, &self.servers[usize::from(server)].node) {
            (Far::Session(session), Some(node)) => node.poll_timeout(session),
            _ => None,
        };
        let due_ns = due.map_or(NEVER, |at| self.since(at));
        if let Some(connection) = self.connection(id) {
            connection.node_due_ns = due_ns;
        }
    }

    fn wait_far(&mut self, id: ConnectionId) {
        let (origin, now_ns) = (self.origin, self.now_ns);
        let Some(connection) = self.connection(id) else {
            return;
        };
        let at = connection.carriage.poll_timeout(Side::Server);
        let at_ns = at.map_or(NEVER, |at| super::ns(at.saturating_duration_since(origin)));
        let at_ns = at_ns.min(connection.node_due_ns).max(now_ns);
        if at_ns < connection.wake_ns {
            connection.wake_ns = at_ns;
            self.queue.push(at_ns, Event::WakeFar(id));
        }
    }

    fn take_far_event(&mut self, id: ConnectionId, event: CarriageEvent<P::Unit>) {
        let now = self.now;
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (server, far) = (connection.server, connection.far);
        let unit = match event {
            CarriageEvent::Connected => return self.accept(id),
            CarriageEvent::Closed(ended) => return self.lose_far(id, ended),
            CarriageEvent::Datagram(unit) => (unit, true),
            CarriageEvent::Control(unit) => (unit, false),
        };
        let (Far::Session(session), Some(node)) =
            (far, &mut self.servers[usize::from(server)].node)
        else {
            return;
        };
        match unit {
            (unit, true) => node.handle_datagram(session, &unit, now),
            (unit, false) => node.handle_control(session, &unit, now),
        }
        self.wait_server(server);
    }

    /// A handshake is complete at the provider.
    fn accept(&mut self, id: ConnectionId) {
        let now = self.now;
        let Some(connection) = self.connection(id).filter(|c| c.far == Far::Greeting) else {
            return;
        };
        let (client, server) = (connection.client, connection.server);
        self.handshake_over(server, doorman::Ended::Completed);
        let at = &mut self.servers[usize::from(server)];
        let Some(node) = &mut at.node else { return };
        match node.on_connection(client, now) {
            Ok(session) => {
                at.of_session.insert(session, id);
                at.sessions += 1;
                let sessions = at.sessions;
                if let Some(connection) = self.connection(id) {
                    connection.far = Far::Session(session);
                }
                let max = self.scenario.fleet.provider_sessions_max;
                if max.is_some_and(|max| sessions > max) {
                    self.fall_over(server);
                }
            }
            Err(_) => {
                if let Some(connection) = self.connection(id) {
                    connection.carriage.close(Side::Server, now);
                    connection.far = Far::Gone;
                }
            }
        }
    }

    /// The provider's end is over.
    fn lose_far(&mut self, id: ConnectionId, ended: Ended) {
        let now = self.now;
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (server, far) = (connection.server, connection.far);
        connection.far = Far::Gone;
        match far {
            Far::Session(session) => {
                let at = &mut self.servers[usize::from(server)];
                at.of_session.remove(&session);
                at.sessions = at.sessions.saturating_sub(1);
                if let Some(node) = &mut at.node {
                    node.on_closed(session, ended, now);
                }
                self.wait_server(server);
            }
            Far::Greeting => self.handshake_over(server, doorman::Ended::Failed),
            Far::Fresh | Far::Retried | Far::Gone => {}
        }
    }

    fn take_far_outputs(&mut self, id: ConnectionId) -> bool {
        let now = self.now;
        let mut any = false;
        for _ in 0..ROUNDS_MAX {
            let Some(connection) = self
                .connections
                .get_mut(id.place as usize)
                .and_then(Option::as_mut)
                .filter(|connection| connection.turn == id.turn)
            else {
                break;
            };
            let (server, Far::Session(session)) = (connection.server, connection.far) else {
                break;
            };
            let Some(node) = &mut self.servers[usize::from(server)].node else {
                break;
            };
            if let Some(facts) = connection.carriage.facts(Side::Server)
                && connection.is_news(Side::Server, &facts)
            {
                node.on_carrier(session, facts, now);
                let hushed = node.is_hushed(session, now);
                connection.carriage.grant(Side::Server, hushed, now);
                connection.told[Side::Server as usize] = (!hushed).then_some(facts);
            }
            let Some(output) = node.poll_output(session, now) else {
                break;
            };
            any = true;
            self.perform_far(id, session, output);
        }
        any
    }

    fn perform_far(&mut self, id: ConnectionId, session: u64, output: ServerOutput<P::Unit>) {
        let (now, now_ns) = (self.now, self.now_ns);
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (client, server) = (connection.client, connection.server);
        let pending = &mut connection.pending[Side::Server as usize];
        match output {
            ServerOutput::Datagram { unit, causes } => {
                let carriage = &mut connection.carriage;
                if carriage.send_datagram(Side::Server, unit, causes.total(), now) {
                    pending.add(&causes);
                    connection.told[Side::Server as usize] = None;
                }
            }
            ServerOutput::Control { unit, len_bytes } => {
                pending.add_control(len_bytes);
                let carriage = &mut connection.carriage;
                carriage.send_control(Side::Server, unit, len_bytes, now);
            }
            ServerOutput::Close => {
                connection.carriage.close(Side::Server, now);
                self.lose_far(id, Ended::Closed);
            }
            ServerOutput::Deliver(item) => {
                let number = item.number;
                self.checks.saw(Fact::Delivered { client, number }, now_ns);
                self.books
                    .deliver(client, item.number, item.len_bytes, now_ns);
                if let Some(node) = &mut self.clients[client as usize].node {
                    node.on_far_has(&item);
                }
                let len_bytes = work::answer_bytes(self.scenario, item.flow);
                if len_bytes > 0
                    && let Some(node) = &mut self.servers[usize::from(server)].node
                {
                    let answer = crate::fleet::node::Item { len_bytes, ..item };
                    node.answer(session, answer, now);
                }
            }
        }
    }

    // --- the provider as a whole -----------------------------------------------------

    pub(super) fn wait_server(&mut self, server: ServerId) {
        let at = &self.servers[usize::from(server)];
        let Some(node) = &at.node else { return };
        let timers = node.poll_idle().into_iter().chain(node.drained_at());
        let Some(when) = timers.min() else { return };
        let at_ns = self.since(when).max(self.now_ns);
        let at = &mut self.servers[usize::from(server)];
        if at_ns < at.wake_ns {
            at.wake_ns = at_ns;
            self.queue.push(at_ns, Event::WakeServer(server));
        }
    }

    pub(super) fn wake_server(&mut self, server: ServerId) {
        let (now, now_ns) = (self.now, self.now_ns);
        let at = &mut self.servers[usize::from(server)];
        if at.wake_ns != now_ns {
            return;
        }
        at.wake_ns = NEVER;
        let Some(node) = &mut at.node else { return };
        if node.poll_idle().is_some_and(|at| at <= now) {
            node.handle_idle(now);
        }
        if node.drained_at().is_some_and(|at| at <= now) {
            return self.stop(server);
        }
        while let Some(id) = self.next_ready(server) {
            self.settle_session(id);
        }
        self.wait_server(server);
    }
}
