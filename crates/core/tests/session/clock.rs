//! Clocks that jump: a machine that stood still for half an hour, and what its timers make of it.
//!
//! Core timers go by one clock. A process that is stopped (SIGSTOP, a paused virtual machine) finds all of them overdue at
//! once; one that slept under a closed lid finds none, and is told (`on_wake`). Either way what is due is done once, from
//! the new moment on, and nobody is judged by an answer that could not have come.

use std::time::Instant;

use quell_core::config::ClientConfig;
use quell_core::health::dial_gate::GateState;
use quell_core::multi::{Client, Notice, Output};
use quell_wire::control::Control;
use quell_wire::frame::{Frame, Frames, Lane, Pack, PackFlags, Pong};

use bytes::BytesMut;

use crate::common::*;

/// The nonce of the only PING in the only output.
fn question(said: &[Output]) -> u64 {
    let [
        Output::Datagram {
            bytes: datagram, ..
        },
    ] = said
    else {
        panic!("one question and nothing else: {said:?}");
    };
    match Frames::new(datagram).next() {
        Some(Ok(Frame::Ping(ping))) => ping.nonce,
        other => panic!("{other:?}"),
    }
}

fn answer(client: &mut Client, nonce: u64, now: Instant) {
    let mut pong = BytesMut::new();
    Pong { nonce }.write(&mut pong);
    client.handle_datagram(EXIT, 1, &pong.freeze(), now);
}

/// Takes what is due until nothing is, as a driver does; a timer that never rests is a failure.
fn due(client: &mut Client, now: Instant) -> Vec<Output> {
    let mut said = Vec::new();
    for _ in 0..100 {
        said.extend(client_outputs(client, now));
        // What was handed over left.
        client.on_carrier(EXIT, client.status(now).dials, facts(1_414), now);
        said.extend(client_outputs(client, now));
        if client.poll_timeout().is_none_or(|(at, _)| at > now) {
            return said;
        }
        client.handle_timeout(now);
    }
    panic!("it never comes to rest: {:?}", client.poll_timeout());
}

/// A client that is up and whose first question was answered.
fn idle(now: Instant) -> Client {
    let mut client = lone_client(now);
    client.on_connected(EXIT, 1, now);
    client.on_carrier(EXIT, 1, facts(1_414), now);
    client.handle_control(EXIT, 1, &on_stream(&Control::Welcome(welcome())), now);
    let said = client_outputs(&mut client, now);
    let first: Vec<_> = said
        .into_iter()
        .filter(|output| matches!(output, Output::Datagram { bytes: _, .. }))
        .collect();
    answer(&mut client, question(&first), now);
    client.on_carrier(EXIT, 1, facts(1_414), now);
    assert_eq!(client_outputs(&mut client, now), []);
    client
}

/// A driver that asks for output when something is due, before it says that the time has come.
#[test]
fn what_a_due_timer_lets_out_moves_the_timers() {
    let start = Instant::now();
    let mut client = idle(start);
    let packet = packet(ip(WORLD_V4), ip("10.85.0.2"), 40);
    let pack = Pack {
        lane: Lane::FLOW,
        number: 0,
        tx: 1,
        flags: PackFlags::WHOLE,
        dep: 0,
        data: &packet,
    };
    let mut datagram = BytesMut::new();
    pack.write(&mut datagram);
    client.handle_datagram(EXIT, 1, &datagram.freeze(), start);
    let said = client_outputs(&mut client, start);
    assert!(matches!(said[..], [Output::Deliver(_)]), "{said:?}");
    let (due, why) = client.poll_timeout().unwrap();
    assert_eq!(why, "ack");
    let said = client_outputs(&mut client, due);
    assert!(matches!(said[..], [Output::Datagram { .. }]), "{said:?}");
    assert_eq!(client.poll_timeout(), Some((due + 20 * S, "keepalive")));
}

#[test]
fn after_half_an_hour_of_standing_still_one_question_is_asked_and_nobody_is_judged() {
    // case B29
    for slept in [30 * 60 * S, 3_600 * S] {
        let start = Instant::now();
        let mut client = idle(start);
        let mut now = start + slept;
        // The lid was closed, or the process was stopped: told of it or not, it is one question.
        client.on_wake(now);
        let nonce = question(&due(&mut client, now));
        now += 50 * MS;
        answer(&mut client, nonce, now);
        assert_eq!(due(&mut client, now), []);
        let rest = client.poll_timeout();
        assert_eq!(rest, Some((now - 50 * MS + 20 * S, "keepalive")));
        // An hour later still: keepalives, and not a word of ready or down.
        for _ in 0..180 {
            (now, _) = client.poll_timeout().unwrap();
            let nonce = question(&due(&mut client, now));
            answer(&mut client, nonce, now + 50 * MS);
            assert_eq!(due(&mut client, now + 50 * MS), []);
        }
        let status = client.status(now);
        assert_eq!((status.state, status.dials, status.sessions), ("up", 1, 1));
    }
}

#[test]
fn a_question_that_was_open_when_the_clock_jumped_ends_the_session_once_and_the_dial_is_at_once() {
    // case B29: the other end has given the session up long ago, and says so to none.
    let start = Instant::now();
    let mut client = idle(start);
    let asked = start + 20 * S;
    question(&due(&mut client, asked));
    let now = asked + 30 * 60 * S;
    let said = due(&mut client, now);
    let count = |is: fn(&Output) -> bool| said.iter().filter(|output| is(output)).count();
    let closes = count(|output| matches!(output, Output::Close { .. }));
    let downs = count(|output| {
        matches!(
            output,
            Output::Notice {
                notice: Notice::Down { .. },
                ..
            }
        )
    });
    let dials = count(|output| matches!(output, Output::Dial { .. }));
    assert_eq!((closes, downs, dials), (1, 1, 0), "{said:?}");
    let (at, why) = client.poll_timeout().unwrap();
    assert!(why == "dial" && at > now && at <= now + S, "{why}");
    let dialled = due(&mut client, at);
    assert!(
        matches!(dialled[..], [Output::Dial { attempt: 2, .. }]),
        "{dialled:?}"
    );
}

#[test]
fn an_hour_inside_a_dial_ends_that_dial_alone() {
    // case B34
    let start = Instant::now();
    let mut client = Client::new(ClientConfig::default(), "test", 1_500, 7, start);
    let first = client_outputs(&mut client, start);
    assert!(
        matches!(first[..], [Output::Dial { attempt: 1, .. }]),
        "{first:?}"
    );
    let mut now = start + 3_600 * S;
    for attempt in 1..=3 {
        let said = due(&mut client, now);
        let [
            Output::Close { .. },
            Output::Notice {
                notice: Notice::DialFailed { failures, .. },
                ..
            },
        ] = &said[..]
        else {
            panic!("{said:?}");
        };
        assert_eq!(u64::from(*failures), attempt);
        // Waits begin where the dial ended for us, and not an hour ago.
        let (at, why) = client.poll_timeout().unwrap();
        assert!(
            why == "dial" && at > now + 3 * S && at <= now + 25 * S,
            "{why}"
        );
        let dialled = due(&mut client, at);
        assert!(matches!(dialled[..], [Output::Dial { .. }]), "{dialled:?}");
        now = at + 3_600 * S;
    }
}

#[test]
fn an_hour_inside_a_probe_is_one_failure_of_the_gate_and_one_probe_follows() {
    // case B34
    let start = Instant::now();
    let mut client = Client::new(ClientConfig::default(), "test", 1_500, 7, start);
    let mut now = start;
    let mut dials = 0;
    while client
        .status(now)
        .main()
        .unwrap()
        .dial_gate
        .clone()
        .unwrap()
        .state
        != GateState::Probing
    {
        due(&mut client, now);
        now = client.poll_timeout().unwrap().0;
        dials += 1;
        assert!(dials < 20, "the gate never probes");
    }
    let dials = client.status(now).dials;
    now += 3_600 * S;
    due(&mut client, now);
    let status = client.status(now);
    assert_eq!((status.state, status.dials), ("waiting", dials));
    assert_eq!(
        status.main().unwrap().dial_gate.clone().unwrap().state,
        GateState::Backoff
    );
    (now, _) = client.poll_timeout().unwrap();
    due(&mut client, now);
    let status = client.status(now);
    assert_eq!((status.state, status.dials), ("dialing", dials + 1));
    assert_eq!(
        status.main().unwrap().dial_gate.clone().unwrap().state,
        GateState::Probing
    );
}
