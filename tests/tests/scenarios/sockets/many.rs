//! Many connections at once, and what is left of them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::content;
use quell_lab::http::{self, Server, ServerConfig};
use quell_lab::topology::WORLD_V4;

use super::endings::until_no_flow;
use super::world_with;
use crate::fixture::{Outcome, World, limit_files, trials, within};

trials![
    a_thousand_connections_at_once_leave_nothing_behind,
    beyond_the_hosts_descriptors_flows_are_refused_and_the_rest_go_on,
];

const CONNECTIONS: usize = 1_000;
const BYTES: u64 = 50_000;
const PATIENCE: Duration = Duration::from_secs(120);
/// Of the client's and the server's threads, of which there are a thousand each.
const STACK_BYTES: usize = 128 * 1024;

fn a_thousand_connections_at_once_leave_nothing_behind() -> Outcome {
    let mut world = world_with("")?;
    let config = ServerConfig {
        connections_max: CONNECTIONS,
        ..ServerConfig::default()
    };
    let server = world
        .net
        .world
        .run(|| Server::with_config(SocketAddr::new(WORLD_V4, 0), config))??;
    let address = server.address();
    let pid = world.provider.child().id();
    // Once for the buffers that stay, and then it is measured.
    downloads(&world, address, 100)?;
    until_no_flow(&world)?;
    let before = (descriptors(pid)?, resident_bytes(pid)?);
    let began = Instant::now();
    downloads(&world, address, CONNECTIONS)?;
    let took = began.elapsed();
    until_no_flow(&world)?;
    // What asked for a status just now may not be closed yet.
    within(Duration::from_secs(5), "all descriptors are back", || {
        (descriptors(pid).ok()? <= before.0).then_some(())
    })?;
    let after = (descriptors(pid)?, resident_bytes(pid)?);
    println!(
        "{CONNECTIONS} downloads in {took:?}; descriptors {} and {}, resident {} and {} KiB",
        before.0,
        after.0,
        before.1 >> 10,
        after.1 >> 10
    );
    // The allocator keeps some of what it had: a few pages a flow would be 16 MiB.
    assert!(after.1 < before.1 + (16 << 20));
    world.finish()
}

fn downloads(world: &World, address: SocketAddr, count: usize) -> Outcome {
    let expected = content::sha256(BYTES);
    let all = world.net.client.run(|| {
        thread::scope(|scope| -> Vec<_> {
            let one = |_| {
                let work = move || http::download(address, BYTES, PATIENCE);
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, work)
            };
            let threads: Vec<_> = (0..count).map(one).collect();
            let joined = threads.into_iter().map(|thread| Some(thread.ok()?.join()));
            joined.collect()
        })
    })?;
    for done in all {
        let done = done.ok_or("no thread")?;
        let download = done.map_err(|_| Failed::from("a download panicked"))??;
        assert_eq!(download.sha256, expected);
    }
    Ok(())
}

// case B69
fn beyond_the_hosts_descriptors_flows_are_refused_and_the_rest_go_on() -> Outcome {
    let mut world = world_with("")?;
    let listener = world
        .net
        .world
        .run(|| TcpListener::bind(SocketAddr::new(WORLD_V4, 0)))??;
    let address = listener.local_addr()?;
    let echo = thread::spawn(move || -> std::io::Result<()> {
        // The first connection is an echo, the others are held.
        let (mut first, _) = listener.accept()?;
        let mut held = Vec::new();
        listener.set_nonblocking(true)?;
        let mut buffer = [0; 5];
        while first.read_exact(&mut buffer).is_ok() {
            while let Ok((stream, _)) = listener.accept() {
                held.push(stream);
            }
            first.write_all(&buffer)?;
        }
        Ok(())
    });
    let mut first = world.net.client.run(|| TcpStream::connect(address))??;
    first.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut answers = |what: &str| -> Outcome {
        first.write_all(b"hello")?;
        first
            .read_exact(&mut [0; 5])
            .map_err(|error| format!("{what}: {error}").into())
    };
    answers("at first")?;
    limit_files(world.provider.child().id(), 64)?;
    let (streams, refused) = world.net.client.run(|| {
        let all = (0..CONNECTIONS).map(|_| TcpStream::connect(address));
        let (streams, refused): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
        (streams, refused.len())
    })?;
    println!(
        "{} connections stand, {refused} were refused",
        streams.len()
    );
    assert!((1..=32).contains(&streams.len()), "{}", streams.len());
    assert_eq!(streams.len() + refused, CONNECTIONS);
    // Half of so tiny a limit is for everything else.
    let status = world.provider.status()?;
    assert!(
        status["userspace"]["tcp_flows"].as_u64() >= Some(streams.len() as u64),
        "{status}"
    );
    answers("while there are no descriptors")?;
    drop(streams);
    answers("afterwards")?;
    limit_files(world.provider.child().id(), 1_024)?;
    let status = world.provider.status()?;
    let dropped = status["userspace"]["drops"]["sockets_exhausted"].as_u64();
    assert!(dropped >= Some(refused as u64), "{status}");
    drop(first);
    echo.join().map_err(|_| "the echo panicked")??;
    until_no_flow(&world)?;
    world.finish()
}

/// Open files of a process.
fn descriptors(pid: u32) -> Result<usize, Failed> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Memory of a process that is in use, in bytes.
fn resident_bytes(pid: u32) -> Result<u64, Failed> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("no VmRSS")?.trim().parse::<u64>()? * 1024)
}
