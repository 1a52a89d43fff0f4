//! The writing loop: every packet accounted for, every loop bounded.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use bytes::BytesMut;

use super::*;
use crate::classify::END_OF_FILE;
use crate::classify::errno_table::{EAGAIN, EBADFD, EINTR, EINVAL, EIO, ENOBUFS};
use crate::device::DropCounts;
use crate::raw::Wakeup;

const EUNKNOWN: i32 = 199;

/// Plays a script, then repeats its last answer for ever. A wait takes the time it is told to, if `waits_last`.
#[derive(Debug)]
struct Script {
    writes: VecDeque<Result<(), i32>>,
    for_ever: Result<(), i32>,
    wait: Result<Wakeup, i32>,
    waits_last: bool,
    calls: u32,
    waits: Vec<(Interest, Duration)>,
}

impl Script {
    fn new(writes: &[Result<(), i32>], for_ever: Result<(), i32>) -> Self {
        Self {
            writes: writes.iter().copied().collect(),
            for_ever,
            wait: Ok(Wakeup::Ready),
            waits_last: false,
            calls: 0,
            waits: Vec::new(),
        }
    }
}

impl RawDevice for Script {
    fn read(&mut self, _buffer: &mut BytesMut) -> Result<usize, i32> {
        unreachable!("a writer does not read")
    }

    fn write(&mut self, _packet: &[u8]) -> Result<(), i32> {
        self.calls += 1;
        self.writes.pop_front().unwrap_or(self.for_ever)
    }

    fn write_parts(&mut self, _parts: &[IoSlice<'_>]) -> Result<(), i32> {
        unreachable!("nothing is merged")
    }

    fn wait(&mut self, interest: Interest, limit: Option<Duration>) -> Result<Wakeup, i32> {
        let limit = limit.unwrap();
        self.waits.push((interest, limit));
        if self.waits_last {
            std::thread::sleep(limit);
            return Ok(Wakeup::TimedOut);
        }
        self.wait
    }
}

fn plain(script: Script) -> Writer<Script> {
    Writer::new(script, Offload::default())
}

fn packets(count: usize) -> Vec<Bytes> {
    vec![Bytes::from_static(b"E..................."); count]
}

fn report(writer: &mut Writer<Script>, offered: usize) -> WriteReport {
    let report = writer.write_batch(&packets(offered)).unwrap();
    assert_eq!(report.offered(), offered, "conservation");
    report
}

#[test]
fn a_batch_that_fits_is_written_with_one_call_a_packet() {
    let mut writer = plain(Script::new(&[], Ok(())));
    assert_eq!(report(&mut writer, 64).written, 64);
    assert_eq!(writer.device.calls, 64);
    assert_eq!(report(&mut writer, 0), WriteReport::default());
}

// case B81
#[test]
fn a_device_that_is_gone_ends_the_writer_at_its_first_call() {
    for errno in [END_OF_FILE, EBADFD] {
        let mut writer = plain(Script::new(&[], Err(errno)));
        for _ in 0..3 {
            let result = writer.write_batch(&packets(64));
            assert!(matches!(result, Err(TunError::Fatal { .. })));
        }
        assert_eq!(writer.device.calls, 1);
    }
}

#[test]
fn a_batch_cut_off_by_the_end_is_reported_and_the_next_call_says_why() {
    let mut writer = plain(Script::new(&[Ok(()), Ok(())], Err(EBADFD)));
    let cut = report(&mut writer, 10);
    assert_eq!((cut.written, cut.dropped.gone), (2, 8));
    assert!(matches!(
        writer.write_batch(&packets(1)),
        Err(TunError::Fatal { .. })
    ));
    assert_eq!(writer.device.calls, 3);
}

#[test]
fn a_full_queue_is_waited_for_and_then_written() {
    let mut writer = plain(Script::new(&[Err(EAGAIN)], Ok(())));
    assert_eq!(report(&mut writer, 3).written, 3);
    assert_eq!(writer.device.waits, [(Interest::Writable, WAIT_MAX)]);
}

#[test]
fn a_queue_that_stays_full_costs_a_batch_its_wait_once_and_drops() {
    let mut script = Script::new(&[], Err(EAGAIN));
    script.waits_last = true;
    let mut writer = plain(script);
    let started = Instant::now();
    let full = report(&mut writer, 64);
    assert_eq!(full.dropped.queue_full, 64);
    assert!(started.elapsed() < WAIT_MAX * 10, "{:?}", started.elapsed());
    assert_eq!(writer.device.waits.len(), 1, "one packet waits for all");
    assert!(writer.device.calls <= 64 + 1);
}

// case B81: "ready" and "full" in turn, without time passing.
#[test]
fn a_device_that_lies_about_room_is_asked_a_bounded_number_of_times() {
    let mut writer = plain(Script::new(&[], Err(ENOBUFS)));
    let full = report(&mut writer, 4);
    assert_eq!(full.dropped.queue_full, 4);
    assert!(writer.device.calls <= 4 * ATTEMPTS_MAX);
    assert!(
        writer.device.waits[1..]
            .iter()
            .any(|(interest, _)| *interest == Interest::Pause)
    );
}

#[test]
fn a_wait_that_fails_drops_at_once() {
    let mut script = Script::new(&[], Err(EAGAIN));
    script.wait = Err(EUNKNOWN);
    let mut writer = plain(script);
    assert_eq!(report(&mut writer, 5).dropped.queue_full, 5);
    assert_eq!(writer.device.calls, 5);
}

// case B81
#[test]
fn interrupted_for_ever_is_bounded() {
    let mut writer = plain(Script::new(&[], Err(EINTR)));
    assert_eq!(report(&mut writer, 2).dropped.failed, 2);
    assert_eq!(writer.device.calls, 2 * ATTEMPTS_MAX);

    let mut retried = plain(Script::new(
        &[Err(EINTR); ATTEMPTS_MAX as usize - 1],
        Ok(()),
    ));
    assert_eq!(report(&mut retried, 1).written, 1);
}

#[test]
fn an_invalid_packet_is_dropped_alone() {
    let mut writer = plain(Script::new(&[Ok(()), Err(EINVAL)], Ok(())));
    let mixed = report(&mut writer, 3);
    assert_eq!((mixed.written, mixed.dropped.invalid), (2, 1));
}

#[test]
fn empty_and_overlong_packets_never_reach_the_device() {
    let mut writer = plain(Script::new(&[], Ok(())));
    let longest = Bytes::from(vec![0x45; PACKET_BYTES_MAX]);
    let overlong = Bytes::from(vec![0x45; PACKET_BYTES_MAX + 1]);
    let report = writer
        .write_batch(&[Bytes::new(), longest, overlong])
        .unwrap();
    assert_eq!((report.written, report.dropped.invalid), (1, 2));
    assert_eq!(writer.device.calls, 1);
}

#[test]
fn a_device_that_is_down_is_asked_once_a_batch_and_comes_back() {
    let mut writer = plain(Script::new(&[Ok(()), Err(EIO)], Ok(())));
    let down = report(&mut writer, 64);
    assert_eq!((down.written, down.dropped.down), (1, 63));
    assert_eq!(writer.device.calls, 2);
    assert_eq!(report(&mut writer, 64).written, 64);
}

// case B81
#[test]
fn unknown_failures_end_the_writer_after_sixteen_whole_batches() {
    let mut writer = plain(Script::new(&[], Err(EUNKNOWN)));
    for _ in 0..FAILED_BATCHES_MAX {
        assert_eq!(report(&mut writer, 8).dropped.failed, 8);
    }
    assert!(matches!(
        writer.write_batch(&packets(1)),
        Err(TunError::Fatal { .. })
    ));
}

// case B81
#[test]
fn however_often_it_fails_a_writer_writes_one_line_a_minute() {
    for errno in [EUNKNOWN, EIO, EAGAIN, EINVAL, EBADFD] {
        let mut writer = plain(Script::new(&[], Err(errno)));
        let lines = crate::log_gate::counting::lines(|| {
            for _ in 0..100 {
                drop(writer.write_batch(&packets(8)));
            }
        });
        assert_eq!(lines, usize::from(errno == EUNKNOWN), "{errno}");
    }
}

#[test]
fn a_packet_with_a_strange_errno_cannot_end_a_tunnel_that_works() {
    let mut writer = plain(Script::new(&[], Ok(())));
    for _ in 0..10 {
        for _ in 0..FAILED_BATCHES_MAX - 1 {
            writer.device.writes.push_back(Err(EUNKNOWN));
            assert_eq!(report(&mut writer, 1).dropped.failed, 1);
        }
        writer.device.writes.extend([Err(EUNKNOWN), Ok(())]);
        let mixed = report(&mut writer, 2);
        assert_eq!((mixed.written, mixed.dropped.failed), (1, 1));
    }
}

#[test]
fn drop_counts_add_up_and_each_has_its_label() {
    let counts = DropCounts {
        queue_full: 1,
        invalid: 2,
        down: 4,
        failed: 8,
        gone: 16,
    };
    assert_eq!(counts.total(), 31);
    let labels: std::collections::HashSet<_> = counts.iter().map(|(label, _)| label).collect();
    assert_eq!(labels.len(), 5);
}
