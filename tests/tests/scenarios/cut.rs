//! A path that is cut and comes back, under real QUIC: what is sent meanwhile, and how soon it is used again.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::probe;
use quell_lab::topology::WORLD_V4;
use quell_sim::link::LinkConfig;
use serde_json::Value;

use crate::fixture::{Outcome, trials};
use crate::links::relayed;

trials![a_path_that_was_cut_is_used_again_within_a_second];

/// The longest wait for the first packet after a cut; a wall clock fails at 3 times it.
const FIRST_PACKET_MAX: Duration = Duration::from_secs(1);
/// Most UDP bytes of the client while the path is cut.
const BYTES_MAX: u64 = 49_152;

fn udp_bytes_out(status: &Value) -> u64 {
    status["udp"]["bytes_out"].as_u64().unwrap_or(0)
}

//
fn a_path_that_was_cut_is_used_again_within_a_second() -> Outcome {
    for (rtt_ms, cut_s) in [(50, 5), (50, 20)] {
        let link = LinkConfig {
            delay: Duration::from_millis(rtt_ms / 2),
            ..LinkConfig::default()
        };
        let (world, relay) = relayed(link)?;
        let echo = world
            .net
            .world
            .run(|| probe::udp_echo_server(SocketAddr::new(WORLD_V4, 0)))??;
        let address = echo.address();
        let offer = |time: Duration| -> Result<(), Failed> {
            let end = Instant::now() + time;
            while Instant::now() < end {
                // What is offered matters here, not what becomes of it.
                let _ = world
                    .net
                    .client
                    .run(|| probe::udp_round_trip(address, 1_000, Duration::from_millis(8)))?;
            }
            Ok(())
        };
        let patience = Duration::from_secs(5);
        world
            .net
            .client
            .run(|| probe::udp_round_trip(address, 1_000, patience))??;
        offer(Duration::from_secs(1))?;
        let before = udp_bytes_out(&world.client.status()?);
        relay.cut();
        offer(Duration::from_secs(1))?;
        let second = udp_bytes_out(&world.client.status()?);
        offer(Duration::from_secs(cut_s - 1))?;
        let after = udp_bytes_out(&world.client.status()?);
        relay.heal();
        let healed = Instant::now();
        let first = loop {
            let answer = world
                .net
                .client
                .run(|| probe::udp_round_trip(address, 1_000, Duration::from_millis(2 * rtt_ms)))?;
            if answer.is_ok() {
                break healed.elapsed();
            }
            if healed.elapsed() > 60 * FIRST_PACKET_MAX {
                return Err("the path was never used again".into());
            }
            thread::sleep(Duration::from_millis(5));
        };
        println!(
            "RTT {rtt_ms} ms, cut of {cut_s} s: first answer {first:?} after the heal (bound {FIRST_PACKET_MAX:?}), \
             {} bytes out meanwhile (bound {BYTES_MAX}), {} of them after the first second",
            after - before,
            after - second,
        );
        assert!(first <= 3 * FIRST_PACKET_MAX, "{first:?}");
        assert!(after - before <= BYTES_MAX, "{} bytes", after - before);
        world.finish()?;
    }
    Ok(())
}
