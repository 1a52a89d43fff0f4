//! Both engines in one process, over real QUIC on loopback, with channel devices.
#![allow(clippy::unwrap_used)]

mod contracts;
#[path = "../ends/mod.rs"]
mod ends;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::{BackendHealthConfig, ProviderConfig};
use quell_core::drops::DropReason;
use quell_core::provider::limits::MonthUse;
use quell_lab::http::Server;
use quell_net::backend::BackendSettings;
use quell_net::engine::client::ClientReport;
use quell_net::engine::provider::{MonthStore, ProviderEngine, ProviderReport};
use quell_net::identity::Identity;
use quell_packet::build::Segment;
use quell_packet::{IpPacket, build};
use quell_wire::key::PublicKey;
use tokio::runtime::Builder;

use ends::{
    PATIENCE, Running, client, client_of, client_prepared, named, provider, provider_of,
    provider_prepared, server,
};

fn addresses(client: &Running<ClientReport, ()>) -> (IpAddr, IpAddr) {
    client.until("up", |report| {
        let addresses = (report.client.state == "up").then_some(report.client.addresses?)?;
        Some((addresses.ipv4?.0.into(), addresses.ipv6?.0.into()))
    })
}

fn udp(source: IpAddr, destination: &str, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    build::udp(
        (source, 4_000).into(),
        (destination.parse::<IpAddr>().unwrap(), 53).into(),
        &payload,
    )
}

#[test]
fn packets_of_every_size_cross_both_ways_unchanged() {
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (provider, remote) = provider(&exit, named(&user), ProviderConfig::default());
    let client = client(&user, exit.public_key(), remote);
    let (ipv4, ipv6) = addresses(&client);
    for len in [0, 1, 100, 1_000, 1_200, 1_232] {
        for (own, world) in [(ipv4, "192.0.2.1"), (ipv6, "2001:db8::1")] {
            let out = udp(own, world, len);
            client.device.inject_copy(&out).unwrap();
            assert_eq!(
                provider.device.take_within(PATIENCE),
                Some(Bytes::from(out)),
                "{len} bytes out"
            );
            let back = udp(world.parse().unwrap(), &own.to_string(), len);
            provider.device.inject_copy(&back).unwrap();
            assert_eq!(
                client.device.take_within(PATIENCE),
                Some(Bytes::from(back)),
                "{len} bytes back"
            );
        }
    }
    let report = client.status();
    assert_eq!(
        (report.client.unaccounted, report.client.delivered),
        (0, 12)
    );
    assert_eq!(provider.status().provider.unaccounted, 0);
}

#[test]
fn the_mtu_grows_by_discovery_and_larger_packets_are_told_so() {
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (_provider, remote) = provider(&exit, named(&user), ProviderConfig::default());
    let client = client(&user, exit.public_key(), remote);
    let (_, ipv6) = addresses(&client);
    let mtu = client.until("mtu", |report| {
        report
            .client
            .path()
            .as_ref()
            .map(|p| p.inner_mtu)
            .filter(|mtu| *mtu >= 1_390)
    });
    client
        .device
        .inject_copy(&udp(ipv6, "2001:db8::1", 1_450))
        .unwrap();
    let answer = client.device.take_within(PATIENCE).unwrap();
    let view = IpPacket::parse(&answer).unwrap();
    assert_eq!(
        quell_packet::icmp::reported_mtu(&view),
        Some(u32::from(mtu))
    );
    let path = client.status().client.path().unwrap().clone();
    assert_eq!((path.drops[DropReason::TooBig], path.unaccounted), (1, 0));
}

#[test]
fn an_unknown_client_is_told_so_by_name() {
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (provider, remote) = provider(&exit, Vec::new(), ProviderConfig::default());
    let client = client(&user, exit.public_key(), remote);
    let reason = client.until("refusal", |report| {
        (report.client.state == "waiting").then(|| report.client.reason.clone())
    });
    assert!(
        reason.contains("unknown_client") && reason.contains(&user.public_key().to_string()),
        "{reason}"
    );
    assert!(provider.status().provider.refused["unknown_client"] >= 1);
}

#[test]
fn a_provider_with_another_key_is_refused_and_both_keys_are_named() {
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let expected = Identity::generate().unwrap().public_key();
    let (_provider, remote) = provider(&exit, named(&user), ProviderConfig::default());
    let client = client(&user, expected, remote);
    let reason = client.until("refusal", |report| {
        (report.client.state == "waiting").then(|| report.client.reason.clone())
    });
    assert!(
        reason.contains(&expected.to_string()) && reason.contains(&exit.public_key().to_string()),
        "{reason}"
    );
}

#[test]
fn the_newer_of_two_connections_with_one_key_wins() {
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (provider, remote) = provider(&exit, named(&user), ProviderConfig::default());
    let mut older = client(&user, exit.public_key(), remote);
    let before = addresses(&older);
    let newer = client(&user, exit.public_key(), remote);
    assert_eq!(addresses(&newer), before);
    let reason = older.until("fenced", |report| {
        (report.client.state != "up").then(|| report.client.reason.clone())
    });
    older.stop();
    assert!(
        reason.contains("fenced") || reason == "dialling",
        "{reason}"
    );
    provider.until("one session", |report| {
        (report.provider.sessions.len() <= 2).then_some(())
    });
}

#[test]
fn a_provider_that_stops_says_so_carries_on_and_says_goodbye() {
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let config = ProviderConfig {
        drain: Duration::from_secs(1),
        ..ProviderConfig::default()
    };
    let (mut provider, remote) = provider(&exit, named(&user), config);
    let client = client(&user, exit.public_key(), remote);
    let (ipv4, _) = addresses(&client);
    thread::scope(|scope| {
        let stopping = scope.spawn(|| {
            let start = Instant::now();
            provider.stop();
            (start.elapsed(), provider.device.take_within(PATIENCE))
        });
        let told = |report: &ClientReport| {
            let reason = &report.client.reason;
            reason.contains("closes within 1s").then_some(())
        };
        client.until("told to go", told);
        assert_eq!(client.status().client.state, "up");
        let out = udp(ipv4, "192.0.2.1", 100);
        client.device.inject_copy(&out).unwrap();
        let (took, carried) = stopping.join().unwrap();
        assert_eq!(carried, Some(Bytes::from(out)), "carried while it drained");
        assert!(took >= Duration::from_secs(1), "{took:?}");
    });
    let reason = client.until("down", |report| {
        (report.client.state != "up").then(|| report.client.reason.clone())
    });
    assert!(
        reason.contains("shutting_down") || reason == "dialling",
        "{reason}"
    );
}

#[test]
fn a_second_word_to_stop_ends_the_drain() {
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let config = ProviderConfig {
        drain: Duration::from_secs(600),
        ..ProviderConfig::default()
    };
    let (mut provider, remote) = provider(&exit, named(&user), config);
    let client = client(&user, exit.public_key(), remote);
    addresses(&client);
    provider.tell_to_stop();
    provider.until("draining", |report| {
        report.provider.is_draining.then_some(())
    });
    let start = Instant::now();
    provider.stop();
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn messages_cross_both_ways_whole_and_in_order_and_a_full_window_waits() {
    let (own, peer) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let clients = vec![("one".to_owned(), own.public_key())];
    let (mut exit, address) = provider(&peer, clients, ProviderConfig::default());
    let mut user = client(&own, peer.public_key(), address);
    user.until("up", |report| (report.client.state == "up").then_some(()));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let message = |number: u8| Bytes::from(vec![number; 300_000]);
    runtime.block_on(async {
        // Three windows of them: the sender waits for the taker.
        let sending = async {
            for number in 0..20 {
                user.messages.send((), message(number)).await.unwrap();
            }
        };
        let taking = async {
            for number in 0..20 {
                let (from, came) = exit.messages.receive().await.unwrap();
                assert_eq!((from, came), (own.public_key(), message(number)));
            }
        };
        let both = async { tokio::join!(sending, taking) };
        tokio::time::timeout(PATIENCE, both).await.unwrap();
        let hello = Bytes::from_static(b"hello");
        exit.messages
            .send(own.public_key(), hello.clone())
            .await
            .unwrap();
        let came = tokio::time::timeout(PATIENCE, user.messages.receive()).await;
        assert_eq!(came.unwrap(), Some(((), hello.clone())));
        let stranger = exit.messages.send(peer.public_key(), hello).await;
        assert!(stranger.unwrap_err().to_string().contains("ended"));
        let longer = Bytes::from(vec![0; (1 << 20) + 1]);
        let error = user.messages.send((), longer).await.unwrap_err();
        assert!(error.to_string().contains("longer"), "{error}");
    });
    user.stop();
    exit.stop();
}

/// A backend at `address`, asked as often as a file may ask for.
fn backend_at(address: SocketAddr) -> BackendSettings {
    let settings = BackendSettings {
        urls: vec![format!("http://{address}/").parse().unwrap()],
        health: BackendHealthConfig {
            check_interval: Duration::from_secs(5),
            retry_interval: Duration::from_millis(500),
            probe_interval_min: Duration::from_secs(1),
            probe_interval_max: Duration::from_secs(2),
            ..BackendHealthConfig::default()
        },
    };
    settings.try_new().unwrap()
}

/// TCP through a tunnel, segment by segment.
struct Stream<'a> {
    client: &'a Running<ClientReport, ()>,
    provider: &'a Running<ProviderReport, PublicKey>,
    own: IpAddr,
    sent: u32,
}

impl Stream<'_> {
    /// Sends a segment a few milliseconds and sees it arrive, until `done`; how long that took.
    fn until(
        &mut self,
        patience: Duration,
        done: impl Fn(&ClientReport, &ProviderReport) -> bool,
    ) -> Duration {
        let start = Instant::now();
        while !done(&self.client.status(), &self.provider.status()) {
            assert!(start.elapsed() < patience, "not within {patience:?}");
            let fields = Segment {
                sequence: self.sent,
                ..Segment::default()
            };
            let to = SocketAddr::from(([192, 0, 2, 1], 443));
            let segment = build::tcp((self.own, 4_000).into(), to, &fields, &[7; 600]);
            self.client.device.inject_copy(&segment).unwrap();
            let arrived = self.provider.device.take_within(PATIENCE);
            assert_eq!(arrived, Some(Bytes::from(segment)));
            self.sent += 1;
            thread::sleep(Duration::from_millis(3));
        }
        start.elapsed()
    }
}

// case B30
#[test]
fn a_backend_that_dies_is_known_and_costs_what_flows_nothing_and_one_that_is_back_is_known() {
    let any = "127.0.0.1:0".parse().unwrap();
    let backend = Server::start(any).unwrap();
    let (at, settings) = (backend.address(), backend_at(backend.address()));
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let config = ProviderConfig::default();
    let (provider, remote) = provider_of(&exit, named(&user), config, settings.clone());
    let client = client_of(&user, exit.public_key(), remote, settings);
    let (own, _) = addresses(&client);
    let mut stream = Stream {
        client: &client,
        provider: &provider,
        own,
        sent: 0,
    };
    let words = "well: it answers";
    stream.until(PATIENCE, |client, provider| {
        client.backend.reason == words && provider.backend.reason == words
    });
    assert!(backend.stats().answered >= 2);

    drop(backend);
    // check_interval * 1.2 + 2 * retry_interval, and the machine's own time.
    let known = Duration::from_secs(7) + Duration::from_secs(2);
    stream.until(known, |client, provider| {
        client.backend.degraded && provider.backend.degraded
    });
    let entry = client.status().backend.backends[0].clone();
    assert_eq!(entry.url, Some(format!("http://{at}/")));
    assert!(entry.last_failure.unwrap().contains("refused"));
    let since = Instant::now();
    stream.until(PATIENCE, |client, _| {
        assert!(client.backend.degraded);
        since.elapsed() > Duration::from_secs(1)
    });

    let _backend = Server::start(at).unwrap();
    let back = Duration::from_secs(2) + Duration::from_secs(2);
    stream.until(back, |client, provider| {
        !client.backend.degraded && !provider.backend.degraded
    });

    let sent = u64::from(stream.sent);
    let lane = client.status().client.path().unwrap().clone().flow.send;
    assert_eq!((lane.accepted, lane.expired), (sent, 0));
    // A machine that stands still for a round trip is a silence, too; degraded or not.
    let copies = lane.evidence_resends + lane.silence_resends;
    assert!(copies * 100 <= sent, "{copies} copies of {sent}");
}

// DESIGN §8: what waits for its turn goes by the engine's own timers, in either direction, with nothing else to wake it.
#[test]
fn an_egress_with_a_rate_lets_packets_through_at_that_rate_both_ways() {
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let mut config = ProviderConfig::default();
    // 2 ms for each packet of 1,028 bytes; 15,000 bytes pass at once.
    config.share.egress_rate_bits_per_s = Some(4_112_000);
    // A machine that is busy is no reason to drop.
    config.share.wait_max = Duration::from_secs(1);
    let (provider, remote) = provider(&exit, named(&user), config);
    let client = client(&user, exit.public_key(), remote);
    let (own, _) = addresses(&client);
    let world: IpAddr = "192.0.2.1".parse().unwrap();
    for (from, to, source, destination) in [
        (&client.device, &provider.device, own, world),
        (&provider.device, &client.device, world, own),
    ] {
        let packet = udp(source, &destination.to_string(), 1_000);
        let start = Instant::now();
        for _ in 0..40 {
            from.inject_copy(&packet).unwrap();
        }
        for number in 0..40 {
            assert!(to.take_within(PATIENCE).is_some(), "packet {number}");
        }
        // 40 packets less the burst of 14 and a half.
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(50), "{took:?}");
    }
    let status = provider.status().provider;
    let session = &status.sessions[0];
    assert_eq!((session.delivered, session.received_drops.total()), (40, 0));
    assert_eq!(status.tun_drops.total(), 0);
    assert_eq!(status.month.unwrap().used_bytes, 80 * 1_028);
}

/// Remembers the last count.
#[derive(Debug, Clone, Default)]
struct Ledger(Arc<Mutex<Option<MonthUse>>>);

impl MonthStore for Ledger {
    fn store(&mut self, used: MonthUse) -> std::io::Result<()> {
        *self.0.lock().unwrap() = Some(used);
        Ok(())
    }
}

#[test]
fn a_month_that_is_used_up_ends_sessions_with_words_and_its_count_is_kept() {
    const CEILING: u64 = 1 << 20;
    let (exit, user) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let config = ProviderConfig {
        month_bytes_max: Some(CEILING),
        drain: Duration::from_millis(100),
        ..ProviderConfig::default()
    };
    let used = MonthUse {
        // Ahead of any clock: it stays.
        month: "9998-12".parse().unwrap(),
        bytes: CEILING - 1_500,
    };
    let ledger = Ledger::default();
    let store = Box::new(ledger.clone());
    let settings = (config, BackendSettings::default());
    let prepare = move |engine: &mut ProviderEngine| engine.keep_month(used, store).unwrap();
    let (mut provider, remote) = provider_prepared(&exit, named(&user), settings, prepare);
    let client = client(&user, exit.public_key(), remote);
    let (own, _) = addresses(&client);
    let packet = udp(own, "192.0.2.1", 1_000);
    for _ in 0..2 {
        client.device.inject_copy(&packet).unwrap();
        assert!(provider.device.take_within(PATIENCE).is_some());
    }
    let state = |report: &ProviderReport| report.provider.month.map(|month| month.state);
    provider.until("shut", |report| (state(report)? == "shut").then_some(()));
    client.until("told why", |report| {
        let reason = &report.client.reason;
        reason.contains("month_used_up").then_some(())
    });
    provider.until("refused", |report| {
        report.provider.refused.get("month_used_up").copied()
    });
    provider.stop();
    let kept = ledger.0.lock().unwrap().unwrap();
    assert_eq!(
        (kept.month, kept.bytes),
        (used.month, CEILING - 1_500 + 2 * 1_028)
    );
}

#[test]
fn a_catalog_brings_exits_and_each_knows_the_client_by_a_key_of_its_own() {
    let (exits, users) = (
        [Identity::generate().unwrap(), Identity::generate().unwrap()],
        [Identity::generate().unwrap(), Identity::generate().unwrap()],
    );
    let stranger = Identity::generate().unwrap();
    let ends: Vec<_> = exits
        .iter()
        .zip(&users)
        .map(|(exit, user)| provider(exit, named(user), ProviderConfig::default()))
        .collect();
    let (tell, told) = std::sync::mpsc::channel();
    let client = client_prepared(
        &stranger,
        Vec::new(),
        BackendSettings::default(),
        move |engine| {
            tell.send(engine.catalog()).unwrap();
        },
    );
    let catalog = told.recv().unwrap();
    assert_eq!(client.status().client.dials, 0);
    let server_of = |index: usize| {
        let identity = Some(users[index].clone());
        server(exits[index].public_key(), ends[index].1, identity)
    };
    catalog.send(vec![server_of(0), server_of(1)]).unwrap();
    let up = |count| {
        move |report: &ClientReport| {
            let usable = report
                .client
                .exits
                .iter()
                .filter(|exit| exit.is_usable)
                .count();
            (usable == count).then_some(report.servers.len())
        }
    };
    assert_eq!(client.until("both are usable", up(2)), 2);
    catalog.send(vec![server_of(1)]).unwrap();
    let servers = client.until("one is listed", up(1));
    assert_eq!(servers, 2, "a place stays");
    assert_eq!(client.status().client.unaccounted, 0);
}
