//! What a client wants done, and what comes to it.

use quell_core::path::CarrierFacts;

use super::{Event, Link, NEVER, ROUNDS_MAX, Tie, Wire, World, ns};
use crate::check::Fact;
use crate::fleet::carriage::{Carriage as _, CarriageEvent, Carriages, Side};
use crate::fleet::connection::{Connection, ConnectionId, changes_nothing};
use crate::fleet::node::{
    Answer, ClientId, ClientNode as _, ClientOutput, Ended, Policy, ServerId,
};

impl<P: Policy, C: Carriages<P::Unit>> World<'_, P, C> {
    pub(super) fn arrive_at_client(&mut self, id: ConnectionId, udp: Wire<P, C>) {
        let now = self.now;
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (client, server) = (connection.client, connection.server);
        let of = &self.clients[client as usize];
        if of.no_uplink > 0 || of.asleep > 0 || self.servers[usize::from(server)].cut_down > 0 {
            return;
        }
        let Some(connection) = self.connection(id) else {
            return;
        };
        if !connection.at_client {
            return;
        }
        let before = connection.carriage.facts(Side::Client);
        connection.carriage.handle(Side::Client, udp, now);
        self.touch(client, id);
        self.settle_wire(client, id, before);
    }

    /// A host said that the connection is not there.
    pub(super) fn tell(&mut self, id: ConnectionId, side: Side, ended: Ended) {
        let now = self.now;
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (client, server) = (connection.client, connection.server);
        let of = &self.clients[client as usize];
        let at = &self.servers[usize::from(server)];
        if of.no_uplink > 0 {
            return;
        }
        match side {
            Side::Client if of.asleep > 0 || at.cut_down > 0 => {}
            Side::Client if ended == Ended::Refused => self.leave(id, ended),
            Side::Client => {
                if let Some(connection) = self.connection(id) {
                    connection.carriage.on_reset(Side::Client, now);
                    self.touch(client, id);
                    self.settle_client(client);
                }
            }
            Side::Server if at.cut_up > 0 => {}
            Side::Server => {
                if let Some(connection) = self.connection(id) {
                    connection.carriage.on_reset(Side::Server, now);
                    self.settle_far(id);
                }
            }
        }
    }

    /// The client's end is over, and its node is told why.
    fn leave(&mut self, id: ConnectionId, ended: Ended) {
        let now = self.now;
        let Some((client, server, attempt)) = self.detach(id) else {
            return;
        };
        if let Some(node) = &mut self.clients[client as usize].node {
            node.on_closed(server, attempt, ended, now);
        }
        self.settle_client(client);
    }

    /// Takes the client's end away, if it is still there.
    fn detach(&mut self, id: ConnectionId) -> Option<(ClientId, ServerId, u64)> {
        let connection = self.connection(id).filter(|c| c.at_client)?;
        connection.at_client = false;
        connection.carriage.kill(Side::Client);
        let (client, server, attempt) = (connection.client, connection.server, connection.attempt);
        let stood = connection.stood;
        let ties = &mut self.clients[client as usize].ties;
        ties.retain(|tie| tie.id != id);
        if stood {
            self.books.session_lost();
        }
        self.checks
            .saw(Fact::Closed { client, server }, self.now_ns);
        self.tidy(id);
        Some((client, server, attempt))
    }

    pub(super) fn answer(&mut self, client: ClientId, call: u64, answer: Answer) {
        let of = &mut self.clients[client as usize];
        if of.no_uplink > 0 || of.asleep > 0 {
            return;
        }
        let answered = Fact::Answered {
            client,
            call,
            answer,
        };
        self.checks.saw(answered, self.now_ns);
        if let Some(node) = &mut of.node {
            node.on_answer(call, answer, self.now);
        }
        self.settle_client(client);
    }

    pub(super) fn wake_client(&mut self, client: ClientId) {
        let (now_ns, now) = (self.now_ns, self.now);
        let of = &mut self.clients[client as usize];
        if of.wake_ns != now_ns || of.asleep > 0 {
            return;
        }
        of.wake_ns = NEVER;
        let node_is_due = of.node_due_ns <= now_ns;
        let mut place = 0;
        while let Some(tie) = self.clients[client as usize].ties.get(place).copied() {
            place += 1;
            if tie.rests(now_ns) {
                continue;
            }
            let id = tie.id;
            let Some(connection) = self.connection(id) else {
                continue;
            };
            let is_due = |at: std::time::Instant| at <= now;
            if connection
                .carriage
                .poll_timeout(Side::Client)
                .is_some_and(is_due)
            {
                let before = connection.carriage.facts(Side::Client);
                connection.carriage.handle_timeout(Side::Client, now);
                self.touch(client, id);
                if !node_is_due {
                    self.settle_wire(client, id, before);
                }
            }
        }
        if !node_is_due {
            return self.wait(client);
        }
        if let Some(node) = &mut self.clients[client as usize].node {
            node.handle_timeout(now);
        }
        self.settle_client(client);
    }

    /// A connection did something. Where it changed nothing for the node, what it has to send leaves and no more is done.
    fn settle_wire(&mut self, client: ClientId, id: ConnectionId, before: Option<CarrierFacts>) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        if let Some(event) = connection.carriage.poll_event(Side::Client) {
            self.take_event(id, event);
            return self.settle_client(client);
        }
        while let Some(udp) = self.next_datagram(id) {
            self.send(id, Side::Client, udp);
        }
        let after = self.connection(id).map(|c| c.carriage.facts(Side::Client));
        let is_due = self.clients[client as usize].node_due_ns <= self.now_ns;
        if is_due || after.is_some_and(|after| !changes_nothing(before, after)) {
            return self.settle_client(client);
        }
        self.wait(client);
    }

    /// Lets a client do all that it has to do, and says when to come back.
    pub(super) fn settle_client(&mut self, client: ClientId) {
        for round in 0..ROUNDS_MAX {
            let mut idle = !self.take_events(client);
            self.tell_facts(client);
            idle &= !self.take_outputs(client);
            idle &= !self.take_datagrams(client);
            if idle {
                break;
            }
            if round == ROUNDS_MAX - 1 {
                let words = || format!("client {client}");
                self.books.complain("never comes to rest", words);
            }
        }
        self.look_at(client);
        let node = self.clients[client as usize].node.as_ref();
        let due = node.and_then(|node| node.poll_timeout());
        let due_ns = due.map_or(NEVER, |at| self.since(at));
        self.clients[client as usize].node_due_ns = due_ns;
        self.wait(client);
    }

    fn look_at(&mut self, client: ClientId) {
        let of = &self.clients[client as usize];
        if let Some(node) = &of.node
            && self.checks.wants_facts(client, self.now_ns)
        {
            let facts = &node.facts(self.now);
            self.checks.saw(Fact::Stands { client, facts }, self.now_ns);
        }
    }

    fn wait(&mut self, client: ClientId) {
        let (origin, now_ns) = (self.origin, self.now_ns);
        let of = &mut self.clients[client as usize];
        let mut at_ns = of.node_due_ns;
        for tie in &mut of.ties {
            if !tie.rests(now_ns) {
                let connection = self.connections.get(tie.id.place as usize);
                let Some(connection) = connection.and_then(Option::as_ref) else {
                    continue;
                };
                let at = connection.carriage.poll_timeout(Side::Client);
                tie.due_ns = at.map_or(NEVER, |at| ns(at.saturating_duration_since(origin)));
                let facts = connection.carriage.facts(Side::Client);
                tie.is_settled =
                    facts.is_none_or(|facts| !connection.is_news(Side::Client, &facts));
            }
            at_ns = at_ns.min(tie.due_ns);
        }
        let at_ns = at_ns.max(now_ns);
        if at_ns < of.wake_ns && of.asleep == 0 {
            of.wake_ns = at_ns;
            self.queue.push(at_ns, Event::WakeClient(client));
        }
    }

    fn take_events(&mut self, client: ClientId) -> bool {
        let mut any = false;
        let mut place = 0;
        while let Some(tie) = self.clients[client as usize].ties.get(place).copied() {
            if tie.rests(self.now_ns) {
                place += 1;
                continue;
            }
            let id = tie.id;
            while let Some(event) = self
                .connection(id)
                .and_then(|c| c.carriage.poll_event(Side::Client))
            {
                any = true;
                self.take_event(id, event);
            }
            let is_same = self.clients[client as usize].ties.get(place);
            if is_same.is_some_and(|of| of.id == id) {
                place += 1;
            }
        }
        any
    }

    fn take_event(&mut self, id: ConnectionId, event: CarriageEvent<P::Unit>) {
        let now = self.now;
        let Some(connection) = self.connection(id) else {
            return;
        };
        let (client, server, attempt) = (connection.client, connection.server, connection.attempt);
        let unit = match event {
            CarriageEvent::Closed(ended) => {
                if self.detach(id).is_some()
                    && let Some(node) = &mut self.clients[client as usize].node
                {
                    node.on_closed(server, attempt, ended, now);
                }
                return;
            }
            CarriageEvent::Connected => {
                connection.stood = true;
                let connected = Fact::Connected { client, server };
                self.checks.saw(connected, self.now_ns);
                None
            }
            CarriageEvent::Datagram(unit) => Some((unit, true)),
            CarriageEvent::Control(unit) => Some((unit, false)),
        };
        let acks_lost = self.servers[usize::from(server)].acks_lost > 0;
        let Some(node) = &mut self.clients[client as usize].node else {
            return;
        };
        match unit {
            None => return node.on_connected(server, attempt, now),
            Some((unit, false)) => node.handle_control(server, attempt, &unit, now),
            Some((unit, true)) if acks_lost => {
                if let Some(rest) = self.policy.without_acks(&unit) {
                    node.handle_datagram(server, attempt, &rest, now);
                } else {
                    return;
                }
            }
            Some((unit, true)) => node.handle_datagram(server, attempt, &unit, now),
        }
        self.checks.saw(Fact::Heard { client, server }, self.now_ns);
    }

    fn tell_facts(&mut self, client: ClientId) {
        let now = self.now;
        let of = &mut self.clients[client as usize];
        let Some(node) = &mut of.node else { return };
        if of.bytes_out != of.told_bytes_out {
            of.told_bytes_out = of.bytes_out;
            node.on_wire(of.bytes_out, now);
        }
        for tie in of.ties.iter().filter(|tie| !tie.rests(self.now_ns)) {
            let connection = self.connections.get_mut(tie.id.place as usize);
            let Some(connection) = connection.and_then(Option::as_mut) else {
                continue;
            };
            if let Some(facts) = connection.carriage.facts(Side::Client)
                && connection.is_news(Side::Client, &facts)
            {
                node.on_carrier(tie.server, connection.attempt, facts, now);
                let hushed = node.is_hushed(tie.server, now);
                connection.carriage.grant(Side::Client, hushed, now);
                connection.told[Side::Client as usize] = (!hushed).then_some(facts);
            }
        }
    }

    fn take_outputs(&mut self, client: ClientId) -> bool {
        let mut any = false;
        for _ in 0..ROUNDS_MAX {
            let Some(node) = &mut self.clients[client as usize].node else {
                break;
            };
            let Some(output) = node.poll_output(self.now) else {
                break;
            };
            any = true;
            self.perform(client, output);
        }
        any
    }

    fn to(&mut self, client: ClientId, server: ServerId) -> Option<ConnectionId> {
        let ties = &self.clients[client as usize].ties;
        ties.iter()
            .find(|tie| tie.server == server)
            .map(|tie| tie.id)
    }

    fn connected(
        &mut self,
        client: ClientId,
        server: ServerId,
    ) -> Option<&mut Connection<Link<P, C>>> {
        let id = self.to(client, server)?;
        self.touch(client, id);
        self.connection(id)
    }

    /// Something is done to the client's end of a connection.
    pub(super) fn touch(&mut self, client: ClientId, id: ConnectionId) {
        let ties = &mut self.clients[client as usize].ties;
        if let Some(tie) = ties.iter_mut().find(|tie| tie.id == id) {
            tie.is_settled = false;
        }
    }

    fn perform(&mut self, client: ClientId, output: ClientOutput<P::Unit>) {
        let (now, now_ns) = (self.now, self.now_ns);
        match output {
            ClientOutput::Dial { server, attempt } => self.dial(client, server, attempt),
            ClientOutput::Close { server } => self.close(client, server),
            ClientOutput::Datagram {
                server,
                unit,
                causes,
            } => {
                let mut packs = std::mem::take(&mut self.packs);
                packs.clear();
                self.policy.packs(&unit, &mut packs);
                if let Some(connection) = self.connected(client, server)
                    && connection
                        .carriage
                        .send_datagram(Side::Client, unit, causes.total(), now)
                {
                    connection.pending[Side::Client as usize].add(&causes);
                    connection.told[Side::Client as usize] = None;
                    let handed = Fact::Handed {
                        client,
                        server,
                        causes: &causes,
                        packs: &packs,
                    };
                    self.checks.saw(handed, now_ns);
                    for pack in &packs {
                        self.books.pack(client, server, *pack, now_ns);
                    }
                }
                self.packs = packs;
            }
            ClientOutput::Control {
                server,
                unit,
                len_bytes,
            } => {
                if let Some(connection) = self.connected(client, server) {
                    connection.pending[Side::Client as usize].add_control(len_bytes);
                    let carriage = &mut connection.carriage;
                    carriage.send_control(Side::Client, unit, len_bytes, now);
                }
            }
            ClientOutput::Ask {
                backend,
                work,
                call,
            } => self.ask(client, (backend, work), call),
            // What the world sent back is not counted: goodput is one way.
            ClientOutput::Deliver(_) => {}
        }
    }

    fn dial(&mut self, client: ClientId, server: ServerId, attempt: u64) {
        self.books.dial(server, self.now_ns);
        self.checks
            .saw(Fact::Dialled { client, server }, self.now_ns);
        if let Some(old) = self.to(client, server) {
            self.books.complain("dialled while connected", || {
                format!("client {client} to provider {server}")
            });
            self.detach(old);
        }
        let id = self.connect(client, server, attempt);
        let ties = &mut self.clients[client as usize].ties;
        ties.push(Tie::new(server, id));
    }

    fn close(&mut self, client: ClientId, server: ServerId) {
        let now = self.now;
        let Some(id) = self.to(client, server) else {
            return;
        };
        if let Some(connection) = self.connection(id) {
            connection.carriage.close(Side::Client, now);
        }
        // What says so, and what was written before, still leaves.
        while let Some(udp) = self
            .connection(id)
            .and_then(|c| c.carriage.poll_udp(Side::Client, now))
        {
            self.send(id, Side::Client, udp);
        }
        self.detach(id);
    }

    fn ask(
        &mut self,
        client: ClientId,
        (backend, work): (u8, quell_core::health::backend::Work),
        call: u64,
    ) {
        self.books.request(self.now_ns);
        let asked = Fact::Asked {
            client,
            backend,
            work,
            call,
        };
        self.checks.saw(asked, self.now_ns);
        if self.clients[client as usize].no_uplink > 0 {
            return;
        }
        let answer = self.backends.ask(backend, work, self.scenario, self.now_ns);
        if let Some((after_ns, answer)) = answer {
            let at_ns = self.now_ns.saturating_add(after_ns);
            self.queue.push(at_ns, Event::Answer(client, call, answer));
        }
    }

    fn take_datagrams(&mut self, client: ClientId) -> bool {
        let mut any = false;
        let places = self.clients[client as usize].ties.len();
        for place in 0..places {
            let Some(tie) = self.clients[client as usize].ties.get(place).copied() else {
                break;
            };
            if tie.rests(self.now_ns) {
                continue;
            }
            while let Some(udp) = self.next_datagram(tie.id) {
                any = true;
                self.send(tie.id, Side::Client, udp);
            }
        }
        any
    }

    fn next_datagram(&mut self, id: ConnectionId) -> Option<Wire<P, C>> {
        let now = self.now;
        self.connection(id)?.carriage.poll_udp(Side::Client, now)
    }

    /// For tests of the ways: one way without queues.
    pub(super) fn one_way_ns(&self) -> u64 {
        self.ways.delay_ns().max(ns(std::time::Duration::ZERO))
    }
}
