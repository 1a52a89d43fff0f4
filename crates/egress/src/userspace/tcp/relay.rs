//! Between the two TCPs of one flow: bytes, ends and resets, both ways.
//!
//! ```text
//! client ─> queue ─> smoltcp's receive buffer ─> try_write ─> host socket
//! client <─ outbox <─ smoltcp's send buffer   <─ try_read  <─ host socket
//! ```
//!
//! A turn takes the packets that wait, moves bytes until one side is full or empty, and sends what smoltcp has to say.
//! Back-pressure is the two buffers: while the receive buffer is full the client sees its window shut, and while the send
//! buffer is full nothing is read, so the far end sees the host's window shut.
//!
//! Ends: a FIN from the client, once all before it went out, shuts the host socket's writing half; the end of what the
//! outside sends closes smoltcp's. The flow is over when both went through and were acknowledged. A reset on one side is
//! a reset on the other. Time-wait is not waited out here: a last FIN that comes again is answered with a reset, which its
//! sender, having said and heard everything, does not show its application.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_packet::FlowKey;
use smoltcp::iface::{
    Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet,
};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration as SmolDuration, Instant as SmolInstant};
use smoltcp::wire::{HardwareAddress, IpCidr};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::super::books::Event;
use super::super::router::Common;
use super::Flow;
use super::device::Link;
use super::outside::Outside;

/// How long an acknowledgement may wait for data to ride on, unless two segments wait for it. Below the 10 ms in which
/// people notice nothing, above the time in which a host on the same network answers.
const ACK_DELAY: SmolDuration = SmolDuration::from_millis(5);

/// One flow whose outside connection stands.
pub(super) struct Relay<'b> {
    common: Rc<Common>,
    interface: Interface,
    sockets: SocketSet<'b>,
    handle: SocketHandle,
    packets: VecDeque<Bytes>,
    outside: Outside,
    mtu: usize,
    epoch: Instant,
    /// Something was heard from the client, or passed on either way.
    active_at: Instant,
    /// Something was heard from the client.
    heard_at: Instant,
}

/// What a turn did.
enum Turn {
    /// More can be done at once.
    More,
    /// Something has to happen first.
    Wait,
    /// The flow is over.
    Over(Event),
}

impl<'b> Relay<'b> {
    /// Makes the client's end of a flow, as a listener that is about to hear `syn`, with two halves of `memory` as its
    /// buffers. `None` for a key that no TCP has.
    pub(super) fn new(
        common: &Rc<Common>,
        key: &FlowKey,
        syn: Bytes,
        stream: TcpStream,
        memory: &'b mut [u8],
    ) -> Option<Self> {
        let mtu = usize::from(common.config.mtu);
        let mut packets = VecDeque::from([syn]);
        let mut link = Link {
            inbox: &mut packets,
            outbox: &common.outbox,
            books: &common.books,
            mtu,
            path_mtu: mtu,
        };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed();
        let mut interface = Interface::new(config, &mut link, SmolInstant::ZERO);
        // The far end's address is ours here, and everybody is on its link.
        interface.update_ip_addrs(|addresses| {
            // The list holds two.
            let _ = addresses.push(IpCidr::new(key.destination.into(), 0));
        });
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let (receive, send) = memory.split_at_mut(memory.len() / 2);
        let mut socket = Socket::new(SocketBuffer::new(receive), SocketBuffer::new(send));
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(Some(ACK_DELAY));
        socket.set_congestion_control(CongestionControl::Cubic);
        let address: IpAddr = key.destination;
        socket.listen((address, key.destination_port)).ok()?;
        let handle = sockets.add(socket);
        let now = Instant::now();
        Some(Self {
            common: Rc::clone(common),
            interface,
            sockets,
            handle,
            packets,
            outside: Outside::new(stream),
            mtu,
            epoch: now,
            active_at: now,
            heard_at: now,
        })
    }

    /// Relays until the flow is over, and says how it ended.
    pub(super) async fn run(mut self, flow: &Flow) -> Event {
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        let mut armed = None;
        loop {
            match self.turn(flow) {
                Turn::Over(end) => return end,
                Turn::More => tokio::task::yield_now().await,
                Turn::Wait => {
                    // Asked once: the channel is emptied by another thread, and whoever waited for the timer because there
                    // was no room, and not for room because there was, would wait for ever.
                    let has_room = self.common.outbox.has_room();
                    let deadline = self.deadline(has_room);
                    if armed != Some(deadline) {
                        timer.as_mut().reset(deadline.into());
                        armed = Some(deadline);
                    }
                    self.wait(flow, has_room, timer.as_mut()).await;
                }
            }
        }
    }

    /// Returns when something may have changed.
    async fn wait(
        &mut self,
        flow: &Flow,
        has_room: bool,
        timer: std::pin::Pin<&mut tokio::time::Sleep>,
    ) {
        let wants_read = self.wants_read();
        let socket = self.sockets.get::<Socket<'_>>(self.handle);
        let wants_write = self.outside.write_blocked && socket.can_recv();
        let interest = match (wants_read, wants_write) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        };
        let outbox = &self.common.outbox;
        tokio::select! {
            () = flow.wake.notified() => {}
            // What it says shows in the next read or write.
            _ = self.outside.stream.ready(interest.unwrap_or(Interest::READABLE)), if interest.is_some() => {}
            () = outbox.space(), if !has_room => {}
            () = timer => {}
        }
    }

    fn turn(&mut self, flow: &Flow) -> Turn {
        let now = Instant::now();
        self.take_packets(flow, now);
        let moved = match self.move_bytes() {
            Ok(moved) => moved,
            Err(_) => {
                let end = self.over().unwrap_or(Event::TcpResetOutside);
                return self.abort(flow, end);
            }
        };
        if moved {
            self.active_at = now;
        }
        self.send_packets(flow, now);
        if let Some(end) = self.over() {
            return Turn::Over(end);
        }
        if now >= self.idle_at() {
            return self.abort(flow, Event::TcpIdle);
        }
        let more = moved || !flow.queue.borrow().is_empty();
        if more { Turn::More } else { Turn::Wait }
    }

    /// Ends the flow on our own account: the client is reset, and by `Outside` the far end.
    fn abort(&mut self, flow: &Flow, end: Event) -> Turn {
        self.socket().abort();
        self.send_packets(flow, Instant::now());
        Turn::Over(end)
    }

    /// Whether the flow is over, and how that is to be called.
    fn over(&self) -> Option<Event> {
        let ended = self.outside.has_ended();
        match self.sockets.get::<Socket<'_>>(self.handle).state() {
            State::Closed | State::TimeWait if ended => Some(Event::TcpClosed),
            State::Closed | State::Listen => Some(Event::TcpResetByClient),
            State::TimeWait
            | State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => None,
        }
    }

    fn socket(&mut self) -> &mut Socket<'b> {
        self.sockets.get_mut(self.handle)
    }

    fn link<'a>(
        common: &'a Common,
        packets: &'a mut VecDeque<Bytes>,
        mtu: usize,
        flow: &Flow,
    ) -> Link<'a> {
        Link {
            inbox: packets,
            outbox: &common.outbox,
            books: &common.books,
            mtu,
            path_mtu: usize::from(flow.path_mtu.get()),
        }
    }

    /// Gives smoltcp what waits in the flow's queue.
    fn take_packets(&mut self, flow: &Flow, now: Instant) {
        let count = {
            let mut queue = flow.queue.borrow_mut();
            let count = queue.len();
            self.packets.extend(queue.drain(..));
            count
        };
        if self.packets.is_empty() {
            return;
        }
        (self.active_at, self.heard_at) = (now, now);
        let at = self.smol(now);
        let mut link = Self::link(&self.common, &mut self.packets, self.mtu, flow);
        while self
            .interface
            .poll_ingress_single(at, &mut link, &mut self.sockets)
            != PollIngressSingleResult::None
        {}
        self.common.books.consume(count);
    }

    /// Sends what smoltcp has to say and the outbox has room for.
    fn send_packets(&mut self, flow: &Flow, now: Instant) {
        let at = self.smol(now);
        let mut link = Self::link(&self.common, &mut self.packets, self.mtu, flow);
        // Asked before each packet: smoltcp stops its timer for a segment that it cannot place, and never sends it again.
        while self.common.outbox.has_room()
            && self.interface.poll_egress(at, &mut link, &mut self.sockets)
                == PollResult::SocketStateChanged
        {}
    }

    /// Moves bytes both ways as far as it goes without waiting; whether there was any, or an end.
    fn move_bytes(&mut self) -> io::Result<bool> {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
        let outward = self.outside.write_from(socket)?;
        let inward = if self.outside.wants_read(socket) {
            self.outside.read_into(socket)?
        } else {
            false
        };
        Ok(outward || inward)
    }

    fn wants_read(&self) -> bool {
        self.outside.wants_read(self.sockets.get(self.handle))
    }

    /// When to look again though nothing happened.
    fn deadline(&mut self, has_room: bool) -> Instant {
        let now = self.smol(Instant::now());
        let idle_at = self.idle_at();
        if !has_room {
            // smoltcp would say "at once" for what it cannot send.
            return idle_at;
        }
        match self.interface.poll_at(now, &self.sockets) {
            Some(at) => {
                idle_at.min(self.epoch + Duration::from_micros(at.total_micros().max(0) as u64))
            }
            None => idle_at,
        }
    }

    fn idle_at(&self) -> Instant {
        let config = &self.common.config;
        let socket = self.sockets.get::<Socket<'_>>(self.handle);
        if socket.state() == State::SynReceived {
            // The client's own handshake: as long as we waited for the outside's.
            self.heard_at + config.tcp_connect_timeout
        } else if socket.send_queue() > 0 {
            self.heard_at + config.tcp_idle_transitory
        } else if self.outside.read_ended || self.outside.write_ended {
            self.active_at + config.tcp_idle_transitory
        } else {
            self.active_at + config.tcp_idle
        }
    }

    fn smol(&self, now: Instant) -> SmolInstant {
        let elapsed = now.saturating_duration_since(self.epoch);
        SmolInstant::from_micros(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
    }
}

/// What smoltcp draws its initial sequence numbers from: unguessable for whoever is outside of the tunnel.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};

    // Each has keys of its own, out of the system's generator.
    RandomState::new().hash_one(())
}
