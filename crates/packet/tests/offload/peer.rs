//! The same super-packets in the hands of another implementation (tun-rs).
//!
//! What we split it splits alike, byte for byte, and what we merged it takes apart into what went in. It was written from
//! other sources than ours, so that one who misread the kernel's header would stand alone.

use proptest::prelude::*;
use quell_packet::build::{Header, Segment};
use quell_packet::offload::{Allowed, Coalescer, Gso, MergedHeader, VirtioHeader, virtio};
use quell_packet::tcp::flags;
use quell_packet::{IpPacket, TcpView, protocol};
use tun_rs::VirtioNetHdr;

use super::split::{bytes, expected_tcp, gso_of, left_to_us, split_all, v4, v6};

/// Segments that the other one has buffers for.
const SEGMENTS_MAX: usize = 512;

/// The other one's segments. Its header says how long the headers are, where ours is a hint that nobody reads.
fn split_by_the_other(header: &VirtioHeader, packet: &[u8]) -> Vec<Vec<u8>> {
    let ip = IpPacket::parse(packet).unwrap();
    let start = usize::from(header.checksum_start);
    let header_len = match ip.protocol() {
        protocol::TCP => start + TcpView::parse(&packet[start..]).unwrap().header_len(),
        _ => start + 8,
    };
    let theirs = VirtioNetHdr {
        flags: 1,
        gso_type: header.encode()[1],
        hdr_len: u16::try_from(header_len).unwrap(),
        gso_size: header.gso_size,
        csum_start: header.checksum_start,
        csum_offset: header.checksum_offset,
    };
    let mut buffers = vec![vec![0; packet.len()]; SEGMENTS_MAX];
    let mut lens = [0; SEGMENTS_MAX];
    let is_v6 = matches!(ip, IpPacket::V6(_));
    let mut packet = packet.to_vec();
    let count = tun_rs::gso_split(&mut packet, theirs, &mut buffers, &mut lens, 0, is_v6);
    let segments = buffers.into_iter().zip(lens).take(count.unwrap());
    segments
        .map(|(mut buffer, len)| {
            buffer.truncate(len);
            buffer
        })
        .collect()
}

fn header(is_v6: bool, identification: u16) -> Header<'static> {
    match is_v6 {
        true => v6(),
        false => Header {
            identification,
            ..v4()
        },
    }
}

prop_compose! {
    fn a_segment()(sequence: u32, acknowledgement: u32, flags: u8, window: u16, long: bool) -> Segment<'static> {
        let options: &[u8] = if long { &[1, 1, 8, 10, 0, 1, 2, 3, 0, 4, 5, 6] } else { &[] };
        Segment { sequence, acknowledgement, flags, window, options }
    }
}

proptest! {
    // case B53
    #[test]
    fn tcp_is_split_alike(
        is_v6: bool, identification: u16, tcp in a_segment(), len in 1..40_000_usize, size in 100..1_500_u16,
    ) {
        let header = header(is_v6, identification);
        let whole = header.tcp(4_000, 443, &tcp, &bytes(len));
        let (virtio, packet) = left_to_us(whole, gso_of(&header), size);
        prop_assert_eq!(split_all(&virtio, &packet), split_by_the_other(&virtio, &packet));
    }

    // case B53
    #[test]
    fn udp_is_split_alike(is_v6: bool, identification: u16, len in 1..40_000_usize, size in 100..1_500_u16) {
        let whole = header(is_v6, identification).udp(4_000, 443, &bytes(len));
        let (virtio, packet) = left_to_us(whole, Gso::Udp, size);
        prop_assert_eq!(split_all(&virtio, &packet), split_by_the_other(&virtio, &packet));
    }

    // case B56
    #[test]
    fn what_we_merge_it_takes_apart(
        is_v6: bool, identification: u16, tcp in a_segment(), len in 2_000..40_000_usize, size in 700..1_448_usize,
    ) {
        let tcp = Segment { flags: flags::ACK | (tcp.flags & flags::PSH), ..tcp };
        let packets = expected_tcp(header(is_v6, identification), tcp, &bytes(len), size);
        let allowed = Allowed { tcp: true, udp: true };
        let mut coalescer = Coalescer::new();
        let mut merged = 0;
        for run in coalescer.plan(&packets, allowed) {
            let Some(head) = MergedHeader::of(run, &packets) else {
                continue;
            };
            let (virtio, headers) = head.bytes().split_first_chunk::<{ virtio::HEADER_BYTES }>().unwrap();
            let mut whole = headers.to_vec();
            let parts: Vec<_> = run.places().map(|place| packets[place].clone()).collect();
            parts.iter().for_each(|part| whole.extend_from_slice(&part[run.header_len()..]));
            let virtio = VirtioHeader::decode(virtio).unwrap();
            prop_assert_eq!(split_by_the_other(&virtio, &whole), parts);
            merged += run.count();
        }
        prop_assert!(merged > 1, "{} of {} packets", merged, packets.len());
    }
}
