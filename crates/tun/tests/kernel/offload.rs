//! Offloads with a kernel at both ends: two network namespaces, a TUN in each, and a cable of ours between the TUNs.
//!
//! ```text
//! socket ─ kernel A ─ super-packets ─ TUN A ═ packets ═ TUN B ─ super-packets ─ kernel B ─ socket
//! ```

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nix::sys::socket::{setsockopt, sockopt};
use quell_tun::link::Link;
use quell_tun::os::{OsReader, OsWriter, TunConfig, TunDevice};
use quell_tun::{
    BATCH_PACKETS_MAX, Offload, OffloadMode, ReadOutcome, StopHandle, TunReader, TunWriter,
};

use crate::namespace::{in_namespace, v4, v6};

/// Bytes that a stream carries: some hundred super-packets.
const STREAM_BYTES: usize = 16 << 20;

/// A device with addresses, up, in the thread's namespace.
async fn end(number: u8, offload: OffloadMode) -> TunDevice {
    let device = TunDevice::create(TunConfig {
        name: Some("quell0".to_owned()),
        mtu: 1_420,
        offload,
    })
    .unwrap();
    let link = Link::open("quell0").await.unwrap();
    let [four, six] = addresses(number);
    link.add_address(four, 24).await.unwrap();
    link.add_address(six, 64).await.unwrap();
    link.up().await.unwrap();
    device
}

fn addresses(number: u8) -> [IpAddr; 2] {
    let four = v4(&format!("10.9.0.{number}"));
    [four.into(), v6(&format!("fd00:9::{number}")).into()]
}

/// Carries packets one way until it is stopped. No packet is longer than the MTU, no batch than its bound.
fn carry(mut from: OsReader, mut to: OsWriter) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut batch: Vec<BytesMut> = Vec::new();
        while let Ok(ReadOutcome::Packets) = from.read_batch(&mut batch) {
            assert!(batch.len() <= BATCH_PACKETS_MAX);
            assert!(batch.iter().all(|packet| packet.len() <= 1_420));
            let packets: Vec<Bytes> = batch.drain(..).map(BytesMut::freeze).collect();
            let report = to.write_batch(&packets).unwrap();
            assert_eq!(report.offered(), packets.len());
        }
    })
}

struct Cable {
    threads: [JoinHandle<()>; 2],
    stops: [StopHandle; 2],
    offloads: [Offload; 2],
}

impl Cable {
    fn between(a: TunDevice, b: TunDevice) -> Self {
        let offloads = [a.offload(), b.offload()];
        let (a_reader, a_writer, a_stop) = a.split();
        let (b_reader, b_writer, b_stop) = b.split();
        Self {
            threads: [carry(a_reader, b_writer), carry(b_reader, a_writer)],
            stops: [a_stop, b_stop],
            offloads,
        }
    }

    fn end(self) -> [Offload; 2] {
        self.stops.iter().for_each(StopHandle::stop);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.offloads
    }
}

/// The second end: the thread moves to a new namespace, and the sockets and devices of the first stay in theirs.
async fn second_end(offload: OffloadMode) -> TunDevice {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    end(2, offload).await
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n ^ n >> 8 ^ n >> 16) as u8).collect()
}

/// Sends a stream each way, one after the other, and compares every byte.
fn streams(listener: TcpListener) {
    let to = listener.local_addr().unwrap();
    let far = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = vec![0; STREAM_BYTES];
        stream.read_exact(&mut heard).unwrap();
        assert!(heard == pattern(STREAM_BYTES), "the stream was changed");
        stream.write_all(&heard).unwrap();
    });
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
    let sent = pattern(STREAM_BYTES);
    stream.write_all(&sent).unwrap();
    let mut heard = vec![0; STREAM_BYTES];
    stream.read_exact(&mut heard).unwrap();
    assert!(heard == sent, "the stream was changed");
    far.join().unwrap();
}

/// Both families, one after the other; what both ends' kernels did.
async fn both_families(near: OffloadMode, far: OffloadMode) -> [Offload; 2] {
    let a = end(1, near).await;
    let listeners = addresses(1).map(|own| TcpListener::bind(SocketAddr::new(own, 0)).unwrap());
    let b = second_end(far).await;
    let cable = Cable::between(a, b);
    for listener in listeners {
        streams(listener);
    }
    cable.end()
}

// R-8, case B54: every byte arrives, over super-packets at both ends.
#[test]
fn streams_of_both_families_pass_as_super_packets() {
    in_namespace(|| async {
        for offload in both_families(OffloadMode::Auto, OffloadMode::Auto).await {
            let stats = offload.stats();
            assert!(stats.reads_super && stats.merges_tcp, "{stats:?}");
            assert!(stats.split_packets >= 10 * stats.split.max(1), "{stats:?}");
            assert!(stats.merged_packets >= 2 * stats.merged.max(1), "{stats:?}");
            assert_eq!((stats.refused, stats.fallbacks), (0, 0), "{stats:?}");
        }
    });
}

#[test]
fn an_end_without_offloads_understands_one_with_them() {
    in_namespace(|| async {
        let [near, far] = both_families(OffloadMode::Off, OffloadMode::Auto).await;
        assert_eq!(near.stats(), quell_tun::OffloadStats::default());
        assert!(far.stats().split > 0 && far.stats().merged > 0);
    });
}

#[test]
fn datagrams_that_were_sent_as_one_arrive_one_by_one() {
    in_namespace(|| async {
        let a = end(1, OffloadMode::Auto).await;
        let heard = addresses(1).map(|own| UdpSocket::bind(SocketAddr::new(own, 4_000)).unwrap());
        let b = second_end(OffloadMode::Auto).await;
        let has_uso = b.offload().stats().merges_udp;
        let cable = Cable::between(a, b);
        for socket in &heard {
            let to = socket.local_addr().unwrap();
            let any: IpAddr = if to.is_ipv4() {
                v4("0.0.0.0").into()
            } else {
                v6("::").into()
            };
            let sender = UdpSocket::bind(SocketAddr::new(any, 0)).unwrap();
            setsockopt(&sender, sockopt::UdpGsoSegment, &1_200).unwrap();
            let sent = pattern(20 * 1_200 + 77);
            sender.send_to(&sent, to).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            for expected in sent.chunks(1_200) {
                let mut datagram = [0; 2_000];
                let length = socket.recv(&mut datagram).unwrap();
                assert!(datagram[..length] == *expected);
            }
        }
        let [_, near] = cable.end();
        assert_eq!(near.stats().split > 0, has_uso, "{:?}", near.stats());
        assert_eq!(near.stats().refused, 0);
    });
}

/// Whether the interface segments TCP: a part of its offload mask (`ETHTOOL_GTSO`).
fn segments_tcp(name: &str) -> bool {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        value: *mut Value,
        rest: [u8; 16],
    }
    nix::ioctl_readwrite_bad!(ethtool, 0x8946, Request);

    let mut value = Value {
        command: 0x1e,
        data: 0,
    };
    let mut request = Request {
        name: [0; 16],
        value: &raw mut value,
        rest: [0; 16],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // SAFETY: `request` has the size and layout of the kernel's `struct ifreq`, and points to a `struct ethtool_value`;
    // both live during the call, and every bit pattern that the kernel writes is valid for their fields.
    #[allow(unsafe_code)]
    unsafe { ethtool(socket.as_fd().as_raw_fd(), &raw mut request) }.unwrap();
    value.data != 0
}

#[test]
fn a_persistent_device_is_left_as_it_was_found() {
    nix::ioctl_write_int!(tun_set_persist, b'T', 203);

    in_namespace(|| async {
        let device = end(1, OffloadMode::Auto).await;
        // SAFETY: the ioctl takes a plain number and touches no memory of ours.
        #[allow(unsafe_code)]
        unsafe { tun_set_persist(device.as_fd().as_raw_fd(), 1) }.unwrap();
        assert!(segments_tcp("quell0"));
        let halves = device.split();
        assert!(segments_tcp("quell0"), "while a half lives");
        drop(halves);
        assert!(!segments_tcp("quell0"));
        // A plain user after one with offloads, and the other way round.
        drop(end(1, OffloadMode::Off).await);
        assert!(
            end(1, OffloadMode::Auto)
                .await
                .offload()
                .stats()
                .reads_super
        );
    });
}
