//! UDP ASSOCIATE (RFC 1928 §7): datagrams of one application through the tunnel.
//!
//! The application sends to a socket of ours beside its TCP connection, each datagram with a header that says where it
//! goes; what comes back gets a header that says where it came from. The socket belongs to that one application: to the
//! address of its TCP connection, and to the port that its first datagram came from. All ends when the connection does.
//!
//! Two ports inside the tunnel, one a family, opened when they are first needed, serve all of its remotes
//! (endpoint-independent mapping, RFC 4787 REQ-1). Fragments are refused, as the RFC allows. A name is looked up beside the
//! datagrams, and its datagram goes when the answer comes; what is still looked up when the association ends, ends with it.
//!
//! While the tunnel has no room, nothing is read: datagrams wait in the kernel's buffer, and what does not fit is lost
//! there, as with any socket.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use quell_stack::spare;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::{refuse, wire, write};
use crate::books::{Asked, Event, Live, Refusal};
use crate::common::Common;
use crate::dial::{Target, checked};
use crate::dns;
use crate::ports::{Datagram, Port};

/// The longest datagram, in bytes.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Datagrams that are taken before others have their turn.
const TURN_DATAGRAMS: usize = 32;
/// Names that are looked up at once for one association; a datagram to another is dropped.
const LOOKUPS_MAX: usize = 16;

/// An association.
struct Association {
    common: Rc<Common>,
    socket: UdpSocket,
    /// Who may send: the address of the TCP connection, and the port once it is known.
    application: IpAddr,
    port: RefCell<Option<u16>>,
    v4: RefCell<Option<Rc<Port>>>,
    v6: RefCell<Option<Rc<Port>>>,
    lookups: RefCell<JoinSet<()>>,
    /// Told when a port was opened, so that it is listened to.
    opened: tokio::sync::Notify,
}

/// An association's place among those that there may be.
struct Place {
    common: Rc<Common>,
    live: Option<Live>,
}

impl Place {
    fn take(common: &Rc<Common>) -> Result<Self, Refusal> {
        if common.associations.count() >= common.limits.associations_max {
            return Err(Refusal::AssociationsFull);
        }
        let live = Some(common.associations.clone());
        common.books.set_associations(common.associations.count());
        common.books.note(Event::AssociationOpened);
        Ok(Self {
            common: Rc::clone(common),
            live,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.live.take());
        let common = &self.common;
        common.books.set_associations(common.associations.count());
        common.books.note(Event::AssociationEnded);
    }
}

/// Answers the request, and serves it until its connection ends.
pub(super) async fn serve(
    common: &Rc<Common>,
    asked: Asked,
    stream: &mut TcpStream,
    from: &Target,
) {
    let begun = begin(common, stream, from).await;
    let (association, _place) = match begun {
        Ok(begun) => begun,
        Err(why) => {
            asked.refuse(why);
            let _ = refuse(stream, why).await;
            return;
        }
    };
    let Ok(bound) = association.socket.local_addr() else {
        return asked.refuse(Refusal::HostExhausted);
    };
    let reply = wire::reply(wire::Status::Succeeded, bound);
    if let Err(why) = write(stream, &reply).await {
        return asked.refuse(why);
    }
    asked.grant();
    tokio::select! {
        () = association.outward() => {}
        () = association.inward(Family::V4) => {}
        () = association.inward(Family::V6) => {}
        () = closed(stream) => {}
    }
}

async fn begin(
    common: &Rc<Common>,
    stream: &TcpStream,
    from: &Target,
) -> Result<(Rc<Association>, Place), Refusal> {
    common.session().await?;
    let place = Place::take(common)?;
    let ends = || Ok::<_, io::Error>((stream.local_addr()?, stream.peer_addr()?));
    let (own, application) = ends().map_err(|_| Refusal::ApplicationGone)?;
    let socket = UdpSocket::bind(SocketAddr::new(own.ip(), 0)).await;
    let socket = socket.and_then(spare);
    let socket = socket.map_err(|_| Refusal::HostExhausted)?;
    // The port that an application says it will send from, if it knows.
    let port = match from {
        Target::Address(from) if from.port() != 0 && from.ip() == application.ip() => {
            Some(from.port())
        }
        Target::Address(_) | Target::Name(..) => None,
    };
    let association = Association {
        common: Rc::clone(common),
        socket,
        application: application.ip(),
        port: RefCell::new(port),
        v4: RefCell::default(),
        v6: RefCell::default(),
        lookups: RefCell::default(),
        opened: tokio::sync::Notify::new(),
    };
    Ok((Rc::new(association), place))
}

/// Resolves when the TCP connection has ended; what comes over it means nothing.
async fn closed(stream: &mut TcpStream) {
    let mut buffer = [0; 256];
    while let Ok(1..) = stream.read(&mut buffer).await {}
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl Association {
    /// Takes what the application sends, for ever.
    async fn outward(self: &Rc<Self>) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            if self.socket.readable().await.is_err() {
                return;
            }
            for _ in 0..TURN_DATAGRAMS {
                let outbox = &self.common.outbox;
                if !outbox.has_room() {
                    outbox.space().await;
                }
                match self.socket.try_recv_from(&mut buffer) {
                    Ok((len, from)) => self.take(from, buffer.get(..len).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // What became of a datagram that was sent to the application.
                    Err(_) => {}
                }
            }
            tokio::task::yield_now().await;
        }
    }

    fn take(self: &Rc<Self>, from: SocketAddr, bytes: &[u8]) {
        let books = &self.common.books;
        let is_ours = from.ip() == self.application
            && self.port.borrow().is_none_or(|port| port == from.port());
        if !is_ours {
            return books.note(Event::DatagramStranger);
        }
        let Ok(Some((header, len))) = wire::datagram(bytes) else {
            return books.note(Event::DatagramRefused);
        };
        self.port.replace(Some(from.port()));
        if header.fragment != 0 {
            return books.note(Event::DatagramFragment);
        }
        let payload = bytes.get(len..).unwrap_or_default();
        match header.target {
            Target::Address(remote) => self.send(remote, payload),
            Target::Name(name, port) => self.look_up(name, port, payload),
        }
    }

    fn send(&self, remote: SocketAddr, payload: &[u8]) {
        let sent = checked(remote).and_then(|remote| {
            let port = self.port_for(remote.ip())?;
            port.send(remote, payload)
        });
        self.common.books.note(match sent {
            Ok(()) => Event::DatagramOut,
            Err(Refusal::HostExhausted) => Event::DatagramDropped,
            Err(_) => Event::DatagramRefused,
        });
    }

    /// Sends when the name's address is known; IPv4 where there is one, as nobody waits for a handshake here.
    fn look_up(self: &Rc<Self>, name: String, port: u16, payload: &[u8]) {
        let mut lookups = self.lookups.borrow_mut();
        while lookups.try_join_next().is_some() {}
        if lookups.len() >= LOOKUPS_MAX {
            return self.common.books.note(Event::DatagramDropped);
        }
        let (association, payload) = (Rc::downgrade(self), payload.to_vec());
        let common = Rc::clone(&self.common);
        lookups.spawn_local(async move {
            let found = dns::resolve(&common, &name).await.unwrap_or_default();
            let first = found.iter().find(|found| found.is_ipv4()).or(found.first());
            match (association.upgrade(), first) {
                (Some(association), Some(address)) => {
                    association.send(SocketAddr::new(*address, port), &payload);
                }
                (_, None) | (None, _) => common.books.note(Event::DatagramRefused),
            }
        });
    }

    fn slot(&self, family: Family) -> &RefCell<Option<Rc<Port>>> {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// The port inside the tunnel, opened when there is none.
    fn port_for(&self, remote: IpAddr) -> Result<Rc<Port>, Refusal> {
        let mut slot = self.slot(Family::of(remote)).borrow_mut();
        if let Some(port) = slot.as_ref() {
            return Ok(Rc::clone(port));
        }
        let port = Rc::new(Port::open(&self.common, remote)?);
        *slot = Some(Rc::clone(&port));
        self.opened.notify_waiters();
        Ok(port)
    }

    /// Passes on what comes back over a family, until the session's address changes.
    async fn inward(&self, family: Family) {
        let port = loop {
            let opened = self.opened.notified();
            if let Some(port) = self.slot(family).borrow().as_ref() {
                break Rc::clone(port);
            }
            opened.await;
        };
        let mut buffer = Vec::new();
        while let Ok(datagram) = port.receive().await {
            self.give(&datagram, &mut buffer);
        }
    }

    fn give(&self, datagram: &Datagram, buffer: &mut Vec<u8>) {
        let Some(port) = *self.port.borrow() else {
            return self.common.books.note(Event::DatagramDropped);
        };
        wire::put_datagram_header(buffer, datagram.from);
        buffer.extend_from_slice(datagram.payload());
        let application = SocketAddr::new(self.application, port);
        let sent = self.socket.try_send_to(buffer, application);
        self.common.books.note(if sent.is_ok() {
            Event::DatagramIn
        } else {
            Event::DatagramDropped
        });
    }
}
