//! The kernel's TUN device: packets both ways, names, and every way it can end.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_tun::link::Link;
use quell_tun::os::{TunConfig, TunDevice};
use quell_tun::{PACKET_BYTES_MAX, ReadOutcome, TunError, TunReader, TunWriter};

use crate::namespace::{create, in_namespace, v4, v6};
use crate::packets::{read_until, udp, udp_payload};

/// A packet is written in, a socket hears it and answers, the answer is read.
async fn round_trip(own: IpAddr, peer: IpAddr, prefix_length: u8) {
    let device = create("quell0", 1_500);
    let link = Link::open("quell0").await.unwrap();
    link.add_address(own, prefix_length).await.unwrap();
    link.up().await.unwrap();
    let (mut reader, mut writer, _stop) = device.split();

    // Bound at once after the address was added: no duplicate address detection is waited for.
    let socket = UdpSocket::bind(SocketAddr::new(own, 4_000)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let question = udp((peer, 5_000), (own, 4_000), b"question");
    let report = writer.write_batch(&[Bytes::from(question)]).unwrap();
    assert_eq!((report.written, report.dropped.total()), (1, 0));

    let mut heard = [0; 64];
    let (length, from) = socket.recv_from(&mut heard).unwrap();
    assert_eq!(
        (&heard[..length], from),
        (&b"question"[..], SocketAddr::new(peer, 5_000))
    );
    socket.send_to(b"answer", from).unwrap();

    let answer = read_until(&mut reader, |packet| udp_payload(packet, 5_000).is_some());
    assert_eq!(udp_payload(&answer, 5_000), Some(&b"answer"[..]));
    // case B55: a bare packet, nothing before its version and nothing behind its end.
    let headers = if own.is_ipv4() { 28 } else { 48 };
    assert_eq!(answer.len(), headers + b"answer".len());
}

//
#[test]
fn a_packet_goes_in_and_its_answer_comes_out_over_ipv4() {
    in_namespace(|| round_trip(v4("10.9.0.1").into(), v4("10.9.0.2").into(), 24));
}

//
#[test]
fn a_packet_goes_in_and_its_answer_comes_out_over_ipv6() {
    in_namespace(|| round_trip(v6("fd00:9::1").into(), v6("fd00:9::2").into(), 64));
}

#[test]
fn a_burst_is_read_in_batches_in_order() {
    in_namespace(|| async {
        let device = create("quell0", 1_500);
        let link = Link::open("quell0").await.unwrap();
        link.add_address(v4("10.9.0.1").into(), 24).await.unwrap();
        link.up().await.unwrap();
        let (mut reader, _writer, _stop) = device.split();
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        for n in 0..100_u8 {
            socket.send_to(&[n; 1_000], "10.9.0.2:7000").unwrap();
        }
        let mut heard = Vec::new();
        while heard.len() < 100 {
            let mut batch = Vec::new();
            reader.read_batch(&mut batch).unwrap();
            assert!(batch.len() <= quell_tun::BATCH_PACKETS_MAX);
            heard.extend(
                batch
                    .iter()
                    .filter_map(|p| udp_payload(p, 7_000))
                    .map(|p| p[0]),
            );
        }
        assert!(heard.iter().copied().eq(0..100));
    });
}

#[test]
fn the_longest_packet_passes_both_ways() {
    in_namespace(|| async {
        let device = create("quell0", u16::MAX);
        let link = Link::open("quell0").await.unwrap();
        link.add_address(v4("10.9.0.1").into(), 24).await.unwrap();
        link.up().await.unwrap();
        assert_eq!(link.mtu().await.unwrap(), 65_535);
        let (mut reader, mut writer, _stop) = device.split();
        let socket = UdpSocket::bind("10.9.0.1:4000").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();

        let payload = vec![7; PACKET_BYTES_MAX - 28];
        socket.send_to(&payload, "10.9.0.2:5000").unwrap();
        let out = read_until(&mut reader, |packet| udp_payload(packet, 5_000).is_some());
        assert_eq!(out.len(), PACKET_BYTES_MAX);

        let from = (v4("10.9.0.2").into(), 5_000);
        let to = (v4("10.9.0.1").into(), 4_000);
        let packet = Bytes::from(udp(from, to, &payload));
        assert_eq!(writer.write_batch(&[packet]).unwrap().written, 1);
        let mut heard = vec![0; PACKET_BYTES_MAX];
        assert_eq!(socket.recv(&mut heard).unwrap(), payload.len());
    });
}

// case B38: the kernel delivers packets to the TUN's own address locally; they never come out of the TUN.
#[test]
fn a_packet_to_the_own_address_never_reaches_the_reader() {
    in_namespace(|| async {
        let device = create("quell0", 1_500);
        let link = Link::open("quell0").await.unwrap();
        link.add_address(v4("10.9.0.1").into(), 24).await.unwrap();
        link.add_address(v6("fd00:9::1").into(), 64).await.unwrap();
        link.up().await.unwrap();
        link.replace_route((v4("0.0.0.0").into(), 0), None)
            .await
            .unwrap();
        link.replace_route((v6("::").into(), 0), None)
            .await
            .unwrap();
        let (mut reader, _writer, _stop) = device.split();

        let mut check = |own: IpAddr, other: IpAddr| {
            let socket = UdpSocket::bind(SocketAddr::new(own, 0)).unwrap();
            socket
                .send_to(b"loop", SocketAddr::new(own, 6_000))
                .unwrap();
            socket
                .send_to(b"end", SocketAddr::new(other, 6_000))
                .unwrap();
            let first = read_until(&mut reader, |packet| udp_payload(packet, 6_000).is_some());
            assert_eq!(udp_payload(&first, 6_000), Some(&b"end"[..]), "{own}");
        };
        check(v4("10.9.0.1").into(), v4("192.0.2.1").into());
        check(v6("fd00:9::1").into(), v6("2001:db8::1").into());
        // The kernel makes an IPv6 address local some time after it said "added"; the addition waits for that.
        for n in 2..30 {
            let own = v6(&format!("fd00:9::{n}")).into();
            link.add_address(own, 64).await.unwrap();
            check(own, v6("2001:db8::1").into());
        }
    });
}

#[test]
fn a_second_device_of_the_name_is_refused_and_the_name_is_free_after() {
    in_namespace(|| async {
        let first = create("quell0", 1_500);
        let config = TunConfig {
            name: Some("quell0".to_owned()),
            mtu: 1_500,
            ..TunConfig::default()
        };
        let error = TunDevice::create(config.clone()).unwrap_err();
        assert!(
            matches!(&error, TunError::NameInUse { name, .. } if name == "quell0"),
            "{error}"
        );

        // The reader alone keeps the device.
        let (reader, writer, stop) = first.split();
        drop((writer, stop));
        assert!(TunDevice::create(config.clone()).is_err());
        drop(reader);
        assert!(matches!(
            Link::open("quell0").await,
            Err(TunError::NoSuchInterface { .. })
        ));
        TunDevice::create(config).unwrap();
    });
}

#[test]
fn a_name_of_another_kind_of_interface_is_refused() {
    in_namespace(|| async {
        let config = TunConfig {
            name: Some("lo".to_owned()),
            mtu: 1_500,
            ..TunConfig::default()
        };
        let error = TunDevice::create(config).unwrap_err();
        assert!(matches!(error, TunError::NameInUse { .. }), "{error}");
    });
}

#[test]
fn the_kernel_picks_a_name_and_fifteen_bytes_are_one() {
    in_namespace(|| async {
        let device = TunDevice::create(TunConfig::default()).unwrap();
        assert!(device.name().starts_with("tun"), "{}", device.name());
        assert_eq!(
            Link::open(device.name()).await.unwrap().index(),
            device.index()
        );
        assert_eq!(create("quell-fifteen-b", 1_280).name(), "quell-fifteen-b");
    });
}

#[test]
fn a_persistent_device_without_a_user_is_adopted_cleaned_and_stays() {
    nix::ioctl_write_int!(tun_set_persist, b'T', 203);
    use std::os::fd::AsRawFd;

    in_namespace(|| async {
        let left_behind = create("quell0", 1_500);
        assert!(!left_behind.is_adopted());
        // SAFETY: the ioctl takes a plain number and touches no memory of ours.
        #[allow(unsafe_code)]
        unsafe { tun_set_persist(left_behind.as_fd().as_raw_fd(), 1) }.unwrap();
        let link = Link::open("quell0").await.unwrap();
        link.add_address(v4("10.9.0.1").into(), 24).await.unwrap();
        link.add_address(v4("10.9.0.7").into(), 24).await.unwrap();
        drop(left_behind);

        let adopted = create("quell0", 1_400);
        assert!(adopted.is_adopted());
        assert_eq!(link.mtu().await.unwrap(), 1_400);
        link.flush_addresses().await.unwrap();
        assert_eq!(link.addresses().await.unwrap(), []);
        drop(adopted);
        Link::open("quell0").await.unwrap();
    });
}

#[test]
fn a_stop_wakes_a_blocked_reader_within_100_ms() {
    in_namespace(|| async {
        let device = create("quell0", 1_500);
        let (mut reader, _writer, stop) = device.split();
        let waker = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            stop.stop();
            Instant::now()
        });
        assert_eq!(
            reader.read_batch(&mut Vec::new()).unwrap(),
            ReadOutcome::Stopped
        );
        assert!(waker.join().unwrap().elapsed() < Duration::from_millis(100));
    });
}

// case B81
#[test]
fn a_link_that_is_deleted_ends_a_blocked_reader_and_the_writer() {
    in_namespace(|| async {
        let device = create("quell0", 1_500);
        let link = Link::open("quell0").await.unwrap();
        link.up().await.unwrap();
        let (mut reader, mut writer, _stop) = device.split();
        let blocked = std::thread::spawn(move || {
            let mut batch = Vec::new();
            loop {
                match reader.read_batch(&mut batch) {
                    Ok(outcome) => assert_eq!(outcome, ReadOutcome::Packets),
                    Err(error) => return (error, Instant::now(), reader),
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let deleted_at = Instant::now();
        link.delete().await.unwrap();
        link.delete().await.unwrap();

        let (error, ended_at, mut reader) = blocked.join().unwrap();
        assert!(matches!(error, TunError::Fatal { .. }), "{error}");
        assert!(error.to_string().contains("deleted"), "{error}");
        assert!(ended_at - deleted_at < Duration::from_millis(500));
        assert!(matches!(
            reader.read_batch(&mut Vec::new()),
            Err(TunError::Fatal { .. })
        ));

        let packet = Bytes::from_static(&[0x45; 20]);
        for _ in 0..2 {
            let result = writer.write_batch(std::slice::from_ref(&packet));
            assert!(matches!(result, Err(TunError::Fatal { .. })), "{result:?}");
        }
    });
}

// case B81
#[test]
fn a_link_that_is_down_drops_what_is_written_and_works_again_when_up() {
    in_namespace(|| async {
        let device = create("quell0", 1_500);
        let link = Link::open("quell0").await.unwrap();
        let (_reader, mut writer, _stop) = device.split();
        let packets = vec![Bytes::from_static(&[0x45; 20]); 5];
        let report = writer.write_batch(&packets).unwrap();
        assert_eq!((report.written, report.dropped.down), (0, 5));
        link.up().await.unwrap();
        assert_eq!(writer.write_batch(&packets).unwrap().written, 5);
        link.down().await.unwrap();
        assert_eq!(writer.write_batch(&packets).unwrap().dropped.down, 5);
    });
}

#[test]
fn what_is_no_ip_packet_is_dropped_as_invalid() {
    in_namespace(|| async {
        let device = create("quell0", 1_500);
        Link::open("quell0").await.unwrap().up().await.unwrap();
        let (_reader, mut writer, _stop) = device.split();
        let packets = [
            Bytes::from_static(&[0x45; 20]),
            Bytes::from_static(&[0x35; 20]),
            Bytes::new(),
            Bytes::from(vec![0x45; PACKET_BYTES_MAX + 1]),
            Bytes::from_static(&[0x60; 40]),
        ];
        let report = writer.write_batch(&packets).unwrap();
        assert_eq!((report.written, report.dropped.invalid), (2, 3));
        assert_eq!(report.offered(), packets.len());
    });
}
