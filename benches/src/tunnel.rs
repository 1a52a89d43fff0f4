//! Clients and a provider of one process, between whom nothing is lost.
//!
//! The core sees no socket, so a datagram that one end yields is handed to the other as it stands. A *turn* is what a
//! driver's turn is: a few packets in, all outputs out, the answer back, with the carrier told before each, as though
//! QUIC had sent all that it was given. So a turn costs what the core costs at both ends, and nothing else.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::{ClientConfig, ProviderConfig};
use quell_core::multi::{self, Client, ExitId};
use quell_core::path::CarrierFacts;
use quell_core::provider::{self, AddressPool, Provider, Roster, SessionId};
use quell_packet::build::{self, Segment};
use quell_packet::tcp::flags;
use quell_wire::key::PublicKey;

/// Bytes of a full-sized packet: its pack fills a datagram of a path of 1,500 bytes.
pub const FULL_BYTES: usize = 1_368;
/// The only exit of each client.
const EXIT: ExitId = ExitId(0);
/// The dial that stands.
const ATTEMPT: u64 = 1;
/// Time that passes before a turn, and on the way from end to end: without a round trip nothing is measured or judged.
const TURN: Duration = Duration::from_micros(100);
const HALF_TRIP: Duration = Duration::from_micros(20);

/// A fast path that holds nothing back.
const FACTS: CarrierFacts = CarrierFacts {
    datagram_len_max: 1_414,
    backlog_bytes: 0,
    cwnd_bytes: 10_000_000,
    rtt: Duration::from_millis(1),
};

/// One client and its session at the provider.
#[derive(Debug)]
struct End {
    client: Client,
    id: SessionId,
    /// A packet of its TCP, and one of the other end's.
    packets: [Bytes; 2],
}

/// Which way packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client's TUN to the provider's egress.
    Outward,
    /// From the egress to the TUN.
    Inward,
}

/// A provider and its clients, all of them up.
#[derive(Debug)]
pub struct Tunnel {
    ends: Vec<End>,
    provider: Provider,
    now: Instant,
    delivered: u64,
}

impl Tunnel {
    /// A provider with `clients` sessions, whose packets have `packet_bytes`.
    ///
    /// # Panics
    /// A session does not come up.
    #[must_use]
    pub fn new(clients: u32, packet_bytes: usize) -> Self {
        let now = Instant::now();
        let names = (0..clients).map(|n| (format!("client-{n}"), key(n)));
        let roster = Roster::try_new(names).expect("names that differ");
        let prefix = "10.85.0.0/16".parse().expect("a prefix");
        let pool = AddressPool::try_new(Some(prefix), None).expect("a pool");
        let config = ProviderConfig {
            sessions_max: clients as usize,
            ..ProviderConfig::default()
        };
        let mut tunnel = Self {
            ends: Vec::new(),
            provider: Provider::new(config, roster, pool, 1_500, 7),
            now,
            delivered: 0,
        };
        for n in 0..clients {
            tunnel.connect(n, packet_bytes);
        }
        for index in 0..tunnel.ends.len() {
            tunnel.settle(index);
        }
        tunnel
    }

    fn connect(&mut self, n: u32, packet_bytes: usize) {
        let now = self.now;
        let mut client = Client::new(ClientConfig::default(), "bench", 1_500, n.into(), now);
        let id = self.provider.on_connection(key(n), now);
        let id = id.expect("a session");
        client.on_connected(EXIT, ATTEMPT, now);
        client.on_carrier(EXIT, ATTEMPT, FACTS, now);
        self.provider.on_carrier(id, FACTS, now);
        while let Some(output) = client.poll_output(now) {
            if let multi::Output::Control { bytes, .. } = output {
                self.provider.handle_control(id, &bytes, now);
            }
        }
        let mut address = None;
        while let Some(output) = self.provider.poll_output(id, now) {
            if let provider::Output::Control(bytes) = output {
                client.handle_control(EXIT, ATTEMPT, &bytes, now);
            }
        }
        while let Some(output) = client.poll_output(now) {
            if let multi::Output::Configure(addresses) = output {
                address = addresses.ipv4.map(|(address, _)| IpAddr::from(address));
            }
        }
        let address = address.expect("an address");
        let world: IpAddr = "198.51.100.7".parse().expect("an address");
        let segment = Segment {
            flags: flags::ACK,
            ..Segment::default()
        };
        let data = vec![7; packet_bytes - 40];
        let packet = |from, to| Bytes::from(build::tcp(from, to, &segment, &data));
        let (inside, outside) = ((address, 40_000).into(), (world, 443).into());
        let packets = [packet(inside, outside), packet(outside, inside)];
        self.ends.push(End {
            client,
            id,
            packets,
        });
    }

    /// A turn of `packets` packets of the client `index`; how many came out.
    pub fn turn(&mut self, index: usize, way: Way, packets: usize) -> u64 {
        let before = self.delivered;
        self.now += TURN;
        let now = self.now;
        let end = &mut self.ends[index];
        match way {
            Way::Outward => {
                for _ in 0..packets {
                    end.client.handle_packet(end.packets[0].clone(), now);
                }
            }
            Way::Inward => {
                for _ in 0..packets {
                    self.provider.handle_packet(end.packets[1].clone(), now);
                }
                while self.provider.poll_ready().is_some() {}
            }
        }
        self.settle(index);
        self.delivered - before
    }

    /// Carries datagrams to and fro until neither end has one.
    fn settle(&mut self, index: usize) {
        loop {
            let sent = self.client_turn(index) + self.provider_turn(index);
            if sent == 0 {
                return;
            }
        }
    }

    /// The client's turn; the datagrams that it yielded.
    fn client_turn(&mut self, index: usize) -> usize {
        self.now += HALF_TRIP;
        let (end, now) = (&mut self.ends[index], self.now);
        let mut sent = 0;
        if due(end.client.poll_timeout(), now) {
            end.client.handle_timeout(now);
        }
        end.client.on_carrier(EXIT, ATTEMPT, FACTS, now);
        while let Some(output) = end.client.poll_output(now) {
            match output {
                multi::Output::Datagram { bytes, .. } => {
                    sent += 1;
                    self.provider.handle_datagram(end.id, &bytes, now);
                }
                multi::Output::Deliver(_) => self.delivered += 1,
                multi::Output::Dial { .. }
                | multi::Output::Control { .. }
                | multi::Output::MessagesEnded { .. }
                | multi::Output::Configure(_)
                | multi::Output::Mtu(_)
                | multi::Output::Notice { .. } => {}
                multi::Output::Close { violation, .. } => panic!("closed: {violation:?}"),
            }
        }
        // All has left before an answer comes.
        end.client.on_carrier(EXIT, ATTEMPT, FACTS, now);
        sent
    }

    /// The session's turn; the datagrams that it yielded.
    fn provider_turn(&mut self, index: usize) -> usize {
        self.now += HALF_TRIP;
        let (end, now) = (&mut self.ends[index], self.now);
        let mut sent = 0;
        if due(self.provider.poll_timeout(end.id), now) {
            self.provider.handle_timeout(end.id, now);
        }
        self.provider.on_carrier(end.id, FACTS, now);
        while let Some(output) = self.provider.poll_output(end.id, now) {
            match output {
                provider::Output::Datagram(bytes) => {
                    sent += 1;
                    end.client.handle_datagram(EXIT, ATTEMPT, &bytes, now);
                }
                provider::Output::Deliver(_) => self.delivered += 1,
                provider::Output::Control(_) | provider::Output::MessagesEnded(_) => {}
                provider::Output::Close(violation) => panic!("closed: {violation:?}"),
            }
        }
        self.provider.on_carrier(end.id, FACTS, now);
        sent
    }
}

fn due(timer: Option<(Instant, &'static str)>, now: Instant) -> bool {
    timer.is_some_and(|(at, _)| at <= now)
}

fn key(n: u32) -> PublicKey {
    let mut key = [1; 32];
    key[..4].copy_from_slice(&n.to_le_bytes());
    PublicKey(key)
}
