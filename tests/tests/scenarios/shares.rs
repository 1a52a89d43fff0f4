//! Ten clients of one provider: who opens twenty connections gets no more of the egress than who opens one.
//!
//! The provider's own rate is the bottleneck, and its egress sockets: without turns between clients the twenty connections
//! of one would have two thirds of it. All ten are proxies, whose programs are curl; what each got is read at the provider,
//! behind all buffers of the clients.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_cli::stage::{CLIENT, End};
use quell_lab::http::Server;
use quell_lab::topology::WORLD_V4;
use quell_net::identity::Identity;
use serde_json::Value;

use crate::fixture::{Outcome, World, trials};

trials![
    one_noisy_client_takes_no_more_than_its_share_of_what_comes,
    one_noisy_client_takes_no_more_than_its_share_of_what_goes,
];

const CLIENTS: usize = 10;
/// Connections of the noisy one, the first.
const NOISY: usize = 20;
const SETTLE: Duration = Duration::from_secs(3);
const MEASURE: Duration = Duration::from_secs(8);
/// How long the provider may take to say what it does when load and clients have just gone.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Jain's index, ten equals having 1 and one alone 0.1.
const INDEX_MIN: f64 = 0.95;

fn one_noisy_client_takes_no_more_than_its_share_of_what_comes() -> Outcome {
    let given = |session: &Value| {
        let counters = &session["path"]["counters"];
        Some(counters["laned_bytes"].as_u64()? + counters["sent_bytes"].as_u64()?)
    };
    shared(given, |proxy, server| {
        let mut command = curl(proxy);
        command.arg(format!("http://{server}/bytes/{}", 1_u64 << 32));
        command
    })
}

fn one_noisy_client_takes_no_more_than_its_share_of_what_goes() -> Outcome {
    let delivered = |session: &Value| session["delivered_bytes"].as_u64();
    shared(delivered, |proxy, server| {
        let mut command = curl(proxy);
        let length = format!("Content-Length: {}", 1_u64 << 32);
        command
            .args(["-T", "/dev/zero", "-H", &length, "-H", "Transfer-Encoding:"])
            .arg(format!("http://{server}/upload"));
        command
    })
}

fn curl(proxy: &str) -> Command {
    let mut command = Command::new("curl");
    let proxy = format!("socks5h://{proxy}");
    command
        .args(["-sS", "--max-time", "60", "-o", "/dev/null", "-x", &proxy])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Programs that end with the scenario, however it does.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn shared(
    bytes: impl Fn(&Value) -> Option<u64>,
    program: impl Fn(&str, SocketAddr) -> Command + Sync,
) -> Outcome {
    let mut world = world()?;
    let server = world
        .net
        .world
        .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
    let mut others = others(&world)?;
    let mut proxies = vec![proxy_of(&mut world.client)?];
    for other in &mut others {
        proxies.push(proxy_of(other)?);
    }
    let mut running = Running(Vec::new());
    for (index, proxy) in proxies.iter().enumerate() {
        let connections = if index == 0 { NOISY } else { 1 };
        for _ in 0..connections {
            let start = || program(proxy, server.address()).spawn();
            running.0.push(world.net.client.run(start)??);
        }
    }
    thread::sleep(SETTLE);
    let before = by_client(&world, &bytes)?;
    thread::sleep(MEASURE);
    let after = by_client(&world, &bytes)?;
    drop(running);
    let got: Vec<u64> = before
        .iter()
        .zip(&after)
        .map(|((_, before), (_, after))| after - before)
        .collect();
    let index = jain(&got);
    println!("bytes in {MEASURE:?}: {got:?}, index {index:.3}");
    assert_eq!(got.len(), CLIENTS);
    assert!(index >= INDEX_MIN, "{index}: {got:?}");
    for mut other in others {
        other.stop()?;
    }
    let asked = Instant::now();
    world.provider.until("asked", |_| true)?;
    let took = asked.elapsed();
    println!("status after the clients within {took:?}");
    assert!(took < 3 * ANSWER_TIME, "{took:?}");
    world.finish()
}

fn world() -> Result<World, Failed> {
    World::with(1_500, |_, plan| {
        plan.egress_kind = "userspace".to_owned();
        plan.provider_egress = "rate = \"20Mbit/s\"\n".to_owned();
        plan.routes.clear();
        plan.client_tables = "[proxy]\nsocks5 = \"127.0.0.1:0\"\n".to_owned();
        for number in 1..CLIENTS {
            let identity = Identity::generate()?;
            plan.more_clients
                .push((format!("client{number}"), identity));
        }
        Ok(())
    })
}

fn others(world: &World) -> Result<Vec<End>, Failed> {
    let (plan, client) = (&world.plan, &world.net.client);
    let start = |(name, _): &(String, Identity)| -> Result<End, Failed> {
        assert_ne!(name, CLIENT);
        Ok(End::start(&plan.program, client, "up", name, &plan.folder)?)
    };
    plan.more_clients.iter().map(start).collect()
}

/// Where the client's proxy listens, once its session is up.
fn proxy_of(client: &mut End) -> Result<String, Failed> {
    let status = client.until_up()?;
    let address = status["proxy"]["listening"]["socks5"].as_str();
    Ok(address.ok_or("no proxy")?.to_owned())
}

/// What each client has had so far, in the order of their names.
fn by_client(
    world: &World,
    bytes: impl Fn(&Value) -> Option<u64>,
) -> Result<Vec<(String, u64)>, Failed> {
    let status = world.provider.status()?;
    let sessions = status["sessions"].as_array().ok_or("no sessions")?;
    let one = |session: &Value| {
        let name = session["client"].as_str()?.to_owned();
        Some((name, bytes(session)?))
    };
    let mut all: Vec<_> = sessions.iter().filter_map(one).collect();
    all.sort();
    Ok(all)
}

/// (Σx)² / (n·Σx²).
fn jain(got: &[u64]) -> f64 {
    let sum: f64 = got.iter().map(|&x| x as f64).sum();
    let squares: f64 = got.iter().map(|&x| (x as f64).powi(2)).sum();
    sum * sum / (got.len() as f64 * squares)
}
