//! From the dial to the first packet, as timelines.

use std::time::{Duration, Instant};

use quell_core::config::ProviderConfig;
use quell_core::multi::{Notice, Output};
use quell_core::path::Violation;
use quell_core::provider;
use quell_sim::pair::{End, Event, Reach, World, WorldConfig};
use quell_wire::control::Control;
use quell_wire::frame::{Credit, Frame, Frames};
use quell_wire::registry::{CONTROL_MESSAGE_BYTES_MAX, ErrorCode, VERSION};
use quell_wire::varint;

use crate::common::*;

#[test]
fn a_client_says_hello_and_is_up_with_the_welcome() {
    let t0 = Instant::now();
    let mut client = lone_client(t0);
    assert_eq!(client.poll_timeout(), Some((t0, "output")));
    assert_eq!(
        client_outputs(&mut client, t0),
        [Output::Dial {
            exit: EXIT,
            attempt: 1
        }]
    );
    assert_eq!(client.poll_timeout(), Some((t0 + 15 * S, "dial timeout")));

    let t1 = t0 + 100 * MS;
    client.on_connected(EXIT, 1, t1);
    let said = client_outputs(&mut client, t1);
    let [Output::Control { bytes, .. }] = said.as_slice() else {
        panic!("{said:?}");
    };
    let Control::Hello(hello) = off_stream(bytes) else {
        panic!("not HELLO");
    };
    assert_eq!(
        (hello.version, hello.agent.as_str(), hello.limits),
        (VERSION, "test", Credit::FIRST)
    );
    client.on_connected(EXIT, 1, t1);
    assert_eq!(client_outputs(&mut client, t1), [], "said twice");

    client.on_carrier(EXIT, 1, facts(1_414), t1);
    let t2 = t1 + 50 * MS;
    client.handle_control(EXIT, 1, &on_stream(&Control::Welcome(welcome())), t2);
    let done = client_outputs(&mut client, t2);
    let [
        Output::Configure(addresses),
        Output::Mtu(1_399),
        Output::Notice { notice, .. },
        Output::Datagram {
            bytes: datagram, ..
        },
    ] = done.as_slice()
    else {
        panic!("{done:?}");
    };
    assert_eq!(addresses.ipv4, welcome().ipv4);
    assert_eq!(addresses.gateway_ipv6, welcome().gateway_ipv6);
    assert_eq!(*notice, Notice::Up { failures_before: 0 });
    let frames: Vec<_> = Frames::new(datagram).map(Result::unwrap).collect();
    assert!(matches!(frames.as_slice(), [Frame::Ping(_)]), "{frames:?}");
    assert_eq!(client.poll_timeout(), Some((t2 + 20 * S, "keepalive")));
}

#[test]
fn both_ends_come_up_after_two_round_trips_and_measure_the_third() {
    let mut world = World::pair(WorldConfig::default());
    world.run_for(S);
    let status = world.client_status(0);
    let addresses = status.addresses.unwrap();
    let expected = [
        (
            0,
            Event::Dial {
                client: 0,
                attempt: 1,
            },
        ),
        (40, Event::Configure(0, addresses)),
        (40, Event::Mtu(0, 1_399)),
        (40, Event::Notice(0, Notice::Up { failures_before: 0 })),
    ];
    assert_eq!(
        world.take_events(),
        expected.map(|(ms, event)| (ms * MS, event))
    );
    let path = status.path().unwrap().clone();
    assert_eq!(path.rtt_ms, Some(20.0));
    assert_eq!(
        (
            path.counters.datagrams_sent,
            path.counters.datagrams_received
        ),
        (1, 1)
    );
    let provider = world.provider_status();
    assert_eq!(
        (provider.sessions_total, provider.sessions[0].state),
        (1, "up")
    );
    assert_eq!(provider.sessions[0].addresses, Some(addresses));
    world.expect_rest();
}

#[test]
fn slow_paths_connect() {
    // case B37
    for rtt_ms in [300, 1_500, 4_000] {
        let mut world = World::new(WorldConfig::default());
        world.set_rtt(rtt_ms * MS);
        world.add_client(1);
        world.run_for(2 * rtt_ms * MS - NS);
        assert_eq!(world.client_status(0).state, "greeting", "{rtt_ms}");
        world.run_for(NS);
        assert_eq!(world.client_status(0).state, "up", "{rtt_ms}");
        assert_eq!(world.client_status(0).dials, 1);
    }
}

#[test]
fn a_dial_has_fifteen_seconds_to_the_welcome() {
    // The handshake and the greeting take two round trips together.
    for (rtt, up) in [(15 * S / 2, true), (15 * S / 2 + 2 * NS, false)] {
        let mut world = World::new(WorldConfig::default());
        world.set_rtt(rtt);
        world.add_client(1);
        world.run_for(15 * S);
        assert_eq!(world.client_status(0).state == "up", up, "{rtt:?}");
        let closed = closes(&world.take_events());
        let late = (
            End::Client(0),
            Violation {
                code: ErrorCode::Idle,
                words: "no answer within 15s".to_owned(),
            },
        );
        assert_eq!(closed, if up { vec![] } else { vec![late] });
    }
}

#[test]
fn a_silent_provider_costs_one_dial_timeout() {
    let mut world = World::new(WorldConfig::default());
    world.set_reach(Reach::Silent);
    world.add_client(1);
    world.run_for(15 * S - NS);
    assert_eq!(
        world.take_events(),
        [(
            Duration::ZERO,
            Event::Dial {
                client: 0,
                attempt: 1
            }
        )]
    );
    world.run_for(NS);
    let events = world.take_events();
    assert!(events.iter().all(|(at, _)| *at == 15 * S), "{events:?}");
    assert!(
        matches!(
            events.as_slice(),
            [
                (_, Event::Close(..)),
                (_, Event::Notice(0, Notice::DialFailed { failures: 1, .. }))
            ]
        ),
        "{events:?}"
    );
}

#[test]
fn a_provider_waits_ten_seconds_for_hello_and_no_longer() {
    let t0 = Instant::now();
    for (at, in_time) in [(10 * S - NS, true), (10 * S, false)] {
        let mut provider = lone_provider(ProviderConfig::default(), "10.85.0.0/16");
        let id = provider.on_connection(key(1), t0).unwrap();
        assert_eq!(
            provider.poll_timeout(id),
            Some((t0 + 10 * S, "hello timeout"))
        );
        provider.handle_timeout(id, t0 + at);
        let said = session_outputs(&mut provider, id, t0 + at);
        if in_time {
            assert_eq!(said, []);
            provider.handle_control(id, &on_stream(&hello(VERSION)), t0 + at);
            let said = session_outputs(&mut provider, id, t0 + at);
            assert!(
                matches!(said.as_slice(), [provider::Output::Control(_)]),
                "{said:?}"
            );
            assert_eq!(
                provider.poll_timeout(id),
                None,
                "an idle provider has no timer"
            );
        } else {
            let words = "no HELLO in time".to_owned();
            let code = ErrorCode::HelloTimeout;
            assert_eq!(said, [provider::Output::Close(Violation { code, words })]);
            assert_eq!(provider.poll_timeout(id), None);
            assert_eq!(provider.status().refused["hello_timeout"], 1);
        }
    }
}

/// What a provider says to these bytes as the first of the control stream.
fn provider_to(bytes: &[u8]) -> Vec<provider::Output> {
    let now = Instant::now();
    let mut provider = lone_provider(ProviderConfig::default(), "10.85.0.0/16");
    let id = provider.on_connection(key(1), now).unwrap();
    provider.on_carrier(id, facts(1_414), now);
    provider.handle_control(id, bytes, now);
    session_outputs(&mut provider, id, now)
}

/// What a client that said HELLO says to these bytes.
fn client_to(bytes: &[u8]) -> Vec<Output> {
    let now = Instant::now();
    let mut client = lone_client(now);
    client.on_connected(EXIT, 1, now);
    client_outputs(&mut client, now);
    client.handle_control(EXIT, 1, bytes, now);
    client_outputs(&mut client, now)
}

fn provider_code(bytes: &[u8]) -> Option<(ErrorCode, String)> {
    match provider_to(bytes).as_slice() {
        [] => None,
        [provider::Output::Close(violation)] => Some((violation.code, violation.words.clone())),
        other => panic!("{other:?}"),
    }
}

fn client_code(bytes: &[u8]) -> Option<(ErrorCode, String)> {
    match client_to(bytes).as_slice() {
        [] => None,
        [
            Output::Close { violation, .. },
            Output::Notice {
                notice: Notice::DialFailed { words, .. },
                ..
            },
        ] => {
            assert_eq!(*words, violation.words);
            Some((violation.code, violation.words.clone()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_version_is_refused_by_name_at_either_end() {
    let (code, words) = provider_code(&on_stream(&hello(2))).unwrap();
    assert_eq!(
        (code, words.as_str()),
        (
            ErrorCode::UnsupportedVersion,
            "the client speaks version 2, this provider 1"
        )
    );
    let mut answer = welcome();
    answer.version = 2;
    let (code, words) = client_code(&on_stream(&Control::Welcome(answer))).unwrap();
    assert_eq!(
        (code, words.as_str()),
        (
            ErrorCode::UnsupportedVersion,
            "the provider speaks version 2, this client 1"
        )
    );
}

#[test]
fn messages_at_the_wrong_time_are_refused_at_either_end() {
    let answer = on_stream(&Control::Welcome(welcome()));
    let (code, words) = provider_code(&answer).unwrap();
    assert_eq!(
        (code, words.as_str()),
        (ErrorCode::WrongState, "WELCOME was not expected here")
    );
    let (code, words) = client_code(&on_stream(&hello(VERSION))).unwrap();
    assert_eq!(
        (code, words.as_str()),
        (ErrorCode::WrongState, "HELLO was not expected here")
    );
}

#[test]
fn garbage_on_the_control_stream_is_malformed_at_either_end() {
    let garbage = b"\x05GET /";
    for (code, words) in [provider_code(garbage), client_code(garbage)].map(Option::unwrap) {
        assert_eq!(code, ErrorCode::MalformedControl);
        assert!(words.starts_with("control message"), "{words}");
    }
}

#[test]
fn a_control_message_of_65536_bytes_passes_and_one_more_is_refused_by_its_prefix() {
    for (len, refused) in [
        (CONTROL_MESSAGE_BYTES_MAX, false),
        (CONTROL_MESSAGE_BYTES_MAX + 1, true),
    ] {
        let mut prefix = Vec::new();
        varint::write(&mut prefix, len as u64);
        for said in [provider_code(&prefix), client_code(&prefix)] {
            let code = said.map(|(code, _)| code);
            assert_eq!(code, refused.then_some(ErrorCode::ControlTooLarge), "{len}");
        }
    }
    // A whole message of the greatest size: HELLO with a field that nobody knows.
    let known = hello(VERSION).encode_body().unwrap();
    let mut body = known.clone();
    body[0] += 1;
    body.extend_from_slice(&[0x18, 99, 0x5a]);
    let filler = CONTROL_MESSAGE_BYTES_MAX - body.len() - 4;
    body.extend_from_slice(&u32::try_from(filler).unwrap().to_be_bytes());
    body.resize(CONTROL_MESSAGE_BYTES_MAX, 0);
    let mut stream = Vec::new();
    varint::write(&mut stream, body.len() as u64);
    stream.extend_from_slice(&body);
    let said = provider_to(&stream);
    assert!(
        matches!(said.as_slice(), [provider::Output::Control(_)]),
        "{said:?}"
    );
}

#[test]
fn hello_is_welcomed_once_however_it_arrives() {
    let one = on_stream(&hello(VERSION));
    let two = [&one[..], &one[..]].concat();
    let garbage = [&one[..], b"\x05GET /"].concat();
    for (bytes, code) in [
        (two, ErrorCode::WrongState),
        (garbage, ErrorCode::MalformedControl),
    ] {
        let now = Instant::now();
        let mut provider = lone_provider(ProviderConfig::default(), "10.85.0.0/16");
        let id = provider.on_connection(key(1), now).unwrap();
        provider.handle_control(id, &bytes, now);
        let said = session_outputs(&mut provider, id, now);
        let [provider::Output::Close(violation)] = said.as_slice() else {
            panic!("{said:?}");
        };
        assert_eq!(violation.code, code);
        assert_eq!(
            (provider.status().sessions_total, provider.poll_ready()),
            (0, None)
        );
        // Byte by byte the first one is answered before the second is there.
        let id = provider.on_connection(key(2), now).unwrap();
        let mut said = Vec::new();
        for byte in &bytes {
            provider.handle_control(id, &[*byte], now);
            said.extend(session_outputs(&mut provider, id, now));
        }
        assert!(
            matches!(said.as_slice(), [provider::Output::Control(_), provider::Output::Close(v)] if v.code == code),
            "{said:?}"
        );
    }
}
