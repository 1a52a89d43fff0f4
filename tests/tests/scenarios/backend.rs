//! A client whose control plane dies and comes back: what `status` and `why` say, as the README shows them, and that the
//! tunnel does not care.
//!
//! What flows is compared with itself: one stream that fills a link of 50 Mbit/s and 10 ms which loses one packet in two
//! hundred, for half a minute each with the backend alive and dead. The link and not the machine is the bottleneck, so that
//! what else runs here is not what is measured; and there is something to repair all the time, because a dead backend would
//! show where repairs wait.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::http::Server;
use quell_lab::load::{TcpLoad, TcpSink};
use quell_lab::probe;
use quell_lab::relay::Relay;
use quell_lab::topology::WORLD_V4;
use quell_sim::link::LinkConfig;
use serde_json::Value;

use crate::commands::quell;
use crate::fixture::{Outcome, World, trials};
use crate::links::relayed_with;

trials![
    a_backend_that_dies_is_told_of_and_the_tunnel_goes_on,
    a_dead_backend_costs_what_flows_nothing,
];

/// 50 Mbit/s.
const LINK_BYTES_S: u64 = 6_250_000;
/// So many of the packets sent are lost, and at least half as many must show as repaired.
const LOSS: f64 = 0.005;
/// How long the stream takes to fill the link.
const SETTLE: Duration = Duration::from_secs(3);
const HALF: Duration = Duration::from_secs(30);
/// Goodput with a dead backend, of that with one that answers. It is within a few percent; less than this fails.
const KEPT_PERCENT_MIN: u64 = 70;
/// The longest that the control socket may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

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

/// Where the backend is: beside the client.
const BACKEND: ([u8; 4], u16) = ([127, 0, 0, 1], 8_080);

/// A tunnel over `link`, and its client's backend, which answers.
fn watched(link: LinkConfig) -> Result<(World, Relay, Server), Failed> {
    let at = SocketAddr::from(BACKEND);
    let mut backend = None;
    let (mut world, relay) = relayed_with(link, |net, plan| {
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
    Ok((world, relay, backend.ok_or("no backend")?))
}

fn until_degraded(world: &mut World) -> Result<Value, Failed> {
    Ok(world
        .client
        .until("degraded", |status| status["backend"]["degraded"] == true)?)
}

// R-14, case B30
fn a_backend_that_dies_is_told_of_and_the_tunnel_goes_on() -> Outcome {
    let (mut world, _relay, backend) = watched(LinkConfig::default())?;
    let server = world.plan.dial.to_string();
    let why = said(&world, &["why", &server])?;
    assert!(
        why.starts_with(&format!("nothing stands in the way of {server}")),
        "{why}"
    );

    drop(backend);
    let degraded = until_degraded(&mut world)?;
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

    let _backend = world
        .net
        .client
        .run(|| Server::start(SocketAddr::from(BACKEND)))??;
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

/// What [`HALF`] a minute came to.
#[derive(Debug)]
struct Half {
    bit_s: u64,
    first_sends: u64,
    evidence_resends: u64,
    silence_resends: u64,
    /// Bytes of copies on other paths.
    race_bytes: u64,
    answer_max: Duration,
}

/// Watches the stream for [`HALF`] a minute, in which the backend stays as it is.
fn half(world: &World, sink: &TcpSink, degraded: bool) -> Result<Half, Failed> {
    let (start, before) = (Instant::now(), world.client.status()?);
    let mut answer_max = Duration::ZERO;
    let after = loop {
        thread::sleep(Duration::from_millis(500));
        let asked = Instant::now();
        let status = world.client.status()?;
        answer_max = answer_max.max(asked.elapsed());
        assert_eq!(status["backend"]["degraded"], degraded, "{status}");
        if start.elapsed() >= HALF {
            break status;
        }
    };
    let (end, arrivals) = (Instant::now(), sink.arrivals());
    let bits = 8 * arrivals.bytes_between(start, end);
    let grown = |at: &str| {
        let count = |status: &Value| status.pointer(at).and_then(Value::as_u64);
        let (before, after) = (count(&before), count(&after));
        after.zip(before).map(|(after, before)| after - before)
    };
    let sends =
        |name: &str| grown(&format!("/exits/0/path/flow/send/{name}")).ok_or("no such counter");
    Ok(Half {
        bit_s: (bits as f64 / (end - start).as_secs_f64()) as u64,
        first_sends: sends("first_sends")?,
        evidence_resends: sends("evidence_resends")?,
        silence_resends: sends("silence_resends")?,
        race_bytes: grown("/udp/by_cause/race").ok_or("no such counter")?,
        answer_max,
    })
}

//
fn a_dead_backend_costs_what_flows_nothing() -> Outcome {
    let link = LinkConfig {
        delay: Duration::from_millis(5),
        loss: LOSS,
        rate_bytes_per_s: Some(LINK_BYTES_S),
        ..LinkConfig::default()
    };
    let (mut world, _relay, backend) = watched(link)?;
    let sink = world
        .net
        .world
        .run(|| TcpSink::start(SocketAddr::new(WORLD_V4, 0)))??;
    let address = sink.address();
    let load = world
        .net
        .client
        .run(|| TcpLoad::start(address, u64::MAX))??;
    thread::sleep(SETTLE);
    let alive = half(&world, &sink, false)?;
    drop(backend);
    until_degraded(&mut world)?;
    let dead = half(&world, &sink, true)?;
    let kept_percent = 100 * dead.bit_s / alive.bit_s.max(1);
    for (backend, half) in [("answers", &alive), ("is dead", &dead)] {
        println!(
            "backend {backend}: {} kbit/s; {} packs, {} resent on evidence, {} into silence; status within {:?}",
            half.bit_s / 1_000,
            half.first_sends,
            half.evidence_resends,
            half.silence_resends,
            half.answer_max,
        );
    }
    println!("{kept_percent} % of the goodput kept (at least {KEPT_PERCENT_MIN} %)");
    assert!(kept_percent >= KEPT_PERCENT_MIN, "{kept_percent} %");
    assert!(
        dead.silence_resends <= alive.silence_resends,
        "{alive:?}, {dead:?}"
    );
    assert_eq!(dead.race_bytes, 0);
    let repaired_min = (dead.first_sends as f64 * LOSS / 2.0) as u64;
    assert!(
        dead.evidence_resends >= repaired_min,
        "nothing was repaired: {dead:?}"
    );
    let answer_max = alive.answer_max.max(dead.answer_max);
    assert!(answer_max <= ANSWER_MAX, "{answer_max:?}");
    assert!(!load.is_broken());
    drop(load);
    world.finish()
}
