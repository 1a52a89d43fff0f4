//! Other settings for a provider that runs: all of them or none, and no session that may stay is touched.

use std::time::Instant;

use quell_core::config::{DoormanConfig, EgressRulesConfig, ProviderConfig};
use quell_core::provider::doorman::Answer;
use quell_core::provider::rules::{Asked, Port};
use quell_core::provider::{Output, Provider, Roster};
use quell_wire::registry::ErrorCode;

use crate::admission::{greet, is_welcome};
use crate::common::*;

fn roster(tags: &[u8]) -> Roster {
    Roster::try_new(tags.iter().map(|tag| (format!("client-{tag}"), key(*tag)))).unwrap()
}

fn plain() -> ProviderConfig {
    ProviderConfig::default()
}

fn may_reach(provider: &Provider, destination: &str) -> bool {
    let asked = Asked {
        destination: Some(ip(destination)),
        protocol: Some(17),
        port: Port::Known(53),
    };
    provider.explain(&asked).allowed
}

#[test]
fn a_client_that_is_taken_off_the_list_goes_at_once_and_the_others_stay() {
    let now = Instant::now();
    let mut provider = lone_provider(plain(), "10.85.0.0/16");
    let (stays, said) = greet(&mut provider, 1, now);
    assert!(is_welcome(&said));
    let (goes, said) = greet(&mut provider, 2, now);
    assert!(is_welcome(&said));
    let done = provider.on_reload(plain(), roster(&[1, 9]), now).unwrap();
    assert_eq!(done.sessions_ended, 1);
    assert_eq!(provider.poll_ready(), Some(goes));
    let said = session_outputs(&mut provider, goes, now);
    let [.., Output::Close(violation)] = said.as_slice() else {
        panic!("{said:?}");
    };
    assert_eq!(violation.code, ErrorCode::UnknownClient);
    assert_eq!(session_outputs(&mut provider, stays, now), []);
    provider.on_closed(goes, Some(ErrorCode::UnknownClient), now);
    // Who is new may come, who was taken off may not.
    assert!(is_welcome(&greet(&mut provider, 9, now).1));
    let refused = provider.on_connection(key(2), now).unwrap_err();
    assert_eq!(refused.code, ErrorCode::UnknownClient);
}

#[test]
fn rules_and_limits_hold_from_the_next_packet_and_connection_on() {
    let now = Instant::now();
    let mut provider = lone_provider(plain(), "10.85.0.0/16");
    assert!(!may_reach(&provider, "192.168.0.1"));
    let config = ProviderConfig {
        sessions_max: 1,
        egress_rules: EgressRulesConfig {
            allow: vec!["192.168.0.0/16".parse().unwrap()],
            ..EgressRulesConfig::default()
        },
        ..plain()
    };
    provider.on_reload(config, roster(&[1, 2]), now).unwrap();
    assert!(may_reach(&provider, "192.168.0.1"));
    assert!(is_welcome(&greet(&mut provider, 1, now).1));
    let refused = provider.on_connection(key(2), now).unwrap_err();
    assert_eq!(refused.code, ErrorCode::TooManySessions);
}

#[test]
fn one_setting_that_is_not_allowed_leaves_everything_as_it_was() {
    let now = Instant::now();
    let mut provider = lone_provider(plain(), "10.85.0.0/16");
    let (first, said) = greet(&mut provider, 1, now);
    assert!(is_welcome(&said));
    let config = ProviderConfig {
        sessions_max: 0,
        egress_rules: EgressRulesConfig {
            allow: vec!["192.168.0.0/16".parse().unwrap()],
            ..EgressRulesConfig::default()
        },
        ..plain()
    };
    let error = provider.on_reload(config, roster(&[2]), now).unwrap_err();
    assert_eq!(error.key, "limits.sessions_max");
    assert!(!may_reach(&provider, "192.168.0.1"));
    assert_eq!(session_outputs(&mut provider, first, now), []);
    assert!(is_welcome(&greet(&mut provider, 3, now).1));
}

#[test]
fn the_doorman_goes_on_with_other_limits_and_knows_who_is_under_way() {
    let now = Instant::now();
    let mut provider = lone_provider(plain(), "10.85.0.0/16");
    let source = |port| std::net::SocketAddr::new(ip("198.51.100.1"), port);
    let answer = provider.doorman().on_initial(source(1), true, now);
    assert!(matches!(answer, Answer::Accept { .. }));
    let config = ProviderConfig {
        doorman: DoormanConfig {
            handshakes_free: 1,
            handshakes_max: 1,
            ..DoormanConfig::default()
        },
        ..plain()
    };
    provider.on_reload(config, roster(&[1]), now).unwrap();
    let answer = provider.doorman().on_initial(source(2), true, now);
    assert!(matches!(answer, Answer::Refuse(_)), "{answer:?}");
    assert_eq!(provider.status().handshakes.under_way, 1);
}
