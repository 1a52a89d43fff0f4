//! The probes over loopback. Echo requests need root or a group the kernel lets ping.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use super::*;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(10);

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A server that sends back what `change` makes of a datagram.
fn liar(change: fn(&mut [u8])) -> UdpService {
    UdpService::start("liar", any(), move |datagram| {
        change(datagram);
        Some(std::borrow::Cow::Borrowed(&*datagram))
    })
    .unwrap()
}

#[test]
fn udp_round_trips_carry_every_size() {
    let echo = udp_echo_server(any()).unwrap();
    for len in [0, 1, 2, 1_200, 8_000, PAYLOAD_BYTES_MAX] {
        assert!(
            udp_round_trip(echo.address(), len, LONG).unwrap() < LONG,
            "{len}"
        );
    }
    assert_eq!(echo.echoed(), 6);
    let error = udp_round_trip(echo.address(), PAYLOAD_BYTES_MAX + 1, LONG).unwrap_err();
    assert!(matches!(error, LabError::Invalid(_)));
}

#[test]
fn other_bytes_than_those_sent_are_an_error() {
    let server = liar(|datagram| datagram[7] ^= 1);
    assert!(matches!(
        udp_round_trip(server.address, 100, LONG),
        Err(LabError::Protocol { .. })
    ));
    // Two round trips of one length do not carry the same bytes, so an old answer is not taken for a new one.
    assert_ne!(payload(0, 100).unwrap(), payload(1 << 17, 100).unwrap());
}

#[test]
fn silence_and_refusal_are_told_apart() {
    let silent = UdpSocket::bind(any()).unwrap();
    let address = silent.local_addr().unwrap();
    let began = Instant::now();
    assert!(matches!(
        udp_round_trip(address, 10, SHORT),
        Err(LabError::TimedOut { .. })
    ));
    assert!(began.elapsed() >= SHORT);
    assert!(matches!(
        udp_refused(address, SHORT),
        Err(LabError::TimedOut { .. })
    ));
    drop(silent);
    assert!(udp_refused(address, LONG).unwrap() < LONG);
    assert!(matches!(
        udp_round_trip(address, 10, LONG),
        Err(LabError::Io { .. })
    ));
    let echo = udp_echo_server(any()).unwrap();
    assert!(matches!(
        udp_refused(echo.address(), LONG),
        Err(LabError::Protocol { .. })
    ));
}

#[test]
fn a_server_that_is_dropped_is_gone() {
    let echo = udp_echo_server(any()).unwrap();
    let address = echo.address();
    drop(echo);
    assert!(udp_refused(address, LONG).is_ok());
}

#[test]
fn names_are_answered_over_the_wire() {
    let record = Ipv4Addr::new(203, 0, 113, 1);
    let server = DnsServer::start(any(), record).unwrap();
    assert_eq!(
        dns_query(server.address(), "any.name.example", LONG).unwrap(),
        vec![record]
    );
    assert!(matches!(
        dns_query(server.address(), "", LONG),
        Err(LabError::Invalid(_))
    ));
    assert!(matches!(
        udp_round_trip(server.address(), 30, SHORT),
        Err(LabError::TimedOut { .. })
    ));
    assert_eq!((server.answered(), server.malformed()), (1, 1));
    let echo = udp_echo_server(any()).unwrap();
    assert!(matches!(
        dns_query(echo.address(), "a.example", LONG),
        Err(LabError::Protocol { .. })
    ));
    let closed = echo.address();
    drop(echo);
    assert!(matches!(
        dns_query(closed, "a.example", LONG),
        Err(LabError::Io { .. })
    ));
}

#[test]
fn echo_requests_are_answered_in_both_families_and_all_sizes() {
    if let Some(reason) = crate::netns::unavailable() {
        eprintln!("skipped: {reason}");
        return;
    }
    // By itself, since a raw socket is handed everybody's echoes.
    crate::netns::Namespace::new("ping")
        .unwrap()
        .run(echo_in_all_sizes)
        .unwrap();
}

fn echo_in_all_sizes() {
    for destination in ["127.0.0.1", "::1"] {
        let destination: IpAddr = destination.parse().unwrap();
        for len in [0, 1, 56, 8_000, 60_000] {
            let report = ping(destination, len, 4, Duration::from_millis(2), LONG).unwrap();
            assert_eq!(
                (report.sent, report.received, report.lost()),
                (4, 4, 0),
                "{destination} {len}: {report:?}"
            );
            assert_eq!(
                (report.corrupted, report.duplicates, report.errors),
                (0, 0, 0)
            );
            assert!(report.round_trip_min() <= report.round_trip_mean());
            assert!(report.round_trip_mean() <= report.round_trip_max());
        }
        // Two at a time do not take each other's answers.
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let report =
                        ping(destination, 56, 50, Duration::from_micros(200), LONG).unwrap();
                    assert_eq!(
                        (report.received, report.corrupted, report.duplicates),
                        (50, 0, 0)
                    );
                });
            }
        });
    }
}

#[test]
fn echo_requests_keep_their_schedule_and_silence_is_a_figure() {
    if let Some(reason) = crate::netns::unavailable() {
        eprintln!("skipped: {reason}");
        return;
    }
    let namespace = crate::netns::Namespace::new("a").unwrap();
    let peer = crate::netns::Namespace::new("b").unwrap();
    let (end, _) = crate::netns::veth(&namespace, "v", &peer, "v").unwrap();
    end.add_address("192.0.2.1".parse().unwrap(), 24).unwrap();
    let nobody: IpAddr = "192.0.2.9".parse().unwrap();
    let began = Instant::now();
    let report = namespace
        .run(|| ping(nobody, 8, 5, Duration::from_millis(20), SHORT))
        .unwrap()
        .unwrap();
    assert!(began.elapsed() >= Duration::from_millis(4 * 20) + SHORT);
    assert_eq!((report.sent, report.received, report.lost()), (5, 0, 5));
    assert_eq!(report.round_trip_mean(), None);
    // Without a route the socket itself refuses.
    let far: IpAddr = "203.0.113.1".parse().unwrap();
    assert!(matches!(
        namespace.run(|| ping(far, 8, 1, SHORT, SHORT)).unwrap(),
        Err(LabError::Io { .. })
    ));
    let error = ping(nobody, PAYLOAD_BYTES_MAX + 1, 1, SHORT, SHORT).unwrap_err();
    assert!(matches!(error, LabError::Invalid(_)));
    assert_eq!(
        ping("127.0.0.1".parse().unwrap(), 8, 0, SHORT, SHORT).unwrap(),
        PingReport::default()
    );
}
