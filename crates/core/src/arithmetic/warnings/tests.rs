//! Each rule at its edge: the last value that draws no warning, and the first that does.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::super::{BackendQuestion, client, provider};
use super::*;
use crate::config::{BackendHealthConfig, ClientConfig, ExitPolicy, ProviderConfig};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// The defaults, one exit, 50 ms.
pub(in super::super) fn question() -> ClientQuestion {
    ClientQuestion {
        config: ClientConfig::default(),
        exits: 1,
        backend: None,
        mtu_bytes: 1_452,
        rtt: 50 * MS,
    }
}

/// The defaults, ten clients, 50 ms.
pub(in super::super) fn provider_question() -> ProviderQuestion {
    ProviderQuestion {
        config: ProviderConfig::default(),
        clients: 10,
        addresses: 253,
        backend: None,
        rtt: 50 * MS,
    }
}

fn of_question(change: impl FnOnce(&mut ClientQuestion)) -> BTreeSet<&'static str> {
    let mut asked = question();
    change(&mut asked);
    let figures = client(&asked, Instant::now());
    figures.warnings.iter().map(|of| of.setting).collect()
}

fn of_provider_question(change: impl FnOnce(&mut ProviderQuestion)) -> BTreeSet<&'static str> {
    let mut asked = provider_question();
    change(&mut asked);
    let figures = provider(&asked, Instant::now());
    figures.warnings.iter().map(|of| of.setting).collect()
}

/// A rule: its setting, a change that draws no warning about it, and the next that does.
type Edge<T> = (&'static str, fn(&mut T), fn(&mut T));

#[test]
fn the_defaults_draw_no_warning() {
    let none = BTreeSet::new();
    for exits in 1..=6 {
        let with_backend = Some(BackendQuestion {
            urls: 4,
            health: BackendHealthConfig::default(),
        });
        for backend in [None, with_backend] {
            let said = of_question(|q| (q.exits, q.backend) = (exits, backend.clone()));
            assert_eq!(said, none, "{exits} {backend:?}");
            assert_eq!(of_provider_question(|q| q.backend = backend), none);
        }
    }
}

#[test]
fn each_rule_of_a_lane_begins_where_it_says() {
    let edges: [Edge<ClientQuestion>; 4] = [
        (
            // At 50 ms, each as early as it can: 0.061, 0.153, 0.335, 0.702 … 2.165, 4.355, then each 3.75 s.
            "lanes.max_resend_count",
            |q| q.config.path.lanes.send.max_resend_count = 20,
            |q| q.config.path.lanes.send.max_resend_count = 23,
        ),
        (
            // The wait before the eighth would be 61 ms · 2⁷, before the seventh it is 3.9 s.
            "lanes.max_resend_interval",
            |q| q.config.path.lanes.send.max_resend_count = 8,
            |q| q.config.path.lanes.send.max_resend_count = 7,
        ),
        (
            "lanes.max_resend_interval",
            |q| {
                q.config.path.lanes.send.max_resend_count = 7;
                q.config.path.lanes.send.max_resend_interval = 3_904 * MS;
            },
            |q| {
                q.config.path.lanes.send.max_resend_count = 7;
                q.config.path.lanes.send.max_resend_interval = 3_905 * MS;
            },
        ),
        (
            "lanes.ack_timeout",
            |q| q.config.path.lanes.send.ack_timeout = 1_001 * MS,
            |q| q.config.path.lanes.send.ack_timeout = 1_000 * MS,
        ),
    ];
    check(edges, of_question);
}

fn check<T>(
    edges: impl IntoIterator<Item = Edge<T>>,
    said: impl Fn(fn(&mut T)) -> BTreeSet<&'static str>,
) {
    for (index, (setting, silent, warns)) in edges.into_iter().enumerate() {
        assert!(!said(silent).contains(setting), "{index}: {setting}");
        assert!(said(warns).contains(setting), "{index}: {setting}");
    }
}

#[test]
fn the_largest_count_that_fits_is_the_last_that_draws_no_warning() {
    let fits = |count| {
        let said = of_question(|q| q.config.path.lanes.send.max_resend_count = count);
        !said.contains("lanes.max_resend_count")
    };
    let most = (16..=64).take_while(|count| fits(*count)).last().unwrap();
    let asked = question();
    let mut config = asked.config.path.clone();
    config.lanes.send.max_resend_count = 64;
    let path = super::super::silence::of_client(&config, asked.rtt, Instant::now());
    assert_eq!(usize::from(most), path.healthy.resends_max);
    assert!(!fits(most + 1));
}

#[test]
fn each_rule_of_a_client_begins_where_it_says() {
    let edges: [Edge<ClientQuestion>; 11] = [
        (
            "transport.reconnect_max",
            |q| q.config.reconnect_max = 60 * S,
            |q| q.config.reconnect_max = 60 * S - MS,
        ),
        (
            "transport.reconnect_max",
            |q| {
                q.config.reconnect_max = 10 * S;
                q.config.dial_gate.max_backoff = 10 * S;
                q.config.quiet.quiet_bytes = 6 * q.config.quiet.dial_bytes;
            },
            |q| {
                q.config.reconnect_max = 10 * S;
                q.config.dial_gate.max_backoff = 10 * S;
                q.config.quiet.quiet_bytes = 6 * q.config.quiet.dial_bytes - 1;
            },
        ),
        (
            "transport.reconnect_base",
            |q| {
                q.config.path.lanes.send.ack_timeout = 10 * S;
                q.config.reconnect_base = 10 * S - MS;
            },
            |q| {
                q.config.path.lanes.send.ack_timeout = 10 * S;
                q.config.reconnect_base = 10 * S;
            },
        ),
        (
            "transport.dial_timeout",
            |q| {
                q.config.path.lanes.send.ack_timeout = 10 * S;
                q.config.dial_timeout = 10 * S;
            },
            |q| {
                q.config.path.lanes.send.ack_timeout = 10 * S;
                q.config.dial_timeout = 10 * S + MS;
            },
        ),
        (
            "transport.dial_timeout",
            |q| (q.rtt, q.config.dial_timeout) = (S, 3 * S),
            |q| (q.rtt, q.config.dial_timeout) = (S, 3 * S - MS),
        ),
        (
            "transport.keepalive_interval",
            |q| q.config.path.keepalive_interval = 30 * S - MS,
            |q| q.config.path.keepalive_interval = 30 * S,
        ),
        (
            "lanes.ack_timeout",
            |q| (q.exits, q.config.path.lanes.send.ack_timeout) = (2, 5_051 * MS),
            |q| (q.exits, q.config.path.lanes.send.ack_timeout) = (2, 5_050 * MS),
        ),
        (
            "lanes.ack_timeout",
            |q| (q.exits, q.config.path.lanes.send.ack_timeout) = (1, 5_050 * MS),
            |q| (q.exits, q.config.path.lanes.send.ack_timeout) = (2, 5_050 * MS),
        ),
        (
            // A dial and twelve PINGs of 51 bytes.
            "budget.quiet_bytes",
            |q| q.config.quiet.quiet_bytes = 12_612,
            |q| q.config.quiet.quiet_bytes = 12_611,
        ),
        (
            "flap.host_burst",
            |q| (q.config.flap.host_burst, q.config.flap.host_interval) = (4, MS),
            |q| q.config.flap.host_burst = 4,
        ),
        (
            "flap.catalog_burst",
            |q| (q.config.flap.catalog_burst, q.config.flap.catalog_interval) = (51, MS),
            |q| q.config.flap.catalog_burst = 51,
        ),
    ];
    check(edges, of_question);
}

#[test]
fn each_rule_of_several_exits_begins_where_it_says() {
    let edges: [Edge<ClientQuestion>; 8] = [
        (
            "race.race_client_count",
            |q| (q.exits, q.config.racer.race_client_count) = (3, 3),
            |q| (q.exits, q.config.racer.race_client_count) = (2, 3),
        ),
        (
            "race.hedge_delay",
            |q| (q.exits, q.config.racer.hedge_delay) = (2, S - MS),
            |q| (q.exits, q.config.racer.hedge_delay) = (2, S),
        ),
        (
            "race.races_max",
            |q| (q.exits, q.config.racer.races_max) = (2, 32_768),
            |q| (q.exits, q.config.racer.races_max) = (2, 32_769),
        ),
        (
            "window.window_min",
            |q| (q.exits, q.config.window.window_min) = (3, 3),
            |q| (q.exits, q.config.window.window_min) = (2, 3),
        ),
        (
            "window.window_max",
            |q| (q.exits, q.config.window.window_max) = (2, 2),
            |q| (q.exits, q.config.window.window_max) = (2, 3),
        ),
        (
            "window.window_max",
            |q| {
                (q.exits, q.config.window.window_max) = (2, 3);
                q.config.window.exit_policy = ExitPolicy::Spread;
            },
            |q| (q.exits, q.config.window.window_max) = (2, 3),
        ),
        (
            "uplink.exits_min",
            |q| (q.exits, q.config.uplink.exits_min) = (3, 3),
            |q| (q.exits, q.config.uplink.exits_min) = (2, 3),
        ),
        (
            "flap.host_burst",
            |q| {
                let flap = &mut q.config.flap;
                (flap.host_interval, flap.catalog_interval) = (S, S);
                (flap.host_burst, flap.catalog_burst) = (50, 50);
            },
            |q| {
                let flap = &mut q.config.flap;
                (flap.host_interval, flap.catalog_interval) = (S, S);
                (flap.host_burst, flap.catalog_burst) = (51, 50);
            },
        ),
    ];
    check(edges, of_question);
}

fn backend(change: impl FnOnce(&mut BackendHealthConfig)) -> Option<BackendQuestion> {
    let mut health = BackendHealthConfig::default();
    change(&mut health);
    Some(BackendQuestion { urls: 1, health })
}

#[test]
fn each_rule_of_the_backend_begins_where_it_says() {
    let edges: [Edge<ClientQuestion>; 3] = [
        (
            "backend.probe_interval_max",
            |q| q.backend = backend(|b| b.check_interval = 30 * S),
            |q| q.backend = backend(|b| b.check_interval = 30 * S + MS),
        ),
        (
            "backend.retry_after_max",
            |q| q.backend = backend(|b| b.retry_after_max = 30 * S),
            |q| q.backend = backend(|b| b.retry_after_max = 30 * S - MS),
        ),
        (
            // 36 s until the next check, three timeouts of 5 s, two waits of 1 s.
            "backend.failures_to_degrade",
            |q| {
                q.backend = backend(|_| ());
                q.config.path.lanes.send.ack_timeout = 53 * S;
            },
            |q| {
                q.backend = backend(|_| ());
                q.config.path.lanes.send.ack_timeout = 53 * S - MS;
            },
        ),
    ];
    check(edges, of_question);
}

#[test]
fn each_rule_of_a_provider_begins_where_it_says() {
    let edges: [Edge<ProviderQuestion>; 11] = [
        (
            "limits.sessions_max",
            |q| q.config.sessions_max = 10,
            |q| q.config.sessions_max = 9,
        ),
        (
            "limits.sessions_max",
            |q| q.config.sessions_max = 253,
            |q| q.config.sessions_max = 254,
        ),
        (
            "limits.handshakes_free",
            |q| q.config.doorman.handshakes_free = 1_023,
            |q| q.config.doorman.handshakes_free = 1_024,
        ),
        (
            "limits.source_handshake_burst",
            |q| q.config.doorman.source_handshake_burst = 1_024,
            |q| q.config.doorman.source_handshake_burst = 1_025,
        ),
        (
            "transport.handshake_timeout",
            |q| (q.rtt, q.config.doorman.handshake_timeout) = (S, S),
            |q| (q.rtt, q.config.doorman.handshake_timeout) = (S + MS, S),
        ),
        (
            "transport.hello_timeout",
            |q| (q.rtt, q.config.hello_timeout) = (S, S),
            |q| (q.rtt, q.config.hello_timeout) = (S + MS, S),
        ),
        (
            "limits.client_flows_max",
            |q| q.config.client.client_flows_max = 4_096,
            |q| q.config.client.client_flows_max = 4_097,
        ),
        (
            "limits.client_new_destination_burst",
            |q| q.config.client.client_new_destination_burst = 4_096,
            |q| q.config.client.client_new_destination_burst = 4_097,
        ),
        (
            "limits.client_rate",
            |q| {
                q.config.share.egress_rate_bits_per_s = Some(1_000_000);
                q.config.client.client_rate_bits_per_s = Some(1_000_000);
            },
            |q| {
                q.config.share.egress_rate_bits_per_s = Some(1_000_000);
                q.config.client.client_rate_bits_per_s = Some(1_000_001);
            },
        ),
        (
            // 31 days of 125,000 bytes a second, twice.
            "limits.month_bytes_max",
            |q| {
                q.config.share.egress_rate_bits_per_s = Some(1_000_000);
                q.config.month_bytes_max = Some(669_600_000_000);
            },
            |q| {
                q.config.share.egress_rate_bits_per_s = Some(1_000_000);
                q.config.month_bytes_max = Some(669_600_000_001);
            },
        ),
        (
            "lanes.ack_timeout",
            |q| q.config.path.lanes.send.ack_timeout = 1_001 * MS,
            |q| q.config.path.lanes.send.ack_timeout = 1_000 * MS,
        ),
    ];
    check(edges, of_provider_question);
}

#[test]
fn a_warning_names_the_setting_its_value_and_the_reason() {
    let mut asked = question();
    asked.config.path.keepalive_interval = 60 * S;
    let all = client(&asked, Instant::now()).warnings;
    let words: Vec<_> = all.iter().map(ToString::to_string).collect();
    let expected = "transport.keepalive_interval = 60s: routers that forget a UDP mapping after 30s cut idle sessions off";
    assert_eq!(words, [expected]);
}
