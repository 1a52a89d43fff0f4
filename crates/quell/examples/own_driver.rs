//! A driver of one's own over the core: no socket, no task, no clock but the one that is handed in.
//!
//! `cargo run -p quell --example own_driver`. A client and a provider live in one loop, with 20 ms of virtual time between
//! them. What carries their bytes is up to the driver: here two queues, in the product QUIC with its datagrams and one
//! stream. The contract is the same for both: hand in what happened and when, drain the outputs, sleep until the next
//! timeout.
#![allow(clippy::print_stdout)]

use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use quell::core::config::{ClientConfig, ProviderConfig};
use quell::core::multi::{Client, ExitId, Loss, Output};
use quell::core::path::CarrierFacts;
use quell::core::provider::{self, AddressPool, Provider, Roster, SessionId};
use quell::{Identity, PublicKey, packet};

/// How long anything takes from one end to the other.
const DELAY: Duration = Duration::from_millis(20);

/// What is under way.
enum Way {
    Dialled(u64),
    ToProvider(bool, bytes::Bytes),
    ToClient(bool, bytes::Bytes),
    Connected(u64),
    Refused(u64, Loss),
}

struct World {
    now: Instant,
    client: Client,
    provider: Provider,
    key: PublicKey,
    /// The dial that stands, and the session at its other end.
    attempt: u64,
    session: Option<SessionId>,
    under_way: VecDeque<(Instant, Way)>,
    /// What the client's applications got.
    to_user: Vec<bytes::Bytes>,
    /// What the world got.
    to_world: Vec<bytes::Bytes>,
}

impl World {
    fn new() -> Result<Self, Box<dyn Error>> {
        let now = Instant::now();
        let key = Identity::generate()?.public_key();
        let roster = Roster::try_new([("laptop".to_owned(), key)])?;
        let pool = AddressPool::try_new("10.86.0.0/24".parse().ok(), None)?;
        let mut provider = Provider::new(ProviderConfig::default(), roster, pool, 1_400, 7);
        provider.on_wall_clock(1_800_000_000);
        Ok(Self {
            now,
            client: Client::new(ClientConfig::default(), "own driver", 1_400, 7, now),
            provider,
            key,
            attempt: 0,
            session: None,
            under_way: VecDeque::new(),
            to_user: Vec::new(),
            to_world: Vec::new(),
        })
    }

    fn send(&mut self, what: Way) {
        self.under_way.push_back((self.now + DELAY, what));
    }

    /// Does all that both ends say, until neither says anything.
    fn drain(&mut self) {
        let facts = CarrierFacts {
            datagram_len_max: 1_414,
            backlog_bytes: 0,
            cwnd_bytes: 1 << 20,
            rtt: 2 * DELAY,
        };
        let (exit, now) = (ExitId(0), self.now);
        self.client.on_carrier(exit, self.attempt, facts, now);
        while let Some(output) = self.client.poll_output(now) {
            match output {
                Output::Dial { attempt, .. } => self.send(Way::Dialled(attempt)),
                Output::Control { bytes, .. } => self.send(Way::ToProvider(true, bytes)),
                Output::Datagram { bytes, .. } => self.send(Way::ToProvider(false, bytes)),
                Output::Deliver(packet) => self.to_user.push(packet),
                Output::Configure(addresses) => println!("addresses: {:?}", addresses.ipv4),
                Output::Mtu(mtu) => println!("packets of up to {mtu} bytes cross whole"),
                Output::Close { .. } | Output::MessagesEnded { .. } => {}
                Output::Notice { notice, .. } => println!("{notice:?}"),
            }
        }
        let Some(session) = self.session else { return };
        self.provider.on_carrier(session, facts, now);
        while let Some(output) = self.provider.poll_output(session, now) {
            match output {
                provider::Output::Control(bytes) => self.send(Way::ToClient(true, bytes)),
                provider::Output::Datagram(bytes) => self.send(Way::ToClient(false, bytes)),
                provider::Output::Deliver(packet) => self.to_world.push(packet),
                provider::Output::Close(_) | provider::Output::MessagesEnded(_) => {}
            }
        }
    }

    fn arrive(&mut self, what: Way) {
        let (exit, now) = (ExitId(0), self.now);
        match what {
            Way::Dialled(attempt) => match self.provider.on_connection(self.key, now) {
                Ok(session) => {
                    self.session = Some(session);
                    self.send(Way::Connected(attempt));
                }
                Err(violation) => self.send(Way::Refused(attempt, Loss::said(&violation))),
            },
            Way::Connected(attempt) => {
                self.attempt = attempt;
                self.client.on_connected(exit, attempt, now);
            }
            Way::Refused(attempt, loss) => self.client.on_closed(exit, attempt, loss, now),
            Way::ToClient(true, bytes) => {
                self.client.handle_control(exit, self.attempt, &bytes, now);
            }
            Way::ToClient(false, bytes) => {
                self.client.handle_datagram(exit, self.attempt, &bytes, now);
            }
            Way::ToProvider(is_control, bytes) => match (self.session, is_control) {
                (None, _) => {}
                (Some(session), true) => self.provider.handle_control(session, &bytes, now),
                (Some(session), false) => self.provider.handle_datagram(session, &bytes, now),
            },
        }
    }

    /// Steps from event to event, never between, for so long.
    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.drain();
            let timers = [
                self.client.poll_timeout().map(|(at, _)| at),
                self.session
                    .and_then(|session| self.provider.poll_timeout(session))
                    .map(|(at, _)| at),
                self.under_way.front().map(|(at, _)| *at),
            ];
            let next = timers.into_iter().flatten().min();
            let Some(next) = next.filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            while let Some((_, what)) = self.under_way.pop_front_if(|(at, _)| *at <= self.now) {
                self.arrive(what);
                self.drain();
            }
            self.client.handle_timeout(self.now);
            if let Some(session) = self.session {
                self.provider.handle_timeout(session, self.now);
            }
        }
    }
}

/// Runs it.
///
/// # Errors
/// What did not go as it should.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut world = World::new()?;
    world.run_for(Duration::from_secs(1));
    let status = world.client.status(world.now);
    println!("{}: {}", status.state, status.reason);
    let (own, _) = status
        .addresses
        .and_then(|addresses| addresses.ipv4)
        .ok_or("no address")?;
    let out = packet::build::udp((own, 4_000).into(), "192.0.2.1:53".parse()?, b"hello");
    let sent_at = world.now;
    world.client.handle_packet(out.clone().into(), world.now);
    world.run_for(DELAY);
    assert_eq!(world.to_world, [out]);
    println!("a packet crossed in {:?}", world.now - sent_at);
    let back = packet::build::udp("192.0.2.1:53".parse()?, (own, 4_000).into(), b"hello back");
    world.provider.handle_packet(back.clone().into(), world.now);
    world.run_for(DELAY);
    assert_eq!(world.to_user, [back]);
    // An idle hour in no time: a PING every 20 s and its answer.
    world.run_for(Duration::from_secs(3_600));
    assert_eq!(world.client.status(world.now).state, "up");
    assert_eq!(world.client.status(world.now).unaccounted, 0);
    Ok(())
}
