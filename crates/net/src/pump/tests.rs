//! What the outlet says it takes, before a writer that stands still and one that goes on; and who writes.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc;

use quell_tun::channel;

use super::*;

/// Writes a batch each time that it is told to.
struct Slow(mpsc::Receiver<()>);

impl TunWriter for Slow {
    fn write_batch(&mut self, batch: &[Bytes]) -> Result<WriteReport, TunError> {
        let mut report = WriteReport::default();
        if self.0.recv().is_ok() {
            report.written = batch.len();
        }
        Ok(report)
    }
}

#[test]
fn what_there_is_room_for_shrinks_to_nothing_and_grows_when_the_writer_takes_a_batch() {
    const BATCH: usize = quell_tun::BATCH_PACKETS_MAX;
    let (device, _handle) = channel::pair(8);
    let (reader, _, stop) = device.split();
    let (go, told) = mpsc::channel();
    let (pump, inlet, mut outlet) = start(Box::new(reader), Box::new(Slow(told)), stop).unwrap();
    assert_eq!(outlet.free(), BATCHES_MAX * BATCH);
    // The writer holds one batch, the channel as many as it may.
    let packet = Bytes::from_static(b"packet");
    outlet.push(packet.clone());
    outlet.flush();
    while outlet.free() < BATCHES_MAX * BATCH {
        thread::yield_now();
    }
    for left in (0..BATCHES_MAX * BATCH).rev() {
        outlet.push(packet.clone());
        assert_eq!(outlet.free(), left);
    }
    outlet.push(packet);
    assert_eq!((outlet.free(), outlet.is_waiting()), (0, true));
    go.send(()).unwrap();
    while outlet.free() == 0 {
        thread::yield_now();
    }
    // One that waits has a place in it already.
    assert_eq!(outlet.free(), BATCH - 1);
    drop(go);
    outlet.close();
    drop(inlet);
    pump.stop().unwrap();
}

/// Notes what was written by whom.
struct Noting {
    who: &'static str,
    written: Arc<parking_lot::Mutex<Vec<(&'static str, Bytes)>>>,
    go: Option<mpsc::Receiver<()>>,
    has_prompt: bool,
}

impl TunWriter for Noting {
    fn write_batch(&mut self, batch: &[Bytes]) -> Result<WriteReport, TunError> {
        if let Some(go) = &self.go {
            let _ = go.recv();
        }
        let noted = batch.iter().map(|packet| (self.who, packet.clone()));
        self.written.lock().extend(noted);
        Ok(WriteReport {
            written: batch.len(),
            ..WriteReport::default()
        })
    }

    fn prompt(&mut self) -> Option<Box<dyn TunWriter>> {
        std::mem::take(&mut self.has_prompt).then(|| -> Box<dyn TunWriter> {
            Box::new(Self {
                who: "engine",
                written: Arc::clone(&self.written),
                go: None,
                has_prompt: false,
            })
        })
    }
}

#[test]
fn few_packets_are_written_by_the_engine_and_never_before_those_of_the_thread() {
    let (device, _handle) = channel::pair(8);
    let (reader, _, stop) = device.split();
    let (go, told) = mpsc::channel();
    let written = Arc::default();
    let writer = Noting {
        who: "thread",
        written: Arc::clone(&written),
        go: Some(told),
        has_prompt: true,
    };
    let (pump, inlet, mut outlet) = start(Box::new(reader), Box::new(writer), stop).unwrap();
    let push = |outlet: &mut Outlet, numbers: std::ops::Range<usize>| {
        for number in numbers {
            outlet.push(Bytes::from(vec![number as u8]));
        }
        outlet.flush();
    };
    let by = |who: &str| written.lock().iter().filter(|(by, _)| *by == who).count();
    push(&mut outlet, 0..PROMPT_PACKETS_MAX);
    assert_eq!(by("engine"), PROMPT_PACKETS_MAX, "at once");
    // One more is the thread's, and as long as it writes, so is all that follows.
    push(&mut outlet, 8..8 + PROMPT_PACKETS_MAX + 1);
    push(&mut outlet, 17..18);
    assert_eq!(by("engine"), PROMPT_PACKETS_MAX);
    go.send(()).unwrap();
    go.send(()).unwrap();
    while outlet.done.load(Ordering::Acquire) < 2 {
        thread::yield_now();
    }
    push(&mut outlet, 18..19);
    let numbers: Vec<usize> = written.lock().iter().map(|(_, it)| it[0].into()).collect();
    assert_eq!(numbers, (0..19).collect::<Vec<_>>(), "in their order");
    assert_eq!(by("engine"), PROMPT_PACKETS_MAX + 1);
    let counters = pump.counters();
    assert_eq!((counters.written, counters.in_flight), (19, 0));
    drop((go, inlet));
    outlet.close();
    pump.stop().unwrap();
}

/// A TUN whose kernel is the other end of a socket pair that keeps packet boundaries.
fn tun() -> (quell_tun::os::TunDevice, std::os::fd::OwnedFd) {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
    let (ours, kernel) = pair.unwrap();
    let device = quell_tun::os::TunDevice::from_any_fd(ours).unwrap();
    (device, kernel)
}

#[tokio::test]
async fn a_quiet_device_is_read_by_the_engine_and_a_load_by_the_thread_in_order() {
    let (device, kernel) = tun();
    let (reader, writer, stop) = device.split();
    let (pump, mut inlet, outlet) = start(Box::new(reader), Box::new(writer), stop).unwrap();
    let (mut sent, mut received) = (0_u32, 0_u32);
    let (mut turns, mut loads) = (0, 0);
    for round in 0..40_u64 {
        // Waits for a word of the thread; a device that is quiet is the engine's.
        let quiet = tokio::time::timeout(20 * quell_tun::QUIET_AFTER, inlet.receive()).await;
        assert!(quiet.is_err(), "nothing was sent");
        turns += u32::from(inlet.is_reading());
        let few_or_many = if round % 2 == 0 { 2 } else { 200 };
        for _ in 0..few_or_many {
            let mut packet = vec![0x45];
            packet.extend(sent.to_be_bytes());
            // What the kernel's queue does not take was never sent.
            sent += u32::from(nix::unistd::write(&kernel, &packet).is_ok());
        }
        while received < sent {
            let batch = inlet.receive().await.unwrap();
            for packet in &batch {
                assert_eq!(packet[1..], received.to_be_bytes(), "in order");
                received += 1;
            }
            if batch.len() > PROMPT_PACKETS_MAX {
                loads += 1;
                assert!(!inlet.is_reading(), "a load is the thread's");
            }
            inlet.recycle(batch);
        }
    }
    assert_eq!(received, sent);
    assert_eq!(turns, 40, "each pause makes it the engine's turn");
    assert!(loads >= 20, "{loads}");
    pump.stop_reading();
    drop((inlet, outlet));
    pump.stop().unwrap();
}

#[tokio::test]
async fn what_is_put_back_comes_first_and_nothing_is_lost() {
    const PACKETS: u32 = 400;
    let (device, kernel) = tun();
    let (reader, writer, stop) = device.split();
    let (pump, mut inlet, outlet) = start(Box::new(reader), Box::new(writer), stop).unwrap();
    let (mut sent, mut received) = (0_u32, 0_u32);
    while received < PACKETS {
        while sent < PACKETS
            && nix::unistd::write(&kernel, &[&[0x45], &sent.to_be_bytes()[..]].concat()).is_ok()
        {
            sent += 1;
        }
        let mut batch = inlet.receive().await.unwrap();
        let mut packets = batch.drain(..);
        for packet in packets.by_ref().take(3) {
            assert_eq!(packet[1..], received.to_be_bytes(), "in order");
            received += 1;
        }
        inlet.put_back(&mut packets);
        drop(packets);
        inlet.recycle(batch);
    }
    pump.stop_reading();
    drop((inlet, outlet));
    pump.stop().unwrap();
}

#[tokio::test]
async fn a_device_that_ends_in_the_engines_turn_ends_with_its_reason() {
    let (device, kernel) = tun();
    let (reader, writer, stop) = device.split();
    let (pump, mut inlet, outlet) = start(Box::new(reader), Box::new(writer), stop).unwrap();
    let quiet = tokio::time::timeout(20 * quell_tun::QUIET_AFTER, inlet.receive()).await;
    assert!(quiet.is_err() && inlet.is_reading());
    drop(kernel);
    assert!(inlet.receive().await.is_none());
    drop((inlet, outlet));
    assert!(matches!(pump.stop(), Err(TunError::Fatal { .. })));
}

#[tokio::test]
async fn a_stop_in_the_engines_turn_ends_all() {
    let (device, _kernel) = tun();
    let (reader, writer, stop) = device.split();
    let (pump, mut inlet, outlet) = start(Box::new(reader), Box::new(writer), stop).unwrap();
    let quiet = tokio::time::timeout(20 * quell_tun::QUIET_AFTER, inlet.receive()).await;
    assert!(quiet.is_err() && inlet.is_reading());
    pump.stop_reading();
    assert!(inlet.receive().await.is_none());
    drop((inlet, outlet));
    pump.stop().unwrap();
}
