//! The provider: the core, and destinations behind it that answer SYNs.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::FixedState;
use quell_core::path::CarrierFacts;
use quell_core::provider::doorman;
use quell_core::provider::{Output, Provider, SessionId};
use quell_packet::build::{self, Segment};
use quell_packet::tcp::flags;
use quell_packet::{FlowKey, IpPacket, TcpView, protocol};

use super::client::code_of;
use super::frames::{Sent, item_of};
use super::user::packet_of;
use super::{DESTINATION, key_of};
use crate::fleet::node::{ClientId, Ended, Item, Kind, ServerNode, ServerOutput};

/// What the world behind an exit knows of one client. It outlives connections, as the client's session does.
#[derive(Debug, Default)]
struct Behind {
    sent: Sent,
    /// The client's address and ports, by flow.
    flows: Vec<(u16, IpAddr, u16)>,
}

/// A provider of quell's.
#[derive(Debug)]
pub struct QuellServer {
    /// `None`: its pool cannot be built. It takes nobody.
    core: Option<Provider>,
    // Looked up, never walked.
    sessions: HashMap<u64, (SessionId, ClientId), FixedState>,
    numbers: HashMap<SessionId, u64, FixedState>,
    behind: HashMap<ClientId, Behind, FixedState>,
    next: u64,
}

impl QuellServer {
    pub(super) fn new(core: Option<Provider>) -> Self {
        Self {
            core,
            sessions: HashMap::default(),
            numbers: HashMap::default(),
            behind: HashMap::default(),
            next: 0,
        }
    }

    fn of(&mut self, session: u64) -> Option<(&mut Provider, SessionId)> {
        let (id, _) = *self.sessions.get(&session)?;
        Some((self.core.as_mut()?, id))
    }

    /// A packet comes out: the item in it. A SYN is answered.
    fn come_out(&mut self, client: ClientId, packet: &Bytes, now: Instant) -> Option<Item> {
        let view = IpPacket::parse(packet).ok()?;
        let key = FlowKey::of(&view);
        if view.protocol() == protocol::TCP {
            let tcp = TcpView::parse(view.payload()).ok()?;
            if tcp.is_opening() {
                let answer = syn_ack(key, tcp.sequence());
                self.core.as_mut()?.handle_packet(answer, now);
                return None;
            }
        }
        let (number, flow) = item_of(packet)?;
        let flows = &mut self.behind.entry(client).or_default().flows;
        let at = (flow, key.source, key.source_port);
        match flows.iter_mut().find(|(of, ..)| *of == flow) {
            Some(of) => *of = at,
            None => flows.push(at),
        }
        let is_tcp = view.protocol() == protocol::TCP;
        Some(Item {
            number,
            flow,
            kind: if is_tcp { Kind::Tcp } else { Kind::Udp },
            len_bytes: u16::try_from(packet.len()).unwrap_or(u16::MAX),
        })
    }
}

fn syn_ack(key: FlowKey, sequence: u32) -> Bytes {
    let segment = Segment {
        sequence: 9_000,
        acknowledgement: sequence.wrapping_add(1),
        flags: flags::SYN | flags::ACK,
        window: 65_535,
        options: &[],
    };
    let source = SocketAddr::new(key.destination, key.destination_port);
    let destination = SocketAddr::new(key.source, key.source_port);
    build::tcp(source, destination, &segment, &[]).into()
}

impl ServerNode<Bytes> for QuellServer {
    fn on_initial(&mut self, source: SocketAddr, is_proven: bool, now: Instant) -> doorman::Answer {
        match &mut self.core {
            Some(core) => core.doorman().on_initial(source, is_proven, now),
            None => doorman::Answer::Ignore,
        }
    }

    fn on_handshake_ended(&mut self, how: doorman::Ended) {
        if let Some(core) = &mut self.core {
            core.doorman().on_ended(how);
        }
    }

    fn on_connection(&mut self, client: ClientId, now: Instant) -> Result<u64, Ended> {
        let core = self.core.as_mut().ok_or(Ended::Refused)?;
        let id = core.on_connection(key_of(client), now);
        let id = id.map_err(|_| Ended::Refused)?;
        self.next += 1;
        self.sessions.insert(self.next, (id, client));
        self.numbers.insert(id, self.next);
        Ok(self.next)
    }

    fn on_closed(&mut self, session: u64, ended: Ended, now: Instant) {
        let Some((id, _)) = self.sessions.remove(&session) else {
            return;
        };
        self.numbers.remove(&id);
        if let Some(core) = &mut self.core {
            core.on_closed(id, code_of(ended), now);
        }
    }

    fn on_carrier(&mut self, session: u64, facts: CarrierFacts, now: Instant) {
        if let Some((core, id)) = self.of(session) {
            core.on_carrier(id, facts, now);
        }
    }

    fn handle_datagram(&mut self, session: u64, unit: &Bytes, now: Instant) {
        if let Some((core, id)) = self.of(session) {
            core.handle_datagram(id, unit, now);
        }
    }

    fn handle_control(&mut self, session: u64, unit: &Bytes, now: Instant) {
        if let Some((core, id)) = self.of(session) {
            core.handle_control(id, unit, now);
        }
    }

    fn answer(&mut self, session: u64, item: Item, now: Instant) {
        let Some((_, client)) = self.sessions.get(&session) else {
            return;
        };
        let flows = self.behind.get(client).map(|behind| &behind.flows);
        let at = flows.and_then(|flows| flows.iter().find(|(flow, ..)| *flow == item.flow));
        if let (Some((flow, address, port)), Some(core)) = (at, &mut self.core) {
            let source = SocketAddr::new(DESTINATION.0, DESTINATION.1);
            let destination = SocketAddr::new(*address, *port);
            let packet = packet_of(&item, *flow, source, destination);
            core.handle_packet(packet, now);
        }
    }

    fn is_hushed(&self, session: u64, now: Instant) -> bool {
        let of = self.core.as_ref().zip(self.sessions.get(&session));
        of.is_some_and(|(core, (id, _))| core.is_hushed(*id, now))
    }

    fn poll_output(&mut self, session: u64, now: Instant) -> Option<ServerOutput<Bytes>> {
        let (id, client) = *self.sessions.get(&session)?;
        loop {
            match self.core.as_mut()?.poll_output(id, now)? {
                Output::Control(unit) => {
                    let len_bytes = u32::try_from(unit.len()).unwrap_or(u32::MAX);
                    return Some(ServerOutput::Control { unit, len_bytes });
                }
                Output::Datagram(unit) => {
                    let sent = &mut self.behind.entry(client).or_default().sent;
                    let causes = sent.causes(&unit, |_| false);
                    return Some(ServerOutput::Datagram { unit, causes });
                }
                Output::Deliver(packet) => {
                    if let Some(item) = self.come_out(client, &packet, now) {
                        return Some(ServerOutput::Deliver(item));
                    }
                }
                Output::MessagesEnded(_) => {}
                Output::Close(_) => return Some(ServerOutput::Close),
            }
        }
    }

    fn poll_ready(&mut self) -> Option<u64> {
        let core = self.core.as_mut()?;
        loop {
            let id = core.poll_ready()?;
            if let Some(number) = self.numbers.get(&id) {
                return Some(*number);
            }
        }
    }

    fn poll_timeout(&self, session: u64) -> Option<Instant> {
        let (id, _) = self.sessions.get(&session)?;
        self.core.as_ref()?.poll_timeout(*id).map(|(at, _)| at)
    }

    fn handle_timeout(&mut self, session: u64, now: Instant) {
        if let Some((core, id)) = self.of(session) {
            core.handle_timeout(id, now);
        }
    }

    fn drain(&mut self, now: Instant) {
        if let Some(core) = &mut self.core {
            core.drain(now);
        }
    }

    fn drained_at(&self) -> Option<Instant> {
        self.core.as_ref()?.poll_drain().map(|(at, _)| at)
    }

    fn poll_idle(&self) -> Option<Instant> {
        self.core.as_ref()?.poll_suspended().map(|(at, _)| at)
    }

    fn handle_idle(&mut self, now: Instant) {
        if let Some(core) = &mut self.core {
            core.handle_suspended(now);
        }
    }
}
