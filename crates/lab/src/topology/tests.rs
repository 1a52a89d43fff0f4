//! The arrangements as the kernel makes them. Without root each test says that it was skipped.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use super::*;
use crate::LabError;
use crate::netns::unavailable;
use crate::probe::{ping, udp_echo_server, udp_refused, udp_round_trip};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_secs(5);

fn skip() -> bool {
    let reason = unavailable();
    if let Some(reason) = &reason {
        eprintln!("skipped: {reason}");
    }
    reason.is_some()
}

#[test]
fn two_hosts_reach_each_other_in_both_families() {
    if skip() {
        return;
    }
    let hosts = two_hosts(1_500).unwrap();
    for (from, to) in [
        (&hosts.client, NEAR_PROVIDER_V4),
        (&hosts.client, NEAR_PROVIDER_V6),
        (&hosts.provider, CLIENT_V4),
        (&hosts.provider, CLIENT_V6),
    ] {
        let report = from
            .run(|| ping(to, 56, 3, Duration::from_millis(1), LONG))
            .unwrap()
            .unwrap();
        assert_eq!(
            (report.sent, report.received, report.errors),
            (3, 3, 0),
            "to {to}"
        );
    }
}

#[test]
fn the_mtu_is_that_of_the_link() {
    if skip() {
        return;
    }
    let hosts = two_hosts(1_400).unwrap();
    let echo = hosts
        .provider
        .run(|| udp_echo_server(SocketAddr::new(NEAR_PROVIDER_V4, 0)))
        .unwrap()
        .unwrap();
    let frames = |len| {
        let before = hosts.client_iface.counters().unwrap().rx_packets;
        for _ in 0..20 {
            hosts
                .client
                .run(|| udp_round_trip(echo.address(), len, LONG))
                .unwrap()
                .unwrap();
        }
        hosts.client_iface.counters().unwrap().rx_packets - before
    };
    // 20 B of IP and 8 B of UDP: 1,372 fit, one more takes two fragments. Besides, neighbours say a word now and then.
    assert!((20..40).contains(&frames(1_372)));
    assert!((40..60).contains(&frames(1_373)));
}

#[test]
fn the_router_forwards_and_the_world_knows_no_way_back_to_a_tunnel() {
    if skip() {
        return;
    }
    let net = routed(1_500).unwrap();
    for to in [FAR_PROVIDER_V4, FAR_PROVIDER_V6] {
        let report = net
            .client
            .run(|| ping(to, 56, 2, Duration::from_millis(1), LONG))
            .unwrap()
            .unwrap();
        assert_eq!(report.received, 2, "to {to}");
        let refused = net
            .client
            .run(|| udp_refused(SocketAddr::new(to, 9), LONG))
            .unwrap();
        assert!(
            refused.is_ok(),
            "the ICMP error comes back from {to}: {refused:?}"
        );
    }
    for to in [WORLD_V4, WORLD_V6] {
        let report = net
            .provider
            .run(|| ping(to, 56, 2, Duration::from_millis(1), LONG))
            .unwrap()
            .unwrap();
        assert_eq!(report.received, 2, "the provider reaches {to}");
    }
    // Let the provider forward without translating: packets reach the world, answers do not come back.
    crate::netns::sysctl(&net.provider, "net.ipv4.ip_forward", "1").unwrap();
    crate::netns::sysctl(&net.provider, "net.ipv6.conf.all.forwarding", "1").unwrap();
    for (family, to) in [WORLD_V4, WORLD_V6].into_iter().enumerate() {
        let via = [FAR_PROVIDER_V4, FAR_PROVIDER_V6][family];
        let target = RouteTarget::Via(via);
        net.router
            .add_route(&Route {
                destination: Destination::host(to),
                target,
                mtu: None,
            })
            .unwrap();
        let before = net.world_iface.counters().unwrap().rx_packets;
        let report = net
            .client
            .run(|| ping(to, 56, 2, Duration::from_millis(1), SHORT))
            .unwrap()
            .unwrap();
        assert_eq!(report.received, 0, "no masquerade, no answer from {to}");
        assert!(net.world_iface.counters().unwrap().rx_packets >= before + 2);
    }
}

#[test]
fn each_way_is_cut_silently_and_healed() {
    if skip() {
        return;
    }
    let mut net = routed(1_500).unwrap();
    for to in [FAR_PROVIDER_V4, FAR_PROVIDER_V6] {
        let echo = net
            .provider
            .run(|| udp_echo_server(SocketAddr::new(to, 0)))
            .unwrap()
            .unwrap();
        let address = echo.address();
        let round_trip = |net: &Routed| {
            net.client
                .run(|| udp_round_trip(address, 100, SHORT))
                .unwrap()
        };
        round_trip(&net).unwrap();
        let mut echoed = 1;
        for (way, arrives) in [(Way::Up, 0), (Way::Down, 1)] {
            net.cut(way).unwrap();
            net.cut(way).unwrap();
            // Silence, not an error: nobody tells the client.
            assert!(
                matches!(round_trip(&net), Err(LabError::TimedOut { .. })),
                "{to} {way:?}"
            );
            echoed += arrives;
            assert_eq!(echo.echoed(), echoed, "{to} {way:?}");
            net.heal();
            round_trip(&net).unwrap();
            echoed += 1;
        }
    }
}

#[test]
fn a_smaller_path_mtu_is_told_and_then_kept_to() {
    if skip() {
        return;
    }
    let net = routed(1_500).unwrap();
    for (to, overhead) in [(FAR_PROVIDER_V4, 28), (FAR_PROVIDER_V6, 48)] {
        let echo = net
            .provider
            .run(|| udp_echo_server(SocketAddr::new(to, 0)))
            .unwrap()
            .unwrap();
        let round_trip = |len| {
            net.client
                .run(|| udp_round_trip(echo.address(), len, SHORT))
                .unwrap()
        };
        round_trip(1_500 - overhead).unwrap();
        net.set_path_mtu(1_300).unwrap();
        round_trip(1_300 - overhead).unwrap();
        // Lost, and answered by an error that both kernels learn from: first the client's, then the provider's.
        round_trip(1_301 - overhead).unwrap_err();
        assert!(
            round_trip(1_301 - overhead).is_ok() || round_trip(1_301 - overhead).is_ok(),
            "{to}: fragmented"
        );
        net.set_path_mtu(1_500).unwrap();
    }
}

#[test]
fn a_silent_mtu_is_a_black_hole() {
    if skip() {
        return;
    }
    let net = routed(1_500).unwrap();
    for (to, overhead) in [(FAR_PROVIDER_V4, 28), (FAR_PROVIDER_V6, 48)] {
        let echo = net
            .provider
            .run(|| udp_echo_server(SocketAddr::new(to, 0)))
            .unwrap()
            .unwrap();
        let round_trip = |len| {
            net.client
                .run(|| udp_round_trip(echo.address(), len, SHORT))
                .unwrap()
        };
        net.set_silent_mtu(1_300).unwrap();
        round_trip(1_300 - overhead).unwrap();
        for _ in 0..3 {
            assert!(
                matches!(round_trip(1_301 - overhead), Err(LabError::TimedOut { .. })),
                "{to}"
            );
        }
        assert_eq!(echo.echoed(), 1);
        net.set_silent_mtu(1_500).unwrap();
        round_trip(1_500 - overhead).unwrap();
    }
}

/// Sends two datagrams of `len` bytes as one for the kernel to split, and waits for an answer or an error.
fn send_pair(server: SocketAddr, len: u16) -> std::io::Result<usize> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(SHORT))?;
    setsockopt(&socket, sockopt::UdpGsoSegment, &i32::from(len))?;
    socket.send(&vec![7; usize::from(len) * 2])?;
    socket.recv(&mut [0; 2_000])
}

#[test]
fn offloaded_packets_do_not_evade_a_silent_mtu() {
    if skip() {
        return;
    }
    let net = routed(1_500).unwrap();
    let echo = net
        .provider
        .run(|| udp_echo_server(SocketAddr::new(FAR_PROVIDER_V4, 0)))
        .unwrap()
        .unwrap();
    let pair = || net.client.run(|| send_pair(echo.address(), 1_400)).unwrap();
    assert_eq!(pair().unwrap(), 1_400);
    net.set_silent_mtu(1_300).unwrap();
    // As one packet they would pass: no receiver asks an offloaded one for its size.
    assert_eq!(pair().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(echo.echoed(), 2);
}
