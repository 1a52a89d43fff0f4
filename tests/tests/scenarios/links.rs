//! Paths that are slow or lose packets, made by the UDP relay.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_cli::stage::Plan;
use quell_lab::http::{self, Server};
use quell_lab::relay::{Relay, RelayConfig};
use quell_lab::topology::{Routed, WORLD_V4};
use quell_lab::{content, probe};
use quell_sim::link::LinkConfig;

use crate::fixture::{Outcome, World, inner_mtu, trials};

trials![
    slow_paths_connect,
    a_lossy_path_carries_a_file_and_the_books_balance,
    random_loss_does_not_shrink_the_path_for_long,
];

/// The router's address on the client's side, where the relay listens.
const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 254));

/// A relay in the router, each way with `link`, through which the client dials.
pub(crate) fn relayed(link: LinkConfig) -> Result<(World, Relay), Failed> {
    relayed_with(link, |_, _| Ok(()))
}

/// As [`relayed`], after `change` had its way with network and plan.
pub(crate) fn relayed_with(
    link: LinkConfig,
    change: impl FnOnce(&Routed, &mut Plan) -> Outcome,
) -> Result<(World, Relay), Failed> {
    let mut relay = None;
    let world = World::with(1_500, |net: &Routed, plan| {
        let mut config = RelayConfig::new(SocketAddr::new(ROUTER, 0), plan.listen);
        (config.up, config.down) = (link, link);
        let started = net.router.run(|| Relay::start(config))??;
        plan.dial = started.address();
        relay = Some(started);
        change(net, plan)
    })?;
    Ok((world, relay.ok_or("no relay")?))
}

// case B37
fn slow_paths_connect() -> Outcome {
    for rtt_ms in [300, 1_500, 4_000] {
        let link = LinkConfig {
            delay: Duration::from_millis(rtt_ms / 2),
            ..LinkConfig::default()
        };
        let start = Instant::now();
        let (world, relay) = relayed(link)?;
        println!("RTT {rtt_ms} ms: up after {:?}", start.elapsed());
        let patience = Duration::from_millis(3 * rtt_ms);
        let ping = || probe::ping(WORLD_V4, 56, 1, Duration::from_millis(1), patience);
        assert_eq!(world.net.client.run(ping)??.lost(), 0, "RTT {rtt_ms} ms");
        world.finish()?;
        drop(relay);
    }
    Ok(())
}

/// Losses are repaired below the user's TCP: what arrives is right, and the lane
/// says how often a packet was sent.
fn a_lossy_path_carries_a_file_and_the_books_balance() -> Outcome {
    for loss_percent in [1_u32, 5, 10] {
        let link = LinkConfig {
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(2),
            loss: f64::from(loss_percent) / 100.0,
            duplicate: 0.01,
            reorder: 0.01,
            ..LinkConfig::default()
        };
        let (world, relay) = relayed(link)?;
        let server = world
            .net
            .world
            .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
        let bytes = 3_000_000;
        let file = world
            .net
            .client
            .run(|| http::download(server.address(), bytes, Duration::from_secs(100)))??;
        assert_eq!(file.sha256, content::sha256(bytes));
        let status = world.provider.status()?;
        let send = &status["sessions"][0]["path"]["flow"]["send"];
        let count = |name: &str| send[name].as_u64().unwrap_or(0);
        println!(
            "3 MB at 10 ms RTT and {loss_percent} % loss: {:?}; {} packs, {} resent on evidence, {} into silence",
            file.elapsed,
            count("accepted"),
            count("evidence_resends"),
            count("silence_resends"),
        );
        // Some 2,200 packs; most of those that were lost are known to be.
        assert!(
            count("evidence_resends") >= 11 * u64::from(loss_percent),
            "{send}"
        );
        assert_eq!(count("expired"), 0, "{send}");
        let stats = relay.stats();
        assert!(stats.down.lost_random > 0, "{stats:?}");
        world.finish()?;
    }
    Ok(())
}

// case B43
fn random_loss_does_not_shrink_the_path_for_long() -> Outcome {
    let link = LinkConfig {
        delay: Duration::from_millis(5),
        loss: 0.05,
        ..LinkConfig::default()
    };
    let (mut world, relay) = relayed(link)?;
    world.until_mtu(1_390)?;
    let server = world
        .net
        .world
        .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
    let bytes = 10_000_000;
    let sent = world
        .net
        .client
        .run(|| http::upload(server.address(), bytes, Duration::from_secs(100)))??;
    assert_eq!(sent.sha256, content::sha256(bytes));
    let found = world.client.status()?["servers"][0]["quic"]["black_holes"].clone();
    println!(
        "10 MB up at 10 ms RTT and 5 % loss: {:?}, taken for a black hole {found} times",
        sent.elapsed
    );
    // Losses of full packets alone look like one now and then; while there is something to send, the size is back soon.
    let end = Instant::now() + Duration::from_secs(60);
    while inner_mtu(&world.client.status()?) < 1_390 {
        assert!(Instant::now() < end, "the path stays small");
        world
            .net
            .client
            .run(|| http::upload(server.address(), 500_000, Duration::from_secs(60)))??;
    }
    drop(relay);
    world.finish()
}
