//! A full link after a cut: what waited does not come as a herd, and the link is soon as full as before.
//!
//! The meter is the router's interface towards the client, asked every 10 ms: every byte that the client sent, whether the
//! link behind it had room or not.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::load::{TcpLoad, TcpSink};
use quell_lab::topology::WORLD_V4;
use quell_sim::link::LinkConfig;

use crate::fixture::{Outcome, World, trials, within};
use crate::links::relayed;

trials![
    a_full_link_is_full_again_after_a_cut_without_a_herd,
    the_meter_tells_a_burst_of_a_round_trip_from_a_herd,
];

const RTT: Duration = Duration::from_millis(50);
/// 20 Mbit/s.
const LINK_BYTES_S: u64 = 2_500_000;
const WARM_UP: Duration = Duration::from_secs(8);
const CUT: Duration = Duration::from_secs(5);
const SAMPLE: Duration = Duration::from_millis(10);

//
fn a_full_link_is_full_again_after_a_cut_without_a_herd() -> Outcome {
    let link = LinkConfig {
        delay: RTT / 2,
        rate_bytes_per_s: Some(LINK_BYTES_S),
        ..LinkConfig::default()
    };
    let (world, relay) = relayed(link)?;
    let any = SocketAddr::new(WORLD_V4, 0);
    let sink = world.net.world.run(|| TcpSink::start(any))??;
    let address = sink.address();
    let stream = world
        .net
        .client
        .run(|| TcpLoad::start(address, u64::MAX))??;
    let arrivals = sink.arrivals();
    let second = Duration::from_secs(1);
    thread::sleep(WARM_UP - 3 * second);
    let before = Sent::sample(&world, 3 * second)?;
    let cut = Instant::now();
    let goodput_before = arrivals.bytes_between(cut - 3 * second, cut) / 3;
    relay.cut();
    thread::sleep(CUT);
    let healed = Instant::now();
    relay.heal();
    let after = Sent::sample(&world, 4 * second + 5 * SAMPLE)?;
    let goodput_after = arrivals.bytes_between(healed + 2 * second, healed + 4 * second) / 2;

    let bound = 2 * before.total() * RTT.as_millis() as u64 / 3_000;
    let (peak, herd) = after.herd(bound);
    let moved = arrivals.first_after(healed).map(|at| at - healed);
    println!(
        "20 Mbit/s at 50 ms, cut of 5 s: at most {peak} B out in a round trip after the heal (bound {bound}, exceeded \
         for {herd:?}); the stream moves {moved:?} after it; goodput {goodput_before} B/s before, {goodput_after} from \
         2 s to 4 s after ({} %)",
        100 * goodput_after / goodput_before.max(1),
    );
    let sent = stream.stop()?;
    within(
        Duration::from_secs(60),
        "the stream comes to its end",
        || (sink.ended() == 1).then_some(()),
    )?;
    assert_eq!(arrivals.bytes(), sent, "nothing is lost");
    assert!(goodput_before >= LINK_BYTES_S / 2, "the link was not full");
    assert!(herd <= RTT, "{herd:?}");
    assert!(
        10 * goodput_after >= 9 * goodput_before,
        "{goodput_after} B/s after, {goodput_before} before"
    );
    world.finish()?;
    drop(relay);
    Ok(())
}

/// What the client had sent when.
struct Sent(Vec<(Instant, u64)>);

impl Sent {
    fn sample(world: &World, time: Duration) -> Result<Self, Failed> {
        let start = Instant::now();
        let mut samples = Vec::new();
        let mut next = start;
        while start.elapsed() < time {
            samples.push((Instant::now(), world.net.router_left.counters()?.rx_bytes));
            next += SAMPLE;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(Self(samples))
    }

    fn total(&self) -> u64 {
        let bytes = |sample: Option<&(Instant, u64)>| sample.map_or(0, |(_, bytes)| *bytes);
        bytes(self.0.last()) - bytes(self.0.first())
    }

    /// The most bytes in a window of a round trip, and for how long windows exceeded `bound`.
    ///
    /// A window sees a burst from when the burst begins within it until it has left it. So what makes windows exceed that
    /// begin within `d + RTT` of each other lasted for `d`.
    fn herd(&self, bound: u64) -> (u64, Duration) {
        let windows = self.0.iter().enumerate().filter_map(|(first, (at, sent))| {
            let mut rest = self.0[first..].iter();
            let (_, then) = rest.find(|(then, _)| *then >= *at + RTT)?;
            Some((*at, then - sent))
        });
        let windows: Vec<_> = windows.collect();
        let peak = windows.iter().map(|(_, bytes)| *bytes).max();
        let mut beyond = windows.iter().filter(|(_, bytes)| *bytes > bound);
        let span = match (beyond.next(), beyond.next_back()) {
            (Some((first, _)), Some((last, _))) => *last - *first,
            (Some(_) | None, None) | (None, Some(_)) => Duration::ZERO,
        };
        (peak.unwrap_or(0), span.saturating_sub(RTT))
    }
}

/// The measure of the trial above, held to what it is for.
fn the_meter_tells_a_burst_of_a_round_trip_from_a_herd() -> Outcome {
    // 1,000 B a sample, 5,000 B a round trip; four times that while the burst lasts.
    let burst = |samples: usize| {
        let start = Instant::now();
        let mut sent = 0;
        let steps = (0..100).map(|index| {
            sent += if (50..50 + samples).contains(&index) {
                4_000
            } else {
                1_000
            };
            (start + SAMPLE * u32::try_from(index).unwrap_or(0), sent)
        });
        Sent(steps.collect()).herd(10_000)
    };
    assert_eq!(burst(0), (5_000, Duration::ZERO));
    // One sample makes 8,000 B of a window, two make 11,000.
    assert_eq!(burst(1), (8_000, Duration::ZERO));
    assert!(burst(2).0 > 10_000);
    assert!(burst(5).1 <= RTT, "{:?}", burst(5));
    assert!(burst(10).1 > RTT, "{:?}", burst(10));
    Ok(())
}
