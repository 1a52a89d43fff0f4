//! A client whose control plane dies and comes back: what `status` and `why` say, as the README shows them, and that the
//! tunnel does not care.

use std::net::SocketAddr;
use std::time::Duration;

use libtest_mimic::Failed;
use quell_lab::http::Server;
use quell_lab::probe;
use quell_lab::topology::WORLD_V4;

use crate::commands::quell;
use crate::fixture::{Outcome, World, trials};

trials![a_backend_that_dies_is_told_of_and_the_tunnel_goes_on];

/// What a verb prints about the running client.
fn said(world: &World, verb: &[&str]) -> Result<String, Failed> {
    let socket = world.folder.path().join("client.sock");
    let output = quell()?.args(verb).arg("--socket").arg(socket).output()?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(out),
        false => Err(format!("{out}{}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

fn pings_pass(world: &World) -> Outcome {
    let ping = || {
        probe::ping(
            WORLD_V4,
            56,
            5,
            Duration::from_millis(10),
            Duration::from_secs(3),
        )
    };
    assert_eq!(world.net.client.run(ping)??.lost(), 0);
    Ok(())
}

// R-14, case B30
fn a_backend_that_dies_is_told_of_and_the_tunnel_goes_on() -> Outcome {
    let at = SocketAddr::from(([127, 0, 0, 1], 8_080));
    let mut backend = None;
    let mut world = World::with(1_500, |net, plan| {
        backend = Some(net.client.run(|| Server::start(at))??);
        let program = plan.program.clone();
        plan.program = program.with("QUELL_BACKEND_URLS", &format!("http://{at}/"));
        plan.client_tun = "[backend]\ncheck_interval = \"5s\"\nprobe_interval_min = \"1s\"\n\
                           probe_interval_max = \"2s\"\n"
            .to_owned();
        Ok(())
    })?;
    world.client.until("well", |status| {
        status["backend"]["reason"] == "well: it answers"
    })?;
    let server = world.plan.dial.to_string();
    let why = said(&world, &["why", &server])?;
    assert!(
        why.starts_with(&format!("nothing stands in the way of {server}")),
        "{why}"
    );

    drop(backend.take());
    let degraded = world
        .client
        .until("degraded", |status| status["backend"]["degraded"] == true)?;
    assert_eq!(degraded["backend"]["backends"][0]["state"], "degraded");
    assert_eq!(degraded["state"], "up");
    for verb in [&["why", &server][..], &["status"]] {
        let out = said(&world, verb)?;
        let lines = out
            .lines()
            .filter(|line| line.trim_start().starts_with("backend "));
        let lines: Vec<_> = lines.collect();
        assert!(
            lines.len() == 1 && lines[0].contains("degraded: probe failed"),
            "{out}"
        );
    }
    pings_pass(&world)?;

    let _backend = world.net.client.run(|| Server::start(at))??;
    world.client.until("well again", |status| {
        status["backend"]["degraded"] == false
    })?;
    pings_pass(&world)?;
    let log = world.client.log();
    for line in ["the backend is degraded: ", "the backend answers again"] {
        assert_eq!(log.matches(line).count(), 1, "{log}");
    }
    world.finish()
}
