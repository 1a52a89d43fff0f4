//! What the outage report proposes: the system of May 2026 with a bound here and a pause there.
//!
//! At most 16 resends of a pack, doubling while the backend is degraded; races of 2 exits; no window pass and no contract
//! request while degraded; reconnects from 5 s doubling to 60 s. It is a good deal better, and shows what bounds of single
//! things leave open: degraded is a judgement of the *backend*, so an outage of the path alone changes nothing but the
//! 16; their sum over packs, exits and new sequences is unbounded; waits without jitter keep clients in step; and a race of
//! a fixed two out of a pool that stalls is a coin flip, tried upstream for one session and taken back.
//!
//! Two things are assumed. The opening request of a new sequence passes the gate, as upstream has it in August: without
//! any request nothing could tell that the backend is back. The reconnects' wait has no jitter: the report has none.
//!
//! Source: the reference on upstream behaviour, "the report's fix".

use std::time::Duration;

use super::baseline::Rules;
use super::baseline::resend::{Growth, ResendRule};
use super::baseline::rules::{ContractRules, Reconnect, WindowRules};
use super::upstream_2026_05;

/// Its numbers.
pub static RULES: Rules = Rules {
    name: "report-fix",
    resend: ResendRule {
        growth: Growth::DoublingWhileDegraded,
        resends_max: Some(16),
        ..upstream_2026_05::RULES.resend
    },
    contract: ContractRules {
        gated: true,
        ..upstream_2026_05::RULES.contract
    },
    fan_out: Some(2),
    window: WindowRules {
        paused_while_degraded: true,
        ..upstream_2026_05::RULES.window
    },
    reconnect: Reconnect::Doubling {
        wait_min: Duration::from_secs(5),
        wait_max: Duration::from_secs(60),
    },
    ..upstream_2026_05::RULES
};
