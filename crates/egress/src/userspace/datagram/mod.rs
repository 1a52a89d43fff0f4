//! UDP and echo associations: one host socket for each port or identifier that a client speaks from.
//!
//! The socket is bound, never connected, so all remotes see the same host port (endpoint-independent mapping, RFC 4787
//! REQ-1). Who may answer is who was spoken to, at that address and port, as with the masquerade of the egress `tun`:
//! what works behind a home router works here, and nobody else gets a packet into the tunnel.
//!
//! An association ends when it carried nothing for [`udp_idle`](super::UserspaceConfig::udp_idle), either way, or when
//! another needs its place: then it is one of the client that has most, the one used longest ago. So a client that opens
//! port after port ends its own associations and nobody else's. A datagram loses nothing by that but its port.
//!
//! Datagrams are sent from the router, without a queue: a host socket's buffer is one. Each association's task waits for
//! what comes back, and while the outbox has no room it leaves that in the kernel.

mod errors;
mod remotes;
mod reply;
mod sockets;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use lru_slab::LruSlab;
use quell_packet::icmp::{self, Unreachable};
use quell_packet::{FlowKey, IcmpView, IpPacket, PACKET_BYTES_MAX, UdpView};
use quell_stack::answer;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use super::books::{DropReason, EchoState, Event};
use super::errno;
use super::policy::{Asked, Policy, Protocol};
use super::router::Common;
use remotes::Remotes;

/// Datagrams that an association passes on before others have their turn.
const TURN_DATAGRAMS: usize = 32;

/// Whose association it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    client: IpAddr,
    /// The port, or the echo identifier.
    port: u16,
    protocol: Protocol,
}

/// What the router and an association's task share.
struct Association {
    key: Key,
    socket: UdpSocket,
    remotes: RefCell<Remotes>,
    used_at: Cell<Instant>,
    /// Its place was given to another.
    evicted: Notify,
}

#[derive(Default)]
struct Table {
    /// Places among the client's own.
    slots: HashMap<Key, u32>,
    clients: HashMap<IpAddr, LruSlab<Rc<Association>>>,
}

impl Table {
    fn len(&self) -> usize {
        self.slots.len()
    }

    /// The association, which was used just now.
    fn touch(&mut self, key: &Key) -> Option<Rc<Association>> {
        let slot = *self.slots.get(key)?;
        let own = self.clients.get_mut(&key.client)?;
        Some(Rc::clone(own.get_mut(slot)))
    }

    fn holds(&self, association: &Rc<Association>) -> bool {
        let key = &association.key;
        let place = self.slots.get(key).zip(self.clients.get(&key.client));
        place.is_some_and(|(slot, own)| Rc::ptr_eq(own.peek(*slot), association))
    }

    fn insert(&mut self, association: Rc<Association>) {
        let key = association.key;
        let own = self.clients.entry(key.client).or_default();
        self.slots.insert(key, own.insert(association));
    }

    fn remove(&mut self, key: &Key) -> Option<Rc<Association>> {
        let slot = self.slots.remove(key)?;
        let own = self.clients.get_mut(&key.client)?;
        let association = own.remove(slot);
        if own.is_empty() {
            self.clients.remove(&key.client);
        }
        Some(association)
    }

    /// Whose place another takes. A walk over the clients, beside a system call that costs as much.
    fn next_to_go(&self) -> Option<Key> {
        let most = self.clients.values().max_by_key(|own| own.len())?;
        Some(most.peek(most.lru()?).key)
    }
}

/// All associations.
pub(super) struct Datagrams {
    common: Rc<Common>,
    table: Rc<RefCell<Table>>,
    /// What a datagram is read into, by one association at a time.
    scratch: Rc<RefCell<Vec<u8>>>,
}

impl Datagrams {
    pub(super) fn new(common: Rc<Common>) -> Self {
        Self {
            common,
            table: Rc::default(),
            scratch: Rc::new(RefCell::new(vec![0; PACKET_BYTES_MAX])),
        }
    }

    /// Sends a client's datagram.
    pub(super) fn handle_udp(
        &mut self,
        flow: FlowKey,
        ip: &IpPacket<'_>,
        policy: &mut dyn Policy,
    ) -> Result<(), DropReason> {
        let udp = UdpView::parse(ip.payload()).map_err(|_| DropReason::Malformed)?;
        let key = Key {
            client: flow.source,
            port: flow.source_port,
            protocol: Protocol::Udp,
        };
        let remote = SocketAddr::new(flow.destination, flow.destination_port);
        self.send(key, remote, udp.payload(), ip, policy)
    }

    /// Sends a client's echo request.
    pub(super) fn handle_echo(
        &mut self,
        flow: FlowKey,
        ip: &IpPacket<'_>,
        policy: &mut dyn Policy,
    ) -> Result<(), DropReason> {
        let message = IcmpView::parse(ip.payload()).map_err(|_| DropReason::Malformed)?;
        let request = match ip {
            IpPacket::V4(_) => icmp::V4_ECHO_REQUEST,
            IpPacket::V6(_) => icmp::V6_ECHO_REQUEST,
        };
        if message.kind() != request {
            return Err(DropReason::UnsupportedIcmp);
        }
        let key = Key {
            client: flow.source,
            port: message.identifier(),
            protocol: Protocol::Echo,
        };
        let remote = SocketAddr::new(flow.destination, 0);
        self.send(key, remote, ip.payload(), ip, policy)
    }

    fn send(
        &mut self,
        key: Key,
        remote: SocketAddr,
        bytes: &[u8],
        ip: &IpPacket<'_>,
        policy: &mut dyn Policy,
    ) -> Result<(), DropReason> {
        let sent = self.try_send(key, remote, bytes, policy);
        let why = match sent {
            Ok(()) => {
                self.common.books.consume(1);
                return Ok(());
            }
            Err(DropReason::Denied) => Some(Unreachable::AdminProhibited),
            Err(DropReason::SocketsExhausted | DropReason::Unreachable) => Some(Unreachable::Host),
            Err(_) => None,
        };
        if let Some(why) = why {
            answer::unreachable(ip, why, &self.common.outbox);
        }
        sent
    }

    fn try_send(
        &mut self,
        key: Key,
        remote: SocketAddr,
        bytes: &[u8],
        policy: &mut dyn Policy,
    ) -> Result<(), DropReason> {
        let known = self.table.borrow_mut().touch(&key);
        let is_new = known
            .as_ref()
            .is_none_or(|association| !association.remotes.borrow_mut().touch(remote));
        if is_new {
            let asked = Asked {
                client: key.client,
                destination: remote,
                protocol: key.protocol,
            };
            policy.admit(&asked).map_err(|_| DropReason::Denied)?;
        }
        let association = match known {
            Some(association) => association,
            None => self.open(key)?,
        };
        if is_new {
            association.remotes.borrow_mut().insert(remote);
        }
        association.used_at.set(Instant::now());
        association.send(remote, bytes)
    }

    fn open(&mut self, key: Key) -> Result<Rc<Association>, DropReason> {
        let socket = self.socket(&key)?;
        let mut table = self.table.borrow_mut();
        if table.len() >= self.common.config.associations_max as usize
            && let Some(key) = table.next_to_go()
            && let Some(oldest) = table.remove(&key)
        {
            oldest.evicted.notify_one();
        }
        let association = Rc::new(Association {
            key,
            socket,
            remotes: RefCell::new(Remotes::new(self.common.config.remotes_max)),
            used_at: Cell::new(Instant::now()),
            evicted: Notify::new(),
        });
        table.insert(Rc::clone(&association));
        drop(table);
        let entry = Entry {
            common: Rc::clone(&self.common),
            table: Rc::clone(&self.table),
            association: Rc::clone(&association),
            end: Event::AssociationFailed,
        };
        entry.report();
        self.common.books.note(Event::AssociationOpened);
        tokio::task::spawn_local(listen(entry, Rc::clone(&self.scratch)));
        Ok(association)
    }

    fn socket(&self, key: &Key) -> Result<UdpSocket, DropReason> {
        let source = self.common.config.source(key.client);
        if key.protocol != Protocol::Echo {
            let socket = sockets::udp(key.client, source);
            return socket.map_err(|error| errno::why_no_socket(&error));
        }
        match sockets::echo(key.client, source) {
            Ok(socket) => {
                self.common.books.set_echo(EchoState::Available);
                Ok(socket)
            }
            Err(error) if errno::is_forbidden(&error) => {
                self.common.books.set_echo(EchoState::Forbidden);
                Err(DropReason::EchoUnavailable)
            }
            Err(error) => Err(errno::why_no_socket(&error)),
        }
    }
}

impl Association {
    fn send(&self, remote: SocketAddr, bytes: &[u8]) -> Result<(), DropReason> {
        // Past tokio, which would have to learn first that a new socket is writable.
        let socket = SockRef::from(&self.socket);
        let mut result = socket.send_to(bytes, &remote.into());
        if result.as_ref().is_err_and(errors::is_about_another) {
            // The report of an earlier datagram's fate took this one's turn; the error queue has it, too.
            result = socket.send_to(bytes, &remote.into());
        }
        result
            .map(drop)
            .map_err(|error| errno::why_not_sent(&error))
    }
}

/// An association's place in the table, held by its task.
struct Entry {
    common: Rc<Common>,
    table: Rc<RefCell<Table>>,
    association: Rc<Association>,
    end: Event,
}

impl Entry {
    fn report(&self) {
        let count = self.table.borrow().len();
        self.common.books.set_associations(count);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = self.table.borrow_mut();
        if table.holds(&self.association) {
            table.remove(&self.association.key);
        }
        drop(table);
        self.common.books.note(self.end);
        self.report();
    }
}

/// An association's life: passes on what comes, until nothing has for too long.
async fn listen(mut entry: Entry, scratch: Rc<RefCell<Vec<u8>>>) {
    let association = Rc::clone(&entry.association);
    let common = Rc::clone(&entry.common);
    let idle = common.config.udp_idle;
    let mut timer = std::pin::pin!(tokio::time::sleep(idle));
    loop {
        tokio::select! {
            ready = association.ready(&common) => {
                if ready.is_err() {
                    return;
                }
                association.pass_on(&common, &mut scratch.borrow_mut());
                tokio::task::yield_now().await;
            }
            () = association.evicted.notified() => {
                entry.end = Event::AssociationEvicted;
                return;
            }
            () = timer.as_mut() => {
                let due = association.used_at.get() + idle;
                if due <= Instant::now() {
                    entry.end = Event::AssociationIdle;
                    return;
                }
                timer.as_mut().reset(due.into());
            }
        }
    }
}

impl Association {
    /// Resolves when something has come and there is room for it: one wait, that all else ends.
    async fn ready(&self, common: &Common) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::ERROR;
        self.socket.ready(interest).await?;
        if !common.outbox.has_room() {
            common.outbox.space().await;
        }
        Ok(())
    }

    /// Passes on what has come, as far as there is room.
    fn pass_on(&self, common: &Common, scratch: &mut [u8]) {
        if self.key.protocol == Protocol::Udp {
            self.pass_errors_on(common, scratch);
        }
        for _ in 0..TURN_DATAGRAMS {
            if !common.outbox.has_room() {
                return;
            }
            match self.socket.try_recv_from(scratch) {
                Ok((len, from)) => self.pass_one(common, from, scratch.get(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The fate of a datagram that was sent: the error queue has it.
                Err(_) => {}
            }
        }
    }

    fn pass_one(&self, common: &Common, from: SocketAddr, bytes: Option<&[u8]>) {
        // Without the scope that the host adds to a link-local address.
        let remote = SocketAddr::new(from.ip(), from.port());
        let bytes = bytes.unwrap_or_default();
        if !self.remotes.borrow().knows(remote) {
            common.books.note(Event::ReplyFiltered);
            return;
        }
        self.used_at.set(Instant::now());
        let client = SocketAddr::new(self.key.client, self.key.port);
        let way = reply::Way {
            outbox: &common.outbox,
            mtu: common.paths.borrow().mtu(self.key.client, Instant::now()),
        };
        let sent = match self.key.protocol {
            Protocol::Udp => way.udp(remote, client, bytes),
            Protocol::Echo => way.echo(remote.ip(), client, bytes),
            Protocol::Tcp => false,
        };
        if !sent {
            common.books.note(Event::ReplyDropped);
        }
    }
}
