//! How a provider stops: GOAWAY, some time, the end; and what a client makes of it.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use quell_core::config::ProviderConfig;
use quell_core::multi::Output;
use quell_core::provider::doorman::{Answer, Refused};
use quell_core::provider::{self, Provider, SessionId};
use quell_packet::build::{Header, Segment};
use quell_wire::control::{Control, Goaway};
use quell_wire::frame::{Lane, Pack, PackFlags};
use quell_wire::registry::ErrorCode;

use crate::admission::{greet, is_welcome};
use crate::common::*;

const DRAIN: Duration = Duration::from_secs(5);

fn goaway(drain: Duration) -> Control {
    Control::Goaway(Goaway {
        reason: ErrorCode::ShuttingDown.code(),
        drain_ms: drain.as_millis() as u64,
    })
}

fn config(drain: Duration) -> ProviderConfig {
    ProviderConfig {
        drain,
        ..ProviderConfig::default()
    }
}

/// A provider with a session that is up and one that only greets.
fn serving(drain: Duration, now: Instant) -> (Provider, SessionId, SessionId) {
    let mut provider = lone_provider(config(drain), "10.85.0.0/16");
    let (up, said) = greet(&mut provider, 1, now);
    assert!(is_welcome(&said));
    let greeting = provider.on_connection(key(2), now).unwrap();
    (provider, up, greeting)
}

/// Whether the one thing said is to close because the provider stops.
fn is_end(said: &[provider::Output]) -> bool {
    matches!(said, [provider::Output::Close(v)] if v.code == ErrorCode::ShuttingDown)
}

#[test]
fn what_was_acknowledged_and_waits_for_its_order_is_delivered_before_the_end() {
    let now = Instant::now();
    let (mut provider, up, _) = serving(DRAIN, now);
    provider.on_carrier(up, facts(1_414), now);
    session_outputs(&mut provider, up, now);
    let own = provider.status().sessions[0].addresses.unwrap().ipv4;
    let own = own.unwrap().0.into();
    let segment = Header::new(own, ip(WORLD_V4)).tcp(1, 443, &Segment::default(), &[7; 100]);
    // Its predecessor, number 0, was lost.
    let pack = Pack {
        lane: Lane::FLOW,
        number: 1,
        tx: 2,
        flags: PackFlags::WHOLE,
        dep: 1,
        data: &segment,
    };
    let mut datagram = BytesMut::new();
    pack.write(&mut datagram);
    provider.handle_datagram(up, &datagram.freeze(), now);
    let delivered = |output: &_| matches!(output, provider::Output::Deliver(_));
    let said = session_outputs(&mut provider, up, now);
    assert!(!said.iter().any(delivered), "{said:?}");
    let flow = provider.status().sessions[0].path.flow.receive;
    assert_eq!((flow.held, flow.delivered), (1, 0));
    provider.close_all(ErrorCode::ShuttingDown);
    let said = session_outputs(&mut provider, up, now);
    let [provider::Output::Deliver(packet), rest @ ..] = said.as_slice() else {
        panic!("{said:?}");
    };
    assert!(packet[..] == segment[..] && is_end(rest), "{said:?}");
}

#[test]
fn a_provider_that_stops_says_goaway_carries_on_and_closes_when_it_said() {
    let now = Instant::now();
    let (mut provider, up, greeting) = serving(DRAIN, now);
    assert!(!provider.is_drained(now) && provider.poll_drain().is_none());
    provider.drain(now);
    let ready: Vec<_> = std::iter::from_fn(|| provider.poll_ready()).collect();
    assert_eq!(ready, [up, greeting]);
    let said = session_outputs(&mut provider, up, now);
    let [provider::Output::Control(bytes)] = said.as_slice() else {
        panic!("{said:?}");
    };
    assert_eq!(off_stream(bytes), goaway(DRAIN));
    assert!(is_end(&session_outputs(&mut provider, greeting, now)));
    provider.on_closed(greeting, None, now);

    let status = provider.status();
    assert!(status.is_draining && status.sessions[0].state == "up");
    let source = "192.0.2.1:4000".parse().unwrap();
    let answer = provider.doorman().on_initial(source, true, now);
    assert_eq!(answer, Answer::Refuse(Refused::Stopping));
    let late = provider.on_connection(key(3), now).unwrap_err();
    assert_eq!(late.code, ErrorCode::ShuttingDown);

    // Packets of both ways are carried on.
    let last = now + DRAIN - NS;
    provider.on_carrier(up, facts(1_414), last);
    let own = status.sessions[0].addresses.unwrap().ipv4.unwrap().0.into();
    let datagram = dgram(&packet(own, ip(WORLD_V4), 100));
    provider.handle_datagram(up, &datagram, last);
    provider.handle_packet(packet(ip(WORLD_V4), own, 100), last);
    let said = session_outputs(&mut provider, up, last);
    let delivered = |output: &_| matches!(output, provider::Output::Deliver(_));
    let sent = |output: &_| matches!(output, provider::Output::Datagram(_));
    assert!(said.iter().any(delivered), "{said:?}");
    assert!(said.iter().any(sent), "{said:?}");

    assert_eq!(provider.poll_drain(), Some((now + DRAIN, "drain")));
    assert!(!provider.is_drained(last) && provider.is_drained(now + DRAIN));
    provider.close_all(ErrorCode::ShuttingDown);
    assert!(is_end(&session_outputs(&mut provider, up, now + DRAIN)));
}

#[test]
fn nobody_is_waited_for_who_is_gone_or_has_no_connection() {
    let now = Instant::now();
    for code in [Some(ErrorCode::NoError), None] {
        let (mut provider, up, greeting) = serving(DRAIN, now);
        provider.drain(now);
        provider.on_closed(greeting, None, now);
        assert!(!provider.is_drained(now));
        // Without a code the session is suspended; nothing here resumes it.
        provider.on_closed(up, code, now);
        assert!(provider.is_drained(now));
    }
}

#[test]
fn a_second_word_to_stop_changes_nothing_and_no_drain_time_says_nothing() {
    let now = Instant::now();
    let (mut provider, up, _) = serving(DRAIN, now);
    provider.drain(now);
    provider.drain(now + S);
    assert_eq!(provider.poll_drain(), Some((now + DRAIN, "drain")));
    assert_eq!(session_outputs(&mut provider, up, now + S).len(), 1);

    let (mut provider, up, _) = serving(Duration::ZERO, now);
    provider.drain(now);
    assert!(provider.is_drained(now));
    assert_eq!(session_outputs(&mut provider, up, now), []);
}

#[test]
fn a_client_told_to_go_keeps_its_session_and_says_why() {
    let now = Instant::now();
    let mut client = welcomed_client(welcome(), now);
    client.handle_control(EXIT, 1, &on_stream(&goaway(DRAIN)), now);
    assert_eq!(client_outputs(&mut client, now), []);
    let status = client.status(now);
    assert_eq!(
        (status.state, status.reason.as_str()),
        (
            "up",
            "up; the provider closes within 5s: the peer is shutting down"
        )
    );
    let own = ip("10.85.0.2");
    client.handle_packet(packet(own, ip(WORLD_V4), 100), now);
    let sent = client_outputs(&mut client, now);
    assert!(
        matches!(sent.as_slice(), [Output::Datagram { bytes: _, .. }]),
        "{sent:?}"
    );
    // A reason of a later version and a time without end are taken as well.
    let odd = Control::Goaway(Goaway {
        reason: 0xffff,
        drain_ms: u64::MAX,
    });
    client.handle_control(EXIT, 1, &on_stream(&odd), now);
    assert_eq!(client.status(now).state, "up");
}

#[test]
fn goaway_before_the_welcome_is_a_breach() {
    let now = Instant::now();
    let mut client = lone_client(now);
    client.on_connected(EXIT, 1, now);
    client_outputs(&mut client, now);
    client.handle_control(EXIT, 1, &on_stream(&goaway(DRAIN)), now);
    let said = client_outputs(&mut client, now);
    assert!(
        matches!(said.as_slice(), [Output::Close { violation: v, .. }, _] if v.code == ErrorCode::WrongState),
        "{said:?}"
    );
}
