//! Paths of every width, and paths that shrink under a transfer.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use quell_lab::http::{self, Server};
use quell_lab::topology::{Routed, WORLD_V4, WORLD_V6};
use quell_lab::{content, probe};

use crate::fixture::{Outcome, World, trials};

trials![
    inner_packets_of_1280_bytes_pass_every_outer_mtu,
    a_path_that_shrinks_and_says_so_stalls_tcp_briefly,
    a_path_that_shrinks_silently_stalls_tcp_briefly,
];

/// The longest stall that a shrinking path may cause; a wall clock fails at 3 times it.
const STALL_MAX: Duration = Duration::from_secs(2);
const TRANSFER_BYTES: u64 = 60_000_000;
const PATIENCE: Duration = Duration::from_secs(90);

// case B47
fn inner_packets_of_1280_bytes_pass_every_outer_mtu() -> Outcome {
    for mtu in [1_280, 1_400, 1_500] {
        let world = World::new(mtu)?;
        for (target, headers) in [(WORLD_V4, 28), (WORLD_V6, 48)] {
            let echo = world
                .net
                .world
                .run(|| probe::udp_echo_server(SocketAddr::new(target, 0)))??;
            let address = echo.address();
            world.net.client.run(|| -> Outcome {
                for len in [1_200 - headers, 1_279 - headers, 1_280 - headers] {
                    for _ in 0..20 {
                        probe::udp_round_trip(address, len, Duration::from_secs(5)).map_err(
                            |error| format!("outer {mtu}, {len} bytes to {target}: {error}"),
                        )?;
                    }
                }
                Ok(())
            })??;
            let server = world
                .net
                .world
                .run(|| Server::start(SocketAddr::new(target, 0)))??;
            let file = world
                .net
                .client
                .run(|| http::download(server.address(), 2_000_000, PATIENCE))??;
            assert_eq!(
                file.sha256,
                content::sha256(2_000_000),
                "outer {mtu}, {target}"
            );
            let sent = world
                .net
                .client
                .run(|| http::upload(server.address(), 1_048_576, PATIENCE))??;
            assert_eq!(sent.sha256, content::sha256(1_048_576));
        }
        // What the system refuses as too long is no loss: nothing of it is sent again.
        let send = &world.client.status()?["exits"][0]["path"]["flow"]["send"];
        assert_eq!(send["evidence_resends"], 0, "outer {mtu}: {send}");
        world.finish()?;
    }
    Ok(())
}

fn a_path_that_shrinks_and_says_so_stalls_tcp_briefly() -> Outcome {
    shrinks("with ICMP", |net| net.set_path_mtu(1_340))
}

fn a_path_that_shrinks_silently_stalls_tcp_briefly() -> Outcome {
    shrinks("silently", |net| net.set_silent_mtu(1_340))
}

fn shrinks(how: &str, shrink: fn(&Routed) -> quell_lab::Result<()>) -> Outcome {
    for download in [true, false] {
        let mut world = World::new(1_500)?;
        world.until_mtu(1_390)?;
        let server = world
            .net
            .world
            .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
        let address = server.address();
        let gap = thread::scope(|scope| -> Result<Duration, Failed> {
            let net = &world.net;
            let transfer = scope.spawn(move || {
                net.client.run(|| {
                    if download {
                        http::download(address, TRANSFER_BYTES, PATIENCE)
                            .map(|done| (done.sha256, done.longest_gap))
                    } else {
                        http::upload(address, TRANSFER_BYTES, PATIENCE)
                            .map(|done| (done.sha256, done.longest_gap))
                    }
                })
            });
            thread::sleep(Duration::from_millis(150));
            shrink(net)?;
            let done = transfer
                .join()
                .map_err(|_| Failed::from("the transfer panicked"))???;
            assert_eq!(done.0, content::sha256(TRANSFER_BYTES));
            Ok(done.1)
        })?;
        let way = if download { "down" } else { "up" };
        println!("path shrinks {how}, {way}: longest stall {gap:?} (bound {STALL_MAX:?})");
        assert!(
            gap <= 3 * STALL_MAX,
            "path shrinks {how}, {way}: stalled {gap:?}"
        );
        world.finish()?;
    }
    Ok(())
}
