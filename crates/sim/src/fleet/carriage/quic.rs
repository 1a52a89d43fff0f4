//! A connection by a real QUIC, quinn-proto, in virtual time: the truth that the model is held against.
//!
//! Both ends are here, each with an endpoint of its own, and what the world carries between them are the datagrams that
//! would be on the wire, encrypted and all. Handshake, acknowledgements, probes and their backoff, pacing, discovery of
//! the size, the idle time and stateless resets are quinn-proto's; nothing of that is repeated here. It costs some
//! hundred kilobytes a connection and a handshake's cryptography a dial: for a few clients, not for a fleet.
//!
//! The settings are the caller's ([`QuicSettings`]), so that they are those of production: this crate does not know the
//! driver.
//!
//! # Determinism
//! Each endpoint's generator is seeded by the settings' seed, the number of the dial and the side. What remains random
//! (keys, connection IDs, the tokens in them) has a fixed length, so that lengths and times are those of the seed, and
//! the bytes themselves are not.

mod coder;
mod end;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quell_core::path::CarrierFacts;
use quinn_proto::{ClientConfig, EndpointConfig, ServerConfig};

pub use coder::{Coder, Table, Verbatim};
use end::{End, Told};
pub use end::{Grant, QuicUdp};

use super::{Carriage, CarriageEvent, Carriages, Side};
use crate::fleet::node::Ended;

/// How QUIC behaves at both ends.
#[derive(Clone)]
pub struct QuicSettings {
    /// The client's endpoint.
    pub client_endpoint: Arc<EndpointConfig>,
    /// How it connects.
    pub client: ClientConfig,
    /// The provider's endpoint. Its key of stateless resets outlives the provider's process.
    pub server_endpoint: Arc<EndpointConfig>,
    /// How it takes connections.
    pub server: Arc<ServerConfig>,
    /// What opens the window of the settings' congestion controller.
    pub grant: Grant,
    /// UDP datagrams handed to the system at a time, at least 1. More save calls, and pad up to 16 bytes a datagram.
    pub segments_max: usize,
    /// What lengths and times may depend on.
    pub seed: u64,
}

/// What makes connections of a real QUIC, whose units become bytes by clones of a [`Coder`].
#[derive(Clone)]
pub struct QuicCarriages<C> {
    settings: QuicSettings,
    coder: C,
}

impl<C> QuicCarriages<C> {
    /// Connections of these settings. `coder` is cloned for each direction of each.
    pub fn new(settings: QuicSettings, coder: C) -> Self {
        Self { settings, coder }
    }
}

impl<U, C: Coder<U> + Clone> Carriages<U> for QuicCarriages<C> {
    type Carriage = QuicCarriage<U, C>;

    fn dial(&mut self, number: u64, now: Instant) -> QuicCarriage<U, C> {
        let settings = self.settings.clone();
        let mut client = end_of(&settings, Side::Client, number);
        let mut told = None;
        if client.dial(settings.client.clone(), now).is_err() {
            client.kill();
            told = Some(Ended::Broken);
        }
        let server = end_of(&settings, Side::Server, number);
        QuicCarriage {
            ends: [client, server],
            control: [Control::new(), Control::new()],
            coders: [self.coder.clone(), self.coder.clone()],
            undialled: told,
            settings,
            number,
        }
    }
}

fn end_of(settings: &QuicSettings, side: Side, number: u64) -> End {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&settings.seed.to_le_bytes());
    seed[8..16].copy_from_slice(&number.to_le_bytes());
    seed[16] = index(side) as u8;
    let (endpoint, server) = match side {
        Side::Client => (&settings.client_endpoint, None),
        Side::Server => (&settings.server_endpoint, Some(&settings.server)),
    };
    let ways = (settings.segments_max.max(1), settings.grant);
    End::new(side, endpoint, server, seed, ways)
}

fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

/// What one side has written to the control stream and the other has not read yet.
struct Control<U> {
    messages: VecDeque<(U, u64)>,
    /// Bytes that the reader has of the first of them.
    read_bytes: u64,
}

impl<U> Control<U> {
    fn new() -> Self {
        Self {
            messages: VecDeque::new(),
            read_bytes: 0,
        }
    }

    /// The first message, if it is there as a whole.
    fn whole(&mut self) -> Option<U> {
        let (_, len_bytes) = self.messages.front()?;
        self.read_bytes = self.read_bytes.checked_sub(*len_bytes)?;
        self.messages.pop_front().map(|(unit, _)| unit)
    }
}

/// One connection, both ends.
pub struct QuicCarriage<U, C> {
    ends: [End; 2],
    /// By who writes.
    control: [Control<U>; 2],
    /// By who sends.
    coders: [C; 2],
    /// The client could not even dial; it is told so once.
    undialled: Option<Ended>,
    settings: QuicSettings,
    number: u64,
}

impl<U, C> QuicCarriage<U, C> {
    fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[index(side)]
    }
}

impl<U, C: Coder<U>> Carriage<U> for QuicCarriage<U, C> {
    type Udp = QuicUdp;

    fn send_datagram(&mut self, side: Side, unit: U, len_bytes: u32, _: Instant) -> bool {
        let datagram: Bytes = self.coders[index(side)].encode(unit, len_bytes);
        self.end(side).send_datagram(datagram)
    }

    fn send_control(&mut self, side: Side, unit: U, len_bytes: u32, _: Instant) {
        // QUIC delivers no empty message: one takes a byte at least.
        let len_bytes = len_bytes.max(1);
        let written = &mut self.control[index(side)].messages;
        written.push_back((unit, len_bytes.into()));
        self.end(side).send_control(len_bytes);
    }

    fn facts(&self, side: Side) -> Option<CarrierFacts> {
        self.ends[index(side)].facts()
    }

    fn grant(&mut self, side: Side, granted: bool, now: Instant) {
        self.end(side).grant(granted, now);
    }

    fn close(&mut self, side: Side, now: Instant) {
        self.end(side).close(now);
    }

    fn kill(&mut self, side: Side) {
        self.end(side).kill();
    }

    /// Nothing happens while only a handshake was sent: QUIC resets no such packets (RFC 9000 §10.3).
    fn on_reset(&mut self, side: Side, now: Instant) {
        let Some(last) = self.end(side).last_short().cloned() else {
            return;
        };
        let restarted = end_of(&self.settings, side.other(), self.number);
        if let Some(reset) = restarted.reset_for(last, now) {
            self.end(side).handle(reset, now);
        }
    }

    fn handle(&mut self, side: Side, udp: QuicUdp, now: Instant) {
        self.end(side).handle(udp, now);
    }

    fn poll_udp(&mut self, side: Side, now: Instant) -> Option<QuicUdp> {
        self.end(side).poll_udp(now)
    }

    fn poll_event(&mut self, side: Side) -> Option<CarriageEvent<U>> {
        if side == Side::Client
            && let Some(ended) = self.undialled.take()
        {
            return Some(CarriageEvent::Closed(ended));
        }
        let from = index(side.other());
        loop {
            if let Some(unit) = self.control[from].whole() {
                return Some(CarriageEvent::Control(unit));
            }
            match self.end(side).poll_told()? {
                Told::Connected => return Some(CarriageEvent::Connected),
                Told::Closed(ended) => return Some(CarriageEvent::Closed(ended)),
                Told::Control(bytes) => self.control[from].read_bytes += bytes,
                Told::Datagram(datagram) => {
                    if let Some(unit) = self.coders[from].decode(datagram) {
                        return Some(CarriageEvent::Datagram(unit));
                    }
                }
            }
        }
    }

    fn poll_timeout(&self, side: Side) -> Option<Instant> {
        self.ends[index(side)].timeout()
    }

    fn handle_timeout(&mut self, side: Side, now: Instant) {
        self.end(side).handle_timeout(now);
    }

    /// Without the token of a Retry: the world has proved the address, and a provider's end that heard nothing yet takes
    /// these for the first.
    fn repeat_first(&mut self, _: Instant, flight: &mut Vec<QuicUdp>) {
        flight.extend_from_slice(self.end(Side::Client).first());
    }

    fn is_over(&self) -> bool {
        let [client, server] = &self.ends;
        client.is_over() && self.undialled.is_none() && (server.is_over() || server.is_gone())
    }
}
