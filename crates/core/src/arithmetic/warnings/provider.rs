//! A provider's limits against each other, and against what it has to give.

use std::time::Duration;

use super::super::ProviderQuestion;
use super::{Warning, time, warn};
use crate::config::ProviderConfig;

/// The longest month.
const MONTH_S: u64 = 31 * 86_400;

pub(super) fn warnings(question: &ProviderQuestion) -> Vec<Warning> {
    let mut all = of_sessions(question);
    all.extend(of_handshakes(&question.config, question.rtt));
    all.extend(of_clients(&question.config));
    all.extend(of_rates(&question.config));
    all
}

fn of_sessions(question: &ProviderQuestion) -> Vec<Warning> {
    let sessions = question.config.sessions_max;
    let (clients, addresses) = (question.clients, question.addresses);
    let is_default = sessions == ProviderConfig::default().sessions_max;
    let all = [
        warn(sessions < clients, "limits.sessions_max", sessions, || {
            format!("{clients} clients may connect, and the last of them are refused")
        }),
        warn(
            sessions > addresses && !is_default,
            "limits.sessions_max",
            sessions,
            || format!("cannot bind: there are addresses for {addresses} clients"),
        ),
    ];
    all.into_iter().flatten().collect()
}

fn of_handshakes(config: &ProviderConfig, rtt: Duration) -> Vec<Warning> {
    let doorman = &config.doorman;
    let (free, max) = (doorman.handshakes_free, doorman.handshakes_max);
    let cut = |timeout: Duration, setting| {
        warn(timeout < rtt, setting, time(timeout), || {
            format!("cuts every dial short at a round trip of {}", time(rtt))
        })
    };
    let all = [
        warn(free == max, "limits.handshakes_free", free, || {
            "leaves no place to sources that proved their address (handshakes_max is the same): a flood of others takes \
             all"
                .to_owned()
        }),
        warn(
            doorman.source_handshake_burst as usize > max,
            "limits.source_handshake_burst",
            doorman.source_handshake_burst,
            || format!("cannot bind: limits.handshakes_max ({max}) ends first"),
        ),
        cut(doorman.handshake_timeout, "transport.handshake_timeout"),
        cut(config.hello_timeout, "transport.hello_timeout"),
    ];
    all.into_iter().flatten().collect()
}

fn of_clients(config: &ProviderConfig) -> Vec<Warning> {
    let client = &config.client;
    let remembered = client.client_destinations_max;
    let all = [
        warn(
            client.client_flows_max > remembered,
            "limits.client_flows_max",
            client.client_flows_max,
            || {
                format!(
                    "a client with so many flows speaks to more destinations than are remembered ({remembered}): known \
                     ones count as new again"
                )
            },
        ),
        warn(
            client.client_new_destination_burst > remembered,
            "limits.client_new_destination_burst",
            client.client_new_destination_burst,
            || format!("lets more be spoken to at once than are remembered ({remembered})"),
        ),
    ];
    all.into_iter().flatten().collect()
}

fn of_rates(config: &ProviderConfig) -> Vec<Warning> {
    let Some(egress) = config.share.egress_rate_bits_per_s else {
        return Vec::new();
    };
    let of_client = config.client.client_rate_bits_per_s;
    // Both directions.
    let month = u128::from(egress) * u128::from(MONTH_S) * 2 / 8;
    let all = [
        of_client.and_then(|rate| {
            warn(
                rate > egress,
                "limits.client_rate",
                format!("{rate}bit/s"),
                || format!("cannot bind: egress.rate ({egress}bit/s) ends first"),
            )
        }),
        config.month_bytes_max.and_then(|bytes| {
            warn(
                u128::from(bytes) > month,
                "limits.month_bytes_max",
                bytes,
                || {
                    format!(
                        "cannot bind: at egress.rate ({egress}bit/s) a month has {month} bytes both ways"
                    )
                },
            )
        }),
    ];
    all.into_iter().flatten().collect()
}
