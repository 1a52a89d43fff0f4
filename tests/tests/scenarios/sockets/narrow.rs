//! A narrow way to the client: what sockets send through it, beside what the kernel sends.
//!
//! 20 Mbit/s with a queue of 50 ms. A download overfills it again and again, and loses several segments each time.

use std::net::SocketAddr;
use std::time::Duration;

use libtest_mimic::Failed;
use quell_lab::http::{self, Download, Server};
use quell_lab::topology::WORLD_V4;

use crate::fixture::{Outcome, World, trials};

trials![losses_on_a_narrow_link_cost_no_standstill];

const LINK_BYTES_S: u32 = 2_500_000;
const QUEUE_BYTES: u32 = LINK_BYTES_S / 20;
const BYTES: u64 = 10_000_000;
/// The longest time without a byte. smoltcp's own timer alone makes it more than a second.
const GAP_MAX: Duration = Duration::from_millis(300);

fn losses_on_a_narrow_link_cost_no_standstill() -> Outcome {
    let [kernel, sockets] = ["tun", "userspace"].map(download);
    let (kernel, sockets) = (kernel?, sockets?);
    let mbit = |download: &Download| BYTES as f64 * 8e-6 / download.elapsed.as_secs_f64();
    let (gap, ratio) = (sockets.longest_gap, mbit(&sockets) / mbit(&kernel));
    println!(
        "sockets {:.1} Mbit/s, the kernel {:.1}: {ratio:.2}; longest gaps {gap:?} and {:?}",
        mbit(&sockets),
        mbit(&kernel),
        kernel.longest_gap
    );
    assert!(gap < 3 * GAP_MAX, "{gap:?}");
    Ok(())
}

fn download(kind: &str) -> Result<Download, Failed> {
    let world = World::with(1_500, |net, plan| {
        plan.egress_kind = kind.to_owned();
        Ok(net.router_left.set_bottleneck(LINK_BYTES_S, QUEUE_BYTES)?)
    })?;
    let server = world
        .net
        .world
        .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
    let address = server.address();
    let fetch = || http::download(address, BYTES, Duration::from_secs(60));
    let download = world.net.client.run(fetch)??;
    world.finish()?;
    Ok(download)
}
