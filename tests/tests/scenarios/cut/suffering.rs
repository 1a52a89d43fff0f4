//! Paths that suffer and are not dead: heavy loss, and congestion that makes round trips twenty times as long.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use quell_lab::load::{TcpLoad, TcpSink};
use quell_lab::topology::WORLD_V4;
use quell_sim::link::LinkConfig;

use super::WALL_CLOCK_SLACK;
use super::loaded::{Loaded, WARM_UP, count, link};
use crate::fixture::{Outcome, trials, within};
use crate::links::relayed;

trials![
    heavy_loss_is_neither_a_stall_nor_a_reason_to_dial,
    congestion_is_neither_a_stall_nor_a_reason_to_dial,
];

const SUFFERING: Duration = Duration::from_secs(20);

fn heavy_loss_is_neither_a_stall_nor_a_reason_to_dial() -> Outcome {
    /// The longest pause of the stream.
    const GAP_MAX: Duration = Duration::from_secs(2);
    let rtt = Duration::from_millis(50);
    let loaded = Loaded::start(link(rtt))?;
    thread::sleep(WARM_UP);
    let lossy = LinkConfig {
        loss: 0.3,
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
    println!(
        "30 % loss each way at 50 ms for 20 s: longest pause of the stream {gap:?} (bound {GAP_MAX:?}), \
         {} of 2500000 B, {} of {} datagrams answered, {} stalls, {} sends of one pack",
        stream.bytes_between(start, end),
        loaded.datagrams().count() - answered,
        loaded.datagrams_sent() - sent,
        count(&status, &["path", "counters", "stalls"]),
        count(&status, &["max_sends_of_one_pack"]),
    );
    loaded.relay.set_up(link(rtt))?;
    loaded.relay.set_down(link(rtt))?;
    assert!(gap <= WALL_CLOCK_SLACK * GAP_MAX, "{gap:?}");
    assert_eq!(
        count(&status, &["path", "counters", "stalls"]),
        0,
        "{status}"
    );
    loaded.finish()
}

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
    let start = Instant::now();
    let mut rtts_ms: Vec<u64> = Vec::new();
    while start.elapsed() < SUFFERING {
        thread::sleep(Duration::from_millis(250));
        let status = world.client.status()?;
        rtts_ms.extend(status["path"]["rtt_ms"].as_f64().map(|rtt| rtt as u64));
    }
    let status = world.client.status()?;
    let gap = sink.arrivals().gap_max_between(start, Instant::now());
    println!(
        "1 Mbit/s with 860 ms of queue and 2 % loss, full for 20 s: RTT {:?} to {:?} ms, {} B arrived, longest pause \
         {gap:?}, {} stalls, {} dials; {} lost in the queue",
        rtts_ms.iter().min(),
        rtts_ms.iter().max(),
        sink.arrivals().bytes(),
        count(&status, &["path", "counters", "stalls"]),
        count(&status, &["dials"]),
        relay.stats().up.lost_queue,
    );
    assert_eq!(
        count(&status, &["path", "counters", "stalls"]),
        0,
        "{status}"
    );
    assert_eq!(count(&status, &["dials"]), 1, "{status}");
    // Half of the link at the least: it was full, not idle.
    assert!(sink.arrivals().bytes() >= 20 * 125_000 / 2);
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
