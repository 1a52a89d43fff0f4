//! Round trips × lengths of a cut, each in a world of its own.
//!
//! A cut world does next to nothing, which is the point. So all are cut at the same time, and the whole matrix takes little
//! longer than its longest cut. The worlds are made first, one by one and idle, so that none is measured while others start.

use std::thread;
use std::time::{Duration, Instant};

use quell_lab::relay::Relay;

use super::loaded::{Loaded, WARM_UP, link};
use crate::fixture::{Outcome, World, trials};
use crate::links::relayed;

trials![a_path_that_was_cut_is_quiet_meanwhile_and_used_again_at_once];

const RTTS_MS: [u64; 4] = [1, 20, 50, 300];
const CUTS_S: [u64; 5] = [1, 5, 20, 30, 55];

//
fn a_path_that_was_cut_is_quiet_meanwhile_and_used_again_at_once() -> Outcome {
    let start = Instant::now();
    let cells: Vec<_> = RTTS_MS
        .into_iter()
        .flat_map(|rtt_ms| CUTS_S.map(|cut_s| (rtt_ms, cut_s)))
        .collect();
    let made = cells
        .iter()
        .map(|(rtt_ms, _)| relayed(link(Duration::from_millis(*rtt_ms))));
    let worlds = made.collect::<Result<Vec<_>, _>>()?;
    println!("{} worlds after {:?}", worlds.len(), start.elapsed());
    let results: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = cells
            .iter()
            .zip(worlds)
            .map(|((rtt_ms, cut_s), (world, relay))| {
                scope.spawn(move || run(*rtt_ms, *cut_s, world, relay))
            })
            .collect();
        let results = running.into_iter().map(|thread| thread.join());
        results.collect()
    });
    let mut broken = Vec::new();
    for ((rtt_ms, cut_s), result) in cells.into_iter().zip(results) {
        let outcome = result.map_err(|_| "the cell panicked")?;
        if let Err(failed) = outcome {
            let words = failed.message().unwrap_or("failed").to_owned();
            broken.push(format!("RTT {rtt_ms} ms, cut of {cut_s} s: {words}"));
        }
    }
    println!("matrix after {:?}", start.elapsed());
    match broken.is_empty() {
        true => Ok(()),
        false => Err(broken.join("\n").into()),
    }
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
