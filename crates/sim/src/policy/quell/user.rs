//! A user's TCP in front of a client: one connection for each flow, and what waits for it.
//!
//! ```text
//! Closed --an item--> Opening --SYN-ACK--> Open --RST--> Opening: another port
//!                       └─ a SYN at once, then after 1, 2, 4 … s each; seven, then another port
//! ```
//!
//! A reset is an honest word: what the far side has not acknowledged until then may not have come. It goes again over the
//! next connection, first and in its order, as an application does that is told so; what the far side has does not.
//! A segment that the client dropped as it came, with its counter (no session is up: "no_tunnel"), was never accepted. A
//! user's TCP sends it again after its timeout; here it does at the next occasion.
//!
//! The far side's acknowledgement is told by the world, at once, and so is decided when the next connection stands: a copy of
//! the old one that is under way for longer than a whole handshake of the new one does not happen here. What is lost
//! without a reset is not sent again: a tunnel that loses in silence is to be seen.
//!
//! Items wait here until the connection stands, and while the client wants no more. The far end answers SYNs and nothing
//! else: acknowledgements of TCP's own are left out, as they are for every policy. An item's number is the sequence number
//! of its segment, its flow the acknowledgement number, so that the shortest segment can bear it.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_packet::build::{self, Segment};
use quell_packet::tcp::flags;

use super::DESTINATION;
use super::frames::ITEM_MARK;
use crate::fleet::node::{Item, Kind};

/// SYNs of one attempt (RFC 6298 §5.7, and the count of Linux).
const SYNS_MAX: u8 = 7;
/// Wait before another attempt, where one was refused.
const REFUSED_WAIT: Duration = Duration::from_secs(1);
/// Least and most bytes of headers of a segment and of a datagram.
const TCP_HEADERS: usize = 40;
const UDP_HEADERS: usize = 28;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// SYNs sent, and when the next one is due.
    Opening(u8, Instant),
    Open,
}

/// One flow of a user.
#[derive(Debug)]
pub(super) struct User {
    flow: u16,
    pub(super) port: u16,
    state: State,
    waiting: VecDeque<Item>,
    /// Handed over on this connection, and not acknowledged by the far side.
    unacked: VecDeque<Item>,
    /// The same of connections that were reset: to go before all that waits.
    again: VecDeque<Item>,
    sent_again: u64,
    /// The exit that its SYN went over first.
    pub(super) first_exit: Option<u16>,
}

impl User {
    pub(super) fn new(flow: u16) -> Self {
        Self {
            flow,
            port: 0,
            state: State::Closed,
            waiting: VecDeque::new(),
            unacked: VecDeque::new(),
            again: VecDeque::new(),
            sent_again: 0,
            first_exit: None,
        }
    }

    pub(super) fn offer(&mut self, item: Item) {
        self.waiting.push_back(item);
    }

    pub(super) fn waiting(&self) -> usize {
        self.again.len() + self.waiting.len()
    }

    /// Items that went again after a reset.
    pub(super) fn sent_again(&self) -> u64 {
        self.sent_again
    }

    /// Whether nothing waits and nothing is due: until there is an item, or a word of the far end.
    pub(super) fn rests(&self) -> bool {
        self.waiting() == 0 && !matches!(self.state, State::Opening(..))
    }

    /// The client did not take the last packet: whether it waits here again. What is no TCP does not.
    pub(super) fn take_back(&mut self) -> bool {
        let item = self.unacked.pop_back();
        let is_some = item.is_some();
        item.into_iter()
            .for_each(|item| self.again.push_front(item));
        is_some
    }

    /// The far side acknowledged this one.
    pub(super) fn on_far_has(&mut self, number: u32) {
        for list in [&mut self.unacked, &mut self.again] {
            // Mostly the first.
            if let Some(place) = list.iter().position(|item| item.number == number) {
                list.remove(place);
                return;
            }
        }
    }

    /// Begins to connect, if there is a reason to.
    pub(super) fn open(&mut self, next_port: &mut u16, now: Instant) {
        let is_tcp = |item: &Item| item.kind == Kind::Tcp;
        if self.state == State::Closed && self.front().is_some_and(is_tcp) {
            self.begin(next_port, now);
        }
    }

    fn front(&self) -> Option<&Item> {
        self.again.front().or_else(|| self.waiting.front())
    }

    fn begin(&mut self, next_port: &mut u16, at: Instant) {
        self.port = *next_port;
        *next_port = next_port.checked_add(1).unwrap_or(FIRST_PORT);
        self.first_exit = None;
        self.state = State::Opening(0, at);
    }

    /// When it looks at its clock.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Opening(_, at) => Some(at),
            State::Closed | State::Open => None,
        }
    }

    /// A SYN that is due.
    pub(super) fn poll_syn(
        &mut self,
        own: Ipv4Addr,
        next_port: &mut u16,
        now: Instant,
    ) -> Option<Bytes> {
        let State::Opening(syns, at) = self.state else {
            return None;
        };
        if at > now {
            return None;
        }
        if syns >= SYNS_MAX {
            self.begin(next_port, now);
            return self.poll_syn(own, next_port, now);
        }
        self.state = State::Opening(syns + 1, now + Duration::from_secs(1 << syns));
        let (source, destination) = self.ends(own);
        let segment = Segment {
            sequence: 1,
            flags: flags::SYN,
            window: 65_535,
            ..Segment::default()
        };
        Some(build::tcp(source, destination, &segment, &[]).into())
    }

    fn ends(&self, own: Ipv4Addr) -> (SocketAddr, SocketAddr) {
        let (address, port) = DESTINATION;
        let source = SocketAddr::new(own.into(), self.port);
        (source, SocketAddr::new(address, port))
    }

    /// The far end answered the SYN: what says that it was heard.
    pub(super) fn on_syn_ack(&mut self, sequence: u32, own: Ipv4Addr) -> Option<Bytes> {
        if !matches!(self.state, State::Opening(1.., _)) {
            return None;
        }
        self.state = State::Open;
        let (source, destination) = self.ends(own);
        let segment = Segment {
            sequence: 2,
            acknowledgement: sequence.wrapping_add(1),
            flags: flags::ACK,
            window: 65_535,
            options: &[],
        };
        Some(build::tcp(source, destination, &segment, &[]).into())
    }

    /// The connection was reset or refused. Another one is opened: at once where this one stood.
    pub(super) fn on_reset(&mut self, next_port: &mut u16, now: Instant) {
        let wait = match self.state {
            State::Open => Duration::ZERO,
            State::Opening(..) => REFUSED_WAIT,
            State::Closed => return,
        };
        self.sent_again += self.unacked.len() as u64;
        while let Some(item) = self.unacked.pop_back() {
            self.again.push_front(item);
        }
        self.begin(next_port, now + wait);
    }

    /// The next packet of an item that may leave.
    pub(super) fn poll_packet(&mut self, own: Ipv4Addr) -> Option<Bytes> {
        let front = self.front()?;
        if front.kind == Kind::Tcp && self.state != State::Open {
            return None;
        }
        let item = match self.again.pop_front() {
            Some(item) => item,
            None => self.waiting.pop_front()?,
        };
        if item.kind == Kind::Tcp {
            self.unacked.push_back(item);
        }
        if self.waiting.is_empty() && self.waiting.capacity() > 64 {
            self.waiting = VecDeque::new();
        }
        let (source, destination) = self.ends(own);
        Some(packet_of(&item, self.flow, source, destination))
    }
}

/// The first port that users take.
pub(super) const FIRST_PORT: u16 = 10_000;

/// The packet of an item.
pub(super) fn packet_of(
    item: &Item,
    flow: u16,
    source: SocketAddr,
    destination: SocketAddr,
) -> Bytes {
    let len = usize::from(item.len_bytes);
    match item.kind {
        Kind::Tcp => {
            let segment = Segment {
                sequence: item.number,
                acknowledgement: ITEM_MARK | u32::from(flow),
                flags: flags::ACK | flags::PSH,
                window: 65_535,
                options: &[],
            };
            let data = vec![0; len.saturating_sub(TCP_HEADERS)];
            build::tcp(source, destination, &segment, &data).into()
        }
        Kind::Udp => {
            let mut data = vec![0; len.saturating_sub(UDP_HEADERS).max(6)];
            let number = item.number.to_be_bytes().into_iter();
            let numbers = number.chain(flow.to_be_bytes());
            data.iter_mut()
                .zip(numbers)
                .for_each(|(to, from)| *to = from);
            build::udp(source, destination, &data).into()
        }
    }
}
