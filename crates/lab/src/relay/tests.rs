//! The relay over loopback. Times are printed and judged with a wide margin: the machine may be busy with something else.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use super::*;
use crate::probe::{UdpEcho, udp_echo_server, udp_refused, udp_round_trip};
use std::net::UdpSocket;
use std::time::Instant;

const MS: Duration = Duration::from_millis(1);
const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(10);

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A relay in front of an echo server.
fn echo_behind(set: impl FnOnce(&mut RelayConfig)) -> (UdpEcho, Relay) {
    let echo = udp_echo_server(any()).unwrap();
    let mut config = RelayConfig::new(any(), echo.address());
    set(&mut config);
    let relay = Relay::start(config).unwrap();
    (echo, relay)
}

fn socket_to(peer: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(any()).unwrap();
    socket.connect(peer).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

fn eventually(what: &str, relay: &Relay, done: impl Fn(&RelayStats) -> bool) -> RelayStats {
    let began = Instant::now();
    loop {
        let stats = relay.stats();
        if done(&stats) {
            return stats;
        }
        assert!(began.elapsed() < LONG, "{what}: {stats:?}");
        thread::sleep(MS);
    }
}

#[test]
fn a_perfect_relay_is_transparent_to_every_size() {
    let (echo, relay) = echo_behind(|_| {});
    for len in [0, 1, 1_200, 8_000, 65_507] {
        udp_round_trip(relay.address(), len, LONG).unwrap();
    }
    let stats = relay.stats();
    assert_eq!(
        (stats.up.delivered, stats.down.delivered, stats.clients),
        (5, 5, 5)
    );
    assert_eq!(
        (stats.clients_refused, stats.socket_errors, echo.echoed()),
        (0, 0, 5)
    );
    assert!(stats.up.is_conserved() && stats.down.is_conserved());
}

#[test]
fn delays_of_both_ways_add_up_and_are_kept() {
    let (_echo, relay) = echo_behind(|config| {
        config.up.delay = 20 * MS;
        config.down.delay = 30 * MS;
    });
    let mut times: Vec<_> = (0..20)
        .map(|_| udp_round_trip(relay.address(), 100, LONG).unwrap())
        .collect();
    times.sort_unstable();
    eprintln!(
        "50 ms asked: min {:?}, median {:?}, max {:?}",
        times[0], times[10], times[19]
    );
    assert!(times[0] >= 50 * MS, "{:?}", times[0]);
    assert!(times[10] < 150 * MS, "{:?}", times[10]);
}

#[test]
fn the_rate_bounds_the_throughput() {
    let (echo, relay) = echo_behind(|config| {
        config.up.rate_bytes_per_s = Some(1_000_000);
        config.up.queue_ms_max = 1_000;
    });
    let socket = socket_to(relay.address());
    let began = Instant::now();
    for _ in 0..100 {
        socket.send(&[7; 1_000]).unwrap();
    }
    let stats = eventually("all echoed", &relay, |stats| stats.down.delivered == 100);
    let elapsed = began.elapsed();
    eprintln!("100,000 B at 1 MB/s: {elapsed:?}");
    assert!(elapsed >= 99 * MS && elapsed < 300 * MS, "{elapsed:?}");
    assert_eq!((stats.up.lost_queue, echo.echoed()), (0, 100));
}

#[test]
fn loss_is_as_set_and_every_datagram_is_accounted_for() {
    let (echo, relay) = echo_behind(|config| {
        config.up.loss = 0.2;
        config.down.duplicate = 0.1;
        config.seed = 3;
    });
    let socket = socket_to(relay.address());
    for n in 0..2_000u32 {
        socket.send(&n.to_be_bytes()).unwrap();
        // Slow enough for the sockets' buffers, so that the link alone loses.
        if n % 50 == 49 {
            eventually("a batch", &relay, |stats| {
                stats.up.sent > u64::from(n) && stats.down.sent == stats.up.delivered
            });
        }
    }
    let stats = relay.stats();
    eprintln!("20 % asked: {} of 2,000 lost", stats.up.lost_random);
    // Five standard deviations.
    assert!(stats.up.lost_random.abs_diff(400) < 90, "{stats:?}");
    assert!(stats.down.duplicated.abs_diff(160) < 60, "{stats:?}");
    assert_eq!(echo.echoed(), stats.up.delivered);
    assert!(
        stats.up.is_conserved() && stats.down.is_conserved(),
        "{stats:?}"
    );
    assert_eq!(
        stats.down.delivered,
        stats.up.delivered + stats.down.duplicated
    );
}

#[test]
fn a_cut_is_silent_each_way_and_heals() {
    let (echo, relay) = echo_behind(|_| {});
    let round_trip = || udp_round_trip(relay.address(), 10, SHORT);
    round_trip().unwrap();
    relay.cut();
    assert!(matches!(round_trip(), Err(LabError::TimedOut { .. })));
    assert_eq!((echo.echoed(), relay.stats().up.lost_blackhole), (1, 1));
    relay.heal();
    round_trip().unwrap();
    relay.set_down_blackhole(true);
    assert!(matches!(round_trip(), Err(LabError::TimedOut { .. })));
    assert_eq!((echo.echoed(), relay.stats().down.lost_blackhole), (3, 1));
    relay.set_down_blackhole(false);
    relay.set_up_blackhole(true);
    assert!(matches!(round_trip(), Err(LabError::TimedOut { .. })));
    assert_eq!(echo.echoed(), 3);
    relay.set_up_blackhole(false);
    round_trip().unwrap();
}

#[test]
fn a_cut_loses_what_is_in_flight() {
    let (echo, relay) = echo_behind(|config| config.up.delay = Duration::from_secs(60));
    let socket = socket_to(relay.address());
    socket.send(b"late").unwrap();
    eventually("in flight", &relay, |stats| stats.up.in_flight == 1);
    relay.cut();
    relay.heal();
    assert_eq!(
        (relay.stats().up.in_flight, relay.stats().up.lost_blackhole),
        (0, 1)
    );
    // What comes next is not held up by a relay that went to sleep for a minute.
    relay.set_up(LinkConfig::default()).unwrap();
    udp_round_trip(relay.address(), 10, LONG).unwrap();
    assert_eq!(echo.echoed(), 1);
}

#[test]
fn settings_change_under_way_and_wrong_ones_change_nothing() {
    let (_echo, relay) = echo_behind(|_| {});
    let slow = LinkConfig {
        delay: 40 * MS,
        ..LinkConfig::default()
    };
    relay.set_up(slow).unwrap();
    relay.set_down(slow).unwrap();
    assert!(udp_round_trip(relay.address(), 10, LONG).unwrap() >= 80 * MS);
    let wrong = LinkConfig {
        loss: 2.0,
        ..LinkConfig::default()
    };
    assert!(matches!(relay.set_up(wrong), Err(LabError::Link(_))));
    assert!(matches!(relay.set_down(wrong), Err(LabError::Link(_))));
    assert!(udp_round_trip(relay.address(), 10, LONG).unwrap() >= 80 * MS);
    let config = RelayConfig {
        up: wrong,
        ..RelayConfig::new(any(), any())
    };
    assert!(matches!(Relay::start(config), Err(LabError::Link(_))));
    for clients_max in [0, CLIENTS_MAX + 1] {
        let config = RelayConfig {
            clients_max,
            ..RelayConfig::new(any(), relay.address())
        };
        assert!(matches!(Relay::start(config), Err(LabError::Invalid(_))));
    }
}

#[test]
fn clients_are_told_apart_and_bounded() {
    let (echo, relay) = echo_behind(|config| config.clients_max = 3);
    let sockets: Vec<_> = (0..4).map(|_| socket_to(relay.address())).collect();
    let mut buffer = [0; 16];
    for round in 0..2u8 {
        for (n, socket) in sockets.iter().take(3).enumerate() {
            socket.send(&[n as u8, round]).unwrap();
        }
        for (n, socket) in sockets.iter().take(3).enumerate() {
            assert_eq!(socket.recv(&mut buffer).unwrap(), 2);
            assert_eq!(buffer[..2], [n as u8, round]);
        }
    }
    sockets[3].send(b"one too many").unwrap();
    let stats = eventually("refused", &relay, |stats| stats.clients_refused == 1);
    assert_eq!((stats.clients, stats.up.sent, echo.echoed()), (3, 6, 6));
}

#[test]
fn a_rebind_changes_the_source_port_and_keeps_the_flow() {
    let target = UdpSocket::bind(any()).unwrap();
    target.set_read_timeout(Some(LONG)).unwrap();
    let relay = Relay::start(RelayConfig::new(any(), target.local_addr().unwrap())).unwrap();
    let client = socket_to(relay.address());
    let mut buffer = [0; 16];
    client.send(b"one").unwrap();
    let (_, before) = target.recv_from(&mut buffer).unwrap();
    client.send(b"two").unwrap();
    assert_eq!(
        target.recv_from(&mut buffer).unwrap().1,
        before,
        "without a rebind the port stays"
    );
    relay.rebind_upstream().unwrap();
    client.send(b"three").unwrap();
    let (_, after) = target.recv_from(&mut buffer).unwrap();
    assert_ne!(before, after);
    // What goes to the old port is lost, what goes to the new one arrives.
    let _refused = target.send_to(b"old", before);
    target.send_to(b"new", after).unwrap();
    let len = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"new");
}

#[test]
fn a_forger_answers_once_in_the_targets_name_and_nothing_is_held_back() {
    let (echo, relay) = echo_behind(|_| {});
    let client = socket_to(relay.address());
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    thread::scope(|scope| {
        let forged = scope.spawn(|| {
            relay.forge(move |datagram| {
                seen.lock().push(datagram.to_vec());
                datagram.starts_with(b"b").then(|| b"forged".to_vec())
            })
        });
        let mut buffer = [0; 16];
        let mut ask = |word: &[u8]| {
            client.send(word).unwrap();
            let len = client.recv(&mut buffer).unwrap();
            buffer[..len].to_vec()
        };
        // The forger is at work once it was shown something.
        while shown.lock().is_empty() {
            assert_eq!(ask(b"a"), b"a");
        }
        assert_eq!(ask(b"b"), b"forged");
        forged.join().unwrap().unwrap();
        assert_eq!(ask(b"b2"), b"b", "the answer of the target itself");
    });
    let mut buffer = [0; 16];
    let len = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"b2", "it answered once");
    let stats = relay.stats();
    assert_eq!(echo.echoed(), stats.up.sent);
    assert_eq!(shown.lock().last().unwrap(), b"b");
}

#[test]
fn a_target_that_refuses_is_counted_and_the_relay_lives_on() {
    let closed = UdpSocket::bind(any()).unwrap().local_addr().unwrap();
    let relay = Relay::start(RelayConfig::new(any(), closed)).unwrap();
    assert!(matches!(
        udp_round_trip(relay.address(), 10, SHORT),
        Err(LabError::TimedOut { .. })
    ));
    eventually("the refusal", &relay, |stats| stats.socket_errors >= 1);
    let echo = UdpSocket::bind(closed).unwrap();
    let client = socket_to(relay.address());
    client.send(b"on").unwrap();
    let (len, from) = echo.recv_from(&mut [0; 16]).unwrap();
    assert_eq!(len, 2);
    echo.send_to(b"and on", from).unwrap();
    assert_eq!(client.recv(&mut [0; 16]).unwrap(), 6);
}

#[test]
fn dropping_the_relay_stops_it_at_once() {
    let (_echo, relay) = echo_behind(|config| config.up.delay = Duration::from_secs(60));
    let address = relay.address();
    socket_to(address).send(b"x").unwrap();
    eventually("in flight", &relay, |stats| stats.up.in_flight == 1);
    let began = Instant::now();
    drop(relay);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(udp_refused(address, LONG).is_ok());
}

#[test]
fn a_frozen_relay_keeps_what_comes_and_passes_it_on_when_it_thaws() {
    let (echo, relay) = echo_behind(|_| {});
    let socket = socket_to(relay.address());
    let mut answer = [0; 8];
    socket.send(b"before").unwrap();
    assert_eq!(socket.recv(&mut answer).unwrap(), 6);
    relay.freeze();
    // The worker may be in the middle of a turn.
    thread::sleep(SHORT);
    socket.send(b"1").unwrap();
    socket.send(b"22").unwrap();
    socket.set_read_timeout(Some(SHORT)).unwrap();
    assert!(socket.recv(&mut answer).is_err());
    assert_eq!(echo.echoed(), 1);
    relay.thaw();
    socket.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(socket.recv(&mut answer).unwrap(), 1);
    assert_eq!(socket.recv(&mut answer).unwrap(), 2);
    relay.freeze();
    let began = Instant::now();
    drop(relay);
    assert!(began.elapsed() < LONG, "a frozen one stops, too");
}

#[test]
fn a_relay_that_is_gone_is_a_closed_port() {
    let (_echo, relay) = echo_behind(|_| {});
    let address = relay.address();
    drop(relay);
    udp_refused(address, LONG).unwrap();
}
