//! What one client may take of a provider: flows, new destinations, its share in both directions, its part of a month.
//!
//! The parts prove their bounds themselves; here they stand where packets pass, and the books of the worlds sum.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::{ClientLimitsConfig, ProviderConfig, ShareConfig};
use quell_core::drops::DropReason;
use quell_core::provider::limits::MonthUse;
use quell_core::provider::{AddressPool, Output, Provider, Roster, SessionId};
use quell_packet::build::{self, Header, Segment};
use quell_packet::tcp::flags;
use quell_packet::{IpPacket, TcpView, protocol};
use quell_sim::pair::{End, World, WorldConfig};
use quell_wire::control::Control;
use quell_wire::registry::ErrorCode;

use crate::admission::{greet, is_welcome};
use crate::common::*;

fn own(provider: &Provider, index: usize) -> std::net::IpAddr {
    let addresses = provider.status().sessions[index].addresses.unwrap();
    addresses.ipv4.unwrap().0.into()
}

/// A provider of as many sessions as there are tags, all up and measured.
fn provider_of(config: ProviderConfig, sessions: u8, now: Instant) -> (Provider, Vec<SessionId>) {
    let tags = 1..=sessions;
    let roster = tags.clone().map(|tag| (format!("client-{tag}"), key(tag)));
    let pool = AddressPool::try_new("10.85.0.0/16".parse().ok(), None).unwrap();
    let roster = Roster::try_new(roster).unwrap();
    let mut provider = Provider::new(config.try_new().unwrap(), roster, pool, 1_500, 7);
    let ids = tags.map(|tag| {
        let (id, said) = greet(&mut provider, tag, now);
        assert!(is_welcome(&said));
        provider.on_carrier(id, facts(1_414), now);
        id
    });
    let ids = ids.collect();
    (provider, ids)
}

fn delivered(said: &[Output]) -> usize {
    said.iter()
        .filter(|out| matches!(out, Output::Deliver(_)))
        .count()
}

fn with_client(client: ClientLimitsConfig) -> ProviderConfig {
    ProviderConfig {
        client,
        ..ProviderConfig::default()
    }
}

fn with_rate(egress_rate_bits_per_s: u64) -> ProviderConfig {
    ProviderConfig {
        share: ShareConfig {
            egress_rate_bits_per_s: Some(egress_rate_bits_per_s),
            ..ShareConfig::default()
        },
        ..ProviderConfig::default()
    }
}

#[test]
fn a_flow_beyond_the_limit_is_dropped_by_name_and_its_client_hears_so() {
    let mut world = World::new(WorldConfig {
        provider: with_client(ClientLimitsConfig {
            client_flows_max: 16,
            ..ClientLimitsConfig::default()
        }),
        ..WorldConfig::default()
    });
    world.add_client(1);
    world.run_for(S);
    let (own, _) = inner(&world, 0);
    for port in 0..16 {
        let packet = Header::new(own, ip(WORLD_V4)).udp(port, 53, b"x");
        world.inject(End::Client(0), packet);
    }
    let syn = Segment {
        sequence: 7,
        flags: flags::SYN,
        ..Segment::default()
    };
    let syn = build::tcp((own, 99).into(), (ip(WORLD_V4), 443).into(), &syn, &[]);
    world.inject(End::Client(0), syn);
    let udp = Header::new(own, ip(WORLD_V4)).udp(100, 53, b"x");
    world.inject(End::Client(0), udp);
    world.run_for(S);

    let session = &world.provider_status().sessions[0];
    assert_eq!(session.received_drops[DropReason::FlowLimit], 2);
    assert_eq!((session.delivered, session.usage.flows), (16, 16));
    let heard: Vec<Bytes> = world.take_delivered(End::Client(0));
    let views: Vec<_> = heard
        .iter()
        .map(|it| IpPacket::parse(it).unwrap())
        .collect();
    let reset = views.iter().find(|view| view.protocol() == protocol::TCP);
    let reset = TcpView::parse(reset.unwrap().payload()).unwrap();
    assert!(reset.is_rst() && reset.acknowledgement() == 8);
    let error = views.iter().find(|view| view.protocol() == protocol::ICMP);
    assert_eq!(&error.unwrap().payload()[..2], [3, 13]);
    assert_eq!(views.len(), 2);
}

#[test]
fn a_scan_is_stopped_and_coming_back_brings_no_new_burst() {
    let now = Instant::now();
    let config = with_client(ClientLimitsConfig {
        client_new_destination_burst: 100,
        ..ClientLimitsConfig::default()
    });
    let (mut provider, ids) = provider_of(config, 1, now);
    let scan = |provider: &mut Provider, id, from: u32| {
        let own = own(provider, 0);
        for n in from..from + 500 {
            let host = std::net::Ipv4Addr::from_bits(0xc633_6400 + n);
            provider.handle_datagram(id, &dgram(&packet(own, host.into(), 60)), now);
        }
        delivered(&session_outputs(provider, id, now))
    };
    assert_eq!(scan(&mut provider, ids[0], 0), 100);
    let drops = provider.status().sessions[0].received_drops;
    assert_eq!(drops[DropReason::DestinationLimit], 400);

    // A newer connection of the same key, and one after a good end.
    let (newer, said) = greet(&mut provider, 1, now);
    assert!(is_welcome(&said));
    provider.on_closed(ids[0], None, now);
    provider.on_carrier(newer, facts(1_414), now);
    assert_eq!(scan(&mut provider, newer, 1_000), 0);
    provider.on_closed(newer, Some(ErrorCode::NoError), now);
    let (third, _) = greet(&mut provider, 1, now);
    provider.on_carrier(third, facts(1_414), now);
    assert_eq!(scan(&mut provider, third, 2_000), 0);
}

/// Ten clients for two seconds of virtual time in steps of a millisecond; `offered` are packets of 1,000 bytes each 100 ms,
/// of each client in each direction. Packets that each got, outwards and inwards.
fn ten_over_a_bottleneck(offered: [usize; 10]) -> (Provider, [[f64; 10]; 2]) {
    let start = Instant::now();
    // 100 packets of 1,000 bytes a second and client, in each direction.
    let (mut provider, ids) = provider_of(with_rate(8_000_000), 10, start);
    let owns: Vec<_> = (0..10).map(|index| own(&provider, index)).collect();
    let number: BTreeMap<_, _> = owns.iter().enumerate().map(|(n, own)| (*own, n)).collect();
    let mut got = [[0.0; 10]; 2];
    let mut take = |packet: &Bytes| {
        let source = IpPacket::parse(packet).unwrap().source();
        got[0][number[&source]] += 1.0;
    };
    for step in 0..2_000_u32 {
        let now = start + step * MS;
        for (n, id) in ids.iter().enumerate() {
            let due = |step: u32| step as usize * offered[n] / 100;
            for _ in due(step)..due(step + 1) {
                let out = packet(owns[n], ip(WORLD_V4), 1_000);
                provider.handle_datagram(*id, &dgram(&out), now);
                provider.handle_packet(packet(ip(WORLD_V4), owns[n], 1_000), now);
            }
        }
        if provider.poll_egress().is_some_and(|(at, _)| at <= now) {
            provider.handle_egress(now);
            while let Some(packet) = provider.poll_delivery(now) {
                take(&packet);
            }
        }
        for id in &ids {
            for out in session_outputs(&mut provider, *id, now) {
                if let Output::Deliver(packet) = out {
                    take(&packet);
                }
            }
            provider.on_carrier(*id, facts(1_414), now);
            session_outputs(&mut provider, *id, now);
        }
    }
    for (n, session) in provider.status().sessions.iter().enumerate() {
        got[1][n] = session.path.counters.accepted as f64;
    }
    (provider, got)
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn ten_greedy_clients_share_both_directions_though_one_offers_twenty_shares() {
    let mut offered = [12; 10];
    offered[0] = 200;
    let (provider, got) = ten_over_a_bottleneck(offered);
    for direction in got {
        assert!(
            jain(&direction) >= 0.95,
            "{} of {direction:?}",
            jain(&direction)
        );
        // The line was never idle: 1,000 packets a second, and the burst.
        let sum: f64 = direction.iter().sum();
        assert!((1_980.0..=2_020.0).contains(&sum), "{sum}");
    }
    let status = provider.status();
    let (mut handed_in, mut accepted) = (0, 0);
    for session in &status.sessions {
        let drops = session.received_drops.total();
        let waiting = session.outward.waiting_packets as u64;
        assert_eq!(
            session.path.counters.received,
            session.delivered + drops + waiting
        );
        accepted += session.path.counters.accepted;
        handed_in += session.inward.waiting_packets as u64;
    }
    assert_eq!(status.inward.waiting_packets as u64, handed_in);
    assert_eq!(
        status.tun_packets,
        accepted + status.tun_drops.total() + handed_in
    );
    assert!(status.tun_drops[DropReason::ShareAged] > 0);
}

#[test]
fn nine_modest_clients_lose_nothing_in_either_direction_while_one_floods() {
    let mut offered = [8; 10];
    offered[4] = 200;
    let (provider, got) = ten_over_a_bottleneck(offered);
    for (n, session) in provider.status().sessions.iter().enumerate() {
        let drops = session.received_drops.total() + session.inward.drops.total();
        assert_eq!(drops > 0, n == 4, "client {n}");
        if n != 4 {
            assert!(got[0][n] >= 158.0 && got[1][n] >= 158.0, "{got:?}");
        }
    }
}

#[test]
fn worlds_whose_egress_is_slow_keep_their_books_through_a_lost_connection() {
    let mut world = World::new(WorldConfig {
        provider: with_rate(400_000),
        ..WorldConfig::default()
    });
    world.add_client(1);
    world.add_client(2);
    world.run_for(S);
    // Until the session goes on over another connection, with packets that wait.
    for round in 0..400 {
        for client in 0..2 {
            for _ in 0..=client * 3 {
                let (out, back) = (outwards(&world, client, 900), inwards(&world, client, 900));
                world.inject(End::Client(client), out);
                world.inject(End::Provider, back);
            }
        }
        if round == 20 {
            world.break_connection(1);
        }
        world.run_for(20 * MS);
        if world.provider_status().resumes > 0 {
            break;
        }
    }
    world.run_for(5 * S);
    let status = world.provider_status();
    assert_eq!((status.resumes, status.inward.waiting_packets), (1, 0));
    for session in &status.sessions {
        assert_eq!(session.outward.waiting_packets, 0);
        assert!(session.delivered > 0);
    }
    assert!(status.tun_drops[DropReason::ShareAged] > 0);
    // What waited when the connection was lost went on with the session.
    assert_eq!(status.tun_drops[DropReason::PathClosed], 0);
    assert_eq!(status.ended_received_drops[DropReason::PathClosed], 0);
}

const NOVEMBER: u64 = 1_796_083_199;
const DRAIN: Duration = Duration::from_secs(5);

const CEILING: u64 = 1 << 20;

fn with_ceiling() -> ProviderConfig {
    ProviderConfig {
        month_bytes_max: Some(CEILING),
        drain: DRAIN,
        ..ProviderConfig::default()
    }
}

fn november(bytes: u64) -> MonthUse {
    let month = "2026-11".parse().unwrap();
    MonthUse { month, bytes }
}

/// A provider that has 300 bytes left of its month, and its sessions.
fn almost_used_up(now: Instant) -> (Provider, Vec<SessionId>) {
    let (mut provider, ids) = provider_of(with_ceiling(), 2, now);
    provider.restore_month(november(CEILING - 300));
    provider.on_wall_clock(NOVEMBER);
    (provider, ids)
}

#[test]
fn the_bytes_of_both_directions_use_a_month_up_and_everybody_is_told_to_go() {
    let now = Instant::now();
    let (mut provider, ids) = almost_used_up(now);
    let own = own(&provider, 0);
    let out = dgram(&packet(own, ip(WORLD_V4), 100));
    provider.handle_datagram(ids[0], &out, now);
    assert_eq!(delivered(&session_outputs(&mut provider, ids[0], now)), 1);
    provider.handle_packet(packet(ip(WORLD_V4), own, 199), now);
    assert_eq!(provider.poll_egress(), None);
    let at = now + S;
    provider.handle_packet(packet(ip(WORLD_V4), own, 60), at);
    assert_eq!(provider.poll_egress(), Some((at, "month")));
    provider.handle_egress(at);
    let ready: Vec<_> = std::iter::from_fn(|| provider.poll_ready()).collect();
    assert!(ready.ends_with(&ids));
    let said = session_outputs(&mut provider, ids[1], at);
    let [Output::Control(bytes)] = said.as_slice() else {
        panic!("{said:?}");
    };
    let Control::Goaway(goaway) = off_stream(bytes) else {
        panic!("a GOAWAY");
    };
    let reason = ErrorCode::MonthUsedUp.code();
    assert_eq!((goaway.reason, goaway.drain_ms), (reason, 5_000));

    // They are carried meanwhile, nobody else is let in, and it is said why.
    provider.handle_datagram(ids[0], &out, at);
    assert_eq!(delivered(&session_outputs(&mut provider, ids[0], at)), 1);
    let refused = provider.on_connection(key(1), at).unwrap_err();
    assert_eq!(refused.code, ErrorCode::MonthUsedUp);
    assert!(refused.words.contains("2026-11") && refused.words.contains("2026-12"));
    assert_eq!(provider.status().refused["month_used_up"], 1);
}

#[test]
fn after_the_drain_of_a_used_up_month_nothing_is_carried() {
    let now = Instant::now();
    let (mut provider, ids) = almost_used_up(now);
    let own = own(&provider, 0);
    provider.handle_packet(packet(ip(WORLD_V4), own, 300), now);
    provider.handle_egress(now);
    for id in &ids {
        session_outputs(&mut provider, *id, now);
    }
    let end = now + DRAIN;
    assert_eq!(provider.poll_egress(), Some((end, "month")));
    provider.handle_egress(end - NS);
    let said = session_outputs(&mut provider, ids[1], end - NS);
    assert!(
        said.iter().all(|out| !matches!(out, Output::Close(_))),
        "{said:?}"
    );
    provider.handle_egress(end);
    assert_eq!(provider.poll_egress(), None);
    let out = dgram(&packet(own, ip(WORLD_V4), 100));
    for id in &ids {
        let said = session_outputs(&mut provider, *id, end);
        let [Output::Close(violation)] = said.as_slice() else {
            panic!("{said:?}");
        };
        assert_eq!(violation.code, ErrorCode::MonthUsedUp);
        provider.handle_datagram(*id, &out, end);
        assert_eq!(session_outputs(&mut provider, *id, end), []);
        provider.on_closed(*id, Some(ErrorCode::MonthUsedUp), end);
    }
    assert_eq!(provider.status().month.unwrap().state, "shut");
    assert_eq!(provider.month_use(), november(CEILING));
}

#[test]
fn neither_a_restart_nor_a_clock_set_back_opens_a_used_up_month_and_the_next_one_does() {
    let now = Instant::now();
    let (mut provider, _) = provider_of(with_ceiling(), 1, now);
    provider.restore_month(november(CEILING));
    for unix_s in [NOVEMBER, 0, NOVEMBER - 40 * 86_400] {
        provider.on_wall_clock(unix_s);
        let refused = provider.on_connection(key(1), now).unwrap_err();
        assert_eq!(refused.code, ErrorCode::MonthUsedUp);
    }
    provider.on_wall_clock(NOVEMBER + 1);
    let (_, said) = greet(&mut provider, 1, now);
    assert!(is_welcome(&said));
    assert_eq!(provider.month_use().bytes, 0);
}

#[test]
fn without_a_ceiling_a_month_is_counted_and_ends_nothing() {
    let now = Instant::now();
    let (mut provider, ids) = provider_of(ProviderConfig::default(), 1, now);
    provider.on_wall_clock(NOVEMBER);
    let own = own(&provider, 0);
    provider.handle_datagram(ids[0], &dgram(&packet(own, ip(WORLD_V4), 100)), now);
    session_outputs(&mut provider, ids[0], now);
    provider.handle_packet(packet(ip(WORLD_V4), own, 200), now);
    let month = provider.status().month.unwrap();
    assert_eq!((month.used_bytes, month.state), (300, "open"));
    assert_eq!(
        (month.month.to_string().as_str(), month.bytes_max),
        ("2026-11", None)
    );
}
