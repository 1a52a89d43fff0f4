//! How long after the heal, by which timer, and when that timer is the one.
//!
//! A client that was cut off waits for something in the moment of the heal: the next question of a stalled path, the
//! next dial, the next probe of the backend. The bound is what is left of that wait at most, and the round trips that
//! follow it.

use std::time::Duration;

use serde::Serialize;

use super::silence::SilentPath;
use super::{ClientQuestion, ProviderQuestion, exits_kept, ms};
use crate::config::ClientConfig;

/// Round trips from a dial's first packet to WELCOME: QUIC's handshake, a Retry if one is asked for, HELLO and WELCOME.
pub(super) const DIAL_ROUND_TRIPS: u32 = 3;
const MINUTE: Duration = Duration::from_secs(60);

/// A bound of one kind of recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// What comes back.
    pub what: &'static str,
    /// When this bound is the one that applies.
    pub when: String,
    /// The setting that it comes from.
    pub setting: &'static str,
    /// Longest time after the heal, in milliseconds.
    pub within_ms: u64,
}

/// What paces the dials of one exit after a long row of failures, and how far apart they are at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) setting: &'static str,
    pub(super) interval: Duration,
}

/// What others than `reconnect_max` make of the wait between two dials of one exit, the longest first.
pub(super) fn paces(config: &ClientConfig, exits: usize) -> Vec<Pace> {
    let exits_u32 = u32::try_from(exits).unwrap_or(u32::MAX);
    let dials_a_minute = config.quiet.quiet_bytes / config.quiet.dial_bytes.max(1);
    let dials_a_minute = u32::try_from(dials_a_minute.max(1)).unwrap_or(u32::MAX);
    let gate = &config.dial_gate;
    let gate_max = match gate.failure_threshold {
        0 => Duration::ZERO,
        _ => gate.max_backoff,
    };
    let mut paces = vec![
        Pace {
            setting: "dial_gate.max_backoff",
            interval: gate_max,
        },
        Pace {
            setting: "budget.quiet_bytes",
            interval: (MINUTE / dials_a_minute).saturating_mul(exits_u32),
        },
        Pace {
            setting: "budget.dial_interval",
            interval: config.dials.dial_interval.saturating_mul(exits_u32),
        },
    ];
    // Stable: of equal ones the first named stays first.
    paces.sort_by_key(|pace| std::cmp::Reverse(pace.interval));
    paces
}

/// The longest wait between two dials of one exit, and who says so.
fn redial(config: &ClientConfig, exits: usize) -> Pace {
    let own = Pace {
        setting: "transport.reconnect_max",
        interval: config.reconnect_max,
    };
    let others = paces(config, exits);
    others
        .into_iter()
        .find(|pace| pace.interval > own.interval)
        .unwrap_or(own)
}

fn seconds(duration: Duration) -> String {
    format!("{duration:?}")
}

pub(super) fn of_client(question: &ClientQuestion, path: &SilentPath) -> Vec<Recovery> {
    let (config, rtt) = (&question.config, question.rtt);
    let health = &config.path.health;
    let gone = Duration::from_millis(path.gone_at_ms);
    let dial = rtt * DIAL_ROUND_TRIPS;
    let any = redial(config, 1);
    let eager = gone.min(health.stalled_ping_eager);
    let mut all = vec![Recovery {
        what: "the path in use",
        when: format!("it was silent for less than {}", seconds(eager)),
        setting: "health.stalled_ping_max",
        within_ms: ms(health.stalled_ping_max + rtt),
    }];
    if exits_kept(question) > 1 || gone > health.stalled_ping_eager {
        all.push(Recovery {
            what: "a path that is kept warm, or silent for longer",
            when: format!("it was silent for less than {}", seconds(gone)),
            setting: "health.stalled_ping_lazy",
            within_ms: ms(health.stalled_ping_lazy + rtt),
        });
    }
    if question.exits > 1 {
        all.push(Recovery {
            what: "new connections, by another exit",
            when: "another exit is well (counted from the beginning of the silence)".to_owned(),
            setting: "health.stall_time_min",
            within_ms: path.stalled_at_ms + ms(rtt),
        });
    }
    all.push(Recovery {
        what: "a session with some exit",
        when: format!("everything was silent for longer than {}", seconds(gone)),
        setting: any.setting,
        // The dial of that moment may be past the last of its own repeats.
        within_ms: ms(config.dial_timeout + any.interval + dial),
    });
    if exits_kept(question) > 1 {
        let each = redial(config, exits_kept(question));
        all.push(Recovery {
            what: "a session with every exit that is kept",
            when: "as before, and nothing makes progress until then".to_owned(),
            setting: each.setting,
            within_ms: ms(config.dial_timeout + each.interval + dial),
        });
    }
    all.push(Recovery {
        what: "a session after its provider's restart",
        when: format!(
            "the session had lived for {}, and the provider says that it knows nothing of it",
            seconds(config.dial_gate.stable_after)
        ),
        setting: "dial_gate.redial_spread",
        within_ms: ms(config.dial_gate.redial_spread + dial),
    });
    all.extend(of_backend(question.backend.as_ref()));
    all
}

pub(super) fn of_provider(question: &ProviderQuestion) -> Vec<Recovery> {
    let health = &question.config.path.health;
    let mut all = vec![Recovery {
        what: "a session whose client is silent",
        when: "the client does not ask sooner, which it does".to_owned(),
        setting: "health.stalled_ping_lazy",
        within_ms: ms(health.stalled_ping_lazy + question.rtt),
    }];
    all.extend(of_backend(question.backend.as_ref()));
    all
}

fn of_backend(backend: Option<&super::BackendQuestion>) -> Vec<Recovery> {
    let Some(asked) = backend else {
        return Vec::new();
    };
    let health = &asked.health;
    vec![
        Recovery {
            what: "the backend",
            when: "it was degraded and named no time to come again".to_owned(),
            setting: "backend.probe_interval_max",
            within_ms: ms(health.probe_interval_max + health.attempt_timeout),
        },
        Recovery {
            what: "the backend",
            when: "it asked to be left alone (Retry-After)".to_owned(),
            setting: "backend.retry_after_max",
            within_ms: ms(health.retry_after_max + health.attempt_timeout),
        },
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Instant;

    use super::super::warnings::tests::question;
    use super::super::{BackendQuestion, silence};
    use super::*;
    use crate::config::BackendHealthConfig;

    fn within(exits: usize) -> Vec<(&'static str, u64)> {
        let question = ClientQuestion {
            exits,
            backend: Some(BackendQuestion {
                urls: 1,
                health: BackendHealthConfig::default(),
            }),
            ..question()
        };
        let path = silence::of_client(&question.config.path, question.rtt, Instant::now());
        let all = of_client(&question, &path);
        all.iter().map(|of| (of.setting, of.within_ms)).collect()
    }

    #[test]
    fn one_exit_is_back_by_the_next_question_or_the_next_dial() {
        let expected = [
            ("health.stalled_ping_max", 850),
            ("transport.reconnect_max", 75_150),
            ("dial_gate.redial_spread", 1_150),
            ("backend.probe_interval_max", 35_000),
            ("backend.retry_after_max", 605_000),
        ];
        assert_eq!(within(1), expected);
    }

    #[test]
    fn several_exits_share_the_dials_of_a_quiet_minute() {
        let two = within(2);
        assert!(two.contains(&("health.stall_time_min", 1_050)));
        assert!(two.contains(&("health.stalled_ping_lazy", 5_050)));
        assert!(two.contains(&("transport.reconnect_max", 75_150)));
        assert!(two.contains(&("budget.quiet_bytes", 135_150)));
    }

    #[test]
    fn a_gate_that_does_nothing_paces_nothing() {
        let mut config = ClientConfig::default();
        config.dial_gate.failure_threshold = 0;
        config.quiet.quiet_bytes = 24_000;
        assert_eq!(paces(&config, 1).first().unwrap().interval, MINUTE / 2);
    }
}
