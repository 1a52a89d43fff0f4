//! Ends that die without a word, and what they leave behind: nothing.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::netns::Namespace;
use quell_lab::probe;
use quell_lab::topology::WORLD_V4;
use serde_json::Value;

use crate::fixture::{Outcome, World, has_iface, limit_files, trials, within};

trials![
    a_killed_provider_restarts_and_the_client_returns_by_itself,
    a_second_provider_is_refused_and_disturbs_nothing,
    a_killed_client_restarts_at_once_with_its_address,
    a_killed_clients_session_ends_by_itself,
    nothing_is_left_after_a_good_end,
    the_client_survives_a_provider_that_stops,
    a_provider_whose_interface_vanishes_ends_and_says_why,
    a_provider_without_file_descriptors_serves_on,
    a_thousand_flows_take_no_file_descriptors,
];

const TUN: &str = "quell-exit";

fn pings(world: &World) -> bool {
    let ping = || {
        probe::ping(
            WORLD_V4,
            56,
            1,
            Duration::from_millis(1),
            Duration::from_secs(1),
        )
    };
    matches!(world.net.client.run(ping), Ok(Ok(report)) if report.lost() == 0)
}

fn ruleset(namespace: &Namespace) -> Result<String, Failed> {
    let output = namespace.run(|| Command::new("nft").args(["list", "ruleset"]).output())??;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn forwarding(namespace: &Namespace) -> Result<String, Failed> {
    Ok(quell_lab::netns::sysctl_value(
        namespace,
        "net.ipv4.ip_forward",
    )?)
}

fn a_killed_provider_restarts_and_the_client_returns_by_itself() -> Outcome {
    let mut world = World::new(1_500)?;
    let before = world.client_address("ipv4")?;
    world.provider.kill()?;
    assert!(
        !has_iface(&world.net.provider, TUN),
        "the TUN dies with its process"
    );
    world.provider = world.plan.provide(&world.net.provider)?;
    world.provider.until_ready()?;
    // The restarted provider answers the client's next packet with a stateless
    // reset, which frees the client to dial again within a second.
    let start = Instant::now();
    within(Duration::from_secs(12), "the client is back", || {
        pings(&world).then_some(())
    })?;
    println!("back {:?} after the provider's restart", start.elapsed());
    assert_eq!(world.client_address("ipv4")?, before);
    world.provider.stop()?;
    assert_eq!(ruleset(&world.net.provider)?, "");
    assert_eq!(
        forwarding(&world.net.provider)?,
        "0",
        "what the dead one changed is put back, too"
    );
    Ok(())
}

fn a_second_provider_is_refused_and_disturbs_nothing() -> Outcome {
    let world = World::new(1_500)?;
    let mut second = world.plan.provide(&world.net.provider)?;
    let log = second.until_refused()?;
    println!("{}", log.lines().last().unwrap_or_default());
    assert!(pings(&world));
    world.finish()
}

fn a_killed_client_restarts_at_once_with_its_address() -> Outcome {
    let mut world = World::new(1_500)?;
    let before = world.client_address("ipv4")?;
    world.client.kill()?;
    world.client = world.plan.up(&world.net.client)?;
    let start = Instant::now();
    world.client.until_up()?;
    println!("up {:?} after the start", start.elapsed());
    assert_eq!(world.client_address("ipv4")?, before);
    assert!(pings(&world));
    let sessions = |status: &Value| status["sessions"].as_array().map_or(0, Vec::len);
    world
        .provider
        .until("one session", |status| sessions(status) == 1)?;
    world.finish()
}

fn a_killed_clients_session_ends_by_itself() -> Outcome {
    let World {
        mut client,
        mut provider,
        net,
        folder,
        ..
    } = World::new(1_500)?;
    client.kill()?;
    assert!(
        !has_iface(&net.client, "quell0"),
        "the TUN dies with its process"
    );
    // QUIC's idle timeout is 75 s; nothing tells the provider sooner.
    let gone = || {
        provider
            .status()
            .ok()
            .filter(|status| status["sessions"].as_array().is_some_and(Vec::is_empty))
    };
    within(Duration::from_secs(3 * 75), "the session is gone", gone)?;
    provider.stop()?;
    drop(folder);
    Ok(())
}

fn nothing_is_left_after_a_good_end() -> Outcome {
    let world = World::new(1_500)?;
    let provider = &world.net.provider;
    assert!(has_iface(provider, TUN) && ruleset(provider)?.contains("masquerade"));
    assert_eq!(forwarding(provider)?, "1");
    let World {
        mut client,
        mut provider,
        net,
        folder,
        ..
    } = world;
    client.stop()?;
    provider.stop()?;
    assert!(!has_iface(&net.provider, TUN) && !has_iface(&net.client, "quell0"));
    assert_eq!(ruleset(&net.provider)?, "");
    assert_eq!(forwarding(&net.provider)?, "0");
    let left: Vec<_> = std::fs::read_dir(folder.path())?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    assert!(!left.iter().any(|name| name.ends_with(".sock")), "{left:?}");
    Ok(())
}

fn the_client_survives_a_provider_that_stops() -> Outcome {
    let mut world = World::new(1_500)?;
    world.provider.stop()?;
    world
        .client
        .until("waiting", |status| status["state"] != "up")?;
    assert!(
        has_iface(&world.net.client, "quell0"),
        "the client's TUN stays"
    );
    assert!(
        world.client.log().contains("shutting_down"),
        "{}",
        world.client.log()
    );
    world.provider = world.plan.provide(&world.net.provider)?;
    world.provider.until_ready()?;
    let back = || probe::udp_refused(SocketAddr::new(WORLD_V4, 9), Duration::from_millis(500));
    within(Duration::from_secs(20), "the client is back", || {
        world.net.client.run(back).ok()?.ok()
    })?;
    world.finish()
}

fn a_provider_whose_interface_vanishes_ends_and_says_why() -> Outcome {
    let mut world = World::new(1_500)?;
    world.net.provider.iface(TUN)?.delete()?;
    let exit = world.provider.child().wait(Duration::from_secs(10))?;
    let log = world.provider.log();
    println!("{exit}: {}", log.lines().last().unwrap_or_default());
    assert_eq!(exit.code(), Some(1), "{log}");
    let last = log.lines().last().unwrap_or_default();
    let said = "error: the TUN failed: the TUN device is gone: the interface was deleted: ";
    assert!(last.starts_with(said), "{log}");
    assert_eq!(last.matches("deleted").count(), 1, "said once: {last}");
    // Nothing of it is left behind, and the client knows that it is over.
    assert_eq!(ruleset(&world.net.provider)?, "");
    assert_eq!(forwarding(&world.net.provider)?, "0");
    world
        .client
        .until("down", |status| status["state"] != "up")?;
    world.client.stop()?;
    Ok(())
}

fn a_provider_without_file_descriptors_serves_on() -> Outcome {
    let mut world = World::new(1_500)?;
    let pid = world.provider.child().id();
    // The number that the next file would get: from there on there are none.
    let is_open = |fd: &usize| std::fs::symlink_metadata(format!("/proc/{pid}/fd/{fd}")).is_ok();
    let next = (0..).find(|fd| !is_open(fd)).unwrap_or_default();
    limit_files(pid, next)?;
    assert!(
        world.provider.status().is_err(),
        "EMFILE: nobody is accepted"
    );
    // A client needs none: it lives on, and another connection of its is taken.
    assert!(pings(&world));
    world.client.kill()?;
    world.client = world.plan.up(&world.net.client)?;
    world.client.until_up()?;
    assert!(pings(&world));
    limit_files(pid, 1_024)?;
    let answers = || world.provider.status().ok();
    within(Duration::from_secs(5), "questions are answered", answers)?;
    assert!(world.provider.log().contains("accept failed"));
    world.finish()
}

/// How many sockets a user has that sends from as many ports.
const USER_SOCKETS: usize = 1_000;

// case B69
fn a_thousand_flows_take_no_file_descriptors() -> Outcome {
    let mut world = World::new(1_500)?;
    for end in [&mut world.client, &mut world.provider] {
        limit_files(end.child().id(), 64)?;
    }
    let echo = world
        .net
        .world
        .run(|| probe::udp_echo_server(SocketAddr::new(WORLD_V4, 0)))??;
    let address = echo.address();
    let answered = world.net.client.run(|| -> std::io::Result<usize> {
        let sockets: Vec<_> = (0..USER_SOCKETS)
            .map(|_| UdpSocket::bind("0.0.0.0:0"))
            .collect::<std::io::Result<_>>()?;
        for socket in &sockets {
            socket.connect(address)?;
            socket.set_nonblocking(true)?;
            socket.send(b"hello")?;
            // The TUN holds half of them at once.
            thread::sleep(Duration::from_micros(300));
        }
        thread::sleep(Duration::from_secs(2));
        let answered = |socket: &UdpSocket| socket.recv(&mut [0; 16]).is_ok();
        Ok(sockets.iter().filter(|socket| answered(socket)).count())
    })??;
    let flows = world.client.status()?["flows"]["flows"].as_u64();
    println!("{answered} of {USER_SOCKETS} answered, {flows:?} flows");
    assert!(answered * 10 >= USER_SOCKETS * 9, "{answered}");
    assert!(flows >= Some(USER_SOCKETS as u64), "{flows:?}");
    for end in [&mut world.client, &mut world.provider] {
        let asked = Instant::now();
        end.stop()?;
        let took = asked.elapsed();
        println!("ended in {took:?}");
        assert!(took < 3 * Duration::from_secs(2), "{took:?}");
    }
    Ok(())
}
