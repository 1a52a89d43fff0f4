//! Sessions that outlive their connection: what is resent, who is believed, and when it is over.

use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::ProviderConfig;
use quell_core::drops::DropReason;
use quell_core::multi::{Notice, Output};
use quell_core::path::MessagesEnd;
use quell_core::provider::{self, Provider, SessionId};
use quell_packet::build::{Header, Segment};
use quell_sim::pair::{End, Event, Way, World, WorldConfig, for_seeds};
use quell_wire::control::{Control, Resume, ResumeLane};
use quell_wire::frame::{Credit, Lane};
use quell_wire::registry::{ErrorCode, VERSION};

use crate::admission::{greet, is_welcome};
use crate::common::*;

fn tcp(world: &World, inwards: bool, place: u32) -> Bytes {
    let (own, other) = (inner(world, 0).0, ip(WORLD_V4));
    let (source, destination) = if inwards { (other, own) } else { (own, other) };
    let fields = Segment {
        sequence: place,
        ..Segment::default()
    };
    Header::new(source, destination)
        .tcp(1, 443, &fields, &[7; 900])
        .into()
}

/// Packets of both ways under way when the connection breaks.
fn broken() -> (World, Vec<Bytes>, Vec<Bytes>) {
    let mut world = World::up(WorldConfig::default());
    world.run_for(S);
    let out: Vec<_> = (0..40).map(|place| tcp(&world, false, place)).collect();
    let back: Vec<_> = (0..40).map(|place| tcp(&world, true, place)).collect();
    for (out, back) in out.iter().zip(&back) {
        world.inject(End::Client(0), out.clone());
        world.inject(End::Provider, back.clone());
        world.run_for(MS / 4);
    }
    world.break_connection(0);
    (world, out, back)
}

#[test]
fn a_lost_connection_costs_no_pack_and_the_same_session_goes_on() {
    let (mut world, out, back) = broken();
    let during = tcp(&world, false, 40);
    world.inject(End::Client(0), during.clone());
    let status = world.client_status(0);
    assert!(status.path().unwrap().clone().stalled);
    // The first redial after a stable session comes within a second.
    world.run_for(3 * S);
    let status = world.client_status(0);
    assert_eq!(
        (status.state, status.sessions, status.resumes),
        ("up", 1, 1)
    );
    let provider = world.provider_status();
    assert_eq!((provider.sessions_total, provider.resumes), (1, 1));
    assert_eq!(provider.sessions.len(), 1);
    let send = status.path().unwrap().clone().flow.send;
    assert_eq!((send.in_flight, send.given_up(), send.acked), (0, 0, 41));
    assert!(send.max_sends_of_one_pack.get() <= 2);
    // Each once, also what had come just before.
    let events = world.take_events();
    let expected = out.into_iter().chain([during]).chain(back);
    assert_eq!(sorted(delivered(&events)), sorted(expected.collect()));
    let resumed =
        |(_, event): &&(Duration, Event)| matches!(event, Event::Notice(0, Notice::Resumed));
    assert_eq!(events.iter().filter(resumed).count(), 1);
}

/// What either end gave to its device.
fn delivered(events: &[(Duration, Event)]) -> Vec<Bytes> {
    let mut packets = Vec::new();
    for (_, event) in events {
        if let Event::Deliver(_, packet) = event {
            packets.push(packet.clone());
        }
    }
    packets
}

fn sorted(mut packets: Vec<Bytes>) -> Vec<Bytes> {
    packets.sort();
    packets
}

#[test]
fn while_suspended_only_what_can_wait_is_taken() {
    let (mut world, ..) = broken();
    let lost = outwards(&world, 0, 300);
    world.inject(End::Client(0), lost);
    let path = world.client_status(0).path().unwrap().clone();
    assert_eq!(path.drops[DropReason::PathStalled], 1);
    // The provider does not know yet; its session waits once the new connection asks.
    world.run_for(5 * S);
    assert_eq!(world.client_status(0).resumes, 1);
}

#[test]
fn a_provider_that_forgot_the_session_begins_another_on_the_same_connection() {
    //
    let (mut world, ..) = broken();
    world.crash_provider();
    world.run_for(3 * S);
    let status = world.client_status(0);
    assert_eq!(
        (status.state, status.sessions, status.resumes),
        ("up", 2, 0)
    );
    assert_eq!(status.dials, 2, "one dial found out and began anew");
    let flow = status.ended.flow.send;
    assert_eq!(flow.dropped.total() + flow.acked + flow.given_up(), 40);
    let path = status.path().unwrap().clone();
    assert_eq!(
        path.flow.send.accepted, 0,
        "nothing is resent into a fresh session"
    );
}

#[test]
fn a_session_without_a_connection_ends_a_minute_after_the_last_progress_at_either_end() {
    let (mut world, ..) = broken();
    world.set_blackhole(Way::Both, true);
    world.set_reach(quell_sim::pair::Reach::Silent);
    world.run_for(59 * S);
    assert!(world.client_status(0).path().is_some());
    world.run_for(2 * S);
    let status = world.client_status(0);
    assert_eq!((status.path(), status.unaccounted), (None, 0));
    assert!(world.provider_status().sessions.len() == 1);
    world.run_for(5 * S);
    assert_eq!(world.provider_status().sessions, [], "5 s later");
    assert_eq!(world.provider_status().unaccounted, 0);
    world.set_blackhole(Way::Both, false);
    world.set_reach(quell_sim::pair::Reach::Up);
    world.run_for(61 * S);
    assert_eq!(world.client_status(0).sessions, 2);
}

#[test]
fn an_idle_session_that_loses_its_connection_ends_a_minute_after_that() {
    // Nothing was unanswered: the minute begins with the loss, and without it would never begin.
    let mut world = World::up(WorldConfig::default());
    world.set_reach(quell_sim::pair::Reach::Silent);
    world.break_connection(0);
    world.run_for(59 * S);
    assert!(world.client_status(0).path().is_some());
    world.run_for(2 * S);
    assert_eq!(world.client_status(0).path(), None);
    assert_eq!(world.provider_status().sessions.len(), 1);
    world.run_for(5 * S);
    assert_eq!(world.provider_status().sessions, [], "5 s later");
}

#[test]
fn messages_survive_a_connection_and_end_with_the_session_by_name() {
    let mut world = World::up(WorldConfig::default());
    world.run_for(S);
    for n in 0..5_u8 {
        world.send_message(0, End::Client(0), &[n; 700]).unwrap();
    }
    world.break_connection(0);
    world.send_message(0, End::Client(0), &[5; 700]).unwrap();
    world.run_for(3 * S);
    let messages = world.take_messages(0, End::Provider);
    let expected: Vec<_> = (0..6_u8).map(|n| Bytes::from(vec![n; 700])).collect();
    assert_eq!(messages, expected, "each once, in order");
    world.send_message(0, End::Client(0), b"perhaps").unwrap();
    world.crash_provider();
    world.break_connection(0);
    world.take_events();
    world.run_for(20 * S);
    let ended = |(_, event): &(Duration, Event)| {
        let lost = MessagesEnd::DeliveryUnknown { packs: 1 };
        matches!(event, Event::MessagesEnded(End::Client(0), end) if *end == lost)
    };
    assert!(world.take_events().iter().any(ended));
}

/// RESUME of the session that WELCOME named.
fn resume(session_id: [u8; 16], epoch: u64, cumulative: u64) -> Control {
    let lane = |lane| ResumeLane {
        lane,
        cumulative,
        ranges: Vec::new(),
        credit: Credit::FIRST,
    };
    Control::Resume(Resume {
        session_id,
        epoch,
        lanes: Lane::ALL.map(lane).to_vec(),
    })
}

fn said(outputs: &[provider::Output]) -> Vec<Control> {
    let mut messages = Vec::new();
    for output in outputs {
        if let provider::Output::Control(bytes) = output {
            messages.push(off_stream(bytes));
        }
    }
    messages
}

/// A provider, the session of its first client, and what WELCOME named that.
fn greeted(now: Instant) -> (Provider, SessionId, [u8; 16]) {
    let mut provider = lone_provider(ProviderConfig::default(), "10.85.0.0/16");
    let first = provider.on_connection(key(1), now).unwrap();
    provider.handle_control(first, &on_stream(&hello(VERSION)), now);
    let outputs = session_outputs(&mut provider, first, now);
    let Some(Control::Welcome(welcome)) = said(&outputs).pop() else {
        panic!("no welcome");
    };
    (provider, first, welcome.session_id)
}

#[test]
fn a_resume_is_believed_for_its_key_its_session_and_a_higher_epoch_alone() {
    let now = Instant::now();
    let (mut provider, first, id) = greeted(now);
    let wrong = [
        (key(2), resume(id, 1, 0)),
        (key(1), resume([9; 16], 1, 0)),
        (key(1), resume(id, 0, 0)),
    ];
    for (key, message) in wrong {
        let other = provider.on_connection(key, now).unwrap();
        provider.handle_control(other, &on_stream(&message), now);
        let answers = said(&session_outputs(&mut provider, other, now));
        let [Control::Error(error)] = answers.as_slice() else {
            panic!("{answers:?}");
        };
        assert_eq!(error.code, ErrorCode::SessionGone.code());
        assert_eq!(provider.poll_ready(), None, "nobody is fenced");
        provider.on_closed(other, None, now);
    }
    let second = provider.on_connection(key(1), now).unwrap();
    provider.handle_control(second, &on_stream(&resume(id, 3, 0)), now);
    let answers = said(&session_outputs(&mut provider, second, now));
    assert!(matches!(answers.as_slice(), [Control::Resumed(r)] if r.epoch == 3));
    assert_eq!(provider.poll_ready(), Some(first));
    let closed = session_outputs(&mut provider, first, now);
    assert!(matches!(&closed[..], [provider::Output::Close(v)] if v.code == ErrorCode::Fenced));
    // An older connection that speaks late is told so, and takes nothing.
    let late = provider.on_connection(key(1), now).unwrap();
    provider.handle_control(late, &on_stream(&resume(id, 2, 0)), now);
    let answers = said(&session_outputs(&mut provider, late, now));
    assert!(matches!(answers.as_slice(), [Control::Error(_)]));
    assert_eq!(provider.session_of(&key(1)), Some(second));
    assert_eq!(provider.status().resumes, 1);
}

#[test]
fn a_client_that_claims_what_was_never_sent_to_it_is_closed() {
    let now = Instant::now();
    let (mut provider, first, session_id) = greeted(now);
    provider.on_closed(first, None, now);
    assert_eq!(provider.status().sessions[0].state, "suspended");
    let second = provider.on_connection(key(1), now).unwrap();
    let lie = resume(session_id, 1, 1);
    provider.handle_control(second, &on_stream(&lie), now);
    let outputs = session_outputs(&mut provider, second, now);
    assert!(
        matches!(&outputs[..], [provider::Output::Close(v)] if v.code == ErrorCode::AckedUnsent),
        "{outputs:?}"
    );
}

#[test]
fn as_many_sessions_wait_as_may_be_up_and_the_oldest_goes_first() {
    let now = Instant::now();
    let config = ProviderConfig {
        sessions_max: 2,
        ..ProviderConfig::default()
    };
    let mut provider = lone_provider(config, "10.85.0.0/16");
    for n in 1..=3 {
        let at = now + Duration::from_secs(n.into());
        let (id, said) = greet(&mut provider, n, at);
        assert!(is_welcome(&said));
        provider.on_closed(id, None, at);
        while let Some(ready) = provider.poll_ready() {
            for output in session_outputs(&mut provider, ready, at) {
                assert!(matches!(output, provider::Output::Close { .. }));
                provider.on_closed(ready, Some(ErrorCode::NoError), at);
            }
        }
    }
    let waiting = provider.status().sessions;
    let names: Vec<_> = waiting
        .iter()
        .map(|session| session.client.as_str())
        .collect();
    assert_eq!(names, ["client-2", "client-3"]);
}

#[test]
fn a_client_believes_only_the_answer_to_its_own_question() {
    let now = Instant::now();
    let mut client = welcomed_client(welcome(), now);
    client.on_closed(EXIT, 1, "gone", now);
    client_outputs(&mut client, now);
    let at = client.poll_timeout().unwrap().0;
    client.handle_timeout(at);
    client.on_connected(EXIT, 2, at);
    let outputs = client_outputs(&mut client, at);
    let [.., Output::Control { bytes, .. }] = outputs.as_slice() else {
        panic!("{outputs:?}");
    };
    let Control::Resume(asked) = off_stream(bytes) else {
        panic!("{bytes:?}");
    };
    assert_eq!((asked.session_id, asked.epoch), (welcome().session_id, 1));
    let answer = Control::Resumed(Resume {
        epoch: 2,
        ..asked.clone()
    });
    client.handle_control(EXIT, 2, &on_stream(&answer), at);
    let closed = client_outputs(&mut client, at);
    assert!(
        closed
            .iter()
            .any(|output| matches!(output, Output::Close { violation: v, .. } if v.code == ErrorCode::WrongState)),
        "{closed:?}"
    );
}

#[test]
fn connections_that_break_at_any_time_lose_and_double_nothing() {
    for_seeds("resume", 100, |seed| {
        let mut world = World::up(WorldConfig {
            seed,
            ..WorldConfig::default()
        });
        let mut sent = Vec::new();
        for place in 0..200 {
            let packet = tcp(&world, place % 2 == 0, place);
            let end = if place % 2 == 0 {
                End::Provider
            } else {
                End::Client(0)
            };
            world.inject(end, packet.clone());
            sent.push(packet);
            world.run_for(Duration::from_millis((seed + u64::from(place)) % 37));
            if (u64::from(place) + seed).is_multiple_of(29) {
                world.break_connection(0);
            }
        }
        world.run_for(30 * S);
        let status = world.client_status(0);
        assert_eq!(status.sessions, 1, "{}", status.reason);
        assert!(status.resumes >= 1);
        let arrived = delivered(&world.take_events());
        assert_eq!(sorted(arrived), sorted(sent));
    });
}

#[test]
fn a_client_that_another_of_its_key_took_over_from_does_not_fight() {
    let mut world = World::up(WorldConfig::default());
    world.run_for(10 * S);
    let other = world.add_client(1);
    world.run_for(5 * S);
    assert_eq!(world.client_status(other).state, "up");
    let fenced = world.client_status(0);
    assert_eq!((fenced.state, fenced.dials), ("waiting", 1));
    assert!(fenced.reason.contains("fenced"), "{}", fenced.reason);
    world.run_for(39 * S);
    assert_eq!(world.client_status(0).dials, 1);
    assert_eq!(world.client_status(other).sessions, 1);
}
