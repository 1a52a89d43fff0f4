//! Connections between the client and its providers: dials, ends, and what crosses.
//!
//! What is sent while a way swallows it is lost. Handshakes and control bytes are not
//! repeated, as QUIC would: a dial into a cut fails by its timeout, and so does a
//! greeting that is cut off.

use std::time::Instant;

use quell_core::multi::Loss;
use quell_core::path::Violation;
use quell_core::provider::SessionId;
use quell_wire::registry::ErrorCode;

use super::{Down, Due, Event, Happened, IDLE_TIMEOUT, Up, Way, World, key};

/// UDP payload of a handshake's flights of the client.
const DIAL_BYTES: u64 = 3_600;

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) exit: usize,
    pub(super) attempt: u64,
    /// The provider's session of it.
    pub(super) session: Option<SessionId>,
    /// The provider that had it is another by now.
    pub(super) forgotten: bool,
    at_client: bool,
    heard_by_client: Instant,
    heard_by_provider: Instant,
}

impl Connection {
    /// The session, while the provider has the connection.
    pub(super) fn live(&self) -> Option<SessionId> {
        self.session.filter(|_| !self.forgotten)
    }

    pub(super) fn idle_at(&self) -> Option<Instant> {
        let client = (self.at_client && self.session.is_some()).then_some(self.heard_by_client);
        let provider = self.live().map(|_| self.heard_by_provider);
        let heard = client.into_iter().chain(provider).min()?;
        heard.checked_add(IDLE_TIMEOUT)
    }
}

impl World {
    pub(super) fn dial(&mut self, exit: usize, attempt: u64) {
        self.record(Happened::Dial(exit));
        assert!(
            self.exits[exit].connection.is_none(),
            "{}",
            self.says("a dial while an earlier connection stands")
        );
        self.bytes_out += DIAL_BYTES;
        let number = self.next_connection;
        self.next_connection += 1;
        let connection = Connection {
            exit,
            attempt,
            session: None,
            forgotten: false,
            at_client: true,
            heard_by_client: self.now,
            heard_by_provider: self.now,
        };
        self.connections.insert(number, connection);
        self.exits[exit].connection = Some(number);
        let delay = self.exits[exit].delay;
        match self.exits[exit].way {
            Way::Up | Way::Deaf => self.at(delay, number, Event::Up(Up::Initial)),
            Way::Refusing => {
                let event = Event::Down(Down::Closed("connection refused".into()));
                self.at(2 * delay, number, event);
            }
            Way::Silent => {}
        }
    }

    pub(super) fn carry_up(&mut self, exit: usize, what: Up) {
        let Some(number) = self.exits[exit].connection else {
            return;
        };
        if matches!(what, Up::Datagram(_)) && self.exits[exit].to_lose > 0 {
            self.exits[exit].to_lose -= 1;
            return;
        }
        if self.exits[exit].way != Way::Silent {
            self.at(self.exits[exit].delay, number, Event::Up(what));
        }
    }

    pub(super) fn carry_down(&mut self, number: u64, exit: usize, what: Down) {
        if matches!(self.exits[exit].way, Way::Up | Way::Refusing) {
            self.at(self.exits[exit].delay, number, Event::Down(what));
        }
    }

    /// The client's end is no more.
    pub(super) fn leave_client(&mut self, exit: usize) {
        let number = self.exits[exit].connection.take();
        if let Some(connection) = number.and_then(|n| self.connections.get_mut(&n)) {
            connection.at_client = false;
            if connection.live().is_none() {
                self.connections.retain(|n, _| Some(*n) != number);
            }
        }
    }

    /// A transport error takes the connection; both ends live on.
    pub fn drop_connection(&mut self, exit: usize) {
        let Some(number) = self.exits[exit].connection else {
            return;
        };
        let connection = &self.connections[&number];
        let (attempt, session) = (connection.attempt, connection.live());
        self.leave_client(exit);
        let loss = Loss::from("the network is gone");
        self.client
            .on_closed(self.place_of(exit), attempt, loss, self.now);
        self.leave_provider(number);
        if let (Some(provider), Some(id)) = (&mut self.exits[exit].provider, session) {
            provider.on_closed(id, None, self.now);
        }
        self.settle();
    }

    /// The provider's end is no more.
    pub(super) fn leave_provider(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.session = None;
            connection.forgotten = true;
            if !connection.at_client {
                self.connections.remove(&number);
            }
        }
    }

    pub(super) fn happen(&mut self, due: Due) {
        let (number, now) = (due.connection, self.now);
        match due.event {
            Event::Up(Up::Initial) => self.meet(number),
            Event::Up(Up::Finished) => self.accept(number),
            Event::Up(what) => self.reach_provider(number, what),
            Event::Down(what) => self.reach_client(number, what),
            Event::Inwards(exit, packet) => {
                if let Some(provider) = &mut self.exits[exit].provider {
                    provider.handle_packet(packet, now);
                }
            }
            Event::User(user) => self.tick_user(user),
        }
    }

    fn meet(&mut self, number: u64) {
        let Some(exit) = self.connections.get(&number).map(|c| c.exit) else {
            return;
        };
        if self.exits[exit].provider.is_some() {
            self.carry_down(number, exit, Down::Answer);
        }
    }

    fn accept(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let exit = connection.exit;
        let Some(provider) = &mut self.exits[exit].provider else {
            return;
        };
        match provider.on_connection(key(), self.now) {
            Ok(id) => {
                connection.session = Some(id);
                connection.heard_by_provider = self.now;
            }
            Err(violation) => {
                self.carry_down(number, exit, Down::Closed(Loss::said(&violation)));
            }
        }
    }

    fn reach_provider(&mut self, number: u64, what: Up) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let exit = connection.exit;
        let Some(provider) = &mut self.exits[exit].provider else {
            return;
        };
        let Some(id) = connection.live() else {
            if connection.forgotten && !matches!(what, Up::Closed(_)) {
                self.carry_down(number, exit, Down::Closed("reset by the provider".into()));
            }
            return;
        };
        connection.heard_by_provider = now;
        match what {
            Up::Initial | Up::Finished => {}
            Up::Control(bytes) => provider.handle_control(id, &bytes, now),
            Up::Datagram(bytes) => provider.handle_datagram(id, &bytes, now),
            Up::Closed(Violation { code, .. }) => {
                provider.on_closed(id, Some(code), now);
                self.leave_provider(number);
            }
        }
    }

    fn reach_client(&mut self, number: u64, what: Down) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&number).filter(|c| c.at_client) else {
            return;
        };
        connection.heard_by_client = now;
        let (exit, attempt) = (connection.exit, connection.attempt);
        let id = self.place_of(exit);
        match what {
            Down::Answer => {
                self.carry_up(exit, Up::Finished);
                self.client.on_connected(id, attempt, now);
            }
            Down::Control(bytes) => self.client.handle_control(id, attempt, &bytes, now),
            Down::Datagram(bytes) => self.client.handle_datagram(id, attempt, &bytes, now),
            Down::Closed(loss) => {
                self.leave_client(exit);
                self.client.on_closed(id, attempt, loss, now);
            }
        }
    }

    /// Ends that heard nothing for too long.
    pub(super) fn end_idle(&mut self) {
        let now = self.now;
        let due = |connection: &Connection| connection.idle_at().is_some_and(|at| at <= now);
        let numbers: Vec<_> = self.connections.iter().filter(|(_, c)| due(c)).collect();
        let numbers: Vec<_> = numbers.into_iter().map(|(number, _)| *number).collect();
        for number in numbers {
            self.end_idle_client(number);
            self.end_idle_provider(number);
        }
    }

    fn end_idle_client(&mut self, number: u64) {
        let now = self.now;
        let Some(connection) = self.connections.get(&number).filter(|c| c.at_client) else {
            return;
        };
        if now.duration_since(connection.heard_by_client) < IDLE_TIMEOUT {
            return;
        }
        let (exit, attempt) = (connection.exit, connection.attempt);
        self.leave_client(exit);
        let loss = Loss {
            words: "timed out".to_owned(),
            code: Some(ErrorCode::Idle),
        };
        let id = self.place_of(exit);
        self.client.on_closed(id, attempt, loss, now);
    }

    fn end_idle_provider(&mut self, number: u64) {
        let now = self.now;
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let idle = now.duration_since(connection.heard_by_provider) >= IDLE_TIMEOUT;
        let (exit, Some(id)) = (connection.exit, connection.live().filter(|_| idle)) else {
            return;
        };
        self.leave_provider(number);
        if let Some(provider) = &mut self.exits[exit].provider {
            provider.on_closed(id, Some(ErrorCode::Idle), now);
        }
    }
}
