//! A provider that is told to stop: it says so, carries on for a while, and ends.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::child::Signal;
use quell_lab::content;
use quell_lab::http::{self, Server};
use quell_lab::topology::WORLD_V4;
use quell_sim::link::LinkConfig;

use crate::fixture::{Outcome, World, has_iface, trials, within};
use crate::links::relayed_with;

trials![
    a_transfer_shorter_than_the_drain_ends_well,
    a_second_sigterm_ends_the_drain_at_once,
    a_full_path_does_not_hold_the_word_up,
];

const PATIENCE: Duration = Duration::from_secs(120);
const BYTES: u64 = 50_000_000;

/// A world whose provider drains for as long as the slowest machine takes.
fn draining() -> Result<World, Failed> {
    World::with(1_500, |_, plan| {
        plan.drain = PATIENCE;
        Ok(())
    })
}

fn a_transfer_shorter_than_the_drain_ends_well() -> Outcome {
    let mut world = draining()?;
    let server = world
        .net
        .world
        .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
    let address = server.address();
    let client = &world.net.client;
    let (provider, user) = (&mut world.provider, &mut world.client);
    let download = thread::scope(|scope| {
        let transfer = scope.spawn(move || client.run(|| http::download(address, BYTES, PATIENCE)));
        let delivered = |status: &serde_json::Value| status["delivered"].as_u64().unwrap_or(0);
        user.until("under way", |status| delivered(status) > 100)?;
        provider.child().signal(Signal::SIGTERM)?;
        let told = user.until("told to go", |status| {
            let reason = status["reason"].as_str().unwrap_or_default();
            reason.contains("closes within 120s")
        })?;
        assert_eq!(told["state"], "up");
        assert!(
            !transfer.is_finished(),
            "it was over before the provider stopped"
        );
        assert_eq!(provider.status()?["is_draining"], true);
        let done = transfer.join();
        done.map_err(|_| Failed::from("the download panicked"))
    })???;
    assert_eq!(download.sha256, content::sha256(BYTES));
    // When the last client has gone there is nothing to wait for.
    world.client.stop()?;
    let exit = within(Duration::from_secs(5), "the provider has ended", || {
        world.provider.child().try_wait().ok()?
    })?;
    assert!(exit.success(), "{exit}: {}", world.provider.log());
    assert!(!has_iface(&world.net.provider, "quell-exit"));
    Ok(())
}

fn a_second_sigterm_ends_the_drain_at_once() -> Outcome {
    let mut world = draining()?;
    world.provider.child().signal(Signal::SIGTERM)?;
    let provider = &mut world.provider;
    provider.until("draining", |status| status["is_draining"] == true)?;
    provider.stop()?;
    let reason = |status: &serde_json::Value| {
        let reason = status["reason"].as_str().unwrap_or_default();
        reason.contains("shutting_down")
    };
    world.client.until("told why", reason)?;
    world.client.stop()?;
    Ok(())
}

/// What is said on the control stream passes the packets that fill the path, though QUIC puts datagrams first: their
/// queue is short, and empties between two acknowledgements.
fn a_full_path_does_not_hold_the_word_up() -> Outcome {
    let link = LinkConfig {
        delay: Duration::from_millis(10),
        rate_bytes_per_s: Some(2_500_000),
        ..LinkConfig::default()
    };
    let (mut world, _relay) = relayed_with(link, |_, plan| {
        plan.drain = Duration::from_secs(5);
        Ok(())
    })?;
    let server = world
        .net
        .world
        .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
    let address = server.address();
    let client = &world.net.client;
    let (provider, user) = (&mut world.provider, &mut world.client);
    let told_after = thread::scope(|scope| {
        scope.spawn(move || client.run(|| http::download(address, BYTES, Duration::from_secs(12))));
        let delivered = |status: &serde_json::Value| status["delivered"].as_u64().unwrap_or(0);
        user.until("at full speed", |status| delivered(status) > 5_000)?;
        let start = Instant::now();
        provider.child().signal(Signal::SIGTERM)?;
        user.until("told to go", |status| {
            let reason = status["reason"].as_str().unwrap_or_default();
            reason.contains("closes within")
        })?;
        Ok::<_, Failed>(start.elapsed())
    })?;
    println!("told after {told_after:?}");
    assert!(
        told_after < 3 * Duration::from_millis(500),
        "{told_after:?}"
    );
    Ok(())
}
