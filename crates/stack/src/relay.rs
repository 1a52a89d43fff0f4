//! Between the two ends of one flow: bytes, ends and resets, both ways.
//!
//! ```text
//! tunnel ─> feed ─> smoltcp's receive buffer ─> try_write ─> host stream
//! tunnel <─ outbox <─ smoltcp's send buffer  <─ try_read  <─ host stream
//! ```
//!
//! A turn takes the packets that wait, moves bytes until one side is full or empty, and sends what smoltcp has to say.
//! Back-pressure is the two buffers: while the receive buffer is full the peer sees its window shut, and while the send
//! buffer is full nothing is read, so the host's far end sees the host's window shut.
//!
//! Ends: a FIN from the peer, once all before it went out, shuts the host stream's writing half; the end of what the host
//! sends closes smoltcp's. The flow is over when both went through and were acknowledged. A reset on one side is a reset
//! on the other. Time-wait is not waited out here: a last FIN that comes again is answered with a reset, which its sender,
//! having said and heard everything, does not show its application.

use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use bytes::Bytes;
use smoltcp::socket::tcp::State;
use tokio::io::Interest;
use tokio::time::Sleep;

use crate::host::{Host, HostStream};
use crate::tcp::Tcp;

/// How long a flow may carry nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the peer's last step of a handshake that we answered.
    pub handshake: Duration,
    /// For a flow that stands.
    pub idle: Duration,
    /// For one of which a direction has ended, and one whose peer is silent while data waits for it.
    pub idle_transitory: Duration,
}

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both directions ended in order.
    Closed,
    /// The peer at the other end of the tunnel reset it.
    ResetByPeer,
    /// The host's side reset it.
    ResetByHost,
    /// It carried nothing for too long.
    Idle,
}

/// One flow with both of its ends.
pub struct Relay<'b, S: HostStream> {
    tcp: Tcp<'b>,
    host: Host<S>,
    patience: Patience,
    /// Something was heard from the peer, or passed on either way.
    active_at: Instant,
}

/// What a turn did.
enum Turn {
    /// More can be done at once.
    More,
    /// Something has to happen first.
    Wait,
    /// The flow is over.
    Over(End),
}

impl<'b, S: HostStream> Relay<'b, S> {
    /// Joins the two. `said` is what the host's side has sent already, and goes first.
    pub fn new(tcp: Tcp<'b>, stream: S, said: Bytes, patience: Patience) -> Self {
        Self {
            active_at: tcp.heard_at,
            tcp,
            host: Host::new(stream, said),
            patience,
        }
    }

    /// Relays until the flow is over, and says how it ended. Dropped before, it resets both sides.
    pub async fn run(mut self) -> End {
        let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
        let mut armed = None;
        loop {
            match self.turn() {
                Turn::Over(end) => return end,
                Turn::More => tokio::task::yield_now().await,
                Turn::Wait => {
                    let (has_room, idle_at) = (self.tcp.outbox().has_room(), self.idle_at());
                    let deadline = self.tcp.deadline(has_room, idle_at);
                    if armed != Some(deadline) {
                        timer.as_mut().reset(deadline.into());
                        armed = Some(deadline);
                    }
                    self.wait(has_room, timer.as_mut()).await;
                }
            }
        }
    }

    /// Returns when something may have changed.
    async fn wait(&mut self, has_room: bool, timer: Pin<&mut Sleep>) {
        let wants_read = self.host.wants_read(self.tcp.peek());
        let wants_write = self.host.write_blocked && self.tcp.peek().can_recv();
        let interest = match (wants_read, wants_write) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        };
        let outbox = self.tcp.outbox();
        tokio::select! {
            () = self.tcp.feed().woken() => {}
            // What it says shows in the next read or write.
            _ = self.host.stream.ready(interest.unwrap_or(Interest::READABLE)), if interest.is_some() => {}
            () = outbox.space(), if !has_room => {}
            () = timer => {}
        }
    }

    fn turn(&mut self) -> Turn {
        let now = Instant::now();
        if self.tcp.take_packets(now) {
            self.active_at = now;
        }
        let moved = match self.move_bytes() {
            Ok(moved) => moved,
            Err(_) => {
                let end = self.over().unwrap_or(End::ResetByHost);
                return self.abort(end);
            }
        };
        if moved {
            self.active_at = now;
        }
        self.tcp.send_packets(now);
        if let Some(end) = self.over() {
            return Turn::Over(end);
        }
        if now >= self.idle_at() {
            return self.abort(End::Idle);
        }
        let more = moved || self.tcp.feed().waiting() > 0;
        if more { Turn::More } else { Turn::Wait }
    }

    /// Ends the flow on our own account: the peer is reset, and by `Host` the host's side.
    fn abort(&mut self, end: End) -> Turn {
        self.tcp.abort();
        Turn::Over(end)
    }

    /// Whether the flow is over, and how that is to be called.
    fn over(&self) -> Option<End> {
        let ended = self.host.has_ended();
        match self.tcp.peek().state() {
            State::Closed | State::TimeWait if ended => Some(End::Closed),
            State::Closed | State::Listen => Some(End::ResetByPeer),
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

    /// Moves bytes both ways as far as it goes without waiting; whether there was any, or an end.
    fn move_bytes(&mut self) -> io::Result<bool> {
        let socket = self.tcp.socket();
        let outward = self.host.write_from(socket)?;
        let inward = if self.host.wants_read(socket) {
            self.host.read_into(socket)?
        } else {
            false
        };
        Ok(outward || inward)
    }

    fn idle_at(&self) -> Instant {
        let patience = &self.patience;
        let socket = self.tcp.peek();
        if socket.state() == State::SynReceived {
            self.tcp.heard_at + patience.handshake
        } else if socket.send_queue() > 0 {
            self.tcp.heard_at + patience.idle_transitory
        } else if self.host.read_ended || self.host.write_ended {
            self.active_at + patience.idle_transitory
        } else {
            self.active_at + patience.idle
        }
    }
}
