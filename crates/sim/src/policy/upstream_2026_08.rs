//! The system of the outage report in its newest known state, of August 2026.
//!
//! Resends double from 2 mean round trips (300 ms to 8 s; 2 s while none is known) up to 8 s: 12 sends of a pack in 60 s
//! instead of 30. With 8 s as the cap of a life of 30 or 60 s that is as far as it goes: what bounds a pack is time, what
//! bounds the sum is nothing. Acks wait 10 ms for each other. Contract requests go from 1 s to 5 s apart and are gated
//! while degraded, but for the first request of every new sequence; and in an outage sequences end and begin. At most 2
//! exits are removed in 30 s, and none when 3 fail within 10 s. Race, window and reconnect are those of May.
//!
//! A carrier without acks of its own has a cap of 2 s and a life of 90 s: 47 sends, more than in May.
//!
//! Source: the reference on upstream behaviour, state of 2026-08. Probes of a yet later state are not modelled.

use std::time::Duration;

use super::baseline::Rules;
use super::baseline::resend::{Growth, ResendRule};
use super::baseline::rules::{ContractRules, FailedWrite, Removals, WindowRules};
use super::upstream_2026_05;

/// Its numbers.
pub static RULES: Rules = Rules {
    name: "upstream-2026-08",
    resend: RESEND,
    ack_timeout: Duration::from_secs(60),
    race_ack_timeout: Duration::from_secs(30),
    ack_delay: Duration::from_millis(10),
    failed_write: FailedWrite::Waits,
    contract: ContractRules {
        wait_min: Duration::from_secs(1),
        wait_max: Duration::from_secs(5),
        gated: true,
    },
    fan_out: None,
    window: WindowRules {
        removals: Removals::Limited {
            count_max: 2,
            within: Duration::from_secs(30),
            shared: 3,
            shared_within: Duration::from_secs(10),
        },
        ..upstream_2026_05::RULES.window
    },
    reconnect: upstream_2026_05::RULES.reconnect,
};

/// The same over a carrier that repeats nothing itself.
pub static UNRELIABLE_RULES: Rules = Rules {
    name: "upstream-2026-08-unreliable",
    resend: ResendRule {
        interval_max: Duration::from_secs(2),
        ..RESEND
    },
    ack_timeout: Duration::from_secs(90),
    race_ack_timeout: Duration::from_secs(90),
    ..RULES
};

const RESEND: ResendRule = ResendRule {
    scale_percent: 200,
    interval_min: Duration::from_millis(300),
    interval_max: Duration::from_secs(8),
    interval_unknown: Duration::from_secs(2),
    growth: Growth::Doubling,
    resends_max: None,
};
