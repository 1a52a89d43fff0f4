//! A system that refuses to send: no way there, a local filter, an interface that shrank.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::netns::Namespace;
use quell_lab::topology::WORLD_V4;
use quell_lab::{content, http, probe};
use quell_wire::registry::DEFAULT_PORT;
use serde_json::Value;

use crate::fixture::{Outcome, World, inner_mtu, trials};

trials![
    a_way_that_is_gone_for_a_while_costs_nothing_and_is_used_at_once,
    a_local_filter_is_an_outage_and_no_end,
    an_interface_that_shrinks_under_a_transfer_does_not_stop_it,
];

/// The longest wait for the first answer once the system sends again; a wall clock fails at 3 times it.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(1);

/// The router, as the client's gateway.
const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 254));

fn count(status: &Value, name: &str) -> u64 {
    status["udp"][name].as_u64().unwrap_or(0)
}

fn answered(world: &World, patience: Duration) -> Result<bool, Failed> {
    let ping = || probe::ping(WORLD_V4, 56, 1, Duration::from_millis(1), patience);
    Ok(world.net.client.run(ping)??.lost() == 0)
}

fn nft(namespace: &Namespace, commands: &str) -> Outcome {
    let output = namespace.run(|| Command::new("nft").arg(commands).output())??;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
}

/// Pings for four seconds while the system refuses as `refuse` makes it, then until one is answered after `allow`.
fn refused_for_a_while(
    name: &str,
    counter: &str,
    refuse: impl Fn(&World) -> Outcome,
    allow: impl Fn(&World) -> Outcome,
) -> Outcome {
    let world = World::new(1_500)?;
    assert!(answered(&world, Duration::from_secs(5))?);
    refuse(&world)?;
    let before = world.client.status()?;
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        let answer = answered(&world, Duration::from_millis(50));
        assert!(!matches!(answer, Ok(true)), "{name}: nothing is refused");
    }
    let after = world.client.status()?;
    allow(&world)?;
    let allowed = Instant::now();
    while !answered(&world, Duration::from_millis(20))? {
        assert!(
            allowed.elapsed() < 20 * FIRST_ANSWER_MAX,
            "{name}: never again"
        );
        thread::sleep(Duration::from_millis(5));
    }
    let first = allowed.elapsed();
    let grown = |name| count(&after, name) - count(&before, name);
    println!(
        "{name}: first answer {first:?} after the system sends again (bound {FIRST_ANSWER_MAX:?}); {} refusals, \
         {} datagrams lost, {} bytes out meanwhile",
        grown(counter),
        grown("lost_out"),
        grown("bytes_out"),
    );
    assert!(first <= 3 * FIRST_ANSWER_MAX, "{first:?}");
    assert!(grown(counter) > 0, "{after}");
    assert_eq!(grown("bytes_out"), 0, "{after}");
    // A silent path is asked every 600 ms at the most, however the silence came about.
    assert!(grown("lost_out") <= 40, "{after}");
    let status = world.client.status()?;
    assert_eq!(
        (&status["dials"], &status["sessions"]),
        (&1.into(), &1.into())
    );
    world.finish()
}

fn a_way_that_is_gone_for_a_while_costs_nothing_and_is_used_at_once() -> Outcome {
    refused_for_a_while(
        "no route",
        "refused_unreachable",
        |world| Ok(world.net.client_iface.down()?),
        |world| {
            world.net.client_iface.up()?;
            world
                .net
                .client_iface
                .wait_for_carrier(Duration::from_secs(5))?;
            Ok(world.net.client.default_route(GATEWAY)?)
        },
    )
}

fn a_local_filter_is_an_outage_and_no_end() -> Outcome {
    refused_for_a_while(
        "filter",
        "refused_other",
        |world| {
            let rule = format!("oifname lab0 udp dport {DEFAULT_PORT} drop;");
            let chain = "type filter hook output priority 0;";
            let table = format!("table inet deny {{ chain out {{ {chain} {rule} }}; }}");
            nft(&world.net.client, &table)
        },
        |world| nft(&world.net.client, "delete table inet deny"),
    )
}

fn an_interface_that_shrinks_under_a_transfer_does_not_stop_it() -> Outcome {
    let mut world = World::new(1_500)?;
    world.until_mtu(1_390)?;
    let server = world
        .net
        .world
        .run(|| http::Server::start(SocketAddr::new(WORLD_V4, 0)))??;
    let address = server.address();
    let bytes = 60_000_000;
    let iface = world.net.client_iface.clone();
    let shrinking = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        iface.set_mtu(1_340)
    });
    let upload = || http::upload(address, bytes, Duration::from_secs(100));
    let sent = world.net.client.run(upload)??;
    shrinking.join().map_err(|_| "the shrinking panicked")??;
    assert_eq!(sent.sha256, content::sha256(bytes));
    let status = world.client.status()?;
    println!(
        "60 MB up while the interface shrinks to 1,340: {:?}, {} datagrams refused as too large, packets of {} now",
        sent.elapsed,
        count(&status, "refused_too_large"),
        inner_mtu(&status),
    );
    assert!(count(&status, "refused_too_large") > 0, "{status}");
    assert!(inner_mtu(&status) < 1_340, "{status}");
    assert_eq!(status["sessions"], 1, "{status}");
    world.finish()
}
