//! A lane's three bounds against each other and against the stall of its path.

use std::time::Duration;

use super::super::ms;
use super::super::silence::SilentPath;
use super::{Warning, time, warn};
use crate::config::LaneConfig;

pub(super) fn warnings(config: &LaneConfig, path: &SilentPath, rtt: Duration) -> Vec<Warning> {
    let all = [
        count_that_does_not_fit(config, path, rtt),
        interval_that_is_not_reached(config, path, rtt),
        life_that_ends_before_a_stall(config, path, rtt),
    ];
    all.into_iter().flatten().collect()
}

fn count_that_does_not_fit(
    config: &LaneConfig,
    path: &SilentPath,
    rtt: Duration,
) -> Option<Warning> {
    let fit = path.healthy.resends_max;
    warn(
        usize::from(config.max_resend_count) > fit,
        "lanes.max_resend_count",
        config.max_resend_count,
        || {
            format!(
                "cannot bind in a silence: at a round trip of {}, {fit} resends come before ack_timeout ({}) gives \
                 the packet up",
                time(rtt),
                time(config.ack_timeout)
            )
        },
    )
}

fn interval_that_is_not_reached(
    config: &LaneConfig,
    path: &SilentPath,
    rtt: Duration,
) -> Option<Warning> {
    let longest = path.healthy.wait_max_ms;
    let resends = !path.healthy.resends_at_ms.is_empty();
    warn(
        resends && longest < ms(config.max_resend_interval),
        "lanes.max_resend_interval",
        time(config.max_resend_interval),
        || {
            format!(
                "cannot bind: at a round trip of {} the longest wait before the resends or the packet's time are over is \
                 {longest} ms",
                time(rtt)
            )
        },
    )
}

fn life_that_ends_before_a_stall(
    config: &LaneConfig,
    path: &SilentPath,
    rtt: Duration,
) -> Option<Warning> {
    warn(
        path.stalled_at_ms >= path.given_up_at_ms,
        "lanes.ack_timeout",
        time(config.ack_timeout),
        || {
            format!(
                "packets are given up before a silent path counts as stalled (at a round trip of {})",
                time(rtt)
            )
        },
    )
}
