//! Who may connect: keys, numbers of sessions, addresses, and the newest of one key.

use std::time::Instant;

use quell_core::config::ProviderConfig;
use quell_core::path::Violation;
use quell_core::provider::{Output, Provider, SessionId};
use quell_sim::pair::{End, Event, World, WorldConfig};
use quell_wire::control::Control;
use quell_wire::registry::{ErrorCode, VERSION};

use crate::common::*;

/// Connects and greets; what the provider says.
pub(crate) fn greet(provider: &mut Provider, tag: u8, now: Instant) -> (SessionId, Vec<Output>) {
    let id = provider.on_connection(key(tag), now).unwrap();
    provider.handle_control(id, &on_stream(&hello(VERSION)), now);
    let said = session_outputs(provider, id, now);
    (id, said)
}

pub(crate) fn is_welcome(said: &[Output]) -> bool {
    matches!(said, [Output::Control(bytes)] if matches!(off_stream(bytes), Control::Welcome(_)))
}

#[test]
fn an_unknown_key_is_refused_by_name_and_redials_ever_more_rarely() {
    let mut world = World::new(WorldConfig::default());
    world.add_client(9);
    world.run_for(S);
    let refused = world
        .take_events()
        .into_iter()
        .find_map(|(at, event)| match event {
            Event::Refuse(0, violation) => Some((at, violation)),
            Event::Refuse(..)
            | Event::Dial { .. }
            | Event::Configure(..)
            | Event::Mtu(..)
            | Event::Notice(..)
            | Event::MessagesEnded(..)
            | Event::Deliver(..)
            | Event::Close(..) => None,
        });
    let (at, violation) = refused.unwrap();
    assert_eq!((at, violation.code), (30 * MS, ErrorCode::UnknownClient));
    assert!(
        violation.words.contains(&key(9).to_string()),
        "{violation:?}"
    );
    let status = world.client_status(0);
    assert_eq!((status.state, status.sessions), ("waiting", 0));
    assert!(
        status.reason.contains("unknown_client"),
        "{}",
        status.reason
    );
    assert_eq!(world.provider_status().refused["unknown_client"], 1);
    world.run_for(600 * S);
    assert!(
        world.client_status(0).dials <= 17,
        "{} dials",
        world.client_status(0).dials
    );
}

#[test]
fn the_last_session_allowed_passes_and_one_more_does_not() {
    let now = Instant::now();
    let config = ProviderConfig {
        sessions_max: 2,
        ..ProviderConfig::default()
    };
    let mut provider = lone_provider(config, "10.85.0.0/16");
    let (first, said) = greet(&mut provider, 1, now);
    assert!(is_welcome(&said));
    // One that only greets counts too.
    provider.on_connection(key(2), now).unwrap();
    let refusal = provider.on_connection(key(3), now).unwrap_err();
    assert_eq!(
        refusal,
        Violation {
            code: ErrorCode::TooManySessions,
            words: "2 sessions, the most allowed, are open".to_owned()
        }
    );
    assert_eq!(provider.status().refused["too_many_sessions"], 1);
    provider.on_closed(first, Some(ErrorCode::NoError), now);
    assert!(is_welcome(&greet(&mut provider, 3, now).1));
}

#[test]
fn the_last_address_passes_and_one_more_client_does_not() {
    let now = Instant::now();
    let mut provider = lone_provider(ProviderConfig::default(), "192.168.7.4/30");
    let (first, said) = greet(&mut provider, 1, now);
    assert!(is_welcome(&said));
    let (second, said) = greet(&mut provider, 2, now);
    let words = "all 1 addresses are taken".to_owned();
    let code = ErrorCode::AddressesExhausted;
    assert_eq!(said, [Output::Close(Violation { code, words })]);
    assert_eq!(provider.status().refused["addresses_exhausted"], 1);
    provider.on_closed(second, Some(ErrorCode::NoError), now);
    // The address is the first client's still, and free only when that one is gone.
    assert!(!is_welcome(&greet(&mut provider, 2, now).1));
    provider.on_closed(first, Some(ErrorCode::NoError), now);
    assert!(is_welcome(&greet(&mut provider, 2, now).1));
}

#[test]
fn a_newer_connection_of_the_same_key_fences_the_older_and_keeps_its_address() {
    let now = Instant::now();
    let mut provider = lone_provider(ProviderConfig::default(), "10.85.0.0/16");
    let (older, said) = greet(&mut provider, 1, now);
    assert!(is_welcome(&said));
    let before = provider.status().sessions[0].addresses.unwrap();
    let packet = packet(ip(WORLD_V4), before.ipv4.unwrap().0.into(), 100);

    let id = provider.on_connection(key(1), now).unwrap();
    assert_eq!(
        provider.poll_ready(),
        None,
        "a connection alone fences nobody"
    );
    provider.handle_control(id, &on_stream(&hello(VERSION)), now);
    assert_eq!(provider.poll_ready(), Some(older));
    let words = "a newer connection of the same key took over".to_owned();
    let code = ErrorCode::Fenced;
    assert_eq!(
        session_outputs(&mut provider, older, now),
        [Output::Close(Violation { code, words })]
    );
    assert!(is_welcome(&session_outputs(&mut provider, id, now)));
    assert_eq!(provider.status().sessions[1].addresses, Some(before));

    // The end of the ghost takes nothing from the newer one.
    provider.on_closed(older, Some(ErrorCode::NoError), now);
    provider.on_carrier(id, facts(1_414), now);
    provider.handle_packet(packet.clone(), now);
    assert_eq!(provider.poll_ready(), Some(id));
    assert_eq!(
        session_outputs(&mut provider, id, now),
        [Output::Datagram(dgram(&packet))]
    );
}

#[test]
fn a_client_that_lost_its_connection_does_not_wait_for_its_ghost() {
    let mut world = World::up(WorldConfig::default());
    let before = world.addresses(0);
    world.break_connection(0);
    world.run_for(2 * S);
    assert_eq!(world.client_status(0).state, "up");
    assert_eq!(world.addresses(0), before);
    let closed = closes(&world.take_events());
    assert!(
        matches!(closed.as_slice(), [(End::Provider, v)] if v.code == ErrorCode::Fenced),
        "{closed:?}"
    );
    let packet = inwards(&world, 0, 400);
    world.inject(End::Provider, packet.clone());
    world.run_for(S);
    assert_eq!(world.take_delivered(End::Client(0)), [packet]);
}

#[test]
fn a_provider_that_stops_says_so_to_all() {
    let mut world = World::pair(WorldConfig::default());
    world.add_client(2);
    world.run_for(10 * S);
    world.take_events();
    world.restart_provider();
    let closed = closes(&world.take_events());
    let ends: Vec<_> = closed.iter().map(|(end, v)| (*end, v.code)).collect();
    assert_eq!(ends, [(End::Provider, ErrorCode::ShuttingDown); 2]);
    world.run_for(3 * S);
    for client in 0..2 {
        assert_eq!(world.client_status(client).state, "up");
        assert_eq!(world.client_status(client).sessions, 2);
    }
}
