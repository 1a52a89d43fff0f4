//! A path that is cut and comes back, under real QUIC: what is sent meanwhile, and how soon it is used again.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::probe;
use quell_lab::topology::WORLD_V4;
use quell_sim::link::LinkConfig;
use serde_json::Value;

use crate::fixture::{Outcome, trials};
use crate::links::relayed;

trials![
    a_path_that_was_cut_is_used_again_within_a_second,
    an_open_stream_moves_again_soon_after_a_cut,
];

/// The longest wait for the first packet after a cut; a wall clock fails at 3 times it.
const FIRST_PACKET_MAX: Duration = Duration::from_secs(1);
/// Most UDP bytes of the client while the path is cut.
const BYTES_MAX: u64 = 49_152;

/// The longest wait for an open TCP stream to move after a cut, likewise.
const STREAM_MAX: Duration = Duration::from_millis(1_200);

fn udp_bytes_out(status: &Value) -> u64 {
    status["udp"]["bytes_out"].as_u64().unwrap_or(0)
}

//
fn a_path_that_was_cut_is_used_again_within_a_second() -> Outcome {
    for (rtt_ms, cut_s) in [(50, 5), (50, 20)] {
        let link = LinkConfig {
            delay: Duration::from_millis(rtt_ms / 2),
            ..LinkConfig::default()
        };
        let (world, relay) = relayed(link)?;
        let echo = world
            .net
            .world
            .run(|| probe::udp_echo_server(SocketAddr::new(WORLD_V4, 0)))??;
        let address = echo.address();
        let offer = |time: Duration| -> Result<(), Failed> {
            let end = Instant::now() + time;
            while Instant::now() < end {
                // What is offered matters here, not what becomes of it.
                let _ = world
                    .net
                    .client
                    .run(|| probe::udp_round_trip(address, 1_000, Duration::from_millis(8)))?;
            }
            Ok(())
        };
        let patience = Duration::from_secs(5);
        world
            .net
            .client
            .run(|| probe::udp_round_trip(address, 1_000, patience))??;
        offer(Duration::from_secs(1))?;
        let before = udp_bytes_out(&world.client.status()?);
        relay.cut();
        offer(Duration::from_secs(1))?;
        let second = udp_bytes_out(&world.client.status()?);
        offer(Duration::from_secs(cut_s - 1))?;
        let after = udp_bytes_out(&world.client.status()?);
        relay.heal();
        let healed = Instant::now();
        let first = loop {
            let answer = world
                .net
                .client
                .run(|| probe::udp_round_trip(address, 1_000, Duration::from_millis(2 * rtt_ms)))?;
            if answer.is_ok() {
                break healed.elapsed();
            }
            if healed.elapsed() > 60 * FIRST_PACKET_MAX {
                return Err("the path was never used again".into());
            }
            thread::sleep(Duration::from_millis(5));
        };
        println!(
            "RTT {rtt_ms} ms, cut of {cut_s} s: first answer {first:?} after the heal (bound {FIRST_PACKET_MAX:?}), \
             {} bytes out meanwhile (bound {BYTES_MAX}), {} of them after the first second",
            after - before,
            after - second,
        );
        assert!(first <= 3 * FIRST_PACKET_MAX, "{first:?}");
        assert!(after - before <= BYTES_MAX, "{} bytes", after - before);
        world.finish()?;
    }
    Ok(())
}

/// A stream of 1 Mbit/s, cut for 20 s: its own retransmission timer would wait for up to 26 s more.
fn an_open_stream_moves_again_soon_after_a_cut() -> Outcome {
    let link = LinkConfig {
        delay: Duration::from_millis(25),
        ..LinkConfig::default()
    };
    let (world, relay) = relayed(link)?;
    let listener = world.net.world.run(|| TcpListener::bind((WORLD_V4, 0)))??;
    let address = listener.local_addr()?;
    let received = Arc::new(AtomicU64::new(0));
    let sink = Arc::clone(&received);
    let reading = thread::spawn(move || -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut buffer = vec![0; 64 * 1_024];
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                bytes => sink.fetch_add(bytes as u64, Ordering::Relaxed),
            };
        }
    });
    let mut stream = world.net.client.run(|| TcpStream::connect(address))??;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writing = thread::spawn(move || -> io::Result<u64> {
        let mut sent = 0;
        while !stopped.load(Ordering::Relaxed) {
            stream.write_all(&[7; 1_250])?;
            sent += 1_250;
            thread::sleep(Duration::from_millis(10));
        }
        Ok(sent)
    });
    thread::sleep(Duration::from_secs(2));
    relay.cut();
    thread::sleep(Duration::from_secs(20));
    let before = received.load(Ordering::Relaxed);
    relay.heal();
    let healed = Instant::now();
    while received.load(Ordering::Relaxed) == before {
        if healed.elapsed() > 60 * STREAM_MAX {
            return Err("the stream never moved again".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    let moved = healed.elapsed();
    println!(
        "RTT 50 ms, cut of 20 s: the stream moves {moved:?} after the heal (bound {STREAM_MAX:?})"
    );
    assert!(moved <= 3 * STREAM_MAX, "{moved:?}");
    stop.store(true, Ordering::Relaxed);
    let sent = writing.join().map_err(|_| "the writer panicked")??;
    reading.join().map_err(|_| "the reader panicked")??;
    assert_eq!(received.load(Ordering::Relaxed), sent, "nothing is lost");
    world.finish()
}
