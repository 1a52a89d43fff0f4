//! The system as the outage report describes it: a pack each 100 ms for a minute, over all exits.
//!
//! The report says of the resends that they come every 100 ms, flat, until 60 s are over: 600 sends of one pack, times the
//! exits that race. No code of either known state does that (its interval is 2 s or more); the row is there because the
//! claim is what people remember, and because a bar of this project is put in its terms. All else is that of May 2026.
//!
//! Source: the reference on upstream behaviour, "the report's own claim".

use std::time::Duration;

use super::baseline::Rules;
use super::baseline::resend::{Growth, ResendRule};
use super::upstream_2026_05;

/// From one send to the next.
const INTERVAL: Duration = Duration::from_millis(100);

/// Its numbers.
pub static RULES: Rules = Rules {
    name: "report-claim",
    resend: ResendRule {
        scale_percent: 100,
        interval_min: INTERVAL,
        interval_max: INTERVAL,
        interval_unknown: INTERVAL,
        growth: Growth::Flat,
        resends_max: None,
    },
    race_ack_timeout: Duration::from_secs(60),
    ..upstream_2026_05::RULES
};
