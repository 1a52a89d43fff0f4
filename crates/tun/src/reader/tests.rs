//! The reading loop against devices that fail in every way.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

use super::*;
use crate::classify::END_OF_FILE;
use crate::classify::errno_table::{EAGAIN, EBADFD, EINTR, EIO, ENOMEM};
use crate::device::PACKET_BYTES_MAX;
use crate::patience::{FAILURES_MAX, IDLE_TURNS_MAX};

const EUNKNOWN: i32 = 199;

/// Plays a script, then repeats its last answer for ever. No wait takes time, so the tests count turns, not seconds.
#[derive(Debug)]
struct Script {
    reads: VecDeque<Result<usize, i32>>,
    for_ever: Result<usize, i32>,
    wait: Result<Wakeup, i32>,
    stop_at_wait: Option<(u32, StopHandle)>,
    stop_at_read: Option<(u32, StopHandle)>,
    calls: u32,
    waits: u32,
    pauses: Vec<Duration>,
}

impl Script {
    fn new(reads: &[Result<usize, i32>], for_ever: Result<usize, i32>) -> Self {
        Self {
            reads: reads.iter().copied().collect(),
            for_ever,
            wait: Ok(Wakeup::Ready),
            stop_at_wait: None,
            stop_at_read: None,
            calls: 0,
            waits: 0,
            pauses: Vec::new(),
        }
    }
}

impl RawDevice for Script {
    fn read(&mut self, buffer: &mut BytesMut) -> Result<usize, i32> {
        self.calls += 1;
        if let Some((at, stop)) = &self.stop_at_read
            && self.calls == *at
        {
            stop.stop();
        }
        let bytes = self.reads.pop_front().unwrap_or(self.for_ever)?;
        buffer.resize(buffer.len() + bytes, 0x45);
        Ok(bytes)
    }

    fn write(&mut self, _packet: &[u8]) -> Result<(), i32> {
        unreachable!("a reader does not write")
    }

    fn write_parts(&mut self, _parts: &[IoSlice<'_>]) -> Result<(), i32> {
        unreachable!("nothing is merged")
    }

    fn wait(&mut self, interest: Interest, limit: Option<Duration>) -> Result<Wakeup, i32> {
        self.waits += 1;
        if let Some((at, stop)) = &self.stop_at_wait
            && self.waits == *at
        {
            stop.stop();
            return Ok(Wakeup::Stopped);
        }
        match interest {
            Interest::Pause => {
                self.pauses.push(limit.unwrap());
                Ok(Wakeup::TimedOut)
            }
            Interest::Readable | Interest::Writable => self.wait,
        }
    }
}

fn reader(script: Script) -> Reader<Script> {
    Reader::new(script, StopHandle::with_channel().0)
}

fn is_fatal(result: &Result<ReadOutcome, TunError>) -> bool {
    matches!(result, Err(TunError::Fatal { .. }))
}

// case B81
#[test]
fn a_device_that_is_gone_ends_the_reader_at_its_first_call() {
    for errno in [END_OF_FILE, EBADFD] {
        let mut reader = reader(Script::new(&[], Err(errno)));
        let mut batch = Vec::new();
        assert!(is_fatal(&reader.read_batch(&mut batch)));
        assert!(
            is_fatal(&reader.read_batch(&mut batch)),
            "and says so again"
        );
        assert_eq!(reader.device.calls, 1, "without asking the device again");
        assert_eq!(reader.device.waits, 0);
        assert!(batch.is_empty());
    }
}

// case B81
#[test]
fn interrupted_for_ever_ends_within_a_bound_and_pauses() {
    let mut reader = reader(Script::new(&[], Err(EINTR)));
    assert!(is_fatal(&reader.read_batch(&mut Vec::new())));
    assert_eq!(reader.device.calls, IDLE_TURNS_MAX + FAILURES_MAX + 1);
    assert_eq!(reader.device.pauses.len(), FAILURES_MAX as usize);
    assert!(reader.device.pauses.iter().sum::<Duration>() > Duration::from_secs(5));
}

// case B81: poll says ready, read says nothing there, for ever.
#[test]
fn ready_for_nothing_for_ever_ends_within_a_bound() {
    let mut reader = reader(Script::new(&[], Err(EAGAIN)));
    assert!(is_fatal(&reader.read_batch(&mut Vec::new())));
    assert_eq!(reader.device.calls, IDLE_TURNS_MAX + FAILURES_MAX + 1);
}

// case B81
#[test]
fn a_poll_that_fails_for_ever_ends_within_a_bound() {
    let mut script = Script::new(&[], Err(EAGAIN));
    script.wait = Err(EUNKNOWN);
    let mut broken = reader(script);
    assert!(is_fatal(&broken.read_batch(&mut Vec::new())));
    assert_eq!(broken.device.pauses.len(), FAILURES_MAX as usize);

    let mut script = Script::new(&[], Err(EAGAIN));
    script.wait = Err(crate::classify::errno_table::EBADF);
    let mut closed = reader(script);
    assert!(is_fatal(&closed.read_batch(&mut Vec::new())));
    assert_eq!(closed.device.calls, 1);
}

// case B81
#[test]
fn an_unknown_errno_is_borne_sixteen_times_in_a_row_and_not_seventeen() {
    let failures = FAILURES_MAX as usize;
    let mut lived: Vec<_> = vec![Err(EUNKNOWN); failures];
    lived.push(Ok(20));
    let mut borne = reader(Script::new(&lived, Err(EAGAIN)));
    assert_eq!(
        borne.read_batch(&mut Vec::new()).unwrap(),
        ReadOutcome::Packets
    );

    let mut died: Vec<_> = vec![Err(EUNKNOWN); failures + 1];
    died.push(Ok(20));
    let mut given_up = reader(Script::new(&died, Err(EAGAIN)));
    assert!(is_fatal(&given_up.read_batch(&mut Vec::new())));
    assert_eq!(given_up.device.pauses.len(), failures);
}

#[test]
fn a_packet_between_failures_starts_the_row_anew() {
    let mut reads = Vec::new();
    for _ in 0..10 {
        reads.extend(vec![Err(EUNKNOWN); FAILURES_MAX as usize]);
        reads.push(Ok(20));
        reads.push(Err(EAGAIN));
    }
    let mut reader = reader(Script::new(&reads, Err(EBADFD)));
    for _ in 0..10 {
        assert_eq!(
            reader.read_batch(&mut Vec::new()).unwrap(),
            ReadOutcome::Packets
        );
    }
}

// case B81
#[test]
fn down_or_short_of_memory_is_paused_for_and_never_fatal() {
    for errno in [EIO, ENOMEM] {
        let mut script = Script::new(&vec![Err(errno); 1_000], Ok(20));
        script.wait = Ok(Wakeup::TimedOut);
        let mut reader = reader(script);
        assert_eq!(
            reader.read_batch(&mut Vec::new()).unwrap(),
            ReadOutcome::Packets
        );
        assert_eq!(reader.device.pauses.len(), 1_000, "one pause a failure");
        assert_eq!(reader.device.pauses[999], crate::patience::PAUSE_MAX);
    }
}

// case B81
#[test]
fn however_often_it_fails_a_reader_writes_one_line_a_minute() {
    for errno in [EIO, EUNKNOWN, EINTR, EBADFD] {
        let script = Script::new(&vec![Err(errno); 1_000], Err(EBADFD));
        let mut reader = reader(script);
        let lines = crate::log_gate::counting::lines(|| {
            for _ in 0..100 {
                assert!(is_fatal(&reader.read_batch(&mut Vec::new())));
            }
        });
        let expected = usize::from(matches!(errno, EIO | EUNKNOWN));
        assert_eq!(lines, expected, "{errno}");
    }
}

#[test]
fn what_was_read_before_the_end_is_delivered_first() {
    let mut reader = reader(Script::new(&[Ok(20), Ok(30)], Err(EBADFD)));
    let mut batch = Vec::new();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    assert_eq!(
        batch.iter().map(BytesMut::len).collect::<Vec<_>>(),
        [20, 30]
    );
    assert!(is_fatal(&reader.read_batch(&mut batch)));
    assert_eq!(batch.len(), 2);
    assert_eq!(reader.device.calls, 3);
}

#[test]
fn a_batch_holds_64_packets_and_not_65() {
    let mut reader = reader(Script::new(&[Ok(1_500); 65], Err(EAGAIN)));
    let mut batch = vec![BytesMut::from(&b"kept"[..])];
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    assert_eq!(batch.len(), 1 + BATCH_PACKETS_MAX);
    assert_eq!(&batch[0][..], b"kept", "what was there stays");
    batch.clear();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    assert_eq!(batch.len(), 1);
}

#[test]
fn the_longest_packets_are_read_whole_and_a_batch_stays_in_one_slab() {
    let mut reader = reader(Script::new(&[Ok(PACKET_BYTES_MAX); 5], Err(EAGAIN)));
    let mut kept = Vec::new();
    for expected in [2, 2, 1] {
        let mut batch = Vec::new();
        assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
        assert_eq!(batch.len(), expected);
        kept.extend(batch);
    }
    assert!(kept.iter().all(|packet| packet.len() == PACKET_BYTES_MAX));
}

#[test]
fn a_batch_that_was_used_up_gives_its_memory_to_the_next() {
    let mut reader = reader(Script::new(&[], Ok(1_500)));
    let mut at = || {
        let mut batch = Vec::new();
        reader.read_batch(&mut batch).unwrap();
        batch[0].as_ptr() as usize
    };
    assert_eq!(at(), at());
}

#[test]
fn a_stop_ends_a_wait_a_pause_and_each_later_call() {
    for (errno, at) in [(EAGAIN, 1), (EUNKNOWN, 3)] {
        let (stop, _woken) = StopHandle::with_channel();
        let mut script = Script::new(&[], Err(errno));
        script.stop_at_wait = Some((at, stop.clone()));
        let mut reader = Reader::new(script, stop);
        assert_eq!(
            reader.read_batch(&mut Vec::new()).unwrap(),
            ReadOutcome::Stopped
        );
        let calls = reader.device.calls;
        assert_eq!(
            reader.read_batch(&mut Vec::new()).unwrap(),
            ReadOutcome::Stopped
        );
        assert_eq!(reader.device.calls, calls);
    }
}

#[test]
fn a_stop_ends_a_reader_whose_device_never_runs_dry() {
    let (stop, _woken) = StopHandle::with_channel();
    let mut reader = Reader::new(Script::new(&[], Ok(100)), stop.clone());
    let mut batch = Vec::new();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    stop.stop();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Stopped);
    assert_eq!(batch.len(), BATCH_PACKETS_MAX);
}

// case B53: what was dropped below is no packet, no end, and no reason to pause.
#[test]
fn packets_that_the_device_drops_leave_the_reader_alive() {
    let mut reads = vec![Ok(0); 3 * BATCH_PACKETS_MAX + 1];
    reads.push(Ok(40));
    let mut reader = reader(Script::new(&reads, Err(EAGAIN)));
    let mut batch = Vec::new();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    assert_eq!(batch.iter().map(|it| it.len()).collect::<Vec<_>>(), [40]);
    assert_eq!((reader.device.waits, reader.device.pauses.len()), (0, 0));
}

// A row of them is left for the stop signal.
#[test]
fn a_device_that_drops_for_ever_can_be_stopped() {
    let (stop, _) = StopHandle::with_channel();
    let mut script = Script::new(&[], Ok(0));
    script.stop_at_read = Some((1_000, stop.clone()));
    let mut reader = Reader::new(script, stop);
    assert_eq!(
        reader.read_batch(&mut Vec::new()).unwrap(),
        ReadOutcome::Stopped
    );
    assert!(reader.device.calls < 1_000 + BATCH_PACKETS_MAX as u32);
}
