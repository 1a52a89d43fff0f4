//! What faults do to the world.

use super::{Event, Server, World};
use crate::check::Fact;
use crate::fleet::carriage::{Carriage as _, Carriages, Side};
use crate::fleet::connection::{ConnectionId, Far};
use crate::fleet::faults::Change;
use crate::fleet::node::{ClientId, ClientNode as _, Policy, ServerId, ServerNode as _};

fn count(reasons: &mut u8, begins: bool) {
    *reasons = if begins {
        reasons.saturating_add(1)
    } else {
        reasons.saturating_sub(1)
    };
}

impl<P: Policy, C: Carriages<P::Unit>> World<'_, P, C> {
    pub(super) fn change(&mut self, index: usize) {
        let Some(moment) = self.moments.get(index).cloned() else {
            return;
        };
        for number in moment.whom.iter() {
            match moment.change {
                Change::Cut { .. } | Change::AcksLost | Change::Refusing => {
                    self.change_way(number, &moment.change, moment.begins);
                }
                Change::Dead => self.change_life(number, moment.begins),
                Change::Restart { away_ns } => self.restart(number, away_ns),
                Change::NoUplink | Change::Asleep | Change::SharedNat => {
                    self.change_client(number, &moment.change, moment.begins);
                }
                Change::Backend { fault } => self.backends.change(number, fault, moment.begins),
            }
        }
    }

    fn change_way(&mut self, number: u32, change: &Change, begins: bool) {
        let Some(server) = self.servers.get_mut(number as usize) else {
            return;
        };
        match change {
            Change::Cut { up, down } => {
                if *up {
                    count(&mut server.cut_up, begins);
                }
                if *down {
                    count(&mut server.cut_down, begins);
                }
            }
            Change::AcksLost => count(&mut server.acks_lost, begins),
            Change::Refusing => count(&mut server.refusing, begins),
            Change::Dead
            | Change::Restart { .. }
            | Change::NoUplink
            | Change::Asleep
            | Change::SharedNat
            | Change::Backend { .. } => {}
        }
    }

    fn change_client(&mut self, client: ClientId, change: &Change, begins: bool) {
        let now = self.now;
        let Some(of) = self.clients.get_mut(client as usize) else {
            return;
        };
        match change {
            Change::NoUplink => count(&mut of.no_uplink, begins),
            Change::SharedNat => count(&mut of.shared_nat, begins),
            Change::Asleep => {
                count(&mut of.asleep, begins);
                if begins || of.asleep > 0 {
                    return;
                }
                // What was scheduled before it slept is void.
                of.wake_ns = super::NEVER;
                self.checks.saw(Fact::Woke { client }, self.now_ns);
                if let Some(node) = &mut of.node {
                    node.on_wake(now);
                }
                self.wake_after_sleep(client);
            }
            Change::Cut { .. }
            | Change::AcksLost
            | Change::Refusing
            | Change::Dead
            | Change::Restart { .. }
            | Change::Backend { .. } => {}
        }
    }

    fn wake_after_sleep(&mut self, client: ClientId) {
        let now_ns = self.now_ns;
        let of = &mut self.clients[client as usize];
        (of.wake_ns, of.node_due_ns) = (now_ns, now_ns);
        self.wake_client(client);
    }

    // --- providers ------------------------------------------------------------------

    fn change_life(&mut self, number: u32, begins: bool) {
        let Ok(server) = ServerId::try_from(number) else {
            return;
        };
        let Some(at) = self.servers.get_mut(usize::from(server)) else {
            return;
        };
        count(&mut at.dead, begins);
        if begins {
            self.die(server);
        } else if at.dead == 0 {
            let incarnation = at.incarnation;
            self.come_back(server, incarnation);
        }
    }

    /// The process is gone, without a word.
    fn die(&mut self, server: ServerId) {
        let at = &mut self.servers[usize::from(server)];
        at.node = None;
        at.sessions = 0;
        at.of_session.clear();
        at.wake_ns = super::NEVER;
        at.away_ns = None;
        at.incarnation += 1;
        for id in self.of_server(server) {
            if let Some(connection) = self.connection(id) {
                connection.carriage.kill(Side::Server);
                connection.far = Far::Gone;
            }
            self.tidy(id);
        }
    }

    fn of_server(&self, server: ServerId) -> Vec<ConnectionId> {
        let all = (0..).zip(&self.connections);
        all.filter_map(|(place, connection)| {
            let connection = connection.as_ref().filter(|c| c.server == server)?;
            let turn = connection.turn;
            Some(ConnectionId { place, turn })
        })
        .collect()
    }

    /// It bears no more, and is away for a while.
    pub(super) fn fall_over(&mut self, server: ServerId) {
        self.books.provider_fell();
        self.die(server);
        let away_ns = super::ns(self.scenario.fleet.provider_restart);
        self.return_after(server, away_ns);
    }

    fn return_after(&mut self, server: ServerId, away_ns: u64) {
        let incarnation = self.servers[usize::from(server)].incarnation;
        let at_ns = self.now_ns.saturating_add(away_ns);
        self.queue.push(at_ns, Event::Returns(server, incarnation));
    }

    pub(super) fn come_back(&mut self, server: ServerId, incarnation: u32) {
        let at = &self.servers[usize::from(server)];
        if at.node.is_some() || at.incarnation != incarnation || at.dead > 0 {
            return;
        }
        let node = self
            .policy
            .server(server, incarnation, &self.size, self.seed);
        let at: &mut Server<_> = &mut self.servers[usize::from(server)];
        at.node = Some(node);
    }

    /// It is told to stop, and comes back `away_ns` after it has.
    fn restart(&mut self, number: u32, away_ns: u64) {
        let now = self.now;
        let Ok(server) = ServerId::try_from(number) else {
            return;
        };
        let Some(at) = self.servers.get_mut(usize::from(server)) else {
            return;
        };
        let Some(node) = &mut at.node else { return };
        node.drain(now);
        at.away_ns = Some(away_ns);
        // Whoever has something to hear of it.
        for id in self.of_server(server) {
            self.settle_far(id);
        }
        self.wait_server(server);
    }

    /// It has carried on for long enough: says so to who is left, and is gone.
    pub(super) fn stop(&mut self, server: ServerId) {
        let now = self.now;
        let away_ns = self.servers[usize::from(server)].away_ns.unwrap_or(0);
        for id in self.of_server(server) {
            if let Some(connection) = self.connection(id) {
                connection.carriage.close(Side::Server, now);
            }
            while let Some(udp) = self
                .connection(id)
                .and_then(|c| c.carriage.poll_udp(Side::Server, now))
            {
                self.send(id, Side::Server, udp);
            }
        }
        self.die(server);
        self.return_after(server, away_ns);
    }
}
