//! Round trips × lengths of a cut, each in a world of its own.
//!
//! A cut world does next to nothing, which is the point. So all are cut at the same time, and the whole matrix takes little
//! longer than its longest cut. The worlds are made first, one by one and idle, so that none is measured while others start.

use std::thread;
use std::time::{Duration, Instant};

use quell_lab::relay::Relay;

use super::loaded::{Loaded, WARM_UP, link};
use super::together;
use crate::fixture::{Outcome, World, trials};
use crate::links::relayed;

trials![a_path_that_was_cut_is_quiet_meanwhile_and_used_again_at_once];

const RTTS_MS: [u64; 4] = [1, 20, 50, 300];
/// The longest first: they start first.
const CUTS_S: [u64; 5] = [55, 30, 20, 5, 1];
/// The cells of a length start so much after those of the one before: the warm-ups of all at a time would be a load of
/// their own, which round trips of 1 ms do not survive.
const STAGGER: Duration = Duration::from_secs(3);

//
fn a_path_that_was_cut_is_quiet_meanwhile_and_used_again_at_once() -> Outcome {
    let start = Instant::now();
    let cells: Vec<_> = (0..)
        .zip(CUTS_S)
        .flat_map(|(turn, cut_s)| RTTS_MS.map(|rtt_ms| (turn, rtt_ms, cut_s)))
        .collect();
    let made = cells
        .iter()
        .map(|(_, rtt_ms, _)| relayed(link(Duration::from_millis(*rtt_ms))));
    let worlds = made.collect::<Result<Vec<_>, _>>()?;
    println!("{} worlds after {:?}", worlds.len(), start.elapsed());
    let outcome = thread::scope(|scope| {
        let running = cells.iter().zip(worlds);
        let running: Vec<_> = running
            .map(|((turn, rtt_ms, cut_s), (world, relay))| {
                let name = format!("RTT {rtt_ms} ms, cut of {cut_s} s");
                let run = move || {
                    thread::sleep(*turn * STAGGER);
                    run(*rtt_ms, *cut_s, world, relay)
                };
                (name, scope.spawn(run))
            })
            .collect();
        let results = running.into_iter();
        together(results.map(|(name, thread)| (name, thread.join())))
    });
    println!("matrix after {:?}", start.elapsed());
    outcome
}

fn run(rtt_ms: u64, cut_s: u64, world: World, relay: Relay) -> Outcome {
    let mut loaded = Loaded::load(world, relay)?;
    thread::sleep(WARM_UP);
    let outage = loaded.outage(
        Duration::from_millis(rtt_ms),
        Duration::from_secs(cut_s),
        |loaded| {
            loaded.relay.cut();
            Ok(())
        },
        |loaded| {
            loaded.relay.heal();
            Ok(())
        },
    )?;
    println!("{outage}");
    // Books and stream are looked at whatever the bounds say.
    loaded.finish()?;
    outage.check()
}
