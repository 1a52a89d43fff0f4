//! TCP flows: the table, and how a flow is opened.
//!
//! A flow is keyed by the 5-tuple with the client's inner address, and has a task of its own from the SYN to the end:
//!
//! ```text
//! SYN ─> Connecting ── the outside stands ──> Relaying ── both ended, reset, idle ──> gone
//!             └── refused, unreachable, silent, given up by the client ──> gone
//! ```
//!
//! While it connects, a flow is the SYN, a host socket and a task: the buffers, and a TCP that could answer, are made
//! when there is something to answer for. So the SYN-ACK waits for the outside by construction, and a flood of SYNs is
//! bounded by [`tcp_connecting_max`](super::UserspaceConfig::tcp_connecting_max) small things.
//!
//! When the table is full, the newcomer is refused; a flow that works is never ended for one that may not. Who has no
//! flow is answered with a reset, so that a client whose provider was restarted learns it at once.

mod connect;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use quell_packet::{FlowKey, IpPacket, TcpView};
use quell_stack::{Feed, answer};

use super::books::{DropReason, Event};
use super::errno;
use super::policy::{Asked, Policy, Protocol};
use super::router::Common;

/// What the router and a flow's task share.
struct Flow {
    /// Its packets, once the outside stands.
    feed: Feed,
    /// The SYN to be answered; `None` when the outside stands.
    syn: RefCell<Option<Bytes>>,
    /// The client took its SYN back.
    abandoned: Cell<bool>,
}

type Table = RefCell<HashMap<FlowKey, Rc<Flow>>>;

/// All TCP flows.
pub(super) struct Flows {
    common: Rc<Common>,
    table: Rc<Table>,
    connecting: Rc<Cell<usize>>,
}

impl Flows {
    pub(super) fn new(common: Rc<Common>) -> Self {
        Self {
            common,
            table: Rc::default(),
            connecting: Rc::default(),
        }
    }

    /// Takes a segment: hands it to its flow, or opens one.
    pub(super) fn handle(
        &mut self,
        key: FlowKey,
        packet: Bytes,
        policy: &mut dyn Policy,
    ) -> Result<(), DropReason> {
        let flow = self.table.borrow().get(&key).map(Rc::clone);
        if let Some(flow) = flow {
            return self.feed(&flow, packet);
        }
        let ip = IpPacket::parse(&packet).map_err(|_| DropReason::Malformed)?;
        let tcp = TcpView::parse(ip.payload()).map_err(|_| DropReason::Malformed)?;
        // What smoltcp would not read must not open anything either.
        let is_sound = !tcp.is_fin() && tcp.options().all(|option| option.is_ok());
        if tcp.is_opening() && !is_sound {
            return Err(DropReason::Malformed);
        }
        let refused = if tcp.is_opening() {
            self.open(key, &packet, policy)
        } else {
            Err(DropReason::NoFlow)
        };
        if refused.is_err() {
            answer::reset(&ip, &self.common.outbox);
        }
        refused
    }

    fn feed(&self, flow: &Flow, packet: Bytes) -> Result<(), DropReason> {
        let mut syn = flow.syn.borrow_mut();
        if let Some(waiting) = syn.as_mut() {
            match while_connecting(waiting, &packet)? {
                Meanwhile::Again => *waiting = compact(&packet),
                Meanwhile::TakenBack => {
                    flow.abandoned.set(true);
                    flow.feed.wake();
                }
                Meanwhile::Nothing => {}
            }
            self.common.books.consume(1);
            return Ok(());
        }
        flow.feed.push(packet).map_err(|_| DropReason::QueueFull)
    }

    fn open(
        &mut self,
        key: FlowKey,
        syn: &[u8],
        policy: &mut dyn Policy,
    ) -> Result<(), DropReason> {
        let config = &self.common.config;
        let destination = SocketAddr::new(key.destination, key.destination_port);
        let asked = Asked {
            client: key.source,
            destination,
            protocol: Protocol::Tcp,
        };
        policy.admit(&asked).map_err(|_| DropReason::Denied)?;
        let live = self.table.borrow().len();
        if live >= config.tcp_flows_max {
            return Err(DropReason::FlowsFull);
        }
        if self.connecting.get() >= config.tcp_connecting_max {
            return Err(DropReason::ConnectingFull);
        }
        let source = config.source(destination.ip());
        let socket = connect::socket(destination, source);
        let socket = socket.map_err(|error| errno::why_no_socket(&error))?;
        let flow = Rc::new(Flow {
            feed: Feed::new(config.mtu),
            syn: RefCell::new(Some(compact(syn))),
            abandoned: Cell::new(false),
        });
        let entry = Entry::new(self, key, Rc::clone(&flow));
        tokio::task::spawn_local(connect::serve(entry, flow, socket, destination));
        self.common.books.consume(1);
        self.common.books.note(Event::TcpOpened);
        Ok(())
    }

    /// The path to the client of the flow, if it is one of TCP, takes packets of `mtu` bytes at most.
    pub(super) fn shrink(&self, key: &FlowKey, mtu: u16) {
        if let Some(flow) = self.table.borrow().get(key) {
            flow.feed.lower_path_mtu(mtu);
        }
    }
}

/// What a segment means to a flow that connects.
enum Meanwhile {
    /// Another SYN: the client's TCP is still there, maybe with another number.
    Again,
    /// The client gave up.
    TakenBack,
    /// It is to be ignored, as a host whose SYN-ACK is under way would.
    Nothing,
}

fn while_connecting(syn: &[u8], packet: &[u8]) -> Result<Meanwhile, DropReason> {
    let malformed = |_| DropReason::Malformed;
    let first = IpPacket::parse(syn).map_err(malformed)?;
    let first = TcpView::parse(first.payload()).map_err(malformed)?;
    let ip = IpPacket::parse(packet).map_err(malformed)?;
    let tcp = TcpView::parse(ip.payload()).map_err(malformed)?;
    Ok(if tcp.is_opening() {
        Meanwhile::Again
    } else if tcp.is_rst() && tcp.sequence() == first.sequence().wrapping_add(1) {
        Meanwhile::TakenBack
    } else {
        Meanwhile::Nothing
    })
}

/// A copy that pins nothing of the batch it came with.
fn compact(packet: &[u8]) -> Bytes {
    Bytes::copy_from_slice(packet)
}

/// A flow's place in the table, held by its task: however the task ends, the place is free again, and what waited for it
/// is counted.
struct Entry {
    common: Rc<Common>,
    table: Rc<Table>,
    connecting: Rc<Cell<usize>>,
    is_connecting: bool,
    key: FlowKey,
    flow: Rc<Flow>,
    end: Event,
}

impl Entry {
    fn new(flows: &Flows, key: FlowKey, flow: Rc<Flow>) -> Self {
        flows.table.borrow_mut().insert(key, Rc::clone(&flow));
        flows.connecting.set(flows.connecting.get() + 1);
        let entry = Self {
            common: Rc::clone(&flows.common),
            table: Rc::clone(&flows.table),
            connecting: Rc::clone(&flows.connecting),
            is_connecting: true,
            key,
            flow,
            end: Event::TcpCutOff,
        };
        entry.report();
        entry
    }

    /// How many flows stand already.
    fn established_others(&self) -> usize {
        self.table
            .borrow()
            .len()
            .saturating_sub(self.connecting.get())
    }

    /// The outside stands.
    fn set_established(&mut self) {
        self.leave_connecting();
        self.common.books.note(Event::TcpEstablished);
        self.report();
    }

    fn leave_connecting(&mut self) {
        if std::mem::take(&mut self.is_connecting) {
            self.connecting.set(self.connecting.get().saturating_sub(1));
        }
    }

    fn report(&self) {
        let flows = self.table.borrow().len();
        self.common.books.set_flows(flows, self.connecting.get());
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.table.borrow_mut().remove(&self.key);
        self.leave_connecting();
        let left = self.flow.feed.waiting();
        self.common.books.drop_many(DropReason::FlowEnded, left);
        self.common.books.note(self.end);
        self.report();
    }
}
