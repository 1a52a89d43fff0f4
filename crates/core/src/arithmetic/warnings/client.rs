//! A client's times and bounds against each other.

use std::time::Duration;

use super::super::silence::SilentPath;
use super::super::{ClientQuestion, exits_kept, quiet, recovery};
use super::{Warning, time, warn};
use crate::config::{ExitPolicy, FlapConfig, Raced, WindowConfig};

/// After so long without a packet common home routers forget a UDP mapping.
const NAT_FORGETS_AFTER: Duration = Duration::from_secs(30);
/// The first retransmission timeout of a TCP that has measured nothing (RFC 6298 §2.1).
const USER_RTO: Duration = Duration::from_secs(1);

pub(super) fn warnings(question: &ClientQuestion, path: &SilentPath) -> Vec<Warning> {
    let gone = Duration::from_millis(path.gone_at_ms);
    let all = [
        redial_that_others_pace(question),
        redial_after_the_session(question, gone),
        dial_that_outlasts_the_session(question, gone),
        dial_that_cannot_end(question),
        keepalive_above_nat(question),
        life_that_ends_between_questions(question),
        minute_without_room_for_a_dial(question),
    ];
    let several = (question.exits > 1).then(|| of_several(question));
    all.into_iter()
        .flatten()
        .chain(several.into_iter().flatten())
        .chain(of_flap(&question.config.flap))
        .collect()
}

fn redial_that_others_pace(question: &ClientQuestion) -> Option<Warning> {
    let own = question.config.reconnect_max;
    let paces = recovery::paces(&question.config, 1);
    let longest = paces.first()?;
    warn(
        own < longest.interval,
        "transport.reconnect_max",
        time(own),
        || {
            format!(
                "cannot bind for long: {} lets an exit that does not answer be dialled each {} only",
                longest.setting,
                time(longest.interval)
            )
        },
    )
}

fn redial_after_the_session(question: &ClientQuestion, gone: Duration) -> Option<Warning> {
    let base = question.config.reconnect_base;
    warn(base >= gone, "transport.reconnect_base", time(base), || {
        format!(
            "cuts sessions short: one that lost its connection is over after {} (lanes.ack_timeout), before its \
             second dial",
            time(gone)
        )
    })
}

fn dial_that_outlasts_the_session(question: &ClientQuestion, gone: Duration) -> Option<Warning> {
    let dial = question.config.dial_timeout;
    warn(dial > gone, "transport.dial_timeout", time(dial), || {
        format!(
            "one dial that hangs takes longer than a session without a connection lives ({}, lanes.ack_timeout)",
            time(gone)
        )
    })
}

fn dial_that_cannot_end(question: &ClientQuestion) -> Option<Warning> {
    let dial = question.config.dial_timeout;
    let needed = question.rtt * recovery::DIAL_ROUND_TRIPS;
    warn(dial < needed, "transport.dial_timeout", time(dial), || {
        format!(
            "cuts every dial short: at a round trip of {} one takes {}",
            time(question.rtt),
            time(needed)
        )
    })
}

fn keepalive_above_nat(question: &ClientQuestion) -> Option<Warning> {
    let interval = question.config.path.keepalive_interval;
    warn(
        interval >= NAT_FORGETS_AFTER,
        "transport.keepalive_interval",
        time(interval),
        || {
            format!(
                "routers that forget a UDP mapping after {} cut idle sessions off",
                time(NAT_FORGETS_AFTER)
            )
        },
    )
}

/// Paths that are kept warm are asked rarely while they stall.
fn life_that_ends_between_questions(question: &ClientQuestion) -> Option<Warning> {
    let path = &question.config.path;
    let asked = path.health.stalled_ping_lazy + question.rtt;
    let life = path.lanes.send.ack_timeout;
    warn(
        exits_kept(question) > 1 && life <= asked,
        "lanes.ack_timeout",
        time(life),
        || {
            format!(
                "a stalled path beside the one in use is asked each {}: what waits there is given up before an answer \
                 can come",
                time(path.health.stalled_ping_lazy)
            )
        },
    )
}

fn minute_without_room_for_a_dial(question: &ClientQuestion) -> Option<Warning> {
    let config = &question.config.quiet;
    let pings = quiet::lazy_pings_bytes(question);
    let needed = config.dial_bytes.saturating_add(pings);
    warn(
        config.quiet_bytes < needed,
        "budget.quiet_bytes",
        config.quiet_bytes,
        || {
            format!(
                "holds no dial ({} bytes) beside the PINGs of stalled paths ({pings} bytes a minute): a dial waits until \
                 their sessions are over; {needed} bytes hold both",
                config.dial_bytes
            )
        },
    )
}

fn of_several(question: &ClientQuestion) -> Vec<Warning> {
    let (config, exits) = (&question.config, question.exits);
    let (racer, window) = (&config.racer, &config.window);
    let races = racer.race != Raced::Off;
    let default_max = WindowConfig::default().window_max;
    let all = [
        warn(
            races && racer.race_client_count > exits,
            "race.race_client_count",
            racer.race_client_count,
            || format!("cannot bind: there are {exits} exits"),
        ),
        warn(
            races && racer.hedge_delay >= USER_RTO,
            "race.hedge_delay",
            time(racer.hedge_delay),
            || {
                format!(
                    "cannot bind: the user's own TCP asks again after {}, and that sends the second copy",
                    time(USER_RTO)
                )
            },
        ),
        warn(
            races && racer.races_max > config.flows.flows_max as usize,
            "race.races_max",
            racer.races_max,
            || {
                format!(
                    "cannot bind: flows.flows_max ({}) ends first",
                    config.flows.flows_max
                )
            },
        ),
        warn(
            window.window_min > exits,
            "window.window_min",
            window.window_min,
            || format!("cannot be reached: there are {exits} exits"),
        ),
        warn(
            window.exit_policy == ExitPolicy::Sticky
                && window.window_max > window.window_min
                && window.window_max != default_max,
            "window.window_max",
            window.window_max,
            || {
                format!(
                    "cannot bind: with exit_policy \"sticky\" window_min ({}) exits are kept",
                    window.window_min
                )
            },
        ),
        warn(
            config.uplink.exits_min > exits,
            "uplink.exits_min",
            config.uplink.exits_min,
            || format!("cannot be reached: there are {exits} exits"),
        ),
    ];
    all.into_iter().flatten().collect()
}

fn of_flap(flap: &FlapConfig) -> Vec<Warning> {
    let defaults = FlapConfig::default();
    let (by_host, by_catalog) = (
        !flap.host_interval.is_zero(),
        !flap.catalog_interval.is_zero(),
    );
    let all = [
        warn(
            !by_host && flap.host_burst != defaults.host_burst,
            "flap.host_burst",
            flap.host_burst,
            || "cannot bind: flap.host_interval is 0, which is a rate without bound".to_owned(),
        ),
        warn(
            !by_catalog && flap.catalog_burst != defaults.catalog_burst,
            "flap.catalog_burst",
            flap.catalog_burst,
            || "cannot bind: flap.catalog_interval is 0, which is a rate without bound".to_owned(),
        ),
        warn(
            by_host && by_catalog && flap.host_burst > flap.catalog_burst,
            "flap.host_burst",
            flap.host_burst,
            || {
                format!(
                    "cannot bind: flap.catalog_burst ({}) ends first",
                    flap.catalog_burst
                )
            },
        ),
    ];
    all.into_iter().flatten().collect()
}
