//! A user's TCP that opens a connection: its SYNs, and what it hears.
//!
//! Its clock is that of common systems: a SYN at once, then after 1, 2, 4 … s each,
//! six repetitions in all (RFC 6298 §5.7, and the count of Linux).

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_packet::{FlowKey, IpPacket, TcpView, protocol};

use super::outside::{ACK, RST, SYN, segment};
use super::{Event, World};

/// SYNs in all.
const SYNS_MAX: u32 = 7;

/// A connection that is opened.
#[derive(Debug)]
pub struct Connecting {
    key: FlowKey,
    sequence: u32,
    started: Instant,
    /// SYNs sent.
    pub syns: u32,
    /// When the answer came.
    pub connected_after: Option<Duration>,
    /// When it was refused or reset.
    pub reset_after: Option<Duration>,
}

impl Connecting {
    pub(super) fn new(own: Ipv4Addr, destination: Ipv4Addr, port: u16, now: Instant) -> Self {
        Self {
            key: FlowKey {
                source: own.into(),
                destination: destination.into(),
                protocol: protocol::TCP,
                source_port: port,
                destination_port: 443,
            },
            sequence: u32::from(port) * 1_000,
            started: now,
            syns: 0,
            connected_after: None,
            reset_after: None,
        }
    }

    /// Whether more SYNs may come.
    pub(super) fn is_asking(&self) -> bool {
        self.is_waiting() && self.syns < SYNS_MAX
    }

    fn is_waiting(&self) -> bool {
        self.connected_after.is_none() && self.reset_after.is_none()
    }
}

impl World {
    /// The user's clock.
    pub(super) fn tick_user(&mut self, number: usize) {
        // It may have been forgotten.
        let Some(user) = self.users.get_mut(number).filter(|user| user.is_asking()) else {
            return;
        };
        user.syns += 1;
        let wait = Duration::from_secs(1 << (user.syns - 1));
        let packet = segment(user.key, user.sequence, 0, SYN);
        self.at(wait, 0, Event::User(number));
        self.client.handle_packet(packet, self.now);
    }

    /// The TUN got something: whose is it?
    pub(super) fn hear(&mut self, packet: &Bytes) {
        let Ok(view) = IpPacket::parse(packet) else {
            return;
        };
        let Ok(tcp) = TcpView::parse(view.payload()) else {
            return;
        };
        assert!(
            matches!(view.destination(), IpAddr::V4(own) if own == self.own()),
            "{}",
            self.says("a packet for an address that the TUN does not have")
        );
        let key = FlowKey::of(&view).reversed();
        let now = self.now;
        let Some(user) = self.users.iter_mut().rev().find(|user| user.key == key) else {
            return;
        };
        let after = now - user.started;
        if tcp.is_rst() {
            user.reset_after.get_or_insert(after);
        } else if tcp.is_syn() && tcp.is_ack() && user.is_waiting() {
            assert_eq!(tcp.acknowledgement(), user.sequence.wrapping_add(1));
            user.connected_after = Some(after);
            let acked = tcp.sequence().wrapping_add(1);
            let packet = segment(key, user.sequence.wrapping_add(1), acked, ACK);
            self.client.handle_packet(packet, now);
        }
    }

    /// A user's connection sends a segment of `len` bytes.
    ///
    /// # Panics
    /// When it is not connected.
    pub fn speak(&mut self, number: usize) {
        let user = &self.users[number];
        assert!(user.connected_after.is_some(), "not connected");
        let packet = segment(user.key, user.sequence.wrapping_add(1), 9_001, ACK);
        self.client.handle_packet(packet, self.now);
        self.settle();
    }

    /// A user gives up on a connection: its system sends a reset.
    pub fn abort(&mut self, number: usize) {
        let user = &mut self.users[number];
        user.reset_after.get_or_insert(self.now - user.started);
        let packet = segment(user.key, user.sequence.wrapping_add(1), 0, RST);
        self.client.handle_packet(packet, self.now);
        self.settle();
    }
}

/// What a test lets destinations say of their own accord.
impl World {
    /// The destination of a user's connection answers behind one exit.
    pub fn answer(&mut self, exit: usize, number: usize) {
        self.say(exit, number, SYN | ACK);
    }

    /// The destination of a user's connection refuses behind one exit.
    pub fn refuse(&mut self, exit: usize, number: usize) {
        self.say(exit, number, RST | ACK);
    }

    fn say(&mut self, exit: usize, number: usize, flags: u8) {
        let user = &self.users[number];
        let acked = user.sequence.wrapping_add(1);
        // Each exit knows the client by an address of its own.
        let Some(outside) = self.outside_address(exit) else {
            return;
        };
        let key = FlowKey {
            source: outside,
            ..user.key
        };
        let packet = segment(key.reversed(), 9_000, acked, flags);
        self.at(Duration::ZERO, 0, Event::Inwards(exit, packet));
    }

    fn outside_address(&self, exit: usize) -> Option<IpAddr> {
        let addresses = self.status().exits.get(exit)?.addresses?;
        addresses.ipv4.map(|(address, _)| address.into())
    }

    /// Copies of a user's SYN that wait for an answer.
    #[must_use]
    pub fn live_copies(&self, number: usize) -> usize {
        self.client.live_copies(&self.users[number].key)
    }
}
