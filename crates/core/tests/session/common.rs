//! Packets, messages and lone ends for all tests.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quell_core::config::{ClientConfig, ProviderConfig};
use quell_core::multi::{self, Client, ExitId};
use quell_core::path::{CarrierFacts, Violation};
use quell_core::provider::{self, AddressPool, Provider, Roster, SessionId};
use quell_packet::build::Header;
use quell_sim::pair::{End, Event, World};
use quell_wire::control::{Control, ControlDecoder, Hello, Welcome};
use quell_wire::frame::{self, Credit, LaneProbes, Ping};
use quell_wire::key::PublicKey;
use quell_wire::registry;

pub(crate) const NS: Duration = Duration::from_nanos(1);
pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const S: Duration = Duration::from_secs(1);

/// Hosts of the world.
pub(crate) const WORLD_V4: &str = "192.0.2.7";
pub(crate) const WORLD_V6: &str = "2001:db8::7";

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A UDP packet of exactly `len` bytes, DF where that exists.
pub(crate) fn packet(source: IpAddr, destination: IpAddr, len: usize) -> Bytes {
    let header = Header::new(source, destination);
    sized(&header, len)
}

/// An IPv4 packet of exactly `len` bytes that may be fragmented.
pub(crate) fn fragmentable(source: IpAddr, destination: IpAddr, len: usize) -> Bytes {
    let header = Header {
        dont_fragment: false,
        identification: 77,
        ..Header::new(source, destination)
    };
    sized(&header, len)
}

fn sized(header: &Header<'_>, len: usize) -> Bytes {
    let empty = header.udp(4_000, 53, &[]).len();
    let payload: Vec<u8> = (0..len - empty).map(|i| (i % 251) as u8).collect();
    header.udp(4_000, 53, &payload).into()
}

/// A client's inner addresses.
pub(crate) fn inner(world: &World, client: usize) -> (IpAddr, IpAddr) {
    let addresses = world.addresses(client);
    (
        addresses.ipv4.unwrap().0.into(),
        addresses.ipv6.unwrap().0.into(),
    )
}

/// A packet of the client's IPv4 address to the world.
pub(crate) fn outwards(world: &World, client: usize, len: usize) -> Bytes {
    packet(inner(world, client).0, ip(WORLD_V4), len)
}

/// A packet of the world to the client's IPv4 address.
pub(crate) fn inwards(world: &World, client: usize, len: usize) -> Bytes {
    packet(ip(WORLD_V4), inner(world, client).0, len)
}

/// Violations that ended connections, by who closed.
pub(crate) fn closes(events: &[(Duration, Event)]) -> Vec<(End, Violation)> {
    let close = |(_, event): &(Duration, Event)| match event {
        Event::Close(end, violation) => Some((*end, violation.clone())),
        Event::Dial { .. }
        | Event::Configure(..)
        | Event::Mtu(..)
        | Event::Notice(..)
        | Event::MessagesEnded(..)
        | Event::Deliver(..)
        | Event::Refuse(..) => None,
    };
    events.iter().filter_map(close).collect()
}

/// When clients dialled.
pub(crate) fn dials(events: &[(Duration, Event)]) -> Vec<Duration> {
    let dial = |(at, event): &(Duration, Event)| matches!(event, Event::Dial { .. }).then_some(*at);
    events.iter().filter_map(dial).collect()
}

/// A message as it stands on the control stream.
pub(crate) fn on_stream(message: &Control) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes).unwrap();
    bytes.freeze()
}

/// The only message in `bytes`.
pub(crate) fn off_stream(bytes: &[u8]) -> Control {
    let mut decoder = ControlDecoder::new();
    decoder.push(bytes);
    let message = decoder.next().unwrap().unwrap();
    assert_eq!(decoder.buffered_bytes(), 0);
    message
}

pub(crate) fn hello(version: u64) -> Control {
    Control::Hello(Hello {
        version,
        features: 0,
        agent: "test".to_owned(),
        limits: Credit::FIRST,
    })
}

/// A sound WELCOME with addresses of both families.
pub(crate) fn welcome() -> Welcome {
    Welcome {
        version: registry::VERSION,
        features: 0,
        session_id: [7; 16],
        ipv4: Some(("10.85.0.2".parse().unwrap(), 16)),
        ipv6: Some(("fd71:75e1::2".parse().unwrap(), 64)),
        gateway_ipv4: Some("10.85.0.1".parse().unwrap()),
        gateway_ipv6: Some("fd71:75e1::1".parse().unwrap()),
        mtu: 1_500,
        limits: Credit::FIRST,
    }
}

/// A datagram with one DGRAM frame.
pub(crate) fn dgram(packet: &[u8]) -> Bytes {
    let mut datagram = BytesMut::new();
    frame::write_dgram(&mut datagram, packet);
    datagram.freeze()
}

/// A datagram with `count` PINGs.
pub(crate) fn pings(count: u64) -> Bytes {
    let mut datagram = BytesMut::new();
    for nonce in 0..count {
        let lanes = LaneProbes::new();
        Ping { nonce, lanes }.write(&mut datagram);
    }
    datagram.freeze()
}

/// A path of 50 ms with datagrams of this size.
pub(crate) fn facts(datagram_len_max: usize) -> CarrierFacts {
    CarrierFacts {
        datagram_len_max,
        backlog_bytes: 0,
        cwnd_bytes: 1 << 20,
        rtt: 50 * MS,
    }
}

/// The only exit of a client here.
pub(crate) const EXIT: ExitId = ExitId(0);

/// A client that was not drained yet.
pub(crate) fn lone_client(now: Instant) -> Client {
    Client::new(ClientConfig::default(), "test", 1_500, 7, now)
}

/// A client that was welcomed by `welcome`, drained.
pub(crate) fn welcomed_client(welcome: Welcome, now: Instant) -> Client {
    let mut client = lone_client(now);
    client.on_connected(EXIT, 1, now);
    client.on_carrier(EXIT, 1, facts(1_414), now);
    client.handle_control(EXIT, 1, &on_stream(&Control::Welcome(welcome)), now);
    client_outputs(&mut client, now);
    client
}

pub(crate) fn client_outputs(client: &mut Client, now: Instant) -> Vec<multi::Output> {
    std::iter::from_fn(|| client.poll_output(now))
        .take(10_000)
        .collect()
}

/// A provider of the keys with the tags 1 to 8.
pub(crate) fn lone_provider(config: ProviderConfig, ipv4_pool: &str) -> Provider {
    let roster = Roster::try_new((1..=8).map(|tag| (format!("client-{tag}"), key(tag)))).unwrap();
    let pool = AddressPool::try_new(Some(ipv4_pool.parse().unwrap()), None).unwrap();
    Provider::new(config, roster, pool, 1_500, 7)
}

pub(crate) fn key(tag: u8) -> PublicKey {
    PublicKey([tag; 32])
}

pub(crate) fn session_outputs(
    provider: &mut Provider,
    id: SessionId,
    now: Instant,
) -> Vec<provider::Output> {
    std::iter::from_fn(|| provider.poll_output(id, now))
        .take(10_000)
        .collect()
}
