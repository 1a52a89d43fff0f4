//! What the outlet says it takes, before a writer that stands still and one that goes on.
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
