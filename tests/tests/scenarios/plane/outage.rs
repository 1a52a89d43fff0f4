//! The backend is gone: before anybody enrolled, while bytes flow, while receipts are filed, and when others start.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::child::Signal;
use quell_lab::load::{TcpLoad, TcpLoadConfig, TcpSink};
use serde_json::Value;

use super::books::{durable, signed};
use super::is_long;
use super::stage::{BACKEND, Cast, READY, SOCKS, Stage, address, is_up, texts};
use crate::fixture::{Outcome, trials, within};

trials![
    a_backend_that_is_not_there_is_said_and_nothing_is_half_done,
    what_flows_goes_on_without_the_backend,
    a_backend_that_dies_while_receipts_are_filed_has_them_once,
    client_and_provider_start_without_the_backend,
];

/// An outage, and the long form of it.
const OUTAGE: Duration = Duration::from_secs(30);
const OUTAGE_LONG: Duration = Duration::from_secs(120);
/// A stream that takes a contract of 1 MiB each second or two.
const RATE_BIT_S: u64 = 4_000_000;
/// Questions that an outage may cost: three until it is known as one, then one in 5 s at least.
const KNOWN_AFTER: u64 = 3;
const POLL_MIN: Duration = Duration::from_secs(5);
/// What may be on its way: carried and not signed for, or signed for and not durable (DESIGN §7).
const EXPOSURE_BYTES: u64 = 1 << 20;
/// The longest that a stream may stand still on a busy machine.
const GAP_MAX: Duration = Duration::from_secs(5);

fn outage() -> Duration {
    if is_long() { OUTAGE_LONG } else { OUTAGE }
}

fn a_backend_that_is_not_there_is_said_and_nothing_is_half_done() -> Outcome {
    let stage = Stage::new()?;
    let backend = stage.backend()?;
    let invitations = [stage.invite("provider", &[])?, stage.invite("client", &[])?];
    backend.kill()?;
    let commands = [
        stage.enrol_provider(&invitations[0]),
        stage.enrol_client(&invitations[1]),
    ];
    for (command, file) in commands.iter().zip(["provider", "client"]) {
        let asked = Instant::now();
        let failed = stage.run(command)?;
        let (out, err) = texts(&failed);
        println!("{:?}: {}", asked.elapsed(), err.trim());
        assert_eq!(failed.status.code(), Some(1), "{out}{err}");
        assert!(out.is_empty(), "{out}");
        assert!(
            err.contains("unreachable") || err.contains("refused"),
            "{err}"
        );
        assert!(!stage.path(&format!("{file}/{file}.toml")).exists());
        assert!(stage.path(&format!("{file}/quell.key")).exists());
    }
    let keys =
        ["provider", "client"].map(|name| fs::read(stage.path(&format!("{name}/quell.key"))));
    let failed = stage.run(&["invite".as_ref(), stage.backend_file().as_os_str()])?;
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    // The same commands work once it is back, with the keys that were made before.
    let backend = stage.backend()?;
    for command in &commands {
        stage.said(command)?;
    }
    for (name, before) in ["provider", "client"].iter().zip(keys) {
        assert_eq!(fs::read(stage.path(&format!("{name}/quell.key")))?, before?);
    }
    let provider = stage.provide()?;
    let mut client = stage.up()?;
    client.until("up", READY, is_up)?;
    stage.fetch(1 << 20, READY)?;
    client.stop()?;
    provider.stop()?;
    backend.stop()
}

fn requests(status: &Value) -> u64 {
    status["contracts"]["requests"].as_u64().unwrap_or(0)
}

/// A stream through the proxy, at a rate.
fn stream(stage: &Stage, sink: SocketAddr) -> Result<TcpLoad, Failed> {
    let config = TcpLoadConfig {
        bit_s: RATE_BIT_S,
        proxy: Some(address(SOCKS)),
        ..TcpLoadConfig::default()
    };
    Ok(stage.net.run(|| TcpLoad::with_config(sink, config))??)
}

// case B30
fn what_flows_goes_on_without_the_backend() -> Outcome {
    let stage = Stage::new()?;
    // Half of a contract is spent in the outage: then the next one is asked for, and again, and again.
    let contract = if is_long() { "96MiB" } else { "48MiB" };
    let tables = format!("\n[contracts]\ncontract_bytes_max = {contract:?}\n");
    stage.configure_backend(&tables, None)?;
    let Cast {
        mut client,
        provider,
        backend,
    } = stage.cast()?;
    let sink = stage
        .net
        .run(|| TcpSink::start(SocketAddr::from(([127, 99, 88, 77], 0))))??;
    let load = stream(&stage, sink.address())?;
    thread::sleep(Duration::from_secs(3));
    stage.fetch(12 << 20, READY)?;
    let before = client.status().ok_or("no status")?;
    let (began, outage) = (Instant::now(), outage());
    backend.kill()?;
    let mut new_flows = 0;
    while began.elapsed() < outage {
        thread::sleep(Duration::from_secs(2));
        stage.fetch(100_000, GAP_MAX)?;
        new_flows += 1;
    }
    let ended = Instant::now();
    let during = client.status().ok_or("no status")?;
    let asked = requests(&during) - requests(&before);
    let asked_max = KNOWN_AFTER + outage.as_secs() / POLL_MIN.as_secs();
    let gap = sink.arrivals().gap_max_between(began, ended);
    let bytes = sink.arrivals().bytes_between(began, ended);
    println!(
        "{:?} without the backend: {bytes} bytes, longest gap {gap:?}, {new_flows} new flows, {asked} contract requests \
         (at most {asked_max}); {}",
        ended - began,
        during["contracts"]["survives"]
    );
    assert!(!load.is_broken());
    assert!(gap <= GAP_MAX, "{gap:?}");
    let wanted = RATE_BIT_S / 8 * (ended - began).as_secs();
    assert!(bytes * 10 >= wanted * 8, "{bytes} of {wanted}");
    assert!((1..=asked_max).contains(&asked), "{asked}");
    assert_eq!(during["state"], "up");
    assert_eq!(during["backend"]["degraded"], true, "{}", during["backend"]);

    let backend = stage.backend()?;
    client.until("well again", Duration::from_secs(60), |status| {
        status["backend"]["degraded"] == false
    })?;
    drop(load);
    the_sums_are_right(&stage, client, provider)?;
    backend.stop()
}

/// What the client signed is filed once, but for what was on its way.
fn the_sums_are_right(
    stage: &Stage,
    client: super::stage::Running,
    provider: super::stage::Running,
) -> Outcome {
    client.stop()?;
    let signed: u64 = signed(&stage.path("client"))?.values().sum();
    let near = |[_, of_client]: [u64; 2]| of_client + EXPOSURE_BYTES >= signed;
    let settled = stage
        .until_settled(Duration::from_secs(60), near)
        .map_err(|_| Failed::from(format!("{signed} signed\n{}", provider.log())))?;
    provider.stop()?;
    let durable: u64 = durable(&stage.path("provider"))?.values().sum();
    println!("signed {signed}, durable {durable}, settled {settled:?}");
    assert_eq!(settled[0], settled[1]);
    assert!(settled[1] <= durable && durable <= signed);
    Ok(())
}

fn a_backend_that_dies_while_receipts_are_filed_has_them_once() -> Outcome {
    let stage = Stage::new()?;
    let Cast {
        client,
        provider,
        mut backend,
    } = stage.cast()?;
    // It stands still with whatever it was asked: each question in flight is one that may have been served.
    for round in 0..3 {
        stage.fetch(3 << 20, READY)?;
        backend.signal(Signal::SIGSTOP)?;
        let unanswered = || provider.log().matches("receipts are not filed").count() > round;
        let filing = within(Duration::from_secs(40), "a filing is in flight", || {
            unanswered().then_some(())
        });
        filing.map_err(|_| Failed::from(format!("round {round}: {}", provider.log())))?;
        stage.fetch(1 << 20, READY)?;
        backend.kill()?;
        backend = stage.backend()?;
        println!("round {round}: settled {:?}", stage.settled()?);
    }
    the_sums_are_right(&stage, client, provider)?;
    backend.stop()
}

fn client_and_provider_start_without_the_backend() -> Outcome {
    let stage = Stage::new()?;
    let cast = stage.cast()?;
    stage.fetch(2 << 20, READY)?;
    stage.until_settled(READY, |[bytes, _]| bytes > 2 << 20)?;
    cast.client.stop()?;
    cast.provider.stop()?;
    cast.backend.kill()?;
    // A start in order after an end in order; then one after two deaths.
    let began = Instant::now();
    let provider = stage.provide()?;
    let mut client = stage.up()?;
    let status = client.until("up", READY, is_up)?;
    println!(
        "up {:?} after a cold start; {}",
        began.elapsed(),
        status["contracts"]
    );
    stage.fetch(1 << 20, READY)?;
    client.kill()?;
    provider.kill()?;
    let began = Instant::now();
    let provider = stage.provide()?;
    let mut client = stage.up()?;
    client.until("up", READY, is_up)?;
    stage.until_fetched(1 << 20)?;
    println!("and {:?} after two deaths", began.elapsed());
    let backend = stage.backend()?;
    let degraded = |status: &Value| status["backend"]["degraded"] == false;
    client.until("well", Duration::from_secs(60), degraded)?;
    assert!(address(BACKEND).port() > 0);
    let before = stage.settled()?;
    stage.fetch(1 << 20, READY)?;
    let more = |now: [u64; 2]| now[1] > before[1] + (1 << 20);
    let after = stage.until_settled(Duration::from_secs(60), more)?;
    println!("settled {before:?}, then {after:?}");
    client.stop()?;
    provider.stop()?;
    backend.stop()
}
