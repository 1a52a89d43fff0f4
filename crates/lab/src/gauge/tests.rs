//! Both ends against each other, over the loopback.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::*;
use crate::LabError;

const SHORT: Duration = Duration::from_millis(100);

fn server() -> Server {
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

#[test]
fn streams_are_counted_where_they_arrive_both_ways() {
    let server = server();
    let gauge = Gauge::new(server.address());
    for transfer in [
        gauge.send(1, SHORT).unwrap(),
        gauge.send(4, SHORT).unwrap(),
        gauge.receive(1, SHORT).unwrap(),
        gauge.receive(4, SHORT).unwrap(),
    ] {
        assert!(transfer.bytes > 0 && transfer.took >= SHORT, "{transfer:?}");
        let mbit_s = transfer.bytes as f64 * 8.0 / 1e6 / transfer.took.as_secs_f64();
        assert!((transfer.mbit_s() - mbit_s).abs() < 1e-6);
    }
}

#[test]
fn a_paced_load_arrives_whole_and_keeps_its_rate() {
    let server = server();
    let gauge = Gauge::new(server.address());
    let load = gauge.datagrams(64, Some(1_000), SHORT * 3).unwrap();
    assert_eq!((load.received, load.loss()), (load.sent, 0.0));
    assert_eq!(load.received_bytes, load.received * 64);
    assert!((250..=301).contains(&load.sent), "{load:?}");
}

#[test]
fn datagrams_without_a_token_are_nobodys_and_draw_no_answer() {
    let server = server();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(server.address()).unwrap();
    stranger.set_read_timeout(Some(SHORT)).unwrap();
    let trips = Gauge::new(server.address()).round_trips(64, 3, Duration::ZERO);
    for len in [0, 7, 8, 15, 16, 64] {
        stranger.send(&vec![7; len]).unwrap();
    }
    assert!(stranger.recv(&mut [0; 100]).is_err());
    let trips = trips.unwrap();
    assert_eq!((trips.times.len(), trips.lost), (3, 0));
    assert!(trips.times.is_sorted() && trips.mean() <= trips.quantile(1.0));
}

#[test]
fn a_token_ends_with_its_order() {
    let server = server();
    let mut order = TcpStream::connect(server.address()).unwrap();
    order.write_all(&order::Order::Echo.encode()).unwrap();
    let mut datagram = [0; 16];
    order.read_exact(&mut datagram[..8]).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address()).unwrap();
    socket.set_read_timeout(Some(SHORT * 20)).unwrap();
    socket.send(&datagram).unwrap();
    socket.recv(&mut [0; 100]).unwrap();
    // The shortest datagram that is counted has a number as well.
    socket.set_read_timeout(Some(SHORT)).unwrap();
    socket.send(&datagram[..15]).unwrap();
    assert!(socket.recv(&mut [0; 100]).is_err());
    drop(order);
    let began = Instant::now();
    loop {
        socket.send(&datagram).unwrap();
        if socket.recv(&mut [0; 100]).is_err() {
            break;
        }
        assert!(began.elapsed() < SHORT * 50, "still answered");
    }
}

#[test]
fn the_last_order_is_served_and_one_more_is_not() {
    let server = server();
    let connect = || TcpStream::connect(server.address()).unwrap();
    let mut orders: Vec<_> = (0..ORDERS_MAX).map(|_| connect()).collect();
    for order in &mut orders {
        order.write_all(&order::Order::Count.encode()).unwrap();
        order.read_exact(&mut [0; 8]).unwrap();
    }
    let mut refused = connect();
    refused.set_read_timeout(Some(SHORT * 20)).unwrap();
    let _gone = refused.write_all(&order::Order::Count.encode());
    assert!(refused.read_exact(&mut [0; 8]).is_err());
}

#[test]
fn what_is_out_of_range_is_said_before_anything_is_sent() {
    let gauge = Gauge::new("127.0.0.1:1".parse().unwrap());
    let refusals = [
        gauge.send(0, SHORT).err(),
        gauge.send(1, Duration::ZERO).err(),
        gauge.receive(1, TIME_MAX + Duration::from_nanos(1)).err(),
        gauge.datagrams(64, Some(0), SHORT).err(),
        gauge.datagrams(PAYLOAD_BYTES_MIN - 1, None, SHORT).err(),
        gauge.round_trips(PAYLOAD_BYTES_MAX + 1, 1, SHORT).err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Some(LabError::Invalid(_))), "{refusal:?}");
    }
}

#[test]
fn a_server_that_is_dropped_ends_its_orders_at_once() {
    let server = server();
    let gauge = Gauge::new(server.address());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| gauge.receive(1, Duration::from_secs(30)));
        std::thread::sleep(SHORT);
        let began = Instant::now();
        drop(server);
        assert!(began.elapsed() < SHORT * 30, "{:?}", began.elapsed());
        let _cut = running.join().unwrap();
    });
}
