//! One TCP, whose link is the tunnel: as the end that listens for one SYN, or as the end that connects.
//!
//! A tiny interface and one socket: smoltcp looks at all sockets of an interface for each packet, so a flow has its own, and
//! the 5-tuples are looked up before. Its address is the flow's own, and everybody is on its link.
//!
//! ```text
//! Tcp::listen(SYN) ────────────────────────> the handshake goes on in the relay
//! Tcp::connect ─> SynSent ── SYN-ACK ──────> opened() is Ok
//!                    └── reset ── silence ─> opened() is Err
//! ```
//!
//! A TCP that is dropped before its end resets its peer: whatever ends a flow's task, the peer is not left waiting, and not
//! told that all had been said.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use smoltcp::iface::{
    Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet,
};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration as SmolDuration, Instant as SmolInstant};
use smoltcp::wire::{HardwareAddress, IpCidr};

use crate::feed::Feed;
use crate::link::Link;
use crate::outbox::Outbox;

/// How long an acknowledgement may wait for data to ride on, unless two segments wait for it. Below the 10 ms in which
/// people notice nothing, above the time in which a host on the same network answers.
const ACK_DELAY: SmolDuration = SmolDuration::from_millis(5);

/// The two ends of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoints {
    /// Ours.
    pub local: SocketAddr,
    /// The peer's, at the other end of the tunnel.
    pub remote: SocketAddr,
}

/// Why a flow did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// The peer reset it.
    #[error("the peer refused")]
    Refused,
    /// The peer was silent.
    #[error("the peer did not answer")]
    TimedOut,
}

/// One flow's TCP.
pub struct Tcp<'b> {
    outbox: &'b Outbox,
    feed: &'b Feed,
    interface: Interface,
    sockets: SocketSet<'b>,
    handle: SocketHandle,
    packets: VecDeque<Bytes>,
    mtu: usize,
    epoch: Instant,
    /// Something was heard from the peer.
    pub(crate) heard_at: Instant,
}

impl<'b> Tcp<'b> {
    /// The end that is about to hear `syn`, with the two halves of `memory` as its buffers. `mtu` is the longest packet
    /// it makes, in bytes. `None` for an address that no TCP has.
    #[must_use]
    pub fn listen(
        outbox: &'b Outbox,
        feed: &'b Feed,
        (local, mtu): (SocketAddr, u16),
        syn: Bytes,
        memory: &'b mut [u8],
    ) -> Option<Self> {
        let mut tcp = Self::new(outbox, feed, (local, mtu), memory);
        tcp.socket().listen((local.ip(), local.port())).ok()?;
        tcp.packets.push_back(syn);
        Some(tcp)
    }

    /// The end that connects, with the two halves of `memory` as its buffers. `None` for addresses that no TCP has.
    #[must_use]
    pub fn connect(
        outbox: &'b Outbox,
        feed: &'b Feed,
        (ends, mtu): (Endpoints, u16),
        memory: &'b mut [u8],
    ) -> Option<Self> {
        let mut tcp = Self::new(outbox, feed, (ends.local, mtu), memory);
        let Endpoints { local, remote } = ends;
        let socket = tcp.sockets.get_mut::<Socket<'_>>(tcp.handle);
        let context = tcp.interface.context();
        socket
            .connect(
                context,
                (remote.ip(), remote.port()),
                (local.ip(), local.port()),
            )
            .ok()?;
        Some(tcp)
    }

    fn new(
        outbox: &'b Outbox,
        feed: &'b Feed,
        (local, mtu): (SocketAddr, u16),
        memory: &'b mut [u8],
    ) -> Self {
        let mut packets = VecDeque::new();
        let mtu = usize::from(mtu);
        let mut link = Link {
            inbox: &mut packets,
            outbox,
            mtu,
            path_mtu: mtu,
            is_urgent: false,
        };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed();
        let mut interface = Interface::new(config, &mut link, SmolInstant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list holds two.
            let _ = addresses.push(IpCidr::new(local.ip().into(), 0));
        });
        let (receive, send) = memory.split_at_mut(memory.len() / 2);
        let mut socket = Socket::new(SocketBuffer::new(receive), SocketBuffer::new(send));
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(Some(ACK_DELAY));
        socket.set_congestion_control(CongestionControl::Cubic);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let now = Instant::now();
        Self {
            outbox,
            feed,
            interface,
            sockets,
            handle,
            packets,
            mtu,
            epoch: now,
            heard_at: now,
        }
    }

    /// Resolves when the peer has answered a [`connect`](Self::connect). Cancelling it loses nothing.
    ///
    /// # Errors
    /// [`NotOpened::Refused`]; [`NotOpened::TimedOut`] after `limit`.
    pub async fn opened(&mut self, limit: Duration) -> Result<(), NotOpened> {
        let started = self.epoch;
        let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            let now = Instant::now();
            self.take_packets(now);
            self.send_packets(now);
            match self.socket().state() {
                State::SynSent | State::SynReceived => {}
                State::Closed | State::Listen | State::TimeWait => return Err(NotOpened::Refused),
                State::Established
                | State::FinWait1
                | State::FinWait2
                | State::CloseWait
                | State::Closing
                | State::LastAck => return Ok(()),
            }
            if now.saturating_duration_since(started) >= limit {
                return Err(NotOpened::TimedOut);
            }
            let has_room = self.outbox.has_room();
            let due = self.deadline(has_room, started + limit);
            timer.as_mut().reset(due.into());
            tokio::select! {
                () = self.feed.woken() => {}
                () = self.outbox.space(), if !has_room => {}
                () = timer.as_mut() => {}
            }
        }
    }

    pub(crate) fn socket(&mut self) -> &mut Socket<'b> {
        self.sockets.get_mut(self.handle)
    }

    pub(crate) fn peek(&self) -> &Socket<'b> {
        self.sockets.get(self.handle)
    }

    pub(crate) fn feed(&self) -> &'b Feed {
        self.feed
    }

    pub(crate) fn outbox(&self) -> &'b Outbox {
        self.outbox
    }

    fn link<'a>(
        outbox: &'a Outbox,
        packets: &'a mut VecDeque<Bytes>,
        mtu: usize,
        feed: &Feed,
    ) -> Link<'a> {
        Link {
            inbox: packets,
            outbox,
            mtu,
            path_mtu: usize::from(feed.path_mtu()),
            is_urgent: false,
        }
    }

    /// Gives smoltcp what waits in the flow's queue; whether there was any.
    pub(crate) fn take_packets(&mut self, now: Instant) -> bool {
        let count = self.feed.drain_into(&mut self.packets);
        if self.packets.is_empty() {
            return false;
        }
        self.heard_at = now;
        let at = self.smol(now);
        let mut link = Self::link(self.outbox, &mut self.packets, self.mtu, self.feed);
        while self
            .interface
            .poll_ingress_single(at, &mut link, &mut self.sockets)
            != PollIngressSingleResult::None
        {}
        self.outbox.ledger().consumed(count);
        true
    }

    /// Sends what smoltcp has to say and the outbox has room for.
    pub(crate) fn send_packets(&mut self, now: Instant) {
        let at = self.smol(now);
        let mut link = Self::link(self.outbox, &mut self.packets, self.mtu, self.feed);
        // Asked before each packet: smoltcp stops its timer for a segment that it cannot place, and never sends it again.
        while self.outbox.has_room()
            && self.interface.poll_egress(at, &mut link, &mut self.sockets)
                == PollResult::SocketStateChanged
        {}
    }

    /// Ends it with a reset, which is said even where others wait for room: it has no second chance.
    pub(crate) fn abort(&mut self) {
        self.socket().abort();
        let at = self.smol(Instant::now());
        let mut link = Self::link(self.outbox, &mut self.packets, self.mtu, self.feed);
        link.is_urgent = true;
        self.interface.poll_egress(at, &mut link, &mut self.sockets);
    }

    /// When to look again though nothing happened, `latest` at the latest. Whether the outbox `has_room` is asked once for
    /// this and for what is waited for: another thread empties the channel, and who waited for the timer because there was
    /// no room, and not for room because there was, would wait for ever.
    pub(crate) fn deadline(&mut self, has_room: bool, latest: Instant) -> Instant {
        if !has_room {
            // smoltcp would say "at once" for what it cannot send.
            return latest;
        }
        let now = self.smol(Instant::now());
        match self.interface.poll_at(now, &self.sockets) {
            Some(at) => {
                latest.min(self.epoch + Duration::from_micros(at.total_micros().max(0) as u64))
            }
            None => latest,
        }
    }

    fn smol(&self, now: Instant) -> SmolInstant {
        let elapsed = now.saturating_duration_since(self.epoch);
        SmolInstant::from_micros(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Drop for Tcp<'_> {
    fn drop(&mut self) {
        match self.socket().state() {
            State::Closed | State::Listen | State::TimeWait => {}
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => {
                self.abort();
            }
        }
    }
}

/// What smoltcp draws its initial sequence numbers from: unguessable for whoever is outside of the tunnel.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};

    // Each has keys of its own, out of the system's generator.
    RandomState::new().hash_one(())
}
