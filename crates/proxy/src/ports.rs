//! UDP ports inside the tunnel: what a DNS question and an association speak from.
//!
//! A port is a queue and an address of ours. Whoever opened it takes what comes, from whomever it comes: who may answer is
//! for the holder to say. When the session's address changes, the port is cut off, and its holder learns it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use quell_packet::build::Header;
use quell_packet::{FlowKey, IpPacket, UdpView};
use quell_stack::{Feed, Ledger as _};

use crate::books::{DropReason, Event, Refusal};
use crate::common::Common;
use crate::tunnel::Tunnel;

/// The first port that is not reserved for services.
const PORT_MIN: u16 = 1_024;
/// Ports drawn before the host counts as exhausted.
const DRAWS_MAX: usize = 16;
/// Bytes of the headers of a datagram over each family.
const V4_HEADERS_BYTES: usize = 20 + 8;
const V6_HEADERS_BYTES: usize = 40 + 8;
/// The longest payload of a datagram over IPv4, in bytes.
const V4_PAYLOAD_BYTES_MAX: usize = 65_535 - V4_HEADERS_BYTES;

struct Shared {
    feed: Feed,
    is_cut: Cell<bool>,
}

/// All ports.
#[derive(Default)]
pub(crate) struct Ports {
    table: RefCell<HashMap<SocketAddr, Rc<Shared>>>,
}

/// A datagram that came in.
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    packet: Bytes,
    payload_at: usize,
}

impl Datagram {
    pub(crate) fn payload(&self) -> &[u8] {
        self.packet.get(self.payload_at..).unwrap_or_default()
    }
}

/// An open port.
pub(crate) struct Port {
    common: Rc<Common>,
    local: SocketAddr,
    shared: Rc<Shared>,
}

impl Ports {
    /// Queues a datagram that came for the flow `key`, as we would send it.
    pub(crate) fn feed(&self, key: &FlowKey, packet: Bytes) -> Result<(), DropReason> {
        let local = SocketAddr::new(key.source, key.source_port);
        let table = self.table.borrow();
        let shared = table.get(&local).ok_or(DropReason::NoFlow)?;
        let pushed = shared.feed.push(packet);
        pushed.map_err(|_| DropReason::QueueFull)
    }

    /// Cuts off the ports of addresses that are gone.
    pub(crate) fn adapt(&self, tunnel: &Tunnel) {
        for (local, shared) in self.table.borrow().iter() {
            if !tunnel.has(local.ip()) {
                shared.is_cut.set(true);
                shared.feed.wake();
            }
        }
    }
}

impl Port {
    /// Opens a random port, for remotes of one family (RFC 5452 §9.2: its number is half of what keeps forged DNS answers
    /// out).
    ///
    /// # Errors
    /// [`Refusal::NoSession`], [`Refusal::NoRoute`], [`Refusal::HostExhausted`].
    pub(crate) fn open(common: &Rc<Common>, remote: IpAddr) -> Result<Self, Refusal> {
        let tunnel = *common.tunnel.borrow();
        let own = tunnel.own(remote)?;
        let mut table = common.ports.table.borrow_mut();
        let local = (0..DRAWS_MAX)
            .map(|_| SocketAddr::new(own, rand::random_range(PORT_MIN..=u16::MAX)))
            .find(|local| !table.contains_key(local))
            .ok_or(Refusal::HostExhausted)?;
        let shared = Rc::new(Shared {
            feed: Feed::new(tunnel.mtu()),
            is_cut: Cell::new(false),
        });
        table.insert(local, Rc::clone(&shared));
        Ok(Self {
            common: Rc::clone(common),
            local,
            shared,
        })
    }

    /// Sends a datagram. One over IPv6 must fit the tunnel; over IPv4 the tunnel may cut it up.
    ///
    /// # Errors
    /// [`Refusal::BadDestination`] for one that is too long, or for another family; [`Refusal::HostExhausted`] when there
    /// is no room.
    pub(crate) fn send(&self, remote: SocketAddr, payload: &[u8]) -> Result<(), Refusal> {
        let fits = match (self.local, remote) {
            (SocketAddr::V4(_), SocketAddr::V4(_)) => payload.len() <= V4_PAYLOAD_BYTES_MAX,
            (SocketAddr::V6(_), SocketAddr::V6(_)) => {
                let mtu = usize::from(self.common.tunnel.borrow().mtu());
                payload.len() + V6_HEADERS_BYTES <= mtu
            }
            (SocketAddr::V4(_), SocketAddr::V6(_)) | (SocketAddr::V6(_), SocketAddr::V4(_)) => {
                false
            }
        };
        if !fits {
            return Err(Refusal::BadDestination);
        }
        let header = Header {
            dont_fragment: false,
            identification: self.common.next_identification(),
            ..Header::new(self.local.ip(), remote.ip())
        };
        let packet = header.udp(self.local.port(), remote.port(), payload);
        if self.common.outbox.push(&packet) {
            Ok(())
        } else {
            self.common.books.note(Event::AnswerDropped);
            Err(Refusal::HostExhausted)
        }
    }

    /// The next datagram. Cancelling it loses nothing.
    ///
    /// # Errors
    /// [`Refusal::SessionChanged`]: the port's address is no longer ours.
    pub(crate) async fn receive(&self) -> Result<Datagram, Refusal> {
        loop {
            if self.shared.is_cut.get() {
                return Err(Refusal::SessionChanged);
            }
            if let Some(packet) = self.shared.feed.pop() {
                self.common.books.consumed(1);
                if let Some(datagram) = Datagram::of(packet) {
                    return Ok(datagram);
                }
                continue;
            }
            self.shared.feed.woken().await;
        }
    }
}

impl Datagram {
    fn of(mut packet: Bytes) -> Option<Self> {
        let ip = IpPacket::parse(&packet).ok()?;
        let udp = UdpView::parse(ip.payload()).ok()?;
        let from = SocketAddr::new(ip.source(), udp.source_port());
        let end = ip.header_len() + usize::from(udp.length());
        let payload_at = end - udp.payload().len();
        packet.truncate(end);
        Some(Self {
            from,
            packet,
            payload_at,
        })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.common.ports.table.borrow_mut().remove(&self.local);
        let left = self.shared.feed.waiting();
        self.common.books.drop_many(DropReason::FlowEnded, left);
    }
}
