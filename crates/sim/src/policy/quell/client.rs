//! The client: the core, users in front of it, questions beside it.

use std::net::Ipv4Addr;
use std::time::Instant;

use bytes::Bytes;
use quell_core::multi::{Client, ExitId, Loss, Output};
use quell_core::path::CarrierFacts;
use quell_core::status::{ClientStatus, PathStatus};
use quell_packet::{FlowKey, IpPacket, TcpView, protocol};
use quell_wire::registry::ErrorCode;

use super::asking::Asking;
use super::frames::{Sent, item_of};
use super::user::{FIRST_PORT, User};
use crate::fleet::node::{
    Answer, ClientFacts, ClientNode, ClientOutput, Ended, Item, Kind, ServerId,
};

/// A client of quell's.
#[derive(Debug)]
pub struct QuellClient {
    core: Client,
    /// The core's exits, by their place.
    catalog: Box<[ServerId]>,
    sent: Box<[Sent]>,
    users: Vec<User>,
    next_port: u16,
    own: Option<Ipv4Addr>,
    asking: Option<Asking>,
    rest: Rest,
}

/// What is known to have nothing to say, so that it is not asked.
///
/// A node is polled several times for each thing that happens to it, and mostly for nothing. The core has nothing to say
/// from when it said so until something is told to it or its timer is due; users, until they have something to send.
#[derive(Debug, Default)]
struct Rest {
    /// Since the core had no output; what its timer was then.
    core: Option<Option<Instant>>,
    /// No user has an item that waits, nor a connection that is being opened.
    users: bool,
}

impl Rest {
    /// Whether the core has nothing to say at `now`.
    fn is_core_silent(&self, now: Instant) -> bool {
        self.core
            .is_some_and(|timer| timer.is_none_or(|at| at > now))
    }

    /// Something is told to the core.
    fn wake_core(&mut self) {
        self.core = None;
    }
}

impl QuellClient {
    pub(super) fn new(core: Client, catalog: Vec<ServerId>, asking: Option<Asking>) -> Self {
        Self {
            core,
            sent: vec![Sent::default(); catalog.len()].into(),
            catalog: catalog.into(),
            users: Vec::new(),
            next_port: FIRST_PORT,
            own: None,
            asking,
            rest: Rest::default(),
        }
    }

    /// When the core wants to be called.
    fn core_timeout(&self) -> Option<Instant> {
        let timer = || self.core.poll_timeout().map(|(at, _)| at);
        let Some(known) = self.rest.core else {
            return timer();
        };
        debug_assert_eq!(known, timer(), "a timer of the core changed unnoticed");
        known
    }

    fn exit_of(&self, server: ServerId) -> Option<ExitId> {
        let place = self.catalog.iter().position(|of| *of == server)?;
        u16::try_from(place).ok().map(ExitId)
    }

    fn server_of(&self, exit: ExitId) -> ServerId {
        self.catalog.get(exit.index()).copied().unwrap_or(0)
    }

    fn user(&mut self, flow: u16) -> &mut User {
        for next in self.users.len()..=usize::from(flow) {
            self.users.push(User::new(u16::try_from(next).unwrap_or(0)));
        }
        &mut self.users[usize::from(flow)]
    }

    /// Lets users do what is due, as far as the client takes it; whether that was anything.
    fn feed(&mut self, now: Instant) -> bool {
        let Some(own) = self.own.filter(|_| !self.rest.users) else {
            return false;
        };
        let mut any = false;
        for user in &mut self.users {
            user.open(&mut self.next_port, now);
            if let Some(syn) = user.poll_syn(own, &mut self.next_port, now) {
                self.rest.wake_core();
                self.core.handle_packet(syn, now);
                any = true;
            }
            while user.waiting() > 0 && self.core.wants_packets(1) {
                let Some(packet) = user.poll_packet(own) else {
                    break;
                };
                self.rest.wake_core();
                let dropped = self.core.tun_dropped();
                self.core.handle_packet(packet, now);
                // What was taken back waits for news, and is none itself.
                if self.core.tun_dropped() > dropped && user.take_back() {
                    break;
                }
                any = true;
            }
        }
        self.rest.users = self.users.iter().all(User::rests);
        any
    }

    /// The TUN got a packet: the answer in it, if there is one.
    fn hear(&mut self, packet: &Bytes, now: Instant) -> Option<Item> {
        let view = IpPacket::parse(packet).ok()?;
        let port = FlowKey::of(&view).destination_port;
        if view.protocol() == protocol::TCP {
            let tcp = TcpView::parse(view.payload()).ok()?;
            let user = self.users.iter_mut().find(|user| user.port == port)?;
            // It may begin to connect, or go on.
            self.rest.users = false;
            if tcp.is_rst() {
                user.on_reset(&mut self.next_port, now);
                return None;
            }
            if tcp.is_syn() {
                let packet = user.on_syn_ack(tcp.sequence(), self.own?)?;
                self.rest.wake_core();
                self.core.handle_packet(packet, now);
                return None;
            }
        }
        let (number, flow) = item_of(packet)?;
        Some(Item {
            number,
            flow,
            kind: Kind::Tcp,
            len_bytes: u16::try_from(packet.len()).unwrap_or(u16::MAX),
        })
    }

    fn output(&mut self, output: Output, now: Instant) -> Option<ClientOutput<Bytes>> {
        match output {
            Output::Dial { exit, attempt } => Some(ClientOutput::Dial {
                server: self.server_of(exit),
                attempt,
            }),
            Output::Close { exit, .. } => Some(ClientOutput::Close {
                server: self.server_of(exit),
            }),
            Output::Control { exit, bytes } => Some(ClientOutput::Control {
                server: self.server_of(exit),
                len_bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                unit: bytes,
            }),
            Output::Datagram { exit, bytes } => Some(self.datagram(exit, bytes)),
            Output::Deliver(packet) => self.hear(&packet, now).map(ClientOutput::Deliver),
            Output::Configure(addresses) => {
                self.rest.users = false;
                self.own = addresses.ipv4.map(|(address, _)| address);
                None
            }
            Output::MessagesEnded { .. } | Output::Mtu(_) | Output::Notice { .. } => None,
        }
    }

    fn datagram(&mut self, exit: ExitId, bytes: Bytes) -> ClientOutput<Bytes> {
        let users = &mut self.users;
        let is_race = |port: u16| {
            let Some(user) = users.iter_mut().find(|user| user.port == port) else {
                return false;
            };
            *user.first_exit.get_or_insert(exit.0) != exit.0
        };
        let sent = &mut self.sent[exit.index()];
        ClientOutput::Datagram {
            server: self.catalog.get(exit.index()).copied().unwrap_or(0),
            causes: sent.causes(&bytes, is_race),
            unit: bytes,
        }
    }
}

/// What an end means to the core, as the `net` crate says it of a real connection.
pub(super) fn code_of(ended: Ended) -> Option<ErrorCode> {
    match ended {
        Ended::Closed => Some(ErrorCode::ShuttingDown),
        Ended::TimedOut => Some(ErrorCode::Idle),
        Ended::Refused | Ended::Reset | Ended::Broken => None,
    }
}

fn loss_of(ended: Ended) -> Loss {
    let words = match ended {
        Ended::Refused => "refused",
        Ended::Closed => "closed by the provider",
        Ended::TimedOut => "timed out",
        Ended::Reset => "reset by the provider",
        Ended::Broken => "the network is gone",
    };
    Loss {
        words: words.to_owned(),
        code: code_of(ended),
    }
}

fn paths_of(status: &ClientStatus) -> impl Iterator<Item = &PathStatus> {
    status.exits.iter().filter_map(|exit| exit.path.as_ref())
}

/// Packets that were not taken, and packs that were given up or went with their session.
fn dropped_of(status: &ClientStatus) -> u64 {
    let books = status.books();
    let lanes = [books.message.send, books.flow.send];
    let packs = lanes.map(|lane| lane.given_up() + lane.dropped.total());
    books.drops.total() + status.tun_drops.total() + packs.iter().sum::<u64>()
}

fn held_of(status: &ClientStatus) -> u64 {
    paths_of(status).map(|path| path.queued_bytes as u64).sum()
}

fn unacked_of(status: &ClientStatus) -> u32 {
    let lanes = paths_of(status).flat_map(|path| [&path.message, &path.flow]);
    let packs = lanes.map(|lane| lane.send.in_flight).sum::<u64>();
    u32::try_from(packs).unwrap_or(u32::MAX)
}

impl ClientNode<Bytes> for QuellClient {
    fn offer(&mut self, item: Item, now: Instant) {
        self.user(item.flow).offer(item);
        self.rest.users = false;
        self.feed(now);
    }

    fn on_far_has(&mut self, item: &Item) {
        if let Some(user) = self.users.get_mut(usize::from(item.flow)) {
            user.on_far_has(item.number);
        }
    }

    fn on_connected(&mut self, server: ServerId, attempt: u64, now: Instant) {
        if let Some(exit) = self.exit_of(server) {
            self.rest.wake_core();
            self.core.on_connected(exit, attempt, now);
        }
    }

    fn on_closed(&mut self, server: ServerId, attempt: u64, ended: Ended, now: Instant) {
        if let Some(exit) = self.exit_of(server) {
            self.rest.wake_core();
            self.core.on_closed(exit, attempt, loss_of(ended), now);
        }
    }

    fn on_carrier(&mut self, server: ServerId, attempt: u64, facts: CarrierFacts, now: Instant) {
        if let Some(exit) = self.exit_of(server) {
            self.rest.wake_core();
            self.core.on_carrier(exit, attempt, facts, now);
        }
    }

    fn on_wire(&mut self, bytes_out: u64, now: Instant) {
        self.core.on_wire(bytes_out, now);
    }

    fn on_wake(&mut self, now: Instant) {
        self.rest.wake_core();
        self.core.on_wake(now);
    }

    fn handle_datagram(&mut self, server: ServerId, attempt: u64, unit: &Bytes, now: Instant) {
        if let Some(exit) = self.exit_of(server) {
            self.rest.wake_core();
            self.core.handle_datagram(exit, attempt, unit, now);
        }
    }

    fn handle_control(&mut self, server: ServerId, attempt: u64, unit: &Bytes, now: Instant) {
        if let Some(exit) = self.exit_of(server) {
            self.rest.wake_core();
            self.core.handle_control(exit, attempt, unit, now);
        }
    }

    fn on_answer(&mut self, call: u64, answer: Answer, now: Instant) {
        let Some(asking) = &mut self.asking else {
            return;
        };
        if let Some(begun) = asking.on_answer(call, answer, now) {
            self.rest.wake_core();
            self.core.on_backend_success(begun, now);
        }
    }

    fn poll_output(&mut self, now: Instant) -> Option<ClientOutput<Bytes>> {
        loop {
            if !self.rest.is_core_silent(now) {
                if let Some(output) = self.core.poll_output(now) {
                    self.rest.wake_core();
                    if let Some(output) = self.output(output, now) {
                        return Some(output);
                    }
                    continue;
                }
                self.rest.core = Some(self.core.poll_timeout().map(|(at, _)| at));
            }
            if let Some((backend, work, call)) = self.asking.as_mut().and_then(|a| a.poll(now)) {
                return Some(ClientOutput::Ask {
                    backend,
                    work,
                    call,
                });
            }
            if !self.feed(now) {
                return None;
            }
        }
    }

    fn is_hushed(&self, server: ServerId, now: Instant) -> bool {
        let exit = self.exit_of(server);
        exit.is_some_and(|exit| self.core.is_hushed(exit, now))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let core = self.core_timeout();
        let users = if self.rest.users { &[] } else { &*self.users };
        let users = users.iter().filter_map(User::poll_timeout);
        let users = users.filter(|_| self.own.is_some());
        let asking = self.asking.as_ref().and_then(Asking::poll_timeout);
        core.into_iter().chain(users).chain(asking).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.core_timeout().is_some_and(|at| at <= now) {
            self.rest.wake_core();
            self.core.handle_timeout(now);
        }
        self.feed(now);
    }

    fn facts(&self, now: Instant) -> ClientFacts {
        let status = self.core.status(now);
        let up = status.exits.iter().filter(|exit| exit.state == "up");
        let waiting = self.users.iter().map(User::waiting).sum::<usize>();
        ClientFacts {
            sessions: u16::try_from(up.count()).unwrap_or(u16::MAX),
            unacked: unacked_of(&status),
            waiting_items: waiting as u64,
            held_bytes: held_of(&status),
            dropped: dropped_of(&status),
            sent_again: self.users.iter().map(User::sent_again).sum(),
            degraded: self.asking.as_ref().is_some_and(|a| a.is_degraded(now)),
            unaccounted: status.unaccounted,
        }
    }
}
