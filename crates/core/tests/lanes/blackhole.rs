//! A path that carries nothing, for a day, and one that comes back at any moment.
//!
//! What a lane holds during an outage is decided by its window, never by how long it lasts or by how much is offered: after
//! the first minutes not a byte more is allocated, and what is refused or given up is counted. When the path is back, each
//! pack is delivered or was given up, and both ends agree on which.

use std::time::Duration;

use quell_core::config::LaneConfig;
use quell_core::config::receive::ReceiveConfig;
use quell_sim::pair::for_seeds;
use quell_wire::frame::Lane;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::pair::traffic::{mixed, steady};
use crate::pair::{MS, Pair, S, Setup};

const HOUR: Duration = Duration::from_secs(3_600);

/// A small window, an offer of 1,100 bytes each second, for 25 hours; what is refused is dropped.
fn offered_for_a_day(seed: u64) -> Pair {
    let mut setup = Setup::new(Lane::FLOW, seed);
    setup.send = LaneConfig {
        window_bytes: 64 * 1024,
        ..LaneConfig::default()
    };
    setup.receive = ReceiveConfig {
        window_bytes: 64 * 1024,
        window_numbers: 64,
        ..ReceiveConfig::default()
    };
    setup.patient = false;
    let mut pair = setup.build();
    pair.warm_up();
    pair.set_cut(true);
    let elapsed = pair.elapsed();
    pair.offer(steady(25 * 3_600, 0, 1_100, elapsed, S));
    pair
}

/// Heals the path while the last hour is offered; all of it comes to an end.
fn heal(mut pair: Pair) {
    let before = pair.books.delivered.len();
    pair.set_cut(false);
    pair.run_for(HOUR);
    assert!(
        pair.books.delivered.len() - before > 3_500,
        "it flows again"
    );
    pair.run_to_rest(100 * S);
    pair.expect_only_path_to_blame();
    let counters = pair.sender.counters();
    let offered = 25 * 3_600 + 40;
    assert_eq!(counters.accepted + pair.dropped, offered);
    assert_eq!(counters.acked + counters.given_up(), counters.accepted);
}

#[test]
fn a_day_of_blackhole_with_traffic_offered_holds_a_flat_amount_and_heals() {
    // R-3, case B01
    for degraded in [false, true] {
        let mut pair = offered_for_a_day(1);
        pair.degraded.0.set(degraded);
        pair.run_for(HOUR / 6);
        let (rings, hand_overs) = (pair.sender.allocated_bytes(), pair.books.hand_overs);
        for hour in 1..=23_u64 {
            pair.run_for(HOUR);
            assert_eq!(pair.sender.allocated_bytes(), rings, "hour {hour}");
            // A pack lives for a minute, so what lives is at most what a minute offers.
            assert!(pair.sender.counters().in_flight <= 61);
            let sent = pair.books.hand_overs - hand_overs;
            // Each second one first send, and a resend each 5 s at most, less a quarter for jitter.
            assert!(sent <= hour * (3_600 + 3_600 / 3), "{sent} in {hour} h");
        }
        pair.run_for(5 * HOUR / 6);
        heal(pair);
    }
}

#[test]
fn a_day_of_a_paused_lane_sends_nothing_and_keeps_no_more_than_a_minute_offers() {
    // what the path does to its lanes while it is stalled
    let mut pair = offered_for_a_day(2);
    pair.run_for(10 * S);
    pair.sender.pause(pair.now);
    pair.run_for(2 * S);
    let hand_overs = pair.books.hand_overs;
    pair.run_for(100 * S);
    let rings = pair.sender.allocated_bytes();
    for hour in 1..=23 {
        pair.run_for(HOUR);
        assert_eq!(pair.sender.allocated_bytes(), rings, "hour {hour}");
        assert!(pair.sender.counters().in_flight <= 61, "hour {hour}");
    }
    assert_eq!(pair.books.hand_overs, hand_overs);
    pair.run_for(HOUR - 112 * S);
    pair.sender.resume(pair.now);
    heal(pair);
}

#[test]
fn healed_at_any_point_all_converges_or_is_given_up_and_counted() {
    // R-20, case B01
    let test = "lanes::blackhole::healed_at_any_point_all_converges_or_is_given_up_and_counted";
    for_seeds(test, 100, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        for lane in Lane::ALL {
            let mut setup = Setup::new(lane, seed);
            setup.carrier.link.loss = 0.02;
            let mut pair = setup.build();
            pair.degraded.0.set(rng.random());
            pair.offer(mixed(300, 4, seed));
            pair.run_for(MS * rng.random_range(0..600));
            // Both ways, or one of them: data without ACKs, or ACKs without data.
            let ways = rng.random_range(0..3);
            let cut = |pair: &mut Pair, cut| {
                let ends = [(&mut pair.forward, ways != 1), (&mut pair.back, ways != 2)];
                for (carrier, _) in ends.into_iter().filter(|(_, chosen)| *chosen) {
                    let mut config = carrier.config();
                    config.link.blackhole = cut;
                    carrier.set_config(config);
                }
            };
            cut(&mut pair, true);
            pair.run_for(MS * rng.random_range(0..90_000));
            cut(&mut pair, false);
            // The longest wait, 5 s, finds out; then a round trip for each loss.
            pair.run_to_rest(70 * S);
            pair.expect_settled();
            let counters = pair.sender.counters();
            assert!(
                counters.given_up() == 0 || pair.elapsed() > 60 * S,
                "too early"
            );
        }
    });
}
