//! Bytes of an outage: of its first minute, and of each minute after.
//!
//! After the first minute one number bounds it all, `quiet_bytes`. What the first costs depends on how the outage finds
//! the client: with sessions that fall silent (a few resends, then PINGs), or without any (dials). Both are counted
//! from the parts that do it: the course of a silent path, the waits between dials, the budget of dials.
//!
//! Lengths are those of UDP payloads. A PING's is exact for one lane that waits for an acknowledgement; a pack's is the
//! largest that the path carries.

use std::time::{Duration, Instant};

use quell_wire::frame::{Lane, LaneProbe, Ping};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use serde::Serialize;

use super::silence::SilentPath;
use super::{ClientQuestion, exits_kept};
use crate::budget::DialBudget;
use crate::config::ClientConfig;
use crate::health::Backoff;

/// What QUIC adds to a datagram of ours: first byte 1, connection ID 8, packet number 4, frame type and length 3,
/// seal 16 (RFC 9000 §17.3, RFC 9221 §4).
const QUIC_BYTES: u64 = 32;
/// The smallest factor of a wait between dials, as in `multi::dial`.
const DIAL_JITTER_MIN: f64 = 0.75;
const MINUTE: Duration = Duration::from_secs(60);

/// Bytes that an outage costs, as UDP payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct QuietFigures {
    /// After the first minute: everything of a minute, at most.
    pub minute_bytes_max: u64,
    /// What a dial reserves of it.
    pub dial_bytes: u64,
    /// Dials that such a minute holds where nobody answers.
    pub dials_a_minute: u64,
    /// What the PINGs of the stalled paths take of a minute, once they are asked rarely.
    pub stalled_pings_a_minute_bytes: u64,
    /// The first minute of an outage that finds every kept exit with a session and traffic in both lanes.
    pub first_minute_cut_bytes: u64,
    /// Of that, PINGs.
    pub first_minute_pings_bytes: u64,
    /// The first minute of a start at which no exit answers.
    pub first_minute_start_bytes: u64,
    /// Dials of that minute.
    pub first_minute_start_dials: u64,
    /// A day of outage, at most.
    pub day_bytes_max: u64,
}

/// UDP payload bytes of a PING that asks about one lane.
pub(super) fn ping_bytes() -> u64 {
    let probe = LaneProbe {
        lane: Lane::FLOW,
        largest_number: 1 << 20,
        tx: 1 << 20,
    };
    let ping = Ping {
        nonce: u64::MAX >> 2,
        lanes: std::iter::once(probe).collect(),
    };
    QUIC_BYTES + ping.encoded_len() as u64
}

/// PINGs of all kept paths in a minute in which each is asked rarely.
pub(super) fn lazy_pings_bytes(question: &ClientQuestion) -> u64 {
    let wait = question.config.path.health.stalled_ping_lazy;
    let pings = MINUTE.as_millis().div_ceil(wait.as_millis().max(1));
    let pings = u64::try_from(pings).unwrap_or(u64::MAX);
    pings
        .saturating_mul(exits_kept(question) as u64)
        .saturating_mul(ping_bytes())
}

/// Dials of `exits` exits that say nothing, within a time: as early as chance allows each.
fn dials_within(time: Duration, config: &ClientConfig, exits: usize, origin: Instant) -> u64 {
    let waits = || {
        let (base, max) = (config.reconnect_base, config.reconnect_max);
        Backoff::new(base, max, DIAL_JITTER_MIN, DIAL_JITTER_MIN)
    };
    let mut rng = SmallRng::seed_from_u64(0);
    let mut budget = DialBudget::new(&config.dials);
    let mut due: Vec<_> = (0..exits).map(|_| (origin, waits())).collect();
    while let Some((at, wait)) = due.iter_mut().min_by_key(|(at, _)| *at) {
        // Each turn moves one exit ahead by a dial's time or to the budget's next dial, both above zero.
        if at.saturating_duration_since(origin) >= time {
            break;
        }
        match budget.take(*at) {
            Ok(()) => *at += config.dial_timeout + wait.failed(&mut rng),
            Err(until) => *at = until.max(*at + Duration::from_millis(1)),
        }
    }
    budget.status().allowed
}

pub(super) fn of(question: &ClientQuestion, path: &SilentPath, origin: Instant) -> QuietFigures {
    let config = &question.config;
    let quiet = &config.quiet;
    let exits = exits_kept(question) as u64;
    let dials = |time| dials_within(time, config, exits_kept(question), origin);
    let start_dials = dials(MINUTE);
    // Sessions that are over within the minute are dialled for in what is left of it.
    let left = MINUTE.saturating_sub(Duration::from_millis(path.gone_at_ms));
    let cut_dials = dials(left);
    let resends = path.resends_before_stall as u64 * Lane::COUNT as u64;
    let pings =
        (path.pings_first_minute + (exits - 1) * path.pings_first_minute_others) * ping_bytes();
    let first_start = start_dials * quiet.dial_bytes;
    let first_cut =
        exits * resends * u64::from(question.mtu_bytes) + pings + cut_dials * quiet.dial_bytes;
    let minutes_of_a_day = 24 * 60;
    QuietFigures {
        minute_bytes_max: quiet.quiet_bytes,
        dial_bytes: quiet.dial_bytes,
        dials_a_minute: quiet.quiet_bytes / quiet.dial_bytes.max(1),
        stalled_pings_a_minute_bytes: lazy_pings_bytes(question),
        first_minute_cut_bytes: first_cut,
        first_minute_pings_bytes: pings,
        first_minute_start_bytes: first_start,
        first_minute_start_dials: start_dials,
        day_bytes_max: first_start.max(first_cut) + (minutes_of_a_day - 1) * quiet.quiet_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::super::silence;
    use super::super::warnings::tests::question;
    use super::*;

    fn figures(exits: usize) -> QuietFigures {
        let origin = Instant::now();
        let question = ClientQuestion {
            exits,
            ..question()
        };
        let path = silence::of_client(&question.config.path, question.rtt, origin);
        of(&question, &path, origin)
    }

    #[test]
    fn a_ping_is_51_bytes() {
        // 32 of QUIC; type 1, nonce 8, count 1; lane 1, number 4, tx 4.
        assert_eq!(ping_bytes(), 51);
    }

    #[test]
    fn one_exit_is_dialled_three_times_in_a_silent_first_minute() {
        // At 0 s, 15 + 3.75 = 18.75 s, 18.75 + 15 + 7.5 = 41.25 s; the next at 71.25 s.
        let one = figures(1);
        assert_eq!(one.first_minute_start_dials, 3);
        assert_eq!(one.first_minute_start_bytes, 36_000);
        let two = figures(2);
        assert_eq!(two.first_minute_start_dials, 6);
    }

    #[test]
    fn the_budget_of_dials_bounds_a_large_window() {
        let origin = Instant::now();
        let config = ClientConfig::default();
        // 12 at once, then one each 5 s of a minute.
        let dials = dials_within(MINUTE, &config, 32, origin);
        assert_eq!(dials, 12 + 11);
    }

    #[test]
    fn a_cut_costs_a_few_packs_and_the_pings_of_each_path() {
        let one = figures(1);
        assert_eq!(one.first_minute_pings_bytes, 99 * 51);
        assert_eq!(one.first_minute_cut_bytes, 2 * 4 * 1_452 + 99 * 51);
        let two = figures(2);
        assert_eq!(two.first_minute_pings_bytes, (99 + 12) * 51);
        assert_eq!(two.stalled_pings_a_minute_bytes, 2 * 12 * 51);
        assert_eq!((two.minute_bytes_max, two.dials_a_minute), (16_384, 1));
    }
}
