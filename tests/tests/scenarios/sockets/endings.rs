//! How connections begin and end, as the application sees it through sockets of the provider.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::topology::WORLD_V4;
use socket2::SockRef;

use super::world_with;
use crate::fixture::{Outcome, World, trials, within};

trials![
    a_destination_that_refuses_is_refused_at_once,
    a_destination_that_is_silent_is_unreachable_in_the_end,
    each_side_may_end_its_half_first,
    a_reset_goes_through_both_ways,
    a_slow_reader_slows_its_sender_and_nobody_else,
];

/// An address of the world's that nobody has: what is sent there is lost in silence.
const NOBODY: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `serve` for one connection in the world, and `ask` with the address in the client's namespace.
fn between(
    world: &World,
    serve: impl FnOnce(TcpStream) -> std::io::Result<()> + Send + 'static,
    ask: impl FnOnce(TcpStream) -> Outcome + Send,
) -> Outcome {
    let listener = world
        .net
        .world
        .run(|| TcpListener::bind(SocketAddr::new(WORLD_V4, 0)))??;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || -> std::io::Result<()> {
        let (stream, _) = listener.accept()?;
        patient(&stream)?;
        serve(stream)
    });
    world.net.client.run(|| -> Outcome {
        let stream = TcpStream::connect(address)?;
        patient(&stream)?;
        ask(stream)
    })??;
    server.join().map_err(|_| "the server panicked")??;
    Ok(())
}

fn patient(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn a_destination_that_refuses_is_refused_at_once() -> Outcome {
    let world = world_with("")?;
    let closed = SocketAddr::new(WORLD_V4, 9);
    let (error, took) = world.net.client.run(|| {
        let asked = Instant::now();
        (TcpStream::connect(closed).err(), asked.elapsed())
    })?;
    assert_eq!(
        error.map(|error| error.kind()),
        Some(ErrorKind::ConnectionRefused)
    );
    println!("refused after {took:?}");
    assert!(took < 3 * Duration::from_millis(500), "{took:?}");
    world.finish()
}

fn a_destination_that_is_silent_is_unreachable_in_the_end() -> Outcome {
    let world = world_with("[egress.userspace]\ntcp_connect_timeout = \"2s\"\n")?;
    let silent = SocketAddr::new(NOBODY.into(), 80);
    let (error, took) = world.net.client.run(|| {
        let asked = Instant::now();
        (TcpStream::connect(silent).err(), asked.elapsed())
    })?;
    println!("{error:?} after {took:?}");
    let kind = error.map(|error| error.kind());
    assert_eq!(kind, Some(ErrorKind::HostUnreachable));
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert!(took < 3 * Duration::from_secs(3), "{took:?}");
    world.finish()
}

fn each_side_may_end_its_half_first() -> Outcome {
    let world = world_with("")?;
    // The client says all it has to say, and then hears for a while.
    between(
        &world,
        |mut stream| {
            let mut question = Vec::new();
            stream.read_to_end(&mut question)?;
            stream.write_all(&question.repeat(1_000))
        },
        |mut stream| {
            stream.write_all(&[7; 10_000])?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            assert!(answer == [7].repeat(10_000_000), "{} bytes", answer.len());
            Ok(())
        },
    )?;
    // The server does, and goes on to hear.
    between(
        &world,
        |mut stream| {
            stream.shutdown(Shutdown::Write)?;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard)?;
            assert_eq!(heard.len(), 10_000_000);
            Ok(())
        },
        |mut stream| {
            assert_eq!(
                stream.read(&mut [0; 1])?,
                0,
                "the server has nothing to say"
            );
            stream.write_all(&[9].repeat(10_000_000))?;
            Ok(())
        },
    )?;
    until_no_flow(&world)?;
    world.finish()
}

fn a_reset_goes_through_both_ways() -> Outcome {
    let world = world_with("")?;
    let reset = |stream: TcpStream| SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    between(
        &world,
        move |mut stream| {
            stream.read_exact(&mut [0; 5])?;
            reset(stream)
        },
        |mut stream| {
            stream.write_all(b"hello")?;
            let error = stream.read(&mut [0; 1]).map_err(|error| error.kind());
            assert_eq!(error, Err(ErrorKind::ConnectionReset));
            Ok(())
        },
    )?;
    between(
        &world,
        |mut stream| {
            stream.write_all(b"hello")?;
            let error = stream.read(&mut [0; 1]).map_err(|error| error.kind());
            assert_eq!(error, Err(ErrorKind::ConnectionReset));
            Ok(())
        },
        move |mut stream| {
            stream.read_exact(&mut [0; 5])?;
            Ok(reset(stream)?)
        },
    )?;
    until_no_flow(&world)?;
    world.finish()
}

/// What the kernels and the egress hold between a sender and a reader that does not read, in bytes: two host sockets'
/// buffers of up to 6 MiB each, the flow's own two, and the tunnel's.
const HELD_MAX: usize = 32 << 20;

fn a_slow_reader_slows_its_sender_and_nobody_else() -> Outcome {
    let world = world_with("")?;
    let listener = world
        .net
        .world
        .run(|| TcpListener::bind(SocketAddr::new(WORLD_V4, 0)))??;
    let address = listener.local_addr()?;
    // Sends for as long as it is taken; what was taken.
    let server = thread::spawn(move || -> std::io::Result<usize> {
        let (mut stream, _) = listener.accept()?;
        stream.set_write_timeout(Some(Duration::from_secs(3)))?;
        let mut sent = 0;
        while let Ok(written) = stream.write(&[1; 65_536]) {
            sent += written;
        }
        Ok(sent)
    });
    let slow = world.net.client.run(|| TcpStream::connect(address))??;
    let sent = server.join().map_err(|_| "the server panicked")??;
    println!("{sent} bytes were taken of a sender whose reader does not read");
    assert!((64 * 1024..HELD_MAX).contains(&sent), "{sent}");
    // Beside it all is as ever.
    between(
        &world,
        |mut stream| stream.write_all(&[3].repeat(20_000_000)),
        |mut stream| {
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard)?;
            assert_eq!(heard.len(), 20_000_000);
            Ok(())
        },
    )?;
    drop(slow);
    until_no_flow(&world)?;
    world.finish()
}

/// Waits until the provider holds no flow.
pub(super) fn until_no_flow(world: &World) -> Result<(), Failed> {
    let flows = || world.provider.status().ok()?["userspace"]["tcp_flows"].as_u64();
    within(Duration::from_secs(10), "all flows end", || {
        (flows()? == 0).then_some(())
    })
}
