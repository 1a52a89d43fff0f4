//! TCP in the flow lane: exactly once, each flow in its order, over paths that lose, copy and reorder.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::TcpLane;
use quell_core::drops::DropReason;
use quell_core::health::Signal;
use quell_core::send::Degraded;
use quell_core::status::PathStatus;
use quell_packet::build::{Header, Segment};
use quell_packet::tcp::flags;
use quell_packet::{IpPacket, TcpView};
use quell_sim::pair::{End, Event, Way, World, WorldConfig, for_seeds};

use crate::common::*;

/// A segment of a flow: its port, its place in it, and this many bytes in all.
fn segment(world: &World, inwards: bool, flow: u16, place: u32, len: usize) -> Bytes {
    let (own, other) = (inner(world, 0).0, ip(WORLD_V4));
    let (source, destination) = if inwards { (other, own) } else { (own, other) };
    let fields = Segment {
        sequence: place,
        ..Segment::default()
    };
    let payload = vec![place as u8; len.saturating_sub(40)];
    Header::new(source, destination)
        .tcp(flow, 443, &fields, &payload)
        .into()
}

/// Flow and place of a segment.
fn of(packet: &[u8]) -> (u16, u32) {
    let view = IpPacket::parse(packet).unwrap();
    let tcp = TcpView::parse(view.payload()).unwrap();
    (tcp.source_port(), tcp.sequence())
}

fn path_of(world: &World, end: End) -> PathStatus {
    match end {
        End::Client(client) => world.client_status(client).path().unwrap().clone(),
        End::Provider => world.provider_status().sessions[0].path.clone(),
    }
}

const FLOWS: u16 = 5;
const PLACES: u32 = 60;

/// What came out, for each flow its places in their order of arrival.
fn arrivals(packets: &[Bytes]) -> HashMap<u16, Vec<u32>> {
    let mut arrivals: HashMap<_, Vec<_>> = HashMap::new();
    for packet in packets {
        let (flow, place) = of(packet);
        arrivals.entry(flow).or_default().push(place);
    }
    arrivals
}

/// Places that came after a later one.
fn displaced(places: &[u32]) -> u64 {
    let mut seen = 0;
    let late = |place: &&u32| {
        let late = **place < seen;
        seen = seen.max(**place);
        late
    };
    places.iter().filter(late).count() as u64
}

#[test]
fn segments_arrive_exactly_once_and_in_the_order_of_their_flow() {
    // R-3, case B60
    for_seeds(
        "session::lanes::segments_arrive_exactly_once_and_in_the_order_of_their_flow",
        100,
        |seed| {
            let mut world = World::up(WorldConfig {
                seed,
                ..WorldConfig::default()
            });
            let loss = [0.01, 0.05, 0.2][(seed % 3) as usize];
            world.set_carrier(Way::Both, |carrier| {
                carrier.link.loss = loss;
                carrier.link.jitter = 5 * MS;
                carrier.link.duplicate = 0.05;
            });
            let mut delivered = [Vec::new(), Vec::new()];
            for place in 1..=PLACES {
                for flow in 1..=FLOWS {
                    for (inwards, end) in [(false, End::Client(0)), (true, End::Provider)] {
                        let len = 40 + (place as usize * 97 + usize::from(flow) * 31) % 1_300;
                        let packet = segment(&world, inwards, flow, place, len);
                        world.inject(end, packet);
                    }
                }
                world.run_for(2 * MS);
                collect(&mut world, &mut delivered);
            }
            world.set_carrier(Way::Both, |carrier| carrier.link.loss = 0.0);
            world.run_for(5 * S);
            collect(&mut world, &mut delivered);
            let ends = [End::Provider, End::Client(0)];
            for (end, delivered) in ends.into_iter().zip(delivered) {
                let flow = path_of(&world, end).flow.receive;
                assert_eq!((flow.held, flow.skipped), (0, 0));
                let mut late = 0;
                for (port, places) in arrivals(&delivered) {
                    late += displaced(&places);
                    let mut sorted = places;
                    sorted.sort_unstable();
                    assert_eq!(sorted, (1..=PLACES).collect::<Vec<_>>(), "flow {port}");
                }
                assert!(late <= flow.holds_expired, "{late} of {flow:?}");
            }
        },
    );
}

fn collect(world: &mut World, delivered: &mut [Vec<Bytes>; 2]) {
    for (_, event) in world.take_events() {
        if let Event::Deliver(end, packet) = event {
            delivered[usize::from(end != End::Provider)].push(packet);
        }
    }
}

#[test]
fn tcp_takes_the_lane_that_is_set_and_udp_none() {
    for (tcp, laned) in [(TcpLane::Flow, 10), (TcpLane::Dgram, 0)] {
        let mut config = WorldConfig::default();
        config.client.path.lanes.tcp = tcp;
        let mut world = World::up(config);
        for place in 0..10 {
            let packets = [
                segment(&world, false, 1, place, 500),
                outwards(&world, 0, 500),
            ];
            packets
                .into_iter()
                .for_each(|packet| world.inject(End::Client(0), packet));
        }
        world.run_for(S);
        assert_eq!(world.take_delivered(End::Provider).len(), 20);
        let counters = path_of(&world, End::Client(0)).counters;
        assert_eq!((counters.laned, counters.sent), (laned, 20 - laned));
    }
}

#[test]
fn a_loss_in_one_flow_delays_no_other() {
    let mut world = World::up(WorldConfig::default());
    let lost = segment(&world, false, 1, 0, 300);
    world.set_blackhole(Way::ToProvider, true);
    world.inject(End::Client(0), lost.clone());
    world.set_blackhole(Way::ToProvider, false);
    for place in 1..4 {
        for flow in [1, 2] {
            let packet = segment(&world, false, flow, place, 300);
            world.inject(End::Client(0), packet);
        }
    }
    world.run_for(11 * MS);
    let at_once: Vec<_> = world.take_delivered(End::Provider);
    assert_eq!(
        at_once.iter().map(|p| of(p)).collect::<Vec<_>>(),
        [(2, 1), (2, 2), (2, 3)]
    );
    world.run_for(S);
    let later = world.take_delivered(End::Provider);
    assert_eq!(
        later.iter().map(|p| of(p)).collect::<Vec<_>>(),
        [(1, 0), (1, 1), (1, 2), (1, 3)],
        "in order, once the first came"
    );
    let send = path_of(&world, End::Client(0)).flow.send;
    assert_eq!((send.evidence_resends, send.silence_resends), (1, 0));
}

/// A pure ACK of the flow with this window.
fn pure_ack(world: &World, flow: u16, place: u32, window: u16) -> Bytes {
    let fields = Segment {
        sequence: place,
        acknowledgement: place,
        flags: flags::ACK,
        window,
        options: &[],
    };
    Header::new(inner(world, 0).0, ip(WORLD_V4))
        .tcp(flow, 443, &fields, &[])
        .into()
}

/// The first packet is lost; which places came at once, and which a second later.
fn behind_a_loss(packets: impl FnOnce(&World) -> Vec<Bytes>) -> (Vec<u32>, Vec<u32>, PathStatus) {
    let mut world = World::up(WorldConfig::default());
    let mut packets = packets(&world).into_iter();
    world.set_blackhole(Way::ToProvider, true);
    world.inject(End::Client(0), packets.next().unwrap());
    world.set_blackhole(Way::ToProvider, false);
    packets.for_each(|packet| world.inject(End::Client(0), packet));
    world.run_for(11 * MS);
    let places = |packets: Vec<Bytes>| packets.iter().map(|packet| of(packet).1).collect();
    let at_once = places(world.take_delivered(End::Provider));
    world.run_for(S);
    let later = places(world.take_delivered(End::Provider));
    (at_once, later, path_of(&world, End::Client(0)))
}

#[test]
fn pure_acks_wait_for_nothing_and_nothing_waits_for_them() {
    let (at_once, later, path) = behind_a_loss(|world| {
        let data = |place| segment(world, false, 1, place, 300);
        let ack = |place| pure_ack(world, 1, place, 500);
        vec![data(0), ack(1), data(2), ack(3)]
    });
    assert_eq!((at_once, later), (vec![1, 3], vec![0, 2]));
    assert_eq!((path.counters.laned, path.counters.sent), (4, 0));
    let (at_once, later, path) = behind_a_loss(|world| {
        let ack = |place| pure_ack(world, 1, place, 500);
        vec![ack(0), segment(world, false, 1, 1, 300), ack(2)]
    });
    assert_eq!((at_once, later), (vec![1, 2], vec![0]), "it is repaired");
    assert_eq!(path.flow.send.evidence_resends, 1);
}

#[test]
fn an_ack_that_closes_the_window_never_comes_after_one_that_opens_it() {
    let (at_once, later, path) =
        behind_a_loss(|world| vec![pure_ack(world, 1, 0, 0), pure_ack(world, 1, 0, 1)]);
    assert_eq!((at_once.len(), later.len()), (1, 0));
    assert_eq!((path.counters.laned, path.counters.sent), (1, 1));
}

#[test]
fn no_loss_and_little_disorder_draw_no_resend() {
    // case B03
    let mut world = World::up(WorldConfig::default());
    world.set_carrier(Way::Both, |carrier| carrier.link.jitter = 2 * MS);
    for place in 0..2_000 {
        let packet = segment(&world, false, (place % 7) as u16, place, 200);
        world.inject(End::Client(0), packet);
        world.run_for(MS / 4);
    }
    world.run_for(S);
    let send = path_of(&world, End::Client(0)).flow.send;
    assert_eq!((send.evidence_resends, send.silence_resends), (0, 0));
    assert_eq!(send.acked, 2_000);
}

#[derive(Debug)]
struct Always(bool);

impl Degraded for Always {
    fn is_degraded(&self, _now: Instant) -> bool {
        self.0
    }
}

/// All events of a busy minute.
fn minute(degraded: bool, loss: f64) -> (Vec<(Duration, Event)>, PathStatus) {
    let mut config = WorldConfig {
        signal: Signal::new(Arc::new(Always(degraded))),
        ..WorldConfig::default()
    };
    config.to_provider.link.loss = loss;
    let mut world = World::up(config);
    for place in 0..3_000 {
        for inwards in [false, true] {
            let end = if inwards {
                End::Provider
            } else {
                End::Client(0)
            };
            let packet = segment(&world, inwards, (place % 3) as u16, place, 700);
            world.inject(end, packet);
        }
        world.run_for(20 * MS);
    }
    (world.take_events(), path_of(&world, End::Client(0)))
}

#[test]
fn while_acks_flow_a_degraded_backend_changes_nothing() {
    //
    for loss in [0.0, 0.02] {
        let (healthy, degraded) = (minute(false, loss), minute(true, loss));
        assert!(healthy.0.len() >= 6_000);
        assert_eq!(healthy, degraded, "at {loss}");
    }
}

#[test]
fn a_slow_path_bounds_what_waits_by_time_and_the_device_is_read_on() {
    let mut config = WorldConfig::default();
    // 1 MB/s: 50 ms are 50 kB.
    config.to_provider.cwnd_bytes = 20_000;
    let mut world = World::up(config);
    for place in 0..400 {
        let packet = segment(&world, false, 1, place, 1_399);
        world.inject(End::Client(0), packet);
        assert!(world.wants_packets(0));
    }
    let path = path_of(&world, End::Client(0));
    let waiting = path.flow.send.in_flight as usize;
    assert!(
        (35..=40).contains(&waiting),
        "{waiting} and a few in the carrier"
    );
    assert_eq!(path.drops[DropReason::QueueFull], 400 - waiting as u64);
    world.run_for(80 * MS);
    assert_eq!(world.take_delivered(End::Provider).len(), waiting);
}

#[test]
fn a_fast_path_takes_its_window_and_then_the_device_waits() {
    let mut world = World::up(WorldConfig::default());
    world.set_carrier(Way::ToProvider, |carrier| {
        carrier.cwnd_bytes = 1 << 30;
        carrier.link.blackhole = true;
    });
    let mut place = 0;
    while world.wants_packets(0) && place < 10_000 {
        let packet = segment(&world, false, 1, place, 1_399);
        world.inject(End::Client(0), packet);
        place += 1;
        let left = 2 * 1_024 * 1_024 - 1_399 * place as usize;
        assert_eq!(world.has_room_for(0, 2), left >= 2 * 1_500, "{left}");
    }
    // 2 MiB of the window, less a packet of the device's largest size.
    assert_eq!(place as usize, (2 * 1_024 * 1_024 - 1_500) / 1_399 + 1);
    assert_eq!(path_of(&world, End::Client(0)).drops.total(), 0);
    world.set_blackhole(Way::ToProvider, false);
    world.run_for(2 * S);
    assert!(world.wants_packets(0));
    assert_eq!(world.take_delivered(End::Provider).len(), place as usize);
}

#[test]
fn segments_that_outgrow_the_path_are_cut_anew_and_arrive_in_their_order() {
    // case B44
    for sent_before in [false, true] {
        let mut world = World::up(WorldConfig::default());
        world.set_carrier(Way::ToProvider, |carrier| {
            carrier.held = !sent_before;
            carrier.link.blackhole = sent_before;
            carrier.cwnd_bytes = 60_000;
        });
        for place in 0..10 {
            let large = segment(&world, false, 1, place, 1_399);
            world.inject(End::Client(0), large);
        }
        world.run_for(20 * MS);
        world.set_datagram_len_max(1_162);
        world.set_carrier(Way::ToProvider, |carrier| {
            carrier.held = false;
            carrier.link.blackhole = false;
        });
        for place in 10..15 {
            let small = segment(&world, false, 1, place, 1_000);
            world.inject(End::Client(0), small);
        }
        world.run_for(2 * S);
        let arrived = arrivals(&world.take_delivered(End::Provider));
        assert_eq!(arrived[&1], (0..15).collect::<Vec<_>>());
        let told = world.take_delivered(End::Client(0));
        assert!(told.is_empty(), "{told:?}");
        let path = path_of(&world, End::Client(0));
        let send = path.flow.send;
        assert_eq!((send.cut_anew, send.too_large, send.in_flight), (10, 0, 0));
        assert_eq!((send.accepted, path.counters.laned), (10 + 20 + 5, 15));
        assert!((1..=3).contains(&send.skips), "{send:?}");
    }
}

#[test]
fn a_segment_that_finds_no_room_for_its_pieces_is_dropped_by_name() {
    let mut world = World::up(WorldConfig::default());
    world.set_carrier(Way::ToProvider, |carrier| carrier.held = true);
    let large = segment(&world, false, 1, 0, 1_399);
    world.inject(End::Client(0), large);
    // 9 pieces of up to 160 bytes are more than a packet may have.
    world.set_datagram_len_max(170);
    world.set_carrier(Way::ToProvider, |carrier| carrier.held = false);
    world.run_for(S);
    let path = path_of(&world, End::Client(0));
    assert_eq!(
        (path.drops[DropReason::TooBig], path.counters.laned),
        (1, 0)
    );
    assert_eq!((path.flow.send.cut_anew, path.unaccounted), (1, 0));
}

#[test]
fn a_ping_beside_a_full_flow_lane_waits_for_a_turn_and_not_for_the_queue() {
    let mut config = WorldConfig::default();
    // 1 MB/s: 1.4 ms a datagram.
    config.to_provider.cwnd_bytes = 20_000;
    let mut world = World::up(config);
    for place in 0..100 {
        let packet = segment(&world, false, 1, place, 1_399);
        world.inject(End::Client(0), packet);
    }
    let ping = outwards(&world, 0, 84);
    world.inject(End::Client(0), ping.clone());
    // 10 ms of the way, two datagrams of the carrier, two of a turn.
    world.run_for(17 * MS);
    let arrived = world.take_delivered(End::Provider);
    assert!(arrived.contains(&ping), "after {} segments", arrived.len());
}

#[test]
fn over_a_carrier_that_loses_nothing_a_lane_without_resends_repeats_nothing() {
    // case B57: a stream beneath repairs by itself; a second repair on top of it is the storm
    let mut config = WorldConfig::default();
    for path in [&mut config.client.path, &mut config.provider.path] {
        path.lanes.send.max_resend_count = 0;
    }
    let mut world = World::up(config);
    // As a stream under loss looks from above: late, in bursts, whole.
    for place in 0..300 {
        if place % 50 == 0 {
            world.set_carrier(Way::Both, |carrier| carrier.held = place % 100 == 0);
        }
        let packet = segment(&world, false, 1, place, 600);
        world.inject(End::Client(0), packet);
        world.run_for(10 * MS);
    }
    world.set_carrier(Way::Both, |carrier| carrier.held = false);
    world.run_for(2 * S);
    let send = path_of(&world, End::Client(0)).flow.send;
    assert_eq!((send.evidence_resends, send.silence_resends), (0, 0));
    assert_eq!(
        (send.first_sends, send.acked),
        (send.accepted, send.accepted)
    );
    let places = arrivals(&world.take_delivered(End::Provider));
    assert_eq!(displaced(&places[&1]), 0);
}

#[test]
fn where_packets_go_both_ways_their_acks_ride_with_them() {
    let mut world = World::up(WorldConfig::default());
    let before = world.fates().map(|fate| fate.sent.datagrams);
    // An ACK may wait for 5 ms, a quarter of the round trip; a packet goes the same way each 4 ms.
    for place in 0..200 {
        for (inwards, end) in [(false, End::Client(0)), (true, End::Provider)] {
            let packet = segment(&world, inwards, 1, place, 200);
            world.inject(end, packet);
        }
        world.run_for(4 * MS);
    }
    world.run_for(S);
    for (before, fate) in before.into_iter().zip(world.fates()) {
        let datagrams = fate.sent.datagrams - before;
        assert!(
            (200..=205).contains(&datagrams),
            "{datagrams} for 200 packets"
        );
        assert!(fate.sent.acks >= 190);
    }
}
