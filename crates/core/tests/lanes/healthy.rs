//! while acknowledgements flow the degraded signal changes nothing, not one byte and not one nanosecond.
//!
//! Each course is lived through three times: healthy, degraded, and with a signal that flaps. What the sender handed over,
//! with its times, and what came out of the receiver must be the same.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use quell_core::send::Kind;
use quell_sim::pair::for_seeds;
use quell_wire::frame::Lane;

use crate::pair::traffic::mixed;
use crate::pair::{MS, Out, S, Setup, packs_of};

#[derive(Debug, Clone, Copy)]
enum Signal {
    Healthy,
    Degraded,
    Flapping,
}

type Course = (Vec<(Duration, Bytes)>, Vec<Out>, u64);

fn course(mut setup: Setup, loss: f64, signal: Signal) -> Course {
    setup.carrier.link.jitter = 3 * MS;
    setup.carrier.link.duplicate = 0.02;
    setup.chatter = Some(9 * MS);
    let (seed, quiet) = (setup.seed, setup.carrier.link);
    let mut pair = setup.build();
    // What is lost is lost forward: ACKs flow.
    let mut forward = pair.forward.config();
    forward.link.loss = loss;
    pair.forward.set_config(forward);
    pair.record = Some(Vec::new());
    pair.offer(mixed(400, 5, seed));
    for tick in 0..450 {
        let degraded = match signal {
            Signal::Healthy => false,
            Signal::Degraded => true,
            Signal::Flapping => tick % 7 < 3,
        };
        pair.degraded.0.set(degraded);
        pair.run_for(MS);
    }
    // The tail is another matter: see below.
    forward.link = quiet;
    pair.forward.set_config(forward);
    pair.run_for(S);
    pair.stop_chatter();
    pair.run_to_rest(100 * S);
    pair.expect_all_delivered();
    let resends = pair.resends();
    (pair.record.take().unwrap(), pair.books.delivered, resends)
}

fn same(test: &str, loss: f64) {
    for_seeds(test, 100, |seed| {
        for lane in Lane::ALL {
            let healthy = course(Setup::new(lane, seed), loss, Signal::Healthy);
            assert!(healthy.0.len() > 100);
            assert_eq!(healthy.2 > 0, loss > 0.0, "resends");
            for signal in [Signal::Degraded, Signal::Flapping] {
                let other = course(Setup::new(lane, seed), loss, signal);
                assert!(healthy == other, "{signal:?} differs");
            }
        }
    });
}

#[test]
fn without_loss_the_signal_changes_nothing_and_nothing_is_sent_twice() {
    //
    let test = "lanes::healthy::without_loss_the_signal_changes_nothing_and_nothing_is_sent_twice";
    same(test, 0.0);
}

#[test]
fn with_a_loss_now_and_then_the_signal_changes_nothing_either() {
    //
    let test = "lanes::healthy::with_a_loss_now_and_then_the_signal_changes_nothing_either";
    same(test, 0.03);
}

#[test]
fn a_lone_tail_pack_lost_while_degraded_is_resent_at_plain_pto() {
    // the first silence is never widened, and any ACK makes the next one the first again
    for degraded in [false, true] {
        let mut pair = Setup::new(Lane::FLOW, 1).build();
        pair.warm_up();
        pair.degraded.0.set(degraded);
        // The first copy of each number from here on is lost.
        let mut seen = BTreeSet::new();
        pair.forward.swallow = Some(Box::new(move |datagram| {
            let fresh = packs_of(datagram).filter(|number| seen.insert(*number));
            fresh.count() > 0
        }));
        for _ in 0..5 {
            let pto = pair.sender.pto();
            // A round trip of 60 ms, for the ACK of a lone pack is 10 ms late.
            assert_eq!(pto.as_millis(), 71);
            let elapsed = pair.elapsed();
            pair.sent.clear();
            pair.offer_one(0, 1_000);
            pair.run_to_rest(S);
            pair.expect_all_delivered();
            let sent: Vec<_> = pair.sent.iter().map(|s| (s.at - elapsed, s.kind)).collect();
            let expected = [(Duration::ZERO, Kind::First), (pto, Kind::Silence)];
            assert_eq!(sent, expected, "degraded {degraded}");
        }
    }
}
