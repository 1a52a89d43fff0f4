//! One pack that nobody acknowledges, and the path that it went over.
//!
//! A lane and a path's health are warmed up at the round trip in question, then a last pack leaves and nothing comes
//! back. The lane alone shows when its resends would be spent: that is what it costs where the path lives and one pack
//! is never acknowledged. On a path that is silent as a whole the stall comes first, stops the lane, and leaves the
//! talking to PINGs.
//!
//! ```text
//!   0        PTO      …        stall                                        ack_timeout
//!   ├─ pack ─┼─ resend ─ resend ─┤ lane stands still, PINGs ask … ───────────┤ given up
//!   ├─ pack ─┼─ resend ─ resend ─┼─ resend ─────── resend ─── … spent ───────┤ given up   (lane alone)
//! ```
//!
//! Chance stretches each wait after the first. Its range is narrowed to one factor to see the earliest, the middle and
//! the latest course.

use std::time::{Duration, Instant};

use quell_wire::frame::{Ack, AckRanges, Credit, Lane, PackFlags};
use serde::Serialize;

use super::ms;
use crate::config::{LaneConfig, PathConfig, PathHealthConfig};
use crate::health::path::{Departed, PathHealth};
use crate::path::Role;
use crate::send::{Degraded, Delivery, Kind, SendSequence, Unlimited};

/// Rounds after which the variance of a steady round trip has died out.
const WARM_UP_ROUNDS: u32 = 48;
/// Longer than any wait of a lane or a path is long: nothing here goes on for more steps.
const STEPS_MAX: u32 = 100_000;
/// Length of the pack; it has no influence on its times.
const PACK: [u8; 64] = [0; 64];
const MINUTE: Duration = Duration::from_secs(60);
const WITHOUT_BOUND: Credit = Credit {
    max_bytes: u64::MAX,
    max_number: u64::MAX,
};

/// The resends of one pack by its lane alone, in milliseconds after it left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SilentLane {
    /// Each resend that comes before the pack is given up, chance left out.
    pub resends_at_ms: Vec<u64>,
    /// When the last of them comes at the earliest.
    pub spent_at_min_ms: u64,
    /// When the last of them comes at the latest.
    pub spent_at_max_ms: u64,
    /// Resends that come before the pack is given up, when each comes as early as it can.
    pub resends_max: usize,
    /// The same, when each comes as late as it can.
    pub resends_min: usize,
    /// The longest wait between two of them, chance left out.
    pub wait_max_ms: u64,
}

/// A path that falls silent with one pack under way, in milliseconds after that left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SilentPath {
    /// The probe timeout.
    pub pto_ms: u64,
    /// When nothing is sent for the first time any more.
    pub hushed_at_ms: u64,
    /// When the path is stalled: nothing is resent from then on.
    pub stalled_at_ms: u64,
    /// Resends of one lane before that, at most.
    pub resends_before_stall: usize,
    /// PINGs in the first minute, on the path that is asked most.
    pub pings_first_minute: u64,
    /// PINGs in the first minute on each other path.
    pub pings_first_minute_others: u64,
    /// When the pack is given up.
    pub given_up_at_ms: u64,
    /// When the session is over.
    pub gone_at_ms: u64,
    /// The lane alone, backend well.
    pub healthy: SilentLane,
    /// The lane alone, backend degraded.
    pub degraded: SilentLane,
}

/// The backend's signal, which does not change.
#[derive(Debug, Clone, Copy)]
struct Fixed(bool);

impl Degraded for Fixed {
    fn is_degraded(&self, _now: Instant) -> bool {
        self.0
    }
}

/// Which of its waits chance picks.
#[derive(Debug, Clone, Copy)]
enum Draw {
    Earliest,
    Middle,
    Latest,
}

impl Draw {
    fn narrow(self, config: &LaneConfig) -> LaneConfig {
        let factor = match self {
            Self::Earliest => config.jitter_min,
            Self::Middle => 1.0,
            Self::Latest => config.jitter_max,
        };
        LaneConfig {
            jitter_min: factor,
            jitter_max: factor,
            ..config.clone()
        }
    }
}

/// A lane that has measured a steady round trip, and the moment from which on it is silent.
struct Course {
    lane: SendSequence<Unlimited, Fixed>,
    start: Instant,
}

impl Course {
    fn new(config: &LaneConfig, rtt: Duration, degraded: bool, origin: Instant) -> Self {
        let lane = SendSequence::new(
            Lane::FLOW,
            Delivery::Skipping,
            config.clone(),
            WITHOUT_BOUND,
            (Unlimited, Fixed(degraded)),
            0,
        );
        let mut course = Self {
            lane,
            start: origin,
        };
        for _ in 0..WARM_UP_ROUNDS {
            course.round(rtt);
        }
        course
    }

    /// One pack that is acknowledged a round trip later.
    fn round(&mut self, rtt: Duration) {
        let (left, back) = (self.start, self.start + rtt);
        let taken = self.lane.accept(PackFlags::WHOLE, 0, &PACK, left);
        let sent = self.lane.poll_transmit(usize::MAX, left);
        let (Ok(number), Some(tx)) = (taken, sent.map(|sent| sent.pack.tx)) else {
            return;
        };
        self.lane.on_departed(tx, left);
        let ack = Ack {
            lane: Lane::FLOW,
            cumulative: number + 1,
            ranges: AckRanges::new(&[]),
            largest_tx: tx,
            delay_us: 0,
            dup_tx: None,
            credit: WITHOUT_BOUND,
        };
        // It acknowledges what was sent just above, so nothing in it can be wrong.
        let _ = self.lane.handle_ack(&ack, back);
        self.start = back;
    }

    /// Times of the resends of one more pack, until it is given up or they are spent.
    fn resends(mut self, ack_timeout: Duration, most: usize) -> Vec<Duration> {
        let (start, end) = (self.start, self.start + ack_timeout);
        let (mut now, mut times) = (start, Vec::new());
        let _ = self.lane.accept(PackFlags::WHOLE, 0, &PACK, now);
        for _ in 0..STEPS_MAX {
            while let Some(sent) = self.lane.poll_transmit(usize::MAX, now) {
                let (tx, kind) = (sent.pack.tx, sent.kind);
                self.lane.on_departed(tx, now);
                if kind != Kind::First {
                    times.push(now.saturating_duration_since(start));
                }
            }
            let due = self.lane.poll_timeout().map(|(at, _)| at);
            let Some(due) = due.filter(|due| *due < end && times.len() < most) else {
                break;
            };
            now = now.max(due);
            self.lane.handle_timeout(now);
        }
        times
    }
}

/// Times of the resends of a lane of which nothing is acknowledged.
fn resends(
    config: &LaneConfig,
    rtt: Duration,
    degraded: bool,
    draw: Draw,
    origin: Instant,
) -> Vec<Duration> {
    Course::new(&draw.narrow(config), rtt, degraded, origin)
        .resends(config.ack_timeout, config.max_resend_count.into())
}

fn lane(config: &LaneConfig, rtt: Duration, degraded: bool, origin: Instant) -> SilentLane {
    let course = |draw| resends(config, rtt, degraded, draw, origin);
    let (earliest, middle, latest) = (
        course(Draw::Earliest),
        course(Draw::Middle),
        course(Draw::Latest),
    );
    let last = |times: &[Duration]| times.last().copied().map_or(0, ms);
    let before = std::iter::once(Duration::ZERO).chain(middle.iter().copied());
    let waits = before
        .zip(&middle)
        .map(|(from, to)| to.saturating_sub(from));
    SilentLane {
        wait_max_ms: waits.max().map_or(0, ms),
        resends_at_ms: middle.iter().copied().map(ms).collect(),
        spent_at_min_ms: last(&earliest),
        spent_at_max_ms: last(&latest),
        resends_max: earliest.len(),
        resends_min: latest.len(),
    }
}

/// What a path's health does when nothing comes back.
struct Watched {
    stalled: Duration,
    gone: Duration,
    /// PINGs until a minute after the pack left.
    pings: u64,
}

fn watch(config: &PathConfig, role: Role, eager: bool, rtt: Duration, origin: Instant) -> Watched {
    let quick = PathHealthConfig {
        // As often as chance allows.
        stalled_ping_max: config.health.stalled_ping_min,
        ..config.health.clone()
    };
    let mut health = PathHealth::new(quick, &config.lanes.send, role, 0);
    let mut start = origin;
    for _ in 0..WARM_UP_ROUNDS {
        start += rtt;
        health.on_rtt(rtt, Duration::ZERO, start);
    }
    health.set_eager(eager, start);
    health.on_departed(Departed::Pack, start);
    let mut watched = Watched {
        stalled: Duration::MAX,
        gone: health.gone_after(),
        pings: 0,
    };
    for _ in 0..STEPS_MAX {
        let due = health.poll_timeout(true).map(|(at, _)| at);
        let Some(now) = due.filter(|at| *at < start + MINUTE && !health.is_gone(*at)) else {
            break;
        };
        let change = health.handle_timeout(true, now);
        if change.pause {
            watched.stalled = now.saturating_duration_since(start);
        }
        if change.ping {
            watched.pings += 1;
            health.on_departed(Departed::Ping, now);
        }
    }
    watched
}

fn of(config: &PathConfig, role: Role, rtt: Duration, origin: Instant) -> SilentPath {
    let send = &config.lanes.send;
    let watched = watch(config, role, true, rtt, origin);
    let other = watch(config, role, false, rtt, origin);
    let earliest = resends(send, rtt, false, Draw::Earliest, origin);
    let pto = Course::new(send, rtt, false, origin).lane.pto();
    SilentPath {
        pto_ms: ms(pto),
        hushed_at_ms: ms(pto.saturating_mul(config.health.hush_ptos)),
        stalled_at_ms: ms(watched.stalled.min(watched.gone)),
        resends_before_stall: earliest.iter().filter(|at| **at < watched.stalled).count(),
        pings_first_minute: watched.pings,
        pings_first_minute_others: other.pings,
        given_up_at_ms: ms(send.ack_timeout),
        gone_at_ms: ms(watched.gone),
        healthy: lane(send, rtt, false, origin),
        degraded: lane(send, rtt, true, origin),
    }
}

/// A client's path.
pub(super) fn of_client(config: &PathConfig, rtt: Duration, origin: Instant) -> SilentPath {
    of(config, Role::Client, rtt, origin)
}

/// A provider's path.
pub(super) fn of_provider(config: &PathConfig, rtt: Duration, origin: Instant) -> SilentPath {
    of(config, Role::Provider, rtt, origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn path() -> SilentPath {
        of_client(&PathConfig::default(), RTT, Instant::now())
    }

    #[test]
    fn resends_at_50_ms_double_from_61_ms_to_five_seconds_apart() {
        let path = path();
        assert_eq!(path.pto_ms, 61);
        let lane = &path.healthy;
        let first = [61, 183, 427, 915, 1_891, 3_843, 7_747, 12_747, 17_747];
        assert_eq!(lane.resends_at_ms.get(..9), Some(first.as_slice()));
        assert_eq!(lane.resends_at_ms.len(), 16);
        assert_eq!(lane.resends_at_ms.last(), Some(&52_747));
        assert_eq!(lane.wait_max_ms, 5_000);
        assert!(lane.spent_at_min_ms < 52_747 && lane.spent_at_max_ms >= 52_747);
        assert_eq!((lane.resends_min, lane.resends_max), (16, 16));
    }

    #[test]
    fn a_degraded_lane_spreads_all_of_its_resends_over_the_packs_life() {
        let (healthy, degraded) = (path().healthy, path().degraded);
        assert_eq!(degraded.resends_at_ms.len(), 16);
        assert!(degraded.resends_at_ms.last() > Some(&55_000));
        assert!(degraded.spent_at_max_ms < 60_000);
        let later = healthy.resends_at_ms.iter().zip(&degraded.resends_at_ms);
        assert!(
            later
                .into_iter()
                .all(|(healthy, degraded)| healthy <= degraded)
        );
    }

    #[test]
    fn a_stall_comes_after_a_second_and_stops_the_lane_after_few() {
        let path = path();
        assert_eq!((path.hushed_at_ms, path.stalled_at_ms), (122, 1_000));
        // 61, 152.5, 335.5 and 701.5 ms, as early as they come.
        assert_eq!(path.resends_before_stall, 4);
        // One at the stall, then one each 600 ms of the 59 s that are left.
        assert_eq!(path.pings_first_minute, 99);
        assert_eq!(path.pings_first_minute_others, 12);
        assert_eq!((path.given_up_at_ms, path.gone_at_ms), (60_000, 60_000));
    }

    #[test]
    fn a_provider_asks_ever_more_rarely_and_waits_five_seconds_longer() {
        let path = of_provider(&PathConfig::default(), RTT, Instant::now());
        assert!((12..20).contains(&path.pings_first_minute), "{path:?}");
        assert_eq!(path.gone_at_ms, 65_000);
    }

    #[test]
    fn on_a_slow_path_not_all_resends_fit() {
        let path = of_client(
            &PathConfig::default(),
            Duration::from_secs(4),
            Instant::now(),
        );
        assert!(path.healthy.resends_max < 16, "{path:?}");
        assert_eq!(path.stalled_at_ms, 12_033, "{path:?}");
    }

    #[test]
    fn a_lane_without_resends_has_none() {
        let mut config = PathConfig::default();
        config.lanes.send.max_resend_count = 0;
        let lane = of_client(&config, RTT, Instant::now()).healthy;
        assert_eq!((lane.resends_at_ms.len(), lane.spent_at_max_ms), (0, 0));
    }
}
