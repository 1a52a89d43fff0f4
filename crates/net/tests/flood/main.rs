//! A provider under floods of first packets from addresses that are not their senders'.
#![allow(clippy::unwrap_used)]
#![expect(clippy::print_stdout, reason = "figures are what this has to say")]

#[path = "../ends/mod.rs"]
mod ends;
mod forger;
mod relay;

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::{DoormanConfig, ProviderConfig};
use quell_core::provider::doorman::HandshakeCounters;
use quell_net::engine::provider::ProviderReport;
use quell_net::identity::Identity;
use quell_packet::build;
use quell_wire::key::PublicKey;
use tokio::runtime::Builder;

use ends::{PATIENCE, Running, client, named, provider};
use forger::{Flood, Forger};
use relay::Relay;

/// Of the path between the honest client and the provider.
const RTT: Duration = Duration::from_millis(40);

/// How long memory is watched.
const FLOOD_TIME: Duration = Duration::from_secs(3);
/// One test at a time: memory is that of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Dials over the relay until the session is up; how long that took.
fn time_to_up(user: &Identity, exit: PublicKey, relay: SocketAddr) -> Duration {
    let start = Instant::now();
    let mut client = client(user, exit, relay);
    client.until("up", |report| (report.client.state == "up").then_some(()));
    let took = start.elapsed();
    client.stop();
    took
}

fn handshakes(provider: &Running<ProviderReport, PublicKey>) -> HandshakeCounters {
    provider.status().provider.handshakes
}

/// Memory of this process that is in use, in KiB.
fn resident_kib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    pages * 4
}

/// A session carries packets and messages.
fn assert_carries(
    user: &Identity,
    exit: PublicKey,
    relay: SocketAddr,
    provider: &Running<ProviderReport, PublicKey>,
) {
    let mut held = client(user, exit, relay);
    let own = held.until("up", |report| {
        let addresses = (report.client.state == "up").then_some(report.client.addresses?)?;
        addresses.ipv4.map(|(address, _)| address)
    });
    let world = ([192, 0, 2, 1], 53);
    let packet = build::udp((own, 4_000).into(), world.into(), b"under the flood");
    held.device.inject_copy(&packet).unwrap();
    let came = provider.device.take_within(PATIENCE);
    assert_eq!(came, Some(Bytes::from(packet)));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let hello = Bytes::from_static(b"hello");
    runtime.block_on(held.messages.send((), hello)).unwrap();
    held.stop();
}

#[test]
fn an_honest_client_gets_in_while_ten_thousand_spoofed_packets_a_second_come() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // case B76
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (provider, remote) = provider(&exit, named(&user), ProviderConfig::default());
    let relay = Relay::start(remote, RTT / 2).address();
    let key = exit.public_key();
    let calm = time_to_up(&user, key, relay);
    assert_eq!(handshakes(&provider).retried, 0, "in calm nobody proves");

    let flood = Flood::start(remote, 10_000);
    provider.until("load", |report| {
        (report.provider.handshakes.retried > 1_000).then_some(())
    });
    let before = provider.status().udp.counters;
    let mut times: Vec<Duration> = (0..10).map(|_| time_to_up(&user, key, relay)).collect();
    assert_carries(&user, key, relay, &provider);
    // The clients are gone; what grows from here on is the flood's.
    let memory_before = resident_kib();
    std::thread::sleep(FLOOD_TIME);
    let memory_after = resident_kib();
    let (sent, flood_time) = flood.stop();
    let after = provider.status();
    let counters = after.provider.handshakes;
    let bytes_in = after.udp.counters.bytes_in - before.bytes_in;
    let bytes_out = after.udp.counters.bytes_out - before.bytes_out;
    let rate = sent as f64 / flood_time.as_secs_f64();
    println!("up after {calm:?} in calm; under {rate:.0} Initials/s after {times:?}");
    println!("{bytes_out} bytes out, {bytes_in} in; {memory_before} KiB, then {memory_after} KiB");
    println!("{counters:?}");

    assert!(rate > 9_000.0, "the flood was no flood: {rate:.0}/s");
    assert!(bytes_out <= bytes_in, "{bytes_out} out, {bytes_in} in");
    // One round trip for the Retry, then two: handshake, HELLO and WELCOME. Three times
    // that is a third of the second after which QUIC resends a lost first packet: who is
    // in by then lost none, was not refused and was asked once. Half of the dials must
    // be; a machine whose cores others use loses packets that no rule of ours dropped.
    let bound = 3 * 3 * RTT;
    times.sort_unstable();
    let median = times[times.len() / 2];
    assert!(median <= bound, "{median:?} is over {bound:?}: {times:?}");
    assert!(counters.retried > sent / 2, "{counters:?}");
    let free = DoormanConfig::default().handshakes_free as u64;
    assert!(counters.under_way <= free + 1, "{counters:?}");
    let refused = counters.refused_full + counters.refused_source;
    assert_eq!((counters.sources, refused), (1, 0), "{counters:?}");
    let growth = memory_after.saturating_sub(memory_before);
    assert!(growth < 4 * 1_024, "{growth} KiB more in {FLOOD_TIME:?}");
}

#[test]
fn a_handshake_that_never_ends_gives_its_place_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // case B67
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let config = ProviderConfig {
        doorman: DoormanConfig {
            handshake_timeout: Duration::from_secs(1),
            ..DoormanConfig::default()
        },
        ..ProviderConfig::default()
    };
    let (provider, remote) = provider(&exit, named(&user), config);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut forger = Forger::new();
    let start = Instant::now();
    for _ in 0..5 {
        socket.send_to(&forger.half_a_hello(), remote).unwrap();
    }
    provider.until("under way", |report| {
        (report.provider.handshakes.under_way == 5).then_some(())
    });
    let counters = provider.until("given up", |report| {
        let counters = report.provider.handshakes;
        (counters.under_way == 0).then_some(counters)
    });
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    assert_eq!((counters.accepted, counters.timed_out), (5, 5));
}
