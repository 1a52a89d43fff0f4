//! Paths that lose, delay, copy and displace: a hundred seeds of each.
//!
//! Half of an RTT of jitter and five copies in a hundred come with every loss, both ways. The books (see
//! [`crate::pair`]) demand at every step that each packet comes out once, in its flow's order, within its hold, and that
//! not one pack is unaccounted for; here it is demanded that it all comes out.
//!
//! Proves under loss, and cases B59 and B60 over both ends.

use quell_sim::link::{GilbertElliott, LinkConfig};
use quell_sim::pair::for_seeds;
use quell_wire::frame::Lane;

use crate::pair::traffic::mixed;
use crate::pair::{MS, Pair, S, Setup};

const SEEDS: u64 = 100;
const PACKETS: usize = 250;
const FLOWS: u16 = 5;

/// Mean length of a burst, in packets.
const BURST: f64 = 4.0;

fn random(loss: f64) -> LinkConfig {
    LinkConfig { loss, ..impaired() }
}

/// The same share of packets, but in bursts.
fn bursty(loss: f64) -> LinkConfig {
    let burst = GilbertElliott {
        p_good_to_bad: loss / (1.0 - loss) / BURST,
        p_bad_to_good: 1.0 / BURST,
        loss_in_bad: 1.0,
    };
    LinkConfig {
        burst: Some(burst),
        ..impaired()
    }
}

fn impaired() -> LinkConfig {
    LinkConfig {
        delay: 25 * MS,
        jitter: 25 * MS,
        duplicate: 0.05,
        ..LinkConfig::default()
    }
}

/// Mixed packets over `link` both ways, until all is at rest.
fn run(lane: Lane, link: LinkConfig, seed: u64) -> Pair {
    let mut setup = Setup::new(lane, seed);
    setup.carrier.link = link;
    // Every third pair refuses some hand-overs, every other one has ACKs that ride along.
    setup.carrier.refusals = if seed.is_multiple_of(3) { 0.05 } else { 0.0 };
    setup.chatter = seed.is_multiple_of(2).then_some(7 * MS);
    let mut pair = setup.build();
    pair.offer(mixed(PACKETS, FLOWS, seed));
    pair.run_for(S);
    pair.stop_chatter();
    pair.run_to_rest(600 * S);
    pair
}

/// A burst goes by packets: a lone pack that is resent into one may need more of them than it has.
fn all_arrive(test: &str, link: LinkConfig) {
    for_seeds(test, SEEDS, |seed| {
        for lane in Lane::ALL {
            let mut pair = run(lane, link, seed);
            if link.burst.is_some() && pair.sender.counters().given_up() > 0 {
                pair.expect_only_path_to_blame();
            } else {
                pair.expect_all_delivered();
            }
            assert!(pair.resends() > 0 || link.loss < 0.05);
            assert!(pair.receiver.counters().duplicates > 0);
        }
    });
}

#[test]
fn random_1_percent() {
    all_arrive("lanes::loss::random_1_percent", random(0.01));
}

#[test]
fn random_5_percent() {
    all_arrive("lanes::loss::random_5_percent", random(0.05));
}

#[test]
fn random_20_percent() {
    all_arrive("lanes::loss::random_20_percent", random(0.2));
}

#[test]
fn bursty_1_percent() {
    all_arrive("lanes::loss::bursty_1_percent", bursty(0.01));
}

#[test]
fn bursty_5_percent() {
    all_arrive("lanes::loss::bursty_5_percent", bursty(0.05));
}

#[test]
fn bursty_20_percent() {
    all_arrive("lanes::loss::bursty_20_percent", bursty(0.2));
}

#[test]
fn displacement_within_the_reorder_window_and_no_loss_resends_nothing() {
    // case B03: half of the datagrams are overtaken, by 5 ms each way; an RTT of 50 ms allows 12.5 ms for the round
    let test = "lanes::loss::displacement_within_the_reorder_window_and_no_loss_resends_nothing";
    for_seeds(test, SEEDS, |seed| {
        for lane in Lane::ALL {
            let displaced = LinkConfig {
                delay: 25 * MS,
                reorder: 0.5,
                reorder_hold: 5 * MS,
                ..LinkConfig::default()
            };
            let mut setup = Setup::new(lane, seed);
            setup.carrier.link = displaced;
            let mut pair = setup.build();
            pair.offer(mixed(PACKETS, FLOWS, seed));
            pair.run_to_rest(60 * S);
            pair.expect_all_delivered();
            assert_eq!(pair.resends(), 0);
            let counters = pair.receiver.counters();
            assert_eq!((counters.duplicates, counters.holds_expired), (0, 0));
            assert!(
                lane == Lane::MESSAGE || counters.holds > 0,
                "nothing was displaced"
            );
        }
    });
}

#[test]
fn copies_made_by_the_path_are_told_from_resends() {
    // case B60: each packet comes twice, nothing is lost
    for_seeds(
        "lanes::loss::copies_made_by_the_path_are_told_from_resends",
        20,
        |seed| {
            let mut setup = Setup::new(Lane::FLOW, seed);
            setup.carrier.link.duplicate = 1.0;
            let mut pair = setup.build();
            pair.offer(mixed(PACKETS, FLOWS, seed));
            pair.run_to_rest(60 * S);
            pair.expect_all_delivered();
            let (sender, receiver) = (pair.sender.counters(), pair.receiver.counters());
            assert_eq!((pair.resends(), sender.needless_resends), (0, 0));
            assert_eq!(receiver.duplicates, sender.accepted);
            assert!(sender.network_duplicates > 0);
        },
    );
}

#[test]
fn what_only_lost_its_ack_is_delivered_once_and_counted_once() {
    // case B60: the ACK is lost, the pack is resent, both copies arrive
    let mut pair = Setup::new(Lane::FLOW, 1).build();
    pair.warm_up();
    let before = pair.sender.counters();
    pair.back.swallow = Some(Box::new(|_| true));
    pair.offer_one(0, 500);
    // A lone pack's ACK is 10 ms late: its round trip is 60 ms, and the PTO 71 ms.
    pair.run_for(71 * MS);
    assert_eq!(pair.resends(), 1);
    pair.back.swallow = None;
    pair.run_to_rest(S);
    pair.expect_all_delivered();
    let counters = pair.sender.counters();
    assert_eq!(pair.receiver.counters().duplicates, 1);
    assert_eq!(counters.needless_resends - before.needless_resends, 1);
    assert_eq!(counters.network_duplicates, 0);
}
