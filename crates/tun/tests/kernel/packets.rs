//! Packets built and read by hand, so that no code under test judges itself.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quell_tun::{ReadOutcome, TunReader};

/// Reads until a packet satisfies the test; packets of the kernel's own (router solicitations) are passed over.
pub(crate) fn read_until(reader: &mut impl TunReader, wanted: impl Fn(&[u8]) -> bool) -> BytesMut {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut batch = Vec::new();
    while Instant::now() < deadline {
        assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
        if let Some(packet) = batch.drain(..).find(|packet| wanted(packet)) {
            return packet;
        }
    }
    panic!("the packet did not come");
}

/// A UDP packet, IPv4 or IPv6 by its addresses.
pub(crate) fn udp(source: (IpAddr, u16), destination: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    let length = u16::try_from(8 + payload.len()).unwrap();
    datagram.extend(source.1.to_be_bytes());
    datagram.extend(destination.1.to_be_bytes());
    datagram.extend(length.to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);

    let mut pseudo = Vec::new();
    match (source.0, destination.0) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            pseudo.extend(from.octets());
            pseudo.extend(to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            pseudo.extend(from.octets());
            pseudo.extend(to.octets());
        }
        _ => panic!("two families"),
    }
    let addresses = pseudo.clone();
    pseudo.extend([0, 17]);
    pseudo.extend(length.to_be_bytes());
    pseudo.extend(&datagram);
    let checksum = checksum(&pseudo);
    datagram[6..8].copy_from_slice(&checksum.to_be_bytes());

    let mut packet = Vec::new();
    if source.0.is_ipv4() {
        let total = 20 + length;
        packet.extend([0x45, 0]);
        packet.extend(total.to_be_bytes());
        packet.extend([0, 1, 0, 0, 64, 17, 0, 0]);
        packet.extend(addresses);
        let sum = self::checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet.extend([0x60, 0, 0, 0]);
        packet.extend(length.to_be_bytes());
        packet.extend([17, 64]);
        packet.extend(addresses);
    }
    packet.extend(datagram);
    packet
}

/// The payload, when the packet is UDP to that port.
pub(crate) fn udp_payload(packet: &[u8], port: u16) -> Option<&[u8]> {
    let (protocol, transport) = match packet[0] >> 4 {
        4 => (packet[9], &packet[20..]),
        6 => (packet[6], &packet[40..]),
        _ => return None,
    };
    (protocol == 17 && transport[2..4] == port.to_be_bytes()).then(|| &transport[8..])
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}
