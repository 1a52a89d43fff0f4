//! The control plane's times against each other, and against the life of a packet.

use std::time::{Duration, Instant};

use super::super::{BackendQuestion, backend};
use super::{Warning, time, warn};

pub(super) fn warnings(
    question: Option<&BackendQuestion>,
    ack_timeout: Duration,
    origin: Instant,
) -> Vec<Warning> {
    let Some(question) = question else {
        return Vec::new();
    };
    let health = &question.health;
    let known = backend::known_within(health, health.attempt_timeout, origin);
    let all = [
        warn(
            health.probe_interval_max < health.check_interval,
            "backend.probe_interval_max",
            time(health.probe_interval_max),
            || {
                format!(
                    "a backend that is down is asked more often than one that is well (check_interval, {})",
                    time(health.check_interval)
                )
            },
        ),
        warn(
            health.retry_after_max < health.probe_interval_max,
            "backend.retry_after_max",
            time(health.retry_after_max),
            || {
                format!(
                    "cannot bind: a backend that asks to be left alone is left alone for probe_interval_max ({}) anyway",
                    time(health.probe_interval_max)
                )
            },
        ),
        warn(
            known > ack_timeout,
            "backend.failures_to_degrade",
            health.failures_to_degrade,
            || {
                format!(
                    "a silent backend is known after {} at the latest: what was sent when it fell silent is given up \
                     before (lanes.ack_timeout, {})",
                    time(known),
                    time(ack_timeout)
                )
            },
        ),
    ];
    all.into_iter().flatten().collect()
}
