//! Paths that suffer and are not dead: heavy loss, and congestion that makes round trips twenty times as long.

use std::fmt;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::load::{TcpLoad, TcpSink, UdpLoad};
use quell_lab::topology::WORLD_V4;
use quell_sim::link::LinkConfig;

use super::loaded::{Loaded, WARM_UP, count, link};
use super::{WALL_CLOCK_SLACK, together};
use crate::fixture::{Outcome, World, trials, within};
use crate::links::relayed;

trials![
    heavy_loss_is_no_reason_to_dial_nor_for_long_pauses,
    congestion_is_neither_a_stall_nor_a_reason_to_dial,
];

const SUFFERING: Duration = Duration::from_secs(20);
/// How long a tunnel alone on its link is watched: what it does to the queue shows at once.
const ALONE: Duration = Duration::from_secs(8);
/// The longest pause of a stream under loss.
const GAP_MAX: Duration = Duration::from_secs(2);

fn heavy_loss_is_no_reason_to_dial_nor_for_long_pauses() -> Outcome {
    thread::scope(|scope| {
        let running = [10, 20, 30].map(|percent| {
            let name = format!("{percent} % loss");
            (name, scope.spawn(move || lossy(percent)))
        });
        together(running.map(|(name, thread)| (name, thread.join())))
    })
}

fn lossy(percent: u32) -> Outcome {
    let rtt = Duration::from_millis(50);
    let loaded = Loaded::start(link(rtt))?;
    thread::sleep(WARM_UP);
    let lossy = LinkConfig {
        loss: f64::from(percent) / 100.0,
        ..link(rtt)
    };
    let start = Instant::now();
    let (sent, answered) = (loaded.datagrams_sent(), loaded.datagrams().count());
    loaded.relay.set_up(lossy)?;
    loaded.relay.set_down(lossy)?;
    thread::sleep(SUFFERING);
    let end = Instant::now();
    let stream = loaded.stream();
    let gap = stream.gap_max_between(start, end);
    let status = loaded.world.client.status()?;
    let stalls = count(&status, &["exits", "0", "path", "counters", "stalls"]);
    println!(
        "{percent} % loss each way at 50 ms for 20 s: longest pause of the stream {gap:?} (bound {GAP_MAX:?}), \
         {} of 2500000 B, {} of {} datagrams answered, {stalls} stalls, {} sends of one pack, cwnd {} B",
        stream.bytes_between(start, end),
        loaded.datagrams().count() - answered,
        loaded.datagrams_sent() - sent,
        count(&status, &["max_sends_of_one_pack"]),
        count(&status, &["servers", "0", "quic", "cwnd_bytes"]),
    );
    loaded.relay.set_up(link(rtt))?;
    loaded.relay.set_down(link(rtt))?;
    if gap > WALL_CLOCK_SLACK * GAP_MAX {
        return Err(format!("the stream pauses for {gap:?}").into());
    }
    // At 30 % each way every other question is in vain, and four in a row now and then look like a dead path.
    if stalls != 0 && percent <= 20 {
        return Err(format!("{stalls} stalls").into());
    }
    if count(&status, &["dials"]) != 1 {
        return Err("the client dialled again".into());
    }
    loaded.finish()
}

/// Most of what fills the link of the congestion trial: a stranger who does not give way.
const STRANGER_BIT_S: u64 = 950_000;

// case B89
fn congestion_is_neither_a_stall_nor_a_reason_to_dial() -> Outcome {
    // 1 Mbit/s, and a queue that holds 860 ms of it.
    let up = LinkConfig {
        delay: Duration::from_millis(20),
        loss: 0.02,
        rate_bytes_per_s: Some(125_000),
        queue_ms_max: 860,
        ..LinkConfig::default()
    };
    let (world, relay) = relayed(up)?;
    let any = SocketAddr::new(WORLD_V4, 0);
    let sink = world.net.world.run(|| TcpSink::start(any))??;
    let address = sink.address();
    let stream = world
        .net
        .client
        .run(|| TcpLoad::start(address, u64::MAX))??;
    // The tunnel alone leaves the queue as good as empty.
    let alone = Congested::watch(&world, &sink, ALONE)?;
    println!("1 Mbit/s with 860 ms of queue and 2 % loss, {alone}");
    let dial = world.plan.dial;
    let stranger = world
        .net
        .client
        .run(|| UdpLoad::start(dial, 1_000, STRANGER_BIT_S))??;
    let crowded = Congested::watch(&world, &sink, SUFFERING)?;
    println!(
        "beside a stranger with 0.95 Mbit/s, {crowded}; {} lost in the queue",
        relay.stats().up.lost_queue,
    );
    drop(stranger);
    for seen in [&alone, &crowded] {
        assert_eq!((seen.stalls, seen.dials), (0, 1), "stalls and dials");
    }
    assert!(crowded.rtt_ms_max >= 800, "the queue was not full");
    // Half of the link at the least: it was full, not idle.
    assert!(
        alone.bytes >= ALONE.as_secs() * 125_000 / 2,
        "{}",
        alone.bytes
    );
    let sent = stream.stop()?;
    within(
        Duration::from_secs(120),
        "the stream comes to its end",
        || (sink.ended() == 1).then_some(()),
    )?;
    assert_eq!(sink.arrivals().bytes(), sent, "nothing is lost");
    world.finish()?;
    drop(relay);
    Ok(())
}

/// A client's path while a stream wants more than it carries.
struct Congested {
    time: Duration,
    rtt_ms_min: u64,
    rtt_ms_max: u64,
    bytes: u64,
    gap: Duration,
    stalls: u64,
    dials: u64,
}

impl Congested {
    fn watch(world: &World, sink: &TcpSink, time: Duration) -> Result<Self, Failed> {
        let start = Instant::now();
        let (mut rtt_ms_min, mut rtt_ms_max) = (u64::MAX, 0);
        while start.elapsed() < time {
            thread::sleep(Duration::from_millis(250));
            let rtt_ms =
                count(&world.client.status()?, &["servers", "0", "quic", "rtt_us"]) / 1_000;
            rtt_ms_min = rtt_ms_min.min(rtt_ms);
            rtt_ms_max = rtt_ms_max.max(rtt_ms);
        }
        let (end, status) = (Instant::now(), world.client.status()?);
        Ok(Self {
            time,
            rtt_ms_min,
            rtt_ms_max,
            bytes: sink.arrivals().bytes_between(start, end),
            gap: sink.arrivals().gap_max_between(start, end),
            stalls: count(&status, &["exits", "0", "path", "counters", "stalls"]),
            dials: count(&status, &["dials"]),
        })
    }
}

impl fmt::Display for Congested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "full for {:?}: RTT {} to {} ms, {} B arrived, longest pause {:?}, {} stalls, {} dials",
            self.time,
            self.rtt_ms_min,
            self.rtt_ms_max,
            self.bytes,
            self.gap,
            self.stalls,
            self.dials,
        )
    }
}
