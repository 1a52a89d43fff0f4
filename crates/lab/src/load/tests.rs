//! The loads over loopback.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use super::sink::STREAMS_MAX;
use super::*;
use crate::LabError;
use crate::probe::udp_echo_server;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

const LONG: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Waits for what must come.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        thread::sleep(MS);
    }
}

#[test]
fn a_pace_meets_each_deadline_once_however_late() {
    let start = Instant::now();
    // 125 bytes at 1 Mbit/s: one each millisecond.
    let mut pace = Pace::of_rate(start, 125, 1_000_000);
    assert!(pace.take(start));
    assert!(!pace.take(start + MS - Duration::from_nanos(1)));
    assert_eq!(pace.left(start), MS);
    let late = start + 10 * MS;
    assert_eq!((0..20).filter(|_| pace.take(late)).count(), 10);
    assert_eq!(pace.left(late), MS);
}

#[test]
fn a_udp_load_keeps_its_rate_and_notes_what_comes_back() {
    let echo = udp_echo_server(any()).unwrap();
    let start = Instant::now();
    let load = UdpLoad::start(echo.address(), 1_000, 1_000_000).unwrap();
    let answers = load.answers();
    until("forty answers", || answers.count() >= 40);
    // One at once, then one each 8 ms: the fortieth not before 312 ms are over.
    let took = start.elapsed();
    assert!(took >= 311 * MS, "{took:?}");
    let due = took.as_millis() / 8 + 2;
    assert!(u128::from(load.sent()) <= due, "{} of {due}", load.sent());
    assert_eq!(answers.bytes(), answers.count() * 1_000);
    assert!(answers.first_after(start).unwrap() < answers.last().unwrap());
    let age = answers.age_max_after(start).unwrap();
    assert!(age < took, "{age:?} of {took:?}");
    assert_eq!((load.errors(), load.strays()), (0, 0));
    drop(load);
    let count = answers.count();
    thread::sleep(30 * MS);
    assert_eq!(answers.count(), count, "nothing comes after the load");
}

#[test]
fn a_refusing_port_is_a_figure_and_the_load_goes_on() {
    let closed = {
        let socket = UdpSocket::bind(any()).unwrap();
        socket.local_addr().unwrap()
    };
    let load = UdpLoad::start(closed, 100, 1_000_000).unwrap();
    until("refusals", || load.errors() >= 3);
    let socket = UdpSocket::bind(closed).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut buffer = [0; 200];
    let (len, peer) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(len, 100);
    // An answer that is none, then the one it waits for.
    socket.send_to(&buffer[..99], peer).unwrap();
    until("a stray", || load.strays() == 1);
    assert_eq!(load.answers().count(), 0);
    socket.send_to(&buffer[..100], peer).unwrap();
    until("an answer", || load.answers().count() == 1);
}

#[test]
fn sizes_and_rates_pass_at_their_bounds_and_not_beyond() {
    let echo = udp_echo_server(any()).unwrap();
    let start = |bytes, bit_s| UdpLoad::start(echo.address(), bytes, bit_s).map(drop);
    let is_invalid = |result| matches!(result, Err(LabError::Invalid(_)));
    assert!(start(16, 1).is_ok());
    assert!(start(65_507, 1).is_ok());
    assert!(is_invalid(start(15, 1)));
    assert!(is_invalid(start(65_508, 1)));
    assert!(is_invalid(start(16, 0)));
    let sink = TcpSink::start(any()).unwrap();
    assert!(is_invalid(TcpLoad::start(sink.address(), 0).map(drop)));
    assert!(is_invalid(
        PingLoad::start(any().ip(), Duration::ZERO).map(drop)
    ));
}

#[test]
fn a_paced_stream_arrives_whole_at_its_rate() {
    let sink = TcpSink::start(any()).unwrap();
    let start = Instant::now();
    let load = TcpLoad::start(sink.address(), 8_000_000).unwrap();
    let arrivals = sink.arrivals();
    // 1 MB/s in writes of 10 kB, the first at once: 300 kB not before 290 ms are over.
    until("300 kB", || arrivals.bytes() >= 300_000);
    assert!(start.elapsed() >= 289 * MS, "{:?}", start.elapsed());
    let sent = load.stop().unwrap();
    until("the end", || sink.ended() == 1);
    assert_eq!(arrivals.bytes(), sent);
    assert_eq!(arrivals.bytes_between(start, Instant::now()), sent);
    assert_eq!(arrivals.age_max_after(start), None);
}

#[test]
fn an_unpaced_stream_is_fast_and_takes_the_congestion_control_it_is_told() {
    let sink = TcpSink::start(any()).unwrap();
    let config = TcpLoadConfig {
        congestion: Some("reno"),
        ..TcpLoadConfig::default()
    };
    let load = TcpLoad::with_config(sink.address(), config).unwrap();
    until("20 MB", || sink.arrivals().bytes() >= 20_000_000);
    let sent = load.stop().unwrap();
    until("the end", || sink.ended() == 1);
    assert_eq!(sink.arrivals().bytes(), sent);
    let config = TcpLoadConfig {
        congestion: Some("no-such"),
        ..TcpLoadConfig::default()
    };
    let error = TcpLoad::with_config(sink.address(), config).unwrap_err();
    assert!(
        matches!(&error, LabError::Io { source, .. } if source.kind() == ErrorKind::NotFound),
        "{error:?}"
    );
}

#[test]
fn a_stuck_stream_ends_at_once_and_does_not_make_up_for_lost_time() {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let load = TcpLoad::start(address, u64::MAX).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let is_stuck = || {
        let before = load.sent_bytes();
        thread::sleep(50 * MS);
        before > 0 && load.sent_bytes() == before
    };
    until("nobody reads", is_stuck);
    let began = Instant::now();
    drop(load);
    assert!(began.elapsed() < Duration::from_secs(1));

    // 80 Mbit/s into a stream that takes nothing for a while.
    let load = TcpLoad::start(address, 80_000_000).unwrap();
    drop(std::mem::replace(&mut peer, listener.accept().unwrap().0));
    until("stuck", || {
        let before = load.sent_bytes();
        thread::sleep(50 * MS);
        before > 0 && load.sent_bytes() == before
    });
    thread::sleep(300 * MS);
    let stuck = load.sent_bytes();
    let reader = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while peer.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    });
    until("it goes on", || load.sent_bytes() > stuck);
    let began = Instant::now();
    let (moving, window) = (load.sent_bytes(), 100 * MS);
    thread::sleep(window);
    let moved = load.sent_bytes() - moving;
    // 10 MB/s; 300 ms would be 3 MB more. Two writes of 64 KiB may fall due at the edges.
    let due = 10_000_000 * began.elapsed().as_millis() as u64 / 1_000 + 2 * 65_536;
    assert!(moved <= due, "{moved} of {due}");
    load.stop().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_stream_that_breaks_off_says_so() {
    let listener = TcpListener::bind(any()).unwrap();
    let load = TcpLoad::start(listener.local_addr().unwrap(), u64::MAX).unwrap();
    let (peer, _) = listener.accept().unwrap();
    until("it writes", || load.sent_bytes() > 0);
    // With data unread, closing resets.
    drop(peer);
    until("the end", || load.is_broken());
    assert!(matches!(load.stop(), Err(LabError::Io { .. })));
}

#[test]
fn a_sink_takes_as_many_streams_as_its_bound_and_not_one_more() {
    let sink = TcpSink::start(any()).unwrap();
    let connect = || TcpStream::connect(sink.address()).unwrap();
    let streams: Vec<_> = (0..STREAMS_MAX).map(|_| connect()).collect();
    until("all are in", || sink.accepted() == STREAMS_MAX as u64);
    let mut refused = connect();
    refused.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap(), 0);
    assert_eq!(sink.refused(), 1);
    drop(streams);
    until("all are out", || sink.ended() == STREAMS_MAX as u64);
    let _one_more = connect();
    until("room again", || sink.accepted() == STREAMS_MAX as u64 + 1);
    assert_eq!(sink.failed(), 0);
}

#[test]
fn pings_come_back_in_their_interval() {
    if let Some(reason) = crate::netns::unavailable() {
        eprintln!("skipped: {reason}");
        return;
    }
    let namespace = crate::netns::Namespace::new("pings").unwrap();
    for target in ["127.0.0.1", "::1"] {
        let start = Instant::now();
        let load = namespace
            .run(|| PingLoad::start(target.parse().unwrap(), 5 * MS))
            .unwrap()
            .unwrap();
        let answers = load.answers();
        until("twenty answers", || answers.count() >= 20);
        let took = start.elapsed();
        assert!(took >= 94 * MS, "{took:?}");
        assert!(u128::from(load.sent()) <= took.as_millis() / 5 + 2);
        assert_eq!((load.errors(), answers.bytes()), (0, answers.count() * 56));
        assert!(answers.age_max_after(start).unwrap() < took);
    }
}
