//! Paths that stop answering: what is still sent, and how they come back.

use std::time::Duration;

use bytes::Bytes;
use quell_core::drops::DropReason;
use quell_packet::build::{Header, Segment};
use quell_sim::pair::{End, Event, Reach, Way, World, WorldConfig};
use quell_wire::registry::ErrorCode;

use crate::common::*;

fn tcp(world: &World, place: u32, len: usize) -> Bytes {
    let fields = Segment {
        sequence: place,
        ..Segment::default()
    };
    Header::new(inner(world, 0).0, ip(WORLD_V4))
        .tcp(1, 443, &fields, &vec![0; len - 40])
        .into()
}

/// A world whose round trip is well measured.
fn warm() -> World {
    let mut world = World::up(WorldConfig::default());
    for place in 0..200 {
        let packet = tcp(&world, place, 200);
        world.inject(End::Client(0), packet);
        world.run_for(10 * MS);
    }
    world.run_for(S);
    world.take_events();
    world
}

fn sent(world: &World) -> (u64, u64) {
    let sent = world.fates()[0].sent;
    (sent.datagrams, sent.bytes)
}

/// TCP and UDP from the client for this long, a packet of each every 10 ms.
fn offer(world: &mut World, from: u32, time: Duration) {
    for step in 0..(time.as_millis() / 10) as u32 {
        let packets = [tcp(world, from + step, 1_000), outwards(world, 0, 1_000)];
        packets
            .into_iter()
            .for_each(|packet| world.inject(End::Client(0), packet));
        world.run_for(10 * MS);
    }
}

#[test]
fn a_cut_costs_next_to_nothing_after_its_first_second_and_all_that_was_taken_arrives() {
    //
    let mut world = warm();
    world.set_blackhole(Way::Both, true);
    let begin = sent(&world);
    offer(&mut world, 1_000, S);
    let second = sent(&world);
    assert!(second.1 - begin.1 <= 49_152, "{} bytes", second.1 - begin.1);
    offer(&mut world, 1_100, 29 * S);
    let end = sent(&world);
    assert!(end.1 - second.1 <= 8_192, "{} bytes", end.1 - second.1);
    let path = world.client_status(0).path().unwrap().clone();
    assert_eq!((path.stalled, path.counters.stalls), (true, 1));
    assert!(path.drops[DropReason::PathStalled] > 2_000);

    let taken = path.flow.send.accepted;
    let before = world.provider_status().sessions[0]
        .path
        .flow
        .receive
        .delivered;
    world.take_events();
    world.set_blackhole(Way::Both, false);
    // A question at the latest every 800 ms, a round trip for the evidence, one for the data.
    world.run_for(800 * MS + 100 * MS);
    assert!(!world.client_status(0).path().unwrap().clone().stalled);
    assert!(!world.take_delivered(End::Provider).is_empty());
    world.run_for(2 * S);
    let receive = world.provider_status().sessions[0].path.flow.receive;
    assert_eq!(receive.delivered, taken, "{before} before");
    let send = world.client_status(0).path().unwrap().clone().flow.send;
    assert_eq!((send.in_flight, send.given_up()), (0, 0));
}

#[test]
fn what_tcp_gives_into_a_cut_waits_up_to_the_lanes_window() {
    let mut world = warm();
    // 60 kB in 20 ms: 50 ms of it are 150 kB.
    world.set_carrier(Way::ToProvider, |carrier| carrier.cwnd_bytes = 60_000);
    world.set_blackhole(Way::Both, true);
    let first = tcp(&world, 1_000, 1_000);
    world.inject(End::Client(0), first);
    world.run_for(200 * MS);
    let window_packets = 2 * 1_024 * 1_024 / 1_000 - 1;
    for place in 0..window_packets + 5 {
        let packet = tcp(&world, 1_001 + place, 1_000);
        world.inject(End::Client(0), packet);
        world.run_for(MS / 10);
    }
    let path = world.client_status(0).path().unwrap().clone();
    assert_eq!(path.drops[DropReason::QueueFull], 5);
    assert_eq!(path.flow.send.in_flight, u64::from(window_packets) + 1);
    world.set_blackhole(Way::Both, false);
    world.run_for(5 * S);
    let receive = world.provider_status().sessions[0].path.flow.receive;
    let send = world.client_status(0).path().unwrap().clone().flow.send;
    assert_eq!((send.in_flight, receive.delivered), (0, send.accepted));
}

#[test]
fn a_window_of_resends_leaves_every_second_datagram_to_what_is_never_resent() {
    let mut world = warm();
    world.set_carrier(Way::ToProvider, |carrier| carrier.cwnd_bytes = 200_000);
    world.set_blackhole(Way::Both, true);
    for place in 0..100 {
        let packet = tcp(&world, 1_000 + place, 1_300);
        world.inject(End::Client(0), packet);
    }
    world.run_for(2 * S);
    world.set_blackhole(Way::Both, false);
    // 3 kB in 20 ms: a second for all.
    world.set_carrier(Way::ToProvider, |carrier| carrier.cwnd_bytes = 3_000);
    while world.client_status(0).path().unwrap().clone().stalled {
        world.run_for(MS);
    }
    let mut calls = Vec::new();
    for len in 700..740 {
        let packet = outwards(&world, 0, len);
        calls.push(packet.clone());
        world.inject(End::Client(0), packet);
        world.run_for(10 * MS);
    }
    let path = world.client_status(0).path().unwrap().clone();
    assert!(path.flow.send.in_flight > 20, "{:?}", path.flow.send);
    let arrived = world.take_delivered(End::Provider);
    let called = calls.iter().filter(|packet| arrived.contains(packet));
    let called = called.count();
    assert!((20..=38).contains(&called), "{called} of 40");
}

#[test]
fn what_an_outage_cost_is_known_by_cause_to_the_byte() {
    //
    let mut world = warm();
    world.set_blackhole(Way::Both, true);
    offer(&mut world, 1_000, 5 * S);
    world.set_blackhole(Way::Both, false);
    world.run_for(4 * S);
    let path = world.client_status(0).path().unwrap().clone();
    let (left, send) = (path.frame_bytes, path.flow.send);
    let sent = world.fates()[0].sent;
    assert_eq!(left.total(), sent.bytes);
    assert_eq!((left.ack, left.ping), (sent.ack_bytes, sent.ping_bytes));
    // A pack's frame has some 10 bytes of header.
    let resends = send.evidence_resends + send.silence_resends;
    let headers = left.resend - send.resent_bytes;
    assert!(
        resends > 0 && (5 * resends..16 * resends).contains(&headers),
        "{headers}"
    );
    assert!(left.ping > 0 && left.ack == 0, "{left:?}");
}

#[test]
fn an_idle_path_that_is_cut_asks_at_its_keepalive_and_is_stalled_a_second_later() {
    let mut world = warm();
    world.set_blackhole(Way::Both, true);
    world.run_for(18 * S);
    assert!(!world.client_status(0).path().unwrap().clone().stalled);
    world.run_for(4 * S);
    assert!(world.client_status(0).path().unwrap().clone().stalled);
    world.set_blackhole(Way::Both, false);
    world.run_for(S);
    assert!(!world.client_status(0).path().unwrap().clone().stalled);
}

#[test]
fn packets_that_are_not_acknowledged_alone_make_a_dead_path_known() {
    let mut world = warm();
    world.set_blackhole(Way::Both, true);
    for _ in 0..300 {
        let packet = outwards(&world, 0, 500);
        world.inject(End::Client(0), packet);
        world.run_for(10 * MS);
    }
    let path = world.client_status(0).path().unwrap().clone();
    assert!(path.stalled);
    // A quarter of a second until the question, two timeouts (of 50 ms at least) until the hush.
    let sent = path.counters.sent;
    assert!((25..=45).contains(&sent), "{sent} of 300");
}

#[test]
fn while_one_way_alone_is_cut_nothing_is_lost_and_nobody_storms() {
    for way in [Way::ToProvider, Way::ToClient] {
        let mut world = warm();
        world.set_blackhole(way, true);
        let begin = sent(&world);
        offer(&mut world, 1_000, 20 * S);
        let bytes = sent(&world).1 - begin.1;
        assert!(bytes <= 60_000, "{way:?}: {bytes}");
        world.set_blackhole(way, false);
        world.run_for(4 * S);
        let send = world.client_status(0).path().unwrap().clone().flow.send;
        assert_eq!((send.in_flight, send.given_up()), (0, 0), "{way:?}");
        let receive = world.provider_status().sessions[0].path.flow.receive;
        assert_eq!(receive.delivered, send.accepted, "{way:?}");
    }
}

#[test]
fn a_path_that_answers_and_carries_nothing_is_given_up_within_seconds() {
    let mut world = warm();
    // PINGs pass, packets of 1,000 bytes do not.
    world.set_carrier(Way::Both, |carrier| carrier.link.mtu = Some(300));
    for place in 0..5 {
        let packet = tcp(&world, place, 1_000);
        world.inject(End::Client(0), packet);
    }
    world.run_for(2 * S);
    assert_eq!(closes(&world.take_events()), []);
    world.run_for(13 * S);
    let closed = closes(&world.take_events());
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_eq!(closed[0].0, End::Client(0));
    assert_eq!(closed[0].1.code, ErrorCode::Idle);
    assert_eq!(
        closed[0].1.words,
        "the path answers, but nothing that is sent arrives"
    );
}

/// A world whose packs live for ever: what it holds is bounded by its size alone.
fn patient() -> World {
    let mut config = WorldConfig {
        // QUIC's own end is not what is tested here.
        idle_timeout: Duration::from_secs(200_000),
        ..WorldConfig::default()
    };
    config.client.path.lanes.send.ack_timeout = Duration::from_secs(100_000);
    World::up(config)
}

#[test]
fn a_full_day_of_darkness_holds_no_more_than_its_first_hours() {
    let mut world = patient();
    world.set_blackhole(Way::Both, true);
    let mut most = (0, 0);
    for minute in 0..24 * 60 {
        for place in 0..20 {
            let packets = [
                tcp(&world, minute * 20 + place, 1_000),
                outwards(&world, 0, 1_000),
            ];
            packets
                .into_iter()
                .for_each(|packet| world.inject(End::Client(0), packet));
        }
        world.run_for(60 * S);
        let path = world.client_status(0).path().unwrap().clone();
        let now = (path.flow.send.in_flight, path.queued_bytes);
        if minute < 3 * 60 {
            most = (most.0.max(now.0), most.1.max(now.1));
        }
        assert!(
            now.0 <= most.0 && now.1 <= most.1,
            "{now:?} in minute {minute}, {most:?}"
        );
    }
    world.set_blackhole(Way::Both, false);
    world.run_for(70 * S);
    let send = world.client_status(0).path().unwrap().clone().flow.send;
    assert_eq!(send.in_flight, 0);
    assert_eq!(send.accepted, send.acked + send.given_up());
    let packet = outwards(&world, 0, 100);
    world.inject(End::Client(0), packet.clone());
    world.run_for(S);
    assert!(world.take_delivered(End::Provider).contains(&packet));
}

#[test]
fn a_cut_longer_than_the_ack_timeout_ends_the_session_and_the_next_dial_works() {
    //
    for (cut, sessions) in [(58 * S, 1), (70 * S, 2)] {
        let mut world = warm();
        world.set_blackhole(Way::Both, true);
        offer(&mut world, 1_000, S);
        world.run_for(cut - S);
        world.set_blackhole(Way::Both, false);
        world.run_for(20 * S);
        let status = world.client_status(0);
        assert_eq!((status.state, status.sessions), ("up", sessions), "{cut:?}");
        let closed = closes(&world.take_events());
        let by_client = closed.iter().filter(|(end, _)| *end == End::Client(0));
        let words: Vec<_> = by_client.map(|(_, close)| close.words.as_str()).collect();
        assert_eq!(words, vec!["no answer for 60s"; sessions as usize - 1]);
        // Nothing of the old session is sent into the new one, and nothing is forgotten.
        let flow = status.books().flow.send;
        assert_eq!((flow.in_flight, status.unaccounted), (0, 0));
        assert_eq!(flow.dropped.total() + flow.given_up() > 0, sessions > 1);
        let packet = outwards(&world, 0, 100);
        world.inject(End::Client(0), packet.clone());
        world.run_for(S);
        assert!(world.take_delivered(End::Provider).contains(&packet));
    }
}

#[test]
fn a_stalled_path_stops_its_lanes_timers() {
    let mut world = warm();
    world.set_blackhole(Way::Both, true);
    let mut place = 1_000;
    while !world.client_status(0).path().unwrap().clone().stalled {
        assert!(place < 1_300, "never stalled");
        offer(&mut world, place, 10 * MS);
        place += 1;
    }
    let silences = world.wakes().get("silence").copied();
    assert!(silences.is_some(), "before the stall they spoke");
    world.run_for(20 * S);
    assert_eq!(world.wakes().get("silence").copied(), silences);
}

/// What people were told.
fn notices(events: &[(Duration, Event)]) -> usize {
    let told = |(_, event): &&(Duration, Event)| matches!(event, Event::Notice(..));
    events.iter().filter(told).count()
}

#[test]
fn a_roam_of_a_second_and_a_half_keeps_the_session_and_two_seconds_are_no_verdict() {
    // case B71
    for (away, heals) in [(1_500 * MS, true), (2 * S, false)] {
        let mut world = warm();
        world.set_blackhole(Way::Both, true);
        offer(&mut world, 1_000, away);
        let events = world.take_events();
        assert_eq!((closes(&events), notices(&events)), (vec![], 0));
        if !heals {
            continue;
        }
        world.set_blackhole(Way::Both, false);
        world.run_for(10 * S);
        let events = world.take_events();
        assert_eq!((closes(&events), notices(&events)), (vec![], 0));
        let status = world.client_status(0);
        assert_eq!(
            (status.state, status.dials, status.sessions, status.resumes),
            ("up", 1, 1, 0)
        );
        let send = status.path().unwrap().clone().flow.send;
        assert_eq!((send.in_flight, send.given_up()), (0, 0));
    }
}

/// A hundred flows of TCP, a packet of each.
fn offer_flows(world: &mut World, place: u32) {
    let addresses = (inner(world, 0).0, ip(WORLD_V4));
    for flow in 0..100 {
        let fields = Segment {
            sequence: place,
            ..Segment::default()
        };
        let header = Header::new(addresses.0, addresses.1);
        let packet = header.tcp(10_000 + flow, 443, &fields, &[0; 400]);
        world.inject(End::Client(0), Bytes::from(packet));
    }
}

#[test]
fn flows_whose_acknowledgements_are_all_lost_cost_questions_alone() {
    // R-20, case B02
    let mut world = warm();
    world.set_reach(Reach::Silent);
    world.set_blackhole(Way::ToClient, true);
    // 100 flows, 50 packets a second each.
    for place in 0..500 {
        offer_flows(&mut world, place);
        world.run_for(20 * MS);
    }
    let [stalled, _] = world.fates();
    let send = world.client_status(0).path().unwrap().clone().flow.send;
    assert!(send.resent_bytes * 10 <= send.first_bytes, "{send:?}");
    for place in 0..4 * 360 {
        offer_flows(&mut world, 500 + place);
        world.run_for(10 * S);
    }
    let [end, _] = world.fates();
    assert_eq!(end.sent.packs, stalled.sent.packs, "a pack left");
    let questions = end.sent.pings - stalled.sent.pings;
    assert!(
        (50..=100).contains(&questions),
        "{questions} in the 50 s until the session was gone"
    );
    assert_eq!(world.client_status(0).unaccounted, 0);
}

#[test]
fn two_days_without_an_answer_cost_a_minute_of_questions() {
    // R-20, case B85
    let mut world = warm();
    world.set_reach(Reach::Silent);
    world.set_blackhole(Way::Both, true);
    let [begin, _] = world.fates();
    for minute in 0..48 * 60 {
        let packets = [tcp(&world, minute, 1_000), outwards(&world, 0, 1_000)];
        packets
            .into_iter()
            .for_each(|packet| world.inject(End::Client(0), packet));
        world.run_for(60 * S);
    }
    let [end, _] = world.fates();
    let bytes = end.sent.bytes - begin.sent.bytes;
    // What was offered in the first second, its resends, and a question every 0.7 s until the session was gone.
    assert!(bytes <= 16_384, "{bytes} bytes");
    // at most one a minute, ±50 %.
    let dials = world.client_status(0).dials;
    assert!(
        (2_880 * 2 / 3..=2 * 2_880).contains(&dials),
        "{dials} dials"
    );
    assert_eq!(world.client_status(0).unaccounted, 0);
}
