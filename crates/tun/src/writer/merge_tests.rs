//! Merged writes: what a kernel that takes them gets, and what becomes of one that does not (case B50).

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use bytes::BytesMut;
use quell_packet::build::{Header, Segment};
use quell_packet::offload::Allowed;
use quell_packet::tcp::flags;

use super::*;
use crate::classify::errno_table::{EAGAIN, EBADFD, EINVAL, EIO};
use crate::raw::Wakeup;

/// A kernel that answers merged packets from a script, then well, and single ones always alike.
#[derive(Debug)]
struct Kernel {
    merged: VecDeque<Result<(), i32>>,
    single: Result<(), i32>,
    /// Bytes of each packet that was taken; of a merged one, those behind the virtio header.
    taken: Vec<Vec<u8>>,
    singles: usize,
    merges: usize,
}

impl RawDevice for Kernel {
    fn read(&mut self, _buffer: &mut BytesMut) -> Result<usize, i32> {
        unreachable!("a writer does not read")
    }

    fn write(&mut self, packet: &[u8]) -> Result<(), i32> {
        self.singles += 1;
        self.single?;
        self.taken.push(packet.to_vec());
        Ok(())
    }

    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> Result<(), i32> {
        self.merges += 1;
        self.merged.pop_front().unwrap_or(Ok(()))?;
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        self.taken.push(bytes[10..].to_vec());
        Ok(())
    }

    fn wait(&mut self, _interest: Interest, _limit: Option<Duration>) -> Result<Wakeup, i32> {
        Ok(Wakeup::Ready)
    }
}

fn writer(merged: &[Result<(), i32>], single: Result<(), i32>) -> Writer<Kernel> {
    let kernel = Kernel {
        merged: merged.iter().copied().collect(),
        single,
        taken: Vec::new(),
        singles: 0,
        merges: 0,
    };
    let offload = Offload::default();
    let all = Allowed {
        tcp: true,
        udp: true,
    };
    offload.switch_on(true, all);
    Writer::new(kernel, offload)
}

/// So many segments of TCP, then so many datagrams of UDP.
fn batch(tcp: u32, udp: u16) -> Vec<Bytes> {
    let [from, to] = ["10.0.0.1", "192.0.2.9"].map(|text| text.parse().unwrap());
    let segments = (0..tcp).map(|n| {
        let segment = Segment {
            sequence: n * 1_000,
            flags: flags::ACK,
            ..Segment::default()
        };
        Header::new(from, to).tcp(1, 2, &segment, &[7; 1_000])
    });
    let datagrams = (0..udp).map(|_| Header::new(from, to).udp(1, 2, &[7; 500]));
    segments.chain(datagrams).map(Bytes::from).collect()
}

fn write(writer: &mut Writer<Kernel>, packets: &[Bytes]) -> WriteReport {
    let report = writer.write_batch(packets).unwrap();
    assert_eq!(report.offered(), packets.len(), "conservation");
    report
}

#[test]
fn runs_go_as_one_and_count_as_their_packets() {
    let mut writer = writer(&[], Ok(()));
    let report = write(&mut writer, &batch(40, 10));
    assert_eq!((report.written, report.dropped.total()), (50, 0));
    assert_eq!((writer.device.merges, writer.device.singles), (2, 0));
    let lengths: Vec<_> = writer.device.taken.iter().map(Vec::len).collect();
    assert_eq!(lengths, [40 + 40 * 1_000, 28 + 10 * 500]);
    let stats = writer.offload.stats();
    assert_eq!(
        (stats.merged, stats.merged_packets, stats.fallbacks),
        (2, 50, 0)
    );
}

#[test]
fn a_batch_of_any_length_is_looked_at_piece_by_piece() {
    let mut writer = writer(&[], Ok(()));
    let one = batch(1, 0);
    let packets: Vec<_> = one.iter().cycle().take(10_000).cloned().collect();
    assert_eq!(write(&mut writer, &packets).written, 10_000);
    let report = write(&mut writer, &batch(0, 130));
    assert_eq!((report.written, writer.device.merges), (130, 3));
}

// case B50: nothing is lost, nothing goes twice, and no second merged packet is tried.
#[test]
fn a_refused_merge_goes_packet_by_packet_and_is_the_last() {
    for errno in [EINVAL, EIO, 199] {
        let mut writer = writer(&[Err(errno)], Ok(()));
        let packets = batch(20, 0);
        assert_eq!(write(&mut writer, &packets).written, 20);
        let taken: Vec<_> = writer.device.taken.iter().map(Vec::as_slice).collect();
        assert_eq!(taken, packets.iter().map(|it| &it[..]).collect::<Vec<_>>());
        let stats = writer.offload.stats();
        assert_eq!(
            (stats.fallbacks, stats.merges_tcp, stats.merges_udp),
            (1, false, true)
        );

        assert_eq!(write(&mut writer, &batch(20, 10)).written, 30);
        assert_eq!((writer.device.singles, writer.device.merges), (40, 2));
        assert_eq!(writer.offload.stats().fallbacks, 1);
    }
}

// An interface that is down refuses merged packets, too, and is up again later.
#[test]
fn what_refuses_single_packets_too_does_not_end_merging() {
    let mut writer = writer(&[Err(EIO)], Err(EIO));
    let report = write(&mut writer, &batch(20, 10));
    assert_eq!((report.written, report.dropped.down), (0, 30));
    assert_eq!(writer.device.singles, 1, "and is not asked for each packet");
    assert_eq!(writer.offload.stats().fallbacks, 0);

    writer.device.single = Err(EINVAL);
    writer.device.merged = [Err(EINVAL)].into();
    assert_eq!(write(&mut writer, &batch(20, 0)).dropped.invalid, 20);
    assert_eq!(writer.offload.stats().fallbacks, 0);

    writer.device.single = Ok(());
    assert_eq!(write(&mut writer, &batch(20, 10)).written, 30);
    assert!(writer.offload.stats().merges_tcp);
}

#[test]
fn a_full_queue_drops_a_run_as_all_its_packets_and_ends_nothing() {
    let mut writer = writer(&[Err(EAGAIN); 16], Ok(()));
    let report = write(&mut writer, &batch(20, 10));
    assert_eq!((report.written, report.dropped.queue_full), (10, 20));
    assert_eq!(writer.offload.stats().fallbacks, 0);
}

// case B81
#[test]
fn a_device_that_goes_away_in_a_run_takes_the_rest_with_it() {
    let mut writer = writer(&[Ok(()), Err(EBADFD)], Ok(()));
    let report = write(&mut writer, &batch(20, 10));
    assert_eq!((report.written, report.dropped.gone), (20, 10));
    assert!(matches!(
        writer.write_batch(&batch(1, 0)),
        Err(TunError::Fatal { .. })
    ));
}
