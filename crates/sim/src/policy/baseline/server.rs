//! The provider's half: for each client a sequence each way, whatever connection it comes by.
//!
//! What a client's packs carry goes to the world, each once and in order per sequence; what raced over other providers
//! comes out there too, and the world sees it more than once. Answers go back through a sequence of the same rules.
//! Sequences outlive a connection by an ack timeout, and a provider's death not at all. Told to stop, it stops.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;
use quell_core::path::CarrierFacts;

use super::peer::Peer;
use super::rules::Rules;
use super::unit::{Body, Unit, WELCOME_BYTES};
use crate::fleet::node::{ClientId, Ended, Item, ServerNode, ServerOutput};

#[derive(Debug)]
struct Guest {
    peer: Peer,
    session: Option<u64>,
    /// When it is forgotten, while it has no session.
    until: Option<Instant>,
    out: VecDeque<ServerOutput<Unit>>,
    is_ready: bool,
}

/// The provider's half.
#[derive(Debug)]
pub struct Server {
    rules: &'static Rules,
    ack_timeout: Duration,
    // Looked up; a walk goes by number.
    guests: HashMap<ClientId, Box<Guest>, FixedState>,
    sessions: HashMap<u64, ClientId, FixedState>,
    absent: BTreeSet<(Instant, ClientId)>,
    ready: VecDeque<u64>,
    next_session: u64,
    drained_at: Option<Instant>,
}

impl Server {
    pub(crate) fn new(rules: &'static Rules, ack_timeout: Duration) -> Self {
        Self {
            rules,
            ack_timeout,
            guests: HashMap::default(),
            sessions: HashMap::default(),
            absent: BTreeSet::new(),
            ready: VecDeque::new(),
            next_session: 0,
            drained_at: None,
        }
    }

    fn guest(&self, session: u64) -> Option<&Guest> {
        self.guests
            .get(self.sessions.get(&session)?)
            .map(Box::as_ref)
    }

    fn guest_mut(&mut self, session: u64) -> Option<&mut Guest> {
        self.guests
            .get_mut(self.sessions.get(&session)?)
            .map(Box::as_mut)
    }

    /// Has the session polled if it has anything to say.
    fn wake(&mut self, session: u64) {
        let Some(guest) = self.guest_mut(session) else {
            return;
        };
        let says = !guest.out.is_empty() || guest.peer.has_output();
        if says && !std::mem::replace(&mut guest.is_ready, true) {
            self.ready.push_back(session);
        }
    }
}

impl ServerNode<Unit> for Server {
    fn on_connection(&mut self, client: ClientId, _now: Instant) -> Result<u64, Ended> {
        if self.drained_at.is_some() {
            return Err(Ended::Refused);
        }
        let session = self.next_session;
        self.next_session += 1;
        let ack_timeout = self.ack_timeout;
        let guest = self.guests.entry(client).or_insert_with(|| {
            Box::new(Guest {
                peer: Peer::new(ack_timeout, false),
                session: None,
                until: None,
                out: VecDeque::new(),
                is_ready: false,
            })
        });
        if let Some(at) = guest.until.take() {
            self.absent.remove(&(at, client));
        }
        if let Some(old) = guest.session.replace(session) {
            self.sessions.remove(&old);
        }
        guest.peer.on_down();
        guest.out.clear();
        guest.is_ready = false;
        guest.peer.on_up();
        self.sessions.insert(session, client);
        Ok(session)
    }

    fn on_closed(&mut self, session: u64, _ended: Ended, now: Instant) {
        let Some(client) = self.sessions.remove(&session) else {
            return;
        };
        let until = now + self.ack_timeout;
        if let Some(guest) = self.guests.get_mut(&client) {
            guest.peer.on_down();
            guest.out.clear();
            guest.session = None;
            guest.until = Some(until);
            self.absent.insert((until, client));
        }
    }

    fn on_carrier(&mut self, session: u64, facts: CarrierFacts, now: Instant) {
        let rules = self.rules;
        if let Some(guest) = self.guest_mut(session) {
            guest.peer.on_carrier(&facts);
            guest.peer.flush(rules, false, now);
        }
        self.wake(session);
    }

    fn handle_datagram(&mut self, session: u64, unit: &Unit, now: Instant) {
        let rules = self.rules;
        if let Some(guest) = self.guest_mut(session) {
            let arrived = guest.peer.handle(unit, rules, now);
            let items = arrived.items.into_iter().map(ServerOutput::Deliver);
            guest.out.extend(items);
        }
        self.wake(session);
    }

    fn handle_control(&mut self, session: u64, unit: &Unit, _now: Instant) {
        if *unit != Unit::Hello {
            return;
        }
        if let Some(guest) = self.guest_mut(session) {
            guest.out.push_back(ServerOutput::Control {
                unit: Unit::Welcome,
                len_bytes: WELCOME_BYTES,
            });
        }
        self.wake(session);
    }

    fn answer(&mut self, session: u64, item: Item, now: Instant) {
        let rules = self.rules;
        if let Some(guest) = self.guest_mut(session) {
            guest.peer.push(Body::Item(item), true, (rules, false), now);
        }
        self.wake(session);
    }

    fn poll_output(&mut self, session: u64, _now: Instant) -> Option<ServerOutput<Unit>> {
        let guest = self.guest_mut(session)?;
        if let Some(output) = guest.out.pop_front() {
            return Some(output);
        }
        let parcel = guest.peer.poll_output()?;
        Some(ServerOutput::Datagram {
            unit: parcel.unit,
            causes: parcel.causes,
        })
    }

    fn poll_ready(&mut self) -> Option<u64> {
        let session = self.ready.pop_front()?;
        if let Some(guest) = self.guest_mut(session) {
            guest.is_ready = false;
        }
        Some(session)
    }

    fn poll_timeout(&self, session: u64) -> Option<Instant> {
        self.guest(session)?.peer.poll_timeout(self.rules)
    }

    fn handle_timeout(&mut self, session: u64, now: Instant) {
        let rules = self.rules;
        if let Some(guest) = self.guest_mut(session) {
            guest.peer.handle_timeout(rules, false, now, |_| {});
        }
        self.wake(session);
    }

    fn drain(&mut self, now: Instant) {
        self.drained_at.get_or_insert(now);
        let mut sessions: Vec<u64> = self.sessions.keys().copied().collect();
        sessions.sort_unstable();
        for session in sessions {
            if let Some(guest) = self.guest_mut(session) {
                guest.out.push_back(ServerOutput::Close);
            }
            self.wake(session);
        }
    }

    fn drained_at(&self) -> Option<Instant> {
        self.drained_at
    }

    fn poll_idle(&self) -> Option<Instant> {
        self.absent.first().map(|(at, _)| *at)
    }

    fn handle_idle(&mut self, now: Instant) {
        while let Some((at, client)) = self.absent.first().copied()
            && at <= now
        {
            self.absent.pop_first();
            self.guests.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fleet::node::Kind;
    use crate::policy::upstream_2026_05::RULES;

    const ITEM: Item = Item {
        number: 0,
        flow: 0,
        kind: Kind::Tcp,
        len_bytes: 100,
    };

    fn server() -> Server {
        Server::new(&RULES, RULES.race_ack_timeout)
    }

    #[test]
    fn a_session_that_has_something_to_say_is_named_once() {
        let (mut server, now) = (server(), Instant::now());
        let session = server.on_connection(7, now).unwrap();
        assert_eq!(server.poll_ready(), None);
        server.answer(session, ITEM, now);
        server.answer(session, ITEM, now);
        assert_eq!(server.poll_ready(), Some(session));
        assert_eq!(server.poll_ready(), None);
        assert!(server.poll_output(session, now).is_some());
    }

    #[test]
    fn a_client_that_comes_again_has_its_later_session_alone() {
        let (mut server, now) = (server(), Instant::now());
        let old = server.on_connection(7, now).unwrap();
        let new = server.on_connection(7, now).unwrap();
        server.on_closed(old, Ended::TimedOut, now);
        assert_eq!(server.poll_idle(), None);
        server.answer(old, ITEM, now);
        assert_eq!(server.poll_output(new, now), None);
        server.answer(new, ITEM, now);
        assert!(server.poll_output(new, now).is_some());
    }

    #[test]
    fn sequences_outlive_a_connection_by_an_ack_timeout() {
        for comes_back in [true, false] {
            let (mut server, now) = (server(), Instant::now());
            let session = server.on_connection(7, now).unwrap();
            server.on_closed(session, Ended::Closed, now);
            let at = now + RULES.race_ack_timeout;
            assert_eq!(server.poll_idle(), Some(at));
            server.handle_idle(at - Duration::from_nanos(1));
            if comes_back {
                server.on_connection(7, now).unwrap();
                assert_eq!(server.poll_idle(), None);
            }
            server.handle_idle(at);
            assert_eq!(server.guests.len(), usize::from(comes_back));
            assert_eq!(server.poll_idle(), None);
        }
    }

    #[test]
    fn a_provider_that_is_told_to_stop_stops() {
        let (mut server, now) = (server(), Instant::now());
        let session = server.on_connection(7, now).unwrap();
        assert_eq!(server.drained_at(), None);
        server.drain(now);
        assert_eq!(server.drained_at(), Some(now));
        assert_eq!(server.poll_ready(), Some(session));
        assert_eq!(server.poll_output(session, now), Some(ServerOutput::Close));
        assert_eq!(server.on_connection(8, now), Err(Ended::Refused));
    }
}
