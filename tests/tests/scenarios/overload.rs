//! More goes into the TUN than any path carries: what comes the other way does not starve (receive livelock, Mogul and
//! Ramakrishnan 1997).
//!
//! The flood is as many small datagrams as a core can make, which is more than the engine takes. Beside it a download goes
//! on, and pings are answered in a time that says queues are short. The machine has two cores for the flood, both ends and
//! the download together, so the download's rate is printed beside its rate alone and held to a small part of that.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use quell_lab::LabError;
use quell_lab::gauge::{Gauge, Server};
use quell_lab::topology::WORLD_V4;

use crate::fixture::{Outcome, World, trials};

trials![a_flood_into_the_tun_leaves_the_other_direction_its_share];

const FLOOD_TIME: Duration = Duration::from_secs(4);
const DOWNLOAD_TIME: Duration = Duration::from_secs(3);
/// What the download keeps of its rate alone, at the least: a starving one has nothing.
const KEPT_PERCENT_MIN: f64 = 3.0;
/// Pings beside the flood: those that come back, and how long half of them take at most. What no lane acknowledges waits
/// 100 ms at most at either end.
const PINGS: u32 = 20;
const ANSWERED_MIN: usize = 5;
const PING_MEDIAN_MAX: Duration = Duration::from_millis(250);

fn a_flood_into_the_tun_leaves_the_other_direction_its_share() -> Outcome {
    let world = World::with(1_500, |_, _| Ok(()))?;
    let any_port = SocketAddr::new(WORLD_V4, 0);
    let server = world.net.world.run(|| Server::start(any_port))??;
    let gauge = Gauge::new(server.address());
    let (alone, beside, pings, flood) = world.net.client.run(|| {
        let alone = gauge.receive(1, DOWNLOAD_TIME / 2)?;
        thread::scope(|scope| {
            let flood = scope.spawn(|| gauge.datagrams(64, None, FLOOD_TIME));
            thread::sleep(Duration::from_millis(300));
            let pings = scope.spawn(|| gauge.round_trips(64, PINGS, Duration::from_millis(40)));
            let beside = gauge.receive(1, DOWNLOAD_TIME)?;
            let gone = || LabError::Invalid("a thread has ended".into());
            let pings = pings.join().map_err(|_| gone())??;
            let flood = flood.join().map_err(|_| gone())??;
            Ok::<_, LabError>((alone, beside, pings, flood))
        })
    })??;
    let kept = 100.0 * beside.mbit_s() / alone.mbit_s();
    let median = pings.quantile(0.5).unwrap_or(Duration::MAX);
    println!(
        "    flood: {:.0}/s offered, {:.0}/s arrived; download {:.0} Mbit/s, alone {:.0} ({kept:.0} %); ping {median:?}, {} lost",
        flood.sent as f64 / flood.took.as_secs_f64(),
        flood.received_s(),
        beside.mbit_s(),
        alone.mbit_s(),
        pings.lost,
    );
    assert!(flood.loss() > 0.0, "it was no flood: {flood:?}");
    assert!(flood.received > 0, "{flood:?}");
    assert!(kept >= KEPT_PERCENT_MIN, "{kept} %");
    assert!(pings.times.len() >= ANSWERED_MIN, "{pings:?}");
    assert!(median <= PING_MEDIAN_MAX, "{median:?}");
    Ok(())
}
