//! Much of it: long transfers both ways, many at once, and what it costs.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::alone::{alone, figure, resident_bytes};
use crate::rig::Rig;
use crate::socks::through;
use crate::world::{echo, hash, pattern, serve};

const BULK_BYTES: usize = 20 << 20;

#[test]
fn a_download_is_whole() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.write_all(&pattern(BULK_BYTES)).unwrap();
    });
    let rig = Rig::new();
    let mut stream = through(&rig, server);
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    assert_eq!(hash(&heard), hash(&pattern(BULK_BYTES)));
    thread.join().unwrap();
    drop(stream);
    rig.until_quiet();
}

#[test]
fn an_upload_is_whole_and_half_closed_connections_live_on() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        // What comes after our end was said.
        stream.write_all(&hash(&heard)).unwrap();
    });
    let rig = Rig::new();
    let mut stream = through(&rig, server);
    stream.write_all(&pattern(BULK_BYTES)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, hash(&pattern(BULK_BYTES)));
    thread.join().unwrap();
    drop(stream);
    rig.until_quiet();
}

#[test]
fn a_destination_that_is_done_is_still_spoken_to() {
    let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
        stream.write_all(b"bye").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        heard.len()
    });
    let rig = Rig::new();
    let mut stream = through(&rig, server);
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"bye");
    stream.write_all(&pattern(3_000_000)).unwrap();
    drop(stream);
    assert_eq!(thread.join().unwrap(), [3_000_000]);
    rig.until_quiet();
}

#[test]
fn two_hundred_at_once() {
    const BYTES: usize = 60_000;
    let (server, thread) = serve("127.0.0.1:0", 200, echo);
    let rig = Rig::new();
    std::thread::scope(|scope| {
        for index in 0..200 {
            let rig = &rig;
            scope.spawn(move || {
                let said = pattern(BYTES + index);
                let mut stream = through(rig, server);
                let mut writer = stream.try_clone().unwrap();
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        writer.write_all(&said).unwrap();
                        writer.shutdown(Shutdown::Write).unwrap();
                    });
                    let mut heard = Vec::new();
                    stream.read_to_end(&mut heard).unwrap();
                    assert!(heard == said);
                });
            });
        }
    });
    thread.join().unwrap();
    rig.until_quiet();
    assert_eq!(rig.counts().granted, 200);
}

/// What a gigabyte costs, alone, so that nobody else's time is counted.
#[test]
fn a_download_costs_what_it_costs() {
    alone("bulk::a_download_costs_what_it_costs", 256, || {
        const BYTES: usize = 400 << 20;
        let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
            let chunk = vec![7; 1 << 18];
            for _ in 0..BYTES / chunk.len() {
                stream.write_all(&chunk).unwrap();
            }
        });
        let rig = Rig::new();
        let mut stream = through(&rig, server);
        let start = Instant::now();
        let mut buffer = vec![0; 1 << 18];
        let mut heard = 0;
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => break,
                read => heard += read,
            }
        }
        let took = start.elapsed().as_secs_f64();
        assert_eq!(heard, BYTES);
        thread.join().unwrap();
        let gbit = BYTES as f64 * 8.0 / 1e9 / took;
        figure(&format!("{gbit:.2} Gbit/s down, through proxy and egress"));
        assert!(resident_bytes() < 200 << 20);
    });
}

#[test]
fn a_slow_reader_stops_the_sender_and_costs_two_buffers() {
    alone(
        "bulk::a_slow_reader_stops_the_sender_and_costs_two_buffers",
        256,
        || {
            const BYTES: usize = 200 << 20;
            let (server, thread) = serve("127.0.0.1:0", 1, |mut stream| {
                let chunk = vec![7; 1 << 16];
                let mut sent = 0;
                stream
                    .set_write_timeout(Some(Duration::from_secs(2)))
                    .unwrap();
                while sent < BYTES && stream.write_all(&chunk).is_ok() {
                    sent += chunk.len();
                }
                sent
            });
            let rig = Rig::new();
            let stream = through(&rig, server);
            let before = resident_bytes();
            let sent = thread.join().unwrap()[0];
            assert!(sent < BYTES / 2, "{sent} bytes went into nobody's ear");
            let grown = resident_bytes().saturating_sub(before);
            assert!(grown < 24 << 20, "{grown} bytes more");
            drop(stream);
            rig.until_quiet();
        },
    );
}
