//! TCP flows through the tunnel: the table, and a flow's life.
//!
//! ```text
//! open ─> SYN out ── SYN-ACK ──> Open ── attach(stream) ──> relaying ── both ended, reset, idle, cut ──> gone
//!             └── reset, ICMP error, silence, nobody waits any more ──> gone
//! ```
//!
//! A flow has a task of its own from the SYN to the end, which owns its buffers and its TCP. Whoever asked for it holds an
//! [`Open`]: dropping that ends the flow with a reset, so a race that was lost and an application that went away leave
//! nothing behind.
//!
//! Ports are drawn at random out of all that are not reserved (RFC 6056 §3.3.1): nobody outside can guess which one the next
//! flow will have, and a flow is not mistaken for one that ended a moment ago.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use quell_packet::{FlowKey, protocol};
use quell_stack::{End, Endpoints, Feed, Memory, NotOpened, Patience, Relay, Tcp, buffer_bytes};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

use crate::books::{DropReason, Event, Refusal};
use crate::common::Common;
use crate::inner::Outer;
use crate::listen::Place;
use crate::tunnel::Tunnel;

/// The first port that is not reserved for services.
const PORT_MIN: u16 = 1_024;
/// Ports drawn before the host counts as exhausted; with half of them taken, one flow in 65,536 is refused.
const DRAWS_MAX: usize = 16;

/// What the router and a flow's task share.
pub(crate) struct Flow {
    pub(crate) feed: Feed,
    failure: Cell<Option<Refusal>>,
    failed: Notify,
}

/// All flows.
#[derive(Default)]
pub(crate) struct Flows {
    table: RefCell<HashMap<FlowKey, Rc<Flow>>>,
}

/// A flow whose far end has answered, and whose near end is still to be attached.
pub(crate) struct Open {
    /// Our end of it.
    pub(crate) local: SocketAddr,
    attach: oneshot::Sender<Near>,
}

/// The near end of a flow, and what it has said already.
enum Near {
    Application(TcpStream, Bytes, Rc<Place>),
    Inner(Outer),
}

impl Open {
    /// Gives the flow to an application that has `said` something already.
    pub(crate) fn attach(self, stream: TcpStream, said: Bytes, place: Rc<Place>) {
        let near = Near::Application(stream, said, place);
        // A flow that ended meanwhile is a reset to the application.
        if let Err(Near::Application(stream, ..)) = self.attach.send(near) {
            let _ = stream.set_zero_linger();
        }
    }

    /// Gives the flow to a task of the proxy.
    pub(crate) fn attach_inner(self, outer: Outer) {
        if let Err(Near::Inner(outer)) = self.attach.send(Near::Inner(outer)) {
            quell_stack::HostStream::reset(&outer);
        }
    }
}

impl Flow {
    /// Says that the flow will not come to anything; the first word counts.
    pub(crate) fn fail(&self, why: Refusal) {
        let is_worse = why == Refusal::SessionChanged;
        if is_worse || self.failure.get().is_none() {
            self.failure.set(Some(why));
        }
        self.failed.notify_one();
    }

    async fn failure(&self) -> Refusal {
        loop {
            if let Some(why) = self.failure.get() {
                return why;
            }
            self.failed.notified().await;
        }
    }

    /// Resolves when the flow's address is no longer ours. An ICMP error does not end a flow that stands (RFC 1122
    /// §4.2.3.9): it may pass, and anybody could send it.
    async fn cut(&self) {
        while self.failure.get() != Some(Refusal::SessionChanged) {
            self.failed.notified().await;
        }
    }
}

impl Flows {
    pub(crate) fn find(&self, key: &FlowKey) -> Option<Rc<Flow>> {
        self.table.borrow().get(key).map(Rc::clone)
    }

    /// Ends flows whose address is gone, and tells the others the new MTU.
    pub(crate) fn adapt(&self, tunnel: &Tunnel) {
        for (key, flow) in self.table.borrow().iter() {
            if tunnel.has(key.source) {
                flow.feed.lower_path_mtu(tunnel.mtu());
            } else {
                flow.fail(Refusal::SessionChanged);
            }
        }
    }

    fn draw(&self, own: IpAddr, remote: SocketAddr) -> Option<(FlowKey, SocketAddr)> {
        let table = self.table.borrow();
        (0..DRAWS_MAX).find_map(|_| {
            let port = rand::random_range(PORT_MIN..=u16::MAX);
            let key = FlowKey {
                source: own,
                destination: remote.ip(),
                source_port: port,
                destination_port: remote.port(),
                protocol: protocol::TCP,
            };
            (!table.contains_key(&key)).then_some((key, SocketAddr::new(own, port)))
        })
    }
}

/// Opens a flow to `remote`, through a tunnel that is up.
///
/// # Errors
/// Why it did not open.
pub(crate) async fn open(common: &Rc<Common>, remote: SocketAddr) -> Result<Open, Refusal> {
    let tunnel = *common.tunnel.borrow();
    let own = tunnel.own(remote.ip())?;
    let live = common.flows.table.borrow().len();
    if live >= common.limits.flows_max {
        return Err(Refusal::FlowsFull);
    }
    let drawn = common.flows.draw(own, remote);
    let (key, local) = drawn.ok_or(Refusal::HostExhausted)?;
    let flow = Rc::new(Flow {
        feed: Feed::new(tunnel.mtu()),
        failure: Cell::new(None),
        failed: Notify::new(),
    });
    let entry = Entry::new(common, key, &flow);
    let bytes = buffer_bytes(
        common.limits.tcp_buffer_bytes,
        live,
        common.limits.flows_max,
    );
    let memory = Memory::for_two(bytes).map_err(|_| Refusal::HostExhausted)?;
    let (tell, told) = oneshot::channel();
    let (attach, attached) = oneshot::channel();
    let ends = Endpoints { local, remote };
    let life = Life { flow, ends, memory };
    tokio::task::spawn_local(live_on(entry, life, tell, attached));
    told.await.unwrap_or(Err(Refusal::HostExhausted))?;
    Ok(Open { local, attach })
}

struct Life {
    flow: Rc<Flow>,
    ends: Endpoints,
    memory: Memory,
}

/// A flow's life.
async fn live_on(
    mut entry: Entry,
    life: Life,
    mut tell: oneshot::Sender<Result<(), Refusal>>,
    attached: oneshot::Receiver<Near>,
) {
    let common = Rc::clone(&entry.common);
    let Life {
        flow,
        ends,
        mut memory,
    } = life;
    let form = (ends, flow.feed.path_mtu());
    let Some(mut tcp) = Tcp::connect(&common.outbox, &flow.feed, form, &mut memory) else {
        let _ = tell.send(Err(Refusal::BadDestination));
        return;
    };
    // An error comes with a reset behind it, and says more than that.
    let opened = tokio::select! {
        biased;
        why = flow.failure() => Err(why),
        opened = tcp.opened(common.limits.connect_timeout) => opened.map_err(|why| match why {
            NotOpened::Refused => Refusal::Refused,
            NotOpened::TimedOut => Refusal::TimedOut,
        }),
        () = tell.closed() => return,
    };
    if tell.send(opened).is_err() || opened.is_err() {
        return;
    }
    entry.end = Event::TcpCutOff;
    common.books.note(Event::TcpEstablished);
    let near = tokio::select! {
        near = attached => near,
        () = flow.cut() => return,
    };
    let patience = Patience {
        handshake: common.limits.connect_timeout,
        idle: common.limits.tcp_idle,
        idle_transitory: common.limits.tcp_idle_transitory,
    };
    let relay = async {
        match near {
            Ok(Near::Application(stream, said, _place)) => {
                // What the application says is passed on as it comes. A socket that cannot be told so is slower.
                let _ = stream.set_nodelay(true);
                Relay::new(tcp, stream, said, patience).run().await
            }
            Ok(Near::Inner(outer)) => Relay::new(tcp, outer, Bytes::new(), patience).run().await,
            Err(_) => End::ResetByHost,
        }
    };
    entry.end = tokio::select! {
        end = relay => match end {
            End::Closed => Event::TcpClosed,
            End::ResetByPeer => Event::TcpResetByPeer,
            End::ResetByHost => Event::TcpResetByApplication,
            End::Idle => Event::TcpIdle,
        },
        () = flow.cut() => Event::TcpCutOff,
    };
}

/// A flow's place in the table, held by its task: however the task ends, the place is free again, and what waited for it
/// is counted.
struct Entry {
    common: Rc<Common>,
    key: FlowKey,
    flow: Rc<Flow>,
    end: Event,
}

impl Entry {
    fn new(common: &Rc<Common>, key: FlowKey, flow: &Rc<Flow>) -> Self {
        let mut table = common.flows.table.borrow_mut();
        table.insert(key, Rc::clone(flow));
        common.books.set_flows(table.len());
        common.books.note(Event::TcpOpened);
        Self {
            common: Rc::clone(common),
            key,
            flow: Rc::clone(flow),
            end: Event::TcpNotEstablished,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = self.common.flows.table.borrow_mut();
        table.remove(&self.key);
        let books = &self.common.books;
        books.set_flows(table.len());
        books.drop_many(DropReason::FlowEnded, self.flow.feed.waiting());
        books.note(self.end);
    }
}
