//! The loss floor in a closed loop: it fills what random loss would leave empty,
//! keeps no queue, shares with its like, and ends where the path does.
//!
//! Bounds on goodput, queue and shares are the design's; the others are what the
//! rule reaches, with a margin of a tenth and more.
#![allow(clippy::unwrap_used)]

mod model;

use std::time::Duration;

use model::{Flow, Seen, World, link};
use quell_sim::link::{GilbertElliott, LinkConfig};

const S: Duration = Duration::from_secs(1);
const SEEDS: [u64; 3] = [1, 7, 42];

fn always(_: Duration) -> bool {
    true
}

fn after_5_s(since_start: Duration) -> bool {
    since_start > 5 * S
}

/// What one flow saw in each of `spans`, one after the other.
fn alone(config: LinkConfig, floor: bool, seed: u64, spans: &[Duration]) -> Vec<Seen> {
    let mut world = World::new(config, vec![Flow::new(floor, always)], seed);
    spans.iter().map(|&span| world.run(span)[0]).collect()
}

/// What two flows saw after 10 s, over 30 s. The second may start later.
fn beside(config: LinkConfig, second_floor: bool, late: bool, seed: u64) -> Vec<Seen> {
    let offer = if late { after_5_s } else { always };
    let flows = vec![Flow::new(true, always), Flow::new(second_floor, offer)];
    let mut world = World::new(config, flows, seed);
    world.run(10 * S);
    world.run(30 * S)
}

fn share(seen: &[Seen]) -> f64 {
    seen[0].mbit / (seen[0].mbit + seen[1].mbit)
}

#[test]
fn random_loss_leaves_the_link_full_and_its_queue_empty() {
    for (loss, least) in [(0.001, 90.0), (0.01, 80.0), (0.05, 60.0)] {
        for seed in SEEDS {
            let seen = alone(link(100.0, 20, 50, loss), true, seed, &[2 * S, 15 * S])[1];
            assert!(seen.mbit >= least, "{loss}: {seen:?}");
            assert!(seen.srtt_ms <= 50.0, "{loss}: {seen:?}");
        }
    }
    let without = alone(link(100.0, 20, 50, 0.01), false, 1, &[2 * S, 15 * S])[1];
    assert!(
        without.mbit < 10.0,
        "or the floor had nothing to win: {without:?}"
    );
}

#[test]
fn a_start_under_loss_takes_a_second() {
    for seed in SEEDS {
        let seen = alone(link(100.0, 20, 50, 0.05), true, seed, &[S, S]);
        assert!(seen[0].mbit >= 40.0 && seen[1].mbit >= 70.0, "{seen:?}");
    }
}

#[test]
fn a_narrow_link_is_filled_as_well() {
    for (mbit, delay_ms, least) in [(20.0, 20, 14.0), (5.0, 10, 1.75), (50.0, 100, 35.0)] {
        let spans = [5 * S, 15 * S];
        let seen = alone(link(mbit, delay_ms, 50, 0.05), true, 7, &spans)[1];
        assert!(seen.mbit >= least, "{mbit}: {seen:?}");
    }
}

#[test]
fn bursts_of_loss_and_jitter_are_no_congestion() {
    let clean = link(100.0, 20, 50, 0.01);
    let jitter = LinkConfig {
        jitter: Duration::from_millis(4),
        ..clean
    };
    let bursts = LinkConfig {
        loss: 0.0,
        burst: Some(GilbertElliott {
            p_good_to_bad: 0.002,
            p_bad_to_good: 0.2,
            loss_in_bad: 1.0,
        }),
        ..clean
    };
    for config in [jitter, bursts] {
        let seen = alone(config, true, 7, &[2 * S, 15 * S])[1];
        assert!(seen.mbit >= 60.0, "{seen:?}");
    }
}

#[test]
fn a_shallow_queue_is_not_held_full_of_loss() {
    for seed in SEEDS {
        let seen = alone(link(20.0, 20, 5, 0.0), true, seed, &[5 * S, 20 * S])[1];
        assert!(seen.lost <= 0.04 && seen.mbit >= 14.0, "{seen:?}");
    }
}

#[test]
fn two_floors_share_and_neither_starves() {
    for loss in [0.0, 0.01] {
        for late in [false, true] {
            for seed in SEEDS {
                let seen = beside(link(50.0, 20, 50, loss), true, late, seed);
                assert!((0.3..=0.7).contains(&share(&seen)), "{loss}: {seen:?}");
            }
        }
    }
}

#[test]
fn aimd_beside_the_floor_keeps_its_share() {
    for queue_ms in [20, 50, 100] {
        for late in [false, true] {
            let seen = beside(link(50.0, 20, queue_ms, 0.0), false, late, 7);
            assert!(share(&seen) <= 0.7, "{queue_ms}: {seen:?}");
        }
    }
    // Random loss alone leaves it 2 of 50, whoever is beside it.
    let seen = beside(link(50.0, 20, 50, 0.01), false, false, 7);
    assert!(seen[1].mbit >= 1.2, "{seen:?}");
    // A queue of an eighth of the path hides what it lacks: less, but no starving.
    let seen = beside(link(50.0, 20, 5, 0.0), false, false, 7);
    assert!(seen[1].mbit >= 2.5, "{seen:?}");
}

#[test]
fn our_own_queue_does_not_become_the_minimum() {
    // Without loss AIMD below the floor fills the queue for a minute.
    let mut world = World::new(link(20.0, 20, 50, 0.0), vec![Flow::new(true, always)], 7);
    let seen = world.run(60 * S)[0];
    let min_rtt = world.flows[0].floor.as_ref().unwrap().min_rtt().unwrap();
    assert!(min_rtt <= Duration::from_millis(42), "{min_rtt:?}");
    assert!(seen.mbit >= 19.0, "and measuring costs little: {seen:?}");
}

#[test]
fn a_link_that_shrinks_a_hundredfold_ends_the_floor() {
    for seed in SEEDS {
        let mut world = World::new(
            link(100.0, 20, 50, 0.01),
            vec![Flow::new(true, always)],
            seed,
        );
        world.run(3 * S);
        world.set_link(link(1.0, 20, 50, 0.01));
        // What had left before, and its answers, take the queue's length to be seen.
        world.run(S);
        let seen = world.run(3 * S)[0];
        assert!(seen.lost <= 0.1 && seen.mbit >= 0.6, "{seen:?}");
        let floor = world.flows[0].floor.as_ref().unwrap().floor_bytes();
        assert!(floor <= 10_000, "{floor}");
        world.set_link(link(100.0, 20, 50, 0.01));
        world.run(4 * S);
        let seen = world.run(2 * S)[0];
        assert!(seen.mbit >= 80.0, "and it comes back: {seen:?}");
    }
}

#[test]
fn a_longer_path_is_believed_after_the_minimum_has_aged() {
    let mut world = World::new(link(50.0, 20, 50, 0.01), vec![Flow::new(true, always)], 7);
    world.run(3 * S);
    world.set_link(link(50.0, 60, 50, 0.01));
    world.run(20 * S);
    let seen = world.run(5 * S)[0];
    assert!(seen.mbit >= 35.0, "{seen:?}");
}

#[test]
fn a_cut_is_followed_by_a_fresh_start() {
    let config = link(50.0, 20, 50, 0.01);
    let mut world = World::new(config, vec![Flow::new(true, always)], 7);
    world.run(3 * S);
    world.set_link(LinkConfig {
        blackhole: true,
        ..config
    });
    assert!(world.run(5 * S)[0].mbit < 1.0);
    let floor = world.flows[0].floor.as_ref().unwrap().floor_bytes();
    assert_eq!(floor, 0, "nothing was delivered");
    world.set_link(config);
    // The model's probes have backed off by then, as QUIC's.
    world.run(7 * S);
    let seen = world.run(2 * S)[0];
    assert!(seen.mbit >= 40.0, "{seen:?}");
}
