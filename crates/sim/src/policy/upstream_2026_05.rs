//! The system of the outage report as it was when the report was written, in May 2026.
//!
//! A pack is sent again each 2 s (1.2 mean round trips, not under 2 s nor over 8 s) until it is acked or 60 s old; 30 s
//! where there is a window. The interval does not grow and a write that fails counts as one that succeeded. Nothing bounds
//! how much is sent again: a full queue of 2 MiB is sent whole each 2 s, 8.4 Mbit/s for a minute, by each of up to six exits
//! that race. A sequence that waits for a contract asks every 5 s, whatever the backend answers.
//!
//! From the field, of that time: one provider sent 125 GiB in 5 h, a fleet about 1.9 TiB in 4 h.
//!
//! Source: the reference on upstream behaviour, state of 2026-05, whose counts were computed from formulas and not
//! measured: 30 sends of one pack in 60 s, 15 in 30 s.

use std::time::Duration;

use super::baseline::Rules;
use super::baseline::resend::{Growth, ResendRule};
use super::baseline::rules::{ContractRules, FailedWrite, Reconnect, Removals, WindowRules};

/// Its numbers.
pub static RULES: Rules = Rules {
    name: "upstream-2026-05",
    resend: ResendRule {
        scale_percent: 120,
        interval_min: Duration::from_secs(2),
        interval_max: Duration::from_secs(8),
        interval_unknown: Duration::from_secs(2),
        growth: Growth::Flat,
        resends_max: None,
    },
    ack_timeout: Duration::from_secs(60),
    race_ack_timeout: Duration::from_secs(30),
    ack_delay: Duration::ZERO,
    failed_write: FailedWrite::CountsAsSent,
    contract: ContractRules {
        wait_min: Duration::from_secs(5),
        wait_max: Duration::from_secs(5),
        gated: false,
    },
    fan_out: None,
    window: WindowRules {
        exits: 6,
        exits_min: 2,
        exits_hard_max: 12,
        paused_while_degraded: false,
        removals: Removals::Free,
    },
    reconnect: Reconnect::Uniform {
        within: Duration::from_secs(5),
    },
};
