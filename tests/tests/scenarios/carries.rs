//! What real applications send arrives, in both families, behind the exit.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use quell_lab::content;
use quell_lab::http::{self, Server};
use quell_lab::probe::{self, DnsServer};
use quell_lab::topology::{WORLD_V4, WORLD_V6};

use crate::fixture::{Outcome, World, trials};

trials![
    ping_in_both_families,
    files_of_200_mb_come_and_go_with_the_right_hash,
    sixty_four_downloads_at_once,
    names_are_resolved_over_udp,
    udp_of_every_size_up_to_fragments,
    icmp_errors_come_back,
];

const FAMILIES: [IpAddr; 2] = [WORLD_V4, WORLD_V6];
const MB: u64 = 1_000_000;
/// Long enough for the slowest machine; a hang shows in the test's own bound.
const PATIENCE: Duration = Duration::from_secs(120);

fn ping_in_both_families() -> Outcome {
    ping(World::new(1_500)?)
}

fn files_of_200_mb_come_and_go_with_the_right_hash() -> Outcome {
    files(World::new(1_500)?)
}

fn sixty_four_downloads_at_once() -> Outcome {
    downloads(World::new(1_500)?)
}

fn names_are_resolved_over_udp() -> Outcome {
    names(World::new(1_500)?)
}

fn udp_of_every_size_up_to_fragments() -> Outcome {
    sizes_of_udp(World::new(1_500)?)
}

fn icmp_errors_come_back() -> Outcome {
    errors(World::new(1_500)?)
}

pub(crate) fn ping(world: World) -> Outcome {
    for target in FAMILIES {
        let report = world.net.client.run(|| {
            probe::ping(
                target,
                56,
                20,
                Duration::from_millis(5),
                Duration::from_secs(2),
            )
        })??;
        assert_eq!(report.lost(), 0, "{target}: {report:?}");
    }
    world.finish()
}

pub(crate) fn files(mut world: World) -> Outcome {
    world.until_mtu(1_390)?;
    for target in FAMILIES {
        let server = world
            .net
            .world
            .run(|| Server::start(SocketAddr::new(target, 0)))??;
        let down = world
            .net
            .client
            .run(|| http::download(server.address(), 200 * MB, PATIENCE))??;
        assert_eq!(down.sha256, content::sha256(200 * MB), "{target}");
        let up = world
            .net
            .client
            .run(|| http::upload(server.address(), 200 * MB, PATIENCE))??;
        assert_eq!(up.sha256, content::sha256(200 * MB), "{target}");
        let mbit = |elapsed: Duration| 200.0 * 8.0 / elapsed.as_secs_f64();
        println!(
            "{target}: {:.0} Mbit/s down, {:.0} Mbit/s up",
            mbit(down.elapsed),
            mbit(up.elapsed)
        );
    }
    world.finish()
}

pub(crate) fn downloads(world: World) -> Outcome {
    let server = world
        .net
        .world
        .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
    let address = server.address();
    let all = world.net.client.run(|| {
        thread::scope(|scope| {
            let one = |_| scope.spawn(move || http::download(address, MB, PATIENCE));
            let threads: Vec<_> = (0..64).map(one).collect();
            threads
                .into_iter()
                .map(|thread| thread.join())
                .collect::<Vec<_>>()
        })
    })?;
    let expected = content::sha256(MB);
    for done in all {
        let download = done.map_err(|_| Failed::from("a download panicked"))??;
        assert_eq!(download.sha256, expected);
    }
    world.finish()
}

pub(crate) fn names(world: World) -> Outcome {
    let record = Ipv4Addr::new(192, 0, 2, 7);
    for target in FAMILIES {
        let server = world
            .net
            .world
            .run(|| DnsServer::start(SocketAddr::new(target, 0), record))??;
        let found = world.net.client.run(|| {
            probe::dns_query(server.address(), "quell.example", Duration::from_secs(5))
        })??;
        assert_eq!(found, [record], "{target}");
    }
    world.finish()
}

pub(crate) fn sizes_of_udp(mut world: World) -> Outcome {
    world.until_mtu(1_390)?;
    for target in FAMILIES {
        let echo = world
            .net
            .world
            .run(|| probe::udp_echo_server(SocketAddr::new(target, 0)))??;
        let address = echo.address();
        world.net.client.run(|| -> Outcome {
            for len in sizes() {
                round_trip(address, len)?;
            }
            Ok(())
        })??;
    }
    world.finish()
}

fn sizes() -> impl Iterator<Item = usize> {
    let all = (1..=1_400).step_by(7);
    all.chain([1_232, 1_252, 1_280, 1_399, 1_400, 8_000])
}

/// The echo's host has wider links than the tunnel and sets DF: its first answer
/// above the tunnel's MTU is lost and teaches it the size, as on any such path.
/// That answer is asked for once more; a smaller one must come at once.
fn round_trip(server: SocketAddr, len: usize) -> Outcome {
    let whole_packet = len + if server.is_ipv4() { 28 } else { 48 };
    let may_teach = whole_packet > 1_390;
    let patience = Duration::from_secs(if may_teach { 1 } else { 5 });
    let first = probe::udp_round_trip(server, len, patience);
    if first.is_ok() {
        return Ok(());
    }
    if may_teach && probe::udp_round_trip(server, len, Duration::from_secs(5)).is_ok() {
        return Ok(());
    }
    Err(format!("{len} bytes: {first:?}").into())
}

pub(crate) fn errors(world: World) -> Outcome {
    for target in FAMILIES {
        let closed = SocketAddr::new(target, 9);
        world
            .net
            .client
            .run(|| probe::udp_refused(closed, Duration::from_secs(5)))??;
    }
    world.finish()
}
