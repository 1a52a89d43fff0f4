//! The file with virtio-net headers, over a socket pair that plays the kernel.

#![allow(clippy::unwrap_used)]

use std::os::fd::OwnedFd;

use bytes::Bytes;
use nix::sys::socket::{setsockopt, sockopt};
use quell_packet::build::{Header, Segment};
use quell_packet::{IpPacket, checksum};

use crate::device::{BATCH_PACKETS_MAX, ReadOutcome, TunReader, TunWriter};
use crate::os::tests::device as plain_device;
use crate::os::{OsReader, OsWriter};

use super::*;

fn device() -> (OsReader, OsWriter, Offload, OwnedFd) {
    let (mut device, theirs) = plain_device();
    setsockopt(&device, sockopt::SndBuf, &4_000_000).unwrap();
    setsockopt(&theirs, sockopt::SndBuf, &4_000_000).unwrap();
    device.has_headers = true;
    let all = Allowed {
        tcp: true,
        udp: true,
    };
    device.offload.switch_on(true, all);
    let offload = device.offload();
    let (reader, writer, _stop) = device.split();
    (reader, writer, offload, theirs)
}

fn header() -> Header<'static> {
    Header::new("10.0.0.1".parse().unwrap(), "192.0.2.9".parse().unwrap())
}

fn tcp(len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
    header().tcp(1, 2, &Segment::default(), &payload)
}

fn super_packet(len: usize, gso_size: u16) -> Vec<u8> {
    let virtio = VirtioHeader {
        gso: Gso::TcpV4,
        gso_size,
        ..VirtioHeader::default()
    };
    [&virtio.encode()[..], &tcp(len)].concat()
}

/// What TCP segments without options hold.
fn payload_of(packets: &[BytesMut]) -> Vec<u8> {
    packets.iter().flat_map(|it| it[40..].to_vec()).collect()
}

fn plain(packet: &[u8]) -> Vec<u8> {
    [&VirtioHeader::PLAIN[..], packet].concat()
}

/// Reads until a packet of 20 bytes comes, which is the last. No batch is larger than it may be.
fn read_all(reader: &mut OsReader) -> Vec<BytesMut> {
    let mut packets = Vec::new();
    loop {
        let before = packets.len();
        assert_eq!(
            reader.read_batch(&mut packets).unwrap(),
            ReadOutcome::Packets
        );
        assert!(packets.len() - before <= BATCH_PACKETS_MAX);
        if packets.last().is_some_and(|last| last.len() == 20) {
            packets.pop();
            return packets;
        }
    }
}

#[test]
fn packets_of_every_length_are_read_whole() {
    let (mut reader, _writer, _, kernel) = device();
    let lengths = [
        1,
        40,
        NEAR_BYTES - 1,
        NEAR_BYTES,
        NEAR_BYTES + 1,
        9_000,
        PACKET_BYTES_MAX,
    ];
    for len in lengths {
        let packet: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        nix::unistd::write(&kernel, &plain(&packet)).unwrap();
        nix::unistd::write(&kernel, &plain(&[0x45; 20])).unwrap();
        let packets = read_all(&mut reader);
        assert_eq!(packets, [&packet[..]], "{len}");
    }
}

// case B53
#[test]
fn the_longest_super_packet_of_the_least_segments_passes_within_the_bounds() {
    let (mut reader, _writer, offload, kernel) = device();
    let mut sizes: Vec<u16> = (48..1_448).step_by(200).collect();
    sizes.push(1_448);
    for size in sizes {
        let len = PACKET_BYTES_MAX - 40;
        nix::unistd::write(&kernel, &super_packet(len, size)).unwrap();
        nix::unistd::write(&kernel, &plain(&[0x45; 20])).unwrap();
        let packets = read_all(&mut reader);
        assert_eq!(packets.len(), len.div_ceil(usize::from(size)));
        assert!(payload_of(&packets) == tcp(len)[40..]);
        let right = |it: &BytesMut| checksum::upper_layer_valid(&IpPacket::parse(it).unwrap());
        assert!(packets.iter().all(|packet| right(packet) == Some(true)));
    }
    assert_eq!((offload.stats().split, offload.stats().refused), (8, 0));
}

// case B53
#[test]
fn nonsense_is_dropped_and_counted_and_the_reader_lives() {
    let (mut reader, _writer, offload, kernel) = device();
    let good = super_packet(5_000, 1_000);
    let mut nonsense = vec![
        vec![0; 1],
        vec![0; 10],
        vec![0xff; 9],
        vec![0xff; 10],
        vec![0xff; 2_000],
        good[..4_000].to_vec(),
        super_packet(5_000, 0),
    ];
    let mut outside = plain(&[0x45; 20]);
    // NEEDS_CSUM, from the packet's end.
    outside[0] = 1;
    outside[6..8].copy_from_slice(&20_u16.to_ne_bytes());
    nonsense.push(outside);
    for bytes in &nonsense {
        nix::unistd::write(&kernel, bytes).unwrap();
    }
    nix::unistd::write(&kernel, &good).unwrap();
    nix::unistd::write(&kernel, &plain(&[0x45; 20])).unwrap();
    let packets = read_all(&mut reader);
    assert_eq!(packets.len(), 5);
    assert_eq!(payload_of(&packets), tcp(5_000)[40..]);
    assert_eq!(offload.stats().refused, nonsense.len() as u64);
}

#[test]
fn a_run_is_written_as_one_and_a_packet_behind_zeros() {
    let (_reader, mut writer, offload, kernel) = device();
    let packets: Vec<Bytes> = (0..5)
        .map(|n| header().udp(1, if n < 4 { 2 } else { 3 }, &[7; 500]).into())
        .collect();
    assert_eq!(writer.write_batch(&packets).unwrap().written, 5);
    let mut heard = vec![0; 70_000];
    let length = nix::unistd::read(&kernel, &mut heard).unwrap();
    assert_eq!(length, 10 + 28 + 4 * 500);
    let virtio = VirtioHeader::decode(heard.first_chunk().unwrap()).unwrap();
    assert_eq!(
        (virtio.gso, virtio.gso_size, virtio.header_len),
        (Gso::Udp, 500, 28)
    );
    let length = nix::unistd::read(&kernel, &mut heard).unwrap();
    assert_eq!(heard[..length], plain(&packets[4]));
    assert_eq!(offload.stats().merged_packets, 4);
}
